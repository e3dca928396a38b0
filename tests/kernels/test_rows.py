"""Sorting, run starts, distinct rows, consolidation, sums and hashes, on every kind of kernels."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.helpers.kernel_cases import DOMAINS, LARGE_SIZES, SIZES, WEIGHTS, columns_of, moved, random_rows
from tests.reference import kernels as reference

seeds = st.integers(0, 2**32)
HASHES = [12035550249420947055, 6791897765849424158, 12869054096415743361]


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


@pytest.mark.parametrize("bits", [(17, 17, 17, 17), (3, 60, 2), (40, 40), (1, 30, 30, 30, 1), (62, 62)])
def test_lexsort_of_wide_rows_that_agree_on_their_leading_columns(kind, bits):
    """Most rows agree on the bits that fit one key beside a row's number."""
    rng, backend = random.Random(sum(bits)), kind.backend(0)
    rows = [tuple(rng.choice((0, (1 << width) - 1)) for width in bits) for _ in range(4)]
    rows += [tuple(rng.choice((0, rng.getrandbits(width))) for width in bits) for _ in range(40)]
    rows += [(*rng.choice(rows)[:-1], rng.getrandbits(bits[-1])) for _ in range(700)]
    order = backend.kernels.lexsort(moved(columns_of(rows, len(bits)), backend))
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


def some_starts(rng: random.Random, n: int) -> list[int]:
    """Where runs of n values begin: a few, or as many as there are values."""
    return sorted({0, *(rng.randrange(n) for _ in range(rng.choice([0, 3, n, 5 * n])))}) if n else []


@given(seeds, st.sampled_from(list(WEIGHTS)))
@settings(max_examples=60)
def test_segment_sums(kind, seed, weights_are):
    rng = random.Random(seed)
    values = [rng.choice(WEIGHTS[weights_are]) for _ in range(rng.choice([*SIZES, *LARGE_SIZES, 2500]))]
    starts = some_starts(rng, len(values))
    backend = kind.backend(seed)
    given_values, given_starts = moved([np.array(values, np.int64), np.array(starts, np.intp)], backend)
    try:
        expected = reference.segment_sums(values, starts)
    except OverflowError as error:
        with pytest.raises(OverflowError, match=f"^{error}$"):
            backend.kernels.segment_sums(given_values, given_starts)
    else:
        sums = backend.kernels.segment_sums(given_values, given_starts)
        assert sums.dtype == np.int64
        assert sums.tolist() == expected


@pytest.mark.parametrize(("values", "starts", "run"), [
    ([2**62, 2**62], [0], 0), ([-(2**62), -(2**62), -1], [0], 0), ([1, 2**63 - 1, 1, 5, 2**63 - 1, 1], [0, 1, 3], 1),
    ([-(2**63)] * 3000, [0, 1, 2], 2),
])  # fmt: skip
def test_segment_sums_that_leave_int64(backend, values, starts, run):
    arrays = moved([np.array(values, np.int64), np.array(starts, np.intp)], backend)
    with pytest.raises(OverflowError, match=rf"the sum of run {run} of {len(starts)} is outside int64"):
        backend.kernels.segment_sums(*arrays)


@pytest.mark.parametrize(
    "values", [[2**63 - 1], [2**63 - 1, 1, -1, -(2**63), 5], [-(2**62)] * 2, [2**63 - 1, 2**63 - 1, -(2**63)]]
)
def test_segment_sums_that_just_fit(backend, values):
    """What leaves int64 on the way may come back."""
    arrays = moved([np.array(values, np.int64), np.zeros(1, np.intp)], backend)
    assert backend.kernels.segment_sums(*arrays).tolist() == [sum(values)]


@given(seeds, st.sampled_from(list(WEIGHTS)))
@settings(max_examples=30)
def test_exclusive_sum(kind, seed, weights_are):
    rng = random.Random(seed)
    counts = [rng.choice(WEIGHTS[weights_are]) for _ in range(rng.choice([*SIZES, *LARGE_SIZES, 2500]))]
    backend = kind.backend(seed)
    sums = backend.kernels.exclusive_sum(backend.asarray(np.array(counts, np.int64)))
    assert sums.dtype == np.int64
    assert sums.tolist() == reference.exclusive_sum(counts)


@given(seeds)
@example(5)  # a mask of more rows than a tile, however few examples are asked for
@settings(max_examples=40)
def test_held_rows(kind, seed):
    rng = random.Random(seed)
    backend = kind.backend(seed)
    share = rng.choice([0, 0.1, 0.9, 1])
    masks = [
        [rng.random() < share for _ in range(rng.choice([*SIZES, *LARGE_SIZES, 2500]))] for _ in range(rng.randrange(4))
    ]
    found = backend.kernels.held_rows([backend.asarray(np.array(mask, bool)) for mask in masks])
    assert all(rows.dtype == np.int64 for rows in found)
    assert [rows.tolist() for rows in found] == [[i for i, held in enumerate(mask) if held] for mask in masks]


@given(seeds)
@settings(max_examples=30)
def test_hash_rows(kind, seed):
    rows, arity = some_rows(random.Random(seed))
    backend = kind.backend(seed)
    hashes = backend.kernels.hash_rows(moved(columns_of(rows, arity), backend))
    assert hashes.dtype == np.uint64
    assert hashes.tolist() == [reference.hash_row(row) for row in rows]


def test_hashes_stay_what_they_are(backend):
    """Partitions are found again by another process, on another machine."""
    columns = moved([np.array([0, 1, -1]), np.array([0, 0, 2**63 - 1])], backend)
    assert backend.kernels.hash_rows(columns).tolist() == HASHES


@pytest.mark.parametrize("domains", [("few", "negative"), ("narrow and wide", "few"), ("edges",)])
def test_rows_that_one_key_holds(backend, domains):
    """Keys of 32 bits and of up to 64, of more rows than one block sorts."""
    rng = random.Random(" ".join(domains))
    rows = random_rows(rng, 1500, [DOMAINS[name] for name in domains])
    weights = [rng.choice([-1, 1, 2]) for _ in rows]
    columns = moved(columns_of(rows, len(domains)), backend)
    assert tuples(backend.kernels.distinct_rows(columns), backend) == sorted(set(rows))
    found, sums = backend.kernels.consolidate(columns, backend.asarray(np.array(weights)))
    expected = reference.consolidate(rows, weights)
    assert tuples(found, backend) == list(expected)
    assert sums.tolist() == list(expected.values())


@pytest.mark.drawn("size", "arity", each=True)
@pytest.mark.parametrize("size", [5, 1024, 2000])
@pytest.mark.parametrize("arity", [7, 8, 9, 17])
def test_many_columns(backend, arity, size):
    rng = random.Random(f"{arity} {size}")
    domains = [DOMAINS[name] for name, _ in zip(["few", "extreme", "few", "negative"] * 5, range(arity), strict=False)]
    rows = random_rows(rng, size, [DOMAINS["one"], DOMAINS["one"], *domains[2:-2], range(2), range(2)])
    rows += rng.sample(rows, size // 3)
    columns = moved(columns_of(rows, arity), backend)
    weights = [rng.choice([-1, 1, 2]) for _ in rows]
    kernels = backend.kernels
    assert kernels.lexsort(columns).tolist() == reference.sort_order(rows)
    assert kernels.run_starts(columns).tolist() == reference.run_starts(rows)
    assert tuples(kernels.distinct_rows(columns), backend) == sorted(set(rows))
    assert kernels.hash_rows(columns).tolist() == [reference.hash_row(row) for row in rows]
    found, sums = kernels.consolidate(columns, backend.asarray(np.array(weights)))
    expected = reference.consolidate(rows, weights)
    assert tuples(found, backend) == list(expected)
    assert sums.tolist() == list(expected.values())
    built = kernels.build_levels(moved(columns_of(sorted(set(rows)), arity), backend))
    assert tuples(kernels.expand_columns(*built), backend) == sorted(set(rows))


@pytest.mark.parametrize("spans", [(40, 30), (40, 2**21), (3, 5, 7), (5000, 9), (40, 2**40)])
def test_consolidate_runs_of_an_ascending_column(kind, spans):
    """Rows whose first column ascends, with values that are close together and far apart."""
    backend, chance = kind.backend(1), np.random.default_rng(1)
    columns = [chance.integers(-span, span, 6000) for span in spans]
    columns[0].sort()
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    for weights in (np.ones(6000, np.int64), chance.integers(-1, 2, 6000)):
        found, sums = backend.kernels.consolidate(moved(columns, backend), backend.asarray(weights))
        expected = reference.consolidate(rows, weights.tolist())
        assert tuples(found, backend) == list(expected)
        assert backend.to_host(sums).tolist() == list(expected.values())
    assert tuples(backend.kernels.distinct_rows(moved(columns, backend)), backend) == sorted(set(rows))


@pytest.mark.parametrize("spans", [(9, 40), (2**20,), (2**30, 2**15), (2**61,), (3, 2**40, 2)])
@pytest.mark.parametrize("size", [1023, 1024, 5000])
def test_consolidate_rows_in_no_order(kind, spans, size):
    """One key holds a row, with its weight or alone."""
    backend, chance = kind.backend(4), np.random.default_rng(4)
    columns = [chance.integers(-span, span, 400)[chance.integers(0, 400, size)] for span in spans]
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    for weights in (np.ones(size, np.int64), chance.integers(-1, 2, 2 * size)[::2], chance.integers(-9, 2**40, size)):
        found, sums = backend.kernels.consolidate(moved(columns, backend), backend.asarray(weights))
        expected = reference.consolidate(rows, weights.tolist())
        assert tuples(found, backend) == list(expected)
        assert backend.to_host(sums).tolist() == list(expected.values())
    assert tuples(backend.kernels.distinct_rows(moved(columns, backend)), backend) == sorted(set(rows))


@pytest.mark.parametrize("spans", [
    (2**30, 2**30, 2**30), (2, 2**61, 3), (1, 2, 2**62), (2**20, 2, 2**50, 2**10), (2**63,), (2, 2**63, 2**63)
])  # fmt: skip
def test_sort_rows_that_do_not_fit_one_key(kind, spans):
    """Most rows differ in the bits of one key; some, or all, agree on these."""
    backend, chance = kind.backend(2), np.random.default_rng(2)
    values = [chance.integers(-span, span, 40) for span in spans]
    columns = [drawn[chance.integers(0, 40, 1500)] for drawn in values]
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    assert backend.to_host(backend.kernels.lexsort(moved(columns, backend))).tolist() == reference.sort_order(rows)
    assert tuples(backend.kernels.distinct_rows(moved(columns, backend)), backend) == sorted(set(rows))


@pytest.mark.parametrize("bits", [(17, 17, 17, 17), (40, 40), (62, 62), (1, 62, 30, 30, 1), (63, 1), (20, 60, 40)])
@pytest.mark.parametrize("size", [1023, 1024, 3000])
def test_consolidate_rows_that_do_not_fit_one_key(kind, bits, size):
    """Two keys hold a row and its weight, or a row alone, or not even that."""
    backend, chance = kind.backend(5), np.random.default_rng(sum(bits))
    low = np.array([-(1 << (width - 1)) for width in bits])
    edges = [np.array([0, (1 << width) - 1], np.uint64).view(np.int64) for width in bits]
    drawn = [
        np.concatenate([edge, chance.integers(0, 1 << width, 300)]) for edge, width in zip(edges, bits, strict=True)
    ]
    rows_of = [np.minimum(chance.integers(0, 302, size), chance.integers(0, 302, size)) // 4 for _ in bits]
    columns = [values[row] + least for values, row, least in zip(drawn, rows_of, low, strict=True)]
    columns = [np.where(np.arange(size) % 3 == 0, column[0], column) for column in columns]
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    for weights in (
        np.ones(size, np.int64), chance.integers(-1, 2, size), chance.integers(-9, 2**40, size),
        chance.integers(-(2**62), 2**62, size),
    ):  # fmt: skip
        found, sums = backend.kernels.consolidate(moved(columns, backend), backend.asarray(weights))
        expected = reference.consolidate(rows, weights.tolist())
        assert tuples(found, backend) == list(expected)
        assert backend.to_host(sums).tolist() == list(expected.values())
    assert tuples(backend.kernels.distinct_rows(moved(columns, backend)), backend) == sorted(set(rows))


@pytest.mark.parametrize("n_columns", [1, 2, 4])
def test_columns_of_other_types_are_refused(n_columns):
    """Compiled code reads columns by their addresses."""
    columns = [np.arange(2000, dtype=np.int32)[::-1] for _ in range(n_columns)]
    kernels = pytest.importorskip("cpu_fallback.kernels").CompiledKernels()
    with pytest.raises(TypeError, match="int64"):
        kernels.distinct_rows(columns)
    with pytest.raises(TypeError, match="int64"):
        kernels.consolidate(columns, np.ones(2000, np.int64))
    with pytest.raises(TypeError, match="int64"):
        kernels.index_rows(columns)
    with pytest.raises(TypeError, match="int64"):
        kernels.distinct_rows([np.arange(5000, dtype=np.int32), np.arange(5000, dtype=np.int64)])
