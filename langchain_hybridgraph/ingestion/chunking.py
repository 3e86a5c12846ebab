"""Splitting documents into chunks with stable ids.

The first chunk of ``guide.md`` has the id ``guide.md#0``. Another chunk that starts with the heading "Install" has the
id ``guide.md#install``. The id of any other chunk consists of ``guide.md#`` and a hash of its text. An edit therefore
changes the ids of few chunks. A link can refer to the first chunk, or to the chunk of a heading, before the document is
ingested.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import inf, isfinite
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_hybridgraph.chunks import Chunk, replace_surrogates
from langchain_hybridgraph.errors import ConfigurationError, quote_value
from langchain_hybridgraph.ingestion.markdown import Anchor, find_links
from langchain_hybridgraph.ingestion.markdown_parser import Link
from langchain_hybridgraph.ingestion.splitters import Note, Piece, Splitter, outline_of

if TYPE_CHECKING:
    from langchain_core.documents import Document

FIRST, PARENT = "0", "parent-"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CutDocument:
    """Chunks and parents of one Document, in the order of the text.

    A document, such as a file, may consist of several Documents, such as its pages. ``continues`` is set if an earlier
    Document of this ingest belongs to the same document. ``metadata`` is the Document's metadata. ``links`` maps each
    chunk's id to the links that begin in the chunk, as found in the full text. If ``links`` is None, links have to be
    parsed from the text of each chunk. ``mentions`` is the result of ``edges.entities.find_mentions`` for the chunks,
    or None if the mentions have not been computed yet.
    """

    id: str
    metadata: Mapping[str, Any]
    chunks: tuple[Chunk, ...]
    parents: tuple[Chunk, ...] = ()
    continues: bool = False
    links: Mapping[str, Sequence[Link]] | None = None
    mentions: object = None

    @property
    def title(self) -> str | None:
        """Title of the document, or None if it has none.

        It is the ``title`` in the document's metadata or, if that is missing, in the metadata of its first chunk.
        """
        title = self.metadata.get("title") or (self.chunks and self.chunks[0].metadata.get("title"))
        return str(title) if title else None


def document_id(document: Document) -> str:
    """Return the document's id.

    It is the first of these that exists: ``document_id`` in the metadata, ``Document.id``, ``source`` in the metadata.
    If none of them exists, it is a hash of the text.

    >>> from langchain_core.documents import Document
    >>> document_id(Document("text", metadata={"source": "a.md"}))
    'a.md'
    """
    return _identity(document)[0]


def first_chunk_id(document: str) -> str:
    """Return the id that ``ingest`` assigns to the first chunk of a document that it splits."""
    return f"{document}#{FIRST}"


def chunk_index(chunk: Chunk) -> float | None:
    """Return a chunk's position in its document, which is ``chunk_index`` in the metadata. Return None if
    ``chunk_index`` is missing or not a finite number.
    """
    index = chunk.metadata.get("chunk_index")
    return index if isinstance(index, int | float) and isfinite(index) else None


def anchors_of(chunk: Chunk) -> Sequence[str]:
    """Return the anchors of a chunk, which are ``anchors`` in its metadata. A link names an anchor after ``#``."""
    return _texts(chunk.metadata.get("anchors"))


def position(chunk: Chunk) -> float:
    """Return the chunk's position in its document, or 0 if it is unknown."""
    return chunk_index(chunk) or 0.0


def in_order(chunks: Iterable[T], index: Callable[[T], float | None]) -> list[T]:
    """Sort chunks by index. Chunks with equal indexes keep their order; a chunk without an index stays after its
    predecessor.

    >>> in_order([("c", 2), ("new", None), ("a", 0)], index=lambda chunk: chunk[1])
    [('a', 0), ('c', 2), ('new', None)]
    """
    keys: list[float] = []
    items = list(chunks)
    for item in items:
        position_of_chunk = index(item)
        keys.append(position_of_chunk if position_of_chunk is not None else keys[-1] if keys else -inf)
    return [items[number] for number in sorted(range(len(items)), key=keys.__getitem__)]


class Cutter:
    """Splitter that divides the documents of one ingest into chunks and assigns ids to them.

    If ``splitter`` is None, every Document becomes one chunk, whose id is ``Document.id`` or, without one, a hash of
    its text and source. A :class:`Chunk` or :class:`CutDocument` is not split. Several Documents with the same
    ``document_id`` or ``source`` are parts of one document. If several Documents have the same ``Document.id``, the
    last of them replaces the others, and ``note`` is called with a warning.
    """

    def __init__(self, splitter: Splitter | None, note: Note) -> None:
        self._splitter = splitter
        self._note = note
        self._chunks: dict[str, int] = {}  # number of chunks of each document so far
        self._latest = ""
        self._hash_counts: dict[str, int] = {}  # number of uses of each hash in the latest document

    def cut(self, document: Document | Chunk | CutDocument) -> CutDocument:
        """Split a document into chunks. Raises ConfigurationError for an object that is not a document, and for an
        empty id.
        """
        if isinstance(document, CutDocument):
            return document
        if isinstance(document, Chunk):
            return self._keep_chunk(document.document, document, document.metadata)
        if not hasattr(document, "page_content"):
            raise ConfigurationError(
                f"ingest takes LangChain Documents (or Chunks), not {type(document).__name__}: "
                'Document(page_content="…", metadata={"source": "…"}), or read_files(paths) for files'
            )
        if document.id == "":
            raise ConfigurationError(
                f"a document has an empty id: {quote_value(document.page_content[:60])}; leave "
                "id out to derive one from its source or text"
            )
        id, by_id = _identity(document)
        if by_id and id in self._chunks:
            self._note(f"several documents have the id {id!r}: the last one counts")
            del self._chunks[id]
        if self._splitter is None:
            chunk = Chunk(
                replace_surrogates(document.id or _content_id(document)), document.page_content, document.metadata, id
            )
            return self._keep_chunk(id, chunk, document.metadata)
        return self._split(id, document, self._splitter)

    def has_cut(self, id: str) -> bool:
        """Return whether a Document with this document id was already split."""
        return id in self._chunks

    def adopt(self, cut: CutDocument) -> None:
        """Record a document that another Cutter has split with the same splitter."""
        self._chunks[cut.id] = len(cut.chunks)
        pieces = [*((PARENT, parent) for parent in cut.parents), *(("", chunk) for chunk in cut.chunks)]
        hashed = [(chunk.id, _hashed_name(cut.id, kind, chunk.text)) for kind, chunk in pieces]
        self._latest, self._hash_counts = cut.id, Counter(name for id, name in hashed if id.startswith(name))

    def _keep_chunk(self, id: str, chunk: Chunk, metadata: Mapping[str, Any]) -> CutDocument:
        before = self._chunks.get(id, 0)
        empty = not chunk.text.strip()
        self._chunks[id] = before + (not empty)
        return CutDocument(id, metadata, () if empty else (chunk,), continues=before > 0)

    def _split(self, id: str, document: Document, splitter: Splitter) -> CutDocument:
        before = self._chunks.get(id)
        if id != self._latest or before is None:
            self._latest, self._hash_counts = id, {}
        index = before or 0
        chunks: list[Chunk] = []
        parents: list[Chunk] = []
        links: dict[str, Sequence[Link]] = {}
        pieces = list(splitter.split(document, self._note))
        # If a document has several Documents, only the first may name chunks after headings: the others are split
        # without access to its headings, so names could repeat.
        lookup = _OutlineLookup(document, [child for piece in pieces for child in piece.children or (piece,)])
        for piece in pieces:
            parent: str | None = None
            if piece.children:
                parent = self._name(id, PARENT, piece)
                parent_metadata = _metadata(document, piece, {"document_id": id})
                parents.append(Chunk(parent, piece.text, parent_metadata, id))
            for child in piece.children or (piece,):
                added: dict[str, Any] = {"document_id": id, "chunk_index": index + len(chunks)}
                if parent is not None:
                    added["parent_id"] = parent
                anchors = lookup.anchors(child) if before is None else []
                if anchors:
                    added["anchors"] = [anchor.name for anchor in anchors]
                anchor_name = lookup.opening_name(child, anchors)
                if index + len(chunks) == 0:
                    name = first_chunk_id(id)
                else:
                    name = f"{id}#{anchor_name}" if anchor_name else self._name(id, "", child)
                chunks.append(Chunk(name, child.text, _metadata(document, child, added), id, parent))
                links[name] = lookup.links(child)
        self._chunks[id] = index + len(chunks)
        return CutDocument(id, document.metadata, tuple(chunks), tuple(parents), before is not None, links)

    def _name(self, id: str, kind: str, piece: Piece) -> str:
        name = _hashed_name(id, kind, piece.text)
        count = self._hash_counts[name] = self._hash_counts.get(name, 0) + 1
        return name if count == 1 else f"{name}-{count}"


class _OutlineLookup:
    """Lookup of the anchors and links in each piece of a document's text.

    It works with any splitter. In a piece whose offset is unknown, only links are found.
    """

    def __init__(self, document: Document, pieces: Sequence[Piece]) -> None:
        self._text = document.page_content
        self._outline = outline_of(document)
        self._anchors: dict[int, list[Anchor]] = {}
        starts = [piece.start for piece in pieces if piece.start is not None]
        ends = [piece.start + len(piece.text) for piece in pieces if piece.start is not None]
        for anchor in self._outline.anchors:
            # If several pieces overlap, the last one contains most of the text after the anchor.
            last = bisect_right(starts, anchor.start) - 1
            if last >= 0 and anchor.start < ends[last]:
                self._anchors.setdefault(starts[last], []).append(anchor)

    def anchors(self, piece: Piece) -> list[Anchor]:
        """Return the anchors in a piece, in the order of the text. An anchor in several overlapping pieces belongs to
        the last of these pieces.
        """
        return self._anchors.get(piece.start, []) if piece.start is not None else []

    def opening_name(self, piece: Piece, anchors: Sequence[Anchor]) -> str | None:
        """Return the name of the anchor at the start of a piece, or None if the piece does not start with an anchor.
        The name "0" is ignored, because it is reserved for the first chunk.
        """
        if not anchors or piece.start is None or self._text[piece.start : anchors[0].start].strip():
            return None
        return anchors[0].name if anchors[0].name != FIRST else None

    def links(self, piece: Piece) -> list[Link]:
        """Return the links that begin in a piece, without duplicates. If the offset of the piece is unknown, the links
        are parsed from the text of the piece alone.
        """
        links = self._outline.links
        if piece.start is None:
            return list(dict.fromkeys(find_links(piece.text)))
        first = bisect_left(links, piece.start, key=itemgetter(0))
        last = bisect_left(links, piece.start + len(piece.text), key=itemgetter(0))
        return list(dict.fromkeys(link for _, link in links[first:last]))


def _metadata(document: Document, piece: Piece, added: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {**document.metadata, **piece.metadata}
    if document.metadata.get("title"):
        metadata["title"] = document.metadata["title"]
    if piece.start is not None:
        metadata["start_index"] = piece.start
        first = document.metadata.get("start_line")
        if isinstance(first, int) and "end_line" in metadata:
            metadata["start_line"] = first + document.page_content.count("\n", 0, piece.start)
            metadata["end_line"] = metadata["start_line"] + piece.text.count("\n")
    return {**metadata, **added}


def _identity(document: Document) -> tuple[str, bool]:
    """Return (id, is_unique). If ``is_unique`` is set, a later Document with the same id replaces this one."""
    document_id = document.metadata.get("document_id")
    if document_id is not None:
        return replace_surrogates(str(document_id)), False
    if document.id is not None:
        return replace_surrogates(document.id), True
    source = document.metadata.get("source")
    if source is not None:
        return replace_surrogates(str(source)), False
    return _content_id(document), True


def _texts(values: object) -> Sequence[str]:
    return [str(value) for value in values] if isinstance(values, list | tuple) else ()


def _hashed_name(id: str, kind: str, text: str) -> str:
    return f"{id}#{kind}{_hash(text)}"


def _content_id(document: Document) -> str:
    return _hash(f"{document.page_content}\0{document.metadata.get('source', '')}")


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
