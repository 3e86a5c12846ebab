"""The garbage collector is paused only inside the block, and only if it was on."""

import gc
import os

import pytest

from langchain_hybridgraph.execution.threads import paused_garbage_collection


def test_the_collector_runs_again_after_the_block():
    """The outer one of two nested blocks turns the collector on again."""
    with paused_garbage_collection():
        with paused_garbage_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off():
    """The block leaves the collector off if the program has turned it off."""
    gc.disable()
    try:
        with paused_garbage_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
def test_the_collector_runs_in_a_forked_child():
    """A child that is forked during a pause collects garbage, because no thread there ends the pause."""
    with paused_garbage_collection():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
