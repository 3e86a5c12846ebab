"""Setup of all tests: no network, no outside settings, and the same Hypothesis examples in every run.

``make faults`` also runs the tests of Hypothesis, with many more examples.
"""

import os
import socket

import pytest
from hypothesis import HealthCheck, settings

# A slow machine is not a failure, and a failure is one that the next run repeats.
settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=20)
settings.register_profile("long", deadline=None, max_examples=500, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")


def pytest_configure(config):
    if config.getoption("markexpr") == "faults":
        settings.load_profile("long")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    if config.getoption("markexpr") == "faults":
        for item in items:
            if hasattr(getattr(item, "obj", None), "hypothesis"):
                item.add_marker(pytest.mark.faults)


# Compiling ranx takes a minute, while fusing twenty lists without compiling takes no time.
os.environ["NUMBA_DISABLE_JIT"] = "1"
os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False"}


@pytest.fixture(autouse=True, scope="session")
def _no_network():
    """Make every connection to another machine fail."""
    connect = socket.socket.connect

    def local_only(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise OSError(f"tests use no network, and this one asked for {address[0]}")
        return connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", local_only)
        yield


@pytest.fixture(autouse=True)
def _no_outside_settings(monkeypatch):
    """Remove HYBRIDGRAPH_ variables from the environment of the tests."""
    for name in [name for name in os.environ if name.upper().startswith("HYBRIDGRAPH_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def store():
    """Open a store of two texts, for tests that need any store."""
    from langchain_hybridgraph import HybridGraphStore

    with HybridGraphStore.from_texts(["The cat sleeps.", "A dog barks."], "lsa", ids=["cat", "dog"]) as store:
        yield store
