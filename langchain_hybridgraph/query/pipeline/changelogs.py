"""Down-weighting of change logs and release notes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from langchain_hybridgraph.query.fusion import DependsOnK, Fusion, KnowsContenders, ScoresOthers
from langchain_hybridgraph.records import FusedCandidate, Ranking
from langchain_hybridgraph.stores.protocols import implements

# "news" and "history" may be what a corpus is about; as the capitals of a project's own file they are not.
_CHANGELOG = re.compile(
    r"(?:^|/)(?:(?i:change[-_]?logs?|changes|release[-_]?notes|what-?s-?new)|HISTORY|NEWS)(?:\.\w+)?(?:[/#]|$)"
)


@lru_cache(16_384)
def is_changelog(id: str) -> bool:
    """Tell whether a chunk is from a change log or release notes, by the path in its id.

    The names are changelog, changes, release-notes and whats-new, of a file or a folder, and HISTORY and NEWS.

    >>> is_changelog("docs/release-notes.md#fixes"), is_changelog("doc/changes/1.3.rst#0"), is_changelog("news/a.md#0")
    (True, True, False)
    """
    return _CHANGELOG.search(id.partition("#")[0]) is not None


def lowered(fusion: Fusion, weight: float) -> Fusion:
    """The fusion with the scores of change logs multiplied by ``weight``.

    The same fusion for a weight of 1, and where k decides about the places.
    """
    if weight == 1 or implements(fusion, DependsOnK):
        return fusion
    judges = implements(fusion, ScoresOthers) and implements(fusion, KnowsContenders)
    return LowersScores(fusion, weight) if judges else Lowers(fusion, weight)


def fusion_name(fusion: Fusion) -> str:
    """The name of the class that fuses.

    >>> from langchain_hybridgraph.query.fusion import ConvexCombination
    >>> fusion_name(lowered(ConvexCombination(), 0.9))
    'ConvexCombination'
    """
    return type(fusion.fusion if isinstance(fusion, Lowers) else fusion).__name__


@dataclass(frozen=True, slots=True)
class Lowers:
    """A fusion in which change logs have a part of their score only."""

    fusion: Fusion
    weight: float

    @property
    def method(self) -> str:
        """Method of the fusion itself."""
        return getattr(self.fusion, "method", "hybrid")

    def __call__(self, rankings: Sequence[Ranking]) -> list[FusedCandidate]:
        """Each candidate once, best first, ties by id."""
        return self._lowered(self.fusion(rankings))

    def _lowered(self, fused: Sequence[FusedCandidate]) -> list[FusedCandidate]:
        if not any(is_changelog(one.id) for one in fused):
            return list(fused)
        found = [self._lower(one) if is_changelog(one.id) else one for one in fused]
        return sorted(found, key=lambda one: (-one.score, one.id))

    def _lower(self, one: FusedCandidate) -> FusedCandidate:
        score = one.score * self.weight
        return FusedCandidate(one.id, score, {**one.parts, "changelog": score - one.score})


class LowersScores(Lowers):
    """A fusion that can score any chunk and knows the contenders, with lowered scores of change logs."""

    __slots__ = ()

    def others(self, rankings: Sequence[Ranking], ids: Iterable[str]) -> list[FusedCandidate]:
        """These chunks, best first, ties by id."""
        return self._lowered(cast(ScoresOthers, self.fusion).others(rankings, ids))

    def contenders(self, rankings: Sequence[Ranking], n: int) -> Set[str]:
        """At least those that can be among the best n: each change log may make room for one more."""
        candidates = {entry.id for ranking in rankings for entry in ranking.entries}
        return cast(KnowsContenders, self.fusion).contenders(rankings, n + sum(map(is_changelog, candidates)))
