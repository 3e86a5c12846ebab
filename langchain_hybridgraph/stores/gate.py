"""A gate that lets calls through and closes when the last has come back."""

from __future__ import annotations

import threading

from langchain_hybridgraph.errors import StoreError


class Gate:
    """Counts the calls inside, so that engines are not closed under a call that was only abandoned."""

    def __init__(self) -> None:
        self._inside = 0
        self._shut = False
        self._condition = threading.Condition()

    def __enter__(self) -> None:
        with self._condition:
            if self._shut:
                raise StoreError("the store is closed: open it again with HybridGraphStore(path)")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._condition:
            self._inside -= 1
            if self._shut:
                self._condition.notify_all()

    def shut(self, patience: float = 10.0) -> bool:
        """Let nobody in any more and wait (so many seconds at most) for those inside; False if already shut."""
        with self._condition:
            if self._shut:
                return False
            self._shut = True
            self._condition.wait_for(lambda: self._inside == 0, patience)
            return True
