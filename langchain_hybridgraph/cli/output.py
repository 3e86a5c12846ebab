"""Results as text for a terminal, and as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from rich.console import Console
from rich.text import Text

from langchain_hybridgraph.chunks import replace_surrogates
from langchain_hybridgraph.cli.console import print_json
from langchain_hybridgraph.degradation import degradation
from langchain_hybridgraph.display.explanation import excerpt, headings
from langchain_hybridgraph.ingestion.progress import counted
from langchain_hybridgraph.ingestion.summaries import name_of
from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.search.hierarchy import target_nodes

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from langchain_hybridgraph.records import Hit
    from langchain_hybridgraph.result import RetrievalResult
    from langchain_hybridgraph.search.hierarchy import FindResult
    from langchain_hybridgraph.stores.protocols import Tree
    from langchain_hybridgraph.vectorstores.hybrid_graph_store import HybridGraphStore

WIDEST = 100
INDENT = 11  # number of columns by which text below the title is indented
PASSAGE = 200  # number of characters, about three lines of an 80-column terminal


def print_result(
    result: RetrievalResult[Document], as_json: bool = False, *, explain: bool = False, language: str = "english"
) -> None:
    """Print ranked hits with score, title, location and best passage. ``explain`` adds an explanation of each score.

    The JSON object has the keys ``query``, ``k``, ``filter`` (null if there is none), ``method`` (such as hybrid,
    vector, keyword or graph), ``degraded`` (the degradation reasons), ``remarks`` (details of some of them),
    ``took_ms``, ``hits``, best first, and ``history`` (null without a conversation).

    In a hit, the values in ``parts`` add up to the score, and ``source`` is the search that found the hit, or fused.
    Unknown scores are null. If a parent is returned in place of its child, ``child_id`` is the id of the child.

    In ``history``, ``searched`` is ``raw`` if the hits were found with the question alone, ``expanded`` with the
    expanded query, ``both`` with both, and ``mixed`` with a weighted mean of the vectors of the question and its
    context.
    """
    plan = result.plan
    if as_json:
        names = ("expanded_query", "context", "weight", "searched")
        answer = {
            "query": plan["query"],
            "k": plan["k"],
            "filter": plan["filter"],
            "history": {name: plan.get(name) for name in names} if "expanded_query" in plan else None,
            "method": plan["method"],
            "degraded": result.degraded,
            "remarks": plan.get("remarks", {}),
            "took_ms": round(result.took_ms, 3),
            "hits": [_hit_answer(rank, hit) for rank, hit in enumerate(result.hits, start=1)],
        }
        print_json(answer)
        return
    console = Terminal()
    for rank, hit in enumerate(result.hits, start=1):
        title = headings(hit) or hit.id
        places = (hit.chunk.metadata.get(key) for key in ("source", "uri"))
        place = next((str(each) for each in places if each), hit.chunk.document)
        console.show_heading(rank, hit.score, title, f"  {place}" if place and place != title else "")
        pieces = excerpt(printable(_body(hit)), plan["query"] or "", language, PASSAGE)
        console.show(Text.assemble(*((piece, "bold" if is_match else "") for piece, is_match in pieces)))
        if explain:
            console.show(Text(hit.explain(), "dim"))
    if not result.hits:
        console.print("nothing found")
    console.show_reasons(result.degraded, plan.get("remarks", {}))
    if explain:
        console.show(Text(_how(result), "dim"), hanging=True)


def _hit_answer(rank: int, hit: Hit) -> dict[str, Any]:
    return {
        "rank": rank,
        "id": hit.id,
        "document_id": hit.chunk.document,
        "parent_id": hit.chunk.parent,
        "child_id": None if hit.child is None else hit.child.id,
        "score": hit.score,
        "parts": hit.parts,
        "source": hit.source,
        "vector_score": hit.vector_score,
        "bm25_score": hit.bm25_score,
        "rerank_score": hit.rerank_score,
        "hops": hit.hops,
        "path": hit.path,
        "text": hit.chunk.text,
        "metadata": hit.chunk.metadata,
    }


def print_contexts(
    result: FindResult, as_json: bool = False, *, explain: bool = False, console: Terminal | None = None
) -> None:
    """Print the results of a search of the tree, best first, with score, type, URI, abstract and relations.

    The JSON object has the keys ``queries``, ``degraded``, ``remarks``, ``took_ms`` and ``hits``. A query has the URIs
    below which it searched (``roots``), and the numbers of directories opened (``opened``), of nodes scored
    (``scored``) and of all nodes (``nodes``). The ``text`` of a hit is that of its best chunk, or its overview.
    """
    if as_json:
        hits = [
            {
                "rank": rank,
                "uri": each.uri,
                "context_type": each.context_type,
                "is_leaf": each.is_leaf,
                "score": each.score,
                "abstract": each.abstract,
                "relations": [asdict(relation) for relation in each.relations],
                "text": "" if each.hit is None else each.hit.chunk.text,
            }
            for rank, each in enumerate(result, start=1)
        ]
        answer = {
            "queries": [each.plan() for each in result.query_results],
            "degraded": result.degraded,
            "remarks": result.remarks,
            "took_ms": round(result.took_ms, 3),
            "hits": hits,
        }
        print_json(answer)
        return
    console = console or Terminal()
    for rank, each in enumerate(result, start=1):
        kind = each.context_type if each.is_leaf else f"{each.context_type}, directory"
        console.show_heading(rank, each.score, each.uri, f"  {kind}")
        console.show(Text(" ".join(printable(each.abstract).split())))
        for relation in each.relations:
            console.show(Text(f"{printable(relation.relation)}: {printable(relation.uri)}", "dim"))
        if explain and each.hit is not None:
            console.show(Text(each.hit.explain(), "dim"))
    if not result:
        console.print("nothing found")
    console.show_reasons(result.degraded, result.remarks)
    if explain:
        for searched in result.query_results:
            query = searched.query
            kind = f" ({query.context_type}, priority {query.priority})" if query.context_type else ""
            opened = counted(searched.opened, "directory", "directories")
            scope = f"{opened} opened, {searched.scored:,} of {searched.nodes:,} nodes scored"
            console.show(Text(f"{printable(query.query)!r}{kind}: {scope}", "dim"), hanging=True)
        console.show(Text(f"{result.took_ms:.1f} ms", "dim"), hanging=True)


class Branch(NamedTuple):
    """Directory or document, with its depth below the requested directory and the number of its direct children."""

    uri: str
    name: str
    depth: int
    contains: int
    abstract: str


def branches(store: HybridGraphStore, under: str | None, depth: int) -> list[Branch]:
    """List ``depth`` levels of a tree, from the URI ``under`` or the top; each directory is before its contents.

    Raises ConfigurationError if there is nothing at the URI.
    """
    from langchain_hybridgraph.adapters.documents import resolve_as_of

    tree = store.scoped_tree(Scope(None, store.tenant, resolve_as_of(None)))
    tops = tree.top() if under is None else target_nodes(tree, [under])[0]
    lines = [line for top in tops for line in _branches_below(tree, top, 0, depth)]
    summaries = store.summaries.current()
    directories = [tree.uri(node) for node, _, contains in lines if contains]
    chunks = {} if summaries is None else summaries.get(directories)
    listing = []
    for node, level, contains in lines:
        uri = tree.uri(node)
        abstract = str(chunks[uri].metadata["abstract"]) if uri in chunks else ""
        without_name = abstract.partition(": ")[2] or abstract
        listing.append(Branch(uri, name_of(uri) if level else uri, level, contains, without_name))
    return listing


def _branches_below(tree: Tree, node: int, depth: int, deepest: int) -> Iterator[tuple[int, int, int]]:
    children = tree.children(node)
    yield node, depth, len(children)
    if depth + 1 < deepest:
        for child in children:
            yield from _branches_below(tree, child, depth + 1, deepest)


def print_branches(branches: Sequence[Branch], as_json: bool) -> None:
    """Print a tree, one indented line per node, with the number of its direct children and its abstract."""
    if as_json:
        print_json({"tree": branches})
        return
    console = Terminal()
    for branch in branches:
        count = f"  {branch.contains:,}" if branch.contains else ""
        name = Text.assemble("  " * branch.depth, (printable(branch.name), "bold" if count else ""), (count, "dim"))
        abstract = " ".join(printable(branch.abstract).split())
        name.append(f"  {abstract}" if abstract else "", "dim")
        name.truncate(console.width, overflow="ellipsis")
        console.print(name, soft_wrap=True)
    if not branches:
        typer.echo("the index is empty")


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Replace control characters with U+FFFD, so that a terminal cannot interpret them as commands.

    >>> printable("a\\x1b[31mb")
    'a\ufffd[31mb'
    """
    return _CONTROLS.sub("\ufffd", replace_surrogates(text))


class Terminal(Console):
    """Console that prints text unchanged, without interpreting markup or emoji codes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)
        self.width = min(self.width, WIDEST)

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, where rich would exit with code 1."""
        raise BrokenPipeError

    def show_heading(self, rank: int, score: float, title: str, remark: str) -> None:
        """Print the first line of a hit."""
        parts = ((f"{rank:>2}  ", "dim"), (f"{score:.3f}", "bold green"), "  ")
        self.show(Text.assemble(*parts, (printable(title), "bold"), (printable(remark), "dim")), hanging=True)

    def show(self, text: Text, *, hanging: bool = False) -> None:
        """Print wrapped text, aligned with the titles. With ``hanging``, the first line is not indented."""
        if hanging:
            first, *others = self._wrap(text, self.width)
            self.print(first, soft_wrap=True)
            text = Text(" ").join(others)
        for line in self._wrap(text, self.width - INDENT) if text else ():
            self.print(Text(" " * INDENT) + line, soft_wrap=True)

    def _wrap(self, text: Text, width: int) -> Iterable[Text]:
        lines = text.wrap(self, width)
        for line in lines:
            line.rstrip()
        return lines

    def show_reasons(self, reasons: Sequence[str], remarks: Mapping[str, str]) -> None:
        """Print each degradation reason with its remark or meaning: warnings in yellow, normal outcomes dimmed."""
        for reason in reasons:
            entry = degradation(reason)
            colour = "yellow" if entry.level == "warning" else "dim"
            self.show(Text(f"{reason}: {printable(remarks.get(reason, entry.plain_meaning))}", colour), hanging=True)


_HEADING = re.compile(r"\s*#{1,6} [^\n]*\n")


def _body(hit: Hit) -> str:
    """Return a hit's text without initial headings and a repeated title; if nothing else remains, the full text."""
    text = hit.chunk.text
    while heading := _HEADING.match(text):
        text = text[heading.end() :]
    title = str(hit.chunk.metadata.get("title") or "")
    first, _, rest = text.partition("\n")
    return rest if title and first.strip() == title and rest.strip() else text or hit.chunk.text


def _how(result: RetrievalResult[Document]) -> str:
    plan = result.plan
    weights = ", ".join(f"{name} {weight:g}" for name, weight in plan["weights"].items())
    stages = ", ".join(f"{name} {ms:.1f}" for name, ms in plan["stages_ms"].items())
    how = f"{plan['method']} · fusion {plan['fusion']} · weights {weights} · {result.took_ms:.1f} ms ({stages})"
    if "expanded_query" not in plan:
        return how
    if plan.get("searched") == "raw":
        return f"{how} · the question was not changed: it does not depend on the conversation"
    how += f" · the question with its context: {printable(str(plan['expanded_query']))!r}"
    if context := plan.get("context"):
        how += f", moved towards {printable(str(context))!r} by {plan.get('weight', 0):g}"
    return how
