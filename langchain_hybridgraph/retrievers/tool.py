"""A retriever as a tool that a model calls with typed arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import patch_config
from pydantic import BaseModel, Field, field_validator

from langchain_hybridgraph.errors import ConfigurationError, StoreError, TenantError

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

# Reasons of ``degraded`` that are no reason to doubt an answer: what it was made of was all there is.
_NOTHING_MISSING = frozenset(
    {
        "converged-early",
        "filter-post-applied",
        "keyword-fallback",
        "no-graph-store",
        "no-keyword-index",
        "no-layers",
        "no-lsa-index",
        "no-tree",
        "single-chunk-exceeds-budget",
    }
)
_DESCRIPTION = "Finds the texts that answer a question best, each with its id and a score from 0 to 1, best first."


class QueryArguments(BaseModel):
    """What a model says to search for."""

    query: str = Field(description="What is searched for: a whole question or its key words.")
    k: int | None = Field(None, ge=1, le=100, description="How many texts come back.")


class SearchArguments(QueryArguments):
    """What a model says to search for, and among what."""

    filter: dict[str, Any] | None = Field(
        None,
        description='Only texts with this metadata, as in {"source": "a.md"}, {"year": {"$gte": 2020}} or '
        '{"$or": [{"lang": "en"}, {"tags": {"$contains": "x"}}]}; operators: $eq $ne $gt $gte $lt $lte $in $nin '
        "$contains $exists $and $or $not.",
    )

    @field_validator("filter", mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        """The object of a text: some models write JSON into a string."""
        return json.loads(value) if isinstance(value, str) else value


def chosen_arguments(given: type[BaseModel] | None, types: object, own: type[BaseModel]) -> type[BaseModel]:
    """The form of a tool's arguments: what the caller gives, else the retriever's own; ``types`` are refused."""
    if types:
        raise ConfigurationError(
            f"arg_types={types!r}: the arguments have types already; give others as args_schema=, a class derived "
            f"from {own.__name__}"
        )
    return given or own


def search_tool(
    retriever: BaseRetriever, arguments: type[BaseModel], name: str | None = None, description: str | None = None
) -> BaseTool:
    """A tool that invokes ``retriever`` with what a model says, in the form of ``arguments``.

    ``arguments`` has a ``query``; its other fields are options of the retriever's calls, left out when they are None. A
    filter may be a pydantic model of its own, whose fields that are set must all hold.
    The tool message has the texts in words (:func:`told`) and the Documents as its ``artifact``. What the
    model has asked wrongly, such as a filter or a time that cannot be read, is the tool's answer, with status "error",
    so that the model can mend it; any other error is raised.
    """
    from langchain_core.tools import StructuredTool

    if "query" not in arguments.model_fields:
        raise ConfigurationError(f"{arguments.__name__} has no field 'query'; derive it from QueryArguments")
    prefix = getattr(retriever, "metadata_prefix", "")

    def search(query: str, config: RunnableConfig, callbacks: Any = None, **options: Any) -> tuple[str, list[Document]]:
        with _told_to_the_model():
            found = retriever.invoke(query, patch_config(config, callbacks=callbacks), **_given(options))
        return told(found, prefix), found

    async def asearch(
        query: str, config: RunnableConfig, callbacks: Any = None, **options: Any
    ) -> tuple[str, list[Document]]:
        with _told_to_the_model():
            found = await retriever.ainvoke(query, patch_config(config, callbacks=callbacks), **_given(options))
        return told(found, prefix), found

    return StructuredTool(
        name=name or retriever.get_name(),
        description=description or _DESCRIPTION,
        args_schema=arguments,
        func=search,
        coroutine=asearch,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def told(documents: Sequence[Document], prefix: str = "") -> str:
    """The texts for a model to read, each under a line with its place, id, score, title and source.

    ``prefix`` is the retriever's ``metadata_prefix``. What the search had to leave out stands in a last line,
    but nothing that the store never had, such as edges.

    >>> print(told([Document("The red roadster.", id="a", metadata={"score": 0.93, "source": "cars.md"})]))
    [1] id: a, score: 0.93, source: cars.md
    The red roadster.
    """
    if not documents:
        return "Nothing was found."
    parts = [f"{_line(place, one, prefix)}\n{one.page_content}" for place, one in enumerate(documents, start=1)]
    said = documents[0].metadata.get(prefix + "degraded") or ()
    reasons = [reason for reason in said if reason not in _NOTHING_MISSING]
    return "\n\n".join([*parts, f"The search was not complete: {', '.join(reasons)}."] if reasons else parts)


@contextmanager
def _told_to_the_model() -> Iterator[None]:
    """What the model has asked wrongly becomes the tool's answer."""
    from langchain_core.tools import ToolException

    try:
        yield
    except (StoreError, TenantError):  # ValueErrors, too, but of the retriever's making
        raise
    except ValueError as error:
        raise ToolException(str(error)) from error


def _line(place: int, document: Document, prefix: str) -> str:
    found = document.metadata
    id = found.get(prefix + "chunk_id") or document.id
    score = found.get(prefix + "score")
    noted = {
        "id": id,
        "score": f"{score:.2f}" if isinstance(score, (int, float)) else None,
        "title": found.get("title"),
        "source": found.get("source") or found.get("uri"),
    }
    return f"[{place}] " + ", ".join(f"{name}: {value}" for name, value in noted.items() if value not in (None, ""))


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """What the model has said; a filter in a form of its own becomes the mapping that it stands for."""
    said = {name: value for name, value in options.items() if value is not None}
    return {
        name: value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else value
        for name, value in said.items()
    }
