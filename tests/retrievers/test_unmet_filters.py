"""Explanations of filters that match nothing."""

import asyncio

import pytest
from langchain_core.documents import Document

from langchain_hybridgraph import HybridGraphStore, HybridRetriever, MemoryRetriever
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from tests.support.samples.retrievers import RETRIEVERS
from tests.support.stores.document_stores import DOCUMENT_STORES, FOREIGN
from tests.support.stores.words import Words

REASON = "filter-matches-nothing"
COMMON = {"labels": ["home", "tea"], "tenant": "north"}
NOTES = [
    Document(
        f"Note {n} about the boiler.",
        id=f"n{n}",
        metadata={"source": f"{'abc'[n % 3]}.md", "year": 2020 + n, "uri": f"notes/{n}.md"} | COMMON,
    )
    for n in range(4)
]
SECRET = Document("Salaries of the board.", id="s", metadata={"salary": 9, "source": "secret.md", "tenant": "south"})


@pytest.fixture(scope="module", params=DOCUMENT_STORES)
def retriever(request, tmp_path_factory):
    """Return a retriever over each kind of store, with the same notes."""
    store = DOCUMENT_STORES[request.param](NOTES, tmp_path_factory.mktemp(request.param))
    yield HybridRetriever(store)
    if hasattr(store, "close"):
        store.close()


MESSAGES = [
    ({"sorce": "a.md"}, "no text in scope has the key 'sorce'; did you mean 'source'?"),
    ({"metadata.year": 2020}, "no text in scope has the key 'metadata.year'; did you mean 'year'?"),
    ({"source": "d.md"}, '"d.md"}}; the values of \'source\' are "a.md", "b.md", "c.md"'),
    ({"year": "2020"}, "meets {\"year\": {\"$eq\": \"2020\"}}; the values of 'year' are 2020, 2021, 2022, 2023"),
    ({"labels": "home"}, "the values of 'labels' are \"home\", \"tea\", in lists: use $contains"),
    ({"source": "a.md", "year": 2021}, "each condition is met by some text, but no text meets all of"),
    ({"$or": [{"sorce": "a.md"}, {"yaer": 2020}]}, "did you mean 'source'?; no text in scope has the key 'yaer'"),
    ({"source": {"$exists": False}}, "no text in scope meets {\"source\": {\"$exists\": false}}"),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "message"), MESSAGES, ids=[str(condition) for condition, _ in MESSAGES])
def test_the_remark_names_the_condition(retriever, condition, message):
    """The remark names an unknown key with the nearest key, or a value that no text has with the existing values."""
    result = retriever.retrieve("boiler", filter=condition)
    assert (len(result), result.degraded, result.warnings, result.answerable) == (0, (REASON,), (REASON,), None)
    assert message in result.plan["remarks"][REASON]
    assert message in retriever.explain("boiler", filter=condition)


@pytest.mark.parametrize("options", [{"min_score": 1.0}, {"filter": {"year": 2021}, "min_score": 1.0}, {"k": 0}])
def test_an_answer_that_is_empty_for_another_reason_is_not_explained(retriever, options):
    """If some text matches the filter, or there is no filter, the reason is not given."""
    result = retriever.retrieve("roses", **options)
    assert (len(result), REASON in result.degraded) == (0, False)


@pytest.mark.parametrize("kind", RETRIEVERS)
def test_every_retriever_explains_its_filter(kind):
    """Each kind of retriever names the unknown key."""
    with HybridGraphStore.from_documents(NOTES, Words()) as store:
        result = kind(store).retrieve("boiler", filter={"sorce": "a.md"})
        assert "did you mean 'source'?" in result.plan["remarks"][REASON]


@pytest.mark.parametrize("name", FOREIGN)
def test_an_unknown_tenant_is_named(tmp_path, name):
    """In another library's store, a tenant that no text has is named, without any other tenant."""
    result = HybridRetriever(FOREIGN[name]([*NOTES, SECRET], tmp_path)).retrieve("boiler", tenant="nroth")
    assert result.plan["remarks"] == {REASON: "no text has the tenant 'nroth' in its metadata"}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("condition", [{"salry": 9}, {"source": "secrt.md"}, {"unknown": 1}])
def test_other_tenants_stay_secret(tmp_path, name, condition):
    """Keys and values of another tenant's texts do not occur in the explanation."""
    retriever = HybridRetriever(FOREIGN[name]([*NOTES, SECRET], tmp_path))
    explanation = retriever.explain("boiler", tenant="north", filter=condition)
    assert REASON in explanation
    assert not any(word in explanation for word in ("salary", "secret.md", "south"))


def test_texts_hidden_by_the_retrievers_filter_stay_secret():
    """Keys and values of texts that fail the retriever's own filter, or its labels, do not occur in the explanation."""
    with HybridGraphStore.from_documents([*NOTES, SECRET], Words()) as store:
        for own in (HybridRetriever(store, filter={"tenant": "north"}), MemoryRetriever(store, labels="tea")):
            for condition in ({"salry": 9}, {"source": "secret"}):
                explanation = own.explain("boiler", filter=condition)
                assert REASON in explanation
                assert "salary" not in explanation
                assert "secret.md" not in explanation


def test_texts_of_another_time_stay_secret():
    """Keys and values of texts that are not valid at the time of the call do not occur in the explanation."""
    expired = SECRET.model_copy(update={"metadata": {**SECRET.metadata, "valid_until": "2021-01-01T00:00:00Z"}})
    with HybridGraphStore.from_documents([*NOTES, expired], Words()) as store:
        retriever = HybridRetriever(store)
        assert "salary" in retriever.explain("boiler", filter={"salry": 9}, as_of="2020-06-01")
        assert "salary" not in retriever.explain("boiler", filter={"salry": 9}, as_of="2022-06-01")


def test_a_retrievers_own_filter_that_matches_nothing_is_named():
    """If the retriever's own filter matches nothing, it is named, without keys of the texts that it hides."""
    with HybridGraphStore.from_documents(NOTES, Words()) as store:
        result = HybridRetriever(store, filter={"sorce": "a.md"}).retrieve("boiler", filter={"year": 2020})
        assert result.plan["remarks"] == {REASON: 'no text in scope meets {"sorce": {"$eq": "a.md"}}'}


def test_many_values_are_not_listed():
    """If there are many values, only the condition is named."""
    notes = [Document(f"note {n}", id=f"n{n}", metadata={"author": f"author number {n}"}) for n in range(30)]
    with HybridGraphStore.from_documents(notes, Words()) as store:
        remark = HybridRetriever(store).retrieve("note", filter={"author": "Autor number 7"}).plan["remarks"][REASON]
        assert remark == 'no text in scope meets {"author": {"$eq": "Autor number 7"}}'


@pytest.mark.parametrize("kind", [HybridRetriever, AdvancedRetriever.from_store])
def test_a_tool_tells_the_model_why_nothing_was_found(kind):
    """The message of a tool contains the remark, by invoke and by ainvoke."""
    expected = "Nothing was found: no text in scope has the key 'sorce'; did you mean 'source'?"
    with HybridGraphStore.from_documents(NOTES, Words()) as store:
        tool = kind(store).as_tool(name="search_notes")
        arguments = {"query": "boiler", "filter": {"sorce": "a.md"}}
        assert tool.invoke(arguments) == expected
        assert asyncio.run(tool.ainvoke(arguments)) == expected
