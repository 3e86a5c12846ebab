"""Groups of options that belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails

from langchain_hybridgraph.errors import ConfigurationError, shorten
from langchain_hybridgraph.options.validation.expected_values import expected_value, is_number
from langchain_hybridgraph.options.validation.values import (
    OPTION_ERROR,
    call_text,
    option_error,
    stage_forms,
    translated,
    wrong_value,
)
from langchain_hybridgraph.registry import similar_name

T = TypeVar("T")
G = TypeVar("G")
PlaceOf = Callable[[str], str | None]  # see validation/option_places.py


class OptionGroup(BaseModel):
    """Options that are passed to a retriever together, as an object or as a mapping of names to values.

    A group is immutable. To change an option, assign another group to the retriever. Raises ValueError (pydantic's
    ValidationError) for a name that is not an option and for an invalid value.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", frozen=True, validate_default=True)

    @model_validator(mode="wrap")
    @classmethod
    def _check_options(cls, options: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(options, Mapping | cls):
            return handler(options)  # the error is reported for the option that takes the group
        return check_options(cls, options, handler)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield only the options that were set, for ``repr``."""
        return ((name, value) for name, value in super().__repr_args__() if name in self.model_fields_set)

    def changed(self, changes: Self | Mapping[str, Any] | None) -> Self:
        """Return a copy of this group with the options set in ``changes``. The other options keep their values.

        Raises ConfigurationError for a name that is not an option and for an invalid value.
        """
        if changes is None:
            return self
        kind = type(self)
        if isinstance(changes, kind):
            values = {name: getattr(changes, name) for name in changes.model_fields_set}
        elif isinstance(changes, Mapping):
            values = {str(name): value for name, value in changes.items()}
        else:
            raise ConfigurationError(
                f"expected {kind.__name__} or a mapping of its options, got {changes!r:.80}; "
                f"the options are {', '.join(kind.model_fields)}"
            )
        if not values:
            return self
        try:
            return kind(**{name: getattr(self, name) for name in self.model_fields_set} | values)
        except ValidationError as error:
            raise ConfigurationError(error.errors(include_url=False)[0]["msg"]) from None


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


def group_field(group: type[OptionGroup], description: str, **options: Any) -> Any:
    """Return the field of a retriever for this group; by default, all options of the group have their defaults."""
    return Field(default_factory=group, description=description, **options)


def groups_of(kind: type) -> dict[str, type[OptionGroup]]:
    """Return the option groups of a class, by name."""
    fields = kind.model_fields if issubclass(kind, BaseModel) else {}
    annotations = {name: field.annotation for name, field in fields.items()}
    return {
        name: annotation
        for name, annotation in annotations.items()
        if isinstance(annotation, type) and issubclass(annotation, OptionGroup)
    }


def group_with(kind: type, name: str) -> str | None:
    """Return the name of the group that contains this option, or None if there is no such group."""
    return next((group for group, options in groups_of(kind).items() if name in options.model_fields), None)


def check_options(
    kind: type[BaseModel],
    options: Any,
    handler: Callable[[Any], T],
    place_of: PlaceOf = lambda _: None,
) -> T:
    """Validate the options of ``kind`` and return the validated object. ``handler`` is pydantic's own validation.

    The pydantic wrap validator of ``kind`` calls this function. Raises pydantic's ValidationError, a ValueError, for
    invalid options. The messages state the value passed and the accepted values of each option. For an option that
    belongs to another group or retriever, ``place_of`` returns the name of this group or retriever for the message.
    """
    if isinstance(options, Mapping) and (problems := list(_problems(kind, options, place_of))):
        raise ValidationError.from_exception_data(kind.__name__, problems)
    try:
        return handler(options)
    except ValidationError as error:
        raise ValidationError.from_exception_data(error.title, _readable_problems(kind, error, options)) from None


def _problems(kind: type[BaseModel], options: Mapping[str, Any], place_of: PlaceOf) -> Iterator[InitErrorDetails]:
    groups = groups_of(kind)
    for name, value in options.items():
        if problem := _name_problem(kind, str(name), value, place_of) or _type_problem(kind, name, value):
            yield problem
        elif name in groups and isinstance(value, Mapping):
            for inner, setting in value.items():
                if problem := _name_problem(groups[name], str(inner), setting, place_of, owner=kind):
                    yield problem


def _name_problem(
    kind: type[BaseModel], name: str, value: object, place_of: PlaceOf, owner: type[BaseModel] | None = None
) -> InitErrorDetails | None:
    """Return an error if ``kind`` has no option of this name; ``owner`` is the class that takes the group ``kind``."""
    if name in kind.model_fields:
        return None
    if owner is not None and name in owner.model_fields:
        advice = f"Write {owner.__name__}(…, {name}={value!r:.80})"
    else:
        advice = _advice(kind, name, value, place_of)
    message = f"{kind.__name__} has no option {shorten(name, 100)!r}. {advice}"
    return _problem_of(message, (name,), value)


def _type_problem(kind: type[BaseModel], name: str, value: object) -> InitErrorDetails | None:
    """Return an error for a string or bool passed for a number, and for a string passed for a bool; otherwise None.

    Without this check, pydantic would convert the value.
    """
    annotation = kind.model_fields[name].annotation
    is_wrong = isinstance(value, str | bool) if is_number(annotation) else annotation is bool and isinstance(value, str)
    return _problem_of(wrong_value(kind, name, value), (name,), value) if is_wrong else None


def _readable_problems(kind: type[BaseModel], invalid: ValidationError, options: Any) -> list[InitErrorDetails]:
    """Return one problem per option or parameter. Pydantic itself reports one problem per member of a union or list."""
    problems: dict[tuple[int | str, ...], InitErrorDetails] = {}
    for error in invalid.errors(include_url=False):
        loc, name, value = error["loc"], str(error["loc"][0]) if error["loc"] else "", error["input"]
        message = error["msg"]
        if error["type"] == "value_error":
            message = str(error["ctx"]["error"])
            message = message if name in message else f"{name}: {message}"
        elif name in kind.model_fields and error["type"] != OPTION_ERROR:
            inner = kind.model_fields[name].annotation
            parameters = _parameters(inner) if len(loc) == 2 else {}
            if loc[-1] in parameters:
                message = f"{loc[-1]} must be {expected_value(parameters[str(loc[-1])])}, got {value!r:.80}"
            else:
                value = options[name] if isinstance(options, Mapping) and name in options else value
                message, loc = wrong_value(kind, name, value), (name,)
        problems.setdefault(loc, _problem_of(message, loc, value))
    return list(problems.values())


def _parameters(annotation: Any) -> dict[str, FieldInfo]:
    """Return the parameters of the dataclass that an option accepts, by name. Return an empty mapping if it does not
    accept a dataclass.
    """
    kind = next((member for member in (*get_args(annotation), annotation) if is_dataclass(member)), None)
    hints = {} if kind is None else get_type_hints(kind)
    return {name: FieldInfo.from_annotation(hint) for name, hint in hints.items()}


def _problem_of(message: str, loc: tuple[int | str, ...], value: object) -> InitErrorDetails:
    short = tuple(shorten(part, 100) if isinstance(part, str) else part for part in loc)
    return InitErrorDetails(type=option_error(message), loc=short, input=value)


def _advice(kind: type[BaseModel], name: str, value: object, place_of: PlaceOf) -> str:
    if (group := group_with(kind, name)) is not None:
        return f"{name} is an option of {group}=: {kind.__name__}(…, {group}={ {name: value}!r:.80})"
    names = sorted(kind.model_fields)
    if "k" in names and (options := translated(name, value)) is not None and options.keys() <= {*names}:
        first = "retriever" if "retriever" in names else "vector_store"
        order = "; the weights of an EnsembleRetriever are in the order of its retrievers" if name == "weights" else ""
        call = f"{kind.__name__}({', '.join(filter(None, [first, call_text(options)]))})"
        other = "" if (home := place_of(name)) is None else f"; {name} is an option of {home}"
        return f"{'Write' if options else 'Leave it out:'} {call}{order if options else ''}{other}"
    if {"graph", "traversal"} & {*names} and (form := stage_forms({name: value})):
        return f"Give graph={form!r:.200}"
    if (place := place_of(name)) is not None:
        return f"{name} is an option of {place}"
    grouped = {option: group for group, options in groups_of(kind).items() for option in options.model_fields}
    if (similar := similar_name(name, [*names, *grouped])) is not None:
        place = f" It is an option of {grouped[similar]}=" if similar in grouped else ""
        return f"Did you mean {similar!r}?{place}"
    return f"The options are {', '.join(names)}"
