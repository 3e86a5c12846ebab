"""Invalid values of every option: each error has the expected values, the value passed and a fix."""

import re

import pytest
from pydantic import ValidationError

from langchain_hybridgraph import GraphRetriever, HybridRetriever
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.options.base import bounds_of, groups_of, is_number
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from tests.support.samples.retrievers import STORE_RETRIEVERS

# LangChain's own options, the first argument, and options that take any object.
NOT_TESTED = {"name", "tags", "metadata", "vector_store", "session"}


def options():
    """Yield each option of each retriever once: the retriever, the group or None, the name and the field."""
    names = set()
    for kind in STORE_RETRIEVERS:
        own = [(kind, None, name, field) for name, field in kind.model_fields.items()]
        grouped = [
            (kind, group, name, field)
            for group, each in groups_of(kind).items()
            for name, field in each.model_fields.items()
        ]
        for option in (*own, *grouped):
            if option[1:3] not in names and option[2] not in NOT_TESTED:
                names.add(option[1:3])
                yield option


OPTIONS = list(options())
NUMBERS = [option for option in OPTIONS if is_number(option[3].annotation)]
assert len(NUMBERS) > 15


def identify(option):
    """Return the name of an option with its group, to identify a test."""
    return f"{option[1]}.{option[2]}" if option[1] else option[2]


def out_of_range(field):
    """Return an invalid number next to each bound of a field."""
    bounds = bounds_of(field.metadata)
    steps = {"ge": -1, "gt": 0, "le": 1, "lt": 0}
    return [bound + steps[name] for name, bound in bounds.items()]


def message_of(store, option, value):
    """Return the message of the error for a value of an option."""
    kind, group, name, _ = option
    with pytest.raises(ValidationError) as error:
        kind(store, **({group: {name: value}} if group else {name: value}))
    return error.value.errors()[0]["msg"]


@pytest.mark.parametrize("option", NUMBERS, ids=identify)
def test_numbers_out_of_range(store, option):
    """The error for a number out of range has the option, the range and the number."""
    for value in out_of_range(option[3]):
        assert re.match(
            rf"{option[2]} must be (an integer|a number) (≥|>|from) .*, got {value}", message_of(store, option, value)
        )


@pytest.mark.parametrize("option", NUMBERS, ids=identify)
@pytest.mark.parametrize("value", ["many", "3", True, [1]], ids=repr)
def test_other_values_than_numbers(store, option, value):
    """Strings and bools are not converted to numbers."""
    message = message_of(store, option, value)
    assert re.match(rf"{option[2]} must be (an integer|a number) .*, got {re.escape(repr(value))}", message)


@pytest.mark.parametrize("option", [o for o in OPTIONS if o not in NUMBERS], ids=identify)
def test_an_object_that_no_option_takes(store, option):
    """The error for an object of an unknown type names the option and the object, without Pydantic's wording."""
    message = message_of(store, option, type("Unknown", (), {"__repr__": lambda self: "<unknown>"})())
    assert option[2] in message
    assert "<unknown>" in message
    assert not re.search("Input should|Value error", message)


@pytest.mark.parametrize("option", NUMBERS, ids=identify)
def test_calls_reject_what_constructors_reject(store, option):
    """An invalid value in a call raises ConfigurationError, and an option that calls do not accept raises TypeError."""
    kind, group, name, field = option
    value = out_of_range(field)[0]
    retriever = kind(store)
    call_options = {group: {name: value}} if group else {name: value}
    if (group or name) in {*retriever._call_options, "k"}:
        with pytest.raises(ConfigurationError, match=re.escape(message_of(store, option, value))):
            retriever.retrieve("cat", **call_options)
    else:
        with pytest.raises(TypeError, match=f"does not take {group or name} per call"):
            retriever.retrieve("cat", **call_options)


@pytest.mark.parametrize("k", [-1, "3", True, 2.5])
def test_k_of_an_advanced_retriever(store, k):
    """The constructor and calls of AdvancedRetriever reject the same values of k."""
    expected = re.escape(f"k must be an integer ≥ 0, got {k!r}")
    with pytest.raises(ValidationError, match=expected):
        AdvancedRetriever(HybridRetriever(store), k=k)
    with pytest.raises(ConfigurationError, match=expected):
        AdvancedRetriever(HybridRetriever(store)).retrieve("cat", k=k)


@pytest.mark.parametrize(("name", "value"), [("k", -1), ("on_error", "ignore"), ("selection", {"overfetch": 0})])
def test_assignments_reject_what_constructors_reject(store, name, value):
    """Assigning an invalid value raises the constructor's error and leaves the retriever unchanged."""
    with pytest.raises(ValidationError) as constructed:
        HybridRetriever(store, **{name: value})
    retriever = HybridRetriever(store)
    before = getattr(retriever, name)
    with pytest.raises(ValidationError) as assigned:
        setattr(retriever, name, value)
    assert assigned.value.errors()[0]["msg"] == constructed.value.errors()[0]["msg"]
    assert getattr(retriever, name) == before


def test_several_wrong_options_are_reported_together(store):
    """One error has a line for each invalid option, also in groups and for groups themselves."""
    with pytest.raises(ValidationError) as error:
        GraphRetriever(store, k=-1, min_score=2, graph={"seed_k": 0, "slots": -1}, selection=3)
    wrong = {problem["loc"]: problem["msg"] for problem in error.value.errors()}
    assert wrong.keys() == {("k",), ("min_score",), ("graph", "seed_k"), ("graph", "slots"), ("selection",)}
    assert "selection: expected SelectionOptions or a mapping of its options, got 3" in wrong["selection",]
