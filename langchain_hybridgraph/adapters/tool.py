"""A retriever as a tool that a model calls with typed arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import patch_config
from pydantic import BaseModel, Field, field_validator

from langchain_hybridgraph.degradation import degradation
from langchain_hybridgraph.errors import ConfigurationError, StoreError, TenantError, shorten
from langchain_hybridgraph.records import is_backward

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

LONGEST_DESCRIPTION = 300  # characters of an edge's description that a model is shown
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
    """A tool that invokes ``retriever``, one of ours, with what a model says, in the form of ``arguments``.

    ``arguments`` has a ``query``; its other fields are options of the retriever's calls, left out when they are None. A
    filter may be a pydantic model of its own, whose fields that are set must all hold.
    The tool message has the texts in words (:func:`told`) and the Documents as its ``artifact``. What the model has
    asked wrongly, such as a filter or a time that cannot be read, is the tool's answer, with status "error",
    so that the model can mend it; any other error is raised.
    """
    from langchain_core.tools import StructuredTool

    if "query" not in arguments.model_fields:
        raise ConfigurationError(f"{arguments.__name__} has no field 'query'; derive it from QueryArguments")
    prefix = getattr(retriever, "metadata_prefix", "")

    def search(query: str, config: RunnableConfig, callbacks: Any = None, **options: Any) -> tuple[str, list[Document]]:
        with _told_to_the_model():
            asked = {"annotate": "all", **_given(options)}
            found = retriever.invoke(query, patch_config(config, callbacks=callbacks), **asked)
        return told(found, prefix), found

    async def asearch(
        query: str, config: RunnableConfig, callbacks: Any = None, **options: Any
    ) -> tuple[str, list[Document]]:
        with _told_to_the_model():
            asked = {"annotate": "all", **_given(options)}
            found = await retriever.ainvoke(query, patch_config(config, callbacks=callbacks), **asked)
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

    A text that edges led to has a last line with these edges, each in its own direction, between the places in this
    list, or the ids of texts that are not in it. At the very end are the reasons for which hits may be missing.
    ``prefix`` is the retriever's ``metadata_prefix``.

    >>> print(told([Document("The red roadster.", id="a", metadata={"score": 0.93, "source": "cars.md"})]))
    [1] id: a, score: 0.93, source: cars.md
    The red roadster.
    >>> cites = {"from_chunk_id": "a", "relation": "cites", "weight": 0.8, "description": "B builds on A."}
    >>> led = {"source_path": ["a", "b"], "graph_context": [cites | {"direction": "backward"}]}
    >>> print(told([Document("A", id="a"), Document("B", id="b", metadata=led)]).splitlines()[-1])
    ↳ related: [2] –cites→ [1] (B builds on A.)
    """
    if not documents:
        return "Nothing was found."
    places = {_id(one, prefix): f"[{place}]" for place, one in enumerate(documents, start=1)}
    parts = [
        "\n".join([_line(place, one, prefix), one.page_content, *_related(one, places, prefix)])
        for place, one in enumerate(documents, start=1)
    ]
    said = documents[0].metadata.get(prefix + "degraded") or ()
    reasons = [reason for reason in said if degradation(reason).may_miss_hits]
    if "nothing-similar" in said:
        parts = ["Nothing similar to the query was found. These are the most recent memories:", *parts]
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
    score = found.get(prefix + "score")
    noted = {
        "id": _id(document, prefix),
        "score": f"{score:.2f}" if isinstance(score, (int, float)) else None,
        "title": found.get("title"),
        "source": found.get("source") or found.get("uri"),
    }
    return f"[{place}] " + ", ".join(f"{name}: {value}" for name, value in noted.items() if value not in (None, ""))


def _id(document: Document, prefix: str) -> str | None:
    return document.metadata.get(prefix + "chunk_id") or document.id


def _related(document: Document, places: Mapping[str | None, str], prefix: str) -> Iterator[str]:
    """The line with the edges that led to a text, the first of them first; none without edges."""
    path = document.metadata.get(prefix + "source_path") or ()
    known = {step["from_chunk_id"]: step for step in document.metadata.get(prefix + "graph_context") or ()}
    steps = [
        _edge(known[one], places.get(one, one), places.get(two, two)) for one, two in pairwise(path) if one in known
    ]
    if steps:
        yield f"↳ related: {'; '.join(steps)}"


def _edge(step: Mapping[str, Any], one: str, two: str) -> str:
    """An edge between two texts as it points, with its description."""
    if entity := str(step.get("entity", "")):
        return f"{one} and {two} both mention {entity.partition(':')[2] or entity}"
    source, target = (two, one) if is_backward(step) else (one, two)
    said = " ".join(str(step["description"]).split())
    return f"{source} –{step['relation']}→ {target}" + (f" ({shorten(said, LONGEST_DESCRIPTION)})" if said else "")


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """What the model has said; a filter in a form of its own becomes the mapping that it stands for."""
    said = {name: value for name, value in options.items() if value is not None}
    return {
        name: value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else value
        for name, value in said.items()
    }
