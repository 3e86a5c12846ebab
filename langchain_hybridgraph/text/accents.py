"""Letters without accents, and combining marks."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Mapping


class Unaccented(dict[int, str]):
    """Map code points to letters without accents, for ``str.translate``; filled on first use of a character.

    Only marks above and below letters and Arabic and Hebrew points are removed; vowel signs of Indic scripts are
    letters. ``others`` maps letters that Unicode does not decompose to their replacements.

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
    """Return the combining marks, which \\w does not match; without them Hindi words would be split.

    Only marks below U+FE00 are included: above are emoji variants, and beyond U+FFFF ``re`` is a hundred times slower.
    """
    return "".join(c for c in map(chr, range(0x300, 0xFE00)) if unicodedata.category(c)[0] == "M")
