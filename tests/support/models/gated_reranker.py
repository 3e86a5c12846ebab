"""A reranker and a planner that wait at a gate, for tests of what happens meanwhile."""

import threading

from langchain_hybridgraph.search.planner import RulePlanner

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


def gated_planner():
    """Return a planner that answers once the gate is open."""

    def plan(*arguments):
        WAITING.release()
        assert GATE.wait(30)
        return RulePlanner()(*arguments)

    return plan
