"""Readers of PDF and Office files: texts, locations, and unreadable files."""

import zipfile

import docx
import openpyxl
import pptx
import pypdf
import pytest
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.ingestion import FileError, bounded, ingest, read_files
from langchain_hybridgraph.ingestion.bounded import BoundedReader
from tests.support.samples.files import write


def write_pdf(path, pages, *, password=None, bookmarks=()):
    """Write a PDF with a line of text on each page; an empty string makes an empty page."""
    writer = pypdf.PdfWriter()
    names = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    font = DictionaryObject({NameObject(key): NameObject(value) for key, value in names.items()})
    for text in pages:
        page = writer.add_blank_page(300, 300)
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
    for title, page in bookmarks:
        writer.add_outline_item(title=title, page_number=page)
    writer.add_metadata({"/Title": "Annual report"})
    if password is not None:
        writer.encrypt(user_password=password, owner_password="owner", algorithm="RC4-128")
    writer.write(path)


# A table of contents, and changed text in a content control.
WRAPPED = f"""<w:sdt {docx.oxml.ns.nsdecls("w")}><w:sdtPr/><w:sdtContent>
    <w:p><w:pPr><w:pStyle w:val="TOCHeading"/></w:pPr><w:r><w:t>Contents</w:t></w:r></w:p>
    <w:p><w:r><w:t>After</w:t></w:r><w:del><w:r><w:delText> a</w:delText></w:r></w:del>
    <w:hyperlink><w:ins><w:r><w:t> the table.</w:t></w:r></w:ins></w:hyperlink></w:p></w:sdtContent></w:sdt>"""


def write_docx(path):
    document = docx.Document()
    document.core_properties.title = "Manual"
    document.add_heading("Pumps", 1)
    document.add_paragraph("A pump moves water.")
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip(table._cells, ("Part", "Price", "valve", "3|4"), strict=True):
        cell.text = text
    document.element.body[-1].addprevious(docx.oxml.parse_xml(WRAPPED))
    document.save(path)


def write_pptx(path):
    presentation = pptx.Presentation()
    presentation.slides.add_slide(presentation.slide_layouts[6])
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    slide.shapes.title.text = "Results"
    slide.placeholders[1].text = "Sales rose."
    slide.notes_slide.notes_text_frame.text = "Say it slowly."
    presentation.save(path)


def write_xlsx(path):
    book = openpyxl.Workbook()
    book.active.title = "Stock"
    book.active.calculate_dimension = lambda: "A1"  # as other programs write it
    book.active.append(["item", "count"])
    for number in range(1, 200):
        book.active.append([f"article number {number}", number])
    book.create_sheet("Empty")
    book.save(path)


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Return the Documents of one folder by file name, and the messages about skipped files."""
    folder = tmp_path_factory.mktemp("files") / "docs"
    folder.mkdir()
    write_pdf(folder / "report.pdf", ["One.", "", "Three."], bookmarks=[("Intro", 0), ("Figures", 2)])
    write_pdf(folder / "secret.pdf", ["One."], password="user")
    write_pdf(folder / "open.pdf", ["Protected against printing."], password="")
    write_pdf(folder / "scanned.pdf", ["", ""])
    (folder / "short.pdf").write_bytes((folder / "report.pdf").read_bytes()[:200])
    write_docx(folder / "manual.docx")
    (folder / "short.docx").write_bytes((folder / "manual.docx").read_bytes()[:2_000])
    (folder / "locked.docx").write_bytes(b"\xd0\xcf\x11\xe0" + bytes(600))
    (folder / "empty.pptx").touch()
    write_pptx(folder / "talk.pptx")
    write_xlsx(folder / "stock.xlsx")
    with zipfile.ZipFile(folder / "bomb.docx", "w") as bomb:
        for number in range(20_001):
            bomb.writestr(str(number), "")
    messages = []
    documents = {}
    for document in read_files(folder, skipped=messages.append):
        documents.setdefault(document.metadata["source"].removeprefix("docs/"), []).append(document)
    return documents, {line.split("docs/")[1].split(": ")[0]: line.split(": ", 1)[1] for line in messages}


def where(documents, *keys):
    return [tuple(document.metadata.get(key) for key in keys) for document in documents]


TABLE = "| Part | Price |\n| --- | --- |\n| valve | 3\\|4 |"
PARTS = {
    "report.pdf": [("One.", 1, None, "Intro", "Annual report"), ("Three.", 3, None, "Figures", "Annual report")],
    "manual.docx": [
        ("# Pumps\n\nA pump moves water.", None, None, None, "Manual"),
        (TABLE, None, 1, "Pumps", "Manual"),
        ("After the table.", None, None, "Pumps", "Manual"),
    ],
    "talk.pptx": [("## Results\n\nSales rose.\n\nSay it slowly.", 2, None, "Results", "talk")],
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_have_their_text_and_location(read, name):
    """Pages with text, tables and the text between them, and slides with notes are Documents with their locations."""
    documents, messages = read
    places = where(documents[name], "page", "table", "section_heading", "title")
    texts = [part.page_content.strip() for part in documents[name]]
    assert [(text, *place) for text, place in zip(texts, places, strict=True)] == PARTS[name]
    assert messages["report.pdf"] == "1 of its 3 pages, which have no text"


def test_rows_of_a_sheet(read):
    """Each row of a sheet is read with the names of its columns and its number."""
    rows = read[0]["stock.xlsx"]
    assert [row.page_content for row in rows] == [f"item: article number {n}\ncount: {n}" for n in range(1, 200)]
    assert where(rows, "sheet", "row") == [("Stock", n) for n in range(2, 201)]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("secret.pdf", "it is encrypted; save a copy without a password"),
        ("scanned.pdf", "it has no text; if its pages were scanned"),
        ("short.pdf", "it is damaged"),
        ("short.docx", "it is damaged"),
        ("locked.docx", "it is encrypted, or in an old format"),
        ("empty.pptx", "it is empty"),
        ("bomb.docx", "exceeds the limit"),
    ],
)
def test_unreadable_files_are_named(read, name, reason):
    """An unreadable file is skipped with the reason, and the other files are read."""
    documents, messages = read
    assert name not in documents
    assert reason in messages[name]
    assert documents["open.pdf"][0].page_content.strip() == "Protected against printing."


@pytest.mark.parametrize(
    ("limit", "value", "reason"),
    [
        ("MAX_PART_SECONDS", 0.0, "takes more than 0 s for a page"),
        ("MAX_BYTES", 10, "the limit is 0 MB"),
        ("MAX_CHARACTERS", 10, "its text has more than 10 characters, counting at least 200 for each row"),
    ],
)
def test_a_file_beyond_a_limit(tmp_path, monkeypatch, limit, value, reason):
    """A file that takes too long or is too large is not read, and the next one is."""
    (tmp_path / "a.csv").write_text("name\nfit of a line")
    reader = BoundedReader()
    monkeypatch.setattr(bounded, limit, value)
    with pytest.raises(bounded.UnreadableError, match=reason):
        reader.read(tmp_path / "a.csv", print)
    monkeypatch.undo()
    assert reader.read(tmp_path / "a.csv", print)[0].text.startswith("name: fit of")


def test_without_the_extra(tmp_path, monkeypatch):
    """Files whose library is missing are reported with the extra to install."""
    monkeypatch.syspath_prepend(write(tmp_path / "libraries", pypdf_DOT_py="raise ImportError"))
    docs = write(tmp_path / "docs", a_DOT_pdf="x", d_DOT_zip="x", e_DOT_csv="name\nfit of a line")
    report = ingest(read_files(docs, skipped=lambda message: None), HybridGraphStore(None))
    assert (report.documents, report.skipped) == (1, {".pdf": 1, ".zip": 1})
    extra = 'to read this kind of file, install the extra: pip install "langchain-hybridgraph[documents]"'
    assert report.unread == {str(docs / "a.pdf"): extra}
    with pytest.raises(FileError, match=r"a\.pdf: to read this kind of file, install the extra"):
        list(read_files(docs / "a.pdf"))


class Loader(BaseLoader):
    """Loader of two pages of one file, as LangChain's loaders of PDF files give them."""

    def lazy_load(self):
        for page in (0, 1):
            yield Document(f"Page {page}.", metadata={"source": "a.pdf", "page": page, "page_label": str(page + 1)})


def test_a_langchain_loader():
    """A LangChain loader can be ingested; its pages are parts of one document and keep their numbers."""
    store = HybridGraphStore(None, DeterministicFakeEmbedding(size=8))
    ingest(Loader(), store)
    chunks = store.get(sorted(store.document_chunks(["a.pdf"])["a.pdf"]))
    assert {(chunk.text, chunk.metadata["page"]) for chunk in chunks} == {("Page 0.", 0), ("Page 1.", 1)}
