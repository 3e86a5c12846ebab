"""How a name becomes an embedding, and an embedding a name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from langchain_core.embeddings import Embeddings

from langchain_hybridgraph.embeddings.lsa import LSAEmbeddings
from langchain_hybridgraph.embeddings.minilm import ModelUnavailableError, OnnxMiniLMEmbeddings
from langchain_hybridgraph.errors import ConfigurationError

# Where the integrations of LangChain keep the name of their model.
_MODEL_ATTRIBUTES = (
    "model",
    "model_name",
    "model_id",
    "model_path",
    "repo_id",
    "deployment",
    "deployment_name",
    "azure_deployment",
    "endpoint_name",
)
_WANTED = '"auto", "lsa", "minilm", "package.module:factory" or a LangChain Embeddings object'


def resolve_embedding(spec: Embeddings | str, *, language: str | None = "english", **options: Any) -> Embeddings:
    """The embedding that is meant: an object as it is, "lsa", "minilm", "auto", or what a factory makes.

    A factory "package.module:name" (a class or a function, dots after the colon reach into it) is called with
    ``options``; so are our own two. ``language`` is LSA's. Raises ConfigurationError.

    >>> resolve_embedding("lsa", language="german")
    LSAEmbeddings(language='german', not fitted)
    >>> resolve_embedding("langchain_core.embeddings:DeterministicFakeEmbedding", size=8)
    DeterministicFakeEmbedding(size=8)
    """
    if isinstance(spec, Embeddings) and not options:
        return spec
    name = choose_embedding(_checked(spec, options))[0]
    if name == "lsa":
        return _made(name, LSAEmbeddings, {"language": language, **options})
    factory = OnnxMiniLMEmbeddings if name == "minilm" else imported_factory(name)
    return _made(name, factory, options)


def choose_embedding(spec: str = "auto") -> tuple[str, str]:
    """The name of the embedding to take, and one line that begins with the name and says why.

    "auto" is "minilm" when the model is on this machine or can be downloaded, which is then done, else "lsa"; any
    other name stays. Raises ConfigurationError for a name that cannot be one.

    >>> choose_embedding("lsa")
    ('lsa', 'lsa: made from the texts themselves, as asked')
    """
    if spec == "auto":
        return _best_to_be_had()
    if spec == "lsa":
        return spec, "lsa: made from the texts themselves, as asked"
    if spec == "minilm":
        return spec, "minilm: all-MiniLM-L6-v2, as asked"
    module, _, name = spec.partition(":")
    if not (module and name):
        raise ConfigurationError(f"embedding {spec!r} is not known; wanted {_WANTED}")
    return spec, f"{spec}: as asked"


def embedding_name(embedding: Embeddings) -> str:
    """A name that stays the same as long as the model does: what an index records of its embedding.

    "lsa", "minilm", else class and model, if the object says which. A cache in front of a model has the model's name.

    >>> embedding_name(LSAEmbeddings())
    'lsa'
    """
    if isinstance(embedding, LSAEmbeddings):
        return "lsa"
    if isinstance(embedding, OnnxMiniLMEmbeddings):
        return "minilm"
    behind = getattr(embedding, "underlying_embeddings", None)
    if isinstance(behind, Embeddings):
        return embedding_name(behind)
    kind = f"{type(embedding).__module__}.{type(embedding).__qualname__}"
    values = (getattr(embedding, attribute, None) for attribute in _MODEL_ATTRIBUTES)
    model = next((value for value in values if isinstance(value, str) and value), None)
    return f"{kind}/{model}" if model else kind


def _best_to_be_had() -> tuple[str, str]:
    if OnnxMiniLMEmbeddings.is_cached():
        return "minilm", "minilm: all-MiniLM-L6-v2 is on this machine"
    if not OnnxMiniLMEmbeddings.can_be_had():
        return "lsa", "lsa: made from the texts themselves; all-MiniLM-L6-v2 is not here and cannot be downloaded now"
    try:
        OnnxMiniLMEmbeddings().load()
    except ModelUnavailableError as error:
        return "lsa", f"lsa: made from the texts themselves; {error}"
    return "minilm", "minilm: all-MiniLM-L6-v2, downloaded for this and all later times"


def _checked(spec: Any, options: dict[str, Any]) -> str:
    if isinstance(spec, str):
        return spec
    if isinstance(spec, Embeddings):
        raise ConfigurationError(f"options {sorted(options)} go to a factory, and an Embeddings object is made already")
    raise ConfigurationError(f"embedding {spec!r} is a {type(spec).__name__}; wanted {_WANTED}")


def imported_factory(spec: str, what: str = "embedding") -> Any:
    """What "package.module:factory" names, not called; raises ConfigurationError where it cannot be had or called.

    >>> imported_factory("langchain_core.embeddings:DeterministicFakeEmbedding")
    <class 'langchain_core.embeddings.fake.DeterministicFakeEmbedding'>
    """
    module, _, path = spec.partition(":")
    try:
        found: Any = import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except Exception as error:  # the module is the user's, and importing it runs it
        raise ConfigurationError(
            f"{what} {spec!r} cannot be imported ({type(error).__name__}: {error}); wanted "
            f"package.module:factory, where {module!r} is a module that Python finds (in this folder: PYTHONPATH=.)"
        ) from error
    if not callable(found):
        raise ConfigurationError(f"{what} {spec!r} names a {type(found).__name__}; wanted a class or a function")
    return found


def _made(spec: str, factory: Any, options: dict[str, Any]) -> Embeddings:
    try:
        made = factory(**options)
    except ConfigurationError:
        raise
    except Exception as error:
        given = ", ".join(f"{name}={value!r}" for name, value in options.items())
        raise ConfigurationError(
            f"embedding {spec!r} could not be made by calling it with ({given}): {type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, Embeddings):
        raise ConfigurationError(
            f"embedding {spec!r} gave a {type(made).__name__}; wanted a langchain_core.embeddings.Embeddings"
        )
    return made
