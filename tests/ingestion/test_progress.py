import io
import sys
import time

import pytest

import langchain_hybridgraph.ingestion.progress as progress_module
from langchain_hybridgraph.ingestion.progress import _left, showing
from langchain_hybridgraph.steps import Step, report


class Terminal(io.StringIO):
    def isatty(self):
        return True


def a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_a_function_is_called():
    """A given function hears each step."""
    steps = []
    with showing(steps.append):
        report("reading", 1, 2, "files")
    report("reading", 2, 2, "files")
    assert steps == [Step("reading", 1, 2, "files")]


@pytest.mark.parametrize("progress", [None, False])
def test_nothing_is_shown_that_is_not_requested(progress, capsys, monkeypatch):
    """Without progress nothing is written, on a terminal neither."""
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
    """Lines about a single long step are written at intervals."""
    monkeypatch.setattr(progress_module, "INTERVAL", seconds)
    monkeypatch.setattr(sys, "stderr", stream)
    with showing(True):
        report("embedding", 3_000, 7_000, "files")
        deadline = time.monotonic() + 20
        while stream.getvalue().count("\n") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    return stream.getvalue()


def test_lines_where_no_terminal_is(monkeypatch):
    """Into a log goes a whole line now and then, without control characters, also while one step takes long."""
    lines = lines_of(monkeypatch, io.StringIO()).splitlines()
    assert len(lines) >= 2
    for line in lines:
        assert line.startswith("embedding: 3,000 of 7,000 files, 0 s, about 0 s left")
        assert line.isprintable()


def test_the_remaining_time_is_estimated():
    """Three of seven in six seconds leave eight; a total that is not known leaves nothing to say."""
    assert _left(Step("reading", 3, 7, "files"), 6.0) == ", about 8 s left"
    assert _left(Step("reading", 3, None, "files"), 6.0) == ""
    assert _left(Step("reading", 0, 7, "files"), 6.0) == ""


def test_a_short_task_prints_no_line(capsys):
    """A task that ends before the first line is due prints nothing."""
    with showing(True):
        report("reading", 1, 2, "files")
    assert capsys.readouterr() == ("", "")
