"""Write the tables of options in docs/configuration.md and docs/retrievers.md from the classes that declare them.

    python docs/option_tables.py [--check]

``--check`` writes nothing; it exits with 1 and names the command when a table is out of date.
"""

import sys
from pathlib import Path

from langchain_hybridgraph import GraphRetriever, HierarchicalRetriever, HybridRetriever, MemoryRetriever
from langchain_hybridgraph.options.base import groups_of
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.settings import OPTIONS, HybridGraphSettings, allowed_values

DOCS = Path(__file__).parent
BEGIN, END = "<!-- options -->\n", "<!-- /options -->\n"
OF_LANGCHAIN = {"name", "tags", "metadata"}
RETRIEVERS = (HybridRetriever, GraphRetriever, MemoryRetriever, HierarchicalRetriever, AdvancedRetriever)


def options() -> str:
    """Return the options of every retriever and of every group as two Markdown tables."""
    rows, groups = [], {}
    for kind in RETRIEVERS:
        bases = [base for base in RETRIEVERS if base is not kind and issubclass(kind, base)]
        others = {*OF_LANGCHAIN, "vector_store", "retriever"}.union(*(base.model_fields for base in bases))
        own = [name for name in kind.model_fields if name not in others]
        groups |= groups_of(kind)
        own = [name for name in own if name not in groups] + [name for name in own if name in groups]
        rows.append(f"| `{kind.__name__}` | {', '.join(f'`{name}`' for name in own)} |\n")
    grouped = [
        f"| `{name}` | {', '.join(f'`{option}`' for option in group.model_fields)} |\n"
        for name, group in groups.items()
    ]
    return "".join(["| Retriever | Options |\n|---|---|\n", *rows, "\n| Group | Options |\n|---|---|\n", *grouped])


def settings() -> str:
    """Return all keys of a settings file as a Markdown table of key, default, allowed values and description."""
    rows = ["| Key | Default | Allowed | Meaning |", "|---|---|---|---|"]
    for key, field in HybridGraphSettings.model_fields.items():
        default = "" if field.default in (None, []) else str(field.default)
        default = default.lower() if isinstance(field.default, bool) else default
        rows.append(f"| `{key}` | {default} | {allowed_values(key)} | {OPTIONS[key].description} |")
    return "\n".join(rows) + "\n"


PAGES = {"configuration.md": settings, "retrievers.md": options}


def updated(page: str, table: str) -> str:
    """Return the page with this table between its two markers."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}"


def outdated() -> dict[Path, str]:
    """Return the pages whose tables are out of date, mapped to their new text."""
    pages = {DOCS / name: table() for name, table in PAGES.items()}
    texts = {path: (path.read_text(encoding="utf-8"), table) for path, table in pages.items()}
    return {path: new for path, (old, table) in texts.items() if (new := updated(old, table)) != old}


if __name__ == "__main__":
    pages = outdated()
    if pages and sys.argv[1:] == ["--check"]:
        sys.exit(f"{', '.join(path.name for path in pages)} is out of date; run: python docs/option_tables.py")
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
