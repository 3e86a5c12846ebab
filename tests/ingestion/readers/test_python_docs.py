import ast
import inspect
import sys
from pathlib import Path

import pytest

from langchain_hybridgraph.ingestion.readers import python_docs
from langchain_hybridgraph.ingestion.readers.python_docs import read_python_docs


@pytest.fixture(scope="module")
def docs():
    return {document.id: document for document in read_python_docs()}


def doc(docs, path):
    return docs[f"python://{path}"]


def test_thousands_of_documents(docs):
    """There are thousands of Documents for modules, classes, functions, methods and topics, with distinct ids."""
    kinds = [document.metadata["labels"] for document in docs.values()]
    assert len(docs) > 4_000
    assert {kind for (kind,) in kinds} == {"module", "class", "function", "method", "topic"}


def test_titles_are_the_names_that_are_used(docs):
    """Titles are the public names, such as asyncio.Queue.put; those of built-in types have no module."""
    titles = {
        path: doc(docs, path).metadata["title"] for path in ("asyncio/queues/Queue/put", "builtins/str/join", "json")
    }
    assert list(titles.values()) == ["asyncio.Queue.put", "str.join", "json"]


def test_signature_and_docstring_are_the_text(docs):
    """The text of an item is its signature and its docstring as inspect.getdoc returns it."""
    import asyncio

    text = doc(docs, "asyncio/queues/Queue/put").page_content
    assert text == f"async asyncio.Queue.put(item)\n\n{inspect.getdoc(asyncio.Queue.put)}"
    assert doc(docs, "asyncio/queues/Queue").page_content.startswith("class asyncio.Queue(maxsize=0")


def test_docstrings_are_those_of_the_modules(docs):
    """Docstrings read from the source files equal those of the imported modules."""
    import collections
    import os
    import shutil
    import textwrap

    for path, thing in {
        "textwrap/wrap": textwrap.wrap,
        "shutil/copyfile": shutil.copyfile,
        "collections/OrderedDict/move_to_end": collections.OrderedDict.move_to_end,
        "os/listdir": os.listdir,
        "builtins/len": len,
        "collections/abc/Mapping": collections.abc.Mapping,
    }.items():
        assert inspect.cleandoc(thing.__doc__) in doc(docs, path).page_content


def test_sources_are_files_of_the_library(docs):
    """The source of an item is the path of its file, relative to the library."""
    document = doc(docs, "json/decoder/JSONDecoder/decode")
    assert document.metadata["source"] == "json/decoder.py"
    tree = ast.parse((Path(ast.__file__).parent / "json/decoder.py").read_text())
    assert any(isinstance(node, ast.FunctionDef) and node.name == "decode" for node in ast.walk(tree))


def test_private_and_undocumented_items_are_left_out(docs):
    """No name of an item starts with an underscore, and every item has a documentation text."""
    assert len(docs) > 2_000
    for id, document in docs.items():
        parts = id.removeprefix("python://").split("/")
        assert not any(part.startswith("_") and part != "__future__" for part in parts), id
        assert document.page_content.partition("\n\n")[2].strip(), id


def test_no_tests_are_read(docs):
    """Tests, IDLE and modules that implement other modules are left out."""
    tops = {id.removeprefix("python://").split("/")[0] for id in docs}
    assert tops.isdisjoint({"test", "idlelib", "posix", "genericpath", "lib2to3", "encodings"})


def test_links_lead_to_documents(docs):
    """Every link is the uri of another Document that is neither above nor below its own."""
    links = [(id, link) for id, document in docs.items() for link in document.metadata["links"]]
    assert len(links) > 2_000
    assert all(link in docs for _, link in links)
    assert not any(f"{link}/".startswith(f"{id}/") or f"{id}/".startswith(f"{link}/") for id, link in links)


def test_links_are_real_references(docs):
    """Base classes and imports are links."""
    assert "python://asyncio/queues/Queue" in doc(docs, "asyncio/queues/PriorityQueue").metadata["links"]
    assert "python://pickle" in doc(docs, "json").metadata["links"]
    assert (
        "python://collections/abc" in doc(docs, "statistics").metadata["links"]
        or "python://collections" in doc(docs, "statistics").metadata["links"]
    )


def test_reading_again_gives_the_same_and_imports_nothing(docs):
    """A second reading gives the same Documents in the same order and imports only built-in modules."""
    before = set(sys.modules)
    again = {document.id: document for document in read_python_docs()}
    assert set(sys.modules) - before <= set(sys.builtin_module_names)
    assert list(again) == list(docs)
    assert again == docs


def test_earlier_imports_have_no_effect(monkeypatch):
    """A class that the interpreter stores in sys is not documented as a part of sys."""
    monkeypatch.setattr(sys, "last_type", ValueError, raising=False)
    assert "last_type" not in python_docs._built_in("sys").items


def test_a_library_without_sources(monkeypatch, tmp_path):
    """Built-in modules are documented even if the source files are missing."""
    monkeypatch.setattr(python_docs.sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path / "gone")})
    ids = {document.id for document in read_python_docs()}
    assert "python://builtins/len" in ids
    assert "python://json" not in ids


def test_a_small_library(monkeypatch, tmp_path):
    """Re-exports, private modules, first definitions, properties and broken files are handled in a small library."""
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text('"""The shop."""\nfrom .carts import *\nfrom shop.till import pay as pay\n')
    (package / "carts.py").write_text(
        '"""Carts. See pay()."""\nimport broken\nfrom shop.till import pay\n__all__ = ["Cart"]\n'
        'class Cart(dict):\n    """Holds things; use `pay` then."""\n    def __init__(self, size=1): pass\n'
        '    @property\n    def full(self):\n        """Whether it is full."""\n'
        '    def _hide(self):\n        """No."""\n    def undocumented(self): pass\n'
        'def helper():\n    """Not published."""\n'
    )
    (tmp_path / "kiosk.py").write_text(
        'from _till import close\ndef close():\n    """Close the kiosk."""\nfrom _till import lock as bolt, lock\n'
    )
    (tmp_path / "open.py").write_text(
        '__all__ = ["first"]\n__all__ += other()\ndef first():\n    """One."""\ndef second():\n    """Two."""\n'
    )
    (package / "till.py").write_text(
        "try:\n    from _till import *\nexcept ImportError:\n    pass\n"
        'if True:\n    async def pay(sum: int, *, tip=0) -> bool:\n        """Pay."""\n'
        'else:\n    def pay(sum):\n        """Other."""\n'
    )
    (tmp_path / "_till.py").write_text(
        'def close():\n    """Close the till."""\ndef _no():\n    """No."""\ndef lock():\n    """Lock."""\n'
        'def other():\n    """Other."""\n__all__ = ["close", "_no"]\n'
    )
    (tmp_path / "broken.py").write_text("def (:\n")
    monkeypatch.setattr(python_docs.sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    monkeypatch.setattr(python_docs.sys, "builtin_module_names", ())
    documents = {d.id.removeprefix("python://"): d for d in read_python_docs()}
    assert [id for id in documents if id.startswith("kiosk")] == ["kiosk/close", "kiosk/lock"]
    assert documents["kiosk/close"].page_content == "kiosk.close()\n\nClose the kiosk."
    assert [id for id in documents if id.startswith("open")] == ["open/first", "open/second"]
    documents = {id: document for id, document in documents.items() if id.startswith("shop")}
    assert list(documents) == [
        "shop",
        "shop/carts",
        "shop/carts/Cart",
        "shop/carts/Cart/full",
        "shop/till/pay",
        "shop/till/close",
    ]
    assert [d.metadata["title"] for d in documents.values()] == [
        "shop", "shop.carts", "shop.Cart", "shop.Cart.full", "shop.pay", "shop.till.close",
    ]  # fmt: skip
    assert (
        documents["shop/carts/Cart"].page_content
        == "class shop.Cart(size=1)\nBases: dict\n\nHolds things; use `pay` then."
    )
    assert documents["shop/carts/Cart/full"].page_content == "shop.Cart.full\n\nWhether it is full."
    assert documents["shop/till/pay"].page_content == "async shop.pay(sum: int, *, tip=0) -> bool\n\nPay."
    assert documents["shop/till/close"].metadata["source"] == "shop/till.py"
    assert documents["shop/carts/Cart"].metadata["links"] == ["python://shop/till/pay"]
    assert documents["shop/carts"].metadata["links"] == ["python://shop/till/pay"]
