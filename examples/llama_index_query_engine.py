"""A LlamaIndex query engine over files, with the store, graph retriever and reranker of this package.

    pip install ".[llama-index]"      # in a clone of the repository
    python examples/llama_index_query_engine.py

The example needs no network. It uses MockLLM, which repeats its prompt; replace it with ``Settings.llm``.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from llama_index.core import SimpleDirectoryReader
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from langchain_hybridgraph import GraphRetriever, HybridGraphStore
from langchain_hybridgraph.llama_index import (
    LlamaIndexRetriever,
    QueryWithOptions,
    RerankPostprocessor,
    RetrievalReportEvent,
    ingest_nodes,
)
from langchain_hybridgraph.search.rerankers import ScoreReranker

FILES = {
    "Jaws.txt": "Jaws is a film of 1975, directed by Steven Spielberg.",
    "Alien.txt": "Alien is a film of 1979, directed by Ridley Scott.",
    "Steven Spielberg.txt": "Steven Spielberg is a native of Cincinnati, Ohio.",
    "Ridley Scott.txt": "Ridley Scott is a native of South Shields in England.",
}


class ReportPrinter(BaseEventHandler):
    """An event handler that prints how each answer was found."""

    @classmethod
    def class_name(cls) -> str:
        """Return the handler's name."""
        return "Report"

    def handle(self, event: object, **_: object) -> None:
        """Print the reports of this package, which are among LlamaIndex's many events."""
        if isinstance(event, RetrievalReportEvent):
            print(f"  {event.plan['method']} search in {event.took_ms:.1f} ms, degraded: {event.degraded or 'no'}")


def read(folder: Path) -> list[BaseNode]:
    """Return the nodes of a folder's files, with stable ids and with titles that other texts may mention."""
    reader = SimpleDirectoryReader(
        folder, filename_as_id=True, file_metadata=lambda path: {"file_path": path, "title": Path(path).stem}
    )
    documents = reader.load_data()
    splitter = SentenceSplitter(
        chunking_tokenizer_fn=lambda text: text.split("\n\n"),  # complete paragraphs; without it, complete sentences
        id_func=lambda place, document: f"{document.node_id}#{place}",
    )
    return splitter.get_nodes_from_documents(documents)


def main() -> None:
    """Ingest twice, then ask: plainly, with a filter, and in an event loop."""
    get_dispatcher().add_event_handler(ReportPrinter())
    with TemporaryDirectory() as name, HybridGraphStore(Path(name) / "index") as store:
        folder = Path(name) / "films"
        folder.mkdir()
        for file, text in FILES.items():
            (folder / file).write_text(text, encoding="utf-8")
        print(ingest_nodes(read(folder), store))
        print(ingest_nodes(read(folder), store))  # a second run writes nothing

        retriever = LlamaIndexRetriever(GraphRetriever(store), similarity_top_k=2)
        rerank = RerankPostprocessor(ScoreReranker(0.1))
        engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM(), node_postprocessors=[rerank])

        question = "Where was the director of Jaws born?"
        print(question)
        for node in engine.query(question).source_nodes:
            print(f"  {node.score:.2f} {node.text}")

        only = MetadataFilters(filters=[MetadataFilter(key="title", value="Jaws")])
        print("… in one text alone")
        answer = engine.query(QueryWithOptions(question, options={"filters": only}))
        print(" ", [node.metadata["title"] for node in answer.source_nodes])

        print("… awaited")
        answer = asyncio.run(engine.aquery(question))
        print(" ", [node.metadata["title"] for node in answer.source_nodes])


if __name__ == "__main__":
    main()
