"""Random views in SQL agree with DuckDB after every tick, with nulls and deletions."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from gpu_wcoj.errors import UnsupportedError
from tests.helpers.long_tests import IS_LONG
from tests.helpers.sql_comparison import Answers, Case, Judge, UnfitError, disagreement
from tests.helpers.sql_conditions import FEATURES
from tests.helpers.sql_queries import Writer
from tests.helpers.sql_shrink import shrunk
from tests.helpers.sql_tables import random_script, random_tables

SEED = int(os.environ.get("TEST_SEED", "1"))
N_BLOCKS = 4
N_QUERIES = 2000 if IS_LONG else 16
REFUSED = ("stands twice in a part of its recursion",)
"""What may be refused of the texts that are drawn."""


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    found = Judge()
    yield found
    found.close()


def random_case(seed: str, features: frozenset[str] = FEATURES) -> tuple[Case, set[str]]:
    """A case, and the features of `FEATURES` that it has."""
    chance = random.Random(seed)
    tables = random_tables(chance)
    writer = Writer(chance, tables, features)
    views = writer.views()
    return Case(views, tables, random_script(chance, tables, chance.choice((5, 6, 7)))), writer.used


def fit_cases(judge: Judge, seed: str, count: int) -> Iterator[tuple[str, Case, Answers]]:
    """Yield `count` cases that DuckDB accepts and whose answers are not too large."""
    found = number = 0
    while found < count:
        own = f"{seed} {number}"
        number += 1
        case, _ = random_case(own)
        try:
            right = judge.answers(case)
        except UnfitError:
            continue
        found += 1
        yield own, case, right


@pytest.mark.parametrize("block", range(N_BLOCKS))
def test_answers_are_those_of_duckdb(block: int, judge: Judge):
    count = N_QUERIES // N_BLOCKS
    for seed, case, right in fit_cases(judge, f"{SEED} {block}", count):
        try:
            wrong = disagreement(case, right, typed=is_typed(case))
        except UnsupportedError as error:
            if not any(reason in str(error) for reason in REFUSED):
                pytest.fail(f"seed {seed!r}: {error}\n{case.text}")
            continue
        if wrong:
            least = shrunk(case, partial(fails, judge=judge, as_before=kind_of(wrong), typed=is_typed(case)))
            why = disagreement(least, judge.answers(least), typed=is_typed(case))
            pytest.fail(f"seed {seed!r}: {wrong}\n{case.text}\nthe least that fails: {why}\n{least}")


def is_typed(case: Case) -> bool:
    """Return whether to give the types of columns; the answer does not depend on it."""
    return len(case.text) % 4 > 1


def kind_of(wrong: str) -> str:
    """The error of a disagreement, or that rows differ."""
    return wrong.split(" ", 1)[0]


def fails(case: Case, judge: Judge, as_before: str, *, typed: bool) -> bool:
    """Return whether a case still disagrees in the same way."""
    try:
        wrong = disagreement(case, judge.answers(case), typed=typed)
        return wrong is not None and kind_of(wrong) == as_before
    except (UnfitError, UnsupportedError, ValueError):
        return False


def test_there_are_queries_of_all_kinds():
    found: Counter[str] = Counter()
    for number in range(500):
        found.update(random_case(f"{SEED} {number}")[1])
    assert set(found) == FEATURES
    assert min(found.values()) >= 5, found
