"""Splitting documents into chunks with stable ids."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain, takewhile
from math import inf, isfinite
from operator import itemgetter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from langchain_hybridgraph.chunks import LONGEST_TITLE, Chunk, replace_surrogates, with_short_titles
from langchain_hybridgraph.errors import ConfigurationError, check_number, describe_error, quote_value, shorten
from langchain_hybridgraph.ingestion.markdown import Link, Outline, Section, find_links, outline
from langchain_hybridgraph.registry import nearest
from langchain_hybridgraph.text import sentences as split_points
from langchain_hybridgraph.text.analyzer import approximate_tokens, token_weight

if TYPE_CHECKING:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings


TokenCounter = Callable[[str], float]
Note = Callable[[str], None]

# Suffixes of files in which "#" starts a comment, not a heading.
_HASH_COMMENTS = re.compile(
    r"\.(?:pyi?|[bz]?a?sh|rb|pl|r|jl|ya?ml|toml|ini|cfg|conf|properties|env|mk|cmake|[ct]sv|jsonl?|log|sql)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a document's text. A piece with children is a parent: only its children are searched.

    ``start`` is the offset in characters, or None if it is unknown. ``metadata`` is added to the document's metadata.
    """

    text: str
    start: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    children: tuple[Piece, ...] = ()


@runtime_checkable
class Splitter(Protocol):
    """Object that cuts documents into pieces."""

    def split(self, document: Document, note: Note) -> Iterable[Piece]:
        """Return the pieces of a document in text order, and pass any warnings to ``note``."""


class _Span(NamedTuple):
    start: int
    end: int
    weight: float


@dataclass(frozen=True)
class RecursiveSplitter:
    """Splitter that makes pieces of at most ``size`` tokens and keeps paragraphs together if possible.

    The text is cut at headings and, where a section is too large, at blank lines, sentences, lines and words. A word is
    cut only if it is longer than 1,000 characters. Within a section, each piece after the first repeats up to
    ``overlap`` tokens from the end of the previous piece, in complete sentences if they fit.

    With ``join_sections``, a section of less than half of ``size`` is joined with the next section if both fit into one
    piece, unless the heading of the next section is at a higher level: very short pieces are rarely retrieved.

    ``counter`` counts tokens. It should be subadditive: the count of a concatenation is at most the sum of the counts.
    The default size suits embedding models that read only the first 256 tokens (see ``benchmarks/chunking.py``).

    Pieces are slices of the text without the blank lines around them. A blank text has no pieces. Raises
    ConfigurationError unless 0 ≤ ``overlap`` < ``size``.

    >>> from langchain_core.documents import Document
    >>> text = "# Guide\\n\\n## Install\\n\\nRun it.\\n\\n## Use\\n\\nAsk it."
    >>> for piece in RecursiveSplitter(join_sections=False).split(Document(text), print):
    ...     print(piece.start, repr(piece.text), dict(piece.metadata))
    0 '# Guide\\n\\n## Install\\n\\nRun it.' {'title': 'Guide', 'section_heading': 'Install'}
    30 '## Use\\n\\nAsk it.' {'title': 'Guide', 'section_heading': 'Use'}
    """

    size: int = 256
    overlap: int = 50
    counter: TokenCounter = approximate_tokens
    join_sections: bool = True

    def __post_init__(self) -> None:
        check_number("size", self.size, gt=0)
        check_number("overlap", self.overlap, ge=0, lt=self.size)

    def split(self, document: Document, note: Note) -> Iterator[Piece]:
        """Yield the pieces of a document's text, in order."""
        text = document.page_content
        structure = outline_of(document)
        # An overlap would begin in the middle of a line of code.
        splitter = replace(self, overlap=0) if "start_line" in document.metadata else self
        yield from _cut(text, splitter.spans(text, structure), structure)

    def spans(self, text: str, structure: Outline) -> Iterator[_Span]:
        """Yield the range of each piece. A section too large for one piece shares none with the section before it."""
        pending: _Span | None = None
        level = 0
        small = self.size / 2 if self.join_sections else 0.0
        for section in structure.sections:
            spans = list(self.pack(text, self._atoms_of(text, structure, section)))
            if pending is not None and spans:
                # A section at a higher level begins another topic.
                joins = pending.weight < small and len(spans) == 1 and len(section.path) >= level
                if joins and pending.weight + spans[0].weight <= self.size:
                    spans[0] = _Span(pending.start, spans[0].end, pending.weight + spans[0].weight)
                else:
                    yield pending
            yield from spans[:-1]
            pending, level = (spans[-1], len(section.path)) if spans else (pending, level)
        if pending is not None:
            yield pending

    def pack(self, text: str, atoms: Iterable[_Span]) -> Iterator[_Span]:
        """Join neighbouring atoms while they fit into a piece, and put the overlap before each span after the first."""
        current: _Span | None = None
        for atom in atoms:
            if current is None:
                current = atom
            elif current.weight + atom.weight <= self.size:
                current = _Span(current.start, atom.end, current.weight + atom.weight)
            else:
                yield current
                start, weight = self._tail(text, current, min(self.overlap, self.size - atom.weight))
                current = _Span(start, atom.end, weight + atom.weight)
        if current is not None:
            yield current

    def atoms(self, text: str, structure: Outline, start: int, end: int, level: int = 0) -> Iterator[_Span]:
        """Yield the largest parts of the range that fit into a piece. Together they cover the range without gaps."""
        part = text[start:end]
        weight = 0.0 if part.isspace() else self.weigh(part)
        if weight <= self.size or level == len(split_points.LEVELS):
            yield _Span(start, end, weight)
            return
        cuts = split_points.LEVELS[level](text, start, end, structure.fences)
        for first, last in split_points.spans(start, cuts, end):
            yield from self.atoms(text, structure, first, last, level + 1)

    def _atoms_of(self, text: str, structure: Outline, section: Section) -> Iterator[_Span]:
        """Yield the atoms of a section. A table below its headings is cut so that its first rows are in their piece."""
        body, _ = _trimmed(text, section.body, section.end)
        headings = 0.0  # weight of the headings directly before the atom
        for atom in self.atoms(text, structure, section.start, section.end):
            if headings and 1 <= self.size - headings < atom.weight and text.startswith("|", atom.start):
                smaller = replace(self, size=int(self.size - headings), overlap=0)
                yield from smaller.atoms(text, structure, atom.start, atom.end)
            else:
                yield atom
            headings = headings + atom.weight if atom.end <= body else 0.0

    def weigh(self, text: str) -> float:
        """Return the number of tokens in a text, unrounded for the default counter, so that parts can be added."""
        return token_weight(text) if self.counter is approximate_tokens else self.counter(text)

    def _tail(self, text: str, span: _Span, budget: float) -> tuple[int, float]:
        """Return the start and weight of the overlap: the last complete sentences within the budget, or words."""
        if budget <= 0:
            return span.end, 0.0
        for level in (split_points.sentences, split_points.words):
            start, weight = span.end, 0.0
            for part in reversed(list(split_points.spans(span.start, level(text, span.start, span.end), span.end))):
                part_weight = self.weigh(text[part[0] : part[1]])
                if weight + part_weight > budget:
                    break
                start, weight = part[0], weight + part_weight
            if weight:
                return start, weight
        return span.end, 0.0


@dataclass(frozen=True)
class ParentChildSplitter:
    """Splitter that makes small children, which are searched, and larger parents, which are returned.

    By default, children have at most 256 tokens and never cross a heading; parents have at most 1024 tokens and may
    contain several short sections. ``parents`` and ``children`` can be any splitters that ``ingest`` accepts. Two
    :class:`RecursiveSplitter` objects make parents of neighbouring children. Otherwise, each parent is split.
    """

    parents: Any = field(default_factory=lambda: RecursiveSplitter(1024, 0))
    children: Any = field(default_factory=lambda: RecursiveSplitter(256, 0, join_sections=False))

    def __post_init__(self) -> None:
        for name in ("parents", "children"):
            splitter = as_splitter(getattr(self, name))
            if splitter is None:
                raise ConfigurationError(f"{name} needs a splitter, such as RecursiveSplitter(256, 0)")
            object.__setattr__(self, name, splitter)

    def split(self, document: Document, note: Note) -> Iterator[Piece]:
        """Yield the parents of a document's text, in order, each with its children."""
        if isinstance(self.parents, RecursiveSplitter) and isinstance(self.children, RecursiveSplitter):
            yield from self._join(document, self.parents, self.children)
            return
        for parent in self.parents.split(document, note):
            if children := tuple(self._cut_out(parent, document, note)):
                yield replace(parent, children=children)

    def _join(self, document: Document, parents: RecursiveSplitter, children: RecursiveSplitter) -> Iterator[Piece]:
        # Split into children first: an edit moves the borders of the parents after it, but does not change the
        # children.
        text = document.page_content
        structure = outline_of(document)
        spans = list(children.spans(text, structure))
        small = deque(_cut(text, spans, structure))
        if parents.counter is not children.counter:
            spans = [span._replace(weight=parents.weigh(text[span.start : span.end])) for span in spans]
        for parent in _cut(text, parents.pack(text, spans), structure):
            inside: list[Piece] = []
            while small and (small[0].start or 0) < (parent.start or 0) + len(parent.text):
                inside.append(small.popleft())
            yield replace(parent, children=tuple(inside))

    def _cut_out(self, parent: Piece, document: Document, note: Note) -> Iterator[Piece]:
        from langchain_core.documents import Document

        part = Document(page_content=parent.text, metadata={**document.metadata, **parent.metadata})
        for child in self.children.split(part, note):
            start = None if child.start is None or parent.start is None else parent.start + child.start
            yield replace(child, start=start, metadata={**parent.metadata, **child.metadata})


@dataclass(frozen=True)
class SemanticSplitter:
    """Splitter that cuts at headings and between neighbouring sentences with different topics.

    The text is cut between two sentences if the cosine of their embeddings is below the given ``percentile`` of these
    cosines in the document. Pieces larger than ``size`` tokens are cut by a :class:`RecursiveSplitter`, as is the
    complete document if the embedding fails; the report of ``ingest`` then contains a warning.
    """

    embedding: Embeddings
    percentile: float = 25.0
    size: int = 512
    counter: TokenCounter = approximate_tokens

    def __post_init__(self) -> None:
        check_number("percentile", self.percentile, ge=0, le=100)
        check_number("size", self.size, gt=0)

    def split(self, document: Document, note: Note) -> Iterator[Piece]:
        """Yield the pieces of a document's text, in order."""
        text = document.page_content
        structure = outline_of(document)
        sentences = [list(_sentences(text, structure, section)) for section in structure.sections]
        try:
            breaks = self._breaks(text, list(chain.from_iterable(sentences)))
        except Exception as error:  # noqa: BLE001 - an embedding may raise anything, and the text must be indexed anyway
            name = repr(document.id or document.metadata.get("source") or text[:40])
            note(f"semantic splitting fell back to recursive splitting for {name}: {describe_error(error)}")
            breaks = set()
        spans: list[_Span] = []
        recursive = RecursiveSplitter(self.size, 0, self.counter)
        for section, inside in zip(structure.sections, sentences, strict=True):
            starts = [start for start, _ in inside if start in breaks]
            for first, last in split_points.spans(section.start, starts, section.end):
                spans += recursive.pack(text, recursive.atoms(text, structure, first, last))
        yield from _cut(text, spans, structure)

    def _breaks(self, text: str, spans: Sequence[tuple[int, int]]) -> set[int]:
        import numpy as np

        from langchain_hybridgraph.embeddings.lsa import unit_rows

        if len(spans) < 2:
            return set()
        vectors = np.asarray(self.embedding.embed_documents([text[s:e].strip() for s, e in spans]), dtype=np.float32)
        units = unit_rows(vectors)
        cosines = np.einsum("ij,ij->i", units[:-1], units[1:])
        if not np.isfinite(cosines).all():
            raise ValueError("the embedding returned vectors that are not finite")
        is_break = cosines < np.percentile(cosines, self.percentile)
        return {start for (start, _), is_start in zip(spans[1:], is_break, strict=True) if is_start}


@dataclass(frozen=True)
class LangChainSplitter:
    """Adapter for a LangChain splitter or transformer, or a function from a string to a list of strings."""

    splitter: Any

    def split(self, document: Document, note: Note) -> Iterator[Piece]:
        """Yield the pieces that are not blank. Missing offsets are found by searching for the pieces in the text."""
        text, cursor, end = document.page_content, 0, 0
        for part in self._parts(text):
            content, metadata = (part, {}) if isinstance(part, str) else (part.page_content, dict(part.metadata))
            if not content.strip():
                continue
            start = metadata.pop("start_index", None)
            if start is None or start < 0:
                # Pieces are in order and may overlap: the next one starts and, if possible, ends after the last one.
                limit = max(cursor, end) + 4 * len(content) + 4_096
                start = text.find(content, max(cursor, end + 1 - len(content)), limit)
                start = start if start >= 0 else text.find(content, cursor, limit)
            if start >= 0:
                cursor, end = max(cursor, start + 1), start + len(content)
            yield Piece(content, None if start < 0 else start, metadata)

    def _parts(self, text: str) -> Sequence[Any]:
        from langchain_core.documents import Document

        name = next((name for name in _LANGCHAIN if getattr(self.splitter, name, None)), None)
        method = self.splitter if name is None else getattr(self.splitter, name)
        result = method(text if name in (None, "split_text") else [Document(page_content=text)])
        is_list = isinstance(result, Iterable) and not isinstance(result, str)
        parts = list(result) if is_list else [None]
        if not all(isinstance(part, str) or hasattr(part, "page_content") for part in parts):
            raise ConfigurationError(
                "a splitter must return a list of strings or Documents, got "
                f"{quote_value(parts if is_list else result)}; return [text] for a single piece"
            )
        return parts


def as_splitter(split: Any) -> Splitter | None:
    """Return the splitter for the argument ``split`` of ``ingest``; None makes each document one chunk.

    ``split`` is ``"flat"`` (256 tokens, overlap 50), ``"parent_child"`` (parents of 1024 tokens, children of 256), a
    :class:`Splitter`, a LangChain splitter, or a function from a string to a list of strings. Raises ConfigurationError
    for anything else.

    >>> as_splitter("flat").size
    256
    """
    if isinstance(split, str) and split in _STRATEGIES:
        return _STRATEGIES[split]()
    if not isinstance(split, (str, bytes, bytearray, type)):
        if split is None or isinstance(split, Splitter):
            return split
        if callable(split) or any(hasattr(split, name) for name in _LANGCHAIN):
            return LangChainSplitter(split)
    raise ConfigurationError(
        f"split={split!r} is not a splitter; {nearest(split, _STRATEGIES)}pass 'flat', 'parent_child', "
        "None, a splitter object (of this package or LangChain), or a function from a text to a list of texts"
    )


_STRATEGIES: Mapping[str, Callable[[], Splitter]] = {"flat": RecursiveSplitter, "parent_child": ParentChildSplitter}
_LANGCHAIN = ("split_documents", "split_text", "transform_documents")


def _cut(text: str, spans: Iterable[_Span], structure: Outline) -> Iterator[Piece]:
    sections = structure.sections
    covering = 0
    for span in spans:
        start, end = _trimmed(text, span.start, span.end)
        if start == end:
            continue
        while sections[covering].end <= start:
            covering += 1
        metadata = {} if structure.title is None else {"title": structure.title}
        if heading := _common_heading(sections, covering, end):
            metadata["section_heading"] = heading
        yield Piece(text[start:end], start, metadata)


def _common_heading(sections: Sequence[Section], first: int, end: int) -> str:
    """Return the headings that the sections from number ``first`` to the offset ``end`` have in common."""
    path = sections[first].path
    for number in range(first + 1, len(sections)):
        if sections[number].start >= end:
            break
        pairs = zip(path, sections[number].path, strict=False)
        path = tuple(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return " > ".join(path)


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the range without leading blank lines and trailing white space. The indent of its first line is kept."""
    end = start + len(text[start:end].rstrip())
    first = end - len(text[start:end].lstrip())
    return max(text.rfind("\n", start, first) + 1, start), end


def _sentences(text: str, structure: Outline, section: Section) -> Iterator[tuple[int, int]]:
    cuts = split_points.sentences, split_points.paragraphs
    points = sorted({cut for kind in cuts for cut in kind(text, section.start, section.end, structure.fences)})
    return (span for span in split_points.spans(section.start, points, section.end) if text[span[0] : span[1]].strip())


def outline_of(document: Document) -> Outline:
    """Return the outline of a document's text.

    Source code and logs, which have ``start_line`` in the metadata, are one section of code, split at line ends only.
    In files whose comments begin with ``#``, lines that begin with ``#`` are not headings.
    """
    text, suffix = document.page_content, PurePosixPath(str(document.metadata.get("source") or "")).suffix
    if "start_line" in document.metadata:
        size = len(text)
        paragraphs = split_points.spans(0, split_points.paragraphs(text, 0, size), size)
        fences = tuple((start, start + len(text[start:end].rstrip())) for start, end in paragraphs)
        return Outline((Section(0, size),), fences=fences)
    return outline(text, headings=False) if _HASH_COMMENTS.fullmatch(suffix) else outline(text)


# -- chunks ----------------------------------------------------------------------------------------------------------

# The first chunk of ``guide.md`` has the id ``guide.md#0``. Another chunk that starts with the heading "Install" has
# the id ``guide.md#install``. The id of any other chunk consists of ``guide.md#`` and a hash of its text. An edit
# therefore changes the ids of few chunks, and a link can refer to a chunk before its document is ingested.
FIRST, PARENT = "0", "parent-"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CutDocument:
    """Chunks and parents of one Document, in the order of the text.

    A document, such as a file, may consist of several Documents, such as its pages. ``continues`` is set if an earlier
    Document of this ingest belongs to the same document. ``links`` maps each chunk's id to the links that begin in the
    chunk; if it is None, they have to be parsed from the text of each chunk. ``mentions`` is the result of
    ``edges.entities.find_mentions`` for the chunks, or None if it has not been computed yet.
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
        """Title of the document: ``title`` in its metadata or else in its first chunk's metadata, or None."""
        title = self.metadata.get("title") or (self.chunks and self.chunks[0].metadata.get("title"))
        return str(title) if title else None


def first_chunk_id(document: str) -> str:
    """Return the id that ``ingest`` assigns to the first chunk of a document that it splits."""
    return f"{document}#{FIRST}"


def chunk_index(chunk: Chunk) -> float | None:
    """Return ``chunk_index`` in a chunk's metadata, or None if it is missing or not a finite number."""
    index = chunk.metadata.get("chunk_index")
    return index if isinstance(index, int | float) and isfinite(index) else None


def anchors_of(chunk: Chunk) -> Sequence[str]:
    """Return the anchors of a chunk, which are ``anchors`` in its metadata. A link names an anchor after ``#``."""
    anchors = chunk.metadata.get("anchors")
    return [str(anchor) for anchor in anchors] if isinstance(anchors, list | tuple) else ()


def position(chunk: Chunk) -> float:
    """Return the chunk's position in its document, or 0 if it is unknown."""
    return chunk_index(chunk) or 0.0


def in_order(chunks: Iterable[T], index: Callable[[T], float | None]) -> list[T]:
    """Sort chunks by index, stably; a chunk without an index stays after its predecessor.

    >>> in_order([("c", 2), ("new", None), ("a", 0)], index=lambda chunk: chunk[1])
    [('a', 0), ('c', 2), ('new', None)]
    """
    key, keyed = -inf, list[tuple[float, T]]()
    for chunk in chunks:
        own = index(chunk)
        key = key if own is None else own
        keyed.append((key, chunk))
    return [chunk for _, chunk in sorted(keyed, key=itemgetter(0))]


class Cutter:
    """Splitter that divides the documents of one ingest into chunks and assigns ids to them.

    If ``splitter`` is None, every Document becomes one chunk, whose id is ``Document.id`` or a hash of its text and
    source. A :class:`Chunk` or :class:`CutDocument` is not split. Documents with the same ``document_id`` or ``source``
    are parts of one document. Of Documents with one ``Document.id``, the last is kept, and ``note`` gets a warning.
    """

    def __init__(self, splitter: Splitter | None, note: Note) -> None:
        self._splitter = splitter
        self._note = note
        self._chunks: dict[str, int] = {}  # number of chunks of each document so far
        self._latest = ""
        self._hash_counts = Counter[str]()  # number of uses of each hash in the latest document
        # The hashes of other documents, which may be continued. A string takes a tenth of the memory of a Counter.
        self._earlier_hashes: dict[str, Counter[str] | str] = {}

    def cut(self, document: Document | Chunk | CutDocument) -> CutDocument:
        """Split a document into chunks. Raises ConfigurationError for another object, and for an empty id."""
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
            text = quote_value(document.page_content[:60])
            raise ConfigurationError(f"a document has an empty id: {text}; leave id out to derive one from its source")
        id, by_id = _identity(document)
        if by_id and id in self._chunks:
            self._note(f"several documents have the id {id!r}: the last one counts")
            del self._chunks[id]
        if "\ufffd" in document.page_content:
            self._note(f"{shorten(id, 200)}: U+FFFD in its text replaces characters that could not be decoded")
        if self._splitter is None:
            chunk_id = replace_surrogates(document.id or _content_id(document))
            chunk = Chunk(chunk_id, document.page_content, document.metadata, id)
            return self._keep_chunk(id, chunk, document.metadata)
        return self._split(id, document, self._splitter)

    def adopt(self, cut: CutDocument) -> bool:
        """Record a document that another Cutter has split with the same splitter. Return False if it has parts."""
        if cut.id in self._chunks:
            return False
        self._chunks[cut.id] = len(cut.chunks)
        pieces = [*((PARENT, parent) for parent in cut.parents), *(("", chunk) for chunk in cut.chunks)]
        hashed = [(chunk.id, f"{kind}{_hash(chunk.text)}") for kind, chunk in pieces]
        self._enter(cut.id, is_new=True)
        self._hash_counts.update(hash for id, hash in hashed if id.startswith(f"{cut.id}#{hash}"))
        return True

    def _enter(self, id: str, *, is_new: bool) -> None:
        """Make a document the latest one, with the hashes of its earlier parts unless it is new."""
        if self._hash_counts and self._latest not in self._earlier_hashes:
            self._earlier_hashes[self._latest] = " ".join(self._hash_counts.elements())
        earlier = self._earlier_hashes.pop(id, "")
        self._latest, self._hash_counts = id, Counter[str]()
        if not is_new:
            self._hash_counts = Counter(earlier.split()) if isinstance(earlier, str) else earlier
            self._earlier_hashes[id] = self._hash_counts

    def _keep_chunk(self, id: str, chunk: Chunk, metadata: Mapping[str, Any]) -> CutDocument:
        before = self._chunks.get(id, 0)
        chunks = (replace(chunk, metadata=self._short(id, chunk.metadata)),) if chunk.text.strip() else ()
        self._chunks[id] = before + len(chunks)
        return CutDocument(id, self._short(id, metadata), chunks, continues=before > 0)

    def _short(self, id: str, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
        short = with_short_titles(metadata)
        if short is not metadata:
            self._note(f"{shorten(id, 200)}: titles and headings are shortened to {LONGEST_TITLE} characters")
        return short

    def _split(self, id: str, document: Document, splitter: Splitter) -> CutDocument:
        before = self._chunks.get(id)
        if id != self._latest or before is None:
            self._enter(id, is_new=before is None)
        index, chunks, parents = before or 0, list[Chunk](), list[Chunk]()
        links: dict[str, Sequence[Link]] = {}
        pieces = list(splitter.split(document, self._note))
        structure = outline_of(document)
        starts = [child.start for piece in pieces for child in piece.children or (piece,)]
        for piece in pieces:
            common: dict[str, Any] = {"document_id": id}
            if piece.children:
                common["parent_id"] = self._name(id, PARENT, piece)
                metadata = self._short(id, _chunk_metadata(document, piece, {"document_id": id}))
                parents.append(Chunk(common["parent_id"], piece.text, metadata, id))
            for child in piece.children or (piece,):
                number = index + len(chunks)
                start = child.start or 0
                end = start if child.start is None else start + len(child.text)
                # An anchor in overlapping pieces belongs to the last of them, which has most of the text after it. If a
                # document has several Documents, only the first may name chunks after headings: the others are split
                # without access to its headings, so names could repeat.
                following = (at for at in starts[len(chunks) + 1 : len(chunks) + 2] if at is not None)
                anchors = _between(structure.anchors, start, min([end, *following])) if before is None else ()
                added = {**common, "chunk_index": number}
                if anchors:
                    added["anchors"] = [name for _, name in anchors]
                opens = anchors and not document.page_content[start : anchors[0][0]].strip()
                if number == 0:
                    name = first_chunk_id(id)
                elif opens and anchors[0][1] != FIRST:
                    name = f"{id}#{anchors[0][1]}"
                else:
                    name = self._name(id, "", child)
                metadata = self._short(id, _chunk_metadata(document, child, added))
                chunks.append(Chunk(name, child.text, metadata, id, common.get("parent_id")))
                inside = [link for _, link in _between(structure.links, start, end)]
                links[name] = list(dict.fromkeys(find_links(child.text) if child.start is None else inside))
        self._chunks[id] = index + len(chunks)
        metadata = self._short(id, document.metadata)
        return CutDocument(id, metadata, tuple(chunks), tuple(parents), before is not None, links)

    def _name(self, id: str, kind: str, piece: Piece) -> str:
        hash = f"{kind}{_hash(piece.text)}"
        self._hash_counts[hash] += 1
        count = self._hash_counts[hash]
        return f"{id}#{hash}" if count == 1 else f"{id}#{hash}-{count}"


def _between(items: Sequence[tuple[int, T]], start: int, end: int) -> Sequence[tuple[int, T]]:
    """Return the items whose positions are in the range."""
    return items[bisect_left(items, start, key=itemgetter(0)) : bisect_left(items, end, key=itemgetter(0))]


def _chunk_metadata(document: Document, piece: Piece, added: Mapping[str, Any]) -> dict[str, Any]:
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
    document_id, source = document.metadata.get("document_id"), document.metadata.get("source")
    part_of = document_id if document_id is not None else source if document.id is None else None
    if part_of is not None:
        return replace_surrogates(str(part_of)), False
    return _content_id(document) if document.id is None else replace_surrogates(document.id), True


def _content_id(document: Document) -> str:
    return _hash(f"{document.page_content}\0{document.metadata.get('source', '')}")


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
