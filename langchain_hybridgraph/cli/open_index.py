"""Opening indexes and reading files of conversations."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_hybridgraph.chunks import replace_surrogates
from langchain_hybridgraph.cli.errors import say
from langchain_hybridgraph.cli.settings import configured
from langchain_hybridgraph.errors import (
    ConfigurationError,
    EmbeddingMismatchError,
    NotAnIndexError,
    TenantError,
    quote_value,
)
from langchain_hybridgraph.settings_file import has_settings

if TYPE_CHECKING:
    from langchain_hybridgraph.stores.store import EmbeddedStore
    from langchain_hybridgraph.vectorstores.hybrid_graph_store import HybridGraphStore
    from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore


def milvus_uri(index: Path) -> str | None:
    """Return the URI of a store in Milvus, or None for a folder. Raises ConfigurationError for a misspelt scheme.

    >>> from pathlib import Path
    >>> milvus_uri(Path("milvus://localhost/notes")), milvus_uri(Path("notes.hybridgraph"))
    ('milvus://localhost/notes', None)
    """
    from langchain_hybridgraph.stores.milvus.uri import check_scheme, is_milvus_uri

    # Path removes a slash from milvus://HOST, but not from milvus:/FOLDER/NAME.db, a milvus-lite file.
    uri = re.sub(r"^(milvus|https?):/(?!/)(?!.*\.db$)", r"\1://", str(index))
    check_scheme(uri)
    return uri if is_milvus_uri(uri) else None


def open_milvus(
    uri: str,
    embedding: str | None,
    *,
    tenant: str | None,
    config: Path | None,
    language: str | None = None,
    is_new_allowed: bool = False,
    quiet: bool = False,
) -> MilvusStore:
    """Open a store in Milvus with the collection, token and limits from the settings.

    If ``embedding`` is None, the embedding from the settings is used. If the settings have none, the embedding of the
    store is used. Unless ``quiet``, the embedding chosen for a new store is printed to stderr.

    Raises NotAnIndexError if the store does not exist, unless ``is_new_allowed``. Raises EmbeddingMismatchError if the
    store was made with a custom embedding, but none was passed or configured. Raises ConfigurationError if a new store
    needs a pretrained model and none is available. MilvusStore may raise further errors.
    """
    from langchain_hybridgraph.embeddings import choose_embedding
    from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore

    settings = configured(config)
    server = {"token": settings.store_token or "", "collection": settings.store_collection}
    if embedding is None and isinstance(settings.store_embedding, str):
        embedding = settings.store_embedding
    stored = MilvusStore.settings_of(uri, **server)
    made_with = None if stored is None else stored.embedding
    if made_with is None and not is_new_allowed:
        raise NotAnIndexError(
            f"{uri} contains no store in the collection {settings.store_collection!r}: create one with "
            f"hybridgraph ingest PATHS --index {uri}"
        )
    if embedding is None and made_with not in (None, "minilm"):
        raise EmbeddingMismatchError(
            f"{uri} was made with the embedding {made_with}; pass it as --embedding package.module:factory, or set "
            "it once, as store_embedding in hybridgraph.yaml or HYBRIDGRAPH_STORE_EMBEDDING"
        )
    model = embedding or made_with
    if model is None:
        model, why = choose_embedding("auto")
        if model == "lsa":
            raise ConfigurationError(
                f"{uri} does not contain a store yet; a new store in Milvus needs a pretrained model, but "
                "all-MiniLM-L6-v2 cannot be downloaded to this machine now: pass "
                "--embedding package.module:factory, or run the command once with a network connection"
            )
        if not quiet:
            say(f"embedding {why}")
    return MilvusStore(
        uri,
        model,
        tenant=tenant,
        language=language,
        consistency=settings.store_consistency,
        timeout=settings.store_timeout,
        **server,
    )


def existing(
    index: Path,
    *,
    embedding: str | None = None,
    tenant: str | None = None,
    read_only: bool = False,
    config: Path | None = None,
    all_tenants: bool = False,
) -> HybridGraphStore:
    """Open an existing index in a folder.

    ``config`` is the settings file; only ``store_write_timeout`` is read from the settings. With ``all_tenants``, which
    is for commands that work on all tenants at once, ``tenant`` is not needed. A missing index is not created.

    Raises NotAnIndexError, TenantError and EmbeddingMismatchError.
    """
    from langchain_hybridgraph.vectorstores.hybrid_graph_store import HybridGraphStore

    facts = _facts(index)
    if not facts:
        raise NotAnIndexError(f"{index} contains no index: create one with hybridgraph ingest PATHS --index {index}")
    if all_tenants and facts["tenancy"] == "multi":
        from langchain_hybridgraph.stores.tenants import list_tenants

        tenant = next(iter(list_tenants(index)), "none")
    _check(index, facts, embedding, tenant)
    options = _options(config)
    return HybridGraphStore(index, embedding, tenant=tenant, read_only=read_only, **options)


def existing_store(
    index: Path,
    *,
    embedding: str | None = None,
    tenant: str | None = None,
    read_only: bool = False,
    config: Path | None = None,
) -> HybridGraphStore | MilvusStore:
    """Open an existing index in a folder or in Milvus. Raises the errors of :func:`existing`."""
    if uri := milvus_uri(index):
        return open_milvus(uri, embedding, tenant=tenant, config=config)
    return existing(index, embedding=embedding, tenant=tenant, read_only=read_only, config=config)


def existing_or_new(
    index: Path,
    embedding: str = "auto",
    *,
    language: str | None = None,
    tenant: str | None = None,
    config: Path | None = None,
    quiet: bool = False,
) -> EmbeddedStore | MilvusStore:
    """Open an index in a folder or in Milvus, creating it if it does not exist.

    The embedding and the reason for choosing it are printed to stderr, unless ``quiet``.

    Raises the errors of :func:`existing`, and ConfigurationError if ``language`` differs from the language of the
    index.
    """
    from langchain_hybridgraph.text.analyzer import language_name

    name = None if embedding == "auto" else embedding
    if uri := milvus_uri(index):
        return open_milvus(uri, name, tenant=tenant, config=config, language=language, is_new_allowed=True, quiet=quiet)
    facts, options = _facts(index), _options(config)
    if facts:
        _check(index, facts, name, tenant)
        if language is not None and language_name(language) != facts["language"]:
            raise ConfigurationError(
                f"{index} was made with --language {facts['language']}: omit --language, or use a new folder"
            )
    if not facts or ("embedding" not in facts and not facts["next_row"]):  # the index is new or empty
        model = _choose_embedding(embedding, quiet=quiet)
        return _open_for_writing(
            index, model, facts.get("language") or language_name(language or "english"), tenant, options
        )
    store = _open_for_writing(index, name or facts.get("embedding", "lsa"), facts["language"], tenant, options)
    if not quiet:
        say(f"embedding {store.name}: the index was made with it")
    return store


def _choose_embedding(embedding: str, *, quiet: bool) -> str:
    """Return the name of the embedding for a new index, and download its model if necessary.

    If the download fails, ModelUnavailableError is raised before the index is created.
    """
    from langchain_hybridgraph.embeddings import choose_embedding

    model, why = choose_embedding(embedding)
    if not quiet:
        say(f"embedding {why}")
    if model == "minilm":
        from langchain_hybridgraph.embeddings.minilm import OnnxMiniLMEmbeddings

        if not OnnxMiniLMEmbeddings.is_cached():
            OnnxMiniLMEmbeddings().load()
    return model


def _open_for_writing(
    index: Path, embedding: str, language: str, tenant: str | None, options: Mapping[str, Any]
) -> EmbeddedStore:
    """Open a store for writing.

    With LSA, open a store that does not import LangChain, because that import would account for most of the run time.
    """
    if embedding == "lsa":
        from langchain_hybridgraph.embeddings.lsa import LSAModel
        from langchain_hybridgraph.stores.folder import IndexSettings
        from langchain_hybridgraph.stores.store import EmbeddedStore

        return EmbeddedStore(
            IndexSettings(
                path=index,
                embedding=LSAModel(language=language),
                name=embedding,
                load=LSAModel.load,
                tenant=tenant,
                language=language,
                **options,
            )
        )
    from langchain_hybridgraph.vectorstores.hybrid_graph_store import HybridGraphStore

    return HybridGraphStore(index, embedding, tenant=tenant, language=language, **options)


def _options(config: Path | None) -> dict[str, Any]:
    if not has_settings(config):
        return {}
    return {"write_timeout": configured(config).store_write_timeout}


def _facts(index: Path) -> dict[str, Any]:
    from langchain_hybridgraph.stores.folder import read_facts

    if uri := milvus_uri(index):
        raise ConfigurationError(
            f"--index must be a folder for this command, got {uri}; ingest, search, find, delete and migrate work on "
            "stores in Milvus"
        )
    return read_facts(index)


def _check(index: Path, facts: dict[str, Any], embedding: str | None, tenant: str | None) -> None:
    """Check the tenant and the embedding here, so that the error messages name command-line options."""
    if facts["tenancy"] == "multi" and tenant is None:
        raise TenantError(f"{index} has tenants: choose one with --tenant")
    if facts["tenancy"] == "single" and tenant is not None:
        raise TenantError(f"{index} has no tenants: omit --tenant, or use a new folder")
    made_with = facts.get("embedding")
    if made_with not in (None, "lsa", "minilm") and embedding is None:
        raise EmbeddingMismatchError(
            f"{index} was made with the embedding {made_with}; pass it as --embedding package.module:factory"
        )


class Conversation(NamedTuple):
    """A conversation: its messages in any supported form, oldest first, and a summary of even earlier messages."""

    messages: Sequence[Any]
    summary: str = ""

    def session(self) -> dict[str, Any] | None:
        """Return the conversation as the ``session`` argument of a tree search, or None if it is empty."""
        return self._asdict() if self.messages or self.summary else None


def conversation(file: Path | None) -> Conversation:
    """Read the conversation in a file (``-`` for standard input). Without a file, the conversation is empty.

    The file contains plain text with one message per line, or JSON. JSON can be a list of messages, an object such as
    ``{"messages": […], "summary": "…"}`` (the summary is optional), or one message per line. Raises ConfigurationError
    if the file cannot be read, or if it begins like JSON but has none of these forms.
    """
    if file is None:
        return Conversation(())
    try:
        if str(file) != "-":
            text = file.read_text(encoding="utf-8-sig")
        elif sys.stdin is None:
            raise OSError("standard input is closed")
        else:
            text = sys.stdin.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--history {file} cannot be read ({error}); pass a text file") from error
    lines = [line for line in replace_surrogates(text).splitlines() if line.strip()]
    if not text.lstrip().startswith(("[", "{")):
        return Conversation(lines)
    try:
        return _of_json(_parse_json(text, lines))
    except ValueError as error:
        raise ConfigurationError(f"--history {file} begins like JSON but is not a history ({error})") from error


def _parse_json(text: str, lines: Sequence[str]) -> Any:
    """Parse the text as one JSON value or, if that fails, as one JSON value per line.

    A text that begins with ``[`` is parsed only as one value.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        if len(lines) < 2 or text.lstrip().startswith("["):
            raise
    return [json.loads(line) for line in lines]


def _of_json(value: Any) -> Conversation:
    if isinstance(value, dict) and "messages" in value:
        if not isinstance(value["messages"], list):
            raise ValueError(f"messages must be a list, got {quote_value(value['messages'])}")
        return Conversation(value["messages"], str(value.get("summary") or ""))
    return Conversation(value if isinstance(value, list) else [value])
