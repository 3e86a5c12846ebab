"""Reader of e-mail: single messages and mailboxes."""

from __future__ import annotations

import email
import email.policy
import mailbox
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any

from langchain_hybridgraph.ingestion.readers.html import from_html
from langchain_hybridgraph.ingestion.readers.kinds import FilePart, UnreadableError, flat


def read(path: Path, note: Callable[[str], None]) -> Iterator[FilePart]:
    """Yield the message or, for a mailbox, each message as a separate document. The metadata are ``from``, ``to``,
    ``created_at``, and the names of the ``attachments``. The attachments themselves are not read.
    """
    if path.suffix.lower() != ".mbox":
        yield _part(email.message_from_bytes(path.read_bytes(), policy=email.policy.default), note, None)
        return
    number = 0
    for number, raw in enumerate(mailbox.mbox(path, create=False), start=1):
        message = email.message_from_bytes(raw.as_bytes(), policy=email.policy.default)
        yield _part(message, partial(_note, note, number), number)
    if not number:
        raise UnreadableError("it contains no messages")


def _note(note: Callable[[str], None], number: int, message: str) -> None:
    note(f"message {number}: {message}")


def _part(message: EmailMessage, note: Callable[[str], None], number: int | None) -> FilePart:
    names = {name: flat(str(message.get(name, ""))) for name in ("from", "to", "cc", "date", "subject")}
    if not names["from"] and not names["subject"]:
        what = "it" if number is None else f"message {number}"
        raise UnreadableError(f"{what} has neither a sender nor a subject")
    attachments = [flat(part.get_filename() or part.get_content_type()) for part in message.iter_attachments()]
    if attachments:
        note(f"attachments are not read: {', '.join(attachments)}")
    head = "\n".join(f"{name.title()}: {value}" for name, value in names.items() if value and name != "subject")
    metadata: dict[str, Any] = {name: names[name] for name in ("from", "to") if names[name]}
    created = _time(names["date"])
    if created:
        metadata["created_at"] = created
    if attachments:
        metadata["attachments"] = attachments
    return FilePart(f"# {names['subject']}\n\n{head}\n\n{_body(message)}", metadata, names["subject"], number)


def _body(message: EmailMessage) -> str:
    part = message.get_body(("plain", "html"))
    if part is None:
        return ""
    text = str(part.get_content())
    return from_html(text).text if part.get_content_subtype() == "html" else text


def _time(date: str) -> str:
    try:
        return parsedate_to_datetime(date).isoformat()
    except ValueError:
        return ""
