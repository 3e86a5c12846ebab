"""Texts about cars, a conversation about them, and a retriever that matches shared words."""

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from langchain_hybridgraph.search.conversation import LLMRewrite

TEXTS = {
    "roadster": "The red roadster by Tesla costs 200,000 and is fast.",
    "van": "The blue van costs 9,000 and carries parcels.",
    "train": "Trains are slow in winter and carry coal.",
    "bread": "Bread is made of flour, water and salt.",
    "price": "The price of gold rose in winter.",
    "sea": "The sea is salt water.",
}
HISTORY = ["User: Which car is red?", "Assistant: The roadster by Tesla is red."]
WHOLE = "What does the red roadster cost?"


class Words(BaseRetriever):
    """Retriever that takes only a query and finds the texts that share words with it."""

    queries: list = Field(default_factory=list)

    def _get_relevant_documents(self, query, *, run_manager):
        self.queries.append(query)
        words = set(query.lower().replace("?", "").split())
        shared = {id: len(words & set(text.lower().split())) for id, text in TEXTS.items()}
        order = sorted((id for id in shared if shared[id]), key=lambda id: (-shared[id], id))
        return [Document(TEXTS[id], id=id) for id in order]


def rewrite():
    return LLMRewrite(FakeListChatModel(responses=[WHOLE]))
