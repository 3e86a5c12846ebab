"""Limits on texts, titles and nesting: hostile files are skipped and named, and hostile texts take linear time."""

import resource
import signal
from itertools import product

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.chunks import LONGEST_TITLE
from langchain_hybridgraph.ingestion import bounded, ingest, markdown, read_files
from langchain_hybridgraph.ingestion.markdown import find_links, front_matter, outline
from langchain_hybridgraph.text.names import read
from tests.support.servers.python_process import output_of_python

BODY = "The boiler is descaled every month. " * 300


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.md").write_text("# First\n\nRoses need pruning.")
    (tmp_path / "z.md").write_text("# Last\n\nTomatoes need water.")
    return tmp_path


def ingested(folder, **options):
    """Return the report of an ingest of the folder, and the ids of the stored documents."""
    store = HybridGraphStore(None)
    return ingest(read_files([folder], skipped=lambda message: None), store, **options), set(store.document_ids())


@pytest.mark.parametrize("suffix", ["md", "rst"])
@pytest.mark.parametrize("depth", [600, pytest.param(3_000, marks=pytest.mark.faults)])
def test_nested_directives_take_little_memory(tmp_path, suffix, depth):
    """Deeply nested directives are read with less than 600 MB of memory."""
    opening = [f"{'`' * (depth + 3 - level)}{{note}}\n" for level in range(depth)]
    text = "".join([*opening, "The innermost text.\n", *(f"{'`' * (4 + level)}\n" for level in range(depth))])
    (tmp_path / f"deep.{suffix}").write_text(text)
    script = (
        "import pathlib, sys; from langchain_hybridgraph.ingestion.files import read_files\n"
        "from langchain_hybridgraph.ingestion.splitting import as_splitter\n"
        "(document,) = read_files(sys.argv[1]); print(len(list(as_splitter('flat').split(document, print))))\n"
        # The resident size reported by getrusage includes that of the process that was forked.
        "print(int(pathlib.Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0]) >> 10)"
    )
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))  # noqa: E731
    pieces, megabytes = map(int, output_of_python("-c", script, tmp_path, preexec_fn=limit).split())
    assert pieces > depth // 100
    assert megabytes < 600


@pytest.mark.parametrize(
    ("fails", "error"), [*product(["reader", "splitter"], [RecursionError, MemoryError]), ("reader", KeyError("page"))]
)
def test_a_file_that_cannot_be_read_or_split_does_not_stop_the_folder(folder, monkeypatch, fails, error):
    """If the reader or the splitter fails, the file is skipped and named, and the others are stored."""
    (folder / "b.md").write_text("HOSTILE")

    def failing(work):
        def check(text):
            if "HOSTILE" in text:
                raise error
            return work(text)

        return check

    if fails == "reader":
        monkeypatch.setattr(markdown, "front_matter", failing(markdown.front_matter))
    report, sources = ingested(folder, split="flat" if fails == "reader" else failing(lambda text: [text]))
    assert (list(report.unread), len(sources)) == ([str(folder / "b.md")], 2)


@pytest.mark.parametrize("suffix", ["txt", "md", "html", "rst", "py", "csv"])
def test_a_text_that_is_too_long_is_skipped(folder, monkeypatch, suffix):
    """Text files have the same limit as the texts of Office files."""
    monkeypatch.setattr(bounded, "MAX_CHARACTERS", 1_000)
    (folder / f"b.{suffix}").write_text("name,price\n" + "a long line of text, " * 100)
    report, sources = ingested(folder)
    assert "more than 1,000 characters" in report.unread[str(folder / f"b.{suffix}")]
    assert len(sources) == 2


def test_a_line_of_json_that_is_too_long_is_skipped(folder, monkeypatch):
    """A line of JSON Lines that is too long is skipped; the lines around it are read with their numbers."""
    monkeypatch.setattr(bounded, "MAX_CHARACTERS", 1_000)
    monkeypatch.setattr(bounded, "MAX_TEXT_BYTES", 1_200)
    long = '{"text": "' + "x" * 5_000 + '"}'
    (folder / "b.jsonl").write_text(f'{{"text": "one"}}\n{long}\n{{"text": "three"}}\n')
    report, _ = ingested(folder)
    assert report.documents == 4
    assert "line 2: this line has more than 1,000 characters" in report.unread[str(folder / "b.jsonl")]


@pytest.mark.faults
def test_a_line_of_300_mb_is_skipped(folder):
    """A text of 300 MB is skipped with less than 1.5 GB of memory."""
    (folder / "b.txt").write_text("lorem " * 50_000_000)
    report, sources = ingested(folder)
    assert (list(report.unread), len(sources)) == ([str(folder / "b.txt")], 2)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1_500_000


def test_a_long_text_is_parsed_in_parts_with_the_same_structure(monkeypatch):
    """The outline of a text does not depend on the size of the parts in which it is parsed."""
    parts = [f"# Chapter {n}\n\n- item [a](b{n}.md)\n\n```\n# code {n}\n\nmore\n```\n\n> quote\n\n" for n in range(60)]
    text = "[See]\n\n" + "".join(parts) + "~~~\n" + "# c\n~~\n" * 99 + "~~~ \n# End\n\n[see]: a.md\n"
    expected = markdown.outline.__wrapped__(text)
    for size in (100, 333, 1_000):
        monkeypatch.setattr(markdown, "_AT_ONCE", size)
        assert markdown.outline.__wrapped__(text) == expected
    assert (len(expected.links), expected.sections[-1].path) == (61, ("End",))


def test_aliases_in_front_matter_take_linear_time():
    """Aliases that repeat each other are not expanded."""
    lines = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9 if n else ['x'] * 9)}]" for n in range(12)]
    assert front_matter("---\n" + "\n".join(lines) + "\n---\ntext")["a0"] == ["x"] * 9


SUBJECT = "word " * 5_000
LONG = {
    "heading.md": f"# {SUBJECT}\n\n## {SUBJECT}\n\n{BODY}",
    "matter.md": f"---\ntitle: {SUBJECT[:20_000]}\n---\n{BODY}",
    "page.html": f"<title>{SUBJECT}</title><h2>{SUBJECT}</h2><p>{BODY}</p>",
    "page.rst": f"{SUBJECT}\n{'=' * len(SUBJECT)}\n\n{BODY}",
    "rows.jsonl": f'{{"text": "{BODY}", "title": "{SUBJECT}"}}\n',
}


@pytest.mark.parametrize("name", LONG)
def test_titles_are_shortened_with_a_note(tmp_path, name):
    """Every reader's titles and headings have at most 500 characters, and the report says so."""
    (tmp_path / name).write_text(LONG[name])
    store = HybridGraphStore(None)
    report = ingest(read_files([tmp_path], skipped=lambda message: None), store)
    chunks = store.similarity_search("boiler", k=100)
    assert len(chunks) > 3
    values = [str(document.metadata.get(key, "")) for document in chunks for key in ("title", "section_heading")]
    assert max(map(len, values)) <= LONGEST_TITLE
    assert any(f"shortened to {LONGEST_TITLE} characters" in warning for warning in report.warnings)


def test_names_of_columns_are_shortened(tmp_path):
    """Names of columns, which every row repeats, have at most 500 characters, and the report says so."""
    (tmp_path / "a.csv").write_text(f"{'name ' * 10_000},b\n" + "1,2\n" * 20)
    notes = []
    rows = list(read_files([tmp_path], skipped=notes.append))
    assert len(rows) == 20
    assert max(len(row.page_content) for row in rows) < 600
    assert "column names" in notes[0]


MEGABYTE = 1_000_000
MARKDOWN = 50_000  # the Markdown parser is linear, too, but slower because it is written in Python
HANG = 120  # seconds: quadratic work over a megabyte takes far longer, linear work about one


@pytest.fixture(autouse=True)
def alarm():
    """Fail a test that hangs."""

    def hangs(number, frame):
        raise AssertionError(f"not done after {HANG} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(HANG)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def repeated(unit, size=MEGABYTE):
    return unit * (size // len(unit))


@pytest.mark.parametrize("unit", ["-", ",", " ", "\n", "[", "<", "`", "“", "。", "😀", "é ", "A-", "\u0301"])
def test_names_are_found_in_linear_time(unit):
    """A long run of one character is searched for names in linear time."""
    assert read([repeated(unit)])


@pytest.mark.parametrize("unit", ["```x\n", "~~~~x\n~~~y\n", "`", "[", "[[", "[](", "<a ", "`a<", ":a:`", "https://"])
def test_links_are_found_in_linear_time(unit):
    """Long runs of unclosed fences, brackets and tags are searched for links in linear time."""
    assert len(list(find_links(repeated(unit, MARKDOWN), {"A": {"href": "b", "title": ""}}))) < MARKDOWN


@pytest.mark.parametrize("unit", ["# a\n", f"# a{' ' * 900}b\n", "# {.\n", "===\n", "a\n---\n", "```x\n"])
def test_headings_are_found_in_linear_time(unit):
    """Many headings, or headings with much space inside, are found in linear time."""
    assert outline(repeated(unit, MARKDOWN)).sections


@pytest.mark.parametrize("split", ["flat", "parent_child", None])
@pytest.mark.parametrize("unit", ["-", ",", "a"])
def test_a_text_without_words_is_ingested_in_linear_time(unit, split):
    """A megabyte without words is split, indexed and searched for edges in linear time."""
    with HybridGraphStore(None, embedding=DeterministicFakeEmbedding(size=4)) as store:
        report = ingest([Document(repeated(unit), metadata={"source": "a.md"})], store, split=split)
        assert report.documents == 1
        assert report.chunks > (0 if split is None else 100)
