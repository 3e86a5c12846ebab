"""Vector store with only the methods of LangChain's interface."""

from langchain_core.vectorstores import InMemoryVectorStore, VectorStore


class BareStore(VectorStore):
    """Store that returns texts with scores, but neither all its texts nor vectors; get_by_ids works with ``by_id``."""

    def __init__(self, documents, embedding, by_id=False):
        self._inner = InMemoryVectorStore.from_documents(documents, embedding)
        self._by_id = by_id

    @property
    def embeddings(self):
        return self._inner.embeddings

    def add_documents(self, documents, **kwargs):
        return self._inner.add_documents(documents, **kwargs)

    def delete(self, ids=None, **kwargs):
        return self._inner.delete(ids)

    def similarity_search(self, query, k=4, **kwargs):
        return self._inner.similarity_search(query, k)

    def similarity_search_with_score(self, query, k=4, **kwargs):
        return self._inner.similarity_search_with_score(query, k)

    def get_by_ids(self, ids, /):
        if not self._by_id:
            raise NotImplementedError
        return self._inner.get_by_ids(ids)

    @classmethod
    def from_texts(cls, texts, embedding, metadatas=None, **kwargs):
        raise NotImplementedError
