"""Documents about vehicles, with metadata."""

from langchain_core.documents import Document

TEXTS = {
    "roadster": ("The red roadster by Tesla costs 200,000 euros.", {"kind": "car", "year": 2020}),
    "van": ("The blue van costs 9,000 euros.", {"kind": "car", "year": 2008}),
    "train": ("Trains are slow and carry coal.", {"kind": "train", "year": 1990}),
    "ship": ("Ships carry wood over the sea.", {"kind": "ship", "year": 2020}),
    "cats": ("Cats sleep most of the day.", {"kind": "pet", "year": 2015}),
}


def documents():
    return [Document(text, id=id, metadata={"source": f"{id}.md", **facts}) for id, (text, facts) in TEXTS.items()]
