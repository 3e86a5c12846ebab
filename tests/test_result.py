"""Printing and serialisation of results."""

import pickle

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from langchain_core.documents import Document
from pydantic import BaseModel, TypeAdapter

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.result import RetrievalResult


def test_the_repr_is_one_short_line():
    """The repr of a result counts its documents and lists the degradation reasons."""
    assert repr(RetrievalResult([1])).startswith("RetrievalResult(1 document in")
    result = RetrievalResult(["…", "…"], degraded=["vector-failed"], took_ms=1.25)
    assert repr(result) == "RetrievalResult(2 documents in 1.2 ms, degraded=['vector-failed'])"


def test_a_pickled_result_contains_the_plan():
    """The plan, which is made when it is first read, is pickled with the result instead of the function."""
    result = RetrievalResult(["a"], plan=lambda: {"query": "cats"})
    assert pickle.loads(pickle.dumps(result)).plan == {"query": "cats"}


@pytest.fixture(scope="module")
def retriever():
    with HybridGraphStore.from_texts(["The cat sleeps.", "A dog barks."], "lsa", [{"at": 1}, {}]) as store:
        yield HybridRetriever(store)


class Answer(BaseModel):
    text: str
    sources: RetrievalResult


@pytest.fixture(scope="module")
def client(retriever):
    app = FastAPI()

    @app.get("/undeclared")
    async def undeclared(q: str):
        return await retriever.aretrieve(q, filter={"at": 1} if q == "cat" else {"at": 2})

    @app.get("/declared")
    async def declared(q: str) -> RetrievalResult[Document]:
        return await retriever.aretrieve(q)

    @app.get("/model", response_model=RetrievalResult)
    def model(q: str):
        return retriever.retrieve(q).to_dict()

    @app.post("/answer")
    def answer(body: Answer) -> Answer:
        return body

    return TestClient(app)


@pytest.mark.parametrize("path", ["/undeclared", "/declared", "/model"])
def test_an_endpoint_may_return_a_result(client, path):
    """FastAPI serialises a result as ``to_dict`` does, with and without a declared type."""
    response = client.get(path, params={"q": "cat"})
    assert response.status_code == 200
    result = RetrievalResult.from_dict(response.json())
    assert result[0].page_content == "The cat sleeps."
    assert result.to_dict() == response.json()


def test_a_result_within_a_model_is_read_from_json_and_written_again(client, retriever):
    """A model with a result in it can be the body and the answer of an endpoint; an invalid body is refused."""
    body = Answer(text="yes", sources=retriever.retrieve("cat")).model_dump(mode="json")
    assert client.post("/answer", json=body).json() == body
    refused = client.post("/answer", json={"text": "yes", "sources": [1]})
    assert refused.status_code == 422
    assert "pass the output of RetrievalResult.to_dict()" in refused.text


def test_openapi_describes_the_fields_of_a_result(client):
    """The OpenAPI schema of an endpoint lists the fields of a result and describes its hits."""
    api = client.get("/openapi.json").json()
    schema = api["components"]["schemas"]["Answer"]["properties"]["sources"]
    assert list(schema["properties"]) == ["documents", "hits", "degraded", "took_ms", "plan", "answerability"]
    assert "score" in api["components"]["schemas"]["Hit"]["properties"]


def test_a_type_adapter_reads_what_it_writes(retriever):
    """Pydantic accepts a result unchanged, writes it as JSON, and reads that again."""
    adapter, result = TypeAdapter(RetrievalResult), retriever.retrieve("cat")
    assert adapter.validate_python(result) is result
    assert adapter.dump_python(result) == result.to_dict() == dict(result)
    assert adapter.validate_json(adapter.dump_json(result)).to_dict() == result.to_dict()


def test_a_result_has_its_fields_by_name():
    """A field can be read by its name as a JSON value; other names raise KeyError."""
    result = RetrievalResult([Document("a")], degraded=["keyword-stale"])
    assert (result["degraded"], result["documents"][0]["page_content"]) == (["keyword-stale"], "a")
    with pytest.raises(KeyError, match="scores"):
        result["scores"]
