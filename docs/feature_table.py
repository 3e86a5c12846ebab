"""Write the table of features in docs/engines.md from the declarations of the stores.

    python docs/feature_table.py [--check]

``--check`` writes nothing; it exits with 1 and names the command when the table is out of date.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from langchain_hybridgraph.stores import store as embedded
from langchain_hybridgraph.stores.milvus import store as milvus
from langchain_hybridgraph.stores.protocols import FEATURES

PAGE = Path(__file__).parent / "engines.md"
BEGIN, END = "<!-- features -->\n", "<!-- /features -->\n"
STORES = {
    "`HybridGraphStore(None)`": embedded.LACKS_IN_MEMORY,
    "`HybridGraphStore(path)`": embedded.LACKS,
    "`MilvusStore(uri)`": milvus.LACKS,
}


def feature_table(lacking: Mapping[str, Mapping[str, str]]) -> str:
    """Return a Markdown table of features by store, then the reasons from each store's ``lacks`` in ``lacking``."""
    lines = [f"| Feature | Meaning | {' | '.join(lacking)} |", "|---|---|" + "---|" * len(lacking)]
    for name, meaning, _ in FEATURES:
        cells = ("–" if name in lacks else "yes" for lacks in lacking.values())
        lines.append(f"| {name} | {meaning} | {' | '.join(cells)} |")
    stores: dict[tuple[str, str], list[str]] = {}
    for name, _, _ in FEATURES:
        for title, lacks in lacking.items():
            if name in lacks:
                stores.setdefault((name, lacks[name]), []).append(title)
    notes = [f"- **{name}**: {why} ({', '.join(titles)})" for (name, why), titles in stores.items()]
    return "\n".join([*lines, "", "Reasons for missing features, and the stores to which they apply:", "", *notes])


def updated(page: str) -> str:
    """Return the page with the current table between its two markers."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{feature_table(STORES)}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    if updated(page) == page:
        sys.exit()
    if sys.argv[1:] == ["--check"]:
        sys.exit("the table of features in docs/engines.md is out of date; run: python docs/feature_table.py")
    PAGE.write_text(updated(page), encoding="utf-8")
