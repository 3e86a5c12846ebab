"""Display of results as tables in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_hybridgraph.display.hits import SearchResult
from langchain_hybridgraph.display.html_table import Table
from langchain_hybridgraph.errors import MissingExtraError


def show(result: SearchResult | Iterable[Any], query: str | None = None, **options: Any) -> None:
    """Display a result as a table. The call can be anywhere in a cell.

    ``options`` are passed to :class:`Table`. A plain interpreter shows the table as text. Raises MissingExtraError if
    IPython is not installed.
    """
    _ipython().display.display(Table(result, query, **options))


def show_lists(on: bool = True) -> bool:
    """Show lists of Documents from this package's retrievers as tables if they are the last expression of a cell.

    Only lists whose Documents were annotated at the level "all", without a ``metadata_prefix``, become tables. Other
    lists are shown as before. The setting applies to the complete notebook; ``on=False`` reverts it. Returns False if
    no IPython is running, so the same code can also run outside notebooks. Raises MissingExtraError if IPython is not
    installed.
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
    """HTML formatter that shows lists of search results as tables.

    Other lists are passed to the formatter ``others``; if there is none, the result is None.
    """

    def __init__(self, others: Any) -> None:
        self.others = others

    def __call__(self, value: list[Any]) -> str | None:
        if _is_scored_documents(value):
            return Table(value)._repr_html_()
        html: str | None = None if self.others is None else self.others(value)
        return html


def _is_scored_documents(result: Sequence[Any]) -> bool:
    """Return whether a list contains only Documents annotated at the level "all", without a prefix.

    The result is False for an empty list.
    """
    return bool(result) and all(
        hasattr(each, "page_content") and {"score_breakdown", "retrieval_rank"} <= each.metadata.keys()
        for each in result
    )


def _ipython() -> Any:
    try:
        import IPython
    except ImportError as error:
        raise MissingExtraError(
            'showing tables needs IPython, which cannot be imported: pip install "langchain-hybridgraph[notebook]"'
        ) from error
    return IPython
