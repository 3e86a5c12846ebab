"""Translation of LangChain's structured queries to filters."""

import pytest
from langchain_classic.retrievers import SelfQueryRetriever
from langchain_core.language_models import FakeListChatModel

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.adapters.documents import FilterTranslator
from langchain_hybridgraph.errors import FilterError
from tests.support.samples.vehicles import documents, ids

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning")


@pytest.fixture(scope="module")
def store():
    vector_store = HybridGraphStore()
    vector_store.add_documents(documents())
    return vector_store


def self_query(store, structured):
    answer = f'```json\n{{"query": "{structured[0]}", "filter": {structured[1]}, "limit": {structured[2]}}}\n```'
    return SelfQueryRetriever.from_llm(
        FakeListChatModel(responses=[answer]),
        store,
        "vehicles",
        [{"name": "kind", "description": "kind", "type": "string"}, {"name": "year", "description": "", "type": "int"}],
        structured_query_translator=FilterTranslator(),
        enable_limit=True,
    )


@pytest.mark.parametrize(
    ("structured", "expected"),
    [
        (("", '"eq(\\"year\\", 2020)"', "null"), ["roadster", "ship"]),
        (("", '"eq(\\"year\\", 2020)"', "1"), ["roadster"]),
        (("", '"and(gt(\\"year\\", 2000), not(eq(\\"kind\\", \\"car\\")))"', "null"), ["ship", "cats"]),
        (("", '"in(\\"kind\\", [\\"pet\\", \\"train\\"])"', "null"), ["train", "cats"]),
        (("coal", '"lt(\\"year\\", 2000)"', "null"), ["train"]),
        (("red roadster", '"NO_FILTER"', "1"), ["roadster"]),
    ],
)
def test_self_query_retriever_over_our_store(store, structured, expected):
    """SelfQueryRetriever returns the documents that match its filter, with or without a query."""
    assert ids(self_query(store, structured).invoke("?")) == expected


async def test_self_query_constructor_before_a_hybrid_retriever(store):
    """The query constructor's query and filter can be passed to HybridRetriever."""
    constructor = self_query(store, ("", '"eq(\\"kind\\", \\"car\\")"', "1")).query_constructor
    retriever, translator = HybridRetriever(store), FilterTranslator()

    async def search(structured):
        query, options = translator.visit_structured_query(structured)
        return await retriever.ainvoke(query, **options)

    assert ids(await (constructor | search).ainvoke({"query": "any car"})) == ["roadster"]


def test_unsupported_structured_queries():
    """The comparator ``like`` raises FilterError, and dates are translated to strings."""
    from langchain_core.structured_query import Comparator, Comparison

    translator = FilterTranslator()
    with pytest.raises(FilterError, match="like is not supported by filters"):
        translator.visit_comparison(Comparison(Comparator.LIKE, "kind", "c%"))
    day = Comparison(Comparator.GT, "at", {"date": "2024-05-01", "type": "date"})
    assert translator.visit_comparison(day) == {"at": {"$gt": "2024-05-01"}}
