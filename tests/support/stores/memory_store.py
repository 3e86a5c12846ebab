"""Stores made of dictionaries, for tests of ``ingest``."""


class PlainStore:
    """Store that implements only ``AcceptsChunks`` and records its calls."""

    def __init__(self):
        self.chunks = {}
        self.parents = {}
        self.edges = {}
        self.calls = []
        self.embedded = []
        self.parents_written = []
        self.fail_after = None

    def upsert(self, chunks, *, parents=(), edges=()):
        self._may_fail()
        self.calls.append(("upsert", len(chunks)))
        self.parents_written += [parent.id for parent in parents]
        counts = {"added": 0, "updated": 0, "unchanged": 0, "embedded": 0}
        for kind, batch in (("chunks", chunks), ("parents", parents)):
            stored = self.chunks if kind == "chunks" else self.parents
            for chunk in {chunk.id: chunk for chunk in batch}.values():
                old = stored.get(chunk.id)
                counts["added" if old is None else "unchanged" if old == chunk else "updated"] += 1
                if kind == "chunks" and (old is None or old.text != chunk.text):
                    counts["embedded"] += 1
                    self.embedded.append(chunk.id)
                stored[chunk.id] = chunk
        self._add(edges)
        return counts

    def flush(self):
        self.calls.append(("flush", 0))
        return 0

    def document_chunks(self, document_ids):
        documents = set(document_ids)
        chunk_ids = {}
        for chunk in (*self.chunks.values(), *self.parents.values()):
            if chunk.document in documents:
                chunk_ids.setdefault(chunk.document, set()).add(chunk.id)
        return chunk_ids

    def replace_edges(self, sources, relations, edges):
        self.calls.append(("replace_edges", len(edges)))
        replaced = set(sources)
        self.edges = {k: e for k, e in self.edges.items() if e.source not in replaced or e.relation not in relations}
        self._add(edges)
        return len(edges)

    def remove(self, ids):
        self.calls.append(("remove", len(ids)))
        there = [id for id in ids if self.chunks.pop(id, None) or self.parents.pop(id, None)]
        removed = set(there)
        self.edges = {k: e for k, e in self.edges.items() if e.source not in removed and e.target not in removed}
        return len(there)

    def links(self, relation):
        """Return the (source, target) pairs of a relation."""
        return {(edge.source, edge.target) for edge in self.edges.values() if edge.relation == relation}

    def _add(self, edges):
        for edge in edges:
            key = edge.source, edge.target, edge.relation
            if key not in self.edges or self.edges[key].weight < edge.weight:
                self.edges[key] = edge

    def _may_fail(self):
        if self.fail_after is not None:
            if self.fail_after == 0:
                raise OSError("the disk is full")
            self.fail_after -= 1


class MemoryStore(PlainStore):
    """Store that also implements ``ListsDocuments``."""

    def document_ids(self):
        return {chunk.document for chunk in self.chunks.values()}
