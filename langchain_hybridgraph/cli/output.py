"""Results as text for a terminal, and as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import typer

from langchain_hybridgraph.chunks import replace_surrogates
from langchain_hybridgraph.cli.console import print_answer
from langchain_hybridgraph.degradation import degradation
from langchain_hybridgraph.display import excerpt, explain_result, headings
from langchain_hybridgraph.ingestion.summaries import name_of
from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.search.hierarchy import FindResult, target_nodes

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from langchain_hybridgraph.result import RetrievalResult
    from langchain_hybridgraph.stores.tree import Tree
    from langchain_hybridgraph.vectorstores.hybrid_graph_store import HybridGraphStore

_HEADINGS = re.compile(r"\A(\s*#{1,6} [^\n]*\n)+(?=.)", re.DOTALL)
PASSAGE = 200  # number of characters, about three lines of an 80-column terminal


def print_result(
    result: RetrievalResult[Document], as_json: bool = False, *, explain: bool = False, language: str = "english"
) -> None:
    """Print ranked hits with score, title, location and best passage, or with ``explain`` the reasons for each rank.

    The JSON object is :meth:`RetrievalResult.to_dict`.
    """
    query, remarks, lines = result.plan["query"] or "", result.plan.get("remarks", {}), []
    for rank, hit in enumerate(result.hits, start=1):
        title = headings(hit) or hit.id
        places = (hit.chunk.metadata.get(key) for key in ("source", "uri"))
        place = next((str(each) for each in places if each), hit.chunk.document)
        pieces = excerpt(printable(_HEADINGS.sub("", hit.chunk.text)), query, language, PASSAGE)
        passage = "".join(typer.style(piece, bold=is_match) if is_match else piece for piece, is_match in pieces)
        lines += [_heading(rank, hit.score, title, place if place != title else ""), f"    {passage}"]
    lines = [printable(explain_result(result))] if explain else _with_reasons(lines, result.degraded, remarks)
    print_answer(result.to_dict(), "\n".join(lines), as_json)


def print_contexts(result: FindResult, as_json: bool = False, *, explain: bool = False) -> None:
    """Print the results of a search of the tree, best first, with score, type, URI, abstract and relations.

    The JSON object is :meth:`FindResult.to_dict`.
    """
    lines = []
    for rank, each in enumerate(result, start=1):
        kind = each.context_type if each.is_leaf else f"{each.context_type}, directory"
        lines += [_heading(rank, each.score, each.uri, kind), f"    {printable(' '.join(each.abstract.split()))}"]
        lines += [f"    {printable(f'{relation.relation}: {relation.uri}')}" for relation in each.relations]
        lines += [f"    {each.hit.explain()}"] if explain and each.hit is not None else []
    lines = _with_reasons(lines, result.degraded, result.remarks)
    for answer in result.query_results if explain else ():
        searched = f"{answer.opened:,} directories opened, {answer.scored:,} of {answer.nodes:,} nodes scored"
        lines.append(printable(f"{answer.query.query!r}: {searched}"))
    print_answer(result.to_dict(), "\n".join(lines), as_json)


def _heading(rank: int, score: float, title: str, place: str) -> str:
    number = typer.style(f"{score:.3f}", fg="green", bold=True)
    return f"{rank:>2}  {number}  {typer.style(printable(title), bold=True)}  {printable(place)}".rstrip()


def _with_reasons(lines: list[str], degraded: Sequence[str], remarks: Mapping[str, str]) -> list[str]:
    """Return the lines, followed by the degradation reasons: warnings in yellow, normal outcomes dimmed."""
    lines = lines or ["nothing found"]
    for reason in degraded:
        entry = degradation(reason)
        text = f"{reason}: {printable(remarks.get(reason, entry.plain_meaning))}"
        lines.append(typer.style(text, fg="yellow") if entry.level == "warning" else typer.style(text, dim=True))
    return lines


class Branch(NamedTuple):
    """Directory or document, with its depth below the requested directory and the number of its direct children."""

    uri: str
    name: str
    depth: int
    contains: int
    abstract: str


def branches(store: HybridGraphStore, under: str | None, depth: int) -> Iterator[Branch]:
    """Yield ``depth`` levels of a tree, from the URI ``under`` or the top; each directory is before its contents.

    Raises ConfigurationError if there is nothing at the URI.
    """
    from langchain_hybridgraph.adapters.documents import resolve_as_of

    tree = store.scoped_tree(Scope(None, store.tenant, resolve_as_of(None)))
    tops = tree.top() if under is None else target_nodes(tree, under)
    lines = [line for top in tops for line in _branches_below(tree, top, 0, depth)]
    summaries = store.summaries.current()
    directories = [tree.uri(node) for node, _, contains in lines if contains]
    chunks = {} if summaries is None else summaries.get(directories)
    for node, level, contains in lines:
        uri = tree.uri(node)
        abstract = str(chunks[uri].metadata["abstract"]) if uri in chunks else ""
        without_name = abstract.partition(": ")[2] or abstract
        yield Branch(uri, name_of(uri) if level else uri, level, contains, without_name)


def _branches_below(tree: Tree, node: int, depth: int, deepest: int) -> Iterator[tuple[int, int, int]]:
    children = tree.children(node)
    yield node, depth, len(children)
    if depth + 1 < deepest:
        for child in children:
            yield from _branches_below(tree, child, depth + 1, deepest)


def print_branches(branches: Sequence[Branch], as_json: bool) -> None:
    """Print a tree, one indented line per node, with the number of its direct children and its abstract."""
    lines = []
    for branch in branches:
        count = f"  {branch.contains:,}" if branch.contains else ""
        name = typer.style(printable(branch.name), bold=bool(count))
        abstract = printable(" ".join(branch.abstract.split()))
        lines.append("  " * branch.depth + name + count + (typer.style(f"  {abstract}", dim=True) if abstract else ""))
    print_answer({"tree": branches}, "\n".join(lines) or "the index is empty", as_json)


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Replace control characters with U+FFFD, so that a terminal cannot interpret them as commands.

    >>> printable("a\\x1b[31mb")
    'a\ufffd[31mb'
    """
    return _CONTROLS.sub("\ufffd", replace_surrogates(text))
