"""The summaries of the directories of an open index, in an index of their own beside it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.stores.care import CaredIndex, CheckReport
from langchain_hybridgraph.stores.catalog import Catalogue
from langchain_hybridgraph.stores.open_folder import CATALOGUE
from langchain_hybridgraph.stores.searching import SearchedIndex
from langchain_hybridgraph.stores.tree import TreedIndex

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Chunk
    from langchain_hybridgraph.stores.base import Tree
    from langchain_hybridgraph.stores.generation import Embeds

FOLDER = "layers"
STATE = "state"
"""The key under which a summary notes the state of the directory that it was made of (see ``stores.base.Tree``)."""


class SummaryIndex(SearchedIndex, CaredIndex):
    """An index of summaries, each a chunk with the uri of its directory: it is searched and written, and no more.

    It is opened, and its folder is laid out, as any index (``stores.opening.OpenIndex``).
    """


class Summaries:
    """The summaries of directories as they may be shown: those of which nothing has changed since they were made.

    A text that was deleted or changed is in no summary from that moment on, in whatever process, since each is held
    against the tree of now. ``kept`` holds all of them, and is what is searched.
    """

    def __init__(self, kept: SummaryIndex, states: Mapping[str, str], tree: Tree) -> None:
        self.kept = kept
        self._states, self._tree = states, tree

    def __len__(self) -> int:
        """How many are kept, shown or not."""
        return len(self._states)

    def is_true(self, uri: str) -> bool:
        """Whether the directory has a summary, and it is still true."""
        return self._is_of_now(uri, self._states.get(uri))

    def get(self, uris: Iterable[str]) -> dict[str, Chunk]:
        """The summaries of these directories, by uri, that are true."""
        found = self.kept.get(list(uris))
        return {chunk.id: chunk for chunk in found if self._is_of_now(chunk.id, chunk.metadata.get(STATE))}

    def _is_of_now(self, uri: str, state: str | None) -> bool:
        node = self._tree.node(uri)
        return node >= 0 and state == self._tree.state(node)


class LayeredIndex(TreedIndex, CaredIndex):
    """An index whose directories have summaries, each a chunk of the index ``layers-N`` in the folder.

    They are kept out of the index itself, so that no search but that of the tree finds them, no count has them, and
    BM25's statistics are those of the texts. ``N`` is the generation of the vectors: where a model is made anew from
    the corpus, the summaries are embedded anew with it.
    """

    _layers: tuple[int, SummaryIndex] | None = None
    _states: tuple[SummaryIndex, int, Mapping[str, str]] | None = None

    def summaries(self) -> Summaries | None:
        """What may be shown of the summaries now; None where there are none."""
        layers = self.layers()
        if layers is None:
            return None
        return Summaries(layers, self._states_of(layers), self.tree(Scope(None, self.tenant, time.time())))

    def _states_of(self, layers: SummaryIndex) -> Mapping[str, str]:
        """The state that each summary was made of, by uri."""
        version, held = layers._refresh().rows.version, self._states
        if held is None or held[:2] != (layers, version):
            kept = layers.get(layers.document_ids())
            held = self._states = layers, version, {chunk.id: str(chunk.metadata.get(STATE)) for chunk in kept}
        return held[2]

    def settle(self) -> int:
        """Bring the engines up to date; where the model was made anew, embed the summaries anew with it.

        Returns how many texts were embedded by that; summaries do not count.
        """
        embedded = super().settle()
        self._keep_layers()
        return embedded

    def layers(self) -> SummaryIndex | None:
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

    def make_layers(self) -> SummaryIndex:
        """The index of the summaries, to be written to; a new one has those of the generation before."""
        there = self.layers()
        if there is not None:
            return there
        with self._gate, self._refreshing:
            number = self._refresh().generation.number
            before, held = self._layers_before(number), self._layers
            for tenant in before.keys() - {self.tenant}:
                other = self._opened_layers(number, tenant)
                _take_over(other, before[tenant])
                other.close()
            made = self._hold_layers(number)
            if held is not None:
                held[1].close()
        _take_over(made, before.get(self.tenant, []))
        if self.path is not None:
            for left in self._other_layers(self.path, number):
                shutil.rmtree(left, ignore_errors=True)
        return made

    def _keep_layers(self) -> None:
        """Have the summaries of the generation before, where there are any, in the present one."""
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
            embedding=_Lent(self.embedding),
            name=self.name,
            tenant=tenant,
            language=self.language,
            read_only=self._read_only,
        )

    def _layers_before(self, number: int) -> dict[str | None, list[Chunk]]:
        """The summaries that were made for the vectors of an earlier generation, by tenant."""
        if self.path is None:
            held = self._layers
            return {} if held is None or held[0] == number else {self.tenant: held[1].get(held[1].document_ids())}
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
        """The folders of summaries but that of this generation."""
        wanted = None if number is None else self._layer_folder(path, number).name
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
        return super().stats() | {"layers": 0 if layers is None else len(layers)}

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


def _take_over(layers: SummaryIndex, summaries: Sequence[Chunk]) -> None:
    layers.put(summaries)
    layers.settle()


def _of_layers(lines: Sequence[str]) -> list[str]:
    return [f"summaries of directories: {line}" for line in lines]


def _generation(folder: Path) -> int:
    number = folder.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1
