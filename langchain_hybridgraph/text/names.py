"""Names in texts and titles."""

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain
from typing import NamedTuple

from langchain_hybridgraph.text.analyzer import UNSPACED, FunctionWords, Unaccented, function_words, with_marks

# A name is a run of capitalised words ("University of Copenhagen", "Jean-Paul Sartre", "NASA"), or words in quotation
# marks. A single word at the beginning of a sentence is a name only if the document also capitalises it inside a
# sentence. In German, where all nouns are capitalised, single words have a low weight. In scripts without capitals,
# only quoted names are found.

# Confidence of a mention, and how central the name is likely to be to the text.
WHOLE, QUOTED, SINGLE, PART, COMMON_NOUN = 0.8, 0.8, 0.5, 0.4, 0.2
MOST_WORDS = 8  # maximum number of words of a name; longer runs are headings or shouting
MOST_LETTERS = 100  # maximum number of characters of a name's normal form


class Name(NamedTuple):
    """Possible name as written in the text. ``weight``, above 0 and at most 1, is higher for a more certain name."""

    text: str
    weight: float


class TextNames(NamedTuple):
    """Names in one text (quoted names first), its normalised words with "" before each sentence, and function words."""

    names: Sequence[Name]
    words: Sequence[str]
    language: FunctionWords


def read(texts: Sequence[str], title: str = "") -> list[TextNames]:
    """Return the names in each part of one document. The title is used only to determine the language.

    >>> reading, = read(["Ada Lovelace wrote to Charles Babbage. His engine was never built in London."])
    >>> [name.text for name in reading.names]
    ['Ada Lovelace', 'Charles Babbage', 'London']
    """
    pieces = list(map(_pieces, texts))
    vocabulary = {word for text in pieces for _, word in text}
    language = function_words(vocabulary.union(title[:MOST_LETTERS].lower().split()))
    runs = [list(_runs(text, language)) for text in pieces]
    # Words that are capitalised inside a sentence.
    certain = {word for run in chain.from_iterable(runs) for word in run.words[run.at_start :]}
    readings = []
    for text, text_pieces, text_runs in zip(texts, pieces, runs, strict=True):
        names = [*_quoted(text), *(name for run in text_runs for name in run.names(vocabulary, certain, language))]
        readings.append(TextNames(names, _words(text_pieces), language))
    return readings


# -- normal forms ------------------------------------------------------------------------------------------------------


def text_words(text: str) -> list[str]:
    """Return the normalised words of a text, with "" before each sentence.

    >>> text_words("J. K. Rowling. She")
    ['', 'jk', 'rowling', '', 'she']
    """
    return _words(_pieces(text))


def words_of(name: str) -> list[str]:
    """Return the words of a name in lower case, without accents, punctuation or possessive endings.

    >>> words_of("Curaçao’s U.S. 東京")
    ['curacao', 'us', '東', '京']
    """
    return [word for word in _words(_pieces(name)) if word]


def folded(text: str) -> str:
    """Return the text in lower case, without accents.

    >>> folded("Ἀθῆναι, CAFÉ, Straße")
    'αθηναι, cafe, strasse'
    """
    text = text.casefold()
    return text if text.isascii() else text.translate(_FOLDED)


def join_words(words: Iterable[str]) -> str:
    """Join words with spaces, except between two characters of a script without spaces."""
    text = " ".join(words)
    return text if text.isascii() else _BETWEEN_CHARACTERS.sub("", text)


# -- words -------------------------------------------------------------------------------------------------------------

Pieces = list[tuple[str, str]]  # (text before a word, the word)

_CHARACTERS = re.compile(f"[{UNSPACED}]")
_BETWEEN_CHARACTERS = re.compile(f"(?<=[{UNSPACED}]) (?=[{UNSPACED}])")
_SCRIPT_RUN = re.compile(f"[{UNSPACED}]|[^{UNSPACED}]+")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
# A piece begins at the start of the text or after a word, so that a run of punctuation is scanned once, not once per
# character.
_ASCII_PIECE = re.compile(r"(?<![^A-Za-z0-9])([^A-Za-z0-9]*)([A-Za-z0-9]+)")
_ANY_PIECE = r"(?<![^\wMARKS])([^\wMARKS]*)([\wMARKS]+)"


def _pieces(text: str) -> Pieces:
    if text.isascii():
        return _ASCII_PIECE.findall(text)
    return with_marks(_ANY_PIECE).findall(_INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).replace("_", " "))


# Types of the text between two words. A name can continue across a space or a hyphen, and across a dot after an
# initial; it ends with a sentence or line.
_SPACE, _DOT, _TIGHT_DOT, _APOSTROPHE, _SENTENCE_END, _BREAK = range(6)


class _Gaps(dict[str, int]):
    def __missing__(self, gap: str) -> int:
        kind = _SENTENCE_END if not gap or _END.search(gap) else _BREAK
        if len(gap) < 8 and len(self) < 1 << 16:
            self[gap] = kind
        return kind


_END = re.compile(r"[.!?…。！？｡।؟۔\n\r•|\x00]")


_GAPS = _Gaps(dict.fromkeys((" ", "-", "\u2010", "\u2011", " & ", "&", "·", "・"), _SPACE))
_GAPS.update({".": _TIGHT_DOT, ". ": _DOT, "'": _APOSTROPHE, "’": _APOSTROPHE, "ʼ": _APOSTROPHE})


class _NormalForms(dict[str, str]):
    """Map from a word as written to its normal form, with spaces between characters in scripts without spaces."""

    def __missing__(self, word: str) -> str:
        form = folded(word)
        if not form.isascii():
            if _ARABIC.search(form):
                form = _ARABIC_PREFIX.sub("", form)
            elif _CHARACTERS.search(form):
                form = " ".join(_SCRIPT_RUN.findall(form))
        if len(self) >= 1 << 18:
            self.clear()
        if len(word) <= 64:
            self[word] = form
        return form


_FOLDED = Unaccented({"أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ى": "ي", "ة": "ه", "ـ": ""})
_FORMS = _NormalForms()
_ARABIC = re.compile("[\u0621-\u064a]")
# Conjunctions, prepositions and the article are prefixes of the word; light10 (Larkey et al. 2002) removes them.
_ARABIC_PREFIX = re.compile("^(?:و?(?:ال|بال|كال|فال|لل)|و(?=\\w{3}))(?=\\w\\w)")


_ABBREVIATIONS = frozenset({
    "dr", "mr", "mrs", "ms", "prof", "st", "sr", "jr", "vs", "mt", "ft", "gen", "col", "lt", "capt", "cpl", "sgt",
    "maj", "adm", "gov", "sen", "rep", "rev", "hon", "inc", "ltd", "co", "corp", "bros", "no", "nr", "hl", "hr", "frau",
    "mme", "mlle", "sra", "dra", "ing",
})  # fmt: skip


def _words(pieces: Pieces) -> list[str]:
    """Return the normal forms of words, with "" before each sentence. Neighbouring initials are joined ("J. K.")."""
    words = [""]
    is_initial = False
    for gap, word in pieces:
        kind, form = _GAPS[gap], _FORMS[word]
        if kind == _APOSTROPHE and form == "s":
            continue
        ends = kind == _SENTENCE_END or (kind == _DOT and not is_initial and words[-1] not in _ABBREVIATIONS)
        if ends and words[-1]:
            words.append("")
        was_initial, is_initial = is_initial, len(form) == 1 and word.isupper()
        joins = was_initial and is_initial and kind != _BREAK
        if joins and 0 < len(words[-1]) < MOST_LETTERS:
            words[-1] += form
        else:
            words += form.split()
    return words


# -- runs of capitals --------------------------------------------------------------------------------------------------

# Small words inside names; "and" is not one of them, because it connects two names just as often.
_CONNECTORS = frozenset({
    "of", "the", "for", "de", "la", "le", "las", "los", "el", "del", "della", "dello", "delle", "dei", "degli", "di",
    "da", "do", "dos", "das", "du", "des", "d", "l", "van", "von", "der", "den", "ter", "ten", "te", "zu", "zum", "zur",
    "im", "am", "y", "al", "bin", "ibn", "ben", "abu", "af", "av", "til", "på", "na", "nad", "pod",
})  # fmt: skip
# "der Name der Stadt": in languages that capitalise nouns, most small words separate names.
_CONNECTORS_OF_NOUNS = frozenset({"von", "van", "de", "la", "di", "da", "of", "the", "al", "bin"})
_MOST_CONNECTORS = 3


class _CapitalizedWords(NamedTuple):
    """Run of neighbouring capitalised words, with the gap before each, ``at_start`` if a sentence begins with it."""

    words: Sequence[str]
    gaps: Sequence[str]
    at_start: bool

    def names(self, vocabulary: Set[str], certain: Set[str], language: FunctionWords) -> Iterator[Name]:
        """Yield the complete run, and the parts of it that are names by themselves."""
        lowers = list(map(str.lower, self.words))
        capitals = [n for n, word in enumerate(self.words) if word != lowers[n] and lowers[n] not in language.words]
        # Leave out function words ("The", "In") and words without a capital at the beginning of a sentence.
        first = capitals[0] if capitals and self.at_start else 0
        words, gaps = self.words[first:], self.gaps[first:]
        if not capitals or len(words) > MOST_WORDS:
            return
        if len(words) == 1:
            is_sure = not self.at_start or len(self.words) > 1 or words[0] in certain
            if is_sure and len(words[0]) > 1 and words[0].lower() not in _ABBREVIATIONS:
                yield Name(words[0], COMMON_NOUN if language.capital_nouns and words[0].istitle() else SINGLE)
            return
        yield Name(_surface(words, gaps), WHOLE)
        parts = list(_parts(words, gaps))
        if len(parts) > 1:
            yield from (Name(part, PART) for part in parts if len(part) > 3)
        elif len(words) > 2 and len(words[0]) > 1:
            # Vice President [Adlai Stevenson], Nathan [H.] Juran
            inner = [word for word in words[1:-1] if len(word) > 1]
            is_initialled = len(inner) < len(words) - 2
            short = " ".join([words[0], *inner, words[-1]]) if is_initialled else _surface(words[-2:], gaps[-2:])
            yield Name(short, PART)
        elif len(words) == 2 and words[0].lower() in vocabulary:
            yield Name(words[1], PART)


def _runs(pieces: Pieces, language: FunctionWords) -> Iterator[_CapitalizedWords]:
    words: list[str] = []
    between: list[str] = []
    pending = 0  # small words at the end of the run
    start = at_start = True
    gaps, functions = _GAPS, language.words
    connectors = _CONNECTORS_OF_NOUNS if language.capital_nouns else _CONNECTORS
    for gap, word in (*pieces, ("\n", "")):
        kind = gaps[gap]
        if kind == _APOSTROPHE and word in ("s", "S"):
            if words and not pending:
                words.append("s")
                between.append(gap)
                pending = 1
            continue
        capital = not word.islower() and word != word.lower()
        if kind in (_SPACE, _APOSTROPHE):
            goes_on, start = True, False
        elif kind in (_DOT, _TIGHT_DOT):
            last = words[-1] if words else ""
            short = (len(last) == 1 and last.isupper()) or last.lower() in _ABBREVIATIONS
            goes_on = short and not pending and word.lower() not in functions
            start = not goes_on
        else:
            goes_on, start = False, kind == _SENTENCE_END
        if words and goes_on and (capital or (word.isdigit() and gap == " " and words[-1].lower() not in functions)):
            words.append(word)
            between.append(gap)
            pending = 0
        elif words and goes_on and pending < _MOST_CONNECTORS and word in connectors:
            words.append(word)
            between.append(gap)
            pending += 1
        else:
            if words:
                end = len(words) - pending
                yield _CapitalizedWords(words[:end], between[:end], at_start)
            words, between, pending = ([word], [""], 0) if capital else ([], [], 0)
            at_start = start


def _surface(words: Sequence[str], gaps: Sequence[str]) -> str:
    return words[0] + "".join(gap + word for gap, word in zip(gaps[1:], words[1:], strict=True))


def _parts(words: Sequence[str], gaps: Sequence[str]) -> Iterator[str]:
    """Yield the parts between connecting words, such as "University" and "Arkansas" in "University of Arkansas"."""
    start = 0
    for place, word in enumerate([*words, "of"]):
        if word in _CONNECTORS or word == "s":
            if place > start:
                yield _surface(words[start:place], gaps[start:place])
            start = place + 1


# -- quotation marks ---------------------------------------------------------------------------------------------------

_QUOTE = re.compile('["“”„«»「『《〈‹]')
_QUOTED = re.compile(
    '"([^"\n]{2,80})"|[“„]([^“”„\n]{2,80})[”“]|«\\s?([^«»\n]{2,80}?)\\s?»|「([^「」\n]{2,40})」|『([^『』\n]{2,40})』|'
    "《([^《》\n]{2,40})》|〈([^〈〉\n]{2,40})〉"
)


def _quoted(text: str) -> Iterator[Name]:
    if not _QUOTE.search(text):
        return
    for groups in _QUOTED.findall(text):
        name = next(filter(None, groups)).strip().rstrip(".,;:!?")
        first = next((c for c in name if c.isalnum()), "")
        words = name.split()
        if first and not first.islower() and len(words) <= MOST_WORDS and not name.isdigit() and len(name) > 1:
            yield Name(name, QUOTED)


# Names of entities in texts and document titles.

MOST_CHARACTERS = 12  # maximum number of characters of a title in a script without spaces
_QUALIFIER = re.compile(r"\s*[(（\[][^)）\]]*[)）\]]\s*$")


@functools.lru_cache(1 << 16)
def entity_name(name: str, language: FunctionWords) -> str:
    """Return the normalised name of an entity, without an article, or "" if ``name`` is not a name.

    Numbers, dates, words such as "the", single characters, and strings of more than a hundred letters are not names.

    >>> english = function_words(["the"])
    >>> [entity_name(name, english) for name in ("The Beatles’", "St. Louis", "June 1843", "The Who", "1,000", "X")]
    ['beatles', 'st louis', '', '', '', '']
    """
    words = words_of(name[: 4 * MOST_LETTERS])
    if all(word.isdigit() or word in language.words for word in words):
        return ""
    entity = join_words(words[1:] if words[0] in language.articles else words)
    return entity if 1 < len(entity) <= MOST_LETTERS else ""


def title_names(title: str, language: FunctionWords) -> Iterator[tuple[str, str, bool]]:
    """Yield (name, spelling, is_certain) for the names in a document's title, also without a qualifier ("(planet)").

    A name that is not certain should be used only if it is also in the text: the part before a comma, and both parts
    in reverse order, so that "Lovelace, Ada" gives "Ada Lovelace".
    """
    title = title[: 4 * MOST_LETTERS]
    short = _QUALIFIER.sub("", title)
    before, comma, after = short.partition(",")
    forms = [(title, True), (short, True)]
    if comma:
        forms += [(before, False), (f"{after} {before}", False)]
    names: set[str] = set()
    for form, is_certain in forms:
        if (name := entity_name(form, language)) and name not in names:
            names.add(name)
            yield name, " ".join(form.split()), is_certain


def names_in(text: str) -> list[str]:
    """Return the parts of a question that may be names of ``entity:`` and ``title:`` nodes; most have no node.

    >>> names_in("Who taught Ada Lovelace?")
    ['ada lovelace', 'taught', 'taught ada', 'taught ada lovelace', 'lovelace']
    >>> names_in("林 in 北京 Zoo")
    ['zoo', '林 in', '林 in 北', '林 in 北京', '林 in 北京 zoo', '北京', '北京 zoo', '京 zoo']
    """
    (reading,) = read([text])
    names = [entity_name(name.text, reading.language) for name in reading.names]
    functions = function_words(set(reading.words)).words
    return list(dict.fromkeys(filter(None, (*names, *possible_titles(reading.words, functions)))))


def is_distinctive(words: Sequence[str], functions: Set[str]) -> bool:
    """Return whether the words of a title can be recognised in a text without capitals.

    >>> [is_distinctive(title.split(), {"the"}) for title in ("water cycle", "whale", "the whale", "cat", "1984", "北")]
    [True, True, False, False, False, False]
    """
    if _CHARACTERS.match(words[0]):
        return 2 <= len(words) <= MOST_CHARACTERS
    if len(words) > MOST_WORDS or words[0] in functions or words[-1] in functions:
        return False
    return len(words) > 1 or (len(words[0]) > 3 and not words[0].isdigit())


def possible_titles(words: Sequence[str], functions: Set[str] = frozenset()) -> Iterator[str]:
    """Yield each sequence of words that may be a document's title, without those that begin or end with ``functions``.

    To find stored titles, which may be in another language than the words, pass no ``functions``.
    """
    are_characters = [_CHARACTERS.match(word) is not None for word in words]
    for place, word in enumerate(words):
        if not word or word in functions:
            continue
        name = ""  # each candidate extends the one before; calling join_words() for each takes seven times longer
        for end in range(place + 1, min(place + max(MOST_CHARACTERS, MOST_WORDS), len(words)) + 1):
            last = words[end - 1]
            if not last:
                break
            name += last if not name or (are_characters[end - 2] and are_characters[end - 1]) else f" {last}"
            if end - place > 1 if are_characters[place] else is_distinctive(words[place:end], functions):
                yield name
