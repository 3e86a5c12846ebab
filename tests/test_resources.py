"""Release of files and connections by stores in memory and by retrievers over other stores."""

import pytest

from tests.support.servers.python_process import start_python

# Python 3.13 warns about SQLite connections that were not closed; the first lines detect them in every version.
CONNECTIONS = """
import atexit, sqlite3, sys
connections, connect = [], sqlite3.connect
def recorded(*arguments, **options):
    connections.append(connect(*arguments, **options))
    return connections[-1]
sqlite3.connect = recorded
def is_open(connection):
    try:
        connection.execute("SELECT 1")
    except sqlite3.ProgrammingError as error:
        return "closed database" not in str(error)
    return True
def report():
    if count := sum(map(is_open, connections)):
        sys.stderr.write(f"ResourceWarning: {count} open connections")
atexit.register(report)
"""
PROGRAMS = {
    "in memory": """
import asyncio, gc
from langchain_hybridgraph import *
store = HybridGraphStore.from_texts(["The cat sleeps.", "Dogs bark."], "lsa")
retrievers = [kind(store) for kind in (HybridRetriever, GraphRetriever, MemoryRetriever, HierarchicalRetriever)]
print(len([retriever.invoke("cat") for retriever in retrievers]))
retriever = HybridRetriever.from_texts(["The cat sleeps.", "Dogs bark."])
print(len([retriever.invoke("cat"), asyncio.run(retriever.ainvoke("cat")), *retriever.stream("cat")]))
del retriever
gc.collect()
for arguments in (("openai",), ("lsa",)):
    try:
        HybridGraphStore(None, *arguments).add_texts(["a"], [{"a": object()}])
    except Exception as error:
        print(type(error))
""",
    "over Chroma": """
from langchain_chroma import Chroma
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_hybridgraph import *
chroma = Chroma.from_texts(["The cat sleeps."], DeterministicFakeEmbedding(size=4))
retriever = HybridRetriever(chroma)
print(len(retriever.invoke("cat")))
del chroma, retriever
""",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_resource_is_left_open(program):
    """A program that uses stores in memory, deletes one and fails to make another, or a retriever over Chroma, ends
    without a ResourceWarning.
    """
    hook = "" if program == "over Chroma" else CONNECTIONS
    process = start_python("-X", "dev", "-W", "error::ResourceWarning", "-c", hook + PROGRAMS[program])
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert output
    assert "ResourceWarning" not in errors
