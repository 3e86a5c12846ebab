"""Conversion between embeddings and their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings

from langchain_hybridgraph.embeddings.lsa import LSAModel
from langchain_hybridgraph.embeddings.minilm import ModelUnavailableError, OnnxMiniLMEmbeddings
from langchain_hybridgraph.errors import ConfigurationError, EmbeddingMismatchError, describe_error, quote_value
from langchain_hybridgraph.registry import imported_factory


class LSAEmbeddings(LSAModel, Embeddings):
    """LangChain embedding that learns vectors from the indexed texts, as described in
    :class:`~langchain_hybridgraph.embeddings.lsa.LSAModel`.

    >>> lsa = LSAEmbeddings().fit(["Cats purr.", "A cat purrs at home.", "Rain falls.", "The rain falls at night."])
    >>> purr, cat, fall = lsa.vectors(["it purrs", "a cat", "falling"])
    >>> bool(purr @ cat > 0.9), bool(abs(fall @ cat) < 0.1)
    (True, True)
    """


# Attributes in which LangChain's integrations store the name of their model.
_MODEL_ATTRIBUTES = [
    "model",
    "model_name",
    "model_id",
    "model_path",
    "repo_id",
    "deployment",
    "deployment_name",
    "azure_deployment",
    "endpoint_name",
]
# The embedding of a new index for which none is named.
DEFAULT = "lsa"
BUILT_IN = ("lsa", "minilm")
# Classes of LangChain's integrations, by the first letters of names that users pass instead.
_PROVIDERS = {
    "openai": "langchain_openai:OpenAIEmbeddings",
    "text-embedding": "langchain_openai:OpenAIEmbeddings",
    "huggingface": "langchain_huggingface:HuggingFaceEmbeddings",
    "sentence": "langchain_huggingface:HuggingFaceEmbeddings",
}
_EXPECTED = '"auto", "lsa", "minilm", "package.module:factory" or a LangChain Embeddings object'


def resolve_embedding(spec: Embeddings | str, *, language: str | None = "english", **options: Any) -> Embeddings:
    """Return an embedding for "lsa", "minilm", "auto" or the name of a factory.

    An Embeddings object is returned unchanged. A factory is named "package.module:name" and is a class or a function,
    possibly nested ("package.module:Class.name"). The factory, or the class of a built-in embedding, is called with
    ``options``. ``language`` is used only by LSA. Raises ConfigurationError for a name that cannot be resolved.

    >>> resolve_embedding("lsa", language="german")
    LSAEmbeddings(language='german', not fitted)
    >>> resolve_embedding("langchain_core.embeddings:DeterministicFakeEmbedding", size=8)
    DeterministicFakeEmbedding(size=8)
    """
    if isinstance(spec, Embeddings) and not options:
        return spec
    if isinstance(spec, Embeddings):
        raise ConfigurationError(
            f"options {sorted(options)} are arguments of a factory, but an Embeddings object was passed: leave them out"
        )
    if not isinstance(spec, str):
        advice = f"pass an instance, {spec.__name__}(…); " if isinstance(spec, type) else ""
        raise ConfigurationError(
            f"embedding {quote_value(spec)} has the type {type(spec).__name__}; {advice}expected {_EXPECTED}"
        )
    name = choose_embedding(spec)[0]
    if name == "lsa":
        return _create(name, LSAEmbeddings, {"language": language, **options})
    factory = OnnxMiniLMEmbeddings if name == "minilm" else imported_factory("embedding", name)
    return _create(name, factory, options)


def default_embedding(made_with: str | None, path: Path | None) -> str:
    """Return the name of the embedding to use for an index if the user passes none.

    For an existing index, this is ``made_with``, the name of the embedding with which the index at ``path`` was built.
    Raises EmbeddingMismatchError unless it is a built-in embedding, because others cannot be created from their names.
    For a new index (``made_with`` is None), the result is "lsa".

    >>> default_embedding(None, None), default_embedding("minilm", None)
    ('lsa', 'minilm')
    """
    if made_with is None:
        return DEFAULT
    if made_with not in BUILT_IN:
        raise EmbeddingMismatchError(
            f"{path} was made with the embedding {made_with!r}, which cannot be created from its name: "
            "pass it as embedding=…"
        )
    return made_with


def choose_embedding(spec: str = "auto") -> tuple[str, str]:
    """Return the name of the embedding to use, and one line that begins with the name and gives the reason.

    "auto" becomes "minilm" if the model is on this machine or can be downloaded during this call, and "lsa" otherwise.
    Any other name is returned unchanged. Raises ConfigurationError for an invalid name.

    >>> choose_embedding("lsa")
    ('lsa', 'lsa: fitted to the texts themselves, as requested')
    """
    if spec == "auto":
        return _best_available()
    if spec == "lsa":
        return spec, "lsa: fitted to the texts themselves, as requested"
    if spec == "minilm":
        return spec, "minilm: all-MiniLM-L6-v2, as requested"
    module, _, name = spec.partition(":")
    lower = spec.lower()
    provider = (
        lower
        if lower in BUILT_IN
        else next((each for prefix, each in _PROVIDERS.items() if lower.startswith(prefix)), None)
    )
    if module in _PROVIDERS or not (module and name):
        advice = f'write HybridGraphStore(path, "{provider}"); ' if provider else ""
        raise ConfigurationError(f"embedding {quote_value(spec)} is unknown; {advice}expected {_EXPECTED}")
    return spec, f"{spec}: as requested"


def embedding_name(embedding: Embeddings) -> str:
    """Return the name under which an index records its embedding.

    The name is "lsa", "minilm", or the qualified class name, followed by the model name if there is one. A caching
    wrapper has the name of the embedding that it wraps.

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


def _best_available() -> tuple[str, str]:
    if OnnxMiniLMEmbeddings.is_cached():
        return "minilm", "minilm: all-MiniLM-L6-v2 is on this machine"
    try:
        OnnxMiniLMEmbeddings().load()
    except ModelUnavailableError as error:
        return "lsa", f"lsa: fitted to the texts themselves; {error}"
    return "minilm", "minilm: all-MiniLM-L6-v2, downloaded once for all later runs"


def _create(spec: str, factory: Any, options: dict[str, Any]) -> Embeddings:
    try:
        embedding = factory(**options)
    except ConfigurationError:
        raise
    except Exception as error:
        arguments = ", ".join(f"{name}={value!r}" for name, value in options.items())
        raise ConfigurationError(
            f"embedding {spec!r} could not be created by calling it with ({arguments}): {describe_error(error)}"
        ) from error
    if not isinstance(embedding, Embeddings):
        raise ConfigurationError(
            f"embedding {spec!r} returned a {type(embedding).__name__}; it must return a LangChain Embeddings object"
        )
    return embedding
