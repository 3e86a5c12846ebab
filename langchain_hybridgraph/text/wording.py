"""Comparison of the wording of two texts."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from langchain_hybridgraph.text.analyzer import function_words

# A number with its sign and its parts, a word including apostrophes and hyphens (isn't, well-known), or a character
# with a meaning (?, %, €, +). Other punctuation only separates words.
_TOKENS = re.compile(r"(?:(?<!\S)[-−])?\d+(?:[.,:/-]\d+)*\w*|\w+(?:['’-]\w+)*|[^\w\s.,;:!…\"“”„«»'‘’()\[\]–—-]")


def same_wording(one: str, other: str) -> bool:
    """Return whether two texts have the same words in the same order.

    Only English articles, the capitalisation of the first word and most punctuation (but not "?") are ignored: vectors
    cannot reliably distinguish "is" from "is not", and German articles distinguish subject from object.

    >>> same_wording("The red car is fast.", "Red car is fast!")
    True
    >>> same_wording("Ada is allergic to nuts.", "Ada is not allergic to nuts.")
    False
    """
    return _compared_words(one) == _compared_words(other)


def may_be_reworded(one: str, other: str, *, synonyms: bool = True) -> bool:
    """Return whether two texts differ so little that a high cosine proves that they say the same.

    In any language, a phrase may have moved from the start to the end. Or, in English, words without a meaning of their
    own ("really", "is") may be added or removed; with ``synonyms``, plain words of texts of up to 20 words may also be
    replaced. Numbers, names, negations, tenses, prepositions and words with opposites must be the same, in the same
    order. The result is False for texts of more than 10,000 characters.

    >>> may_be_reworded("Ada drinks tea at work.", "Ada sips tea at work.")
    True
    >>> may_be_reworded("Ada is 31.", "Ada is 32."), may_be_reworded("Ada drinks tea.", "Ada does not drink tea.")
    (False, False)
    """
    is_short = max(len(one), len(other)) <= _LONGEST
    words, other_words = (_tokens(one), _tokens(other)) if is_short else ([], [])
    if not words or not other_words:
        return False
    if _is_moved(_compared_words(one), _compared_words(other)):
        return True
    language = function_words(word.lower() for word in (*words, *other_words))
    if language.words and "the" not in language.articles:
        return False
    *ours, own = _sort_words(words, other_words)
    *theirs, other_own = _sort_words(other_words, words)
    if ours != theirs or len(own) != len(other_own):
        return False
    if own and not (synonyms and max(len(words), len(other_words)) <= _LONGEST_REWORDED):
        return False
    same_tense = list(map(_is_past, own)) == list(map(_is_past, other_own))
    pairs = (sorted(pair, key=len) for pair in product(own, other_own))
    return same_tense and not any(_are_opposites(word, longer) for word, longer in pairs)


def _sort_words(words: Sequence[str], other_words: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the words that must also be in the other text, and of the remaining ones those in both and only here."""
    others = {word.lower() for word in other_words}
    guarded, shared, own = list[str](), list[str](), list[str]()
    for place, word in enumerate(words):
        lower = word.lower()
        is_title = place == 0 and word[1:] == lower[1:]  # the capital of the first word has no meaning
        if word in _WORDS["filler"] or (is_title and lower in _WORDS["filler"]):
            continue
        if _is_guarded(lower if is_title and lower in others | _ENGLISH else word):
            guarded.append(lower if is_title else word)
        elif lower in others:
            shared.append(lower)
        else:
            own.append(lower)
    return guarded, shared, own


def _is_guarded(word: str) -> bool:
    """Return whether replacing this word would change the statement, judged by the word alone."""
    is_plain = word.isascii() and word.isalpha() and word.islower()
    return not is_plain or word in _WORDS["significant"] or word in _ENGLISH


def _is_past(word: str) -> bool:
    return (len(word) > len("bed") and word.endswith("ed") and not word.endswith("eed")) or word in _WORDS["pasts"]


def _are_opposites(word: str, longer: str) -> bool:
    negated = longer.removesuffix(word) if longer.endswith(word) else ""
    bare = {each.removesuffix("less").removesuffix("ful") for each in (word, longer)}
    return negated in _NEGATING_PREFIXES or (len(bare) == 1 and "less" in word[-4:] + longer[-4:])


def _is_moved(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether moving words from the start to the end gives the other text, as in "in May Ada sings"."""
    firsts = {words[0].lower() for words in (one, other) if words}
    one, other = ([word.lower() if word.lower() in firsts else word for word in words] for words in (one, other))
    # As no word contains a line break, a string search finds the sequence of words, in linear time.
    return len(one) == len(other) and "\n".join(["", *other, ""]) in "\n".join(["", *one, *one, ""])


def _compared_words(text: str) -> list[str]:
    words = _tokens(text)
    words[:1] = [word[:1].lower() + word[1:] for word in words[:1]]
    articles = function_words(word.lower() for word in words).articles
    return [word for word in words if word not in articles] if "the" in articles else words


def _tokens(text: str) -> list[str]:
    return _TOKENS.findall(unicodedata.normalize("NFC", text).replace("’", "'").replace("−", "-"))


# With longer texts, all-MiniLM-L6-v2 gave cosines above .96 to instructions that differed in one command.
_LONGEST_REWORDED = 20
# Largest number of characters of a text that is compared word by word.
_LONGEST = 10_000
_TABLE = re.sub("(?m)^#.*", "", Path(__file__).with_name("english_words.txt").read_text(encoding="utf-8"))
_WORDS = {name: set(words.split()) for name, words in re.findall(r"\[(\w+)\]([^\[]*)", _TABLE)}
_ENGLISH = function_words(["the"]).words
_NEGATING_PREFIXES = frozenset(["un", "dis", "in", "im", "ir", "il", "non", "anti", "mis", "de"])
