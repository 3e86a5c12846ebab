"""The endpoints answer as the package does, and the service survives bad input."""

import asyncio
import json
import logging
import math
import re
from urllib.parse import quote

import httpx
import jsonschema
import pytest
from fastapi import FastAPI

from langchain_hybridgraph import HybridGraphSettings, HybridGraphStore, HybridRetriever, RetrievalResult
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.server.access import Limits, Token, Tokens, check_host, read_tokens
from langchain_hybridgraph.server.app import create_app
from langchain_hybridgraph.server.service import Service
from tests.server.conftest import ADMIN, OTHER, READER, RED, WRITER, bearer, client_of
from tests.support.samples.retrievers import BY_NAME

OPTIONS = {
    "hybrid": {"filter": {"team": "red"}, "k": 2},
    "graph": {"graph": {"traversal": "bfs", "seed_k": 1}, "k": 3},
    "hierarchical": {"mode": "quick", "k": 2},
    "memory": {"mode": {"type": "general", "recency": 0.3}, "as_of": "2030-01-01"},
    "advanced": {"conversation_history": ["User: Who is Ada?"]},
}
QUESTION = "Who wrote the first program?"


async def still_answers(client, **headers):
    answer = await client.post("/search", json={"query": QUESTION, "k": 1}, **headers)
    return [document["id"] for document in answer.json()["documents"]] == ["ada"]


def comparable(result):
    """Return the fields of a result that do not depend on the clock."""
    fields = json.loads(json.dumps(result))
    del fields["took_ms"], fields["plan"]["stages_ms"]
    return fields


@pytest.mark.parametrize(("name", "options"), OPTIONS.items(), ids=OPTIONS)
async def test_each_retriever_answers_as_in_python(name, options, client, store):
    """A search returns the fields of ``retrieve`` of the same retriever with the same options."""
    answer = await client.post("/search", json={"retriever": name, "query": QUESTION, **options})
    assert answer.status_code == 200, answer.text
    assert comparable(answer.json()) == comparable(BY_NAME[name](store).retrieve(QUESTION, **options).to_dict())
    assert RetrievalResult.from_dict(answer.json())[0].id == "ada"


async def test_explanations(client, store):
    """An explanation has the words of the package's own, and one line per hit."""
    answer = (await client.post("/explain", json={"query": QUESTION, "k": 1})).json()
    assert answer["hits"][0]["id"] == "ada"
    assert answer["hits"][0]["explanation"].startswith("score ")
    assert answer["explanation"].startswith(QUESTION)


async def test_documents_are_added_read_and_deleted(client):
    """A document that is added is found, read by its id, which may contain slashes, and deleted."""
    text = "Whales sing songs."
    body = {"documents": [{"id": "sea/whale.md", "page_content": text, "metadata": {"n": 1}}]}
    assert (await client.post("/documents", json=body)).json()["ids"] == ["sea/whale.md"]
    result = (await client.post("/search", json={"query": "whales sing", "k": 1})).json()["documents"]
    assert [document["page_content"] for document in result] == [text]
    answer = await client.get("/documents/sea/whale.md")
    assert [document["metadata"] for document in answer.json()["documents"]] == [{"n": 1}]
    assert (await client.delete("/documents/sea/whale.md")).json() == {"deleted": 1}
    assert (await client.get("/documents/sea/whale.md")).status_code == 404


async def test_split_documents_are_read_and_deleted_as_one(client):
    """A document that is split into chunks is read and deleted by its own id."""
    text = " ".join(f"Sentence number {number} is about tides." for number in range(200))
    body = {"documents": [{"id": "tides", "page_content": text}], "split": "flat"}
    assert (await client.post("/documents", json=body)).json()["report"]["chunks"] > 1
    chunks = (await client.get("/documents/tides")).json()["documents"]
    assert len(chunks) > 1
    assert (await client.delete("/documents/tides")).json() == {"deleted": len(chunks)}


async def test_sessions_and_memories(client):
    """Turns of a session are kept; memories are remembered, recalled, judged, superseded, retracted and expired."""
    added = await client.post("/sessions/monday", json={"turns": [["user", "Which car is red?"], ["ai", "The van."]]})
    assert added.json() == {"ids": ["session:monday#1", "session:monday#2"]}
    turns = (await client.get("/sessions/monday")).json()["turns"]
    assert [turn["page_content"] for turn in turns] == ["Which car is red?", "The van."]
    assert (await client.delete("/sessions/monday")).json() == {"deleted": 2}
    assert (await client.get("/sessions/monday")).status_code == 404

    memory = {"documents": [{"id": "paris", "page_content": "Ada lives in Paris."}]}
    assert (await client.post("/memory", json=memory)).json()["admissions"][0]["outcome"] == "added"
    feedback = {"ids": ["paris"], "verb": "validate"}
    assert (await client.post("/memory/feedback", json=feedback)).json() == {"ids": ["paris"]}
    new = {"old_id": "paris", "document": {"id": "rome", "page_content": "Ada lives in Rome."}}
    assert (await client.post("/memory/supersede", json=new)).json() == {"id": "rome"}
    recalled = (await client.post("/memory/recall", json={"query": "Where does Ada live?", "k": 1})).json()
    assert [document["id"] for document in recalled["documents"]] == ["rome"]
    assert (await client.post("/memory/retract", json={"ids": ["rome"]})).json() == {"retracted": 1}
    assert (await client.post("/memory/retract", json={"ids": ["nowhere"]})).status_code == 404
    assert (await client.post("/memory/expire")).json() == {"deleted": 0}


async def test_health_readiness_and_metrics(client, store):
    """Readiness reports whether the store can be read; metrics count searches and requests."""
    assert (await client.get("/healthz")).status_code == 200
    assert (await client.get("/readyz")).status_code == 200
    assert await still_answers(client)
    metrics = (await client.get("/metrics")).text
    assert 'hybridgraph_http_requests_total{method="POST",route="/search",status="200"} 1.0' in metrics
    assert "rag_retrieval_duration_seconds" in metrics
    store.close()
    assert (await client.get("/healthz")).status_code == 200
    assert (await client.get("/readyz")).status_code == 503


async def test_openapi_describes_requests_with_examples(client):
    """The schema accepts its own examples, and rejects a misspelt option and a wrong value."""
    document = (await client.get("/openapi.json")).json()
    for reference in set(re.findall(r'"\$ref": ?"#/components/schemas/([^"]+)"', json.dumps(document))):
        assert reference in document["components"]["schemas"]
    assert "#/$defs" not in json.dumps(document)
    content = document["paths"]["/search"]["post"]["requestBody"]["content"]["application/json"]
    schema = {**content["schema"], "components": document["components"]}
    assert len(content["examples"]) >= 4
    for example in content["examples"].values():
        jsonschema.validate(example["value"], schema)
        assert (await client.post("/search", json=example["value"])).status_code == 200
    for wrong in ({"query": "a", "semantic_wieght": 1}, {"query": "a", "k": -1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


async def test_openapi_lists_the_statuses_of_each_route(client):
    """Each route has its own statuses; the fixture checks that every answer of these tests has one of them."""
    paths = (await client.get("/openapi.json")).json()["paths"]
    statuses = {path: [*next(iter(operations.values()))["responses"]] for path, operations in paths.items()}
    assert statuses["/healthz"] == ["200", "400", "500"]
    assert sorted(statuses["/metrics"]) == ["200", "400", "401", "403", "422", "429", "500"]
    assert {"413", "422", "503", "504"} <= {*statuses["/search"]}
    assert {"404", "501"}.isdisjoint(statuses["/search"])
    assert {"404", "501"} <= {*statuses["/memory/feedback"]}
    assert "HTTPValidationError" not in json.dumps(paths)


BAD = {
    "no JSON": (b'{"query":', 422, "the body is not JSON"),
    "no body": (b"", 422, "the body must be a JSON object"),
    "deep nesting": (b"[" * 100_000, 422, "parsing the body"),
    "a body that is not UTF-8": (b'{"query": "\xff"}', 422, "parsing the body"),
    "unknown option": ({"semantic_wieght": 1}, 422, "did you mean 'semantic_weight'?"),
    "unknown option of a group": ({"retriever": "graph", "graph": {"sed_k": 3}}, 422, "did you mean 'seed_k'?"),
    "unknown retriever": ({"retriever": "grahp"}, 422, "did you mean 'graph'?"),
    "k of a billion": ({"k": 10**9}, 422, "k must be at most 100 here, got 1000000000"),
    "too many candidates": ({"selection": {"overfetch": 10**9}}, 422, "overfetch must be at most 100"),
    "a negative k": ({"k": -1}, 422, "k must be an integer ≥ 0"),
    "a wrong filter": ({"filter": {"year": {"$foo": 1}}}, 422, "'$foo' on 'year' is not an operator"),
    "a function as a counter": ({"selection": {"budget": {"counter": "os:system"}}}, 422, "counter must be a function"),
    "a wrong vector": ({"vector": ["a"]}, 422, "vector"),
    "a vector of another width": ({"vector": [1.0]}, 422, '"path": ["vector"]'),
    "roots that are no list": ({"retriever": "hierarchical", "tree": {"roots": {"a": 5}}}, 422, "got {'a': 5}"),
    "a deadline that is too long": ({"deadline_ms": 1e9}, 422, "deadline_ms must be at most 30000 here"),
    "a wrong session": ({"retriever": "memory", "session": 5}, 422, ""),
    "another tenant": ({"tenant": "other"}, 403, "the token does not allow this request"),
    "an option of another retriever": ({"preset": "code"}, 422, "settings of the service set it, for graph and memory"),
    "a group of another retriever": ({"graph": {}}, 422, 'add {\\"retriever\\": \\"graph\\"}'),
    "a name of another library": ({"top_k": 3}, 422, 'write {\\"k\\": 3}'),
    "a misspelt query": ({"querry": "cats"}, 422, "did you mean 'query'?"),
    "a weight above 1": ({"semantic_weight": 7}, 422, '"path": ["semantic_weight"]'),
    "no history": ({"retriever": "advanced", "conversation_history": "junk"}, 422, '"path": ["conversation_history"]'),
    "a target that does not exist": ({"retriever": "hierarchical", "target_uri": "x"}, 422, '"path": ["target_uri"]'),
    "a number of a group": ({"selection": {"budget": {"max_tokens": 0}}}, 422, '"path": ["selection", "budget"]'),
}


ONLY_SEARCH = {  # errors of the search itself
    *("a vector of another width", "a wrong session", "a weight above 1", "no history"),
    "a target that does not exist",
}


@pytest.mark.parametrize("name", BAD)
async def test_bad_requests_are_refused(name, client):
    """Each request that cannot be carried out is refused with the reason, and the service still answers."""
    body, status, message = BAD[name]
    content = body if isinstance(body, bytes) else json.dumps({"query": QUESTION, **body})
    for path in ["/search"] if name in ONLY_SEARCH else ["/search", "/search/stream"]:
        answer = await client.post(path, content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == status, answer.text
        assert message in json.dumps(answer.json(), ensure_ascii=False)
    assert await still_answers(client)


async def test_a_search_needs_a_question_or_another_subject(client):
    """A request with neither a query nor a filter, a vector, labels or seeds is refused; an empty query is not."""
    conversation = {"retriever": "advanced", "conversation_history": ["User: a"]}
    for body in ({}, {"k": 3}, {"query": None}, {"query": None, "filter": None}, {"retriever": "memory"}, conversation):
        answer = await client.post("/search", json=body)
        assert (answer.status_code, answer.json()["detail"][0]["path"]) == (422, ["query"])
    for body in ({"query": ""}, {"query": None, "filter": {"team": "red"}}, {"filter": {"team": "red"}}):
        assert (await client.post("/search", json=body)).status_code == 200


async def test_unknown_parameters_are_refused(client):
    """An option in the address instead of the body is refused, because it would be ignored."""
    for method, path in [("POST", "/search"), ("POST", "/search/stream"), ("GET", "/metrics")]:
        answer = await client.request(method, f"{path}?k=3", json={"query": "cats"})
        assert (answer.status_code, answer.json()["detail"][0]["path"]) == (422, ["k"])


async def test_recall_is_only_for_memories(client):
    """Another retriever is refused instead of ignored or used."""
    answer = await client.post("/memory/recall", json={"query": QUESTION, "retriever": "hybrid"})
    assert (answer.status_code, answer.json()["detail"][0]["path"]) == (422, ["retriever"])
    assert (await client.post("/memory/recall", json={"query": QUESTION, "retriever": "memory"})).status_code == 200


async def test_the_message_of_a_problem_does_not_repeat_its_path(client):
    """The name of an invalid option is in the path of the problem, and not again before the message."""
    answer = await client.post("/search", json={"query": "cats", "as_of": "x"})
    (problem,) = answer.json()["detail"]
    assert (answer.status_code, problem["path"]) == (422, ["as_of"])
    assert problem["message"].startswith("'x' is not a time")


async def test_unknown_keys_of_other_requests_are_refused(client):
    """A key that an endpoint does not know is refused with its path, and nothing is written."""
    document = {"id": "new", "page_content": "New."}
    for path, body, key in [
        ("/documents", {"documents": [document], "splitt": "flat"}, ["splitt"]),
        ("/documents", {"documents": [{**document, "metdata": {}}]}, ["documents", 0, "metdata"]),
        ("/sessions/monday", {"turns": [], "tll": 5}, ["tll"]),
        ("/memory", {"documents": [document], "contradiction": False}, ["contradiction"]),
        ("/memory/feedback", {"ids": ["ada"], "verb": "useful", "at": 5}, ["at"]),
    ]:
        answer = await client.post(path, json=body)
        assert (answer.status_code, answer.json()["detail"][0]["path"]) == (422, key)
    assert (await client.get("/documents/new")).status_code == 404
    assert await still_answers(client)


async def test_all_problems_have_their_paths(client):
    """A request with several problems is answered with all of them, each with its path."""
    body = {"retriever": "graph", "query": 5, "vektor": 1, "graph": {"seed_k": 0}, "min_score": 2}
    problems = (await client.post("/search", json=body)).json()["detail"]
    assert [problem["path"] for problem in problems] == [["vektor"], ["query"], ["graph", "seed_k"], ["min_score"]]


async def test_markup_is_escaped(client):
    """Script tags in ids, texts, titles, metadata and questions are never sent as they are."""
    tag = "<script>alert(1)</script>"
    document = {"id": tag, "page_content": f"Evil {tag}", "metadata": {"title": tag, tag: tag}}
    question = {"query": f"evil {tag}"}
    path = quote(tag, safe="")
    turns = {"turns": [["user", tag]], "metadata": {tag: tag}}
    assert (await client.post(f"/sessions/{path}", json=turns)).status_code == 200
    answers = [
        await client.post("/documents", json={"documents": [document]}),
        await client.post("/search", json=question),
        await client.post("/explain", json=question),
        await client.post("/search/stream", json=question),
        await client.post("/search", json={"query": "a", tag: 1}),
        await client.get(f"/documents/{path}"),
        await client.get(f"/sessions/{path}"),
        await client.post("/memory", json={"documents": [{**document, "id": f"memory {tag}"}]}),
        await client.post("/memory/recall", json=question),
        await client.post("/memory/feedback", json={"ids": [tag], "verb": "useful"}),
        await client.post("/documents", json={"documents": [document], tag: 1}),
        await client.post("/search", json={"query": "a", "filter": {tag: {tag: 1}}}),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 422, 200, 200, 200, 200, 200, 422, 422]
    for answer in answers:
        assert "\\u003cscript\\u003e" in answer.text
        assert "<script" not in answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-type"].startswith(("application/json", "text/event-stream"))


UNSTORABLE = [
    ("/documents", {"documents": [{"page_content": "odd \ud800 text"}]}, ["documents", 0, "page_content"]),
    ("/documents", {"documents": [{"page_content": "a", "metadata": {"n": [math.nan]}}]}, ["documents", 0, "metadata"]),
    ("/memory", {"documents": [{"page_content": "a", "metadata": {"n": math.inf}}]}, ["documents", 0, "metadata"]),
    ("/memory/supersede", {"old_id": "ada", "document": {"page_content": "\udc00"}}, ["document", "page_content"]),
    ("/sessions/monday", {"turns": [["user", "odd \ud800"]]}, ["turns", 0, 1]),
    ("/sessions/monday", {"turns": [["user", "Hello."], ["alien", "Hi."]]}, ["turns", 1]),
    ("/documents", {"documents": [{"id": "session:s#1", "page_content": "a"}]}, ["documents", 0, "id"]),
    ("/documents", {"documents": [{"id": "", "page_content": "a"}]}, ["documents", 0, "id"]),
    ("/documents", {"documents": [{"id": "a\0b", "page_content": "a"}]}, ["documents", 0, "id"]),
    ("/sessions/monday", {"turns": [["user", " "]]}, ["turns", 0]),
    ("/memory", {"documents": [{"page_content": "a", "metadata": {"confidence": 7}}]}, ["documents", 0]),
    ("/documents", {"documents": [{"page_content": "a", "metadata": {"confidence": 7}}]}, ["documents", 0]),
    ("/memory/supersede", {"old_id": "ada", "document": {"page_content": "a"}, "at": "junk"}, ["at"]),
    ("/memory", {"documents": [{"id": "session:s#1", "page_content": "a"}]}, ["documents", 0, "id"]),
]


@pytest.mark.parametrize(("path", "body", "place"), UNSTORABLE)
async def test_nothing_is_changed_without_notice(path, body, place, client, store):
    """A value that a store would change, ignore or confuse with a turn is refused with its path."""
    before = len(store)
    answer = await client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["detail"][0]["path"]) == (422, place)
    assert len(store) == before


async def test_a_question_with_a_lone_surrogate(client):
    """A question is searched for without the character that no text contains."""
    headers = {"Content-Type": "application/json"}
    answer = await client.post("/search", content=b'{"query": "parcel \\ud800", "k": 1}', headers=headers)
    assert [document["id"] for document in answer.json()["documents"]] == ["parcel"]


async def test_an_index_that_was_moved(tmp_path):
    """Without its folder, the service answers that it cannot reach the store, and what to do; health stays."""
    path = tmp_path / "index"
    with HybridGraphStore(path, "lsa") as store:
        store.add_texts(["Cats purr."])
    document = {"documents": [{"page_content": "Dogs bark."}]}
    async with client_of(create_app(HybridGraphSettings(store_path=path))) as client:
        assert (await client.post("/documents", json=document)).status_code == 200
        path.rename(tmp_path / "elsewhere")
        for call, body in [("documents", document), ("search", {"query": "cats"}), ("sessions/s", {"turns": []})]:
            answer = await client.post(f"/{call}", json=body)
            assert answer.status_code == 503
            assert "put it back or restart the service" in answer.json()["detail"]
        assert (await client.get("/healthz")).status_code == 200
        (tmp_path / "elsewhere").rename(path)
        assert (await client.post("/documents", json=document)).status_code == 200


# -- tokens and limits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer wrong", f"Basic {READER}", f"Bearer {READER} x", "Bearer ü"]
)
async def test_wrong_tokens(header, tenants_client, caplog):
    """Missing and wrong tokens get the same answer and are logged with their route; health needs none."""
    caplog.set_level(logging.INFO)
    headers = {} if header is None else {"Authorization": header.encode()}
    answer = await tenants_client.post("/search", json={"query": QUESTION}, headers=headers)
    assert (answer.status_code, answer.json()) == (
        401,
        {"detail": "the token is missing or wrong; send it in the header Authorization: Bearer TOKEN"},
    )
    assert answer.headers["www-authenticate"] == "Bearer"
    assert [record.route for record in caplog.records if hasattr(record, "route")] == ["/search"]
    assert (await tenants_client.get("/readyz", headers=headers)).status_code == 200
    assert await still_answers(tenants_client, headers=bearer(READER))


async def test_rights(tenants_client):
    """A token does only what its rights allow; the refusal names the right that the request needs."""
    body = {"documents": [{"page_content": "New."}]}
    calls = {
        "read": ("POST", "/search", {"query": "a"}),
        "write": ("POST", "/documents", body),
        "admin": ("GET", "/metrics", None),
    }
    statuses = {}
    for token in (READER, WRITER, ADMIN):
        answers = [
            await tenants_client.request(method, path, json=content, headers=bearer(token))
            for method, path, content in calls.values()
        ]
        statuses[token] = [answer.status_code for answer in answers]
        refused = {right: answer.json() for right, answer in zip(calls, answers, strict=True) if answer.is_error}
        expected = "the token does not allow this request, which needs the right "
        assert refused == {right: {"detail": expected + right} for right in refused}
    assert statuses == {READER: [200, 403, 403], WRITER: [200, 200, 403], ADMIN: [403, 403, 200]}


async def test_other_tenants_do_not_exist(tenants_client):
    """Documents and memories of another tenant are treated exactly as those that do not exist."""

    async def call(method, path, token, **options):
        return await tenants_client.request(method, path, headers=bearer(token), **options)

    assert (await call("GET", "/documents/acme-only", WRITER)).status_code == 200
    for session, token in [("acme-only", WRITER), ("mine", OTHER)]:
        await call("POST", f"/sessions/{session}", token, json={"turns": [["user", "Hello."]]})
    assert (await call("GET", "/sessions/mine", OTHER)).status_code == 200
    for method, path, options in [
        ("GET", "/sessions/ID", {}),
        ("DELETE", "/sessions/ID", {}),
        ("POST", "/memory/supersede", {"json": {"old_id": "ID", "document": {"page_content": "New."}}}),
        ("GET", "/documents/ID", {}),
        ("DELETE", "/documents/ID", {}),
        ("POST", "/memory/retract", {"json": {"ids": ["ID"]}}),
        ("POST", "/memory/feedback", {"json": {"ids": ["ID"], "verb": "refute"}}),
    ]:
        answers = []
        for id in ("acme-only", "nowhere"):
            call_options = json.loads(json.dumps(options).replace("ID", id))
            answers.append(await call(method, path.replace("ID", id), OTHER, **call_options))
        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].json() == answers[1].json()
    result = (await call("POST", "/search", OTHER, json={"query": "The secret of acme."})).json()
    assert "acme-only" not in {document["id"] for document in result["documents"]}
    assert (await call("GET", "/documents/acme-only", WRITER)).status_code == 200


async def test_a_filter_narrows_the_filter_of_the_token(tenants_client):
    """The filter of a token applies to searches and reads, and that of a request only narrows it."""

    async def ids(**options):
        body = {"query": "A machine, a parcel, a program", **options}
        answer = await tenants_client.post("/search", json=body, headers=bearer(RED))
        return {document["id"] for document in answer.json()["documents"]}

    assert await ids() == {"ada", "parcel"}
    assert await ids(filter={"team": "blue"}) == set()
    assert await ids(filter={"$or": [{"team": "blue"}, {"team": "red"}]}) == {"ada", "parcel"}
    assert await ids(retriever="graph", seed_ids=["engine"]) <= {"ada", "parcel"}
    assert await ids(retriever="memory") == {"ada", "parcel"}
    assert (await tenants_client.get("/documents/engine", headers=bearer(RED))).status_code == 404
    assert (await tenants_client.get("/documents/ada", headers=bearer(RED))).status_code == 200


async def test_large_bodies_are_refused(tenants_client):
    """A body above the limit is refused, whether its length is declared or not."""

    async def chunks():
        for _ in range(20):
            yield b"x" * 1_000

    headers = {**bearer(WRITER), "Content-Type": "application/json"}
    for content in (b"x" * 20_000, chunks()):
        answer = await tenants_client.post("/documents", content=content, headers=headers)
        assert answer.status_code == 413
        assert answer.json()["detail"] == "the body must have at most 10,000 bytes"
    assert await still_answers(tenants_client, headers=bearer(READER))


async def test_too_many_requests_are_refused(store):
    """A token with too many requests is refused with the time to wait; other tokens are not."""
    app = create_app(store, tokens=[Token(token=READER), Token(token=OTHER)], limits=Limits(rate=0.01, burst=2))
    async with client_of(app) as client:
        answers = [await client.post("/search", json={"query": "a"}, headers=bearer(READER)) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert await still_answers(client, headers=bearer(OTHER))


async def test_a_search_has_a_deadline(store, monkeypatch):
    """A search that takes too long is answered with 504, and an unexpected error with 500, without its message."""
    async with client_of(create_app(store, limits=Limits(deadline=0.05))) as impatient:

        async def never(*arguments, **options):
            await asyncio.sleep(10)

        with monkeypatch.context() as patch:
            patch.setattr(HybridRetriever, "aretrieve", never)
            statuses = [(await impatient.post("/search", json={"query": "a"})).status_code for _ in range(2)]
            assert statuses == [504, 504]
    app = create_app(store)
    async with client_of(app) as client:

        async def fails(*arguments, **options):
            raise KeyError("secret question")

        with monkeypatch.context() as patch:
            patch.setattr(HybridRetriever, "aretrieve", fails)
            answer = await client.post("/search", json={"query": "a"})
            assert (answer.status_code, answer.json()) == (500, {"detail": "internal error"})
        assert await still_answers(client)


async def test_only_errors_of_input_are_422(client, store, monkeypatch, caplog):
    """A ValueError of another library is a 500 with a log entry; only errors of this package about input are 422."""
    supersede = {"old_id": "ada", "document": {"id": "ada", "page_content": "New."}}
    assert (await client.post("/memory/supersede", json=supersede)).status_code == 422
    memories = {"documents": [{"page_content": "A fact.", "metadata": {"confidence": 7}}]}
    assert (await client.post("/memory", json=memories)).status_code == 422

    def fails(*arguments, **options):
        raise ValueError("secret internals")

    monkeypatch.setattr(type(store.memory), "remember", fails)
    monkeypatch.setattr(HybridRetriever, "aretrieve", fails)
    calls = {"/memory": {"documents": []}, "/search": {"query": "xylophone"}, "/search/stream": {"query": "xylophone"}}
    for path, body in calls.items():
        caplog.clear()
        answer = await client.post(path, json=body)
        assert path == "/search/stream" or answer.status_code == 500
        assert "internal error" in answer.text
        assert "secret" not in answer.text
        (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert record.error == "ValueError"
        assert "xylophone" not in str(vars(record))
        assert "secret" not in str(vars(record))


async def test_logs_contain_no_question(client, caplog, monkeypatch):
    """A request is logged with its route, status and duration; no question appears, even after an error."""
    caplog.set_level(logging.DEBUG)
    secret = "xylophone"
    await client.post("/search", json={"query": secret})
    await client.get(f"/documents/{secret}")
    await client.post("/search", json={"query": secret, "filter": {secret: {"$foo": 1}}})

    async def fails(*arguments, **options):
        raise KeyError(secret)

    monkeypatch.setattr(HybridRetriever, "aretrieve", fails)
    await client.post("/search", json={"query": secret})
    records = [record for record in caplog.records if record.name == "langchain_hybridgraph.server"]
    assert [(record.route, record.status) for record in records] == [
        ("/search", 200),
        ("/documents/{id:path}", 404),
        ("/search", 422),
        ("/search", 500),
    ]
    assert records[-1].error == "KeyError"
    others = [record for record in caplog.records if record.name != "httpx"]
    assert secret not in "".join(record.getMessage() for record in others)


def test_tokens_are_read_from_a_file_or_the_environment(tmp_path):
    """Tokens come from a file or a variable, in full or as a digest; errors name the place and quote no token."""
    file = tmp_path / "tokens.json"
    digest = "0" * 63 + "1"
    file.write_text(json.dumps([{"token": READER, "tenant": "acme", "rights": ["read", "write"]}, {"sha256": digest}]))
    first, second = read_tokens(file)
    assert (first.tenant, first.rights, second.digest.hex()) == ("acme", {"read", "write"}, digest)
    assert [token.tenant for token in read_tokens(None, {"HYBRIDGRAPH_TOKENS": file.read_text()})] == ["acme", None]
    assert read_tokens(None, {}) == []
    secret = "geheimnis-für-alle"
    entries = {
        "token: must be a string with at least 16 characters": {"token": "short"},
        "a key is unknown; did you mean 'rights'?": {"token": READER, "right": ["read"]},
        'rights: must be a list of at least one of "read", "write" and "admin"': {"token": READER, "rights": ["reed"]},
        "a token with a filter can only read": {"token": READER, "rights": ["read", "write"], "filter": {"a": 1}},
        "pass either token or sha256": {"token": READER, "sha256": digest},
        "either token or sha256": {"tenant": "acme"},
        "sha256: must be the SHA-256 of a token": {"sha256": "0"},
        "must be an object; the keys are token": READER,
        "token must consist of printable ASCII": {"token": secret},
        "without spaces around it": {"token": f" {READER}"},
    }
    file.write_text(json.dumps([*entries.values(), {READER: 1, "rights": []}]))
    with pytest.raises(ConfigurationError) as caught:
        read_tokens(file)
    lines = str(caught.value).splitlines()
    for number, (line, message) in enumerate(zip(lines, entries, strict=False), start=1):
        assert line.startswith(f"{file}, entry {number}")
        assert message in line
    assert [line.partition(", entry ")[2][:2] for line in lines[10:]] == ["11", "11"]
    assert READER not in str(caught.value)
    assert secret not in str(caught.value)
    for text in ("{", "{}", "[]x"):
        file.write_text(text)
        with pytest.raises(ConfigurationError, match=r"tokens\.json"):
            read_tokens(file)
    for second in (Token(token=READER), Token(token=WRITER, name="one")):
        with pytest.raises(ConfigurationError, match="two tokens are equal or have the name 'one'"):
            Tokens([Token(token=READER, name="one"), second.model_copy(update={"name": "one"})])


async def test_a_mounted_service_needs_no_token_for_health(store):
    """Health and the page are public under the path of a mounted service, too; searches are not."""
    outer = FastAPI()
    outer.mount("/api", create_app(store, tokens=[Token(token=READER)]))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url="http://test") as client:
        assert (await client.get("/api/healthz")).status_code == 200
        assert (await client.get("/api/")).status_code == 200
        assert (await client.post("/api/search", json={"query": "a"})).status_code == 401


def test_a_wrong_setting_is_reported_at_the_start(store):
    """A setting that no retriever accepts is an error before anything is served."""
    service = Service(store, settings=HybridGraphSettings(retriever_reranker="no.such.module:thing"))
    with pytest.raises(ValueError, match=r"'no\.such\.module:thing' cannot be imported"):
        service.check()


def test_other_machines_need_a_token():
    """A host that other machines can reach is refused without tokens, with the ways to fix it."""
    with pytest.raises(ConfigurationError, match="pass --tokens FILE, set HYBRIDGRAPH_TOKENS, or leave --host out"):
        check_host("0.0.0.0", [])
    check_host("0.0.0.0", [Token(token=READER)])
    check_host("127.0.0.1", [])


def test_a_token_for_another_tenant_than_the_store(store):
    """An open store serves only its own tenant."""
    app = create_app(store, tokens=[Token(token=READER, tenant="acme")])
    with pytest.raises(Exception, match="the store is for tenant None, but a token is for tenant 'acme'"):
        app.state.service.check()
