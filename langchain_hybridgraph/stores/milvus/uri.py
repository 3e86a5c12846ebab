"""URIs of Milvus servers and milvus-lite files."""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from langchain_hybridgraph.errors import ConfigurationError, quote_value

# Schemes of the URIs of Milvus stores; a location without one of them is a folder.
SCHEMES = ("milvus", "http", "https")


class Address(NamedTuple):
    """A milvus-lite file or a database on a Milvus server, with the access token for it."""

    uri: str
    token: str
    database: str

    @classmethod
    def parse(cls, uri: str, token: str = "", database: str = "") -> Address:
        """Return the address of a Milvus server or of a milvus-lite file.

        The URI of a server is ``milvus://[user:password@]host[:port][/database]``, or the same with ``http://`` or
        ``https://``. The URI of a milvus-lite file is a path that ends in ``.db``, optionally with the prefix
        ``milvus:``. Raises ConfigurationError for any other string.

        >>> Address.parse("milvus://ada:secret@db.example:19530/notes")
        Address(uri='http://db.example:19530', token='ada:secret', database='notes')
        >>> Address.parse("milvus:notes.db").uri
        'notes.db'
        """
        scheme, _, rest = uri.partition(":")
        if not rest.startswith("//"):
            check_scheme(uri)
            path = rest if scheme == "milvus" else uri
            if path.endswith(".db"):
                return cls(path, token, database)
            raise _bad_uri(uri)
        parts = urlsplit(uri)
        try:
            port = parts.port or 19530
        except ValueError:
            raise _bad_uri(uri) from None
        if scheme not in SCHEMES or not parts.hostname:
            raise _bad_uri(uri)
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
        if ":" in parts.hostname:
            raise ConfigurationError(
                f"pymilvus cannot connect to an IPv6 address in a URI, got {quote_value(uri)}; use a host name that "
                "resolves to this address, such as localhost or one from the hosts file"
            )
        protocol = "https" if scheme == "https" else "http"
        return cls(f"{protocol}://{parts.hostname}:{port}", token or user, database or unquote(parts.path.strip("/")))

    def __str__(self) -> str:
        return f"{self.uri}/{quote(self.database)}" if self.database else self.uri


def is_milvus_uri(location: str) -> bool:
    """Return whether a location is a store in Milvus and not a folder.

    A milvus-lite file is recognised only by the prefix ``milvus:``. Without it, a path is treated as a folder.

    >>> is_milvus_uri("milvus://localhost"), is_milvus_uri("https://db.example:19530"), is_milvus_uri("data/index")
    (True, True, False)
    """
    return location.startswith(("milvus:", "http://", "https://"))


def check_scheme(location: str) -> None:
    """Raise ConfigurationError for a misspelt scheme, such as ``milvs:notes.db``, which would be read as a folder name.

    >>> check_scheme("C:/index"), check_scheme("milvus:notes.db"), check_scheme("notes:2024")
    (None, None, None)
    """
    scheme, colon, rest = location.partition(":")
    if not colon or scheme in SCHEMES or len(scheme) < 2 or not scheme.isalnum():
        return
    similar = get_close_matches(scheme.lower(), SCHEMES, 1)
    if similar or rest.startswith("/"):
        advice = f"write {similar[0]}:{rest}" if similar else f"write one of {', '.join(SCHEMES)}"
        raise ConfigurationError(
            f"the scheme of a store must be milvus, http or https, got {quote_value(location)}; {advice}; if it "
            "is the name of a folder, pass its absolute path"
        )


def _bad_uri(uri: str) -> ConfigurationError:
    return ConfigurationError(
        f"a Milvus URI must be milvus://host:19530/database, https://host:19530 or a milvus-lite file such as "
        f"milvus:notes.db, got {quote_value(uri)}"
    )
