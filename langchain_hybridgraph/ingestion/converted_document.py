"""Documents that were converted from another format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.documents import Document
from pydantic import PrivateAttr

from langchain_hybridgraph.ingestion.markdown import Anchor


class ConvertedDocument(Document):
    """Document that was converted from another format and has anchors that are not part of its text.

    ``start_index`` in the metadata of its chunks is an offset in the converted text, not in the source file.
    LangChain's text splitters, ``dumps`` and ``loads`` lose the anchors.

    >>> document = ConvertedDocument("# Theme", [Anchor(0, "confval-theme", explicit=True)], {"source": "a.rst"})
    >>> document.anchors
    (Anchor(start=0, name='confval-theme', explicit=True),)
    """

    _anchors: tuple[Anchor, ...] = PrivateAttr()
    _text: str = PrivateAttr()

    def __init__(self, page_content: str, anchors: Iterable[Anchor], metadata: Mapping[str, Any]) -> None:
        super().__init__(page_content=page_content, metadata=dict(metadata))
        self._anchors = tuple(anchors)
        self._text = page_content

    @property
    def anchors(self) -> tuple[Anchor, ...]:
        """Anchors with their positions in the text. Empty if the text was replaced."""
        return self._anchors if self.page_content == self._text else ()

    @classmethod
    def lc_id(cls) -> list[str]:
        """Return the serialisation id of LangChain's Document, so that a saved object is loaded as a plain Document."""
        return Document.lc_id()
