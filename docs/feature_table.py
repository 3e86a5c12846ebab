"""Write the table of features in docs/engines.md from the declarations of the stores.

    python docs/feature_table.py [--check]

``--check`` writes nothing; it exits with 1 and names the command when the table is out of date.
"""

import sys
from pathlib import Path

from langchain_hybridgraph.stores import store as embedded
from langchain_hybridgraph.stores.milvus import store as milvus
from langchain_hybridgraph.stores.protocols import feature_table

PAGE = Path(__file__).parent / "engines.md"
BEGIN, END = "<!-- features -->\n", "<!-- /features -->\n"
STORES = {
    "`HybridGraphStore(None)`": embedded.LACKS_IN_MEMORY,
    "`HybridGraphStore(path)`": embedded.LACKS,
    "`MilvusStore(uri)`": milvus.LACKS,
}


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
