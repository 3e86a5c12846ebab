"""The errors a caller may want to catch."""

from __future__ import annotations

import re
from typing import Any

LONGEST_MESSAGE = 1_500
_LONGEST_QUOTE = 200
_LONG_QUOTE = re.compile(r"'[^']{200,}'|\"[^\"]{200,}\"")


class HybridGraphError(Exception):
    """The base of every error that this package raises on purpose.

    A long message is cut: the values that it quotes, and, where that is not enough, its middle.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*(_cut(each) if isinstance(each, str) else each for each in args))


class RetrievalError(HybridGraphError):
    """Every source of a query failed, so there is no answer at all; the causes are in the message."""


class FilterError(HybridGraphError, ValueError):
    """A filter is malformed or names an operator that does not exist."""


class ConfigurationError(HybridGraphError, ValueError):
    """A setting has a value that cannot be used."""


class TenantError(HybridGraphError, ValueError):
    """A tenant is missing where one is needed, or is not the one the store was opened for."""


class StoreError(HybridGraphError):
    """The index folder cannot be used as asked."""


class NotAnIndexError(StoreError):
    """The folder holds something else than an index."""


class FormatVersionError(StoreError):
    """The index was written by a version of the package that this one cannot read."""


class StoreLockedError(StoreError):
    """Other threads or processes wrote to the index for longer than a change waits (``write_timeout``)."""


class ReadOnlyError(StoreError):
    """A write was asked of a store that is open for reading only."""


class EmbeddingMismatchError(StoreError, ValueError):
    """The index was made with another embedding model."""


class MissingExtraError(HybridGraphError, ImportError):
    """An optional dependency is not installed; the message holds the line that installs it."""


def _cut(message: str) -> str:
    if len(message) <= LONGEST_MESSAGE:
        return message
    cut = _LONG_QUOTE.sub(lambda quote: shortened(quote[0], _LONGEST_QUOTE), message)
    return shortened(cut, LONGEST_MESSAGE)


def brief(value: Any) -> str:
    """Return the ``repr`` of a value as an error message quotes it: cut in the middle when it is long.

    >>> brief("a" * 1_000_000) == "'" + 97 * "a" + " … " + 97 * "a" + "'"
    True
    """
    return shortened(repr(value), _LONGEST_QUOTE)


def shortened(text: str, most: int) -> str:
    """Return a text of at most this many characters: its beginning, and its end where it is longer.

    >>> shortened("abcdefghij", 7)
    'ab … ij'
    """
    if len(text) <= most:
        return text
    kept = (most - 3) // 2
    return f"{text[:kept]} … {text[len(text) - kept :]}"
