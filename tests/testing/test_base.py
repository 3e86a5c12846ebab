"""StoreSuite skips tests of features that a store declares as missing and runs all others."""

import pytest

from langchain_hybridgraph.stores.graph import InMemoryGraph
from langchain_hybridgraph.testing import StoreSuite


def test_a_declared_lack_skips_with_its_reason():
    """The skip message contains the store, the missing feature and the reason."""
    store = InMemoryGraph()
    store.lacks = {"tenants": "It has edges only."}
    with pytest.raises(pytest.skip.Exception, match=r"InMemoryGraph lacks tenants: It has edges only\."):
        StoreSuite()._require("tenants", store)


def test_a_feature_that_is_not_declared_is_tested():
    """A store without declarations is expected to have every feature."""
    store = InMemoryGraph()
    assert StoreSuite()._require("tenants", store) is store
