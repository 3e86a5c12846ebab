"""Protection of a parent process's open engines in a forked child."""

from __future__ import annotations

import ctypes


def leave_undisposed(part: object) -> None:
    """Keep an object of the parent alive forever in a forked child, because closing it would affect the parent.

    Destroying a Tantivy, Chroma or onnxruntime object waits for threads that the child does not have, and closing a
    SQLite connection may remove a log that the parent is writing to.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(part))
