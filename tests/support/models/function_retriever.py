"""Retriever of another library, made of a function."""

from typing import Any

from langchain_core.retrievers import BaseRetriever


class FunctionRetriever(BaseRetriever):
    """Retriever whose Documents are those that a function returns for the query."""

    find: Any

    def _get_relevant_documents(self, query, *, run_manager):
        return self.find(query)
