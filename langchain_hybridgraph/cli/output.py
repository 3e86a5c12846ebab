"""Results as text for a terminal, and as JSON."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.text import Text

from langchain_hybridgraph.chunks import replace_surrogates
from langchain_hybridgraph.cli.errors import as_commands
from langchain_hybridgraph.degradation import degradation
from langchain_hybridgraph.ingestion.progress import counted
from langchain_hybridgraph.ingestion.summaries import name_of
from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.search.hierarchy import target_nodes
from langchain_hybridgraph.text.analyzer import Analyzer

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from langchain_hybridgraph.ingestion import IngestReport
    from langchain_hybridgraph.ingestion.summaries import LayersReport
    from langchain_hybridgraph.migration import MigrationReport
    from langchain_hybridgraph.records import Hit
    from langchain_hybridgraph.result import RetrievalResult
    from langchain_hybridgraph.search.hierarchy import FindResult, QueryResult
    from langchain_hybridgraph.stores.check import CheckReport
    from langchain_hybridgraph.stores.protocols import Tree
    from langchain_hybridgraph.vectorstores.hybrid_graph_store import HybridGraphStore


def search_answer(result: RetrievalResult[Document]) -> dict[str, Any]:
    """Return the output of ``search --json``: the question, how it was answered, and the hits, best first.

    The keys are ``query``, ``k``, ``filter`` (null if there is none), ``method`` (such as hybrid, vector, keyword or
    graph), ``degraded`` (the degradation reasons), ``remarks`` (details of some of them),
    ``took_ms``, ``hits`` (see :func:`hit_answer`) and ``history`` (see
    :func:`history_answer`; null without a conversation).
    """
    plan = result.plan
    return {
        "query": plan["query"],
        "k": plan["k"],
        "filter": plan["filter"],
        "history": history_answer(plan),
        "method": plan["method"],
        "degraded": list(result.degraded),
        "remarks": dict(plan.get("remarks", {})),
        "took_ms": round(result.took_ms, 3),
        "hits": [hit_answer(rank, hit) for rank, hit in enumerate(result.hits, start=1)],
    }


def history_answer(plan: Mapping[str, Any]) -> dict[str, Any] | None:
    """Describe how a conversation changed the question. Return None for a search without a conversation.

    The keys are ``expanded_query``, ``context``, ``weight`` (the weight of the context) and ``searched``, which is one
    of these values:

    - ``"raw"``: the hits were found with the question alone.
    - ``"expanded"``: they were found with the expanded query.
    - ``"both"``: the hits of both searches were merged.
    - ``"mixed"``: they were found with a weighted mean of the vectors of the question and its context.
    """
    names = ("expanded_query", "context", "weight", "searched")
    return {name: plan.get(name) for name in names} if "expanded_query" in plan else None


def find_answer(result: FindResult) -> dict[str, Any]:
    """Return the output of ``find --json``: ``queries``, ``degraded``, ``remarks``, ``took_ms`` and ``hits``.

    Each query has ``query``, ``context_type``, ``priority``, ``roots`` (the URIs below which it searched), and three
    counts: ``opened`` (directories opened), ``scored`` (nodes scored) and ``nodes`` (all nodes). Each hit has ``rank``,
    ``uri``, ``context_type``, ``is_leaf`` (false for a directory), ``score``, ``abstract``, ``relations`` (uri,
    relation, weight, description) and ``text`` (the text of its best chunk, or its overview).
    """
    return {
        "queries": [each.plan() for each in result.query_results],
        "degraded": list(result.degraded),
        "remarks": dict(result.remarks),
        "took_ms": round(result.took_ms, 3),
        "hits": [
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
        ],
    }


def hit_answer(rank: int, hit: Hit) -> dict[str, Any]:
    """Return one hit as JSON values, including the fields of the stored chunk.

    ``rank`` counts from 1, and ``score`` is between 0 and 1. The values in ``parts`` add up to the score. ``source`` is
    the search that found the hit, such as vector or graph, or fused if several searches found it. ``vector_score``,
    ``bm25_score`` and ``rerank_score`` are null if they are unknown. If the chunk is a parent returned in place of its
    child, ``child_id`` is the id of the child.
    """
    return {
        "rank": rank,
        "id": hit.id,
        "document_id": hit.chunk.document,
        "parent_id": hit.chunk.parent,
        "child_id": None if hit.child is None else hit.child.id,
        "score": hit.score,
        "parts": dict(hit.parts),
        "source": hit.source,
        "vector_score": hit.vector_score,
        "bm25_score": hit.bm25_score,
        "rerank_score": hit.rerank_score,
        "hops": hit.hops,
        "path": list(hit.path),
        "text": hit.chunk.text,
        "metadata": dict(hit.chunk.metadata),
    }


def ingest_answer(
    report: IngestReport, embedding: str, pruned: Sequence[str], vanished: Sequence[str], layers: LayersReport | None
) -> dict[str, Any]:
    """Return the output of ``ingest --json``.

    It contains the fields of :class:`IngestReport`, ``embedding``, ``pruned``, ``vanished`` and ``layers``. ``pruned``
    lists the ids of documents that ``--prune`` deleted because their files no longer exist. ``vanished`` lists the ids
    of such documents that were kept because ``--prune`` was not given. ``layers`` has the fields of
    :class:`LayersReport`, or is null if the summaries of directories were not updated.
    """
    return {
        **asdict(report),
        "embedding": embedding,
        "warnings": list(map(as_commands, report.warnings)),
        "unread": {path: as_commands(reason) for path, reason in report.unread.items()},
        "pruned": list(pruned),
        "vanished": list(vanished),
        "layers": None if layers is None else asdict(layers),
    }


def check_answer(report: CheckReport) -> dict[str, Any]:
    """Return the output of ``check --json`` and ``repair --json``.

    The keys are ``ok``, ``counts``, and three lists of strings: ``problems``, ``unchecked`` and ``notes``.
    """
    return {
        "ok": report.ok,
        "problems": list(map(as_commands, report.problems)),
        "unchecked": list(report.unchecked),
        "notes": list(report.notes),
        "counts": dict(report.counts),
    }


def print_json(answer: Mapping[str, Any]) -> None:
    """Print one indented JSON object to stdout. Values that JSON lacks (NaN, infinity) become null.

    A lone surrogate becomes U+FFFD. Non-ASCII characters are not escaped if the encoding of stdout supports them.
    """
    carries_all = (sys.stdout.encoding or "").lower().startswith("utf")
    json.dump(_sayable(answer), sys.stdout, indent=2, ensure_ascii=not carries_all, allow_nan=False)
    sys.stdout.write("\n")


def _sayable(value: Any) -> Any:
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, Mapping):
        return {replace_surrogates(key): _sayable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_sayable(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Branch(NamedTuple):
    """Directory or document, with its depth below the requested directory and the number of its direct children."""

    uri: str
    name: str
    depth: int
    contains: int
    abstract: str


def branches(store: HybridGraphStore, under: str | None, depth: int) -> list[Branch]:
    """List the directories and documents of a tree, each directory before its contents.

    The first of the ``depth`` levels is the node at the URI ``under``. If ``under`` is None, the complete tree is
    listed to this depth. Raises ConfigurationError if there is nothing at the URI.
    """
    from langchain_hybridgraph.adapters.documents import resolve_as_of

    tree = store.scoped_tree(Scope(None, store.tenant, resolve_as_of(None)))
    tops = tree.top() if under is None else target_nodes(tree, [under])[0]
    lines = [line for top in tops for line in _branches_below(tree, top, 0, depth)]
    summaries = store.summaries.current()
    directories = [tree.uri(node) for node, _, contains in lines if contains]
    summary_of = {} if summaries is None else summaries.get(directories)
    abstracts = {uri: str(chunk.metadata["abstract"]) for uri, chunk in summary_of.items()}
    return [
        Branch(tree.uri(node), name_of(tree.uri(node)) if below else tree.uri(node), below, contains, "")._replace(
            abstract=_without_name(abstracts.get(tree.uri(node), ""))
        )
        for node, below, contains in lines
    ]


def _branches_below(tree: Tree, node: int, depth: int, deepest: int) -> Iterator[tuple[int, int, int]]:
    children = tree.children(node)
    yield node, depth, len(children)
    if depth + 1 < deepest:
        for child in children:
            yield from _branches_below(tree, child, depth + 1, deepest)


def _without_name(abstract: str) -> str:
    return abstract.partition(": ")[2] or abstract


WIDEST = 100
INDENT = 11  # number of columns by which text below the title is indented
PASSAGE = 200  # number of characters, about three lines of an 80-column terminal
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?<=[.!?:;]) ")
_RULE = re.compile(r"([-=~^*#+_.])\1{3,}")
_HEADING = re.compile(r"\s*#{1,6} [^\n]*\n")


def terminal() -> Console:
    """Create a console that prints text unchanged, without interpreting markup or emoji codes. It is at most ``WIDEST``
    columns wide.
    """
    console = _Terminal(markup=False, emoji=False, highlight=False)
    console.width = min(console.width, WIDEST)
    return console


class _Terminal(Console):
    """Console that raises BrokenPipeError for a closed pipe. Rich's own console would exit with code 1 instead."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def show_result(
    console: Console, result: RetrievalResult[Document], *, language: str = "english", explain: bool = False
) -> None:
    """Print ranked hits with score, title, location and best passage. ``explain`` adds an explanation of each score."""
    query_words = QueryWords(result.plan["query"] or "", language)
    for rank, hit in enumerate(result.hits, start=1):
        _show(console, _heading(rank, hit), hanging=True)
        _show(console, passage(_body(hit), query_words))
        if explain:
            _show(console, Text(hit.explain(), "dim"))
    if not result.hits:
        console.print("nothing found")
    _show_reasons(console, result.degraded, result.plan.get("remarks", {}))
    if explain:
        _show(console, Text(_how(result), "dim"), hanging=True)


def show_contexts(console: Console, answer: FindResult, *, explain: bool = False) -> None:
    """Print the results of a search of the tree, best first, with score, type, URI, abstract and relations."""
    for rank, each in enumerate(answer, start=1):
        kind = each.context_type if each.is_leaf else f"{each.context_type}, directory"
        score = (f"{each.score:.3f}", "bold green")
        place = (printable(each.uri), "bold")
        _show(console, Text.assemble((f"{rank:>2}  ", "dim"), score, "  ", place, (f"  {kind}", "dim")), hanging=True)
        _show(console, Text(" ".join(printable(each.abstract).split())))
        for relation in each.relations:
            _show(console, Text(f"{printable(relation.relation)}: {printable(relation.uri)}", "dim"))
        if explain and each.hit is not None:
            _show(console, Text(each.hit.explain(), "dim"))
    if not answer:
        console.print("nothing found")
    _show_reasons(console, answer.degraded, answer.remarks)
    if explain:
        for result in answer.query_results:
            _show(console, Text(_scope_of_search(result), "dim"), hanging=True)
        _show(console, Text(f"{answer.took_ms:.1f} ms", "dim"), hanging=True)


def show_branches(console: Console, branches: Sequence[Branch]) -> None:
    """Print a tree, one line per node, indented by depth. Each line shows the number of the node's direct children and
    its abstract.
    """
    for branch in branches:
        count = f"  {branch.contains:,}" if branch.contains else ""
        name = Text.assemble("  " * branch.depth, (printable(branch.name), "bold" if count else ""), (count, "dim"))
        abstract = " ".join(printable(branch.abstract).split())
        name.append(f"  {abstract}" if abstract else "", "dim")
        name.truncate(console.width, overflow="ellipsis")
        console.print(name, soft_wrap=True)


def show_facts(console: Console, facts: Mapping[str, Any]) -> None:
    """Print names and values in two columns."""
    width = max(map(len, facts))
    for name, value in facts.items():
        text = "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
        console.print(Text.assemble((f"{name:<{width}}  ", "dim"), printable(text)), soft_wrap=True)


def show_migration(console: Console, report: MigrationReport) -> None:
    """Print how many records of each kind a migration has copied, verified or left out."""
    console.print(
        f"{'continued' if report.resumed else 'copied'} {report.source} to {report.destination}", soft_wrap=True
    )
    for name, copied in report.copied.items():
        console.print(f"  {name:<10}{copied:>12,} copied {report.verified[name]:>12,} verified", soft_wrap=True)
    for name, count in report.left_out.items():
        console.print(f"  {name:<10}{count:>12,} left out: the destination does not keep them", soft_wrap=True)
    console.print(f"took {report.seconds:.1f} s", soft_wrap=True)


class WordOccurrence(NamedTuple):
    """Word in a text that matches words of the question.

    ``start`` and ``end`` are its position in the text. ``words`` are the matching words of the question, in the form in
    which the keyword index compares them.
    """

    start: int
    end: int
    words: frozenset[str]


class QueryWords:
    """Words of a question to look for in texts. They are compared as in the keyword index.

    >>> [place.words for place in QueryWords("Do cats sleep?", "english").places("A cat, sleeping.")]
    [frozenset({'cat'}), frozenset({'sleep'})]
    """

    def __init__(self, question: str, language: str) -> None:
        self._analyzer = Analyzer(language)
        self._words = frozenset(self._analyzer.words(question))

    def places(self, text: str) -> list[WordOccurrence]:
        """Return the words in a text that match words in the question, in the order in which they appear."""
        places = (
            WordOccurrence(*match.span(), self._words.intersection(self._analyzer.all_words(match[0])))
            for match in _WORD.finditer(text)
        )
        return [place for place in places if place.words]


def passage(text: str, query_words: QueryWords, size: int = PASSAGE) -> Text:
    """Return the excerpt of a text that contains the most words of the question, with these words in bold.

    The excerpt is one line of about ``size`` characters and begins at the start of a sentence. If the words of the
    question are all too far from the start of a sentence, as in a long block of code, the excerpt begins shortly before
    the first of them.

    >>> passage("A long preface. " * 20 + "Cats sleep. They purr.", QueryWords("Do cats sleep?", "english"), 30).plain
    '… Cats sleep. They purr.'
    """
    line = " ".join(_RULE.sub("", printable(text)).split())
    places = query_words.places(line)
    starts = [0, *(match.end() for match in _SENTENCE.finditer(line))]
    start = max(starts, key=lambda start: (len(_words_between(places, start, start + size)), start == 0, start))
    if places and not _words_between(places, start, start + size):
        word = places[0].start
        start = line.find(" ", word - size // 2, word) + 1 or word
    end = _end_of_word(line, start + size)
    marked = Text("… " if start else "") + Text(line[start:end]) + Text(" …" if end < len(line) else "")
    for place in places:
        if start <= place.start and place.end <= end:
            marked.stylize("bold", *(at - start + 2 * (start > 0) for at in place[:2]))
    return marked


def printable(text: str) -> str:
    """Replace control characters with U+FFFD, so that a terminal cannot interpret them as commands.

    >>> printable("a\\x1b[31mb")
    'a\ufffd[31mb'
    """
    return _CONTROLS.sub("\ufffd", replace_surrogates(text))


def _words_between(places: Iterable[WordOccurrence], start: int, end: int) -> set[str]:
    return {word for place in places if start <= place.start and place.end <= end for word in place.words}


def _end_of_word(line: str, end: int) -> int:
    if end >= len(line):
        return len(line)
    blank = line.rfind(" ", 0, end)
    return blank if blank > end - 40 else end


def _show(console: Console, text: Text, *, hanging: bool = False) -> None:
    """Print wrapped text, aligned with the titles. With ``hanging``, the first line is not indented."""
    if hanging:
        first, *others = _wrapped(console, text, console.width)
        console.print(first, soft_wrap=True)
        text = Text(" ").join(others)
    for line in _wrapped(console, text, console.width - INDENT):
        console.print(Text(" " * INDENT) + line, soft_wrap=True)


def _wrapped(console: Console, text: Text, width: int) -> Iterator[Text]:
    for line in text.wrap(console, width) if text else ():
        line.rstrip()
        yield line


def _heading(rank: int, hit: Hit) -> Text:
    title, place = _title(hit), _place(hit)
    where = f"  {place}" if place and place != title else ""
    score = (f"{hit.score:.3f}", "bold green")
    return Text.assemble((f"{rank:>2}  ", "dim"), score, "  ", (printable(title), "bold"), (printable(where), "dim"))


def _title(hit: Hit) -> str:
    titles = [hit.chunk.metadata.get(key) for key in ("title", "section_heading")]
    return " › ".join(dict.fromkeys(str(part) for part in titles if part)) or hit.id


def _place(hit: Hit) -> str:
    return next((str(place) for key in ("source", "uri") if (place := hit.chunk.metadata.get(key))), hit.chunk.document)


def _body(hit: Hit) -> str:
    """Return the text of a hit without the headings at its start, and without a first line that repeats its title. If
    nothing else remains, return the full text.
    """
    text = hit.chunk.text
    while heading := _HEADING.match(text):
        text = text[heading.end() :]
    title = str(hit.chunk.metadata.get("title") or "")
    first, _, rest = text.partition("\n")
    return rest if title and first.strip() == title and rest.strip() else text or hit.chunk.text


def _show_reasons(console: Console, reasons: Sequence[str], remarks: Mapping[str, str]) -> None:
    """Print each degradation reason with its remark or meaning: warnings in yellow, normal outcomes dimmed."""
    for reason in reasons:
        entry = degradation(reason)
        colour = "yellow" if entry.level == "warning" else "dim"
        _show(console, Text(f"{reason}: {printable(remarks.get(reason, entry.plain_meaning))}", colour), hanging=True)


def _scope_of_search(result: QueryResult) -> str:
    query = result.query
    what = f"{printable(query.query)!r}" + (
        f" ({query.context_type}, priority {query.priority})" * bool(query.context_type)
    )
    directories = counted(result.opened, "directory", "directories")
    return f"{what}: {directories} opened, {result.scored:,} of {result.nodes:,} nodes scored"


def _how(result: RetrievalResult[Document]) -> str:
    plan = result.plan
    weights = ", ".join(f"{name} {weight:g}" for name, weight in plan["weights"].items())
    stages = ", ".join(f"{name} {ms:.1f}" for name, ms in plan["stages_ms"].items())
    how = f"{plan['method']} · fusion {plan['fusion']} · weights {weights} · {result.took_ms:.1f} ms ({stages})"
    return f"{how} · {_changed_question(plan)}" if "expanded_query" in plan else how


def _changed_question(plan: Mapping[str, Any]) -> str:
    """Describe how the conversation changed the question."""
    if plan.get("searched") == "raw":
        return "the question was not changed: it does not depend on the conversation"
    description = f"the question with its context: {printable(str(plan['expanded_query']))!r}"
    if context := plan.get("context"):
        description += f", moved towards {printable(str(context))!r} by {plan.get('weight', 0):g}"
    return description
