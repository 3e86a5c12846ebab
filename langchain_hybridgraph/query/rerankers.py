"""Rerankers, and the application of their scores to hits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from typing_extensions import TypeIs

from langchain_hybridgraph.errors import ConfigurationError, MissingExtraError
from langchain_hybridgraph.stores.protocols import implements

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Hit

_ROUNDING = 1e-6  # a float32 cosine of 1.0000001 is a rounded 1, not a logit


@runtime_checkable
class Reranker(Protocol):
    """Object that scores hits by reading the query and the texts together."""

    @property
    def filters(self) -> bool:
        """Whether hits without a score are dropped; if not, they rank below all hits with a score."""
        ...

    def rerank(self, query: str, hits: Sequence[Hit]) -> Sequence[float | None]:
        """Return one score per hit, in the order of the hits. A higher score is better, and None means no score.

        Scores are in [0, 1]. If any score is outside this range, all scores are treated as logits.
        """
        ...


@runtime_checkable
class AsyncReranker(Reranker, Protocol):
    """Reranker with an asynchronous method, so that it does not occupy a thread."""

    async def arerank(self, query: str, hits: Sequence[Hit]) -> Sequence[float | None]:
        """Return the same result as :meth:`Reranker.rerank`, without blocking the event loop."""
        ...


def is_awaited(reranker: Reranker) -> TypeIs[AsyncReranker]:
    """Return whether asynchronous code awaits ``arerank``, instead of running ``rerank`` in a thread.

    This is the case if the reranker has ``arerank`` and does not set ``is_asynchronous`` to False.
    """
    return implements(reranker, AsyncReranker) and bool(getattr(reranker, "is_asynchronous", True))


def apply_scores(hits: Sequence[Hit], scores: Sequence[float | None], reranker: Reranker) -> list[Hit]:
    """Return the hits with the reranker's scores, best first, ties by id.

    Logits are converted to scores by a sigmoid. ``rerank_score`` is the reranker's score. The parts of the earlier
    score are kept, and the new part ``rerank`` is the change, so the parts still sum to the score.

    Hits without a score are dropped if the reranker ``filters``. Otherwise, they follow in their earlier order, with
    scores spread evenly between 0 and the lowest score of the reranker. If the reranker does not filter and gives no
    hit a score, the hits are unchanged.

    Raises ValueError if the number of scores differs from the number of hits, or if a score is NaN.

    >>> from langchain_hybridgraph.records import Chunk, Hit
    >>> a, b = (Hit(Chunk(id, ""), 0.5, "fused", {"vector": 0.3, "keyword": 0.2}) for id in "ab")
    >>> reranker = TextReranker(lambda query, texts: [0.1, 0.9])
    >>> best, other = apply_scores([a, b], reranker.rerank("any", [a, b]), reranker)
    >>> best.id, best.score, best.parts
    ('b', 0.9, {'vector': 0.3, 'keyword': 0.2, 'rerank': 0.4})
    """
    unit_scores = _unit(_check_scores(hits, scores, reranker))
    scored_hits = [
        _rescored(hit, score, score) for hit, score in zip(hits, unit_scores, strict=True) if score is not None
    ]
    scored_hits.sort(key=lambda hit: (-hit.score, hit.id))
    if reranker.filters:
        return scored_hits
    unscored = [hit for hit, score in zip(hits, unit_scores, strict=True) if score is None]
    if not scored_hits:
        return unscored
    step = scored_hits[-1].score / (len(unscored) + 1)
    return scored_hits + [_rescored(hit, step * (len(unscored) - i), None) for i, hit in enumerate(unscored)]


def _check_scores(hits: Sequence[Hit], scores: Sequence[float | None], reranker: Reranker) -> list[float | None]:
    name = type(reranker).__name__
    if len(scores) != len(hits):
        raise ValueError(f"{name} must return one score per hit, got {len(scores)} scores for {len(hits)} hits")
    numbers = [None if score is None else float(score) for score in scores]
    if any(score is not None and math.isnan(score) for score in numbers):
        raise ValueError(f"{name} must return numbers, or None for a hit without a score, got NaN")
    return numbers


def _unit(scores: list[float | None]) -> list[float | None]:
    numbers = [score for score in scores if score is not None]
    logits = any(not -_ROUNDING <= score <= 1 + _ROUNDING for score in numbers)
    squash = sigmoid if logits else _clamped
    return [None if score is None else squash(score) for score in scores]


def _clamped(score: float) -> float:
    return min(1.0, max(0.0, score))


def sigmoid(logit: float) -> float:
    """Return 1 / (1 + e^−logit), without overflow for large positive or negative values.

    >>> sigmoid(0.0), sigmoid(-1000.0)
    (0.5, 0.0)
    """
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    return math.exp(logit) / (1 + math.exp(logit))


def _rescored(hit: Hit, score: float, rerank_score: float | None) -> Hit:
    parts = {name: part for name, part in hit.parts.items() if name != "rerank"}
    parts["rerank"] = score - math.fsum(parts.values())
    return replace(hit, score=score, parts=parts, rerank_score=rerank_score)


@dataclass(frozen=True)
class ScoreReranker:
    """Reranker that drops the hits whose score is below ``min_score``; the others keep their scores and their order.

    Raises ConfigurationError for a ``min_score`` outside [0, 1].

    >>> from langchain_hybridgraph.records import Chunk, Hit
    >>> hits = [Hit(Chunk("a", ""), 0.9, "vector", {}), Hit(Chunk("b", ""), 0.4, "vector", {})]
    >>> ScoreReranker(0.5).rerank("any", hits)
    [0.9, None]
    """

    min_score: float
    filters: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.min_score <= 1:
            raise ConfigurationError(f"min_score must be a number from 0 to 1, got {self.min_score}")

    def rerank(self, query: str, hits: Sequence[Hit]) -> Sequence[float | None]:
        """Return the score of each hit, or None for a score below ``min_score``."""
        return [hit.score if hit.score >= self.min_score else None for hit in hits]


@dataclass(frozen=True)
class TextReranker:
    """Reranker that calls a function with the query and the texts; the function returns one score per text.

    >>> from langchain_hybridgraph.records import Chunk, Hit
    >>> shorter = TextReranker(lambda query, texts: [1 / (1 + len(text)) for text in texts])
    >>> shorter.rerank("any", [Hit(Chunk("a", "abc"), 1.0, "vector", {})])
    [0.25]
    """

    score: Callable[[str, Sequence[str]], Sequence[float | None]]
    filters: bool = False

    def rerank(self, query: str, hits: Sequence[Hit]) -> Sequence[float | None]:
        """Return the scores that the wrapped function gives the texts."""
        return self.score(query, [hit.chunk.text for hit in hits])


class CrossEncoderReranker:
    """Reranker that scores the query and each text with a sentence-transformers cross-encoder; it never drops hits.

    ``model`` is a name or path, or a loaded ``CrossEncoder``. The model is loaded by the constructor, which raises
    MissingExtraError if the extra is not installed, ConfigurationError for a model with several labels, and the
    library's error for an unknown model.
    """

    filters = False

    def __init__(
        self,
        model: Any = "cross-encoder/ms-marco-MiniLM-L6-v2",
        *,
        batch_size: int = 32,
        device: str | None = None,
        max_length: int | None = None,
    ) -> None:
        self.model = _load(model, device, max_length) if isinstance(model, str) else model
        self.batch_size = batch_size
        labels = getattr(self.model, "num_labels", 1)
        if labels != 1:
            raise ConfigurationError(
                f"the cross-encoder {model!r} gives {labels} numbers per text; "
                "a reranker needs a model that gives one number, such as cross-encoder/ms-marco-MiniLM-L6-v2"
            )

    def rerank(self, query: str, hits: Sequence[Hit]) -> Sequence[float | None]:
        """Return the sigmoid of the model's logit for each text."""
        if not hits:
            return []
        logits = self.model.predict(
            [(query, hit.chunk.text) for hit in hits],
            batch_size=self.batch_size,
            show_progress_bar=False,
            activation_fn=lambda scores: scores,  # by default, some models return logits and others sigmoids
        )
        return [sigmoid(float(logit)) for logit in logits]


def _load(name: str, device: str | None, max_length: int | None) -> Any:
    try:
        from sentence_transformers import CrossEncoder
    except ImportError as missing:
        raise MissingExtraError(
            "CrossEncoderReranker needs sentence-transformers, which cannot be imported: "
            'pip install "langchain-hybridgraph[rerank]"'
        ) from missing
    return CrossEncoder(name, device=device, max_length=max_length)


RERANKERS: Mapping[str, Callable[..., Reranker]] = MappingProxyType(
    {"score": ScoreReranker, "cross_encoder": CrossEncoderReranker}
)
"""Rerankers that a configuration file can name. Other rerankers need an object, which only code can pass."""
