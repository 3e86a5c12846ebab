import sys

import pytest

from langchain_hybridgraph.ingestion import code
from langchain_hybridgraph.ingestion.code import read_python_docs


@pytest.fixture(scope="module")
def docs():
    return {document.id: document for document in read_python_docs()}


def doc(docs, path):
    return docs[f"python://{path}"]


def test_thousands_of_documents(docs):
    """There are thousands of Documents for modules, classes, functions and methods, with distinct ids."""
    kinds = [document.metadata["labels"] for document in docs.values()]
    assert len(docs) > 4_000
    assert {kind for (kind,) in kinds} == {"module", "class", "function", "method"}


def test_reading_again_gives_the_same_and_imports_nothing(docs):
    """A second reading gives the same Documents in the same order and imports only built-in modules."""
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
    monkeypatch.setattr(code.sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    monkeypatch.setattr(code.sys, "builtin_module_names", ())
    documents = {document.metadata["title"]: document for document in read_python_docs()}
    assert list(documents) == ["shop", "shop.carts.Cart", "shop.carts.Cart.full", "shop.carts.pay"]
    assert documents["shop.carts.pay"].page_content == "shop.carts.pay(sum, *, tip=0)\n\nPay for a Cart."
    assert documents["shop.carts.Cart"].page_content.startswith("class shop.carts.Cart(dict)\n\nHolds things")
    assert documents["shop.carts.Cart"].metadata["links"] == ["python://shop/carts/pay"]
