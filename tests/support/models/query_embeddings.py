"""Base class of embeddings that embed texts and queries in the same way."""

from langchain_core.embeddings import Embeddings


class QueryEmbeddings(Embeddings):
    """Embedding whose vector of a text is that of the text as a query."""

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]
