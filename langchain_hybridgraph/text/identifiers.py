"""Exact matches of names and codes, including punctuation.

An index stores words without punctuation, so ``ruby-faker`` and ``php-faker`` share a word. Larger units differ:

- A form is a string between spaces, slashes, brackets or similar separators, without the punctuation around it.
- A compound is a form with digits, punctuation or a capital inside, such as ``E-4711`` or ``getUserName``.
- The name of a text is the form at its beginning, if a colon, a dash or the end of the line follows.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice
from math import log1p
from typing import Literal

from langchain_hybridgraph.text.analyzer import UNSPACED, Analyzer, with_marks

RowsWith = Callable[[Literal["text", "compounds", "name"], str], Sequence[int]]

# A form or word identifies a text only if at most this number of texts have it.
FEW = 8
# A word is rare if at most one in this number of texts contains it, so with fewer texts no word is rare.
RARE = 16
# Scores that a form gives: to the only text with this name, and to the only text that contains the form. The search
# adds the remainder of the score.
NAME_SCORE, CONTENT_SCORE = 0.95, 0.6
MOST = 0.97
MOST_FORMS = 64  # maximum number of forms of a question

_EVERYTHING = 1 - 1e-9  # as a share of a question's information
_LONGEST = 64  # maximum number of characters; a longer form is data
_CACHE_SIZE = 1 << 18  # runs of characters between spaces

# Slashes, brackets, quotation marks, and dashes other than hyphens always end a form.
_BREAKS = re.compile(f'[\\s,;|<>=(){{}}\\[\\]"`´‘‚‛“”„‟«»‹›–—―…/\\\\{UNSPACED}]+')
_HYPHENS = str.maketrans(dict.fromkeys("\u2010\u2011\u2212", "-") | dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060"))
_CONTRACTION = re.compile("['’](?:[sStdm]|ll|re|ve)?(?!\\w)")
AROUND = ".,:;!?()\"'"
_CAPITAL_INSIDE = re.compile(r"[^\W\d_][A-Z]")
_CAPITALS = re.compile("[A-Z]+s?")
_ABBREVIATION = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]?")
# Punctuation at the ends of a form, but not the signs in "C++" and "C#".
_EDGES = r"^(?:[^\wMARKS]|_)+|(?:[^\w+#MARKS]|_)+$"
_NAME = re.compile(r"(?:\W+\s)?(\S+?)(?::?\s*$|:\s|\s+[-–—]+\s)")


def exact_matches(
    question: str, analyzer: Analyzer, information: Mapping[str, float], texts: int, rows_with: RowsWith
) -> dict[int, float]:
    """Return a score in (0, 1) for each row that contains a name, compound or rare word of the question.

    ``information`` contains the idf of each word of the question, multiplied by its count in the question; words that
    no text contains are left out. ``texts`` is the number of texts. ``rows_with`` returns the rows with a word, a
    compound or a name; if there are more than ``FEW``, it returns none.

    The score estimates the probability that the question refers to the row. For each form or word, I is the fraction of
    the sum of all words' idf that it contributes, and n is the number of rows that contain it. If a word in a form also
    occurs elsewhere in the question, only part of its idf is counted for the form.

    - Names: if a form is the name of m rows, each of them gets ``NAME_SCORE`` / m if I is 1. Otherwise, each gets
      ``NAME_SCORE`` / (n · m) if the form is a compound or a rare word.
    - Compounds: each row that contains a compound gets ``CONTENT_SCORE`` · I / n.
    - Words: each row that contains a word gets ``CONTENT_SCORE`` · I² / n if the word is rare or its I is 1. This I is
      smaller if some words of the question are in no row: each of them adds ln(1 + number of rows) to the information.

    If a row gets values for the same form both as a name and as a compound, only the larger value counts. The score of
    a row is the sum of its values for forms or the sum of its values for words, whichever is larger, and at most
    ``MOST``.
    """
    if not analyzer.has_telling_words(question):
        return {}
    every = sum(information.values())
    occurrences = Counter(analyzer.words(question))
    # "What is the capital of Mongolia?" does not refer to the only text with "capitalize" if no text contains
    # "Mongolia".
    unknown = sum(count for word, count in occurrences.items() if word not in information) * log1p(texts)
    times = Counter(map(str.lower, chain.from_iterable(map(_split, question.split()))))
    by_word: dict[int, float] = defaultdict(float)
    by_form: dict[int, float] = defaultdict(float)
    for word, word_information in information.items():
        rows, share = rows_with("text", word), word_information / (every + unknown)
        is_rare = share > _EVERYTHING or RARE * len(rows) <= texts
        for row in rows if is_rare else ():
            by_word[row] += CONTENT_SCORE * share**2 / len(rows)
    for form, is_compound in islice(forms(question).items(), MOST_FORMS):
        with_form, with_name = rows_with("compounds", form) if is_compound else (), rows_with("name", form)
        if not with_form and not with_name:
            continue
        words = Counter(word for word in analyzer.words(form) if word in information)
        # "Are teaching hospitals better than non-teaching ones?" has "teaching" twice, and the compound has it once.
        inside = {word: min(1.0, n * times[form] / occurrences[word]) for word, n in words.items()}
        share = sum(information[word] * part for word, part in inside.items()) / every if every else 1.0
        likely = {row: CONTENT_SCORE * share / len(with_form) for row in with_form}
        if not is_compound:
            with_form = min((rows for word in words if (rows := rows_with("text", word))), key=len, default=())
            with_form = with_form if RARE * len(with_form) <= texts else ()
        is_meant = 1.0 if share > _EVERYTHING else 1 / len(with_form) if with_form else 0.0
        for row in with_name:
            likely[row] = max(likely.get(row, 0.0), NAME_SCORE * is_meant / len(with_name))
        for row, value in likely.items():
            by_form[row] += value
    both = by_form.keys() | by_word.keys()
    return {row: min(MOST, max(by_form.get(row, 0.0), by_word.get(row, 0.0))) for row in both}


def forms(text: str) -> dict[str, bool]:
    """Return the forms of a text in order, in lower case, mapped to True for compounds and False for other forms.

    >>> forms("Ada's well-known bug is E-4711.")
    {'ada': False, 'well-known': True, 'bug': False, 'is': False, 'e-4711': True}
    """
    return {form.lower(): _is_compound(form) for form in chain.from_iterable(map(_split, text.split()))}


def compounds(text: str) -> list[str]:
    """Return the distinct compounds in a text. An index stores them in addition to the words."""
    return list(dict.fromkeys(chain.from_iterable(map(_COMPOUNDS.__getitem__, text.split()))))


def name_of(text: str) -> str | None:
    """Return the name of a text, or None if the text begins with a sentence or with several words."""
    match = _NAME.match(text.lstrip()[: 4 * _LONGEST].partition("\n")[0])
    split = [] if match is None else _split(match[1])
    return split[0].lower() if len(split) == 1 else None


class _Compounds(dict[str, tuple[str, ...]]):
    """Cache that maps a run of characters between spaces to the compounds in it."""

    def __missing__(self, run: str) -> tuple[str, ...]:
        compounds = tuple(form.lower() for form in _split(run) if _is_compound(form))
        if len(self) >= _CACHE_SIZE:
            self.clear()
        if len(run) <= _LONGEST:
            self[run] = compounds
        return compounds


_COMPOUNDS = _Compounds()


def _split(run: str) -> list[str]:
    """Return the forms in a run of characters without spaces."""
    if not run.isascii():
        run = unicodedata.normalize("NFKC", run).translate(_HYPHENS)
    word = run.rstrip(".,:;!?")
    if word.isascii() and word.isalnum():
        return [word] if len(word) <= _LONGEST else []
    parts = [with_marks(_EDGES).sub("", _CONTRACTION.sub("", part)) for part in _BREAKS.split(run)]
    return [form for form in parts if 0 < len(form) <= _LONGEST]


def _is_compound(form: str) -> bool:
    if not form.isascii():
        form = "".join(character for character in form if unicodedata.category(character)[0] != "M")
    if form.isalpha():
        return _CAPITAL_INSIDE.search(form) is not None and not _CAPITALS.fullmatch(form)
    return not _ABBREVIATION.fullmatch(form)
