"""A store of three texts for the tests of telemetry."""

import pytest

from tests.support.stores.pet_store import pets


@pytest.fixture(scope="package")
def store():
    return pets()
