"""Summaries of directories, from the bottom up."""

import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

from langchain_hybridgraph.chunks import Chunk, Serializable
from langchain_hybridgraph.errors import ConfigurationError, describe_error, shorten
from langchain_hybridgraph.execution import llm
from langchain_hybridgraph.execution.processes import Progress, counted, report, showing
from langchain_hybridgraph.ingestion.edges.base import slices
from langchain_hybridgraph.ingestion.markdown import outline
from langchain_hybridgraph.ingestion.splitting import position
from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.stores.summaries import STATE
from langchain_hybridgraph.stores.tree import Tree
from langchain_hybridgraph.text.sentences import ABSTRACT_LENGTH, OVERVIEW_LENGTH, abstract_of, clip

_TERMS_LENGTH = 800  # number of characters of an overview reserved for distinctive terms
_SHORTEST_LINE = 40
_MOST_DOCUMENTS = 200  # directories with more documents than this are sampled
_SAMPLE = 2_000  # number of texts from which the frequency of words is estimated
_BATCH = 200
_RARITY = math.log(20)  # a word in more than one of twenty texts is not distinctive
_WORD = re.compile(r"[^\W\d_]\w{2,29}")
_HEADINGS = 12


class DirectoryEntry(NamedTuple):
    """Document or subdirectory in a :class:`Directory`, with its abstract."""

    name: str
    abstract: str
    is_directory: bool = False


@dataclass(frozen=True, slots=True)
class Directory:
    """Input for a summary: the ``parts`` of a directory and, if it is also a document, its own ``text``."""

    uri: str
    title: str
    text: str
    parts: tuple[DirectoryEntry, ...]


class Summary(NamedTuple):
    """Summary of a directory: an abstract of up to 256 characters (L0) and an overview of up to 4,000 (L1)."""

    abstract: str
    overview: str


Summarise = Callable[[Directory], Summary]


@dataclass(frozen=True, slots=True)
class LayersReport(Serializable):
    """Counts of one run of :func:`build_layers`.

    ``summarised`` and ``unchanged`` are the numbers of ``directories`` with a new summary and with the one they had;
    ``removed`` counts the deleted summaries of directories that no longer exist. ``warnings`` lists the directories for
    which the model or function failed.
    """

    directories: int
    summarised: int
    unchanged: int
    removed: int
    seconds: float
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return (
            f"{counted(self.directories, 'directory', 'directories')} in {self.seconds:.1f} s: "
            f"{self.summarised:,} summarised, {self.unchanged:,} unchanged, {self.removed:,} removed"
        )


def build_layers(store: Any, summarise: Any = None, *, progress: bool | Progress | None = None) -> LayersReport:
    """Summarise the changed directories of a store, the deepest first, and return a report.

    Each directory gets an abstract (L0, up to 256 characters) and an overview (L1, up to 4,000 characters), made from
    the abstracts of the directory's contents and, if the directory is also a document, from its own text. If
    ``summarise`` is None, summaries consist of lead sentences, headings and distinctive terms extracted from the texts.
    It can also be a chat model, or a function from a :class:`Directory` to a :class:`Summary`. If either fails for a
    directory, the directory gets an extracted summary, and the next run tries again. An interrupted run can be
    continued by another call.

    A directory has changed if one of its chunks or a summary below it has changed. Extracted summaries are replaced if
    ``summarise`` is a model or function. If ``summarise`` is None, summaries written by a model or function are kept
    until the material that they summarise changes. After a directory has changed, searches treat it as if it had no
    summary until the next run.

    Raises ConfigurationError for a store without a tree and for an invalid ``summarise``.

    >>> from langchain_core.documents import Document
    >>> from langchain_hybridgraph import HybridGraphStore, ingest
    >>> store = HybridGraphStore(None)
    >>> pages = {"pets/cats.md": "Cats purr. They sleep a lot.", "pets/dogs.md": "Dogs bark."}
    >>> _ = ingest([Document(text, metadata={"uri": uri}, id=uri) for uri, text in pages.items()], store)
    >>> build_layers(store).summarised, build_layers(store).summarised
    (1, 0)
    >>> print(store.summaries.index().get(["pets"])[0].text.splitlines()[0])
    pets: cats.md (Cats purr. They sleep a lot.), dogs.md (Dogs bark.)
    """
    if not hasattr(store, "summaries"):
        raise ConfigurationError(
            f"build_layers needs a store with a tree, but {type(store).__name__} has none; "
            "ingest into a HybridGraphStore(path, embedding=…)"
        )
    author = "" if summarise is None else "function"
    if hasattr(summarise, "with_structured_output"):
        author, summarise = "model", _by_model(summarise)
    elif not (summarise is None or callable(summarise)):
        raise ConfigurationError(f"summarise={summarise!r}: pass None, a chat model, or a function of a Directory")
    with showing(progress):
        return _SummaryRun(store, summarise, author).run()


def name_of(uri: str) -> str:
    """Return the last part of a uri, after the last ``/`` or ``#``."""
    return re.split(r"[/#]", uri.rstrip("/#"))[-1] or uri


def extracted(directory: Directory, terms: Iterable[str] = ()) -> Summary:
    """Summarise a directory from lead sentences, headings, the abstracts of its contents, and ``terms``."""
    lead = abstract_of(directory.text) if directory.text.strip() else ""
    parts = [(part.name, "" if part.is_directory else part.abstract) for part in directory.parts[:20]]
    names = ", ".join(f"{name} ({abstract})" if abstract else name for name, abstract in parts)
    abstract = clip(f"{directory.title}: {lead or names}", ABSTRACT_LENGTH)
    terms_line = clip(" ".join(terms), _TERMS_LENGTH)
    lines = [abstract]
    sections = (section.path[-1] for section in outline(directory.text).sections if section.path)
    if headings := list(dict.fromkeys(islice(sections, _HEADINGS))):
        lines.append(clip(f"Sections: {'; '.join(headings)}", 400))
    room = OVERVIEW_LENGTH - len(terms_line) - sum(map(len, lines)) - len(lines) - 1
    line = max(_SHORTEST_LINE, room // max(len(directory.parts), 1) - 1)
    for part in directory.parts:
        if room < _SHORTEST_LINE:
            break
        lines.append(clip(f"{part.name}: {part.abstract}" if part.abstract else part.name, min(line, room)))
        room -= len(lines[-1]) + 1
    return Summary(abstract, "\n".join([*lines, terms_line] if terms_line else lines))


# -- by a model ---------------------------------------------------------------------------------------------------

_FORM = llm.answer_schema(
    "Summary",
    "Summary of a directory.",
    abstract={"type": "string", "description": "Contents of the directory, in one or two sentences."},
    overview={"type": "string", "description": "What its parts contain and where to find it, in up to 400 words."},
)
_INSTRUCTIONS = (
    "Summarise a directory of documents so that a search engine can decide whether to search it. Describe its contents "
    "in the language of the documents and in words that a question about them would use; name the directory's parts, "
    "products, people and terms. Do not add anything that the input does not contain. The input is JSON. "
    f"{llm.DATA_ONLY} Answer only with JSON."
)


def _by_model(chat_model: Any) -> Summarise:
    model = llm.with_schema(chat_model, _FORM, "build_layers")

    def summarise(directory: Directory) -> Summary:
        material = {
            "uri": directory.uri,
            "title": directory.title,
            "text": shorten(directory.text, 8_000),
            "parts": [{"name": part.name, "abstract": part.abstract} for part in directory.parts[:200]],
        }
        config = {"run_name": "build_layers", **llm.SILENT}
        answer = llm.parse_answer(model.invoke(llm.prompt_messages(_INSTRUCTIONS, material), config))
        abstract = answer.get("abstract") if isinstance(answer, Mapping) else None
        if not isinstance(abstract, str) or not abstract.strip():
            raise ValueError(f"there is no abstract in the model's answer: {shorten(str(answer), 200)}")
        return Summary(abstract, str(answer.get("overview") or "").strip())

    return summarise


# -- one run ------------------------------------------------------------------------------------------------------


class _SummaryRun:
    def __init__(self, store: Any, summarise: Summarise | None, author: str) -> None:
        self.store = store
        self.summarise = summarise
        self._author = author
        self._warnings: dict[str, None] = {}
        self._tree: Tree = store.scoped_tree(Scope(None, store.tenant, time.time()))
        self._summaries: dict[str, Chunk] = {}

    def run(self) -> LayersReport:
        """Delete the summaries of removed directories, and summarise the others."""
        started, depths = time.perf_counter(), self._by_depth()
        uris = [self._tree.uri(node) for nodes in depths for node in nodes]
        if uris:
            self.store.flush()  # an interrupted ingest may not have fitted the embedding, which the summaries need
        layers = self.store.summaries.index_for_writing() if uris else self.store.summaries.index()
        if layers is None:
            return LayersReport(0, 0, 0, 0, time.perf_counter() - started)
        self._summaries = {chunk.id: chunk for chunk in layers.all()}
        if removed := sorted(self._summaries.keys() - set(uris)):
            layers.remove(removed)
        done = summarised = 0
        # Write each answer of a model immediately, because it is expensive.
        size = _BATCH if self.summarise is None else 1
        for batch in (batch for nodes in depths for batch in slices(nodes, size)):
            results = [self._layer(node) for node in batch]
            if chunks := [chunk for chunk, _ in results if chunk is not None]:
                layers.upsert(chunks)
            self._summaries.update((chunk.id, chunk) for chunk in chunks)
            summarised, done = summarised + sum(is_new for _, is_new in results), done + len(batch)
            report("summaries", done, len(uris), "directories")
        layers.flush()
        seconds = time.perf_counter() - started
        return LayersReport(len(uris), summarised, len(uris) - summarised, len(removed), seconds, tuple(self._warnings))

    def _by_depth(self) -> list[list[int]]:
        level, levels = self._tree.top(), []
        while directories := [node for node in level if self._tree.is_directory(node)]:
            levels.append(directories)
            level = [child for node in directories for child in self._tree.children(node)]
        return levels[::-1]

    def _layer(self, node: int) -> tuple[Chunk | None, bool]:
        """Return the summary to store for a directory, or None if the stored one is current, and whether it is new.

        If the directory has changed, but not the material for its summary, the stored text gets the new state.
        """
        tree, uri = self._tree, self._tree.uri(node)
        children, old = tree.children(node), self._summaries.get(uri)
        below = [(child, self._summaries.get(child)) for child in map(tree.uri, filter(tree.is_directory, children))]
        abstracts = [(child, layer and layer.metadata["abstract"]) for child, layer in below]
        state = {STATE: tree.state(node), "below": _digest(abstracts)}
        if old is not None and self._is_current(old, state):
            return None, False
        directory, texts = self._read(node, children)
        content = {"made_of": _digest(directory.title, directory.text, directory.parts)}
        if old is not None and self._is_current(old, content):
            return Chunk(uri, old.text, {**old.metadata, **state}), False
        summary, author = self._summary(directory, texts)
        marks = {"uri": uri, "level": 1, "abstract": summary.abstract, **state, **content, "by": author}
        return Chunk(uri, summary.overview, marks), True

    def _is_current(self, old: Chunk, marks: Mapping[str, str]) -> bool:
        """Return whether a stored summary matches ``marks`` and, unless ``summarise`` is None, the summariser."""
        is_by_same_author = self.summarise is None or old.metadata.get("by") == self._author
        return is_by_same_author and all(old.metadata.get(name) == mark for name, mark in marks.items())

    def _summary(self, directory: Directory, texts: Sequence[str]) -> tuple[Summary, str]:
        """Return (summary, author). The author is "" if the summary was extracted without a model or function."""
        terms = list(self._terms(texts, directory))
        without_model = extracted(directory, terms)
        if self.summarise is None:
            return without_model, ""
        try:
            summary = self.summarise(directory)
            abstract = clip(" ".join(summary.abstract.split()), ABSTRACT_LENGTH)
        except Exception as error:  # noqa: BLE001 - a model may raise anything; there is always the extracted summary
            self._warnings[f"{directory.uri}: not summarised as requested ({describe_error(error)})"] = None
            return without_model, ""
        terms_line = clip(" ".join(terms), _TERMS_LENGTH)
        overview = clip(summary.overview, OVERVIEW_LENGTH - len(terms_line) - len(abstract) - 2)
        return Summary(abstract, "\n".join(part for part in (abstract, overview, terms_line) if part)), self._author

    def _read(self, node: int, children: Sequence[int]) -> tuple[Directory, list[str]]:
        tree = self._tree
        own = self._texts([node]).get(node, [])
        chunks_by_document = self._texts([child for child in children if tree.chunks(child)])
        parts = []
        for child in children:
            uri, chunks = tree.uri(child), chunks_by_document.get(child, [])
            layer = self._summaries.get(uri) if tree.is_directory(child) else None
            # If a document is also a directory, its lead sentences are more informative than a list of its contents.
            abstract = "" if layer is None else str(layer.metadata["abstract"])
            if layer is not None and not layer.metadata.get("by"):  # an extracted abstract begins with the title
                abstract = abstract.removeprefix(f"{_title(chunks) or name_of(uri)}: ")
            if chunks and chunks[0].text:
                abstract = abstract_of(chunks[0].text, _title(chunks))
            parts.append(DirectoryEntry(name_of(uri), clip(abstract, ABSTRACT_LENGTH), layer is not None))
        text = "\n\n".join(chunk.text for chunk in own)[: 4 * OVERVIEW_LENGTH]
        title = _title(own) or name_of(tree.uri(node))
        texts = [chunk.text for chunks in (own, *chunks_by_document.values()) for chunk in chunks]
        return Directory(tree.uri(node), title, text, tuple(parts)), texts

    def _texts(self, nodes: Sequence[int]) -> dict[int, list[Chunk]]:
        """Return each node's chunks in order, only the first one if there are more than ``_MOST_DOCUMENTS`` nodes."""
        most = 1 if len(nodes) > _MOST_DOCUMENTS else None
        documents = {id: node for node in nodes for id in self._tree.chunks(node)[:most]}
        chunks: dict[int, list[Chunk]] = {}
        for chunk in self.store.get(list(documents)):
            chunks.setdefault(documents[chunk.id], []).append(chunk)
        return {node: sorted(chunks[node], key=position) for node in nodes if node in chunks}

    def _terms(self, texts: Sequence[str], directory: Directory) -> Iterator[str]:
        """Yield the words that distinguish these texts, except those in the names and abstracts of the directory."""
        step = -(-len(texts) // _MOST_DOCUMENTS) or 1
        counts = Counter(word for text in texts[::step] for word in _words(text))
        own_words = _words(" ".join((directory.title, *(f"{part.name} {part.abstract}" for part in directory.parts))))
        rarest = math.log(_SAMPLE)
        rarity = {word: self._rarity.get(word, rarest) for word in counts if word not in own_words}
        threshold = min(_RARITY, max(self._rarity.values(), default=0.0) / 2)
        distinctive = (word for word in rarity if rarity[word] > threshold)
        order = sorted(distinctive, key=lambda word: (-(1 + math.log(counts[word])) * rarity[word], word))
        return islice(order, _TERMS_LENGTH // 4)

    @cached_property
    def _rarity(self) -> dict[str, float]:
        """Return the inverse document frequency of each word, estimated from a sample of the store's texts."""
        ids = self.store.find(Scope(None, self.store.tenant, None))
        sample = self.store.get(ids[:: -(-len(ids) // _SAMPLE) or 1])
        counts = Counter(word for chunk in sample for word in _words(chunk.text))
        return {word: math.log((1 + len(sample)) / count) for word, count in counts.items()}


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _title(chunks: Sequence[Chunk]) -> str:
    return str(chunks[0].metadata.get("title") or "") if chunks else ""


def _digest(*material: Any) -> str:
    return blake2b(json.dumps(material, default=str, ensure_ascii=True).encode(), digest_size=12).hexdigest()
