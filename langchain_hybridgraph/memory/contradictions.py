"""Probability that a new memory contradicts earlier ones."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.errors import shorten
from langchain_hybridgraph.execution.structured_output import (
    DATA_ONLY,
    SILENT,
    answer_schema,
    list_schema,
    parse_answer,
    parse_number,
    prompt_messages,
    with_schema,
)

if TYPE_CHECKING:
    from langchain_hybridgraph.execution.structured_output import StructuredModel

logger = logging.getLogger(__name__)

# Smallest cosine at which a neighbour is checked for a contradiction; less similar memories have another topic.
FARTHEST = 0.3
# Smallest probability at which two memories are treated as contradicting each other.
PROBABLE = 0.5
# A contradiction lowers a memory's confidence by probability · LOSS · the other memory's confidence, but not below
# FLOOR.
LOSS, FLOOR = 0.3, 0.1
_LABELS, _TEXTS = 0.6, 0.2
_FORM = answer_schema(
    "Judgements",
    "Probability that each earlier statement contradicts the new one.",
    judgements=list_schema(
        statement={"type": "integer", "description": "Number of the earlier statement."},
        probability={"type": "number", "description": "From 0 to 1."},
    ),
)
_INSTRUCTIONS = (
    "The input is JSON: a new statement and numbered earlier ones. For each earlier statement, give the probability "
    "that it contradicts the new one, that is, that both cannot be true at the same time: 0 if they agree or are about "
    f"different things, 1 if one of them must be wrong. {DATA_ONLY} "
    'Answer only with JSON: {"judgements": [{"statement": 1, "probability": 0.2}]}'
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A memory to check for contradictions: its id, text and labels."""

    id: str
    text: str
    labels: frozenset[str]


def by_labels(new: Statement, old: Statement) -> float:
    """Return the probability that two statements contradict each other, judged by their labels instead of their
    wording.

    It is 0.6 · (number of shared labels / number of all labels), plus 0.2 if both have a text.

    >>> one, other = (Statement(id, "text", frozenset(labels)) for id, labels in {"a": "xy", "b": "x"}.items())
    >>> by_labels(one, one), by_labels(one, other)
    (0.8, 0.5)
    """
    both = new.labels | old.labels
    overlap = len(new.labels & old.labels) / len(both) if both else 0.0
    return _LABELS * overlap + (_TEXTS if new.text.strip() and old.text.strip() else 0.0)


def lowered(old: float, probability: float, new: float) -> float:
    """Return the confidence of a memory after it was contradicted by another memory with the confidence ``new``.

    It is lowered by probability · new · 0.3, but not below 0.1; a confidence below 0.1 is not changed.

    >>> round(lowered(0.8, probability=0.8, new=0.9), 3)
    0.584
    """
    return min(old, max(FLOOR, old - probability * new * LOSS))


class Contradictions:
    """Estimator of the probability that earlier statements contradict a new one.

    ``llm`` is any LangChain chat model. It judges all earlier statements in one call, and is not called again for the
    same texts. Without ``llm``, and for statements that the model fails to judge, the labels are compared. ``failures``
    contains the reason for each failure of the model, by the text of the new statement. Raises ConfigurationError if
    ``llm`` is not a chat model.
    """

    def __init__(self, llm: Any = None) -> None:
        self._model: StructuredModel | None = None
        if llm is not None:
            self._model = with_schema(llm, _FORM, "Contradictions", include_raw=True)
        self._judgements: dict[tuple[str, str], float] = {}
        self.failures: dict[str, str] = {}

    def probabilities(self, new: Statement, old: Sequence[Statement]) -> list[float]:
        """Return the probability of a contradiction for each earlier statement, in the same order."""
        if self._model is not None:
            unjudged = [statement for statement in old if (new.text, statement.text) not in self._judgements]
            if unjudged:
                self._ask(self._model, new, unjudged)
        return [self._judgements.get((new.text, statement.text), by_labels(new, statement)) for statement in old]

    def _ask(self, model: StructuredModel, new: Statement, old: Sequence[Statement]) -> None:
        judgements: Mapping[int, float] = {}
        try:
            judgements = _probabilities(parse_answer(model.invoke(_messages(new, old), SILENT)))
        except Exception as error:  # noqa: BLE001 - a model may raise any error; the labels are then used
            self.failures[new.text] = f"{type(error).__name__}: {error}"
            logger.warning(
                "the chat model failed, so contradictions of %r are judged by labels only: %r", new.id, error
            )
        for number, statement in enumerate(old, start=1):
            self._judgements[new.text, statement.text] = judgements.get(number, by_labels(new, statement))


def _probabilities(answer: Any) -> dict[int, float]:
    """Return the probabilities in a model's answer by statement number; invalid items are left out.

    Raises ValueError if the answer contains no list of judgements.
    """
    judgements = answer.get("judgements") if isinstance(answer, Mapping) else answer
    if not isinstance(judgements, list):
        raise ValueError(f"the model returned no judgements, but {shorten(repr(answer), 200)}")
    probabilities = {}
    for judgement in filter(lambda item: isinstance(item, Mapping), judgements):
        number, probability = parse_number(judgement.get("statement")), parse_number(judgement.get("probability"))
        if number is not None and probability is not None and 0.0 <= probability <= 1.0:
            probabilities[int(number)] = probability
    return probabilities


def _messages(new: Statement, old: Sequence[Statement]) -> list[tuple[str, str]]:
    earlier = [{"statement": number, "text": statement.text} for number, statement in enumerate(old, start=1)]
    return prompt_messages(_INSTRUCTIONS, {"new": new.text, "earlier": earlier})
