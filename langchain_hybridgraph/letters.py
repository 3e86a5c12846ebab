"""Letters: what they are without accents, and the marks that belong to them."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Mapping


class Unaccented(dict[int, str]):
    """Code point → the letters without accents; for ``str.translate``, filled as characters come by.

    Only marks above and below letters and Arabic and Hebrew points go: vowel signs of Indic scripts are letters.
    ``others`` are letters that Unicode does not take apart, and what they become.

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
    place = unicodedata.combining(character)
    return 10 <= place <= 35 or 200 <= place <= 240


@functools.cache
def combining_marks() -> str:
    """The combining marks, which \\w leaves out: without them Hindi words would fall apart.

    Those below U+FE00: above stand the variants of emoji, and beyond U+FFFF ``re`` would search a hundred times slower.
    """
    return "".join(c for c in map(chr, range(0x300, 0xFE00)) if unicodedata.category(c)[0] == "M")
