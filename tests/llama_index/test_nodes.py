"""LlamaIndex's nodes are stored and restored unchanged."""

import json

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.node_parser import HierarchicalNodeParser, SentenceSplitter
from llama_index.core.schema import Document as LlamaDocument
from llama_index.core.schema import (
    ImageNode,
    IndexNode,
    MediaResource,
    Node,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.llama_index import LlamaIndexEmbeddings, LlamaIndexRetriever, ingest_nodes
from langchain_hybridgraph.records import PART_OF, SEQUENCE
from tests.support.models.llama_models import WordEmbedding

TEXT = "The cat sat on the mat. Dogs bark at night. Fish swim in the sea. Birds fly south in autumn."


def by_sentence(text):
    return [part + ". " for part in text.rstrip(". ").split(". ")]


def splitter(**options):
    return SentenceSplitter(
        chunk_size=12,
        chunk_overlap=0,
        chunking_tokenizer_fn=by_sentence,
        id_func=lambda place, document: f"{document.node_id}#{place}",
        **options,
    )


def four_nodes():
    return splitter().get_nodes_from_documents([LlamaDocument(text=TEXT, id_="zoo", metadata={"n": 1})])


def retrieve_texts(store, query, **options):
    return {each.node_id: each.node for each in LlamaIndexRetriever(HybridRetriever(store), **options).retrieve(query)}


def ends(store, ids, relation):
    return {(edge.source, edge.target) for edge in store.edges(ids) if edge.relation == relation}


def test_relationships_are_restored():
    """Source, previous and next node are restored with their hashes and metadata, and become edges."""
    store, nodes = HybridGraphStore(), four_nodes()
    ingest_nodes(nodes, store, edges=None)
    ids = [node.node_id for node in nodes]
    assert ends(store, ids, SEQUENCE) == {("zoo#0", "zoo#1"), ("zoo#1", "zoo#2"), ("zoo#2", "zoo#3")}
    node = retrieve_texts(store, "dogs")["zoo#1"]
    assert (node.text, node.metadata["n"]) == (nodes[1].text, 1)
    assert node.relationships == nodes[1].relationships
    assert (node.source_node.node_id, node.prev_node.node_id, node.next_node.node_id) == ("zoo", "zoo#0", "zoo#2")


def test_the_source_is_the_document():
    """The source of a node is its document, by whose id nodes can be filtered and deleted."""
    store = HybridGraphStore()
    ingest_nodes(four_nodes(), store)
    assert set(store.document_ids()) == {"zoo"}
    assert len(retrieve_texts(store, "cat", filter={"document_id": "zoo"})) == 4
    store.delete(document="zoo")
    assert retrieve_texts(store, "cat") == {}


def test_a_document_is_replaced():
    """A second run writes nothing, and nodes that a document no longer has are removed with their edges."""
    store = HybridGraphStore()
    ingest_nodes(four_nodes(), store)
    again = ingest_nodes(four_nodes(), store)
    assert (again.added, again.updated, again.unchanged, again.embedded) == (0, 0, 4, 0)
    shorter = splitter().get_nodes_from_documents([LlamaDocument(text=TEXT[:43], id_="zoo", metadata={"n": 1})])
    assert ingest_nodes(shorter, store).removed == 2
    assert ends(store, [f"zoo#{place}" for place in range(4)], SEQUENCE) == {("zoo#0", "zoo#1")}


def hierarchy():
    parser = HierarchicalNodeParser.from_defaults(
        node_parser_ids=["large", "middle", "small"],
        node_parser_map={
            name: SentenceSplitter(chunk_size=size, chunk_overlap=0, chunking_tokenizer_fn=by_sentence)
            for name, size in {"large": 100, "middle": 14, "small": 7}.items()
        },
    )
    return parser.get_nodes_from_documents([LlamaDocument(text=TEXT, id_="zoo")])


def test_children_are_replaced_by_their_parents():
    """A search matches the leaves of a hierarchy and returns their parents with all relationships."""
    store, nodes = HybridGraphStore(), hierarchy()
    ingest_nodes(nodes, store)
    nodes_by_id = {node.node_id: node for node in nodes}
    best = next(iter(retrieve_texts(store, "fish swim").values()))
    assert best.text == nodes_by_id[best.node_id].text
    assert best.relationships == nodes_by_id[best.node_id].relationships
    assert best.parent_node is not None
    assert best.child_nodes


def test_every_level_is_kept():
    """Every level of a hierarchy is stored with ``part_of`` edges, and ingesting again keeps them."""
    store, nodes = HybridGraphStore(), hierarchy()
    for _ in range(2):
        ingest_nodes(nodes, store)
        ids = [node.node_id for node in nodes]
        assert {chunk.id for chunk in store.get(ids)} == set(ids)
        expected = {(node.node_id, node.parent_node.node_id) for node in nodes if node.parent_node}
        assert ends(store, ids, PART_OF) == expected


def test_nodes_without_text_are_left_out():
    """Nodes without text are left out with a warning that names them, and no edge leads to them, or to itself."""
    neighbours = {NodeRelationship.NEXT: "image", NodeRelationship.PREVIOUS: "a"}
    related = {name: RelatedNodeInfo(node_id=id) for name, id in neighbours.items()}
    nodes = [
        TextNode(text="words", id_="a", relationships=related),
        ImageNode(image_url="http://x/y.png", id_="image"),
        TextNode(text="  ", id_="blank"),
    ]
    store = HybridGraphStore()
    report = ingest_nodes(nodes, store)
    assert (report.added, report.warnings) == (1, ("2 nodes have no text: blank, image",))
    assert store.edges(["a"]) == []


@pytest.mark.parametrize(
    "node",
    [
        ImageNode(text="a cat", image_url="http://x/y.png", id_="n"),
        Node(text_resource=MediaResource(text="a cat"), id_="n"),
        IndexNode(text="a cat", index_id="table", id_="n"),
        TextNode(text="a cat", id_="n", start_char_idx=3, excluded_llm_metadata_keys=["x"], metadata={"x": 1}),
    ],
)
def test_kinds_of_nodes(node):
    """Each kind of node is restored with its class and fields."""
    store = HybridGraphStore()
    ingest_nodes([node], store)
    back = retrieve_texts(store, "cat")["n"]
    dump = node.model_dump(exclude={"metadata", "excluded_llm_metadata_keys", "excluded_embed_metadata_keys"})
    assert type(back) is type(node)
    assert back.model_dump(include=dump.keys()) == dump | {"class_name": node.class_name()}


def test_own_metadata_stay():
    """A metadata key of the user's that has a name used by this package keeps the user's value."""
    store = HybridGraphStore()
    ingest_nodes([TextNode(text="cat", id_="n", metadata={"score": "mine", "file_path": "zoo.txt"})], store)
    node = retrieve_texts(store, "cat", filter={"source": "zoo.txt"})["n"]
    assert (node.metadata["score"], node.metadata["file_path"], "source" in node.metadata) == ("mine", "zoo.txt", False)
    assert "score" not in node.excluded_llm_metadata_keys


def test_existing_embeddings_are_used():
    """A node with a vector is not embedded again, and the other nodes are."""
    model = WordEmbedding()
    nodes = [TextNode(text="cat", id_="a", embedding=model._get_text_embedding("moon")), TextNode(text="dog", id_="b")]
    store = HybridGraphStore(None, LlamaIndexEmbeddings(model))
    report = ingest_nodes(nodes, store)
    assert (report.added, report.updated, report.unchanged, report.embedded) == (2, 0, 0, 1)
    assert store.similarity_search("moon", k=1)[0].id == "a"
    assert json.loads(store.get(["a"])[0].metadata["_node_content"])["embedding"] is None
    again = ingest_nodes(nodes, store)
    assert (again.added, again.unchanged, again.embedded) == (0, 2, 0)


def test_other_objects_are_errors():
    """Objects other than nodes raise an error that recommends ingest for LangChain Documents."""
    with pytest.raises(ConfigurationError, match="for LangChain Documents use ingest"):
        ingest_nodes(["text"], HybridGraphStore())


def test_edges_of_other_builders():
    """Edge builders can be added, except for ``sequence``, which comes from the relationships."""
    store = HybridGraphStore()
    nodes = [TextNode(text=f"We met Ada Lovelace {where}.", id_=where) for where in ("there", "here")]
    ingest_nodes(nodes, store, edges="auto")
    assert {edge.target for edge in store.edges(["here"])} & {edge.target for edge in store.edges(["there"])}
    with pytest.raises(ConfigurationError, match="both write 'sequence'"):
        ingest_nodes(nodes, store, edges=["sequence"])


def test_the_object_of_an_index_node_passes_the_filter():
    """An IndexNode is replaced by the node that it contains only if this node passes the filter."""
    store = HybridGraphStore()
    behind = TextNode(text="the table itself", id_="table-1", metadata={"owner": "bob"})
    node = IndexNode(text="a table of cats", index_id="t", obj=behind, id_="n", metadata={"owner": "ada"})
    ingest_nodes([node], store)
    retriever = LlamaIndexRetriever(HybridRetriever(store))
    assert [each.node_id for each in retriever.retrieve("table")] == ["table-1"]
    own_filter = LlamaIndexRetriever(HybridRetriever(store, filter={"owner": "ada"}))
    for filtered in (retriever.with_options(filter={"owner": "ada"}), own_filter):
        assert [each.node_id for each in filtered.retrieve("table")] == ["n"]
