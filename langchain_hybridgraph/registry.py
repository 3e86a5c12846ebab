"""Creation of objects from names and parameters in settings."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar, cast

from langchain_hybridgraph.errors import ConfigurationError, describe_error, quote_value

T = TypeVar("T")

_EXAMPLES = {"model": '"openai:gpt-5-mini"'}


def from_config(
    what: str, form: Any, kinds: Mapping[str, Callable[..., T]], is_one: Callable[[Any], bool] = callable
) -> T:
    """Create an object from a setting, which is a name or a mapping with ``type`` and parameters.

    An object that ``is_one`` accepts is returned unchanged. ``what`` names the setting in messages. Raises
    ConfigurationError for an invalid name, parameter or value.

    >>> from fractions import Fraction
    >>> from_config("number", {"type": "fraction", "numerator": 3}, {"fraction": Fraction}, lambda one: False)
    Fraction(3, 1)
    """
    if not isinstance(form, str | Mapping | type) and is_one(form):
        return cast("T", form)
    name, parameters = parse_config(what, form, kinds)
    try:
        return kinds[name](**parameters)
    except (TypeError, AttributeError) as error:
        raise ConfigurationError(f"{what} {name!r} cannot use {parameters!r}: {error}") from error


def create_or_import(
    what: str, form: Any, kinds: Mapping[str, Callable[..., Any]], is_one: Callable[[Any], bool] = callable
) -> Any:
    """Create an object as :func:`from_config` does; its name may also be ``"package.module:factory"``.

    >>> create_or_import("number", {"type": "fractions:Fraction", "numerator": 3}, {}, lambda one: True)
    Fraction(3, 1)
    """
    parameters = {**form} if isinstance(form, Mapping) else {"type": form}
    name = parameters.pop("type", None)
    if isinstance(name, str) and name not in kinds and all(name.partition(":")):
        form = call_factory(what, name, parameters)
    return from_config(what, form, kinds, is_one)


def is_factory(name: str) -> bool:
    """Return whether a name has the form ``package.module:factory`` rather than ``provider:model``.

    >>> is_factory("subprocess:getoutput"), is_factory("openai:gpt-5-mini"), is_factory("minilm")
    (True, False, False)
    """
    module, _, path = name.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *path.split("."))):
        return False
    try:
        return "." in module or find_spec(module) is not None  # a parent package would be imported to find its module
    except (ImportError, ValueError):
        return False


def imported_factory(what: str, spec: str) -> Any:
    """Import a class or function by a name of the form "package.module:factory".

    Raises ConfigurationError if the import fails or the object is not callable.

    >>> imported_factory("number", "fractions:Fraction")
    <class 'fractions.Fraction'>
    """
    module, _, path = spec.partition(":")
    try:
        target: Any = import_module(module)
        for name in path.split("."):
            target = getattr(target, name)
    except Exception as error:  # importing the user's module runs it
        raise ConfigurationError(
            f"{what} {spec!r} cannot be imported ({describe_error(error)}); expected package.module:factory, "
            f"where Python can find the module {module!r} (if it is in the current folder, set PYTHONPATH=.)"
        ) from error
    if not callable(target):
        raise ConfigurationError(f"{what} {spec!r} is a {type(target).__name__}; name a class or a function")
    return target


def call_factory(what: str, name: str, parameters: Mapping[str, Any], factory: Callable[..., Any] | None = None) -> Any:
    """Call a factory, by default the one of this name, with the parameters.

    Raises ConfigurationError if it cannot be imported or raises an exception.
    """
    factory = imported_factory(what, name) if factory is None else factory
    try:
        return factory(**parameters)
    except ConfigurationError:
        raise
    except Exception as error:  # the factory is the user's code and may raise anything
        raise ConfigurationError(
            f"{what} {quote_value(name)} could not be created with {quote_value(dict(parameters))}: "
            f"{describe_error(error)}"
        ) from error


def parse_config(what: str, form: Any, kinds: Mapping[str, Callable[..., Any]]) -> tuple[str, dict[str, Any]]:
    """Check a setting, and return the name and the parameters in it without creating the object.

    Raises ConfigurationError for a name or a parameter that does not exist.
    """
    if isinstance(form, str):
        form = {"type": form}
    expected = f"expected one of {', '.join(kinds)}"
    if not isinstance(form, Mapping):
        raise ConfigurationError(
            f"{what} is {quote_value(form)}; {expected}, a mapping with type and parameters, or the object itself"
        )
    parameters = dict(form)
    name = parameters.pop("type", None)
    if not isinstance(name, str) or name not in kinds:
        problem = f"{form!r} has no 'type'; " if name is None else f"{name!r} is unknown; {nearest(name, kinds)}"
        raise ConfigurationError(f"{what} {problem}{expected}")
    names = parameters_of(kinds[name])
    if unknown := [str(key) for key in parameters if key not in names]:
        advice = f"{nearest(unknown[0], names)}expected {', '.join(names)}" if names else "it takes none"
        raise ConfigurationError(f"{what} {name!r} has no parameter {', '.join(map(repr, unknown))}; {advice}")
    missing = [each for each in required_parameters(kinds[name]) if each not in parameters]
    if missing:
        example = ", ".join([f"type: {name}", *(f"{each}: {_EXAMPLES.get(each, '…')}" for each in missing)])
        raise ConfigurationError(f"{what} {name!r} needs {' and '.join(missing)}; write {{{example}}}")
    return name, parameters


def parameters_of(kind: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters that a setting may contain for this class.

    Fields with ``repr=False``, which only the pipeline sets, are left out.

    >>> from langchain_hybridgraph.search.traversals import Beam
    >>> parameters_of(Beam)[-2:]
    ['width', 'max_hops']
    """
    if is_dataclass(kind):
        return [each.name for each in fields(kind) if each.init and each.repr]
    return list(inspect.signature(kind).parameters)


def required_parameters(kind: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters in :func:`parameters_of` that have no default."""
    parameters = inspect.signature(kind).parameters
    return [each for each in parameters_of(kind) if parameters[each].default is inspect.Parameter.empty]


def name_of(thing: object, kinds: Mapping[str, Callable[..., Any]]) -> str:
    """Return the name of an object's class in ``kinds``, or else its ``__name__`` or the name of its class."""
    own_name = str(getattr(thing, "__name__", type(thing).__name__))
    return next((name for name, kind in kinds.items() if type(thing) is kind), own_name)


def nearest(name: object, names: Iterable[str]) -> str:
    """Return the start of a message that suggests the most similar of ``names``, or "" if none is similar."""
    similar = similar_name(name, names)
    return "" if similar is None else f"did you mean {similar!r}? "


def similar_name(name: object, names: Iterable[str]) -> str | None:
    """Return the most similar of ``names``, or else the first that begins with the name and an underscore, or None.

    >>> similar_name("hopdecay", ["beam", "hop_decay"]), similar_name("mmr", ["budget", "mmr_lambda"])
    ('hop_decay', 'mmr_lambda')
    """
    text, names = str(name), list(names)
    near = get_close_matches(text, names, n=1) or [each for each in names if text and each.startswith(f"{text}_")]
    return near[0] if near else None
