"""Keyword index of the embedded store: Tantivy, or rank_bm25 if Tantivy cannot be opened."""

import shutil
import threading

import pytest
import tantivy

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.stores.embedded.catalog import outbox as catalog_outbox
from langchain_hybridgraph.stores.embedded.catalog import writes as catalog_writes
from langchain_hybridgraph.stores.embedded.catalog.catalog import Catalog
from langchain_hybridgraph.stores.embedded.catalog.memory import insert_or_replace
from langchain_hybridgraph.stores.embedded.catalog.rows import catalog_rows
from langchain_hybridgraph.stores.embedded.folder.keyword_index import KeywordEngine
from langchain_hybridgraph.stores.engines import rank_bm25
from langchain_hybridgraph.stores.engines.tantivy import index as tantivy_engine
from langchain_hybridgraph.stores.engines.tantivy.index import TantivyIndex


@pytest.fixture
def catalog(tmp_path):
    opened = Catalog(tmp_path / "catalogue.sqlite", create=True)
    yield opened
    opened.close()


@pytest.fixture
def writer(tmp_path, catalog):
    opened = KeywordEngine(tmp_path / "keywords", "english", catalog)
    yield opened
    opened.close()


def insert(catalog, first, *texts):
    """Add chunks with these texts at these rows; return the catalog's version."""
    entries = catalog_rows([Chunk(f"c{first + n}", text) for n, text in enumerate(texts)], [], "")
    rows = range(first, first + len(texts))
    with catalog.writing() as connection:
        insert_or_replace(connection, [e._replace(row=row) for e, row in zip(entries, rows, strict=True)], 0.0)
        return catalog_outbox.log_changes(connection, rows)


def search(keywords, text):
    return [row for row, _ in keywords.index.search(text, 10)]


def make_earlier_index(folder):
    """Replace the keyword index with one that has the schema of an earlier version of the package."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("row", indexed=True, fast=True)
    builder.add_text_field("text", tokenizer_name="whitespace", index_option="freq")
    tantivy.Index(builder.build(), str(folder))


def test_follow_brings_the_index_up_to_date(catalog, writer):
    """follow() adds and removes the rows in the outbox and records the version."""
    writer.follow(insert(catalog, 0, "a cat", "a dog"), 0)
    assert (search(writer, "cat"), search(writer, "dog")) == ([0], [1])
    with catalog.writing() as connection:
        _, dead = catalog_writes.delete_ids(connection, "", ["c0"])
        version = catalog_outbox.log_changes(connection, dead)
    assert writer.lags(version)
    writer.follow(version, 0)
    assert (search(writer, "cat"), search(writer, "dog"), writer.lags(version)) == ([], [1], False)


def test_an_outbox_that_is_too_short_leads_to_a_rebuild(catalog, writer):
    """An index that is further behind than the outbox reaches is rebuilt from all texts."""
    insert(catalog, 0, "a cat")
    version = insert(catalog, 1, "a dog")
    with catalog.writing() as connection:
        catalog_outbox.trim_changes(connection, 1)
    writer.follow(version, 1)
    assert (search(writer, "cat"), search(writer, "dog")) == ([0], [1])


def test_an_index_from_the_future_is_rebuilt(catalog, writer):
    """An index ahead of the catalog, as after restoring a backup, is rebuilt."""
    version = insert(catalog, 0, "a cat")
    writer.index.apply(version + 5, [(7, "a ghost")], [])
    writer.follow(version, 0)
    assert (search(writer, "ghost"), search(writer, "cat")) == ([], [0])


def test_a_reader_finds_new_chunks_after_reloading(tmp_path, catalog, writer):
    """A reader opened before the first commit finds new chunks after reloading."""
    reader = KeywordEngine(tmp_path / "keywords", "english", catalog)
    assert search(reader, "cat") == []
    for number, word in enumerate(("cat", "dog")):
        writer.follow(insert(catalog, number, word), 0)
        reader.reload()
        assert search(reader, word) == [number]
    assert reader.reason is None


def test_a_broken_index_is_answered_from_the_texts(tmp_path, catalog, writer, caplog):
    """If the index cannot be opened, rank_bm25 searches the catalog's texts with the reason "keyword-fallback"."""
    version = insert(catalog, 0, "a cat", "a dog")
    writer.follow(version, 0)
    writer.close()
    (tmp_path / "keywords" / "meta.json").write_text("{")
    reader = KeywordEngine(tmp_path / "keywords", "english", catalog)
    assert search(reader, "cat") == [0]
    assert reader.reason == "keyword-fallback"
    assert "repair()" in caplog.text
    assert reader.lags(version)


def test_a_reader_before_the_first_index_warns_once(tmp_path, catalog, caplog):
    """A reader opened before the first index exists logs a single warning of one line."""
    insert(catalog, 0, "a cat")
    reader = KeywordEngine(tmp_path / "keywords", "english", catalog)
    for _ in range(3):
        assert search(reader, "cat") == [0]
        reader.reload()
    (warning,) = caplog.records
    assert (warning.levelname, warning.exc_info, "\n" in warning.getMessage()) == ("WARNING", None, False)
    assert "keyword-fallback" in warning.getMessage()


def test_rebuild_repairs_a_broken_index(tmp_path, catalog, writer):
    """After a rebuild, a broken index is searched with Tantivy again."""
    version = insert(catalog, 0, "a cat", "a dog")
    writer.follow(version, 0)
    writer.close()
    shutil.rmtree(tmp_path / "keywords")
    (tmp_path / "keywords").mkdir()
    (tmp_path / "keywords" / "meta.json").write_text("{")
    writer.rebuild(version)
    assert (search(writer, "cat"), writer.reason, writer.index.rows()) == ([0], None, {0, 1})


def test_headings_in_the_metadata_are_searched(catalog, writer):
    """A chunk is found by the words of its title and section heading, before and after a rebuild."""
    metadata = {"title": "Zebras", "section_heading": "Diet > Winter"}
    entries = catalog_rows([Chunk("c0", "They eat grass.", metadata), Chunk("c1", "They sleep.")], [], "")
    with catalog.writing() as connection:
        insert_or_replace(connection, [e._replace(row=row) for row, e in enumerate(entries)], 0.0)
        version = catalog_outbox.log_changes(connection, [0, 1])
    writer.follow(version, 0)
    assert [search(writer, word) for word in ("zebra", "diet", "winter")] == [[0], [0], [0]]
    writer.rebuild(version)
    assert search(writer, "zebra winter") == [0]


def test_an_index_without_headings_is_rebuilt(tmp_path, catalog, writer):
    """An index made before headings were searched is rebuilt when the store is brought up to date."""
    version = insert(catalog, 0, "a cat")
    make_earlier_index(tmp_path / "keywords")
    assert writer.lags(version)
    assert (search(writer, "cat"), writer.reason) == ([0], "keyword-fallback")
    writer.follow(version, 0)
    assert (search(writer, "cat"), writer.reason, writer.lags(version)) == ([0], None, False)


def make_index_with_other_words(folder):
    """Create a keyword index whose texts were analysed in another way."""
    index = TantivyIndex(folder, "german", writable=True)
    index.apply(1, [(0, "a cat")], [])
    index.close()


@pytest.mark.parametrize("make_index", [make_earlier_index, make_index_with_other_words])
def test_an_index_of_another_version_is_rebuilt_without_the_fallback(tmp_path, catalog, writer, caplog, make_index):
    """Bringing an index of another version up to date does not build the fallback, and logs no warning."""
    version = insert(catalog, 0, "a cat")
    make_index(tmp_path / "keywords")
    with caplog.at_level("INFO"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_bm25, "RankBM25Index", None)
        assert writer.lags(version)
        writer.follow(version, 0)
    assert (search(writer, "cat"), writer.reason) == ([0], None)
    (record,) = [record for record in caplog.records if "is rebuilt" in record.getMessage()]
    assert (record.levelname, "made by another version" in record.getMessage()) == ("INFO", True)


def test_a_damaged_index_is_rebuilt_with_a_warning(tmp_path, catalog, writer, caplog):
    """Rebuilding an index that cannot be opened logs a warning of one line with the cause."""
    version = insert(catalog, 0, "a cat")
    (tmp_path / "keywords").mkdir()
    (tmp_path / "keywords" / "meta.json").write_text("{")
    writer.follow(version, 0)
    (warning,) = caplog.records
    assert (warning.levelname, "\n" in warning.getMessage()) == ("WARNING", False)
    assert "cannot be opened and is rebuilt" in warning.getMessage()
    assert (search(writer, "cat"), writer.reason) == ([0], None)


def test_a_reader_leaves_the_fallback_once_the_index_has_been_rebuilt(tmp_path, catalog, writer):
    """A reader that uses the fallback opens Tantivy's index after another process has rebuilt it, although the
    catalog's version is the same.
    """
    version = insert(catalog, 0, "a cat")
    make_earlier_index(tmp_path / "keywords")
    reader = KeywordEngine(tmp_path / "keywords", "english", catalog)
    assert (search(reader, "cat"), reader.reason) == ([0], "keyword-fallback")
    fallback = reader.index
    assert (reader.renew(version), reader.index is fallback) == (False, True)
    writer.follow(version, 0)
    assert (reader.renew(version), search(reader, "cat"), reader.reason) == (True, [0], None)
    assert (isinstance(reader.index, TantivyIndex), reader.renew(version)) == (True, False)
    reader.close()


def test_a_reader_keeps_the_fallback_while_the_index_is_being_rebuilt(tmp_path, catalog, monkeypatch):
    """While a new index has no texts yet, a reader keeps its fallback and does not try again until the next change."""
    version = insert(catalog, 0, "a cat")
    make_earlier_index(tmp_path / "keywords")
    reader = KeywordEngine(tmp_path / "keywords", "english", catalog)
    fallback = reader.index
    shutil.rmtree(tmp_path / "keywords")
    assert (reader.renew(version), reader.index is fallback) == (False, True)
    new = TantivyIndex(tmp_path / "keywords", writable=True)
    assert (reader.renew(version), reader.index is fallback) == (False, True)
    with monkeypatch.context() as patch:
        patch.setattr(tantivy_engine, "TantivyIndex", None)
        assert not reader.renew(version)
    new.apply(version, [(0, "a cat")], [])
    assert (reader.renew(version), search(reader, "cat"), reader.reason) == (True, [0], None)
    reader.close()
    new.close()


def test_a_missing_index_lags_once_there_are_chunks(tmp_path, catalog):
    """A missing index is out of date as soon as there is a chunk."""
    keywords = KeywordEngine(tmp_path / "keywords", "english", catalog)
    assert not keywords.lags(0)
    assert keywords.lags(insert(catalog, 0, "a cat"))


def test_a_search_during_a_rebuild_is_repeated(catalog, writer):
    """Searches while the index is rebuilt return complete results without errors."""
    version = insert(catalog, 0, *(f"cat number{n}" for n in range(200)))
    writer.follow(version, 0)
    answers, errors, stop = [], [], threading.Event()

    def ask():
        while not stop.is_set():
            try:
                answers.append(len(writer.query(lambda index: index.search("cat", 500))))
            except StoreError as error:
                errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        writer.rebuild(version)
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert set(answers) == {200}


def test_two_writers_alternate(tmp_path, catalog, writer):
    """Two writers can write alternately, and each sees the other's rows."""
    other = KeywordEngine(tmp_path / "keywords", "english", catalog)
    for number, (word, keywords) in enumerate([("cat", writer), ("dog", other), ("cow", writer)]):
        keywords.follow(insert(catalog, number, word), 0)
    other.reload()
    assert [search(keywords, "dog") for keywords in (writer, other)] == [[1], [1]]
    assert other.index.rows() == {0, 1, 2}
    other.close()


def test_an_index_that_cannot_be_continued_is_rebuilt(tmp_path, catalog, writer, caplog):
    """An index whose next commit would collide with leftover files is rebuilt from all texts."""
    writer.follow(insert(catalog, 0, "a cat", "a dog"), 0)
    with catalog.writing() as connection:
        _, dead = catalog_writes.delete_ids(connection, "", ["c0"])
        catalog_outbox.log_changes(connection, dead)
    version = insert(catalog, 2, "a bird")
    writer.close()
    folder = tmp_path / "keywords"
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.name.endswith(".json")}
    writer.follow(version, 0)
    writer.close()
    assert list(folder.glob("*.del"))
    for name, content in before.items():
        (folder / name).write_bytes(content)
    writer.follow(version, 0)
    assert [search(writer, word) for word in ("cat", "dog", "bird")] == [[], [1], [2]]
    assert "cannot be updated and is rebuilt" in caplog.text


def test_a_reader_of_an_index_that_was_never_filled_reads_the_texts(tmp_path, catalog):
    """A reader of an index without a commit uses the fallback and reports it."""
    TantivyIndex(tmp_path / "keywords", writable=True).close()
    insert(catalog, 0, "a cat")
    reader = KeywordEngine(tmp_path / "keywords", "english", catalog)
    assert (search(reader, "cat"), reader.reason) == ([0], "keyword-fallback")


def test_an_empty_index_is_not_created(tmp_path, catalog, writer, caplog):
    """No index is created before the first text, and that text needs no fallback."""
    writer.follow(0, 0)
    assert not (tmp_path / "keywords").exists()
    writer.follow(insert(catalog, 0, "a cat"), 0)
    assert (search(writer, "cat"), caplog.records) == ([0], [])
