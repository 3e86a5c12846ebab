"""Embeddings computed from the indexed texts (LSA)."""

from __future__ import annotations

import math
import os
import re
import uuid
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib.resources import files
from itertools import chain, count
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np

from langchain_hybridgraph.errors import HybridGraphError, StoreError
from langchain_hybridgraph.execution.processes import ordered_map
from langchain_hybridgraph.stores.vectors import sync_path
from langchain_hybridgraph.text.analyzer import Analyzer, function_words

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

    Floats = NDArray[np.float32]


# First character of a topic's name. No word of a text begins with it.
TOPIC = "#"
# The topic of words such as "get" and "day", which say little about what a text is about.
COMMON = f"{TOPIC}common"

_LONGEST = 5  # number of words of the longest phrases in the tables


@cache
def topics_of_words(language: str) -> Mapping[str, tuple[str, ...]]:
    """Map each word and phrase of a language, as its analyzer returns them, to its topics.

    The table of a language is the file ``topics_LANGUAGE.txt``; without one, the result is empty. Each line contains a
    topic and its words; an indented line continues the line above. "food/fruit: apple passion_fruit" means that
    "apple", "passion fruit" and "fruit" belong to the topics fruit and food.

    A phrase such as "hot_dog" does not have the topics of its words. A phrase written with "+" does: "pastry+chef" also
    has the topics of "pastry" and "chef". Words with the topic "common", such as "day", add no topics to a phrase.

    >>> topics_of_words("english")["piano"]
    ('#hobby', '#music', '#instrument')
    """
    table = files(__package__) / f"topics_{language}.txt"
    if not table.is_file():
        return MappingProxyType({})
    analyzer = Analyzer(language)
    keys: dict[str, str] = {}
    topics: dict[str, tuple[str, ...]] = {}
    for line in table.read_text("utf-8").replace("\n  ", " ").splitlines():
        path, _, phrases = line.partition(":")
        names = path.split("/")
        ours = tuple([TOPIC + name for name in names])
        for phrase in (names[-1], *phrases.split()):
            if phrase not in keys:
                keys[phrase] = analyzer.joined_words(phrase.replace("_", " "))
            topics[keys[phrase]] = topics.get(keys[phrase], ()) + ours
    for phrase, key in keys.items():
        if "+" in phrase:
            for word in key.split():
                theirs = topics.get(word, ())
                topics[key] += () if COMMON in theirs else theirs
    return MappingProxyType({key: tuple(dict.fromkeys(names)) for key, names in topics.items()})


def specificity(topic: str, word: str, language: str) -> float:
    """Return how much it says about a word that a text has a topic of this word, from 0 to 1.

    The result is 1 if the word is the name of the topic: a text about a nurse is about a job. Otherwise, it is
    1 − log(words of the topic) / log(words of the largest topic).

    >>> specificity("#job", "job", "english"), specificity("#job", "nurs", "english")
    (1.0, 0.0)
    >>> specificity("#instrument", "piano", "english") > specificity("#music", "piano", "english")
    True
    """
    if word == Analyzer(language).joined_words(topic.removeprefix(TOPIC).replace("_", " ")):
        return 1.0
    sizes = _sizes(language)
    return 1 - math.log(sizes[topic]) / math.log(max(sizes.values()))


@cache
def _sizes(language: str) -> Counter[str]:
    return Counter(chain.from_iterable(topics_of_words(language).values()))


def topics_in(words: Sequence[str], language: str) -> Iterator[tuple[str, ...]]:
    """Yield the topics of each word or phrase in the result of ``Analyzer.all_words``; the longest phrase wins.

    >>> list(topics_in(["my", "piano", "and", "sign", "languag"], "english"))
    [('#hobby', '#music', '#instrument'), ('#language',)]
    """
    topics_of = topics_of_words(language)
    start = 0
    while start < len(words):
        for size in range(min(_LONGEST, len(words) - start), 0, -1):
            if (topics := topics_of.get(" ".join(words[start : start + size]))) is not None:
                yield topics
                break
        start += size


DIMENSIONS = 200
MOST_TEXTS, MOST_WORDS = 100_000, 100_000
# Mean nDCG@10 of LSA alone, over 12 evaluation sets separately, and over all of them in one index of 47,548
# texts: idf¹·⁵ .547 and .28, idf² .563 and .35, idf²·⁵ .561 and .39, idf³ .552 and .42 (plain idf .505).
IDF_POWER = 2.5
# No power iterations: they bring the axes closer to the exact axes, which are worse. In the same measure .561 and
# .39 without, .547 and .27 with one, .508 with seven. 200 axes cannot represent a vocabulary; blurred ones keep a trace
# of every rare word (random axes keep more of them and nothing else: .44 and .37).
OVERSAMPLING = 20
# Share of unknown words in new texts above which the model no longer fits them. On the other half of the set to which a
# model was fitted, it was .02 to .15 (11 sets of at least 800 texts) or .10 to .28 (smaller sets); on other sets, .05
# to .71.
DRIFT_LIMIT = 0.2
# Up to this number of texts, the topics of everyday words are counted as additional terms with this weight, because few
# texts are not enough to learn which words are related. nDCG@10 of LSA alone without and with them: .807 and .792 (994
# texts), .480 and .484 (833), .953 and .949 (240), .680 and .678 (232); of both searches together .830 and .833, .535
# and .539, .978 and .980, .764 and .771. With weight 1 instead of .7: .788 and .654 for the first and the last set.
# Above the limit, a smaller table of topics made the results worse: .399 and .370 (3,204), .350 and .341 (1,400).
FEW_TEXTS = 1_000
TOPIC_WEIGHT = 0.7
# Amount that a common word ("get", "day") and its topics add to their counts. Few texts are not enough to learn which
# words are common.
COMMON_WEIGHT = 0.2
# Weight of everyday words and function words in LSAModel.coverage; other words have weight 1.
EVERYDAY_WEIGHT = 0.1
# Number of words and topics with which a model is expected to know half of a question about something else. With this
# number, the same limit suits short texts and paragraphs (benchmarks/answerability.md).
CHANCE_WORDS = 2_000

_BATCH = 4_096  # number of texts that are embedded at a time
_FEW = 32  # up to this number, texts are embedded one by one, which is faster than importing scipy
_COUNTED = 1_024  # number of texts that are analysed at a time
_VERSION = 1


class NotFittedError(HybridGraphError, RuntimeError):
    """An embedding was used before it was fitted to a corpus."""


class LSAModel:
    """Latent semantic analysis: text vectors of 200 dimensions, learned from the indexed texts. Nothing is downloaded.

    The weight of a word in a text is (1 + ln tf) · (1 + ln((1 + N) / (1 + df)))^2.5. The weighted texts are scaled to
    length 1, and a truncated singular value decomposition finds the axes (Deerwester et al. 1990), with the randomised
    algorithms 4.1 and 5.1 of Halko, Martinsson and Tropp (2011). The vector of a text is the weighted sum of the
    vectors of its words, scaled to length 1, whether or not the text was part of the fit.

    A collection of 1,000 texts or fewer is too small to learn which words are related. The topics of everyday words are
    then counted as additional terms, so a search for "job" can find a text about a nurse.

    ``language`` determines how a text is split into words, as in the keyword index. The model is fitted to a fixed
    random sample of ``MOST_TEXTS`` texts, and to the ``MOST_WORDS`` words that occur in the most texts. On one machine,
    the same texts in the same order always give the same model. On another machine, or with another number of NumPy
    threads, the model may differ by rounding. Any number of threads may embed, even during a fit.

    >>> lsa = LSAModel().fit(["Cats purr.", "A cat purrs at home.", "Rain falls.", "The rain falls at night."])
    >>> purr, cat, fall = lsa.vectors(["it purrs", "a cat", "falling"])
    >>> bool(purr @ cat > 0.9), bool(abs(fall @ cat) < 0.1)
    (True, True)
    >>> bool(lsa.vectors(["a zephyr"]).any())
    False
    """

    def __init__(self, *, language: str | None = "english") -> None:
        self._analyzer = Analyzer(language)
        self.language = self._analyzer.language
        self._fitted: _FittedModel | None = None

    def __repr__(self) -> str:
        model_size = f"{self._fitted.texts} texts, {len(self._fitted.words)} words" if self._fitted else "not fitted"
        return f"{type(self).__name__}(language={self.language!r}, {model_size})"

    # -- fitting --------------------------------------------------------------------------------------------

    def fit(self, texts: Sequence[str]) -> Self:
        """Fit the model to these texts, discarding any earlier fit, and return the model."""
        self._fit(texts)
        return self

    def fit_transform(self, texts: Sequence[str]) -> Floats:
        """Fit the model and return the vectors of the texts, faster than :meth:`fit` followed by :meth:`vectors`.

        >>> texts = ["Cats purr.", "Dogs bark."]
        >>> np.array_equal(LSAModel().fit_transform(texts), LSAModel().fit(texts).vectors(texts))
        True
        """
        counts = self._fit(texts)
        return self.vectors(texts) if counts.shape[0] < len(texts) else self._vectors(counts)

    def _fit(self, texts: Sequence[str]) -> csr_matrix:
        random = np.random.default_rng(0)
        if len(texts) > MOST_TEXTS:
            texts = [texts[place] for place in np.sort(random.choice(len(texts), MOST_TEXTS, replace=False))]
        words = defaultdict[str, int](count().__next__)  # a new word gets the next column
        counts = self._counts(texts, words, len(texts) <= FEW_TEXTS)
        document_counts = np.bincount(counts.indices, minlength=counts.shape[1])
        frequent = sorted(words, key=lambda word: (-document_counts[words[word]], word))[:MOST_WORDS]
        counts = counts[:, np.fromiter(map(words.__getitem__, frequent), np.int64, len(frequent))]
        self._fitted = _fit_model(counts, frequent, random)
        return counts

    @property
    def learned_texts(self) -> int:
        """Number of texts that the model was fitted to; 0 before a fit."""
        return self._fitted.texts if self._fitted else 0

    def needs_refit(self, texts: Sequence[str]) -> bool:
        """Return whether the model has not been fitted, or more than DRIFT_LIMIT of these texts' words are unknown."""
        if self._fitted is None:
            return True
        words = list(chain.from_iterable(map(self._analyzer.words, texts)))
        return sum(word not in self._fitted.words for word in words) > DRIFT_LIMIT * len(words)

    # -- embedding ------------------------------------------------------------------------------------------

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Return unit vectors, or zeros for texts without known words, of shape (n, 200). Raises NotFittedError."""
        model = self._model
        return self._vectors(self._counts(texts, model.words, model.texts <= FEW_TEXTS))

    def _vectors(self, counts: csr_matrix) -> Floats:
        """Return the vectors of texts, given their word counts. A column for unknown words is ignored."""
        word_vectors = self._model.vectors[: counts.shape[1]]
        counts.sort_indices()  # the last digit of a sum depends on the order
        result = np.zeros((counts.shape[0], DIMENSIONS), np.float32)
        for start in range(0, counts.shape[0], _BATCH):
            result[start : start + _BATCH] = unit_rows(_sublinear(counts[start : start + _BATCH]) @ word_vectors)
        return result

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text; see :meth:`vectors`."""
        return list(map(self.embed_query, texts)) if 0 < len(texts) <= _FEW else list(self.vectors(texts).tolist())

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question, or zeros if the question has no known word. Raises NotFittedError."""
        model = self._model
        # One text needs no sparse matrix. Importing scipy would be the slowest part of a first question.
        counts: defaultdict[int, float] = defaultdict(float)
        for term, number in zip(*_terms(self._analyzer, model.texts <= FEW_TEXTS, text), strict=True):
            counts[model.words[term]] += number
        weights = _damped(np.fromiter(counts.values(), np.float32, len(counts)))
        columns = np.fromiter(counts, np.int64, len(counts))
        vectors = np.zeros((len(counts), DIMENSIONS), np.float32)  # model.vectors would convert the rows of all words
        is_known = columns < len(model.halves)
        vectors[is_known] = model.halves[columns[is_known]]
        vector: list[float] = unit_rows((weights @ vectors)[np.newaxis])[0].tolist()
        return vector if counts else [0.0] * DIMENSIONS

    def coverage(self, text: str) -> float:
        """Return how much of a text the model knows, from 0 to 1. Raises NotFittedError.

        The result is a mean over the words of the text, corrected for chance. A known word counts 1. An unknown word
        counts as much as its narrowest known topic is specific (see :func:`specificity`). Everyday words and function
        words have a tenth of the weight of other words. A model with n words and topics is expected to know
        n / (n + 2,000) of an arbitrary text by chance; this mean gives 0, and a higher one up to 1.

        >>> lsa = LSAModel().fit(["Cats purr.", "Rain falls."])
        >>> lsa.coverage("Do cats purr?") > lsa.coverage("Do cats like chocolate cake?") > lsa.coverage("Chess")
        True
        """
        columns, language = self._model.words, self._analyzer.language
        topics_of, forms = topics_of_words(language), re.findall(r"\w+", text.lower())
        functions = set(self._analyzer.all_words(" ".join(function_words(forms).words.intersection(forms))))
        total = covered = 0.0
        for word in dict.fromkeys(self._analyzer.words(text)):
            topics = topics_of.get(word, ())
            weight = EVERYDAY_WEIGHT if word in functions or COMMON in topics else 1.0
            shares = (specificity(topic, word, language) for topic in topics if topic in columns)
            total += weight
            covered += weight * (1.0 if word in columns else max(shares, default=0.0))
        by_chance = len(columns) / (len(columns) + CHANCE_WORDS)
        return max(0.0, (covered / total - by_chance) / (1 - by_chance)) if total else 0.0

    def _counts(self, texts: Sequence[str], words: dict[str, int], has_topics: bool) -> csr_matrix:
        from scipy.sparse import csr_matrix

        slices = (texts[start : start + _COUNTED] for start in range(0, len(texts), _COUNTED))
        columns, term_counts, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.float32)], [0]
        parts = ordered_map(partial(_indexed_terms, self.language, has_topics), slices)
        for terms, term_places, counts_of_terms, lengths_of_texts in parts:
            columns.append(np.fromiter(map(words.__getitem__, terms), np.int32, len(terms))[term_places])
            term_counts.append(counts_of_terms)
            lengths += lengths_of_texts
        content = np.concatenate(term_counts), np.concatenate(columns), np.cumsum(lengths)
        counts = csr_matrix(content, shape=(len(texts), len(words) + 1))
        counts.sum_duplicates()
        return counts

    @property
    def _model(self) -> _FittedModel:
        if self._fitted is None:
            raise NotFittedError("LSAEmbeddings is not fitted: call .fit(texts) or .load(path), or let a store fit it")
        return self._fitted

    # -- saving ---------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the model to a file atomically, in npz format without pickle. Raises NotFittedError and OSError."""
        model = self._model
        content: dict[str, Any] = {
            "version": np.int64(_VERSION),
            "analyzer": np.frombuffer(self._analyzer.name.encode(), np.uint8),
            "texts": np.int64(model.texts),
            "words": np.frombuffer("\n".join(model.words).encode(), np.uint8),
            "vectors": model.halves,
        }
        path = Path(path)
        part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            with part.open("xb") as file:
                np.savez(file, allow_pickle=False, **content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
        sync_path(path.parent)  # also makes the new file name durable

    @classmethod
    def load(cls, path: str | Path | BinaryIO) -> Self:
        """Load a model from a file written by :meth:`save`, passed as a path or an open file.

        Raises FileNotFoundError, or StoreError for a damaged file, another kind of file, or another version.
        """
        try:
            with np.load(path, allow_pickle=False) as content:
                if damaged := content.zip.testzip():  # an array with a damaged header may be read only in part
                    raise ValueError(f"{damaged} is damaged")
                return cls._from(content)
        except (FileNotFoundError, PermissionError):
            raise
        except Exception as error:  # a damaged file makes zipfile and numpy raise almost anything
            name = path if isinstance(path, str | Path) else path.name
            advice = "replace it with LSAEmbeddings().fit(texts).save(path)"
            raise StoreError(f"{name} is not a readable LSA model ({error}): {advice}") from error

    @classmethod
    def _from(cls, content: Mapping[str, Any]) -> Self:
        version, made_by = int(content["version"]), content["analyzer"].tobytes().decode()
        loaded = cls(language=made_by.partition("/")[0])
        ours = loaded._analyzer.name
        if (version, made_by) != (_VERSION, ours):
            raise ValueError(f"it has format {version} and analyzer {made_by}, expected {_VERSION} and {ours}")
        words = _WordColumns(content["words"].tobytes().decode().split("\n") if len(content["words"]) else [])
        halves = content["vectors"]
        if halves.shape != (len(words), DIMENSIONS) or halves.dtype != np.float16:
            raise ValueError(f"it has {len(words)} words, but {halves.dtype} vectors of shape {halves.shape}")
        loaded._fitted = _FittedModel(words, halves, int(content["texts"]))
        return loaded


def _indexed_terms(
    language: str, has_topics: bool, texts: Sequence[str]
) -> tuple[list[str], NDArray[np.int32], Floats, list[int]]:
    """Return the distinct terms, the index and count of each term text by text, and the number of terms per text."""
    analyzer, terms, lengths = Analyzer(language), defaultdict[str, int](count().__next__), list[int]()
    places, counts = array("i"), array("f")
    for text in texts:
        text_terms, term_counts = _terms(analyzer, has_topics, text)
        places.extend(map(terms.__getitem__, text_terms))
        counts.extend(term_counts)
        lengths.append(len(text_terms))
    return list(terms), np.asarray(places, np.int32), np.asarray(counts, np.float32), lengths


def _terms(analyzer: Analyzer, has_topics: bool, text: str) -> tuple[list[str], list[float]]:
    """Return the words of a text and, with ``has_topics``, their topics, each with its count (below 1 if common)."""
    terms = analyzer.words(text)
    if not has_topics:
        return terms, [1.0] * len(terms)
    topics_of = topics_of_words(analyzer.language)
    counts = [COMMON_WEIGHT if COMMON in topics_of.get(word, ()) else 1.0 for word in terms]
    for topics in topics_in(analyzer.all_words(text), analyzer.language):
        telling = [topic for topic in topics if topic != COMMON]
        terms += telling
        counts += [COMMON_WEIGHT if COMMON in topics else 1.0] * len(telling)
    return terms, counts


class _WordColumns(dict[str, int]):
    """Map from words to columns, in which all unknown words share the column after the last one."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(zip(words, range(len(words)), strict=True))

    def __missing__(self, word: str) -> int:
        return len(self)


@dataclass(frozen=True)
class _FittedModel:
    """Fitted model, which is never changed. Each row of ``halves`` is the weighted vector of a word.

    Half precision costs no quality and halves the file; sums are computed in single precision.
    """

    words: _WordColumns
    halves: NDArray[np.float16]
    texts: int

    @cached_property
    def vectors(self) -> Floats:
        """All rows of ``halves`` in single precision, followed by a row of zeros for unknown words."""
        return np.vstack([self.halves, np.zeros((1, DIMENSIONS))], dtype=np.float32)


def _fit_model(counts: csr_matrix, words: list[str], random: np.random.Generator) -> _FittedModel:
    from scipy.sparse import diags_array

    texts = counts.shape[0]
    document_counts = np.bincount(counts.indices, minlength=counts.shape[1])
    of_topics = np.array([TOPIC_WEIGHT if word.startswith(TOPIC) else 1.0 for word in words], np.float32)
    rarity = ((1 + np.log((1 + texts) / (1 + document_counts))) ** IDF_POWER).astype(np.float32)
    weights = np.asarray(rarity * of_topics)
    weighted = _sublinear(counts).multiply(weights).tocsr()
    lengths = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    units = (diags_array(1 / np.where(lengths > 0, lengths, 1)).astype(np.float32) @ weighted).tocsr()
    axes = _axes(units, random)
    vectors = np.zeros((len(words), DIMENSIONS), np.float16)
    vectors[:, : axes.shape[1]] = axes * weights[:, np.newaxis]
    return _FittedModel(_WordColumns(words), vectors, texts)


def _axes(matrix: csr_matrix, random: np.random.Generator) -> Floats:
    """Return the right singular vectors for the largest singular values, one per column, largest first.

    They are exact for a matrix of rank up to 200 + OVERSAMPLING. The entry with the largest absolute value is positive.
    """
    width = min(DIMENSIONS + OVERSAMPLING, *matrix.shape)
    sketch = matrix @ random.standard_normal((matrix.shape[1], width), dtype=np.float32)
    axes = _orthonormal(matrix.T @ _orthonormal(sketch))[:, :DIMENSIONS]
    farthest = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] if axes.size else 1.0
    return np.asarray(axes * np.sign(farthest), np.float32)


def _orthonormal(block: Floats) -> Floats:
    """Return the left singular vectors of a tall matrix, largest first, without those for singular values of 0.

    The eigenvectors of the small Gram matrix take a tenth of the time of a QR decomposition.
    """
    gram = np.zeros((block.shape[1], block.shape[1]))
    for start in range(0, len(block), _BATCH):
        part = block[start : start + _BATCH].astype(np.float64)
        gram += part.T @ part
    squares, directions = np.linalg.eigh(gram)
    is_nonzero = squares > 1e-10 * squares.max(initial=0.0)
    scaled = directions[:, is_nonzero] / np.sqrt(squares[is_nonzero])
    return np.asarray(block @ scaled[:, ::-1].astype(np.float32), np.float32)


def _sublinear(counts: csr_matrix) -> csr_matrix:
    sublinear = counts.copy()
    sublinear.data = _damped(sublinear.data)
    return sublinear


def _damped(counts: Floats) -> Floats:
    """Return 1 + ln tf for every tf of 1 or more. Smaller values, which occur for topics, are returned unchanged."""
    return np.minimum(counts, 1) + np.log(np.maximum(counts, 1))


def unit_rows(vectors: Floats) -> Floats:
    """Return the rows scaled to length 1; a row of zeros is not scaled."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)
