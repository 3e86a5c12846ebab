"""Models of search requests, one per retriever."""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, NamedTuple, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from langchain_hybridgraph.errors import quote_value, shorten
from langchain_hybridgraph.options import models
from langchain_hybridgraph.options.arguments import HISTORY, CallSettings
from langchain_hybridgraph.options.base import all_of, is_plain, option_advice, problems_in
from langchain_hybridgraph.registry import nearest
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.retrievers.graph import GraphRetriever
from langchain_hybridgraph.retrievers.hierarchical import HierarchicalRetriever
from langchain_hybridgraph.retrievers.hybrid import HybridRetriever
from langchain_hybridgraph.retrievers.memory import MemoryRetriever

KINDS: Mapping[str, type[HybridRetriever]] = {
    "hybrid": HybridRetriever,
    "graph": GraphRetriever,
    "hierarchical": HierarchicalRetriever,
    "memory": MemoryRetriever,
}
ADVANCED = "advanced"
_SUBJECTS = ("query", "filter", "vector", "labels", "seed_ids")  # a request needs at least one of them


class Problem(NamedTuple):
    """Problem in a request: the path of the value, and a message."""

    path: tuple[str | int, ...]
    message: str


class InvalidRequestError(ValueError):
    """The request is invalid; ``problems`` lists all reasons."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = problems


class SearchRequest(BaseModel):
    """Question and options of a search. A subclass has the call options of one retriever as fields."""

    model_config = ConfigDict(arbitrary_types_allowed=True, allow_inf_nan=False)

    kind: ClassVar[type[BaseModel]]
    retriever: str = Field("hybrid", description="Retriever that answers.")
    query: str | None = Field(None, description="Question or keywords; may be left out with a vector or a filter.")

    @property
    def options(self) -> dict[str, Any]:
        """Return the options of the call that are set."""
        return {name: getattr(self, name) for name in self.model_fields_set - SearchRequest.model_fields.keys()}

    def problem(self, message: str) -> Problem:
        """Return the problem that an error message describes, with the path of the first option that it names."""
        paths: dict[str, tuple[str, ...]] = {name: (name,) for name in ("query", *self.options)}
        paths["history"] = paths.get(HISTORY) or paths.get("session", ())
        mentions = [paths[word] for word in re.findall(r"\w+", message) if word in paths]
        return Problem(mentions[0] if mentions else (), message)


@cache
def request_models(inner: str) -> Mapping[str, type[SearchRequest]]:
    """Return the model of the requests for each retriever; ``inner`` is the one that ``advanced`` wraps."""
    by_name = {name: _model(kind, kind, frozenset()) for name, kind in KINDS.items()}
    return {**by_name, ADVANCED: _model(AdvancedRetriever, KINDS[inner], frozenset({HISTORY}))}


def _model(kind: type[Any], inner: type[HybridRetriever], own: frozenset[str]) -> type[SearchRequest]:
    hints = get_type_hints(CallSettings, localns=vars(models))
    names = sorted(inner._call_options | own)
    fields: Any = {each: _field(each, inner, hints.get(each, Any)) for each in names}
    model = create_model(f"{kind.__name__}Request", __base__=SearchRequest, **fields)
    model.kind = kind
    return model


def _field(name: str, kind: type[BaseModel], hint: Any) -> tuple[Any, Any]:
    """Return the type and the field of an option: those of the retriever, or else those of the call."""
    option = kind.model_fields.get(name)
    if option is None:
        return hint if hint is Any else hint | None, Field(None, strict=is_plain(hint) or None)
    annotation: Any = option.annotation
    is_strict = is_plain(annotation) or None  # otherwise, pydantic would convert strings and bools to numbers
    if option.metadata:
        annotation = Annotated[annotation, *option.metadata]
    return annotation | None, Field(None, description=option.description, strict=is_strict)


def read_request(body: Mapping[str, Any], by_name: Mapping[str, type[SearchRequest]]) -> SearchRequest:
    """Return the request in a JSON object. Raises InvalidRequestError with all of its problems.

    >>> read_request({"query": "cats", "k": 3}, request_models("hybrid")).options
    {'k': 3}
    >>> read_request({"query": "cats", "k": -3}, request_models("hybrid"))
    Traceback (most recent call last):
        ...
    langchain_hybridgraph.server.requests.InvalidRequestError: k must be an integer ≥ 0, got -3
    """
    name = body.get("retriever", "hybrid")
    if not isinstance(name, str) or name not in by_name:
        expected = f"{nearest(name, by_name)}expected one of {', '.join(by_name)}"
        raise InvalidRequestError(Problem(("retriever",), f"retriever {quote_value(name)} is unknown; {expected}"))
    model = by_name[name]
    problems = []
    for other in [each for each in body if each not in model.model_fields]:
        advice = option_advice(model.kind, other, body[other], model.model_fields, json.dumps)
        owners = [each for each in KINDS if other in KINDS[each].model_fields]
        if capable := [each for each in by_name if other in by_name[each].model_fields]:
            advice = f"it is an option of {all_of(capable)}: add {json.dumps({'retriever': capable[0]})}"
        elif owners and "hybrid" not in owners:
            advice = f"the settings of the service set it, for {all_of(owners)}"
        path = (shorten(other, 100),)
        problems.append(Problem(path, f"{name} has no option {path[0]!r}; {shorten(advice, 500)}"))
    if not problems and body.keys().isdisjoint(_SUBJECTS):
        problems.append(Problem(("query",), 'query is missing; write {"query": "a question"}, or a filter or a vector'))
    try:
        request = model.model_validate(body)
    except ValidationError as error:
        problems += [Problem(path, message) for path, message, _ in problems_in(model, error, body)]
    if problems:
        raise InvalidRequestError(*problems)
    return request
