"""Guard that counts running calls and waits for them before closing."""

import threading

import pytest

from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.stores.folder import CloseGuard


def test_a_closed_guard_refuses_calls():
    """After shut(), a call raises StoreError and a second shut returns False."""
    gate = CloseGuard()
    with gate, gate:
        pass
    assert gate.shut()
    assert not gate.shut()
    with pytest.raises(StoreError, match="closed"), gate:
        pass


def test_shutting_waits_for_running_calls():
    """shut() returns after the last running call has ended."""
    gate, inside, leave, order = CloseGuard(), threading.Event(), threading.Event(), []

    def call():
        with gate:
            inside.set()
            leave.wait()
            order.append("left")

    def close():
        gate.shut()
        order.append("shut")

    threads = [threading.Thread(target=call), threading.Thread(target=close)]
    threads[0].start()
    inside.wait()
    threads[1].start()
    leave.set()
    for thread in threads:
        thread.join()
    assert order == ["left", "shut"]


def test_shut_has_a_timeout():
    """shut() returns after its timeout if a call never ends."""
    gate = CloseGuard()
    with gate:
        assert gate.shut(patience=0.01)
