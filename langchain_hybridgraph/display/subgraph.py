"""Chunks and edges shown in a picture."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from langchain_hybridgraph.display.hits import SearchResult
from langchain_hybridgraph.display.result_explanation import path_end, title
from langchain_hybridgraph.records import Hit, is_backward
from langchain_hybridgraph.records.edges import name_of

# Maximum number of chunks in a picture.
NODES = 25
# Number of hits from which the visited chunks in a picture are selected.
SEARCHED_HITS = 100


@dataclass(frozen=True, slots=True)
class PlacedChunk:
    """A chunk and its position in the drawing.

    ``column`` is the number of hops from its seed, and ``row`` is its position from the top. ``rank`` is its rank in
    the result, starting at 1, or None for a chunk that was visited but not returned. ``hit`` is None for a chunk that
    is only on the path to a hit.
    """

    id: str
    title: str
    column: int
    row: float
    rank: int | None = None
    hit: Hit | None = None

    @property
    def score(self) -> float:
        """Score of the hit, or 0 if it is unknown."""
        return 0.0 if self.hit is None else self.hit.score


class TraversedEdge(NamedTuple):
    """Step of a traversal from ``source`` to ``target``.

    ``label`` is the name of the relation or, for a step through an entity, of the entity; it is empty if unknown.
    ``heads`` lists the ends with an arrowhead. Arrowheads show the stored direction of the edges, even if the traversal
    followed them backwards. A step through an entity has no heads. ``mutual`` means that the traversal took the step in
    both directions.
    """

    source: str
    target: str
    label: str = ""
    weight: float = 0.0
    heads: tuple[str, ...] = ()
    mutual: bool = False

    @property
    def is_backward(self) -> bool:
        """Whether all edges of the step point from the target to the source."""
        return self.heads == (self.source,)


class Neighbourhood(NamedTuple):
    """Chunks in the picture, in order of rows, and the steps by which they were reached.

    ``left_out`` is the number of hits that are not in the picture because of its size limit.
    """

    spots: Mapping[str, PlacedChunk]
    links: Sequence[TraversedEdge]
    left_out: int

    @property
    def columns(self) -> int:
        """Number of columns in the picture."""
        return 1 + max((spot.column for spot in self.spots.values()), default=0)

    @property
    def rows(self) -> float:
        """Number of rows in the picture."""
        return 1 + max((spot.row for spot in self.spots.values()), default=0)


def neighbourhood(result: SearchResult, around: SearchResult | None = None, nodes: int = NODES) -> Neighbourhood:
    """Return the chunks and edges to draw for a result.

    The chunks are the hits of ``result`` and the chunks on the paths to them. ``around`` is a longer result of the same
    query. Its hits that were reached through edges are added, with their paths. At most ``nodes`` hits are included,
    those of ``result`` first.

    Seeds, where paths start, are in the first column, best first. A chunk that is n hops away from a seed is n columns
    further right. If several paths reach a chunk, the shortest one determines its column, even if it leads to a hit
    that is not drawn. Every chunk beyond the first column has a row of its own.
    """
    hits = {path_end(hit): hit for hit in result.hits}
    ranks = {id: rank for rank, id in enumerate(hits, 1)}
    wider = () if around is None else around.hits
    selection = hits | {path_end(hit): hit for hit in wider if hit.hops and path_end(hit) not in hits}
    hits_by_id = {path_end(hit): hit for hit in wider} | hits
    visible = {id: selection[id] for id in list(selection)[:nodes]}
    paths = [hit.path or (id,) for id, hit in visible.items()]
    # Use all hits, so that the distance of a chunk from a seed is the same in a small picture and in a large one.
    nearest = _columns([hit.path or (id,) for id, hit in hits_by_id.items()])
    columns = {id: nearest[id] for path in paths for id in path}
    rows = _rows(columns, _anchors(paths, columns), hits_by_id)
    spots = {
        id: _spot(id, columns[id], row, ranks.get(id), hits_by_id.get(id))
        for id, row in sorted(rows.items(), key=lambda item: (item[1], columns[item[0]]))
    }
    return Neighbourhood(spots, _links(visible.values()), len(selection) - len(visible))


def _columns(paths: Sequence[Sequence[str]]) -> dict[str, int]:
    """Return the smallest distance of each id from the start of a path."""
    columns: dict[str, int] = {}
    for path in paths:
        for at, id in enumerate(path):
            columns[id] = min(columns.get(id, at), at)
    return columns


def _anchors(paths: Sequence[Sequence[str]], columns: Mapping[str, int]) -> dict[str, str]:
    """Map the id of each chunk, except seeds, to its anchor: the chunk in an earlier column next to which it is drawn.

    Each path through the chunk gives one candidate: the nearest chunk before it that is in an earlier column.
    Candidates directly before the chunk are preferred, then those on a path that ends at the chunk.
    """
    ways: dict[str, list[tuple[bool, bool, str]]] = {}
    for path in paths:
        for at, id in enumerate(path):
            before = [place for place in range(at) if columns[path[place]] < columns[id]]
            if before:
                way = before[-1] < at - 1, at < len(path) - 1, path[before[-1]]
                ways.setdefault(id, []).append(way)
    return {id: min(some, key=itemgetter(0, 1))[2] for id, some in ways.items()}


def _rows(columns: Mapping[str, int], anchors: Mapping[str, str], hits_by_id: Mapping[str, Hit]) -> dict[str, float]:
    """Return the row of each id.

    All chunks reached from a seed have consecutive rows, in depth-first order. The seed is vertically centred on the
    chunks that have it as their anchor.
    """
    best = sorted(columns, key=lambda id: (-hits_by_id[id].score if id in hits_by_id else 0.0, id))
    after: dict[str, list[str]] = {}
    for id in best:
        if columns[id]:
            after.setdefault(anchors[id], []).append(id)
    rows: dict[str, float] = {}
    free = 0
    for seed in [id for id in best if not columns[id]]:
        descendants = list(_descendants(seed, after))
        rows |= {id: free + number for number, id in enumerate(descendants)}
        targets = [rows[id] for id in after.get(seed, ())] or [free]
        rows[seed] = (targets[0] + targets[-1]) / 2
        free += max(len(descendants), 1)
    return rows


def _descendants(id: str, after: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield all ids reached from this id, in depth-first order."""
    for next_id in after.get(id, ()):
        yield next_id
        yield from _descendants(next_id, after)


def _spot(id: str, column: int, row: float, rank: int | None, hit: Hit | None) -> PlacedChunk:
    return PlacedChunk(id, id if hit is None else title(hit), column, row, rank, hit)


def _links(hits: Collection[Hit]) -> list[TraversedEdge]:
    """Return the steps of all paths, without duplicates.

    If there are steps in both directions between two chunks, they become one step that starts at the better-ranked
    chunk.
    """
    links: dict[tuple[str, str], TraversedEdge] = {}
    for hit in hits:
        steps = {each["from_chunk_id"]: each for each in hit.graph_context}
        for step in zip(hit.path[:-1], hit.path[1:], strict=True):
            if step not in links or (step[0] in steps and not links[step].label):
                links[step] = _link(*step, steps.get(step[0]))
    order = {path_end(hit): number for number, hit in enumerate(hits)}

    def rank(id: str) -> tuple[int, str]:
        return order.get(id, len(order)), id

    return [
        _both_ways(link, links.get((target, source)))
        for (source, target), link in links.items()
        if (target, source) not in links or rank(source) < rank(target)
    ]


def _both_ways(link: TraversedEdge, back: TraversedEdge | None) -> TraversedEdge:
    """Combine a step with the opposite step, if there is one."""
    if back is None:
        return link
    return link._replace(heads=tuple(sorted({*link.heads, *back.heads})), mutual=True)


def _link(source: str, target: str, edge: Mapping[str, Any] | None) -> TraversedEdge:
    if edge is None:
        return TraversedEdge(source, target)
    heads = () if edge.get("entity") else (source,) if is_backward(edge) else (target,)
    return TraversedEdge(source, target, edge_name(edge), float(edge["weight"]), heads)


def edge_name(step: Mapping[str, Any]) -> str:
    """Return the name of an edge in a hit's ``graph_context``: its relation, or the entity that both ends mention.

    >>> edge_name({"relation": "depends_on"}), edge_name({"relation": "mentions", "entity": "name:Ada Lovelace"})
    ('depends on', '“Ada Lovelace”')
    """
    entity = str(step.get("entity", ""))
    return f"“{name_of(entity)}”" if entity else str(step["relation"]).replace("_", " ")
