"""RemoteRetriever returns what the local retriever returns."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage

from langchain_hybridgraph import GraphRetriever, HybridGraphStore, HybridRetriever
from langchain_hybridgraph.errors import ConfigurationError, RetrievalError, StoreUnavailableError
from langchain_hybridgraph.filters import by_meta, parse_filter
from langchain_hybridgraph.server.access import Limits, Token
from langchain_hybridgraph.server.app import create_app
from langchain_hybridgraph.server.client import RemoteRetriever
from langchain_hybridgraph.telemetry import flush
from tests.server.conftest import READER
from tests.support.samples.retrievers import BY_NAME
from tests.support.servers.running_service import running

QUESTION = "Who wrote the first program?"
OPTIONS = {
    "hybrid": {"k": 2, "filter": by_meta(team="red"), "annotate": "score"},
    "graph": {"k": 3, "graph": {"traversal": "bfs", "seed_k": 1}, "annotate": "all"},
    "hierarchical": {"k": 2, "mode": "quick"},
    "memory": {"k": 3, "as_of": datetime.fromisoformat("2030-01-01T00:00:00+00:00"), "annotate": "all"},
    "advanced": {"k": 2, "conversation_history": [HumanMessage("Who is Ada?"), AIMessage("A programmer.")]},
}


@pytest.fixture
def url(store):
    with running(create_app(store, tokens=[Token(token=READER)], limits=Limits(rate=1e6, burst=10**6))) as url:
        yield url


def ids(parts):
    return [[document.id for document in part] for part in parts]


@pytest.mark.parametrize("name", BY_NAME)
async def test_the_results_are_those_of_the_local_retriever(name, url, store):
    """Each way to call a retriever returns the same Documents from a service as from the store."""
    options, local, remote = OPTIONS[name], BY_NAME[name](store), RemoteRetriever(url, READER, retriever=name)
    expected = local.invoke(QUESTION, **options)
    assert expected[0].id == "ada"
    assert remote.invoke(QUESTION, **options) == expected
    assert await remote.ainvoke(QUESTION, **options) == expected
    assert remote.batch([QUESTION, "parcel"], **options) == local.batch([QUESTION, "parcel"], **options)
    assert await remote.abatch([QUESTION], **options) == [expected]

    local_parts = list(local.stream(QUESTION, **options))
    parts = list(remote.stream(QUESTION, **options))
    assert ids(parts) == ids(local_parts)
    assert parts == local_parts
    assert [part async for part in remote.astream(QUESTION, **options)] == local_parts

    result, local_result = remote.retrieve(QUESTION, **options), local.retrieve(QUESTION, **options)
    assert (list(result), result.hits, result.degraded) == (
        list(local_result),
        local_result.hits,
        local_result.degraded,
    )
    assert list(await remote.aretrieve(QUESTION, **options)) == list(result)


DAY, INSTANT = date(2024, 5, 1), datetime(2024, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
OF_DATES = [
    {"when": {"$eq": INSTANT}},
    {"when": {"$lt": DAY}},
    {"when": {"!=": DAY}},
    {"when": DAY},
    {"when": {"$in": [DAY, INSTANT]}},
    {"all": {"$contains": DAY}},
    {"all": {"$in": [[INSTANT], [DAY]]}},
    {"by": {"$eq": {"from": DAY}}},
    {"when": {"$exists": True}, "$or": [{"when": INSTANT}, {"$not": {"when": {"$lt": DAY}}}]},
]


@pytest.fixture(scope="module")
def dated_store():
    days = ["2023-01-01", "2024-05-01", "2025-01-01"]
    times = ["2024-05-01T00:00:00Z", "2024-05-01T12:00:00+02:00", "2024-05-01T10:00:00"]
    with HybridGraphStore(None) as store:
        for n, time in enumerate([*days, *times, datetime(2024, 5, 1, tzinfo=UTC), INSTANT, 5, None, "May"]):
            moment = time.isoformat() if isinstance(time, date) else time
            metadata = {} if time is None else {"when": time, "all": [moment], "by": {"from": moment}}
            store.add_texts([f"A program of number {n}."], [metadata], ids=[str(n)])
        yield store


@pytest.fixture(scope="module")
def dated_url(dated_store):
    with running(create_app(dated_store, limits=Limits(rate=1e6, burst=10**6))) as url:
        yield url


@pytest.mark.parametrize("filter", OF_DATES, ids=str)
def test_dates_in_filters(filter, dated_url, dated_store):
    """A filter with dates selects the same Documents from a service as from the store, as a mapping and as a Filter."""
    expected = [each.id for each in HybridRetriever(dated_store).invoke("program", k=20, filter=filter)]
    assert 0 < len(expected) < 11
    remote = RemoteRetriever(dated_url, options={"k": 20})
    assert [each.id for each in remote.invoke("program", filter=filter)] == expected
    assert [each.id for each in remote.invoke("program", filter=parse_filter(filter))] == expected
    graph = {"seed_filter": filter}
    local = [each.id for each in GraphRetriever(dated_store).invoke("program", k=20, graph=graph)]
    remote = RemoteRetriever(dated_url, retriever="graph", options={"k": 20})
    assert [each.id for each in remote.invoke("program", graph=graph)] == local


def test_a_wrong_date_in_a_filter(dated_url):
    """A date that cannot be read is refused, with the form to write."""
    with pytest.raises(ConfigurationError, match="422: filter: 'May' is not a time; a time is an ISO 8601"):
        RemoteRetriever(dated_url).invoke("program", filter={"when": {"$eq": {"$date": "May"}}})


def test_an_empty_answer(url, store):
    """A stream without hits has one empty list, as the stream of the local retriever."""
    options = {"filter": {"team": "green"}}
    assert RemoteRetriever(url, READER).invoke(QUESTION, **options) == []
    parts = list(RemoteRetriever(url, READER).stream(QUESTION, **options))
    assert parts == list(HybridRetriever(store).stream(QUESTION, **options)) == [[]]


def test_texts_with_unusual_line_ends(url, store):
    """Separators that some clients take for line ends do not break a stream."""
    store.add_documents([Document("odd\u2028text\x85with\x0bmany\r\nline\nends\x1c.", id="odd")])
    (part,) = RemoteRetriever(url, READER, options={"k": 1}).stream("odd text with many line ends")
    assert part[0].page_content == store.get_by_ids(["odd"])[0].page_content


def test_callbacks_and_options(url):
    """Callbacks receive the run; options of a call take precedence over those of the retriever."""

    class Runs(BaseCallbackHandler):
        ended = ()

        def on_retriever_end(self, documents, **kwargs):
            self.ended = [document.id for document in documents]

    runs, remote = Runs(), RemoteRetriever(url, READER, options={"k": 1})
    assert len(remote.invoke(QUESTION, {"callbacks": [runs]})) == 1
    assert runs.ended == ["ada"]
    assert len(remote.invoke(QUESTION, k=3)) == 3
    flush()


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("localhost:8137", {}, r"got 'localhost:8137'; write RemoteRetriever\('http://localhost:8137'\)"),
        ("https://a.org/api/search/", {}, r"write RemoteRetriever\('https://a.org/api'\)"),
        ("http://a.org", {"retriver": "graph"}, r"no option 'retriver'; did you mean 'retriever'\?"),
        ("http://a.org", {"retriever": "grahp"}, r"got 'grahp'; did you mean 'graph'\?"),
        ("http://a.org", {"k": 2}, r"write invoke\(query, k=2\) or RemoteRetriever\(url, options=\{'k': 2\}\)"),
        ("http://a.org", {"top_k": 2}, r"write invoke\(query, k=2\)"),
    ],
)
def test_wrong_arguments(url, options, message):
    """A wrong argument is answered as by local retrievers, with the line to write."""
    with pytest.raises(ValueError, match=message) as raised:
        RemoteRetriever(url, **options)
    assert "pydantic.dev" not in str(raised.value)


def test_arguments_by_position():
    """Only the url and the token are taken by position; the error has the names of the others."""
    with pytest.raises(TypeError, match=r"write RemoteRetriever\(url, token, retriever='graph', annotate='all'\)"):
        RemoteRetriever("http://a.org", READER, "graph", "all")


def test_errors_say_what_to_do(url):
    """Errors of the service are raised with its message, and as errors of this package."""
    remote = RemoteRetriever(url, READER)
    with pytest.raises(ConfigurationError, match=r"422: .*did you mean 'semantic_weight'\?"):
        remote.invoke(QUESTION, semantic_wieght=1)
    with pytest.raises(ConfigurationError, match="422: k must be an integer ≥ 0"):
        list(remote.stream(QUESTION, k=-1))
    with pytest.raises(ConfigurationError, match="401: the token is missing or wrong"):
        RemoteRetriever(url, "wrong").invoke(QUESTION)
    with pytest.raises(ConfigurationError, match="cannot be sent to a service; pass JSON values"):
        remote.invoke(QUESTION, session=object())
    with pytest.raises(ConfigurationError, match="the second argument is LangChain's config"):
        remote.invoke(QUESTION, 5)
    with pytest.raises(StoreUnavailableError, match=r"the service at http://127\.0\.0\.1:1 cannot be reached"):
        RemoteRetriever("http://127.0.0.1:1").invoke(QUESTION)
    with pytest.raises(ConfigurationError, match=r"nowhere/search answered 404, .*check that url is the address"):
        RemoteRetriever(f"{url}/nowhere", READER).invoke(QUESTION)
    assert READER not in repr(remote)


async def test_errors_in_a_stream(url, monkeypatch):
    """An error after the beginning of a stream is raised by the stream."""

    async def fails(*arguments, **options):
        raise KeyError("secret")

    monkeypatch.setattr(HybridRetriever, "aretrieve", fails)
    with pytest.raises(RetrievalError, match="500: internal error"):
        [part async for part in RemoteRetriever(url, READER).astream(QUESTION)]


FOREIGN = {
    "a page of a proxy": (502, "text/html", b"<html>Bad gateway</html>", StoreUnavailableError),
    "a sign-in page": (200, "text/html", b"<html>Sign in</html>", RetrievalError),
    "nothing": (200, "application/json", b"", RetrievalError),
    "other JSON": (200, "application/json", b'{"results": []}', RetrievalError),
    "a list": (200, "application/json", b"[1]", RetrievalError),
    "an invalid request of another service": (400, "text/plain", b"Bad Request", ConfigurationError),
    "problems of another service": (422, "application/json", b'{"detail": [{"msg": "no"}]}', ConfigurationError),
    "a redirection": (302, "text/html", b"", RetrievalError),
    "events of another service": (200, "text/event-stream", b"event: hit\ndata: {}\n\n", RetrievalError),
    "events without JSON": (200, "text/event-stream", b"event: hit\ndata: <p>\n\n", RetrievalError),
}


@pytest.mark.parametrize("name", FOREIGN)
async def test_answers_of_proxies(name):
    """An answer that is not from a service is one error with the URL, the status and what to check."""
    status, kind, body, error = FOREIGN[name]

    async def proxy(scope, receive, send):
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind.encode())]})
        await send({"type": "http.response.body", "body": body})

    with running(proxy, lifespan="off") as url:
        remote = RemoteRetriever(url)
        message = rf"{url}/search(/stream)? answered {status}, but not .*: check that url"
        for call in (remote.retrieve, remote.invoke, lambda query: list(remote.stream(query))):
            with pytest.raises(error, match=message):
                call(QUESTION)
        with pytest.raises(error, match=message):
            await remote.ainvoke(QUESTION)
        with pytest.raises(error, match=message):
            [part async for part in remote.astream(QUESTION)]
