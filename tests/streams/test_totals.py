"""Counts, sums and means of streams are those of Fractions after every tick, and those of programs."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj import streams
from tests.helpers.stream_literals import once, run

MAX = 2**63 - 1
VALUES = {
    "int64": [None, 0, 1, -7, 1 << 61, -(1 << 61), MAX, -MAX - 1],
    "double": [None, 0.0, 1.5, -1e300, 1e300, 5e-324, 0.1, -(2.0**60)],
    "decimal128(9, 2)": [None, Decimal("0.00"), Decimal("1.25"), Decimal("-9999999.99"), Decimal("0.01")],
}
AGGREGATORS = {"sum": streams.Sum("v"), "mean": streams.Mean("v"), "count": streams.Count()}


def expected(rows: Counter[tuple[object, object]], name: str) -> dict[object, object]:
    """Return the result of each group, or None for groups with only nulls."""
    results: dict[object, object] = {}
    for group in {row[0] for row in rows}:
        values = [(value, weight) for (key, value), weight in rows.items() if key == group]
        weighted = [(Fraction(value), 1 if name == "mean" else weight) for value, weight in values if value is not None]
        total, n_values = sum(value * weight for value, weight in weighted), sum(weight for _, weight in weighted)
        if name == "count":
            results[group] = sum(weight for _, weight in values)
        elif not weighted:
            results[group] = None
        else:
            results[group] = float(total) / n_values if name == "mean" else total
    return results


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("name", AGGREGATORS)
def test_random_ticks(kind, name):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    values = VALUES[kind] if name != "sum" or kind != "int64" else VALUES[kind][:4]
    circuit = streams.Circuit(backend="cpu")
    source = circuit.source("s", {"g": "string", "v": kind})
    circuit.sink("of changes", source.incremental_aggregate("g", AGGREGATORS[name]).integrate())
    circuit.sink("of all", source.integrate().aggregate("g", AGGREGATORS[name]))
    rows: Counter[tuple[object, object]] = Counter()
    for _ in range(12):
        tick: Counter[tuple[object, object]] = Counter()
        for _ in range(chance.choice((1, 2, 9))):
            row = chance.choice(["a", "b", None]), chance.choice(values)
            tick[row] += chance.choice((1, 3, -1)) if rows[row] + tick[row] > 0 else 1
        listed = [row for row in tick if tick[row]]
        rows.update(tick)
        rows += Counter()
        table = pa.table(
            {
                "g": pa.array([row[0] for row in listed], pa.string()),
                "v": pa.array([row[1] for row in listed], pa.float64() if kind == "double" else _arrow_type(kind)),
                "weight": [tick[row] for row in listed],
            }
        )
        answers = circuit.step({"s": table})
        assert answers["of changes"] == answers["of all"]
        results = {row[0]: row[1] for row, weight in answers["of changes"].rows() if weight == 1}
        assert set(results) == {row[0] for row in rows}
        for group, value in expected(rows, name).items():
            if value is None:
                assert results[group] is None
            elif kind == "double" or name == "mean":
                assert results[group] == pytest.approx(float(value), rel=1e-15)
            else:
                assert results[group] == value


def _arrow_type(kind: str) -> pa.DataType:
    return pa.int64() if kind == "int64" else pa.decimal128(9, 2)


def test_a_mean_whose_sum_leaves_int64_is_exact():
    rows = {(1, MAX): 1, (1, MAX - 2): 1, (2, -MAX - 1): 2}
    assert once(lambda s: s.aggregate(0, streams.Mean(1)), rows) == {(1, float(MAX)): 1, (2, float(-MAX - 1)): 1}
    ticks = [[rows], [{(1, MAX): -1, (1, 5): 1}]]
    changes = run(lambda s: s.incremental_aggregate(0, streams.Mean(1)), ticks)
    assert changes[1] == {(1, float(MAX)): -1, (1, (MAX + 3) / 2): 1}


def test_a_sum_that_leaves_int64_leaves_the_totals_as_they_were():
    circuit = streams.Circuit(backend="cpu")
    circuit.sink("sum", circuit.source("s").incremental_aggregate(0, streams.Sum(1)))
    circuit.step({"s": [(1, MAX)]})
    with pytest.raises(gw.errors.UnsupportedTypeError, match="the sum of column '1' over a group is outside int64"):
        circuit.step({"s": [(1, 5)]})
    assert circuit.step({"s": [(1, -5)]})["sum"].to_dict() == {(1, MAX): -1, (1, MAX - 5): 1}


def test_sums_and_means_are_those_of_programs():
    """The values are such that another way to round them would show."""
    rows = [(group, value / 7) for group in range(3) for value in (1, 10**9, 3, -(10**9), 0.3 + group)]
    circuit = streams.Circuit(backend="cpu")
    source = circuit.source("t", {"g": "int64", "v": "double"})
    for name in ("sum", "mean"):
        circuit.sink(name, source.incremental_aggregate("g", AGGREGATORS[name]))
    answers = circuit.step({"t": rows})
    for name, function in (("sum", "SUM"), ("mean", "AVG")):
        table = gw.query(
            f"SELECT g, {function}(v) AS x FROM t GROUP BY g", t={"g": [r[0] for r in rows], "v": [r[1] for r in rows]}
        )
        assert sorted(answers[name].to_dict()) == sorted(table.rows())
