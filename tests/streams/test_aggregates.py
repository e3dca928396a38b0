"""Aggregates of streams against recomputation in plain Python, with weights above 1."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest

from gpu_wcoj import streams
from gpu_wcoj.errors import NegativeWeightError
from tests.helpers.kernel_kinds import KINDS, Kind, lacking

AGGREGATORS = {
    "count": streams.Count,
    "sum": lambda: streams.Sum("v"),
    "mean": lambda: streams.Mean("v"),
    "min": lambda: streams.Min("v"),
    "max": lambda: streams.Max("v"),
    "count distinct": lambda: streams.CountDistinct("v"),
    "top": lambda: streams.TopK(2, [("v", "desc")]),
    "apply": lambda: streams.ApplyRows(lambda rows: (len(rows), sum(v for _, v, _ in rows)), ["n", "sum"]),
}


def recomputed(name, rows):
    """The rows of every group, from {(k, v, t): weight}."""
    groups = defaultdict(dict)
    for row, weight in rows.items():
        groups[row[0]][row] = weight
    rows_of_groups = Counter()
    for key, group_rows in groups.items():
        values = [row[1] for row in group_rows]
        if name == "top":
            rows_of_groups.update(sorted(group_rows, key=lambda row: (-row[1], row))[:2])
            continue
        result = {
            "count": (sum(group_rows.values()),),
            "sum": (sum(row[1] * weight for row, weight in group_rows.items()),),
            "mean": (sum(values) / len(values),),
            "min": (min(values),),
            "max": (max(values),),
            "count distinct": (len(set(values)),),
            "apply": (len(values), sum(values)),
        }[name]
        rows_of_groups[(key, *result)] = 1
    return dict(rows_of_groups)


def ticks(seed, scale):
    """Changes of a bag: weights rise, fall by part, and fall to 0, often within one tick."""
    rng = random.Random(seed)
    state: Counter[tuple[int, object, int]] = Counter()
    for _ in range(12):
        change: Counter[tuple[int, object, int]] = Counter()
        for row in sorted(state):
            kind = rng.randrange(5)
            if kind < 2:
                change[row] -= state[row] if kind else rng.randint(1, state[row])
            elif kind == 2:
                change[row] += rng.randint(1, 3)
        for _ in range(rng.randrange(7)):
            change[(rng.randrange(3), rng.randrange(-4, 9) * scale, rng.randrange(2))] += rng.randint(1, 3)
        for row, weight in change.items():
            state[row] += weight
        state = Counter({row: weight for row, weight in state.items() if weight})
        yield list(change.items()), dict(state)


@pytest.mark.drawn("scale", "name", "kind", each=True)
@pytest.mark.parametrize("scale", [1, 0.25], ids=["integers", "floats"])
@pytest.mark.parametrize("name", AGGREGATORS)
@pytest.mark.parametrize("kind", KINDS)
def test_weights_rise_and_fall(kind, name, scale):
    if reason := lacking(kind):
        pytest.skip(reason)
    for seed in range(1 if kind == "shim" else 2):
        circuit = streams.Circuit(backend=Kind(kind).backend())
        source = circuit.source("r", {"k": "int64", "v": "int64" if scale == 1 else "double", "t": "int64"})
        make = AGGREGATORS[name]
        circuit.sink("kept", source.incremental_aggregate("k", make()).integrate())
        circuit.sink("whole", source.integrate().aggregate("k", make()))
        for change, state in ticks(seed, scale):
            out = circuit.step({"r": change})
            expected = recomputed(name, state)
            assert out["kept"].to_dict() == expected, (seed, change)
            assert out["whole"].to_dict() == expected, (seed, change)


@pytest.mark.parametrize("name", AGGREGATORS)
def test_a_negative_weight_is_an_error(name):
    for integrated in (True, False):
        circuit = streams.Circuit(backend="cpu")
        source = circuit.source("r", {"k": "int64", "v": "int64", "t": "int64"})
        make = AGGREGATORS[name]
        integral = source.integrate()
        made = source.incremental_aggregate("k", make()).integrate() if integrated else integral.aggregate("k", make())
        circuit.sink("out", made)
        rows = {(1, 2, 3): 2, (1, 3, 3): 1}
        assert circuit.step({"r": list(rows.items())})["out"].to_dict() == recomputed(name, rows)
        with pytest.raises(NegativeWeightError):
            circuit.step({"r": [((1, 2, 3), -3)]})
        assert circuit.step({"r": [((1, 2, 3), -2)]})["out"].to_dict() == recomputed(name, {(1, 3, 3): 1})


def test_means_under_nested_time_see_rows_once():
    circuit = streams.Circuit(backend="cpu")
    rows = circuit.source("r", {"k": "int64", "v": "int64"})
    loop = circuit.subcircuit()
    inner = loop.introduce(rows)
    circuit.sink("mean", loop.eliminate(inner.incremental_aggregate("k", streams.Mean("v"))).integrate())
    assert circuit.step({"r": [((1, 2), 5), ((1, 4), 1)]})["mean"].to_dict() == {(1, 3.0): 1}
    assert circuit.step({"r": [((1, 2), -4), ((1, 9), 2)]})["mean"].to_dict() == {(1, 5.0): 1}
    assert circuit.step({"r": [((1, 2), -1), ((1, 4), 3)]})["mean"].to_dict() == {(1, 6.5): 1}
