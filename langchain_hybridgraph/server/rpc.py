"""gRPC interface of the service."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.errors import needs_extra

with needs_extra("gRPC", "grpcio", "grpc"):
    import grpc
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.json_format import MessageToDict, ParseDict
    from google.protobuf.message_factory import GetMessages

from langchain_hybridgraph.server import service as searches
from langchain_hybridgraph.server.access import CLIENT_CLOSED, Refusal, invalid, refusal_text

if TYPE_CHECKING:
    from grpc.aio import ServicerContext

# hybridgraph.proto with its imports, as compiled by protoc --include_imports --descriptor_set_out.
DESCRIPTORS = FileDescriptorSet.FromString((files(__package__) / "hybridgraph.binpb").read_bytes())
_MESSAGES: Mapping[str, Any] = GetMessages(DESCRIPTORS.file)
RetrieveRequest, RetrieveEvent = _MESSAGES["hybridgraph.v1.RetrieveRequest"], _MESSAGES["hybridgraph.v1.RetrieveEvent"]
SHUTDOWN_SECONDS = 30.0
FIRST_INEXACT = 2**53  # a Struct has only floats, in which this number and the next one are the same
_CODES = {
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}


@asynccontextmanager
async def serving_grpc(service: searches.Service, address: str) -> AsyncIterator[None]:
    """Serve ``StreamRetrieve`` at an address such as ``localhost:50051``; running calls are completed before it stops.

    Raises RuntimeError if the address is in use.
    """
    server = grpc_server(service)
    server.add_insecure_port(address)
    await server.start()
    try:
        yield
    finally:
        await server.stop(SHUTDOWN_SECONDS)


def grpc_server(service: searches.Service) -> grpc.aio.Server:
    """Return a server for the service, without a port. A message may be as large as the body of an HTTP request."""
    server = grpc.aio.server(
        options=[("grpc.max_receive_message_length", service.limits.body), ("grpc.so_reuseport", 0)]
    )

    async def stream_retrieve(message: Any, context: ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        started, status, access = time.perf_counter(), CLIENT_CLOSED, None
        fields: dict[str, Any] = {"method": "StreamRetrieve"}
        try:
            metadata = dict(context.invocation_metadata() or ())
            access = service.tokens.admit(str(metadata.get("authorization", "")))
            async with aclosing(service.events(access, service.read(access, _body(message)))) as events:
                async for name, data in events:
                    if name == "started":
                        await context.send_initial_metadata(())
                        continue
                    if name == "error":
                        raise Refusal(data["status"], data["detail"])
                    yield ParseDict({name: _converted(data, _as_number)}, RetrieveEvent(), ignore_unknown_fields=True)
            status = 200
        except Exception as error:  # noqa: BLE001 - the client receives a status
            refusal = searches.refusal_for(error)
            status = refusal.status
            fields |= searches.error_fields(error) if status >= 500 else {}
            await context.abort(_CODES.get(status, grpc.StatusCode.INTERNAL), refusal_text(refusal.detail))
        finally:
            took_ms = round(1e3 * (time.perf_counter() - started), 3)
            token, tenant = (None, None) if access is None else (access.name, access.tenant)
            fields |= {"status": status, "took_ms": took_ms, "token": token, "tenant": tenant}
            searches.LOGGER.log(logging.ERROR if status >= 500 else logging.INFO, "rpc", extra=fields)

    handler = grpc.unary_stream_rpc_method_handler(
        stream_retrieve,
        request_deserializer=RetrieveRequest.FromString,
        response_serializer=RetrieveEvent.SerializeToString,
    )
    handlers = {"StreamRetrieve": handler}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("hybridgraph.v1.Retrieval", handlers)])
    return server


def _body(message: Any) -> dict[str, Any]:
    """Return the body of a search request. A Struct has only floats, so whole numbers become integers again."""
    body = {name: value for name, value in (("query", message.query), ("retriever", message.retriever)) if value}
    number = {"k": message.k} if message.HasField("k") else {}
    options: dict[str, Any] = _converted(MessageToDict(message.options), _as_integer)
    return options | number | body


def _converted(value: Any, convert: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {key: _converted(each, convert) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_converted(each, convert) for each in value]
    return convert(value)


def _as_integer(value: Any) -> Any:
    if not (isinstance(value, float) and value.is_integer()):
        return value
    if abs(value) >= FIRST_INEXACT:
        message = f"gRPC's numbers are exact only below 2**53, got {value:.0f}: use a smaller one, or POST /search"
        raise invalid(message, "options")
    return int(value)


def _as_number(value: Any) -> Any:
    """Return a value that a Struct can represent; an integer that is too large becomes a string."""
    return str(value) if isinstance(value, int) and abs(value) > FIRST_INEXACT else value
