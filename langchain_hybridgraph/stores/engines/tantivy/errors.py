"""Errors of Tantivy, converted to StoreError."""

from __future__ import annotations

from types import TracebackType

from langchain_hybridgraph.errors import HybridGraphError, StoreError, StoreLockedError


class TantivyErrors:
    """Context manager around calls to Tantivy that converts their exceptions to StoreError.

    If another writer holds Tantivy's lock, the error is StoreLockedError. A panic in Tantivy raises
    ``pyo3_runtime.PanicException``, a BaseException that callers do not expect; it is converted, too. This package's
    own errors, KeyboardInterrupt and cancellation pass through.
    """

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, HybridGraphError):
            return
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            wrapper = StoreLockedError if "LockBusy" in str(error) else StoreError
            raise wrapper(f"{self._what}: {error}") from error
