"""Options for AdvancedRetriever."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from pydantic import BaseModel, Field, field_validator

from langchain_hybridgraph.adapters.conversations import EXPANDERS
from langchain_hybridgraph.adapters.documents import Annotate
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.options.hybrid import HybridArguments
from langchain_hybridgraph.options.retriever import Form, ObservedArguments
from langchain_hybridgraph.registry import create_or_import
from langchain_hybridgraph.search.conversation import HistoryTerms


class ConversationFields(BaseModel):
    """Options of an AdvancedRetriever that other retrievers do not have."""

    expander: Any = Field(
        default_factory=HistoryTerms,
        description="Expander that completes follow-up questions from the conversation.",
    )
    fuse_raw: bool | None = Field(
        default=None,
        description="Whether to search for the original question, too; unset: only if the rewrite may be wrong.",
    )
    get_session_history: Callable[[str], Any] | None = Field(
        default=None, description="Function that returns the history of a session, by its id."
    )

    @field_validator("expander")
    @classmethod
    def _named_expander(cls, value: Any) -> Any:
        if isinstance(value, type):
            raise ConfigurationError(
                f"expander must be an expander, got the class {value.__name__}: pass expander={value.__name__}(…)"
            )
        value = create_or_import("expander", value, EXPANDERS) if isinstance(value, str | Mapping) else value
        if not callable(value):
            raise ConfigurationError(
                "expander must be a name, a mapping with type and parameters, or a function of the question and the "
                f"turns before it, got {value!r}"
            )
        return value


class ConversationArguments(TypedDict, total=False):
    """Keyword arguments of an AdvancedRetriever that other retrievers do not have."""

    expander: Form | Callable[..., Any]
    fuse_raw: bool | None
    get_session_history: Callable[[str], Any] | None


class AdvancedArguments(ObservedArguments, ConversationArguments, total=False):
    """Keyword arguments of :class:`~langchain_hybridgraph.retrievers.advanced.AdvancedRetriever`."""

    k: int | None
    annotate: Annotate | None


class AdvancedHybridArguments(HybridArguments, ConversationArguments, total=False):
    """Keyword arguments of an AdvancedRetriever that creates its own HybridRetriever."""
