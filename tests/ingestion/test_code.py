import re
import sys

import pytest

from langchain_hybridgraph import HybridGraphStore, HybridRetriever, ingest
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingestion import FileError, python_docs, read_files
from langchain_hybridgraph.ingestion.python_docs import read_python_docs
from tests.support.samples.files import write

SOURCES = {
    "a.py": (
        '"""Bills."""\nRATE = 1\n\n\n# Adds up.\n@cached\n'
        "def total(lines):\n    def inner():\n        pass\n\n\nrun()\n",
        [(1, 2, None), (5, 9, "total"), (12, 12, None)],
    ),
    "mac.py": ('"""Bills\r."""\rimport a\r\r# Adds.\rdef total():\r    pass\r', [(1, 3, None), (5, 7, "total")]),
    "old.py": ("def total(x):\n    print x\n\nclass Bill:\n    pass\n", [(1, 2, None), (4, 5, None)]),
    "a.js": (
        "// Resets it.\nexport async function reset(\n  user,\n) {\n  if (user) {\n    go();\n  }\n}\n"
        "const add = (a) => a;\n",
        [(1, 8, None), (9, 9, None)],
    ),
    "a.go": (
        "package main\n\ntype Server struct {\n\ta string\n}\n\nfunc (s *Server) Run(n int) error {\n\treturn nil\n}\n",
        [(1, 1, None), (3, 5, None), (7, 9, None)],
    ),
    "A.java": (
        "import a.b;\n\n/** Bills. */\n@Service\npublic class Bill extends Base {\n    int total() { return 1; }\n}\n",
        [(1, 1, None), (3, 7, None)],
    ),
    "a.c": (
        "#include <a.h>\nint total(int a);\n\n/* Adds\n * up. */\nstatic int total(int a,\n                 int b)\n"
        "{\n\n#ifdef B\n\treturn b;\n#endif\n\treturn a;\n}\n",
        [(1, 2, None), (4, 14, None)],
    ),
    "a.cs": (
        "namespace Acme\n{\n    class Bill\n    {\n"
        "        int Total(int a)\n        {\n            return a;\n        }\n    }\n}\n",
        [(1, 10, None)],
    ),
    "a.rb": ("def self.find(id)\n  id\nend\n\ndef paid?\n  true\nend\n", [(1, 3, None), (5, 7, None)]),
    "a.sh": ("set -e\n\nrun() {\n  x\n}\nif true; then\n  run\nfi\nrun\n", [(1, 1, None), (3, 5, None), (6, 9, None)]),
    "a.sql": (
        "-- People\nCREATE TABLE IF NOT EXISTS users (\n  id int\n);\ncreate view v as\nselect 1;\n",
        [(1, 4, None), (5, 6, None)],
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_source_code_is_split_at_definitions(tmp_path, name):
    """Each definition is a Document with its lines and, in Python, its name, together with the comments above it. The
    lines between definitions are Documents without a name.
    """
    text, expected = SOURCES[name]
    (tmp_path / name).write_text(text, encoding="utf-8")
    documents = list(read_files(tmp_path))
    keys = ("start_line", "end_line", "section_heading")
    assert [tuple(map(document.metadata.get, keys)) for document in documents] == expected
    names = {(document.metadata["title"], document.metadata["source"]) for document in documents}
    assert names == {(name, f"{tmp_path.name}/{name}")}
    lines = text.splitlines()
    parts = ["\n".join(lines[first - 1 : last]) for first, last, _ in expected]
    assert [document.page_content for document in documents] == parts


def test_a_large_class_is_split_into_methods(tmp_path):
    """A class that does not fit into one chunk is divided into its head and its methods; a small one is not."""
    methods = "".join(f"\n    def step_{n}(self):\n        return '{'x' * 400}'\n" for n in range(3))
    source = f'class Job:\n    """A job."""\n{methods}\n\nclass Small:\n    def run(self):\n        pass\n'
    write(tmp_path, a_DOT_py=source)
    headings = [document.metadata["section_heading"] for document in read_files(tmp_path)]
    assert headings == ["Job", "Job.step_0", "Job.step_1", "Job.step_2", "Small"]


def test_a_large_class_in_a_namespace_is_split_into_methods(tmp_path):
    """In a language that is not parsed, the methods of a large class are found by their indentation."""
    body = "".join(f"\n            int n{n} = {n};\n" for n in range(30))
    method = f"\n        // Adds up.\n        int Total(\n            int a)\n        {{{body}        }}\n"
    write(tmp_path, a_DOT_cs=f"namespace Acme\n{{\n    class Bill\n    {{\n        int x;\n{method * 2}    }}\n}}\n")
    first_lines = [document.page_content.split("\n")[0] for document in read_files(tmp_path)]
    assert first_lines == ["namespace Acme", "    class Bill", "        // Adds up.", "        // Adds up."]


def test_chunks_of_a_long_function_have_their_own_lines(tmp_path):
    """A function that is larger than a chunk is cut at line ends, and each chunk has the numbers of its lines."""
    body = "\n".join(f"    value_{n} = compute_the_value({n})  # no. {n}. Next" for n in range(100))
    path = tmp_path / "long.py"
    path.write_text(f"import a\n\n\ndef long_function():\n{body}\n", encoding="utf-8")
    store = HybridGraphStore(None, "lsa")
    ingest(read_files(path), store)
    hits = HybridRetriever(store, k=20).retrieve("compute_the_value").hits
    assert len(hits) > 2
    lines = path.read_text(encoding="utf-8").split("\n")
    for hit in hits:
        about = hit.chunk.metadata
        assert hit.chunk.text == "\n".join(lines[about["start_line"] - 1 : about["end_line"]])


def test_an_empty_source_file_is_a_document(tmp_path):
    """An empty module is not left out; every ingest reports it as a document without text."""
    write(tmp_path, empty_DOT_py="", a_DOT_py="x = 1\n")
    store = HybridGraphStore(None, "lsa")
    for _ in range(2):
        report = ingest(read_files(tmp_path), store)
        assert (report.documents, report.skipped, len(report.warnings)) == (2, {}, 1)


def test_a_log_is_cut_at_lines(tmp_path):
    """A log is plain text: "#" is not a heading, and its chunks are complete lines with their numbers."""
    write(tmp_path, app_DOT_log="".join(f"# 12:00:{n} Job {n} done. Next job\n" for n in range(100)))
    store = HybridGraphStore(None, "lsa")
    ingest(read_files(tmp_path), store)
    hit = HybridRetriever(store, k=1).retrieve("12:00:77").hits[0]
    assert hit.chunk.metadata["start_line"] <= 78 <= hit.chunk.metadata["end_line"]
    assert hit.chunk.text.startswith("# 12:00:")
    assert "section_heading" not in hit.chunk.metadata


@pytest.mark.parametrize(("name", "separator"), [("a.csv", ","), ("a.csv", ";"), ("a.tsv", "\t")])
def test_rows_have_the_names_of_their_columns(tmp_path, name, separator):
    """Each row of a CSV file is a Document with the names of its columns, and the number of its row."""
    rows = [["name", '"text, as, is"'], ["refund", '"Five days,\nat most"'], [], ["invoice", "", "extra"]]
    (tmp_path / name).write_text("\n".join(map(separator.join, rows)), encoding="utf-8")
    first, second = read_files(tmp_path)
    assert (first.page_content, first.metadata["row"]) == ("name: refund\ntext, as, is: Five days,\nat most", 2)
    assert (second.page_content, second.metadata["row"]) == ("name: invoice\ncolumn 3: extra", 4)


@pytest.mark.parametrize(("text", "row"), [("sep=;\na;b,\n1;2", "a: 1\nb,: 2"), ("a\n1, 2", "a: 1, 2")])
def test_the_header_has_the_separator(tmp_path, text, row):
    """The separator of columns is declared, or occurs in the header; otherwise there is one column."""
    assert [document.page_content for document in read_files(write(tmp_path, a_DOT_csv=text))] == [row]


def test_files_that_match_a_pattern_are_read_as_text(tmp_path):
    """Files that match ``as_text`` are plain text, whatever their suffix; other files are not affected."""
    write(tmp_path, Makefile="all:", etc__a_DOT_ini="[a]", more__b_DOT_ini="[b]", c_DOT_html="<p>c", d_DOT_html="d")
    documents = read_files(tmp_path, as_text=["Makefile", "etc/*.ini", "c.html"], skipped=lambda message: None)
    assert [document.page_content for document in documents] == ["all:", "<p>c", "d", "[a]"]
    assert documents.passed_over == {".ini": 1}


def test_another_pattern_reads_the_files_again(tmp_path):
    """A file that was ingested before is read again if ``as_text`` now matches it."""
    write(tmp_path, docs__a_DOT_html="<p>Cats</p>")
    store = HybridGraphStore(tmp_path / "index", "lsa")
    assert ingest(read_files(tmp_path / "docs"), store).added == 1
    ingest(read_files(tmp_path / "docs", as_text="*.html"), store)
    assert HybridRetriever(store, k=1).invoke("Cats")[0].page_content == "<p>Cats</p>"
    store.close()


@pytest.mark.parametrize("pattern", ["", 5, ["*.conf", None], "/"])
def test_an_invalid_pattern_is_refused(tmp_path, pattern):
    """Anything but patterns is refused, and the error shows the argument and examples."""
    with pytest.raises(
        ConfigurationError, match=r"as_text must be a pattern or a list of patterns, got .*end of a path.*Makefile"
    ):
        read_files(tmp_path, as_text=pattern)


def test_a_pattern_without_a_file_is_reported(tmp_path):
    """A pattern that matches no file is named in a message."""
    messages = []
    list(read_files(write(tmp_path, a_DOT_md="a"), as_text="*.cnf", skipped=messages.append))
    assert [message for message in messages if message.startswith('no file matches as_text="*.cnf"')] == messages != []


def test_a_folder_in_which_nothing_was_read(tmp_path):
    """A folder without files to read is reported with its contents; alone, it is an error."""
    write(tmp_path, good__a_DOT_md="a", settings__a_DOT_toml="a = 1")
    reason = r"found 1 \.toml; folders are searched for text.*as_text=\"\*\.conf\""
    documents = read_files([tmp_path / "good", tmp_path / "settings"], skipped=lambda text: None)
    assert len(list(documents)) == 1
    assert re.match(reason, documents.unread[str(tmp_path / "settings")])
    with pytest.raises(FileError, match=rf"nothing was read in \S*settings: \S*settings: {reason}"):
        list(read_files(tmp_path / "settings", skipped=lambda text: None))


def test_installed_packages_are_not_read(tmp_path):
    """node_modules and virtual environments are reported and left out, unless their own paths are passed."""
    write(tmp_path, a_DOT_py="x = 1", node_modules__b_DOT_js="y = 1", env__pyvenv_DOT_cfg="", env__c_DOT_py="z = 1")
    documents = read_files(tmp_path, skipped=lambda message: None)
    assert [document.page_content for document in documents] == ["x = 1"]
    assert list(documents.unread) == [str(tmp_path / "env"), str(tmp_path / "node_modules")]
    assert [document.page_content for document in read_files(tmp_path / "node_modules")] == ["y = 1"]


def test_no_line_is_lost(tmp_path):
    """The Documents of this package's own source files contain every line that is not blank, in order."""
    import langchain_hybridgraph.ingestion as package

    documents = list(read_files(package.__path__[0]))
    assert len({document.metadata["source"] for document in documents}) > 10
    lines = {}
    for document in documents:
        lines.setdefault(document.metadata["source"], []).extend(document.page_content.split("\n"))
    for source, read in lines.items():
        with open(f"{package.__path__[0]}/../{source}", encoding="utf-8") as file:
            assert [line for line in read if line.strip()] == [line for line in file.read().split("\n") if line.strip()]


def test_hostile_source_code_is_read_or_reported(tmp_path):
    """Deep nesting, endless lines and binary data are read or reported, and do not stop the other files."""
    write(tmp_path, deep_DOT_py="(" * 100_000, long_DOT_js="const a = (" * 100_000, fine_DOT_py="def fine(): pass\n")
    (tmp_path / "video.ts").write_bytes(b"\x47\x00\x01" * 100)
    documents = read_files(tmp_path, skipped=lambda message: None)
    sources = {document.metadata["source"].rpartition("/")[2] for document in documents}
    assert (sources, list(documents.unread)) == ({"deep.py", "long.js", "fine.py"}, [str(tmp_path / "video.ts")])


def test_the_command_line_reads_patterns(tmp_path):
    """``--as-text`` can be repeated."""
    from tests.cli.commands import answer

    write(tmp_path, docs__a_DOT_conf="colour = red", docs__b_DOT_ini="size = big")
    options = ["--index", tmp_path / "index", "--embedding", "lsa", "--as-text", "*.conf", "--as-text", "*.ini"]
    assert answer("ingest", tmp_path / "docs", *options)["documents"] == 2


# -- Python's own documentation ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def docs():
    return {document.id: document for document in read_python_docs()}


def test_reading_again_gives_the_same_and_imports_nothing(docs):
    """Thousands of Documents of four kinds are the same in a second reading, which imports only built-in modules."""
    assert len(docs) > 4_000
    kinds = {kind for document in docs.values() for kind in document.metadata["labels"]}
    assert kinds == {"module", "class", "function", "method"}
    before = set(sys.modules)
    again = {document.id: document for document in read_python_docs()}
    assert set(sys.modules) - before <= set(sys.builtin_module_names)
    assert list(again) == list(docs)
    assert again == docs


def test_a_small_library(monkeypatch, tmp_path):
    """Classes, methods, links in code, and files that cannot be parsed are handled in a small library."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text('"""The shop."""')
    (tmp_path / "shop" / "carts.py").write_text(
        'class Cart(dict):\n    """Holds things; use `pay` or shop.missing() then."""\n'
        '    def full(self):\n        """Whether it is full."""\n'
        '    def _hide(self):\n        """No."""\n    def undocumented(self): pass\n'
        'def pay(sum, *, tip=0):\n    """Pay for a Cart."""\n'
    )
    (tmp_path / "broken.py").write_text("def (:\n")
    (tmp_path / "_private.py").write_text('"""Private."""')
    monkeypatch.setattr(python_docs.sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    monkeypatch.setattr(python_docs.sys, "builtin_module_names", ())
    documents = {document.metadata["title"]: document for document in read_python_docs()}
    assert list(documents) == ["shop", "shop.carts.Cart", "shop.carts.Cart.full", "shop.carts.pay"]
    assert documents["shop.carts.pay"].page_content == "shop.carts.pay(sum, *, tip=0)\n\nPay for a Cart."
    assert documents["shop.carts.Cart"].page_content.startswith("class shop.carts.Cart(dict)\n\nHolds things")
    assert documents["shop.carts.Cart"].metadata["links"] == ["python://shop/carts/pay"]
