"""Edges from chunks with links to the linked chunks."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, Sized
from tempfile import SpooledTemporaryFile
from typing import IO, Any, NamedTuple

from langchain_hybridgraph.chunks import Chunk, replace_surrogates
from langchain_hybridgraph.ingestion.chunking import (
    CutDocument,
    anchors_of,
    first_chunk_id,
)
from langchain_hybridgraph.ingestion.edges.backlinks import Backlinks, ReadableStore
from langchain_hybridgraph.ingestion.edges.base import EdgeSet
from langchain_hybridgraph.ingestion.edges.document_lookup import StoredNames, candidates, file_name, folded
from langchain_hybridgraph.ingestion.edges.link_parser import (
    INCLUDE,
    NAME,
    PATH,
    WIKI,
    Link,
    folded_anchor,
    is_external,
    split_fragment,
)
from langchain_hybridgraph.ingestion.markdown import find_definitions, find_links
from langchain_hybridgraph.records import REFERENCES, Edge
from langchain_hybridgraph.stores.protocols import AcceptsChunks, HasDocuments, ReadsIndex, implements


class LinkEdges:
    """Edges that represent links. An edge starts at the chunk that contains the link. It ends at the first chunk of the
    linked document, or at the chunk with the linked anchor.

    Links are Markdown, HTML, wiki and reStructuredText links, included files, and the entries of ``links`` in the
    metadata (ids, URLs, paths or titles). Edges for these entries start at the first chunk of the document. Anchors are
    compared by their letters and digits, because renderers derive different anchors from the same heading.

    A link refers to a document of the same ingest by its id, ``source`` or ``uri``, and to a document of an earlier
    ingest by its id. Wiki links and entries of ``links`` may also use the title or file name of a document, if only one
    document has it. Titles and file names of earlier documents are known only if the store can list its documents
    (``stores.protocols.ReadsIndex``); the file name is then taken from the document's id.

    A link to a missing text document becomes a pending edge: it ends at the id that the first chunk of the document
    will have. With ``pending=False``, such links are ignored. Links to web pages that are not documents of the store
    are always ignored.

    >>> from langchain_hybridgraph import HybridGraphStore, ingest
    >>> store = HybridGraphStore(None)
    >>> texts = {"cats.md": "Unlike [dogs](dogs.md), cats purr.", "dogs.md": "They bark."}
    >>> chunks = [Chunk(f"{name}#0", text, {"source": name}, name) for name, text in texts.items()]
    >>> _ = ingest(chunks, store, split=None, edges=[LinkEdges()])
    >>> [(edge.source, edge.relation, edge.target) for edge in store.edges(["cats.md#0"])]
    [('cats.md#0', 'references', 'dogs.md#0')]
    """

    def __init__(self, relation: str = REFERENCES, weight: float = 1.0, *, pending: bool = True) -> None:
        self.relations = (relation,)
        self._weight = weight
        self._pending = pending
        self._names = _DocumentNames()
        self._spool: IO[str] | None = None
        self._store: AcceptsChunks | None = None
        self._earlier: StoredNames | None = None
        self._backlinks: Backlinks | None = None

    def start(self, store: AcceptsChunks) -> None:
        """Clear the names and links recorded during the previous ingest."""
        self._store = store
        is_first = isinstance(store, Sized) and len(store) == 0
        older = store if implements(store, ReadableStore) and not is_first else None
        self._earlier = None if older is None else StoredNames(older)
        self._backlinks = None if older is None else Backlinks(older, self.relations[0])
        self._names = _DocumentNames()
        # A link can point to a later document, so all links are kept until the end. They are kept on disk, because they
        # may not fit into memory.
        self._spool = SpooledTemporaryFile(1 << 23, "w+", encoding="utf-8", errors="surrogatepass")  # noqa: SIM115 - closed by finish

    def before(self, old_ids: Mapping[str, Set[str]]) -> None:
        """Receive, for each document in the next batch, the ids of its stored chunks and parents."""
        if self._backlinks is not None:
            self._backlinks.before(old_ids)

    def see(self, document: CutDocument) -> Iterator[EdgeSet]:
        """Record the document's names and links. Yield an empty edge set, which deletes the old edges of chunks that
        have no links now.
        """
        if not document.chunks or self._spool is None:
            return
        self._names.add(document)
        if self._backlinks is not None:
            self._backlinks.see(document)
        links = _links_of(document)
        if links:
            self._spool.write(json.dumps(_document_links(document, links)) + "\n")
        yield EdgeSet((), [chunk.id for chunk in document.chunks if chunk.id not in links])

    def finish(self) -> Iterator[EdgeSet]:
        """Yield the edges of all links; they are resolved here, because all documents are stored now. Then yield edges
        of unchanged documents whose links lead to different chunks than before.
        """
        spool, store = self._spool, self._store
        if spool is None or store is None:
            return
        with spool:
            spool.seek(0)
            while lines := spool.readlines(1 << 19):
                yield self._resolved([_DocumentLinks(*json.loads(line)) for line in lines], store)
        self._spool = None
        if self._backlinks is not None and implements(store, ReadableStore):
            for document, chunks in self._backlinks.documents(self._names.documents()):
                yield from self._relinked(document, chunks, store)
        self._earlier = self._backlinks = None

    def _resolved(self, documents: Sequence[_DocumentLinks], store: AcceptsChunks) -> EdgeSet:
        links = [link for document in documents for link in document.read()]
        resolver = _LinkResolver(self._names, store, self._earlier)
        resolver.look_up(links)
        sources = [source for document in documents for source in document.links]
        return EdgeSet(list(self._edges(links, resolver).values()), sources)

    def _edges(self, links: Iterable[_ChunkLink], resolver: _LinkResolver) -> dict[tuple[str, str], Edge]:
        edges: dict[tuple[str, str], Edge] = {}
        for link in links:
            target = resolver.find(link, pending=self._pending)
            if target is not None and target != link.source and (link.source, target) not in edges:
                label = f" as “{link.link.label}”" if link.link.label else ""
                text = f"{link.document} links to {self._names.label(target)}{label}."
                edges[link.source, target] = Edge(link.source, target, self.relations[0], self._weight, text)
        return edges

    def _relinked(self, document: CutDocument, chunks: Sequence[str], store: ReadableStore) -> Iterator[EdgeSet]:
        """Resolve the links from ``chunks``, which belong to an unchanged document, to documents of this ingest again.
        If this changes any edge, yield all edges of the chunks that contain such links.
        """
        links_by_chunk = {chunk: chunk_links for chunk, chunk_links in _links_of(document).items() if chunk in chunks}
        links = [link for link in _document_links(document, links_by_chunk).read() if self._leads_to_new_document(link)]
        resolver = _LinkResolver(self._names, store, None)
        resolver.look_up(links)
        edges = self._edges(links, resolver)
        sources = sorted({link.source for link in links})
        old = [edge for edge in store.edges(sources) if edge.relation in self.relations]
        # Targets that the stored edge may have, because the linked heading or document did not exist when it was
        # written.
        targets = {
            (link.source, target)
            for link in links
            for target in (resolver.first(link), _pending_target(link))
            if target
        }
        # If the heading has moved within the document, the stored edge has the same description as the new one.
        descriptions = {(edge.source, edge.description) for edge in edges.values()}
        obsolete = {
            (edge.source, edge.target)
            for edge in old
            if (edge.source, edge.target) in targets or (edge.source, edge.description) in descriptions
        }
        remaining = [
            edge for edge in old if (edge.source, edge.target) not in obsolete or (edge.source, edge.target) in edges
        ]
        remaining_ends = {(edge.source, edge.target) for edge in remaining}
        new = [edge for ends, edge in edges.items() if ends not in remaining_ends]
        if new or len(remaining) < len(old):
            yield EdgeSet([*remaining, *new], sources)

    def _leads_to_new_document(self, link: _ChunkLink) -> bool:
        """Return whether a link refers to a document of this ingest.

        A title or file name is ignored if another document in the store also has it.
        """
        document = self._names.find(link)
        if document is None or document in link.names or link.link.kind == PATH or self._earlier is None:
            return document is not None
        titled = self._earlier.find(link.names[:1]).get(link.names[0])
        return titled is not None and titled.document == document


class _ChunkLink(NamedTuple):
    """Link from a chunk. ``names`` are the possible names of the linked document, best first.

    ``document`` is the title or id of the chunk's document. ``has_own_id`` is true if the user chose the chunk's id.
    """

    source: str
    document: str
    has_own_id: bool
    link: Link
    names: Sequence[str]
    fragment: str


class _DocumentLinks(NamedTuple):
    """Unresolved links of a document, grouped by chunk. ``bases`` are the paths that the links may be relative to."""

    label: str
    has_own_id: bool
    bases: Sequence[str]
    links: Mapping[str, Sequence[Sequence[str]]]

    def read(self) -> Iterator[_ChunkLink]:
        """Yield the links of the document, with relative links resolved against its location."""
        for chunk, links in self.links.items():
            for link in (Link(*fields) for fields in links):
                path, fragment = split_fragment(link.target)
                yield _ChunkLink(chunk, self.label, self.has_own_id, link, self._names(link, path), fragment)

    def _names(self, link: Link, path: str) -> list[str]:
        if link.kind == WIKI:
            return [path.strip() or self.bases[-1]]
        # The name as written comes first, because an id can have any form.
        whole = [link.target] if link.kind == NAME or is_external(link.target) else []
        bases = (above for base in self.bases for above in _folders(base)) if link.kind == INCLUDE else self.bases
        relative = (name for base in bases for name in candidates(path, base))
        return list(dict.fromkeys([*whole, *relative]))


def _folders(path: str) -> Iterator[str]:
    """Yield the path, then each folder above it. A tool may resolve included paths relative to any of these folders."""
    yield path
    while path and (above := posixpath.dirname(path)) != path:
        path = above
        yield path


def _document_links(document: CutDocument, links: Mapping[str, Sequence[Sequence[str]]]) -> _DocumentLinks:
    bases = [_text(document.metadata.get(key)) for key in ("source", "uri")]
    paths = [base for base in dict.fromkeys((*bases, document.id)) if base]
    return _DocumentLinks(document.title or document.id, _has_own_id(document, document.chunks[0]), paths, links)


class _DocumentNames:
    """Names of the documents of one ingest, and their first chunks."""

    def __init__(self) -> None:
        self._documents: dict[str, str] = {}
        self._titles: dict[str, str | None] = {}  # None if several documents have the name
        self._starts: dict[str, str] = {}
        self._labels: dict[str, str] = {}
        self._anchors: dict[tuple[str, str], str] = {}

    def add(self, document: CutDocument) -> None:
        first = document.chunks[0].id
        for chunk in document.chunks:
            for anchor in anchors_of(chunk):
                self._anchors[document.id, folded_anchor(anchor)] = chunk.id
        if document.continues:
            self._add_own_ids(document)
            return
        self._documents[document.id] = document.id
        if first != first_chunk_id(document.id):
            self._starts[document.id] = first
            self._add_own_ids(document)
        else:
            self._starts.pop(document.id, None)
        for key in ("uri", "source"):
            name = _text(document.metadata.get(key))
            if name:
                self._documents.setdefault(name, document.id)
        if document.title:
            self._labels[document.id] = document.title
        source = _text(document.metadata.get("source"))
        for title in {folded(document.title or ""), file_name(source)} - {""}:
            is_unique = self._titles.setdefault(title, document.id) == document.id
            self._titles[title] = document.id if is_unique else None

    def _add_own_ids(self, document: CutDocument) -> None:
        """Register chunks with ids chosen by the user as targets of links."""
        for chunk in document.chunks:
            if _has_own_id(document, chunk):
                self._documents.setdefault(chunk.id, chunk.id)
                self._starts.setdefault(chunk.id, chunk.id)

    def find(self, link: _ChunkLink) -> str | None:
        """Return the id of the document that a link refers to, or None if it is not a document of this ingest."""
        document = next((self._documents[name] for name in link.names if name in self._documents), None)
        if document is None and link.link.kind not in (PATH, INCLUDE):
            document = self._titles.get(folded(link.names[0]) if link.names else "")
        return document

    def documents(self) -> Set[str]:
        """Return the ids, sources and URIs of the documents, and the chunk ids that the user chose."""
        return self._documents.keys()

    def set_label(self, document: str, label: str) -> None:
        """Set the label that edge descriptions use for a document of an earlier ingest."""
        self._labels.setdefault(document, label)

    def anchored_chunk(self, document: str, anchor: str) -> str | None:
        """Return the id of the chunk with this anchor in a document of this ingest, or None if there is no such
        chunk.
        """
        return self._anchors.get((document, folded_anchor(anchor)))

    def first_chunk(self, document: str) -> str:
        return self._starts.get(document) or first_chunk_id(document)

    def label(self, chunk: str) -> str:
        document = chunk.rpartition("#")[0] or chunk
        return self._labels.get(document) or self._labels.get(chunk) or document


class _LinkResolver:
    """Finds the chunks that links lead to, with one query to the store for many links."""

    def __init__(self, names: _DocumentNames, store: HasDocuments, earlier: StoredNames | None) -> None:
        self._names = names
        self._store: HasDocuments = store
        self._earlier = earlier
        self._chunks: dict[str, set[str]] = {}
        self._titled: dict[str, str] = {}
        self._anchors: dict[str, dict[str, str]] = {}

    def look_up(self, links: Sequence[_ChunkLink]) -> None:
        names: set[str] = set()
        for link in links:
            document = self._names.find(link)
            if document is None:
                names.update(link.names)
            elif link.fragment and self._names.anchored_chunk(document, link.fragment) is None:
                names.add(document)
        self._look_up(names)
        if self._earlier is not None:
            titled = self._earlier.find(link.names[0] for link in links if self._is_title(link))
            for name, (document, label) in titled.items():
                self._titled[name] = document
                self._names.set_label(document, label)
            self._look_up(set(self._titled.values()) - self._chunks.keys())

    def _look_up(self, documents: Iterable[str]) -> None:
        ordered = sorted(documents)
        for start in range(0, len(ordered), 2_000):
            chunks_by_document = self._store.document_chunks(ordered[start : start + 2_000])
            self._chunks.update((document, chunks) for document, chunks in chunks_by_document.items() if chunks)

    def _is_title(self, link: _ChunkLink) -> bool:
        """Return whether a link can only be resolved by the title or file name of a document from an earlier ingest."""
        return (
            link.link.kind not in (PATH, INCLUDE)
            and bool(link.names)
            and self._names.find(link) is None
            and not any(name in self._chunks for name in link.names)
        )

    def first(self, link: _ChunkLink) -> str | None:
        """Return the id of the linked document's first chunk, or None if the document is not part of this ingest."""
        document = self._names.find(link)
        return None if document is None else self._names.first_chunk(document)

    def find(self, link: _ChunkLink, *, pending: bool) -> str | None:
        """Return the id of the linked chunk. If the document is missing, return the result of :func:`_pending_target`
        if ``pending`` is set, and None otherwise.
        """
        document = self._names.find(link)
        if document is None:
            document = next((name for name in link.names if name in self._chunks), None)
        if document is None and link.link.kind not in (PATH, INCLUDE) and link.names:
            document = self._titled.get(link.names[0])
        if document is None:
            return _pending_target(link) if pending else None
        if link.fragment and (anchor_chunk := self._anchored_chunk(document, link.fragment)) is not None:
            return anchor_chunk
        chunks = self._chunks.get(document, set())
        first = self._names.first_chunk(document)
        if not chunks or first in chunks:
            return first
        return document if document in chunks else min(chunks)

    def _anchored_chunk(self, document: str, anchor: str) -> str | None:
        """Return the id of the chunk that has this anchor in a document. The chunks of documents from earlier ingests
        are read from the store.
        """
        anchor_chunk = self._names.anchored_chunk(document, anchor)
        if anchor_chunk is not None:
            return anchor_chunk
        if document not in self._anchors:
            ids = self._chunks.get(document, set())
            anchors = {folded_anchor(id.removeprefix(f"{document}#")): id for id in ids}
            if document not in self._names.documents() and implements(self._store, ReadsIndex):
                chunks = self._store.get(sorted(ids))
                anchors.update((folded_anchor(name), chunk.id) for chunk in chunks for name in anchors_of(chunk))
            self._anchors[document] = anchors
        return self._anchors[document].get(folded_anchor(anchor))


def _pending_target(link: _ChunkLink) -> str | None:
    """Return the id that the first chunk of a missing document will have. Return None for links that are never pending:
    included files, links to web pages, and links to files that are not text.
    """
    if not link.names or link.link.kind == INCLUDE or is_external(link.link.target):
        return None
    name = link.names[0]
    if link.link.kind == PATH:
        suffix = posixpath.splitext(name)[1].lower()
        if not name or (suffix and suffix not in _TEXT_SUFFIXES) or name.endswith(".."):
            return None
    # An id cannot contain a NUL character, which a link can write as %00.
    return replace_surrogates(name if link.has_own_id else first_chunk_id(name)).replace("\0", "\ufffd")


_TEXT_SUFFIXES = frozenset({".md", ".markdown", ".rst", ".html", ".htm", ".txt", ".jsonl"})


def _links_of(document: CutDocument) -> dict[str, list[Link]]:
    """Return the links of each chunk that has links, in order. The links in the document's metadata belong to its first
    chunk.
    """
    if document.links is not None:
        links_by_chunk = {chunk.id: list(document.links.get(chunk.id, ())) for chunk in document.chunks}
    else:
        definitions: dict[str, Any] = {}
        for chunk in document.chunks:
            definitions = {**find_definitions(chunk.text), **definitions}
        links_by_chunk = {
            chunk.id: list(dict.fromkeys(find_links(chunk.text, definitions))) for chunk in document.chunks
        }
    metadata_links = document.metadata.get("links") or ()
    targets = (
        [metadata_links]
        if isinstance(metadata_links, str)
        else metadata_links
        if isinstance(metadata_links, Iterable)
        else ()
    )
    links_by_chunk[document.chunks[0].id] += [Link(NAME, str(target)) for target in targets]
    return {chunk: links for chunk, links in links_by_chunk.items() if links}


def _has_own_id(document: CutDocument, chunk: Chunk) -> bool:
    """Return whether the user chose the chunk's id. Generated ids begin with the id of the document."""
    return not chunk.id.startswith(f"{document.id}#")


def _text(value: Any) -> str:
    return "" if value is None else str(value)
