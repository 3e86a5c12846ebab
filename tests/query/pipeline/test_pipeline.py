"""The query pipeline: order of stages, failures of stages, admission of hits."""

from __future__ import annotations

import pytest

from langchain_hybridgraph.errors import RetrievalError, TenantError
from langchain_hybridgraph.execution.effects import Effect, drive
from langchain_hybridgraph.execution.trace import Trace
from langchain_hybridgraph.filters import parse_filter
from langchain_hybridgraph.query.fusion import ConvexCombination, ReciprocalRankFusion
from langchain_hybridgraph.query.pipeline import Pipeline, search
from langchain_hybridgraph.query.selection import Selection
from langchain_hybridgraph.records import Chunk, Query, Scope, ScoredId, SourceResult


class Shelf:
    """A store of named chunks; other chunks do not exist."""

    def __init__(self, *names: str, **metadata: dict):
        self.chunks = {name: Chunk(name, f"text of {name}", metadata.get(name, {})) for name in names}
        self.read_ids: list[str] = []

    def read(self, ids, scope, chunks):
        self.read_ids += ids
        admitted = {id: self.chunks[id] for id in ids if id in self.chunks}
        return {id: c for id, c in admitted.items() if scope.filter is None or scope.filter.matches(c.metadata)}


class Listed:
    """A source that always gives the same list, with scores from 1 downwards."""

    def __init__(self, name: str, weight: float, names: str | Exception, reason: str | None = None):
        self.name, self.weight, self.names, self.reason = name, weight, names, reason

    def search(self, query, n):
        def run():
            if isinstance(self.names, Exception):
                raise self.names
            entries = [ScoredId(name, 1 - place / 10) for place, name in enumerate(self.names)]
            return SourceResult(entries[:n], reason=self.reason)

        return Effect(self.name, run)

    def score(self, query, result, ids):
        return None


def run(query: Query, **settings):
    trace = Trace()
    settings.setdefault("fusion", ReciprocalRankFusion())
    return drive(search(query, Pipeline(**settings), trace)), trace


def ids(hits) -> str:
    return "".join(hit.id for hit in hits)


def hybrid(vector, keyword, **settings):
    sources = (Listed("vector", 0.7, vector), Listed("keyword", 0.3, keyword))
    return run(Query("q", 10), **{"store": Shelf(*"abcdefgh"), "sources": sources} | settings)


def test_two_lists_become_one():
    """Weighted reciprocal rank fusion with .7 and .3 over [a,b,c] and [c,d,a] has this literal result."""
    hits, trace = hybrid("abc", "cda")
    assert ids(hits) == "acbd"
    assert [round(hit.score, 6) for hit in hits] == [0.990476, 0.977778, 0.688710, 0.295161]
    assert trace.reasons == ()


def test_a_hit_names_its_sources():
    """ "fused" means more than one source; the path of a seed is its own id."""
    hits, _ = hybrid("ab", "bc")
    assert {hit.id: hit.source for hit in hits} == {"a": "vector", "b": "fused", "c": "keyword"}
    assert [hit.path for hit in hits] == [(hit.id,) for hit in hits]


def test_a_smaller_k_gives_the_head_of_a_larger_one():
    """The results for k = 1, 2, … are heads of the result for k = 6."""
    sources = (Listed("vector", 0.7, "abcdef"), Listed("keyword", 0.3, "fedgh"))
    answers = [run(Query("q", k), store=Shelf(*"abcdefgh"), sources=sources)[0] for k in range(1, 7)]
    assert [ids(hits) for hits in answers] == [ids(answers[-1])[:k] for k in range(1, 7)]


def test_deleted_chunks_take_no_place():
    """Deleted chunks in the result of an engine are skipped before the list is cut."""
    sources = (Listed("vector", 1, "abcdefgh"),)
    hits, _ = run(Query("q", 2), store=Shelf("g", "h"), sources=sources)
    assert ids(hits) == "gh"


def test_only_as_many_chunks_are_read_as_are_used():
    """k = 2 without reordering stages reads two chunks if all exist."""
    shelf = Shelf(*"abcdefgh")
    run(Query("q", 2), store=shelf, sources=(Listed("vector", 1, "abcdefgh"),))
    assert shelf.read_ids == list("ab")


def test_the_filter_is_checked_for_every_hit():
    """A source that ignores the filter leaks nothing."""
    shelf = Shelf("a", "b", a={"x": 1}, b={"x": 2})
    query = Query("q", 5, Scope(filter=parse_filter({"x": 2})))
    hits, _ = run(query, store=shelf, sources=(Listed("vector", 1, "ab"),))
    assert ids(hits) == "b"


@pytest.mark.parametrize(
    ("vector", "keyword", "method", "reasons"),
    [
        (ValueError("down"), "ab", "keyword", ("vector-failed",)),
        ("ab", ValueError("down"), "vector", ("keyword-failed",)),
        ("ab", "", "vector", ()),
        ("", "ab", "keyword", ()),
    ],
)
def test_one_source_answers_for_both(vector, keyword, method, reasons):
    """If a source fails or is empty, the other has the full weight."""
    hits, trace = hybrid(vector, keyword)
    assert ids(hits) == "ab"
    assert (trace.method, trace.reasons) == (method, reasons)
    assert hits[0].score == pytest.approx(1.0)


def test_the_error_of_failed_sources_names_them():
    """An empty result and a failure are different."""
    with pytest.raises(RetrievalError, match=r"vector: ValueError: one.*keyword: OSError: two"):
        hybrid(ValueError("one"), OSError("two"))


def test_failed_sources_can_give_an_empty_result():
    """on_error='empty' returns no hits, with the reasons."""
    hits, trace = hybrid(ValueError("one"), OSError("two"), on_error="empty")
    assert hits == []
    assert trace.reasons == ("vector-failed", "keyword-failed")


def test_the_first_failure_can_be_an_error():
    """on_error='raise' does not degrade."""
    with pytest.raises(RetrievalError, match="vector"):
        hybrid(ValueError("one"), "ab", on_error="raise")


def failing(*arguments):
    raise OSError("down")


class Failing:
    """A reranker, a fusion, parents and remembered things that cannot be reached."""

    has_parents = True
    read = Shelf("a", "b", a={"parent_id": "p"}).read
    rerank = read_parents = vectors = __call__ = failing


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"reranker": Failing()}, "rerank"),
        ({"fusion": Failing()}, "fusion"),
        ({"store": Failing(), "parents": True}, "parents"),
        ({"store": Failing(), "selection": Selection(mmr_lambda=0.5)}, "vector"),
    ],
)
def test_the_first_failure_of_any_stage_raises(settings, what):
    """on_error='raise' applies to every stage; without it, failed stages are left out and reported."""
    _, trace = hybrid("ab", "b", **settings)
    assert f"{what}-failed" in trace.reasons
    with pytest.raises(RetrievalError, match=f"{what} failed .*down"):
        hybrid("ab", "b", on_error="raise", **settings)


def test_a_callers_mistake_is_not_a_degradation():
    """A foreign tenant is refused, although the other source could answer."""
    with pytest.raises(TenantError):
        hybrid(TenantError("not yours"), "ab")


class Broken:
    """A fusion that raises, or returns scores that are not finite."""

    method = "hybrid"

    def __init__(self, how):
        self.how = how

    def __call__(self, rankings, *_, **__):
        fused = ReciprocalRankFusion()(rankings)
        if self.how == "raises":
            raise ArithmeticError("no")
        return [one._replace(score=float("nan")) for one in fused]


@pytest.mark.parametrize("how", ["raises", "nan"])
def test_a_failed_fusion_is_replaced_by_interleaving(how):
    """Interleaving abcde and xbyz starts with a x b c."""
    sources = (Listed("vector", 0.7, "abcde"), Listed("keyword", 0.3, "xbyz"))
    hits, trace = run(Query("q", 4), store=Shelf(*"abcdexyz"), sources=sources, fusion=Broken(how))
    assert ids(hits) == "axbc"
    assert trace.reasons == ("fusion-failed", "interleaved")
    assert trace.method == "interleave"


def test_a_source_can_report_a_degradation():
    """The reasons of a source that answered are reported, and its results count."""
    sources = (Listed("vector", 0.7, "", "query-out-of-vocabulary"), Listed("keyword", 0.3, "ab"))
    hits, trace = run(Query("q", 5), store=Shelf(*"ab"), sources=sources)
    assert ids(hits) == "ab"
    assert trace.reasons == ("query-out-of-vocabulary",)


@pytest.mark.parametrize("text", [None, "", "  \n\t "])
def test_a_query_without_text_searches_by_its_vector_only(text):
    """Without a vector the result is empty and gives the reason."""
    calls = []

    class RecordingSource(Listed):
        def search(self, query, n):
            calls.append(query.text)

    hits, trace = run(Query(text, 5), store=Shelf("a"), sources=(RecordingSource("vector", 1, "a"),))
    assert (hits, trace.reasons, calls) == ([], ("no-query-text",), [None])


def test_min_score_is_a_lower_bound():
    """A hit with exactly this score stays."""
    hits, _ = hybrid("ab", "")
    exact = hits[1].score
    equal, _ = hybrid("ab", "", selection=Selection(min_score=exact))
    fewer, _ = hybrid("ab", "", selection=Selection(min_score=exact + 1e-9))
    assert (ids(equal), ids(fewer)) == ("ab", "a")


class Parents(Shelf):
    """Chunks c1, c2 of parent p; the parent may be lost."""

    has_parents = True

    def __init__(self, *, missing: bool = False, raising: bool = False):
        super().__init__("x")
        self.chunks |= {id: Chunk(id, id, {"parent_id": "p"}) for id in ("c1", "c2")}
        self.missing, self.raising = missing, raising

    def read_parents(self, ids, scope):
        if self.raising:
            raise OSError("disk")
        return {} if self.missing else {id: Chunk(id, "the whole") for id in ids}


def through_parents(store):
    return run(Query("q", 5), store=store, sources=(Listed("vector", 1, ["c1", "x", "c2"]),), parents=True)


def test_children_are_replaced_by_their_parent():
    """Two children become one parent with the better child's score; the path still ends in the child."""
    hits, trace = through_parents(Parents())
    assert [hit.id for hit in hits] == ["p", "x"]
    assert (hits[0].child.id, hits[0].path, trace.reasons) == ("c1", ("c1",), ())


@pytest.mark.parametrize("store", [Parents(missing=True), Parents(raising=True)])
def test_missing_parents_leave_the_children(store):
    """A missing parent or a failing store is reported, and the children stay."""
    hits, trace = through_parents(store)
    assert [hit.id for hit in hits] == ["c1", "x", "c2"]
    assert trace.reasons == ("parents-failed",)


class Reverse:
    """A reranker that turns the order round, or fails."""

    filters = False

    def __init__(self, error=None):
        self.error = error

    def rerank(self, query, hits):
        if self.error:
            raise self.error
        return [place / 10 for place in range(len(hits))]


def test_a_reranker_decides_the_order():
    """The last becomes the first, with its own score."""
    hits, _ = hybrid("abc", "", reranker=Reverse())
    assert ids(hits) == "cba"
    assert [hit.rerank_score for hit in hits] == [0.2, 0.1, 0.0]


def test_a_failing_reranker_leaves_the_earlier_order():
    """The result reports the failure."""
    hits, trace = hybrid("abc", "", reranker=Reverse(RuntimeError("model")))
    assert ids(hits) == "abc"
    assert trace.reasons == ("rerank-failed",)
    assert trace.errors["rerank"] == "RuntimeError: model"


class Words(Listed):
    """A keyword source that knows a bound for other candidates, and records the candidates it scores."""

    requests: list[str]

    def search(self, query, n):
        self.requests = []
        entries = [ScoredId(name, 9.0 - place) for place, name in enumerate(self.names)]
        return Effect(self.name, lambda: SourceResult(entries, bound=20.0, rest=entries[-1].score))

    def score(self, query, result, ids):
        self.requests += ids
        return Effect(self.name, lambda: dict.fromkeys(ids, 1.0))


def test_only_contenders_are_scored():
    """b, far behind a, cannot be the best hit whatever its BM25; with k = 3 its BM25 is requested."""
    words = Words("keyword", 0.3, "c")
    sources = (Near("vector", 0.7, "ab"), words)
    for k, expected in ((1, ["a"]), (3, ["a", "b"])):
        run(Query("q", k), store=Shelf(*"abc"), sources=sources, fusion=ConvexCombination())
        assert words.requests == expected


def test_all_are_scored_when_contenders_are_gone():
    """a is deleted between search and reading: then b is scored as well and replaces it."""
    words = Words("keyword", 0.1, "c")
    sources = (Near("vector", 0.9, "ab"), words)
    hits, _ = run(Query("q", 1), store=Shelf(*"bc"), sources=sources, fusion=ConvexCombination())
    assert ids(hits) == "b"
    assert hits[0].bm25_score == 1.0


class Near(Listed):
    """A vector source: cosine .9, and .4 less for each further name; it scores what others found with 0."""

    def search(self, query, n):
        entries = [ScoredId(name, 0.9 - place * 0.4) for place, name in enumerate(self.names)]
        return Effect(self.name, lambda: SourceResult(entries))

    def score(self, query, result, ids):
        return Effect(self.name, lambda: dict.fromkeys(ids, 0.0))
