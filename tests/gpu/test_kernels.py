"""Kernels at the sizes of a device, against numba's: the same values and types, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.kernels.protocol import N_WORK, SURVIVORS, Level

CPU = cpu_backend()
LEAST, MOST = -(2**63), 2**63 - 1
DRAWS = {
    "dense": lambda rng, n: rng.integers(0, max(n // 8, 2), n),
    "narrow": lambda rng, n: rng.integers(-(2**31), 2**31, n),
    "wide": lambda rng, n: rng.integers(LEAST, MOST, n, endpoint=True),
    "skewed": lambda rng, n: (rng.pareto(0.7, n) * 10).clip(0, 2**40).astype(np.int64),
    "equal": lambda rng, n: np.full(n, 7),
}
by_draw = pytest.mark.parametrize("draw", DRAWS)
by_arity = pytest.mark.parametrize("arity", [1, 2, 3])


def columns_of(draw, arity, n, seed=1):
    rng = np.random.default_rng(seed)
    return [DRAWS[draw](rng, n).astype(np.int64) for _ in range(arity)]


def same(site, ours, theirs):
    """Whether arrays of the device are NumPy's, types too."""
    fetched = site.backend.to_host(ours)
    assert fetched.dtype == theirs.dtype
    assert fetched.shape == theirs.shape
    assert (fetched == theirs).all()


def all_same(site, ours, theirs):
    for mine, other in zip(ours, theirs, strict=True):
        same(site, mine, other)


def there(site, arrays):
    return [site.backend.asarray(array) for array in arrays]


def sorted_rows(columns):
    return CPU.kernels.distinct_rows(columns)


def trie_of(columns, weights=None):
    values, offsets = CPU.kernels.build_levels(columns)
    return values, offsets, weights


def trie_there(site, trie):
    values, offsets, weights = trie
    return there(site, values), there(site, offsets), None if weights is None else site.backend.asarray(weights)


@by_draw
@by_arity
def test_rows(site, draw, arity):
    n = site.sized(3_000_001, 700)
    columns = columns_of(draw, arity, n)
    weights = np.random.default_rng(2).integers(-2, 3, n)
    given, kernels = there(site, columns), site.backend.kernels
    same(site, kernels.lexsort(given), CPU.kernels.lexsort(columns))
    all_same(site, kernels.distinct_rows(given), CPU.kernels.distinct_rows(columns))
    found, sums = kernels.consolidate(given, site.backend.asarray(weights))
    wanted, wanted_sums = CPU.kernels.consolidate(columns, weights)
    all_same(site, [*found, sums], [*wanted, wanted_sums])
    same(site, kernels.hash_rows(given), CPU.kernels.hash_rows(columns))
    order = CPU.kernels.lexsort(columns)
    in_order = [column[order] for column in columns]
    starts = CPU.kernels.run_starts(in_order)
    same(site, kernels.run_starts(there(site, in_order)), starts)
    on_device = there(site, [weights, starts])
    same(site, kernels.segment_sums(*on_device), CPU.kernels.segment_sums(weights, starts))
    same(site, kernels.exclusive_sum(on_device[0]), CPU.kernels.exclusive_sum(weights))


@by_draw
@by_arity
def test_tries(site, draw, arity):
    columns = sorted_rows(columns_of(draw, arity, site.sized(3_000_001, 700)))
    values, offsets, _ = trie_of(columns)
    found, found_offsets = site.backend.kernels.build_levels(there(site, columns))
    all_same(site, [*found, *found_offsets], [*values, *offsets])
    all_same(site, site.backend.kernels.expand_columns(found, found_offsets), columns)


@by_draw
@by_arity
@pytest.mark.parametrize("small", [1, 1_000, 10**9], ids=["one row", "a thousand", "as many"])
@pytest.mark.parametrize("weighted", [False, True], ids=["set", "bag"])
def test_merge(site, draw, arity, small, weighted):
    n = site.sized(2_000_001, 500)
    rng = np.random.default_rng(3)
    left = sorted_rows(columns_of(draw, arity, n, 4))
    right = sorted_rows([column[: min(small, n)] for column in columns_of(draw, arity, n, 5)])
    if weighted:  # half of the rows of the right one are there on the left, some with the weight that cancels
        shared = rng.integers(0, len(left[0]), min(small, len(left[0])) // 2 + 1)
        right = sorted_rows([np.concatenate([a, b[shared]]) for a, b in zip(right, left, strict=True)])
    tries = [
        trie_of(columns, rng.choice([-1, 1, 2], len(columns[0])).astype(np.int64) if weighted else None)
        for columns in (left, right)
    ]
    wanted = CPU.kernels.merge_tries(*tries)
    found = site.backend.kernels.merge_tries(*(trie_there(site, trie) for trie in tries))
    all_same(site, [*found[0], *found[1]], [*wanted[0], *wanted[1]])
    assert (found[2] is None) == (wanted[2] is None)
    if wanted[2] is not None:
        same(site, found[2], wanted[2])


@by_draw
def test_locate(site, draw):
    columns = sorted_rows(columns_of(draw, 2, site.sized(2_000_001, 500)))
    rng = np.random.default_rng(6)
    picked = rng.integers(0, len(columns[0]), site.sized(3_000_000, 400))
    needles = np.stack([column[picked] for column in columns])
    needles[1, ::2] += rng.integers(-1, 2, len(needles[1, ::2]))
    found = []
    for backend in (CPU, site.backend):
        values, offsets = backend.kernels.build_levels([backend.asarray(column) for column in columns])
        levels = [(values[0], None), (values[1], offsets[0])]
        described = [backend.kernels.describe(*level, None) for level in levels]
        records = [[record for record, _ in described]]
        found.append(backend.kernels.locate(records, [[0, 1]], backend.asarray(needles)))
    same(site, found[1], found[0])


@pytest.mark.parametrize("hub", [False, True], ids=["many ranges", "a hub"])
@pytest.mark.parametrize("weighted", [False, True], ids=["set", "bag"])
def test_extend(site, hub, weighted):
    """Three atoms, one of two batches: counted, and filled in several pieces, as the CPU does it."""
    n_prefixes, length = site.sized((20_000, 300), (40, 20))
    rng = np.random.default_rng(7)
    shapes = [(n_prefixes, length), (1 if hub else n_prefixes, 20 * length), (n_prefixes, 3), (n_prefixes, length)]
    ranges = []
    for n_ranges, size in shapes:
        sizes = rng.integers(0, 2 * size, n_ranges)
        row = np.repeat(np.arange(n_ranges), sizes)
        rows = sorted_rows([row, rng.integers(0, 30 * length, len(row))])
        starts = np.searchsorted(rows[0], np.arange(n_ranges + 1)).astype(np.int64)
        weights = rng.choice([-1, 1, 2], len(rows[1])).astype(np.int64) if weighted else None
        ranges.append((rows[1].astype(np.int32), starts, weights))
    positions = np.stack([np.arange(n_prefixes), np.arange(n_prefixes) % shapes[1][0]])
    results = []
    for backend in (CPU, site.backend):
        kernels, xp = backend.kernels, backend.xp
        slots = [[None if one is None else backend.asarray(one) for one in level] for level in ranges]
        levels = [Level(*slot, *kernels.describe(*slot)) for slot in slots]
        first, last, shared = [0, 1, 2, 4], [True] * 3, [False, hub, False]
        extension = kernels.prepare(levels, first, last, shared, [0, 1, 0, 0], [-1] * 4)
        nothing, excluded = xp.zeros(0, np.int64), xp.zeros((0, n_prefixes), np.int64)
        given = backend.asarray(positions.astype(np.int64))
        work = xp.zeros(N_WORK, np.int64)
        counts = kernels.count_common(extension, given, 0, n_prefixes, nothing, nothing, excluded, work)
        pieces, resume = [], np.zeros(3, np.int64)
        capacity = max(1, int(backend.to_host(work)[SURVIVORS]) // 3)
        while resume[0] < n_prefixes:
            parent, value, weight, _ = kernels.fill_common(
                extension, given, resume, n_prefixes, nothing, nothing, excluded, None, weighted, capacity, 0, work
            )
            pieces.append([backend.to_host(one) for one in (parent, value, *([weight] if weighted else []))])
        filled = [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
        results.append((backend.to_host(counts), filled))
    (wanted, wanted_rows), (found, found_rows) = results
    assert (found == wanted).all()
    assert wanted.any()
    order, found_order = (np.lexsort((rows[1], rows[0])) for rows in (wanted_rows, found_rows))
    for mine, other in zip(found_rows, wanted_rows, strict=True):
        assert mine.dtype == other.dtype
        assert (mine[found_order] == other[order]).all()
