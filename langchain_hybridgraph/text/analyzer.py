"""Splitting of text into words, and stop words."""

from __future__ import annotations

import functools
import logging
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from operator import add
from typing import NamedTuple

from langchain_hybridgraph.errors import ConfigurationError, quote_value
from langchain_hybridgraph.registry import nearest

# Stop words for searches, and function words of languages.

# Snowball's English list and the remains of contractions. Mean nDCG@10 over thirteen evaluation sets: .605; with the
# 33 words of Tantivy and Lucene .587 (lower on every set), without stop words .585.
_ENGLISH = """
i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
it its itself they them their theirs themselves what which who whom this that these those am is are was were be
been being have has had having do does did doing would should could ought can will a an the and but if or because
as until while of at by for with about against between into through during before after above below to from up
down in out on off over under again further then once here there when where why how all any both each few more
most other some such no nor not only own same so than too very just now
don doesn didn isn aren wasn weren hasn haven hadn wouldn couldn shouldn
"""
ENGLISH_STOP_WORDS = frozenset(_ENGLISH.split())


class FunctionWords(NamedTuple):
    """Words of a language that may precede a name, or be capitalised without being a name.

    ``words`` include months and weekdays if the language capitalises them. ``articles`` are never part of a name.
    ``capital_nouns`` is true if all nouns are capitalised.
    """

    words: frozenset[str]
    articles: frozenset[str]
    capital_nouns: bool = False


@functools.cache
def _languages() -> dict[str, FunctionWords]:
    table = (files(__package__) / "function_words.txt").read_text("utf-8").replace("\n  ", " ")
    languages = {}
    for line in table.splitlines()[1:]:
        code, _, words = line.partition(": ")
        bare = "".join(c for c in unicodedata.normalize("NFD", words) if not unicodedata.combining(c))
        (articles, others), (bare_articles, _) = words.split("/"), bare.split("/")
        every = frozenset(f"{articles} {others} {bare}".split()) - {"/"}
        languages[code] = FunctionWords(every, frozenset(f"{articles} {bare_articles}".split()), code == "de")
    return languages


@functools.cache
def _languages_of_words() -> dict[str, list[str]]:
    codes: dict[str, list[str]] = {}
    for code, language in _languages().items():
        for word in language.words:
            codes.setdefault(word, []).append(code)
    return codes


def function_words(words: Iterable[str]) -> FunctionWords:
    """Return the function words of the language that these lower-case words are probably in, or none.

    >>> function_words("la casa de los abuelos".split()).articles >= {"el", "los"}
    True
    """
    languages_of = _languages_of_words()
    votes: Counter[str] = Counter()
    for word in words:
        votes.update(languages_of.get(word, ()))
    if not votes:
        return FunctionWords(frozenset(), frozenset())
    return _languages()[max(votes, key=lambda code: (votes[code], code == "en", code))]


# Splitting of text into words.

# Han, Kana, Hangul and their extensions: written without spaces, or with words of many tokens.
CJK = "\u1100-\u11ff\u2e80-\u2fdf\u3040-\u30ff\u3130-\u318f\u31c0-\u31ff\u3400-\u4dbf\u4e00-\u9fff" + (
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_CJK = re.compile(f"[{CJK}]")


def approximate_tokens(text: str) -> int:
    """Return :func:`token_weight` of a text, rounded down.

    >>> [approximate_tokens("word " * n) for n in (1, 3, 4, 100)], approximate_tokens("你好世界")
    ([1, 3, 5, 130], 6)
    """
    return int(token_weight(text))


def token_weight(text: str) -> float:
    """Return the approximate number of tokens in a text without rounding it, so that the counts of parts can be added.

    A word adds 1.3 tokens and a CJK character adds 1.5. The result is at least one token per 16 characters, because
    text without spaces (base64, minified code) has many tokens but few words. It is subadditive.

    >>> token_weight("two words"), token_weight("你好"), token_weight("x" * 160)
    (2.6, 3.0, 10.0)
    """
    rest, characters = (text, 0) if text.isascii() else _CJK.subn(" ", text)
    return max((13 * len(rest.split()) + 15 * characters) / 10, len(text) / 16)


_ACCENTS = frozenset([*range(10, 36), *range(200, 241)])  # combining classes


# Letters that Unicode does not decompose, or, such as "й", should not.
_LETTERS = {
    "ł": "l", "ø": "o", "đ": "d", "ı": "i", "ß": "ss", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d", "ħ": "h", "й": "й",
}  # fmt: skip


class Unaccented(dict[int, str]):
    """Table for ``str.translate`` that removes the accents of letters, and Arabic and Hebrew points.

    Vowel signs of Indic scripts are kept, because they are letters. ``others`` contains further replacements.

    >>> "łódź, हिन्दी".translate(Unaccented({}))
    'lodz, हिन्दी'
    """

    def __init__(self, others: Mapping[str, str]) -> None:
        super().__init__({ord(letter): bare for letter, bare in {**_LETTERS, **others}.items()})

    def __missing__(self, point: int) -> str:
        bare = "".join(c for c in unicodedata.normalize("NFKD", chr(point)) if unicodedata.combining(c) not in _ACCENTS)
        self[point] = unicodedata.normalize("NFC", bare)
        return self[point]


@functools.cache
def combining_marks() -> str:
    """Return the combining marks, which \\w does not match, as one string for the character classes of patterns.

    U+FE00 to U+FE0F, which occur in emoji, and marks above U+FFFF, which make ``re`` very slow, are not included.
    """
    return "".join(c for c in map(chr, range(0x300, 0xFE00)) if unicodedata.category(c)[0] == "M")


@functools.cache
def with_marks(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which MARKS, inside a character class, stands for :func:`combining_marks`."""
    return re.compile(pattern.replace("MARKS", combining_marks()))


# A word is a run of letters, combining marks and digits. It is converted to lower case, its accents are removed, and it
# is reduced to its stem. A stem need not be a real word, because it is only compared with other stems.
#
# - Scripts without spaces are split in the same way for every ``language``. Han, kana and Hangul are split into single
#   characters and pairs of adjacent characters, because a single character is often a word. Thai, Lao, Khmer and
#   Burmese are split only into pairs, because a single letter is never a word.
# - Identifiers can be found by their parts: ``os.path.join``, ``snake_case`` and ``v1.2.3`` are split at their
#   punctuation; ``CamelCase`` is indexed both as one word and in parts.
# - Stop words are indexed like any other word. They are left out of a question, unless it consists only of stop words:
#   "The Who" is found, and "who wrote it" searches for "wrote".
#
# Stemmers come from Tantivy, and so do stop words, except those for English. If Tantivy cannot be imported, words are
# not stemmed, and only English has stop words.

Reduce = Callable[[str], list[str]]

logger = logging.getLogger(__name__)

VERSION = 2  # version of the index contents: an index with another version has to be rebuilt

_STEMMED = {
    "ar": "arabic", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish", "fi": "finnish",
    "fr": "french", "hu": "hungarian", "it": "italian", "nb": "norwegian", "nl": "dutch", "nn": "norwegian",
    "no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sv": "swedish", "ta": "tamil",
    "tr": "turkish",
}  # fmt: skip
# Tantivy has a stemmer but no stop words for these languages. Its English list of stop words lacks question words.
_WITHOUT_STOP_WORDS = frozenset(["arabic", "english", "greek", "romanian", "tamil", "turkish"])
_UNSTEMMED = {
    "hi": "hindi", "ja": "japanese", "ko": "korean", "th": "thai", "vi": "vietnamese", "zh": "chinese",
}  # fmt: skip
_CODES = _STEMMED | _UNSTEMMED
LANGUAGES = tuple(sorted({*_CODES.values(), "cjk", "multilingual", "none"}))

_LONGEST = 128  # maximum number of characters of a word: the length of a SHA-512 in hex; anything longer is data
_CACHE_SIZE = 1 << 18  # surface forms; 64,000 texts of 640 characters have 153,000

_IDEOGRAPHS = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3100-\u312f\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNSPACED_LETTERS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf"
UNSPACED = f"{_IDEOGRAPHS}{_UNSPACED_LETTERS}"  # the inside of a character class
_UNSPACED = re.compile(f"[{UNSPACED}]")
_SCRIPT_RUNS = re.compile(f"[{_IDEOGRAPHS}]+|[{_UNSPACED_LETTERS}]+|[^{UNSPACED}]+")
_IDEOGRAPH = re.compile(f"[{_IDEOGRAPHS}]")

_ASCII_WORD = re.compile("[A-Za-z0-9]+")
_ASCII_WORDS = bytes(ord(chr(i).lower()) if i < 128 and chr(i).isalnum() else ord(" ") for i in range(256))
_CONTRACTION = re.compile("['’](?:[sStdm]|ll|re|ve)(?!\\w)")  # "Ada's", "isn't": a lone s or t has no meaning
_JOINERS = re.compile("[\u00ad\u200c\u200d\u2060]")  # soft hyphen and joiners occur inside words
_HUMPS = re.compile("(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])(?![A-Z]s$)")  # but "URLs" is one word


class Analyzer:
    """Text analyzer for one language, which splits texts into words.

    ``language`` is a name ("english", "german", …) or an ISO code ("en", "pt-BR"). With None, "none", "cjk" or
    "multilingual", there is no stemmer and there are no stop words. Scripts without spaces work with every language.
    With "vietnamese", accents are kept, because they are tones (xquad: nDCG@10 .959 with them, .935 without them).
    Raises ConfigurationError for an unknown language.

    >>> Analyzer("english").words("Why are the Cafés closing?")
    ['cafe', 'close']
    >>> Analyzer("none").words("数据 os.path.join")
    ['数', '据', '数据', 'os', 'path', 'join']
    """

    def __init__(self, language: str | None = "english") -> None:
        self.language = language_name(language)
        self._every = _vocabulary(self.language, False)
        self._telling = _vocabulary(self.language, True)

    @property
    def name(self) -> str:
        """Language and version of the analyzer, which an index stores to detect a mismatch."""
        unstemmed = self.language in _STEMMED.values() and not self.stems
        return f"{self.language}{' without stemming' if unstemmed else ''}/{VERSION}"

    def words(self, text: str) -> list[str]:
        """Return all words except stop words, or the stop words if there are no others, in order, with repetitions."""
        return self._telling.join_words(text).split() or self._every.join_words(text).split()

    def count_words(self, text: str) -> int:
        """Return the number of different words in a text, without stop words unless there are no others.

        A compound such as "getUserName" is one word. In scripts without spaces, two characters count as one word.

        >>> Analyzer().count_words("How is getUserName used?"), Analyzer().count_words("安装指南")
        (2, 2)
        """
        forms = dict.fromkeys(_surface_forms(text))
        count = 0
        for form in list(filter(self._telling.__getitem__, forms)) or forms:
            count += math.ceil(len(form) / 2) if _UNSPACED.search(form) else 1
        return count

    def has_telling_words(self, text: str) -> bool:
        """Return whether a question contains at least one word that is not a stop word."""
        return bool(self._telling.join_words(text).strip())

    def all_words(self, text: str) -> list[str]:
        """Return all words of a text, including stop words, as an index stores them."""
        return self._every.join_words(text).split()

    def joined_words(self, text: str) -> str:
        """Return the words of :meth:`all_words` as one string, separated by spaces."""
        return self._every.join_words(text)

    # -- words before stemming, for an index that stems them itself ---------------------------------------------

    @property
    def stems(self) -> bool:
        """Whether words are reduced to their stems."""
        return self.language in _STEMMED.values() and _tantivy_filter("stemmer", self.language) is not None

    def unstemmed_words(self, text: str) -> str:
        """Return the words of :meth:`all_words` before stemming, separated by spaces."""
        return _vocabulary(self.language, False, False).join_words(text)

    def is_plain(self, run: str) -> bool:
        """Return whether :meth:`ascii_words` returns all words of a run of characters without spaces."""
        if not run.isascii() or len(run) > _LONGEST or self.language == "turkish":
            return False
        return run.islower() or run[1:].islower() or _HUMPS.search(run) is None

    def ascii_words(self, text: str) -> str:
        """Return the words before stemming of a text in which all runs of characters are plain."""
        text = _CONTRACTION.sub("", text) if "'" in text else text
        return text.encode().translate(_ASCII_WORDS).decode()


def language_name(language: str | None) -> str:
    """Return the name of a language, given its name or ISO code, or "none" for None, or raise ConfigurationError."""
    if language is None:
        return "none"
    name_or_code = str(language).strip().lower()
    name = _CODES.get(re.split("[-_]", name_or_code)[0], name_or_code)
    if name not in LANGUAGES:
        raise ConfigurationError(
            f"language {quote_value(language)} is not known; {nearest(name, LANGUAGES)}use one of "
            f"{', '.join(LANGUAGES)}, or an ISO code such as 'en'. language='none' compares words without stemming, in "
            "any language"
        )
    return name


class _Vocabulary(dict[str, str]):
    """Cache that maps a word as written to its indexed words, joined by spaces."""

    def __init__(self, stem: Reduce, keep: Callable[[str], object], lower: Callable[[str], str], fold: bool) -> None:
        super().__init__()
        self._stem, self._keep, self._lower, self._fold = stem, keep, lower, fold

    def join_words(self, text: str) -> str:
        return " ".join(map(self.__getitem__, _surface_forms(text)))

    def __missing__(self, form: str) -> str:
        if _UNSPACED.search(form):  # a sentence without spaces is not worth caching
            return " ".join(map(self._run, _SCRIPT_RUNS.findall(form)))
        if len(form) > _LONGEST:
            return self[form[:_LONGEST]]
        parts = _HUMPS.split(form)
        # A word with single letters, such as "iPhone" or "IPv6", is not divided.
        forms = [form, *parts] if len(parts) > 1 and min(map(len, parts)) > 1 else [form]
        matching = " ".join(map(self._word, forms))
        if len(self) >= _CACHE_SIZE:
            self.clear()
        self[form] = matching
        return matching

    def _run(self, run: str) -> str:
        if not _UNSPACED.match(run):
            return self[run]
        letters: Sequence[str] = (
            run if run.isalpha() else with_marks("(?s:.)[MARKS]*").findall(run)
        )  # a mark is not alphabetic
        pairs = " ".join(map(add, letters, letters[1:]))
        is_ideographic = len(letters) == 1 or _IDEOGRAPH.match(run)
        return f"{' '.join(letters)} {pairs}" if is_ideographic else pairs

    def _word(self, form: str) -> str:
        word = self._lower(form)
        if not self._keep(word):
            return ""
        if self._fold and not word.isascii():
            word = word.translate(_FOLDED)
        return " ".join(self._stem(word))


@functools.cache
def _vocabulary(language: str, without_stop_words: bool, stemmed: bool = True) -> _Vocabulary:
    keep: Callable[[str], object] = bool
    if without_stop_words and language == "english":
        keep = _is_not_english_stop_word
    elif without_stop_words and language in frozenset(_STEMMED.values()) - _WITHOUT_STOP_WORDS:
        keep = _tantivy_filter("stopword", language) or bool
    has_stemmer = stemmed and language in _STEMMED.values()
    stem = (_tantivy_filter("stemmer", language) if has_stemmer else None) or (lambda word: [word])
    lower = _turkish_lower if language == "turkish" else str.lower
    return _Vocabulary(stem, keep, lower, fold=language != "vietnamese")


def _is_not_english_stop_word(word: str) -> bool:
    return word not in ENGLISH_STOP_WORDS


@functools.cache
def _tantivy_filter(kind: str, language: str) -> Reduce | None:
    try:
        import tantivy

        step = getattr(tantivy.Filter, kind)(language)
        reduce: Reduce = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw()).filter(step).build().analyze
    except Exception as error:  # noqa: BLE001 - a broken wheel may raise anything; rank_bm25 works without stems
        logger.warning("Tantivy cannot be used, so words are not stemmed, and only English has stop words: %s", error)
        return None
    return reduce


def _turkish_lower(word: str) -> str:
    return word.replace("I", "ı").replace("İ", "i").lower()


def _surface_forms(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(_CONTRACTION.sub("", text) if "'" in text else text)
    text = unicodedata.normalize("NFKC", _JOINERS.sub("", text))
    return with_marks(r"\w[\wMARKS]*").findall(_CONTRACTION.sub("", text).replace("_", " "))


# Folding comes before stemming, so that "célébrité" and "celebrite" are always the same word. On eight languages of
# xquad, mean nDCG@10 is .946 (.948 in the other order), and .947 (.944) with questions written without accents.
_FOLDED = Unaccented({})


LONGEST_QUERY = 10_000
"""Maximum number of characters of a query that are used.

The work of every stage grows with the length of the query. It grows fastest in the graph, which looks up possible
names: in Chinese text, up to twelve possible names begin at each character.
"""

MOST_WORDS = 128
"""Maximum number of words of a query that a keyword search uses; the rest of a pasted book costs time and adds little.
"""


def bounded(text: str | None, degrade: Callable[[str, str], None]) -> str | None:
    """Return the first ``LONGEST_QUERY`` characters of a query. If it is longer, report ``query-cut`` to ``degrade``.

    >>> len(bounded("long " * 5_000, print))
    query-cut the query has 25,000 characters; the first 10,000 were searched for
    10000
    """
    # A query that is not a string is rejected later, by the search, so that telemetry reports the error.
    if not isinstance(text, str) or len(text) <= LONGEST_QUERY:
        return text
    degrade("query-cut", f"the query has {len(text):,} characters; the first {LONGEST_QUERY:,} were searched for")
    return text[:LONGEST_QUERY]


def telling_terms(words: Iterable[str], frequency: Callable[[str], float], texts: int) -> list[tuple[str, int]]:
    """Return the words of a question that an index contains, as (word, count) pairs in alphabetical order.

    ``frequency`` returns the number of the ``texts`` that contain a word. At most 128 of the ``words`` are returned:
    those with the largest count · ln(1 + texts / frequency), which can add the most to a score.

    >>> telling_terms(["lovelace", "ada", "ada", "unknown"], {"ada": 7, "lovelace": 1, "unknown": 0}.__getitem__, 9)
    [('ada', 2), ('lovelace', 1)]
    """
    counts = Counter(words)
    indexed = sorted(word for word in counts if frequency(word))
    if len(indexed) > MOST_WORDS:
        indexed.sort(key=lambda word: counts[word] * math.log(1 + texts / frequency(word)), reverse=True)  # stable
        indexed = sorted(indexed[:MOST_WORDS])
    return [(word, counts[word]) for word in indexed]
