import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph import HybridGraphStore, SimilarityEdges, ingest
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from tests.support.stores.memory_store import MemoryStore
from tests.support.stores.store_contents import all_edges, changes, memory, pairs, vector_text


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
    chunks = [at(f"c{n:03}", 30) for n in reversed(range(200))]
    edges = alike(memory(), chunks, k=2)
    assert {target for source, target in edges if source == "c150"} == {"c000", "c001"}
    assert {target for source, target in edges if source == "c000"} == {"c001", "c002"}
    assert len(edges) == 400


grid = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 17).map(lambda n: 10 * n), min_size=1)


@given(st.lists(grid, min_size=1, max_size=4), st.integers(1, 3))
def test_one_by_one_equals_at_once(batches, k):
    """Documents that are added and changed one by one get the same edges as in one ingest of all.

    A neighbour that was displaced by another one returns when that one moves away.
    """
    store, whole, last = memory(), memory(), {}
    for batch in batches:
        alike(store, [at(id, degrees) for id, degrees in batch.items()], k=k)
        last.update(batch)
    alike(whole, [at(id, degrees) for id, degrees in last.items()], k=k)
    assert all_edges(store) == all_edges(whole)


def test_an_unchanged_ingest_writes_nothing():
    """Ingesting all or some unchanged documents again changes no row of the catalog."""
    vectors = np.random.default_rng(1).normal(size=(60, 3))
    chunks = [Chunk(f"c{n}", vector_text(vector), {}, f"d{n % 30}") for n, vector in enumerate(vectors)]
    store = memory()
    alike(store, chunks)
    before = changes(store)
    alike(store, chunks)
    alike(store, [*chunks[:7], *chunks[30:37]])
    assert changes(store) == before


def test_refitting_a_model_updates_all_edges():
    """After LSA is fitted again, the edges of all documents are those of its new vectors."""
    words = ["cat purr sofa", "cat purr milk", "dog bark yard", "dog bark bone", "rust code test", "rust code lint"]
    more = [
        "sofa yard code",
        "milk bone test",
        "cat dog rust",
        "lint sofa bone",
        "purr bark code",
        "yard milk lint",
    ] * 2
    chunks = [Chunk(f"c{n:02}", f"{text} {n}", {}, f"c{n:02}") for n, text in enumerate([*words, *more])]
    store, whole = HybridGraphStore(None, "lsa"), HybridGraphStore(None, "lsa")
    alike(store, chunks[: len(words)], threshold=0.2)
    first = all_edges(store)
    alike(store, chunks[len(words) :], threshold=0.2)
    alike(whole, chunks, threshold=0.2)
    assert first
    assert all_edges(store) == all_edges(whole)


def test_unusable_settings():
    """An invalid k or threshold and a store without vectors raise ConfigurationError, and no chunk is written."""
    for wrong in ({"k": 0}, {"threshold": 0}, {"threshold": 1.1}):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            SimilarityEdges(**wrong)
    store = MemoryStore()
    with pytest.raises(ConfigurationError, match="MemoryStore"):
        ingest([at("a", 0)], store, split=None, edges=["similarity"])
    assert store.chunks == {}
