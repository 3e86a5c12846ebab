"""Edges from metadata (shared values, the order of chunks, directories) and from similar vectors; builders by name."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph import HybridGraphStore, MetadataEdges, SimilarityEdges, ingest
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingestion.edges.base import HierarchyEdges, SequenceEdges, as_builders
from langchain_hybridgraph.ingestion.edges.entities import EntityEdges
from langchain_hybridgraph.ingestion.edges.links import LinkEdges
from tests.support.samples.edge_documents import page, stored
from tests.support.stores.memory_store import MemoryStore
from tests.support.stores.store_contents import all_edges, memory, pairs, vector_text


def chunk(id, document=None, **metadata):
    return Chunk(id, "1 0 | text", metadata, document or id)


def edges_of(store, chunks, keys=("author",), **options):
    ingest(chunks, store, split=None, edges=[MetadataEdges(keys, **options)])
    return store


def test_equal_values_join_both_ways():
    """Two documents with the same author are connected in both directions, and the description names the author."""
    authors = {"a": "Ada Lovelace", "b": "Ada Lovelace", "c": "X"}
    store = edges_of(memory(), [chunk(id, author=author) for id, author in authors.items()])
    assert pairs(store) == {("a", "b"), ("b", "a")}
    edge = all_edges(store)["a", "b", "shares"]
    assert (edge.weight, edge.description) == (0.5, "Both have author Ada Lovelace.")


def test_list_values_match_by_any_element():
    """A value matches an element of a list, and two lists match if they have a common element."""
    lists = [chunk("a", labels=["x", "y"]), chunk("b", labels="x"), chunk("c", labels=["y", "z"])]
    assert pairs(edges_of(memory(), lists, ["labels"])) == {("a", "b"), ("b", "a"), ("a", "c"), ("c", "a")}


def test_chunks_of_one_document_are_not_joined():
    """Every chunk of a document has an edge to the other document's first chunk, and none to its own document."""
    chunks = [chunk(f"{d}{n}", d, author="Ada", chunk_index=n) for d in "ab" for n in (1, 0)]
    assert pairs(edges_of(memory(), chunks)) == {("a0", "b0"), ("a1", "b0"), ("b0", "a0"), ("b1", "a0")}


def test_values_are_compared_as_in_filters():
    """The values 1 and 1.0 are equal but not true; missing, null and empty values, objects and NaN match nothing."""
    values = [1, 1.0, True, None, None, "", "", {"x": 1}, {"x": 1}, float("nan"), float("nan")]
    chunks = [chunk(f"c{n:02}", v=value) for n, value in enumerate(values)]
    assert pairs(edges_of(memory(), [*chunks, chunk("d"), chunk("e")], ["v"])) == {("c00", "c01"), ("c01", "c00")}


def test_a_common_value_stays_linear():
    """A value in 50 documents gives each of them 4 edges in a connected graph; a value in 5 connects all of them."""
    store = edges_of(memory(), [chunk(f"{n:02}", author="Ada") for n in range(50)])
    graph = nx.DiGraph(list(pairs(store)))
    assert set(dict(graph.out_degree()).values()) == {4}
    assert nx.is_strongly_connected(graph)
    assert len(pairs(edges_of(memory(), [chunk(str(n), author="Ada") for n in range(5)]))) == 20


def test_several_common_values_weigh_more():
    """Two common values of weight .5 give an edge of weight .75, whose description names both."""
    store = edges_of(memory(), [chunk(id, author="Ada", year=1843) for id in "ab"], ["author", "year"])
    edge = all_edges(store)["a", "b", "shares"]
    assert (edge.weight, edge.description) == (0.75, "Both have author Ada and year 1843.")


values = st.lists(st.sampled_from(["x", "y", "z"]), max_size=2, unique=True)
documents = st.dictionaries(st.sampled_from("abcdefghij"), values, min_size=1)


@given(st.lists(documents, min_size=1, max_size=4), st.integers(1, 4))
def test_one_by_one_equals_at_once(batches, n):
    """Documents that are added and changed in several ingests get the same edges as in one ingest of their final
    state.
    """
    store, whole, last = memory(), memory(), {}
    for batch in batches:
        edges_of(store, [chunk(id, v=values) for id, values in batch.items()], ["v"], per_value=n)
        last.update(batch)
    edges_of(whole, [chunk(id, v=values) for id, values in last.items()], ["v"], per_value=n)
    assert all_edges(store) == all_edges(whole)


@pytest.mark.parametrize("wrong", [{"keys": []}, {"keys": ["a"], "per_value": 0}, {"keys": ["a"], "weight": 0}])
def test_unusable_settings(wrong):
    """Missing keys, a per_value of 0 or a weight of 0 raise ConfigurationError."""
    with pytest.raises(ConfigurationError, match=list(wrong)[-1].rstrip("s")):
        MetadataEdges(**wrong)


def sequence(*chunks):
    return list(stored(chunks, [SequenceEdges()]).edges.values())


def test_pin_neighbours_of_the_same_parent():
    """Chunks 0 and 1 of one parent and 2 and 3 of another give only the edges 0→1 and 2→3, with weight 1."""
    parents = ("p1", "p1", "p2", "p2")
    edges = sequence(*(Chunk(str(n), "text", {"chunk_index": n}, "d", parent) for n, parent in enumerate(parents)))
    expected = [("0", "1", "sequence", 1.0), ("2", "3", "sequence", 1.0)]
    assert [(e.source, e.target, e.relation, e.weight) for e in edges] == expected


def test_chunk_index_determines_the_order():
    """The order of a document's chunks is their chunk_index, not the order of ingestion."""
    edges = sequence(*(Chunk(id, "t", {"chunk_index": n}, "d") for id, n in (("b", 1), ("a", 0), ("c", 2))))
    assert {(e.source, e.target) for e in edges} == {("a", "b"), ("b", "c")}


@pytest.mark.parametrize(
    ("indexes", "metadata", "description"),
    [
        ((3, 2), {"title": "The guide"}, "In “The guide”, part 4 follows part 3."),
        ((0, 7), {}, "In “guide.md”, part 8 follows part 1."),
        ((None, None), {}, "In “guide.md”, part 2 follows part 1."),
    ],
)
def test_an_edge_names_the_document_and_the_positions(indexes, metadata, description):
    """The description of an edge has the document's title or id and both positions, counted from 1."""
    own = [metadata | ({} if index is None else {"chunk_index": index}) for index in indexes]
    edges = sequence(*(Chunk(str(n), "text", each, "guide.md") for n, each in enumerate(own)))
    assert [edge.description for edge in edges] == [description]


def contains(*documents, store=None, **options):
    return stored(documents, [HierarchyEdges()], store, **options).links("contains")


def test_directories_contain_files_and_directories():
    """A directory has edges to its documents and subdirectories; the top directory has no parent."""
    assert contains(page("x", "docs/guide/a.md"), page("x", "docs/b.md"), page("x", "c.md")) == {
        ("docs", "docs/guide"),
        ("docs/guide", "docs/guide/a.md#0"),
        ("docs", "docs/b.md#0"),
    }


def test_a_document_can_be_a_directory():
    """A document whose uri is a directory replaces the directory's node, even if it is ingested last."""
    package = page("package", "f1", uri="python://asyncio")
    method = page("method", "f2", uri="python://asyncio/Queue/put")
    assert contains(method, package) == {("f1#0", "python://asyncio/Queue"), ("python://asyncio/Queue", "f2#0")}


def test_directories_of_earlier_ingests():
    """A directory from an earlier ingest is found if its document's id is its uri."""
    store = stored([page("package", "p", uri="p")], [HierarchyEdges()])
    assert contains(page("x", "p/a", uri="p/a"), store=store) == {("p#0", "p/a#0")}
    assert contains(page("x", "q", uri="q/r")) == set()  # q represents its directory


# -- similarity -------------------------------------------------------------------------------------------------------


def at(id, degrees, document=None):
    """Return a chunk with a unit vector at this angle."""
    angle = np.radians(degrees)
    return Chunk(id, vector_text([np.cos(angle), np.sin(angle)], id), {}, document or id)


def alike(store, chunks, **options):
    ingest(chunks, store, split=None, edges=[SimilarityEdges(**options)])
    return pairs(store)


def brute_force(chunks, k, threshold):
    """Return the expected edges by definition: sort the chunks of other documents by cosine, then id."""
    vectors = np.array([[float(number) for number in chunk.text.partition("|")[0].split()] for chunk in chunks])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = {}
    for i, one in enumerate(chunks):
        others = [j for j, other in enumerate(chunks) if other.document != one.document]
        near = [(-round(float(vectors[i] @ vectors[j]), 6), chunks[j].id) for j in others]
        expected.update({(one.id, id): -cosine for cosine, id in sorted(near)[:k] if -cosine >= threshold})
    return expected


@pytest.mark.parametrize(("k", "threshold"), [(5, 0.3), (1, 0.5), (30, 0.01)])
def test_against_brute_force(k, threshold):
    """Edges and weights of 300 random vectors in 100 documents equal those of a brute-force computation."""
    vectors = np.random.default_rng(7).normal(size=(300, 12)).astype(np.float32)
    chunks = [Chunk(f"c{n:03}", vector_text(vector), {}, f"d{n % 100}") for n, vector in enumerate(vectors)]
    store = memory()
    alike(store, chunks, k=k, threshold=threshold)
    actual = {(source, target): edge.weight for (source, target, _), edge in all_edges(store).items()}
    assert actual == pytest.approx(brute_force(chunks, k, threshold), abs=2e-6)
    assert len(actual) > 100
    for edge in all_edges(store).values():
        assert edge.description == f"Their texts are alike, with a cosine of {edge.weight:.2f}."


def test_ties_are_broken_by_id():
    """Among two hundred equal chunks, the neighbours of each are the first two others by id."""
    edges = alike(memory(), [at(f"c{n:03}", 30) for n in reversed(range(200))], k=2)
    assert {target for source, target in edges if source == "c150"} == {"c000", "c001"}
    assert {target for source, target in edges if source == "c000"} == {"c001", "c002"}
    assert len(edges) == 400


grid = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 17).map(lambda n: 10 * n), min_size=1)


@given(st.lists(grid, min_size=1, max_size=4), st.integers(1, 3))
def test_similar_chunks_one_by_one(batches, k):
    """Documents that are added and changed one by one get the same edges as in one ingest of all.

    A neighbour that was displaced by another one returns when that one moves away.
    """
    store, whole, last = memory(), memory(), {}
    for batch in batches:
        alike(store, [at(id, degrees) for id, degrees in batch.items()], k=k)
        last.update(batch)
    alike(whole, [at(id, degrees) for id, degrees in last.items()], k=k)
    assert all_edges(store) == all_edges(whole)


def test_refitting_a_model_updates_all_edges():
    """After LSA is fitted again, the edges of all documents are those of its new vectors."""
    words = ["cat purr sofa", "cat purr milk", "dog bark yard", "dog bark bone", "moon star night", "moon star sky"]
    more = 2 * ["sofa yard code", "milk bone test", "cat dog rust", "lint sofa bone", "bark purr", "yard milk lint"]
    chunks = [Chunk(f"c{n:02}", f"{text} {n}", {}, f"c{n:02}") for n, text in enumerate([*words, *more])]
    store, whole = HybridGraphStore(None, "lsa"), HybridGraphStore(None, "lsa")
    alike(store, chunks[: len(words)], threshold=0.2)
    first = all_edges(store)
    alike(store, chunks[len(words) :], threshold=0.2)
    alike(whole, chunks, threshold=0.2)
    assert first
    assert all_edges(store) == all_edges(whole)


def test_unusable_settings_of_similarity():
    """An invalid k or threshold and a store without vectors raise ConfigurationError, and no chunk is written."""
    for wrong in ({"k": 0}, {"threshold": 0}, {"threshold": 1.1}):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            SimilarityEdges(**wrong)
    store = MemoryStore()
    with pytest.raises(ConfigurationError, match="MemoryStore"):
        ingest([at("a", 0)], store, split=None, edges=["similarity"])
    assert store.chunks == {}


# -- builders by name -------------------------------------------------------------------------------------------------


def test_auto_is_what_needs_no_setting():
    """The value "auto" gives the four builders that need no settings, and None gives no builders."""
    assert [type(builder) for builder in as_builders("auto")] == [SequenceEdges, LinkEdges, HierarchyEdges, EntityEdges]
    assert as_builders(None) == []


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
