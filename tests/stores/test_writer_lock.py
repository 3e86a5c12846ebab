"""Writer lock: turns between threads, between processes, and across a fork."""

import errno
import fcntl
import multiprocessing
import os
import time
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import pytest

from langchain_hybridgraph.errors import StoreError, StoreLockedError
from langchain_hybridgraph.stores.writer_lock import FairLock, FileLock, WriterLock

PATIENCE = 60
SPAWN = multiprocessing.get_context("spawn")


def hold(path, is_held):
    """Take a turn that does not end."""
    with WriterLock(path).turn(timeout=600):
        is_held.set()
        time.sleep(600)


def take_turns(path, stop, turns):
    """Take turns without a pause, and count them."""
    while not stop.is_set():
        with WriterLock(path).turn(timeout=600):
            turns.value += 1


@pytest.fixture
def path(tmp_path):
    return tmp_path / "writer.lock"


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
    is_held = SPAWN.Event()
    holder = SPAWN.Process(target=hold, args=(path, is_held))
    holder.start()
    assert is_held.wait(PATIENCE)
    assert not can_write(path)
    holder.kill()
    holder.join()
    assert can_write(path)


def test_a_greedy_process_cannot_keep_others_out(path):
    """Two processes that take turns without a pause do not keep a third one from its turns."""
    lock, stop, counts = WriterLock(path), SPAWN.Event(), [SPAWN.Value("q"), SPAWN.Value("q")]
    greedy = [SPAWN.Process(target=take_turns, args=(path, stop, count)) for count in counts]
    for process in greedy:
        process.start()
    while not all(count.value for count in counts):
        assert all(process.is_alive() for process in greedy)
    for _ in range(20):
        with lock.turn(timeout=600):
            pass
    stop.set()
    for process in greedy:
        process.join()


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
