"""File systems that are mounted for a test."""

import subprocess
from contextlib import contextmanager

import pytest


@contextmanager
def mounted(place, *mounts):
    """Run ``mount`` with each of these arguments, or skip the test if that fails; unmount the place at the end."""
    place.mkdir()
    try:
        for arguments in mounts:
            done = subprocess.run(["mount", *arguments, place], capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
        yield place
    finally:
        subprocess.run(["umount", place], capture_output=True, check=False)
