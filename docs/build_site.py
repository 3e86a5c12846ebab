"""Build the documentation site from the pages of the repository: ``python docs/build_site.py``.

The pages are copied with their folders, so links between them work on the site as they do in the repository. The pages
of the API reference, the plots of the benchmarks and ``llms.txt`` are generated. MkDocs also loads this file for the
functions that begin with ``on_``.
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "build/site/pages"
COPIES = (
    "*.md",
    "LICENSE",
    "docs/**/*.md",
    "docs/site.css",
    "docs/pictures/**/*.*",
    "deploy/*",
    "dashboards/*",
    "benchmarks/*.md",
    "examples/*.py",
    "notebooks/*.ipynb",
)

# Pages of the API reference: title, what they are about, and the documented objects.
API: Mapping[str, tuple[str, str, list[str]]] = {
    "retrievers": (
        "Retrievers",
        "All retrievers are LangChain retrievers; see [how to choose one](../which-retriever.md).",
        ["HybridRetriever", "GraphRetriever", "AdvancedRetriever", "MemoryRetriever", "HierarchicalRetriever"],
    ),
    "results": (
        "Results",
        "What a search returns; see [Results](../results.md).",
        ["RetrievalResult", "Hit", "FindResult", "Chunk", "Edge"],
    ),
    "stores": (
        "Stores",
        "Where texts are kept; see [Scaling](../scaling.md).",
        ["HybridGraphStore", "MilvusStore", "open_store", "drop_tenant", "list_tenants"],
    ),
    "ingestion": (
        "Ingestion",
        "How files become chunks and edges; see [Read files](../how-to/read-files.md).",
        [
            "ingest",
            "build_layers",
            "index",
            "CitationEdges",
            "EntityEdges",
            "HierarchyEdges",
            "LinkEdges",
            "LLMEdges",
            "MetadataEdges",
            "SequenceEdges",
            "SimilarityEdges",
        ],
    ),
    "filters": (
        "Filters",
        "Conditions on metadata; see [Filter results](../how-to/filter-results.md).",
        [
            "Filter",
            "by_document",
            "by_meta",
            "by_source",
            "created_after",
            "created_before",
            "exclude_document",
            "has_labels",
        ],
    ),
    "conversations": (
        "Conversations and plans",
        "Questions that depend on earlier turns; see [Conversations](../how-to/conversations.md).",
        [
            "history_aware",
            "AppendHistory",
            "HistoryTerms",
            "LLMRewrite",
            "StripQuestion",
            "ExpandedQuery",
            "QueryPlanner",
            "RulePlanner",
            "QueryPlan",
            "TypedQuery",
        ],
    ),
    "rerankers": (
        "Embeddings, rerankers and selection",
        "Parts that score texts; see [Rerank results](../how-to/rerank.md).",
        [
            "LSAEmbeddings",
            "OnnxMiniLMEmbeddings",
            "CrossEncoderReranker",
            "LLMReranker",
            "ScoreReranker",
            "TokenBudget",
        ],
    ),
    "settings": (
        "Settings, telemetry and errors",
        "Configuration from a file and the environment; see [Configuration](../configuration.md).",
        [
            "HybridGraphSettings",
            "add_sink",
            "remove_sink",
            "LogSink",
            "OpenTelemetrySink",
            "PrometheusSink",
            "HybridGraphError",
            "RetrievalError",
        ],
    ),
    "integrations": (
        "LlamaIndex, LangGraph and the service",
        "See [Use LlamaIndex](../how-to/llama-index.md), [LangGraph's long-term memory](../how-to/langgraph.md) and "
        "[the service](../how-to/serve.md).",
        [
            "langgraph.HybridGraphMemory",
            "server.client.RemoteRetriever",
            "server.app.create_app",
            "server.mcp.create_server",
            "llama_index.LlamaIndexRetriever",
            "llama_index.LlamaIndexVectorStore",
            "llama_index.RerankPostprocessor",
            "llama_index.ingest_nodes",
        ],
    ),
}

OWN = re.compile("convex|default|HybridRetriever|GraphRetriever")
# Plots of the benchmarks: title, page, heading of the first column, heading of the plotted column, rows (by beginning).
PLOTS = (
    (
        "nDCG@10, mean of 13 evaluation sets",
        "quality",
        "nDCG@10",
        "mean",
        ("vector alone", "BM25", "Ensemble", "**convex .7**"),
    ),
    ("Recall@5 on two-step questions (2Wiki)", "multihop", "recall@5", "2wiki", ()),
    (
        "Time of a search over a Chroma collection of 20,000 texts, relative to Chroma's own retriever",
        "over_chroma",
        "Collection in a folder",
        "20,000 texts: time",
        ("Chroma, `as_r", "HybridRetriever ", "Ensemble", "HybridRetriever("),
    ),
    (
        "Identifiers found first, in a sentence",
        "identifiers",
        "vectors",
        "sentence",
        ("MiniLM", "LSA", "random", "BM25"),
    ),
)


def main() -> None:
    """Collect the pages and build the site; exit with an error for a broken link or any other warning."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    shutil.rmtree(PAGES.parent, ignore_errors=True)
    for pattern in COPIES:
        for file in ROOT.glob(pattern):
            copy = PAGES / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if file.suffix == ".md":  # words after the language of a code block are for the tests of the pages
                copy.write_text(re.sub(r"^(```\w+) .*$", r"\1", file.read_text("utf-8"), flags=re.MULTILINE), "utf-8")
            else:
                shutil.copyfile(file, copy)
    for name, (title, about, objects) in API.items():
        page = PAGES / f"docs/api/{name}.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text(
            f"# {title}\n\n{about}\n\n" + "\n".join(f"::: langchain_hybridgraph.{each}" for each in objects) + "\n"
        )
    write_plots()
    (PAGES / "llms.txt").write_text(llms_text(), "utf-8")
    build(load_config(str(ROOT / "mkdocs.yml"), strict=True))
    sys.stderr.write(f"open {(PAGES.parent / 'html/index.html').relative_to(ROOT)}\n")


def write_plots() -> None:
    """Draw a bar chart for each of ``PLOTS``, from the tables of the pages, and write the page that shows them."""
    from matplotlib.figure import Figure

    lines = ["# Plots", "", "The figures are those of the tables on the linked pages."]
    for title, name, heading, column, beginnings in PLOTS:
        page = (PAGES / f"benchmarks/{name}.md").read_text("utf-8")
        table = page[page.index(f"| {heading} |") :].partition("\n\n")[0].splitlines()
        header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
        values_at = header.index(column)
        labels_end = next(place for place, cell in enumerate(rows[0]) if re.fullmatch(r"[\d.]+", cell))
        bars = {
            " ".join(row[:labels_end]).replace("*", "").replace("`", ""): float(row[values_at])
            for row in rows
            if row[values_at] and f"{' '.join(row[:labels_end])} ".startswith(beginnings or "")
        }
        assert bars, f"no row of {name}.md begins with one of {beginnings}"
        figure = Figure(figsize=(5.6, 0.6 + 0.38 * len(bars)), layout="constrained")
        axes = figure.subplots()
        drawn_bars = axes.barh(
            list(bars), list(bars.values()), color=["#3f51b5" if OWN.search(each) else "#9fa8da" for each in bars]
        )
        axes.bar_label(drawn_bars, padding=4)
        axes.invert_yaxis()
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        axes.set_xticks([])
        axes.margins(x=0.12)
        figure.savefig(PAGES / f"benchmarks/{name}.svg")
        values = "; ".join(f"{label}: {value:g}" for label, value in bars.items())
        lines += ["", f"## [{title}]({name}.md)", "", f"![{values}]({name}.svg)"]
    (PAGES / "benchmarks/plots.md").write_text("\n".join(lines) + "\n", "utf-8")


def title_and_summary(page: str) -> tuple[str, str]:
    """Return the title of a page and its first sentence, without links and line breaks."""
    title, _, rest = page.partition("\n")
    text = re.sub(r"^```.*?^```$", "", rest, flags=re.MULTILINE | re.DOTALL).strip()
    paragraphs = [each.replace("\n", " ") for each in re.split(r"\n{2,}", text) if each[:1] not in "#!|-<"]
    paragraph = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", (paragraphs or [""])[0])
    return title.removeprefix("# "), re.split(r"(?<=[.:])\s", paragraph)[0].rstrip(":")


def llms_text() -> str:
    """Return an index of the pages for language models (https://llmstxt.org)."""
    name, summary = title_and_summary((ROOT / "README.md").read_text("utf-8"))
    lines = [
        f"# {name}",
        "",
        "> Hybrid, graph and memory retrieval for LangChain and LlamaIndex in one embedded index.",
        "",
        f"- [README](./): {summary}",
        "",
    ]
    for heading, pattern in {
        "Guides": "docs/*.md",
        "How-to pages": "docs/how-to/*.md",
        "Figures": "benchmarks/*.md",
        "Examples": "examples/*.py",
    }.items():
        lines += [f"## {heading}", ""]
        for file in sorted(ROOT.glob(pattern)):
            place = file.relative_to(ROOT)
            if file.suffix == ".py":
                doc = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
                lines.append(f"- [{file.name}]({place}): {doc.splitlines()[0]}")
            else:
                title, summary = title_and_summary(file.read_text("utf-8"))
                address = place.parent if place.name == "README.md" else place.with_suffix("")
                lines.append(f"- [{title}]({address}/): {summary}")
        lines.append("")
    lines += ["## API reference", ""]
    for name, (title, _, objects) in API.items():
        lines.append(f"- [{title}](docs/api/{name}/): {', '.join(objects)}")
    lines.append("")
    return "\n".join(lines)


def on_config(config: Any) -> Any:
    """Add the how-to pages, the benchmarks and the API reference to the navigation."""
    for section in config["nav"]:
        for name, pages in section.items():
            patterns = {"How-to": "docs/how-to/*.md", "API": "docs/api/*.md", "Figures": "benchmarks/*.md"}
            files = [str(file.relative_to(PAGES)) for file in sorted(PAGES.glob(patterns.get(name, "-")))]
            pages += [file for file in files if file not in pages]
    return config


class Docstrings(griffe.Extension):
    """Convert docstrings to Markdown: examples become code blocks, and roles such as ``:class:`Name` `` become code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Convert the docstring of one object, if it has one."""
        if obj.docstring is not None:
            text = re.sub(r":(?:class|meth|func|mod|data|attr):`~?([^`<]*)[^`]*`", r"`\1`", obj.docstring.value)
            blocks = text.split("\n\n")
            obj.docstring.value = "\n\n".join(
                f"```pycon\n{block}\n```" if block.startswith(">>>") else block for block in blocks
            )


if __name__ == "__main__":
    main()
