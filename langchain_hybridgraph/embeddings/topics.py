"""Topics of everyday life and their words, by language."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

from langchain_hybridgraph.text.analyzer import Analyzer

# The first character of a topic's name; no word of a text begins with it.
TOPIC = "#"


@functools.cache
def topics_of_words(language: str) -> Mapping[str, tuple[str, ...]]:
    """Return the topics of each word, as the analyzer of this language writes it; empty for a language without a table.

    The table of a language is ``topics_LANGUAGE.txt``, read on the first call. It has one topic per line, indented
    lines continue it: "food/fruit: apple banana" says that these two words, and "fruit" itself, belong to the topics
    fruit and food. In few texts a narrow topic is rarer than a wide one, so it weighs more.

    >>> topics_of_words("english")["mum"]
    ('#family', '#parent', '#mother')
    """
    table = files(__package__) / f"topics_{language}.txt"
    if not table.is_file():
        return MappingProxyType({})
    analyzer = Analyzer(language)
    topics: dict[str, dict[str, None]] = {}
    for line in table.read_text("utf-8").replace("\n  ", " ").splitlines():
        path, _, words = line.partition(":")
        names = path.split("/")
        ours = dict.fromkeys(f"{TOPIC}{name}" for name in names)
        for word in analyzer.words(f"{names[-1]} {words}"):
            topics.setdefault(word, {}).update(ours)
    return MappingProxyType({word: tuple(names) for word, names in topics.items()})
