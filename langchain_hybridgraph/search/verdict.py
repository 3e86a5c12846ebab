"""Verdicts on questions, and reasons for empty results."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter, mul

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import shorten
from langchain_hybridgraph.execution.effects import Effect, Search
from langchain_hybridgraph.filters.expressions import And, Filter, Or, compare
from langchain_hybridgraph.filters.operators import Path, as_json, join_key, metadata_values, value_getter
from langchain_hybridgraph.records import ANSWERABLE, Answerability, Hit, QuestionWords, Scope, filterable
from langchain_hybridgraph.registry import similar_name
from langchain_hybridgraph.search.context import Candidates, SearchContext
from langchain_hybridgraph.text.identifiers import MOST

# Probability that a question has an answer.

# Coefficients of logistic regressions. Their order is: similarity, similarity · coverage, spread, matched share, length
# of the question, ln(texts / 1,000), constant. They were fitted to thirteen evaluation sets, each searched for its own
# questions and for those of other sets, to cuts of these sets, and to small corpora, with all-MiniLM-L6-v2 and with LSA
# (benchmarks/answerability.md).
_PRETRAINED = (20.0, 0.0, 55.0, 7.0, 0.0, -1.0, -14.0)
_LSA = (3.5, 7.0, 0.0, 8.0, 6.0, -0.5, -8.0)
_SIMILARITY = (24.0, 0.0, 45.0, 0.0, 0.0, -0.8, -12.4)
_WORDS = (0.0, 0.0, 0.0, 16.5, 2.0, -0.6, -4.5)
# Limits between which the spread of the cosines counts: with all-MiniLM-L6-v2, the spread is about .06 for foreign
# questions and .11 for others. Other models may have other spreads. If it is unknown, the mean of the limits is used.
_LEAST_SPREAD, _MOST_SPREAD = 0.05, 0.11
# Number of texts above which the estimate no longer changes, because larger sets were not measured.
_MOST_TEXTS = 10_000
# Log-odds below 0 down to which there is no verdict, because many right answers are this low, and the number of texts
# from which there is always a verdict.
_UNDECIDED, _ENOUGH = 0.7, 200
# Number of entries from which a source may have more texts than it returned.
_ALL = 100
_MOST_WORDS = 20


def assess(context: SearchContext, hits: Sequence[Hit], candidates: Candidates) -> Answerability | None:
    """Return the probability that the question has an answer, or None if it is unknown or nothing was searched.

    ``unit`` in the result is the factor that turns the best hit's score into this probability. It is 1 if no score is
    above 0, or if the scores must stay unchanged, because they come from a reranker, from the scoring of memories, from
    a traversal that replaces the search score, or from a fusion without ``calibrates``.

    With few texts, scores are multiplied by less than 1 only if the question is probably not answerable. If there are
    too few texts to tell, this is recorded as a degradation reason.
    """
    by_name = {source.name: result for source, result in candidates.results.items()}
    vector, keyword = by_name.get("vector"), by_name.get("keyword")
    words = keyword.words if keyword is not None and keyword.words is not None and keyword.words.texts != 0 else None
    texts = math.inf if words is None or words.texts is None else float(words.texts)
    cosine, mean, deviation, coverage = None, 0.0, None, None
    if vector is not None and vector.ids and vector.are_cosines:
        cosine, coverage, others = vector.scores[vector.ids[0]], vector.coverage, vector.ids[1:]
        if vector.background is not None:
            mean, deviation = vector.background
        elif len(others) + 1 < _ALL:
            texts = len(others) + 1
            # With LSA, a text that has nothing in common with the question already has the cosine 0.
            if others and coverage is None:
                mean = math.fsum(vector.scores[id] for id in others) / len(others)
    # Each value is the probability that the question refers to this text, so with two codes each text has at most .5.
    exact = 0.0 if keyword is None else min(MOST, math.fsum(keyword.exact.values()))
    estimate = answerability(cosine, mean, words, exact, deviation=deviation, texts=texts, coverage=coverage)
    if estimate is None:
        return None
    if estimate.is_undecided:
        context.trace.degrade("too-few-texts")
    best, pipeline = max(map(attrgetter("score"), hits), default=0.0), context.pipeline
    if (
        best <= 0
        or pipeline.scoring is not None
        or (pipeline.expansion is not None and not pipeline.expansion.uses_search_score)
        or not getattr(pipeline.fusion, "calibrates", False)
        or (pipeline.reranker is not None and any(hit.rerank_score is not None for hit in hits))
    ):
        return estimate
    # Rounded up, so that the best score is never below the value.
    unit = math.nextafter(estimate.value / best, math.inf)
    may_lower = texts >= _ENOUGH or estimate.is_answerable is False
    return replace(estimate, unit=unit if may_lower else max(1.0, unit))


def answerability(
    cosine: float | None,
    mean: float,
    words: QuestionWords | None,
    exact: float = 0.0,
    *,
    deviation: float | None = None,
    texts: float = math.inf,
    coverage: float | None = None,
) -> Answerability | None:
    """Return the probability that the texts answer the question, or None if neither cosines nor words are known.

    ``cosine`` is the highest cosine of the results. ``mean`` and ``deviation`` are those of the question's cosines with
    arbitrary texts; the deviation is small if the texts are about something else. ``exact``, the probability that an
    identifier of the question refers to a text, is the lower limit of the result.

    ``texts`` is the number of texts: the best of many is more similar to a question than the best of few, so the same
    evidence counts more with few. ``coverage`` is the share of the question that LSA knows, or None for a pretrained
    embedding: a question with one known word has a cosine near 1 with any text that contains this word.
    """
    similarity = None if cosine is None else min(1.0, max(0.0, (cosine - mean) / max(1 - mean, 1e-3)))
    matched = None if words is None or not words.bound else min(1.0, words.best / words.bound)
    if similarity is None and matched is None:
        return None
    spread = None if deviation is None else deviation / max(1 - mean, 1e-3)
    count = 0 if words is None else words.count
    if similarity is None:
        coefficients = _WORDS
    elif coverage is not None:
        coefficients = _LSA
    else:
        coefficients = _SIMILARITY if matched is None else _PRETRAINED
    texts = min(max(texts, 1), _MOST_TEXTS)
    evidence = (
        similarity or 0.0,
        (similarity or 0.0) * (coverage or 0.0),
        (_LEAST_SPREAD + _MOST_SPREAD) / 2 if spread is None else min(max(spread, _LEAST_SPREAD), _MOST_SPREAD),
        matched or 0.0,
        # With few texts, a long question says little, because its words are as rare as any other.
        min(count, _MOST_WORDS) / _MOST_WORDS * math.log(texts, _MOST_TEXTS),
        math.log(texts / 1_000),
        1.0,
    )
    odds = math.fsum(map(mul, coefficients, evidence))
    value = max(exact, 1 / (1 + math.exp(-odds)))
    is_undecided = value < ANSWERABLE and odds >= -_UNDECIDED and texts < _ENOUGH
    value = ANSWERABLE if is_undecided else value
    return Answerability(value, similarity, matched, exact, count, 1.0, coverage, spread, is_undecided)


# Reasons why a search has no hits.

FILTER_MATCHES_NOTHING = "filter-matches-nothing"
# Number of texts from which keys and values are suggested.
SAMPLED = 1_000
# Maximum number of keys or values that a message lists.
FEW = 8
# If a store on a server has more texts than this, they are not listed to explain a filter.
MOST_LISTED = 20_000


def report_emptiness(context: SearchContext, candidates: Candidates | None = None) -> Search[None]:
    """Add ``empty-index`` or ``filter-matches-nothing`` to ``degraded`` if that is why a search has no hits.

    Nothing is added after an error, because the store may not be able to count or list its chunks.
    """
    pipeline, trace = context.pipeline, context.trace
    if trace.errors:
        return
    store, listing, scope, count = pipeline.store, pipeline.listing, context.query.scope, None
    is_quick = getattr(store, "has_fast_lookups", None)
    if pipeline.count is not None:
        count = yield from context.ask(Effect("catalog", pipeline.count, quick=bool(is_quick)))
        if count == 0:
            trace.degrade("empty-index")
    by_vector = [r for source, r in candidates.results.items() if source.name == "vector"] if candidates else []
    has_matches = any(result.ids for result in by_vector)
    if count == 0 or has_matches or (scope.filter is None and scope.tenant is None):
        return
    is_large = count is not None and count > MOST_LISTED and is_quick is False
    if listing is None or count is None or is_large:
        # The texts cannot be listed, or only slowly; the vector search has found that none of them is in the scope.
        if by_vector and scope.filter is not None:
            trace.degrade(FILTER_MATCHES_NOTHING, _unmet(scope.filter))
        return

    def read(scope: Scope, n: int) -> Sequence[Chunk]:
        result = listing(scope, n)
        return list(store.read(result.ids, scope, result.chunks).values())

    (remark,) = yield [Effect("catalog", partial(_explain, read, scope, pipeline.own_filter), owner=store)]
    if isinstance(remark, str):
        trace.degrade(FILTER_MATCHES_NOTHING, remark)


def _explain(read: Callable[[Scope, int], Sequence[Chunk]], scope: Scope, own: Filter | None) -> str | None:
    """Explain why no text is in the scope, or return None if one is, or if none is valid at its time.

    Only texts that the caller may see, by tenant, the retriever's own filter ``own`` and validity, are quoted.
    """
    if read(scope, 1):
        return None
    sample = read(replace(scope, filter=own), SAMPLED)
    if not sample:
        if scope.tenant is not None and not read(Scope(tenant=scope.tenant), 1):
            return f"no text has the tenant {scope.tenant!r} in its metadata"
        return _unmet(own) if own is not None and read(replace(scope, filter=None), 1) else None
    assert scope.filter is not None, "without a filter, the sample is in the scope"

    def is_met(part: Filter) -> bool:
        return bool(read(replace(scope, filter=part if own is None else own & part), 1))

    parts = scope.filter.parts if isinstance(scope.filter, And) else (scope.filter,)
    unmet = next((part for part in parts if not is_met(part)), None)
    if unmet is None:
        return f"each condition is met by some text, but no text meets all of {as_json(scope.filter.to_dict())}"
    paths = sorted(unmet.keys())
    unknown = [path for path in paths if not is_met(compare(join_key(path), "$exists", True))]
    if unknown:
        keys = sorted({join_key(path) for chunk in sample for path, _ in metadata_values(filterable(chunk))})
        return "; ".join(_unknown_key(join_key(path), keys) for path in unknown)
    return "; ".join([_unmet(unmet), *(hint for path in paths if (hint := _values(path, sample)))])


def _unmet(filter: Filter) -> str:
    while isinstance(filter, Or) and len(filter.keys()) == 1:  # a filter for a label compares in several ways
        filter = filter.parts[0]
    return f"no text in scope meets {as_json(filter.to_dict())}"


def _unknown_key(key: str, keys: Sequence[str]) -> str:
    by_name = {each.casefold(): each for each in keys}
    name = key.casefold().removeprefix("metadata.")
    near = name if name in by_name else similar_name(name, by_name)
    message = f"no text in scope has the key {key!r}"
    if near is not None:
        return f"{message}; did you mean {by_name[near]!r}?"
    return f"{message}; the keys are {', '.join(map(repr, keys))}" if len(keys) <= FEW else message


def _values(path: Path, sample: Sequence[Chunk]) -> str | None:
    """Return a hint with all values of a key, or None if they are many; a list counts as its elements."""
    values = [value for chunk in sample if (value := value_getter(path)(filterable(chunk))) is not None]
    texts = {as_json(each) for value in values for each in (value if isinstance(value, list | tuple) else [value])}
    if len(texts) > FEW or len(sample) == SAMPLED:
        return None
    hint = f"the values of {join_key(path)!r} are {', '.join(shorten(text, 60) for text in sorted(texts))}"
    return f"{hint}, in lists: use $contains" if any(isinstance(value, list | tuple) for value in values) else hint
