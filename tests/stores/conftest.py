"""Places for the stores of the tests."""

import pytest


@pytest.fixture
def folder(tmp_path):
    """Return the path of an index that does not exist yet."""
    return tmp_path / "index"


@pytest.fixture(params=["disk", "memory"])
def place(request, folder):
    """Return the path of an index, or None for an index in memory."""
    return folder if request.param == "disk" else None
