"""Sorting, run starts, distinct rows and consolidation, on every kind of kernels."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.cases import DOMAINS, LARGE_SIZES, SIZES, WEIGHTS, columns_of, moved, random_rows
from tests.reference import kernels as reference

seeds = st.integers(0, 2**32)


def some_rows(rng: random.Random) -> tuple[list[reference.Row], int]:
    arity = rng.randint(1, 4)
    domains = [DOMAINS[rng.choice(list(DOMAINS))] for _ in range(arity)]
    return random_rows(rng, rng.choice([*SIZES, *SIZES, *LARGE_SIZES]), domains), arity


def tuples(columns, backend) -> list[reference.Row]:
    assert all(column.dtype == np.int64 for column in columns)
    return list(zip(*(backend.to_host(column).tolist() for column in columns), strict=True))


@given(seeds)
@settings(max_examples=50)
def test_lexsort(kind, seed):
    rows, arity = some_rows(random.Random(seed))
    backend = kind.backend(seed)
    order = backend.kernels.lexsort(moved(columns_of(rows, arity), backend))
    assert order.dtype == np.intp
    assert order.tolist() == reference.sort_order(rows)


@given(seeds, st.booleans())
@settings(max_examples=50)
def test_run_starts(kind, seed, in_order):
    rows, arity = some_rows(random.Random(seed))
    rows = sorted(rows) if in_order else rows
    backend = kind.backend(seed)
    starts = backend.kernels.run_starts(moved(columns_of(rows, arity), backend))
    assert starts.dtype == np.intp
    assert starts.tolist() == reference.run_starts(rows)


@given(seeds, st.sampled_from(["any", "sorted", "distinct"]))
@settings(max_examples=50)
def test_distinct_rows(kind, seed, given_as):
    rows, arity = some_rows(random.Random(seed))
    rows = {"any": rows, "sorted": sorted(rows), "distinct": sorted(set(rows))}[given_as]
    backend = kind.backend(seed)
    found = backend.kernels.distinct_rows(moved(columns_of(rows, arity), backend))
    assert tuples(found, backend) == sorted(set(rows))


@given(seeds, st.sampled_from(list(WEIGHTS)))
@settings(max_examples=80)
def test_consolidate(kind, seed, weights_are):
    rng = random.Random(seed)
    rows, arity = some_rows(rng)
    weights = [rng.choice(WEIGHTS[weights_are]) for _ in rows]
    backend = kind.backend(seed)
    columns, sums = backend.kernels.consolidate(
        moved(columns_of(rows, arity), backend), backend.asarray(np.array(weights, np.int64))
    )
    expected = reference.consolidate(rows, weights)
    assert tuples(columns, backend) == list(expected)
    assert sums.dtype == np.int64
    assert sums.tolist() == list(expected.values())


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 1023, 1024, 1025])
def test_all_rows_equal(backend, size):
    columns = moved([np.full(size, 2**63 - 1), np.full(size, -(2**63))], backend)
    kernels = backend.kernels
    assert kernels.lexsort(columns).tolist() == list(range(size))
    assert kernels.run_starts(columns).tolist() == [0][:size]
    assert tuples(kernels.distinct_rows(columns), backend) == [(2**63 - 1, -(2**63))][:size]
    found, sums = kernels.consolidate(columns, backend.asarray(np.full(size, 2**62)))
    assert sums.tolist() == [wrapped for wrapped in [reference.wrap(size * 2**62)] if wrapped]
    assert tuples(found, backend) == [(2**63 - 1, -(2**63))][: len(sums)]


@given(st.lists(st.integers(-3, 3), max_size=40))
@settings(max_examples=20)
def test_inputs_are_left_as_they_are(kind, values):
    backend = kind.backend(len(values))
    column, weights = np.array(values, np.int64), np.ones(len(values), np.int64)
    if not kind.on_device:
        for array in (column, weights):
            array.flags.writeable = False
    column, weights = backend.asarray(column), backend.asarray(weights)
    kernels = backend.kernels
    kernels.lexsort([column, column])
    kernels.run_starts([column, column])
    kernels.distinct_rows([column, column])
    kernels.consolidate([column, column], weights)
    assert column.tolist() == values
    assert weights.tolist() == [1] * len(values)
