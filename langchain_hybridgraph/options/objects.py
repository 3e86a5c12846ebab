"""LangChain objects as options: chat models, compressors and conversations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType
from typing import Any, TypeVar, cast

from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from pydantic import InstanceOf
from pydantic.json_schema import SkipJsonSchema

from langchain_hybridgraph.errors import ConfigurationError, MissingExtraError, quote_value
from langchain_hybridgraph.execution.effects import is_asynchronous
from langchain_hybridgraph.records import Hit
from langchain_hybridgraph.registry import call_factory, create_or_import, is_factory, similar_name
from langchain_hybridgraph.search import conversation
from langchain_hybridgraph.search.conversation import ASSISTANT, turns
from langchain_hybridgraph.search.planner import QueryPlanner, RulePlanner
from langchain_hybridgraph.search.rerankers import RERANKERS as WITHOUT_MODEL
from langchain_hybridgraph.search.rerankers import LLMReranker, Reranker, TextReranker

T = TypeVar("T")

# -- models and compressors -------------------------------------------------------------------------------------


def chat_model(name: Any) -> Any:
    """Create a chat model from its name.

    ``"package.module:factory"`` names a function or class, which is called without arguments. ``"provider:model"`` is
    passed to LangChain's ``init_chat_model``. Raises ConfigurationError for a name of any other form or if the model
    cannot be created, and MissingExtraError if ``langchain`` is needed but not installed.
    """
    if not isinstance(name, str) or not all(name.partition(":")):
        raise ConfigurationError(f"model must be 'provider:model' or 'package.module:factory', got {quote_value(name)}")
    if is_factory(name):
        return call_factory("model", name, {})
    try:
        from langchain.chat_models import init_chat_model
    except ImportError as missing:
        raise MissingExtraError(f"model {quote_value(name)} needs init_chat_model: pip install langchain") from missing
    return call_factory("model", name, {}, lambda: init_chat_model(name))


def _from_model(kind: Callable[..., T]) -> Callable[..., T]:
    """Return a factory with the parameters of ``kind``, but with the name of a model in place of the model."""

    def create(model: str, **parameters: Any) -> T:
        return kind(chat_model(model), **parameters)

    llm, *others = inspect.signature(kind).parameters.values()
    create.__signature__ = inspect.Signature([llm.replace(name="model"), *others])  # type: ignore[attr-defined]
    return create


RERANKERS: Mapping[str, Callable[..., Reranker]] = MappingProxyType({**WITHOUT_MODEL, "llm": _from_model(LLMReranker)})
"""Rerankers that a configuration file can name; others are named as ``"package.module:factory"``."""
PLANNERS: Mapping[str, Callable[..., Any]] = MappingProxyType({"rules": RulePlanner, "llm": _from_model(QueryPlanner)})
"""Planners that a configuration file can name; others are named as ``"package.module:factory"``."""
EXPANDERS: Mapping[str, Callable[..., conversation.Expander]] = MappingProxyType(
    {
        "history_terms": conversation.HistoryTerms,
        "append_history": conversation.AppendHistory,
        "strip_question": conversation.StripQuestion,
        "llm": _from_model(conversation.LLMRewrite),
    }
)
"""Expanders that a configuration file can name; others are named as ``"package.module:factory"``."""

_ID = "_hybridgraph_id"
_SCORE = "relevance_score"


@dataclass(frozen=True)
class CompressorReranker:
    """Reranker that wraps any LangChain compressor.

    The compressor receives copies of the chunks as Documents. Only the compressor's selection, order and scores are
    used: each hit keeps the full text of its chunk, even if the compressor shortens it. A returned Document is matched
    to its chunk by an id in its metadata, or by ``Document.id``.

    If every returned Document has a number as ``relevance_score`` in its metadata, these numbers are the scores.
    Otherwise, the i-th of n chunks, counting from 0, has the score 1 − i/n. A repeated chunk has its highest score.

    With ``filters=False``, hits that the compressor leaves out are kept and ranked below the others. ``rerank`` raises
    ValueError if the compressor returns a Document that it did not receive.

    >>> from langchain_hybridgraph.records import Chunk, Hit
    >>> class First(BaseDocumentCompressor):
    ...     def compress_documents(self, documents, query, callbacks=None):
    ...         return documents[:1]
    >>> CompressorReranker(First()).rerank("any", [Hit(Chunk(id, id), 0.5, "vector", {}) for id in "ab"])
    [1.0, None]
    """

    compressor: BaseDocumentCompressor
    filters: bool = True

    @property
    def is_asynchronous(self) -> bool:
        """Whether the compressor implements an asynchronous method; if so, it is awaited in the event loop."""
        return is_asynchronous(self.compressor)

    def rerank(self, query: str, hits: Sequence[Hit]) -> Sequence[float | None]:
        """Return one score per hit, or None for hits that the compressor left out."""
        return _scores(hits, self.compressor.compress_documents(_documents(hits), query))

    async def arerank(self, query: str, hits: Sequence[Hit]) -> Sequence[float | None]:
        """Return the same scores as :meth:`rerank`, computed with the compressor's asynchronous method."""
        return _scores(hits, await self.compressor.acompress_documents(_documents(hits), query))


def as_reranker(value: Any) -> Reranker:
    """Convert a LangChain compressor or a scoring function to a reranker.

    A scoring function takes a query and a list of texts and returns one score per text. A name (``"cross_encoder"``), a
    mapping (``{"type": "score", "min_score": 0.3}``) or a reranker is also accepted. Raises ConfigurationError for
    anything else.

    >>> as_reranker(lambda query, texts: [1.0 for _ in texts]).filters
    False
    """
    kinds = Reranker | BaseDocumentCompressor
    created = create_or_import("reranker", value, RERANKERS, lambda one: isinstance(one, kinds) or callable(one))
    if isinstance(created, BaseDocumentCompressor):
        return CompressorReranker(created)
    return created if isinstance(created, Reranker) else TextReranker(created)


def _documents(hits: Iterable[Hit]) -> list[Document]:
    documents = []
    for hit in hits:
        # A relevance_score in the user's metadata would be mistaken for the compressor's score.
        metadata = {key: deepcopy(value) for key, value in hit.chunk.metadata.items() if key != _SCORE}
        documents.append(Document(hit.chunk.text, id=hit.id, metadata=metadata | {_ID: hit.id}))
    return documents


def _scores(hits: Sequence[Hit], answer: Sequence[Document]) -> list[float | None]:
    hit_ids, returned = {hit.id for hit in hits}, dict[str, list[Any]]()
    for document in answer:
        id = document.metadata.get(_ID, document.id)
        if id not in hit_ids:
            raise ValueError(
                f"the compressor returned {quote_value(document.page_content[:80])}, which it did not receive: neither "
                "its metadata nor its id matches a hit"
            )
        returned.setdefault(id, []).append(document.metadata.get(_SCORE))
    if all(isinstance(each, Real) and not isinstance(each, bool) for own in returned.values() for each in own):
        scores = {id: max(own) for id, own in returned.items()}
    else:
        scores = {id: 1 - i / len(returned) for i, id in enumerate(returned)}
    return [scores.get(hit.id) for hit in hits]


# -- conversations ----------------------------------------------------------------------------------------------

_QUESTIONS = ("input", "query", "question", "messages")
_HISTORIES = ("chat_history", "history")
_SESSIONS = ("session_id", "thread_id")


Input = str | dict[str, Any] | list[Any] | SkipJsonSchema[InstanceOf[BaseMessage]]


def read(input: Any, config: RunnableConfig | None) -> tuple[str, dict[str, Any]]:
    """Return the question in a Runnable's input, with its conversation and session as call options.

    The input is a string, a message, a list of messages, or a mapping that contains one of these under ``input``,
    ``query``, ``question`` or ``messages``. In a list of messages, the question is the last message that the assistant
    did not write. The messages before the question are its conversation, unless the mapping contains ``chat_history``
    or ``history``. The session is ``session_id`` in the configuration's ``configurable``, or ``thread_id`` if there is
    no ``session_id``. Raises ConfigurationError if the input contains no question, or if it contains a list under a
    misspelled key, such as ``chat_hist``.

    >>> read({"input": "and its price?", "chat_history": ["User: red cars"]}, {"configurable": {"thread_id": "7"}})
    ('and its price?', {'session_id': '7', 'conversation_history': ['User: red cars']})
    >>> read([("user", "red cars"), ("ai", "A roadster."), ("user", "its price?"), ("ai", "Let me see.")], None)
    ('its price?', {'conversation_history': [('user', 'red cars'), ('ai', 'A roadster.')]})
    """
    question, history = input, None
    if isinstance(input, Mapping):
        question, history = _first(input, _QUESTIONS), _first(input, _HISTORIES)
        if question is None:
            raise ConfigurationError(
                f"the input has the keys {', '.join(map(repr, input))}; expected a string, or "
                '{"input": "and its price?", "chat_history": [...]}'
            )
        for key, value in input.items() if history is None else ():
            if isinstance(value, list) and key not in _QUESTIONS and (similar := similar_name(key, _HISTORIES)):
                raise ConfigurationError(f"the input has the key {key!r}; did you mean {similar!r}?")
    text, before = _question(question)
    history = before if history is None else history
    return text, session_in(config) | ({} if history is None else {"conversation_history": history})


def session_in(config: RunnableConfig | None) -> dict[str, Any]:
    """Return the session or thread id in the configuration as ``{"session_id": …}``, or {} if there is none."""
    session_id = _first(ensure_config(config).get("configurable", {}), _SESSIONS)
    return {} if session_id is None else {"session_id": str(session_id)}


def _first(mapping: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((mapping[key] for key in keys if mapping.get(key) is not None), None)


def _question(value: Any) -> tuple[str, Sequence[Any] | None]:
    if value is None or isinstance(value, str):
        return cast("str", value), None
    if isinstance(value, BaseMessage):
        # A single message is the question regardless of its role, because a model may have rewritten it.
        if message_turns := turns([value]):
            return message_turns[-1].text, None
    elif isinstance(value, (list, tuple)):
        for position in reversed(range(len(value))):
            if questions := [turn for turn in turns(value[position : position + 1]) if turn.speaker != ASSISTANT]:
                return questions[-1].text, value[:position] or None
    raise ConfigurationError(f"the input is {value!r:.200}; expected a string, or messages including a user message")
