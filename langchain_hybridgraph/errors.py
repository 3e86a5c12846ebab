"""Errors that callers may want to catch."""

from __future__ import annotations

import re
from typing import Any

LONGEST_MESSAGE = 1_500
_LONGEST_QUOTE = 200
_LONG_QUOTE = re.compile(r"'[^']{200,}'|\"[^\"]{200,}\"")


class HybridGraphError(Exception):
    """Base class of the errors that this package defines.

    Long messages are shortened: first the values quoted in them, then, if necessary, the middle of the message.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*(_shorten_message(each) if isinstance(each, str) else each for each in args))


class RetrievalError(HybridGraphError):
    """A search failed, for example because none of its sources could answer. The message gives the causes."""


class FilterError(HybridGraphError, ValueError):
    """A filter is malformed or uses an unknown operator."""


class ConfigurationError(HybridGraphError, ValueError):
    """A setting or an argument cannot be used."""


class TenantError(HybridGraphError, ValueError):
    """A required tenant is missing, or differs from the tenant that the store was opened for."""


class StoreError(HybridGraphError):
    """A store cannot be used as requested."""


class NotAnIndexError(StoreError):
    """A path does not contain an index of this package."""


class FormatVersionError(StoreError):
    """The index was written by a version of the package whose format this version cannot read."""


class StoreLockedError(StoreError):
    """Another thread or process held the write lock for longer than ``write_timeout``."""


class ReadOnlyError(StoreError):
    """A write was attempted on a store that is open read-only."""


class StoreUnavailableError(StoreError):
    """The server of a store cannot be reached, refuses access, or did not answer in time."""


class EmbeddingMismatchError(StoreError, ValueError):
    """The index was built with a different embedding from the one in use, or with one that cannot be created from its
    name.
    """


class MissingExtraError(HybridGraphError, ImportError):
    """An optional dependency is not installed. The message contains the command that installs it."""


def _shorten_message(message: str) -> str:
    if len(message) <= LONGEST_MESSAGE:
        return message
    message = _LONG_QUOTE.sub(lambda quote: shorten(quote[0], _LONGEST_QUOTE), message)
    return shorten(message, LONGEST_MESSAGE)


def quote_value(value: Any) -> str:
    """Return the ``repr`` of a value for an error message, shortened in the middle if it is long.

    >>> quote_value("a" * 1_000_000) == "'" + 97 * "a" + " … " + 97 * "a" + "'"
    True
    """
    return shorten(repr(value), _LONGEST_QUOTE)


def shorten(text: str, most: int) -> str:
    """Return the text, shortened in the middle to at most ``most`` characters.

    >>> shorten("abcdefghij", 7)
    'ab … ij'
    """
    if len(text) <= most:
        return text
    half = (most - 3) // 2
    return f"{text[:half]} … {text[len(text) - half :]}"
