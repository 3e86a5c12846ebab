import warnings

import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.runnables import RunnableLambda
from langchain_text_splitters import CharacterTextSplitter

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.options.objects import CompressorReranker, as_reranker
from langchain_hybridgraph.records import Hit
from langchain_hybridgraph.search.rerankers import AsyncReranker, ScoreReranker, TextReranker, apply_scores

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # langchain-community warns on import that it is sunset
    from langchain_classic.retrievers.document_compressors import (
        CrossEncoderReranker,
        DocumentCompressorPipeline,
        EmbeddingsFilter,
        LLMChainExtractor,
        LLMListwiseRerank,
    )
    from langchain_classic.retrievers.document_compressors.cross_encoder import BaseCrossEncoder
    from langchain_community.document_transformers import EmbeddingsRedundantFilter

QUERY = "red car"
TEXTS = {"a": "a blue boat", "b": "a red car", "c": "a red boat", "d": "cars"}


def hits(texts=TEXTS, metadata=None):
    return [
        Hit(
            Chunk(id, text, metadata or {"source": f"{id}.md"}),
            0.9 - i / 10,
            "vector",
            {"vector": 0.9 - i / 10},
        )
        for i, (id, text) in enumerate(texts.items())
    ]


def reranked(compressor, candidates=None, **options):
    """Return the ids and scores that the pipeline computes."""
    candidates = hits() if candidates is None else candidates
    reranker = CompressorReranker(compressor, **options)
    return {h.id: h.score for h in apply_scores(candidates, reranker.rerank(QUERY, candidates), reranker)}


class Compressor(BaseDocumentCompressor):
    """Compressor made of a function from documents to documents."""

    of: object

    def compress_documents(self, documents, query, callbacks=None):
        return self.of(documents)


# -- LangChain's own


class SharedWords(BaseCrossEncoder):
    def score(self, text_pairs):
        return [len(set(query.split()) & set(text.split())) for query, text in text_pairs]


class WordCounts(Embeddings):
    def embed_documents(self, texts):
        words = ["red", "blue", "car", "boat", "cars"]
        return [[text.split().count(word) + 0.01 for word in words] for text in texts]

    def embed_query(self, text):
        return self.embed_documents([text])[0]


def test_cross_encoder_reranker():
    """LangChain's CrossEncoderReranker returns its best two Documents without scores, so they get 1 and 1/2."""
    assert reranked(CrossEncoderReranker(model=SharedWords(), top_n=2)) == {"b": 1.0, "c": 0.5}


def test_embeddings_filter():
    """The objects that EmbeddingsFilter returns have another class but are matched to their hits."""
    scores = reranked(EmbeddingsFilter(embeddings=WordCounts(), similarity_threshold=0.4))
    assert scores == {"b": 1.0, "c": 0.5}


def test_llm_chain_extractor_drops_and_shortens():
    """An empty extract drops its hit, and a shortened text is matched to its hit without replacing the chunk's text."""
    candidates = hits()
    extractor = LLMChainExtractor.from_llm(FakeListLLM(responses=["NO_OUTPUT", "red car", "red", "NO_OUTPUT"]))
    reranker = CompressorReranker(extractor)
    reranked_hits = apply_scores(candidates, reranker.rerank(QUERY, candidates), reranker)
    assert [(h.id, h.chunk.text, h.score) for h in reranked_hits] == [
        ("b", "a red car", 1.0),
        ("c", "a red boat", 0.5),
    ]


def test_listwise_rerank():
    """The hits have the order in which the listwise reranker returns them."""
    ranking = RunnableLambda(lambda inputs: [inputs["documents"][i] for i in (3, 1, 0)])
    assert list(reranked(LLMListwiseRerank(reranker=ranking, top_n=2))) == ["d", "b"]


def test_a_pipeline_that_splits():
    """A chunk that a pipeline splits has the rank of its first returned piece."""
    candidates = hits({"a": "a blue boat\n\na red car", "b": "red boat\n\ncars"})
    pipeline = DocumentCompressorPipeline(
        transformers=[
            CharacterTextSplitter(chunk_size=12, chunk_overlap=0),
            EmbeddingsRedundantFilter(embeddings=WordCounts()),
            EmbeddingsFilter(embeddings=WordCounts(), k=3),
        ]
    )
    assert reranked(pipeline, candidates) == {"a": 1.0, "b": 0.5}


# -- scores


def scored(**scores):
    def of(documents):
        for document in documents:
            if document.id in scores:
                document.metadata["relevance_score"] = scores[document.id]
        return documents

    return Compressor(of=of)


def test_a_stored_relevance_score_is_ignored():
    """A ``relevance_score`` stored in a chunk's metadata is not mistaken for the compressor's score."""
    unchanged = Compressor(of=lambda documents: documents)
    candidates = hits(metadata={"relevance_score": 0.01})
    assert reranked(unchanged, candidates) == {
        "a": 1,
        "b": 0.75,
        "c": 0.5,
        "d": 0.25,
    }


def test_the_best_of_several_scores():
    """A chunk to which several Documents belong has the highest of their scores."""

    def of(documents):
        first = documents[0]
        return [
            Document(first.page_content, metadata={**first.metadata, "relevance_score": score})
            for score in (0.2, 0.8, 0.5)
        ]

    assert reranked(Compressor(of=of)) == {"a": 0.8}


# -- compressors that misbehave


def test_an_invented_document_is_an_error():
    """A Document that the compressor did not receive raises ValueError."""
    inventive = Compressor(of=lambda documents: [*documents, Document("made up", id="new")])
    with pytest.raises(ValueError, match="'made up', which it did not receive"):
        reranked(inventive)


def test_stored_metadata_is_never_changed():
    """The compressor receives deep copies, so changes to their metadata do not reach the chunks."""
    candidates = hits(metadata={"tags": ["old"], "nested": {"n": [1]}})

    def of(documents):
        for document in documents:
            document.metadata["tags"].append("new")
            document.metadata["nested"]["n"].clear()
            document.metadata["more"] = 1
        return documents

    reranked(Compressor(of=of), candidates)
    assert [h.chunk.metadata for h in candidates] == [{"tags": ["old"], "nested": {"n": [1]}}] * 4


def test_input_of_the_compressor():
    """The compressor receives Documents in the order of the hits, with text, id, metadata and one private key."""
    inputs = []
    reranked(Compressor(of=lambda documents: inputs.extend(documents) or documents))
    assert [(d.page_content, d.id, d.metadata["source"]) for d in inputs] == [
        (text, id, f"{id}.md") for id, text in TEXTS.items()
    ]
    assert {key for d in inputs for key in d.metadata} == {"source", "_hybridgraph_id"}


def test_filters_false_keeps_what_is_left_out():
    """With ``filters=False``, hits that the compressor leaves out follow in their earlier order."""
    best = Compressor(of=lambda documents: documents[2:3])
    assert list(reranked(best)) == ["c"]
    assert list(reranked(best, filters=False)) == ["c", "a", "b", "d"]


# -- sync, async, callbacks, construction


class Both(BaseDocumentCompressor):
    def compress_documents(self, documents, query, callbacks=None):
        return documents[:1]

    async def acompress_documents(self, documents, query, callbacks=None):
        return documents[1:2]


async def test_async_uses_the_compressors_async_method():
    """``arerank`` awaits ``acompress_documents``."""
    reranker = CompressorReranker(Both())
    assert isinstance(reranker, AsyncReranker)
    assert await reranker.arerank(QUERY, hits()) == [None, 1.0, None, None]
    assert reranker.rerank(QUERY, hits()) == [1.0, None, None, None]


class WithoutCallbacks(BaseDocumentCompressor):
    def compress_documents(self, documents, query):
        return documents


def test_a_compressor_class_is_rejected():
    """Passing a compressor class instead of an instance raises ConfigurationError."""
    with pytest.raises(ConfigurationError, match="pass an instance of langchain_core's BaseDocumentCompressor"):
        CompressorReranker(Both)


def test_as_reranker():
    """as_reranker returns a reranker unchanged and wraps a compressor or a function."""
    threshold = ScoreReranker(0.3)
    assert as_reranker(threshold) is threshold
    assert as_reranker(both := Both()) == CompressorReranker(both)
    assert isinstance(as_reranker(lambda query, texts: [1.0] * len(texts)), TextReranker)


def test_a_reranker_by_name():
    """A reranker can be given as a mapping with its parameters, and the error for an unknown name lists the known
    ones.
    """
    assert as_reranker({"type": "score", "min_score": 0.3}) == ScoreReranker(0.3)
    with pytest.raises(ConfigurationError, match=r"reranker 'rerank' is unknown; .*expected one of score, cross"):
        as_reranker("rerank")


@pytest.mark.parametrize("value", [None, 0.3, ScoreReranker, Both])
def test_as_reranker_refuses(value):
    """The error for a value that cannot rerank, or for a class, lists the accepted kinds."""
    with pytest.raises(ConfigurationError, match="cannot rerank; give a reranker such as"):
        as_reranker(value)
