"""An empty database of people, for the tests of transactions."""

import pytest

from gpu_wcoj.datoms import Database
from tests.helpers.datom_people import SCHEMA


@pytest.fixture
def db() -> Database:
    return Database(SCHEMA)
