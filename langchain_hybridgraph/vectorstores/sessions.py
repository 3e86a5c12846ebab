"""Sessions that accept turns as LangChain messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from langchain_core.messages import convert_to_messages

from langchain_hybridgraph.errors import quote_value
from langchain_hybridgraph.stores.sessions import Sessions

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from langchain_core.messages import BaseMessage

ROLES = {"human": "user", "ai": "assistant"}


class MessageSessions(Sessions):
    """The sessions of a store; their turns can be added as LangChain messages."""

    def add(
        self,
        session_id: str,
        turns: Iterable[BaseMessage | tuple[str, str]],
        *,
        created_at: float | str | datetime | None = None,
        ttl: float | timedelta | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[str]:
        """Append turns to a session in one transaction and return their ids.

        A turn is a LangChain message or a (role, text) pair; messages without text are skipped. Each turn becomes a
        chunk. Its metadata consists of ``metadata``, ``session_id``, ``turn`` (its number, continuing from the
        session's last turn), ``role``, ``created_at`` (default: now) and ``memory_type`` ("episodic" unless
        ``metadata`` contains another type). With ``ttl`` (seconds or a timedelta), the turns expire this long after
        ``created_at``, and ``memory.expire`` then deletes them. Raises ValueError for a ``ttl`` that is not above 0 and
        for metadata that cannot be stored.

        >>> from langchain_hybridgraph import HybridGraphStore
        >>> store = HybridGraphStore(None)
        >>> from langchain_hybridgraph.records import Scope
        >>> store.sessions.add("monday", [("user", "Which car is red?"), ("assistant", "The roadster.")])
        ['session:monday#1', 'session:monday#2']
        >>> [turn.text for turn in store.sessions.turns("monday", 1, Scope())]
        ['The roadster.']
        """
        if isinstance(turns, str):
            raise ValueError(
                f"turns must be a list of messages or (role, text) pairs, got a string; pass [('user', "
                f"{quote_value(turns)})]"
            )
        pairs = [pair for turn in turns if (pair := _role_and_text(turn))[1].strip()]
        return self.add_pairs(session_id, pairs, created_at=created_at, ttl=ttl, metadata=metadata)


def _role_and_text(turn: Any) -> tuple[str, str]:
    """Return the role and text of a message or a (role, text) pair. The role in a pair may be any string."""
    if isinstance(turn, (tuple, list)) and len(turn) == 2 and all(isinstance(part, str) for part in turn):
        role = str(turn[0])
        return ROLES.get(role.lower(), role), str(turn[1])
    [message] = convert_to_messages([turn])
    return ROLES.get(message.type, message.type), str(message.text)
