import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from langchain_hybridgraph import GraphRetriever, HybridGraphStore, HybridRetriever, ingest
from langchain_hybridgraph.query.fusion import Concat, ConvexCombination, ReciprocalRankFusion
from langchain_hybridgraph.query.pipeline.changelogs import is_changelog, with_changelog_weight
from langchain_hybridgraph.records import Ranking, ScoredId

GUIDE = "A middleware handles every request before the page does. Add one with app.add_middleware, and mind the order."
NOTES = "Fix the middleware: add one to every request, and add it to the order."


def page(source, text):
    return Document(page_content=text, metadata={"source": source})


@pytest.fixture(scope="module")
def store():
    with HybridGraphStore(None, embedding="lsa") as store:
        filler = [page(f"docs/{n}.md", f"Page {n} is about topic {n} and nothing else at all.") for n in range(6)]
        ingest([page("docs/middleware.md", GUIDE), page("docs/release-notes.md", NOTES), *filler], store)
        yield store


def sources(retriever, query, **options):
    return [document.metadata["source"] for document in retriever.invoke(query, **options)]


@pytest.mark.parametrize("kind", [HybridRetriever, GraphRetriever])
def test_release_notes_do_not_outrank_the_guide(store, kind):
    """Release notes that match better than the guide are ranked below it, unless changelog_weight is 1."""
    query = "How do I add a middleware to every request?"
    assert sources(kind(store, selection={"changelog_weight": 1.0}), query)[0] == "docs/release-notes.md"
    assert sources(kind(store), query)[:2] == ["docs/middleware.md", "docs/release-notes.md"]


def test_the_parts_of_a_lowered_score_sum_to_it(store):
    """The reduction of a score is one of its parts, so the parts still sum to the score."""
    hits = HybridRetriever(store).retrieve("middleware").hits
    (note,) = (hit for hit in hits if hit.chunk.document == "docs/release-notes.md")
    assert note.parts["changelog"] < 0
    assert sum(note.parts.values()) == pytest.approx(note.score)


def test_text_in_release_notes_only_is_found_there(store):
    """Text that is only in the release notes is found there."""
    assert sources(HybridRetriever(store), "What fixed the order?", k=1) == ["docs/release-notes.md"]


@pytest.mark.parametrize(
    "id",
    [
        "CHANGELOG.md#0",
        "change_log.md",
        "a/release_notes.md#fixes",
        "Doc/Changes/1.3.rst#0",
        "HISTORY#0",
        "NEWS.rst",
        "whatsnew/3.1.rst",
    ],
)
def test_names_of_change_logs(id):
    """Files and folders with the usual names of change logs match in any case, HISTORY and NEWS only in capitals."""
    assert is_changelog(id)


@pytest.mark.parametrize("id", ["history/rome.md#0", "News/2024.md", "exchanges.md", "guide.md#changes", "9f2c-uuid"])
def test_other_names(id):
    """Names of topics, headings and ids do not make a file a change log."""
    assert not is_changelog(id)


def test_fusions_that_are_left_alone():
    """A weight of 1, or a fusion that depends on k, leaves the fusion unchanged."""
    fusion = ConvexCombination()
    assert with_changelog_weight(fusion, 1.0) is fusion
    assert isinstance(with_changelog_weight(Concat(), 0.5), Concat)


scores = st.dictionaries(
    st.sampled_from([f"{name}.md#{n}" for name in ("guide", "changelog") for n in range(6)]),
    st.floats(0.1, 9),
    min_size=1,
)


@given(scores, scores, st.integers(1, 6))
def test_contenders_hold_the_best(vector, keyword, n):
    """The best n candidates are contenders even after the scores of change logs are reduced."""

    def ranking(source, weight, results):
        entries = [ScoredId(id, results[id]) for id in sorted(results, key=lambda id: (-results[id], id))]
        everyone = {id: results.get(id, 0.0) for id in {*vector, *keyword}}
        return Ranking(source, weight, entries, everyone, rest=0.0)

    rankings = [ranking("vector", 0.7, vector), ranking("keyword", 0.3, keyword)]
    fusion = with_changelog_weight(ConvexCombination(), 0.5)
    best = [one.id for one in fusion(rankings)[:n]]
    assert fusion.contenders(rankings, n) >= set(best)


def test_a_fusion_by_rank_is_lowered_too():
    """The scores of change logs are also reduced in a fusion by rank."""
    results = ["changelog.md#0", "guide.md#0"]
    ranking = Ranking("vector", 1.0, [ScoredId(id, 1.0) for id in results], dict.fromkeys(results, 1.0))
    assert [one.id for one in with_changelog_weight(ReciprocalRankFusion(), 0.9)([ranking])] == [
        "guide.md#0",
        "changelog.md#0",
    ]
