"""Behaviour common to all keyword engines, and that of Tantivy's index, such as a folder shared by processes."""

import json
import math
import multiprocessing
import os
import resource
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from typing import get_args

import numpy as np
import pytest
import tantivy
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.errors import ReadOnlyError, StoreError
from langchain_hybridgraph.stores.bm25 import headings_weight
from langchain_hybridgraph.stores.keyword_engine import Engine, keyword_index
from langchain_hybridgraph.stores.tantivy_index import TantivyIndex, tantivy_errors
from langchain_hybridgraph.text.analyzer import Analyzer
from langchain_hybridgraph.text.identifiers import CONTENT_SCORE, FEW, NAME_SCORE, RARE
from tests.support.servers.python_process import output_of_python


@pytest.fixture(params=get_args(Engine))
def make(request):
    with ExitStack() as indexes:

        def made_with(*texts, language="english"):
            index = indexes.enter_context(closing(keyword_index(request.param, language)))
            if texts:
                index.apply(1, enumerate(texts), [])
            return index

        yield made_with


def search(index, text, n=100, allowed_rows=None):
    return [row for row, _ in index.search(text, n, allowed_rows)]


# -- searching -------------------------------------------------------------------------------------------------


def test_an_empty_index_finds_nothing(make):
    """An empty index has version 0, no rows, no hits, no scores and a bound of 0."""
    index = make()
    assert (index.applied_version, index.rows(), index.search("ada", 5)) == (0, set(), [])
    assert (index.scores("ada", [0, 1]), index.question("ada").bound) == ({}, 0)


def test_a_question_of_stop_words_finds_them(make):
    """A query with only stop words finds texts that contain them."""
    assert search(make("a band named The Who", "a man named Ada"), "The Who?") == [0]


def test_a_question_of_100000_characters(make):
    """The first 10,000 of 100,000 characters find the texts they consist of, even one with their rarest word."""
    texts = [" ".join(f"{'x' * 24}{(i * 37 + j) % 2000}" for j in range(20)) for i in range(200)]
    question = " ".join([*["zebra"] * 9, *texts])
    index = make(*texts, "zebra")
    assert len(question) > 100_000
    assert 200 in search(index, question, 300)
    assert len(search(index, question, 300)) > 5


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("数据库管理系统", "数据库"),
        ("ฉันชอบแมวมาก", "แมว"),
        ("Das Café in der Straße", "cafe strasse"),
        ("RecursiveCharacterTextSplitter", "character splitter"),
        ("release v1.2.3", "v1.2.3"),
    ],
)
def test_words_are_found_in_an_english_index(make, text, question):
    """An English index finds words of scripts without spaces, words without their accents, and parts of identifiers."""
    assert search(make("something else", text, "另外一些文字"), question) == [1]


# -- order -----------------------------------------------------------------------------------------------------


def test_equal_texts_have_exactly_equal_scores(make):
    """Equal texts have exactly equal scores, regardless of their position and neighbours."""
    numbers = np.random.default_rng(5)
    vocabulary = [f"b{i}" for i in range(24)]
    twice = [" ".join(numbers.choice(vocabulary, 6, replace=False)) for _ in range(50)]
    between = [" ".join(numbers.choice(vocabulary, 3, replace=False)) for _ in range(5000)]
    index = make(*twice, *(f"a{i}" for i in range(50)), *between, *twice, language="none")
    for row, text in enumerate(twice[:20]):
        scores = index.scores(f"a{row} {text} a{row + 1}", [row, row + 5100])
        assert scores.keys() == {row, row + 5100}
        assert scores[row] == scores[row + 5100]


# -- the mask --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.001, 0.3, 0.97])
def test_masked_hits_are_the_allowed_ones_of_all_hits(make, share):
    """A mask keeps the scores and the order of the allowed hits, whether it allows few rows or many."""
    numbers = np.random.default_rng(3)
    index = make(*[" ".join(f"w{i}" for i in numbers.zipf(1.4, 8) % 50) for _ in range(3000)])
    allowed_rows = numbers.random(3000) < share
    whole = [hit for hit in index.search("w1 w2 w3 w7", 3000) if allowed_rows[hit[0]]]
    assert whole
    for n in (1, 10, 3000):
        assert index.search("w1 w2 w3 w7", n, allowed_rows) == whole[:n]


# -- writing ---------------------------------------------------------------------------------------------------


def test_rows_are_added_and_removed(make):
    """Adding a row replaces its text, a row both added and removed is kept, and applying again changes nothing."""
    index = make("ada", "charles", "engine")
    for _ in range(2):
        index.apply(2, [(1, "ada"), (2, "ada built")], [0, 2, 77])
        assert (index.applied_version, index.rows()) == (2, {1, 2})
        assert [search(index, word) for word in ("ada", "charles", "built")] == [[1, 2], [], [2]]


@pytest.mark.parametrize("error", [LookupError, KeyboardInterrupt])
def test_a_batch_that_breaks_off_leaves_no_trace(make, error):
    """An error or interruption while reading a batch is raised unchanged, and none of the batch is ever indexed."""

    def breaks_off():
        yield 5, "zebra"
        raise error("no more texts")

    index = make("ada")
    with pytest.raises(error, match="no more texts"):
        index.apply(2, breaks_off(), [0])
    assert (index.applied_version, index.rows()) == (1, {0})
    index.apply(3, [(1, "charles")], [])
    assert (index.applied_version, index.rows(), search(index, "zebra")) == (3, {0, 1}, [])


# -- headings --------------------------------------------------------------------------------------------------


def test_the_scores_of_texts_and_headings_are_added(make):
    """The score of a row is the score of its text plus the weighted score of its headings."""
    texts, headings = make("zebra stripes", "zebra", "okapi"), make("zebra", "okapi zebra", "")
    index = make()
    index.apply(1, [(0, "zebra stripes", "zebra"), (1, "zebra", "okapi zebra"), (2, "okapi")], [])
    question = "zebra okapi stripes zebra"
    of_texts, of_headings = (dict.fromkeys(range(3), 0.0) | dict(one.search(question, 5)) for one in (texts, headings))
    expected = {row: of_texts[row] + headings_weight(3) * of_headings[row] for row in range(3)}
    assert dict(index.search(question, 5)) == pytest.approx(expected)
    bound = texts.question(question).bound + headings_weight(3) * headings.question(question).bound
    assert index.question(question).bound == pytest.approx(bound, rel=1e-5)


def test_headings_do_not_make_a_question_answerable(make):
    """The best score of the texts leaves out their headings, so it is the same with and without them."""
    texts = ["a zebra eats grass", "an okapi eats leaves", "penguins swim"]
    plain, titled = make(*texts), make(*texts)
    titled.apply(2, [(row, text, "zebra handbook") for row, text in enumerate(texts)], [])
    question = "zebra penicillin"

    def words(index, n):
        return index.result(question, n, None, lambda rows: list(map(str, rows)), None).words

    of_titled, of_plain = words(titled, 3), words(plain, 3)
    assert of_titled.best == pytest.approx(of_plain.best)
    assert dict(titled.search(question, 3))[0] > dict(plain.search(question, 3))[0]
    assert words(plain, 0).best == 0


def test_the_weight_of_headings_does_not_depend_on_other_rows(make):
    """Unknown words of a question count, so a row that contains one of them changes no weight."""
    small, large = make("zebra", "okapi"), make("zebra", "okapi", "limits gate please")
    question = "zebra limits see gate please"
    for index in (small, large):
        index.apply(2, [(1, "okapi", "zebra")], [])
    of_heading = [dict(index.search(question, 5))[1] for index in (small, large)]
    assert of_heading[1] / of_heading[0] == pytest.approx(1, abs=0.5)


def test_a_word_that_only_headings_contain_is_not_an_identifier(make):
    """A name that occurs only in headings is not an exact match."""
    index = make()
    index.apply(1, [(row, "stripes", f"E-47{row}" if row else "") for row in range(40)], [])
    assert (search(index, "E-4711", n=1), index.exact_matches("E-4711")) == ([11], {})


# -- exact matches ---------------------------------------------------------------------------------------------

PACKAGES = [
    "ruby-faker: fake data\nA port of another library, for Ruby programs.",
    "php-faker: fake data\nFaker, for PHP programs; Faker is a port of ruby faker.",
    "faker-doc: fake data\nThe documentation of ruby faker programs.",
    "Trains are late.",
    "Ships are late.",
]


def test_the_text_with_the_name_is_preferred(make):
    """The chunk with this name scores more than twice as high as others with the same words."""
    results = make(*PACKAGES).exact_matches("what is ruby-faker for?")
    assert results[0] == pytest.approx(NAME_SCORE)
    assert all(value < NAME_SCORE / 2 for row, value in results.items() if row)


def test_the_score_of_a_compound_is_its_share_of_the_question(make):
    """A compound that is the complete question gives the full score; other known words and repeated parts lower it."""
    index = make("Hall 4 has pump P-1208.", "Hall 4 has pump P-1209.", "Trains are late.")
    alone, among = index.exact_matches("P-1208?"), index.exact_matches("Are trains as late as P-1208?")
    assert alone[0] == pytest.approx(CONTENT_SCORE)
    assert alone.get(1, 0.0) < CONTENT_SCORE / 4
    assert 0 < among[0] < CONTENT_SCORE / 2
    index = make("non-teaching staff", *["trains are late"] * 3)
    assert index.exact_matches("non-teaching, non-teaching")[0] == pytest.approx(CONTENT_SCORE)
    assert index.exact_matches("teaching or non-teaching")[0] == pytest.approx(CONTENT_SCORE * 2 / 3)


def test_words_of_a_small_corpus_are_not_rare(make):
    """Among five chunks, a word matches only if it is the complete question; among many, a rare word always matches."""
    five = ["a zebra grazes", *["cattle low"] * 4]
    assert make(*five).exact_matches("zebra cattle") == {}
    assert make(*five).exact_matches("zebra") == {0: pytest.approx(CONTENT_SCORE)}
    assert list(make(*five, *["cattle low"] * RARE).exact_matches("zebra cattle")) == [0]


def test_a_word_that_no_text_has_lowers_the_share_of_a_rare_word(make):
    """A question word that is in no chunk lowers the score of the only chunk with the other word to less than a
    third.
    """
    index = make("Capital letters", *(f"A text about number {n}." for n in range(40)))
    whole, half = (index.exact_matches(question)[0] for question in ("the capital", "the capital of Mongolia"))
    assert whole == pytest.approx(CONTENT_SCORE)
    assert 0 < half < CONTENT_SCORE / 3


def test_common_words_identify_no_text(make):
    """A word in more than FEW chunks gives no exact match, unless a mask includes only one of them."""
    index = make(*["zebra E-4711"] * (FEW + 1), "cattle")
    assert index.exact_matches("zebra E-4711") == {}
    assert index.exact_matches("zebra", np.array([False, True, False])) == {1: pytest.approx(CONTENT_SCORE)}


def test_deleted_versions_do_not_make_words_common(make):
    """Deleted versions of a chunk do not make its words common, no matter how often the chunk was rewritten."""
    index = make("E-4711 is refused", "Trains are late.")
    for version in range(2, 6):
        index.apply(version, [(version, "E-4711 is refused")], [version - 1 if version > 2 else 0])
    assert list(index.exact_matches("E-4711")) == [5]
    assert index.exact_matches("E-4711")[5] == pytest.approx(CONTENT_SCORE, rel=0.01)


@pytest.mark.parametrize("question", ["", "?", "the of and", "unknown-thing", "x" * 200, "a-b " * 5000])
def test_nothing_to_identify(make, question):
    """Empty questions, unknown words and overlong words give no scores."""
    assert make(*PACKAGES).exact_matches(question) == {}


# -- properties ------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(["ada", "charles", "engine", "oil", "c", "the", "数据", "RedHat"])
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)
ROWS = st.integers(0, 30)
ENTRIES = st.tuples(ROWS, TEXTS) | st.tuples(ROWS, TEXTS, TEXTS)
BATCHES = st.lists(st.lists(ENTRIES, max_size=12), min_size=1, max_size=3)


@pytest.fixture(scope="module", params=get_args(Engine))
def engine(request):
    return lambda: keyword_index(request.param)


@given(batches=BATCHES, question=TEXTS, mask=st.lists(st.booleans(), max_size=32), n=st.integers(1, 12))
def test_answers_agree_with_each_other(engine, batches, question, mask, n):
    """Scores equal the search's, no score exceeds the bound, and fewer hits are the first of more."""
    index = engine()
    for version, batch in enumerate(batches, 1):
        index.apply(version, batch, [])
    whole = index.search(question, 100)
    allowed_rows = np.array(mask, dtype=bool)
    assert whole == sorted(whole, key=lambda hit: (-hit[1], hit[0]))
    assert index.search(question, n) == whole[:n]
    assert index.search(question, n, allowed_rows) == [hit for hit in whole if hit[0] < len(mask) and mask[hit[0]]][:n]
    assert index.scores(question, range(40)) == dict(whole)
    assert all(0 < score <= index.question(question).bound for _, score in whole)
    index.close()


@given(batches=BATCHES, question=TEXTS)
def test_texts_with_a_common_word_are_found(engine, batches, question):
    """A search finds exactly the rows that contain a word of the query."""
    index, analyzer = engine(), Analyzer("english")
    for version, batch in enumerate(batches, 1):
        index.apply(version, batch, [])
    rows = {row: set(analyzer.all_words(" ".join(texts))) for batch in batches for row, *texts in batch}
    question_words = set(analyzer.words(question))
    assert index.rows() == set(rows)
    assert set(search(index, question)) == {row for row, words in rows.items() if words & question_words}
    index.close()


@given(text=st.text(), question=st.text())
def test_no_text_and_no_question_raises(engine, text, question):
    """No text or query raises an error, and a text with words is found if it is the query."""
    index = engine()
    index.apply(1, [(0, text)], [])
    assert search(index, text) == ([0] if Analyzer("english").all_words(text) else [])
    index.search(question, 5)
    index.close()


# -- Tantivy alone ----------------------------------------------------------------------------------------------------


@pytest.fixture
def words_folder(tmp_path):
    """Return a folder whose index has the texts "ada" and "charles" in rows 0 and 1, at version 1."""
    with closing(TantivyIndex(tmp_path / "keywords", writable=True)) as index:
        index.apply(1, [(0, "ada"), (1, "charles")], [])
    return tmp_path / "keywords"


# -- scores ----------------------------------------------------------------------------------------------------


def test_the_bound_is_the_sum_of_idfs():
    """The bound is the sum of idf · 2.2 over the words of the query, including repeated ones."""
    index = TantivyIndex(None, "none")
    index.apply(1, [(0, "a b"), (1, "b")], [])
    once = 2.2 * (math.log(1 + 2.5 / 1.5) + 2 * math.log(1 + 1.5 / 2.5))
    assert index.question("a b b unknown").bound == pytest.approx(once, rel=1e-5)


def test_the_bound_holds_while_removed_texts_still_count():
    """The bound is correct while Tantivy's statistics still include removed texts."""
    index = TantivyIndex(None, "none")
    index.apply(1, [(row, ("a " if row % 50 == 0 else "b ") * 200) for row in range(400)], [])
    index.apply(2, [], [row for row in range(400) if row % 50])
    (score, *_) = (score for _, score in index.search("a", 1))
    assert 0.95 * index.question("a").bound < score <= index.question("a").bound


# -- the folder ------------------------------------------------------------------------------------------------


def test_another_language_is_a_store_error(words_folder):
    """Opening an index with another language raises a StoreError that suggests a rebuild."""
    with pytest.raises(StoreError, match=r"english.*german.*rebuild"):
        TantivyIndex(words_folder, "german")


# -- several at once -------------------------------------------------------------------------------------------


def test_searches_run_during_writes(words_folder):
    """Searches in other threads return complete results while a thread writes and merges."""
    index = TantivyIndex(words_folder, writable=True)

    def ask():
        while index.applied_version < 12:
            assert search(index, "ada")[:1] == [0]
            assert index.scores("ada", [0]).keys() == {0}

    with ThreadPoolExecutor() as pool:
        searches = [pool.submit(ask) for _ in range(3)]
        for version in range(2, 13):
            index.apply(version, [(version, "ada")], [1])
    assert [search.exception() for search in searches] == [None] * 3


def test_a_folder_that_may_only_be_read_is_read(words_folder, monkeypatch):
    """A read-only folder is searched without changing a file, and later commits of other processes are seen."""
    before = {file.name: file.read_bytes() for file in words_folder.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: False)
        reader = TantivyIndex(words_folder, writable=True)
    for lock in words_folder.glob(".*.lock"):
        lock.chmod(0)
    assert (reader.applied_version, search(reader, "ada")) == (1, [0])
    with pytest.raises(ReadOnlyError):
        reader.apply(2, [], [])
    assert {file.name: file.read_bytes() for file in words_folder.iterdir()} == before
    for lock in words_folder.glob(".*.lock"):
        lock.chmod(0o644)
    writer = TantivyIndex(words_folder, writable=True)
    writer.apply(2, [(2, "ada")], [0])
    reader.reload()
    assert (reader.applied_version, search(reader, "ada")) == (2, [2])
    reader.close()
    writer.close()


# -- the engine's edge -----------------------------------------------------------------------------------------


def test_a_panic_is_a_store_error(words_folder):
    """A panic in Tantivy, which is a BaseException, is raised as a StoreError."""
    index = TantivyIndex(words_folder)
    with pytest.raises(StoreError, match="the search failed"), tantivy_errors("the search failed"):
        index._searcher.search(tantivy.Query.all_query(), 0)
    assert search(index, "ada") == [0]


# -- crashes ---------------------------------------------------------------------------------------------------


def write_on(folder, confirmed):
    """Write batch after batch, and send the version of each."""
    index = TantivyIndex(folder, writable=True)
    while True:
        version = index.applied_version + 1
        index.apply(version, [(version * 10 + i, f"ada v{version}") for i in range(5)], [(version - 1) * 10])
        confirmed.send(version)


def rows_of(version):
    rows = {v * 10 + i for v in range(1, version + 1) for i in range(5)}
    return rows - {v * 10 for v in range(1, version)}


def test_a_killed_writer_leaves_a_whole_index(tmp_path):
    """After kill -9, the version and the rows agree, and no confirmed batch is lost."""
    context, reported = multiprocessing.get_context("spawn"), 0
    for count in (1, 2, 5):
        versions, confirmed = context.Pipe(duplex=False)
        writer = context.Process(target=write_on, args=(tmp_path / "keywords", confirmed))
        writer.start()
        confirmed.close()
        for _ in range(count):
            assert versions.poll(60)
            reported = versions.recv()
        writer.kill()
        with suppress(EOFError):
            while True:
                reported = versions.recv()
        index = TantivyIndex(tmp_path / "keywords")
        assert reported <= index.applied_version <= reported + 1
        assert index.rows() == rows_of(index.applied_version)
        assert set(search(index, "ada", 10_000)) == rows_of(index.applied_version)
        index.close()
    assert reported >= 8


FILL_UP = """
import json, resource, sys
from pathlib import Path
from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.stores.tantivy_index import TantivyIndex
index = TantivyIndex(Path(sys.argv[1]), writable=True)
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
try:
    index.apply(2, [(10 + i, f"word{i} " * 50 + f"other{i}") for i in range(20_000)], [0])
except StoreError as error:
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    index.apply(3, [(2, "ada")], [])
    print(json.dumps([index.applied_version, sorted(index.rows()), str(error)]))
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="the system cannot limit the size of files")
def test_a_full_disk_loses_nothing(words_folder):
    """A write to a full disk raises StoreError, existing rows are kept, and writing works again with free space."""
    applied, rows, error = json.loads(output_of_python("-c", FILL_UP, words_folder))
    assert (applied, rows) == (3, [0, 1, 2])
    assert "cannot write to the keyword index" in error
    index = TantivyIndex(words_folder)
    assert (index.applied_version, search(index, "ada")) == (3, [0, 2])


def test_files_of_other_writers_do_not_accumulate(tmp_path):
    """If writers take turns and are opened again, the folder contains little more than the last commit's files."""
    writers = [TantivyIndex(tmp_path, writable=True), TantivyIndex(tmp_path, writable=True)]
    for version in range(1, 62):
        writers[version % 2].apply(version, [(version, f"word{version}")], [version - 10])
        if version % 10 == 0:
            place = version // 10 % 2
            writers[place].close()
            writers[place] = TantivyIndex(tmp_path, writable=True)
    segments = json.loads((tmp_path / "meta.json").read_text())["segments"]
    assert len(list(tmp_path.glob("*.idx"))) <= len(segments) + 1


def killed_before_the_commit(path):
    """Create a folder as left by a process killed in a commit: all files of the commit except its list."""
    with closing(TantivyIndex(path, writable=True)) as index:
        index.apply(1, [(row, f"word{row} cat") for row in range(20)], [])
    committed = (path / "meta.json").read_bytes()
    with closing(TantivyIndex(path, writable=True)) as index:
        index.apply(2, [(20, "late")], [3])
    (path / "meta.json").write_bytes(committed)
    assert list(path.glob("*.del"))


def test_remains_of_a_killed_process_do_not_stop_the_next_commit(tmp_path):
    """The next commit deletes leftovers of a killed process, even if its files would have the same names."""
    killed_before_the_commit(tmp_path / "words")
    with closing(TantivyIndex(tmp_path / "words", writable=True)) as index:
        assert index.applied_version == 1
        index.apply(2, [(20, "late")], [3])
        assert (index.rows(), index.search("late", 5)[0][0]) == ({*range(21)} - {3}, 20)
