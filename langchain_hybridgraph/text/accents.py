"""Removal of accents, and a list of combining marks."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Mapping


class Unaccented(dict[int, str]):
    """Table for ``str.translate`` that removes the accents of letters.

    An entry is added when its character is first used. The table removes only marks above and below letters, and Arabic
    and Hebrew points. Vowel signs of Indic scripts are kept, because they are letters. ``others`` contains replacements
    for letters that Unicode does not decompose, such as "Ł".

    >>> "Łódź, हिन्दी".translate(Unaccented({"Ł": "L"}))
    'Lodz, हिन्दी'
    """

    def __init__(self, others: Mapping[str, str]) -> None:
        super().__init__({ord(letter): bare for letter, bare in others.items()})

    def __missing__(self, point: int) -> str:
        bare = "".join(c for c in unicodedata.normalize("NFKD", chr(point)) if not _is_accent(c))
        self[point] = unicodedata.normalize("NFC", bare)
        return self[point]


def _is_accent(character: str) -> bool:
    combining_class = unicodedata.combining(character)
    return 10 <= combining_class <= 35 or 200 <= combining_class <= 240


@functools.cache
def combining_marks() -> str:
    """Return the combining marks as one string, for use in the character classes of patterns.

    \\w does not match these marks, so a pattern without them would split Hindi words. Only marks below U+FE00 are
    included. U+FE00 to U+FE0F are variation selectors, which occur in emoji, and ``re`` is a hundred times slower with
    marks above U+FFFF.
    """
    return "".join(c for c in map(chr, range(0x300, 0xFE00)) if unicodedata.category(c)[0] == "M")
