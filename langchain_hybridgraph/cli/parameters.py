"""Parameters shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.settings_file import K_LEAST, MIN_SCORE, TENANT, K

_REQUIRED = "required, unless HYBRIDGRAPH_STORE_PATH or store_path in hybridgraph.yaml is set."


def missing_index() -> Path:
    """Raise ConfigurationError because no index was given.

    Typer calls this function to get the default of ``--index``. If the option had no default, its help would show
    ``[required]``, although the index can also be set in the settings.
    """
    raise ConfigurationError(
        "no index was given: pass --index, or set HYBRIDGRAPH_STORE_PATH, or store_path in hybridgraph.yaml"
    )


def _index_option(index: str) -> Any:
    return typer.Option(
        "--index",
        "-i",
        metavar="DIR",
        help=f"{index}; {_REQUIRED}",
        envvar="HYBRIDGRAPH_STORE_PATH",
        show_envvar=False,
        default_factory=missing_index,
        show_default=False,
    )


Index = Annotated[Path, _index_option("Folder of the index, or milvus://HOST:PORT")]
IndexFolder = Annotated[Path, _index_option("Folder of the index")]
NewModel = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="Embedding model: auto, lsa, minilm or package.module:factory; auto keeps the model of an existing index.",
    ),
]
Tenant = Annotated[str | None, typer.Option(metavar="NAME", help=TENANT)]
Model = Annotated[
    str | None,
    typer.Option("--embedding", metavar="MODEL", help="Embedding of the index, if it is a package.module:factory."),
]
Where = Annotated[
    str | None, typer.Option("--filter", metavar="JSON", help='Metadata filter, such as \'{"year": {"$gte": 2020}}\'.')
]
History = Annotated[
    Path | None,
    typer.Option(
        "--history",
        metavar="FILE",
        allow_dash=True,
        help='File with the conversation so far: lines such as "User: …", or JSON; - reads standard input.',
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
MinScore = Annotated[float | None, typer.Option(metavar="SCORE", min=0, max=1, help=MIN_SCORE)]
Count = Annotated[int, typer.Option("-k", "--top-k", metavar="N", min=K_LEAST, help=K)]
