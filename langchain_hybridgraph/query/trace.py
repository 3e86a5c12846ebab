"""What a search notes about itself while it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Trace:
    """Reasons for ``degraded``, in the order they arose, and each stage's milliseconds."""

    def __init__(self) -> None:
        self._reasons: dict[str, None] = {}
        self.stages: dict[str, float] = {}
        self.method = "hybrid"
        self.errors: dict[str, str] = {}
        self._began = time.perf_counter()

    @property
    def reasons(self) -> tuple[str, ...]:
        """What did not work as asked, each once."""
        return tuple(self._reasons)

    @property
    def took_ms(self) -> float:
        """Milliseconds since the search began."""
        return (time.perf_counter() - self._began) * 1e3

    def degrade(self, reason: str | None) -> None:
        """Note a reason; None is none."""
        if reason is not None:
            self._reasons[reason] = None

    def note(self, where: str, error: BaseException) -> None:
        """Keep what an error said, for the plan of the result."""
        self.errors[where] = f"{type(error).__name__}: {error}"

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage, together with the waiting in it."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.stages[name] = self.stages.get(name, 0.0) + (time.perf_counter() - began) * 1e3
