"""Use on Windows, simulated by removing what only POSIX systems have."""

from pathlib import Path

import pytest

from tests.support.servers.python_process import output_of_python

ROOT = Path(__file__).parent.parent

# The modules and functions are removed before the package is imported, but after the libraries that test sys.platform.
WINDOWS = """
import os, select, signal, sys
import chromadb, langchain_chroma, langchain_core.vectorstores, mcp.server.mcpserver, platformdirs, tantivy
from chromadb.api import rust  # imports resource, except on Windows
from chromadb.utils.embedding_functions import onnx_mini_lm_l6_v2

class NotOnWindows:
    def find_spec(self, name, path=None, target=None):
        if name in {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "readline"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "readline"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, NotOnWindows())
for name in (
    "register_at_fork fork forkpty getuid geteuid getgid setsid killpg uname statvfs fstatvfs fchmod fchown pread "
    "pwrite sched_getaffinity sysconf nice getloadavg wait3 wait4 mkfifo posix_fadvise O_CLOEXEC O_NOFOLLOW O_DIRECTORY"
).split():
    if hasattr(os, name):
        delattr(os, name)
for module, name in ((select, "poll"), (signal, "SIGKILL"), (signal, "SIGUSR1"), (signal, "alarm")):
    delattr(module, name)
"""


def run(code):
    """Run code in a process that lacks what Windows lacks; return its output."""
    return output_of_python("-W", "error::ResourceWarning", "-c", WINDOWS + code).splitlines()


def test_all_modules_can_be_imported_on_windows():
    """Every module of the package can be imported without POSIX modules and functions."""
    modules = sorted(
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in (ROOT / "langchain_hybridgraph").rglob("*.py")
        if path.name != "__main__.py"
    )
    assert len(modules) > 100
    assert run(f"import importlib\nfor name in {modules!r}: importlib.import_module(name)\nprint('imported')") == [
        "imported"
    ]


SEARCHES = {
    "a store in memory": """
from langchain_core.documents import Document
from langchain_hybridgraph import *
store = HybridGraphStore(None, "lsa")
texts = {"cat": "The cat sleeps.", "dog": "Dogs bark."}
ingest([Document(text, metadata={"source": name}) for name, text in texts.items()], store)
for kind in (HybridRetriever, GraphRetriever, MemoryRetriever, HierarchicalRetriever):
    print(kind(store, k=1).invoke("cat")[0].metadata["source"])
""",
    "Chroma": """
from langchain_chroma import Chroma
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_hybridgraph import *
chroma = Chroma.from_texts(["The cat sleeps.", "Dogs bark."], DeterministicFakeEmbedding(size=8), ids=["cat", "dog"])
retriever = HybridRetriever(chroma, k=1, keyword_weight=1)
print(retriever.invoke("cat")[0].id)
import asyncio
print(asyncio.run(retriever.ainvoke("cat"))[0].id)
""",
}


@pytest.mark.parametrize("kind", SEARCHES)
def test_searches_work_on_windows(kind):
    """Searches in memory and over Chroma work without POSIX modules and functions."""
    assert set(run(SEARCHES[kind])) == {"cat"}


def test_an_index_in_a_folder_is_refused_on_windows(tmp_path):
    """An index in a folder is refused with the reason and the lines to write instead, and nothing is created."""
    (message,) = run(f"""
from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.errors import StoreError
try:
    HybridGraphStore({str(tmp_path / "index")!r})
except StoreError as error:
    print(error)
""")
    assert "needs the file locks of Linux or macOS" in message
    assert "HybridGraphStore(None)" in message
    assert "WSL" in message
    assert not (tmp_path / "index").exists()
