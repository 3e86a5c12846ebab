from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.registry import from_config


@dataclass(frozen=True)
class Wide:
    """Class with parameters, a field that is set later, and a class variable."""

    is_wide: ClassVar[bool] = True

    width: int = 3
    names: frozenset[str] = frozenset()
    label: str = field(default="", repr=False)
    is_ready: bool = field(default=True, init=False)

    def __post_init__(self):
        if self.width < 1:
            raise ConfigurationError("width is from 1")
        self.names.union(self.names)


class Narrow:
    """Class that is not a dataclass."""

    def __init__(self, *, edge=1):
        self.edge = edge


KINDS = {"wide": Wide, "narrow": Narrow}


def create(form):
    return from_config("road", form, KINDS, lambda one: hasattr(one, "width"))


def test_a_name_a_mapping_and_an_object():
    """An object can be given by its name, by a mapping with parameters, or directly."""
    assert create("wide") == Wide()
    assert create({"type": "wide", "width": 5}) == Wide(5)
    assert create({"type": "narrow", "edge": 2}).edge == 2
    assert create(own := Wide(7)) is own


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("wode", r"road 'wode' is unknown; did you mean 'wide'\? expected one of wide, narrow"),
        ({"width": 3}, "road {'width': 3} has no 'type'; expected one of wide, narrow"),
        ({"type": ["wide"]}, "is unknown; .*expected one of wide, narrow"),
        (None, "road is None; expected one of wide, narrow, a mapping"),
        (Wide, "road is <class .*Wide'>; expected one of wide, narrow"),
        ({"type": "wide", "widht": 3}, r"no parameter 'widht'; did you mean 'width'\? expected width, names"),
        ({"type": "wide", "told": "x"}, "no parameter 'told'"),
        ({"type": "narrow", "width": 3}, "no parameter 'width'; expected edge"),
        ({"type": "wide", "width": "3"}, "road 'wide' cannot use {'width': '3'}"),
        ({"type": "wide", "width": 0}, "^width is from 1$"),
    ],
)
def test_the_error_for_an_invalid_form(form, message):
    """The error for an invalid form has the setting, the value passed, a suggestion and the accepted values."""
    with pytest.raises(ConfigurationError, match=message):
        create(form)
