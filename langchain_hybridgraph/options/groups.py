"""Groups of options, and errors for unknown names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from langchain_hybridgraph.errors import ConfigurationError, quote_value, shorten
from langchain_hybridgraph.options.values import OPTION_ERROR, is_number, option_error, wrong_value
from langchain_hybridgraph.registry import parameters_of, similar_name
from langchain_hybridgraph.search.expansion import TRAVERSALS
from langchain_hybridgraph.search.scores import GRAPH_SCORES

T = TypeVar("T")
G = TypeVar("G")


class OptionModel(BaseModel):
    """Base class of models with options, whose descriptions are the docstrings of the fields."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class OptionGroup(OptionModel):
    """Options that are passed to a retriever together, as an object or as a mapping of names to values.

    A group is immutable: assign another one to the retriever. Raises ValueError (pydantic's ValidationError) for a name
    that is not an option and for an invalid value.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", frozen=True, validate_default=True)

    @model_validator(mode="wrap")
    @classmethod
    def _check_options(cls, options: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(options, Mapping | cls):
            return handler(options)  # the error is reported for the option that takes the group
        return check_options(cls, options, handler)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        return ((name, value) for name, value in super().__repr_args__() if name in self.model_fields_set)

    def changed(self, changes: Self | Mapping[str, Any] | None) -> Self:
        """Return a copy with some options changed. Raises ConfigurationError for unknown names and invalid values."""
        kind = type(self)
        if isinstance(changes, kind):
            changes = {name: getattr(changes, name) for name in changes.model_fields_set}
        if not isinstance(changes, Mapping | None):
            raise ConfigurationError(
                f"expected {kind.__name__} or a mapping of its options, got {changes!r:.80}; "
                f"the options are {', '.join(kind.model_fields)}"
            )
        if not changes:
            return self
        try:
            return kind.model_validate({name: getattr(self, name) for name in self.model_fields_set} | {**changes})
        except ValidationError as error:
            raise ConfigurationError(error.errors(include_url=False)[0]["msg"]) from None

    def shared_with(self, stage: Callable[..., Any]) -> dict[str, Any]:
        """Return the options that the dataclass ``stage`` has as fields of the same names, with their values."""
        names = {each.name for each in fields(stage)}  # type: ignore[arg-type]  # a dataclass
        return {name: getattr(self, name) for name in type(self).model_fields if name in names}


if TYPE_CHECKING:

    class GroupOf(Generic[G]):
        """Type of a field for a group, for type checkers: a mapping of options may be passed, a group is read."""

        def __get__(self, instance: object, owner: type | None = None) -> G: ...

        def __set__(self, instance: object, value: G | Mapping[str, Any]) -> None: ...
else:

    class GroupOf:
        """Type of a field for a group: the group itself, which pydantic also creates from a mapping."""

        def __class_getitem__(cls, group: type[OptionGroup]) -> type[OptionGroup]:
            return group


def group_field(group: type[OptionGroup], **options: Any) -> Any:
    """Return the field of a retriever for this group; by default, all options of the group have their defaults."""
    return Field(default_factory=group, **options)


def groups_of(kind: type) -> dict[str, type[OptionGroup]]:
    """Return the option groups of a class, by name."""
    fields = kind.model_fields if issubclass(kind, BaseModel) else {}
    annotations = {name: field.annotation for name, field in fields.items()}
    return {
        name: annotation
        for name, annotation in annotations.items()
        if isinstance(annotation, type) and issubclass(annotation, OptionGroup)
    }


def check_options(kind: type[BaseModel], options: Any, handler: Callable[[Any], T]) -> T:
    """Validate the options of ``kind`` with pydantic's ``handler``, as its wrap validator.

    Raises pydantic's ValidationError, a ValueError, with the value passed and the accepted values of each option.
    """
    if isinstance(options, Mapping) and (problems := list(_problems(kind, options))):
        raise ValidationError.from_exception_data(kind.__name__, problems)
    try:
        return handler(options)
    except ValidationError as invalid:
        # One problem per option or parameter; pydantic reports one per member of a union or list.
        readable: dict[tuple[int | str, ...], InitErrorDetails] = {}
        for error in invalid.errors(include_url=False):
            loc, name, value = error["loc"], str(error["loc"][0]) if error["loc"] else "", error["input"]
            message = error["msg"]
            if error["type"] == "value_error":
                message = str(error["ctx"]["error"])
                message = message if name in message else f"{name}: {message}"
            elif name in kind.model_fields and error["type"] != OPTION_ERROR:
                value = options[name] if isinstance(options, Mapping) and name in options else value
                message, loc = wrong_value(kind, name, value), (name,)
            readable.setdefault(loc, _problem_of(message, loc, value))
        raise ValidationError.from_exception_data(invalid.title, list(readable.values())) from None


def _problems(kind: type[BaseModel], options: Mapping[str, Any]) -> Iterator[InitErrorDetails]:
    names = kind.model_fields
    first = "retriever" if "retriever" in names else "vector_store"

    def example(call: Mapping[str, Any]) -> str:
        return f"{dict(call)!r}" if issubclass(kind, OptionGroup) else f"{kind.__name__}({first}, {call_text(call)})"

    for name, value in options.items():
        if name not in names:
            advice = option_advice(kind, str(name), value, names, example)
            message = f"{kind.__name__} has no option {shorten(str(name), 100)!r}; {advice}"
            yield _problem_of(message, (str(name),), value)
            continue
        # Without this check, pydantic would convert a string or a bool to a number, and a string to a bool.
        annotation = names[name].annotation
        converted: Any = (str, bool) if is_number(annotation) else str if annotation is bool else ()
        if isinstance(value, converted):
            yield _problem_of(wrong_value(kind, name, value), (name,), value)


def _problem_of(message: str, loc: tuple[int | str, ...], value: object) -> InitErrorDetails:
    short = tuple(shorten(part, 100) if isinstance(part, str) else part for part in loc)
    return InitErrorDetails(type=option_error(message), loc=short, input=value)


def option_advice(
    kind: type, name: str, value: object, names: Collection[str], example: Callable[[Mapping[str, Any]], str]
) -> str:
    """Return what to write instead of an option of ``kind`` that is not in ``names``.

    ``example`` returns the code of a call with the options that are passed to it.
    """
    grouped = {option: group for group, options in groups_of(kind).items() for option in options.model_fields}
    if grouped.get(name) in names:
        group = grouped[name]
        return f"{name} is an option of {group}=: write {example({group: {name: value}})}"
    options = translated(name, value)
    if options is not None and options.keys() <= {*names}:
        return f"write {example(options)}"
    if {"graph", "traversal"} & {*names} and (form := stage_form(name, value)):
        return f"write {example({'graph': form} if 'graph' in names else form)}"
    if name in getattr(kind, "model_fields", ()):
        return f"{name} is an option of the constructor"
    if (similar := similar_name(name, [*sorted(names), *grouped])) is not None:
        return f"did you mean {similar!r}?" + (f" It is an option of {grouped[similar]}=" if similar in grouped else "")
    return f"the options are {', '.join(sorted(names))}"


# -- names of other libraries ---------------------------------------------------------------------------------


def stage_form(name: str, value: object) -> dict[str, dict[str, object]]:
    """Return the option of ``graph=`` that configures a traversal or a score with this parameter, or {} if none does.

    >>> stage_form("max_hops", 1), stage_form("tau", 0.5), stage_form("colour", "red")
    ({'traversal': {'type': 'bfs', 'max_hops': 1}}, {'score': {'type': 'distance_decay', 'tau': 0.5}}, {})
    """
    name = "min_weight" if name == "min_traversal_score" else name
    for what, kinds in (("traversal", TRAVERSALS), ("score", GRAPH_SCORES)):
        for kind, stage in kinds.items():
            if name in parameters_of(stage):
                return {what: {"type": kind, name: value}}
    return {}


# Options of other libraries, with the option of this package that has the same meaning.
_SAME_MEANING = {
    **dict.fromkeys(("top_k", "limit", "n_results", "num_results", "max_results", "similarity_top_k"), "k"),
    **dict.fromkeys(("alpha", "dense_weight", "vector_weight"), "semantic_weight"),
    **dict.fromkeys(("sparse_weight", "bm25_weight"), "keyword_weight"),
    **dict.fromkeys(("score_threshold", "similarity_threshold"), "min_score"),
    **dict.fromkeys(("where", "filters", "metadata_filter"), "filter"),
    **dict.fromkeys(("bm25_retriever", "sparse_retriever"), "keyword_retriever"),
    **dict.fromkeys(("chat_history", "history"), "conversation_history"),
}


def translated(name: str, value: Any) -> dict[str, Any] | None:
    """Return the options to write instead of an option of another library, or None if it is not known.

    >>> translated("top_k", 3), translated("search_kwargs", {"k": 3, "score_threshold": 0.5})
    ({'k': 3}, {'k': 3, 'min_score': 0.5})
    >>> translated("weights", [0.4, 0.6]), translated("colour", "red")
    ({'semantic_weight': 0.4, 'keyword_weight': 0.6}, None)
    """
    if name in _SAME_MEANING:
        return {_SAME_MEANING[name]: value}
    if name == "search_kwargs" and isinstance(value, Mapping):
        each = (translated(str(key), inner) or {str(key): inner} for key, inner in value.items())
        return {key: inner for options in each for key, inner in options.items()}
    if name == "weights" and isinstance(value, list | tuple) and len(value) == 2:
        return {"semantic_weight": value[0], "keyword_weight": value[1]}  # in the order of the retrievers
    return None


def call_text(options: Mapping[str, Any]) -> str:
    """Return options as they are written in a call."""
    return ", ".join(f"{name}={quote_value(value)}" for name, value in options.items())
