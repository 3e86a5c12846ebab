"""The command line, run in the process of a test."""

import json

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

from click.testing import CliRunner
from typer.main import get_command

from langchain_hybridgraph.cli.app import app

COMMAND = get_command(app)  # Typer would make it for each call


def hybridgraph(*arguments, **options):
    """Run a command and return its result."""
    return CliRunner().invoke(COMMAND, [str(argument) for argument in arguments], **options)


def answer(*arguments):
    """Run a command that succeeds, and return its JSON."""
    done = hybridgraph(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)
