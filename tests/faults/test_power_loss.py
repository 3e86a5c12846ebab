"""Power failures: acknowledged writes survive, although everything that was not synced may be lost."""

import copy
import json
import random
import shutil
import sys

import pytest

from tests.faults.power_loss import Disk, output, record
from tests.faults.test_kill import ROOT, WRITER, Model, judge

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")


def lose_power(place, kind, seed, *, steps, cuts, is_ordered):
    """Record a writer, cut its calls at random points, and judge the index at each of them."""
    root = place / "disk"
    root.mkdir()
    command = [sys.executable, "-m", WRITER, str(root / "index"), str(seed), kind, str(steps)]
    calls = record(command, place / "calls", cwd=ROOT)
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
            disk.write_survivors(place / "cut", dice)
            judge(place / "cut" / "index", kind, copy.deepcopy(model))
            shutil.rmtree(place / "cut")
    disk.write_all(place / "all")
    assert contents(place / "all") == contents(root)


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("is_ordered", [True, False])
def test_a_store_is_correct_after_power_failures(tmp_path, is_ordered):
    """A store is correct after each of five power failures, whether or not the file system keeps the order."""
    lose_power(tmp_path, "words", 1, steps=12, cuts=5, is_ordered=is_ordered)


@pytest.mark.faults
@pytest.mark.parametrize("is_ordered", [True, False])
@pytest.mark.parametrize("kind", ["words", "fitted"])
@pytest.mark.parametrize("seed", range(2, 4))
def test_a_store_is_correct_after_many_power_failures(tmp_path, kind, seed, is_ordered):
    """A store is correct after each of 200 power failures."""
    lose_power(tmp_path, kind, seed, steps=40, cuts=25, is_ordered=is_ordered)
