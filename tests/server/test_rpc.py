"""gRPC sends the same hits in the same order as the stream over HTTP."""

import asyncio
import logging
import re
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.json_format import MessageToDict, ParseDict
from grpc_tools import protoc

from langchain_hybridgraph import HybridRetriever
from langchain_hybridgraph.server.rpc import DESCRIPTORS, RetrieveEvent, RetrieveRequest, grpc_server
from langchain_hybridgraph.server.service import Service
from tests.server.conftest import ADMIN, OTHER, READER, RED
from tests.server.test_stream import WITH_PLANNER, events_in

ROOT = Path(__file__).parents[2]
QUESTION = "Who wrote the first program?"


@asynccontextmanager
async def serving(service):
    """Serve, and return a function that calls StreamRetrieve with a request and a token."""
    server = grpc_server(service)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stream_retrieve = channel.unary_stream(
            "/hybridgraph.v1.Retrieval/StreamRetrieve",
            request_serializer=RetrieveRequest.SerializeToString,
            response_deserializer=RetrieveEvent.FromString,
        )

        def call(body, token=READER):
            metadata = [] if token is None else [("authorization", f"Bearer {token}")]
            return stream_retrieve(ParseDict(body, RetrieveRequest()), metadata=metadata)

        yield call
    await server.stop(None)


@pytest.fixture
async def retrieve(tenants_app):
    """Return a function that returns all events of a call."""
    async with serving(tenants_app.state.service) as call:

        async def retrieve(*arguments):
            return [event async for event in call(*arguments)]

        yield retrieve


def plain(document):
    return {name: value for name, value in document.items() if name != "type"}


@pytest.mark.parametrize("name", ["hybrid", "graph", "hierarchical", "advanced"])
async def test_the_hits_are_those_of_the_stream_over_http(name, retrieve, tenants_client):
    """The events have the hits, the order and the changes of the server-sent events."""
    options = {"filter": {"team": {"$in": ["red", "blue"]}}}
    body = {"retriever": name, "query": QUESTION, "k": 3, **options}
    headers = {"Authorization": f"Bearer {READER}"}
    _, *expected = events_in((await tenants_client.post("/search/stream", json=body, headers=headers)).text)
    *hits, last = await retrieve({"retriever": name, "query": QUESTION, "k": 3, "options": options})
    assert len(hits) == 3
    _, answer = expected[-1]
    assert list(last.answer.order) == answer["order"]
    assert [event.hit.id for event in hits] == [document["id"] for _, document in expected[:-1]]
    # A hit that is sent when the search has just ended has its final metadata, and has not changed.
    received = [*(event.hit for event in hits), *last.answer.changed]
    received_documents = {each.id: MessageToDict(each, preserving_proto_field_name=True) for each in received}
    documents = {each["id"]: plain(each) for each in [*(data for _, data in expected[:-1]), *answer["changed"]]}
    assert received_documents == documents
    assert list(last.answer.degraded) == answer["degraded"]


async def test_the_initial_metadata_arrive_before_a_slow_planner_has_finished(gate, store):
    """The client learns that the search has started, although the planner still waits."""
    async with serving(Service(store, settings=WITH_PLANNER)) as call:
        options = {"session": ["User: Who is Ada?"]}
        running = call({"retriever": "hierarchical", "query": QUESTION, "k": 1, "options": options})
        await running.initial_metadata()
        assert not gate.is_set()
        gate.set()
        hit, answer = [event async for event in running]
    assert list(answer.answer.order) == [hit.hit.id]


async def test_errors_have_grpc_statuses(retrieve, monkeypatch):
    """Wrong tokens, missing rights, invalid options, large messages and failures have their own statuses."""
    question = {"query": QUESTION}
    cases = [
        (question, None, "UNAUTHENTICATED", "the token is missing or wrong"),
        (question, "wrong", "UNAUTHENTICATED", "the token is missing or wrong"),
        (question, ADMIN, "PERMISSION_DENIED", "the token does not allow this request"),
        ({**question, "options": {"tenant": "bolt"}}, READER, "PERMISSION_DENIED", "does not allow"),
        ({**question, "options": {"semantic_wieght": 1}}, READER, "INVALID_ARGUMENT", "did you mean 'semantic_weight'"),
        ({**question, "k": 10**9}, READER, "INVALID_ARGUMENT", "^k must be at most 100 here"),
        ({"query": "x" * 20_000}, READER, "RESOURCE_EXHAUSTED", "larger than max"),
    ]
    for body, token, status, message in cases:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await retrieve(body, token)
        assert caught.value.code().name == status
        assert re.search(message, caught.value.details())
        assert (await retrieve({**question, "k": 1}))[0].hit.id == "ada"

    async def fails(*arguments, **options):
        raise KeyError("secret")

    monkeypatch.setattr(HybridRetriever, "aretrieve", fails)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await retrieve(question)
    assert (caught.value.code().name, caught.value.details()) == ("INTERNAL", "internal error")


async def test_a_cancelled_call_is_logged_as_cancelled(tenants_app, monkeypatch, caplog):
    """A call that the client cancels has the status 499 in the log; one that ends has 200."""
    caplog.set_level(logging.INFO)
    started = asyncio.Event()

    async def never(*arguments, **options):
        started.set()
        await asyncio.sleep(60)

    async with serving(tenants_app.state.service) as call:
        assert [event async for event in call({"query": QUESTION})]
        monkeypatch.setattr(HybridRetriever, "aretrieve", never)
        running = call({"query": QUESTION})
        await started.wait()
        running.cancel()
        for _ in range(100):
            statuses = [record.status for record in caplog.records if record.message == "rpc"]
            if len(statuses) == 2:
                break
            await asyncio.sleep(0.05)
    assert statuses == [200, 499]


async def test_large_integers_keep_their_digits(retrieve, tenants_app):
    """An integer that a Struct cannot represent is a string in an answer, and is refused in a request."""
    with pytest.raises(grpc.aio.AioRpcError, match=r"exact only below 2\*\*53") as caught:
        await retrieve({"query": QUESTION, "options": {"filter": {"year": 2**53 + 1}}})
    assert caught.value.code().name == "INVALID_ARGUMENT"
    store = tenants_app.state.service.store("acme")
    store.add_texts(["Zebras graze."], [{"large": 2**53 + 1, "small": 2**53}], ids=["zebra"])
    first, *_ = await retrieve({"query": "zebras graze", "k": 1})
    metadata = MessageToDict(first.hit.metadata)
    assert (metadata["large"], metadata["small"]) == ("9007199254740993", 2**53)


async def test_a_port_in_use_is_an_error(store):
    """Two services cannot share a port, so no call can reach another index."""
    first, second = (grpc_server(Service(store)) for _ in range(2))
    port = first.add_insecure_port("127.0.0.1:0")
    try:
        with pytest.raises(RuntimeError):
            second.add_insecure_port(f"127.0.0.1:{port}")
    finally:
        await first.stop(None)
        await second.stop(None)


async def test_tenants_and_filters(retrieve):
    """A call sees only the tenant and the filter of its token."""
    ids = {event.hit.id for event in await retrieve({"query": "The secret of acme."}, OTHER)}
    assert "bolt-only" in ids
    assert "acme-only" not in ids
    red = {event.hit.id for event in await retrieve({"query": "A machine, a parcel, a program"}, RED)} - {""}
    assert red == {"ada", "parcel"}


def test_the_compiled_description_is_current(tmp_path):
    """The compiled description has the same messages as hybridgraph.proto."""
    result = tmp_path / "descriptors"
    source = "langchain_hybridgraph/server/hybridgraph.proto"
    includes = Path(protoc.__file__).parent / "_proto"
    assert protoc.main(["protoc", f"-I{ROOT}", f"-I{includes}", "--include_imports", f"-o{result}", source]) == 0
    assert FileDescriptorSet.FromString(result.read_bytes()) == DESCRIPTORS
