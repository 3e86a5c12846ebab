"""Edges from links and citations to their targets."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, Sized
from tempfile import SpooledTemporaryFile
from typing import IO, Any, NamedTuple, Protocol, runtime_checkable
from urllib.parse import unquote

from langchain_hybridgraph.chunks import Chunk, replace_surrogates
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.ingestion.edges.base import EdgeBuilder, EdgeSet, slices
from langchain_hybridgraph.ingestion.markdown import (
    INCLUDE,
    NAME,
    PATH,
    WIKI,
    Link,
    find_definitions,
    find_links,
    folded_anchor,
    is_external,
    split_fragment,
    urlsplit_scheme,
)
from langchain_hybridgraph.ingestion.splitting import CutDocument, anchors_of, first_chunk_id, position
from langchain_hybridgraph.records import CITES, REFERENCES, Edge, Query, Scope
from langchain_hybridgraph.stores.protocols import AcceptsChunks, HasDocuments, ReadsIndex, SearchesKeywords, implements

MAX_NAMING_CHUNKS = 100  # maximum number of chunks searched for the name of a new document
_SLICE = 1_000
_BY_TEXT = re.compile(r"#(?:parent-)?[0-9a-f]{16}(?:-\d+)?\Z")  # id of a chunk that does not begin with a heading
_MAY_LINK = re.compile(r"\[|`|://|<[aA]\s")
_INDEX_NAMES = frozenset({"index", "readme"})
# Suffixes by which a link may differ from the name of the document that it points to.
_SUFFIXES = (".md", ".rst", ".html", ".markdown", ".htm", ".txt")
_INDEXES = ("index.md", "README.md", "index.rst", "index.html", "readme.md", "README.rst")
_NO_DOCUMENTS = frozenset({"mailto", "javascript", "data", "tel", "sms", "irc", "about", "blob"})
_DOI = re.compile(r"(?:https?://(?:dx\.)?doi\.org/|doi:\s*)?(10\.\d{4,9}/\S+)", re.IGNORECASE)
# Fields of a reference object that may identify the cited document, best first.
_CITED_BY = ("id", "document_id", "doi", "DOI", "title", "source", "uri", "url")
# Metadata that identify a document, like its id.
_LOCATIONS = ("uri", "source", "doi")
CITATION = "citation"  # kind of a link whose target is an id, title, DOI, source or uri
_TEXT_SUFFIXES = frozenset({".md", ".markdown", ".rst", ".html", ".htm", ".txt", ".jsonl"})


@runtime_checkable
class ReadableStore(ReadsIndex, HasDocuments, Protocol):
    """Store whose documents and chunks can be listed and read."""


class LinkEdges(EdgeBuilder):
    """Edges for links, from the chunk with the link to the first chunk of the linked document, or to the linked anchor.

    Links are Markdown, HTML, wiki and reStructuredText links, included files, and the entries of ``links`` in the
    metadata (ids, URLs, paths or titles), which start at the first chunk of the document. Anchors are compared by their
    letters and digits, because renderers derive different anchors from the same heading.

    A link refers to a document of the same ingest by its id, ``source`` or ``uri``, and to a document of an earlier
    ingest by its id. Wiki links and entries of ``links`` may also use the title or file name of a document, if only one
    document has it. For earlier documents, they may use any of these names if the store can list its documents
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

    _verb, _in_texts = "links to", True

    def __init__(self, relation: str = REFERENCES, weight: float = 1.0, *, pending: bool = True) -> None:
        self.relations = (relation,)
        self._weight = weight
        self._pending = pending

    def start(self, store: AcceptsChunks) -> None:
        """Clear the names and links recorded during the previous ingest."""
        self._store: Any = store
        is_first = isinstance(store, Sized) and len(store) == 0
        older = store if implements(store, ReadableStore) and not is_first else None
        self._earlier = None if older is None else _StoredNames(older)
        self._backlinks = None if older is None else Backlinks(older, self.relations[0], in_texts=self._in_texts)
        self._names = _DocumentNames()
        # A link can point to a later document, so all links are kept until the end. They are kept on disk, because they
        # may not fit into memory.
        self._spool: IO[str] = SpooledTemporaryFile(1 << 23, "w+", encoding="utf-8", errors="surrogatepass")  # noqa: SIM115 - closed by finish

    def before(self, old_ids: Mapping[str, Set[str]]) -> None:
        """Receive, for each document in the next batch, the ids of its stored chunks and parents."""
        if self._backlinks is not None:
            self._backlinks.before(old_ids)

    def see(self, document: CutDocument) -> Iterator[EdgeSet]:
        """Record the document's names and links. Yield an empty edge set for the chunks that have no links now."""
        if not document.chunks:
            return
        self._names.add(document)
        if self._backlinks is not None:
            self._backlinks.see(document)
        links = self._links_of(document)
        if links:
            self._spool.write(json.dumps(_document_links(document, links)) + "\n")
        yield EdgeSet((), [chunk.id for chunk in document.chunks if chunk.id not in links])

    def finish(self) -> Iterator[EdgeSet]:
        """Yield the edges of all links, then those of unchanged documents whose links lead elsewhere now."""
        with self._spool as spool:
            spool.seek(0)
            while lines := spool.readlines(1 << 19):
                documents = [_DocumentLinks(*json.loads(line)) for line in lines]
                links = [link for document in documents for link in document.read()]
                resolver = _LinkResolver(self._names, self._store, self._earlier)
                resolver.look_up(links)
                sources = [source for document in documents for source in document.links]
                yield EdgeSet(list(self._edges(links, resolver).values()), sources)
        if self._backlinks is not None:
            for unchanged, chunks in self._backlinks.documents(self._names.documents.keys()):
                yield from self._relinked(unchanged, chunks)

    def _edges(self, links: Iterable[_ChunkLink], resolver: _LinkResolver) -> dict[tuple[str, str], Edge]:
        edges: dict[tuple[str, str], Edge] = {}
        for link in links:
            target = resolver.find(link, pending=self._pending)
            if target is not None and target != link.source and (link.source, target) not in edges:
                label = f" as “{link.link.label}”" if link.link.label else ""
                text = f"{link.document} {self._verb} {self._names.label(target)}{label}."
                edges[link.source, target] = Edge(link.source, target, self.relations[0], self._weight, text)
        return edges

    def _relinked(self, document: CutDocument, chunks: Sequence[str]) -> Iterator[EdgeSet]:
        """Yield new edges for ``chunks`` of an unchanged document if links to documents of this ingest changed."""
        every = self._links_of(document)
        links_by_chunk = {chunk: every[chunk] for chunk in chunks if chunk in every}
        links = [link for link in _document_links(document, links_by_chunk).read() if self._leads_to_new_document(link)]
        resolver = _LinkResolver(self._names, self._store, None)
        resolver.look_up(links)
        edges = self._edges(links, resolver)
        sources = sorted({link.source for link in links})
        old = [edge for edge in self._store.edges(sources) if edge.relation in self.relations]
        documents = {chunk.id: chunk.document for chunk in self._store.get([edge.target for edge in old])}
        # Stored edges of these links lead to a chunk of the same document, or to the id that was expected for it.
        ends = {(link.source, name) for link in links for name in (self._names.find(link), _pending_target(link))}
        others = [
            edge
            for edge in old
            if ends.isdisjoint((edge.source, id) for id in (edge.target, documents.get(edge.target)))
        ]
        if links:
            yield EdgeSet([*others, *edges.values()], sources)

    def _leads_to_new_document(self, link: _ChunkLink) -> bool:
        """Return whether a link refers to a document of this ingest, by a title only if it is unique in the store."""
        document = self._names.find(link)
        if document is None or self._earlier is None or not self._names.documents.keys().isdisjoint(link.names):
            return document is not None
        titled = self._earlier.find(link.names[:1]).get(link.names[0])
        return titled is not None and titled[0] == document

    def _links_of(self, document: CutDocument) -> dict[str, list[Link]]:
        return _links_of(document)


class CitationEdges(LinkEdges):
    """Edges of weight 1 from each document to the documents that it cites in a metadata field.

    An edge connects the first chunks of the two documents. Each entry of the field is an id, title, file name, DOI (in
    any usual spelling), source or uri, or an object that contains one of these. A title or file name is used only if
    exactly one document has it. Documents of earlier ingests are found by their id and, if the store can be queried by
    metadata (``stores.protocols.ReadsIndex``), also by the other names.

    A citation of a missing document becomes a pending edge to the id that the first chunk of the document will have.
    When the document is ingested, the edge is redirected to it. With ``pending=False``, such citations are ignored.

    >>> from langchain_hybridgraph import HybridGraphStore, ingest
    >>> store = HybridGraphStore(None)
    >>> old = Chunk("p1", "On computable numbers.", {"doi": "10.1112/plms/s2-42.1.230", "title": "Numbers"}, "p1")
    >>> new = Chunk("p2", "Machinery.", {"citations": ["https://doi.org/10.1112/PLMS/s2-42.1.230"], "title": "Mind"})
    >>> _ = ingest([new, old], store, split=None, edges=[CitationEdges()])
    >>> [(edge.source, edge.relation, edge.target, edge.description) for edge in store.edges(["p2"])]
    [('p2', 'cites', 'p1', 'Mind cites Numbers.')]
    """

    _verb, _in_texts = "cites", False

    def __init__(self, field: str = "citations", relation: str = CITES, *, pending: bool = True) -> None:
        if not field:
            raise ConfigurationError('CitationEdges(field=""): name the metadata field, such as "citations"')
        super().__init__(relation, pending=pending)
        self._field = field

    def _links_of(self, document: CutDocument) -> dict[str, list[Link]]:
        cited = _references(document.metadata.get(self._field))
        return {document.chunks[0].id: [Link(CITATION, name) for name in cited]} if cited else {}


def _references(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        identifier = next((value[key] for key in _CITED_BY if value.get(key)), None)
        return [] if identifier is None else _references(identifier)
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return list(dict.fromkeys(name for entry in value for name in _references(entry)))
    name = text_of(value).strip()
    return [name] if name else []


def _doi(name: str) -> str:
    """Return the DOI in a name, in lower case and without a prefix, or "" if the name is not a DOI."""
    match = _DOI.fullmatch(name.strip())
    return match[1].lower() if match else ""


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
        for chunk, links in self.links.items():
            for link in (Link(*fields) for fields in links):
                path, fragment = (link.target, "") if link.kind == CITATION else split_fragment(link.target)
                yield _ChunkLink(chunk, self.label, self.has_own_id, link, self._names(link, path), fragment)

    def _names(self, link: Link, path: str) -> list[str]:
        if link.kind == WIKI:
            return [path.strip() or self.bases[-1]]
        if link.kind == CITATION:
            return list(filter(None, dict.fromkeys([path, _doi(path)])))
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
    bases = [text_of(document.metadata.get(key)) for key in ("source", "uri")]
    paths = [base for base in dict.fromkeys((*bases, document.id)) if base]
    has_own_id = not document.chunks[0].id.startswith(f"{document.id}#")
    return _DocumentLinks(document.title or document.id, has_own_id, paths, links)


class _DocumentNames:
    def __init__(self) -> None:
        self.documents: dict[str, str] = {}  # by id, source and URI; also the chunk ids that the user chose
        self.labels: dict[str, str] = {}  # labels that edge descriptions use
        self._titles: dict[str, str | None] = {}  # None if several documents have the name
        self._starts: dict[str, str] = {}
        self._anchors: dict[tuple[str, str], str] = {}

    def add(self, document: CutDocument) -> None:
        first = document.chunks[0].id
        for chunk in document.chunks:
            for anchor in anchors_of(chunk):
                self._anchors[document.id, folded_anchor(anchor)] = chunk.id
        if document.continues:
            self._add_own_ids(document)
            return
        self.documents[document.id] = document.id
        if first != first_chunk_id(document.id):
            self._starts[document.id] = first
            self._add_own_ids(document)
        else:
            self._starts.pop(document.id, None)
        names = [text_of({**document.chunks[0].metadata, **document.metadata}.get(key)) for key in _LOCATIONS]
        for name in filter(None, [*names, *map(_doi, [document.id, *names])]):
            self.documents.setdefault(name, document.id)
        if document.title:
            self.labels[document.id] = document.title
        source = text_of(document.metadata.get("source"))
        for title in {folded(document.title or ""), file_name(source)} - {""}:
            is_unique = self._titles.setdefault(title, document.id) == document.id
            self._titles[title] = document.id if is_unique else None

    def _add_own_ids(self, document: CutDocument) -> None:
        for chunk in document.chunks:
            if not chunk.id.startswith(f"{document.id}#"):  # generated ids begin with the id of the document
                self.documents.setdefault(chunk.id, chunk.id)
                self._starts.setdefault(chunk.id, chunk.id)

    def find(self, link: _ChunkLink) -> str | None:
        document = next((self.documents[name] for name in link.names if name in self.documents), None)
        if document is None and link.link.kind not in (PATH, INCLUDE):
            document = self._titles.get(folded(link.names[0]) if link.names else "")
        return document

    def anchored_chunk(self, document: str, anchor: str) -> str | None:
        return self._anchors.get((document, folded_anchor(anchor)))

    def first_chunk(self, document: str) -> str:
        return self._starts.get(document) or first_chunk_id(document)

    def label(self, chunk: str) -> str:
        document = chunk.rpartition("#")[0] or chunk
        return self.labels.get(document) or self.labels.get(chunk) or document


class _LinkResolver:
    """Finds the chunks that links lead to, with one query to the store for many links."""

    def __init__(self, names: _DocumentNames, store: HasDocuments, earlier: _StoredNames | None) -> None:
        self._names = names
        self._store = store
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
            # Links that can only be resolved by another name than the id of a document from an earlier ingest.
            titled = self._earlier.find(
                link.names[0]
                for link in links
                if link.names
                and link.link.kind not in (PATH, INCLUDE)
                and self._names.find(link) is None
                and not any(name in self._chunks for name in link.names)
            )
            for name, (document, label) in titled.items():
                self._titled[name] = document
                self._names.labels.setdefault(document, label)
            self._look_up(set(self._titled.values()) - self._chunks.keys())

    def _look_up(self, documents: Iterable[str]) -> None:
        for batch in slices(sorted(documents), 2_000):
            chunks_by_document = self._store.document_chunks(batch)
            self._chunks.update((document, chunks) for document, chunks in chunks_by_document.items() if chunks)
            if implements(self._store, ReadsIndex):
                missing = [name for name in batch if name not in self._chunks]
                self._chunks.update((chunk.id, {chunk.id}) for chunk in self._store.get(missing))

    def find(self, link: _ChunkLink, *, pending: bool) -> str | None:
        """Return the id of the linked chunk, or with ``pending`` the future id in a missing document, or None."""
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
        anchor_chunk = self._names.anchored_chunk(document, anchor)
        if anchor_chunk is not None:
            return anchor_chunk
        if document not in self._anchors:
            ids = self._chunks.get(document, set())
            anchors = {folded_anchor(id.removeprefix(f"{document}#")): id for id in ids}
            if document not in self._names.documents and implements(self._store, ReadsIndex):
                chunks = self._store.get(sorted(ids))
                anchors.update((folded_anchor(name), chunk.id) for chunk in chunks for name in anchors_of(chunk))
            self._anchors[document] = anchors
        return self._anchors[document].get(folded_anchor(anchor))


def _pending_target(link: _ChunkLink) -> str | None:
    """Return the future first chunk id, or None for included files, web pages and files that are not text."""
    if not link.names or link.link.kind == INCLUDE or (link.link.kind != CITATION and is_external(link.link.target)):
        return None
    name = link.names[-1 if link.link.kind == CITATION else 0]
    if link.link.kind == PATH:
        suffix = posixpath.splitext(name)[1].lower()
        if not name or (suffix and suffix not in _TEXT_SUFFIXES) or name.endswith(".."):
            return None
    # An id cannot contain a NUL character, which a link can write as %00.
    return replace_surrogates(name if link.has_own_id else first_chunk_id(name)).replace("\0", "\ufffd")


def _links_of(document: CutDocument) -> dict[str, list[Link]]:
    """Return the links of each chunk that has links; those in the metadata belong to the first chunk."""
    if document.links is not None:
        links_by_chunk = {chunk.id: list(document.links.get(chunk.id, ())) for chunk in document.chunks}
    else:
        definitions: dict[str, Any] = {}
        for chunk in document.chunks:
            definitions = {**find_definitions(chunk.text), **definitions}
        links_by_chunk = {
            chunk.id: list(dict.fromkeys(find_links(chunk.text, definitions))) for chunk in document.chunks
        }
    targets = document.metadata.get("links") or ()
    if isinstance(targets, str):
        targets = [targets]
    if isinstance(targets, Iterable):
        links_by_chunk[document.chunks[0].id] += [Link(NAME, str(target)) for target in targets]
    return {chunk: links for chunk, links in links_by_chunk.items() if links}


def text_of(value: Any) -> str:
    """Return a metadata value as a string, "" for None."""
    return "" if value is None else str(value)


# -- links of stored chunks ----------------------------------------------------------------------------------------


class Backlinks:
    """Collector of stored chunks whose links may have to be resolved again after an ingest.

    If a document has lost chunks or gained a heading, the chunks that link to it are found by their stored edges, with
    one lookup for each such document. If it is new in the store, they are found by their pending edges. A link may have
    no pending edge, for example because the document was deleted and added again, so a store with a keyword search
    (``stores.protocols.SearchesKeywords``) is also searched for the document's names (``MAX_NAMING_CHUNKS`` results).
    """

    def __init__(self, store: ReadableStore, relation: str, *, in_texts: bool) -> None:
        self._store = store
        self._relation = relation
        self._in_texts = in_texts  # whether links are in the texts of chunks, which can be searched
        self._old_ids: Mapping[str, Set[str]] = {}
        self._sources: dict[str, None] = {}
        self._new: list[tuple[str, tuple[str, ...]]] = []  # id and other names of each new document

    def before(self, old_ids: Mapping[str, Set[str]]) -> None:
        """Receive, for each document in the next batch, the ids of its stored chunks and parents."""
        self._old_ids = old_ids

    def see(self, document: CutDocument) -> None:
        """Collect the chunks whose links to this document may have changed: those that link to a chunk it has lost, or
        to any of its chunks if it has a new heading. A new document is only recorded for :meth:`documents`.
        """
        if document.continues:  # only the first part of a document has headings that links can point to
            return
        old_ids = self._old_ids.get(document.id)
        if not old_ids:
            self._new.append((document.id, _document_names(document)))
            return
        new_ids = {chunk.id for chunk in document.chunks}
        parents = {chunk.parent for chunk in document.chunks}
        lost_ids = sorted(old_ids - new_ids - parents)
        if any(not _BY_TEXT.search(id) for id in new_ids - old_ids):
            # A heading that now begins a chunk may previously have been inside any other chunk.
            lost_ids += sorted(new_ids & old_ids)
        if lost_ids:
            self._add_linking(lost_ids)

    def documents(self, excluded: Set[str]) -> Iterator[tuple[CutDocument, list[str]]]:
        """Yield (document or part of it, ids of its chunks to resolve again), without documents in ``excluded``."""
        for batch in slices(self._new, _SLICE):
            names = {name for id, others in batch for name in (id, *others) if replace_surrogates(name) == name}
            self._add_linking({*names, *map(first_chunk_id, names)})
        if self._in_texts and implements(self._store, SearchesKeywords):
            for _, names_of_document in self._new:
                self._add_naming(names_of_document, self._store)
        for sources in slices(sorted(self._sources), _SLICE):
            yield from self._read(sources, excluded)

    def _add_linking(self, ids: Iterable[str]) -> None:
        edges = self._store.edges(sorted(ids), backwards=True)
        self._sources.update((edge.source, None) for edge in edges if edge.relation == self._relation)

    def _add_naming(self, names: Sequence[str], store: SearchesKeywords) -> None:
        query = Query(" ".join(names), MAX_NAMING_CHUNKS, Scope())
        entries = store.keyword_search(query, MAX_NAMING_CHUNKS).entries
        for chunk in self._store.get([entry.id for entry in entries]):
            # Most chunks with these words have no link, and normalising their text is slow.
            if _MAY_LINK.search(chunk.text) is None:
                continue
            text = folded(unquote(chunk.text))
            if any(folded(name) in text for name in names):
                self._sources[chunk.id] = None

    def _read(self, sources: Sequence[str], excluded: Set[str]) -> Iterator[tuple[CutDocument, list[str]]]:
        ids_by_document: dict[str, list[str]] = {}
        for chunk in self._store.get(sources):
            if chunk.document not in excluded:
                ids_by_document.setdefault(chunk.document, []).append(chunk.id)
        for document, ids in ids_by_document.items():
            chunks = self._store.get(sorted(self._store.document_chunks([document])[document]))
            parents = {chunk.parent for chunk in chunks}
            leaf_chunks = sorted((chunk for chunk in chunks if chunk.id not in parents), key=_order)
            # As ingested, chunks with generated ids belong to one CutDocument. A chunk whose id the user chose is a
            # CutDocument of its own.
            generated = tuple(chunk for chunk in leaf_chunks if chunk.id.startswith(f"{document}#"))
            own = [(chunk,) for chunk in leaf_chunks if not chunk.id.startswith(f"{document}#")]
            for group in (generated, *own) if generated else own:
                group_ids = {chunk.id for chunk in group}
                yield CutDocument(document, group[0].metadata, group), [id for id in ids if id in group_ids]


def _document_names(document: CutDocument) -> tuple[str, ...]:
    path = document.id.rstrip("/")
    if file_name(path) in _INDEX_NAMES:
        path = posixpath.dirname(path)
    stem = posixpath.splitext(posixpath.basename(path))[0]
    locations = [text_of(document.metadata.get(key)) for key in _LOCATIONS]
    others = [name for name in (*locations, *map(_doi, locations)) if name != document.id]
    return tuple(dict.fromkeys(name for name in (stem, document.title or "", *others) if name.strip()))


# -- names of documents --------------------------------------------------------------------------------------------


class _StoredNames:
    def __init__(self, store: ReadsIndex) -> None:
        self._store = store
        self._files: dict[str, set[str]] | None = None
        self._by_name: dict[str, tuple[str, str] | None] = {}

    def find(self, names: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Return (document, label) for each name. A name is omitted unless exactly one document has it.

        A name is a ``source``, ``uri`` or DOI, or else a title or file name. Titles match the name as it is, in lower
        case, with a capital first letter, and with every word capitalised. The file name at the end of a document's id
        is compared ignoring case.
        """
        distinct = list(dict.fromkeys(names))
        new = [name for name in distinct if name.strip() and name not in self._by_name]
        if new:
            matches = self._look_up(new)
            self._by_name.update((name, matches.get(name)) for name in new)
        documents = ((name, self._by_name.get(name)) for name in distinct)
        return {name: document for name, document in documents if document is not None}

    def _look_up(self, names: Sequence[str]) -> dict[str, tuple[str, str]]:
        clean_names = [" ".join(name.split()) for name in names]
        spellings = [
            form for name in clean_names for form in (name, name[:1].upper() + name[1:], name.title(), name.lower())
        ]
        prefixes = ("", "doi:", "https://doi.org/", "https://dx.doi.org/")
        dois = [form for name in names if _doi(name) for form in (name, *(prefix + _doi(name) for prefix in prefixes))]
        values = {"title": spellings, "source": names, "uri": names, "doi": dois}
        conditions = [{key: {"$in": list(dict.fromkeys(some))}} for key, some in values.items()]
        titles: dict[str, set[str]] = {}
        locations: dict[str, set[str]] = {}
        labels: dict[str, str] = {}
        for chunk in first_chunks(self._store.get(self._store.find(Scope(parse_filter({"$or": conditions}))))):
            if title := text_of(chunk.metadata.get("title")):
                labels[chunk.document] = title
                titles.setdefault(folded(title), set()).add(chunk.document)
            for location in (text_of(chunk.metadata.get(key)) for key in _LOCATIONS):
                locations.setdefault(_doi(location) or location, set()).add(chunk.document)
        if self._files is None:
            self._files = {}
            for document in self._store.document_ids():
                self._files.setdefault(file_name(document), set()).add(document)
        matches: dict[str, tuple[str, str]] = {}
        for name in names:
            by_title = titles.get(folded(name), set()) | self._files.get(folded(name), set())
            documents = locations.get(_doi(name) or name) or by_title
            if len(documents) == 1:
                (document,) = documents
                matches[name] = document, labels.get(document, document)
        return matches


def first_chunks(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield one chunk for each document: the first of its given chunks, by ``chunk_index`` and then by id."""
    first: dict[str, Chunk] = {}
    for chunk in chunks:
        best = first.setdefault(chunk.document, chunk)
        if _order(chunk) < _order(best):
            first[chunk.document] = chunk
    yield from first.values()


def folded(name: str) -> str:
    """Normalise a title or file name for comparison: ``My_Notes`` becomes ``my notes``."""
    return " ".join(name.replace("_", " ").split()).casefold()


def file_name(path: str) -> str:
    """Return the normalised file name of a path or URL without directory and suffix, or "" if it has no file name.

    >>> file_name("p/My_Notes.md")
    'my notes'
    """
    return folded(posixpath.splitext(posixpath.basename(path))[0])


def _order(chunk: Chunk) -> tuple[float, str]:
    return position(chunk), chunk.id


def candidates(path: str, base: str) -> list[str]:
    """Return the ids that the target of a link may have, best first; ``path`` is the link's and ``base`` its document.

    >>> candidates("../install", "docs/guide/use.md")[:3]
    ['docs/install', 'docs/install.md', 'docs/install.rst']
    >>> candidates("/faq.html", "https://example.org/docs/a")[0]
    'https://example.org/faq.html'
    """
    scheme = urlsplit_scheme(path)
    if scheme in _NO_DOCUMENTS:
        return []
    locations = [path] if scheme else _join_path(path, base)
    return list(dict.fromkeys(name for location in locations for name in _variants(location)))


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
