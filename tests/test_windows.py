"""Use on Windows, simulated by removing what only POSIX systems have."""

from pathlib import Path

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


PROGRAM = """
import asyncio, importlib
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_hybridgraph import *

texts = {"cat": "The cat sleeps.", "dog": "Dogs bark."}
store = HybridGraphStore(None, "lsa")
ingest([Document(text, metadata={"source": name}) for name, text in texts.items()], store)
for kind in (HybridRetriever, GraphRetriever, MemoryRetriever, HierarchicalRetriever):
    print(kind(store, k=1).invoke("cat")[0].metadata["source"])
chroma = Chroma.from_texts([*texts.values()], DeterministicFakeEmbedding(size=8), ids=[*texts])
retriever = HybridRetriever(chroma, k=1, keyword_weight=1)
print(retriever.invoke("cat")[0].id, asyncio.run(retriever.ainvoke("cat"))[0].id, sep="\\n")
for name in {modules}:
    importlib.import_module(name)
try:
    HybridGraphStore({folder!r})
except Exception as error:
    print(error)
"""


def test_searches_on_windows(tmp_path):
    """Searches in memory and over Chroma work, every module can be imported, and an index in a folder is refused with
    the reason and the lines to write instead.
    """
    paths = [path.relative_to(ROOT) for path in (ROOT / "langchain_hybridgraph").rglob("*.py")]
    modules = [
        ".".join(path.with_suffix("").parts) for path in paths if path.name not in ("__init__.py", "__main__.py")
    ]
    assert len(modules) > 100
    program = PROGRAM.replace("{modules}", repr(modules)).replace("{folder!r}", repr(str(tmp_path / "index")))
    output = output_of_python("-W", "error::ResourceWarning", "-c", WINDOWS + program)
    *ids, message = output.splitlines()
    assert ids == ["cat"] * 6
    assert all(part in message for part in ("needs the file locks of Linux or macOS", "HybridGraphStore(None)", "WSL"))
    assert not (tmp_path / "index").exists()
