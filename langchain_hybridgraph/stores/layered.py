"""The summaries of the directories of an open index, in an index of their own beside it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.stores.care import CaredIndex, CheckReport
from langchain_hybridgraph.stores.catalog import Catalogue
from langchain_hybridgraph.stores.opening import CATALOGUE

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Chunk
    from langchain_hybridgraph.stores.embedded import EmbeddedStore
    from langchain_hybridgraph.stores.generation import Embeds

FOLDER = "layers"


class LayeredIndex(CaredIndex):
    """An index whose directories have summaries, each a chunk of the index ``layers-N`` in the folder.

    They are kept out of the index itself, so that no search but that of the tree finds them, no count has them, and
    BM25's statistics are those of the texts. ``N`` is the generation of the vectors: a model that is made anew from
    the corpus has its summaries embedded anew, and until then there are none.
    """

    _layers: tuple[int, EmbeddedStore] | None = None

    def layers(self) -> EmbeddedStore | None:
        """The index of the summaries, by the directories' uris; None where there is none."""
        with self._gate:
            number = self._refresh().generation.number
            with self._refreshing:
                held = self._layers
                if held is not None and held[0] == number:
                    return held[1]
                if self.path is None or not (self._layer_folder(self.path, number) / CATALOGUE).exists():
                    return None
                return self._hold_layers(number)

    def make_layers(self) -> EmbeddedStore:
        """The index of the summaries, to be written to; a new one has those of the generation before."""
        there = self.layers()
        if there is not None:
            return there
        with self._gate, self._refreshing:
            number = self._refresh().generation.number
            before = self._layers_before(number)
            held = self._layers
            made = self._hold_layers(number)
            if held is not None:
                held[1].close()
        made.put(before)
        made.settle()
        if self.path is not None and self.tenant is None:
            for left in self._other_layers(self.path, number):
                shutil.rmtree(left, ignore_errors=True)
        return made

    def _hold_layers(self, number: int) -> EmbeddedStore:
        from langchain_hybridgraph.stores.embedded import EmbeddedStore

        made = EmbeddedStore(
            None if self.path is None else self._layer_folder(self.path, number),
            embedding=_Lent(self.embedding),
            name=self.name,
            tenant=self.tenant,
            language=self.language,
            read_only=self._read_only,
        )
        self._layers = number, made
        return made

    def _layers_before(self, number: int) -> list[Chunk]:
        """The summaries that were made for the vectors of an earlier generation."""
        if self._layers is not None and self._layers[0] != number:
            old = self._layers[1]
            return old.get(old.document_ids())
        folders = [] if self.path is None else self._other_layers(self.path, number)
        if not folders:
            return []
        catalogue = Catalogue(max(folders, key=_generation) / CATALOGUE)
        try:
            return [entry.chunk() for entry in catalogue.iterate() if entry.tenant == (self.tenant or "")]
        finally:
            catalogue.close()

    def _layer_folder(self, path: Path, number: int) -> Path:
        return path / f"{FOLDER}-{number}"

    def _other_layers(self, path: Path, number: int) -> list[Path]:
        wanted = self._layer_folder(path, number).name
        return [left for left in path.glob(f"{FOLDER}-*") if left.name != wanted and (left / CATALOGUE).exists()]

    # -- what is done with the whole index ------------------------------------------------------------------

    def check(self) -> CheckReport:
        """Compare catalogue, matrix and engines, those of the summaries too (see ``care.CaredIndex``)."""
        report, layers = super().check(), self.layers()
        if layers is None:
            return report
        found = layers.check()
        return replace(
            report,
            problems=(*report.problems, *_of_layers(found.problems)),
            unchecked=(*report.unchecked, *_of_layers(found.unchecked)),
            counts={**report.counts, "layers": found.counts["chunks"]},
        )

    def repair(self) -> CheckReport:
        """Mend what ``check`` finds, in the summaries too; then check."""
        layers = self.layers()
        if layers is not None:
            layers.repair()
        return super().repair()

    def stats(self) -> dict[str, Any]:
        """Counts and facts, and how many directories have a summary (``layers``)."""
        layers = self.layers()
        return super().stats() | ({} if layers is None else {"layers": len(layers)})

    def close(self) -> None:
        """Close the summaries, then the index."""
        held, self._layers = self._layers, None
        if held is not None:
            held[1].close()
        super().close()


class _Lent:
    """The embedding of the index, without what makes it anew: the index decides about that."""

    def __init__(self, embedding: Embeds) -> None:
        self._embedding = embedding

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text."""
        return self._embedding.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        return self._embedding.embed_query(text)


def _of_layers(lines: Sequence[str]) -> list[str]:
    return [f"summaries of directories: {line}" for line in lines]


def _generation(folder: Path) -> int:
    number = folder.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1
