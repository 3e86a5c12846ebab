"""The command line ``hybridgraph``: ingest, search, find, tree, delete, stats, check, repair, tenants, config,
demo.

    commands.py    the verbs and their options
    config_commands.py  the verbs of hybridgraph config
    tenants_commands.py  the verbs of hybridgraph tenants
    answers.py     what --json prints: the stable schema
    screen.py      the same for people
    branches.py    the directories of an index, as lines
    conversations.py   what was said before a question, from a file
    vanished.py    which documents were files that are gone
    opening.py     which index, with which embedding
    settings.py    options from hybridgraph.yaml and the environment
    demo.py        the main job on the documentation of Python's standard library
    errors.py      errors in one line, exit codes

Exit codes: 0 fine (also when nothing was found), 1 a problem was found or the work could not be done, 2 wrong usage,
130 interrupted. Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line on the process's arguments and exit."""
    try:
        from langchain_hybridgraph.cli.commands import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit('hybridgraph: the command line needs typer and rich: pip install "langchain-hybridgraph[cli]"')
    except KeyboardInterrupt:
        sys.exit(130)
    app(prog_name="hybridgraph")
