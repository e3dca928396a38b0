"""The merge of two tries by CUDA kernels, on the shim, against the one of the CPU: bit for bit, and at what cost."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.kernels.cuda import tries
from gpu_wcoj.kernels.cuda.device import Device, source_text
from gpu_wcoj.kernels.cuda.tries import CHUNK, TILE, merge_tries
from gpu_wcoj.kernels.protocol import Trie
from tests.helpers import kernel_cases
from tests.shim import available
from tests.shim.device import ShimDevice

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))

LEAST, MOST = -(2**63), 2**63 - 1
SEEDS = range(4)
DOMAINS = [*kernel_cases.DOMAINS.values(), range(1000), range(100_000)]
WEIGHTS = [[1], [-2, -1, 1, 2], [-1, 1], [LEAST, MOST, -1, 1, 2**62], [1] * 50 + [3]]
SIZES = [0, 1, 2, 31, 33, CHUNK - 1, CHUNK, CHUNK + 1, 3000, TILE - 1, TILE + 1, 2 * TILE + 7]


def trie_of(columns: list[Any], weights: Any = None) -> Trie:
    """The trie of sorted distinct rows, on the host."""
    values, offsets = cpu_backend().kernels.build_levels([np.ascontiguousarray(c, np.int64) for c in columns])
    unit = weights is None or bool((weights == 1).all())
    return values, offsets, None if unit else np.ascontiguousarray(weights, np.int64)


def drawn_trie(rng: np.random.Generator, arity: int, domains: list[Any]) -> Trie:
    size = int(rng.choice(SIZES))
    rows = np.stack([rng.choice(np.array(domain, np.int64), size) for domain in domains])
    columns = list(np.unique(rows, axis=1)) if size else list(rows)
    return trie_of(columns, rng.choice(np.array(WEIGHTS[rng.integers(len(WEIGHTS))], np.int64), len(columns[0])))


def taken_back(rng: np.random.Generator, trie: Trie) -> Trie:
    """Rows of a trie whose weights, added to its own, become 0 or 1."""
    columns = cpu_backend().kernels.expand_columns(trie[0], trie[1])
    weights = np.zeros(1, np.int64) - (np.ones(len(columns[0]), np.int64) if trie[2] is None else trie[2])
    weights += rng.integers(2, size=1) if rng.random() < 0.5 else rng.integers(2, size=len(weights))
    kept = (rng.random(len(weights)) < rng.choice([0.01, 0.5, 0.99, 1])) & (weights != 0)
    return trie_of([column[kept] for column in columns], weights[kept])


def on_device(device: Device, trie: Trie) -> Trie:
    values, offsets, weights = trie
    put = device.asarray
    return [put(v) for v in values], [put(o) for o in offsets], None if weights is None else put(weights)


def same(device: Device, found: Any, expected: npt.NDArray[Any]) -> None:
    fetched = device.to_host(found)
    assert fetched.dtype == expected.dtype
    assert np.array_equal(fetched, expected)


def check(left: Trie, right: Trie, seed: int) -> tuple[int, int]:
    """That both orders of the sides give what the CPU's kernels give, with one read; the launches of each."""
    launches = []
    device = ShimDevice(seed)
    sides = [on_device(device, trie) for trie in (left, right)]
    for x, y, given in ((left, right, sides), (right, left, sides[::-1])):
        expected = cpu_backend().kernels.merge_tries(x, y)
        with device.counted() as counts:
            values, offsets, weights = merge_tries(device, *given)
        assert counts.reads == 1
        launches.append(counts.launches)
        for found, level in zip([*values, *offsets], [*expected[0], *expected[1]], strict=True):
            same(device, found, level)
        if expected[2] is None:
            assert weights is None
        else:
            assert weights is not None
            same(device, weights, expected[2])
    for trie, given in ((left, sides[0]), (right, sides[1])):
        for array, level in zip([*given[0], *given[1]], [*trie[0], *trie[1]], strict=True):
            same(device, array, level)
    return launches[0], launches[1]


def test_numbers_that_launcher_and_source_share():
    text = source_text("merge")
    found = {name: int(number) for name, number in re.findall(r"const int (\w+) = (\d+);", text)}
    assert [found[name] for name in ("PLACE_BLOCK", "TILE", "COPY_BLOCK", "COUNT_BLOCK")] == [
        tries.PLACE_BLOCK, TILE, tries.COPY_BLOCK, tries.COUNT_BLOCK
    ]  # fmt: skip
    assert found["PLACED"] * found["PLACE_BLOCK"] == CHUNK
    assert found["COUNTED"] * found["COUNT_BLOCK"] == tries.COUNT_CHUNK


@pytest.mark.drawn("seed", share=4)
@pytest.mark.parametrize("seed", range(60))
def test_random_tries(seed):
    rng = np.random.default_rng(seed)
    arity = int(rng.integers(1, 6))
    domains = [DOMAINS[rng.integers(len(DOMAINS))] for _ in range(arity)]
    left = drawn_trie(rng, arity, domains)
    if rng.random() < 0.3:
        domains = [kernel_cases.narrow(domain) for domain in domains]
    right = taken_back(rng, left) if rng.random() < 0.4 else drawn_trie(rng, arity, domains)
    assert max(check(left, right, seed % 7)) <= 3 * arity


@pytest.mark.drawn("seed")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n", [TILE - 2, TILE - 1, TILE, TILE + 1, 2 * TILE - 1, 2 * TILE])
def test_a_row_at_the_edge_of_a_tile(n, seed):
    """A right row is the last of a tile and the left one that it meets the first of the next, and all around."""
    long = trie_of([np.arange(0, 2 * n, 2)])
    for place in (0, TILE - 2, TILE - 1, TILE, n - 2, n - 1):
        for weight in (-1, 1, 5):
            check(long, trie_of([[2 * place]], np.array([weight])), seed)
        check(long, trie_of([[2 * place + 1]]), seed)
    check(long, trie_of([[-1, 2 * n]]), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_children_of_nodes_at_the_edge_of_a_tile(seed):
    """Nodes kept, lost and brought around rank TILE, with one child or some."""
    n = TILE + 40
    parents = np.repeat(np.arange(0, 2 * n, 2), np.arange(n) % 3 + 1)
    children = np.arange(len(parents))
    rng = np.random.default_rng(seed)
    near = (parents > 2 * TILE - 12) & (parents < 2 * TILE + 12)
    for kept in (0.3, 0.8, 1):
        taken = near & (rng.random(len(near)) < kept)
        check(
            trie_of([parents, children]),
            trie_of([parents[taken], children[taken]], rng.choice([-1, -1, 4], int(taken.sum()))),
            seed,
        )
        brought = np.flatnonzero(taken)
        check(trie_of([parents, children]), trie_of([parents[brought] + 1, brought]), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_hubs(seed):
    """Many children of one node on either side, at its ends and inside, apart and woven in."""
    n = 3 * TILE
    hub = trie_of([np.zeros(n, np.int64), np.arange(n) * 10])
    m = 2 * TILE + 5
    for begin, step in ((-m, 1), (n * 10, 1), (50_003, 0), (1, 10), (0, 10), (5, 15)):
        values = begin + np.arange(m) * step if step else 50_001 + np.arange(9)
        check(hub, trie_of([np.zeros(len(values), np.int64), values]), seed)
    many = np.arange(m)
    check(hub, trie_of([many - 7, many * 0 + 40]), seed)
    check(hub, trie_of([many + 1, many]), seed)
    check(hub, trie_of([np.zeros(9, np.int64), np.arange(9) * 10], np.full(9, -1)), seed)


@pytest.mark.drawn("seed")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("arity", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [0, 1, CHUNK, TILE, 2 * TILE + 1])
def test_nothing_is_left(arity, n, seed):
    columns = [*([np.arange(n) // 100] * (arity - 1)), np.arange(n)]
    left, right = trie_of(columns, np.full(n, 2)), trie_of(columns, np.full(n, -2))
    check(left, right, seed)
    check(left, trie_of([column[:0] for column in columns]), seed)
    check(left, trie_of(columns, np.full(n, -1)), seed)
    check(trie_of(columns), trie_of(columns, np.full(n, -1)), seed)


@pytest.mark.parametrize("n", [CHUNK, 5000, 40_000])
def test_few_weights_other_than_one(n):
    """The count that may stop early: other weights first, last, met by the other side, or not."""
    for at in (0, n // 2, n - 1):
        weights = np.ones(n, np.int64)
        weights[at] = 3
        left = trie_of([np.arange(n)], weights)
        check(left, trie_of([[at]], np.array([-2])), 2)
        check(left, trie_of([[at]], np.array([-3])), 3)
        check(left, trie_of([[(at + 1) % n]], np.array([-1])), 3)
        check(left, trie_of([[(at + 1) % n]], np.array([1])), 3)
        weights[[1, n - 2]] = 2
        check(trie_of([np.arange(n)], weights), trie_of([[at]], np.array([-2])), 4)


def test_weights_of_one_written_out():
    """Sides whose weights are given although all are 1."""
    device = ShimDevice(5)
    for n in (0, 4, CHUNK + 1):
        values, offsets, _ = trie_of([np.arange(n) // 3, np.arange(n)])
        given = on_device(device, (values, offsets, np.ones(n, np.int64)))
        empty = on_device(device, trie_of([np.arange(0), np.arange(0)]))
        merged = merge_tries(device, given, empty)
        assert merged[2] is None
        same(device, merged[0][1], np.arange(n, dtype=np.int64))


@pytest.mark.long
def test_more_chunks_than_the_last_block_sums_at_once():
    at_once = 2 * tries.PLACE_BLOCK
    m = CHUNK * (at_once + 3)
    rng = np.random.default_rng(0)
    left, right = (np.flatnonzero(rng.random(2 * m) < share) for share in (0.55, 0.52))
    assert len(right) > at_once * CHUNK
    check(trie_of([left]), trie_of([right], rng.choice([-1, 1], len(right))), 0)


def test_launches_do_not_grow():
    rng = np.random.default_rng(0)
    for arity, unit, weighted in ((1, 2, 3), (2, 5, 6), (3, 8, 9)):
        for n in (10, 1000, 30_000):
            columns = list(np.unique(rng.integers(0, 200 if arity > 1 else 10**9, (arity, n)), axis=1))
            few = trie_of([column[:2] + n for column in columns])
            assert check(trie_of(columns), few, 2) == (unit, unit)
            weights = rng.choice([2, 3], len(columns[0]))
            assert check(trie_of(columns, weights), few, 2) == (weighted, weighted)
