from collections.abc import Callable
from typing import Any

from langchain_hybridgraph.adapters.documents import index as index
from langchain_hybridgraph.chunks import Chunk as Chunk
from langchain_hybridgraph.embeddings import OnnxMiniLMEmbeddings as OnnxMiniLMEmbeddings
from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings as LSAEmbeddings
from langchain_hybridgraph.errors import HybridGraphError as HybridGraphError
from langchain_hybridgraph.errors import RetrievalError as RetrievalError
from langchain_hybridgraph.filters.expressions import Filter as Filter
from langchain_hybridgraph.filters.expressions import by_document as by_document
from langchain_hybridgraph.filters.expressions import by_meta as by_meta
from langchain_hybridgraph.filters.expressions import by_source as by_source
from langchain_hybridgraph.filters.expressions import created_after as created_after
from langchain_hybridgraph.filters.expressions import created_before as created_before
from langchain_hybridgraph.filters.expressions import exclude_document as exclude_document
from langchain_hybridgraph.filters.expressions import has_labels as has_labels
from langchain_hybridgraph.ingestion import build_layers as build_layers
from langchain_hybridgraph.ingestion import ingest as ingest
from langchain_hybridgraph.ingestion.edges.base import HierarchyEdges as HierarchyEdges
from langchain_hybridgraph.ingestion.edges.base import MetadataEdges as MetadataEdges
from langchain_hybridgraph.ingestion.edges.base import SequenceEdges as SequenceEdges
from langchain_hybridgraph.ingestion.edges.entities import EntityEdges as EntityEdges
from langchain_hybridgraph.ingestion.edges.links import CitationEdges as CitationEdges
from langchain_hybridgraph.ingestion.edges.links import LinkEdges as LinkEdges
from langchain_hybridgraph.ingestion.edges.llm import LLMEdges as LLMEdges
from langchain_hybridgraph.ingestion.edges.vectors import SimilarityEdges as SimilarityEdges
from langchain_hybridgraph.records import ALL_TIME as ALL_TIME
from langchain_hybridgraph.records import Edge as Edge
from langchain_hybridgraph.records import Hit as Hit
from langchain_hybridgraph.result import RetrievalResult as RetrievalResult
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever as AdvancedRetriever
from langchain_hybridgraph.retrievers.advanced import history_aware as history_aware
from langchain_hybridgraph.retrievers.graph import GraphRetriever as GraphRetriever
from langchain_hybridgraph.retrievers.hierarchical import HierarchicalRetriever as HierarchicalRetriever
from langchain_hybridgraph.retrievers.hybrid import HybridRetriever as HybridRetriever
from langchain_hybridgraph.retrievers.memory import MemoryRetriever as MemoryRetriever
from langchain_hybridgraph.search.context import TokenBudget as TokenBudget
from langchain_hybridgraph.search.conversation import AppendHistory as AppendHistory
from langchain_hybridgraph.search.conversation import ExpandedQuery as ExpandedQuery
from langchain_hybridgraph.search.conversation import HistoryTerms as HistoryTerms
from langchain_hybridgraph.search.conversation import LLMRewrite as LLMRewrite
from langchain_hybridgraph.search.conversation import StripQuestion as StripQuestion
from langchain_hybridgraph.search.hierarchy import FindResult as FindResult
from langchain_hybridgraph.search.planner import QueryPlan as QueryPlan
from langchain_hybridgraph.search.planner import QueryPlanner as QueryPlanner
from langchain_hybridgraph.search.planner import RulePlanner as RulePlanner
from langchain_hybridgraph.search.planner import TypedQuery as TypedQuery
from langchain_hybridgraph.search.rerankers import CrossEncoderReranker as CrossEncoderReranker
from langchain_hybridgraph.search.rerankers import LLMReranker as LLMReranker
from langchain_hybridgraph.search.rerankers import ScoreReranker as ScoreReranker
from langchain_hybridgraph.settings import HybridGraphSettings as HybridGraphSettings
from langchain_hybridgraph.stores.check import drop_tenant as drop_tenant
from langchain_hybridgraph.stores.check import list_tenants as list_tenants
from langchain_hybridgraph.stores.graph import InMemoryGraph as InMemoryGraph
from langchain_hybridgraph.telemetry import LogSink as LogSink
from langchain_hybridgraph.telemetry import OpenTelemetrySink as OpenTelemetrySink
from langchain_hybridgraph.telemetry import PrometheusSink as PrometheusSink
from langchain_hybridgraph.telemetry import add_sink as add_sink
from langchain_hybridgraph.telemetry import remove_sink as remove_sink
from langchain_hybridgraph.vectorstores.admission import Admission as Admission
from langchain_hybridgraph.vectorstores.hybrid_graph_store import HybridGraphStore as HybridGraphStore
from langchain_hybridgraph.vectorstores.hybrid_graph_store import open_store as open_store
from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore as MilvusStore

__version__: str

def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]: ...
