"""docs/memory.md is true: its code says what it promises, its tables are those of the code."""

import re
from pathlib import Path

import pytest

from langchain_hybridgraph.memory.scoring import DECAY
from langchain_hybridgraph.options.memory_modes import MODES
from langchain_hybridgraph.query.graph import traversal_from
from langchain_hybridgraph.records.chunk_metadata import ParsedMetadata

PAGE = (Path(__file__).parents[2] / "docs" / "memory.md").read_text(encoding="utf-8")


def rows(heading):
    """The cells of the table under a row of headings, without it."""
    lines = PAGE.partition(f"\n| {heading} |")[2].partition("\n\n")[0].splitlines()
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_code_says_what_it_promises(capsys):
    """All blocks run, one after the other, and every print gives what its comment says."""
    code = "".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    namespace = {}
    exec(compile(code, "docs/memory.md", "exec"), namespace)
    namespace["store"].close()
    promised = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert len(promised) == 12
    assert capsys.readouterr().out.splitlines() == promised


@pytest.mark.parametrize("name", MODES)
def test_a_modes_row_is_that_of_the_code(name):
    """Weights, decay and traversal."""
    [(_, *numbers, walk)] = [row for row in rows("Mode | Similarity") if row[0] == name]
    composite = MODES[name].composite
    assert [float(number) for number in numbers] == [
        composite.similarity,
        composite.confidence,
        composite.recency,
        composite.utility,
        composite.decay_per_hour,
    ]
    kind, hops = re.fullmatch(r"(\w+)`, (\d) hops", walk).groups()
    assert MODES[name].traversal == traversal_from({"type": kind, "max_hops": int(hops), "direction": "both"})


def test_the_modes_are_all_there():
    """None is missing, none is too many."""
    assert [row[0] for row in rows("Mode | Similarity")] == list(MODES)


def test_the_decays_are_those_of_the_code():
    """The table has every type of memory with its decay."""
    assert {kind: float(decay) for kind, decay in rows("Type | Decay per hour")} == DECAY


def test_every_key_that_is_read_has_a_meaning():
    """The table contains all metadata that the store reads."""
    keys = {key for row in rows("Key | Meaning") for key in row[0].replace("`", "").split(", ")}
    assert keys == {*ParsedMetadata._fields, "labels", "session_id", "turn", "source"}
