"""Lookup of documents by link, title or file name."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.ingestion.chunking import position
from langchain_hybridgraph.ingestion.edges.link_parser import urlsplit_scheme
from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.stores.protocols import ReadsIndex

_SLICE = 200
# Suffixes by which a link may differ from the name of the document that it points to.
_SUFFIXES = (".md", ".rst", ".html", ".markdown", ".htm", ".txt")
_INDEXES = ("index.md", "README.md", "index.rst", "index.html", "readme.md", "README.rst")
_NO_DOCUMENTS = frozenset({"mailto", "javascript", "data", "tel", "sms", "irc", "about", "blob"})


class NamedDocument(NamedTuple):
    """Id and label of a stored document."""

    document: str
    label: str


class StoredNames:
    """Lookup of stored documents by title or file name. Results are cached."""

    def __init__(self, store: ReadsIndex) -> None:
        self._store = store
        self._files: dict[str, set[str]] | None = None
        self._by_name: dict[str, NamedDocument | None] = {}

    def find(self, names: Iterable[str]) -> dict[str, NamedDocument]:
        """Return the document for each name. A name is omitted unless exactly one document has it.

        Titles are compared with four spellings of the name: the name itself, and the name in lower case, with a capital
        first letter, and with every word capitalised. The file name at the end of a document's id is also compared with
        the name, ignoring case.

        >>> from langchain_hybridgraph import HybridGraphStore, ingest
        >>> store = HybridGraphStore(None)
        >>> _ = ingest([Chunk("p/1.md#0", "On engines.", {"title": "Engines"}, "p/1.md")], store, split=None)
        >>> StoredNames(store).find(["engines", "wheels"])
        {'engines': NamedDocument(document='p/1.md', label='Engines')}
        """
        distinct = list(dict.fromkeys(names))
        new = [name for name in distinct if name.strip() and name not in self._by_name]
        if new:
            matches = self._look_up(new)
            self._by_name.update((name, matches.get(name)) for name in new)
        documents = ((name, self._by_name.get(name)) for name in distinct)
        return {name: document for name, document in documents if document is not None}

    def _look_up(self, names: Sequence[str]) -> dict[str, NamedDocument]:
        spellings = {form: None for name in names for form in _spellings(name)}
        titles: dict[str, set[str]] = {}
        labels: dict[str, str] = {}
        chunk_ids = self._store.find(Scope(parse_filter({"title": {"$in": list(spellings)}})))
        for chunk in first_chunks(self._store.get(chunk_ids)):
            labels[chunk.document] = str(chunk.metadata["title"])
            titles.setdefault(folded(labels[chunk.document]), set()).add(chunk.document)
        files = self._file_names()
        matches: dict[str, NamedDocument] = {}
        for name in names:
            documents = titles.get(folded(name), set()) | files.get(folded(name), set())
            if len(documents) == 1:
                (document,) = documents
                matches[name] = NamedDocument(document, labels.get(document, document))
        return matches

    def _file_names(self) -> Mapping[str, set[str]]:
        if self._files is None:
            self._files = {}
            for document in self._store.document_ids():
                self._files.setdefault(file_name(document), set()).add(document)
        return self._files


def first_chunks(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield one chunk for each document: the first of its given chunks, by ``chunk_index`` and then by id."""
    first: dict[str, Chunk] = {}
    for chunk in chunks:
        best = first.setdefault(chunk.document, chunk)
        if _order(chunk) < _order(best):
            first[chunk.document] = chunk
    yield from first.values()


def in_order(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Return the chunks sorted by ``chunk_index`` and then id."""
    return sorted(chunks, key=_order)


def folded(name: str) -> str:
    """Normalise a title or file name for comparison.

    >>> folded("My_Notes "), folded("my  notes")
    ('my notes', 'my notes')
    """
    return " ".join(name.replace("_", " ").split()).casefold()


def file_name(path: str) -> str:
    """Return the normalised file name of a path or URL without directory and suffix, or "" if it has no file name.

    >>> file_name("p/My_Notes.md")
    'my notes'
    """
    return folded(posixpath.splitext(posixpath.basename(path))[0])


def _spellings(name: str) -> tuple[str, ...]:
    name = " ".join(name.split())
    return name, name[:1].upper() + name[1:], name.title(), name.lower()


def _order(chunk: Chunk) -> tuple[float, str]:
    return position(chunk), chunk.id


def candidates(path: str, base: str) -> list[str]:
    """Return the ids that the target of a link may have, best first.

    ``path`` is the path in the link, and ``base`` is the document that contains the link.

    >>> candidates("../install", "docs/guide/use.md")[:3]
    ['docs/install', 'docs/install.md', 'docs/install.rst']
    >>> candidates("/faq.html", "https://example.org/docs/a")[0]
    'https://example.org/faq.html'
    """
    scheme = urlsplit_scheme(path)
    if scheme in _NO_DOCUMENTS:
        return []
    whole = [path] if scheme else _join_path(path, base)
    names = [variant for name in whole for variant in _variants(name)]
    return list(dict.fromkeys(names))


def _join_path(path: str, base: str) -> list[str]:
    root, slashes, rest = base.partition("://")
    if slashes:
        host, _, rest_of_path = rest.partition("/")
        root = f"{root}://{host}/"
    else:
        root, rest_of_path = "", base
    if path.startswith("/"):
        return [root + posixpath.normpath(path).lstrip("/"), *([] if root else [posixpath.normpath(path)])]
    joined_path = posixpath.normpath(posixpath.join(posixpath.dirname(rest_of_path), path)) if path else rest_of_path
    return [root + joined_path]


def _variants(name: str) -> Iterator[str]:
    name = name.rstrip("/") or name
    yield name
    stem, suffix = posixpath.splitext(name)
    if suffix.lower() in _SUFFIXES:
        # A link may use the name under which a page is published.
        yield from (stem + other for other in _SUFFIXES if other != suffix)
        yield stem
        return
    yield from (name + suffix for suffix in _SUFFIXES)
    yield from (f"{name}/{index}" for index in _INDEXES)
