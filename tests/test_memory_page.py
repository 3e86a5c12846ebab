"""The tables of docs/memory.md match the code."""

import re
from pathlib import Path

import pytest

from langchain_hybridgraph.chunks import ParsedMetadata
from langchain_hybridgraph.options.models import MODES
from langchain_hybridgraph.search.expansion import traversal_from

PAGE = (Path(__file__).parents[1] / "docs" / "memory.md").read_text(encoding="utf-8")


def rows(heading):
    """Return the cells of the table below a heading row."""
    lines = PAGE.partition(f"\n| {heading} |")[2].partition("\n\n")[0].splitlines()
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("name", MODES)
def test_a_modes_row_matches_the_code(name):
    """The row of each mode has the weights, decay and traversal of the code."""
    [(_, *numbers, traversal)] = [row for row in rows("Mode | Similarity") if row[0] == name]
    mode = MODES[name]
    names = ("similarity", "confidence", "recency", "utility", "decay_per_hour")
    assert [float(number) for number in numbers] == [getattr(mode, name) for name in names]
    kind, hops = re.fullmatch(r"(\w+)`, (\d) hops", traversal).groups()
    assert mode.traversal == traversal_from({"type": kind, "max_hops": int(hops), "direction": "both"})


def test_all_modes_are_listed():
    """The table lists exactly the modes of the code, in the same order."""
    assert [row[0] for row in rows("Mode | Similarity")] == list(MODES)


def test_all_metadata_keys_are_listed():
    """The table of metadata keys lists exactly the keys that the store reads."""
    keys = {key for row in rows("Key | Meaning") for key in row[0].replace("`", "").split(", ")}
    assert keys == {*ParsedMetadata._fields, "labels", "session_id", "turn", "source"}
