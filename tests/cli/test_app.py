"""The command line: every command on real files, one-line errors and stable JSON schemas."""

import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from langchain_core.documents import Document

from langchain_hybridgraph import HybridGraphStore, HybridRetriever, RetrievalResult, ingest
from langchain_hybridgraph.cli.console import say
from langchain_hybridgraph.records import Edge
from tests.cli.commands import answer, hybridgraph
from tests.support.samples.files import write

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "langchain_hybridgraph.cli"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("HYBRIDGRAPH_")} | {
    "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    "COLUMNS": "80",
}

# Long enough that the section above is a separate chunk.
STEPS = " ".join(f"Step {number}: wait until the lamp is green, then press the left button." for number in range(14))

FILES = {
    "guide.md": (
        "# Coffee machine\n\n## Descaling\n\nDescale the boiler every three months with citric acid.\n\n"
        "## Grinding\n\nA finer grind makes the espresso stronger. See [the answers](answers.html).\n\n"
        f"{STEPS}\n"
    ),
    "answers.html": (
        "<html><head><title>Answers</title></head><body><h1>Answers</h1>"
        "<p>The warranty lasts two years and covers the pump.</p><script>ignored()</script></body></html>"
    ),
    "notes.txt": "The technician visits on Tuesdays. Call extension 4711 to book a visit.\n",
    "service.rst": "Service\n=======\n\nReplacement gaskets are ordered from the warehouse in Bremen.\n",
    "parts.jsonl": (
        '{"id": "p1", "text": "Part 77-B is the drip tray.", "metadata": {"price": 12, "labels": ["plastic"]}}\n'
        '{"id": "p2", "text": "Part 80-C is the milk frother.", "metadata": {"price": 35, "labels": ["steel"]}}\n'
    ),
}


def process(*arguments, **options):
    """Run the command line as a separate process."""
    options = {"capture_output": True, "text": True, "timeout": 600, "env": ENVIRONMENT} | options
    return subprocess.run([*COMMAND, *map(str, arguments)], check=False, **options)


def started(*arguments, **options):
    """Start the command line as a separate process."""
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": ENVIRONMENT}
    return subprocess.Popen([*COMMAND, *map(str, arguments)], **options)


def ids_of_hits(*arguments):
    return [hit["chunk"]["id"] for hit in answer("search", *arguments)["hits"]]


@pytest.fixture(scope="module")
def read_index(tmp_path_factory):
    """Return a shared, read-only index over files of every format."""
    folder = write(tmp_path_factory.mktemp("cli") / "docs", **FILES)
    index = folder.parent / "index"
    done = hybridgraph("ingest", folder, "--index", index, "--embedding", "lsa")
    assert done.exit_code == 0, done.stderr
    return index


@pytest.fixture
def docs(tmp_path):
    return write(tmp_path / "docs", **FILES)


@pytest.fixture
def index(tmp_path, docs):
    """Return an index that a test may change."""
    folder = tmp_path / "index"
    assert hybridgraph("ingest", docs, "--index", folder, "--embedding", "lsa").exit_code == 0
    return folder


# -- ingest and search ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "conversation",
    [
        "User: How often do I descale?\n\nAssistant: Every month.\n",
        '[["user", "How often do I descale?"], ["assistant", "Every month."]]',
        '{"messages": [{"role": "user", "content": "How often do I descale?"}]}',
    ],
)
@pytest.mark.parametrize("more", [(), ("--graph",)])
def test_a_question_after_a_conversation(read_index, tmp_path, monkeypatch, conversation, more):
    """A conversation given as lines, a JSON list or a JSON object completes a question, whatever the settings."""
    monkeypatch.setenv("HYBRIDGRAPH_ADVANCED_RETRIEVER", "graph")
    (tmp_path / "history").write_text(conversation, encoding="utf-8")
    result = answer("search", "And why?", "--index", read_index, "--history", tmp_path / "history", *more)
    assert result["plan"]["query"] == "And why?"
    assert result["hits"][0]["chunk"]["metadata"]["source"] == "docs/guide.md"


@pytest.mark.parametrize("history", ["[1]", "[{", '{"role": "user"', b"\xff\xfe\x00"])
def test_a_history_that_cannot_be_read(read_index, tmp_path, history):
    """A history that cannot be read gives exit code 2 and a message."""
    (tmp_path / "history").write_bytes(history if isinstance(history, bytes) else history.encode())
    done = hybridgraph("search", "And why?", "--index", read_index, "--history", tmp_path / "history")
    assert done.exit_code == 2, done.stdout
    assert "history" in done.stderr


def test_an_ingest_of_unchanged_files_imports_little(docs, index):
    """An ingest of unchanged files imports neither LangChain nor a vector engine, and does not read the model."""
    heavy = {"langchain_core", "pydantic_settings", "scipy", "chromadb", "markdown_it"}
    code = (
        "import atexit, sys; from langchain_hybridgraph.cli.app import app; "
        "from langchain_hybridgraph.embeddings.lsa import LSAModel; LSAModel.load = None; "
        f"atexit.register(lambda: print(sorted({heavy} & {{*sys.modules}}))); app()"
    )
    arguments = [sys.executable, "-c", code, "ingest", docs, "--index", index]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=600, check=True, env=ENVIRONMENT)
    report, _, imported = done.stdout.strip().splitlines()
    assert "0 added, 0 updated" in report
    assert imported == "[]"
    assert "cannot be read" not in done.stderr  # as a model that is loaded by None would be reported


def test_skipped_files_are_counted(docs, index):
    """Skipped files are counted by suffix in JSON and on stderr, even with --quiet."""
    for name in ("a.bin", "b.bin", "c.dat"):
        (docs / name).write_bytes(b"\0")
    done = hybridgraph("ingest", docs, "--index", index, "--json")
    report = json.loads(done.stdout)
    assert report["skipped"] == {".bin": 2, ".dat": 1}
    assert any("--as-text '*.conf'" in warning for warning in report["warnings"])
    assert not any("as_text=" in warning for warning in report["warnings"])
    message = (
        "hybridgraph: skipped 2 .bin, 1 .dat: files of this kind are not read; to read them as text, pass "
        "a pattern, such as --as-text '*.conf'\n"
    )
    assert message in done.stderr
    quiet = hybridgraph("ingest", docs, "--index", index, "--quiet")
    assert (quiet.stdout, quiet.stderr) == ("", message)
    new = hybridgraph("ingest", docs, "--index", index.with_name("new"), "--embedding", "lsa", "--quiet")
    assert (new.stdout, new.stderr) == ("", message)
    loud = hybridgraph("ingest", docs, "--index", index.with_name("loud"), "--embedding", "lsa")
    assert [(loud.stderr + loud.stdout).count(part) for part in ("skipped", ".bin", "embedding lsa")] == [1, 1, 1]


def test_unreadable_files_are_counted_and_named(docs, index):
    """Damaged files are counted in JSON, and listed with the reason there and on stderr, in every run."""
    (docs / "secret.pdf").write_bytes(b"%PDF-1.7 damaged")
    (docs / "empty.docx").touch()
    answers = [json.loads(hybridgraph("ingest", docs, "--index", index, "--json").stdout) for _ in range(2)]
    assert [each["skipped"] for each in answers] == [{".docx": 1, ".pdf": 1}] * 2
    for each in answers:
        assert each["unread"][str(docs / "empty.docx")] == "it is empty"
        assert each["unread"][str(docs / "secret.pdf")].startswith("it is damaged")
    done = hybridgraph("ingest", docs, "--index", index)
    assert "skipped" not in done.stdout
    assert done.stderr.count(f"hybridgraph: skipped {docs / 'empty.docx'}: it is empty\n") == 1


@pytest.mark.parametrize(("split", "parents", "chunks"), [("flat", 0, 7), ("parent-child", 6, 7), ("none", 0, 6)])
def test_the_requested_split(docs, tmp_path, split, parents, chunks):
    """--split selects chunks, chunks with parents, or complete documents."""
    report = answer("ingest", docs, "--index", tmp_path / "index", "--embedding", "lsa", "--split", split)
    assert (report["parents"], report["chunks"]) == (parents, chunks)


def test_the_requested_edges(docs, tmp_path):
    """--edges selects the edge builders, and --edges none creates no edges."""

    def relations(edges):
        report = answer("ingest", docs, "--index", tmp_path / edges, "--embedding", "lsa", "--edges", edges)
        with HybridGraphStore(tmp_path / edges) as store:
            ids = [id for ids in store.document_chunks(store.document_ids()).values() for id in ids]
            return report["edges"] > 0, {edge.relation for edge in store.edges(ids)}

    assert relations("sequence,links") == (True, {"sequence", "references"})
    assert relations("none") == (False, set())


@pytest.fixture
def interrupted_index(tmp_path):
    """Return the path of an index whose first ingest was interrupted before the texts were embedded."""

    def documents():
        yield Document("The otter swims in the river.", metadata={"source": "docs/otter.md", "uri": "docs/otter.md"})
        raise KeyboardInterrupt

    path = tmp_path / "interrupted"
    with HybridGraphStore(path, "lsa") as store, pytest.raises(KeyboardInterrupt):
        ingest(documents(), store, batch_size=1)
    return path


def test_after_an_interrupted_ingest_commands_say_what_to_do(interrupted_index):
    """``check`` fails and names the remedy, and no message contains the name of a class or a Python call."""
    result = hybridgraph("search", "otter", "--index", interrupted_index)
    assert "if ingest was interrupted, run it again" in " ".join(result.stdout.split())
    check = hybridgraph("check", "--index", interrupted_index)
    assert check.exit_code == 1
    assert check.stdout.startswith("vector matrix: chunks without a vector: 1, ")
    assert check.stdout.endswith("hybridgraph repair or another ingest adds the vectors\n")
    assert f"to repair it: hybridgraph repair --index {interrupted_index}" in check.stderr
    for done in (result, check):
        assert "Tantivy" not in done.output
        assert "()" not in done.output
    assert hybridgraph("repair", "--index", interrupted_index).exit_code == 0
    assert hybridgraph("check", "--index", interrupted_index).exit_code == 0


def test_the_language_of_an_index(tmp_path):
    """--language selects the stemmer of a new index, and another language is rejected later."""
    (tmp_path / "a.txt").write_text("Die Häuser stehen am Fluss.", encoding="utf-8")
    arguments = ("ingest", tmp_path / "a.txt", "--index", tmp_path / "index")
    assert hybridgraph(*arguments, "--embedding", "lsa", "--language", "german").exit_code == 0
    assert answer("search", "haus", "--index", tmp_path / "index")["hits"][0]["bm25_score"] > 0
    refused = hybridgraph(*arguments, "--language", "english")
    assert refused.exit_code == 2
    assert "was made with --language german" in refused.stderr


def test_k_limits_the_number_of_hits(read_index):
    """-k limits the number of hits, and fewer hits are a prefix of more hits."""
    six = ids_of_hits("part of the machine", "--index", read_index, "-k", 6)
    assert len(six) == 6
    assert ids_of_hits("part of the machine", "--index", read_index, "--top-k", 2) == six[:2]
    assert ids_of_hits("part of the machine", "--index", read_index, "-k", 0) == []
    assert answer("find", "part of the machine", "--index", read_index, "-k", 0)["contexts"] == []
    assert hybridgraph("search", "part", "--index", read_index, "-k", 0).exit_code == 0


def test_a_search_without_hits_succeeds(read_index):
    """A search without hits prints "nothing found" and the reason, with exit code 0."""
    done = hybridgraph("search", "part", "--index", read_index, "--filter", '{"price": 999}')
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, "nothing found")
    assert 'filter-matches-nothing: no text in scope meets {"price": {"$eq": 999}}' in " ".join(done.stdout.split())


# -- output --------------------------------------------------------------------------------------------

KEYS = {
    "check": "ok problems unchecked counts notes",
    "repair": "ok problems unchecked counts notes",
    "delete": "deleted chunks unknown",
    "stats": "chunks parents edges entities sessions retracted dimension embedding language tenant version generation "
    "bytes layers",
    "ingest": "documents chunks parents added updated unchanged removed embedded edges seconds warnings skipped unread "
    "embedding pruned layers",
}


@pytest.mark.parametrize("verb", KEYS)
def test_the_keys_of_every_answer(index, docs, verb):
    """The --json output of every command is one object with fixed keys in a fixed order; messages go to stderr."""
    (docs / "broken.txt").write_bytes(bytes(range(256)))
    more = {"delete": ["--filter", '{"year": 1}'], "ingest": [docs]}.get(verb, [])
    assert list(answer(verb, *more, "--index", index)) == KEYS[verb].split()


def test_the_json_of_search_is_the_result_of_hybrid_retriever(read_index):
    """search --json prints HybridRetriever's RetrievalResult, which can be read again."""
    with HybridGraphStore(read_index, read_only=True) as store:
        expected = HybridRetriever(store, k=4).invoke("warranty of the pump")
    result = answer("search", "warranty of the pump", "-i", read_index, "-k", 4, "--filter", '{"chunk_id": {"$ne": 1}}')
    again = RetrievalResult.from_dict(result)
    assert again.to_dict() == result
    assert [each.id for each in expected] == [document.id for document in again] == [hit.id for hit in again.hits]
    assert again.plan["query"] == "warranty of the pump"


def test_the_readable_output_of_search(read_index):
    """search prints rank, score, title, source and passage, and with --explain the reasons."""
    arguments = ("search", "How often do I descale the boiler?", "-i", read_index, "-k", 1)
    heading, passage = hybridgraph(*arguments).stdout.splitlines()
    assert heading.split()[0] == "1"
    assert heading.endswith("Coffee machine › Descaling  docs/guide.md")
    assert passage.strip().startswith("Descale the boiler every three months")
    explained = hybridgraph(*arguments, "--explain").stdout
    assert "found by" in explained
    assert "(weight" in explained


def test_colours_on_a_terminal(read_index):
    """On a terminal the output is coloured."""
    master, slave = pty.openpty()
    environment = {key: value for key, value in ENVIRONMENT.items() if key not in ("NO_COLOR", "CI")}
    subprocess.run(
        [*COMMAND, "search", "warranty", "--index", str(read_index)],
        stdout=slave,
        env={**environment, "TERM": "xterm-256color"},
        timeout=600,
        check=True,
    )
    os.close(slave)
    output = os.read(master, 65_536).decode()
    os.close(master)
    assert "\x1b[" in output


def test_escape_sequences_in_a_text_are_not_sent_to_the_terminal(tmp_path):
    """Escape sequences in a text are not sent to the terminal, and rich's markup is printed literally."""
    text = "alarm \x1b]0;owned\x07 [bold]not bold[/bold] :smile:"
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": text}), encoding="utf-8")
    assert hybridgraph("ingest", tmp_path / "a.jsonl", "--index", tmp_path / "ix", "--embedding", "lsa").exit_code == 0
    output = hybridgraph("search", "alarm", "--index", tmp_path / "ix").stdout
    assert "\x1b" not in output
    assert "[bold]not bold[/bold] :smile:" in output


# -- delete, stats, check, repair -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "deleted"),
    [(["--document", "p2", "--filter", '{"price": {"$gte": 12}}'], 2), (["--document", "docs/guide.md"], 2)],
)
def test_delete_reports_the_number_of_chunks(index, arguments, deleted):
    """delete by document or filter reports the number of deleted chunks."""
    assert answer("delete", "--index", index, *arguments)["deleted"] == deleted


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("call store.admin.repair()", "hybridgraph repair"),
        ("to /x; follow_links=True follows it", "to /x; --follow-links follows it"),
        ("it has tenants: open it with tenant=…", "it has tenants: pass --tenant NAME"),
        ("leave tenant= out, or make", "leave --tenant out, or make"),
    ],
)
def test_messages_name_commands(message, line, capsys):
    """Messages on the command line name commands and options instead of Python calls and arguments."""
    say(message)
    output = capsys.readouterr().err
    assert line in output
    assert not re.search(r"\w\(|\w=", output)


def test_min_score_leaves_out_worse_hits(read_index):
    """--min-score leaves out worse hits."""
    every = answer("search", "part", "--index", read_index)["hits"]
    assert answer("search", "part", "--index", read_index, "--min-score", every[1]["score"])["hits"] == every[:2]
    assert hybridgraph("search", "part", "--index", read_index, "--min-score", "2").exit_code == 2


def test_deleting_an_unknown_id_fails(index):
    """delete reports unknown ids with exit code 1 and deletes the known ones."""
    before = ids_of_hits("part", "--index", index, "-k", 50)
    done = hybridgraph("delete", "--index", index, "--id", before[0], "--id", "nothing", "--document", "none", "--json")
    assert (done.exit_code, "no chunk has the id nothing" in done.stderr) == (1, True)
    assert json.loads(done.stdout) == {"deleted": 1, "chunks": len(before) - 1, "unknown": ["none", "nothing"]}
    assert ids_of_hits("part", "--index", index, "-k", 50) == before[1:]


def test_check_and_repair(index):
    """check reports damaged vectors with exit code 1, repair fixes them, and check then succeeds."""
    assert hybridgraph("check", "--index", index).stdout == "no problems in 7 chunks\n"
    vectors = max(index.glob("vectors-*"))
    vectors.write_bytes(b"\xff" * vectors.stat().st_size)
    bad = hybridgraph("check", "--index", index)
    assert (bad.exit_code, bad.stdout.splitlines()[0].split(":")[0]) == (1, "vector matrix")
    assert f"hybridgraph repair --index {index}" in bad.stderr
    assert hybridgraph("repair", "--index", index).exit_code == 0
    assert hybridgraph("check", "--index", index).exit_code == 0


def test_backup(index, tmp_path):
    """backup copies an index to a new folder, and refuses a folder with files."""
    done = hybridgraph("backup", tmp_path / "copy", "--index", index)
    assert (done.exit_code, done.stdout) == (0, f"{index} is backed up in {tmp_path / 'copy'}\n")
    assert hybridgraph("check", "--index", tmp_path / "copy").stdout == "no problems in 7 chunks\n"
    again = hybridgraph("backup", tmp_path / "copy", "--index", index)
    assert (again.exit_code, "already exists: pass a new folder" in again.stderr) == (2, True)


def test_check_counts_edges_with_missing_ends(index):
    """check prints a note about edges to unknown ids on stderr, with exit code 0."""
    with HybridGraphStore(index) as store:
        store.upsert([], edges=[Edge("a", "b", "cites")])
    checked = hybridgraph("check", "--index", index)
    assert (checked.exit_code, checked.stdout) == (0, "no problems in 7 chunks\n")
    assert "note: edges with an end that is not in the index: 1;" in checked.stderr


@pytest.mark.parametrize("command", [["search", "x"], ["serve"]])
def test_a_wrong_setting_is_one_line(command, index, monkeypatch):
    """A setting that a retriever refuses is reported on one line, with exit code 2."""
    monkeypatch.setenv("HYBRIDGRAPH_RETRIEVER_RERANKER", "no.such.module:thing")
    monkeypatch.setenv("HYBRIDGRAPH_ALLOW_FACTORIES", "1")
    result = hybridgraph(*command, "--index", index)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "'no.such.module:thing' cannot be imported" in result.stderr


@pytest.mark.parametrize(("words", "completed"), [("tenants --js", "--json"), ("bac", "backup")])
def test_the_shell_completes_commands_and_options(words, completed):
    """Commands and options are completed before an index was given."""
    variables = {"COMP_WORDS": f"hybridgraph {words}", "COMP_CWORD": str(len(words.split()))}
    variables["_HYBRIDGRAPH_COMPLETE"] = "complete_bash"
    result = subprocess.run(COMMAND, capture_output=True, text=True, check=False, env=ENVIRONMENT | variables)
    assert result.stdout.split() == [completed], result.stderr


def test_repair_refits(index, docs):
    """repair --refit fits the embedding again, so a word that was added late is known."""
    (docs / "word.txt").write_text("The boiler descales the pump of the machine: zyzzyva.\n" + "Warranty. " * 5)
    assert hybridgraph("ingest", docs, "--index", index).exit_code == 0
    assert "query-out-of-vocabulary" in answer("search", "zyzzyva", "--index", index)["degraded"]
    done = hybridgraph("repair", "--index", index, "--refit")
    assert (done.exit_code, done.stdout) == (0, "no problems in 8 chunks\n")
    assert "lsa is fitted to 8 texts" in done.stderr
    assert answer("search", "zyzzyva", "--index", index)["degraded"] == []


def test_a_warning_is_one_line(index):
    """Warnings logged during a command are printed as single lines without tracebacks."""
    for file in (index / "keywords").iterdir():
        file.write_bytes(b"\x00" * 16)
    done = process("search", "warranty", "--index", index)
    assert done.returncode == 0
    assert "warranty" in done.stdout
    assert "keyword-fallback" in done.stdout
    assert [line for line in done.stderr.splitlines() if not line.startswith("hybridgraph: ")] == []


# -- errors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["search", "x", "--index", "INDEX", "--filter", "{year: 2020}"], 2, "--filter is not JSON"),
        (["search", "x", "--index", "INDEX", "-k", "-1"], 2, "-k"),
        (["search", "x", "--index", "INDEX", "--tenant", "a"], 2, "was made without tenants"),
        (["search", "x"], 2, "no index was given: pass --index, or set HYBRIDGRAPH_STORE_PATH, or store_path in"),
        (["search", "--index", "INDEX"], 2, "QUERY"),
        (["stats", "--index", "milvus://db"], 2, "ingest, search, find, delete and migrate work on stores in Milvus"),
        (["search", "x", "--index", "NOWHERE"], 2, "hybridgraph ingest PATHS --index"),
        (["tenants", "--index", "NOWHERE"], 2, "nowhere contains no index"),
        (["tenants"], 2, "no index was given: pass --index"),
        (["delete", "--index", "INDEX"], 2, "--document"),
        (["delete", "--index", "INDEX", "--filter", "{}"], 2, "--document"),
        (["ingest", "NOWHERE", "--index", "INDEX"], 2, "does not exist"),
        (["ingest", "docs/*.md", "--index", "INDEX"], 2, "write docs/*.md without quotes"),
        (["ingest", "FILES", "--index", "NOWHERE", "--embedding", "LSA"], 2, "write --embedding lsa"),
        (["ingest", "FILES", "--index", "FILES"], 2, "is not empty"),
        (["ingest", "FILES/guide.md", "--index", "INDEX", "--edges", "sequence,links2"], 2, "links2"),
        (["ingest", "FILES/guide.md", "--index", "INDEX", "--edges", "[auto]"], 2, "--edges is not JSON"),
        (["ingest", "FILES/guide.md", "--index", "INDEX", "--embedding", "tests.cli.test_app:other_model"], 2, "lsa"),
        (["ingest", "FILES/guide.md", "--index", "NOWHERE", "--language", "klingon"], 2, "klingon"),
        (["ingest", "FILES/image.png", "--index", "INDEX"], 1, "not text"),
        (["ingest", "FILES/bad.jsonl", "--index", "INDEX"], 1, "bad.jsonl: line 2"),
        (["ingest", "FILES/empty", "--index", "INDEX"], 1, "nothing was read"),
        (["ingest", "FILES", "--split", "parent_child"], 2, "is not one of 'flat', 'parent-child', 'none'"),
        (["search", "x", "-k", "three"], 2, "'--top-k': must be a valid integer ("),
        (["serch", "x"], 2, "serch"),
        (["mcp", "--index", "INDEX", "--tokens", "tokens.json"], 2, "--tokens is for clients that connect over HTTP"),
        (["mcp", "--index", "NOWHERE"], 2, "contains no index"),
        (["mcp", "--index", "INDEX", "--tenant", "ada"], 2, "was made without tenants"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_an_error_is_one_line(read_index, docs, arguments, code, message):
    """An error is one line on stderr with the right exit code, and stdout is empty."""
    (docs / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    (docs / "bad.jsonl").write_text('{"text": "fine"}\n{"text": broken\n', encoding="utf-8")
    (docs / "empty").mkdir()
    places = {"INDEX": str(read_index), "FILES": str(docs), "NOWHERE": str(docs.parent / "nowhere")}
    for name, place in places.items():
        arguments = [argument.replace(name, place) for argument in arguments]
    done = hybridgraph(*arguments)
    last = done.stderr.splitlines()[-1]
    assert done.exit_code == code, done.stderr
    assert message in last
    assert last.startswith("hybridgraph: ")
    assert done.stdout == ""
    others = ("hybridgraph: embedding", "hybridgraph: skipped")
    assert [line for line in done.stderr.splitlines()[:-1] if not line.startswith(others)] == []
    assert not (docs.parent / "nowhere").exists()


def test_commands_that_need_a_folder_do_not_offer_milvus():
    """--help offers milvus:// only for commands that accept it, and --index is not marked as required."""
    for verb, is_offered in {"ingest": True, "search": True, "stats": False, "tree": False, "check": False}.items():
        text = hybridgraph(verb, "--help").stdout
        assert ("milvus://" in text) == is_offered, verb
        assert "[required]" not in text.split("--config")[0].split("--index")[1], verb


def other_model():
    """Return an embedding that no index in these tests was made with."""
    from langchain_core.embeddings import DeterministicFakeEmbedding

    return DeterministicFakeEmbedding(size=24)


def test_a_model_that_cannot_be_loaded_leaves_no_index(docs, tmp_path, monkeypatch):
    """If the model of a new index cannot be downloaded, no index is created."""
    from langchain_hybridgraph.embeddings.resolve import ModelUnavailableError, OnnxMiniLMEmbeddings

    def load(self):
        raise ModelUnavailableError("no network")

    monkeypatch.setattr(OnnxMiniLMEmbeddings, "is_cached", staticmethod(lambda: False))
    monkeypatch.setattr(OnnxMiniLMEmbeddings, "load", load)
    done = hybridgraph("ingest", docs, "--index", tmp_path / "new", "--embedding", "minilm")
    assert (done.exit_code, "no network" in done.stderr, (tmp_path / "new").exists()) == (1, True, False)


def test_a_custom_embedding(docs, tmp_path, monkeypatch):
    """--embedding uses the embedding of a factory or of a JSON object, which later commands must name again."""
    monkeypatch.syspath_prepend(str(ROOT))
    index, embedding = tmp_path / "own", ("--embedding", "tests.cli.test_app:other_model")
    assert answer("ingest", docs, "--index", index, *embedding)["embedded"] == 7
    assert answer("search", "warranty", "--index", index, *embedding)["hits"]
    as_json = '{"type": "langchain_core.embeddings:DeterministicFakeEmbedding", "size": 8}'
    assert answer("ingest", docs, "--index", tmp_path / "json", "--embedding", as_json)["embedded"] == 7
    assert answer("search", "warranty", "--index", tmp_path / "json", "--embedding", as_json)["hits"]
    for arguments in ((), ("--embedding", '{"size": 8}'), ("--embedding", "{'type': 'lsa'}")):
        refused = hybridgraph("search", "warranty", "--index", index, *arguments)
        assert refused.exit_code == 2
        assert "--embedding" in refused.stderr or '"type"' in refused.stderr


def test_commands_that_embed_nothing_need_no_embedding(docs, tmp_path, monkeypatch):
    """They open an index whose embedding was a JSON object without it, and a setting with its name is not used."""
    index, as_json = tmp_path / "json", '{"type": "langchain_core.embeddings:DeterministicFakeEmbedding", "size": 8}'
    assert answer("ingest", docs, "--index", index, "--embedding", as_json)["embedded"] == 7
    monkeypatch.setitem(ENVIRONMENT, "HYBRIDGRAPH_STORE_EMBEDDING", "no.such:module")
    assert answer("stats", "--index", index)["embedding"].endswith("DeterministicFakeEmbedding")
    assert answer("check", "--index", index)["ok"]
    assert answer("backup", tmp_path / "copy", "--index", index)["path"] == str(tmp_path / "copy")
    deleted = answer("delete", "--filter", '{"uri": {"$contains": "guide"}}', "--index", tmp_path / "copy")["deleted"]
    monkeypatch.delitem(ENVIRONMENT, "HYBRIDGRAPH_STORE_EMBEDDING")
    assert answer("repair", "--index", index)["ok"]
    tree = hybridgraph("tree", "--index", tmp_path / "copy")
    assert (deleted > 0, tree.exit_code, "not summarised: " in tree.stderr) == (True, 0, True)
    (index / "vectors-0.f32").write_bytes(b"")
    refused = hybridgraph("repair", "--index", index)
    assert (refused.exit_code, "pass it as --embedding" in refused.stderr) == (2, True)


def test_a_writer_blocks_other_writers_but_not_searches(docs, index, monkeypatch):
    """While the index is locked by a writer, ingest fails after the write timeout and search still returns hits."""
    monkeypatch.setenv("HYBRIDGRAPH_STORE_WRITE_TIMEOUT", "0.1")
    with (index / "writer.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (docs / "notes.txt").write_text("changed", encoding="utf-8")
        refused = hybridgraph("ingest", docs, "--index", index)
        assert answer("search", "warranty", "--index", index)["hits"]
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "waited 0.1 s" in refused.stderr


def test_a_folder_that_cannot_be_written_can_be_searched(index):
    """search works on a read-only folder."""
    for path in [index, *index.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert answer("search", "warranty", "--index", index)["hits"]
    finally:
        for path in [index, *index.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_closed_pipe_is_not_an_error(read_index):
    """A closed pipe, as with head, causes no message and exit code 0."""
    running = started("search", "part", "--index", read_index, "-k", "50")
    running.stdout.close()
    assert running.stderr.read() == ""
    assert running.wait(timeout=600) == 0


def opened_once_read(pipe, running):
    """Return the pipe, opened for writing as soon as the process reads from it."""
    while running.poll() is None:
        try:
            descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.05)
        else:
            os.set_blocking(descriptor, True)
            return os.fdopen(descriptor, "w")
    raise AssertionError(running.stderr.read())


def test_ctrl_c_reports_the_chunks_kept(tmp_path):
    """An interrupted ingest exits with 130, reports the number of chunks kept and leaves a consistent index."""
    pipe = tmp_path / "slow.jsonl"
    os.mkfifo(pipe)
    # A shell's background jobs ignore interrupts, and what they start inherits that.
    interruptible = {"preexec_fn": partial(signal.signal, signal.SIGINT, signal.SIG_DFL)}
    running = started("ingest", pipe, "--index", tmp_path / "ix", "--embedding", "lsa", **interruptible)
    with opened_once_read(pipe, running) as writing:
        for n in range(2_000):
            writing.write(json.dumps({"id": str(n), "text": f"text number {n}"}) + "\n")
        writing.flush()
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=600)
    assert (running.returncode, out) == (130, "")
    assert "Traceback" not in err
    (message,) = [line for line in err.splitlines() if "embedding" not in line]
    match = re.match(r"hybridgraph: interrupted: ([\d,]+) chunks are kept \(0 before\); run the command again", message)
    assert answer("stats", "--index", tmp_path / "ix")["chunks"] == int(match[1].replace(",", ""))


def test_without_its_extra():
    """Without typer, the command prints one line that names the extra to install."""
    code = "import sys; sys.modules['typer'] = None; from langchain_hybridgraph.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert 'pip install "langchain-hybridgraph[cli]"' in done.stderr


def test_help_loads_nothing_heavy():
    """--help imports neither LangChain nor numpy nor an engine."""
    code = (
        "import sys\nfrom langchain_hybridgraph.cli import main\nsys.argv = ['hybridgraph', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted({'langchain_core', 'numpy', 'tantivy', 'chromadb', 'pydantic'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert done.stdout.splitlines()[-1] == "[]"


# -- demo -------------------------------------------------------------------------------------------------------

FIRST_HITS = {
    "How do I run a command with a timeout?": "subprocess.",
    "What is the difference between a deep and a shallow copy?": "copy ",
    "a temporary file that is deleted when it is closed": "tempfile.",
    "a lock that the same thread may acquire again": "threading.RLock",
    "log messages to a rotating file": "logging.handlers.",
}


def test_demo_ranks_the_expected_page_first(tmp_path):
    """The demo prints the expected page first for each question, and reports an unknown word."""
    done = process("demo", "--index", tmp_path / "ix", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for question, title in FIRST_HITS.items():
        answer_to_it = done.stdout.partition(f"> {question}\n")[2]
        assert re.search(r"^ 1  \d\.\d{3}  (.*)", answer_to_it, re.MULTILINE)[1].startswith(title)
    assert "nothing found\nquery-out-of-vocabulary" in done.stdout
