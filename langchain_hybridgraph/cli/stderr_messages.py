"""Messages, warnings and errors as lines on stderr."""

from __future__ import annotations

import logging
import re

import typer

# Lowest level of log records that are shown.
LEVEL = logging.WARNING
_COMMANDS = tuple(
    (re.compile(pattern), command)
    for pattern, command in (
        (
            r"open it once for writing with [^:]*: HybridGraphStore\(path, embedding\)\.close\(\)",
            "run hybridgraph repair --index FOLDER",
        ),
        (r"(?:call )?(?:store\.admin\.)?repair\(\)", "hybridgraph repair"),
        (r"(?:call )?(?:store\.admin\.)?refit\(\)", "hybridgraph repair --refit"),
        (r"(?:call )?(?:store\.admin\.)?check\(\)", "hybridgraph check"),
        (r"list_tenants\(\)", "hybridgraph tenants"),
        (r"\bcollection=…", "--collection"),
        (r"(?:(?:open|name) it )?with tenant=…", "pass --tenant NAME"),
        (r"\btenant= out\b", "--tenant out"),
        (r"embedding=… or --embedding", "--embedding MODEL"),
        (r"\bembedding=…", "--embedding MODEL"),
        (r'\bHybridGraphStore\(path, "([^"]*)"\)', r"--embedding \1"),
        (r"\bfollow_links=True", "--follow-links"),
        (r'\bas_text="([^"]*)"', r"--as-text '\1'"),
        (r"\bas_text must", "--as-text must"),
        (r', or by_source\("a\.md"\)', ""),
        (r', "package\.module:factory" or a LangChain Embeddings object', " or package.module:factory"),
    )
)


class LineHandler(logging.Handler):
    """Handler that writes each log record as one line, without a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record's message."""
        say(record.getMessage())


def say(message: str) -> None:
    """Write a message to stderr as one line, even if it contains line breaks."""
    typer.echo(f"hybridgraph: {' '.join(as_commands(message).split())}", err=True)


def as_commands(message: str) -> str:
    """Replace Python calls and arguments in a message with the equivalent commands and options.

    >>> as_commands("the model cannot be read; repair() makes a new one")
    'the model cannot be read; hybridgraph repair makes a new one'
    """
    for pattern, command in _COMMANDS:
        message = pattern.sub(command, message)
    return message
