"""Memories that are added and replaced as Documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import quote_value
from langchain_hybridgraph.memory.admission import Admission, admit
from langchain_hybridgraph.records import memory_id
from langchain_hybridgraph.stores.embedded.memory import EmbeddedMemory

if TYPE_CHECKING:
    from datetime import datetime

    from langchain_hybridgraph.stores.embedded.folder.index_folder import IndexFolder
    from langchain_hybridgraph.stores.embedded.memory_intake import MemoryIntake
    from langchain_hybridgraph.stores.embedded.writer import Writer


class DocumentMemory(EmbeddedMemory):
    """The memories of a store, with methods to add and replace them and to record feedback about them."""

    def __init__(self, index: IndexFolder, writer: Writer, intake: MemoryIntake, near_duplicate: float) -> None:
        super().__init__(index, writer)
        self._intake, self._near_duplicate = intake, near_duplicate

    def remember(
        self,
        documents: Iterable[Document | str],
        llm: Any = None,
        *,
        contradictions: bool = True,
        near_duplicate: float | None = None,
    ) -> list[Admission]:
        """Add new memories in one transaction. Return one :class:`Admission` per memory, in the same order.

        A new memory joins an existing one if their cosine is at least ``near_duplicate`` (None: the store's value, 0.95
        by default) and they do not differ in a number, a name or a negation. It is refused if its source has little
        credibility and its text says little that is new. :func:`langchain_hybridgraph.memory.admission.admit` describes
        all conditions.

        A new memory is also compared with existing memories that share a label with it and are valid at the same time.
        Each memory that it contradicts gets an edge ``contradicts`` and loses confidence. The chat model ``llm`` judges
        which memories contradict each other. Without a model, contradictions are guessed from the labels alone. If many
        memories have the same labels, pass a model, or skip the comparison with ``contradictions=False``.

        Raises ValueError for invalid metadata, such as a confidence of 7, for a blank text, and for a string instead of
        a list.

        >>> from langchain_hybridgraph import HybridGraphStore
        >>> store = HybridGraphStore(None)
        >>> from langchain_hybridgraph.records import Scope
        >>> _ = store.memory.remember([Document("Ada likes tea.", id="tea"), Document("Bo plays chess.", id="chess")])
        >>> [admission] = store.memory.remember(["Ada likes tea!"])
        >>> admission.outcome, admission.id, store.memory.states(["tea"], Scope())["tea"].active_count
        ('joined', 'tea', 1)
        """
        if isinstance(documents, str | Document):
            raise ValueError(
                f"documents must be a list of Documents or texts, got one {type(documents).__name__}; "
                f"pass [{_excerpt(documents)}]"
            )
        chunks = [_chunk_of(document) for document in documents]
        if not chunks:
            return []
        near = self._near_duplicate if near_duplicate is None else near_duplicate
        return admit(chunks, self._intake, llm, contradictions=contradictions, near_duplicate=near)

    def supersede(self, old_id: str, document: Document | str, *, at: float | str | datetime | None = None) -> str:
        """Replace an old fact with a new one in one transaction; return the id of the new fact.

        The new fact is valid from its ``valid_from``. If it has none, it is valid from ``at``, or from now if ``at`` is
        None. The old fact ends a microsecond before the new one begins, unless it already ends earlier. Searches with
        an earlier ``as_of`` still find the old fact, and searches with a ``known_at`` before this call ignore the
        replacement. An edge ``supersedes`` leads from the new fact to the old one. The new fact inherits no
        metadata, such as ``labels``, from the old one.

        Raises ValueError if ``old_id`` does not exist, has already been superseded (the message names the current
        fact), or does not become valid before the new fact. Also raises ValueError for a blank text and for invalid
        times.

        >>> from langchain_hybridgraph import HybridGraphStore
        >>> store = HybridGraphStore(None)
        >>> _ = store.add_texts(["Ada lives in Paris."], ids=["paris"])
        >>> new = store.memory.supersede("paris", Document("Ada lives in Rome.", id="rome"), at="2024-05-01")
        >>> [document.id for document in store.similarity_search("Where does Ada live?", k=5)]
        ['rome']
        >>> [document.id for document in store.similarity_search("Where does Ada live?", k=5, as_of="2024-04-30")]
        ['paris']
        """
        fact = _document(document)
        if not fact.page_content.strip():
            raise ValueError(
                f"the text that replaces {quote_value(old_id)} is blank; pass a text, or end the old fact with "
                f"retract({quote_value(old_id)})"
            )
        if fact.id is None:
            new_id = memory_id(fact.page_content, {**fact.metadata, "supersedes": old_id})
        else:
            new_id = _checked_id(fact.id)
        self.replace_fact(old_id, Chunk(new_id, fact.page_content, fact.metadata), at)
        return new_id

    def set_mode(self, mode: str | Mapping[str, Any] | None) -> None:
        """Set the default mode for searching this tenant's memories; None restores the default of ``MemoryRetriever``.

        The ``mode`` of a retriever or a call takes precedence. Raises ConfigurationError for an unknown mode.

        >>> from langchain_hybridgraph import HybridGraphStore
        >>> store = HybridGraphStore(None)
        >>> store.memory.set_mode("procedural")
        >>> store.memory.mode
        'procedural'
        """
        from langchain_hybridgraph.options.presets import mode_from

        if mode is not None:
            mode_from(mode)
        super().set_mode(mode)


def chunk_from(text: str, metadata: Mapping[str, Any], id: str | None) -> Chunk:
    """Return a chunk. If ``id`` is None, its id is derived from text and metadata. Raises ValueError for the id ""."""
    return Chunk(memory_id(text, metadata) if id is None else _checked_id(id), text, metadata)


def _checked_id(id: str) -> str:
    if not id:
        raise ValueError('an id must not be empty, got ""; pass None to derive the id from the text')
    return id


def _document(memory: Any) -> Document:
    if not isinstance(memory, str | Document):
        raise ValueError(
            f"a memory must be a string or a Document, got {quote_value(memory)} ({type(memory).__name__})"
        )
    return memory if isinstance(memory, Document) else Document(memory)


def _chunk_of(memory: Document | str) -> Chunk:
    document = _document(memory)
    return chunk_from(document.page_content, document.metadata, document.id)


def _excerpt(document: Document | str) -> str:
    return quote_value(document) if isinstance(document, str) else f"Document({quote_value(document.page_content)}, …)"
