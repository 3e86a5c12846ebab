"""Keeps the open parts of a parent from being closed in a forked child."""

from __future__ import annotations

import ctypes


def leave_undisposed(part: object) -> None:
    """In a forked child: keep a part of the parent for ever, since closing it would reach into the parent's files.

    A Tantivy, Chroma or onnxruntime object that is disposed of waits for threads that the child does not have, and
    closing a connection of SQLite may remove a log that the parent is writing to.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(part))
