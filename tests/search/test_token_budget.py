import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import Hit
from langchain_hybridgraph.search.context import TokenBudget


def hit(id, text):
    return Hit(Chunk(id, text), 0.5, "vector", {"vector": 0.5})


def words(**counts):
    return [hit(id, "word " * n) for id, n in counts.items()]


def ids(hits):
    return "".join(one.id for one in hits)


def length(text):
    return len(text)


sizes = st.lists(st.integers(0, 50), max_size=10)


def test_smaller_hits_fill_the_rest():
    """A smaller hit is kept after one that does not fit: with 13 of 30 tokens used, 26 more do not fit, but 1 more
    does.
    """
    assert TokenBudget(30).fit(words(a=10, b=20, c=1)) == (words(a=10, c=1), [])


def test_the_first_is_kept_whatever_its_size():
    """A first hit that exceeds the budget is kept alone and reported."""
    fitting, reasons = TokenBudget(5).fit([*words(a=10), hit("b", "")])
    assert (ids(fitting), reasons) == ("a", ["single-chunk-exceeds-budget"])


@given(sizes, st.integers(1, 100), st.booleans())
def test_no_more_than_the_budget(sizes, most, fill):
    """The hits together stay within the budget unless the first one alone exceeds it."""
    hits = [hit(str(i), "x" * size) for i, size in enumerate(sizes)]
    fitting, reasons = TokenBudget(most, counter=length, fill=fill).fit(hits)
    total = sum(len(one.chunk.text) for one in fitting)
    assert total <= most or (len(fitting) == 1 and reasons == ["single-chunk-exceeds-budget"])
    assert fitting == [one for one in hits if one in fitting]
    assert fitting[:1] == hits[:1]


@given(sizes, st.integers(1, 100))
def test_filling_only_adds(sizes, most):
    """The hits kept without filling are the first of those kept with filling."""
    hits = [hit(str(i), "x" * size) for i, size in enumerate(sizes)]
    strict, _ = TokenBudget(most, counter=length, fill=False).fit(hits)
    with_fill, _ = TokenBudget(most, counter=length).fit(hits)
    assert with_fill[: len(strict)] == strict


@pytest.mark.parametrize("most", [0, -1])
def test_a_budget_below_1_is_refused(most):
    """A budget below 1 raises ConfigurationError at construction."""
    with pytest.raises(ConfigurationError, match="max_tokens"):
        TokenBudget(most)
