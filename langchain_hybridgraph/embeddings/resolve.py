"""Embeddings for LangChain, and their names."""

from __future__ import annotations

import os
import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.embeddings import Embeddings

from langchain_hybridgraph.embeddings.lsa import LSAModel, unit_rows
from langchain_hybridgraph.errors import ConfigurationError, EmbeddingMismatchError, HybridGraphError, quote_value
from langchain_hybridgraph.execution.threads import keep_alive_forever
from langchain_hybridgraph.registry import call_factory, from_config
from langchain_hybridgraph.stores.generations import NoEmbedding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class LSAEmbeddings(LSAModel, Embeddings):
    """LangChain embedding that is an :class:`~langchain_hybridgraph.embeddings.lsa.LSAModel`."""


class NoEmbeddings(NoEmbedding, Embeddings):
    """LangChain embedding that is a :class:`~langchain_hybridgraph.stores.generations.NoEmbedding`."""


# all-MiniLM-L6-v2, run by Chroma on onnxruntime

_MINILM_DIMENSIONS = 384
_BATCH = 32  # number of texts that the model processes at a time

# Files that Chroma looks for before it downloads (chromadb 1.5.9, onnx_mini_lm_l6_v2.py).
_FILES = (
    "config.json", "model.onnx", "special_tokens_map.json", "tokenizer_config.json", "tokenizer.json", "vocab.txt",
)  # fmt: skip


class ModelUnavailableError(HybridGraphError, OSError):
    """The model is not on this machine and cannot be downloaded, or its files are damaged."""


class OnnxMiniLMEmbeddings(Embeddings):
    """LangChain embedding with all-MiniLM-L6-v2: vectors of 384 dimensions and length 1, from the first 256 tokens of a
    text.

    Chroma's ``ONNXMiniLM_L6_V2`` runs the model with onnxruntime, without torch, and gives the same vectors. The model
    (80 MB) is downloaded once, when it is first needed; creating this object downloads nothing.

    Several threads may embed at the same time. A forked child process and an unpickled copy load the model again.
    Embedding raises ModelUnavailableError if the model is not available.
    """

    model_name = "all-MiniLM-L6-v2"

    def __init__(self) -> None:
        self._loading = threading.Lock()
        self._process = os.getpid()

    def __reduce__(self) -> tuple[type[OnnxMiniLMEmbeddings], tuple[()]]:
        """Return how to make a copy, which has no model yet."""
        return OnnxMiniLMEmbeddings, ()

    @staticmethod
    def folder() -> Path:
        """Return the folder in which Chroma keeps the model's files."""
        chromas = _chromas()
        return Path(chromas.DOWNLOAD_PATH) / str(chromas.EXTRACTED_FOLDER_NAME)

    @staticmethod
    def is_cached() -> bool:
        """Return whether all files of the model are on this machine, so that no network is needed."""
        folder = OnnxMiniLMEmbeddings.folder()
        return all((folder / file).exists() for file in _FILES)

    def load(self) -> None:
        """Load the model now, instead of when the first text is embedded. Raises ModelUnavailableError."""
        if self._process != os.getpid():
            self._process, self._loading = os.getpid(), threading.Lock()
            keep_alive_forever(self.__dict__.pop("_ready", None))
        with self._loading:
            _ = self._ready

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of these texts, as an array of shape (len(texts), 384). Raises ModelUnavailableError."""
        result = np.zeros((len(texts), _MINILM_DIMENSIONS), np.float32)
        if not texts:
            return result
        self.load()
        # Texts of similar length share a batch, so that little padding is needed.
        by_length = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        for start in range(0, len(texts), _BATCH):
            places = by_length[start : start + _BATCH]
            result[places] = self._embed([texts[place] for place in places])
        return result

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text; see :meth:`vectors`."""
        return list(self.vectors(texts).tolist())

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question. Raises ModelUnavailableError."""
        return self.embed_documents([text])[0]

    @cached_property
    def _ready(self) -> Any:
        """Chroma's embedding function, changed to pad texts only to the length of the longest text in a batch.

        Chroma pads every text to 256 tokens, which gives the same vectors but takes 87 ms for a question instead of 11.
        """
        chromas = _chromas()
        try:
            function = chromas()
            function(["Chroma downloads the model when it gets its first text."])
            function.tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
        except Exception as error:  # httpx, tarfile, tokenizers and onnxruntime each have their own errors
            cause = " ".join(f"{type(error).__name__}: {error}".split())  # onnxruntime's messages have several lines
            raise ModelUnavailableError(
                f"all-MiniLM-L6-v2 can neither be read from {self.folder()} nor downloaded from "
                f"{chromas.MODEL_DOWNLOAD_URL} ({cause}): run once with a network, after deleting that folder if it "
                'exists, or use the embedding "lsa" (--embedding lsa), if the index is a folder'
            ) from error
        return function

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the mean of each text's token vectors, scaled to length 1, as in sentence-transformers."""
        tokens = self._ready.tokenizer.encode_batch([text.encode("utf-8", "replace").decode() for text in texts])
        ids = np.array([token.ids for token in tokens], np.int64)
        mask = np.array([token.attention_mask for token in tokens], np.int64)
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = self._ready.model.run(None, inputs)[0]
        means = (hidden * mask[:, :, np.newaxis]).sum(axis=1) / np.maximum(mask.sum(axis=1, keepdims=True), 1)
        return unit_rows(means)


def _chromas() -> Any:
    from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2

    return ONNXMiniLM_L6_V2


# Conversion between embeddings and their names

# Attributes in which LangChain's integrations store the name of their model.
_MODEL_ATTRIBUTES = (
    *("model", "model_name", "model_id", "model_path", "repo_id"),
    *("deployment", "deployment_name", "azure_deployment", "endpoint_name"),
)
_BUILT_IN = {"lsa": LSAEmbeddings, "minilm": OnnxMiniLMEmbeddings}
_REASONS = {"lsa": "fitted to the texts themselves, as requested", "minilm": "all-MiniLM-L6-v2, as requested"}
# Classes of LangChain's integrations, by the first letters of names that users pass instead.
_PROVIDERS = {
    "sentence-transformers/all-minilm-l6-v2": "minilm",  # before "sentence", of which it is a special case
    "all-minilm-l6-v2": "minilm",
    "openai": "langchain_openai:OpenAIEmbeddings",
    "text-embedding": "langchain_openai:OpenAIEmbeddings",
    "huggingface": "langchain_huggingface:HuggingFaceEmbeddings",
    "sentence": "langchain_huggingface:HuggingFaceEmbeddings",
    "lsa": "lsa",
    "minilm": "minilm",
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
    if isinstance(spec, Embeddings):
        if options:
            raise ConfigurationError(
                f"options {sorted(options)} are for a factory, but an Embeddings object was passed"
            )
        return spec
    if not isinstance(spec, str):
        kind = type(spec).__name__
        raise ConfigurationError(f"embedding {quote_value(spec)} has the type {kind}; expected {_EXPECTED}")
    name = choose_embedding(spec)[0]
    if name == "lsa":
        options = {"language": language, **options}
    if name in _BUILT_IN:
        embedding = from_config("embedding", {**options, "type": name}, _BUILT_IN)
    else:
        embedding = call_factory("embedding", name, options)
    if not isinstance(embedding, Embeddings):
        kind = type(embedding).__name__
        raise ConfigurationError(f"embedding {name!r} returned a {kind}; it must return a LangChain Embeddings object")
    return embedding


def default_embedding(made_with: str | None, path: Path | None, *, is_needed: bool = True) -> Embeddings | str:
    """Return the embedding, or its name, to use for an index if the user passes none.

    For an existing index, this is ``made_with``, the name of the embedding with which the index at ``path`` was built.
    Raises EmbeddingMismatchError unless it is a built-in embedding, because others cannot be created from their names;
    without ``is_needed``, returns a placeholder. For a new index (``made_with`` is None), the result is "lsa".

    >>> default_embedding(None, None), default_embedding("minilm", None)
    ('lsa', 'minilm')
    """
    if made_with is None:
        return "lsa"
    if made_with in _BUILT_IN:
        return made_with
    if not is_needed:
        return NoEmbeddings(made_with)
    raise EmbeddingMismatchError(
        f"{path} was made with the embedding {made_with!r}, which cannot be created from its name: "
        "pass it as embedding=…"
    )


def choose_embedding(spec: str = "auto") -> tuple[str, str]:
    """Return the name of the embedding to use, and one line that begins with the name and gives the reason.

    "auto" becomes "minilm" if the model is on this machine or can be downloaded during this call, and "lsa" otherwise.
    Any other name is returned unchanged. Raises ConfigurationError for an invalid name.

    >>> choose_embedding("lsa")
    ('lsa', 'lsa: fitted to the texts themselves, as requested')
    """
    if spec == "auto":
        if OnnxMiniLMEmbeddings.is_cached():
            return "minilm", "minilm: all-MiniLM-L6-v2 is on this machine"
        try:
            OnnxMiniLMEmbeddings().load()
        except ModelUnavailableError as error:
            return "lsa", f"lsa: fitted to the texts themselves; {error}"
        return "minilm", "minilm: all-MiniLM-L6-v2, downloaded once for all later runs"
    module, _, name = spec.partition(":")
    if spec not in _BUILT_IN and (module in _PROVIDERS or not (module and name)):
        provider = next((each for prefix, each in _PROVIDERS.items() if spec.lower().startswith(prefix)), None)
        advice = f'write HybridGraphStore(path, "{provider}"); ' if provider else ""
        raise ConfigurationError(f"embedding {quote_value(spec)} is unknown; {advice}expected {_EXPECTED}")
    return spec, f"{spec}: {_REASONS.get(spec, 'as requested')}"


def embedding_name(embedding: Embeddings) -> str:
    """Return the name under which an index records its embedding.

    The name is "lsa", "minilm", or the qualified class name, followed by the model name if there is one. A caching
    wrapper has the name of the embedding that it wraps.

    >>> embedding_name(LSAEmbeddings())
    'lsa'
    """
    if isinstance(embedding, NoEmbedding):
        return embedding.name
    for name, kind in _BUILT_IN.items():
        if isinstance(embedding, kind):
            return name
    if isinstance(behind := getattr(embedding, "underlying_embeddings", None), Embeddings):
        return embedding_name(behind)
    path = f"{type(embedding).__module__}.{type(embedding).__qualname__}"
    values = (getattr(embedding, attribute, None) for attribute in _MODEL_ATTRIBUTES)
    model = next((value for value in values if isinstance(value, str) and value), None)
    return f"{path}/{model}" if model else path
