"""Topics of everyday life and their words, by language."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from types import MappingProxyType

from langchain_hybridgraph.text.analyzer import Analyzer

# First character of a topic's name. No word of a text begins with it.
TOPIC = "#"
# The topic of words such as "get" and "day", which say little about what a text is about.
COMMON = f"{TOPIC}common"

_LONGEST = 5  # number of words of the longest phrases in the tables


@functools.cache
def topics_of_words(language: str) -> Mapping[str, tuple[str, ...]]:
    """Map each word and phrase of a language to its topics.

    Words and phrases are in the form that the language's analyzer returns. The table of a language is the file
    ``topics_LANGUAGE.txt``, which is read on the first call. The result is empty for a language without a table.

    Each line of a table contains a topic and its words; an indented line continues the line above. "food/fruit: apple
    passion_fruit" means that "apple", "passion fruit" and "fruit" belong to the topics fruit and food. A narrow topic
    occurs in fewer texts than a wide one, so it gets a higher weight.

    A phrase such as "hot_dog" does not have the topics of its words. A phrase written with "+" does: "pastry+chef" also
    has the topics of "pastry" and "chef". Words with the topic "common", such as "day", add no topics to a phrase.

    >>> topics_of_words("english")["piano"]
    ('#hobby', '#music', '#instrument')
    """
    table = files(__package__) / f"topics_{language}.txt"
    if not table.is_file():
        return MappingProxyType({})
    analyzer = Analyzer(language)
    keys: dict[str, str] = {}
    topics: dict[str, tuple[str, ...]] = {}
    for line in table.read_text("utf-8").replace("\n  ", " ").splitlines():
        path, _, phrases = line.partition(":")
        names = path.split("/")
        ours = tuple([TOPIC + name for name in names])
        for phrase in (names[-1], *phrases.split()):
            key = keys.get(phrase)
            if key is None:
                key = keys[phrase] = analyzer.joined_words(phrase.replace("_", " "))
            topics[key] = topics[key] + ours if key in topics else ours
    for phrase, key in keys.items():
        if "+" in phrase:
            for word in key.split():
                theirs = topics.get(word)
                if theirs and COMMON not in theirs:
                    topics[key] += theirs
    return MappingProxyType({key: tuple(dict.fromkeys(names)) for key, names in topics.items()})


@functools.cache
def _sizes(language: str) -> Counter[str]:
    """Return the number of words and phrases of each topic."""
    return Counter(topic for topics in topics_of_words(language).values() for topic in topics)


def specificity(topic: str, word: str, language: str) -> float:
    """Return how much it says about a word that a text has a topic of this word, from 0 to 1.

    The result is 1 if the word is the name of the topic: a text about a nurse is about a job. Otherwise, the result is
    1 − log(words of the topic) / log(words of the largest topic), so that it is 0 for the widest topic.

    >>> specificity("#job", "job", "english"), specificity("#job", "nurs", "english")
    (1.0, 0.0)
    >>> specificity("#instrument", "piano", "english") > specificity("#music", "piano", "english")
    True
    """
    sizes = _sizes(language)
    if word == Analyzer(language).joined_words(topic.removeprefix(TOPIC).replace("_", " ")):
        return 1.0
    return 1 - math.log(sizes[topic]) / math.log(max(sizes.values()))


def topics_in(words: Sequence[str], language: str) -> Iterator[tuple[str, ...]]:
    """Yield the topics of each word or phrase in a text; the longest phrase wins.

    ``words`` is the output of ``Analyzer.all_words`` for the text. Words without a topic are left out.

    >>> list(topics_in(["my", "piano", "and", "sign", "languag"], "english"))
    [('#hobby', '#music', '#instrument'), ('#language',)]
    """
    topics_of = topics_of_words(language)
    start = 0
    while start < len(words):
        sizes = range(min(_LONGEST, len(words) - start), 0, -1)
        size = next((size for size in sizes if " ".join(words[start : start + size]) in topics_of), 0)
        if size:
            yield topics_of[" ".join(words[start : start + size])]
        start += size or 1
