"""Abstracts made of a text's first sentences."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice

from langchain_hybridgraph.text.split_points import sentences, spans

ABSTRACT_LENGTH, OVERVIEW_LENGTH = 256, 4_000
"""Maximum numbers of characters of an abstract (L0) and of an overview (L1)."""

_CHARACTERS_READ = 8_000
_HEADING = re.compile(r"\s*(#{1,6}\s|[=~^*-]{3,}\s*$|```)")
_SENTENCE_END = re.compile(r"\w[.!?…][\"')\]]*(\s|$)|[。！？।]")


@lru_cache(2_048)
def abstract_of(text: str, title: str = "", max_length: int = ABSTRACT_LENGTH) -> str:
    """Return the first sentences of the first paragraph that contains a sentence.

    Headings are left out. If no paragraph contains a sentence, the first paragraph is used. If there are no paragraphs,
    ``title`` is used. The result has at most ``max_length`` characters.

    >>> abstract_of("# Cats\\n\\nThey purr. They sleep.", max_length=12)
    'They purr.'
    """
    body, abstract = _first_paragraph(text, title), ""
    for _, end in islice(spans(0, sentences(body, 0, len(body)), len(body)), 20):
        longer = " ".join(body[:end].split())
        if abstract and len(longer) > max_length:
            break
        abstract = longer
    return clip(abstract or title, max_length)


def clip(text: str, max_length: int) -> str:
    """Shorten a text to at most ``max_length`` characters, cutting between words if possible.

    >>> clip("the quick brown fox", 12)
    'the quick …'
    """
    if len(text) <= max_length:
        return text
    words, space, _ = text[: max_length - 1].rpartition(" ")
    return f"{words.rstrip() if space else text[: max_length - 2]} …"


def _first_paragraph(text: str, title: str) -> str:
    """Return the first paragraph that contains a sentence, or the first paragraph if none does.

    Headings and a paragraph that only repeats the title are left out.
    """
    bodies = []
    for paragraph in re.split(r"\n[ \t]*\n", text[:_CHARACTERS_READ].strip()):
        body = "\n".join(line for line in paragraph.splitlines() if not _HEADING.match(line)).strip()
        if body and body != title:
            if _SENTENCE_END.search(body):
                return body
            bodies.append(body)
    return bodies[0] if bodies else ""
