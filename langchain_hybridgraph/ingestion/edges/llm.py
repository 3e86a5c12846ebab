"""Edges found by vectors or a language model."""

from __future__ import annotations

import json
import logging
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from copy import copy
from hashlib import blake2b
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from pydantic import BaseModel, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from langchain_hybridgraph import records
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError, check_number, check_whole_number, describe_error
from langchain_hybridgraph.execution.llm import DATA_ONLY, SILENT, parse_answer, with_schema
from langchain_hybridgraph.execution.processes import counted
from langchain_hybridgraph.ingestion.edges.base import EdgeBuilder, EdgeSet, slices
from langchain_hybridgraph.ingestion.splitting import CutDocument, chunk_index, in_order
from langchain_hybridgraph.records import SIMILAR_TO, Edge
from langchain_hybridgraph.stores.protocols import AcceptsChunks, HasVectors, ReadsIndex

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable
    from numpy.typing import NDArray

    Scores = NDArray[np.float32]

logger = logging.getLogger(__name__)
# Maximum number of values (64 MB) in one product of matrices.
_BLOCK = 1 << 24
# Largest error of a cosine caused by single precision and the order of additions.
_ROUNDING = 1e-5
# Number of additional candidates beyond k among chunks with equal cosines, which are ordered by id.
_TIES = 64
# Number of earlier chunks whose edge weights are compared with the current cosines.
_SAMPLE = 256
# Smallest difference that is treated as a change of a cosine.
_CHANGED = 1e-4
_DESCRIPTION = "Their texts are alike, with a cosine of {:.2f}."


@runtime_checkable
class HasNeighbours(AcceptsChunks, ReadsIndex, HasVectors, Protocol):
    """Store whose chunks, documents and vectors can be read in bulk."""


def with_vectors(store: AcceptsChunks, builder: str) -> HasNeighbours:
    """Return the store, or raise ConfigurationError if it cannot return its vectors."""
    if isinstance(store, HasNeighbours):
        return store
    raise ConfigurationError(
        f"{builder} needs a store that returns its vectors, which {type(store).__name__} does not; "
        "leave it out, or ingest into a HybridGraphStore(path, embedding=…)"
    )


class SimilarityEdges(EdgeBuilder):
    """Edges from each chunk to the ``k`` nearest chunks of other documents, by the store's vectors.

    Only chunks with a cosine of at least ``threshold`` are connected; the cosine is the weight of the edge. The search
    is exact, and ties are broken by id. Adding documents one by one gives the same edges as adding them together. If
    the vectors of older chunks have changed, for example because a model was fitted again, all chunks get new edges.
    After a chunk is deleted, its neighbours may have fewer than ``k`` edges until they are ingested again.

    Raises ConfigurationError for ``k`` below 1, a threshold outside (0, 1], and a store without vectors.

    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> from langchain_hybridgraph import Chunk, HybridGraphStore, ingest
    >>> store = HybridGraphStore(None, DeterministicFakeEmbedding(size=8))
    >>> chunks = [Chunk(id, text, {}, id) for id, text in {"a": "Cats purr.", "b": "Cats purr.", "c": "Rust."}.items()]
    >>> _ = ingest(chunks, store, split=None, edges=[SimilarityEdges(threshold=0.95)])
    >>> [(edge.source, edge.target, edge.weight) for edge in store.edges(["a", "b", "c"])]
    [('a', 'b', 1.0), ('b', 'a', 1.0)]
    """

    relations = (SIMILAR_TO,)

    def __init__(self, k: int = 5, threshold: float = 0.7) -> None:
        check_whole_number("k", k, 1)
        check_number("threshold", threshold, gt=0, le=1)
        self._k = k
        self._threshold = threshold

    def start(self, store: AcceptsChunks) -> None:
        """Clear the chunks recorded during the previous ingest."""
        self._store = with_vectors(store, "SimilarityEdges")
        self._ingested: dict[str, None] = {}

    def see(self, document: CutDocument) -> tuple[EdgeSet, ...]:
        """Record the chunks. No edges are returned yet, because their nearest chunks may be ingested later."""
        self._ingested.update(dict.fromkeys(chunk.id for chunk in document.chunks))
        return ()

    def finish(self) -> Iterator[EdgeSet]:
        """Yield the edges of the ingested chunks, and of older chunks whose nearest chunks may have changed."""
        ids = list(self._ingested)
        if not ids:
            return
        neighbours = ChunkVectors(self._store)
        places = {neighbours.place[id] for id in ids if id in neighbours.place}
        if self._vectors_changed(neighbours, places):
            affected = set(range(len(neighbours.ids)))
        else:
            affected = places | self._affected(neighbours, sorted(places))
        yield EdgeSet((), [id for id in ids if id not in neighbours.place])
        nearest = neighbours.nearest(sorted(affected), self._k, self._threshold)
        while batch := list(islice(nearest, 1_000)):
            edges = [
                Edge(neighbours.ids[place], neighbours.ids[other], SIMILAR_TO, cosine, _DESCRIPTION.format(cosine))
                for place, others in batch
                for other, cosine in others
            ]
            yield EdgeSet(edges, [neighbours.ids[place] for place, _ in batch])

    def _affected(self, neighbours: ChunkVectors, places: Sequence[int]) -> set[int]:
        """Return the positions of chunks whose nearest chunks may be, or were, at ``places``."""
        near = neighbours.near(places, self._threshold) if len(places) < len(neighbours.ids) else set()
        incoming = self.incoming(self._store, [neighbours.ids[place] for place in places])
        return near.union(neighbours.place[edge.source] for edge in incoming if edge.source in neighbours.place)

    def _vectors_changed(self, neighbours: ChunkVectors, places: Set[int]) -> bool:
        """Return whether the vectors of older chunks have changed since their edges were written, by a sample."""
        older = [id for place, id in enumerate(neighbours.ids) if place not in places]
        sample, place = self._store.edges(older[:: max(1, len(older) // _SAMPLE)]), neighbours.place
        similar = (edge for edge in sample if edge.relation == SIMILAR_TO and edge.target in place)
        edges = [edge for edge in similar if place[edge.target] not in places]
        cosines = neighbours.cosines([(place[edge.source], place[edge.target]) for edge in edges])
        return any(abs(edge.weight - cosine) > _CHANGED for edge, cosine in zip(edges, cosines, strict=True))


class ChunkVectors:
    """Vectors of all chunks of a store, in the order of their ids; chunks without a vector are left out.

    :meth:`nearest` and :meth:`cosines` always return the same cosine for the same two chunks.
    """

    def __init__(self, store: HasNeighbours) -> None:
        documents: dict[str, str] = {}
        for batch in slices(list(store.document_ids())):
            for document, chunks in store.document_chunks(batch).items():
                documents.update(dict.fromkeys(chunks, document))
        ids = sorted(documents)
        vectors = store.vectors(ids)
        with_vector = np.flatnonzero(vectors.any(axis=1))
        self.ids = [ids[place] for place in with_vector.tolist()]
        self.place = {id: place for place, id in enumerate(self.ids)}
        self._vectors = vectors if len(with_vector) == len(ids) else vectors[with_vector]
        places: dict[str, list[int]] = {}
        for place, id in enumerate(self.ids):
            places.setdefault(documents[id], []).append(place)
        self._same = {place: np.array(group) for group in places.values() for place in group}

    def nearest(self, places: Sequence[int], k: int, threshold: float) -> Iterator[tuple[int, list[tuple[int, float]]]]:
        """Yield (position in ``ids``, [(position of neighbour, cosine), …]) for each of ``places``.

        The neighbours are in other documents, with a cosine of at least ``threshold``, best first and then by id.
        """
        for start, block in self._blocks(places):
            for row, scores in enumerate(block):
                place = places[start + row]
                near = np.flatnonzero(scores >= threshold - _ROUNDING)
                if len(near) > k:
                    limit = np.partition(scores[near], -k)[-k]
                    above = near[scores[near] > limit + _ROUNDING]
                    tied = near[np.abs(scores[near] - limit) <= _ROUNDING]
                    near = np.concatenate([above, tied[: k + _TIES]])
                cosines = zip(near.tolist(), _exact(self._vectors[near], self._vectors[place]), strict=True)
                best = sorted(pair for pair in cosines if pair[1] >= threshold)
                yield place, sorted(best, key=lambda pair: -pair[1])[:k]

    def near(self, places: Sequence[int], threshold: float) -> set[int]:
        """Return the positions of chunks with at least this cosine to a chunk at ``places`` in another document."""
        near: set[int] = set()
        for _, block in self._blocks(places):
            near.update(np.flatnonzero(block.max(axis=0) >= threshold - _ROUNDING).tolist())
        return near

    def cosines(self, pairs: Sequence[tuple[int, int]]) -> list[float]:
        """Return the cosine of each pair of chunks, given by their positions, rounded to six decimals."""
        ones, others = [one for one, _ in pairs], [other for _, other in pairs]
        return _exact(self._vectors[ones], self._vectors[others])

    def _blocks(self, places: Sequence[int]) -> Iterator[tuple[int, Scores]]:
        """Yield (start in ``places``, cosines of the next chunks with all chunks; -1 within a document)."""
        step = max(1, _BLOCK // max(1, len(self.ids)))
        for start in range(0, len(places), step):
            batch = list(places[start : start + step])
            block = self._vectors[batch] @ self._vectors.T
            for row, place in enumerate(batch):
                block[row, self._same[place]] = -1
            yield start, block


def _exact(ones: Scores, others: Scores) -> list[float]:
    cosines = np.vecdot(ones.astype(np.float64), others.astype(np.float64))
    return np.minimum(np.round(cosines, 6), 1.0).tolist()  # type: ignore[no-any-return]  # numpy's tolist is Any


# -- language models -------------------------------------------------------------------------------------------------

RELATIONS: Mapping[str, str] = {
    records.REFERENCES: "the source mentions the target or its subject",
    records.ELABORATES: "the source gives details about something in the target",
    records.DEPENDS_ON: "the source cannot be understood or carried out without the target",
    records.CONTRADICTS: "the source and the target cannot both be true",
    records.PART_OF: "the subject of the source is part of the subject of the target",
    records.SIMILAR_TO: "the source and the target say nearly the same thing",
    records.CAUSED_BY: "the event in the source was caused by the event in the target",
    records.SUPERSEDES: "the source replaces the target",
    records.SUPPORTS: "the source is evidence for the target",
    records.DERIVED_FROM: "the source was made from the target",
}
CACHE_FILE = "llm_edges.jsonl"  # name of the record of answers in the index folder


class FoundEdge(BaseModel):
    """Relation of one passage to another."""

    source: str = Field(description="Id of the passage where the relation starts, exactly as shown.")
    target: str = Field(description="Id of the other passage, exactly as shown.")
    relation: str = Field(description="One of the listed relations.")
    weight: float = Field(description="How strong and certain the relation is, above 0 and at most 1.")
    description: str = Field("", description="One sentence that describes the relation.")


def _valid_or_empty(item: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """Return an edge that is dropped in place of an invalid item, so that the other edges of the answer are kept."""
    try:
        return validate(item)
    except ValidationError:
        return FoundEdge(source="", target="", relation="", weight=0.0, description="")


class FoundEdges(BaseModel):
    """Relations between the passages; an empty list if there are none."""

    edges: list[Annotated[FoundEdge, WrapValidator(_valid_or_empty)]] = Field(description="The relations.")


class LLMEdges(EdgeBuilder):
    """Edges that a chat model finds between chunks, each with a relation, a weight and a one-sentence description.

    The model reads the chunks of a document in windows of ``batch_size``; consecutive windows share ``overlap`` chunks.
    :meth:`across_documents` adds pairs of chunks of different documents; with ``batch_size=1``, only such pairs are
    sent. Up to ``workers`` windows are sent at the same time. A failed call is repeated, up to ``attempts`` calls in
    total, after ``backoff`` seconds at first and twice as long each further time. The time limit of a call is a setting
    of the model.

    ``llm`` is any LangChain chat model; a model without structured output is prompted for JSON. ``method`` is the
    ``method`` of LangChain's ``with_structured_output`` (``"function_calling"``, ``"json_mode"``, …), needed only if
    the model's default does not work. ``relations`` are the names that the model may use, or a mapping of names to
    their meanings. The default is ``RELATIONS``, except those that another builder of the ingest writes.

    An edge is dropped if one of its ids is not in the window, if both ids are the same, if its relation is not one of
    ``relations``, or if its weight is outside (0, 1]. A window without a usable answer is dropped. The report's
    ``warnings`` state how many edges and windows were dropped.

    An answered window is sent again only if its chunks or the relations have changed, or if some of its edges are no
    longer in the store. For this purpose, hashes of the answers are recorded in ``llm_edges.jsonl`` in the folder of
    the store; for a store in memory, they are kept in this object. To reuse answers after a deletion or in another
    index, set LangChain's cache for the model.

    Raises ConfigurationError for invalid numbers and for an object that is not a model.

    >>> from langchain_core.runnables import RunnableLambda
    >>> from langchain_hybridgraph import HybridGraphStore, ingest
    >>> class Model:  # in place of init_chat_model("…")
    ...     def with_structured_output(self, schema, **options):
    ...         answer = {"source": "b", "target": "a", "relation": "supports", "weight": 0.9}
    ...         return RunnableLambda(lambda messages: schema(edges=[answer]))
    >>> store = HybridGraphStore(None)
    >>> chunks = [Chunk(id, text, {}, "doc") for id, text in {"a": "Cats like fish.", "b": "Tom ate a trout."}.items()]
    >>> _ = ingest(chunks, store, split=None, edges=[LLMEdges(Model())])
    >>> [(edge.source, edge.relation, edge.target, edge.description) for edge in store.edges(["b"])]
    [('b', 'supports', 'a', 'b supports a.')]
    """

    def __init__(
        self,
        llm: BaseChatModel | Runnable[Any, Any],
        *,
        batch_size: int = 5,
        overlap: int = 0,
        workers: int = 3,
        attempts: int = 3,
        backoff: float = 1.0,
        relations: Sequence[str] | Mapping[str, str] | None = None,
        method: str | None = None,
    ) -> None:
        for name, count in {"batch_size": batch_size, "workers": workers, "attempts": attempts}.items():
            check_whole_number(name, count, 1)
        check_number("overlap", overlap, ge=0, lt=batch_size)
        check_number("backoff", backoff, ge=0)
        self._model = with_schema(llm, FoundEdges, "LLMEdges", method)
        self._batch_size = batch_size
        self._overlap = overlap
        self._workers = workers
        self._attempts = attempts
        self._backoff = backoff
        self.gives_way = relations is None
        names = RELATIONS if relations is None else [relations] if isinstance(relations, str) else relations
        meanings = relations if isinstance(relations, Mapping) else RELATIONS
        self._meanings = {name: meanings.get(name, "") for name in names}
        self.relations = tuple(self._meanings)
        self._across: tuple[float, int] | None = None
        self._ledger = LLMCache(None)

    def across_documents(self, similarity_threshold: float = 0.5, max_pairs_per_chunk: int = 3) -> LLMEdges:
        """Return a builder that also sends pairs of similar chunks of different documents to the model.

        The pairs are those with the largest cosine similarity, which must be at least ``similarity_threshold``. In one
        ingest, a chunk is in at most ``max_pairs_per_chunk`` pairs, and at least one chunk of each pair is ingested.
        Raises ConfigurationError for numbers out of range; ``ingest`` raises it if the store cannot return its vectors.
        """
        check_number("similarity_threshold", similarity_threshold, gt=0, le=1)
        check_whole_number("max_pairs_per_chunk", max_pairs_per_chunk, 1)
        wider = copy(self)
        wider._across = (similarity_threshold, max_pairs_per_chunk)
        return wider

    def start(self, store: AcceptsChunks) -> None:
        """Clear the documents recorded during the previous ingest, and read the record of answered requests."""
        if self._across is not None:
            with_vectors(store, "across_documents()")
        folder = getattr(store, "path", None)
        if folder is not None or self._ledger.path is not None:
            self._ledger = LLMCache(None if folder is None else Path(folder) / CACHE_FILE)
        self._store: Any = store
        self._documents: dict[str, dict[str, Chunk]] = {}
        self.warnings: list[str] = []

    def see(self, document: CutDocument) -> tuple[EdgeSet, ...]:
        """Record the document's chunks, without yielding edges: the model is called when all documents are stored."""
        chunks = self._documents.setdefault(document.id, {})
        if not document.continues:
            chunks.clear()
        chunks.update((chunk.id, chunk) for chunk in document.chunks)
        return ()

    def finish(self) -> Iterator[EdgeSet]:
        """Yield the stored edges that are still valid, then the edges of each window as soon as its answer arrives."""
        ingested = {id: chunk for by_id in self._documents.values() for id, chunk in by_id.items()}
        questions = self._questions(ingested)
        is_readable = isinstance(self._store, ReadsIndex)
        ids = {*ingested, *(chunk.id for question in questions for chunk in question.chunks if is_readable)}
        batches = list(slices(sorted(ids)))
        stored = [self._store.edges(batch) if is_readable else [] for batch in batches]
        hashes = {edge_hash(edge) for edges in stored for edge in edges}
        answered_keys = {question.key for question in questions if self._ledger.is_answered(question.key, hashes)}
        pairs = {pair for question in questions if question.key in answered_keys for pair in question.pairs()}
        for batch, edges in zip(batches, stored, strict=True):
            ends = ((edge, frozenset((edge.source, edge.target))) for edge in edges if edge.relation in self.relations)
            # An edge of an ingested chunk is kept only if an answered question contains both of its chunks.
            yield EdgeSet([edge for edge, pair in ends if pair in pairs or pair.isdisjoint(ingested)], batch)
        yield from self._send([question for question in questions if question.key not in answered_keys])

    def _questions(self, ingested: Mapping[str, Chunk]) -> list[_EdgeRequest]:
        groups: list[tuple[Chunk, ...]] = []
        for by_id in self._documents.values():
            chunks = in_order(by_id.values(), chunk_index)
            ranges = windows(len(chunks), self._batch_size, self._overlap)
            groups += [tuple(chunks[place] for place in window) for window in ranges]
        if self._across is not None:
            pairs = _nearest_pairs(ChunkVectors(self._store), ingested, *self._across)
            others = sorted({id for pair in pairs for id in pair} - ingested.keys())
            stored = {**{chunk.id: chunk for chunk in self._store.get(others)}, **ingested}
            groups += [(stored[one], stored[two]) for one, two in pairs if one in stored and two in stored]
        instructions = _instructions({name: self._meanings[name] for name in self.relations})
        start = [str(getattr(self._store, "tenant", None) or ""), instructions]
        keys = (_hash(*start, *(part for chunk in group for part in (chunk.id, chunk.text))) for group in groups)
        return [_EdgeRequest(key, instructions, group) for key, group in zip(keys, groups, strict=True)]

    # -- answers -------------------------------------------------------------------------------------------------

    def _send(self, questions: Sequence[_EdgeRequest]) -> Iterator[EdgeSet]:
        from langchain_core.runnables import RunnableLambda

        failures: list[str] = []
        dropped = 0
        with_retries = RunnableLambda(self._answer).with_retry(
            stop_after_attempt=self._attempts,
            exponential_jitter_params={"initial": self._backoff, "jitter": 0, "max": math.inf},
        )
        runnable = RunnableLambda(with_retries.invoke)  # LangChain's batch_as_completed() does not retry by itself
        answers = runnable.batch_as_completed(questions, {"max_concurrency": self._workers}, return_exceptions=True)
        for place, answer in answers:
            question = questions[place]
            if isinstance(answer, Exception):
                failures.append(f"{question} ({describe_error(answer)})")
                logger.warning("no edges were found for %s", failures[-1])
                continue
            edges = list(self._edges(question, answer))
            dropped += len(answer.edges) - len(edges)
            yield EdgeSet(edges)
            # ingest writes a yielded edge set before it requests the next one, so these edges are stored now.
            self._ledger.note(question.key, edges)
        if failures:
            self.warnings.append(
                f"the language model gave no usable answer on {len(failures)} of {len(questions)} windows, the first "
                f"being {failures[0]}; ingest again to send these windows again"
            )
        if dropped:
            self.warnings.append(
                f"dropped {counted(dropped, 'edge', 'edges')} of the language model with another form, an unknown id "
                "or relation, the same passage at both ends, or a weight that is not above 0 and at most 1"
            )

    def _answer(self, question: _EdgeRequest) -> FoundEdges:
        passages = "\n\n".join(f"Passage {chunk.id}:\n{chunk.text}" for chunk in question.chunks)
        messages = [("system", question.instructions), ("human", passages)]
        answer = parse_answer(self._model.invoke(messages, {"run_name": "LLMEdges", **SILENT}))
        parsed = FoundEdges.model_validate({"edges": answer} if isinstance(answer, list) else answer)
        if parsed.edges and not any(edge.relation for edge in parsed.edges):
            raise ValueError("no edge of the answer has source, target, relation and weight")
        return parsed

    def _edges(self, question: _EdgeRequest, answer: FoundEdges) -> Iterator[Edge]:
        pairs = set(question.pairs())
        for raw in answer.edges:
            is_pair = frozenset((raw.source, raw.target)) in pairs
            if is_pair and raw.relation in self.relations and 0 < raw.weight <= 1:
                text = " ".join(raw.description.split()) or f"{raw.source} {raw.relation} {raw.target}."
                yield Edge(raw.source, raw.target, raw.relation, raw.weight, text)


class _EdgeRequest(NamedTuple):
    """Chunks sent to the model in one request. ``key`` is the hash under which the answer is recorded."""

    key: str
    instructions: str
    chunks: tuple[Chunk, ...]

    def pairs(self) -> Iterator[frozenset[str]]:
        return (frozenset(pair) for pair in combinations([chunk.id for chunk in self.chunks], 2))

    def __str__(self) -> str:
        return f"{self.chunks[0].id} … {self.chunks[-1].id}"


def windows(n: int, size: int, overlap: int) -> list[range]:
    """Return the positions of the chunks in windows of ``size`` chunks that share ``overlap`` chunks.

    The last window may be smaller. Windows of one chunk, or inside the previous one, are left out.
    """
    ranges: list[range] = []
    for start in range(0, n, size - overlap):
        window = range(start, min(start + size, n))
        if len(window) > 1 and (not ranges or window.stop > ranges[-1].stop):
            ranges.append(window)
    return ranges


def _nearest_pairs(
    neighbours: ChunkVectors, ids: Iterable[str], threshold: float, max_pairs: int
) -> list[tuple[str, str]]:
    """Return the pairs with the largest cosines, with one chunk or both in ``ids``. Ties are broken by id."""
    places = sorted(neighbours.place[id] for id in ids if id in neighbours.place)
    candidates = {
        (min(place, other), max(place, other)): cosine
        for place, nearest in neighbours.nearest(places, max_pairs, threshold)
        for other, cosine in nearest
    }
    pair_counts: Counter[int] = Counter()
    pairs: list[tuple[str, str]] = []
    for (one, two), _ in sorted(candidates.items(), key=lambda candidate: (-candidate[1], candidate[0])):
        if max(pair_counts[one], pair_counts[two]) < max_pairs:
            pair_counts.update((one, two))
            pairs.append((neighbours.ids[one], neighbours.ids[two]))
    return pairs


def _instructions(meanings: Mapping[str, str]) -> str:
    relation_list = "\n".join(f"- {name}: {meaning}" if meaning else f"- {name}" for name, meaning in meanings.items())
    return (
        "You read passages of a collection of documents and say how they are related. The relations, each from a "
        f"source to a target, are:\n{relation_list}\n"
        "Report a relation only if the texts themselves show it. Each relation connects two different passages. Give "
        "their ids exactly as shown, a weight above 0 and at most 1 (how strong and how certain the relation is), and "
        "one sentence that describes the relation. If no relation applies, return an empty list. "
        f"{DATA_ONLY} Answer only with JSON:\n"
        '{"edges": [{"source": "…", "target": "…", "relation": "…", "weight": 0.8, "description": "…"}]}'
    )


# -- the record of answers ------------------------------------------------------------------------------------


class LLMCache:
    """Record of answered requests, in a file with one JSON object per line, or in memory if ``path`` is None.

    The file contains only hashes, so no part of a deleted text remains in it. Each answer is on disk when :meth:`note`
    returns. A line that a crash has cut off is ignored.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._answers: dict[str, list[str]] = {}  # hashes of the edges of each answer
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                with suppress(ValueError, KeyError, TypeError):
                    record = json.loads(line)
                    self._answers[str(record["question"])] = [str(edge) for edge in record["edges"]]

    def is_answered(self, question: str, hashes: Set[str]) -> bool:
        """Return whether the request was answered and all edges of its answer are still among ``hashes``."""
        return question in self._answers and hashes >= set(self._answers[question])

    def note(self, question: str, edges: Iterable[Edge]) -> None:
        """Record that a request was answered with these edges. The edges must already be in the store."""
        hashes = self._answers[question] = sorted({edge_hash(edge) for edge in edges})
        if self.path is not None:
            line = json.dumps({"question": question, "edges": hashes})
            with self.path.open("a", encoding="utf-8") as file:
                # Begin a new line even if the last one was cut off.
                file.write(f"\n{line}\n" if file.tell() else f"{line}\n")
                file.flush()
                os.fsync(file.fileno())


def edge_hash(edge: Edge) -> str:
    """Return a hash that identifies an edge by its source, relation and target."""
    return _hash(edge.source, edge.relation, edge.target)


def _hash(*parts: str) -> str:
    return blake2b(json.dumps(parts).encode(), digest_size=12).hexdigest()
