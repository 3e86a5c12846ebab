"""Where each walked chunk stands in a picture."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from langchain_hybridgraph.display.hits import SearchResult
from langchain_hybridgraph.display.text import path_end, title
from langchain_hybridgraph.records import Hit, is_backward


@dataclass(frozen=True, slots=True)
class PlacedChunk:
    """A chunk in the picture: ``column`` is its distance from its seed, ``row`` its place from the top.

    ``rank`` is its place in the answer, from 1; None for a chunk that was walked to and did not come back. ``hit`` is
    None for one of which only its being on a path is known.
    """

    id: str
    title: str
    column: int
    row: float
    rank: int | None = None
    hit: Hit | None = None

    @property
    def score(self) -> float:
        """The hit's score; 0 where it is not known."""
        return 0.0 if self.hit is None else self.hit.score


class Link(NamedTuple):
    """A step of a walk from ``source`` to ``target``: by which relation or entity (empty if unknown), and how heavy.

    ``heads`` are the ends at which the walked edges point, whichever way they were walked; an entity has none.
    ``mutual``: the step was taken the other way too.
    """

    source: str
    target: str
    label: str = ""
    weight: float = 0.0
    heads: tuple[str, ...] = ()
    mutual: bool = False

    @property
    def is_backward(self) -> bool:
        """Whether the only edge points from the target to the source."""
        return self.heads == (self.source,)


class Neighbourhood(NamedTuple):
    """Who is in the picture, in order of rows, and by which edges they were reached; ``left_out`` had no room."""

    spots: Mapping[str, PlacedChunk]
    links: Sequence[Link]
    left_out: int

    @property
    def columns(self) -> int:
        """How many columns there are."""
        return 1 + max((spot.column for spot in self.spots.values()), default=0)

    @property
    def rows(self) -> float:
        """How many rows there are."""
        return 1 + max((spot.row for spot in self.spots.values()), default=0)


def neighbourhood(result: SearchResult, around: SearchResult | None = None, nodes: int = 25) -> Neighbourhood:
    """The hits of an answer and the chunks on their paths, and what else of ``around`` was reached over edges.

    Seeds, at which a path begins, stand in the first column, best first, and what was reached in n hops in the n-th
    after it (the fewest, where one path is shorter and another is worth more, be that hit in the picture or not). Every
    chunk beyond the first column has a row of its own. Of more than ``nodes`` hits the best are taken.
    """
    hits = {path_end(hit): hit for hit in result.hits}
    ranks = {id: rank for rank, id in enumerate(hits, 1)}
    wider = () if around is None else around.hits
    found = hits | {path_end(hit): hit for hit in wider if hit.hops and path_end(hit) not in hits}
    known = {path_end(hit): hit for hit in wider} | hits
    shown = {id: found[id] for id in list(found)[:nodes]}
    paths = [hit.path or (id,) for id, hit in shown.items()]
    # Of all hits, so that a chunk is as far from a seed in a small picture as in a large one.
    nearest = _columns([hit.path or (id,) for id, hit in known.items()])
    columns = {id: nearest[id] for path in paths for id in path}
    rows = _rows(columns, _came(paths, columns), known)
    spots = {
        id: _spot(id, columns[id], row, ranks.get(id), known.get(id))
        for id, row in sorted(rows.items(), key=lambda item: (item[1], columns[item[0]]))
    }
    return Neighbourhood(spots, _links(shown.values()), len(found) - len(shown))


def _columns(paths: Sequence[Sequence[str]]) -> dict[str, int]:
    """How far each id on the paths is from where any begins, at the nearest."""
    columns: dict[str, int] = {}
    for path in paths:
        for at, id in enumerate(path):
            columns[id] = min(columns.get(id, at), at)
    return columns


def _came(paths: Sequence[Sequence[str]], columns: Mapping[str, int]) -> dict[str, str]:
    """Under which id of an earlier column each one stands: where its own path comes by, if that is one.

    Else where another path comes by, else the last such id before it: what it is nearest to may not be drawn.
    """
    ways: dict[str, list[tuple[bool, bool, str]]] = {}
    for path in paths:
        for at, id in enumerate(path):
            before = [place for place in range(at) if columns[path[place]] < columns[id]]
            if before:
                way = before[-1] < at - 1, at < len(path) - 1, path[before[-1]]
                ways.setdefault(id, []).append(way)
    return {id: min(some, key=itemgetter(0, 1))[2] for id, some in ways.items()}


def _rows(columns: Mapping[str, int], came: Mapping[str, str], known: Mapping[str, Hit]) -> dict[str, float]:
    """The row of each id: below where it was come from; a seed in the middle of what it leads to."""
    best = sorted(columns, key=lambda id: (-known[id].score if id in known else 0.0, id))
    after: dict[str, list[str]] = {}
    for id in best:
        if columns[id]:
            after.setdefault(came[id], []).append(id)
    rows: dict[str, float] = {}
    free = 0
    for seed in [id for id in best if not columns[id]]:
        below = list(_below(seed, after))
        rows |= {id: free + number for number, id in enumerate(below)}
        beside = [rows[id] for id in after.get(seed, ())] or [free]
        rows[seed] = (beside[0] + beside[-1]) / 2
        free += max(len(below), 1)
    return rows


def _below(id: str, after: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What was come to from here, each with what was come to from there after it."""
    for next_id in after.get(id, ()):
        yield next_id
        yield from _below(next_id, after)


def _spot(id: str, column: int, row: float, rank: int | None, hit: Hit | None) -> PlacedChunk:
    return PlacedChunk(id, id if hit is None else title(hit), column, row, rank, hit)


def _links(hits: Collection[Hit]) -> list[Link]:
    """The edges of all paths, each once; of two that are each other's way back, that to the worse hit."""
    found: dict[tuple[str, str], Link] = {}
    for hit in hits:
        said = {each["from_chunk_id"]: each for each in hit.graph_context}
        for step in zip(hit.path[:-1], hit.path[1:], strict=True):
            if step not in found or (step[0] in said and not found[step].label):
                found[step] = _link(*step, said.get(step[0]))
    order = {path_end(hit): number for number, hit in enumerate(hits)}

    def rank(id: str) -> tuple[int, str]:
        return order.get(id, len(order)), id

    return [
        _both_ways(link, found.get((target, source)))
        for (source, target), link in found.items()
        if (target, source) not in found or rank(source) < rank(target)
    ]


def _both_ways(link: Link, back: Link | None) -> Link:
    """The step, together with the same step taken the other way."""
    if back is None:
        return link
    return link._replace(heads=tuple(sorted({*link.heads, *back.heads})), mutual=True)


def _link(source: str, target: str, said: Mapping[str, Any] | None) -> Link:
    if said is None:
        return Link(source, target)
    heads = () if said.get("entity") else (source,) if is_backward(said) else (target,)
    return Link(source, target, edge_name(said), float(said["weight"]), heads)


def edge_name(step: Mapping[str, Any]) -> str:
    """What to call an edge of a hit's ``graph_context``: the entity that both sides mention, else its relation.

    >>> edge_name({"relation": "depends_on"}), edge_name({"relation": "mentions", "entity": "name:Ada Lovelace"})
    ('depends on', '“Ada Lovelace”')
    """
    entity = str(step.get("entity", ""))
    return f"“{entity.partition(':')[2] or entity}”" if entity else str(step["relation"]).replace("_", " ")
