"""Reader of EPUB books."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

from langchain_hybridgraph.ingestion.readers.html import from_html
from langchain_hybridgraph.ingestion.readers.kinds import FilePart, UnreadableError

_CONTAINER = "{urn:oasis:names:tc:opendocument:xmlns:container}"
_PACKAGE = "{http://www.idpf.org/2007/opf}"
_TITLE = "{http://purl.org/dc/elements/1.1/}title"


def read(path: Path, note: Callable[[str], None]) -> Iterator[FilePart]:
    """Yield the chapters that contain text, in reading order. ``chapter`` in the metadata is the chapter's number,
    counted from 1.
    """
    with zipfile.ZipFile(path) as book:
        container = ElementTree.fromstring(book.read("META-INF/container.xml"))
        root = container.find(f".//{_CONTAINER}rootfile")
        if root is None:
            raise UnreadableError("it is not a valid book: META-INF/container.xml has no rootfile element")
        name = root.get("full-path", "")
        package = ElementTree.fromstring(book.read(name))
        title = (package.findtext(f".//{_TITLE}") or "").strip()
        files = {item.get("id"): item.get("href", "") for item in package.iter(f"{_PACKAGE}item")}
        paths = [files.get(item.get("idref"), "") for item in package.iter(f"{_PACKAGE}itemref")]
        if "META-INF/rights.xml" in book.namelist():
            raise UnreadableError("it is encrypted")
        chapter = 0
        for chapter_path in filter(None, paths):
            inside = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(chapter_path)))
            page = from_html(book.read(inside).decode("utf-8", "replace"))
            if page.text.strip():
                chapter += 1
                heading = {"section_heading": page.title} if page.title and page.title != title else {}
                yield FilePart(page.text, {"chapter": chapter} | heading, title)
        if not chapter:
            raise UnreadableError("no chapter contains text")
