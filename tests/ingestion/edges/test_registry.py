"""Edge builders by name."""

import pytest

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingestion.edges.base import EdgeBuilder, as_builders
from langchain_hybridgraph.ingestion.edges.entities import EntityEdges
from langchain_hybridgraph.ingestion.edges.links import LinkEdges
from langchain_hybridgraph.ingestion.edges.metadata import HierarchyEdges, SequenceEdges


def test_auto_is_what_needs_no_setting():
    """The value "auto" gives the four builders that need no settings, and None gives no builders."""
    assert [type(builder) for builder in as_builders("auto")] == [
        SequenceEdges,
        LinkEdges,
        HierarchyEdges,
        EntityEdges,
    ]
    assert as_builders(None) == []
    assert all(isinstance(builder, EdgeBuilder) for builder in as_builders("auto"))


def test_builders_by_name_and_mapping():
    """A builder can be given by its name or by a mapping with its type and parameters, alone or in a list with
    "auto".
    """
    assert [type(builder) for builder in as_builders("links")] == [LinkEdges]
    assert as_builders([{"type": "links", "relation": "cites"}])[0].relations == ("cites",)
    assert as_builders({"type": "metadata", "keys": ["author"]})[0].relations == ("shares",)
    builders = as_builders(["auto", "similarity", {"type": "citations", "field": "refs"}])
    assert [builder.relations for builder in builders[:-2]] == [builder.relations for builder in as_builders("auto")]
    assert [builder.relations for builder in builders[-2:]] == [("similar_to",), ("cites",)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([{"type": "similarity", "neighbours": 3}], "neighbours"),
        ([{"type": "similarity", "k": 0}], "k must be"),
        (["metadata"], "keys"),
        ("llm", "llm"),
        *((wrong, r"SequenceEdges\(") for wrong in ("all", [SequenceEdges], [1], 3)),
        (["auto", "sequence"], "both write 'sequence'"),
        ("autoo", "did you mean 'auto'.*'auto', None, one of"),
        (["entitis"], "did you mean 'entities'"),
        ([{"type": "similarity", "kk": 3}], "no parameter 'kk'; did you mean 'k'.*k, threshold"),
    ],
)
def test_a_mapping_that_makes_no_builder(wrong, message):
    """Invalid builders raise ConfigurationError, which names the mistake and, where possible, suggests a correction."""
    with pytest.raises(ConfigurationError, match=message):
        as_builders(wrong)
