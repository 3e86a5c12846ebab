"""Estimate of whether a question needs its conversation."""

from __future__ import annotations

import re

from langchain_hybridgraph.text.stop_words import function_words

# Number of characters of a question that are read.
_BEGINNING = 1_000
_DISTINCT = 4  # a question with this number of content words is complete
_CONTINUES = re.compile(
    r"\W*(?:(?:and|but|or|so|then|also|(?:what|how) about|what of|"
    r"und|aber|oder|was ist mit|wie (?:ist|steht) es mit|et|mais|ou|qu['’]en est-il|y|pero|qué (?:tal|hay)|e|ma|mas|en|"
    r"maar|и|а|но|что насч[её]т)\b|那|还有|還有)",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(
    r"\b(?:it|its|they|them|theirs?|this|that|these|those|he|him|his|she|hers?|there|one|ones|same|other|others|"
    r"another|else|instead|too|"
    r"er|ihn|ihm|ihre?[mnrs]?|seine[mnrs]?|diese[mnrs]?|jene[mnrs]?|davon|dafür|damit|daran|darin|dort|dessen|deren|"
    r"ils|elles?|lui|leurs?|celui|celles?|ceux|cela|ça|él|ellas?|ellos|es[aeo]s?|suy[ao]s?|lei|loro|"
    r"он|она|они|его|её|их)\b|[它他她这這]|それ|これ",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+")
# Parts of words that remain after splitting a text at apostrophes.
_LEFT_OVER = frozenset(
    ("re", "ll", "ve", "don", "doesn", "didn", "isn", "aren", "wasn", "weren", "couldn", "wouldn", "shouldn", "hasn")
)
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_LETTERS = re.compile(
    "[\u30a1-\u30ff]{2,}|[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]{1,2}|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]{1,5}"
)
# Chinese (simplified and traditional) function words; Japanese writes its own in hiragana.
_CHINESE = re.compile(
    "什[么麼]|怎[么麼样樣]*|为什|為什|多少|哪[里裡个個些]?|几个|幾個|那[么麼个個些里裡]?|这[么个些里]?|這[麼個些裡]?|可以|还有|還有|"
    "[的是了吗嗎呢在有和也都很它他她们們吧啊我你您请請与與或就还還吗几幾谁誰为為呀被把给給对對于於从從到]"
)


def leaning(query: str) -> float:
    """Return how strongly a question depends on earlier turns, from 0 to 1, estimated from its number of content words.

    >>> leaning("why?"), leaning("What about Romeo and Juliet?"), leaning("How heavy is the red car?")
    (1.0, 1.0, 0.5)
    >>> leaning("它的价格是多少？"), leaning("Wie alt ist denn Karls rotes Auto in Berlin?")
    (1.0, 0.0)
    """
    count = len({word.lower() for word in content_words(query[:_BEGINNING])})
    return max(0.0, min(1.0, (_DISTINCT - count) / (_DISTINCT - 2)))


def continues(query: str) -> bool:
    """Return whether a question refers back to earlier turns.

    It does if it begins with a word such as "and", contains a word such as "it" or "other", or has no content words.
    """
    beginning = query[:_BEGINNING]
    return bool(_CONTINUES.match(beginning) or _POINTS_BACK.search(beginning)) or not content_words(beginning)


def content_words(text: str) -> list[str]:
    """Return the content words of a text, in order."""
    words = _WORD.findall(text)
    building = function_words([word.lower() for word in words]).words | _LEFT_OVER
    return [part for word in words for part in _parts(word) if part.lower() not in building]


def _parts(word: str) -> list[str]:
    """Return a list that contains the word, or its parts if its script has no spaces.

    In scripts with spaces, single letters are left out.
    """
    if _UNSPACED.search(word):
        return _LETTERS.findall(_CHINESE.sub(" ", word))
    return [word] if len(word) > 1 or word.isdigit() else []
