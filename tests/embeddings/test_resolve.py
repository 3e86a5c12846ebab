"""Names of embeddings, and errors for invalid ones."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings

from langchain_hybridgraph.embeddings import (
    LSAEmbeddings,
    OnnxMiniLMEmbeddings,
    choose_embedding,
    embedding_name,
    resolve_embedding,
)
from langchain_hybridgraph.errors import ConfigurationError


class NamedEmbeddings(Embeddings):
    """An embedding as an integration has it: any attributes."""

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
    """A module of the user's."""
    module = ModuleType("mine")
    module.make, module.NamedEmbeddings, module.broken, module.nothing = (
        NamedEmbeddings,
        NamedEmbeddings,
        broken,
        lambda: None,
    )
    module.model, module.inner = NamedEmbeddings(), SimpleNamespace(make=NamedEmbeddings)
    monkeypatch.setitem(sys.modules, "mine", module)


def test_an_object_is_taken_as_it_is():
    """An Embeddings object comes back itself."""
    embedding = DeterministicFakeEmbedding(size=4)
    assert resolve_embedding(embedding) is embedding


def test_lsa_gets_the_language():
    """ "lsa" is unfitted and in the language of the index."""
    embedding = resolve_embedding("lsa", language="french")
    assert isinstance(embedding, LSAEmbeddings)
    assert (embedding.language, embedding.fitted) == ("french", False)


def test_minilm_is_made_without_loading():
    """ "minilm" costs nothing until it is used."""
    assert isinstance(resolve_embedding("minilm"), OnnxMiniLMEmbeddings)


@pytest.mark.parametrize("spec", ["mine:make", "mine:NamedEmbeddings", "mine:inner.make"])
def test_a_factory_is_imported_and_called(spec):
    """A function or a class, directly in the module or inside something there."""
    assert isinstance(resolve_embedding(spec), NamedEmbeddings)


def test_options_go_to_the_factory():
    """Keyword options are the factory's, our own two included."""
    assert resolve_embedding("mine:make", model="m").model == "m"
    assert resolve_embedding("minilm", batch_size=4).batch_size == 4
    assert resolve_embedding("lsa", max_words=7).max_words == 7


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("word2vec", "expected"),
        ("", "expected"),
        ("LSA", "expected"),
        ("mine:", "expected"),
        (":make", "expected"),
        (None, "NoneType"),
        (7, "int"),
        (NamedEmbeddings, "expected"),
        ("no_such_module:make", "no_such_module"),
        ("mine:no_such_name", "no_such_name"),
        ("mine:inner.no_such_name", "no_such_name"),
        ("mine..x:make", "mine"),
        (".mine:make", "mine"),
        ("mine:model", "Named"),
        ("mine:broken", "RuntimeError: no key"),
        ("mine:nothing", "NoneType"),
        ("builtins:dict", "dict"),
    ],
)
def test_the_error_names_the_given_and_the_expected(spec, message):
    """The error holds the spec and the cause."""
    with pytest.raises(ConfigurationError) as caught:
        resolve_embedding(spec)
    assert repr(spec) in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("spec", ["lsa", "minilm", "mine:broken"])
def test_options_that_nobody_takes_are_named(spec):
    """The error for a misspelt option contains its value."""
    with pytest.raises(ConfigurationError, match="colour='red'"):
        resolve_embedding(spec, colour="red")


def test_options_for_an_object_are_refused():
    """An object is made already, so options would be lost."""
    with pytest.raises(ConfigurationError, match="batch_size"):
        resolve_embedding(NamedEmbeddings(), batch_size=4)


@pytest.mark.parametrize("spec", ["lsa", "minilm", "mine:make"])
def test_a_requested_name_stays(spec):
    """The sentence begins with the name, and asks nobody."""
    name, why = choose_embedding(spec)
    assert name == spec
    assert why.startswith(f"{spec}: ")
    assert why.endswith("as requested")


def test_a_wrong_name_is_refused_before_anything_is_made():
    """An invalid name is an error of choosing."""
    with pytest.raises(ConfigurationError, match="word2vec"):
        choose_embedding("word2vec")


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
def test_a_name_says_which_model(embedding, name):
    """Class and model, whichever attribute holds it; a cache has the name of what is behind it."""
    assert embedding_name(embedding) == name
