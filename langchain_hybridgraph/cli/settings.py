"""Options, settings and indexes of commands."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from langchain_hybridgraph.chunks import replace_surrogates
from langchain_hybridgraph.cli.console import print_answer, print_json, say
from langchain_hybridgraph.errors import ConfigurationError, EmbeddingMismatchError, NotAnIndexError, quote_value
from langchain_hybridgraph.settings_file import K_LEAST, MIN_SCORE, TENANT, K, Origin, Problem, has_settings

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from langchain_hybridgraph.settings import HybridGraphSettings
    from langchain_hybridgraph.stores.store import EmbeddedStore
    from langchain_hybridgraph.vectorstores.hybrid_graph_store import HybridGraphStore
    from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


def option(metavar: str, help: str, **settings: Any) -> Any:
    """Return an option with a value; its name is that of the parameter."""
    return typer.Option(metavar=metavar, help=help, **settings)


def flag(name: str, help: str) -> Any:
    """Return an option without a value."""
    return typer.Option(name, help=help)


def required_index(context: typer.Context, index: Path | None) -> Path | None:
    """Return the index, or raise ConfigurationError if there is none, unless the shell completes a command."""
    if index is None and not context.resilient_parsing:
        raise ConfigurationError(
            "no index was given: pass --index, or set HYBRIDGRAPH_STORE_PATH, or store_path in hybridgraph.yaml"
        )
    return index


def _index_option(index: str, **options: Any) -> Any:
    return typer.Option(
        "--index",
        "-i",
        metavar="DIR",
        help=f"{index}; required, unless HYBRIDGRAPH_STORE_PATH or store_path in hybridgraph.yaml is set.",
        envvar="HYBRIDGRAPH_STORE_PATH",
        show_envvar=False,
        **options,
    )


# Without a default, help would show ``[required]`` in spite of the settings.
_DEFAULT: dict[str, Any] = {"default_factory": lambda: None, "callback": required_index, "show_default": False}
Index = Annotated[Path, _index_option("Folder of the index, or milvus://HOST:PORT", **_DEFAULT)]
IndexFolder = Annotated[Path, _index_option("Folder of the index", **_DEFAULT)]
OptionalIndex = Annotated[Path | None, _index_option("Folder of the index")]
NewModel = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="Embedding model: auto, lsa, minilm, package.module:factory, or a JSON object with type and arguments; "
        "auto keeps the model of an existing index.",
    ),
]
Tenant = Annotated[str | None, typer.Option(metavar="NAME", help=TENANT)]
Model = Annotated[str | None, option("MODEL", "Embedding of the index, unless it is lsa or minilm.")]
Where = Annotated[
    str | None, typer.Option("--filter", metavar="JSON", help='Metadata filter, such as \'{"year": {"$gte": 2020}}\'.')
]
History = Annotated[
    Path | None,
    option(
        "FILE",
        'File with the conversation so far: lines such as "User: …", or JSON; - reads standard input.',
        allow_dash=True,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")]
MinScore = Annotated[float | None, typer.Option(metavar="SCORE", min=0, max=1, help=MIN_SCORE)]
Count = Annotated[int, typer.Option("-k", "--top-k", metavar="N", min=K_LEAST, help=K)]
Explain = Annotated[bool, typer.Option("--explain", help="Explain the rank of each hit.")]
File = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help="YAML file; default: hybridgraph.yaml in the current folder, if it exists."),
]


def configured(config: Path | None) -> HybridGraphSettings:
    """Return the settings from a file (by default hybridgraph.yaml, if it exists) and from the environment."""
    from langchain_hybridgraph.settings import HybridGraphSettings

    return HybridGraphSettings.from_file(config)


def _set_defaults(context: typer.Context, config: Path | None) -> Path | None:
    if context.resilient_parsing or not has_settings(config):
        return config
    settings = configured(config)
    embedding = settings.store_embedding
    embedding = json.dumps(embedding) if isinstance(embedding, Mapping) else embedding
    embeds_nothing = context.info_name in ("backup", "check", "delete", "stats")
    if embeds_nothing or (context.info_name != "ingest" and ":" not in (embedding or "")):
        embedding = None  # an index records the built-in model that it uses
    values = {
        "index": settings.store_path or settings.store_uri,
        "tenant": settings.store_tenant,
        "embedding": embedding,
        "language": settings.store_language,
        "k": settings.retriever_k,
    }
    defaults = {name: str(value) for name, value in values.items() if value is not None}
    context.default_map = {**(context.default_map or {}), **defaults}
    return config


Config = Annotated[
    Path | None,
    option(
        "FILE",
        "Settings file; default: hybridgraph.yaml in the current folder, if it exists.",
        callback=_set_defaults,
        is_eager=True,
    ),
]

# -- opening an index -----------------------------------------------------------------------------------------


def milvus_uri(index: Path) -> str | None:
    """Return the URI of a store in Milvus, or None for a folder. Raises ConfigurationError for a misspelt scheme."""
    from langchain_hybridgraph.stores.milvus.connection import check_scheme, is_milvus_uri

    # Path removes a slash from milvus://HOST, but not from milvus:/FOLDER/NAME.db, a milvus-lite file.
    uri = re.sub(r"^(milvus|https?):/(?!/)(?!.*\.db$)", r"\1://", str(index))
    check_scheme(uri)
    return uri if is_milvus_uri(uri) else None


class IndexLocation(NamedTuple):
    """Location of an index, in a folder or in Milvus, with the options that open it."""

    path: Path
    config: Path | None = None
    embedding: str | None = None
    tenant: str | None = None

    def open_folder(
        self, *, read_only: bool = False, all_tenants: bool = False, embeds: bool = True
    ) -> HybridGraphStore:
        """Open an existing index in a folder. Raises NotAnIndexError, TenantError and EmbeddingMismatchError.

        Commands that work on all tenants at once pass ``all_tenants`` and no ``tenant``. Those that embed nothing, or
        only in some cases, pass ``embeds=False``, so that an embedding that cannot be created from its name may be
        missing.
        """
        from langchain_hybridgraph.embeddings.resolve import default_embedding
        from langchain_hybridgraph.stores.index import CATALOG
        from langchain_hybridgraph.vectorstores.hybrid_graph_store import HybridGraphStore

        index, embedding, tenant = self.path, self.embedding, self.tenant
        facts = {} if index.is_dir() and not (index / CATALOG).exists() else _facts(index)
        if not facts:
            raise NotAnIndexError(
                f"{index} contains no index: check the path, or create an index with hybridgraph ingest PATHS --index "
                "DIR"
            )
        if all_tenants and facts["tenancy"] == "multi":
            from langchain_hybridgraph.stores.check import list_tenants

            tenant = next(iter(list_tenants(index)), "none")
        default = default_embedding(facts.get("embedding"), index, is_needed=embeds and embedding is None)
        model = _model(embedding, facts.get("language", "english")) or default
        return HybridGraphStore(index, model, tenant=tenant, read_only=read_only, **_options(self.config))

    def open(self, *, read_only: bool = False, embeds: bool = True) -> HybridGraphStore | MilvusStore:
        """Open an existing index in a folder or in Milvus, with the options and errors of :meth:`open_folder`."""
        if uri := milvus_uri(self.path):
            return self._open_milvus(uri, embeds=embeds)
        return self.open_folder(read_only=read_only, embeds=embeds)

    def open_or_create(self, *, language: str | None = None, quiet: bool = False) -> EmbeddedStore | MilvusStore:
        """Open an index in a folder or in Milvus, creating it if it does not exist.

        The embedding and the reason for choosing it are printed to stderr, unless ``quiet``. Raises the errors of
        :meth:`open_folder`, ModelUnavailableError before an index is created, and ConfigurationError for another
        ``language`` than that of the index.
        """
        from langchain_hybridgraph.text.analyzer import language_name

        index, embedding = self.path, "auto" if self.embedding is None else self.embedding
        name = None if embedding == "auto" else embedding
        if uri := milvus_uri(index):
            return self._replace(embedding=name)._open_milvus(uri, language=language, is_new_allowed=True)
        facts = _facts(index)
        if facts and language is not None and language_name(language) != facts["language"]:
            raise ConfigurationError(
                f"{index} was made with --language {facts['language']}: omit --language, or use a new folder"
            )
        if facts and ("embedding" in facts or facts["next_row"]):
            model = "lsa" if name is None and facts.get("embedding", "lsa") == "lsa" else name
            why = f"{facts.get('embedding', 'lsa')}: the index was made with it"
        elif embedding.startswith("{"):
            model, why = embedding, f"{embedding}: as requested"
        else:
            from langchain_hybridgraph.embeddings.resolve import OnnxMiniLMEmbeddings, choose_embedding

            model, why = choose_embedding(embedding)
            if model == "minilm" and not OnnxMiniLMEmbeddings.is_cached():
                OnnxMiniLMEmbeddings().load()
        language = facts.get("language") or language_name(language or "english")
        store = self._open_for_writing(_model(model, language), language)
        if not quiet:
            say(f"embedding {why}")
        return store

    def _open_for_writing(self, embedding: Embeddings | str | None, language: str) -> EmbeddedStore:
        """Open a store for writing. With LSA, LangChain is not imported, which would take most of the run time."""
        options = {"tenant": self.tenant, "language": language, **_options(self.config)}
        if embedding == "lsa":
            from langchain_hybridgraph.embeddings.lsa import LSAModel
            from langchain_hybridgraph.stores.index import IndexSettings
            from langchain_hybridgraph.stores.store import EmbeddedStore

            model: dict[str, Any] = {"embedding": LSAModel(language=language), "name": embedding, "load": LSAModel.load}
            return EmbeddedStore(IndexSettings(path=self.path, **model, **options))
        from langchain_hybridgraph.vectorstores.hybrid_graph_store import HybridGraphStore

        return HybridGraphStore(self.path, embedding, **options)

    def _open_milvus(
        self, uri: str, *, language: str | None = None, is_new_allowed: bool = False, embeds: bool = True
    ) -> MilvusStore:
        """Open a store in Milvus with the settings. Raises NotAnIndexError if it is missing, unless it may be new."""
        from langchain_hybridgraph.embeddings.resolve import NoEmbeddings
        from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore

        embedding, settings = self.embedding, configured(self.config)
        server = {"token": settings.store_token or "", "collection": settings.store_collection}
        stored = MilvusStore.settings_of(uri, **server)
        if stored is None and not is_new_allowed:
            raise NotAnIndexError(
                f"{uri} contains no store in the collection {settings.store_collection!r}: create one with "
                f"hybridgraph ingest PATHS --index {uri}"
            )
        if embedding is None and embeds and isinstance(settings.store_embedding, str):
            embedding = settings.store_embedding
        model = _model(embedding)
        if model is None and stored is not None and not embeds:
            model = NoEmbeddings(stored.embedding, stored.dimension)
        elif model is None and stored is not None and stored.embedding != "minilm":
            raise EmbeddingMismatchError(
                f"{uri} was made with the embedding {stored.embedding}; pass it as --embedding package.module:factory, "
                "or set it once, as store_embedding in hybridgraph.yaml or HYBRIDGRAPH_STORE_EMBEDDING"
            )
        limits: dict[str, Any] = {"consistency": settings.store_consistency, "timeout": settings.store_timeout}
        return MilvusStore(uri, model or "minilm", tenant=self.tenant, language=language, **limits, **server)


def _model(embedding: str | None, language: str = "english") -> Embeddings | str | None:
    """Return the embedding that a JSON object describes as in a settings file; names are returned unchanged."""
    if embedding is None or not embedding.startswith("{"):
        return embedding
    from langchain_hybridgraph.vectorstores.hybrid_graph_store import configured_embedding

    try:
        form = json.loads(embedding)
    except ValueError:
        form = {}
    if "type" not in form:
        raise ConfigurationError(
            f"embedding {embedding} is not a JSON object with a type, such as "
            '{"type": "langchain_openai:OpenAIEmbeddings", "model": "text-embedding-3-small"}'
        )
    return configured_embedding(form, language)


def _options(config: Path | None) -> dict[str, Any]:
    return {"write_timeout": configured(config).store_write_timeout} if has_settings(config) else {}


def _facts(index: Path) -> dict[str, Any]:
    from langchain_hybridgraph.stores.index import read_facts

    if uri := milvus_uri(index):
        raise ConfigurationError(
            f"--index must be a folder for this command, got {uri}; ingest, search, find, delete and migrate work on "
            "stores in Milvus"
        )
    return read_facts(index)


def conversation(file: Path | None) -> dict[str, Any]:
    """Read the ``messages``, oldest first, and a ``summary`` of earlier ones from a file (``-``: standard input).

    The file contains one message per line, or a JSON list of messages, or an object such as
    ``{"messages": […], "summary": "…"}``. Without a file or content, the result is empty. Raises ConfigurationError for
    a file that cannot be read or has none of these forms.
    """
    if file is None:
        return {}
    try:
        stream = sys.stdin if str(file) == "-" else file.open(encoding="utf-8-sig")
        if stream is None:
            raise OSError("standard input is closed")
        with stream:
            text = replace_surrogates(stream.read())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--history {file} cannot be read ({error}); pass a text file") from error
    content: Any = [line for line in text.splitlines() if line.strip()]
    if text.lstrip().startswith(("[", "{")):
        try:
            content = json.loads(text)
        except ValueError as error:
            raise ConfigurationError(f"--history {file} begins like JSON but is not JSON ({error})") from error
    session = content if isinstance(content, dict) else {"messages": content}
    if not isinstance(session.get("messages"), list):
        example = '{"messages": ["User: red cars"]}'
        raise ConfigurationError(f"--history {file} is {quote_value(content)}; pass a JSON list, or {example}")
    return session if session["messages"] or session.get("summary") else {}


# -- hybridgraph config ---------------------------------------------------------------------------------------

config_app = typer.Typer(context_settings=HELP_OPTIONS)


@config_app.callback(invoke_without_command=True)
def config(context: typer.Context) -> None:
    """Create, show and check the settings file."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@config_app.command()
def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")] = Path("hybridgraph.yaml"),
) -> None:
    """Create a settings file.

    It contains all settings with their defaults. A JSON schema for editors is written next to it. Existing files are
    not changed.
    """
    from langchain_hybridgraph.settings import schema, template

    schema_file = file.with_name(f"{file.stem}.schema.json")
    for path in (file, schema_file):
        if path.exists():
            raise ConfigurationError(f"{path} already exists: choose another file name, or delete it")
    try:
        file.write_text(template(schema_file.name), encoding="utf-8")
        schema_file.write_text(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}; choose another folder") from None
    typer.echo(f"wrote {file} (all settings, commented out) and {schema_file}")


@config_app.command()
def show(file: File = None, *, as_json: Json = False) -> None:
    """Show every setting with its value and its origin.

    The origin is the name of an environment variable, a line in the file, or "default".
    """
    from langchain_hybridgraph.settings import HybridGraphSettings
    from langchain_hybridgraph.settings_file import settings_path

    settings = [each._replace(value=_masked(each.value, each.key)) for each in HybridGraphSettings.effective(file)]
    rows = [(each.key, json.dumps(each.value, ensure_ascii=False), each.origin) for each in settings]
    text = "\n".join(f"{key:{max(len(row[0]) for row in rows)}}  {value:40}  {origin}" for key, value, origin in rows)
    fields = [each._asdict() | _origin(each.origin) for each in settings]
    print_answer({"file": settings_path(file), "settings": fields}, text, as_json)


@config_app.command()
def check(file: File = None, *, as_json: Json = False) -> None:
    """Check whether the settings are valid.

    Each problem is printed on one line: where it is (file and line, or environment variable), the key, and the allowed
    values. The exit code is 1 if there are problems.
    """
    from langchain_hybridgraph.settings_file import FILE, UnusableSettingsError, settings_path

    problems: tuple[Problem, ...] = ()
    count = 0
    try:
        count = len(configured(file).model_fields_set)
    except UnusableSettingsError as error:
        problems = error.problems
    path = settings_path(file)
    fields = [
        _origin(each.origin)
        | {"key": each.key or None, "value": _masked(each.value)}
        | {"allowed": each.allowed_values, "message": each.message}
        for each in problems
    ]
    place = f"the environment; there is no {FILE} in the current folder" if path is None else path
    text = "\n".join(problem.message for problem in problems) or f"no problems in {count} settings of {place}"
    print_answer({"file": path, "ok": not problems, "problems": fields}, text, as_json, is_ok=not problems)


@config_app.command("schema")
def print_schema() -> None:
    """Print the JSON schema of the settings file, for editors."""
    from langchain_hybridgraph.settings import schema

    print_json(schema())


def _origin(origin: Origin) -> dict[str, Any]:
    variable = origin.name if origin.kind == "environment" else None
    return {"origin": origin.kind, "variable": variable, "line": origin.line}


_SECRET = re.compile(r"(api_?key|token|secret|password)$", re.IGNORECASE)


def _masked(value: Any, name: str = "") -> Any:
    """Return the value with those of secret parameters hidden."""
    if isinstance(value, Mapping):
        return {key: _masked(each, str(key)) for key, each in value.items()}
    return "…" if isinstance(value, str) and value and _SECRET.search(name) else value
