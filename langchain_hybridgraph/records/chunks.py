"""Chunks of text, the units of search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_hybridgraph.records.serialization import Serializable


@dataclass(frozen=True, slots=True)
class Chunk(Serializable):
    """An indexed piece of text, or a parent to which child chunks refer.

    ``metadata`` is the user's JSON, unchanged. If ``parent_id`` is None, the parent is ``metadata["parent_id"]``. If
    ``document_id`` is None, the document is the first of these that exists: ``metadata["document_id"]``,
    ``metadata["source"]``, or the chunk's id.

    >>> Chunk("a#1", "text", {"source": "a.md"}).document
    'a.md'
    """

    id: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    document_id: str | None = None
    parent_id: str | None = None

    @property
    def document(self) -> str:
        """Id of the document that the chunk belongs to."""
        if self.document_id is not None:
            return self.document_id
        document_id = self.metadata.get("document_id")
        if document_id is None:
            document_id = self.metadata.get("source")
        return self.id if document_id is None else str(document_id)

    @property
    def content(self) -> tuple[str, str]:
        """Text and metadata, in a form that is equal for copies: equal texts that were stored under several ids.

        The ids that some stores add to metadata (``_id``, ``pk``, and ``id`` if it is the chunk's id) are left out.

        >>> copies = Chunk("1", "text", {"year": 2024, "_id": "1"}), Chunk("2", "text", {"_id": "2", "year": 2024})
        >>> copies[0].content == copies[1].content
        True
        """
        metadata = [
            (str(key), repr(value))
            for key, value in self.metadata.items()
            if key not in ("_id", "pk") and (key != "id" or str(value) != self.id)
        ]
        return self.text, repr(sorted(metadata))

    @property
    def headings(self) -> str:
        """Title of the document and headings above the chunk, or "" if there are none.

        They come from ``title`` and ``section_heading`` in the metadata. A keyword index searches them in addition to
        the text.

        >>> Chunk("a#1", "text", {"title": "Guide", "section_heading": "Install > Linux"}).headings
        'Guide > Install > Linux'
        """
        headings = (self.metadata.get(key) for key in ("title", "section_heading"))
        return replace_surrogates(" > ".join(heading for heading in headings if isinstance(heading, str)))

    @property
    def parent(self) -> str | None:
        """Id of the parent, or None if the chunk has no parent."""
        if self.parent_id is not None:
            return self.parent_id
        parent_id = self.metadata.get("parent_id")
        return None if parent_id in (None, "") else str(parent_id)


def replace_surrogates(text: str) -> str:
    """Return the text with lone surrogates, which files and engines cannot store, replaced by U+FFFD.

    >>> replace_surrogates("a\\ud800b")
    'a\ufffdb'
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
