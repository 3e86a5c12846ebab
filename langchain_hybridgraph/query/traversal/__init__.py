"""Who is visited when a search walks over edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.query.traversal.beam import Beam
from langchain_hybridgraph.query.traversal.best_first import BestFirst
from langchain_hybridgraph.query.traversal.bfs import BFS
from langchain_hybridgraph.query.traversal.evidence import LinkEvidence
from langchain_hybridgraph.query.traversal.pagerank import PersonalizedPageRank
from langchain_hybridgraph.query.traversal.ring import WaterCircle
from langchain_hybridgraph.query.traversal.walk import Arrived, Traversal, Walk

__all__ = [
    "BFS",
    "TRAVERSALS",
    "Arrived",
    "Beam",
    "BestFirst",
    "LinkEvidence",
    "PersonalizedPageRank",
    "Traversal",
    "Walk",
    "WaterCircle",
    "traversal_form",
    "traversal_from",
]

TRAVERSALS: Mapping[str, Callable[..., Traversal]] = MappingProxyType(
    {
        "bfs": BFS,
        "beam": Beam,
        "water_circle": WaterCircle,
        "best_first": BestFirst,
        "evidence": LinkEvidence,
        "pagerank": PersonalizedPageRank,
    }
)


def traversal_from(form: str | Mapping[str, Any] | Traversal) -> Traversal:
    """The traversal that a name, a mapping with ``type`` and parameters, or a traversal itself stands for.

    Raises ConfigurationError for a name, a parameter or a value that cannot be used.

    >>> traversal_from({"type": "bfs", "max_hops": 3}).max_hops
    3
    """
    if isinstance(form, str):
        form = {"type": form}
    if not isinstance(form, Mapping):
        if callable(getattr(form, "walk", None)) and not isinstance(form, type):
            return form
        raise ConfigurationError(
            f"traversal is {form!r}; wanted one of {', '.join(TRAVERSALS)}, a mapping, or a Traversal"
        )
    parameters = dict(form)
    name = parameters.pop("type", None)
    if name not in TRAVERSALS:
        raise ConfigurationError(f"traversal {name!r} is unknown; wanted one of {', '.join(TRAVERSALS)}")
    kind: Any = TRAVERSALS[name]
    allowed = [each.name for each in fields(kind) if each.repr]  # the rest is for the pipeline
    if unknown := [key for key in parameters if key not in allowed]:
        raise ConfigurationError(
            f"traversal {name!r} has no parameter {', '.join(map(repr, unknown))}; wanted {', '.join(allowed)}"
        )
    traversal: Traversal = kind(**parameters)
    return traversal


def traversal_form(traversal: Traversal) -> dict[str, Any]:
    """The mapping that :func:`traversal_from` makes this traversal of; sets stand there as sorted lists.

    Raises ConfigurationError for an object that is none of :data:`TRAVERSALS`.

    >>> traversal_form(BFS(relations={"cites"}))["relations"]
    ['cites']
    """
    for name, kind in TRAVERSALS.items():
        if type(traversal) is kind:
            form = {each.name: getattr(traversal, each.name) for each in fields(kind) if each.repr}  # type: ignore[arg-type]  # all of ours are dataclasses
            return {"type": name, **form, "relations": form["relations"] and sorted(form["relations"])}
    raise ConfigurationError(f"{traversal!r} has no form as a mapping; those of {', '.join(TRAVERSALS)} have one")
