"""Guard that delays closing while calls run."""

from __future__ import annotations

import threading
import time

from langchain_hybridgraph.errors import StoreError


class CloseGuard:
    """Counts running calls, so that closing and forking can wait for the calls of other threads."""

    def __init__(self) -> None:
        self._inside = 0
        self._own = threading.local()  # the number of nested calls of each thread
        self._shut = self._is_held = self._is_lost = False
        self._condition = threading.Condition()

    def __enter__(self) -> None:
        with self._condition:
            if self._shut:
                raise StoreError("the store is closed: open it again with HybridGraphStore(path)")
            if self._is_lost:
                raise StoreError(
                    "this process was forked while another thread was using the index in memory, so the index cannot "
                    "be used here: start workers with spawn or forkserver, or fork while no thread reads or writes"
                )
            if self._is_held and not self._depth:
                self._condition.wait_for(lambda: not self._is_held)
            self._inside += 1
        self._own.depth = self._depth + 1

    def __exit__(self, *_: object) -> None:
        self._own.depth = self._depth - 1
        with self._condition:
            self._inside -= 1
            if self._shut or self._is_held:
                self._condition.notify_all()

    def shut(self, patience: float = 10.0) -> bool:
        """Reject new calls and wait up to ``patience`` seconds for running ones.

        Return False if the guard was already shut.
        """
        with self._condition:
            if self._shut:
                return False
            self._shut = True
            self._condition.wait_for(lambda: self._inside == 0, patience)
            return True

    def hold(self, deadline: float) -> None:
        """Block calls from other threads, and wait for running ones until ``deadline`` (``time.monotonic()``)."""
        with self._condition:
            self._is_held = True
            self._condition.wait_for(self._is_left_to_this_thread, max(0.0, deadline - time.monotonic()))

    def let_in(self) -> None:
        """Allow calls from other threads again after :meth:`hold`."""
        with self._condition:
            self._is_held = False
            self._condition.notify_all()

    def begin_in_child(self) -> None:
        """Reset the guard in a forked child, which does not have the parent's other threads.

        If one of those threads was in a call, every call in the child raises StoreError.
        """
        self._is_lost = self._is_lost or not self._is_left_to_this_thread()
        self._inside = self._depth
        self._is_held = False
        self._condition = threading.Condition()

    @property
    def _depth(self) -> int:
        return getattr(self._own, "depth", 0)

    def _is_left_to_this_thread(self) -> bool:
        return self._inside == self._depth
