from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RetrieveRequest(_message.Message):
    __slots__ = ("query", "retriever", "k", "options")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    RETRIEVER_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    query: str
    retriever: str
    k: int
    options: _struct_pb2.Struct
    def __init__(self, query: _Optional[str] = ..., retriever: _Optional[str] = ..., k: _Optional[int] = ..., options: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class RetrieveEvent(_message.Message):
    __slots__ = ("hit", "answer")
    HIT_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    hit: Document
    answer: Answer
    def __init__(self, hit: _Optional[_Union[Document, _Mapping]] = ..., answer: _Optional[_Union[Answer, _Mapping]] = ...) -> None: ...

class Document(_message.Message):
    __slots__ = ("id", "page_content", "metadata")
    ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_CONTENT_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    id: str
    page_content: str
    metadata: _struct_pb2.Struct
    def __init__(self, id: _Optional[str] = ..., page_content: _Optional[str] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("order", "changed", "degraded", "warnings", "took_ms", "plan", "answerability")
    ORDER_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    TOOK_MS_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    ANSWERABILITY_FIELD_NUMBER: _ClassVar[int]
    order: _containers.RepeatedScalarFieldContainer[str]
    changed: _containers.RepeatedCompositeFieldContainer[Document]
    degraded: _containers.RepeatedScalarFieldContainer[str]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    took_ms: float
    plan: _struct_pb2.Struct
    answerability: _struct_pb2.Struct
    def __init__(self, order: _Optional[_Iterable[str]] = ..., changed: _Optional[_Iterable[_Union[Document, _Mapping]]] = ..., degraded: _Optional[_Iterable[str]] = ..., warnings: _Optional[_Iterable[str]] = ..., took_ms: _Optional[float] = ..., plan: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., answerability: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...
