"""Memories and sessions as Documents and messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.messages import convert_to_messages

from langchain_hybridgraph.errors import quote_value
from langchain_hybridgraph.memory.admission import Admission, admit
from langchain_hybridgraph.records import Chunk
from langchain_hybridgraph.stores.embedded.catalog.rows import content_id
from langchain_hybridgraph.stores.embedded.feedback import Feedback
from langchain_hybridgraph.stores.embedded.sessions import Sessions

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from langchain_core.messages import BaseMessage

    from langchain_hybridgraph.stores.embedded.folder.index_folder import IndexFolder
    from langchain_hybridgraph.stores.embedded.memory_intake import MemoryIntake
    from langchain_hybridgraph.stores.embedded.writer import Writer

ROLES = {"human": "user", "ai": "assistant"}


class DocumentMemory(Feedback):
    """The memories of a store: what is remembered, and what is learned about it."""

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
        """Take in new memories; one record each, in their order, says what became of it.

        One that says what a memory says, with a cosine of ``near_duplicate`` or more (None: the store's, 0.95) and
        without another number, name or negation, joins it; one from a source that is not to be believed and brings
        little news is refused (see :func:`langchain_hybridgraph.memory.admission.admit`). What it contradicts, among
        the memories that share a label and a time with it, gets an edge ``contradicts`` and is believed less; a chat
        model ``llm`` judges that where it is given. Without one the labels do, which is a rough guess: where many
        memories have the same labels, give a model, or ``contradictions=False``. All of it is one transaction. Raises
        ValueError for metadata of no use, such as a confidence of 7, for a blank text, and for one text alone.

        >>> from langchain_hybridgraph import HybridGraphStore
        >>> store = HybridGraphStore(None)
        >>> from langchain_hybridgraph.records import Scope
        >>> _ = store.memory.remember([Document("Ada likes tea.", id="tea"), Document("Bo plays chess.", id="chess")])
        >>> [said] = store.memory.remember(["Ada likes tea!"])
        >>> said.outcome, said.id, store.memory.states(["tea"], Scope())["tea"].active_count
        ('joined', 'tea', 1)
        """
        if isinstance(documents, str | Document):
            raise ValueError(f"remember takes a list: remember([{_shown(documents)}])")
        chunks = [_chunk_of(document) for document in documents]
        if not chunks:
            return []
        near = self._near_duplicate if near_duplicate is None else near_duplicate
        return admit(chunks, self._intake, llm, contradictions=contradictions, near_duplicate=near)

    def supersede(self, old_id: str, document: Document | str, *, at: float | str | datetime | None = None) -> str:
        """Let a new fact take the place of an old one; returns the new one's id.

        The new fact begins at its ``valid_from``, else ``at``, else now. The old one ends a microsecond before, and is
        still found with ``as_of`` before that; with ``known_at`` before now it has not ended. An edge ``supersedes``
        leads from the new to the old. One transaction. Raises ValueError for an unknown ``old_id``, one that is itself
        valid only later, one that was superseded already (the error names what holds now), a blank text and times of
        no use.

        >>> from langchain_hybridgraph import HybridGraphStore
        >>> store = HybridGraphStore(None)
        >>> _ = store.add_texts(["Ada lives in Paris."], ids=["paris"])
        >>> new = store.memory.supersede("paris", Document("Ada lives in Rome.", id="rome"), at="2024-05-01")
        >>> [found.id for found in store.similarity_search("Where does Ada live?", k=5)]
        ['rome']
        >>> [found.id for found in store.similarity_search("Where does Ada live?", k=5, as_of="2024-04-30")]
        ['paris']
        """
        given = _document(document)
        if not given.page_content.strip():
            raise ValueError(
                f"what takes the place of {quote_value(old_id)} has no text: retract({quote_value(old_id)}) ends it"
            )
        made = content_id(given.page_content, {**given.metadata, "supersedes": old_id})
        own = made if given.id is None else _checked_id(given.id)
        self.replace_fact(old_id, Chunk(own, given.page_content, given.metadata), at)
        return own

    def set_mode(self, mode: str | Mapping[str, Any] | None) -> None:
        """Choose how this tenant's memories are searched: a mode as ``MemoryRetriever`` takes it, None for its default.

        What a retriever or a call says goes before. Raises ConfigurationError for an unknown mode.

        >>> from langchain_hybridgraph import HybridGraphStore
        >>> store = HybridGraphStore(None)
        >>> store.memory.set_mode("procedural")
        >>> store.memory.mode
        'procedural'
        """
        from langchain_hybridgraph.options.memory_modes import mode_from

        if mode is not None:
            mode_from(mode)
        super().set_mode(mode)


class MessageSessions(Sessions):
    """The sessions of a store, whose turns are messages."""

    def add(
        self,
        session_id: str,
        turns: Iterable[BaseMessage | tuple[str, str]],
        *,
        created_at: float | str | datetime | None = None,
        ttl: float | timedelta | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[str]:
        """Add turns to the end of a session; returns their ids.

        A turn is a LangChain message or a (role, text) pair. Each becomes a chunk with ``metadata`` and ``session_id``,
        ``turn`` (counted on from the session's last one), ``role``, ``created_at`` (else now) and ``memory_type``
        episodic; messages without a text are left out. After ``ttl`` seconds they are over, and ``memory.expire``
        deletes them. One transaction. Raises ValueError for a ``ttl`` that is not above 0 and for metadata of no use.

        >>> from langchain_hybridgraph import HybridGraphStore
        >>> store = HybridGraphStore(None)
        >>> from langchain_hybridgraph.records import Scope
        >>> store.sessions.add("monday", [("user", "Which car is red?"), ("assistant", "The roadster.")])
        ['session:monday#1', 'session:monday#2']
        >>> [turn.text for turn in store.sessions.turns("monday", 1, Scope())]
        ['The roadster.']
        """
        if isinstance(turns, str):
            raise ValueError(f"sessions.add takes messages or (role, text) pairs: [('user', {quote_value(turns)})]")
        said = [pair for turn in turns if (pair := _turn(turn))[1].strip()]
        return self.add_pairs(session_id, said, created_at=created_at, ttl=ttl, metadata=metadata)


def chunk_from(text: str, metadata: Mapping[str, Any], id: str | None) -> Chunk:
    """Return a chunk; its id is made from text and metadata unless it is given. Raises ValueError for an id of ""."""
    return Chunk(content_id(text, metadata) if id is None else _checked_id(id), text, metadata)


def _checked_id(id: str) -> str:
    if not id:
        raise ValueError('an id is "", which names nothing; leave it out (None) to have one made from the text')
    return id


def _document(given: Any) -> Document:
    if not isinstance(given, str | Document):
        raise ValueError(f"a memory is a text or a Document, not {quote_value(given)} ({type(given).__name__})")
    return given if isinstance(given, Document) else Document(given)


def _chunk_of(document: Document | str) -> Chunk:
    given = _document(document)
    return chunk_from(given.page_content, given.metadata, given.id)


def _shown(document: Document | str) -> str:
    return quote_value(document) if isinstance(document, str) else f"Document({quote_value(document.page_content)}, …)"


def _turn(turn: Any) -> tuple[str, str]:
    """Role and text of a message, or of a pair, whose role may be any name."""
    if isinstance(turn, (tuple, list)) and len(turn) == 2 and all(isinstance(part, str) for part in turn):
        role = str(turn[0])
        return ROLES.get(role.lower(), role), str(turn[1])
    [message] = convert_to_messages([turn])
    return ROLES.get(message.type, message.type), str(message.text)
