import io
import sys
import time

import pytest

import langchain_hybridgraph.ingestion.progress as progress_module
from langchain_hybridgraph.ingestion.progress import _remaining, showing
from langchain_hybridgraph.steps import Step, report


class Terminal(io.StringIO):
    def isatty(self):
        return True


def a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_a_function_is_called():
    """A progress function receives each step."""
    steps = []
    with showing(steps.append):
        report("reading", 1, 2, "files")
    report("reading", 2, 2, "files")
    assert steps == [Step("reading", 1, 2, "files")]


@pytest.mark.parametrize("progress", [None, False])
def test_nothing_is_shown_that_is_not_requested(progress, capsys, monkeypatch):
    """Without ``progress`` nothing is printed, not even on a terminal."""
    terminal = a_terminal(monkeypatch)
    with showing(progress):
        report("reading", 1, 2, "files")
    assert capsys.readouterr() == ("", "")
    assert terminal.getvalue() == ""


def test_the_bar_goes_to_stderr(monkeypatch, capsys):
    """On a terminal there is a bar with phase, count and what is left; stdout stays free for answers."""
    terminal = a_terminal(monkeypatch)
    pytest.importorskip("rich")
    with showing(True):
        report("embedding", 3_000, 7_000, "files")
    assert capsys.readouterr().out == ""
    assert "embedding" in terminal.getvalue()
    assert "3,000 of 7,000 files" in terminal.getvalue()


def lines_of(monkeypatch, stream, seconds=0.05):
    """Return the lines that are printed during a single long step."""
    monkeypatch.setattr(progress_module, "INTERVAL", seconds)
    monkeypatch.setattr(sys, "stderr", stream)
    with showing(True):
        report("embedding", 3_000, 7_000, "files")
        deadline = time.monotonic() + 20
        while stream.getvalue().count("\n") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    return stream.getvalue()


def test_lines_without_a_terminal(monkeypatch):
    """Without a terminal, complete lines without control characters are printed, also during a long step."""
    lines = lines_of(monkeypatch, io.StringIO()).splitlines()
    assert len(lines) >= 2
    for line in lines:
        assert line.startswith("embedding: 3,000 of 7,000 files, 0 s, about 0 s left")
        assert line.isprintable()


def test_the_remaining_time_is_estimated():
    """After three of seven in six seconds, eight seconds remain; without a total there is no estimate."""
    assert _remaining(Step("reading", 3, 7, "files"), 6.0) == ", about 8 s left"
    assert _remaining(Step("reading", 3, None, "files"), 6.0) == ""
    assert _remaining(Step("reading", 0, 7, "files"), 6.0) == ""


def test_a_short_task_prints_no_line(capsys):
    """A task that ends before the first line is due prints nothing."""
    with showing(True):
        report("reading", 1, 2, "files")
    assert capsys.readouterr() == ("", "")
