"""Edges from links and citations to their targets."""

from __future__ import annotations

import json
import posixpath
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, Sized
from tempfile import SpooledTemporaryFile
from typing import IO, Any, NamedTuple

from langchain_hybridgraph.chunks import Chunk, replace_surrogates
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.ingestion import markdown
from langchain_hybridgraph.ingestion.edges.base import EdgeBuilder, EdgeSet, slices, text_of
from langchain_hybridgraph.ingestion.markdown import NAME, PATH, WIKI, Link
from langchain_hybridgraph.ingestion.splitting import CutDocument, anchors_of, first_chunk_id, position
from langchain_hybridgraph.records import CITES, REFERENCES, Edge, Scope
from langchain_hybridgraph.stores.protocols import AcceptsChunks, HasDocuments, ReadsIndex, RecordsFiles, implements

_INDEX_NAMES = frozenset({"index", "readme"})
# Suffixes by which a link may differ from the name of the document that it points to.
_SUFFIXES = (".md", ".rst", ".html", ".markdown", ".htm", ".txt")
_INDEXES = ("index.md", "README.md", "index.rst", "index.html", "readme.md", "README.rst")
_NO_DOCUMENTS = frozenset({"mailto", "javascript", "data", "tel", "sms", "irc", "about", "blob"})
_WEB = frozenset({"http", "https", "ftp"})
# Fields of a reference object that may identify the cited document, best first.
_CITED_BY = ("id", "document_id", "doi", "DOI", "title", "source", "uri", "url")
# Metadata that identify a document, like its id.
_LOCATIONS = ("uri", "source", "doi")
CITATION = "citation"  # kind of a link whose target is an id, title, DOI, source or uri


class LinkEdges(EdgeBuilder):
    """Edges of weight 1 from chunks with links to the first chunks of the linked documents, or to the linked anchors.

    Links are Markdown, HTML and wiki links, and the entries of ``links`` in the metadata (ids, URLs, paths or titles),
    which start at the first chunk of the document. Anchors are compared by their letters and digits, because renderers
    derive different anchors from the same heading.

    A link refers to a document of the same ingest by its id, ``source`` or ``uri``, and to a document of an earlier
    ingest by its id. Wiki links and entries of ``links`` may also use the title or file name of a document, if only one
    document has it. For earlier documents, they may use any of these names if the store can list its documents
    (``stores.protocols.ReadsIndex``); the file name is then taken from the document's id.

    A link to a missing text document becomes a pending edge: it ends at the id that the first chunk of the document
    will have. Links to web pages that are not documents of the store are ignored. If an ingest adds or changes a
    document to which stored chunks have edges, the links of these chunks are resolved again. If a later ingest adds
    another document with the same title, a link by title keeps its target until its own document is ingested again.

    >>> from langchain_hybridgraph import HybridGraphStore, ingest
    >>> store = HybridGraphStore(None)
    >>> texts = {"cats.md": "Unlike [dogs](dogs.md), cats purr.", "dogs.md": "They bark."}
    >>> chunks = [Chunk(f"{name}#0", text, {"source": name}, name) for name, text in texts.items()]
    >>> _ = ingest(chunks, store, split=None, edges=[LinkEdges()])
    >>> [(edge.source, edge.relation, edge.target) for edge in store.edges(["cats.md#0"])]
    [('cats.md#0', 'references', 'dogs.md#0')]
    """

    _verb = "links to"

    def __init__(self, relation: str = REFERENCES) -> None:
        self.relations = (relation,)

    def start(self, store: AcceptsChunks) -> None:
        """Clear the names and links recorded during the previous ingest."""
        is_empty = isinstance(store, Sized) and len(store) == 0
        self._earlier = store if implements(store, ReadsIndex) and not is_empty else None
        self._targets = _Targets(None if is_empty else store, self._earlier)
        self._old_ids: Mapping[str, Set[str]] = {}
        self._new_names: dict[str, None] = {}  # possible ends of the pending edges to new documents
        self._sources: set[str] = set()  # stored chunks whose links may lead elsewhere now
        # A link can point to a later document, so all links are kept until the end. They are kept on disk, because they
        # may not fit into memory.
        self._spool: IO[str] = SpooledTemporaryFile(1 << 23, "w+", encoding="utf-8", errors="surrogatepass")  # noqa: SIM115 - closed by finish

    def before(self, old_ids: Mapping[str, Set[str]]) -> None:
        """Receive, for each document in the next batch, the ids of its stored chunks and parents."""
        self._old_ids = old_ids

    def see(self, document: CutDocument) -> Iterator[EdgeSet]:
        """Record the document's names and links. Yield an empty edge set for the chunks that have no links now."""
        if not document.chunks:
            return
        self._targets.add(document)
        if self._earlier is not None and not document.continues:
            old_ids = self._old_ids.get(document.id, set())
            if not old_ids:
                names = _spellings(document)
                self._new_names.update(dict.fromkeys([*names, *map(first_chunk_id, names)]))
            else:
                # Removed chunks lose their edges after the last batch, and descriptions contain the document's title.
                are_kept = old_ids == {chunk.id for chunk in (*document.chunks, *document.parents)}
                label = f"{self._verb} {document.title or document.id}."
                incoming = self.incoming(self._earlier, sorted(old_ids))
                self._sources.update(
                    edge.source for edge in incoming if not (are_kept and edge.description.endswith(label))
                )
        if links := self._links_of(document):
            self._spool.write(json.dumps(list(_chunk_links(document, links))) + "\n")
        yield EdgeSet((), [chunk.id for chunk in document.chunks if chunk.id not in links])

    def finish(self) -> Iterator[EdgeSet]:
        """Yield the edges of all links, then those of stored chunks whose links may lead elsewhere now."""
        with self._spool as spool:
            spool.seek(0)
            while lines := spool.readlines(1 << 19):
                yield self._resolved([_ChunkLink(*link) for line in lines for link in json.loads(line)])
        if self._earlier is not None:
            self._sources.update(edge.source for edge in self.incoming(self._earlier, list(self._new_names)))
            for batch in slices(sorted(self._sources)):
                documents = {chunk.document for chunk in self._earlier.get(batch)} - self._targets.ingested
                yield self._resolved(list(self._stored_links(self._earlier, sorted(documents), set(batch))))
                # A link in a chunk that begins inside a block of code can only be found in the file.
                if documents and implements(self._earlier, RecordsFiles):
                    self._earlier.files.forget(documents)

    def _resolved(self, links: Sequence[_ChunkLink]) -> EdgeSet:
        self._targets.look_up(links)
        edges: dict[tuple[str, str], Edge] = {}
        for link in links:
            target = self._targets.find(link) or _pending_target(link)
            if target is not None and target != link.source and (link.source, target) not in edges:
                text = f"{link.document} {self._verb} {self._targets.label(target)}."
                edges[link.source, target] = Edge(link.source, target, self.relations[0], 1.0, text)
        return EdgeSet(list(edges.values()), list(dict.fromkeys(link.source for link in links)))

    def _stored_links(self, store: Any, documents: Sequence[str], sources: Set[str]) -> Iterator[_ChunkLink]:
        """Yield the links of the chunks ``sources`` in these stored documents."""
        for document in documents:
            chunks = store.get(sorted(store.document_chunks([document])[document]))
            parents = {chunk.parent for chunk in chunks}
            # As ingested, chunks with generated ids belong to one CutDocument. A chunk whose id the user chose is a
            # CutDocument of its own.
            groups: dict[str, list[Chunk]] = {}
            for chunk in sorted(chunks, key=lambda chunk: (position(chunk), chunk.id)):
                if chunk.id not in parents:
                    groups.setdefault("" if chunk.id.startswith(f"{document}#") else chunk.id, []).append(chunk)
            for group in groups.values():
                cut = CutDocument(document, group[0].metadata, tuple(group))
                yield from (link for link in _chunk_links(cut, self._links_of(cut)) if link.source in sources)

    def _links_of(self, document: CutDocument) -> dict[str, list[Link]]:
        """Return the links of each chunk that has links; those in the metadata belong to the first chunk."""
        parsed = document.links
        if parsed is None:
            definitions: dict[str, Any] = {}
            for chunk in document.chunks:
                definitions = {**markdown.find_definitions(chunk.text), **definitions}
            parsed = {chunk.id: list(markdown.find_links(chunk.text, definitions)) for chunk in document.chunks}
        links = {chunk.id: list(dict.fromkeys(parsed.get(chunk.id, ()))) for chunk in document.chunks}
        targets = document.metadata.get("links") or ()
        targets = [targets] if isinstance(targets, str) else targets
        if isinstance(targets, Iterable):
            links[document.chunks[0].id] += [Link(NAME, str(target)) for target in targets]
        return {chunk: links_of_chunk for chunk, links_of_chunk in links.items() if links_of_chunk}


class CitationEdges(LinkEdges):
    """Edges of weight 1 from each document to the documents that it cites in a metadata field.

    An edge connects the first chunks of the two documents. Each entry of the field is an id, title, file name, DOI,
    source or uri, or an object that contains one of these. A title or file name is used only if
    exactly one document has it. Documents of earlier ingests are found by their id and, if the store can be queried by
    metadata (``stores.protocols.ReadsIndex``), also by the other names.

    A citation of a missing document becomes a pending edge to the id that the first chunk of the document will have.
    When the document is ingested, the edge is redirected to it.

    >>> from langchain_hybridgraph import HybridGraphStore, ingest
    >>> store = HybridGraphStore(None)
    >>> old = Chunk("p1", "On computable numbers.", {"doi": "10.1112/plms/s2-42.1.230", "title": "Numbers"}, "p1")
    >>> new = Chunk("p2", "Machinery.", {"citations": ["10.1112/plms/s2-42.1.230"], "title": "Mind"})
    >>> _ = ingest([new, old], store, split=None, edges=[CitationEdges()])
    >>> [(edge.source, edge.relation, edge.target, edge.description) for edge in store.edges(["p2"])]
    [('p2', 'cites', 'p1', 'Mind cites Numbers.')]
    """

    _verb = "cites"

    def __init__(self, field: str = "citations", relation: str = CITES) -> None:
        if not field:
            raise ConfigurationError('CitationEdges(field=""): name the metadata field, such as "citations"')
        super().__init__(relation)
        self._field = field

    def _links_of(self, document: CutDocument) -> dict[str, list[Link]]:
        cited = dict.fromkeys(_references(document.metadata.get(self._field)))
        return {document.chunks[0].id: [Link(CITATION, name) for name in cited]} if cited else {}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = [value[key] for key in _CITED_BY if value.get(key)][:1]
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        for entry in value:
            yield from _references(entry)
    elif name := text_of(value).strip():
        yield name


class _ChunkLink(NamedTuple):
    """Link from a chunk. ``names`` are the possible names of the linked document, best first.

    ``document`` is the title or id of the chunk's document. ``has_own_id`` is true if the user chose the chunk's id.
    """

    source: str
    document: str
    has_own_id: bool
    kind: str
    target: str
    names: Sequence[str]
    fragment: str


def _chunk_links(document: CutDocument, links: Mapping[str, Sequence[Link]]) -> Iterator[_ChunkLink]:
    paths = [text_of(document.metadata.get(key)) for key in ("source", "uri")]
    bases = [base for base in dict.fromkeys((*paths, document.id)) if base]
    has_own_id = not document.chunks[0].id.startswith(f"{document.id}#")
    for chunk, (kind, target) in ((chunk, link) for chunk, links_of_chunk in links.items() for link in links_of_chunk):
        path, fragment = (target, "") if kind == CITATION else markdown.split_fragment(target)
        names = [path.strip() or bases[-1]] if kind == WIKI else [target]
        if kind in (PATH, NAME):  # the name as written comes first, because an id can have any form
            is_whole = kind == NAME or markdown.urlsplit_scheme(target) in _WEB
            names = [*(names if is_whole else ()), *(name for base in bases for name in candidates(path, base))]
        names = list(filter(None, _all_forms(names)))
        yield _ChunkLink(chunk, document.title or document.id, has_own_id, kind, target, names, fragment)


def _pending_target(link: _ChunkLink) -> str | None:
    """Return the future first chunk id, or None for web pages and files that are not text."""
    if not link.names or (link.kind != CITATION and markdown.urlsplit_scheme(link.target) in _WEB):
        return None
    name = link.names[0]
    suffix = posixpath.splitext(name)[1].lower()
    if link.kind == PATH and ((suffix and suffix not in (*_SUFFIXES, ".jsonl")) or name.endswith("..")):
        return None
    # An id cannot contain a NUL character, which a link can write as %00.
    return replace_surrogates(name if link.has_own_id else first_chunk_id(name)).replace("\0", "\ufffd")


class _Targets:
    """Documents that links may lead to: those of this ingest, and those that were looked up in the store."""

    def __init__(self, store: HasDocuments | None, earlier: ReadsIndex | None) -> None:
        self.ingested: set[str] = set()
        self._store = store
        self._earlier = earlier
        self._documents: dict[str, str] = {}  # by id, source, uri and DOI; also the chunk ids that the user chose
        self._titled: dict[str, set[str]] = {}  # by title and file name
        self._labels: dict[str, str] = {}  # titles that edge descriptions use
        self._starts: dict[str, str] = {}  # first chunk of each document, if it is not first_chunk_id()
        self._anchors: dict[tuple[str, str], str] = {}
        self._stems: dict[str, set[str]] = {}  # stored documents by file name

    def add(self, document: CutDocument) -> None:
        """Record a document of this ingest, or a further part of one."""
        self.ingested.add(document.id)
        self._add_anchors(document.id, document.chunks)
        first = document.chunks[0].id
        if document.continues or first != first_chunk_id(document.id):
            for chunk in document.chunks:
                if not chunk.id.startswith(f"{document.id}#"):  # generated ids begin with the id of the document
                    self._documents.setdefault(chunk.id, chunk.id)
                    self._starts.setdefault(chunk.id, chunk.id)
        if document.continues:
            return
        self._documents[document.id] = document.id
        self._starts[document.id] = first
        metadata = {**document.chunks[0].metadata, **document.metadata}
        self._add_names(document.id, metadata, document.title or "", file_name(text_of(metadata.get("source"))))

    def look_up(self, links: Sequence[_ChunkLink]) -> None:
        """Read the documents that these links may lead to from the store."""
        if self._store is None:
            return
        self._read({name for link in links if self.find(link) is None for name in link.names}, self._store)
        others = (link for link in links if link.kind != PATH and link.names and self.find(link) is None)
        if (names := dict.fromkeys(link.names[0] for link in others)) and self._earlier is not None:
            self._read(self._read_titled(list(names), self._earlier), self._store)

    def find(self, link: _ChunkLink) -> str | None:
        """Return the id of the linked chunk, or None if the document is unknown or several have its title."""
        document = next((self._documents[name] for name in link.names if name in self._documents), None)
        if document is None and link.kind != PATH and link.names:
            titled = self._titled.get(folded(link.names[0]), ())
            document = next(iter(titled)) if len(titled) == 1 else None
        if document is None:
            return None
        anchor = self._anchors.get((document, markdown.folded_anchor(link.fragment))) if link.fragment else None
        return anchor or self._starts.get(document, first_chunk_id(document))

    def label(self, chunk: str) -> str:
        document = chunk.rpartition("#")[0] or chunk
        return self._labels.get(document) or self._labels.get(chunk) or document

    def _add_names(self, document: str, metadata: Mapping[str, Any], title: str, file: str) -> None:
        for name in filter(None, (text_of(metadata.get(key)) for key in _LOCATIONS)):
            self._documents.setdefault(name, document)
        if title:
            self._labels[document] = title
        for name in filter(None, (folded(title), file)):
            self._titled.setdefault(name, set()).add(document)

    def _add_anchors(self, document: str, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            for anchor in anchors_of(chunk):
                self._anchors[document, markdown.folded_anchor(anchor)] = chunk.id

    def _read(self, documents: Iterable[str], store: HasDocuments) -> None:
        """Record the stored documents and chunks with these ids."""
        for batch in slices(sorted(documents)):
            for document, ids in store.document_chunks(batch).items():
                if ids and document not in self.ingested:
                    first = first_chunk_id(document)
                    self._documents[document] = document
                    self._starts[document] = first if first in ids else document if document in ids else min(ids)
                    for id in sorted(ids):
                        self._anchors[document, markdown.folded_anchor(id.removeprefix(f"{document}#"))] = id
                    if self._earlier is not None:
                        chunks = self._earlier.get(sorted(ids))
                        self._add_anchors(document, chunks)
                        self._labels[document] = text_of(chunks[0].metadata.get("title")) if chunks else ""
            if self._earlier is not None:
                for chunk in self._earlier.get([name for name in batch if name not in self._documents]):
                    self._documents[chunk.id] = self._starts[chunk.id] = chunk.id

    def _read_titled(self, names: Sequence[str], store: ReadsIndex) -> set[str]:
        """Record the names of stored documents with one of these titles or locations, and return the documents.

        Titles match the name as it is, in lower case, with a capital first letter, and with every word capitalised. The
        file name at the end of a document's id is compared ignoring case.
        """
        names = list(_all_forms(names))
        clean = [" ".join(name.split()) for name in names]
        titles = {form for name in clean for form in (name, name[:1].upper() + name[1:], name.title(), name.lower())}
        conditions = [{"title": {"$in": sorted(titles)}}, *({key: {"$in": sorted(names)}} for key in _LOCATIONS)]
        documents: set[str] = set()
        for chunk in store.get(store.find(Scope(parse_filter({"$or": conditions})))):
            if chunk.document not in self.ingested | documents:
                documents.add(chunk.document)
                self._add_names(chunk.document, chunk.metadata, text_of(chunk.metadata.get("title")), "")
        if not self._stems:
            for document in store.document_ids():
                self._stems.setdefault(file_name(document), set()).add(document)
        for name in map(folded, names):
            stored = self._stems.get(name, set()) - self.ingested
            self._titled.setdefault(name, set()).update(stored)
            documents |= stored
        return documents


def _spellings(document: CutDocument) -> list[str]:
    """Return the names at which pending edges to a document may end."""
    locations = [document.id, *(text_of(document.metadata.get(key)) for key in _LOCATIONS)]
    names = [*locations, document.title or "", folded(document.title or "")]
    for path in locations[:-1]:
        stem = posixpath.splitext(path)[0]
        names += [file_name(path), stem, *(stem + suffix for suffix in _SUFFIXES)]
        if file_name(path) in _INDEX_NAMES:
            names.append(posixpath.dirname(path))
    return [name for name in _all_forms(names) if name.strip() and replace_surrogates(name) == name]


def folded(name: str) -> str:
    """Normalise a title or file name for comparison: ``My_Notes`` becomes ``my notes``."""
    return " ".join(unicodedata.normalize("NFC", name).replace("_", " ").split()).casefold()


def _all_forms(names: Iterable[str]) -> dict[str, None]:
    """Return names also in the normal forms NFC and NFD, because macOS writes names of files in NFD."""
    normalize = unicodedata.normalize
    return dict.fromkeys(form for name in names for form in (name, normalize("NFC", name), normalize("NFD", name)))


def file_name(path: str) -> str:
    """Return the normalised file name of a path or URL without directory and suffix, or "" if it has no file name."""
    return folded(posixpath.splitext(posixpath.basename(path))[0])


def candidates(path: str, base: str) -> list[str]:
    """Return the ids that the target of a link may have, best first; ``path`` is the link's and ``base`` its document.

    >>> candidates("../install", "docs/guide/use.md")[:3]
    ['docs/install', 'docs/install.md', 'docs/install.rst']
    >>> candidates("/faq.html", "https://example.org/docs/a")[0]
    'https://example.org/faq.html'
    """
    scheme = markdown.urlsplit_scheme(path)
    if scheme in _NO_DOCUMENTS:
        return []
    names = [path] if scheme else _join_path(path, base)
    return list(dict.fromkeys(variant for name in names for variant in _variants(name.rstrip("/") or name)))


def _join_path(path: str, base: str) -> list[str]:
    scheme, slashes, rest = base.partition("://")
    host, _, rest_of_path = rest.partition("/") if slashes else ("", "", base)
    root = f"{scheme}://{host}/" if slashes else ""
    if path.startswith("/"):
        absolute = posixpath.normpath(path)
        return [root + absolute.lstrip("/")] if root else [absolute.lstrip("/"), absolute]
    joined_path = posixpath.join(posixpath.dirname(rest_of_path), path)
    return [root + (posixpath.normpath(joined_path) if path else rest_of_path)]


def _variants(name: str) -> list[str]:
    stem, suffix = posixpath.splitext(name)
    if suffix.lower() in _SUFFIXES:
        # A link may use the name under which a page is published.
        return [name, *(stem + other for other in _SUFFIXES if other != suffix), stem]
    return [name, *(name + suffix for suffix in _SUFFIXES), *(f"{name}/{index}" for index in _INDEXES)]
