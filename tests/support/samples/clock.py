"""Time for tests: a fixed wall clock, and searches that are late on demand."""

import time
from datetime import UTC, datetime

from langchain_hybridgraph.execution import effects

NOW = datetime(2026, 6, 1, tzinfo=UTC)
PATIENCE = 120.0
"""Seconds after which a test that waits for something gives up; a test that passes never waits so long."""


def stop_the_clock(monkeypatch):
    """Make it NOW until the end of the test."""
    monkeypatch.setattr(time, "time", NOW.timestamp)


def make_late(monkeypatch, *sources):
    """Let the deadline pass for calls of these sources alone, however fast the machine is.

    Calls of other sources have time until their deadline. A call without a deadline is not late.
    """
    deadline_of = effects.deadline_of

    def deadline_of_source(call, deadline):
        until = deadline_of(call, deadline)
        return until if until is None or call.source not in sources else min(until, time.monotonic() + 0.02)

    monkeypatch.setattr(effects, "deadline_of", deadline_of_source)
