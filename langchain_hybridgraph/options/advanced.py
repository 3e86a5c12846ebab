"""Options for AdvancedRetriever."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, Field, field_validator

from langchain_hybridgraph.adapters.rerankers_and_planners import EXPANDERS
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.query.conversation import HistoryTerms
from langchain_hybridgraph.registry import create_or_import


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
