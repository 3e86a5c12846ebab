"""Names of embeddings, and errors for invalid ones."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings

from langchain_hybridgraph.embeddings import LSAEmbeddings, OnnxMiniLMEmbeddings, embedding_name, resolve_embedding
from langchain_hybridgraph.errors import ConfigurationError


class NamedEmbeddings(Embeddings):
    """Embedding of an integration, with arbitrary attributes."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def embed_documents(self, texts):
        return [[1.0] for _ in texts]

    def embed_query(self, text):
        return [1.0]


def broken():
    raise RuntimeError("no key")


@pytest.fixture(autouse=True)
def mine(monkeypatch):
    """Provide a user's module with embeddings and factories."""
    module = ModuleType("mine")
    module.make, module.NamedEmbeddings, module.broken = NamedEmbeddings, NamedEmbeddings, broken
    module.inner = SimpleNamespace(make=NamedEmbeddings)
    monkeypatch.setitem(sys.modules, "mine", module)


def test_names_and_objects():
    """A factory, which gets the options, can be a function, a class or an attribute; an object is not changed."""
    for spec in ("mine:make", "mine:NamedEmbeddings", "mine:inner.make"):
        assert resolve_embedding(spec, model="m").model == "m"
    assert repr(resolve_embedding("lsa", language="french")) == "LSAEmbeddings(language='french', not fitted)"
    embedding = DeterministicFakeEmbedding(size=4)
    assert resolve_embedding(embedding) is embedding
    with pytest.raises(ConfigurationError, match="size"):
        resolve_embedding(embedding, size=4)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("word2vec", "expected"),
        ("openai", 'HybridGraphStore(path, "langchain_openai:OpenAIEmbeddings")'),
        ("LSA", "expected"),
        (":make", "expected"),
        (None, "NoneType"),
        (NamedEmbeddings, "expected"),
        ("no_such_module:make", "no_such_module"),
        ("mine:no_such_name", "no_such_name"),
        ("mine..x:make", "mine"),
        ("mine:broken", "RuntimeError: no key"),
        ("builtins:dict", "dict"),
    ],
)
def test_the_error_of_an_invalid_embedding_names_it_and_the_cause(spec, message):
    """The error for an invalid embedding contains its specification and the cause."""
    with pytest.raises(ConfigurationError) as caught:
        resolve_embedding(spec)
    assert repr(spec) in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("spec", ["lsa", "minilm", "mine:broken"])
def test_unknown_options_are_named(spec):
    """The error for an unknown option contains its name."""
    with pytest.raises(ConfigurationError, match="'colour'"):
        resolve_embedding(spec, colour="red")


@pytest.mark.parametrize(
    ("embedding", "name"),
    [
        (LSAEmbeddings(), "lsa"),
        (OnnxMiniLMEmbeddings(), "minilm"),
        (NamedEmbeddings(), f"{__name__}.NamedEmbeddings"),
        (NamedEmbeddings(model="text-embedding-3-small"), f"{__name__}.NamedEmbeddings/text-embedding-3-small"),
        (NamedEmbeddings(model=object(), model_name="all-mpnet"), f"{__name__}.NamedEmbeddings/all-mpnet"),
        (NamedEmbeddings(deployment="prod"), f"{__name__}.NamedEmbeddings/prod"),
        (NamedEmbeddings(underlying_embeddings=NamedEmbeddings(model="m")), f"{__name__}.NamedEmbeddings/m"),
        (DeterministicFakeEmbedding(size=4), "langchain_core.embeddings.fake.DeterministicFakeEmbedding"),
    ],
    ids=["lsa", "minilm", "bare", "model", "model_name", "deployment", "cached", "fake"],
)
def test_a_name_identifies_the_model(embedding, name):
    """The name of an embedding is its class and model, from any of the usual attributes; a cache has its inner
    embedding's name.
    """
    assert embedding_name(embedding) == name
