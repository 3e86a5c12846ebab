"""A reranker that waits at a gate, for tests of what happens meanwhile."""

import threading

GATE = threading.Event()
WAITING = threading.Semaphore(0)
"""Counts the calls that have reached the gate."""


def gated_reranker():
    """Return a reranker that reverses the order once the gate is open."""

    def rerank(query, texts):
        WAITING.release()
        assert GATE.wait(30)
        return [float(place) for place in range(len(texts))]

    return rerank
