"""Small store and question for tests of telemetry."""

from langchain_hybridgraph import HybridGraphStore

TEXTS = {"cat": "The cat sat on the mat.", "dog": "Dogs bark at night.", "car": "A red roadster is fast."}
QUESTION = "Where is the cat?"
HISTORY = ["User: Tell me of the cat.", "Assistant: The cat sat on the mat."]
STAGES = ["gather", "rank", "fuse", "admit", "select", "calibrate"]  # of a search by HybridRetriever


def pets() -> HybridGraphStore:
    return HybridGraphStore.from_texts(list(TEXTS.values()), "lsa", ids=list(TEXTS))


def broken(query, texts):
    """Raise an error that quotes the question, as a failing reranker."""
    raise TimeoutError(f"no answer to {query!r}")


def stages(events):
    """Return the stages of the events in order, with "search" for the event of the search itself."""
    return [getattr(event, "stage", "search") for event in events]
