"""Down-weighting of change logs and release notes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from langchain_hybridgraph.query.fusion import FUSIONS, DependsOnK, Fusion, KnowsContenders, ScoresOthers
from langchain_hybridgraph.records import FusedCandidate, Ranking
from langchain_hybridgraph.registry import name_of
from langchain_hybridgraph.stores.protocols import implements

# In lower case, "news" and "history" may be the subject of a corpus; in capitals, they are file names in a software
# project.
_CHANGELOG = re.compile(
    r"(?:^|/)(?:(?i:change[-_]?logs?|changes|release[-_]?notes|what-?s-?new)|HISTORY|NEWS)(?:\.\w+)?(?:[/#]|$)"
)


@lru_cache(16_384)
def is_changelog(id: str) -> bool:
    """Return whether a chunk's id contains the path of a change log or of release notes.

    The recognised names of files and folders are HISTORY and NEWS in capitals, and changelog, changes, release-notes
    and whats-new in upper or lower case, with or without hyphens.

    >>> is_changelog("docs/release-notes.md#fixes"), is_changelog("doc/changes/1.3.rst#0"), is_changelog("news/a.md#0")
    (True, True, False)
    """
    return _CHANGELOG.search(id.partition("#")[0]) is not None


def with_changelog_weight(fusion: Fusion, weight: float) -> Fusion:
    """Return a fusion that multiplies the scores of change logs by ``weight``.

    If the weight is 1, or if the result of the fusion depends on k, the fusion is returned unchanged.
    """
    if weight == 1 or implements(fusion, DependsOnK):
        return fusion
    scores_others = implements(fusion, ScoresOthers) and implements(fusion, KnowsContenders)
    return ScoringChangelogFusion(fusion, weight) if scores_others else ChangelogFusion(fusion, weight)


def fusion_name(fusion: Fusion) -> str:
    """Return the name of a fusion in the settings, or the name of its class if the settings have no name for it.

    For a ChangelogFusion, it is the name of the wrapped fusion.

    >>> from langchain_hybridgraph.query.fusion import ConvexCombination
    >>> fusion_name(with_changelog_weight(ConvexCombination(), 0.9))
    'convex'
    """
    return name_of(fusion.fusion if isinstance(fusion, ChangelogFusion) else fusion, FUSIONS)


@dataclass(frozen=True, slots=True)
class ChangelogFusion:
    """Fusion that multiplies the scores of change logs by a weight."""

    fusion: Fusion
    weight: float

    @property
    def method(self) -> str:
        """Value of ``method`` in the wrapped fusion, or "hybrid" if it has none."""
        return getattr(self.fusion, "method", "hybrid")

    @property
    def calibrates(self) -> bool:
        """Whether the wrapped fusion lets the pipeline convert scores to probabilities."""
        return getattr(self.fusion, "calibrates", False) is True

    def __call__(self, rankings: Sequence[Ranking]) -> list[FusedCandidate]:
        """Return each candidate once, best first, ties by id."""
        return self._weighted(self.fusion(rankings))

    def _weighted(self, fused: Sequence[FusedCandidate]) -> list[FusedCandidate]:
        if not any(map(is_changelog, [one.id for one in fused])):
            return list(fused)
        weighted = [self._with_weight(one) if is_changelog(one.id) else one for one in fused]
        return sorted(weighted, key=lambda one: (-one.score, one.id))

    def _with_weight(self, one: FusedCandidate) -> FusedCandidate:
        score = one.score * self.weight
        return FusedCandidate(one.id, score, {**one.parts, "changelog": score - one.score})


class ScoringChangelogFusion(ChangelogFusion):
    """ChangelogFusion for a fusion that can also score any chunk and tell which candidates may be among the best."""

    __slots__ = ()

    def others(self, rankings: Sequence[Ranking], ids: Iterable[str]) -> list[FusedCandidate]:
        """Score the chunks with these ids, and return them best first, ties by id.

        The scores of change logs are multiplied by the weight.
        """
        return self._weighted(cast(ScoresOthers, self.fusion).others(rankings, ids))

    def contenders(self, rankings: Sequence[Ranking], n: int) -> Set[str]:
        """Return the ids of all candidates that may be among the best n once the scores of change logs are lowered."""
        candidates = {entry.id for ranking in rankings for entry in ranking.entries}
        return cast(KnowsContenders, self.fusion).contenders(rankings, n + sum(map(is_changelog, candidates)))
