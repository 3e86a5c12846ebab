"""Messages on stderr, answers on stdout, and exit codes."""

import json
import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from langchain_hybridgraph import errors
from langchain_hybridgraph.chunks import replace_surrogates, to_json
from langchain_hybridgraph.settings_file import UnusableSettingsError

PROBLEM, USAGE, INTERRUPTED = 1, 2, 130
# Errors in how the command was used; all other errors of this package are problems during the run.
USAGE_ERRORS = (
    errors.ConfigurationError,
    errors.EmbeddingMismatchError,
    errors.FilterError,
    errors.NotAnIndexError,
    errors.TenantError,
)
# Python calls, arguments and phrases of pydantic in messages, as patterns, with the words of the command line.
_COMMANDS = (
    (r"Value error, |, unable to parse string as an? \w+", ""),
    ("Input should be", "must be"),
    (r"(?:call )?(?:store\.admin\.)?(repair|check)\(\)", r"hybridgraph \1"),
    (r"(?:call )?(?:store\.admin\.)?refit\(\)", "hybridgraph repair --refit"),
    (r"list_tenants\(\)", "hybridgraph tenants"),
    (r"(?:(?:open|name) it )?with tenant=…", "pass --tenant NAME"),
    (r"\b(tenant|embedding|collection)=(?:…|(?= out\b))", r"--\1"),
    (r'HybridGraphStore\(path, "([^"]*)"\)', r"--embedding \1"),
    (r"follow_links=True", "--follow-links"),
    (r'as_text="([^"]*)"', r"--as-text '\1'"),
    (r', or by_source\("a\.md"\)', ""),
    (r', "package\.module:factory" or a LangChain Embeddings object', " or package.module:factory"),
)


def say(message: str) -> None:
    """Write a message to stderr as one line, even if it contains line breaks."""
    typer.echo(f"hybridgraph: {' '.join(as_commands(message).split())}", err=True)


def as_commands(message: str) -> str:
    """Replace Python calls and arguments in a message with the equivalent commands and options.

    >>> as_commands("the model cannot be read; repair() makes a new one")
    'the model cannot be read; hybridgraph repair makes a new one'
    """
    for pattern, command in _COMMANDS:
        message = re.sub(pattern, command, message)
    return message


def print_json(answer: Mapping[str, Any]) -> None:
    """Print one indented JSON object to stdout. NaN and infinity become null, and lone surrogates U+FFFD."""
    is_ascii = not (sys.stdout.encoding or "").lower().startswith("utf")
    sys.stdout.write(replace_surrogates(json.dumps(to_json(answer), indent=2, ensure_ascii=is_ascii)) + "\n")


def print_answer(answer: Mapping[str, Any], text: str, as_json: bool, *, is_ok: bool = True) -> None:
    """Print an answer to stdout: as a JSON object, or as text. The exit code is then ``PROBLEM``, unless ``is_ok``."""
    if as_json:
        print_json(answer)
    else:
        typer.echo(text)
    if not is_ok:
        raise typer.Exit(PROBLEM)


class LineHandler(logging.Handler):
    """Handler that writes each log record as one line, without a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record's message."""
        say(record.getMessage())


class OneLineErrors(TyperGroup):
    """Command group that prints errors on one line of stderr, and ends quietly if the reader closes the pipe."""

    def main(self, args: Sequence[str] | None = None, *others: Any, **settings: Any) -> Any:
        """Run the command named by the arguments, or show help if there are no arguments."""
        arguments = list(sys.argv[1:] if args is None else args) or ["--help"]
        try:
            if os.environ.get("NO_COLOR"):
                settings["color"] = False
            code = super().main(arguments, *others, **{**settings, "standalone_mode": False})
        except Exception as error:
            # typer's exceptions have no public base class that is the same in all versions
            if not hasattr(error, "format_message"):
                raise
            context = getattr(error, "ctx", None)
            command = context.command_path if context else "hybridgraph"
            say(f"{error.format_message().rstrip('.')} (see {command} --help)")
            code = USAGE
        sys.exit(code)

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command. Print errors and log records as single lines, and convert errors to exit codes."""
        log = LineHandler(logging.WARNING)
        logging.getLogger().addHandler(log)
        try:
            super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # Discard the buffered output, so that the interpreter exits without an error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit from None
        except (errors.HybridGraphError, OSError) as error:
            for line in str(error).splitlines() if isinstance(error, UnusableSettingsError) else [str(error)]:
                say(line)
            raise typer.Exit(USAGE if isinstance(error, USAGE_ERRORS) else PROBLEM) from None
        except ValueError as error:
            if not hasattr(error, "errors"):
                raise
            say("; ".join(each["msg"] for each in error.errors()))  # of pydantic, about a setting
            raise typer.Exit(USAGE) from None
        finally:
            logging.getLogger().removeHandler(log)
