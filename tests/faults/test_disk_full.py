"""Writes to a full disk: clear errors, no lost data, and further writes once there is space."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FILLER = "tests.faults.disk_filler"
ROOT = Path(__file__).parents[2]


def run(folder, ballast, megabytes=""):
    done = subprocess.run(
        [sys.executable, "-m", FILLER, str(folder), str(ballast), megabytes],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def judge(report):
    errors = [report["upsert"], report.get("flush"), *report["again"]]
    assert any(errors)
    for error in filter(None, errors):
        assert "none of this batch was written" in error or "all changes are in the catalog" in error
    accepted = report["accepted"]
    assert report["full"][:2] == [accepted * 100, accepted]
    more = report["again"][0] is None
    assert report["reopened"] == [(accepted + more) * 100, accepted + more]
    assert report["after"] == [None, None]
    assert report["freed"] == report["expected"]
    assert report["problems"] == []


@pytest.fixture
def small_disk(tmp_path):
    """Return a function that mounts a file system of a few megabytes."""
    place = tmp_path / "small"
    place.mkdir()

    def mount(megabytes):
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes * 1024}k", "tmpfs", str(place)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        return place

    yield mount
    subprocess.run(["umount", str(place)], capture_output=True, check=False)


@pytest.mark.parametrize("megabytes", ["1.5"])
def test_a_limit_on_the_size_of_files(tmp_path, megabytes):
    """When files reach a size limit, accepted chunks are kept, and writing continues once it is removed."""
    judge(run(tmp_path / "index", tmp_path / "ballast", megabytes))


@pytest.mark.faults
@pytest.mark.parametrize("megabytes", ["0.5", "0.7", "1", "1.2", "2", "3", "4"])
def test_other_limits_on_the_size_of_files(tmp_path, megabytes):
    """With various size limits of files, accepted chunks are kept, and writing continues without the limit."""
    judge(run(tmp_path / "index", tmp_path / "ballast", megabytes))


@pytest.mark.faults
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
@pytest.mark.parametrize("megabytes", [3, 4, 6, 8, 9, 10, 12])
@pytest.mark.parametrize("ballast_kb", [300, 800])
def test_a_full_file_system(small_disk, megabytes, ballast_kb):
    """On a full file system, accepted chunks are kept, and writing continues once another file is deleted."""
    place = small_disk(megabytes + 12)
    (place / "ballast").write_bytes(bytes(12 * 2**20 + ballast_kb * 1024))
    judge(run(place / "index", place / "ballast"))
