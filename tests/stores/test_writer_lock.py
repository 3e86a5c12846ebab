"""Writer lock: turns between threads, between processes, and across a fork."""

import errno
import fcntl
import os
import time
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import pytest

from langchain_hybridgraph.errors import StoreError, StoreLockedError
from langchain_hybridgraph.stores.writer_lock import FairLock, FileLock, WriterLock
from tests.support.servers.python_process import start_python

PATIENCE = 60
HOLD = """
import sys
from pathlib import Path
from langchain_hybridgraph.stores.writer_lock import WriterLock
with WriterLock(Path(sys.argv[1])).turn(timeout=600):
    print("held", flush=True)
    sys.stdin.read()
"""
# Script that takes turns without a pause until its input ends.
GREEDY = """
import sys, threading
from pathlib import Path
from langchain_hybridgraph.stores.writer_lock import WriterLock
lock = WriterLock(Path(sys.argv[1]))
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
turns = 0
while not stop.is_set():
    with lock.turn(timeout=600):
        turns += 1
        if turns == 1:
            print("begun", flush=True)
print(turns)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "writer.lock"


def started(script, path, says):
    process = start_python("-c", script, path)
    assert process.stdout.readline() == f"{says}\n"
    return process


def can_write(path):
    try:
        with WriterLock(path).turn(timeout=0):
            return True
    except StoreLockedError:
        return False


def test_a_turn_may_be_taken_again_inside(path):
    """A thread can take its turn again inside a turn, which ends with the outermost block."""
    lock = WriterLock(path)
    with lock.turn(timeout=1):
        with lock.turn(timeout=0):
            assert not can_write(path)
        assert not can_write(path)
    assert can_write(path)


def test_a_turn_ends_with_an_error(path):
    """An error inside a turn ends the turn."""
    with pytest.raises(KeyError), WriterLock(path).turn(timeout=1):
        raise KeyError
    assert can_write(path)


def test_another_thread_is_named_as_such(path):
    """If another thread of the process has the turn, the error names a thread instead of a process."""
    lock = WriterLock(path)
    with lock.turn(timeout=1), ThreadPoolExecutor() as pool:
        error = pool.submit(lambda: lock.turn(timeout=0.01).__enter__()).exception()
    with pytest.raises(StoreLockedError, match="another thread of this process"):
        raise error


def test_a_killed_holder_frees_the_lock(path):
    """The lock is held while its process lives and freed when the process is killed."""
    holder = started(HOLD, path, "held")
    assert not can_write(path)
    holder.kill()
    holder.communicate()
    assert can_write(path)


def test_a_greedy_process_cannot_keep_others_out(path):
    """Two processes that take turns without a pause do not keep a third one from its turns."""
    greedy = [started(GREEDY, path, "begun") for _ in range(2)]
    lock = WriterLock(path)
    for _ in range(20):
        with lock.turn(timeout=600):
            pass
    turns = [int(process.communicate()[0]) for process in greedy]
    assert min(turns) > 0


def test_a_thread_that_gives_up_is_passed_over():
    """A thread that gave up waiting is skipped in the queue."""
    lock = FairLock()
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        assert lock.acquire(timeout=1)
        assert not first.submit(lock.acquire, timeout=0.01).result()
        waiting = second.submit(lock.acquire, timeout=PATIENCE)
        lock.release()
        assert waiting.result()


def test_a_forked_child_does_not_keep_its_parents_lock(path):
    """A child forked during a turn does not keep the lock after the parent releases it."""
    lock = FileLock(path)
    assert lock.acquire(deadline=0)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    lock.release()
    is_free = can_write(path)
    os.close(writing)
    os.waitpid(child, 0)
    assert is_free


def test_a_file_system_without_locks(path):
    """A file system that refuses locks raises a StoreError that suggests a local disk."""
    refusal = OSError(errno.ENOLCK, "No locks available")
    message = r"cannot be locked .No locks available.*put the index on a local disk"
    with patch.object(fcntl, "flock", side_effect=refusal), pytest.raises(StoreError, match=message):
        FileLock(path).acquire(time.monotonic())
