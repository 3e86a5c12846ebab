"""Keys of nested metadata."""

from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.filters.operators import join_key, split_key


@given(st.lists(st.text(alphabet="ab.\\$", max_size=4), min_size=1, max_size=3).map(tuple))
def test_split_key_inverts_join_key(path):
    """Splitting a joined key returns the same names, including dots, backslashes and dollar signs."""
    assert split_key(join_key(path)) == path
    assert not join_key(path).startswith("$")
