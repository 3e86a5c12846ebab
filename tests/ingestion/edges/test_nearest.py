import numpy as np

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.ingestion.edges import similarity
from langchain_hybridgraph.ingestion.edges.similarity import ChunkVectors
from tests.support.stores.store_contents import memory, vector_text


def neighbours_of(vectors, document=str):
    store = memory()
    store.upsert([Chunk(f"c{n:03}", vector_text(vector), {}, document(n)) for n, vector in enumerate(vectors)])
    store.flush()
    return store


def test_chunks_without_a_vector_are_left_out():
    """Parents and chunks with a zero vector have no neighbours and are not neighbours."""
    store = memory()
    chunks = [Chunk("a", "1 0 | a", {}, "a", "p"), Chunk("b", "0 0 | b", {}, "b"), Chunk("c", "1 1 | c", {}, "c")]
    store.upsert(chunks, parents=[Chunk("p", "1 0 | p", {}, "a")])
    store.flush()
    assert ChunkVectors(store).ids == ["a", "c"]


def test_the_size_of_blocks_does_not_matter(monkeypatch):
    """The neighbours do not depend on the number of rows per block."""
    vectors = np.random.default_rng(3).normal(size=(40, 5))
    around = ChunkVectors(neighbours_of(vectors, lambda n: str(n % 20)))
    whole = list(around.nearest(range(40), 4, 0.1)), around.reach([1, 5, 9]).tolist()
    monkeypatch.setattr(similarity, "_BLOCK", 1)
    assert list(around.nearest(range(40), 4, 0.1)) == whole[0]
    assert np.allclose(around.reach([1, 5, 9]), whole[1], atol=1e-6)


def test_a_cosine_is_the_same_both_ways():
    """The cosine of a pair is the same from either end."""
    vectors = np.random.default_rng(5).normal(size=(30, 384))
    around = ChunkVectors(neighbours_of(vectors))
    cosines = {(place, other): cosine for place, near in around.nearest(range(30), 29, 0.001) for other, cosine in near}
    assert all(cosines[other, place] == cosine for (place, other), cosine in cosines.items())
    assert around.cosines(list(cosines)) == list(cosines.values())
