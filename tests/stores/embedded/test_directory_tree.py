"""Directory tree of an index: nodes, visibility, and updates of the store."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.chunks import Chunk, directory_of, plain_uri
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.stores.tree import DEEPEST


def stored(*uris, path=None, **metadata):
    store = HybridGraphStore(path, DeterministicFakeEmbedding(size=8))
    store.upsert([chunk(uri, **metadata) for uri in uris])
    return store


def chunk(uri, **metadata):
    return Chunk(uri, f"text of {uri}", {"uri": uri, **metadata}, uri)


def nested(store, scope=None):
    """Return the tree as nested dicts of uris."""
    tree = store.scoped_tree(scope or Scope())

    def below(nodes):
        return {tree.uri(node): below(tree.children(node)) for node in nodes}

    return below(tree.top())


@pytest.mark.parametrize(
    ("uri", "above"),
    [
        ("viking://resources/my docs/é.md", "viking://resources/my docs"),
        ("viking://resources", ""),
        ("file:///home/x", "file:///home"),
        ("/usr/doc/a", "/usr/doc"),
        ("/usr", ""),
        ("https://d.org/a#b", "https://d.org/a"),
        ("https://d.org", ""),
        ("docs/C# notes.md", "docs"),
        ("a//b", "a"),
        ("日本/東京", "日本"),
        ("", ""),
    ],
)
def test_the_directory_above_a_uri(uri, above):
    """The directory above a uri is found for any scheme, path or fragment."""
    assert directory_of(uri) == above


def test_a_document_may_be_a_directory():
    """A document with other documents below it, such as a module with classes, is both a document and a directory."""
    tree = stored("python://os", "python://os/path").scoped_tree(Scope())
    node = tree.node("python://os")
    assert (tree.is_directory(node), tree.is_document(node), tree.chunks(node)) == (True, True, ["python://os"])
    assert tree.parent(tree.node("python://os/path")) == node


def test_the_place_of_a_chunk_without_a_uri():
    """A chunk without a valid uri is placed by its url, its document id or its source."""
    store = HybridGraphStore(None, DeterministicFakeEmbedding(size=8))
    store.upsert([
        Chunk("1", "a", {"url": "https://d.org/x"}),
        Chunk("2", "b", {"source": "s.md"}, "https://d.org/y#z"),
        Chunk("3", "c", {"source": "docs/f.md"}),
        Chunk("4", "d", {"source": "docs/rows.jsonl"}, "row 7"),
        Chunk("5", "e", {}),
        Chunk("6", "f", {"uri": 7, "source": "docs/g.md"}),
    ])  # fmt: skip
    tree = store.scoped_tree(Scope())
    assert [tree.uri(node) for node in tree.nodes(list("123456"))] == [
        "https://d.org/x", "https://d.org/y#z", "docs/f.md", "docs/rows.jsonl/row 7", "5", "docs/g.md",
    ]  # fmt: skip


def test_a_filter_hides_directories():
    """A directory without visible chunks does not exist, and one with some hidden chunks is not fully visible."""
    store = stored("a/x", "b/y", "a/z")
    store.upsert([chunk("a/x", year=1), chunk("b/y", year=2), chunk("a/z", year=2)])
    scope = Scope(parse_filter({"year": 1}))
    assert nested(store, scope) == {"a": {"a/x": {}}}
    tree = store.scoped_tree(scope)
    assert [tree.is_fully_visible(tree.node(uri)) for uri in ("a", "a/x")] == [False, True]
    assert tree.nodes(["a/x", "a/z", "b/y", "none"]) == [tree.node("a/x"), -1, -1, -1]
    assert (len(tree), len(store.scoped_tree(Scope()))) == (2, 5)


def test_time_hides_directories():
    """A directory without a chunk valid at the requested time does not exist."""
    store = stored("a/x")
    store.upsert([chunk("b/y", valid_from=100.0, valid_until=200.0)])
    assert set(nested(store, Scope(as_of=150.0))) == {"a", "b"}
    assert set(nested(store, Scope(as_of=250.0))) == {"a"}


def test_tenants_have_trees_of_their_own(tmp_path):
    """A tenant's tree does not contain the directories of other tenants."""
    for tenant in ("one", "two"):
        store = HybridGraphStore(tmp_path, DeterministicFakeEmbedding(size=8), tenant=tenant)
        store.upsert([chunk(f"{tenant}/x")])
        assert set(nested(store)) == {tenant}
        store.close()


def test_a_readers_tree_is_up_to_date(tmp_path):
    """A reader's tree contains what a writer has added and deleted since it was opened."""
    writer = stored("a/x", path=tmp_path)
    reader = HybridGraphStore(tmp_path, DeterministicFakeEmbedding(size=8), read_only=True)
    assert set(nested(reader)) == {"a"}
    writer.upsert([chunk("b/y")])
    assert set(nested(reader)) == {"a", "b"}
    writer.remove(["a/x"])
    assert set(nested(reader)) == {"b"}
    reader.close()
    writer.close()


def test_threads_read_while_one_writes():
    """A tree read while another thread writes contains all chunks written before the read."""
    store, faults = stored("d/0000"), []
    count = [1]

    def read():
        while count[0] < 60:
            least = count[0]
            tree = store.scoped_tree(Scope())
            children = tree.children(tree.node("d"))
            if len(children) < least or [tree.uri(node) for node in children] != [
                f"d/{n:04}" for n in range(len(children))
            ]:
                faults.append(len(children))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for n in range(1, 60):
        store.upsert([chunk(f"d/{n:04}")])
        count[0] = n + 1
    for reader in readers:
        reader.join()
    assert faults == []


def test_very_deep_uris():
    """A uri deeper than the limit is attached to the deepest directory and can be looked up by its full uri."""
    uri = "/".join("d" * 5_000) + "/x"
    tree = stored(uri).scoped_tree(Scope())
    assert len(tree) == DEEPEST + 2
    assert tree.chunks(tree.node(uri)) == [uri]


@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "ü c", "#"]), min_size=1, max_size=4).map("/".join), min_size=1),
    st.data(),
)
def test_the_tree_contains_exactly_the_present_uris(uris, data):
    """After any deletions, the tree contains each uri with a present chunk at or below it, and no other node."""
    store = stored(*uris)
    removed = data.draw(st.sets(st.sampled_from(uris)))
    store.remove(sorted(removed))
    alive = {plain_uri(uri) for uri in uris if uri not in removed}
    expected = set(alive)
    while above := {directory_of(uri) for uri in expected} - expected - {""}:
        expected |= above
    tree = store.scoped_tree(Scope())
    uris_of_nodes = {tree.uri(node) for node in range(100) if tree._is_visible(node)}
    assert uris_of_nodes == expected


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join), min_size=2), st.data())
def test_a_state_covers_everything_below(uris, data):
    """A node's state changes exactly if a chunk at or below it has changed."""
    store = stored(*uris)
    before = store.scoped_tree(Scope())
    changed = data.draw(st.sampled_from(uris))
    store.upsert([Chunk(changed, "another text", {"uri": changed}, changed)])
    after = store.scoped_tree(Scope())
    for node in range(len(before)):
        lies_below = f"{changed}/".startswith(f"{before.uri(node)}/")
        assert (before.state(node) != after.state(node)) == lies_below


# -- a level ------------------------------------------------------------------------------------------------------


def level(tree, uri):
    below = tree.child_level(tree.node(uri))
    return {uri: below.nodes[place] for place, uri in enumerate(below.uris)}, below


def test_a_level_agrees_with_the_tree():
    """A level lists its nodes by uri, with the chunks of each node next to each other."""
    store = stored("d/c", "d/b/x")
    store.upsert([Chunk(f"a#{n}", f"part {n}", {"uri": "d/a"}, "d/a") for n in range(2)])
    nodes, below = level(store.scoped_tree(Scope()), "d")
    assert list(nodes) == ["d/a", "d/b", "d/c"]
    assert (list(below.chunks), below.owners.tolist()) == (["a#0", "a#1", "d/c"], [0, 0, 2])
    assert below.is_document.tolist() == [True, False, True]
    assert below.is_directory.tolist() == [False, True, False]
    assert below.is_fully_visible.all()
