"""Contents of an embedded store: its edges, and the number of rows written to its catalog."""

import numpy as np

from langchain_hybridgraph import HybridGraphStore
from tests.support.models.query_embeddings import QueryEmbeddings


class VectorTexts(QueryEmbeddings):
    """Embedding of texts that start with their vector: "1 0.5 | any words" has the vector (1, 0.5)."""

    def embed_query(self, text):
        return [float(number) for number in text.partition("|")[0].split()]


def vector_text(vector, words=""):
    """Return a text with this vector."""
    return f"{' '.join(f'{number:.17g}' for number in np.asarray(vector, float))} | {words}"


def memory():
    return HybridGraphStore(None, VectorTexts())


def all_edges(store):
    """Return all edges that leave chunks, by source, target and relation."""
    ids = {id for ids_of_document in store.document_chunks(store.document_ids()).values() for id in ids_of_document}
    return {(edge.source, edge.target, edge.relation): edge for edge in store.edges(sorted(ids))}


def pairs(store):
    return {(source, target) for source, target, _ in all_edges(store)}


def changes(store):
    """Return the number of rows of the catalog that were written, inserted or deleted so far."""
    with store._index.catalog.reading() as connection:
        return connection.total_changes


def rows_about(store, id):
    """Return the number of rows of the catalog with this id, including edges of a node with it."""
    with store._index.catalog.reading() as connection:
        nodes = connection.execute("SELECT count(*) FROM nodes WHERE id = ?", (id,)).fetchone()[0]
        dangling = connection.execute(
            "SELECT count(*) FROM edges WHERE source NOT IN (SELECT node FROM nodes) "
            "OR target NOT IN (SELECT node FROM nodes)"
        ).fetchone()[0]
    return nodes + dangling
