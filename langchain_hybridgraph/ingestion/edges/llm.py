"""Edges found by a language model."""

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
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import BaseModel, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from langchain_hybridgraph import records
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import check_number, check_whole_number, describe_error
from langchain_hybridgraph.execution.llm import DATA_ONLY, SILENT, parse_answer, with_schema
from langchain_hybridgraph.execution.processes import counted
from langchain_hybridgraph.ingestion.edges.base import EdgeBuilder, EdgeSet, slices
from langchain_hybridgraph.ingestion.edges.vectors import ChunkVectors, with_vectors
from langchain_hybridgraph.ingestion.splitting import CutDocument, chunk_index, in_order
from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.stores.protocols import AcceptsChunks, ReadsIndex

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable

logger = logging.getLogger(__name__)

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
        check_whole_number("overlap", overlap, 0, batch_size - 1)
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


def _nearest_pairs(vectors: ChunkVectors, ids: Iterable[str], threshold: float, most: int) -> list[tuple[str, str]]:
    """Return the pairs with the largest cosines, with one chunk or both in ``ids``. Ties are broken by id."""
    places = sorted(vectors.place[id] for id in ids if id in vectors.place)
    candidates = {
        (min(place, other), max(place, other)): cosine
        for place, nearest in vectors.nearest(places, most, threshold)
        for other, cosine in nearest
    }
    pair_counts: Counter[int] = Counter()
    pairs: list[tuple[str, str]] = []
    for (one, two), _ in sorted(candidates.items(), key=lambda candidate: (-candidate[1], candidate[0])):
        if max(pair_counts[one], pair_counts[two]) < most:
            pair_counts.update((one, two))
            pairs.append((vectors.ids[one], vectors.ids[two]))
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
