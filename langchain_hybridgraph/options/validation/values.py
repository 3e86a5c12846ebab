"""Validation of the values of options."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from langchain_hybridgraph.errors import ConfigurationError, quote_value
from langchain_hybridgraph.options.validation.expected_values import expected_value, is_number, literals
from langchain_hybridgraph.registry import parameters_of, similar_name
from langchain_hybridgraph.search.expansion import TRAVERSALS
from langchain_hybridgraph.search.scores import GRAPH_SCORES

if TYPE_CHECKING:
    pass


def stage_forms(options: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Return mappings that configure the traversal and the score with these parameters.

    The keys of the result are ``traversal`` and ``score``. Shorthand names, such as ``bidirectional``, are recognised
    as well. Names that belong neither to a traversal nor to a score are left out.

    >>> stage_forms({"max_hops": 1, "direction": "both", "tau": 0.5, "colour": "red"})["traversal"]
    {'type': 'bfs', 'max_hops': 1, 'direction': 'both'}
    >>> stage_forms({"max_hops": 1, "direction": "both", "tau": 0.5, "colour": "red"})["score"]
    {'type': 'distance_decay', 'tau': 0.5}
    """
    parameters = dict(_expand_shorthand(name, value) for name, value in options.items())
    forms: dict[str, dict[str, object]] = {}
    for what, kinds in (("traversal", TRAVERSALS), ("score", GRAPH_SCORES)):
        matching = {
            kind: [name for name in parameters if name in parameters_of(stage)] for kind, stage in kinds.items()
        }
        kind = max(matching, key=lambda each: len(matching[each]))
        if matching[kind]:
            forms[what] = {"type": kind} | {name: parameters.pop(name) for name in matching[kind]}
    return forms


def _expand_shorthand(name: str, value: object) -> tuple[str, object]:
    """Return the name and value of the parameter that an option sets; options that are not shorthand stay unchanged."""
    if name == "bidirectional":
        return "direction", "both" if value else "out"
    if name in ("relation_filter", "relations"):
        return "relations", [value] if isinstance(value, str) else value
    return name, value


# Options of other libraries, with the option of this package that has the same meaning.
_SAME_MEANING = {
    **dict.fromkeys(("top_k", "topk", "K"), "k"),
    **dict.fromkeys(("limit", "n_results", "num_results", "max_results", "similarity_top_k"), "k"),
    **dict.fromkeys(("alpha", "dense_weight", "vector_weight"), "semantic_weight"),
    **dict.fromkeys(("sparse_weight", "bm25_weight"), "keyword_weight"),
    **dict.fromkeys(("score_threshold", "similarity_threshold"), "min_score"),
    **dict.fromkeys(("where", "filters", "metadata_filter", "pre_filter"), "filter"),
    **dict.fromkeys(("bm25_retriever", "sparse_retriever"), "keyword_retriever"),
}
_SEARCH_TYPES: dict[str, dict[str, Any]] = {
    "mmr": {"selection": {"mmr_lambda": 0.5}},
    "similarity_score_threshold": {"min_score": 0.5},
    "similarity": {},
}


def translated(name: str, value: Any) -> dict[str, Any] | None:
    """Return the options to write instead of an option of another library, or None if it is not known.

    >>> translated("top_k", 3), translated("search_kwargs", {"k": 3, "lambda_mult": 0.7, "fetch_k": 20})
    ({'k': 3}, {'k': 3, 'selection': {'mmr_lambda': 0.7}})
    >>> translated("weights", [0.4, 0.6]), translated("colour", "red")
    ({'semantic_weight': 0.4, 'keyword_weight': 0.6}, None)
    """
    if name == "alpha" and isinstance(value, int | float):
        return {"semantic_weight": min(1, max(0, value))}
    if name in _SAME_MEANING:
        return {_SAME_MEANING[name]: value}
    if name == "search_kwargs" and isinstance(value, Mapping):
        each = (translated(str(key), inner) or {str(key): inner} for key, inner in value.items() if key != "fetch_k")
        return {key: inner for options in each for key, inner in options.items()}
    if name == "weights":
        values = value if isinstance(value, list | tuple) else () if isinstance(value, str) else (value,)
        return dict(zip(("semantic_weight", "keyword_weight"), values, strict=False)) if len(values) <= 2 else None
    if name == "lambda_mult":
        return {"selection": {"mmr_lambda": value}}
    return _SEARCH_TYPES.get(str(value)) if name == "search_type" else None


def call_text(options: Mapping[str, Any]) -> str:
    """Return options as they are written in a call."""
    return ", ".join(f"{name}={quote_value(value)}" for name, value in options.items())


def check_value(kind: type[BaseModel], name: str, value: Any) -> None:
    """Raise ConfigurationError for a value that is not valid for the field ``name`` of ``kind``.

    The constructor of ``kind`` validates its own arguments; this function validates values that are passed to a call.
    """
    field = kind.model_fields[name]
    try:
        # Pydantic converts strings and bools to numbers, and with strict=True it rejects NumPy's numbers.
        is_wrong_type = isinstance(value, str | bool) and is_number(field.annotation)
        if not is_wrong_type:
            _adapter(kind, name).validate_python(value, strict=isinstance(value, str))
    except ValidationError:
        is_wrong_type = True
    if is_wrong_type:
        raise ConfigurationError(wrong_value(kind, name, value))


@cache
def _adapter(kind: type[BaseModel], name: str) -> TypeAdapter[Any]:
    field = kind.model_fields[name]
    bounded: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    return TypeAdapter(bounded, config=ConfigDict(arbitrary_types_allowed=True))


def wrong_value(kind: type[BaseModel], name: str, value: object) -> str:
    """Return the error message for an invalid value of an option.

    The message contains the accepted values and the value passed, and usually a way to fix the error.

    >>> from langchain_hybridgraph.options.retriever import PipelineFields
    >>> wrong_value(PipelineFields, "k", -1)
    'k must be an integer ≥ 0, got -1; the default is 10'
    >>> wrong_value(PipelineFields, "k", "5")
    "k must be an integer ≥ 0, got '5'; write k=5"
    >>> wrong_value(PipelineFields, "on_error", "degraded")
    "on_error must be 'degrade', 'empty' or 'raise', got 'degraded'; did you mean 'degrade'?"
    """
    field = kind.model_fields[name]
    message = f"{name} must be {expected_value(field)}, got {quote_value(value)}"
    if isinstance(value, str) and is_number(field.annotation) and value.strip().isdecimal():
        return f"{message}; write {name}={value.strip()}"
    if isinstance(value, str) and (similar := similar_name(value, literals(field.annotation))) is not None:
        return f"{message}; did you mean {similar!r}?"
    if isinstance(value, str | Path) and "path" in getattr(field.annotation, "model_fields", ()):
        return f"{message}; write {name}={ {'path': str(value)}!r}"
    default = field.default
    return f"{message}; the default is {default!r}" if isinstance(default, str | int | float) else message


OPTION_ERROR = "retriever_option"
"""Type of the pydantic errors whose messages are written by this package."""


def option_error(message: str) -> PydanticCustomError:
    """Return a pydantic error with this message; validators of options raise it."""
    return PydanticCustomError(OPTION_ERROR, "{message}", {"message": message})
