"""Tests of `cpu_fallback.runtime.KernelLowering`: compiled functions compute what Python computes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cpu_fallback import runtime
from cpu_fallback.runtime import cached_njit


@pytest.fixture
def compiled(monkeypatch):
    """Compile functions without a cache folder."""
    monkeypatch.setattr(runtime, "FOLDER", None)
    return cached_njit


def visit(start, end, stop):
    """Loop over ranges in ranges, with ways out of the middle."""
    total = np.int64(0)
    for i in range(start, end):
        if i == stop:
            break
        for j in range(i):
            if j % 3 == 0:
                continue
            total += i * 100 + j
        for _ in range(start):
            total += 7
    else:
        total -= 1
    i = np.int64(5)
    for i in range(end, start):
        i += 2
        total += i
    return total, i


def test_ranges(compiled):
    function = compiled(visit)
    for start in range(-3, 5):
        for end in range(-3, 12):
            assert function(start, end, 7) == visit(start, end, 7)
    for bound in (2**63 - 1, -(2**63)):
        edge = np.int64(bound)
        assert function(edge, edge, 0)[0] == -1 + (np.int64(0))


def visit_with_steps(start, end, step):
    """Loop over a range with any step, and one with a step of 1."""
    total = np.int64(0)
    for i in range(start, end, step):
        for j in range(3):
            total = total * 3 + i - j
    return total


def test_ranges_with_steps(compiled):
    function = compiled(visit_with_steps)
    for step in (-3, -1, 1, 2, 5):
        for start in range(-3, 4):
            for end in range(-3, 4):
                assert function(start, end, step) == visit_with_steps(start, end, step)


def choose(left, right, narrow, word, real):
    """Return smaller and larger values of two and three values of several types."""
    return (
        min(left, right), max(left, right), max(left, 0), min(-1, right), max(left, right, 3), min(left, right, 3),
        min(narrow, left), max(narrow, 1), max(word, word), min(real, 1.5), max(real, left),
    )  # fmt: skip


def test_smaller_and_larger_values(compiled):
    function = compiled(choose)
    edges = (-(2**63), -1, 0, 1, 2**63 - 1)
    for left in edges:
        for right in edges:
            args = np.int64(left), np.int64(right), np.int32(left % 7 - 3), np.uint64(2**63), 0.5
            assert function(*args) == choose(*args)


def shift(values, matrix, flags, words, index, row, column):
    """Read and write elements of arrays by positions from either end."""
    values[index] = values[-1] + len(values)
    matrix[row, column] = values[index] + matrix[-1, 0] + matrix[row, -1]
    flags[index] = not flags[-2]
    words[index] += np.uint64(3)
    values[len(values) - 1] = flags[index]
    return values[index], matrix[row, column], flags[0], words[-1], len(flags), len(matrix)


@pytest.mark.parametrize("order", ["C", "F", "part"])
@pytest.mark.parametrize("code", [np.int32, np.int64])
def test_elements_of_arrays(compiled, order, code):
    function, chance = compiled(shift), random.Random(1)

    def arrays():
        matrix = np.arange(12, dtype=code).reshape(3, 4)
        if order == "part":
            matrix = np.arange(48, dtype=code).reshape(6, 8)[::2, ::2]
        values = np.arange(10, dtype=code)[::2] if order == "part" else np.arange(5, dtype=code)
        return (
            values,
            np.asarray(matrix, order="F" if order == "F" else None),
            np.ones(5, np.bool_),
            np.arange(5, dtype=np.uint64),
        )

    for _ in range(30):
        place = chance.randrange(-5, 5), chance.randrange(-3, 3), chance.randrange(-4, 4)
        given, expected = arrays(), arrays()
        assert function(*given, *place) == shift(*expected, *place)
        for array, wanted in zip(given, expected, strict=True):
            assert array.tolist() == wanted.tolist()


def test_errors_of_called_functions(compiled):
    @compiled
    def divide(left, right):
        return left // right, left

    @compiled
    def store(values, left, right):
        values[0] = divide(left, right)[0]

    @compiled
    def call(values, left, right):
        store(values, left, right)
        smaller, _ = divide(left, 2)
        return smaller

    values = np.zeros(1, np.int64)
    assert call(values, 9, 3) == 4
    assert values[0] == 3
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            call(values, 1, 0)
    assert values[0] == 3
    assert call(values, 8, 2) == 4
