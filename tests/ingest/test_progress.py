import builtins
import io
import sys

import pytest

from langchain_hybridgraph.ingest.progress import showing


class Terminal(io.StringIO):
    def isatty(self):
        return True


def a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_a_function_is_called():
    """A given function is what is called."""
    calls = []
    with showing(lambda done, total: calls.append((done, total))) as show:
        show(1, 2)
    assert calls == [(1, 2)]


@pytest.mark.parametrize("progress", [None, False, True])
def test_nothing_is_drawn_where_no_terminal_is(progress, capsys):
    """Into a pipe or a log nothing is written."""
    with showing(progress) as show:
        show(1, 2)
    assert capsys.readouterr() == ("", "")


def test_the_bar_goes_to_stderr(monkeypatch, capsys):
    """On a terminal there is a bar; stdout stays free for answers."""
    terminal = a_terminal(monkeypatch)
    pytest.importorskip("rich")
    with showing(True) as show:
        show(3, 7)
    assert capsys.readouterr().out == ""
    assert "3/7" in terminal.getvalue()


def test_lines_without_rich(monkeypatch):
    """Without rich there is a line at the end, and at most one a second before."""
    terminal = a_terminal(monkeypatch)
    real = builtins.__import__

    def without_rich(name, *args, **kwargs):
        if name.startswith("rich"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_rich)
    with showing(True) as show:
        for done in range(8):
            show(done, 7)
    assert terminal.getvalue() == "7 of 7 documents\n"
