"""Cost of a tick at a group with many rows: it depends on the change only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.backend import cpu_backend

N = 60_000
HEADS = {
    "count": "h(x, n) :- g(x), n = count : { r(x, _) }.",
    "count of all": "h(n) :- n = count : { r(_, _) }.",
    "sum": "h(x, sum(v)) :- r(x, v).",
    "mean": "h(x, mean(v)) :- r(x, v).",
    "min": "h(x, min(v)) :- r(x, v).",
    "max": "h(x, max(v)) :- r(x, v).",
    "max of all": "h(max(v)) :- r(_, v).",
}
MERGING = ("merge_tries", "build_levels", "expand_columns", "describe", "exclusive_sum")


class WatchedKernels:
    """Kernels of a backend that record the longest argument, except for merging kernels."""

    def __init__(self, kernels):
        self.kernels, self.longest = kernels, 0

    def __getattr__(self, name):
        attribute = getattr(self.kernels, name)
        if not callable(attribute) or name in MERGING:
            return attribute

        def call(*arguments, **named):
            self.longest = max([self.longest, *map(_length, (*arguments, *named.values()))])
            return attribute(*arguments, **named)

        return call


def _length(value):
    """The length of an array, or of the longest of some."""
    if isinstance(value, np.ndarray):
        return value.shape[-1] if value.ndim else 0
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], np.ndarray):
        return max(map(_length, value))
    return 0


@pytest.mark.drawn("bag")
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("name", HEADS)
def test_a_hub_is_not_looked_at(name, bag):
    kernels = WatchedKernels(cpu_backend().kernels)
    backend = replace(cpu_backend(), kernels=kernels)
    program = gw.Program(f"{HEADS[name]} .output h", bag=bag, backend=backend, threads=1)
    values = list(range(0, 2 * N, 2))
    program.step({"r": np.array([(1, value) for value in values])} | ({"g": [(1,)]} if "g(" in HEADS[name] else {}))
    ends = min if "min" in name else max
    longest = 0
    for tick in range(40):
        gone = ends(values)
        values.remove(gone)
        change = [((1, gone), -1)]
        if tick % 4 == 0:
            values.append(2 * tick + 1)
            change.append((1, 2 * tick + 1))
        kernels.longest = 0
        program.step({"r": change})
        longest = max(longest, kernels.longest)
        ((row, weight),) = program.relation("h").rows()
        assert weight == 1
        assert row[-1] == _expected(name, values)
    assert longest < 600


def _expected(name, values):
    if "count" in name:
        return len(values)
    if name == "mean":
        return sum(values) / len(values)
    return {"sum": sum, "min": min}.get(name.split()[0], max)(values)


def test_dead_values_are_passed_over_in_larger_and_larger_steps():
    program = gw.Program("h(x, min(v)) :- r(x, v).", threads=1)
    program.step({"r": np.array([(1, value) for value in range(50_000)])})
    program.step({"r": gw.ZSet.from_rows([((1, value), -1) for value in range(49_000)])})
    assert program.relation("h").to_dict() == {(1, 49_000): 1}
    program.step({"r": [((1, value), -1) for value in range(49_000, 50_000)]})
    assert program.relation("h").to_dict() == {}


@pytest.mark.parametrize("op", ["count", "sum", "min", "max", "mean"])
def test_state_goes_with_its_rows(op):
    head = "h(x, n) :- r(x, _), n = count : { r(x, _) }." if op == "count" else f"h(x, {op}(v)) :- r(x, v)."
    for value in (1, 0.1):
        program = gw.Program(head)
        rows = [(x % 7, x * value) for x in range(100)]
        for begin in range(0, 100, 20):
            program.step({"r": rows[begin : begin + 20]})
        for row in reversed(rows):
            program.step({"r": [(row, -1)]})
        program.compact()
        assert all(sum(sizes) == 0 for sizes in program.state_rows.values())
