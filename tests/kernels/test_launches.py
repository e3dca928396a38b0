"""What calls cost on a device: launches of kernels, device-to-host reads and uploads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpu_wcoj.kernels.protocol import N_WORK
from tests.helpers.kernel_cases import moved, trie
from tests.helpers.kernel_kinds import needed

FEW, MANY = 1024, 3000
WIDE = 2**40
"""Two columns of such values need more than one key."""


@pytest.fixture
def device_backend():
    return needed("shim").backend()


def cost(backend: Any, call: Callable[..., Any], *arguments: Any) -> tuple[int, int, int]:
    """(launches, reads, uploads) of a call."""
    with backend.device.counted() as counts:
        call(*arguments)
    return counts.launches, counts.reads, counts.uploads


def some_columns(backend: Any, n: int, least: int = 0, step: int = 1) -> list[Any]:
    """Two columns in no order, each row twice."""
    first = np.arange(n)[::-1] // 2 * step + least
    return moved([first % (1 + step * n // 10), first], backend)


@pytest.mark.parametrize(("n", "launches", "reads"), [(FEW, 1, 0), (MANY, 2, 1)])
def test_lexsort(device_backend, n, launches, reads):
    kernels = device_backend.kernels
    assert cost(device_backend, kernels.lexsort, some_columns(device_backend, n)) == (launches, reads, 0)


def test_lexsort_of_sorted_rows(device_backend):
    columns = moved([np.arange(MANY)], device_backend)
    assert cost(device_backend, device_backend.kernels.lexsort, columns) == (1, 1, 0)


def test_lexsort_by_two_keys(device_backend):
    columns = some_columns(device_backend, MANY, step=WIDE)
    assert cost(device_backend, device_backend.kernels.lexsort, columns) == (3, 1, 0)


@pytest.mark.parametrize(("n", "launches"), [(FEW, 1), (MANY, 3)])
def test_run_starts(device_backend, n, launches):
    kernels = device_backend.kernels
    assert cost(device_backend, kernels.run_starts, some_columns(device_backend, n)) == (launches, 1, 0)


@pytest.mark.parametrize(("n", "step", "launches", "reads"), [(FEW, 1, 1, 1), (MANY, 1, 6, 2), (MANY, WIDE, 8, 2)])
def test_distinct_rows(device_backend, n, step, launches, reads):
    columns = some_columns(device_backend, n, step=step)
    assert cost(device_backend, device_backend.kernels.distinct_rows, columns) == (launches, reads, 0)


def test_distinct_rows_of_such(device_backend):
    """Rows that are sorted and distinct are looked at once, and handed back."""
    columns = moved([np.arange(MANY), np.arange(MANY)], device_backend)
    assert cost(device_backend, device_backend.kernels.distinct_rows, columns) == (1, 1, 0)


@pytest.mark.parametrize(("n", "step", "launches", "reads"), [(FEW, 1, 1, 1), (MANY, 1, 10, 2), (MANY, WIDE, 11, 2)])
def test_consolidate(device_backend, n, step, launches, reads):
    columns = some_columns(device_backend, n, step=step)
    weights = device_backend.asarray(np.ones(n, np.int64))
    assert cost(device_backend, device_backend.kernels.consolidate, columns, weights) == (launches, reads, 0)


def test_consolidate_of_consolidated_rows(device_backend):
    columns = moved([np.arange(MANY), np.arange(MANY)], device_backend)
    weights = device_backend.asarray(np.ones(MANY, np.int64))
    assert cost(device_backend, device_backend.kernels.consolidate, columns, weights) == (6, 2, 0)


@pytest.mark.parametrize(("n", "launches"), [(FEW, 2), (MANY, 4)])
def test_segment_sums(device_backend, n, launches):
    arrays = moved([np.arange(n), np.arange(0, n, 3)], device_backend)
    assert cost(device_backend, device_backend.kernels.segment_sums, *arrays) == (launches, 1, 0)


@pytest.mark.parametrize(("n", "launches"), [(FEW, 1), (MANY, 3)])
def test_exclusive_sum(device_backend, n, launches):
    counts = device_backend.asarray(np.arange(n))
    assert cost(device_backend, device_backend.kernels.exclusive_sum, counts) == (launches, 0, 0)


@pytest.mark.parametrize(("n", "launches"), [(0, 0), (FEW, 1), (MANY, 3)])
def test_held_rows(device_backend, n, launches):
    masks = [device_backend.asarray(np.arange(n) % 2 == k) for k in range(2)]
    assert cost(device_backend, device_backend.kernels.held_rows, masks) == (2 * launches, min(n, 1), 0)


def test_hash_rows(device_backend):
    assert cost(device_backend, device_backend.kernels.hash_rows, some_columns(device_backend, MANY)) == (1, 0, 0)


@pytest.mark.parametrize(("n", "launches"), [(FEW, 1), (MANY, 3)])
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_tries(device_backend, depth, n, launches):
    kernels = device_backend.kernels
    columns = moved([np.arange(n) // 10 ** (depth - 1 - level) for level in range(depth)], device_backend)
    assert cost(device_backend, kernels.build_levels, columns) == (launches, 1, 0)
    values, offsets = kernels.build_levels(columns)
    assert cost(device_backend, kernels.expand_columns, values, offsets) == ((1, 0, 1) if depth > 1 else (0, 0, 0))
    parents = [None, *offsets]
    described = []
    assert cost(device_backend, lambda: described.extend(map(kernels.describe, values, parents, parents))) == (0, 0, 0)
    records = [record for record, _ in described]
    wanted = device_backend.asarray(np.array([np.arange(50)] * depth))
    arguments = [records, records[:1]], [list(range(depth)), [0]], wanted
    assert cost(device_backend, kernels.locate, *arguments) == (1, 0, 1)


def test_choices(device_backend):
    """Nothing is waited for, however many tries and choices there are."""
    kernels = device_backend.kernels
    index = trie({(i // 10, i): 1 for i in range(MANY)}, 2, device_backend)
    levels = [index.levels] * 3
    rows = device_backend.asarray(np.array([np.arange(MANY)]))
    assert cost(device_backend, kernels.count_children, levels, [[0]] * 3, rows) == (1, 0, 1)
    positions = kernels.locate([index.records[:1]] * 2, [[0]] * 2, rows)
    choices = [(positions, [[(0, index.offsets[0]), (1, index.offsets[0])]]), (positions, [])]
    assert cost(device_backend, kernels.narrowest, choices) == (1, 0, 1)
    widths = [index.levels[1]] * 2, [0, 1], positions, rows[0], rows[0]
    assert cost(device_backend, kernels.widths, *widths) == (1, 0, 1)
    both = device_backend.asarray(np.array([np.arange(MANY), np.arange(MANY)]))
    assert cost(device_backend, kernels.weights_of, levels, [[0, 1]] * 3, both) == (1, 0, 1)


def test_wide_tables_take_an_upload(device_backend):
    columns = moved([np.arange(MANY)] * 9, device_backend)
    assert cost(device_backend, device_backend.kernels.hash_rows, columns) == (1, 0, 1)


@pytest.mark.parametrize(("n", "alone", "beside"), [(200, (4, 2, 1), (7, 3, 2)), (MANY, (9, 3, 1), (14, 4, 2))])
def test_fresh_values(device_backend, n, alone, beside):
    kernels = device_backend.kernels
    index = trie({(key, value): 1 for key in range(4) for value in range(n)}, 2, device_backend)
    half = trie({(key, value): 1 for key in range(4) for value in range(0, n, 2)}, 2, device_backend)
    positions, known_positions, starts = moved(
        [np.array([[0, 1, 2, 3]]), np.array([[0, 1]]), np.array([0, 2, 4])], device_backend
    )
    work = device_backend.asarray(np.zeros(N_WORK, np.int64))
    arguments = [index.levels[1:], positions, starts]
    assert cost(device_backend, kernels.fresh_values, *arguments, (), known_positions[:0], work) == alone
    assert cost(device_backend, kernels.fresh_values, *arguments, half.levels[1:], known_positions, work) == beside
