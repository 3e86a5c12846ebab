"""Forks at any moment: no text that a child or the parent has added is lost, and no child hangs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def fork(folder, count):
    """Fork this many times while other threads use the index, and assert that nothing went wrong."""
    command = [sys.executable, "-m", "tests.faults.forker", str(folder), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    outcomes = report.pop("outcomes")
    assert len(outcomes) == count
    assert set(outcomes) <= {"added", "refused"}
    assert outcomes.count("added") > 0.9 * count
    assert report == {"errors": [], "lost": [], "wrong": 0, "problems": []}


def test_forks_while_threads_open_and_close_an_index(tmp_path):
    """Forked children add texts while threads of the parent open, close, write to and read the index."""
    fork(tmp_path / "index", 10)


@pytest.mark.faults
def test_a_thousand_forks(tmp_path):
    """A thousand forked children add texts while threads of the parent use the index."""
    fork(tmp_path / "index", 1_000)
