import warnings

import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models.fake import FakeListLLM

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.options.objects import CompressorReranker, as_reranker
from langchain_hybridgraph.records import Hit
from langchain_hybridgraph.search.rerankers import ScoreReranker, TextReranker, apply_scores

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # langchain-community warns on import that it is sunset
    from langchain_classic.retrievers.document_compressors import CrossEncoderReranker, LLMChainExtractor
    from langchain_classic.retrievers.document_compressors.cross_encoder import BaseCrossEncoder

QUERY = "red car"
TEXTS = {"a": "a blue boat", "b": "a red car", "c": "a red boat", "d": "cars"}


def hits(texts=TEXTS, metadata=None):
    return [
        Hit(Chunk(id, text, metadata or {"source": f"{id}.md"}), 0.9 - i / 10, "vector", {"vector": 0.9 - i / 10})
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


def test_cross_encoder_reranker():
    """LangChain's CrossEncoderReranker returns its best two Documents without scores, so they get 1 and 1/2."""
    assert reranked(CrossEncoderReranker(model=SharedWords(), top_n=2)) == {"b": 1.0, "c": 0.5}


def test_llm_chain_extractor_drops_and_shortens():
    """An empty extract drops its hit, and a shortened text is matched to its hit without replacing the chunk's text."""
    candidates = hits()
    extractor = LLMChainExtractor.from_llm(FakeListLLM(responses=["NO_OUTPUT", "red car", "red", "NO_OUTPUT"]))
    reranker = CompressorReranker(extractor)
    reranked_hits = apply_scores(candidates, reranker.rerank(QUERY, candidates), reranker)
    assert [(h.id, h.chunk.text, h.score) for h in reranked_hits] == [("b", "a red car", 1.0), ("c", "a red boat", 0.5)]


# -- scores


def test_a_stored_relevance_score_is_ignored():
    """A ``relevance_score`` stored in a chunk's metadata is not mistaken for the compressor's score."""
    unchanged = Compressor(of=lambda documents: documents)
    assert reranked(unchanged, hits(metadata={"relevance_score": 0.01})) == {"a": 1, "b": 0.75, "c": 0.5, "d": 0.25}


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
    assert await reranker.arerank(QUERY, hits()) == [None, 1.0, None, None]
    assert reranker.rerank(QUERY, hits()) == [1.0, None, None, None]


def test_as_reranker():
    """as_reranker returns a reranker unchanged and wraps a compressor or a function."""
    threshold = ScoreReranker(0.3)
    assert as_reranker(threshold) is threshold
    assert as_reranker(both := Both()) == CompressorReranker(both)
    assert isinstance(as_reranker(lambda query, texts: [1.0] * len(texts)), TextReranker)
