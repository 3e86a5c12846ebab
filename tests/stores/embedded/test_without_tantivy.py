"""Processes that cannot import Tantivy still read and write; one that can updates the index."""

import json
import subprocess
import sys
from contextlib import closing

import pytest

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Query
from tests.support.stores.words import open_words

BLOCKED = """
import json, sys
from pathlib import Path

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name == "tantivy":
            raise {error}

sys.meta_path.insert(0, Blocked())
from langchain_hybridgraph.records import Chunk, Query
from tests.support.stores.words import open_words

def by_word(store, text):
    found = store.keyword_search(Query(text, 10), 10)
    return [[entry.id for entry in found.entries], found.reason]
"""

READ_AND_WRITE = """
store = open_words(Path(sys.argv[1]))
said = [by_word(store, "cat")]
for id, text in (("bird", "a bird sings"), ("cat", "a cat that barks"), ("fish", "a fish swims")):
    store.upsert([Chunk(id, text)])
    store.flush()
store.remove(["fish"])
said += [by_word(store, word) for word in ("bird", "cat", "barks", "fish")]
store.close()
print(json.dumps(said))
"""


def run(script, *arguments, error="ImportError('libtantivy.so: undefined symbol')"):
    code = BLOCKED.replace("{error}", error) + script
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def folder(tmp_path):
    """Return the folder of an index with two chunks, written with Tantivy."""
    with closing(open_words(tmp_path / "index")) as store:
        store.upsert([Chunk("cat", "a cat purrs"), Chunk("dog", "a dog barks")])
        store.flush()
    return tmp_path / "index"


@pytest.mark.parametrize("error", ["ImportError('undefined symbol')", "OSError('cannot read the wheel')"])
def test_an_index_is_read_and_written_without_tantivy(folder, error):
    """Without Tantivy, searches use the fallback, and chunks written then are later found with Tantivy."""
    fallback = "keyword-fallback"
    assert run(READ_AND_WRITE, folder, error=error) == [
        [["cat"], fallback],
        [["bird"], fallback],
        [["cat"], fallback],
        [["dog", "cat"], fallback],
        [[], fallback],
    ]
    with closing(open_words(folder)) as store:
        result = store.keyword_search(Query("bird purrs barks fish", 10), 10)
        assert ({entry.id for entry in result.entries}, result.reason) == ({"bird", "cat", "dog"}, None)
        assert store.admin.check().problems == ()
