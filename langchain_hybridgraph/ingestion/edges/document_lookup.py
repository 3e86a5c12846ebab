"""Earlier documents by title or file name."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from langchain_hybridgraph.filters import parse_filter
from langchain_hybridgraph.ingestion.chunking import position, targets_of
from langchain_hybridgraph.records import Chunk, Scope
from langchain_hybridgraph.stores.protocols import ReadsIndex

_SLICE = 200


class Named(NamedTuple):
    """Document of the store with its names."""

    document: str
    label: str


class StoredNames:
    """Documents of a store by the names that a reader would use; each is looked up once, at one state of the store."""

    def __init__(self, store: ReadsIndex) -> None:
        self._store = store
        self._files: dict[str, set[str]] | None = None
        self._found: dict[str, Named | None] = {}

    def find(self, names: Iterable[str]) -> dict[str, Named]:
        """Return the document of each name that exactly one document has; other names are left out.

        Titles are found as written in the store, and with lower-case or capital first letters, or in lower case. The
        file name at the end of a document's id is found in any case.

        >>> from langchain_hybridgraph import HybridGraphStore, ingest
        >>> store = HybridGraphStore(None)
        >>> _ = ingest([Chunk("p/1.md#0", "On engines.", {"title": "Engines"}, "p/1.md")], store, split=None)
        >>> StoredNames(store).find(["engines", "wheels"])
        {'engines': Named(document='p/1.md', label='Engines')}
        """
        asked = list(dict.fromkeys(names))
        new = [name for name in asked if name.strip() and name not in self._found]
        if new:
            there = self._look_up(new)
            self._found.update((name, there.get(name)) for name in new)
        found = ((name, self._found.get(name)) for name in asked)
        return {name: named for name, named in found if named is not None}

    def targets(self, names: Iterable[str]) -> dict[str, str]:
        """Return the id of the only chunk with a name in its metadata ``targets``, by name; others are left out."""
        asked = list(dict.fromkeys(names))
        found: dict[str, set[str]] = {}
        for start in range(0, len(asked), _SLICE):
            some = set(asked[start : start + _SLICE])
            scope = Scope(parse_filter({"$or": [{"targets": {"$contains": name}} for name in sorted(some)]}))
            for chunk in self._store.get(self._store.find(scope)):
                for name in some.intersection(targets_of(chunk)):
                    found.setdefault(name, set()).add(chunk.id)
        return {name: ids.pop() for name, ids in found.items() if len(ids) == 1}

    def _look_up(self, asked: Sequence[str]) -> dict[str, Named]:
        spelt = {form: None for name in asked for form in _spellings(name)}
        titles: dict[str, set[str]] = {}
        labels: dict[str, str] = {}
        found = self._store.find(Scope(parse_filter({"title": {"$in": list(spelt)}})))
        for chunk in first_chunks(self._store.get(found)):
            labels[chunk.document] = str(chunk.metadata["title"])
            titles.setdefault(folded(labels[chunk.document]), set()).add(chunk.document)
        files = self._file_names()
        named: dict[str, Named] = {}
        for name in asked:
            documents = titles.get(folded(name), set()) | files.get(folded(name), set())
            if len(documents) == 1:
                (document,) = documents
                named[name] = Named(document, labels.get(document, document))
        return named

    def _file_names(self) -> Mapping[str, set[str]]:
        if self._files is None:
            self._files = {}
            for document in self._store.document_ids():
                self._files.setdefault(file_name(document), set()).add(document)
        return self._files


def first_chunks(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Return the first of these chunks of each document, by ``chunk_index`` and id."""
    found: dict[str, Chunk] = {}
    for chunk in chunks:
        best = found.setdefault(chunk.document, chunk)
        if _order(chunk) < _order(best):
            found[chunk.document] = chunk
    yield from found.values()


def in_order(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Sort the chunks by ``chunk_index`` and id."""
    return sorted(chunks, key=_order)


def folded(name: str) -> str:
    """Normalise a title or file name for comparison.

    >>> folded("My_Notes "), folded("my  notes")
    ('my notes', 'my notes')
    """
    return " ".join(name.replace("_", " ").split()).casefold()


def file_name(path: str) -> str:
    """Return the folded file name of a path or URL, without directory and suffix; "" if there is none.

    >>> file_name("p/My_Notes.md")
    'my notes'
    """
    return folded(posixpath.splitext(posixpath.basename(path))[0])


def _spellings(name: str) -> tuple[str, ...]:
    name = " ".join(name.split())
    return name, name[:1].upper() + name[1:], name.title(), name.lower()


def _order(chunk: Chunk) -> tuple[float, str]:
    return position(chunk), chunk.id
