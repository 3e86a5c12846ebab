from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.registry import from_config, parameters_of, parse_config, to_config


@dataclass(frozen=True)
class Wide:
    """A kind with a parameter, a field of the pipeline's, and facts about itself."""

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
    """A class that is not a dataclass."""

    def __init__(self, *, edge=1):
        self.edge = edge


KINDS = {"wide": Wide, "narrow": Narrow}


def create(form):
    return from_config("road", form, KINDS, lambda one: hasattr(one, "width"))


def test_a_name_a_mapping_and_an_object():
    """A name has the defaults, a mapping its parameters, an object stays itself."""
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
        (7, "road is 7; expected one of wide, narrow, a mapping"),
        (None, "road is None; expected one of wide, narrow, a mapping"),
        (Wide, "road is <class .*Wide'>; expected one of wide, narrow"),
        ({"type": "wide", "widht": 3}, r"no parameter 'widht'; did you mean 'width'\? expected width, names"),
        ({"type": "wide", "told": "x"}, "no parameter 'told'"),
        ({"type": "wide", "made": False}, "no parameter 'made'"),
        ({"type": "wide", 3: 4}, "no parameter '3'"),
        ({"type": "narrow", "width": 3}, "no parameter 'width'; expected edge"),
        ({"type": "wide", "width": "3"}, "road 'wide' cannot use {'width': '3'}"),
        ({"type": "wide", "names": "ab"}, "road 'wide' cannot use {'names': 'ab'}"),
        ({"type": "wide", "width": 0}, "^width is from 1$"),
    ],
)
def test_a_form_that_says_nothing(form, message):
    """The error has the setting, what was given, what is near and what there is."""
    with pytest.raises(ConfigurationError, match=message):
        create(form)


def test_parameters_are_those_that_a_file_may_give():
    """No class variables, no fields that are set later or elsewhere."""
    assert parameters_of(Wide) == ["width", "names"]
    assert parameters_of(Narrow) == ["edge"]


def test_naming_makes_nothing():
    """Name and parameters can be looked at before an object is made, which may take a model."""
    assert parse_config("road", {"type": "wide", "width": 0}, KINDS) == ("wide", {"width": 0})


def test_the_form_of_an_object():
    """It has every parameter, with sets as sorted lists; what is of no kind has none."""
    assert to_config("road", Wide(4, frozenset("ba")), KINDS) == {"type": "wide", "width": 4, "names": ["a", "b"]}
    with pytest.raises(
        ConfigurationError, match="road 3 cannot be written as a mapping; only objects of wide, narrow can"
    ):
        to_config("road", 3, KINDS)
