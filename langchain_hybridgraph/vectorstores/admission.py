"""Admission of new memories."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from langchain_hybridgraph.chunks import Chunk, ParsedMetadata, Serializable, labels_of
from langchain_hybridgraph.errors import ConfigurationError, check_number, describe_error, quote_value, shorten
from langchain_hybridgraph.execution import llm as chat
from langchain_hybridgraph.filters.expressions import Filter, has_labels
from langchain_hybridgraph.memory_scores import CONFIDENCE, NEAR_DUPLICATE
from langchain_hybridgraph.records import CONTRADICTS, Edge, MemoryState, Scope
from langchain_hybridgraph.stores.memory import MemoryChange, MemoryIntake
from langchain_hybridgraph.text.wording import may_be_reworded, same_wording
from langchain_hybridgraph.times import iso_time

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Vector


# Probability that a new memory contradicts earlier ones.

logger = logging.getLogger(__name__)

# Smallest cosine at which a neighbour is checked for a contradiction; less similar memories have another topic.
FARTHEST = 0.3
# Smallest probability at which two memories are treated as contradicting each other.
PROBABLE = 0.5
# A contradiction lowers a memory's confidence by probability · LOSS · the other memory's confidence, but not below
# FLOOR.
LOSS, FLOOR = 0.3, 0.1
_LABELS, _TEXTS = 0.6, 0.2
_FORM = chat.answer_schema(
    "Judgements",
    "Probability that each earlier statement contradicts the new one.",
    judgements=chat.list_schema(
        statement={"type": "integer", "description": "Number of the earlier statement."},
        probability={"type": "number", "description": "From 0 to 1."},
    ),
)
_INSTRUCTIONS = (
    "The input is JSON: a new statement and numbered earlier ones. For each earlier statement, give the probability "
    "that it contradicts the new one, that is, that both cannot be true at the same time: 0 if they agree or are about "
    f"different things, 1 if one of them must be wrong. {chat.DATA_ONLY} "
    'Answer only with JSON: {"judgements": [{"statement": 1, "probability": 0.2}]}'
)


def by_labels(new: Chunk, old: Chunk) -> float:
    """Return the probability of a contradiction: 0.6 · (shared / all labels), plus 0.2 if both memories have a text.

    >>> one, other = (Chunk(id, "text", {"labels": list(labels)}) for id, labels in {"a": "xy", "b": "x"}.items())
    >>> by_labels(one, one), by_labels(one, other)
    (0.8, 0.5)
    """
    both = _labels(new) | _labels(old)
    overlap = len(_labels(new) & _labels(old)) / len(both) if both else 0.0
    return _LABELS * overlap + (_TEXTS if new.text.strip() and old.text.strip() else 0.0)


def _labels(memory: Chunk) -> frozenset[str]:
    return frozenset(map(str, labels_of(memory.metadata)))


def lowered(old: float, probability: float, new: float) -> float:
    """Return ``old`` − probability · new · 0.3, but not below 0.1; a confidence below 0.1 is not changed.

    >>> round(lowered(0.8, probability=0.8, new=0.9), 3)
    0.584
    """
    return min(old, max(FLOOR, old - probability * new * LOSS))


class Contradictions:
    """Estimator of the probability that earlier statements contradict a new one.

    The chat model ``llm`` judges all earlier statements in one call, once per text. Without it, and where it fails, the
    labels are compared. ``failures`` maps the text of a new statement to the reason of a failure.
    """

    def __init__(self, llm: Any = None) -> None:
        self._model: Any = None if llm is None else chat.with_schema(llm, _FORM, "Contradictions")
        self._judgements: dict[tuple[str, str], float] = {}
        self.failures: dict[str, str] = {}

    def probabilities(self, new: Chunk, old: Sequence[Chunk]) -> list[float]:
        """Return the probability of a contradiction for each earlier memory, in the same order."""
        unjudged = [memory for memory in old if (new.text, memory.text) not in self._judgements]
        if self._model is not None and unjudged:
            self._ask(new, unjudged)
        return [self._judgements.get((new.text, memory.text), by_labels(new, memory)) for memory in old]

    def _ask(self, new: Chunk, old: Sequence[Chunk]) -> None:
        judgements: Mapping[int, float] = {}
        earlier = [{"statement": number, "text": memory.text} for number, memory in enumerate(old, start=1)]
        question = chat.prompt_messages(_INSTRUCTIONS, {"new": new.text, "earlier": earlier})
        try:
            judgements = _probabilities(chat.parse_answer(self._model.invoke(question, chat.SILENT)))
        except Exception as error:  # noqa: BLE001 - a model may raise any error; the labels are then used
            self.failures[new.text] = describe_error(error)
            logger.warning(
                "the chat model failed, so contradictions of %r are judged by labels only: %r", new.id, error
            )
        for number, memory in enumerate(old, start=1):
            self._judgements[new.text, memory.text] = judgements.get(number, by_labels(new, memory))


def _probabilities(answer: Any) -> dict[int, float]:
    """Return the valid probabilities in an answer by statement number; raise ValueError without a list."""
    judgements = answer.get("judgements") if isinstance(answer, Mapping) else answer
    if not isinstance(judgements, list):
        raise ValueError(f"the model returned no judgements, but {shorten(repr(answer), 200)}")
    probabilities = {}
    for judgement in filter(lambda item: isinstance(item, Mapping), judgements):
        number = chat.parse_number(judgement.get("statement"))
        probability = chat.parse_number(judgement.get("probability"))
        if number is not None and probability is not None and 0.0 <= probability <= 1.0:
            probabilities[int(number)] = probability
    return probabilities


# Admission of new memories to a store.

# Smallest product of credibility and novelty at which a memory is accepted. A source of unknown credibility (0.5) may
# repeat a known statement that does not join an existing memory (novelty 0.05). A source that was refuted more often
# needs proportionally more novelty.
LEAST_WORTH = 0.025
# Number of stored memories checked for contradictions: the nearest ones that share a label with the new memory.
NEIGHBOURS = 20
# Type of memories that are events, each of which happened at its own time.
EPISODIC = "episodic"
# Number of nearest stored memories that are checked for duplicates.
DUPLICATES = 20


class LoweredMemory(NamedTuple):
    """A memory whose confidence was lowered by a contradiction, with the confidence before and after."""

    id: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Admission(Serializable):
    """Outcome of admitting a new memory.

    ``id`` is the id under which the memory was stored, or that of the existing memory which it ``joined``. ``replaced``
    means that a memory with the same id was overwritten. ``reason`` says why the memory was refused, how the chat model
    failed, or how the joined memory is worded, if differently. ``lowered`` lists the memories in ``contradicts`` that
    lost confidence.
    """

    id: str
    outcome: Literal["added", "replaced", "joined", "refused"]
    reason: str = ""
    contradicts: tuple[str, ...] = ()
    lowered: tuple[LoweredMemory, ...] = ()
    text: str = field(default="", compare=False)


def admit(
    chunks: Sequence[Chunk], store: MemoryIntake, llm: Any, *, contradictions: bool, near_duplicate: float
) -> list[Admission]:
    """Add new memories to a store, one after the other. Return one :class:`Admission` per memory, in the same order.

    - A new memory joins an existing one if both make the same statement and their cosine is at least
      ``near_duplicate``. Two memories make the same statement if their words are the same, or differ only in ways that
      :func:`~langchain_hybridgraph.text.wording.may_be_reworded` accepts. Memories with different numbers, names
      or negations never join. Synonyms are accepted only if the embedding model was not fitted to the store's texts.
    - The new memory must also not have labels that the existing one lacks or start earlier, and its validity must have
      the same end or no end. Two episodic memories are events, so they join only if they start at the same time.
    - Joining adds one use to the existing memory. If both memories name the same source, the confidence does not
      change. Otherwise, confidence c becomes 1 − (1 − c)(1 − credibility · confidence of the new memory), the noisy-or
      of two witnesses.
    - A memory is refused if the credibility of its ``source`` (0.5 for a memory without a source), multiplied by its
      novelty, is below 0.025. Novelty is 1 − the cosine with the nearest memory. If that cosine is 0.95 or more,
      novelty is instead the share of the new memory's words that are neither known to the model nor contained in the
      nearest memory, but at least 0.05.
    - All other memories are added. A stored memory with the same id is replaced. But if it has the same text and was
      retracted or is no longer valid, the new memory is stored under another id.
    - Unless ``contradictions`` is False, similar memories that share a label with the new one are checked for
      contradictions (see :class:`Contradictions`). An edge ``contradicts`` leads from the new memory to each memory
      that it contradicts. A contradicted memory loses confidence only once per call, and not again if the same new
      memory is added in another call. Two episodic memories do not contradict each other. Without ``llm``,
      contradictions are guessed from the labels, although memories with equal labels need not be about the same thing.

    With ``llm``, the chat model is called before the store is locked. Raises ConfigurationError for a
    ``near_duplicate`` outside (0, 1], and ValueError for a blank text and for invalid metadata, such as a confidence of
    7 or an end before the start. If any of these errors is raised, nothing is written.
    """
    check_number("near_duplicate", near_duplicate, gt=0, le=1)
    if blank := [chunk.id for chunk in chunks if not chunk.text.strip()]:
        raise ConfigurationError(
            f"memory {quote_value(blank[0])} has no text: leave it out, or give it the text to remember"
        )
    metadata = [ParsedMetadata.check(chunk.metadata) for chunk in chunks]
    all_vectors = store.embed([chunk.text for chunk in chunks])
    judge = Contradictions(llm) if contradictions else None
    vectors_or_none = [None] * len(chunks) if all_vectors is None else list(all_vectors)
    candidates = list(map(_Candidate, chunks, metadata, vectors_or_none))
    if llm is not None and contradictions:
        _Plan(candidates, store, judge, near_duplicate)  # calls the model and caches its answers
    with store.exclusive():
        plan = _Plan(candidates, store, judge, near_duplicate)
        new, changes = list(plan.added.values()), list(plan.changes.values())
        vectors = [each.vector for each in new if each.vector is not None]
        store.insert([each.chunk for each in new], np.stack(vectors) if vectors else None, plan.edges, changes)
    return plan.outcomes


class _Candidate(NamedTuple):
    chunk: Chunk
    metadata: ParsedMetadata
    vector: Vector | None

    @property
    def confidence(self) -> float:
        return CONFIDENCE if self.metadata.confidence is None else self.metadata.confidence


class _Plan:
    """Rows to write for new memories. Each one is compared with the stored memories and the new ones before it."""

    def __init__(
        self, candidates: Iterable[_Candidate], store: MemoryIntake, judge: Contradictions | None, near_duplicate: float
    ) -> None:
        self._store, self._judge, self._now = store, judge, store.clock()
        self._near_duplicate = near_duplicate
        self._lowered: set[str] = set()
        self.added: dict[str, _Candidate] = {}  # by id
        self.edges: list[Edge] = []
        self.changes: dict[str, MemoryChange] = {}
        self.outcomes = [self._admit(candidate) for candidate in candidates]

    def _admit(self, new: _Candidate) -> Admission:
        """Decide what happens to a new memory, add the necessary rows to the plan, and return the outcome."""
        text = new.chunk.text
        near = sorted(self._near(new, DUPLICATES, None), key=lambda entry: (-entry[1], entry[0]))
        # A memory with the same id but another text is left out, because the new memory replaces it.
        near = [each for each in near if each[0] != new.chunk.id or self._chunk(each[0]).text == text]
        for id, cosine in near:
            if self._is_same(new, id, cosine):
                return self._join(new, id, cosine)
        credibility = self._credibility(new)
        novelty = self._novelty(new, *near[0]) if near else 1.0
        if credibility * novelty < LEAST_WORTH:
            source = _source(new.chunk)
            reason = f"credibility {credibility:.2f} of {source!r} × novelty {novelty:.2f} is below {LEAST_WORTH}"
            return Admission(new.chunk.id, "refused", reason, text=text)
        if all(id != new.chunk.id for id, _ in near):
            new = self._with_new_id(new)
        exists = new.chunk.id in self.added or bool(self._store.get([new.chunk.id]))
        admission = Admission(new.chunk.id, "replaced" if exists else "added", text=text)
        if self._judge is not None:
            admission = self._add_contradictions(new, admission, self._judge)
        self.added[new.chunk.id] = new
        return admission

    # -- near duplicates ------------------------------------------------------------------------------------

    def _novelty(self, new: _Candidate, id: str, cosine: float) -> float:
        if cosine < NEAR_DUPLICATE:
            return 1.0 - max(cosine, 0.0)
        return max(self._store.unknown_word_share(new.chunk.text, self._chunk(id).text), 1.0 - NEAR_DUPLICATE)

    def _near(self, new: _Candidate, n: int, filter: Filter | None) -> list[tuple[str, float]]:
        """Return (id, cosine) of matching memories with overlapping validity: ``n`` nearest stored, then new ones."""
        if new.vector is None:
            return []
        first, last = _period(new.metadata, self._now)
        neighbours = self._store.nearest(new.vector, n, (first, last), filter)
        for other in self.added.values():
            begin, end = _period(other.metadata, self._now)
            is_in = filter is None or filter.matches(other.chunk.metadata)
            if other.vector is not None and is_in and begin <= last and end >= first:
                neighbours.append((other.chunk.id, float(other.vector @ new.vector)))
        return neighbours

    def _is_same(self, new: _Candidate, id: str, cosine: float) -> bool:
        if cosine < self._near_duplicate:
            return False
        old, (begin, end) = self._chunk(id), _period(new.metadata, self._now)
        first, last = _period(self._values(id), self._now if id in self.added else -inf)
        if old.id == new.chunk.id and new.metadata.valid_from is None and new.metadata.created_at is None:
            begin = first
        is_later = begin == first if _are_events(new.chunk, old) else begin >= first
        says_no_more = is_later and end in (inf, last) and _labels(new.chunk) <= _labels(old)
        return says_no_more and self._says_the_same(new.chunk.text, old.text)

    def _says_the_same(self, own: str, text: str) -> bool:
        if same_wording(own, text):
            return True
        if self._store.unknown_word_share(own, text) or self._store.unknown_word_share(text, own):
            return False  # the cosine ignores words that the model does not know
        return may_be_reworded(own, text, synonyms=self._store.has_pretrained_model())

    def _with_new_id(self, new: _Candidate) -> _Candidate:
        """Return the memory, with a new id if a retracted or expired memory has both its id and its text."""
        stored_chunks = self._store.get([new.chunk.id])
        if not stored_chunks or stored_chunks[0].text != new.chunk.text or new.vector is None:
            return new
        return new._replace(chunk=replace(new.chunk, id=f"{new.chunk.id}@{iso_time(self._now)}"))

    def _join(self, new: _Candidate, id: str, cosine: float) -> Admission:
        confidence = None
        if (source := _source(new.chunk)) is None or source != _source(self._chunk(id)):
            witness = new.confidence * self._credibility(new)
            confidence = 1.0 - (1.0 - self._confidence(id)) * (1.0 - witness)
        self._change(id, confidence, uses=1)
        text, reason = self._chunk(id).text, ""
        if not same_wording(new.chunk.text, text):
            reason = f"in other words, with a cosine of {cosine:.3f}: {text}"
        return Admission(id, "joined", reason, text=new.chunk.text)

    # -- contradictions ---------------------------------------------------------------------------------------

    def _add_contradictions(self, new: _Candidate, admission: Admission, judge: Contradictions) -> Admission:
        """Add the edges to contradicted memories and their lower confidence to the plan and to the outcome."""
        labels = _labels(new.chunk)
        near = self._near(new, NEIGHBOURS, has_labels(any_of=sorted(labels))) if labels else []
        ids = dict.fromkeys(id for id, cosine in near if cosine >= FARTHEST and id != new.chunk.id)
        others = [chunk for chunk in map(self._chunk, ids) if not _are_events(new.chunk, chunk)]
        old = [chunk for chunk in others if not same_wording(new.chunk.text, chunk.text)]
        contradicted, lowered_memories = [], []
        before = {edge.target for edge in self._store.edges([new.chunk.id]) if edge.relation == CONTRADICTS}
        for memory, probability in zip(old, judge.probabilities(new.chunk, old), strict=True):
            if probability < PROBABLE:
                continue
            contradicted.append(memory.id)
            shared_labels = ", ".join(sorted(labels & _labels(memory)))
            description = f"{new.chunk.id} and {memory.id}, both about {shared_labels}, cannot both be true."
            self.edges.append(Edge(new.chunk.id, memory.id, CONTRADICTS, probability, description))
            if memory.id not in before and memory.id not in self._lowered:
                confidence = self._confidence(memory.id)
                after = lowered(confidence, probability, new.confidence)
                self._lowered.add(memory.id)
                self._change(memory.id, after)
                lowered_memories.append(LoweredMemory(memory.id, confidence, after))
        failure = judge.failures.get(new.chunk.text)
        return replace(
            admission,
            reason=f"contradictions were judged by labels, because the model failed: {failure}" if failure else "",
            contradicts=tuple(contradicted),
            lowered=tuple(lowered_memories),
        )

    # -- validity and confidence -----------------------------------------------------------------------------

    def _chunk(self, id: str) -> Chunk:
        return self.added[id].chunk if id in self.added else self._store.get([id])[0]

    def _values(self, id: str) -> ParsedMetadata | MemoryState:
        return self.added[id].metadata if id in self.added else self._store.states([id], Scope()).get(id, MemoryState())

    def _credibility(self, memory: _Candidate) -> float:
        source = _source(memory.chunk)
        return CONFIDENCE if source is None else self._store.credibility(source)

    def _confidence(self, id: str) -> float:
        change = self.changes.get(id)
        if change is not None and change.confidence is not None:
            return change.confidence
        confidence = self._values(id).confidence
        return CONFIDENCE if confidence is None else confidence

    def _change(self, id: str, confidence: float | None, uses: int = 0) -> None:
        before = self.changes.get(id, MemoryChange(id))
        new_confidence = before.confidence if confidence is None else confidence
        self.changes[id] = MemoryChange(id, new_confidence, before.uses + uses)


def _period(values: ParsedMetadata | MemoryState, default: float) -> tuple[float, float]:
    """Return the start (or else the creation, or else ``default``) and the end of a memory's validity."""
    begin = next(time for time in (values.valid_from, values.created_at, default) if time is not None)
    return begin, inf if values.valid_until is None else values.valid_until


def _are_events(one: Chunk, other: Chunk) -> bool:
    return one.metadata.get("memory_type") == other.metadata.get("memory_type") == EPISODIC


def _source(chunk: Chunk) -> str | None:
    source = chunk.metadata.get("source")
    return None if source is None else str(source)
