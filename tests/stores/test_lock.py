"""The lock that lets one writer at a time into an index folder."""

import os
import subprocess
import sys

import pytest

from langchain_hybridgraph.errors import ReadOnlyError, StoreLockedError
from langchain_hybridgraph.stores.lock import WriterLock

HOLD = """
import sys
from pathlib import Path
from langchain_hybridgraph.stores.lock import WriterLock
lock = WriterLock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "writer.lock"


def test_one_holder_at_a_time(path):
    """Two locks on one file exclude each other also in one process; the second names the first's process."""
    first, second = WriterLock(path), WriterLock(path)
    first.acquire()
    with pytest.raises(StoreLockedError, match=f"process {os.getpid()}"):
        second.acquire()
    assert (first.held, second.held) == (True, False)


def test_released_it_is_free(path):
    """After release another can take it, and the first again after that."""
    first, second = WriterLock(path), WriterLock(path)
    first.acquire()
    first.release()
    second.acquire()
    assert (first.held, second.held) == (False, True)
    second.release()
    first.acquire()
    first.release()


def test_acquire_and_release_may_be_repeated(path):
    """Taking what is held and giving back what is not do nothing."""
    lock = WriterLock(path)
    lock.release()
    lock.acquire()
    lock.acquire()
    lock.release()
    lock.release()
    WriterLock(path).acquire()


def test_a_killed_holder_frees_the_lock(path):
    """While its process lives the lock is held, named by pid; SIGKILL frees it."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(StoreLockedError, match=f"process {holder.pid}"):
        WriterLock(path).acquire()
    holder.kill()
    holder.communicate()
    WriterLock(path).acquire()


def test_a_folder_that_is_not_there(tmp_path):
    """Where no file can be made the error says that queries work."""
    with pytest.raises(ReadOnlyError, match="cannot be written to"):
        WriterLock(tmp_path / "missing" / "writer.lock").acquire()


def test_a_lock_that_cannot_name_its_holder_holds(path, monkeypatch):
    """On a full disk the process number cannot be noted; the lock excludes others all the same."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    lock = WriterLock(path)
    lock.acquire()
    assert lock.held
    with pytest.raises(StoreLockedError, match="process unknown"):
        WriterLock(path).acquire()
