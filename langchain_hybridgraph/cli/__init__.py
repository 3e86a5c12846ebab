"""The command line ``hybridgraph``.

Exit codes: 0 success (even if nothing was found), 1 a problem was found or the command failed, 2 wrong usage,
130 interrupted. Results go to stdout, everything else to stderr.
"""

import gc
import sys


def main() -> None:
    """Run the command line on the process's arguments and exit."""
    try:
        from langchain_hybridgraph.cli.app import app
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        sys.exit('hybridgraph: the command line needs typer: pip install "langchain-hybridgraph[cli]"')
    except KeyboardInterrupt:
        sys.exit(130)
    # A large index consists of many objects without cycles. Searching these for garbage takes a tenth of a short run.
    gc.set_threshold(100_000, 50, 100)
    app(prog_name="hybridgraph")
