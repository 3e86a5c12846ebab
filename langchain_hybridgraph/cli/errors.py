"""One-line errors and exit codes."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from langchain_hybridgraph.cli.stderr_messages import LEVEL, LineHandler, say
from langchain_hybridgraph.errors import (
    ConfigurationError,
    EmbeddingMismatchError,
    FilterError,
    HybridGraphError,
    NotAnIndexError,
    TenantError,
)
from langchain_hybridgraph.settings_file import UnusableSettingsError

PROBLEM, USAGE, INTERRUPTED = 1, 2, 130
# Errors in how the command was used; all other errors of this package are problems during the run.
WRONGLY_ASKED = (ConfigurationError, EmbeddingMismatchError, FilterError, NotAnIndexError, TenantError)


class OneLineErrors(TyperGroup):
    """Command group that prints errors to stderr, one line each.

    Unexpected errors keep their traceback. If the reader of the output closes the pipe early, as ``head`` does, the
    command exits without an error.
    """

    def main(self, args: Sequence[str] | None = None, *others: Any, **settings: Any) -> Any:
        """Run the command named by the arguments, or show help if there are no arguments."""
        arguments = list(sys.argv[1:] if args is None else args) or ["--help"]
        try:
            code = super().main(arguments, *others, **{**settings, "standalone_mode": False})
        except Exception as error:
            # typer's exceptions have no public base class that is the same in all versions
            if not hasattr(error, "format_message"):
                raise
            say(f"{error.format_message().rstrip('.')} ({_help(error)})")
            code = USAGE
        sys.exit(code)

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command. Print errors and log records as single lines, and convert errors to exit codes."""
        log = LineHandler(LEVEL)
        logging.getLogger().addHandler(log)
        try:
            super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            _leave_stdout()
            raise typer.Exit from None
        except (HybridGraphError, OSError) as error:
            for line in str(error).splitlines() if isinstance(error, UnusableSettingsError) else [str(error)]:
                say(line)
            raise typer.Exit(USAGE if isinstance(error, WRONGLY_ASKED) else PROBLEM) from None
        finally:
            logging.getLogger().removeHandler(log)


def _help(error: Any) -> str:
    context = getattr(error, "ctx", None)
    return f"see {context.command_path if context else 'hybridgraph'} --help"


def _leave_stdout() -> None:
    """Discard buffered output after the pipe was closed, so that the interpreter exits without an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
