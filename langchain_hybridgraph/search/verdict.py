"""Whether a question has an answer, and why a result is empty."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import shorten
from langchain_hybridgraph.execution.effects import Effect, Search
from langchain_hybridgraph.execution.threads import lane_of
from langchain_hybridgraph.filters.expressions import And, Comparison, Filter, Or, compare
from langchain_hybridgraph.filters.operators import Path, as_json, join_key, value_getter
from langchain_hybridgraph.filters.translation import parts_of
from langchain_hybridgraph.records import ANSWERABLE, Answerability, Hit, QuestionWords, Scope, filterable
from langchain_hybridgraph.registry import similar_name
from langchain_hybridgraph.search.context import Candidates, Pipeline, SearchContext
from langchain_hybridgraph.search.fusion import COSINE
from langchain_hybridgraph.stores.protocols import HasFastLookups, implements
from langchain_hybridgraph.text.identifiers import MOST

# Probability that a question has an answer.

# Coefficients of logistic regressions, in the order similarity, matched share, words / 20, constant. Those for many
# texts were fitted to the questions of thirteen evaluation sets, each searched in the texts of its own set and of other
# sets, with all-MiniLM-L6-v2 and with LSA. Those for few texts were fitted to small corpora, where the matched share
# says little, because a common word is as rare as any other (benchmarks/answerability.md).
_MANY_BOTH = (6.0, 12.0, 4.0, -8.0)
_MANY_WORDS = (0.0, 15.0, 4.0, -5.7)
_MANY_SIMILARITY = (9.0, 0.0, 0.0, -4.4)
_FEW_PRETRAINED = (26.0, 12.0, 0.0, -5.6)
_FEW_LSA = (12.0, 4.0, 0.0, -3.1)
_FEW_WORDS = (0.0, 16.0, 0.0, -2.0)
# Between these numbers of texts, the estimate changes gradually from the one for few texts to the one for many. The
# best cosine of a pretrained embedding rises slowly with the number of texts; the words soon tell more with LSA.
_FEW, _MANY, _MANY_LSA = 20, 1_500, 200
# Log-odds below 0 down to which an estimate for few texts gives no verdict, because many right answers are this low,
# and the number of texts from which there is always a verdict.
_UNDECIDED, _ENOUGH = 1.1, 200
# Number of entries from which a source may have more texts than it returned.
_ALL = 100
_MOST_WORDS = 20


def assess(context: SearchContext, hits: Sequence[Hit], candidates: Candidates) -> Answerability | None:
    """Return the probability that the question has an answer, or None if it is unknown or nothing was searched.

    ``unit`` in the result is the factor that turns the best hit's score into this probability. All scores are later
    multiplied by it. It is 1 if no score is above 0, or if the scores must stay unchanged. They stay unchanged if they
    come from a reranker, from the scoring of memories, from a traversal that replaces the search score, or from a
    fusion without ``calibrates``.

    With few texts, scores are multiplied by less than 1 only if the question is probably not answerable. If there are
    too few texts to tell, this is recorded as a degradation reason.
    """
    estimate, has_few_texts = _answerability(candidates)
    if estimate is not None and estimate.is_answerable is None:
        context.trace.degrade("too-few-texts")
    best = max((hit.score for hit in hits), default=0.0)
    is_reranked = any(hit.rerank_score is not None for hit in hits)
    if estimate is None or not best > 0 or is_reranked or not _calibrates(context.pipeline):
        return estimate
    unit = estimate.value / best
    return replace(estimate, unit=max(1.0, unit) if has_few_texts and estimate.is_answerable is not False else unit)


def _calibrates(pipeline: Pipeline) -> bool:
    keeps_scores = pipeline.expansion is None or pipeline.expansion.uses_search_score
    return getattr(pipeline.fusion, "calibrates", False) is True and pipeline.scoring is None and keeps_scores


def _answerability(candidates: Candidates) -> tuple[Answerability | None, bool]:
    """Return the estimate from the best results of the sources, and whether there are few texts."""
    by_name = {source.name: result for source, result in candidates.results.items()}
    vector, keyword = by_name.get("vector"), by_name.get("keyword")
    words = keyword.words if keyword is not None and keyword.words is not None and keyword.words.texts != 0 else None
    texts = math.inf if words is None or words.texts is None else float(words.texts)
    cosine, (mean, _), coverage = None, COSINE, None
    if vector is not None and vector.entries and vector.are_cosines:
        cosine, *others = (entry.score for entry in vector.entries)
        coverage = vector.coverage
        if vector.background is not None:
            mean, _ = vector.background
        elif len(others) + 1 < _ALL:
            texts = len(others) + 1
            # With LSA, a text that has nothing in common with the question already has the cosine 0.
            mean = math.fsum(others) / len(others) if others and coverage is None else mean
    # Each value is the probability that the question refers to this text, so with two codes each text has at most .5.
    exact = 0.0 if keyword is None else min(MOST, math.fsum(keyword.exact.values()))
    return answerability(cosine, mean, words, exact, texts=texts, coverage=coverage), texts < _ENOUGH


def answerability(
    cosine: float | None,
    mean: float,
    words: QuestionWords | None,
    exact: float = 0.0,
    *,
    texts: float = math.inf,
    coverage: float | None = None,
) -> Answerability | None:
    """Return the probability that the texts answer the question, or None if neither cosines nor words are known.

    ``cosine`` is the highest cosine among all results, and ``mean`` is the mean cosine of the question with arbitrary
    texts. ``exact`` is the probability that at least one identifier of the question refers to a text. The result is
    never lower than ``exact``.

    ``texts`` is the number of texts. The best of many texts is more similar to a question than the best of few, so the
    same evidence counts more with few texts. ``coverage`` is the share of the question that LSA knows, or None for a
    pretrained embedding. With few texts, the similarity is multiplied by it, because a question of which LSA knows only
    one word has a cosine near 1 with any text that contains this word.
    """
    similarity = None if cosine is None else min(1.0, max(0.0, (cosine - mean) / max(1 - mean, 1e-3)))
    matched = None if words is None or not words.bound else min(1.0, words.best / words.bound)
    if similarity is None and matched is None:
        return None
    count = 0 if words is None else words.count
    many = _MANY if coverage is None else _MANY_LSA
    few = 1 - math.sqrt(min(1.0, max(0.0, math.log(max(texts, 1) / _FEW) / math.log(many / _FEW))))
    if similarity is None:
        by_number = _FEW_WORDS, _MANY_WORDS
    else:
        by_number = (
            _FEW_PRETRAINED if coverage is None else _FEW_LSA,
            _MANY_SIMILARITY if matched is None else _MANY_BOTH,
        )
    covered = (similarity or 0.0) * (1.0 if coverage is None else coverage)
    odds = 0.0
    for share, similar, (of_similarity, of_words, of_length, constant) in zip(
        (few, 1 - few), (covered, similarity or 0.0), by_number, strict=True
    ):
        length = min(count, _MOST_WORDS) / _MOST_WORDS
        odds += share * (of_similarity * similar + of_words * (matched or 0.0) + of_length * length + constant)
    value = max(exact, 1 / (1 + math.exp(-odds)))
    is_undecided = value < ANSWERABLE and odds >= -few * _UNDECIDED and texts < _ENOUGH
    return Answerability(
        ANSWERABLE if is_undecided else value,
        similarity,
        matched,
        exact,
        count,
        coverage=coverage,
        is_undecided=is_undecided,
    )


# Reasons why a search has no hits.

FILTER_MATCHES_NOTHING = "filter-matches-nothing"
# Number of texts from which keys and values are suggested.
SAMPLED = 1_000
# Maximum number of keys or values that a message lists.
FEW = 8
# If a store on a server has more texts than this, they are not listed to explain a filter.
MOST_LISTED = 20_000

ReadTexts = Callable[[Scope, int], Sequence[Chunk]]


def report_emptiness(context: SearchContext, candidates: Candidates | None = None) -> Search[None]:
    """Add ``empty-index`` or ``filter-matches-nothing`` to ``degraded`` if it is the reason why a search has no hits.

    The pipeline calls this only if a search has no hits. Nothing is added after an error, because the store may not be
    able to count or list its chunks.
    """
    query, pipeline, trace = context
    if trace.errors:
        return
    store, scope, count = pipeline.store, query.scope, None
    is_quick = implements(store, HasFastLookups) and store.has_fast_lookups
    if pipeline.count is not None:
        count = yield from context.ask(Effect("catalog", pipeline.count, quick=is_quick))
        if count == 0:
            trace.degrade("empty-index")
    by_vector = [r for source, r in candidates.results.items() if source.name == "vector"] if candidates else []
    has_matches = any(result.entries for result in by_vector)
    if count == 0 or has_matches or (scope.filter is None and scope.tenant is None):
        return
    is_large = count is not None and count > MOST_LISTED and implements(store, HasFastLookups) and not is_quick
    if pipeline.listing is None or count is None or is_large:
        # The texts cannot be listed, or only slowly; the vector search has found that none of them is in the scope.
        if by_vector and scope.filter is not None:
            trace.degrade(FILTER_MATCHES_NOTHING, _unmet(scope.filter))
        return
    explain = partial(_explain, partial(_read, context), scope, pipeline.own_filter)
    (remark,) = yield [Effect("catalog", explain, lane=lane_of("catalog", store))]
    if isinstance(remark, str):
        trace.degrade(FILTER_MATCHES_NOTHING, remark)


def _read(context: SearchContext, scope: Scope, n: int) -> Sequence[Chunk]:
    """Return up to n chunks of a scope."""
    assert context.pipeline.listing is not None
    result = context.pipeline.listing(scope, n)
    return list(context.pipeline.store.read([entry.id for entry in result.entries], scope, result.chunks).values())


def _explain(read: ReadTexts, scope: Scope, own: Filter | None) -> str | None:
    """Explain why no text is in the scope; return None if a text is, or if no text is valid at its time.

    Keys and values are taken only from texts that the caller may see. These texts belong to the tenant, pass the
    retriever's own filter ``own`` and are valid at the time of the call.
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
        keys = sorted({join_key(path) for chunk in sample for path in _paths(filterable(chunk), ())})
        return "; ".join(_unknown_key(join_key(path), keys) for path in unknown)
    return "; ".join([_unmet(unmet), *(hint for path in paths if (hint := _values(path, unmet, sample)))])


def _unmet(filter: Filter) -> str:
    while isinstance(filter, Or) and len(filter.keys()) == 1:  # a filter for a label compares in several ways
        filter = filter.parts[0]
    return f"no text in scope meets {as_json(filter.to_dict())}"


def _unknown_key(key: str, keys: Sequence[str]) -> str:
    """Return the message about a key that no text has; ``keys`` are the keys of the texts."""
    by_name = {each.casefold(): each for each in keys}
    name = key.casefold()
    near = similar_name(name, by_name) or similar_name(name.removeprefix("metadata."), by_name)
    if name.removeprefix("metadata.") in by_name:
        near = name.removeprefix("metadata.")
    message = f"no text in scope has the key {key!r}"
    if near is not None:
        return f"{message}; did you mean {by_name[near]!r}?"
    return f"{message}; the keys are {', '.join(map(repr, keys))}" if len(keys) <= FEW else message


def _values(path: Path, unmet: Filter, sample: Sequence[Chunk]) -> str | None:
    """Return a hint about the values of a key: the right operator, all values if they are few, or the nearest value."""
    key, read, operands = join_key(path), value_getter(path), list(_operands(unmet, path))
    values = [value for chunk in sample if (value := read(filterable(chunk))) is not None]
    elements = [element for value in values if isinstance(value, list | tuple) for element in value]
    for operand in operands:
        if operand in elements:
            return f"the values of {key!r} are lists; write {as_json({key: {'$contains': operand}})}"
    texts = {as_json(value): value for value in [*elements, *(v for v in values if not isinstance(v, list | tuple))]}
    if len(texts) <= FEW and len(sample) < SAMPLED:
        return f"the values of {key!r} are {', '.join(shorten(text, 60) for text in sorted(texts))}"
    by_name = {value.casefold(): value for value in texts.values() if isinstance(value, str)}
    for operand in operands:
        if isinstance(operand, str) and (near := similar_name(operand.casefold(), by_name)) is not None:
            return f"did you mean {shorten(repr(by_name[near]), 60)}?"
    return None


def _operands(filter: Filter, path: Path) -> Iterator[Any]:
    """Yield the values with which a filter compares the values at a path."""
    if isinstance(filter, Comparison) and filter.path == path:
        yield from filter.operand if filter.operator in ("$in", "$nin") else (filter.operand,)
    for part in parts_of(filter):
        yield from _operands(part, path)


def _paths(metadata: Mapping[str, Any], above: Path) -> Iterator[Path]:
    """Yield the path of each value in metadata, including the values in objects."""
    for key, value in metadata.items():
        if value is not None:
            yield (*above, key)
            if isinstance(value, Mapping):
                yield from _paths(value, (*above, key))
