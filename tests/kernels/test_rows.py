"""Sorting, run starts, distinct rows and consolidation, on both kinds of kernels."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_wcoj.backend import cpu_backend
from tests.kernels.cases import DOMAINS, LARGE_SIZES, SIZES, WEIGHTS, columns_of, random_rows
from tests.reference import kernels as reference

KINDS = [True, False]
seeds = st.integers(0, 2**32)


def some_rows(rng: random.Random) -> tuple[list[reference.Row], int]:
    arity = rng.randint(1, 4)
    domains = [DOMAINS[rng.choice(list(DOMAINS))] for _ in range(arity)]
    return random_rows(rng, rng.choice([*SIZES, *SIZES, *LARGE_SIZES]), domains), arity


def tuples(columns) -> list[reference.Row]:
    assert all(column.dtype == np.int64 for column in columns)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@given(seeds, st.sampled_from(KINDS))
def test_lexsort(seed, compiled):
    rows, arity = some_rows(random.Random(seed))
    order = cpu_backend(compiled).kernels.lexsort(columns_of(rows, arity))
    assert order.dtype == np.intp
    assert order.tolist() == reference.sort_order(rows)


@given(seeds, st.sampled_from(KINDS), st.booleans())
def test_run_starts(seed, compiled, in_order):
    rows, arity = some_rows(random.Random(seed))
    rows = sorted(rows) if in_order else rows
    starts = cpu_backend(compiled).kernels.run_starts(columns_of(rows, arity))
    assert starts.dtype == np.intp
    assert starts.tolist() == reference.run_starts(rows)


@given(seeds, st.sampled_from(KINDS), st.sampled_from(["any", "sorted", "distinct"]))
def test_distinct_rows(seed, compiled, given_as):
    rows, arity = some_rows(random.Random(seed))
    rows = {"any": rows, "sorted": sorted(rows), "distinct": sorted(set(rows))}[given_as]
    found = cpu_backend(compiled).kernels.distinct_rows(columns_of(rows, arity))
    assert tuples(found) == sorted(set(rows))


@given(seeds, st.sampled_from(KINDS), st.sampled_from(list(WEIGHTS)))
def test_consolidate(seed, compiled, kind):
    rng = random.Random(seed)
    rows, arity = some_rows(rng)
    weights = [rng.choice(WEIGHTS[kind]) for _ in rows]
    columns, sums = cpu_backend(compiled).kernels.consolidate(columns_of(rows, arity), np.array(weights, np.int64))
    expected = reference.consolidate(rows, weights)
    assert tuples(columns) == list(expected)
    assert sums.dtype == np.int64
    assert sums.tolist() == list(expected.values())


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 1023, 1024, 1025])
def test_all_rows_equal(backend, size):
    columns = [np.full(size, 2**63 - 1), np.full(size, -(2**63))]
    kernels = backend.kernels
    assert kernels.lexsort(columns).tolist() == list(range(size))
    assert kernels.run_starts(columns).tolist() == [0][:size]
    assert tuples(kernels.distinct_rows(columns)) == [(2**63 - 1, -(2**63))][:size]
    found, sums = kernels.consolidate(columns, np.full(size, 2**62))
    assert sums.tolist() == [wrapped for wrapped in [reference.wrap(size * 2**62)] if wrapped]
    assert tuples(found) == [(2**63 - 1, -(2**63))][: len(sums)]


@given(st.lists(st.integers(-3, 3), max_size=40))
@settings(max_examples=30)
def test_inputs_are_left_as_they_are(values):
    column = np.array(values, np.int64)
    weights = np.ones(len(column), np.int64)
    for compiled in KINDS:
        kernels = cpu_backend(compiled).kernels
        for array in (column, weights):
            array.flags.writeable = False
        kernels.lexsort([column, column])
        kernels.distinct_rows([column, column])
        kernels.consolidate([column, column], weights)
    assert column.tolist() == values
