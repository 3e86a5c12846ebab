"""LSA compared with a dense SVD, saved and loaded, and fitted to arbitrary texts."""

import json
import math
import re
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_tests.integration_tests import EmbeddingsIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

from langchain_hybridgraph.embeddings import lsa
from langchain_hybridgraph.embeddings.lsa import NotFittedError
from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings
from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.text.analyzer import Analyzer
from tests.support.servers.python_process import output_of_python

TEXTS = [
    "The cat purrs on the sofa.",
    "A cat sleeps on a sofa, and the cat dreams of mice.",
    "Mice fear the cat.",
    "Dogs bark at night.",
    "A dog barks at the postman, a dog barks at the moon.",
    "The postman rings twice at night.",
    "Stars and the moon shine at night.",
    "The moon circles the earth.",
]


@pytest.fixture(scope="module", autouse=True)
def no_topics():
    """Switch topics off, as in a large corpus; test_topics.py tests small ones."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(lsa, "FEW_TEXTS", 0)
        yield


@pytest.fixture(scope="module")
def fitted():
    return LSAEmbeddings().fit(TEXTS)


@pytest.fixture
def file(fitted, tmp_path):
    fitted.save(tmp_path / "model.npz")
    return tmp_path / "model.npz"


class TestStandard(EmbeddingsIntegrationTests):
    embeddings_class = LSAEmbeddings

    @pytest.fixture
    def model(self):
        return LSAEmbeddings().fit(["foo bar", "bar baz"])


class TestStandardUnit(EmbeddingsUnitTests):
    embeddings_class = LSAEmbeddings


# -- vectors -------------------------------------------------------------------------------------------


def weighted(texts, vocabulary):
    """Return the matrix that is decomposed, computed word by word from the formula in the docstring."""
    words_of = Analyzer("english").words
    bags = [Counter(words_of(text)) for text in TEXTS]
    found_in = {word: sum(word in bag for bag in bags) for word in vocabulary}
    matrix = np.zeros((len(texts), len(vocabulary)))
    for row, text in enumerate(texts):
        for word, times in Counter(words_of(text)).items():
            if word in found_in:
                idf = 1 + math.log((1 + len(TEXTS)) / (1 + found_in[word]))
                matrix[row, vocabulary.index(word)] = (1 + math.log(times)) * idf**2.5
    return matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-300)


def test_cosines_equal_those_of_a_dense_svd(fitted):
    """On a small corpus, the cosines of texts and questions equal those from NumPy's full SVD."""
    vocabulary = sorted({word for text in TEXTS for word in Analyzer("english").words(text)})
    questions = ["Which cat purrs at the moon?", "postman", "dreaming dogs"]
    _, _, axes = np.linalg.svd(weighted(TEXTS, vocabulary), full_matrices=False)
    dense = weighted(TEXTS + questions, vocabulary) @ axes.T
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    vectors = fitted.vectors(TEXTS + questions)
    assert np.allclose(vectors @ vectors.T, dense @ dense.T, atol=2e-3)  # words are kept in half precision


def test_batches_do_not_matter(fitted, monkeypatch):
    """Fitting and embedding in small batches gives the same model and vectors as in one batch."""
    whole = fitted.vectors(TEXTS)
    monkeypatch.setattr(lsa, "_BATCH", 3)
    assert np.array_equal(fitted.vectors(TEXTS), whole)
    again = LSAEmbeddings().fit(TEXTS).vectors(TEXTS)
    assert np.allclose(again @ again.T, whole @ whole.T, atol=2e-3)


# -- any text ---------------------------------------------------------------------------------------------------

ANY = st.one_of(
    st.text(max_size=60),
    st.text(st.sampled_from("cat dog\n\ud800\x00數据"), max_size=30),
    st.lists(st.sampled_from(["cats", "the", "moon", "night", "postman", "zebra", "sofa"]), max_size=9).map(" ".join),
)


@given(text=ANY)
def test_any_text_gets_a_unit_vector_or_zeros(fitted, text):
    """Any text gets 200 finite numbers, of length 1 if one of its words is known and of length 0 otherwise."""
    vector = np.array(fitted.embed_query(text))
    assert vector.shape == (200,)
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1.0 if fitted.vectors([text]).any() else 0.0, abs=1e-5)


@given(texts=st.lists(ANY, max_size=8))
def test_any_corpus_can_be_learned(texts):
    """A model can be fitted to any texts: their vectors are finite, no word is unknown, and every text with words
    has length 1.
    """
    model = LSAEmbeddings().fit(texts)
    vectors = model.vectors(texts)
    assert vectors.shape == (len(texts), 200)
    assert np.isfinite(vectors).all()
    questions = np.reshape([model.embed_query(text) for text in texts], vectors.shape)
    assert np.allclose(questions, vectors, atol=1e-6)
    assert not model.needs_refit(texts)
    has_words = [bool(Analyzer("english").words(text)) for text in texts]
    assert np.allclose(np.linalg.norm(vectors, axis=1), has_words, atol=1e-5)


# -- fitting ---------------------------------------------------------------------------------------------------


def test_a_fit_is_the_same_in_another_process(fitted):
    """A process with another hash seed fits a model with bit-identical vectors."""
    code = (
        "import json, sys; from langchain_hybridgraph.embeddings import lsa; lsa.FEW_TEXTS = 0\n"
        "texts = json.load(sys.stdin); print(json.dumps(lsa.LSAModel().fit(texts).embed_documents(texts)))"
    )
    assert json.loads(output_of_python("-c", code, input=json.dumps(TEXTS))) == fitted.embed_documents(TEXTS)


def test_many_texts_are_sampled(monkeypatch):
    """Above MOST_TEXTS, the model is fitted to a sample, which is the same each time."""
    monkeypatch.setattr(lsa, "MOST_TEXTS", 10)
    texts = [f"word{number}" for number in range(50)]
    one, two = (LSAEmbeddings().fit(texts).vectors(texts) for _ in range(2))
    assert np.count_nonzero(one.any(axis=1)) == 10
    assert np.array_equal(one, two)


def test_the_most_common_words_are_used(monkeypatch):
    """Above MOST_WORDS, the words that are in the most texts are used, and ties are broken alphabetically."""
    monkeypatch.setattr(lsa, "MOST_WORDS", 2)
    vectors = LSAEmbeddings().fit(["moon cat", "moon dog", "moon ape"]).vectors(["ape", "cat", "dog", "moon"])
    assert vectors.any(axis=1).tolist() == [True, False, False, True]


@pytest.mark.parametrize("use", ["embed_query", "save"])
def test_an_unfitted_model_raises(use):
    """Every use of a model before its first fit raises NotFittedError, which explains how to fit it."""
    with pytest.raises(NotFittedError, match=r"\.fit\(texts\)"):
        getattr(LSAEmbeddings(), use)("cat")


@pytest.mark.parametrize(("unknown", "due"), [(2, False), (3, True)])
def test_a_refit_is_due_above_a_fifth(unknown, due):
    """A refit is needed if 3 of 10 words are unknown, but not if 2 are."""
    model = LSAEmbeddings(language=None).fit(["alpha beta"])
    assert model.needs_refit(["alpha " * (10 - unknown) + "gamma " * unknown]) is due


# -- saving and loading ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("texts", [TEXTS, [], ["…"], ["數据 one"]])
@pytest.mark.parametrize("language", ["none", "german"])
def test_a_loaded_model_equals_the_saved_one(texts, language, tmp_path):
    """A loaded model has bit-identical vectors and the same language as the saved one."""
    model = LSAEmbeddings(language=language).fit(texts)
    model.save(tmp_path / "model.npz")
    back = LSAEmbeddings.load(tmp_path / "model.npz")
    questions = [*TEXTS, "數據", "zebra", ""]
    assert np.array_equal(back.vectors(questions), model.vectors(questions))
    assert repr(back) == repr(model)


def test_saving_replaces_in_one_step(fitted, file, monkeypatch):
    """If saving fails with a disk error, the old model is still in place and no temporary file is left."""
    before = file.read_bytes()

    def fail(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lsa.os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        LSAEmbeddings().fit(["other"]).save(file)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_missing_file_raises_file_not_found(tmp_path):
    """Loading a missing file raises FileNotFoundError instead of reporting damage."""
    with pytest.raises(FileNotFoundError):
        LSAEmbeddings.load(tmp_path / "model.npz")


@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), in_shape=st.booleans())
def test_a_flipped_bit_is_detected_or_harmless(fitted, tmp_path_factory, where, bit, in_shape):
    """A file with a flipped bit raises StoreError unless the bit is not part of the model, such as a date in the
    archive. This includes the bits of an array's shape, without which a part of the array would not be read.
    """
    file = tmp_path_factory.mktemp("flipped") / "model.npz"
    fitted.save(file)
    content = bytearray(file.read_bytes())
    shapes = [place for each in re.finditer(rb"'shape': [^}]*", content) for place in range(*each.span())]
    places = shapes if in_shape else range(len(content))
    content[places[int(where * len(places))]] ^= 1 << bit
    file.write_bytes(content)
    try:
        back = LSAEmbeddings.load(file)
    except StoreError:
        return
    assert np.array_equal(back.vectors(TEXTS), fitted.vectors(TEXTS))


@pytest.mark.parametrize(
    "values",
    [
        {"version": np.int64(99)},
        {"analyzer": np.frombuffer(b"klingon/1", np.uint8)},
        {"words": None},
        {"words": np.frombuffer(b"\xff\xfe", np.uint8)},
        {"vectors": np.zeros((3, 200), np.float16)},
        {"vectors": np.array([{"a": 1}], object)},
    ],
    ids=str,
)
def test_a_file_with_invalid_parts_is_refused(file, values):
    """A file with another version, with missing or contradictory parts, or with a pickle raises StoreError."""
    with np.load(file) as content:
        changed = dict(content) | values
    np.savez(file, **{name: value for name, value in changed.items() if value is not None})
    with pytest.raises(StoreError, match="not a readable LSA model"):
        LSAEmbeddings.load(file)


def test_few_texts_need_no_sparse_matrix(monkeypatch):
    """A few texts, such as those of one changed file, are embedded without the slow import of scipy."""
    lsa = LSAEmbeddings().fit(["Cats purr.", "Dogs bark."])
    texts = ["cats", "dogs and cats", "a zebra", ""]
    expected = lsa.vectors(texts)
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    assert np.allclose(lsa.embed_documents(texts), expected)
    with pytest.raises(ImportError):
        lsa.vectors(texts)


@pytest.mark.parametrize("count", [500, 1_500])
def test_fitting_returns_the_vectors(count, monkeypatch):
    """fit_transform returns exactly the vectors that the fitted model computes for the texts."""
    monkeypatch.setattr(lsa, "MOST_WORDS", 150)
    monkeypatch.setattr(lsa, "MOST_TEXTS", 1_200)
    random = np.random.default_rng(3)
    words = [f"word{number}" for number in range(200)] + ["nurse", "hospital", "soccer"]
    texts = [" ".join(random.choice(words, 12)) for _ in range(count)]
    model = LSAEmbeddings()
    assert np.array_equal(model.fit_transform(texts), model.vectors(texts))
