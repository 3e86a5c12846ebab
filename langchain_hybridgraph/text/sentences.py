"""Sentences, split points and abstracts."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from operator import itemgetter

from langchain_hybridgraph.text.analyzer import CJK

# Every function from ``paragraphs`` to ``runs`` takes a text and a range of positions in it, and yields split points in
# ascending order. All of them run in linear time, whatever the text contains.

_LINE_END = re.compile("\n")
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n\s*")
_OPENING = "\"'“‘«([*_`"
_SENTENCE = re.compile(
    r"(?<![.!?…])(?P<mark>[.!?…]++)[\"'”’»)\]*_`]*+\s++"  # scripts that put a space between sentences
    r"|[。！？｡।॥؟۔።։]++[”’」』）】》]*+\s*+"  # scripts that need none
    r"|\n(?=[ \t]*(?:[-*+•|]|\d{1,3}[.)])[ \t])"  # list items, rows of a table
)
_LAST_WORD = re.compile(r"[^\s(\[\"“]*$")
_NO_END = re.compile(
    r"[a-z]|mrs?|ms|dr|prof|st|figs?|eq|nos?|vs|etc|e\.g|i\.e|cf|al|vol|pp|ca|approx|inc|ltd|co|jr|sr|resp|viz|eds?"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|z\.b|bzw|nr|usw|abs|bd|hrsg"
)
# German ordinals: "dem 2. Weltkrieg", "3. Mai". None of the words before the number is English, except in "I am 3."
_BEFORE_ORDINAL = re.compile(r"\b(?:der|dem|den|das|des|vom|zum|zur|im|beim|(?<!\bi )am)\s\d\d?$", re.IGNORECASE)
_AFTER_ORDINAL = re.compile(
    r"(?:Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember|Jahrhundert)\b"
)
_WORDS = re.compile(r"(?:\S+\s*){1,16}")
_WORDS_CJK = re.compile(rf"(?:(?:[{CJK}]|[^\s{CJK}]+)\s*){{1,16}}")
_WORD = re.compile(r"\S+\s*")
_WORD_CJK = re.compile(rf"(?:[{CJK}]|[^\s{CJK}]+)\s*")
# No language has words this long; longer runs (base64, minified code) may be split anywhere.
_LONGEST_WORD = 1_000
_START = itemgetter(0)


def spans(start: int, cuts: Iterable[int], end: int) -> Iterator[tuple[int, int]]:
    """Return the ranges between the split points; they cover [start, end) without a gap.

    >>> list(spans(0, [3, 5], 9))
    [(0, 3), (3, 5), (5, 9)]
    """
    for cut in cuts:
        if start < cut < end:
            yield start, cut
            start = cut
    if start < end:
        yield start, end


def paragraphs(text: str, start: int, end: int, fences: Sequence[tuple[int, int]] = ()) -> Iterator[int]:
    """Yield the position after every blank line that is not inside a code fence."""
    for match in _BLANK_LINE.finditer(text, start, end):
        if not _inside(fences, match.start()):
            # Keep the indentation of the next line with that line.
            yield text.rfind("\n", match.start(), match.end()) + 1


def fence_edges(text: str, start: int, end: int, fences: Sequence[tuple[int, int]] = ()) -> Iterator[int]:
    """Yield those starts and ends of code fences that are inside the range."""
    for number in range(max(bisect_right(fences, start, key=_START) - 1, 0), len(fences)):
        if fences[number][0] >= end:
            return
        yield from (edge for edge in fences[number] if start < edge < end)


def sentences(text: str, start: int, end: int, fences: Sequence[tuple[int, int]] = ()) -> Iterator[int]:
    """Yield the position after every sentence, list item and table row, or nothing if the range starts in a code fence.

    >>> list(sentences("See Fig. 3 of Dr. Who. It works! 好。吗", 0, 36))
    [23, 33, 35]
    """
    if _inside(fences, start):
        return
    for match in _SENTENCE.finditer(text, start, end):
        if match["mark"] is None or _ends_sentence(text, match.start(), match.end(), start):
            yield match.end()


def lines(text: str, start: int, end: int, fences: Sequence[tuple[int, int]] = ()) -> Iterator[int]:
    """Yield the position after every line."""
    return (match.end() for match in _LINE_END.finditer(text, start, end))


def phrases(text: str, start: int, end: int, fences: Sequence[tuple[int, int]] = ()) -> Iterator[int]:
    """Yield the position after every sixteenth word: a fast way to split a long text that has no sentences."""
    return (match.end() for match in (_WORDS if text.isascii() else _WORDS_CJK).finditer(text, start, end))


def words(text: str, start: int, end: int, fences: Sequence[tuple[int, int]] = ()) -> Iterator[int]:
    """Yield the position just past each word and its trailing space; each CJK character counts as a word."""
    return (match.end() for match in (_WORD if text.isascii() else _WORD_CJK).finditer(text, start, end))


def runs(text: str, start: int, end: int, fences: Sequence[tuple[int, int]] = ()) -> Iterable[int]:
    """Yield a position every 64 characters if the range is too long to be a word; otherwise, yield nothing."""
    return range(start + 64, end, 64) if end - start > _LONGEST_WORD else ()


LEVELS = (paragraphs, fence_edges, sentences, lines, phrases, words, runs)
"""Functions that yield split points, from the largest parts to the smallest."""


def _inside(fences: Sequence[tuple[int, int]], position: int) -> bool:
    before = bisect_right(fences, position, key=_START) - 1
    return before >= 0 and fences[before][0] <= position < fences[before][1]


def _ends_sentence(text: str, mark: int, after: int, start: int) -> bool:
    if text[after : after + 4].lstrip(_OPENING)[:1].islower():  # the next word
        return False
    if text[mark] != ".":
        return True
    first = max(start, mark - 12)
    last = _LAST_WORD.search(text, first, mark)
    word = last.group().lower() if last else ""
    if word.isdigit() and len(word) < 3:
        return not (_BEFORE_ORDINAL.search(text, first, mark) or _AFTER_ORDINAL.match(text, after))
    return _NO_END.fullmatch(word) is None


ABSTRACT_LENGTH, OVERVIEW_LENGTH = 256, 4_000
"""Maximum numbers of characters of an abstract (L0) and of an overview (L1)."""

_HEADING = re.compile(r"\s*(#{1,6}\s|[=~^*-]{3,}\s*$|```)")
_SENTENCE_END = re.compile(r"\w[.!?…][\"')\]]*(\s|$)|[。！？।]")


@lru_cache(2_048)
def abstract_of(text: str, title: str = "") -> str:
    """Return the first sentences of the first paragraph that contains a sentence, in at most 256 characters.

    Headings are left out. Without such a paragraph, the first one is used, and without paragraphs ``title``.

    >>> abstract_of("# Cats\\n\\nThey purr. They sleep.\\n\\nDogs bark.")
    'They purr. They sleep.'
    >>> abstract_of("Cats\\n\\nNo sentence\\n\\nNone here", title="Cats")
    'No sentence'
    >>> len(abstract_of("A long sentence " + "with many words " * 20 + "ends."))
    251
    """
    body, abstract = _first_paragraph(text, title), ""
    for _, end in islice(spans(0, sentences(body, 0, len(body)), len(body)), 20):
        longer = " ".join(body[:end].split())
        if abstract and len(longer) > ABSTRACT_LENGTH:
            break
        abstract = longer
    return clip(abstract or title, ABSTRACT_LENGTH)


def clip(text: str, max_length: int) -> str:
    """Shorten a text to at most ``max_length`` characters, cutting between words if possible.

    >>> clip("the quick brown fox", 11), clip("the quick brown fox", 19), clip("thequickbrownfox", 6)
    ('the quick …', 'the quick brown fox', 'theq …')
    """
    if len(text) <= max_length:
        return text
    words, space, _ = text[: max_length - 1].rpartition(" ")
    return f"{words.rstrip() if space else text[: max_length - 2]} …"


def _first_paragraph(text: str, title: str) -> str:
    """Return the first paragraph with a sentence, or the first one, without headings and repetitions of the title."""
    bodies = []
    for paragraph in re.split(r"\n[ \t]*\n", text[:8_000].strip()):
        body = "\n".join(line for line in paragraph.splitlines() if not _HEADING.match(line)).strip()
        if body and body != title:
            if _SENTENCE_END.search(body):
                return body
            bodies.append(body)
    return bodies[0] if bodies else ""
