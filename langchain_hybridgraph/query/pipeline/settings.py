"""The settings of one search, and one that is under way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from langchain_hybridgraph.errors import HybridGraphError, RetrievalError
from langchain_hybridgraph.execution.effects import Failure
from langchain_hybridgraph.execution.trace import Trace
from langchain_hybridgraph.memory.scoring import Scoring
from langchain_hybridgraph.query.budget import TokenBudget
from langchain_hybridgraph.query.fusion import ConvexCombination, Fusion, KnowsContenders, ScoresOthers
from langchain_hybridgraph.query.graph.expansion import Expansion
from langchain_hybridgraph.query.rerank import Reranker
from langchain_hybridgraph.query.selection import Selection
from langchain_hybridgraph.query.sources import Source
from langchain_hybridgraph.records import Hit, Query, Scope, SourceResult
from langchain_hybridgraph.stores.protocols import HasGraph, HasParents, ReadsChunks, implements

# Every source is asked for at least so many candidates: the scores of fewer say too little about each other.
POOL = 100
ALL = 1 << 30


class Certain(NamedTuple):
    """Hits that will be in the answer; ``is_head``: they are its first ones, in its order."""

    hits: Sequence[Hit]
    is_head: bool = False


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The settings of one search: which engines are asked, and what each stage does.

    ``sources`` are asked with k × ``overfetch`` candidates (at least 100); ``expansion`` goes on from what they found
    over the edges of ``graph``; the reranker reads the best ``rerank_depth``, whatever k is, so that the answer for k
    is the head of that for a larger k; ``scoring`` gives all hits new scores.
    ``newest`` gives the ids of the newest chunks of a scope, of which the answer is made when no source found anything;
    None leaves it empty. ``on_error`` decides about a failing source: ``"degrade"`` goes on with the others and raises
    RetrievalError when none is left, ``"empty"`` returns nothing then. ``"raise"`` raises at the first failure of any
    stage. ``announce`` receives hits that are certain to be in the answer, before it is complete; ``listing`` gives the
    first n chunks of a scope in the store's order.
    """

    store: ReadsChunks
    sources: tuple[Source, ...]
    fusion: Fusion = field(default_factory=ConvexCombination)
    overfetch: int = 3
    graph: HasGraph | None = None
    expansion: Expansion | None = None
    parents: bool = False
    reranker: Reranker | None = None
    rerank_depth: int = 50
    scoring: Scoring | None = None
    newest: Callable[[Scope], Sequence[str]] | None = None
    selection: Selection = field(default_factory=Selection)
    budget: TokenBudget | None = None
    on_error: Literal["degrade", "empty", "raise"] = "degrade"
    announce: Callable[[Certain], None] | None = None
    listing: Callable[[Scope, int], SourceResult] | None = None

    @property
    def resolves_parents(self) -> bool:
        """Whether hits may give way to their parents."""
        return self.parents and implements(self.store, HasParents) and self.store.has_parents

    @property
    def scores_unread(self) -> bool:
        """Whether candidates are scored before they are read: no stage between looks at them or puts others there."""
        scoring = self.scoring
        return (
            scoring is not None
            and scoring.remembered is not None
            and self.reranker is None
            and not self.resolves_parents
        )

    @property
    def can_leave_out(self) -> bool:
        """Whether the search's own scores of what cannot be among the best before a walk decide nothing after it."""
        expansion = self.expansion
        if self.scoring is not None:
            judges = implements(self.fusion, KnowsContenders) and implements(self.fusion, ScoresOthers)
            return judges and self.scores_unread and (expansion is None or expansion.keeps_order)
        if expansion is None:
            return True
        return implements(self.fusion, ScoresOthers) and (expansion.keeps_order or expansion.asks_cosines)

    def pool(self, k: int, *, is_walked: bool = False) -> int:
        """How many hits the stages after ``admit`` look at: k, unless one of them changes the order.

        After the walk nobody looks for seeds any more.
        """
        selection, expansion = self.selection, self.expansion
        if self.resolves_parents or (self.scoring is not None and not self.scores_unread):
            return ALL
        if selection.mmr_lambda is not None or selection.per_document is not None or selection.graph_slots:
            return ALL
        if expansion is not None and not is_walked:
            k = ALL if expansion.picks_seeds else max(k, expansion.seed_k)
        return k if self.reranker is None else max(k, self.rerank_depth)


class SearchContext(NamedTuple):
    """One search that is under way: what is asked, with which settings, and what it notes about itself."""

    query: Query
    pipeline: Pipeline
    trace: Trace

    def for_seeds(self) -> SearchContext:
        """The search that finds the seeds of a walk: this one, or a narrower one where only a walk's chunks count."""
        expansion, query = self.pipeline.expansion, self.query
        if expansion is None:
            return self
        return self._replace(query=replace(query, scope=expansion.seed_scope(query.scope)))

    def note(self, failure: Failure) -> None:
        """Keep what failed among the reasons for ``degraded``, with what it said; raises it where that is wanted."""
        self.trace.note(failure.source, failure.error)
        self.trace.degrade(failure.reason)

    def judge(self, failures: Sequence[Failure], *, some_answered: bool = True) -> None:
        """Raise what the caller asked wrongly, and RetrievalError where nobody answered and ``on_error`` wants that."""
        for failure in failures:
            # What the caller asked wrongly is no failure of an engine: going on would answer another question.
            if isinstance(failure.error, HybridGraphError) and isinstance(failure.error, ValueError):
                raise failure.error
        if not failures or some_answered or self.pipeline.on_error == "empty":
            return
        said = "; ".join(f"{failure.source}: {type(failure.error).__name__}: {failure.error}" for failure in failures)
        raise RetrievalError(
            f"no source could answer ({said}); on_error='empty' gives an empty result instead"
        ) from failures[0].error
