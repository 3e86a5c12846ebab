"""Errors, and checks of numbers and paths."""

import math
import operator
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, fields
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

LONGEST_MESSAGE = 1_500
_LONGEST_QUOTE = 200
T = TypeVar("T")
_HOLDS = {"ge": operator.ge, "gt": operator.gt, "le": operator.le, "lt": operator.lt}
_SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
_LONG_QUOTE = re.compile(r"'[^']{200,}'|\"[^\"]{200,}\"")


class HybridGraphError(Exception):
    """Base class of the errors that this package defines. Long messages are shortened."""

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
    """The server of a store cannot be reached, refuses access, or did not answer in time; or its folder is gone."""


class EmbeddingMismatchError(StoreError, ValueError):
    """The index was built with another embedding, or with one that cannot be created from its name."""


class MissingExtraError(HybridGraphError, ImportError):
    """An optional dependency is not installed. The message contains the command that installs it."""


@contextmanager
def needs_extra(feature: str, library: str, extra: str) -> Iterator[None]:
    """Raise MissingExtraError, which names the module, if a module of another library is missing in the ``with`` block.

    Other errors, such as that of a library that is installed but broken, are raised unchanged.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        module = missing.name or str(missing)
        if module.partition(".")[0] == __name__.partition(".")[0]:
            raise
        advice = f'but the module {module} is missing: pip install "langchain-hybridgraph[{extra}]"'
        raise MissingExtraError(f"{feature} needs {library}, {advice}") from missing


def _shorten_message(message: str) -> str:
    message = message.encode("utf-8", "backslashreplace").decode()  # halves of surrogate pairs cannot be printed
    if len(message) <= LONGEST_MESSAGE:
        return message
    message = _LONG_QUOTE.sub(lambda quote: shorten(quote[0], _LONGEST_QUOTE), message)
    return shorten(message, LONGEST_MESSAGE)


UNMASKED = "HYBRIDGRAPH_UNMASKED_ERRORS"
"""Environment variable that shows the messages of other libraries unchanged if it is 1."""
# Each alternative begins with a group that is kept.
_SECRETS = re.compile(
    r"((?i:(?:(?:api|access|secret|private|account)[ _-]?key(?: provided)?"
    r"|token|secret|password|passwd|pwd|authorization)"
    r"[\"']?\s{0,9}[:=]\s{0,9}[\"']?(?:(?:bearer|basic)\s{1,9})?))[^\s\"',;&)}\]]{1,2000}"
    r"|((?i:\bbearer\s{1,9}))[^\s\"',;]{8,2000}"
    r"|(://[^\s/:@]{0,200}:)[^\s/@]{1,500}(?=@)"
    r"|(\b)(?:sk-|pk-|rk-|ghp_|gho_|ghs_|glpat-|xox[abp]-|hf_|AKIA|AIza|eyJ)[\w.-]{8,2000}"
    r"|(\b)(?:[0-9a-f]{32,2000}|(?=\w{0,99}[a-z])(?=\w{0,99}[A-Z])(?=\w{0,99}\d)\w{32,2000})\b"
)


def mask_secrets(text: str) -> str:
    """Return the text of another library's error with everything that may be a key or a password replaced.

    >>> mask_secrets("Incorrect API key provided: abc12345. See redis://admin:hunter2@cache:6379")
    'Incorrect API key provided: *** See redis://admin:***@cache:6379'
    """
    if os.environ.get(UNMASKED) == "1":
        return text
    return _SECRETS.sub(lambda match: f"{match[match.lastindex or 1]}***", text)


def describe_error(error: BaseException) -> str:
    """Return the class and the masked message of an error."""
    return f"{type(error).__name__}: {mask_secrets(str(error))}"


def quote_value(value: Any) -> str:
    """Return the ``repr`` of a value for an error message, shortened in the middle if it is long.

    >>> quote_value("a" * 1_000_000) == "'" + 97 * "a" + " … " + 97 * "a" + "'"
    True
    """
    try:
        return shorten(repr(value), _LONGEST_QUOTE)
    except Exception:  # noqa: BLE001 - too many levels, or an object whose repr fails
        return f"an object of the class {type(value).__name__}"


def shorten(text: str, most: int) -> str:
    """Return the text, shortened in the middle to at most ``most`` characters."""
    if len(text) <= most:
        return text
    half = (most - 3) // 2
    return f"{text[:half]} … {text[len(text) - half :]}"


_LARGEST = 10**18  # SQLite and NumPy take integers of 64 bits


def check_whole_number(name: str, value: Any, least: int, most: float = _LARGEST) -> None:
    """Raise ConfigurationError unless the value is an integer from ``least`` to ``most``.

    >>> check_whole_number("max_hops", "2", least=0)
    Traceback (most recent call last):
        ...
    langchain_hybridgraph.errors.ConfigurationError: max_hops must be an integer ≥ 0, got '2'
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise _error(name, "an integer", {"ge": least}, value)
    if int(value) > most:
        raise _error(name, "an integer", {"ge": least, "le": most}, value)


def check_number(name: str, value: Any, **bounds: float) -> None:
    """Raise ConfigurationError unless the value is a finite number within the bounds ``ge``, ``gt``, ``le`` and ``lt``.

    >>> check_number("damping", 1.5, ge=0, le=1)
    Traceback (most recent call last):
        ...
    langchain_hybridgraph.errors.ConfigurationError: damping must be a number from 0 to 1, got 1.5
    """
    try:
        is_finite = not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
    except OverflowError:  # an integer that no float can represent
        is_finite = False
    if not (is_finite and all(_HOLDS[bound](value, limit) for bound, limit in bounds.items())):
        raise _error(name, "a number", bounds, value)


def setting(default: T, *, choices: Sequence[str] = (), **bounds: float) -> T:
    """Return a field of a :class:`CheckedSettings` dataclass, with its default and its allowed values.

    These are ``choices``, integers from ``least``, or numbers within the bounds of :func:`check_number`. A field whose
    type includes None may also be None.
    """
    return field(default=default, metadata={"choices": choices, **bounds})


class CheckedSettings:
    """Base class of dataclasses that raise ConfigurationError for a value that its :func:`setting` forbids.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Walk(CheckedSettings):
    ...     damping: float = setting(0.5, ge=0, le=1)
    >>> Walk(damping=1.5)
    Traceback (most recent call last):
        ...
    langchain_hybridgraph.errors.ConfigurationError: damping must be a number from 0 to 1, got 1.5
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        record: Any = self
        for each in fields(record):
            value, limits = getattr(self, each.name), dict(each.metadata)
            choices = limits.pop("choices", ())
            if choices and value not in choices:
                raise ConfigurationError(f"{each.name} must be {' or '.join(map(repr, choices))}, got {value!r}")
            if limits and not (value is None and "None" in str(each.type)):
                check = check_whole_number if "least" in limits else check_number
                check(each.name, value, **limits)


def number_in_range(noun: str, bounds: Mapping[str, float]) -> str:
    """Return a noun followed by the range of its values.

    >>> number_in_range("a number", {"gt": 0, "le": 1}), number_in_range("an integer", {"ge": 1})
    ('a number > 0 and ≤ 1', 'an integer ≥ 1')
    >>> number_in_range("a number", {"ge": 0, "le": 1})
    'a number from 0 to 1'
    """
    if "ge" in bounds and "le" in bounds:
        return f"{noun} from {bounds['ge']:.10g} to {bounds['le']:.10g}"
    limits = [f"{sign} {bounds[name]:.10g}" for name, sign in _SIGNS.items() if name in bounds]
    return f"{noun} {' and '.join(limits)}".rstrip()


def _error(name: str, noun: str, bounds: Mapping[str, float], value: Any) -> ConfigurationError:
    return ConfigurationError(f"{name} must be {number_in_range(noun, bounds)}, got {quote_value(value)}")


def as_path(name: str, value: object) -> Path:
    """Return a string or path as a Path, with the home folder for ``~``. Raise ConfigurationError for anything else.

    >>> as_path("path", "~/notes") == Path.home() / "notes"
    True
    """
    if isinstance(value, str | os.PathLike) and value != "":  # it would mean the current folder
        with suppress(TypeError, ValueError):
            if b"\0" not in os.fsencode(path := Path(os.path.expanduser(value))):
                return path
    raise ConfigurationError(f"{name} must be a string or a Path that can name a file, got {quote_value(value)}")


def check_mapping(name: str, value: object) -> None:
    """Raise ConfigurationError unless the value is a mapping."""
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{name} must be a mapping, got {quote_value(value)}")
