"""Command options read from hybridgraph.yaml and the environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.settings_file import has_settings

if TYPE_CHECKING:
    from langchain_hybridgraph.settings import HybridGraphSettings


def configured(config: Path | None) -> HybridGraphSettings:
    """Return the settings from the file ``config`` (by default hybridgraph.yaml, if it exists) and from the
    environment.
    """
    from langchain_hybridgraph.settings import HybridGraphSettings

    return HybridGraphSettings.from_file(config)


def _set_defaults(context: typer.Context, config: Path | None) -> Path | None:
    """Use the settings as defaults for the command's options. This is the callback of ``--config``."""
    if not context.resilient_parsing and has_settings(config):
        context.default_map = {**(context.default_map or {}), **_defaults(configured(config), str(context.info_name))}
    return config


def _defaults(settings: HybridGraphSettings, verb: str) -> dict[str, Any]:
    embedding = settings.store_embedding if "store_embedding" in settings.model_fields_set else None
    if not isinstance(embedding, str | None):
        raise ConfigurationError(
            f"store_embedding is {embedding!r}; the command line takes a name, such as minilm or package.module:factory"
        )
    if verb != "ingest" and ":" not in (embedding or ""):
        embedding = None  # an index records the built-in model that it uses
    language = settings.store_language if "store_language" in settings.model_fields_set else None
    values = {
        "index": settings.store_path or settings.store_uri,
        "tenant": settings.store_tenant,
        "embedding": embedding,
        "language": language,
        "k": settings.retriever_k,
    }
    return {name: str(value) for name, value in values.items() if value is not None}


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings file; default: hybridgraph.yaml in the current folder, if it exists.",
        callback=_set_defaults,
        is_eager=True,
    ),
]
