"""The last blocks of grids over more than 2^32 rows: memory is reserved, and only what these blocks touch is there."""

from __future__ import annotations

import functools
import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from gpu_wcoj.kernels.cuda.device import N_DIRECT
from gpu_wcoj.kernels.cuda.device import TILE as PASS_TILE
from gpu_wcoj.kernels.cuda.tries import COPY_BLOCK, TILE
from tests.ptx import library
from tests.ptx.library import PtxLibrary, Range, load_ptx, ptx_of
from tests.reference import kernels as reference
from tests.shim import build

pytestmark = [
    pytest.mark.long,  # make test-ptx runs it, too
    pytest.mark.skipif(library.available() is not None, reason=str(library.available())),
]

NORESERVE = 0x4000
"""Linux's MAP_NORESERVE: pages that nobody touches cost nothing."""
BLOCK = 256
N = 2**32 + 1500
"""Rows, so that an index in 32 bits comes out as one of the first."""


@functools.cache
def loaded(source: str) -> PtxLibrary:
    return load_ptx(source, ptx_of(source, build.package_source(source), library.architecture()))


class Memory:
    """Reserved arrays, and launches over them."""

    def __init__(self) -> None:
        self.arrays: list[npt.NDArray[Any]] = []

    def reserved(self, n: int, dtype: Any = np.int64) -> npt.NDArray[Any]:
        """An array of zeros, none of which is there before it is touched."""
        n_bytes = n * np.dtype(dtype).itemsize
        try:
            memory = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE)
        except OSError as error:
            pytest.skip(f"this machine reserves no {n_bytes:,} bytes: {error}")
        self.arrays.append(np.frombuffer(memory, dtype))
        return self.arrays[-1]

    def held(self, values: Any, dtype: Any = np.int64) -> npt.NDArray[Any]:
        """An array that is all there."""
        self.arrays.append(np.ascontiguousarray(values, dtype))
        return self.arrays[-1]

    def launch(
        self, source: str, kernel: str, arguments: Sequence[Any], n_blocks: int, block: int, last: int = 1
    ) -> None:
        """Run the last blocks of a grid; None is a null pointer."""
        ranges = [Range(a.ctypes.data, a.ctypes.data + a.nbytes, 0) for a in self.arrays]
        given = [a.ctypes.data if isinstance(a, np.ndarray) else a or 0 for a in arguments]
        loaded(source).run_blocks(kernel, given, n_blocks, block, (n_blocks - last, n_blocks), ranges)


@pytest.fixture
def memory() -> Memory:
    return Memory()


INSERTED, KEPT, REMOVED = range(3)


@pytest.mark.parametrize("kind", ["rows", "weighted", "nodes"])
@pytest.mark.parametrize("width", ["narrow", "wide"])
def test_merge_copies(memory, width, kind):
    """A row that right brings, one that it takes, and one that both have, near the end of left."""
    n = 2**32 + 10_000
    n_blocks = -(-(n + 3) // TILE)
    begin = (n_blocks - 3) * TILE
    at = np.array([n - 4000, n - 2500, n - 17])
    fates = [INSERTED, REMOVED, KEPT]
    left = memory.reserved(n, np.int32 if width == "narrow" else np.int64)
    left[begin:] = np.arange(n - begin) * 3
    right = memory.held([-7, *left[at[1:]]], np.int32)
    places = memory.held(4 * at + fates)
    within, chunk_before = memory.held([0, 1, 0, 0], np.int32), memory.held([0])
    out = memory.reserved(n, left.dtype)
    own, others, along = np.zeros(n - begin, np.int64), np.zeros(3, np.int64), []
    if kind == "weighted":
        left_weights, out_along = memory.reserved(n), memory.reserved(n)
        left_weights[begin:] = own = np.arange(n - begin) + 2**40
        right_weights = others = memory.held([5, -own[at[1] - begin], 9])
        along = [left_weights, right_weights, out_along]
    elif kind == "nodes":
        left_offsets, out_along = memory.reserved(n + 1), memory.reserved(n + 1)
        left_offsets[begin:] = np.arange(n + 1 - begin) * 2 + 2**41
        own, others = left_offsets[begin:], memory.held([0, 4, 1, 3])
        along = [left_offsets, others, out_along]
    sides = [left, n, right, 3] if width == "narrow" else [left, 1, n, right, 0, 3]
    memory.launch("merge", f"copy_{width}_{kind}", [*sides, places, within, chunk_before, out, *along],
                  n_blocks, COPY_BLOCK, last=3)  # fmt: skip
    values: list[int] = []
    beside: list[int] = []
    r = 0
    for i in range(begin, n):
        met = None
        while r < 3 and at[r] == i:
            if fates[r] == INSERTED:
                values.append(int(right[r]))
                beside.append(int(own[i - begin] + others[r] if kind == "nodes" else others[r]))
            else:
                met = fates[r]
            r += 1
        if met == REMOVED:
            continue
        values.append(int(left[i]))
        shift = others[r - 1 if met == KEPT else r] if kind == "nodes" else others[2] if met == KEPT else 0
        beside.append(int(own[i - begin] + shift))
    assert out[begin:].tolist() == values
    if kind != "rows":
        assert out_along[begin:n].tolist() == beside
    if kind == "nodes":
        assert out_along[n] == left_offsets[n] + others[3]


def columns_of(*columns: npt.NDArray[Any]) -> list[Any]:
    """The arguments for a kernel's columns."""
    return [*columns, *[None] * (N_DIRECT - len(columns)), None, len(columns)]


def test_held_rows(memory):
    n_blocks = -(-N // PASS_TILE)
    begin = (n_blocks - 1) * PASS_TILE
    mask, sums = memory.reserved(N, np.uint8), memory.reserved(n_blocks)
    mask[begin::3] = 1
    expected = np.arange(begin, N, 3)
    memory.launch("rows", "count_held", [mask, N, sums], n_blocks, BLOCK)
    assert sums[-1] == len(expected)
    rows = memory.reserved(2**32 + 2000)
    sums[-1] = 2**32 + 9
    memory.launch("rows", "place_held", [mask, N, sums, None, rows], n_blocks, BLOCK)
    assert rows[2**32 + 9 :][: len(expected)].tolist() == expected.tolist()
    assert not rows[2**32 + 9 + len(expected) :].any()
    assert not rows[:1000].any()


def test_runs(memory):
    n_blocks = -(-N // PASS_TILE)
    begin = (n_blocks - 1) * PASS_TILE
    column, weights = memory.reserved(N), memory.reserved(N)
    column[begin - 1 :] = np.arange(N - begin + 1) // 5
    weights[begin:] = np.arange(N - begin) - 2**35
    starts_here = np.flatnonzero(np.diff(column[begin - 1 :])) + begin
    sums = memory.reserved(2 * n_blocks)
    memory.launch("rows", "count_runs", [*columns_of(column), weights, N, sums], n_blocks, BLOCK)
    assert (sums[n_blocks - 1], sums[-1]) == (len(starts_here), weights[begin:].sum())
    base, before_tile = 2**32 + 5, 2**50
    sums[n_blocks - 1], sums[-1] = base, before_tile
    starts, before = memory.reserved(2**32 + 1000), memory.reserved(2**32 + 1000)
    arguments = [*columns_of(column), weights, N, sums, None, starts, before]
    memory.launch("rows", "place_runs", arguments, n_blocks, BLOCK)
    assert starts[base:][: len(starts_here)].tolist() == starts_here.tolist()
    running = before_tile + np.concatenate(([0], np.cumsum(weights[begin:])))
    ends = [*(starts_here - begin), N - begin]
    assert before[base:][: len(ends)].tolist() == running[ends].tolist()


def test_sums(memory):
    n_blocks = -(-N // PASS_TILE)
    begin = (n_blocks - 1) * PASS_TILE
    values = memory.reserved(N)
    values[begin:] = np.arange(N - begin) * (2**33 + 1) - 2**44
    own = values[begin:]
    sums = memory.reserved(2 * n_blocks)
    memory.launch("sums", "sum_tiles", [values, N, 1, sums], n_blocks, BLOCK)
    assert (sums[n_blocks - 1], sums[-1]) == ((own & 0xFFFFFFFF).sum(), (own >> 32).sum())
    sums[n_blocks - 1] = 2**45
    out = memory.reserved(N + 1)
    memory.launch("sums", "place_sums", [values, N, sums, out], n_blocks, BLOCK)
    assert out[begin:].tolist() == (2**45 + np.concatenate(([0], np.cumsum(own)))).tolist()
    sums[n_blocks - 1], sums[-1] = 7, 2**40
    starts, before, failed = memory.held([begin - 3, begin + 4, N - 1]), memory.held([0] * 8), memory.held([0])
    memory.launch("sums", "sums_before_runs", [values, N, starts, 3, sums, before, failed], n_blocks, BLOCK)
    low, high = ([0, *np.cumsum(part).tolist()] for part in (own & 0xFFFFFFFF, own >> 32))
    places = (4, N - 1 - begin, N - begin)
    assert before[1:4].tolist() == [7 + low[place] for place in places]
    assert before[5:].tolist() == [2**40 + high[place] for place in places]


def test_tries(memory):
    """A level of parents and one of children; the parents' offsets count children beyond 2^32."""
    n_blocks = -(-N // PASS_TILE)
    begin = (n_blocks - 1) * PASS_TILE
    first, second = memory.reserved(N), memory.reserved(N)
    first[begin - 1 :] = 5 + np.arange(N - begin + 1) // 7
    second[begin - 1 :] = np.arange(N - begin + 1) % 7 + 2**33
    parents = np.flatnonzero(np.diff(first[begin - 1 :])) + begin
    sums = memory.reserved(3 * n_blocks)
    memory.launch("tries", "count_nodes", [*columns_of(first, second), N, sums], n_blocks, BLOCK)
    assert sums[n_blocks - 1 :: n_blocks].tolist() == [len(parents), 0, 1]
    n_parents = 2**32 + len(parents)
    sums[n_blocks - 1] = 2**32
    totals = memory.held([n_parents, 0, 1])
    words = [-(-size // 64) * 8 for size in (4 * n_parents, 8 * (n_parents + 1), 8 * N)]
    trie = memory.reserved(sum(words))
    memory.launch("tries", "place_nodes", [*columns_of(first, second), N, sums, totals, trie], n_blocks, BLOCK)
    values = trie[: words[0]].view(np.int32)
    offsets, leaves = trie[words[0] :][: n_parents + 1], trie[words[0] + words[1] :]
    assert values[2**32 : n_parents].tolist() == first[parents].tolist()
    assert offsets[2**32 :].tolist() == [*parents.tolist(), N]
    assert leaves[begin:N].tolist() == second[begin:].tolist()


def test_expand_rows(memory):
    n_blocks = -(-N // PASS_TILE)
    begin = (n_blocks - 1) * PASS_TILE
    values, children = memory.held([3, 4, 5]), memory.reserved(N, np.int32)
    children[begin:] = np.arange(N - begin)
    offsets = memory.held([0, 2**31, begin + 10, N])
    fields = [[values.ctypes.data, 8, 0, 0], [children.ctypes.data, 4, offsets.ctypes.data, 3]]
    out = memory.reserved(2 * N)
    memory.launch("tries", "expand_rows", [memory.held(fields), 2, N, out], n_blocks, BLOCK)
    assert out[begin:N].tolist() == [4] * 10 + [5] * (N - begin - 10)
    assert out[N + begin :].tolist() == list(range(N - begin))


def test_rows_one_a_thread(memory):
    """Kernels whose grids loop, with a thread for each row."""
    n_blocks = -(-N // BLOCK)
    begin = (n_blocks - 1) * BLOCK
    column, picks = memory.reserved(N), memory.reserved(N)
    column[begin:] = np.arange(N - begin) * 2**31 - 2**60
    picks[begin:] = np.arange(begin, N)[::-1]
    out = memory.reserved(2 * N)
    arguments = [*columns_of(column, column), picks, N, out]
    memory.launch("rows", "gather", arguments, n_blocks, BLOCK)
    assert out[begin:N].tolist() == out[N + begin :].tolist() == column[begin:][::-1].tolist()
    hashes = memory.reserved(N, np.uint64)
    memory.launch("sums", "hash_table", [*columns_of(column), N, hashes], n_blocks, BLOCK)
    assert hashes[begin:].tolist() == [reference.hash_row((value,)) for value in column[begin:].tolist()]
    low, high = int(column[begin]), int(column[-1])
    ranges, keys = memory.held([~low, high, 0]), memory.reserved(N, np.uint64)
    memory.launch("rows", "pack", [*columns_of(column), N, ranges, 0, 1, None, 0, keys], n_blocks, BLOCK)
    assert keys[begin:].tolist() == [value - low for value in column[begin:].tolist()]
    memory.launch("rows", "unpack", [keys, picks, N, ranges, 1, out], n_blocks, BLOCK)
    assert out[begin:N].tolist() == column[begin:][::-1].tolist()
    arranged = memory.reserved(2 * N)
    memory.launch("rows", "gather_keys", [keys, 0, column, picks, N, arranged], n_blocks, BLOCK)
    assert arranged[begin:N].tolist() == keys[begin:][::-1].tolist()
    assert arranged[N + begin :].tolist() == column[begin:][::-1].tolist()
    places = memory.reserved(N)
    values = memory.held(column[begin:].copy())
    table = memory.held([0, 1, values.ctypes.data, 8, 0, 0, len(values), 1, 0])
    memory.launch("tries", "locate_rows", [table, 1, column, N, places], n_blocks, BLOCK)
    assert places[begin:].tolist() == list(range(N - begin))
