"""Questions that consist of a page's title, or of a title and a heading, with and without an index of headings.

    python benchmarks/titles.py FOLDER [FOLDER …] [--embedding lsa|minilm] [--vectors FILE]

Each FOLDER contains documentation, such as ``docs`` of this repository. The pages are indexed twice: with the metadata
``title`` and ``section_heading`` of their chunks, and without them. There are three forms of question:

- the title of a page; a hit is right if it is from this page.
- the title followed by a heading of the page; a hit is right if most of it is from the section, or if it covers the
  section.
- "What does the page TITLE say about HEADING?"; a hit is right as for the second form.

Titles that several pages share, and headings that occur twice on a page, are left out. ``--embedding minilm`` needs the
same packages as chunking.py.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from chunking import CachedModel, is_right, passage
from langchain_core.documents import Document

from langchain_hybridgraph import HybridGraphStore, HybridRetriever, ingest
from langchain_hybridgraph.ingestion import read_files
from langchain_hybridgraph.ingestion.splitting import CutDocument, Cutter, as_splitter, outline_of

QUESTIONS = 200  # of each form
CHANGE_LOGS = ("release-notes", "changes/", "CHANGELOG")
FORMS = ("{title}", "{title} {heading}", "What does the page {title} say about {heading}?")
Judge = Callable[[Document], bool]


def questions(documents: Sequence[Document]) -> list[list[tuple[str, Judge]]]:
    """Return the questions of each form, with a function that tells whether a hit is right."""
    shuffled = random.Random(5)
    pages = [page for page in documents if not any(name in page.metadata["source"] for name in CHANGE_LOGS)]
    titles = Counter(page.metadata["title"] for page in pages)
    unique = [page for page in pages if titles[page.metadata["title"]] == 1]
    shuffled.shuffle(unique)
    sections = [each for page in unique for each in _sections(page)]
    shuffled.shuffle(sections)
    first, *others = FORMS
    return [
        [(first.format(title=page.metadata["title"]), _from_page(page)) for page in unique[:QUESTIONS]],
        *(
            [
                (form.format(title=page.metadata["title"], heading=heading), _from_section(place))
                for page, heading, place in sections[:QUESTIONS]
            ]
            for form in others
        ),
    ]


def _sections(page: Document) -> Iterator[tuple[Document, str, tuple[str, int, int]]]:
    sections = [section for section in outline_of(page).sections if section.path]
    headings = Counter(section.path[-1] for section in sections)
    for section in sections:
        heading = section.path[-1]
        if headings[heading] == 1 and heading != page.metadata["title"]:
            yield page, heading, passage(page.metadata["source"], page.page_content, section.start, section.end)


def _from_page(page: Document) -> Judge:
    source = page.metadata["source"]
    return lambda hit: bool(hit.metadata["source"] == source)


def _from_section(place: tuple[str, int, int]) -> Judge:
    return lambda hit: is_right(hit, place)


def without_headings(cut: CutDocument) -> CutDocument:
    """Return the document with chunks whose metadata have neither titles nor headings."""
    chunks = tuple(
        replace(chunk, metadata={key: value for key, value in chunk.metadata.items() if key not in _HEADINGS})
        for chunk in cut.chunks
    )
    return replace(cut, chunks=chunks)


_HEADINGS = ("title", "section_heading")


def measure(
    cuts: Sequence[CutDocument], judged_questions: Sequence[tuple[str, Judge]], embedding: Any
) -> tuple[float, float]:
    """Return the share of right first hits, and MRR@10."""
    with HybridGraphStore(None, embedding=embedding) as store:
        ingest(cuts, store, split=None, edges=None)
        retriever = HybridRetriever.from_store(store, k=10)
        ranks = []
        for question, is_hit_right in judged_questions:
            right = [is_hit_right(hit) for hit in retriever.invoke(question)]
            ranks.append(next((1 / n for n, good in enumerate(right, start=1) if good), 0.0))
    return float(np.mean([rank == 1 for rank in ranks])), float(np.mean(ranks))


def main() -> None:
    """Print a table for each folder."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folders", nargs="+", type=Path, help="folders with documentation, each measured separately")
    options.add_argument("--embedding", choices=("lsa", "minilm"), default="lsa", help="embedding model")
    options.add_argument("--vectors", type=Path, help=".npz file in which to save vectors")
    arguments = options.parse_args()
    model = CachedModel(arguments.vectors)
    for folder in arguments.folders:
        pages = [page for page in read_files(folder) if page.page_content.strip()]
        cutter = Cutter(as_splitter("flat"), print)
        cuts = [cutter.cut(page) for page in pages]
        print(f"\n{folder}: {len(pages)} pages, first hit right · MRR@10")
        print("| question | number | text alone | text and headings |\n|---|---|---|---|")
        for form, judged_questions in zip(FORMS, questions(pages), strict=True):
            cells = []
            for each in ([*map(without_headings, cuts)], cuts):
                embedding = "lsa" if arguments.embedding == "lsa" else model
                cells.append("{:.3f} · {:.3f}".format(*measure(each, judged_questions, embedding)))
            model.save()
            print(f"| {form} | {len(judged_questions)} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
