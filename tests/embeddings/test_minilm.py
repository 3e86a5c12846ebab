"""all-MiniLM-L6-v2 as Chroma runs it: the real onnxruntime and tokenizers, with a model of a few kilobytes."""

import hashlib
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2
from langchain_tests.integration_tests import EmbeddingsIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

from langchain_hybridgraph.embeddings import resolve
from langchain_hybridgraph.embeddings.resolve import ModelUnavailableError, OnnxMiniLMEmbeddings, choose_embedding
from langchain_hybridgraph.errors import HybridGraphError
from tests.support.models.tiny_minilm import archive, expected, put_into

TEXTS = ["foo", "the cat purrs", "", "dog " * 50, "bar baz foo dog cat"]
CLOSED = "http://127.0.0.1:9/onnx.tar.gz"


@pytest.fixture
def nothing_cached(tmp_path, monkeypatch):
    """Return the path of an empty cache, with no server to download from."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(ONNXMiniLM_L6_V2, "DOWNLOAD_PATH", tmp_path / "all-MiniLM-L6-v2")
    monkeypatch.setattr(ONNXMiniLM_L6_V2, "MODEL_DOWNLOAD_URL", CLOSED)
    return tmp_path / "all-MiniLM-L6-v2" / "onnx"


@pytest.fixture
def cached(nothing_cached):
    put_into(nothing_cached)
    return nothing_cached


@pytest.fixture
def served(nothing_cached, tmp_path, monkeypatch):
    """Serve an archive of the model for download, and return its path."""
    file = tmp_path / "onnx.tar.gz"
    file.write_bytes(archive())
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/{file.name}"
        monkeypatch.setattr(ONNXMiniLM_L6_V2, "MODEL_DOWNLOAD_URL", url)
        monkeypatch.setattr(ONNXMiniLM_L6_V2, "_MODEL_SHA256", hashlib.sha256(file.read_bytes()).hexdigest())
        yield file
        server.shutdown()


@pytest.mark.usefixtures("cached")
class TestStandard(EmbeddingsIntegrationTests):
    embeddings_class = OnnxMiniLMEmbeddings


class TestStandardUnit(EmbeddingsUnitTests):
    embeddings_class = OnnxMiniLMEmbeddings


@pytest.mark.usefixtures("cached")
def test_a_vector_is_the_mean_of_its_tokens(monkeypatch):
    """A vector is the normalised mean of the first 256 token vectors without padding, as Chroma computes it."""
    monkeypatch.setattr(resolve, "_BATCH", 5)
    texts = [*TEXTS, "cat " * 254 + "dog " * 500]  # two of the tokens are [CLS] and [SEP]
    vectors = OnnxMiniLMEmbeddings().vectors(texts)
    assert (vectors.dtype, vectors.shape) == (np.float32, (6, 384))
    assert np.allclose(vectors, [expected(text) for text in [*TEXTS, "cat " * 254]], atol=1e-6)
    assert np.allclose(vectors, ONNXMiniLM_L6_V2()(texts), atol=1e-6)


@pytest.mark.usefixtures("cached")
def test_threads_share_one_model():
    """Many threads that use a new object at the same time get the correct vectors."""
    minilm = OnnxMiniLMEmbeddings()
    with ThreadPoolExecutor(8) as pool:
        vectors = list(pool.map(minilm.embed_query, ["cat", "dog"] * 8))
    assert np.allclose(vectors, [expected("cat"), expected("dog")] * 8, atol=1e-6)


def test_the_error_of_an_unavailable_model_explains_what_to_do(nothing_cached):
    """The error for an unavailable model names the folder, the address, the cause and the alternatives."""
    with pytest.raises(ModelUnavailableError) as caught:
        OnnxMiniLMEmbeddings().embed_query("foo")
    for part in (str(nothing_cached), CLOSED, "ConnectError", "--embedding lsa", "with a network"):
        assert part in str(caught.value)
    assert isinstance(caught.value, HybridGraphError)


@pytest.mark.usefixtures("served")
def test_auto_downloads_an_available_model():
    """The choice "auto" is minilm if the model can be downloaded, with Chroma's own code and into its cache."""
    name, why = choose_embedding("auto")
    assert (name, "downloaded" in why) == ("minilm", True)
    assert OnnxMiniLMEmbeddings.is_cached()
    assert np.allclose(OnnxMiniLMEmbeddings().embed_query("cat"), expected("cat"), atol=1e-6)


@pytest.mark.parametrize(("is_served", "cause"), [(False, "ConnectError"), (True, "ValueError")])
def test_auto_is_lsa_without_the_model(served, monkeypatch, is_served, cause):
    """The choice "auto" is lsa if the download fails or is damaged, and the reason gives the cause on one line."""
    served.write_bytes(b"half of it")
    if not is_served:
        monkeypatch.setattr(ONNXMiniLM_L6_V2, "MODEL_DOWNLOAD_URL", CLOSED)
    name, why = choose_embedding("auto")
    assert name == "lsa"
    assert why.startswith("lsa: fitted to the texts themselves; all-MiniLM-L6-v2 can neither be read ")
    assert (cause in why, "\n" in why) == (True, False)


@pytest.mark.usefixtures("cached")
def test_a_pickled_copy_embeds_alike():
    """A pickled copy gives the same vectors."""
    first = OnnxMiniLMEmbeddings()
    assert np.array_equal(pickle.loads(pickle.dumps(first)).vectors(TEXTS), first.vectors(TEXTS))


@pytest.mark.usefixtures("cached")
def test_a_forked_child_loads_the_model_again():
    """A forked process loads the model again, because it lacks the threads of its parent's model."""
    embedding = OnnxMiniLMEmbeddings()
    vectors = embedding.vectors(TEXTS)
    parents = embedding._ready
    child = os.fork()
    if not child:
        is_alike = np.array_equal(embedding.vectors(TEXTS), vectors)
        os._exit(0 if is_alike and embedding._ready is not parents else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert embedding._ready is parents
