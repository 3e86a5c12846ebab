"""The commands and settings in README.md and docs/ work as they are printed."""

import json
import re
import shlex
import tomllib
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

pytest.importorskip("typer")
pytest.importorskip("fastapi")

from typer.main import get_command
from typer.testing import CliRunner

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.cli.app import app
from langchain_hybridgraph.server.access import Token
from langchain_hybridgraph.server.app import create_app
from tests.support.servers.running_service import running
from tests.test_docs import DOCS, ROOT, blocks, folder, openai  # noqa: F401 - fixtures

PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
CONSOLE = [path for path in PAGES if blocks("console", path.read_text(encoding="utf-8"))]
WITH_FILES = [path for path in PAGES if re.search(r"^```(json|toml)", path.read_text(encoding="utf-8"), re.MULTILINE)]
# They run until they are stopped, or need a server; their own tests start them.
ONLY_READ = {"serve", "mcp", "migrate"}


def read(arguments):
    """Read the arguments of a command as the command line does, without running it."""
    group = get_command(app)
    with group.make_context("hybridgraph", list(arguments)) as context:
        name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("path", CONSOLE, ids=lambda path: path.stem)
def test_the_commands_of_a_page_succeed(request, folder, path):  # noqa: F811
    """Commands run in order over one page of a guide, and searches of the service are answered."""
    if path.stem == "openai":
        pytest.importorskip("langchain_openai")
        request.getfixturevalue("openai")
    for name in ("src", "reports"):
        (folder / name).mkdir()
        (folder / name / "notes.txt").write_text("Tokens are renewed every hour.\n", encoding="utf-8")
    page = path.read_text(encoding="utf-8")
    if "config init" not in page:
        for file in blocks("yaml", page):
            (folder / "hybridgraph.yaml").write_text(file, encoding="utf-8")
    if path.stem == "back-up":
        HybridGraphStore(Path("notes.hybridgraph"), "lsa").close()
    for line in re.findall(r"^\$ (.*)$", "\n".join(blocks("console", page)), re.MULTILINE):
        program, *arguments = shlex.split(line, comments=True)
        if program == "curl":
            address, _, body = [argument for argument in arguments if argument != "--no-buffer"]
            with running(create_app(HybridGraphStore.from_texts(["Reset your password."], "lsa"))) as url:
                answer = httpx.post(address.replace("localhost:8000", url), json=json.loads(body))
            assert answer.status_code == 200, answer.text
        elif program == "hybridgraph" and arguments[0] in ONLY_READ:
            read(arguments)
        elif program == "hybridgraph":
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, (line, result.output)


@pytest.mark.parametrize("path", WITH_FILES, ids=lambda path: path.stem)
def test_the_settings_of_other_programs_are_valid(path):
    """Each file for an MCP client starts a command of the command line, and each file of tokens can be read."""
    page = path.read_text(encoding="utf-8").replace("the SHA-256 of a token, in hexadecimal", sha256(b"a").hexdigest())
    files = [*map(json.loads, blocks("json", page)), *map(tomllib.loads, blocks("toml", page))]
    assert files
    for file in files:
        if isinstance(file, list):
            assert all(Token(**each).rights for each in file)
            continue
        for server in next(iter(file.values())).values():
            if "command" in server:
                assert server["command"] == "hybridgraph"
                read(server["args"])
            else:
                assert server["url"].startswith("http")
                assert server["headers"]["Authorization"].startswith("Bearer ")
