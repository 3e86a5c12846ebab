import inspect
import json
import os
import re
import sys
import threading
from functools import partial

import pytest

from langchain_hybridgraph import HybridGraphStore, ingest
from langchain_hybridgraph.ingestion.files import FileError, read_files
from tests.support.samples.files import write


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return partial(write, tmp_path)


def rows(*values):
    return "\n".join(value if isinstance(value, str) else json.dumps(value) for value in values)


def sources(*paths, **options):
    return [document.metadata["source"] for document in read_files(paths, **options)]


def one(path):
    (document,) = read_files([path])
    return document


def test_files_are_read_in_the_order_of_their_names(folder):
    """Files of a folder are read in the order of their names, and unknown suffixes are left out."""
    names = ("docs__b_DOT_md", "docs__a__z_DOT_txt", "docs__a__c_DOT_html", "docs__x_DOT_png", "docs__y_DOT_yz")
    folder(**dict.fromkeys(names, "text"))
    assert sources("docs") == ["docs/a/c.html", "docs/a/z.txt", "docs/b.md"]


def test_hidden_files_are_skipped(folder):
    """Hidden files in a folder are not read, but one can be passed by its path."""
    folder(docs__a_DOT_md="a", docs___DOT_git__b_DOT_md="b", docs___DOT_c_DOT_md="c")
    assert sources("docs") == ["docs/a.md"]
    assert sources("docs/.c.md") == ["docs/.c.md"]


def test_an_index_inside_a_folder_is_left_out(folder):
    """The files of an index inside a folder are neither read nor reported as skipped."""
    folder(docs__a_DOT_md="a")
    HybridGraphStore.from_texts(["Cats purr."], "lsa", path="docs/notes.hybridgraph").close()
    messages = []
    assert sources("docs", skipped=messages.append) == ["docs/a.md"]
    assert messages == []


def test_an_index_passed_by_its_path_is_reported(folder):
    """If the folder to read is an index, it is reported as unread with the reason."""
    HybridGraphStore.from_texts(["Cats purr."], "lsa", path="idx").close()
    folder(idx__note_DOT_md="a")
    messages = []
    documents = read_files("idx", skipped=messages.append)
    reason = "this folder is an index; pass the folder of the documents"
    with pytest.raises(FileError, match=re.escape(f"nothing was read in idx: idx: {reason}")):
        list(documents)
    assert (documents.unread, messages) == ({"idx": reason}, [f"skipped idx: {reason}"])


def test_the_source_is_a_relative_path(folder):
    """The source of a file is the same for all relative paths; for an absolute path it starts at the last folder."""
    root = folder(docs__sub__a_DOT_md="a")
    for path in ("docs", "./docs/", "docs/sub/a.md", ".", root / "docs", f"../{root.name}/docs"):
        assert sources(path) == ["docs/sub/a.md"]
    assert sources(root / "docs" / "sub" / "a.md") == ["a.md"]


def test_two_files_of_one_source(folder):
    """Two files with the same source raise FileError; a file that is passed twice is read once."""
    root = folder(x__docs__a_DOT_md="one", y__docs__a_DOT_md="two")
    with pytest.raises(FileError, match=r"would both have the source 'docs/a\.md'"):
        sources(root / "x" / "docs", root / "y" / "docs")
    assert sources("x", "x/docs/a.md", "x") == ["x/docs/a.md"]


def test_each_folder_is_visited_once(folder, monkeypatch):
    """Folders that link to each other are each read once, under their real paths."""
    visited_folders = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: visited_folders.append(path) or scandir(path))
    root = folder(**{f"docs__{n}__a_DOT_md": "a" for n in range(8)})
    for one in range(8):
        for other in range(8):
            (root / f"docs/{one}/{other}").symlink_to(root / f"docs/{other}")
    assert sources("docs") == sources("docs", follow_links=True) == [f"docs/{n}/a.md" for n in range(8)]
    assert len(visited_folders) == 2 * 9


def test_deeply_nested_folders_are_read(folder):
    """Folders may be nested more deeply than Python's recursion limit."""
    folder(**{f"{'d__' * 150}a_DOT_md": "deep"})
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        assert sources(".") == [f"{'d/' * 150}a.md"]
    finally:
        sys.setrecursionlimit(limit)


def test_links_out_of_the_folder_are_reported(folder):
    """Links out of a folder are followed only on request; links inside it are always followed, even to hidden files."""
    names = ("docs__a_DOT_md", "docs___DOT_data__b_DOT_md", "docs___DOT_more__d_DOT_md", "out__c_DOT_md", "e_DOT_md")
    root = folder(**dict.fromkeys(names, "text"))
    links = {"b.md": ".data/b.md", "more": ".more", "out": "../out", "e.md": "../e.md", "z.png": "/"}
    for name, target in links.items():
        (root / "docs" / name).symlink_to(target)
    messages = []
    inside = ["docs/a.md", "docs/b.md", "docs/more/d.md"]
    assert sources("docs", skipped=messages.append) == inside
    out = {"docs/e.md": root.resolve() / "e.md", "docs/out": root.resolve() / "out", "docs/z.png": "/"}
    assert messages == [
        f"skipped {link}: this link points outside the folder, to {target}; pass follow_links=True to follow it"
        for link, target in out.items()
    ]
    documents = read_files("docs", skipped=messages.append)
    assert len(list(documents)) == 3
    assert (list(documents.unread), documents.passed_over) == (list(out), {".md": 1})
    (root / "docs" / "z.png").unlink()
    assert sorted(sources("docs", follow_links=True)) == sorted([*inside, "docs/e.md", "docs/out/c.md"])


def test_only_regular_files_are_read(folder):
    """A pipe or device in a folder is skipped with a message; passing only its path is an error."""
    root = folder(docs__a_DOT_md="a")
    os.mkfifo(root / "docs" / "pipe.txt")
    (root / "docs" / "zero.txt").symlink_to("/dev/zero")
    messages = []
    assert sources("docs", skipped=messages.append, follow_links=True) == ["docs/a.md"]
    assert [each.partition(":")[0] for each in messages] == ["skipped docs/pipe.txt", "skipped docs/zero.txt"]
    assert all("not a regular file" in each for each in messages)
    with pytest.raises(FileError, match=r"zero\.txt: this is not a regular file"):
        sources("docs/zero.txt")


def test_a_pipe_passed_by_its_path_is_read(folder):
    """A pipe that is passed by its path, such as a shell's ``<(command)``, is read."""
    root = folder(docs__a_DOT_md="a")
    os.mkfifo(root / "pipe.txt")
    writer = threading.Thread(target=lambda: (root / "pipe.txt").write_text("piped"))
    writer.start()
    assert one("pipe.txt").page_content == "piped"
    writer.join()


def test_a_broken_link_is_skipped(folder):
    """Every ingest reports a broken link, and the other files are ingested."""
    root = folder(docs__a_DOT_md="They purr.")
    (root / "docs" / "lost.txt").symlink_to(root / "missing.txt")
    with HybridGraphStore(None) as store:
        for _ in range(2):
            with pytest.warns(UserWarning, match="lost.txt"):
                report = ingest(read_files("docs"), store)
            assert report.warnings == ("skipped docs/lost.txt: it cannot be read: No such file or directory",)
        assert len(store) == 1


def test_files_have_title_and_uri(folder):
    """The title of a file is its first heading, its HTML title, or its name."""
    folder(a_DOT_md="# Guide\n\nx", b_DOT_html="<title>Page</title>x", c_DOT_rst="Rest\n====\n\nx", d_DOT_txt="x")
    titles = [(document.metadata["title"], document.metadata["uri"]) for document in read_files(".")]
    assert titles == [("Guide", "a.md"), ("Page", "b.html"), ("Rest", "c.rst"), ("d", "d.txt")]


def test_front_matter_is_metadata(folder):
    """Plain fields of front matter become metadata and are removed from the text; nested fields, and integers that JSON
    cannot contain, are ignored.
    """
    fields = "title: 'My notes'\ntags: [x, \"y\"]\nlabels:\n  - one\n  - two\ndate: 2024-01-02\nnested: {a: 1}"
    fields += f"\nsize: 0x{'F' * 9_000}"
    folder(a_DOT_md=f"---\n{fields}\n---\n# H\ntext")
    document = one("a.md")
    assert document.page_content == "# H\ntext"
    assert document.metadata == {
        "title": "My notes",
        "tags": ["x", "y"],
        "labels": ["one", "two"],
        "date": "2024-01-02",
        "source": "a.md",
        "uri": "a.md",
    }


def test_ids_of_headings_are_removed(folder):
    """Ids that equal their heading are removed from the text; others, and those in code, are not."""
    source = "# Use `it` { #use-it }\r\n\r\nx\n\n```\n# Run { #run }\n```\n\n## Recap {#more}\n\n> ### End {#end}"
    folder(a_DOT_md=source)
    text = "# Use `it`\r\n\r\nx\n\n```\n# Run { #run }\n```\n\n## Recap {#more}\n\n> ### End"
    assert one("a.md").page_content == text


def test_rows_of_json_lines(folder):
    """Each line of a JSON Lines file is a Document; keys other than the id and the text become metadata."""
    folder(
        a_DOT_jsonl=rows(
            {"id": "x/1", "text": "one", "metadata": {"year": 1}, "tag": "t"},
            "",
            {"id": 7, "page_content": "two", "title": None},
            {"content": "three", "source": "mine"},
        )
    )
    documents = list(read_files("a.jsonl"))
    assert [(d.id, d.page_content) for d in documents] == [("x/1", "one"), ("7", "two"), (None, "three")]
    assert [d.metadata for d in documents] == [
        {"source": "a.jsonl", "tag": "t", "year": 1},
        {"source": "a.jsonl", "title": None},
        {"source": "mine", "document_id": "a.jsonl:4"},
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{broken", r"a\.jsonl: line 2: this line is not JSON"),
        ("[1]", r"a\.jsonl: line 2: this line is not a JSON object"),
        ('{"title": "x"}', r'a\.jsonl: line 2: the text is missing; put it in the field "text" \(fields: title\)'),
        ('{"text": "x", "metadata": 1}', r"a\.jsonl: line 2: metadata must be an object, got 1"),
        ("[" * 100_000, r"a\.jsonl: line 2: this line is not JSON"),
        (
            '{"text": "x", "metadata": {"a": ' + "[" * 101 + "]" * 101 + "}}",
            r"a\.jsonl: line 2: the metadata is nested more than 100 levels deep; flatten it",
        ),
        ('{"text": "x", "id": ""}', r"a\.jsonl: line 2: the id is empty; change it, or leave it out"),
        ('{"text":"x","source":"\\u0000"}', r"a.jsonl: line 2: the source '\\x00' contains a NUL character; remove it"),
    ],
)
def test_a_bad_line_is_named(folder, line, message):
    """An invalid line raises FileError with the file and the line number, after the Documents before it."""
    folder(docs__a_DOT_jsonl=rows({"text": "good"}, line))
    documents = read_files("docs/a.jsonl")
    assert next(documents).page_content == "good"
    with pytest.raises(FileError, match=message):
        next(documents)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("é€".encode("utf-8-sig"), "é€"),
        ("é€".encode("utf-16"), "é€"),
        ("naïve café – with more text".encode("cp1252"), "naïve café – with more text"),
        ("ä é ö".encode() + b"\xff \xc3", "ä é ö\ufffd \ufffd"),
        (b"\xef\xbb\xbfcaf\xe9", "café"),
        (b"", ""),
    ],
)
def test_encodings(folder, content, expected):
    """UTF-8, also with damaged bytes, encodings with a byte order mark, and cp1252 are read."""
    folder(a_DOT_txt=content)
    assert one("a.txt").page_content == expected


@pytest.mark.parametrize(
    "page", ["latin2 latin2 łó", "Latin1 cp1252 “€”", "gb2312 gbk 镕", "x-sjis cp932 ㈱髙", "utf-8 cp1252 é"]
)
def test_html_is_read_in_its_declared_encoding(folder, page):
    """An HTML page is read in its declared encoding as browsers do, also with damaged bytes."""
    declared, encoding, text = page.split()
    folder(a_DOT_html=f'<meta charset="{declared}"><p>{text}'.encode(encoding))
    assert one("a.html").page_content == text


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.txt", b"\xff\xd8\xff\xe0 abc \xfe\xfa", "this is not text; convert it"),  # not UTF-8, and hardly any ASCII
        ("a.txt", b"\xff\xfea", "it begins like utf-16 but is not valid in this encoding"),
        ("a.csv", "name,price\n", "it has no row with text below the column names$"),
        ("a.html", b'<meta charset="koi8-nonsense"><p>\xff\xfe\xfd', "declared encoding koi8-nonsense"),
        ("a.html", b'<meta charset="undefined"><p>\xff\xfe\xfd', "declared encoding undefined"),  # it always fails
    ],
)
def test_a_file_that_is_not_text_is_refused_with_the_reason(folder, name, content, reason):
    """The error names the file and says why its bytes are not text, or that it has no text."""
    folder(**{name: content})
    with pytest.raises(FileError, match=rf"{re.escape(name)}: .*{reason}"):
        one(name)


def test_missing_files_are_errors(folder):
    """A path that does not exist raises FileError."""
    folder(docs__a_DOT_md="a")
    with pytest.raises(FileError, match="gone: there is no such file or folder"):
        sources("gone")
    with pytest.raises(FileError, match=r"write read_files\(glob.glob\('docs/\*.md'\)\)"):
        sources("docs/*.md")


def test_a_named_file_of_any_suffix_is_text(folder):
    """A file that is passed by its path is read as text if its suffix is unknown."""
    folder(Makefile="all: it", a_DOT_py="# no heading\nx = 1")
    assert [d.page_content for d in read_files(["Makefile", "a.py"])] == ["all: it", "# no heading\nx = 1"]
