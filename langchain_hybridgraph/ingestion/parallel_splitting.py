"""Reading and splitting of text files in worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from langchain_hybridgraph.execution.processes import ordered_map
from langchain_hybridgraph.ingestion.chunking import CutDocument, Cutter
from langchain_hybridgraph.ingestion.edges.base import EdgeBuilder
from langchain_hybridgraph.ingestion.edges.entities import EntityEdges, find_mentions
from langchain_hybridgraph.ingestion.readers.files import File, read_text_file
from langchain_hybridgraph.ingestion.splitters import ParentChildSplitter, RecursiveSplitter, Splitter
from langchain_hybridgraph.text.analyzer import approximate_tokens

_BATCH = 1 << 17  # number of bytes that one task reads


def cut_ahead(
    files: Sequence[File], splitter: Splitter | None, builders: Iterable[EdgeBuilder], begin: Callable[[File], None]
) -> Iterator[CutDocument | None]:
    """Read and split files, in worker processes if there are many. Yield a CutDocument for each file, or None if the
    file is left to the caller.

    Files that are not text, cannot be read or cause a warning are left to the caller, which reports the problem. All
    files are left to the caller if ``splitter`` is None or might return different results in another process. ``begin``
    is called with each file before it is read.
    """
    if splitter is None or not _is_portable(splitter):
        for file in files:
            begin(file)
            yield None
        return
    has_mentions = any(isinstance(builder, EntityEdges) and builder.reads_alone for builder in builders)
    batches = _batches(files, begin)
    yield from chain.from_iterable(ordered_map(partial(_cut_files, splitter, has_mentions), batches))


def _is_portable(splitter: Splitter | None) -> bool:
    if isinstance(splitter, ParentChildSplitter):
        return _is_portable(splitter.parents) and _is_portable(splitter.children)
    return type(splitter) is RecursiveSplitter and splitter.counter is approximate_tokens


def _batches(files: Iterable[File], begin: Callable[[File], None]) -> Iterator[list[File]]:
    batch: list[File] = []
    size = 0
    for file in files:
        begin(file)
        batch.append(file)
        size += size_of(file)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def size_of(file: File) -> int:
    """Return the size of a file in bytes, or 0 if the file cannot be read."""
    try:
        return file.path.stat().st_size
    except OSError:  # reading the file reports the reason
        return 0


def _cut_files(splitter: Splitter, has_mentions: bool, files: Iterable[File]) -> list[CutDocument | None]:
    return [_cut(splitter, has_mentions, file) for file in files]


def _cut(splitter: Splitter, has_mentions: bool, file: File) -> CutDocument | None:
    document = read_text_file(file)
    if document is None:
        return None
    notes: list[str] = []
    cut = Cutter(splitter, notes.append).cut(document)
    if notes:
        return None
    return replace(cut, mentions=find_mentions(cut)) if has_mentions and cut.chunks else cut
