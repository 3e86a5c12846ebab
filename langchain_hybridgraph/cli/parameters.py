"""Parameters shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from langchain_hybridgraph.options.command_line import K_LEAST, MIN_SCORE, TENANT, K

Index = Annotated[
    Path,
    typer.Option(
        "--index",
        "-i",
        metavar="DIR",
        help="Folder of the index, or milvus://HOST:PORT; default: HYBRIDGRAPH_STORE_PATH, "
        "or store_path in hybridgraph.yaml.",
        envvar="HYBRIDGRAPH_STORE_PATH",
        show_envvar=False,
    ),
]
NewModel = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="auto, lsa, minilm or package.module:factory; auto keeps the embedding of an existing index.",
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
Count = Annotated[int, typer.Option("-k", metavar="N", min=K_LEAST, help=K)]
