"""Titles, excerpts and explanations of hits."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple, Protocol

from langchain_hybridgraph.degradation import degradation, warnings_in
from langchain_hybridgraph.records import Answerability, Hit, name_of
from langchain_hybridgraph.text.analyzer import Analyzer


class SearchResult(Protocol):
    """Search result that can be displayed, such as a :class:`~langchain_hybridgraph.RetrievalResult`."""

    # This is a protocol so that the result class can import this module without an import cycle.

    hits: tuple[Hit, ...]
    degraded: tuple[str, ...]
    took_ms: float
    answerability: Answerability | None

    @property
    def plan(self) -> dict[str, Any]:
        """The queries that were run, and how."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...


# Maximum number of characters quoted from a text.
QUOTED = 110
# Colours of tables and pictures, by Okabe and Ito (Color Universal Design, 2008): they can be distinguished with any
# colour vision, on white and on black.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#999999")


def explain_result(result: SearchResult) -> str:
    """Explain a result with a paragraph about the search, then a paragraph about each hit, best first.

    If it is not known how the Documents were found, only their ranks are listed.

    >>> from langchain_hybridgraph import RetrievalResult
    >>> from langchain_hybridgraph.records import Chunk
    >>> hit = Hit(Chunk("a", "Ada wrote it."), 0.9, "vector", {"vector": 0.9}, found_by=("vector",))
    >>> print(explain_result(RetrievalResult(["a"], hits=[hit], took_ms=2.0, plan={"query": "Who wrote it?"})))
    Who wrote it?
    1 hit in 2.0 ms.
    <BLANKLINE>
    1. Ada wrote it. (a)
       score 0.900 = vector 0.900 · found by vector
    """
    if len(result) and not result.hits:
        texts = (" ".join(document.page_content.split())[:80] for document in result)
        numbered = (f"{rank}. {text}" for rank, text in enumerate(texts, 1))
        return "\n".join([*_conversation(result), str(result.plan.get("query")), *numbered])
    paragraphs = ["\n".join([*_conversation(result), _about(result)])]
    for rank, hit in enumerate(result.hits, 1):
        heading = title(hit)
        quoted = [] if heading == quote(hit) else [f"“{quote(hit)}”"]
        label = heading if heading == hit.id else f"{heading} ({hit.id})"
        paragraphs.append("\n   ".join([f"{rank}. {label}", *quoted, hit.explain()]))
    return "\n\n".join(paragraphs)


# Descriptions of the searches of an AdvancedRetriever, by the value of ``searched`` in the plan.
_SEARCHED = {
    "expanded": "Searched for: {expanded_query}",
    "both": "Searched for the question as it is, and for: {expanded_query}",
    "mixed": "Searched for the question together with its context: {context}",
}


def _conversation(result: SearchResult) -> list[str]:
    searched = result.plan.get("searched")
    return [_SEARCHED[searched].format_map(result.plan)] if searched in _SEARCHED else []


def path_end(hit: Hit) -> str:
    """Return the last id of the hit's path (the child's, if a parent replaces it), or the hit's id without a path."""
    return hit.path[-1] if hit.path else hit.id


def headings(hit: Hit) -> str:
    """Return the title and the section of a hit, or "" if it has neither."""
    parts = [hit.chunk.metadata.get(key) for key in ("title", "section_heading")]
    return " › ".join(dict.fromkeys(" ".join(str(part).split()) for part in parts if part))


def title(hit: Hit) -> str:
    """Return a hit's title and section, or else the beginning of its text, or its id if the text is empty."""
    return headings(hit) or quote(hit) or hit.id


def quote(hit: Hit, size: int = QUOTED) -> str:
    """Return the beginning of a hit's text without its title, on one line, cut between words."""
    first, _, rest = hit.chunk.text.strip().partition("\n")
    has_title = first.strip() == str(hit.chunk.metadata.get("title") or "")
    line = " ".join((rest if has_title and rest.strip() else hit.chunk.text).split())
    if len(line) <= size:
        return line
    return (line[:size].rpartition(" ")[0] or line[:size]) + " …"


class Span(NamedTuple):
    """Range of characters in a text, from ``start`` up to but excluding ``end``."""

    start: int
    end: int


def matches(text: str, query: str, language: str | None = "english") -> list[Span]:
    """Return the spans of a query's words in a text, in order and without overlaps.

    Words are compared as in keyword search. The span of a part of a name such as ``getUserName`` is the complete name;
    parts between ``_`` or ``.`` have their own spans. In scripts without spaces, pairs of characters are compared.
    Raises ConfigurationError for an unknown language.

    >>> text = "Invoices are paid by os.path"
    >>> [text[start:end] for start, end in matches(text, "paths of invoice")]
    ['Invoices', 'path']
    """
    analyzer = Analyzer(language)
    terms = frozenset(analyzer.words(query))
    spans: list[Span] = []
    for word in _words(text):
        common = terms.intersection(analyzer.all_words(text[word.start : word.end]))
        pairs = [Span(at, at + 2) for at in range(word.start, word.end - 1) if text[at : at + 2] in common]
        characters = [Span(at, at + 1) for at in range(word.start, word.end) if text[at] in common]
        for span in pairs or characters or ([word] if common else []):
            if spans and span.start < spans[-1].end:
                spans[-1] = Span(spans[-1].start, span.end)
            else:
                spans.append(span)
    return spans


def _words(text: str) -> Iterator[Span]:
    at = 0
    for is_word, run in groupby(text, lambda c: c.isalnum() or unicodedata.category(c).startswith("M")):
        length = sum(1 for _ in run)
        if is_word:
            yield Span(at, at + length)
        at += length


_RULE = re.compile(r"([-=~^*#+_.])\1{3,}")
_SENTENCE = re.compile(r"(?<=[.!?:;]) ")


def excerpt(text: str, query: str, language: str | None, size: int) -> list[tuple[str, bool]]:
    """Return the excerpt of a text that contains the most words of a query, in pieces; True marks words of the query.

    The excerpt is one line of about ``size`` characters, from the start of a sentence or shortly before a match.

    >>> excerpt("A long preface. " * 20 + "Cats sleep. They purr.", "Do cats sleep?", "english", 30)
    [('… ', False), ('Cats', True), (' ', False), ('sleep', True), ('. They purr.', False)]
    """
    line = " ".join(_RULE.sub("", text).split())
    spans = matches(line, query, language)
    sentences = {0, *(match.end() for match in _SENTENCE.finditer(line))}
    before_words = {line.find(" ", max(at - size // 2, 0), at) + 1 or at for at, _ in spans}

    def value(start: int) -> tuple[int, bool, bool, int]:
        words = {line[at:end].casefold() for at, end in spans if start <= at and end <= start + size}
        return len(words), start in sentences, start == 0, start

    start = max(sentences | before_words, key=value)
    end = start + size
    if end < len(line):
        blank = line.rfind(" ", start, end)
        end = blank if blank > end - 40 else end
    pieces, at = [("… " if start else "", False)], start
    for span in spans:
        if start <= span.start and span.end <= end:
            pieces += [(line[at : span.start], False), (line[span.start : span.end], True)]
            at = span.end
    pieces += [(line[at:end], False), (" …" if end < len(line) else "", False)]
    return [(piece, is_match) for piece, is_match in pieces if piece]


def edge_name(step: Mapping[str, Any]) -> str:
    """Return the name of an edge in a hit's ``graph_context``: its relation, or the entity that both ends mention.

    >>> edge_name({"relation": "depends_on"}), edge_name({"relation": "mentions", "entity": "name:Ada Lovelace"})
    ('depends on', '“Ada Lovelace”')
    """
    entity = str(step.get("entity", ""))
    return f"“{name_of(entity)}”" if entity else str(step["relation"]).replace("_", " ")


def describe_degradation(result: SearchResult) -> list[str]:
    """Describe what did not happen as requested, then normal outcomes, then whether ``min_score`` left out hits.

    >>> from langchain_hybridgraph import RetrievalResult
    >>> remarks = {"unknown-relation": "no edge has the relation 'cite'; there are cites"}
    >>> print(*describe_degradation(RetrievalResult([], degraded=["unknown-relation"], plan={"remarks": remarks})))
    Not as requested: unknown-relation (no edge has the relation 'cite'; there are cites).
    """
    remarks, errors = result.plan.get("remarks", {}), result.plan.get("errors", {})
    warnings, sentences = warnings_in(result.degraded), []
    for reason in warnings:
        details = [remarks.get(reason, degradation(reason).plain_meaning), errors.get(reason.removesuffix("-failed"))]
        sentences.append(f"Not as requested: {reason} ({'; '.join(filter(None, details))}).")
    normal = [reason for reason in result.degraded if reason not in warnings]
    sentences += (f"{reason}: {degradation(reason).plain_meaning}." for reason in normal)
    return [*sentences, *([f"min_score: {remarks['min_score']}."] if "min_score" in remarks else [])]


def _about(result: SearchResult) -> str:
    plan, query = result.plan, result.plan.get("query")
    hits = f"{len(result.hits)} hit{'' if len(result.hits) == 1 else 's'}" if result.hits else "Nothing found"
    walk, expansion = plan.get("walk"), ""
    if walk is not None and plan.get("method") == "graph":
        expansion = f", then expanded through edges (traversal {walk['traversal']}, score {walk['score']})"
    summary = f"{hits} in {result.took_ms:.1f} ms{_searched(result)}{expansion}."
    if plan.get("method") == "filter":
        query = "(a filter, without words)"
    elif query is None:
        query = "(a vector, without words)"
    judged = [] if result.answerability is None else [result.answerability.explain()]
    return "\n".join([query, summary, *judged, *describe_degradation(result)])


def _searched(result: SearchResult) -> str:
    plan, reasons = result.plan, set(result.degraded)
    weights = [
        f"{name} (weight {weight:g})"
        for name, weight in plan.get("weights", {}).items()
        if reasons.isdisjoint((f"{name}-failed", f"no-{name}-index", f"deadline-exceeded:{name}"))
    ]
    if not weights or plan.get("method") == "filter":
        return ""
    return f", searched by {' and '.join(weights)}" + (f", fusion {plan['fusion']}" if len(weights) > 1 else "")
