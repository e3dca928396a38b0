"""Building, reading, merging and searching tries, on every kind of kernels."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_wcoj.backend import Backend
from gpu_wcoj.kernels.protocol import Trie
from tests.helpers.kernel_cases import (
    DOMAINS,
    LARGE_SIZES,
    SIZES,
    WEIGHTS,
    columns_of,
    moved,
    random_batch,
    random_rows,
    trie,
)
from tests.helpers.long_tests import IS_LONG
from tests.reference import kernels as reference
from tests.reference.kernels import Batch

seeds = st.integers(0, 2**32)


def drawn_domains(rng: random.Random, arity: int):
    return [DOMAINS[rng.choice(list(DOMAINS))] for _ in range(arity)]


def check_trie(found: Trie, batch: Batch, depth: int, sizes: list[int]) -> None:
    """`found` is the trie of `batch`, its levels stored in that many bytes a value."""
    values, offsets, weights = found
    expected_values, expected_offsets = reference.levels(batch, depth)
    assert [level.tolist() for level in values] == expected_values
    assert [level.tolist() for level in offsets] == expected_offsets
    assert [level.dtype for level in values] == [np.dtype(f"int{8 * size}") for size in sizes]
    assert all(level.dtype == np.int64 for level in offsets)
    if weights is None:
        assert set(batch.values()) <= {1}
    else:
        assert weights.dtype == np.int64
        assert weights.tolist() == [batch[row] for row in sorted(batch)]


@given(seeds)
@settings(max_examples=150 if IS_LONG else 60)
def test_build_and_expand(kind, seed):
    rng = random.Random(seed)
    arity = rng.randint(1, 4)
    size = rng.choice(SIZES) if rng.random() < 0.9 else rng.choice(LARGE_SIZES[:1])
    rows = sorted(set(random_rows(rng, size, drawn_domains(rng, arity))))
    backend = kind.backend(seed)
    kernels = backend.kernels
    values, offsets = kernels.build_levels(moved(columns_of(rows, arity), backend))
    sizes = [reference.item_size(level) for level in reference.levels(rows, arity)[0]]
    check_trie((values, offsets, None), dict.fromkeys(rows, 1), arity, sizes)
    columns = kernels.expand_columns(values, offsets)
    assert all(column.dtype == np.int64 for column in columns)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == rows


@pytest.mark.parametrize("arity", [1, 2, 3])
def test_build_from_columns_of_a_matrix(backend, arity):
    """Columns that do not lie next to each other in memory."""
    matrix = np.array([[2**40 + i, 2**41 + i, 2**42 + i] for i in range(20)])
    index = trie(dict.fromkeys(map(tuple, matrix[:, :arity].tolist()), 1), arity, backend)
    columns = [backend.asarray(matrix)[:, i] for i in range(arity)]
    strided = type(index).from_sorted(columns, None, backend)
    for column in range(arity):
        assert strided.values[column].tolist() == matrix[:, column].tolist()
    assert index.locate(columns).tolist() == strided.locate(columns).tolist() == list(range(20))


def drawn_pair(rng: random.Random) -> tuple[Batch, Batch, int]:
    """Two batches that share many rows; the second one perhaps takes back what the first one holds."""
    arity = rng.randint(1, 4)
    domains = drawn_domains(rng, arity)
    size = rng.choice(SIZES) if rng.random() < 0.9 else rng.choice(LARGE_SIZES[1:2])
    left = random_batch(rng, size, domains, WEIGHTS[rng.choice(list(WEIGHTS))])
    if rng.random() < 0.4:
        kept = {
            row: reference.wrap(-weight) for row, weight in left.items() if rng.random() < rng.choice([0.1, 0.9, 1])
        }
        return left, kept, arity
    right = random_batch(rng, rng.choice([size, 1, 2, 40]), domains, WEIGHTS[rng.choice(list(WEIGHTS))])
    return (left, right, arity) if rng.random() < 0.5 else (right, left, arity)


def parts(batch: Batch, arity: int, backend: Backend) -> Trie:
    index = trie(batch, arity, backend)
    return index.values, index.offsets, index.weights


@given(seeds)
@settings(max_examples=200 if IS_LONG else 80)
def test_merge(kind, seed):
    left, right, arity = drawn_pair(random.Random(seed))
    backend = kind.backend(seed)
    tries = [parts(batch, arity, backend) for batch in (left, right)]
    before = [[level.tolist() for level in [*values, *offsets]] for values, offsets, _ in tries]
    merged = backend.kernels.merge_tries(*tries)
    sizes = [8 if 8 in (x.itemsize, y.itemsize) else 4 for x, y in zip(tries[0][0], tries[1][0], strict=True)]
    check_trie(merged, reference.merged(left, right), arity, sizes)
    assert [[level.tolist() for level in [*values, *offsets]] for values, offsets, _ in tries] == before


@given(seeds)
@settings(max_examples=150)
def test_merge_in_parts(kind, seed):
    """However the work is split, the result is that of one merge, and so is its description."""
    rng = random.Random(seed)
    left, right, arity = drawn_pair(rng)
    backend = kind.backend(seed)
    tries = [trie(batch, arity, backend) for batch in (left, right)]
    if backend.kernels.begin_merge is None or not all(map(len, tries)):
        return
    levels = tries[0].levels if rng.random() < 0.7 else ()
    merge = backend.kernels.begin_merge(*((t.values, t.offsets, t.weights) for t in tries), levels)
    assert merge.n_rows == len(left) + len(right)
    n_read, step = 0, rng.choice([1, 3, 40, 1000])
    while n_read < merge.n_rows:
        n_read = min(n_read + rng.randint(1, step), merge.n_rows)
        merge.advance(n_read)
    found, described, extreme_weights = merge.result()
    expected = reference.merged(left, right)
    sizes = [8 if 8 in (x.itemsize, y.itemsize) else 4 for x, y in zip(tries[0].values, tries[1].values, strict=True)]
    check_trie(found, expected, arity, sizes)
    magnitudes = [abs(weight) for weight in expected.values()]
    assert extreme_weights == (max(magnitudes, default=1), sum(weight < 0 for weight in expected.values()))
    assert len(described) == (arity if levels and expected else 0)
    if described:
        merged = tries[0].begin_merge(tries[1]).result()
        rows = rng.choices(list(expected), k=10)
        for depth in range(1, arity + 1):
            columns = moved(columns_of(rows, arity)[:depth], backend)
            assert merged.locate(columns).tolist() == [reference.position(expected, row[:depth]) for row in rows]


def test_merge_of_unit_weights_that_meet(backend):
    """Two tries without weights that share a row have one with them."""
    left, right = ({(1, value): 1 for value in values} for values in (range(0, 2000, 2), (8, 9)))
    kernels = backend.kernels
    tries = [trie(batch, 2, backend) for batch in (left, right)]
    _, _, weights = kernels.merge_tries(*((t.values, t.offsets, t.weights) for t in tries))
    assert weights is not None
    assert sorted(weights.tolist())[-2:] == [1, 2]
    apart = trie({(1, 9): 1}, 2, backend)
    _, _, weights = kernels.merge_tries(*((t.values, t.offsets, t.weights) for t in (tries[0], apart)))
    assert weights is None


def test_merge_drops_weights_that_become_one(backend):
    left, right = trie({(1,): 3, (2,): 1}, 1, backend), trie({(1,): -2}, 1, backend)
    merged = left.merge(right)
    assert merged.weights is None
    assert merged.values[0].tolist() == [1, 2]


@pytest.mark.parametrize("n", LARGE_SIZES)
def test_merge_of_a_long_run_and_a_few_rows(backend, n):
    """Blocks of the long run are copied around the others' values."""
    long = {(0, value): value + 1 for value in range(0, 3 * n, 3)}
    for few in ({(0, -5): 1}, {(0, 7): 2, (0, 9): -10}, {(0, 10**6): 1, (1, 0): 1}, {(-1, 0): 1}):
        for left, right in ((long, few), (few, long)):
            merged = trie(left, 2, backend).merge(trie(right, 2, backend))
            check_trie((merged.values, merged.offsets, merged.weights), reference.merged(left, right), 2, [4, 4])


@given(seeds)
@settings(max_examples=150 if IS_LONG else 60)
def test_locate(kind, seed):
    rng = random.Random(seed)
    backend = kind.backend(seed)
    n_columns = rng.randint(1, 3)
    domains = drawn_domains(rng, n_columns)
    wanted = random_rows(rng, rng.choice(SIZES), domains)
    records, column_of, expected, alive = [], [], [], []
    for _ in range(rng.randint(0, 3)):
        depth = rng.randint(1, 3)
        order = [rng.randrange(n_columns) for _ in range(depth)]
        deeper = rng.randint(0, 1)
        batch = random_batch(
            rng, rng.choice([*SIZES, 200]), [*(domains[i] for i in order), *[DOMAINS["few"]] * deeper], [1]
        )
        index = trie(batch, depth + deeper, backend)
        alive.append(index)
        records.append([level.record for level in index.levels[:depth]])
        column_of.append(order)
        expected.append([reference.position(batch, tuple(row[i] for i in order)) for row in wanted])
    positions = backend.kernels.locate(
        records, column_of, backend.asarray(np.array(columns_of(wanted, n_columns), np.int64))
    )
    assert positions.dtype == np.int64
    assert positions.shape == (len(records), len(wanted))
    assert positions.tolist() == expected


@pytest.mark.parametrize("values", [
    range(9), range(-50, 50), range(-(2**31), 2**31, 2**27), range(-(2**63), 2**63, 2**59), [*range(8), 2**63 - 1],
    [-(2**63), *range(8)], [-(2**63), *range(2**63 - 30, 2**63)], range(2**62, 2**62 + 5),
])  # fmt: skip
def test_locate_at_the_top(backend, values):
    """Every value, its neighbours and the ends of int64 are found, or not, wherever the values lie."""
    index = trie({(value,): 1 for value in values}, 1, backend)
    near = sorted({near for value in [*values, -(2**63), 0, 2**63 - 1] for near in (value - 1, value, value + 1)})
    near = [value for value in near if -(2**63) <= value < 2**63]
    place = {value: i for i, value in enumerate(sorted(values))}
    assert index.locate([backend.asarray(np.array(near))]).tolist() == [place.get(value, -1) for value in near]


@given(seeds)
@settings(max_examples=80 if IS_LONG else 14)
def test_index_rows(kind, seed):
    rng = random.Random(seed)
    arity = rng.randint(1, 4)
    size = rng.choice([*SIZES, *LARGE_SIZES, 3000])
    rows = random_rows(rng, size, drawn_domains(rng, arity))
    if rng.random() < 0.3:
        rows.sort()
    backend = kind.backend(seed)
    columns = moved(columns_of(rows, arity), backend)
    built = backend.kernels.index_rows(columns)
    sizes = [reference.item_size(level) for level in reference.levels(rows, arity)[0]]
    check_trie((*built, None), dict.fromkeys(rows, 1), arity, sizes)
    assert tuple(column.tolist() for column in columns) == tuple([row[i] for row in rows] for i in range(arity))


@given(seeds)
@settings(max_examples=80 if IS_LONG else 14)
def test_rearrange(kind, seed):
    rng = random.Random(seed)
    arity = rng.randint(1, 4)
    rows = sorted(set(random_rows(rng, rng.choice([*SIZES, *SIZES, *LARGE_SIZES, 3000]), drawn_domains(rng, arity))))
    tags = [5, -3, 2**40][: rng.randint(1, 3)]
    own = {row: rng.choice(tags) for row in rows}
    backend = kind.backend(seed)
    parts = [parts_of({row: 1 for row in rows if own[row] == tag}, arity, backend) for tag in tags]
    order = rng.sample(range(arity), arity)
    tagged = rng.random() < 0.5
    values, offsets = backend.kernels.rearrange(parts, order, tags if tagged else ())
    assert len(offsets) == arity - 1
    below = [backend.asarray(np.arange(len(rows) + 1))] * tagged
    expected = [(*(row[i] for i in order), *[own[row]] * tagged) for row in rows]
    sizes = [reference.item_size(level) for level in reference.levels(expected, arity + tagged)[0]]
    check_trie((values, [*offsets, *below], None), dict.fromkeys(expected, 1), arity + tagged, sizes)


def parts_of(batch: Batch, arity: int, backend: Backend):
    return parts(batch, arity, backend)[:2]
