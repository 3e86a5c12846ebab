"""Groups, notations and error messages of options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, Self, TypeVar, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from langchain_hybridgraph import registry
from langchain_hybridgraph.errors import ConfigurationError, number_in_range, quote_value, shorten
from langchain_hybridgraph.search.expansion import TRAVERSALS
from langchain_hybridgraph.search.scores import GRAPH_SCORES

G = TypeVar("G")


# -- notations of objects -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Notation:
    """How an option is written whose value is an object, as metadata of the option's type.

    Pydantic calls ``create`` for a value in code, and ``check`` (by default ``create``) for a value in a settings file,
    which is kept as it is written, because creating an object may load a model. Both raise ValueError, without a
    message if ``description`` of the values is enough; None is not passed to them. ``schema`` lists the JSON schemas of
    the values, unless the option's type defines them, and ``kinds`` contains the classes that a value can name.
    """

    description: str
    create: Callable[[Any], Any]
    schema: Sequence[Mapping[str, Any]] = ()
    check: Callable[[Any], object] | None = None
    kinds: Mapping[str, Callable[..., Any]] | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            lambda value: None if value is None else self.create(value),
            handler(source),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return {"anyOf": list(self.schema)} if self.schema else handler(schema["schema"])

    def as_written(self) -> Notation:
        """Return the notation for settings, whose values are checked and kept as they are written."""

        def checked(value: Any) -> Any:
            (self.check or self.create)(value)
            return value

        return replace(self, create=checked)


def notation_of(option: FieldInfo) -> Notation | None:
    """Return the notation of an option, or None if its values are plain."""
    return next((each for each in option.metadata if isinstance(each, Notation)), None)


_SIMPLE = {bool: "boolean", int: "number", float: "number", str: "string"}
_FACTORY: dict[str, Any] = {"type": "string", "pattern": ".:."}


def stage_notation(
    what: str,
    kinds: Mapping[str, Callable[..., Any]],
    create: Callable[[Any], Any] | None = None,
    *,
    allows_factories: bool = False,
) -> Notation:
    """Return the notation of a stage: a name in ``kinds``, or a mapping of ``type`` and parameters.

    With ``allows_factories``, the value may also be created by a function of the user, ``package.module:factory``.
    Without ``create``, any callable is accepted, too.
    """
    required = {name: registry.required_parameters(kind) for name, kind in kinds.items()}
    names = [f"{{type: {name}, {needed[0]}: …}}" if needed else name for name, needed in required.items()]
    schema: list[Mapping[str, Any]] = [{"enum": [name for name, needed in required.items() if not needed]}]
    schema += (_parameters_schema(kind, name) for name, kind in kinds.items())
    create = create or partial(registry.create_or_import, what, kinds=kinds)
    if not allows_factories:
        return Notation(f"{one_of(names)}, or a mapping of a type and parameters", create, schema, kinds=kinds)
    schema += [_FACTORY, {"type": "object", "properties": {"type": _FACTORY}, "required": ["type"]}]

    def check(value: Any) -> None:
        name = value.get("type") if isinstance(value, Mapping) else value
        if isinstance(name, str) and all(name.partition(":")):
            return
        name, parameters = registry.parse_config(what, value, kinds)
        if is_dataclass(kinds[name]):  # other classes may load a model
            registry.from_config(what, {"type": name, **parameters}, kinds)

    names += ["package.module:factory", "a mapping of a type and parameters"]
    return Notation(one_of(names), create, schema, check, kinds)


def _parameters_schema(kind: Callable[..., Any], name: str | None = None) -> dict[str, Any]:
    """Return the schema of a mapping of parameters: types and defaults as far as the defaults determine them."""
    defaults = {each: inspect.signature(kind).parameters[each].default for each in registry.parameters_of(kind)}
    types = {each: _SIMPLE.get(type(default)) for each, default in defaults.items()}
    parameters = {each: {"type": type, "default": defaults[each]} if type else {} for each, type in types.items()}
    return {
        "type": "object",
        "properties": ({} if name is None else {"type": {"const": name}}) | parameters,
        "required": [*([] if name is None else ["type"]), *registry.required_parameters(kind)],
        "additionalProperties": False,
    }


def parameters_notation(what: str, kind: type, first: str = "", *numbers: Mapping[str, Any]) -> Notation:
    """Return the notation of an object of one class: a mapping of parameters, or only the first one.

    ``first`` begins the description with the first parameter if it can be written alone; ``numbers`` is its schema.
    """

    def create(value: Any) -> Any:
        if numbers and isinstance(value, int | float) and not isinstance(value, bool):
            return kind(value)
        if isinstance(value, Mapping):
            return registry.from_config(what, {"type": what, **value}, {what: kind})
        if not isinstance(value, kind):
            raise ValueError
        return value

    names = [each for each in registry.parameters_of(kind) if each != "counter"]  # a function, which no file contains
    description = f"{first}a mapping of {all_of(names)}"
    return Notation(description, create, [*numbers, _parameters_schema(kind)])


# -- descriptions of values -----------------------------------------------------------------------------------

_BOUNDS = {Ge: "ge", Gt: "gt", Le: "le", Lt: "lt"}
_DESCRIPTIONS = {
    bool: "true or false",
    str: "a string",
    Path: "a path",
    Callable: "a function",
    Sequence[float]: "a list of numbers",
    Sequence[str]: "a list of strings",
    frozenset: "a string or a list of strings",
}


def expected_value(option: FieldInfo) -> str:
    """Return a phrase that describes the values of an option, to complete "must be …"; None is left out.

    >>> from langchain_hybridgraph.options.models import SelectionOptions
    >>> expected_value(SelectionOptions.model_fields["overfetch"])
    'an integer ≥ 1'
    >>> expected_value(SelectionOptions.model_fields["mmr_lambda"])
    'a number from 0 to 1'
    """
    notation = notation_of(option)
    return notation.description if notation else _described(option.annotation, option.metadata)


def bounds_of(metadata: Iterable[object]) -> dict[str, float]:
    """Return the bounds in a field's metadata, with pydantic's names (ge, gt, le, lt) as keys."""
    names = {_BOUNDS[type(bound)]: bound for bound in metadata if type(bound) in _BOUNDS}
    return {name: getattr(bound, name) for name, bound in names.items()}


def one_of(values: Iterable[object]) -> str:
    """Return a string that lists the values as alternatives.

    >>> one_of(["auto", "never", "a number"])
    'auto, never or a number'
    """
    *others, last = map(str, values)
    return f"{', '.join(others)} or {last}" if others else last


def all_of(values: Iterable[str]) -> str:
    """Return a string that lists the values.

    >>> all_of(["alpha", "half_life_days"])
    'alpha and half_life_days'
    """
    *others, last = values
    return f"{', '.join(others)} and {last}" if others else last


def literals(annotation: object) -> list[str]:
    """Return the strings in the Literal members of a type."""
    return [value for member in _members(annotation) if get_origin(member) is Literal for value in get_args(member)]


def is_number(annotation: object) -> bool:
    """Return whether a type allows only numbers, with or without None."""
    return {*_members(annotation)} - {NoneType} in ({int}, {float})


def is_plain(annotation: object) -> bool:
    """Return whether a type allows only strings, numbers or bools, with or without None."""
    return {*_members(annotation)} - {NoneType} <= {int, float, str, bool}


def _members(annotation: object) -> tuple[Any, ...]:
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _described(annotation: Any, metadata: Sequence[object]) -> str:
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return _described(inner, [*metadata, *more])
    if get_origin(annotation) in (Union, UnionType, Literal):
        others = [each for each in _members(annotation) if get_origin(each) is not Literal and each is not NoneType]
        return one_of([*literals(annotation), *(_described(each, metadata) for each in others)])
    if annotation in (int, float):
        return number_in_range("an integer" if annotation is int else "a number", bounds_of(metadata))
    kind: Any = annotation if annotation in _DESCRIPTIONS else get_origin(annotation) or annotation
    return _DESCRIPTIONS.get(kind, f"a {kind.__name__}")


# -- models of options ----------------------------------------------------------------------------------------


class OptionModel(BaseModel):
    """Base class of models with options, whose descriptions are the docstrings of the fields."""

    model_config = ConfigDict(hide_input_in_errors=True, use_attribute_docstrings=True)


class CheckedModel(BaseModel):
    """Base class of models whose errors show the value passed and the accepted values of each option.

    These are pydantic's ValidationError, a ValueError.
    """

    @model_validator(mode="wrap")
    @classmethod
    def _check_options(cls, options: Any, handler: Callable[[Any], Self]) -> Self:
        try:
            return handler(_without_conversions(cls, options) if isinstance(options, Mapping) else options)
        except ValidationError as invalid:
            problems = []
            for loc, message, value in problems_in(cls, invalid, options):
                error = PydanticCustomError(_EXPLAINED, "{message}", {"message": with_name(loc, message)})
                problems.append(InitErrorDetails(type=error, loc=loc, input=value))
            raise ValidationError.from_exception_data(invalid.title, problems) from None


class OptionGroup(OptionModel, CheckedModel):
    """Options that are passed to a retriever together, as an object or as a mapping of names to values.

    A group is immutable: assign another one to the retriever. Raises ValueError (pydantic's ValidationError) for a name
    that is not an option and for an invalid value.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", frozen=True, validate_default=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        return ((name, value) for name, value in super().__repr_args__() if name in self.model_fields_set)

    def changed(self, changes: Self | Mapping[str, Any] | None) -> Self:
        """Return a copy with some options changed. Raises ConfigurationError for unknown names and invalid values."""
        kind = type(self)
        if isinstance(changes, kind):
            changes = changes.own_options()
        if changes is None or changes == {}:
            return self
        try:
            return kind.model_validate(self.own_options() | {**changes} if isinstance(changes, Mapping) else changes)
        except ValidationError as error:
            raise ConfigurationError(error.errors(include_url=False)[0]["msg"]) from None

    def own_options(self) -> dict[str, Any]:
        """Return the options that were set, with their values."""
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}

    def shared_with(self, stage: Callable[..., Any]) -> dict[str, Any]:
        """Return the options that the dataclass ``stage`` has as fields of the same names, with their values."""
        return {name: getattr(self, name) for name in _shared_names(type(self), stage)}


@cache
def _shared_names(group: type[OptionGroup], stage: Any) -> list[str]:
    names = {each.name for each in fields(stage)}
    return [name for name in group.model_fields if name in names]


class GroupOf(Generic[G]):
    """Type of a field for a group: for pydantic the group itself, which it also creates from a mapping."""

    def __class_getitem__(cls, group: type[OptionGroup]) -> type[OptionGroup]:
        return group

    if TYPE_CHECKING:  # a mapping of options may be passed, a group is read

        def __get__(self, instance: object, owner: type | None = None) -> G: ...

        def __set__(self, instance: object, value: G | Mapping[str, Any]) -> None: ...


def group_field(group: type[OptionGroup], **options: Any) -> Any:
    """Return the field of a retriever for this group; by default, all options of the group have their defaults."""
    return Field(default_factory=group, **options)


def groups_of(kind: type[BaseModel]) -> dict[str, type[OptionGroup]]:
    """Return the option groups of a class, by name."""
    annotations = {name: field.annotation for name, field in kind.model_fields.items()}
    return {
        name: each for name, each in annotations.items() if isinstance(each, type) and issubclass(each, OptionGroup)
    }


# -- errors ---------------------------------------------------------------------------------------------------

_EXPLAINED = "retriever_option"  # type of the pydantic errors whose messages are written by this package


def with_name(path: Sequence[int | str], message: str) -> str:
    """Return an error message that begins with the option's name, unless it contains a part of the path.

    >>> with_name(["as_of"], "'x' is not a time"), with_name(["k"], "k must be an integer")
    ("as_of: 'x' is not a time", 'k must be an integer')
    """
    return f"{path[0]}: {message}" if path and not any(str(part) in message for part in path) else message


def _without_conversions(kind: type[BaseModel], options: Mapping[str, Any]) -> dict[str, Any]:
    """Replace strings and bools for numbers, and strings for bools, by an object that pydantic does not convert."""
    values = dict(options)
    for name, value in options.items():
        if isinstance(value, str | bool) and name in kind.model_fields:
            annotation = kind.model_fields[name].annotation
            is_bool = isinstance(value, bool)
            if is_number(annotation) or (is_bool and literals(annotation)) or (annotation is bool and not is_bool):
                values[name] = object()
    return values


def problems_in(
    kind: type[BaseModel], invalid: ValidationError, options: Any
) -> list[tuple[tuple[int | str, ...], str, Any]]:
    """Return the path, a message and the value for each problem in the ``options`` of ``kind``."""
    problems: dict[tuple[int | str, ...], tuple[str, Any]] = {}
    for error in invalid.errors(include_url=False):
        loc, message, value = error["loc"], error["msg"], error["input"]
        name = str(loc[0]) if loc else ""
        reason = str(error["ctx"]["error"]) if error["type"] == "value_error" else ""
        if error["type"] == "extra_forbidden":
            message = _unknown_option(kind, name, value)
        elif reason:
            message = reason
        elif name in kind.model_fields and error["type"] != _EXPLAINED:
            value = options[name] if isinstance(options, Mapping) and name in options else value
            message, loc = wrong_value(kind.model_fields[name], name, value), (name,)
        elif not loc:
            message = f"expected {kind.__name__} or a mapping of its options, got {quote_value(value)}"
        loc = tuple(shorten(part, 100) if isinstance(part, str) else part for part in loc)
        problems.setdefault(loc, (message, value))  # pydantic reports one per member of a union or list
    return [(loc, message, value) for loc, (message, value) in problems.items()]


def wrong_value(option: FieldInfo, name: str, value: object) -> str:
    """Return the error message for an invalid value of an option.

    >>> from langchain_hybridgraph.options.models import PipelineFields
    >>> wrong_value(PipelineFields.model_fields["k"], "k", -1)
    'k must be an integer ≥ 0, got -1'
    >>> wrong_value(PipelineFields.model_fields["on_error"], "on_error", "degraded")
    "on_error must be degrade, empty or raise, got 'degraded'; did you mean 'degrade'?"
    """
    similar = registry.similar_name(value, literals(option.annotation)) if isinstance(value, str) else None
    hint = "" if similar is None else f"; did you mean {similar!r}?"
    return f"{name} must be {expected_value(option)}, got {quote_value(value)}{hint}"


def check_value(kind: type[BaseModel], name: str, value: Any) -> Any:
    """Return the value of the option ``name`` of ``kind`` in a call. Raises ConfigurationError if it is invalid."""
    # Pydantic converts these to numbers or strings, and with strict=True it rejects NumPy's numbers.
    unconverted = object() if isinstance(value, bytes | bytearray | Decimal) else value
    try:
        return _adapter(kind, name).validate_python(unconverted, strict=isinstance(value, str | bool) or None)
    except ValidationError:
        raise ConfigurationError(wrong_value(kind.model_fields[name], name, value)) from None


def check_values(kind: type[BaseModel], options: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for an invalid value of a plain option of ``kind`` in a call; others are not checked."""
    for name, value in options.items():
        if value is not None and name in kind.model_fields:
            annotation = kind.model_fields[name].annotation
            if is_plain(annotation) or literals(annotation):
                check_value(kind, name, value)


@cache
def _adapter(kind: type[BaseModel], name: str) -> TypeAdapter[Any]:
    option = kind.model_fields[name]
    bounded: Any = Annotated[option.annotation, *option.metadata] if option.metadata else option.annotation
    return TypeAdapter(bounded, config=ConfigDict(arbitrary_types_allowed=True))


def _unknown_option(kind: type[BaseModel], name: str, value: object) -> str:
    first = "retriever" if "retriever" in kind.model_fields else "vector_store"

    def example(call: Mapping[str, Any]) -> str:
        return f"{dict(call)!r}" if issubclass(kind, OptionGroup) else f"{kind.__name__}({first}, {call_text(call)})"

    advice = option_advice(kind, name, value, kind.model_fields, example)
    is_similar = name not in _SAME_MEANING and registry.similar_name(name, kind.model_fields) is not None
    if "options" in kind.model_fields and not is_similar:
        call = {_SAME_MEANING.get(name, name): value}
        advice = f"write invoke(query, {call_text(call)}) or {kind.__name__}(url, options={call!r})"
    return f"{kind.__name__} has no option {shorten(name, 100)!r}; {advice}"


def option_advice(
    kind: type[BaseModel], name: str, value: object, names: Collection[str], example: Callable[[Mapping[str, Any]], str]
) -> str:
    """Return what to write instead of an option of ``kind`` that is not in ``names``.

    ``example`` returns the code of a call with the options that are passed to it.
    """
    grouped = {option: group for group, options in groups_of(kind).items() for option in options.model_fields}
    options = {grouped[name]: {name: value}} if grouped.get(name) in names else equivalent_options(name, value)
    if "traversal" in names:  # the options are those of graph=
        options = options.get("graph", options)
    if options and options.keys() <= {*names}:
        return f"write {example(options)}"
    if name in kind.model_fields:
        return f"{name} is an option of the constructor"
    if (similar := registry.similar_name(name, [*sorted(names), *grouped])) is not None:
        return f"did you mean {similar!r}?" + (f" It is an option of {grouped[similar]}=" if similar in grouped else "")
    return f"the options are {', '.join(sorted(names))}"


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


def equivalent_options(name: str, value: Any) -> dict[str, Any]:
    """Return the options to write instead of an option of another library, or of a traversal or score.

    >>> equivalent_options("top_k", 3), equivalent_options("search_kwargs", {"k": 3, "score_threshold": 0.5})
    ({'k': 3}, {'k': 3, 'min_score': 0.5})
    >>> equivalent_options("weights", [0.4, 0.6]), equivalent_options("colour", "red")
    ({'semantic_weight': 0.4, 'keyword_weight': 0.6}, {})
    >>> equivalent_options("tau", 0.5)
    {'graph': {'score': {'type': 'distance_decay', 'tau': 0.5}}}
    """
    if name in _SAME_MEANING:
        return {_SAME_MEANING[name]: value}
    if name == "search_kwargs" and isinstance(value, Mapping):
        return {_SAME_MEANING.get(str(key), str(key)): inner for key, inner in value.items()}
    if name == "weights" and isinstance(value, list | tuple) and len(value) == 2:
        return {"semantic_weight": value[0], "keyword_weight": value[1]}  # in the order of the retrievers
    name = "min_weight" if name == "min_traversal_score" else name
    for what, kinds in (("traversal", TRAVERSALS), ("score", GRAPH_SCORES)):
        for kind, stage in kinds.items():
            if name in registry.parameters_of(stage):
                return {"graph": {what: {"type": kind, name: value}}}
    return {}


def call_text(options: Mapping[str, Any]) -> str:
    """Return options as they are written in a call; a long value becomes a variable.

    >>> call_text({"k": 3, "conversation_history": ["a message of the conversation"] * 14})
    'k=3, conversation_history=history'
    """
    texts = {name: quote_value(value) for name, value in options.items()}
    return ", ".join(f"{name}={text if len(text) <= 100 else name.split('_')[-1]}" for name, text in texts.items())
