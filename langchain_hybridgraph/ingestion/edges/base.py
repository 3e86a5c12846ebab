"""Edge builders, one small class per kind."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, Sized
from importlib import import_module
from itertools import combinations, pairwise
from operator import itemgetter
from tempfile import SpooledTemporaryFile
from typing import IO, Any, NamedTuple, Protocol, runtime_checkable

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingestion.chunking import (
    CutDocument,
    anchors_of,
    chunk_index,
    first_chunk_id,
    in_order,
    targets_of,
)
from langchain_hybridgraph.ingestion.edges.backlinks import Backlinks, Readable
from langchain_hybridgraph.ingestion.edges.document_lookup import StoredNames, file_name, folded
from langchain_hybridgraph.ingestion.edges.link_parser import (
    INCLUDE,
    NAME,
    PATH,
    ROLE,
    WIKI,
    Link,
    candidates,
    folded_anchor,
    is_external,
    split_fragment,
)
from langchain_hybridgraph.ingestion.markdown import find_definitions, find_links
from langchain_hybridgraph.records import CONTAINS, REFERENCES, SEQUENCE, Chunk, Edge, replace_surrogates
from langchain_hybridgraph.registry import from_config, nearest
from langchain_hybridgraph.stores.protocols import AcceptsChunks, HasDocuments, ReadsIndex, implements
from langchain_hybridgraph.uris import directory_of


class EdgeSet(NamedTuple):
    """Edges to write; existing edges of the builder's relations from ``replaces`` are deleted first."""

    edges: Sequence[Edge]
    replaces: Sequence[str] = ()


@runtime_checkable
class EdgeBuilder(Protocol):
    """Builder of edges during one ingest: it sees every document once, and finally the full store.

    ``see`` is called when the document's chunks are stored, ``finish`` when all are stored, deleted ones are removed
    and the indexes are up to date. A builder that needs all documents collects data in ``see`` and returns edges in
    ``finish``, where it may search the store. Edges are replaced source by source, so that an ingest of some documents
    does not change the edges of others.
    """

    @property
    def relations(self) -> Sequence[str]:
        """Relations that the builder writes; no two builders of one ingest share one."""
        ...

    def start(self, store: AcceptsChunks) -> None:
        """Forget the last ingest and begin another one."""
        ...

    def see(self, document: CutDocument) -> Iterable[EdgeSet]:
        """Yield the edges that depend only on this document."""
        ...

    def finish(self) -> Iterable[EdgeSet]:
        """Yield the edges that depend on other documents."""
        ...


@runtime_checkable
class Compares(EdgeBuilder, Protocol):
    """Builder that needs the earlier state of the documents."""

    def before(self, held: Mapping[str, Set[str]]) -> None:
        """Receive the earlier ids of the chunks and parents of the next documents; an unknown one has none."""
        ...


def as_builders(edges: Any) -> list[EdgeBuilder]:
    """Return the builders for ``ingest(edges=…)``: ``"auto"``, None for none, one builder, or a list of them.

    A builder may be given by its name (one of ``BUILDERS``), or by a mapping of its ``type`` and its parameters, which
    ``metadata`` needs: ``{"type": "metadata", "keys": ["author"]}``; a list may contain ``"auto"``, too. Raises
    ConfigurationError for anything else, for invalid or missing parameters, and for two builders that would replace
    each other's edges.

    >>> [type(builder).__name__ for builder in as_builders(["sequence", {"type": "similarity", "k": 3}])]
    ['SequenceEdges', 'SimilarityEdges']
    """
    if edges is None:
        return []
    given = [edges] if isinstance(edges, (str, Mapping, EdgeBuilder)) else edges
    if isinstance(given, type) or not isinstance(given, Iterable):
        raise ConfigurationError(
            f"edges={edges!r}: pass 'auto', None, or a list such as ['sequence', 'links'] or [SequenceEdges()]"
        )
    found = [builder for form in given for builder in _builders(form)]
    taken = {name for builder in found if not isinstance(builder, _GivesWay) for name in builder.relations}
    found = [builder.without(taken) if isinstance(builder, _GivesWay) else builder for builder in found]
    for builder, other in combinations(found, 2):
        shared = set(builder.relations) & set(other.relations)
        if shared:
            raise ConfigurationError(
                f"{type(builder).__name__} and {type(other).__name__} both write {shared.pop()!r} and would "
                "replace each other's edges; give one of them another relation, or ingest twice"
            )
    return found


BUILDERS: Mapping[str, str] = {
    "sequence": "edges.base:SequenceEdges",
    "links": "edges.base:LinkEdges",
    "hierarchy": "edges.base:HierarchyEdges",
    "entities": "edges.entities:EntityEdges",
    "metadata": "edges.metadata:MetadataEdges",
    "citations": "edges.citations:CitationEdges",
    "similarity": "edges.similarity:SimilarityEdges",
    "llm": "edges.llm:LLMEdges",
}
"""Names of the builders, and their modules."""

# Required parameters of builders, with an example.
_NEEDED: Mapping[str, tuple[str, str]] = {
    "metadata": ("keys", '{"type": "metadata", "keys": ["author"]}'),
    "llm": ("llm", "LLMEdges(chat_model)"),
}


@runtime_checkable
class _GivesWay(EdgeBuilder, Protocol):
    """Builder that can leave relations to others."""

    def without(self, relations: Iterable[str]) -> EdgeBuilder:
        """Return the same builder without these relations."""
        ...


def _builders(form: Any) -> list[EdgeBuilder]:
    if form == "auto":
        return [SequenceEdges(), LinkEdges(), HierarchyEdges(), *_builders("entities")]
    if isinstance(form, EdgeBuilder) and not isinstance(form, type):
        return [form]
    name = form.get("type") if isinstance(form, Mapping) else form
    if not isinstance(name, str) or name not in BUILDERS:
        raise ConfigurationError(
            f"edges={form!r} is not an edge builder; {nearest(name, ['auto', *BUILDERS])}pass 'auto', None, "
            f"one of {', '.join(BUILDERS)}, an object such as SequenceEdges(), "
            'or a mapping such as {"type": "similarity", "k": 5}'
        )
    needed, example = _NEEDED.get(name, (None, ""))
    if needed is not None and (isinstance(form, str) or needed not in form):
        raise ConfigurationError(f"edges={form!r} does not say which {needed}; pass them, as in {example}")
    module, _, kind = BUILDERS[name].partition(":")
    # Only the requested module is imported.
    kinds = {name: getattr(import_module(f"langchain_hybridgraph.ingestion.{module}"), kind)}
    builder: EdgeBuilder = from_config("edges", form, kinds, lambda one: isinstance(one, EdgeBuilder))
    return [builder]


class SequenceEdges:
    """Edges from each chunk to the next one of the same parent, or of the document if it has no parents; weight 1.

    The order is that of ``chunk_index``, for any order in which chunks arrive and any number of Documents or batches of
    one ingest. Without an index the order of arrival counts.

    >>> chunks = tuple(Chunk(str(i), "", {}, "d", parent) for i, parent in enumerate(["p1", "p1", "p2", "p2"]))
    >>> builder = SequenceEdges()
    >>> edge_sets = [*builder.see(CutDocument("d", {}, chunks)), *builder.finish()]
    >>> [(edge.source, edge.target) for edge_set in edge_sets for edge in edge_set.edges]
    [('0', '1'), ('2', '3')]
    """

    relations = (SEQUENCE,)

    def __init__(self) -> None:
        self._documents: dict[str, _Sequence] = {}
        self._unwritten: dict[str, None] = {}

    def start(self, store: AcceptsChunks) -> None:
        """Forget the last ingest."""
        self._documents, self._unwritten = {}, {}

    def see(self, document: CutDocument) -> Iterator[EdgeSet]:
        """Yield the edges of earlier documents, which are complete unless more parts of them arrive later."""
        if not document.chunks:
            return
        others = [id for id in self._unwritten if id != document.id]
        yield from self._written(others)
        if document.id not in self._documents or not document.continues:
            self._documents[document.id] = _Sequence(_label(document), {})
        self._documents[document.id].add(document.chunks)
        self._unwritten[document.id] = None

    def finish(self) -> Iterator[EdgeSet]:
        """Yield the edges of the documents that were not complete before."""
        yield from self._written(list(self._unwritten))
        self._documents = {}

    def _written(self, documents: Iterable[str]) -> Iterator[EdgeSet]:
        for id in documents:
            del self._unwritten[id]
            yield self._documents[id].edge_set()


class _Sequence(NamedTuple):
    """Chunks of a document by id, in the order of arrival, each with its parent and its index."""

    name: str
    chunks: dict[str, tuple[str | None, float | None]]

    def add(self, chunks: Iterable[Chunk]) -> None:
        """Add chunks; the last of several with one id counts."""
        for chunk in chunks:
            self.chunks.pop(chunk.id, None)
            self.chunks[chunk.id] = chunk.parent, chunk_index(chunk)

    def edge_set(self) -> EdgeSet:
        """Yield the edges between neighbours, which replace all earlier ones of these chunks."""
        groups: dict[str | None, list[tuple[str, float | None]]] = {}
        for id, (parent, index) in self.chunks.items():
            groups.setdefault(parent, []).append((id, index))
        edges = [edge for group in groups.values() for edge in self._edges(in_order(group, itemgetter(1)))]
        return EdgeSet(edges, list(self.chunks))

    def _edges(self, chunks: Sequence[tuple[str, float | None]]) -> Iterator[Edge]:
        """Yield the edges of chunks in order; without an index, positions in this list count."""
        numbered = [(id, place if index is None else index + 1) for place, (id, index) in enumerate(chunks, start=1)]
        for (source, before), (target, after) in pairwise(numbered):
            said = f"In “{self.name}”, part {after:g} follows part {before:g}."
            yield Edge(source, target, SEQUENCE, 1.0, said)


class LinkEdges:
    """Edges from the chunk with a link to the first chunk of the linked document, or to the one below the anchor.

    Links are Markdown, HTML, wiki and reStructuredText links, included files, and the ``links`` metadata (ids,
    URLs, paths or titles), which start at the first chunk. Anchors are compared by their letters and digits,
    because renderers derive different anchors from a heading; the role of a label or object leads to the only chunk
    with it among its ``targets``, which are its explicit anchors. A document is identified by its id, ``source``,
    ``uri``, and, for wiki links and ``links``, by its title or file name if only one document has it. Documents of
    earlier ingests are identified by their id and, if the store can list them (``stores.protocols.ReadsIndex``), by
    their title or the file name in their id. A relative link to a missing document is stored as an edge to the
    future id of its first chunk (``pending=False`` drops it). Links to the web that lead to no document are not
    stored.

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
        self._names = _Names()
        self._waiting: IO[str] | None = None
        self._store: AcceptsChunks | None = None
        self._earlier: StoredNames | None = None
        self._backlinks: Backlinks | None = None

    def start(self, store: AcceptsChunks) -> None:
        """Forget the names and links of the last ingest."""
        self._store = store
        is_first = isinstance(store, Sized) and len(store) == 0
        older = store if implements(store, Readable) and not is_first else None
        self._earlier = None if older is None else StoredNames(older)
        self._backlinks = None if older is None else Backlinks(older, self.relations[0])
        self._names = _Names()
        # Links can point forward, so all are kept until the end; on disk, because they may not fit into memory.
        self._waiting = SpooledTemporaryFile(1 << 23, "w+", encoding="utf-8", errors="surrogatepass")  # noqa: SIM115 - closed by finish

    def before(self, held: Mapping[str, Set[str]]) -> None:
        """Remember the earlier chunks of the next documents."""
        if self._backlinks is not None:
            self._backlinks.before(held)

    def see(self, document: CutDocument) -> Iterator[EdgeSet]:
        """Remember the document's names and links; yield the end of edges from chunks without links."""
        if not document.chunks or self._waiting is None:
            return
        self._names.add(document)
        if self._backlinks is not None:
            self._backlinks.see(document)
        links = _links_of(document)
        if links:
            self._waiting.write(json.dumps(_waiting(document, links)) + "\n")
        yield EdgeSet((), [chunk.id for chunk in document.chunks if chunk.id not in links])

    def finish(self) -> Iterator[EdgeSet]:
        """Yield the edges of all links, resolved after every document is stored."""
        waiting, store = self._waiting, self._store
        if waiting is None or store is None:
            return
        with waiting:
            waiting.seek(0)
            while lines := waiting.readlines(1 << 19):
                yield self._resolved([_Waiting(*json.loads(line)) for line in lines], store)
        self._waiting = None
        if self._backlinks is not None and implements(store, Readable):
            for document, chunks in self._backlinks.documents(self._names.documents()):
                yield from self._again(document, chunks, store)
        self._earlier = self._backlinks = None

    def _resolved(self, documents: Sequence[_Waiting], store: AcceptsChunks) -> EdgeSet:
        wanted = [wanted for document in documents for wanted in document.read()]
        places = _Places(self._names, store, self._earlier)
        places.look_up(wanted)
        sources = [source for document in documents for source in document.links]
        return EdgeSet(list(self._edges(wanted, places).values()), sources)

    def _edges(self, wanted: Iterable[_Wanted], places: _Places) -> dict[tuple[str, str], Edge]:
        edges: dict[tuple[str, str], Edge] = {}
        for link in wanted:
            target = places.find(link, pending=self._pending)
            if target is not None and target != link.source and (link.source, target) not in edges:
                said = f" as “{link.link.label}”" if link.link.label else ""
                text = f"{link.document} links to {self._names.label(target)}{said}."
                edges[link.source, target] = Edge(link.source, target, self.relations[0], self._weight, text)
        return edges

    def _again(self, document: CutDocument, chunks: Sequence[str], store: Readable) -> Iterator[EdgeSet]:
        """Yield the edges of an unchanged document, including its links that were read again."""
        links = {chunk: found for chunk, found in _links_of(document).items() if chunk in chunks}
        wanted = [link for link in _waiting(document, links).read() if self._means_one_of_these(link)]
        places = _Places(self._names, store, None)
        places.look_up(wanted)
        edges = self._edges(wanted, places)
        sources = sorted({link.source for link in wanted})
        old = [edge for edge in store.edges(sources) if edge.relation in self.relations]
        # Possible targets of the link before its heading or its document existed.
        led = {(link.source, to) for link in wanted for to in (places.first(link), _to_come(link)) if to}
        # Or while its heading was elsewhere in the document: such an edge has the description of the new one.
        said = {(edge.source, edge.description) for edge in edges.values()}
        over = {
            (edge.source, edge.target)
            for edge in old
            if (edge.source, edge.target) in led or (edge.source, edge.description) in said
        }
        kept = [edge for edge in old if (edge.source, edge.target) not in over or (edge.source, edge.target) in edges]
        there = {(edge.source, edge.target) for edge in kept}
        new = [edge for ends, edge in edges.items() if ends not in there]
        if new or len(kept) < len(old):
            yield EdgeSet([*kept, *new], sources)

    def _means_one_of_these(self, link: _Wanted) -> bool:
        """Return whether a link leads to a document of this ingest by a name that is unique in the store."""
        if link.link.kind == ROLE and self._names.marked(link.names[0]) is not None:
            return True
        document = self._names.find(link)
        if document is None or document in link.names or link.link.kind == PATH or self._earlier is None:
            return document is not None
        named = self._earlier.find(link.names[:1]).get(link.names[0])
        return named is not None and named.document == document


class _Wanted(NamedTuple):
    """Link from a chunk, with all names that its target may have, best first.

    ``document`` is the chunk's document; ``kept`` is set if the chunk's id is the user's own.
    """

    source: str
    document: str
    kept: bool
    link: Link
    names: Sequence[str]
    fragment: str


class _Waiting(NamedTuple):
    """Document whose links, by chunk, are resolved later; ``bases`` are the paths that they may be relative to."""

    label: str
    kept: bool
    bases: Sequence[str]
    links: Mapping[str, Sequence[Sequence[str]]]

    def read(self) -> Iterator[_Wanted]:
        """Resolve relative links at the location of the document."""
        for chunk, links in self.links.items():
            for link in (Link(*fields) for fields in links):
                path, fragment = split_fragment(link.target)
                yield _Wanted(chunk, self.label, self.kept, link, self._names(link, path), fragment)

    def _names(self, link: Link, path: str) -> list[str]:
        if link.kind in (WIKI, ROLE):
            return [path.strip() or self.bases[-1]]
        # The name as written comes first: an id may look like anything.
        whole = [link.target] if link.kind == NAME or is_external(link.target) else []
        bases = (above for base in self.bases for above in _folders(base)) if link.kind == INCLUDE else self.bases
        relative = (name for base in bases for name in candidates(path, base))
        return list(dict.fromkeys([*whole, *relative]))


def _folders(path: str) -> Iterator[str]:
    """Yield the path, and the same file name in each folder above it: tools resolve includes differently."""
    yield path
    while path and (above := posixpath.dirname(path)) != path:
        path = above
        yield path


def _waiting(document: CutDocument, links: Mapping[str, Sequence[Sequence[str]]]) -> _Waiting:
    bases = [_text(document.metadata.get(key)) for key in ("source", "uri")]
    known = [base for base in dict.fromkeys((*bases, document.id)) if base]
    return _Waiting(_label(document), _has_own_id(document, document.chunks[0]), known, links)


class _Names:
    """Names of the documents of one ingest, and their first chunks."""

    def __init__(self) -> None:
        self._documents: dict[str, str] = {}
        self._titles: dict[str, str | None] = {}  # None: several documents have it
        self._starts: dict[str, str] = {}
        self._labels: dict[str, str] = {}
        self._anchors: dict[tuple[str, str], str] = {}
        self._marked: dict[str, str | None] = {}  # by target of roles, in any document; None: several chunks have it

    def add(self, document: CutDocument) -> None:
        first = document.chunks[0].id
        for chunk in document.chunks:
            for anchor in anchors_of(chunk):
                self._anchors[document.id, folded_anchor(anchor)] = chunk.id
            for name in targets_of(chunk):
                same = self._marked.setdefault(name, chunk.id) == chunk.id
                self._marked[name] = chunk.id if same else None
        if document.continues:
            self._keep(document)
            return
        self._documents[document.id] = document.id
        if first != first_chunk_id(document.id):
            self._starts[document.id] = first
            self._keep(document)
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
            same = self._titles.setdefault(title, document.id) == document.id
            self._titles[title] = document.id if same else None

    def _keep(self, document: CutDocument) -> None:
        """Add chunks with ids of their own as targets of links."""
        for chunk in document.chunks:
            if _has_own_id(document, chunk):
                self._documents.setdefault(chunk.id, chunk.id)
                self._starts.setdefault(chunk.id, chunk.id)

    def find(self, wanted: _Wanted) -> str | None:
        """Return the document that a link refers to, None if this ingest has none."""
        found = next((self._documents[name] for name in wanted.names if name in self._documents), None)
        if found is None and wanted.link.kind not in (PATH, INCLUDE):
            found = self._titles.get(folded(wanted.names[0]) if wanted.names else "")
        return found

    def documents(self) -> Set[str]:
        """Return the ids of the documents, and their other names."""
        return self._documents.keys()

    def call(self, document: str, label: str) -> None:
        """Return the name under which to look up a document of an earlier ingest."""
        self._labels.setdefault(document, label)

    def anchored(self, document: str, anchor: str) -> str | None:
        """Return the chunk of a document of this ingest with this anchor."""
        return self._anchors.get((document, folded_anchor(anchor)))

    def marked(self, name: str) -> str | None:
        """Return the only chunk of this ingest that roles lead to by this name, in any document."""
        return self._marked.get(name)

    def first_chunk(self, document: str) -> str:
        return self._starts.get(document) or first_chunk_id(document)

    def label(self, chunk: str) -> str:
        document = chunk.rpartition("#")[0] or chunk
        return self._labels.get(document) or self._labels.get(chunk) or document


class _Places:
    """Resolve links to chunks, with one request to the store for many links."""

    def __init__(self, names: _Names, store: HasDocuments, earlier: StoredNames | None) -> None:
        self._names = names
        self._store: HasDocuments = store
        self._earlier = earlier
        self._chunks: dict[str, set[str]] = {}
        self._titled: dict[str, str] = {}
        self._anchors: dict[str, dict[str, str]] = {}
        self._marked: dict[str, str] = {}

    def look_up(self, links: Sequence[_Wanted]) -> None:
        asked: set[str] = set()
        for wanted in links:
            document = self._names.find(wanted)
            if document is None:
                asked.update(wanted.names)
            elif wanted.fragment and self._names.anchored(document, wanted.fragment) is None:
                asked.add(document)
        self._look_up(asked)
        if self._earlier is not None:
            roles = (wanted.names[0] for wanted in links if wanted.link.kind == ROLE)
            self._marked = self._earlier.targets(name for name in roles if self._names.marked(name) is None)
            named = self._earlier.find(wanted.names[0] for wanted in links if self._is_title(wanted))
            for name, (document, label) in named.items():
                self._titled[name] = document
                self._names.call(document, label)
            self._look_up(set(self._titled.values()) - self._chunks.keys())

    def _look_up(self, documents: Iterable[str]) -> None:
        ordered = sorted(documents)
        for start in range(0, len(ordered), 2_000):
            found = self._store.document_chunks(ordered[start : start + 2_000])
            self._chunks.update((document, chunks) for document, chunks in found.items() if chunks)

    def _is_title(self, wanted: _Wanted) -> bool:
        """Return whether a link can only be resolved by a title or file name of an earlier ingest."""
        return (
            wanted.link.kind not in (PATH, INCLUDE)
            and bool(wanted.names)
            and self._names.find(wanted) is None
            and not any(name in self._chunks for name in wanted.names)
        )

    def first(self, wanted: _Wanted) -> str | None:
        """Return the first chunk of the linked document of this ingest, None if it is not part of it."""
        document = self._names.find(wanted)
        return None if document is None else self._names.first_chunk(document)

    def find(self, wanted: _Wanted, *, pending: bool) -> str | None:
        """Return the chunk that a link leads to; a future one if the link may be pending, else None."""
        if wanted.link.kind == ROLE:
            marked = self._names.marked(wanted.names[0]) or self._marked.get(wanted.names[0])
            if marked is not None:
                return marked
        document = self._names.find(wanted)
        if document is None:
            document = next((name for name in wanted.names if name in self._chunks), None)
        if document is None and wanted.link.kind not in (PATH, INCLUDE) and wanted.names:
            document = self._titled.get(wanted.names[0])
        if document is None:
            return _to_come(wanted) if pending else None
        if wanted.fragment and (anchored := self._anchored(document, wanted.fragment)) is not None:
            return anchored
        chunks = self._chunks.get(document, set())
        first = self._names.first_chunk(document)
        if not chunks or first in chunks:
            return first
        return document if document in chunks else min(chunks)

    def _anchored(self, document: str, anchor: str) -> str | None:
        """Return the chunk of a document with this anchor; documents of earlier ingests are read from the store."""
        named = self._names.anchored(document, anchor)
        if named is not None:
            return named
        if document not in self._anchors:
            ids = self._chunks.get(document, set())
            found = {folded_anchor(id.removeprefix(f"{document}#")): id for id in ids}
            if document not in self._names.documents() and implements(self._store, ReadsIndex):
                chunks = self._store.get(sorted(ids))
                found.update((folded_anchor(name), chunk.id) for chunk in chunks for name in anchors_of(chunk))
            self._anchors[document] = found
        return self._anchors[document].get(folded_anchor(anchor))


def _to_come(wanted: _Wanted) -> str | None:
    """Return the future id of the first chunk of a missing document, None for a link to the web."""
    if not wanted.names or wanted.link.kind in (ROLE, INCLUDE) or is_external(wanted.link.target):
        return None
    name = wanted.names[0]
    if wanted.link.kind == PATH:
        suffix = posixpath.splitext(name)[1].lower()
        if not name or (suffix and suffix not in _TEXT_SUFFIXES) or name.endswith(".."):
            return None
    # No id can contain a NUL, which %00 in a link stands for.
    return replace_surrogates(name if wanted.kept else first_chunk_id(name)).replace("\0", "\ufffd")


_TEXT_SUFFIXES = frozenset({".md", ".markdown", ".rst", ".html", ".htm", ".txt", ".jsonl"})


def _links_of(document: CutDocument) -> dict[str, list[Link]]:
    """Return the links of each chunk, in order and without repeats; chunks without links are left out."""
    if document.links is not None:
        found = {chunk.id: list(document.links.get(chunk.id, ())) for chunk in document.chunks}
    else:
        definitions: dict[str, Any] = {}
        for chunk in document.chunks:
            definitions = {**find_definitions(chunk.text), **definitions}
        found = {chunk.id: list(dict.fromkeys(find_links(chunk.text, definitions))) for chunk in document.chunks}
    named = document.metadata.get("links") or ()
    targets = [named] if isinstance(named, str) else named if isinstance(named, Iterable) else ()
    found[document.chunks[0].id] += [Link(NAME, str(target)) for target in targets]
    return {chunk: links for chunk, links in found.items() if links}


class HierarchyEdges:
    """Edges from each directory to its contents, by ``uri``: ``docs`` contains ``docs/use.md``; weight 1.

    A directory is the first chunk of the document with that ``uri``, of this ingest or, if its id is its uri, of an
    earlier one; directories without a document are nodes of the graph only, with their uri as id. A document is
    represented by its first chunk. Any scheme is possible; the part before the first ``/`` after ``scheme://`` has no
    directory.

    >>> from langchain_hybridgraph import HybridGraphStore, ingest
    >>> store = HybridGraphStore(None)
    >>> chunks = [Chunk("use", "How to use it.", {"uri": "docs/use.md"}, "use")]
    >>> _ = ingest(chunks, store, split=None, edges=[HierarchyEdges()])
    >>> [(edge.source, edge.relation, edge.target) for edge in store.edges(["docs"])]
    [('docs', 'contains', 'use')]
    """

    relations = (CONTAINS,)

    def __init__(self) -> None:
        self._store: AcceptsChunks | None = None
        self._chunks: dict[str, str] = {}
        self._titles: dict[str, str] = {}

    def start(self, store: AcceptsChunks) -> None:
        """Forget the directories of the last ingest."""
        self._store, self._chunks = store, {}

    def see(self, document: CutDocument) -> tuple[EdgeSet, ...]:
        """Remember the location of the document; its directory may be a document that is added later."""
        uri = _text(document.metadata.get("uri")).rstrip("/")
        if uri and document.chunks:
            self._chunks.setdefault(uri, document.chunks[0].id)
        return ()

    def finish(self) -> Iterator[EdgeSet]:
        """Yield the edges of all documents, each with those of the directories above it."""
        if self._store is None:
            return
        nodes = self._nodes(self._store)
        edges: list[Edge] = []
        for below in [*self._chunks, *(uri for uri in nodes if uri not in self._chunks)]:
            above = directory_of(below)
            if above and nodes[above] != nodes[below]:
                text = f"{above} contains {below.rsplit('/', 1)[-1]}."
                edges.append(Edge(nodes[above], nodes[below], CONTAINS, 1.0, text))
            if len(edges) >= 2_000:
                yield EdgeSet(edges)
                edges = []
        if edges:
            yield EdgeSet(edges)

    def _nodes(self, store: AcceptsChunks) -> dict[str, str]:
        """Return the id of the node of every uri, and of all directories above them."""
        above: dict[str, None] = {}
        for uri in self._chunks:
            directory = directory_of(uri)
            while directory and directory not in above:
                above[directory] = None
                directory = directory_of(directory)
        missing = [directory for directory in above if directory not in self._chunks]
        nodes = dict(self._chunks)
        for start in range(0, len(missing), 2_000):
            asked = missing[start : start + 2_000]
            known = store.document_chunks(asked)
            for directory in asked:
                first = first_chunk_id(directory)
                there = known.get(directory) or set()
                nodes[directory] = first if first in there else directory
        return nodes


def _has_own_id(document: CutDocument, chunk: Chunk) -> bool:
    """Return whether the chunk came with its id, so that the id does not show its document."""
    return not chunk.id.startswith(f"{document.id}#")


def _label(document: CutDocument) -> str:
    return document.title or document.id


def _text(value: Any) -> str:
    return "" if value is None else str(value)
