"""Texts with ready-made vectors for the benchmarks: the evaluation sets, enlarged to any size."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings

SETS = (
    "hotpotqa_val500",
    "wiki2_dev200",
    "musique_train200",
    "musique_train100",
    "mtrag_clapnq",
    "mtrag_govt",
    "locomo",
    "cacm",
    "cranfield",
    "scifact",
    "chunk_eval",
    "hotpotqa_train100",
)


def folder() -> Path | None:
    """Return the folder of the evaluation sets, as named by ``HYBRIDGRAPH_SETS``; None if it is not set.

    Raises SystemExit if that folder does not contain them.
    """
    path = os.environ.get("HYBRIDGRAPH_SETS")
    if not path:
        return None
    if not (Path(path) / "sets.py").exists():
        raise SystemExit(f"HYBRIDGRAPH_SETS={path} does not contain the evaluation sets: it has no sets.py")
    return Path(path)


def require_sets() -> ModuleType:
    """Return the module that loads the sets; end the program with a message if ``HYBRIDGRAPH_SETS`` is not set."""
    place = folder()
    if place is None:
        print("skipped: HYBRIDGRAPH_SETS is not set; it names the folder of the evaluation sets")
        sys.exit(0)
    spec = importlib.util.spec_from_file_location("sets", place / "sets.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sets"] = module
    spec.loader.exec_module(module)
    return module


class ReadyEmbeddings(Embeddings):
    """Embedding that looks up ready-made vectors by text, so that no benchmark times a model."""

    def __init__(self, vectors: dict[str, np.ndarray]) -> None:
        self.vectors = vectors

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        return [self.vectors[text].tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        return self.vectors[text].tolist()  # type: ignore[no-any-return]  # numpy's tolist is untyped


@dataclass(frozen=True)
class Corpus:
    """Texts, their metadata, and questions. ``embedding`` contains the vectors of all texts and questions."""

    texts: list[str]
    metadatas: list[dict[str, Any]]
    questions: list[str]
    vectors: np.ndarray = field(repr=False)
    embedding: ReadyEmbeddings = field(repr=False)

    @property
    def ids(self) -> list[str]:
        """Return one id per text."""
        return [f"t{n}" for n in range(len(self.texts))]


def enlarge_corpus(size: int, questions: int = 300) -> Corpus:
    """Return the texts of all sets, with generated texts added up to ``size``.

    An added text is made of halves of two others, and its vector is between theirs.

    Metadata ``percent`` (0–99, evenly) makes filters of any selectivity; ``source`` names the set.
    """
    sets = require_sets()
    place = folder()
    assert place is not None
    texts: list[str] = []
    sources: list[str] = []
    vectors, question_texts, asked_vectors = [], [], []
    for name in SETS:
        loaded = sets.load(name)
        with np.load(place / name / "minilm.npz") as stored:
            vectors.append(stored["docs"].astype(np.float32))
            each = questions // len(SETS)
            first = loaded.queries[:each]
            question_texts += [query["text"] for query in first]
            asked_vectors.append(stored["queries"][: len(first)].astype(np.float32))
        texts += [sets.document_text(row) for row in loaded.corpus]
        sources += [name] * len(loaded.corpus)
    texts, sources, matrix = _grow(texts, sources, np.vstack(vectors), size)
    metadatas = [{"percent": n * 37 % 100, "source": source, "n": n} for n, source in enumerate(sources)]
    vectors_by_text = dict(zip(texts, matrix, strict=True)) | dict(
        zip(question_texts, np.vstack(asked_vectors), strict=True)
    )
    return Corpus(texts, metadatas, question_texts, matrix, ReadyEmbeddings(vectors_by_text))


def short_corpus(size: int, questions: int = 300) -> Corpus:
    """Return texts of about twelve words, with vectors around 400 random centres, and questions of ten words.

    The texts are beginnings of sentences of the sets. A question consists of words of two texts, and its vector is not
    related to them, so the vector search and the keyword search find different texts.
    """
    texts_of_sets = enlarge_corpus(20_000).texts
    sentences = [part[:80].rpartition(" ")[0] for text in texts_of_sets for part in text.split(". ") if len(part) > 40]
    texts = list(dict.fromkeys(sentences))[:size]
    if len(texts) < size:
        raise SystemExit(f"the sets have only {len(texts):,} short texts, fewer than {size:,}")
    generator = np.random.default_rng(7)
    centres = generator.normal(size=(400, 384))

    def vectors(count: int) -> np.ndarray:
        points = centres[generator.integers(0, 400, count)] + generator.normal(scale=0.7, size=(count, 384))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        return points.astype(np.float32)

    pairs = generator.integers(0, size, (questions, 2)).tolist()
    question_texts = [" ".join(f"{texts[a]} {texts[b]}".split()[5:15]) for a, b in pairs]
    matrix = vectors(size)
    vectors_by_text = dict(zip(texts, matrix, strict=True)) | dict(zip(question_texts, vectors(questions), strict=True))
    metadatas = [{"percent": n * 37 % 100, "n": n} for n in range(size)]
    return Corpus(texts, metadatas, question_texts, matrix, ReadyEmbeddings(vectors_by_text))


def _grow(
    texts: Sequence[str], sources: Sequence[str], vectors: np.ndarray, size: int
) -> tuple[list[str], list[str], np.ndarray]:
    generator = np.random.default_rng(7)
    more = max(0, size - len(texts))
    left, right = generator.integers(0, len(texts), more), generator.integers(0, len(texts), more)
    halves = [
        f"{texts[a][: len(texts[a]) // 2]} {texts[b][len(texts[b]) // 2 :]}" for a, b in zip(left, right, strict=True)
    ]
    between = vectors[left] + vectors[right]
    between /= np.linalg.norm(between, axis=1, keepdims=True)
    return (
        [*texts, *halves][:size],
        [*sources, *("grown" for _ in halves)][:size],
        np.vstack([vectors, between])[:size],
    )
