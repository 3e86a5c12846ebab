"""Settings from arguments, environment and one YAML file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from langchain_hybridgraph.errors import ConfigurationError

FILE = "hybridgraph.yaml"
SECTIONS = ("retriever", "store")
_PREFIX = "HYBRIDGRAPH_"
_WEIGHTS = ("retriever_semantic_weight", "retriever_keyword_weight")


def _no_truth_value(value: Any) -> Any:
    if isinstance(value, bool):  # YAML reads yes and on as True, and pydantic would make 1 of it
        raise ValueError("a truth value is not a number")
    return value


def _from_home(path: Path) -> Path:
    return Path(os.path.expanduser(path))  # Path.expanduser raises for an unknown user


def _known_fusion(form: str | dict[str, Any]) -> str | dict[str, Any]:
    from langchain_hybridgraph.query.fusion import fusion_from

    fusion_from(form)
    return form


Number = Annotated[float, BeforeValidator(_no_truth_value)]
Count = Annotated[int, BeforeValidator(_no_truth_value)]
Fusion = Annotated[str | dict[str, Any], AfterValidator(_known_fusion)]
Folder = Annotated[Path, AfterValidator(_from_home)]


def _setting(default: Any, allowed: str, description: str, **bounds: Any) -> Any:
    return Field(default, description=description, json_schema_extra={"allowed": allowed}, **bounds)


class HybridGraphSettings(BaseSettings):
    """The settings of stores and retrievers; an argument goes before the environment, the file, the default.

    Environment variables are the keys in capitals after ``HYBRIDGRAPH_``, an empty one counts as unset; the file
    is read by :meth:`from_file` only. None (``null``) is unset everywhere. Raises ConfigurationError for an
    unknown key and an unusable value; the message names the file or variable, the key and what is allowed.

    >>> HybridGraphSettings(retriever_semantic_weight=0.6).retriever_keyword_weight
    0.4
    """

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, allow_inf_nan=False
    )

    retriever_semantic_weight: Number = _setting(
        0.7,
        "a number from 0",
        "Weight of the vector side. One weight alone gives the other 1 − it; with both unset the "
        "retriever takes those that suit the embedding (.7/.3, with LSA more on the words).",
        ge=0,
    )
    retriever_keyword_weight: Number = _setting(0.3, "a number from 0", "Weight of the keyword side.", ge=0)
    retriever_k: Count = _setting(5, "a whole number from 1", "How many Documents come back.", ge=1)
    retriever_fusion: Fusion | None = _setting(
        None,
        "rrf, convex, distribution, max, interleave or concat, or a mapping of its parameters",
        "How the lists of the sources become one; unset: the retriever's default.",
    )
    retriever_overfetch: Count = _setting(
        3, "a whole number from 1", "Candidates per source: k times this, at least 100.", ge=1
    )
    retriever_min_score: Number = _setting(
        0.0, "a number from 0 to 1", "Hits with a lower score are left out.", ge=0, le=1
    )
    retriever_mmr_lambda: Number | None = _setting(
        None,
        "a number from 0 to 1",
        "Diversity by maximal marginal relevance: 1 looks at the score only, 0 at the difference only; unset: off.",
        ge=0,
        le=1,
    )
    retriever_per_document: Count | None = _setting(
        None, "a whole number from 1", "At most so many hits of one document; unset: any number.", ge=1
    )
    retriever_parents: bool = _setting(
        True, "true or false", "Whether a child gives way to its parent, where there is one."
    )
    retriever_deadline_ms: Number | None = _setting(
        None,
        "a number above 0",
        "Sources that take longer, in milliseconds, are left out and named; unset: all are waited for.",
        gt=0,
    )
    retriever_on_error: Literal["degrade", "empty", "raise"] = _setting(
        "degrade",
        "degrade, empty or raise",
        "A failing source: go on with the others and raise if all fail; give nothing if all fail; raise at the first.",
    )
    retriever_keyword_engine: Literal["tantivy", "rank_bm25"] = _setting(
        "tantivy", "tantivy or rank_bm25", "Engine of a keyword index that is built over documents."
    )
    retriever_metadata_prefix: str = _setting(
        "", "a text", "Stands before the keys that retrieval writes into metadata."
    )
    store_path: Folder | None = _setting(
        None, "a path", "Folder of the index; a relative one in a file starts at the file's folder."
    )
    store_embedding: str | None = _setting(
        None,
        "auto, lsa, minilm or package.module:factory",
        "Embedding model; unset: the one that the index was made with.",
    )
    store_language: str | None = _setting(
        None, "the English name of a language, such as german", "Stemming and stop words of a new index."
    )
    store_tenant: str | None = _setting(None, "a text", "The tenant whose chunks are seen.")

    def __init__(self, _file: Path | None = None, **given: Any) -> None:
        filed = {} if _file is None else _read(_file)
        given = {key: value for key, value in given.items() if value is not None}
        variables = _variables()

        def origin(key: str) -> str:
            """The key under the name that it has where its value comes from."""
            return key if key in given else variables.get(key, f"{_file}: {key}")

        _refuse_unknown([*given, *variables, *filed], origin)
        try:
            super().__init__(**{key: filed[key] for key in filed.keys() - variables.keys()} | given)
        except ValidationError as error:
            raise ConfigurationError("\n".join(_said(error, origin))) from None
        self._complete_weights(origin)

    def _complete_weights(self, origin: Callable[[str], str]) -> None:
        named = [key for key in _WEIGHTS if key in self.model_fields_set]
        if not named:
            return
        if len(named) == 1:
            (other,) = set(_WEIGHTS) - set(named)
            weight: float = getattr(self, named[0])
            if weight > 1:
                raise ConfigurationError(
                    f"{origin(named[0])} is {weight:g} and {other} is not given; "
                    "wanted a number from 0 to 1, or both weights"
                )
            self.__dict__[other] = round(1 - weight, 12)  # not among the fields set: nobody gave it
        if self.retriever_semantic_weight + self.retriever_keyword_weight == 0:
            raise ConfigurationError(
                f"{origin(named[0])} and the other weight are both 0; wanted one above 0, or nothing is searched"
            )

    @classmethod
    def from_file(cls, path: str | Path | None = None, **given: Any) -> HybridGraphSettings:
        """The settings of a YAML file under those of the environment and the arguments.

        Keys stand flat (``retriever_k: 5``) or in sections (``retriever: {k: 5}``). Without a path,
        ``hybridgraph.yaml`` in the working directory is read if there is one.
        """
        if path is None:
            return cls(_file=Path(FILE) if Path(FILE).exists() else None, **given)
        return cls(_file=_from_home(Path(path)), **given)

    def arguments(self, section: Literal["retriever", "store"]) -> dict[str, Any]:
        """The keys of one section without its name, as a constructor takes them.

        Only those that were given, so that the rest is the constructor's; but always ``k``, and the weights both or
        not at all.

        >>> HybridGraphSettings(retriever_min_score=0.2, retriever_keyword_weight=0.5).arguments("retriever")
        {'semantic_weight': 0.5, 'keyword_weight': 0.5, 'k': 5, 'min_score': 0.2}
        """
        given = self.model_fields_set | {"retriever_k"}
        if not given.isdisjoint(_WEIGHTS):
            given.update(_WEIGHTS)
        prefix = f"{section}_"
        return {key.removeprefix(prefix): value for key, value in self if key in given and key.startswith(prefix)}

    @classmethod
    def table(cls) -> str:
        """All keys as a Markdown table: key, default, allowed values, meaning.

        >>> print(HybridGraphSettings.table().splitlines()[4])
        | `retriever_k` | 5 | a whole number from 1 | How many Documents come back. |
        """
        rows = [
            f"| `{key}` | {'' if field.default is None else field.default} | {_allowed(key)} | {field.description} |"
            for key, field in cls.model_fields.items()
        ]
        return "\n".join(["| Key | Default | Allowed | Meaning |", "|---|---|---|---|", *rows])


def _allowed(key: str) -> str:
    extra = HybridGraphSettings.model_fields[key].json_schema_extra
    assert isinstance(extra, dict)
    return str(extra["allowed"])


def _said(invalid: ValidationError, origin: Callable[[str], str]) -> list[str]:
    lines = {}
    for error in invalid.errors():
        key = str(error["loc"][0])
        why = f" ({error['ctx']['error']})" if error["type"] == "value_error" else ""
        lines[key] = f"{origin(key)} is {error['input']!r}; wanted {_allowed(key)}{why}"
    return list(lines.values())  # one per key, though a union errs once per member


# -- where values come from --


def _variables() -> dict[str, str]:
    """The environment's own names of the keys that it sets; case does not matter, empty is unset."""
    named = {name.lower().removeprefix(_PREFIX.lower()): name for name, value in os.environ.items() if value}
    return {
        key: name
        for key, name in named.items()
        if name.lower() != key and key.startswith(tuple(f"{section}_" for section in SECTIONS))
    }


def _refuse_unknown(keys: Iterable[str], origin: Callable[[str], str]) -> None:
    known = HybridGraphSettings.model_fields
    unknown = [key for key in dict.fromkeys(keys) if key not in known]
    if unknown:
        raise ConfigurationError("\n".join(f"{origin(key)} is no setting; {_nearest(key)}" for key in unknown))


def _nearest(key: str) -> str:
    known = [*HybridGraphSettings.model_fields, *SECTIONS]
    near = get_close_matches(key, known, n=1)
    return f"did you mean {near[0]}?" if near else f"the settings are {', '.join(known)}"


def _read(path: Path) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:
        line = 0 if error.problem_mark is None else error.problem_mark.line + 1
        raise ConfigurationError(f"{path} is not YAML: line {line}: {error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: not UTF-8, or a date such as 2024-13-01
        raise ConfigurationError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if content is not None and not isinstance(content, Mapping):
        raise ConfigurationError(f"{path} holds {content!r:.60}; wanted lines such as retriever_k: 5")
    settings = _flat(content or {}, path)
    if isinstance(index := settings.get("store_path"), str):
        settings["store_path"] = path.parent / _from_home(Path(index))
    return settings


def _flat(content: Mapping[Any, Any], path: Path) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for name, value in content.items():
        for key, each in _keys(str(name), value, path):
            if key in settings:
                raise ConfigurationError(f"{path}: {key} stands there twice; wanted once, flat or in its section")
            settings[key] = each
    return {key: value for key, value in settings.items() if value is not None}


def _keys(name: str, value: Any, path: Path) -> list[tuple[str, Any]]:
    if name not in SECTIONS:
        return [(name, value)]
    if not isinstance(value, Mapping | None):
        raise ConfigurationError(f"{path}: {name} is {value!r}; wanted a section of settings below it")
    return [(f"{name}_{inner}", each) for inner, each in (value or {}).items()]
