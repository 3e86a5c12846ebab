"""Values of options: their notation, validation and error messages."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, is_dataclass
from functools import cache, partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from langchain_hybridgraph import registry
from langchain_hybridgraph.errors import ConfigurationError, number_in_range, quote_value

_BOUNDS = {Ge: "ge", Gt: "gt", Le: "le", Lt: "lt"}


# -- notations of objects -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Notation:
    """How an option is written whose value is an object, as metadata of the option's type.

    Pydantic calls ``create`` for a value in code, and ``check`` (by default ``create``) for a value in a settings file,
    which is kept as it is written, because creating an object may load a model. Both raise ValueError; None is passed
    only if it ``rejects_none``. ``description`` describes the values in messages, ``schema`` lists their JSON schemas,
    and ``kinds`` contains the classes that a value can name.
    """

    description: str
    create: Callable[[Any], Any]
    schema: Sequence[Mapping[str, Any]]
    check: Callable[[Any], object] | None = None
    kinds: Mapping[str, Callable[..., Any]] | None = None
    rejects_none: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda value: None if value is None and not self.rejects_none else self.create(value),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value),
        )

    def checked(self, value: Any) -> Any:
        """Return the value as it is written, or raise ValueError."""
        (self.check or self.create)(value)
        return value


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
    more: str = "or a mapping of its parameters",
    expected: str = "",
    allows_factories: bool = False,
) -> Notation:
    """Return the notation of a stage: a name in ``kinds``, or a mapping of ``type`` and parameters.

    ``more`` describes other forms of the value. With ``allows_factories``, the value may also be created by a function
    of the user, ``package.module:factory``; without ``create``, it is any callable (:func:`created_by_name`), which
    ``expected`` describes in messages.
    """
    required = {name: registry.required_parameters(kind) for name, kind in kinds.items()}
    names = [f"{{type: {name}, {needed[0]}: …}}" if needed else name for name, needed in required.items()]
    schema: list[Mapping[str, Any]] = [{"enum": [name for name, needed in required.items() if not needed]}]
    schema += (_parameters_schema(kind, name) for name, kind in kinds.items())
    create = create or partial(created_by_name, what, kinds, expected=expected)
    if not allows_factories:
        return Notation(f"{one_of(names)}, {more}", create, schema, kinds=kinds)
    names = [name for name in names if not name.startswith("{type: llm,")]
    more = "package.module:factory, or a mapping such as {type: llm, model: provider:model}"
    schema += [_FACTORY, {"type": "object", "properties": {"type": _FACTORY}, "required": ["type"]}]

    def check(value: Any) -> None:
        name = value.get("type") if isinstance(value, Mapping) else value
        if isinstance(name, str) and all(name.partition(":")):
            return
        name, parameters = registry.parse_config(what, value, kinds)
        if is_dataclass(kinds[name]):  # other classes may load a model
            registry.from_config(what, {"type": name, **parameters}, kinds, callable)

    return Notation(f"{one_of(names)}, {more}", create, schema, check, kinds)


def created_by_name(what: str, kinds: Mapping[str, Callable[..., Any]], value: Any, expected: str) -> Any:
    """Return the callable that a name or mapping describes, or any other callable unchanged.

    Raises ConfigurationError for a class and for anything that is not ``expected``.
    """
    if isinstance(value, type):
        raise ConfigurationError(
            f"{what} must be {expected}, got the class {value.__name__}: pass {what}={value.__name__}(…)"
        )
    value = registry.create_or_import(what, value, kinds) if isinstance(value, str | Mapping) else value
    if not callable(value):
        raise ConfigurationError(f"{what} must be {expected}, got {value!r}")
    return value


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


def parameters_notation(what: str, kind: Callable[..., Any], description: str, *numbers: Mapping[str, Any]) -> Notation:
    """Return the notation of an object of one class: a mapping of parameters or, with ``numbers``, the first one."""

    def create(value: Any) -> Any:
        if isinstance(value, kind):  # type: ignore[arg-type]  # a class
            return value
        if numbers and isinstance(value, int | float) and not isinstance(value, bool):
            return kind(value)
        if isinstance(value, Mapping):
            return registry.from_config(what, {"type": what, **value}, {what: kind}, callable)
        name = getattr(kind, "__name__", what)
        raise ConfigurationError(f"{what} must be {description}, a {name} or None, got {value!r}")

    return Notation(description, create, [*numbers, _parameters_schema(kind)])


def typed_notation(description: str, annotation: Any, convert: Callable[[Any], Any]) -> Notation:
    """Return the notation of a value of the type ``annotation``, which ``convert`` then converts; None is refused."""
    adapter = TypeAdapter(annotation)

    def create(value: Any) -> Any:
        try:
            return convert(adapter.validate_python(value, strict=True))
        except ValidationError:
            raise ConfigurationError(f"must be {description}, got {value!r}") from None

    return Notation(description, create, [adapter.json_schema()], rejects_none=True)


# -- descriptions of plain values -----------------------------------------------------------------------------


def expected_value(option: FieldInfo) -> str:
    """Return a phrase that describes the values of an option, to complete "must be …"; None is left out.

    >>> from langchain_hybridgraph.options.models import SelectionOptions
    >>> expected_value(SelectionOptions.model_fields["overfetch"])
    'an integer ≥ 1'
    >>> expected_value(SelectionOptions.model_fields["mmr_lambda"])
    'a number from 0 to 1'
    """
    notation = notation_of(option)
    return notation.description if notation else _described(option.annotation, bounds_of(option.metadata))


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


def literals(annotation: object) -> list[str]:
    """Return the strings in the Literal members of a type."""
    values = [value for member in _members(annotation) if get_origin(member) is Literal for value in get_args(member)]
    return [value for value in values if isinstance(value, str)]


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


def _described(annotation: Any, bounds: Mapping[str, float]) -> str:
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        return _described(inner, {**bounds, **bounds_of(metadata)})
    if get_origin(annotation) in (Union, UnionType, Literal):
        others = [each for each in _members(annotation) if get_origin(each) is not Literal and each is not NoneType]
        return one_of([*literals(annotation), *(_described(each, bounds) for each in others)])
    if annotation in (int, float):
        return number_in_range("an integer" if annotation is int else "a number", bounds)
    kind = get_origin(annotation) or annotation
    names = {bool: "true or false", str: "a string", Path: "a path", Callable: "a function", Sequence: "a list"}
    if kind in names or not isinstance(kind, type):
        return names.get(kind, "another value")
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    parts = " or a mapping of its options" if issubclass(kind, BaseModel) else ""
    return f"{article} {kind.__name__}{parts}"


# -- validation -----------------------------------------------------------------------------------------------


def check_value(kind: type[BaseModel], name: str, value: Any) -> None:
    """Raise ConfigurationError for a value in a call that is not valid for the field ``name`` of ``kind``."""
    # Pydantic converts strings and bools to numbers, and with strict=True it rejects NumPy's numbers.
    is_valid = not (isinstance(value, str | bool) and is_number(kind.model_fields[name].annotation))
    try:
        _adapter(kind, name).validate_python(value, strict=isinstance(value, str))
    except ValidationError:
        is_valid = False
    if not is_valid:
        raise ConfigurationError(wrong_value(kind, name, value))


@cache
def _adapter(kind: type[BaseModel], name: str) -> TypeAdapter[Any]:
    option = kind.model_fields[name]
    bounded: Any = Annotated[option.annotation, *option.metadata] if option.metadata else option.annotation
    return TypeAdapter(bounded, config=ConfigDict(arbitrary_types_allowed=True))


def wrong_value(kind: type[BaseModel], name: str, value: object) -> str:
    """Return the error message for an invalid value of an option.

    >>> from langchain_hybridgraph.options.models import PipelineFields
    >>> wrong_value(PipelineFields, "k", -1)
    'k must be an integer ≥ 0, got -1'
    >>> wrong_value(PipelineFields, "on_error", "degraded")
    "on_error must be degrade, empty or raise, got 'degraded'; did you mean 'degrade'?"
    """
    option = kind.model_fields[name]
    similar = registry.similar_name(value, literals(option.annotation)) if isinstance(value, str) else None
    hint = "" if similar is None else f"; did you mean {similar!r}?"
    return f"{name} must be {expected_value(option)}, got {quote_value(value)}{hint}"


def check_labels(name: str, value: object) -> list[str]:
    """Return the labels in the value of the option ``name``. A string is one label, and None means no labels.

    Raises ConfigurationError for any other value that is not a collection of strings.

    >>> check_labels("seed_labels", "Claim")
    ['Claim']
    """
    labels = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(labels, Sequence | Set) or not all(isinstance(label, str) for label in labels):
        raise ConfigurationError(
            f"{name} must be a string or a list of strings, got {value!r:.200}; write {name}=['home', 'tea']"
        )
    return list(labels)


OPTION_ERROR = "retriever_option"
"""Type of the pydantic errors whose messages are written by this package."""


def option_error(message: str) -> PydanticCustomError:
    """Return a pydantic error with this message; validators of options raise it."""
    return PydanticCustomError(OPTION_ERROR, "{message}", {"message": message})
