"""Names of entities in texts and document titles."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

from langchain_hybridgraph.text.named_entities import MOST_LETTERS, MOST_WORDS, is_character, join_words, read, words_of
from langchain_hybridgraph.text.stop_words import FunctionWords, function_words

MOST_CHARACTERS = 12  # maximum number of characters of a title in a script without spaces
_QUALIFIER = re.compile(r"\s*[(（\[][^)）\]]*[)）\]]\s*$")


@functools.lru_cache(1 << 16)
def entity_name(name: str, language: FunctionWords) -> str:
    """Return the normalised name of an entity, without an article, or "" if ``name`` is not a name.

    Numbers, dates, words such as "the", single characters, and strings of more than a hundred letters are not names.

    >>> english = function_words(["the"])
    >>> [entity_name(name, english) for name in ("The Beatles’", "St. Louis", "June 1843", "The Who", "1,000")]
    ['beatles', 'st louis', '', '', '']
    """
    words = words_of(name[: 4 * MOST_LETTERS])
    if all(word.isdigit() or word in language.words for word in words):
        return ""
    entity = join_words(words[1:] if words[0] in language.articles else words)
    return entity if 1 < len(entity) <= MOST_LETTERS else ""


class TitleName(NamedTuple):
    """Name taken from a document's title.

    A name that is not ``is_certain`` is used only if the document's text also contains it.
    """

    name: str
    spelling: str
    is_certain: bool


def title_names(title: str, language: FunctionWords) -> Iterator[TitleName]:
    """Yield the distinct names in a document's title.

    They are the complete title and the title without a qualifier such as "(planet)" or ", Arkansas". If the title
    contains a comma, the part after it is also moved to the beginning: "Lovelace, Ada" gives "Ada Lovelace".
    """
    title = title[: 4 * MOST_LETTERS]
    short = _QUALIFIER.sub("", title)
    before, comma, after = short.partition(",")
    forms = [(title, True), (short, True)]
    if comma:
        forms += [(before, False), (f"{after} {before}", False)]
    names: set[str] = set()
    for form, is_certain in forms:
        name = entity_name(form, language)
        if name and name not in names:
            names.add(name)
            yield TitleName(name, " ".join(form.split()), is_certain)


def names_in(text: str) -> list[str]:
    """Return the parts of a question that may be names.

    The caller looks for ``entity:`` and ``title:`` nodes with these names. Most of the names have no node.

    >>> names_in("Who taught Ada Lovelace?")
    ['ada lovelace', 'taught', 'taught ada', 'taught ada lovelace', 'lovelace']
    """
    (reading,) = read([text])
    names = [entity_name(name.text, reading.language) for name in reading.names]
    return list(dict.fromkeys(name for name in (*names, *possible_titles(reading.words)) if name))


def is_distinctive(words: Sequence[str], functions: Set[str]) -> bool:
    """Return whether a title differs enough from ordinary words to be recognised in a text without capitals.

    ``words`` are the words of the title.
    """
    if is_character(words[0]):
        return 2 <= len(words) <= MOST_CHARACTERS
    if len(words) > MOST_WORDS or words[0] in functions or words[-1] in functions:
        return False
    return len(words) > 1 or (len(words[0]) > 3 and not words[0].isdigit())


def possible_titles(words: Sequence[str]) -> Iterator[str]:
    """Yield each sequence of words that may be the title of a document."""
    functions = function_words(set(words)).words
    are_characters = [bool(word) and is_character(word) for word in words]
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
