"""Groups of options that belong together."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from langchain_hybridgraph.errors import ConfigurationError, shorten
from langchain_hybridgraph.options.validation import option_error, stage_forms


class OptionGroup(BaseModel):
    """Options that a retriever takes together, as an object or as a mapping of their names.

    A group does not change; assign another one to the retriever. Raises ValueError (pydantic's ValidationError) for a
    name that is not an option and for an invalid value.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", frozen=True, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _known_names(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            check_names(cls, given)
        return given

    def changed(self, changes: Self | Mapping[str, Any] | None) -> Self:
        """Return this group with the options of ``changes`` that were set; the others stay as they are.

        Raises ConfigurationError for a name that is not an option and for an invalid value.
        """
        if changes is None:
            return self
        kind = type(self)
        if isinstance(changes, kind):
            named = {name: getattr(changes, name) for name in changes.model_fields_set}
        elif isinstance(changes, Mapping):
            named = {str(name): value for name, value in changes.items()}
        else:
            raise ConfigurationError(
                f"{kind.__name__} or a mapping of its options was expected, got {changes!r:.80}; "
                f"the options are {', '.join(kind.model_fields)}"
            )
        if not named:
            return self
        try:
            return kind(**{name: getattr(self, name) for name in self.model_fields_set} | named)
        except ValidationError as error:
            raise ConfigurationError(_problem(error)) from None


def _problem(invalid: ValidationError) -> str:
    error = invalid.errors(include_url=False)[0]
    name, message = ".".join(map(str, error["loc"])), error["msg"].removeprefix("Value error, ")
    return f"{name} is {error['input']!r:.80}; {message.replace('Input should', 'it should', 1)}" if name else message


def groups_of(kind: type) -> dict[str, type[OptionGroup]]:
    """Return the groups among the options of a class, by name; empty for a class that has none."""
    fields = kind.model_fields if issubclass(kind, BaseModel) else {}
    annotations = {name: field.annotation for name, field in fields.items()}
    return {
        name: annotation
        for name, annotation in annotations.items()
        if isinstance(annotation, type) and issubclass(annotation, OptionGroup)
    }


def group_with(kind: type, name: str) -> str | None:
    """Return the name of the group that has this option, None if there is none."""
    return next((group for group, options in groups_of(kind).items() if name in options.model_fields), None)


def check_names(kind: type[BaseModel], given: Mapping[str, Any]) -> None:
    """Raise pydantic's ValidationError, a ValueError, for names that are not options of this class."""
    unknown = [
        InitErrorDetails(
            type=option_error(f"{kind.__name__} has no such option. {_advice(kind, name, value)}"),
            loc=(shorten(name, 100),),
            input=value,
        )
        for name, value in given.items()
        if name not in kind.model_fields
    ]
    if unknown:
        raise ValidationError.from_exception_data(kind.__name__, unknown)


def _advice(kind: type[BaseModel], name: str, value: object) -> str:
    if (group := group_with(kind, name)) is not None:
        return f"{name} is an option of {group}=: {kind.__name__}(…, {group}={ {name: value}!r:.80})"
    known = sorted(kind.model_fields)
    if {"graph", "traversal"} & {*known} and (form := stage_forms({name: value})):
        return f"Give graph={form!r:.200}"
    grouped = {option: group for group, options in groups_of(kind).items() for option in options.model_fields}
    if near := get_close_matches(name, [*known, *grouped], n=1):
        place = f" It is an option of {grouped[near[0]]}=" if near[0] in grouped else ""
        return f"Did you mean {near[0]!r}?{place}"
    return f"There are {', '.join(known)}"
