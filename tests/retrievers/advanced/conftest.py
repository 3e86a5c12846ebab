"""Fixtures: a store of texts about cars and a retriever over it."""

import pytest

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from tests.support.samples.cars import TEXTS


@pytest.fixture(scope="module")
def store():
    numbers = [{"n": n} for n in range(len(TEXTS))]
    with HybridGraphStore.from_texts(list(TEXTS.values()), "lsa", numbers, ids=list(TEXTS)) as vector_store:
        yield vector_store


@pytest.fixture(scope="module")
def hybrid(store):
    return HybridRetriever(store)
