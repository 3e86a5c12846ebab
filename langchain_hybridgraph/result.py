"""Result of a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeGuard, TypeVar, overload

from langchain_core.documents import Document
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypedDict

from langchain_hybridgraph.chunks import to_json
from langchain_hybridgraph.degradation import warnings_in
from langchain_hybridgraph.display import explain_result, result_table
from langchain_hybridgraph.records import Answerability, Hit

D_co = TypeVar("D_co", covariant=True)


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


class RetrievalResult(Sequence[D_co], Generic[D_co]):
    """Result of one call: a sequence of documents, with ``hits`` and other details of how they were found.

    ``degraded`` lists all degradation reasons (:mod:`langchain_hybridgraph.degradation`); ``warnings`` lists those
    which mean that part of the request was not carried out. ``took_ms`` is the wall time in milliseconds. ``plan``
    describes the queries that were run and the duration of each stage; a function that returns it is called when the
    plan is first read. ``answerability`` is an estimate of how likely the texts are to answer the question, or None if
    that is unknown.
    """

    __slots__ = ("_documents", "_plan", "answerability", "degraded", "hits", "took_ms")

    def __init__(
        self,
        documents: Sequence[D_co],
        *,
        hits: Sequence[Hit] = (),
        degraded: Sequence[str] = (),
        took_ms: float = 0.0,
        plan: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None,
        answerability: Answerability | None = None,
    ) -> None:
        self._documents = list(documents)
        self.answerability = answerability
        self.hits = tuple(hits)
        self.degraded = tuple(degraded)
        self.took_ms = took_ms
        self._plan = plan if callable(plan) else dict(plan or {})

    @property
    def plan(self) -> dict[str, Any]:
        """The queries that were run, their settings, and the duration of each stage."""
        plan = self._plan
        if callable(plan):
            plan = self._plan = dict(plan())
        return plan

    def __getstate__(self) -> object:
        self._plan = self.plan  # a copy has no reference to the store
        return super().__getstate__()

    @property
    def answerable(self) -> bool | None:
        """Whether the texts are likely to answer the question; None if too few texts, or no search, can tell."""
        return None if self.answerability is None else self.answerability.is_answerable

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons in ``degraded`` with the level "warning", which mean that part of the request was not carried out."""
        return warnings_in(self.degraded)

    @overload
    def __getitem__(self, index: int) -> D_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[D_co]: ...
    @overload
    def __getitem__(self, index: str) -> Any: ...
    def __getitem__(self, index: int | slice | str) -> Any:
        """Return the document at a position or, for a name from :meth:`keys`, a field as a JSON value."""
        if not isinstance(index, str):
            return self._documents[index]
        if index not in _FIELDS:
            raise KeyError(index)
        return to_json(self._documents if index == "documents" else getattr(self, index))

    def keys(self) -> list[str]:
        """Return the names of the fields, so that ``dict(result)``, as used by FastAPI, is ``result.to_dict()``."""
        return list(_FIELDS)

    def __len__(self) -> int:
        return len(self._documents)

    def __iter__(self) -> Iterator[D_co]:
        return iter(self._documents)

    def __eq__(self, other: object) -> bool:
        return self._documents == list(other) if _is_list(other) else NotImplemented

    def __add__(self, other: object) -> list[D_co]:
        """Return a list of the documents of both operands; it is not the result of one call."""
        return [*self, *other] if _is_list(other) else NotImplemented

    def __radd__(self, other: object) -> list[D_co]:
        return [*other, *self] if _is_list(other) else NotImplemented

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values, converted by :func:`~langchain_hybridgraph.chunks.to_json`.

        >>> from langchain_hybridgraph.records import Chunk
        >>> hit = Hit(Chunk("a", "text"), 0.5, "vector", {"vector": 0.5})
        >>> list(RetrievalResult([], hits=[hit]).to_dict())
        ['documents', 'hits', 'degraded', 'took_ms', 'plan', 'answerability']
        """
        return dict(self)

    @classmethod
    def from_dict(cls: type[RetrievalResult[Any]], data: Mapping[str, Any]) -> RetrievalResult[Any]:
        """Rebuild a result from the output of :meth:`to_dict`, with LangChain Documents.

        Metadata values that have no JSON type stay in the form that :meth:`to_dict` gave them. Raises ValueError if
        ``data`` is not such output.
        """
        try:
            return cls(
                [Document.model_validate(each) for each in data["documents"]],
                hits=[Hit.from_dict(hit) for hit in data["hits"]],
                degraded=data["degraded"],
                took_ms=float(data["took_ms"]),
                plan=data["plan"],
                answerability=Answerability.from_dict(judged) if (judged := data.get("answerability")) else None,
            )
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"this is not a RetrievalResult ({error}); pass the output of RetrievalResult.to_dict()"
            ) from error

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let Pydantic and FastAPI accept a result or the output of :meth:`to_dict`, and serialise with that method."""
        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, cls) else cls.from_dict(value),
            serialization=core_schema.plain_serializer_function_ser_schema(cls.to_dict),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(TypeAdapter(SerializedResult).core_schema), "title": cls.__name__}

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which are unhashable, too

    def __repr__(self) -> str:
        degraded = f", degraded={list(self.degraded)}" if self.degraded else ""
        noun = "document" if len(self) == 1 else "documents"
        return f"RetrievalResult({len(self)} {noun} in {self.took_ms:.1f} ms{degraded})"

    def __str__(self) -> str:
        return explain_result(self)

    def _repr_html_(self) -> str:
        return result_table(self)


class SerializedResult(TypedDict):
    """Output of ``RetrievalResult.to_dict``."""

    documents: list[Document]
    hits: list[Hit]
    degraded: list[str]
    took_ms: float
    plan: dict[str, Any]
    answerability: Answerability | None


_FIELDS = SerializedResult.__annotations__
