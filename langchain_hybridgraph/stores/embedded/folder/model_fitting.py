"""Fitting an index's embedding to its texts."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.execution.processes import report
from langchain_hybridgraph.stores.embedded.catalog import outbox as catalog_outbox
from langchain_hybridgraph.stores.embedded.catalog.rows import text_hash
from langchain_hybridgraph.stores.embedded.folder.embedding_check import FittedEmbedding, TransformsFitted, probe_facts
from langchain_hybridgraph.stores.embedded.folder.generation import Generation
from langchain_hybridgraph.stores.embedded.folder.index_folder import IndexFolder
from langchain_hybridgraph.stores.engines.vector_matrix import unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Largest number of texts to which an embedding is fitted, chosen at regular intervals from all texts.
FIT_TEXTS = 100_000
# Number of texts embedded in one call, which is large enough for a fitted embedding to use several processes.
EMBEDDED_AT_ONCE = 16_384
# Number of the newest texts that are checked to determine whether a new fit is needed.
NEWEST_TEXTS = 500


class ModelFitting:
    """Fits an embedding such as LSA to the texts of an index, and fits it again when the texts have changed enough."""

    def __init__(self, index: IndexFolder) -> None:
        self._index = index

    def is_due(self) -> bool:
        """Return whether the embedding must be fitted now.

        A fit is due if there has been none yet, if the number of texts has doubled since the last fit, if new texts
        differ too much from the fitted ones, or if the model cannot be read. No fit is due if there are no texts, or if
        the embedding is not fitted to texts.
        """
        catalog, generation = self._index.catalog, self._index.generation
        if not isinstance(self._index.settings.embedding, FittedEmbedding):
            return False
        facts = catalog.facts()
        fitted, end = int(facts.get("fitted_row", -1)), int(facts["next_row"])
        if fitted == end and not generation.unusable_files:
            return False  # avoids reading the model
        chunks = catalog.count_rows()
        if not chunks:
            return False
        if self._index.is_unfitted(generation):
            return True
        model = generation.embedding
        assert isinstance(model, FittedEmbedding), "what a model is read from is of the kind that was passed in"
        newest = [text for _, text in catalog.texts(max(fitted, end - NEWEST_TEXTS))]
        return chunks >= 2 * int(facts["fitted_texts"]) or model.needs_refit(newest)

    def fit(self) -> int:
        """Fit the embedding, embed all texts again, and return their number.

        The vectors are written to the matrix of a new generation, and one commit switches to this generation. The
        caller must hold the write lock, and the embedding must be one that is fitted to texts.
        """
        index, catalog = self._index, self._index.catalog
        model = index.embedding
        assert isinstance(model, FittedEmbedding), "only such an embedding can be fitted"
        chunks = catalog.count_rows()
        if not chunks:
            return 0
        every = -(-chunks // FIT_TEXTS)
        report("embedding", 0, chunks, "chunks")
        fitted = copy.copy(model)
        texts = [text for place, (_, text) in enumerate(catalog.texts()) if place % every == 0]
        vectors = None
        if every == 1 and isinstance(fitted, TransformsFitted):
            vectors = fitted.fit_transform(texts)
        else:
            fitted = fitted.fit(texts)
        del texts
        old = index.generation
        fresh = Generation(index.settings.path, old.number + 1, None, fitted)
        fresh.remove()
        if fresh.model_file is not None:
            fitted.save(fresh.model_file)
        fresh.fill(self._embedded_pages(fitted, chunks, vectors))
        row, text = next(catalog.texts())
        facts = catalog.facts()
        # With the lock, the commit and the new generation become visible to other threads at the same moment.
        with index.refresh_lock:
            with catalog.writing() as connection:
                catalog_outbox.set_facts(
                    connection,
                    generation=fresh.number,
                    fitted_row=int(facts["next_row"]),
                    fitted_texts=chunks,
                    **probe_facts(index.settings.name, fresh.matrix, row, text),
                )
                catalog_outbox.log_changes(connection, [])
            index.use_generation(fresh)
            index.snapshot()
        old.remove()
        return chunks

    def _embedded_pages(
        self, model: FittedEmbedding, chunks: int, vectors: NDArray[Any] | None
    ) -> Iterator[tuple[list[int], NDArray[Any], list[bytes]]]:
        """Yield pages of all chunks: their rows, their vectors and the hashes of their texts.

        ``vectors`` contains the vectors of all chunks in the order of their rows; if it is None, the model computes
        them.
        """
        done = 0
        for page in self._index.catalog.pages(step=EMBEDDED_AT_ONCE):
            texts = [entry.text for entry in page]
            page_vectors = model.embed_documents(texts) if vectors is None else vectors[done : done + len(page)]
            yield [entry.row or 0 for entry in page], unit(page_vectors), [*map(text_hash, texts)]
            done += len(page)
            report("embedding", done, chunks, "chunks")
