"""Services over a small index, as applications and as tokens with different rights."""

import httpx
import pytest
from starlette.routing import Match

from langchain_hybridgraph import Edge, HybridGraphSettings, HybridGraphStore
from langchain_hybridgraph.server.access import Limits, Token
from langchain_hybridgraph.server.app import create_app
from tests.support.models import gated_reranker

TEXTS = {
    "ada": "Ada wrote the first program.",
    "engine": "A machine of brass and steam.",
    "parcel": "A parcel takes two days.",
    "cat": "Cats purr & <script>alert('x')</script> sleep.",
}
METADATA = [{"team": "red"}, {"team": "blue"}, {"team": "red"}, {"team": "blue", "title": "<script>"}]
READER, WRITER, ADMIN, OTHER, RED = (f"{who}-0123456789abcdef" for who in ("reader", "writer", "admin", "other", "red"))


def fill(store):
    store.add_texts(list(TEXTS.values()), [dict(each) for each in METADATA], ids=list(TEXTS))
    store.upsert([], edges=[Edge("ada", "engine", "references")])
    return store


@pytest.fixture
def store():
    with fill(HybridGraphStore(None)) as store:
        yield store


@pytest.fixture
def gate():
    gated_reranker.GATE.clear()
    while gated_reranker.WAITING.acquire(blocking=False):
        pass
    yield gated_reranker.GATE
    gated_reranker.GATE.set()


@pytest.fixture
def app(store):
    return create_app(store)


@pytest.fixture
def tenants_app(tmp_path):
    """Application for a folder with the tenants acme and bolt, whose tokens have different rights."""
    for tenant in ("acme", "bolt"):
        with HybridGraphStore(tmp_path / "index", "lsa", tenant=tenant) as store:
            fill(store)
            store.add_texts([f"The secret of {tenant}."], ids=[f"{tenant}-only"])
    tokens = [
        Token(token=READER, tenant="acme", rights=["read"]),
        Token(token=WRITER, tenant="acme", rights=["read", "write"], name="writer"),
        Token(token=ADMIN, tenant="acme", rights=["admin"]),
        Token(token=OTHER, tenant="bolt", rights=["read", "write"]),
        Token(token=RED, tenant="acme", rights=["read"], filter={"team": "red"}),
    ]
    settings = HybridGraphSettings(store_path=tmp_path / "index")
    app = create_app(settings, tokens=tokens, limits=Limits(body=10_000, burst=1_000))
    yield app
    app.state.service.close()


def client_of(app):
    """Return a client for an application that checks that the status of each answer is documented."""

    async def is_documented(answer):
        scope = {"type": "http", "path": answer.request.url.path, "method": answer.request.method}
        for route in app.routes:
            if route.include_in_schema and route.matches(scope)[0] is Match.FULL:
                assert answer.status_code in {200, *route.responses}

    transport, hooks = httpx.ASGITransport(app), {"response": [is_documented]}
    return httpx.AsyncClient(transport=transport, base_url="http://service", event_hooks=hooks)


@pytest.fixture
async def client(app):
    async with client_of(app) as client:
        yield client


@pytest.fixture
async def tenants_client(tenants_app):
    async with client_of(tenants_app) as client:
        yield client


def bearer(token):
    return {"Authorization": f"Bearer {token}"}
