"""Tokens, rights and limits of the service."""

from __future__ import annotations

import hmac
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from langchain_hybridgraph.errors import ConfigurationError, check_number, check_whole_number
from langchain_hybridgraph.filters.expressions import Filter
from langchain_hybridgraph.options.base import with_name
from langchain_hybridgraph.options.models import FilterOption
from langchain_hybridgraph.registry import nearest
from langchain_hybridgraph.settings_file import Origin, Problem, UnusableSettingsError

Right = Literal["read", "write", "admin"]
RIGHTS: frozenset[Right] = frozenset({"read", "write", "admin"})
SHORTEST_TOKEN = 16
CLIENT_CLOSED = 499
"""Status in logs and metrics if the client closes the connection before the answer."""
TOKENS_VARIABLE = "HYBRIDGRAPH_TOKENS"
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


class Refusal(Exception):
    """Refusal of a request, with an HTTP status and a message."""

    def __init__(self, status: int, detail: Any, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, dict(headers or {})


def problem(message: str, *path: int | str) -> dict[str, Any]:
    """Return a problem in a request, with the path of the value in the body."""
    return {"path": list(path), "message": message}


def invalid(message: str, *path: int | str) -> Refusal:
    """Return the refusal of a request with one problem."""
    return Refusal(422, [problem(message, *path)])


def refusal_text(detail: Any) -> str:
    """Return the detail of a refusal, which is a text or a list of problems, as one text."""
    return detail if isinstance(detail, str) else "; ".join(with_name(**each) for each in detail)


class Token(BaseModel):
    """Bearer token with its tenant, its rights and a filter that applies to all of its searches.

    ``sha256``, the SHA-256 of the token's UTF-8 bytes, can replace ``token``. A token with a filter can only read.

    >>> Token(token="correct-horse-battery", rights=["read"], filter={"team": "red"}).tenant is None
    True
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True, hide_input_in_errors=True, strict=False
    )

    token: SecretStr | None = Field(None, min_length=SHORTEST_TOKEN)
    sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$")
    name: str = Field("", description="Name of the token in logs.")
    tenant: str | None = None
    rights: frozenset[Right] = Field(frozenset({"read"}), min_length=1)
    filter: FilterOption = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.token is None) == (self.sha256 is None):
            raise ValueError("pass either token or sha256, the hexadecimal SHA-256 of the token")
        secret = "" if self.token is None else self.token.get_secret_value()
        if not (secret.isascii() and secret.isprintable() and secret == secret.strip()):
            raise ValueError(
                "token must consist of printable ASCII characters without spaces around it, because clients send it in "
                "a header; choose another one"
            )
        if self.filter is not None and self.rights != {"read"}:
            raise ValueError(
                f"a token with a filter can only read, got the rights {sorted(self.rights)}: leave the filter out, or "
                'set the rights to ["read"]'
            )
        return self

    @property
    def digest(self) -> bytes:
        """SHA-256 of the token."""
        if self.token is None:
            return bytes.fromhex(self.sha256 or "")
        return sha256(self.token.get_secret_value().encode()).digest()


@dataclass(frozen=True)
class Access:
    """Access that a request has: a tenant, rights and a filter. ``name`` appears in logs."""

    tenant: str | None = None
    rights: frozenset[Right] = RIGHTS
    filter: Filter | None = None
    name: str = ""

    def check(self, right: Right) -> None:
        """Raise Refusal for a request that needs another right."""
        if right not in self.rights:
            raise Refusal(403, f"the token does not allow this request, which needs the right {right}")


class Tokens:
    """The tokens of a service. Without tokens, every request has all rights for the tenant of the service."""

    def __init__(self, tokens: Iterable[Token] = (), tenant: str | None = None, limits: Limits | None = None) -> None:
        self._open = Access(tenant)
        self._limits = limits or Limits()
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens left, and the time at which they were counted
        self._accesses: dict[bytes, Access] = {}
        for token in tokens:
            name = token.name or token.digest.hex()[:8]
            if token.digest in self._accesses or any(name == each.name for each in self._accesses.values()):
                raise ConfigurationError(
                    f"two tokens are equal or have the name {name!r}; give each client a token and a name of its own"
                )
            tenant_of_token = tenant if token.tenant is None else token.tenant
            self._accesses[token.digest] = Access(tenant_of_token, token.rights, token.filter, name)

    def __bool__(self) -> bool:
        return bool(self._accesses)

    @property
    def tenants(self) -> list[str | None]:
        """Return the tenants of all tokens, or the tenant of the service if there are no tokens."""
        return list(dict.fromkeys(each.tenant for each in self._accesses.values() or [self._open]))

    def access(self, authorization: str | None) -> Access | None:
        """Return the access of an ``Authorization`` header, or None if its token is missing or wrong.

        Every token is compared in constant time, so the time of the answer reveals nothing about the tokens.
        """
        if not self._accesses:
            return self._open
        scheme, _, token = (authorization or "").partition(" ")
        digest = sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        granted = None
        for token_digest, access in self._accesses.items():
            if hmac.compare_digest(token_digest, digest) and scheme.lower() == "bearer":
                granted = access
        return granted

    def admit(self, authorization: str | None) -> Access:
        """Return the access of a request, and count it. Raises Refusal for a wrong token and for too many requests."""
        access = self.access(authorization)
        if access is None:
            message = "the token is missing or wrong; send it in the header Authorization: Bearer TOKEN"
            raise Refusal(401, message, {"WWW-Authenticate": "Bearer"})
        rate, burst, now = self._limits.rate, self._limits.burst, time.monotonic()
        left, since = self._buckets.get(access.name, (float(burst), now))
        left = min(burst, left + (now - since) * rate)
        self._buckets[access.name] = (left - 1 if left >= 1 else left, now)
        if left < 1:
            headers = {"Retry-After": str(max(1, round((1 - left) / rate)))}
            raise Refusal(429, "too many requests for this token", headers)
        return access


def read_tokens(file: Path | None = None, environment: Mapping[str, str] = os.environ) -> list[Token]:
    """Return the tokens in a JSON file, or else those in the variable ``HYBRIDGRAPH_TOKENS``.

    Both contain a list of objects with the fields of :class:`Token`. Without either, the list is empty. Error messages
    contain no token.

    >>> text = '[{"token": "correct-horse-battery", "tenant": "ada", "rights": ["read", "write"]}]'
    >>> [(token.tenant, sorted(token.rights)) for token in read_tokens(None, {"HYBRIDGRAPH_TOKENS": text})]
    [('ada', ['read', 'write'])]
    """
    place = TOKENS_VARIABLE if file is None else str(file)
    example = '[{"token": "…", "tenant": "acme", "rights": ["read"]}]'
    try:
        text = environment.get(TOKENS_VARIABLE, "") if file is None else file.read_text(encoding="utf-8")
        entries = json.loads(text) if text.strip() or file is not None else []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{place} cannot be read ({error}); pass a JSON file such as {example}") from error
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise ConfigurationError(f"{place} is not JSON ({position}); write a list such as {example}") from None
    if not isinstance(entries, list) or not (entries or file is None):
        raise ConfigurationError(f"{place} must contain a list of tokens such as {example}")
    tokens: list[Token] = []
    problems: list[str] = []
    origin = Origin("environment" if file is None else "file", place)
    for number, entry in enumerate(entries, start=1):
        try:
            tokens.append(Token.model_validate(entry))
        except ValidationError as error:
            problems += dict.fromkeys(f"{place}, entry {number}{_problem(each)}" for each in error.errors())
    if problems:
        raise UnusableSettingsError(Problem("", origin, each) for each in problems)
    return tokens


_EXPECTED_VALUES = {
    "token": f"must be a string with at least {SHORTEST_TOKEN} characters",
    "sha256": "must be the SHA-256 of a token, as 64 hexadecimal digits in lower case",
    "name": "must be a string",
    "tenant": "must be a string or null",
    "rights": 'must be a list of at least one of "read", "write" and "admin"',
}


def _problem(error: Mapping[str, Any]) -> str:
    """Return a key and its problem. An unknown key is not quoted, because it may be a token in the wrong place."""
    key = str(error["loc"][0]) if error["loc"] else ""
    keys = f"the keys are {', '.join(Token.model_fields)}"
    if error["type"] == "extra_forbidden":
        return f": a key is unknown; {nearest(key, Token.model_fields)}{keys}"
    if error["type"] == "value_error":
        return f"{f', {key}' if key else ''}: {error['ctx']['error']}"
    return f", {key}: {_EXPECTED_VALUES.get(key, error['msg'])}" if key else f": must be an object; {keys}"


def check_host(host: str, tokens: Sequence[Token]) -> None:
    """Raise ConfigurationError for a host that other machines can reach, unless there are tokens."""
    if host not in LOCAL_HOSTS and not tokens:
        raise ConfigurationError(
            f"--host {host} can be reached from other machines, but no tokens are configured: pass --tokens FILE, set "
            f"{TOKENS_VARIABLE}, or leave --host out to serve this machine only"
        )


@dataclass(frozen=True)
class Limits:
    """Limits of requests.

    ``body`` is the largest body in bytes, ``k`` the largest number of results (and of candidates per result and texts
    to rerank), and ``deadline`` the longest time of a search in seconds; reading a request and sending its answer may
    take as long again. ``rate`` is the number of requests per second for each token, and ``burst`` the number that may
    arrive at once.

    >>> Limits(k=0)
    Traceback (most recent call last):
        ...
    langchain_hybridgraph.errors.ConfigurationError: k must be an integer ≥ 1, got 0
    """

    body: int = 10_000_000
    k: int = 100
    rate: float = 100.0
    burst: int = 200
    deadline: float = 30.0

    def __post_init__(self) -> None:
        for name in ("body", "k", "burst"):
            check_whole_number(name, getattr(self, name), least=1)
        check_number("rate", self.rate, gt=0)
        check_number("deadline", self.deadline, gt=0)
