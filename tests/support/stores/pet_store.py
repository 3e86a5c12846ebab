"""A small store, and what tests of telemetry ask it."""

from langchain_hybridgraph import HybridGraphStore

TEXTS = {"cat": "The cat sat on the mat.", "dog": "Dogs bark at night.", "car": "A red roadster is fast."}
QUESTION = "Where is the cat?"


def pets() -> HybridGraphStore:
    return HybridGraphStore.from_texts(list(TEXTS.values()), "lsa", ids=list(TEXTS))


def broken(query, texts):
    """A reranker that always fails, and quotes the question."""
    raise TimeoutError(f"no answer to {query!r}")


def stages(events):
    """The names of the stages and of what ended, in order."""
    return [getattr(event, "stage", "search") for event in events]
