"""Replacement of "he" and "she" by a person's name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_hybridgraph.query.conversation.expander import ConversationTurn
from langchain_hybridgraph.text.stop_words import function_words

_TURN = 1_000
_BACK = 6  # number of last turns that are searched for the name
_PERSON = re.compile(r"\b(he|she|him|his|hers?)\b(?P<owns>(?=\s+\w))?", re.IGNORECASE)
_PART = r"[^\W\d_a-z][^\W\d_]*\.?(?:['’-][^\W\d_]+)*"
# Two words or more; a single capitalised word may be the beginning of a sentence.
_NAME = re.compile(
    rf"(?<![\w'’])(?P<before>[Tt]he\s+)?(?P<name>{_PART}(?:\s+(?:(?:de|van|von|der|la|di|bin)\s+)*{_PART})+)"
)


def with_name(query: str, history: Sequence[ConversationTurn]) -> str:
    """Return the question with "he", "she" and forms such as "his" replaced by a name, if only one person can be meant.

    The name is taken from the latest turn that contains a name, but only if that turn contains no other name. A name
    has at least two words and is not preceded by "the". If any word but the first begins with a capital, it may be a
    name, so the question is returned unchanged. Only English is supported.

    >>> from langchain_hybridgraph.query.conversation.history import turns
    >>> with_name("And whom did she marry?", turns([("user", "Who wrote it?"), ("ai", "Marguerite Oldenburg.")]))
    'And whom did Marguerite Oldenburg marry?'
    >>> with_name("Where was his wife born?", turns([("user", "Who led it?"), ("ai", "In 1869 Jonas Wied did.")]))
    "Where was Jonas Wied's wife born?"
    """
    beginning = query[:_TURN]
    if not _PERSON.search(beginning) or any(word[0].isupper() for word in re.findall(r"\w+", beginning)[1:]):
        return query
    for turn in reversed(history[-_BACK:]):
        if names := _names(turn.text[:_TURN]):
            return _PERSON.sub(lambda match: _replacement(match, names[0]), query) if len(names) == 1 else query
    return query


def _names(text: str) -> list[str]:
    """Return the names in a text, without names that are part of a longer name in the text."""
    names = dict.fromkeys(_without_lead(each["name"]) for each in _NAME.finditer(text) if not each["before"])
    whole = [name for name in names if " " in name]
    return [name for name in whole if not any(name != other and name in other for other in whole)]


def _without_lead(name: str) -> str:
    """Return a name without function words at its beginning and without a possessive ending."""
    words = re.sub(r"['’]s$", "", name.strip(".")).split()
    while words and words[0].lower() in function_words([words[0].lower()]).words:
        words = words[1:]
    return " ".join(words)


def _replacement(pronoun: re.Match[str], name: str) -> str:
    """Return the name that replaces the pronoun, in the possessive form if the pronoun is possessive."""
    word = pronoun[1].lower()
    owns = word in ("his", "hers") or (word == "her" and pronoun["owns"] is not None)
    return f"{name}'s" if owns else name
