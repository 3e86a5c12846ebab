"""Python processes that tests start in the root of the repository."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def start_python(*arguments, **options):
    """Start Python with these arguments, and with pipes for its input, output and errors."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([sys.executable, *map(str, arguments)], text=True, cwd=ROOT, **pipes, **options)


def output_of_python(*arguments, input=None, **options):
    """Return what Python with these arguments prints; if it fails, so does the test."""
    process = start_python(*arguments, **options)
    output, errors = process.communicate(input, timeout=600)
    assert process.returncode == 0, errors[-3000:]
    return output
