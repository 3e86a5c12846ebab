"""Power failures: acknowledged writes survive, although everything that was not synced may be lost."""

import copy
import json
import random
import shutil
import sys

import pytest

from tests.faults.power_loss import Disk, output, record
from tests.faults.test_kill import WRITER, Model, judge
from tests.support.servers.python_process import ROOT

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("is_ordered", [True, False])
@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("words", 1),
        *(pytest.param(kind, seed, marks=pytest.mark.faults) for kind in ("words", "fitted") for seed in (2, 3)),
    ],
)
def test_a_store_is_correct_after_power_failures(tmp_path, kind, seed, is_ordered):
    """A store is correct after each power failure of a writer, whether or not the file system keeps the order."""
    steps, cuts = (12, 5) if seed == 1 else (40, 25)
    root = tmp_path / "disk"
    root.mkdir()
    command = [sys.executable, "-m", WRITER, str(root / "index"), str(seed), kind, str(steps)]
    calls = record(command, tmp_path / "calls", cwd=ROOT)
    dice, disk, model, line = random.Random(seed), Disk(root, is_ordered=is_ordered), Model(), ""
    points = set(dice.sample([n for n, call in enumerate(calls) if disk.concerns(call)], cuts))
    for number, call in enumerate(calls):
        line += output(call)
        if line.endswith("\n"):
            for text in line.splitlines():
                model.hear(json.loads(text))
            line = ""
        if disk.concerns(call):
            disk.replay(call)
        if number in points:
            disk.write_survivors(tmp_path / "cut", dice)
            judge(tmp_path / "cut" / "index", kind, copy.deepcopy(model))
            shutil.rmtree(tmp_path / "cut")
    disk.write_all(tmp_path / "all")
    assert contents(tmp_path / "all") == contents(root)
