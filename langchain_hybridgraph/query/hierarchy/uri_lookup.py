"""Lookup of a tree's nodes by uri or path."""

from __future__ import annotations

import difflib
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records.uris import directory_of, plain_uri

if TYPE_CHECKING:
    from langchain_hybridgraph.stores.protocols import Tree

_MAX_SUGGESTIONS = 3


def path_of(uri: str) -> str:
    """Return a uri without its scheme and without slashes at its ends."""
    return uri.partition("://")[2].strip("/") if "://" in uri else uri.strip("/")


def root_nodes(tree: Tree, root: str) -> list[int]:
    """Return the nodes of a root directory.

    ``root`` is a uri, or a path without a scheme. A path matches directories of every scheme.
    """
    at = tree.node(root)
    schemes = dict.fromkeys(uri.partition("://")[0] for uri in map(tree.uri, tree.top()) if "://" in uri)
    nodes_below = [] if "://" in root else [tree.node(f"{scheme}://{root}") for scheme in schemes]
    return [node for node in (at, *nodes_below) if node >= 0]


def as_targets(value: Any) -> tuple[str, ...]:
    """Return the argument ``target_uri`` as a tuple of uris. None becomes an empty tuple.

    Raises ConfigurationError if ``value`` is neither a string nor an iterable of uris.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Mapping | bytes) or not isinstance(value, Iterable):
        raise ConfigurationError(f"target_uri must be a uri such as 'docs/api', or a list of them, got {value!r}")
    return tuple(value)


def target_nodes(tree: Tree, targets: Sequence[object]) -> list[list[int]]:
    """Return a list of nodes for each target.

    A target is a uri of the tree, or a relative (``./docs/``, ``docs//api``) or absolute path. If an absolute path such
    as ``/home/me/docs/api`` is not in the tree, its last folders, such as ``docs/api``, are looked up instead. A scheme
    alone means its top-level nodes, and ``.`` means everything. If no uri matches exactly, letter case is ignored,
    provided that only one uri then matches.

    Raises ConfigurationError for a target without nodes. The message suggests similar uris.
    """
    node_lists = []
    for uri in targets:
        if not (isinstance(uri, str) and uri.strip()):
            raise ConfigurationError(f"each target_uri must be a uri such as 'docs/api', got {uri!r}")
        nodes = _nodes_of(tree, uri)
        if not nodes:
            raise ConfigurationError(_unknown(tree, uri))
        node_lists.append(nodes)
    return node_lists


def _nodes_of(tree: Tree, uri: str) -> list[int]:
    if "://" in uri:
        at = tree.node(uri)
        if at < 0 and uri.endswith("://"):
            return [top for top in tree.top() if tree.uri(top).lower().startswith(uri.lower())]
        return [at] if at >= 0 else _in_other_capitals(tree, plain_uri(uri))
    spellings = list(dict.fromkeys(_spellings(uri)))
    matches = (node for spelling in spellings if (node := tree.node(spelling)) >= 0)
    if (first := next(matches, None)) is not None:
        return [first]
    if posixpath.normpath(uri) == ".":
        return tree.top()
    return next((nodes for spelling in spellings if (nodes := _in_other_capitals(tree, spelling))), [])


def _spellings(path: str) -> Iterator[str]:
    """Yield the uris that a path may mean, in the order in which to look them up.

    For a path that begins with ``/`` or ``..``, these include the last folders of the absolute path, longest first.
    """
    yield path
    plain = posixpath.normpath(path.replace("\\", "/") if os.sep == "\\" else path)
    yield plain
    if not plain.startswith(("/", "..")):
        return
    parts = PurePath(os.path.realpath(path)).parts[1:]
    for start in range(len(parts)):
        yield "/".join(parts[start:])


def _in_other_capitals(tree: Tree, uri: str) -> list[int]:
    """Return a list with the node whose uri differs from ``uri`` only in letter case.

    Return [] if no node matches, or if several do.
    """
    nodes = tree.top()
    matches: list[int] = []
    while nodes:
        matches += [node for node in nodes if tree.uri(node).casefold() == uri.casefold()]
        leading = [node for node in nodes if f"{uri}/".casefold().startswith(f"{tree.uri(node)}/".casefold())]
        nodes = [child for node in leading if node not in matches for child in tree.children(node)]
    return matches if len(matches) == 1 else []


# -- suggestions --------------------------------------------------------------------------------------------------


def _unknown(tree: Tree, uri: str) -> str:
    near = _near(tree, uri)
    tops = [tree.uri(node) for node in tree.top()]
    if near:
        hint = f"did you mean {' or '.join(map(repr, near))}?"
    else:
        top_uris = ", ".join(map(repr, tops[:5])) + (", …" if len(tops) > 5 else "")
        hint = f"the top of the tree has {top_uris}" if tops else "the tree is empty"
    return f"there is nothing under {uri!r} in the scope of this call; {hint}"


def _near(tree: Tree, uri: str) -> list[str]:
    """Return up to ``_MAX_SUGGESTIONS`` similar uris.

    Uris in the same directory come first, then uris elsewhere with the same name.
    """
    plain = plain_uri(posixpath.normpath(uri) if "://" not in uri else uri)
    above = directory_of(plain)
    while above and tree.node(above) < 0:
        above = directory_of(above)
    siblings = tree.children(tree.node(above)) if above else tree.top()
    similar = difflib.get_close_matches(plain, [tree.uri(node) for node in siblings], n=_MAX_SUGGESTIONS, cutoff=0.6)
    name = plain.rpartition("/")[2].casefold()
    elsewhere = [each for each in _all_uris(tree) if _is_named(each.rpartition("/")[2].casefold(), name)]
    return list(dict.fromkeys([*similar, *sorted(elsewhere, key=lambda each: (len(each), each))]))[:_MAX_SUGGESTIONS]


def _is_named(name: str, other: str) -> bool:
    return name in (other, f"{other}s") or name.partition(".")[0] == other


def _all_uris(tree: Tree) -> Iterator[str]:
    nodes = tree.top()
    while nodes:
        yield from map(tree.uri, nodes)
        nodes = [child for node in nodes for child in tree.children(node)]
