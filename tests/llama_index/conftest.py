"""A recorder of LlamaIndex's events."""

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler


class Events(BaseEventHandler):
    received: list = []  # noqa: RUF012 - pydantic copies it

    @classmethod
    def class_name(cls):
        return "Events"

    def handle(self, event, **kwargs):
        self.received.append(event)

    def of(self, *kinds):
        return [event for event in self.received if isinstance(event, kinds)]


@pytest.fixture
def events():
    handler, root = Events(), get_dispatcher()
    root.add_event_handler(handler)
    yield handler
    root.event_handlers.remove(handler)
