"""Abstract, overview and text of a document or directory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from langchain_hybridgraph.query.hierarchy.nodes import summaries_of
from langchain_hybridgraph.query.hierarchy.uri_lookup import target_nodes
from langchain_hybridgraph.records import Chunk, Scope
from langchain_hybridgraph.text.abstracts import OVERVIEW_LENGTH, abstract_of


class NodeContents(NamedTuple):
    """Contents of a document or directory.

    ``summary`` is the current summary of a directory, or None. ``chunks`` are the chunks of a document, in order.
    """

    summary: Chunk | None
    chunks: list[Chunk]

    def abstract(self) -> str:
        """Return the abstract (level 0), which has up to 256 characters.

        It is "" for a directory without a summary.
        """
        return lead(self.chunks) if self.summary is None else str(self.summary.metadata["abstract"])

    def overview(self) -> str:
        """Return the overview (level 1), which has up to 4,000 characters.

        The overview of a document is the beginning of its text.
        """
        return self.text()[:OVERVIEW_LENGTH] if self.summary is None else self.summary.text

    def text(self) -> str:
        """Return the full text of a document (level 2)."""
        return whole_text(self.chunks)


def contents_of(store: Any, uri: str, scope: Scope) -> NodeContents:
    """Return the contents of the document or directory at a uri, limited to the scope of a call.

    Raises ConfigurationError if the scope contains nothing at this uri.
    """
    tree = store.scoped_tree(scope)
    node = target_nodes(tree, [uri])[0][0]
    summaries = summaries_of(store)
    has_summary = summaries is not None and tree.is_directory(node) and tree.is_fully_visible(node)
    summaries_by_uri = summaries.get([tree.uri(node)]) if summaries is not None and has_summary else {}
    chunks = store.read(tree.chunks(node), scope, {}).values()
    return NodeContents(summaries_by_uri.get(tree.uri(node)), sorted(chunks, key=place_of))


def lead(chunks: Sequence[Chunk]) -> str:
    """Return the abstract of a document, made from its first chunk, or "" for a document without chunks."""
    return abstract_of(chunks[0].text, str(chunks[0].metadata.get("title") or "")) if chunks else ""


def place_of(chunk: Chunk) -> float:
    """Return the position of a chunk in its document, or 0 if it is unknown."""
    index = chunk.metadata.get("chunk_index")
    return index if isinstance(index, int | float) else 0.0


def whole_text(chunks: Sequence[Chunk]) -> str:
    """Return the text of a document, joined from its chunks.

    If two chunks overlap, the text that they share appears once.
    """
    text, end = "", None
    for chunk in chunks:
        start = chunk.metadata.get("start_index")
        if isinstance(start, int) and end is not None and start <= end:
            text += chunk.text[end - start :]
            end = max(end, start + len(chunk.text))
        else:
            text += f"\n\n{chunk.text}" if text else chunk.text
            end = start + len(chunk.text) if isinstance(start, int) else None
    return text
