"""Generation of vectors: a matrix and a fitted model that belong together."""

import numpy as np
import pytest

from langchain_hybridgraph.stores.generations import Generation, remove_leftovers
from langchain_hybridgraph.stores.vectors import unit
from tests.support.models.fitted_words import FittedWords

MODEL = FittedWords(["a"])


@pytest.fixture
def generation(tmp_path):
    opened = Generation(tmp_path, 3, None, MODEL)
    yield opened
    opened.close()


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def vectors(rows):
    return unit(np.random.default_rng(0).normal(size=(rows, 4)))


def test_fill_leaves_gaps_as_zeros(generation):
    """Filling rows with gaps leaves zeros between them, and only the written rows are intact."""
    some = vectors(5)
    generation.fill(iter([([0, 1, 4], some[:3], [b"a"] * 3), ([9, 11], some[3:], [b"b"] * 2)]))
    expected = np.zeros((12, 4), np.float32)
    expected[[0, 1, 4, 9, 11]] = some
    assert generation.matrix.take(range(12)).tolist() == expected.tolist()
    assert np.flatnonzero(generation.matrix.intact(range(12))).tolist() == [0, 1, 4, 9, 11]


def test_vectors_come_in_batches_up_to_the_end(generation):
    """Vectors are read in batches of 8,192, without rows beyond the end of the matrix."""
    generation.fill(iter([(range(10_000), vectors(10_000), [b""] * 10_000)]))
    parts = list(generation.vectors([*range(9_000), 20_000]))
    assert [len(rows) for rows, _ in parts] == [8_192, 808]
    assert all(len(rows) == len(batch) for rows, batch in parts)


def test_remove_deletes_the_files_of_the_generation(generation, tmp_path):
    """remove() deletes the files of the generation and no others, and can be called twice."""
    generation.fill(iter([([0], vectors(1), [b""])]))
    MODEL.save(generation.model_file)
    (tmp_path / "other").touch()
    assert files(tmp_path) == ["model-3.npz", "other", "vectors-3.crc", "vectors-3.f32", "vectors-3.own"]
    generation.remove()
    generation.remove()
    assert files(tmp_path) == ["other"]


def test_leftovers_of_other_generations_are_removed(generation, tmp_path):
    """remove_leftovers() deletes the files of all other generations and keeps the current one and unrelated files."""
    for number in (2, 3, 4):
        each = Generation(tmp_path, number, None, MODEL)
        each.fill(iter([([0], vectors(1), [b""])]))
        MODEL.save(each.model_file)
    (tmp_path / "vectors-of-mine").touch()
    (tmp_path / "model-3.npz.1234.tmp").touch()
    (tmp_path / "chroma-3").mkdir()  # a copy of the vectors that an earlier version made
    (tmp_path / "chroma-3" / "data").touch()
    remove_leftovers(generation)
    assert files(tmp_path) == ["model-3.npz", "vectors-3.crc", "vectors-3.f32", "vectors-3.own", "vectors-of-mine"]


def test_missing_and_unreadable_files_are_reported(tmp_path, caplog):
    """A missing matrix or model is reported when loading, an unreadable model when it is first used."""
    assert Generation(tmp_path, 1, None, MODEL).unusable_files == ()
    generation = Generation(tmp_path, 1, 4, MODEL)
    assert generation.unusable_files == ("vectors",)
    generation.load(FittedWords.load)
    assert generation.unusable_files == ("vectors", "model")
    assert "cannot be read (No such file or directory); repair()" in caplog.text
    assert "Traceback" not in caplog.text
    generation = Generation(tmp_path, 1, None, MODEL)
    generation.model_file.write_bytes(b"no archive")
    generation.load(FittedWords.load)
    assert generation.unusable_files == ()
    assert generation.embedding is MODEL
    assert generation.unusable_files == ("model",)
    assert "repair()" in caplog.text


def test_a_model_whose_file_is_removed_can_still_be_read(tmp_path):
    """A model that was loaded can be used after the writer of the next generation has removed its file."""
    generation = Generation(tmp_path, 1, None, MODEL)
    MODEL.fit(["red blue"]).save(generation.model_file)
    generation.load(FittedWords.load)
    generation.remove()
    assert not generation.model_file.exists()
    assert generation.embedding.words == ["blue", "red"]
    assert generation.unusable_files == ()


def test_in_memory_there_are_no_files():
    """A generation in memory has no files, and removing it keeps its matrix."""
    generation = Generation(None, 0, None, MODEL)
    generation.fill(iter([([0], vectors(1), [b""])]))
    assert generation.model_file is None
    generation.remove()
    assert len(generation.matrix.take([0])) == 1
