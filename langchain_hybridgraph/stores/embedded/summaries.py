"""The summaries of directories, in an index of their own next to the open index."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.stores.embedded.catalog import Catalogue
from langchain_hybridgraph.stores.embedded.directory_tree import TreedIndex
from langchain_hybridgraph.stores.embedded.maintenance import CaredIndex, CheckReport
from langchain_hybridgraph.stores.embedded.reader import SearchedIndex
from langchain_hybridgraph.stores.embedded.shared_folder import CATALOGUE

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Chunk
    from langchain_hybridgraph.stores.embedded.generation import Embedding
    from langchain_hybridgraph.stores.protocols import Tree

FOLDER = "layers"
STATE = "state"
"""The metadata key of a summary for the state of the directory it was made from (see ``stores.protocols.Tree``)."""


class SummaryIndex(SearchedIndex, CaredIndex):
    """An index of summaries, each a chunk with the uri of its directory; it is only searched and written.

    It is opened, and its folder is laid out, like any index (``stores.embedded.index_folder.OpenIndex``).
    """


class Summaries:
    """The summaries of directories that may be shown: those whose directory has not changed since they were made.

    A deleted or changed text is in no summary from that moment on, in any process, since each summary is compared with
    the present tree. ``kept`` holds all summaries and is the index that is searched.
    """

    def __init__(self, kept: SummaryIndex, states: Mapping[str, str], tree: Tree) -> None:
        self.kept = kept
        self._states, self._tree = states, tree

    def __len__(self) -> int:
        """Return the number of summaries, shown or not."""
        return len(self._states)

    def is_true(self, uri: str) -> bool:
        """Return whether the directory has a summary that is up to date."""
        return self._is_current(uri, self._states.get(uri))

    def get(self, uris: Iterable[str]) -> dict[str, Chunk]:
        """Return the up-to-date summaries of these directories, by uri."""
        report_of_layers = self.kept.get(list(uris))
        return {chunk.id: chunk for chunk in report_of_layers if self._is_current(chunk.id, chunk.metadata.get(STATE))}

    def _is_current(self, uri: str, state: str | None) -> bool:
        node = self._tree.node(uri)
        return node >= 0 and state == self._tree.state(node)


class LayeredIndex(TreedIndex, CaredIndex):
    """An index whose directories have summaries, each a chunk of the index ``layers-N`` in the folder.

    They are kept out of the index itself, so that only searches of the tree find them, no count includes them, and
    BM25's statistics are those of the texts. ``N`` is the generation of the vectors: when a model is fitted again to
    the corpus, the summaries are embedded again with it.
    """

    _layers: tuple[int, SummaryIndex] | None = None
    _states: tuple[SummaryIndex, int, Mapping[str, str]] | None = None

    def summaries(self) -> Summaries | None:
        """Return the summaries that may be shown now; None if there are none."""
        layers = self.layers()
        if layers is None:
            return None
        return Summaries(layers, self._states_of(layers), self.scoped_tree(Scope(None, self.tenant, time.time())))

    def _states_of(self, layers: SummaryIndex) -> Mapping[str, str]:
        """Return the state that each summary was made from, by uri."""
        version, current = layers._refresh().rows.version, self._states
        if current is None or current[:2] != (layers, version):
            kept = layers.get(layers.document_ids())
            current = self._states = layers, version, {chunk.id: str(chunk.metadata.get(STATE)) for chunk in kept}
        return current[2]

    def flush(self) -> int:
        """Bring the engines up to date; if the model was fitted again, embed the summaries again with it.

        Return the number of texts this embedded; summaries do not count.
        """
        embedded = super().flush()
        self._keep_layers()
        return embedded

    def layers(self) -> SummaryIndex | None:
        """Return the index of the summaries, by the directories' uris; None if there is none."""
        with self._gate:
            number = self._refresh().generation.number
            with self._refreshing:
                current = self._layers
                if current is not None and current[0] == number:
                    return current[1]
                if self.path is None or not (self._layer_folder(self.path, number) / CATALOGUE).exists():
                    return None
                return self._hold_layers(number)

    def make_layers(self) -> SummaryIndex:
        """Return the index of the summaries for writing; a new one takes over those of the previous generation."""
        present = self.layers()
        if present is not None:
            return present
        with self._gate, self._refreshing:
            number = self._refresh().generation.number
            before, current = self._layers_before(number), self._layers
            for tenant in before.keys() - {self.tenant}:
                other = self._opened_layers(number, tenant)
                _take_over(other, before[tenant])
                other.close()
            made = self._hold_layers(number)
            if current is not None:
                current[1].close()
        _take_over(made, before.get(self.tenant, []))
        if self.path is not None:
            for folder in self._other_layers(self.path, number):
                shutil.rmtree(folder, ignore_errors=True)
        return made

    def _keep_layers(self) -> None:
        """Carry the summaries of the previous generation, if there are any, over to the present one."""
        has_others = self._layers is not None if self.path is None else any(self._other_layers(self.path, None))
        if has_others and self.layers() is None:
            self.make_layers()

    def _hold_layers(self, number: int) -> SummaryIndex:
        made = self._opened_layers(number, self.tenant)
        self._layers = number, made
        return made

    def _opened_layers(self, number: int, tenant: str | None) -> SummaryIndex:
        return SummaryIndex(
            None if self.path is None else self._layer_folder(self.path, number),
            embedding=_BorrowedEmbedding(self.embedding),
            name=self.name,
            tenant=tenant,
            language=self.language,
            read_only=self._read_only,
        )

    def _layers_before(self, number: int) -> dict[str | None, list[Chunk]]:
        """Return the summaries made for the vectors of an earlier generation, by tenant."""
        if self.path is None:
            current = self._layers
            if current is None or current[0] == number:
                return {}
            return {self.tenant: current[1].get(current[1].document_ids())}
        folders = self._other_layers(self.path, number)
        if not folders:
            return {}
        before: dict[str | None, list[Chunk]] = {}
        catalogue = Catalogue(max(folders, key=_generation) / CATALOGUE)
        try:
            for entry in catalogue.iterate():
                before.setdefault(entry.tenant or None, []).append(entry.chunk())
        finally:
            catalogue.close()
        return before

    def _layer_folder(self, path: Path, number: int) -> Path:
        return path / f"{FOLDER}-{number}"

    def _other_layers(self, path: Path, number: int | None) -> list[Path]:
        """Return the folders of summaries other than that of this generation."""
        wanted = None if number is None else self._layer_folder(path, number).name
        return [each for each in path.glob(f"{FOLDER}-*") if each.name != wanted and (each / CATALOGUE).exists()]

    # -- operations on the complete index -------------------------------------------------------------------

    def check(self) -> CheckReport:
        """Compare catalogue, matrix and engines, including those of the summaries (see ``care.CaredIndex``)."""
        report, layers = super().check(), self.layers()
        if layers is None:
            return report
        report_of_layers = layers.check()
        return replace(
            report,
            problems=(*report.problems, *_of_layers(report_of_layers.problems)),
            unchecked=(*report.unchecked, *_of_layers(report_of_layers.unchecked)),
            counts={**report.counts, "layers": report_of_layers.counts["chunks"]},
        )

    def repair(self) -> CheckReport:
        """Repair what ``check`` reports, including the summaries; then check."""
        layers = self.layers()
        if layers is not None:
            layers.repair()
        return super().repair()

    def stats(self) -> dict[str, Any]:
        """Return counts and facts, including the number of directories with a summary (``layers``)."""
        layers = self.layers()
        return super().stats() | {"layers": 0 if layers is None else len(layers)}

    def close(self) -> None:
        """Close the summaries, then the index."""
        current, self._layers = self._layers, None
        if current is not None:
            current[1].close()
        super().close()


class _BorrowedEmbedding:
    """The embedding of the index without the methods that fit it, which the index itself calls."""

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        return self._embedding.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        return self._embedding.embed_query(text)


def _take_over(layers: SummaryIndex, summaries: Sequence[Chunk]) -> None:
    layers.upsert(summaries)
    layers.flush()


def _of_layers(lines: Sequence[str]) -> list[str]:
    return [f"summaries of directories: {line}" for line in lines]


def _generation(folder: Path) -> int:
    number = folder.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1
