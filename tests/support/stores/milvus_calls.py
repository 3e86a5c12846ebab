"""Embedding for stores in milvus-lite, and a recorder of their calls."""

import threading
from contextlib import contextmanager

from langchain_core.embeddings import Embeddings

from tests.support.stores.suite import HashedWords


class WordEmbeddings(HashedWords, Embeddings):
    """HashedWords with the interface of LangChain's Embeddings."""


@contextmanager
def counted_calls(store):
    """Yield a list to which the name of every call to the server is added."""
    calls, connection, thread = [], store._index.connection, threading.current_thread()
    call, acall = connection.call, connection.acall

    def counted(method, **arguments):
        if threading.current_thread() is thread:
            calls.append(method)
        return call(method, **arguments)

    async def acounted(method, **arguments):
        calls.append(f"awaited {method}")
        return await acall(method, **arguments)

    connection.call, connection.acall = counted, acounted
    try:
        yield calls
    finally:
        del connection.call, connection.acall
