"""Tests of the methods that LangChain calls on a store."""

import pytest

from langchain_hybridgraph import HybridGraphStore


@pytest.mark.parametrize("call", ["delete", "get_by_ids"])
def test_a_single_string_is_not_a_list_of_ids(call):
    """A string passed for a list of ids is refused, because its letters could be ids of other texts."""
    with HybridGraphStore.from_texts(["one", "two", "three"], ids=["a", "b", "ab"]) as store:
        with pytest.raises(TypeError, match=r"write ids=\['ab'\]"):
            getattr(store, call)("ab")
        assert len(store) == 3
