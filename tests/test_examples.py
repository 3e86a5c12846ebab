"""The examples run alone with a fake chat model, and with langchain-openai and a local server."""

import runpy
import sys
from pathlib import Path

import pytest

from tests.support.servers.openai_server import OpenAIServer

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def run(monkeypatch, capsys):
    """Return a function that runs an example with a server that answers and returns the output and the requests."""

    def run(name, answer):
        with OpenAIServer(answer) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            monkeypatch.setenv("OPENAI_API_KEY", "none")
            monkeypatch.setattr(sys, "argv", [name, "openai:test"])
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out, server.requests

    return run


ANSWERS = {
    "rag_chain.py": ["A second factor: a code by text message, or a key [errors.md] [factors.md]."],
    "conversation.py": ["Tom: And its price?", "The van is blue. Its price is 9,000."],
    "agent.py": ["ai: The import of addresses reads vCard files, too.", "ai: It can send invoices as XRechnung."],
    "langgraph_memory.py": ["ai: Please remember that my bicycle has the frame number WX-7714."],
    "memory_agent.py": [
        "ai: I moved to Porto on the first of April 2024.",
        "ai: I live in Lisbon, near the river, since May 2021.",
    ],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_example_runs_without_a_key(name, tmp_path, monkeypatch, capsys):
    """Each example runs without an API key, with its own fake chat model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in ANSWERS[name] if line not in lines] == []


def prompt(request):
    """Return the contents of all messages of a request."""
    return "\n".join(str(message["content"]) for message in request["messages"])


def test_rag_chain(run):
    """The example prints the documents first and then the answer, and the model receives the retrieved texts."""
    printed, (request,) = run("rag_chain.py", "A second factor [errors.md].")
    lines = printed.splitlines()
    assert [line.split()[1] for line in lines[:2]] == ["errors.md", "factors.md"]
    assert lines[2] == "A second factor [errors.md]."
    assert request["stream"]
    assert "[errors.md]\nError E-4711: the card issuer asks for a second factor." in prompt(request)
    assert "Invoices" not in prompt(request)


def test_agent_whose_filter_is_wrong(run):
    """A call with an invalid filter is returned to the model, which then corrects it."""

    def answer(request):
        last = request["messages"][-1]
        if last["role"] == "user":
            return {"query": "import", "filter": {"area": "weather"}}
        if "area" in last["content"] and "import" in last["content"] and "[1]" not in last["content"]:
            return {"query": "import", "filter": {"area": "import"}}
        return "Addresses."

    printed, _ = run("agent.py", answer)
    assert "reads CSV" in printed
    assert printed.count("ai: Addresses.") == 2


def test_llama_index_query_engine(run, monkeypatch):
    """The LlamaIndex example finds the passage that another one leads to, without calling a model."""
    pytest.importorskip("llama_index.core")
    from llama_index_instrumentation import get_dispatcher

    root = get_dispatcher()
    monkeypatch.setattr(root, "event_handlers", [*root.event_handlers])  # the example's handler goes when it has run
    printed, requests = run("llama_index_query_engine.py", "")
    assert "Steven Spielberg is a native of Cincinnati, Ohio." in printed
    assert requests == []


def test_every_example_is_run():
    """Every example is run by a test in this module."""
    here = Path(__file__).read_text(encoding="utf-8")
    assert [file.name for file in EXAMPLES.glob("*.py") if f'"{file.name}"' not in here] == []
