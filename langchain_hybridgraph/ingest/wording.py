"""Whether two texts say the same in the same words."""

from __future__ import annotations

import re
import unicodedata

from langchain_hybridgraph.function_words import function_words

# A number with its sign and its parts, a word with what is joined to it (isn't, well-known), or a sign that means
# something (?, %, €, +); the other signs only part words.
_TOKENS = re.compile(
    r"(?:(?<!\S)[-−])?\d+(?:[.,:/-]\d+)*\w*|\w+(?:['’-]\w+)*|[^\w\s.,;:!…\"“”„«»'‘’()\[\]–—-]",
)


def same_wording(one: str, other: str) -> bool:
    """Whether two texts have the same words in the same order, but for English articles, signs and the first capital.

    No vector tells "is" from "is not", "Cy owes Bo" from "Bo owes Cy" or 3 from 4 reliably, so nothing else may differ:
    neither names, numbers and order, nor prepositions, tenses, negations and capitals ("Polish" is not "polish"). In
    languages other than English the articles count, too: "der Hund" and "den Hund" are who bites and who is bitten.

    >>> same_wording("The red car is fast.", "Red car is fast!")
    True
    >>> same_wording("Ada is allergic to nuts.", "Ada is not allergic to nuts.")
    False
    """
    return _said(one) == _said(other)


def _said(text: str) -> list[str]:
    words = _TOKENS.findall(unicodedata.normalize("NFC", text).replace("’", "'").replace("−", "-"))
    words[:1] = [word[:1].lower() + word[1:] for word in words[:1]]
    articles = function_words(word.lower() for word in words).articles
    return [word for word in words if word not in articles] if "the" in articles else words
