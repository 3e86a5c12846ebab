"""Lists of Documents as tables in a notebook."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_hybridgraph.display.rows import is_ours
from langchain_hybridgraph.display.table import Table
from langchain_hybridgraph.errors import MissingExtraError
from langchain_hybridgraph.records import RetrievalResult


def show(found: RetrievalResult[Any] | Iterable[Any], query: str | None = None, **options: Any) -> None:
    """Show an answer here and now: what a cell that ends in it would show, from anywhere in the cell.

    ``options`` are those of :class:`Table`. In a plain interpreter the table is one of words. Raises MissingExtraError
    without IPython.
    """
    _ipython().display.display(Table(found, query, **options))


def show_lists(on: bool = True) -> bool:
    """Have every cell that ends in a list of Documents from a retriever of ours show it as a table.

    ``invoke`` gives a plain list, so this is a setting of the notebook's IPython, made by this call alone; ``on=False``
    takes it back. Lists of anything else are shown as before. False where no IPython is running, which is no mistake in
    code that also runs elsewhere. Raises MissingExtraError without IPython.
    """
    shell = _ipython().get_ipython()
    if shell is None:
        return False
    formatter = shell.display_formatter.formatters["text/html"]
    before = formatter.type_printers.get(list)
    if isinstance(before, _Lists):
        before = before.others
    if on:
        formatter.for_type(list, _Lists(before))
    elif before is not None:
        formatter.for_type(list, before)
    else:
        formatter.type_printers.pop(list, None)
    return True


class _Lists:
    """How a list is shown; None is what IPython takes for: not as HTML."""

    def __init__(self, others: Any) -> None:
        self.others = others

    def __call__(self, found: list[Any]) -> str | None:
        if is_ours(found):
            return Table(found)._repr_html_()
        shown: str | None = None if self.others is None else self.others(found)
        return shown


def _ipython() -> Any:
    try:
        import IPython
    except ImportError as error:
        raise MissingExtraError(
            'showing tables needs IPython, which cannot be imported: pip install "langchain-hybridgraph[notebook]"'
        ) from error
    return IPython
