"""Directory tree of an index: nodes, visibility, and updates of the store."""

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.chunks import Chunk, directory_of, plain_uri
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.stores.tree import DEEPEST
from tests.support.stores.words import open_words


def stored(*uris, path=None, **metadata):
    store = open_words(path)
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


def test_directories_of_uris():
    """The directories above a uri are nodes, for any scheme, path or fragment."""
    uris = "viking://my docs/é.md", "file:///home/x", "https://d.org/a#b", "a//b", "日本/東京"
    assert nested(stored(*uris)) == {
        "viking://my docs": {"viking://my docs/é.md": {}},
        "file:///home": {"file:///home/x": {}},
        "https://d.org": {"https://d.org/a": {"https://d.org/a#b": {}}},
        "a": {"a//b": {}},
        "日本": {"日本/東京": {}},
    }


def test_the_place_of_a_chunk_without_a_uri():
    """A chunk without a valid uri is placed by its url, its document id or its source."""
    store = open_words()
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
    store = stored()
    store.upsert([chunk("a/x", year=1), chunk("b/y", year=2, valid_until=200.0), chunk("a/z", year=2)])
    scope = Scope(parse_filter({"year": 1}))
    assert nested(store, scope) == {"a": {"a/x": {}}}
    tree = store.scoped_tree(scope)
    assert [tree.is_fully_visible(tree.node(uri)) for uri in ("a", "a/x")] == [False, True]
    assert tree.nodes(["a/x", "a/z", "b/y", "none"]) == [tree.node("a/x"), -1, -1, -1]
    assert (len(tree), len(store.scoped_tree(Scope()))) == (2, 5)
    assert [set(nested(store, Scope(as_of=time))) for time in (150.0, 250.0)] == [{"a", "b"}, {"a"}]


def test_a_readers_tree_is_up_to_date(tmp_path):
    """A reader's tree contains what a writer has added and deleted since it was opened."""
    with stored("a/x", path=tmp_path) as writer, open_words(tmp_path, read_only=True) as reader:
        assert set(nested(reader)) == {"a"}
        writer.upsert([chunk("b/y")])
        assert set(nested(reader)) == {"a", "b"}
        writer.remove(["a/x"])
        assert set(nested(reader)) == {"b"}


def test_threads_read_while_one_writes():
    """A tree read while another thread writes contains all chunks written before the read."""
    store, count = stored("d/0000"), [1]

    def read(_):
        while (least := count[0]) < 60:
            tree = store.scoped_tree(Scope())
            uris = [tree.uri(node) for node in tree.children(tree.node("d"))]
            assert len(uris) >= least
            assert uris == [f"d/{n:04}" for n in range(len(uris))]

    with ThreadPoolExecutor(3) as pool:
        reads = pool.map(read, range(3))
        for n in range(1, 60):
            store.upsert([chunk(f"d/{n:04}")])
            count[0] = n + 1
        list(reads)


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
    assert {tree.uri(node) for node in range(100) if tree._is_visible(node)} == expected


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


def test_a_level_agrees_with_the_tree():
    """A level lists nodes by uri, with each one's chunks together, oldest first; a document may be a directory."""
    store = stored("d/c", "d/b/x", "d/c/y")
    store.upsert([Chunk(f"a#{n}", f"part {n}", {"uri": "d/a"}, "d/a") for n in range(2)])
    tree = store.scoped_tree(Scope())
    below = tree.child_level(tree.node("d"))
    assert list(below.uris) == ["d/a", "d/b", "d/c"]
    assert (list(below.chunks), below.owners.tolist()) == (["a#0", "a#1", "d/c"], [0, 0, 2])
    assert below.is_document.tolist() == [True, False, True]
    assert below.is_directory.tolist() == [False, True, True]
    assert below.is_fully_visible.all()
    assert tree.chunks(tree.node("d/a/")) == ["a#0", "a#1"]
    assert tree.parent(tree.node("d/c/y")) == tree.node("d/c")
