"""Edges from chunks to the entities that they mention."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set, Sized
from dataclasses import dataclass, field
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import IO, NamedTuple

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.processes import report
from langchain_hybridgraph.ingestion.edges.base import EdgeBuilder, EdgeSet, slices
from langchain_hybridgraph.ingestion.splitting import CutDocument
from langchain_hybridgraph.records import ENTITY, MENTIONS, TITLE, Edge, Scope
from langchain_hybridgraph.stores.protocols import AcceptsChunks, ListsTitles, ReadsIndex, implements
from langchain_hybridgraph.text import names as text_names
from langchain_hybridgraph.text.analyzer import FunctionWords
from langchain_hybridgraph.text.names import MOST_LETTERS

OWN, FURTHER = 1.0, 0.5  # weights of the document's own title: for its first chunk, and for its other chunks
TITLED, WORD = 0.8, 0.4  # weights of another document's title: of several words, and of one word
SHORTENED = 0.6  # weight of a full name if the text has only a part of it
MOST_NAMES = 100  # maximum number of entities of a chunk; the most certain are kept
BLOCK = 1_000  # number of chunks whose edges are written together
# Maximum number of words for which possible titles are looked up. For more words, all titles are read.
FEW_WORDS = 2_000


class EntityEdges(EdgeBuilder):
    """Edges from each chunk to the entities that it mentions: document titles, and names in the text. No model is
    needed.

    An entity is a node that exists only in the graph. Its id is ``entity:`` followed by the normalised name (no case,
    accents, punctuation, possessive or leading article). Names are recognised by capitals and quotation marks
    (:mod:`~langchain_hybridgraph.text.names`), titles by their words, in any case and script. "Mercury (planet)" is
    also a mention of "Mercury". "Lovelace" is also a mention of "Ada Lovelace" if no other full name in the document
    begins or ends with this word.

    The weight of an edge is the certainty of the mention. A document's own title has weight 1 for the first chunk and
    .5 for the others. Other titles and names usually have .8 if they consist of several words, and .4 to .6 if they are
    single words or parts of names. Each title also has a second node, ``title:`` followed by the name, by which later
    ingests find the title.

    If the store can be read back (``ReadsIndex``), adding documents later gives the same edges as ingesting all
    documents together. Otherwise, older and newer documents are connected only by the names in their texts. After a
    document is deleted, chunks that mention its title keep their edges to the title's entity until they are ingested
    again; for files, ``ingest`` does this automatically.

    Raises ConfigurationError for chunks whose id begins with ``entity:`` or ``title:``.

    >>> from langchain_hybridgraph import HybridGraphStore, ingest
    >>> store = HybridGraphStore(None)
    >>> texts = {"Ada Lovelace": "She wrote the first program.", "Engine": "Lovelace's notes: Ada Lovelace, 1843."}
    >>> chunks = [Chunk(title, text, {"title": title}) for title, text in texts.items()]
    >>> _ = ingest(chunks, store, split=None, edges=[EntityEdges()])
    >>> [(edge.source, edge.weight, edge.description) for edge in store.edges(["entity:ada lovelace"], backwards=True)]
    [('Ada Lovelace', 1.0, 'Ada Lovelace is about Ada Lovelace.'), ('Engine', 0.8, 'Engine mentions Ada Lovelace.')]
    """

    relations = (MENTIONS,)

    def start(self, store: AcceptsChunks) -> None:
        """Clear the titles and names recorded during the previous ingest."""
        is_empty = isinstance(store, Sized) and len(store) == 0
        self._earlier = store if implements(store, ReadsIndex) and not is_empty else None
        self._titles = _Titles()
        self._names = _FullNames("")
        # Titles are matched after all documents were received. Until then, texts are kept on disk, as they may not fit
        # into memory.
        self._waiting: IO[str] = SpooledTemporaryFile(1 << 23, "w+", encoding="utf-8", errors="surrogatepass")  # noqa: SIM115 - closed by finish
        self._size = 0

    def see(self, document: CutDocument) -> tuple[EdgeSet, ...]:
        """Record the mentions in the document's chunks; :meth:`finish` adds mentions of other documents' titles."""
        if document.chunks:
            mentions = document.mentions
            if not isinstance(mentions, DocumentMentions):
                mentions = find_mentions(document, self._names)
            self._names = mentions.names
            for name, spelling in mentions.titles:
                self._titles.add(name, spelling)
            self._size += mentions.words
            self._waiting.writelines(mentions.lines)
        return ()

    def finish(self) -> Iterator[EdgeSet]:
        """Yield the edges of the ingested chunks, and those of earlier chunks that mention a new title."""
        with self._waiting as waiting:
            stored = _Titles()
            if older := self._earlier:
                new_ids = {chunk for chunk, _ in _read_lines(waiting)}
                edges = self._title_edges(older, waiting)
                new_names = self._titles.names.keys() - {edge.target.removeprefix(TITLE) for edge in edges}
                for edge in edges:
                    if edge.source not in new_ids:  # an ingested document may have a different title now
                        stored.add(edge.target.removeprefix(TITLE), edge.description.partition(_NAMES)[0])
                # Write these edges before the titles: once stored, the titles would not be new to the next ingest after
                # a crash.
                yield from self._older_mentions(new_names, older, new_ids)
            waiting.seek(0)
            while lines := list(islice(waiting, BLOCK)):
                block = [_ChunkMentions(*json.loads(line)) for line in lines]
                for mentions in block:
                    words = mentions.words.split(" ")
                    for name, spelling, weight in (*self._titles.matches(words), *stored.matches(words)):
                        mentions.mention(name, weight, spelling)
                edges = [edge for mentions in block for edge in mentions.edges()]
                yield EdgeSet(edges, [mentions.chunk for mentions in block])

    def _title_edges(self, older: ReadsIndex, waiting: IO[str]) -> list[Edge]:
        """Return the stored edges from documents to the nodes of their titles, without titles that are too ordinary.

        Looking up all possible titles of long texts takes longer than reading all stored titles.
        """
        if implements(older, ListsTitles) and self._size > FEW_WORDS:
            edges = older.title_edges()
        else:
            names = {name for _, words in _read_lines(waiting) for name in text_names.possible_titles(words)}
            nodes = [TITLE + name for name in names | self._titles.names.keys()]
            edges = [edge for batch in slices(nodes, 20_000) for edge in older.edges(batch, backwards=True)]
        return [edge for edge in edges if edge.weight == OWN and _NAMES in edge.description]

    def _older_mentions(self, names: Set[str], older: ReadsIndex, new_ids: Set[str]) -> Iterator[EdgeSet]:
        """Yield the edges from chunks of earlier ingests to new titles that they mention."""
        if not names:
            return
        titles = _Titles()
        for name in sorted(names):
            titles.add(name, self._titles.names[name])
        ids = [id for id in older.find(Scope()) if id not in new_ids]
        for number, batch in enumerate(slices(ids, BLOCK)):
            report("edges", number * BLOCK, len(ids), "older chunks")
            if edges := [edge for chunk in older.get(batch) for edge in titles.mentions(chunk)]:
                yield EdgeSet(edges)


class DocumentMentions(NamedTuple):
    """Mentions in the chunks of a document, with one line of JSON for each chunk and the number of words in all chunks.

    ``titles`` are the names in the document's title that other documents may mention, as (normalised name, spelling).
    ``names`` contains the full names in the chunks.
    """

    lines: Sequence[str]
    words: int
    titles: Sequence[tuple[str, str]]
    names: _FullNames


def find_mentions(document: CutDocument, names: _FullNames | None = None) -> DocumentMentions:
    """Return the mentions in the chunks of a document, which must have at least one chunk.

    ``names`` are those of the document before, of which this one may be a further part.
    """
    readings = text_names.read([chunk.text for chunk in document.chunks], document.title or "")
    language, label = readings[0].language, _clipped(document.title or document.id)
    mentions: list[_ChunkMentions] = []
    spellings: dict[str, str] = {}
    for chunk, reading in zip(document.chunks, readings, strict=True):
        if chunk.id.startswith((ENTITY, TITLE)):
            raise ConfigurationError(
                f"{chunk.id!r} cannot be the id of a chunk; ids that begin with {ENTITY!r} or {TITLE!r} are reserved "
                "for nodes of the graph: give the chunk another id"
            )
        mentions.append(_ChunkMentions(chunk.id, label, " ".join(reading.words)))
        for spelling, weight in reading.names:
            name = text_names.entity_name(spelling, reading.language)
            spellings.setdefault(name, spelling)
            mentions[-1].mention(name, weight, spelling)
    if names is None or not document.continues or names.document != document.id:
        names = _FullNames(document.id)
    names.complete(mentions, spellings)
    for chunk_mentions in mentions:
        most_certain = sorted(chunk_mentions.entities.items(), key=lambda entry: -entry[1][0])
        if len(most_certain) > MOST_NAMES:
            chunk_mentions.entities = dict(most_certain[:MOST_NAMES])
    titles = list(_add_title(document, mentions, language))
    lines = [json.dumps([each.chunk, each.label, each.words, each.entities]) + "\n" for each in mentions]
    return DocumentMentions(lines, sum(len(reading.words) for reading in readings), titles, names)


def _add_title(
    document: CutDocument, mentions: Sequence[_ChunkMentions], language: FunctionWords
) -> Iterator[tuple[str, str]]:
    """Add a document's title to its chunks; yield (normalised name, spelling) that other documents may mention."""
    for name, spelling, is_certain in text_names.title_names(document.title or "", language):
        if not is_certain and not any(ENTITY + name in chunk_mentions.entities for chunk_mentions in mentions):
            continue
        for place, chunk_mentions in enumerate(mentions):
            weight = FURTHER if place or document.continues else OWN
            chunk_mentions.add(ENTITY + name, weight, f"{chunk_mentions.label} is about {spelling}.")
        if document.continues:
            continue
        if text_names.is_distinctive(text_names.words_of(name), language.words):
            mentions[0].add(TITLE + name, OWN, f"{spelling}{_NAMES}{document.id} is about.")
            yield name, spelling
        else:
            mentions[0].add(TITLE + name, OWN, f"{spelling} is the title of {document.id}.")


@dataclass
class _ChunkMentions:
    """Entities that one chunk mentions. ``entities`` maps node ids to the weight and description of the edge."""

    chunk: str
    label: str
    words: str
    entities: dict[str, tuple[float, str]] = field(default_factory=dict)

    def add(self, node: str, weight: float, description: str) -> None:
        """Add a mention of a node, unless the node has one with at least the same weight."""
        if node not in self.entities or self.entities[node][0] < weight:
            self.entities[node] = weight, description

    def edges(self) -> Iterator[Edge]:
        for node, (weight, description) in self.entities.items():
            yield Edge(self.chunk, node, MENTIONS, weight, description)

    def mention(self, name: str, weight: float, spelling: str) -> None:
        if name:
            self.add(ENTITY + name, weight, f"{self.label} mentions {spelling}.")


class _FullNames:
    """Full names in one document, which complete shorter forms in its chunks; ambiguous short forms are ignored."""

    def __init__(self, document: str) -> None:
        self.document = document
        self._short: dict[str, dict[str, str]] = {}  # last or first word, or initials → names with their spellings

    def complete(self, mentions: Sequence[_ChunkMentions], spellings: Mapping[str, str]) -> None:
        for name, spelling in spellings.items():
            self._add(name, spelling)
        for chunk_mentions in mentions:
            for node in list(chunk_mentions.entities):
                full_names = self._short.get(node.removeprefix(ENTITY), {})
                if len(full_names) == 1:
                    ((name, spelling),) = full_names.items()
                    chunk_mentions.mention(name, SHORTENED, spelling)

    def _add(self, name: str, spelling: str) -> None:
        words = name.split()
        if 2 <= len(words) <= 6:
            initials = "".join(word[0] for word in words)
            for short in {initials, words[-1], words[0]} if len(words) <= 3 else {initials}:
                if len(short) > 1:
                    self._short.setdefault(short, {}).setdefault(name, spelling)


# -- titles in texts ---------------------------------------------------------------------------------------------------

_ASCII_WORD = re.compile("[a-z0-9]+")
_INITIALS = re.compile(r"\b[A-Z]\W+[A-Z]\b")  # initials such as "J. K." are matched as one word
_NAMES = " is what "


class _Titles:
    """Titles to find in texts. A title is found if all its words occur in a text one after another."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}  # normalised name → spelling
        self._sizes: dict[str, dict[int, None]] = {}  # first word → lengths in words of the titles that begin with it

    def add(self, name: str, spelling: str) -> None:
        if name not in self.names:
            self.names[name] = spelling
            words = text_names.words_of(name)
            self._sizes.setdefault(words[0], {})[len(words)] = None

    def matches(self, words: Sequence[str]) -> Iterator[tuple[str, str, float]]:
        """Yield (normalised name, spelling, weight) for each title that occurs in these words."""
        sizes, names = self._sizes, self.names
        for place, word in enumerate(words):
            if word in sizes:
                for size in sizes[word]:
                    name = text_names.join_words(words[place : place + size])
                    if name in names and place + size <= len(words):
                        yield name, names[name], TITLED if size > 1 else WORD

    def mentions(self, chunk: Chunk) -> Iterator[Edge]:
        # An ASCII text without any first word is recognised ten times faster than by splitting it into words.
        is_plain = chunk.text.isascii() and not _INITIALS.search(chunk.text)
        if is_plain and self._sizes.keys().isdisjoint(_ASCII_WORD.findall(chunk.text.lower())):
            return
        label = _clipped(str(chunk.metadata.get("title") or chunk.document))
        for name, spelling, weight in dict.fromkeys(self.matches(text_names.text_words(chunk.text))):
            yield Edge(chunk.id, ENTITY + name, MENTIONS, weight, f"{label} mentions {spelling}.")


def _read_lines(lines: IO[str]) -> Iterator[tuple[str, list[str]]]:
    lines.seek(0)
    for line in lines:
        chunk, _, words, _ = json.loads(line)
        yield chunk, words.split(" ")


def _clipped(title: str) -> str:
    return title if len(title) <= MOST_LETTERS else f"{title[:MOST_LETTERS]}…"
