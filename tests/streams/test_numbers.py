"""Numbers in streams at the edges of their types: exact, or refused."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj import streams
from gpu_wcoj.errors import NegativeWeightError, TypeMismatchError, UnsupportedTypeError, WeightOverflowError
from tests.helpers.kernel_kinds import KINDS, needed
from tests.helpers.stream_literals import literal, once, run, zset


def test_integers_outside_the_declared_type_are_refused():
    circuit = gw.Circuit()
    circuit.sink("out", circuit.source("in", {"a": "int8"}))
    assert circuit.step({"in": [(5,)]})["out"].columns[0].type.name == "int8"
    message = r"relation 'in', column 'a': the value 300 \(row 1\) is outside the declared type 'int8'"
    with pytest.raises(TypeMismatchError, match=message):
        circuit.step({"in": [(6,), (300,)]})
    assert circuit.step({"in": [((5,), -1)]})["out"].rows() == [((5,), -1)]


@pytest.mark.parametrize("name", ["aggregate", "incremental_aggregate"])
@pytest.mark.parametrize("aggregator", [streams.Count, lambda: streams.Max(1), lambda: streams.TopK(1, [1])])
def test_a_negative_weight_is_an_error_that_names_the_row(name, aggregator):
    with pytest.raises(NegativeWeightError, match=r"the row \(1, 7\) has the weight -1"):
        run(lambda s: getattr(s, name)(0, aggregator()), [[{(1, 7): -1, (1, 8): 2}]])


def test_a_weight_that_is_negative_for_now_is_no_error_if_it_is_not_in_the_end():
    ticks = [[{(1, 7): 2}], [{(1, 7): -1}], [{(1, 7): -1}]]
    assert run(lambda s: s.incremental_aggregate(0, streams.Count()), ticks) == [
        {(1, 2): 1},
        {(1, 2): -1, (1, 1): 1},
        {(1, 1): -1},
    ]


MOST = 2**63 - 1


def test_weights_that_leave_int64_are_refused():
    for build in (lambda s: s + s, lambda s: s.integrate(), lambda s: s.trace(), lambda s: s.join(s, on=0)):
        with pytest.raises(WeightOverflowError, match="outside int64"):
            run(build, [[{(1, 2): MOST}], [{(1, 2): MOST}]])
    with pytest.raises(WeightOverflowError, match="outside int64"):
        run(lambda s: s.scope.multiway("h(x) :- s(x, _), s(x, _).", {"s": s}), [[{(1, 2): 1 << 32}]])
    with pytest.raises(WeightOverflowError, match="outside int64"):
        once(lambda s: -s, {(1, 2): -(2**63)})


def test_products_beyond_int64_that_cancel_are_exact():
    big = 1 << 40
    a, b = {(1, 0): big, (1, 1): 3}, {(1, 0): big, (1, 1): -big, (1, 2): 5}
    expected = {(1,): 5 * big + 15}
    assert once(lambda x, y: x.join(y, on=0, select=["c0"]), a, b) == {1: expected[1,]}
    rule = "h(k) :- a(k, _), b(k, _)."
    assert once(lambda x, y: x.scope.multiway(rule, {"a": x, "b": y}), a, b) == {1: expected[1,]}
    assert once(lambda x, y: x.incremental_join(y, on=0, select=["c0"]), a, b) == {1: expected[1,]}


def test_minus_of_the_least_weight_is_exact():
    assert once(lambda x, y: x - y, {1: -1}, {1: -(2**63)}) == {1: MOST}


def test_sums_are_exact_or_refused():
    rows = {(1, MOST): 1, (1, 5): 1, (1, -7): 1}
    assert once(lambda s: s.aggregate(0, streams.Sum(1)), rows) == {(1, MOST - 2): 1}
    with pytest.raises(UnsupportedTypeError, match="outside int64"):
        once(lambda s: s.aggregate(0, streams.Sum(1)), {(1, MOST): 1, (1, 5): 1})


def test_sums_of_floats_give_the_same_bits_in_any_order():
    values = [1e16, 1.0, -1e16, 3.5, 1e-9, 2.0**-60, 7.25]
    results = []
    for order in (values, values[::-1], sorted(values)):
        circuit = streams.Circuit(backend="cpu")
        circuit.sink("out", circuit.source("s").incremental_aggregate(0, streams.Sum(1)).integrate())
        circuit.sink("mean", circuit.source("t").aggregate(0, streams.Mean(1)))
        for value in order:
            out = circuit.step({"s": [(1, value)]})["out"]
        circuit.step({"s": [(1, 99.0)]})
        out = circuit.step({"s": [((1, 99.0), -1)]})["out"]
        results.append(out.rows())
    assert results[0] == results[1] == results[2]


def test_a_whole_number_of_decimals():
    table = pa.table({"k": [1, 1, 1], "v": pa.array(["1.25", "2.50", None]).cast(pa.decimal128(5, 2))})
    circuit = streams.Circuit(backend="cpu")
    source = circuit.source("s")
    circuit.sink("sum", source.incremental_aggregate("k", streams.Sum("v")))
    circuit.sink("mean", source.incremental_aggregate("k", streams.Mean("v")))
    out = circuit.step({"s": table})
    assert [str(row[1]) for row, _ in out["sum"].rows()] == ["3.75"]
    assert out["mean"].to_dict() == {(1, 1.875): 1}
    finer = pa.table({"k": [1], "v": pa.array(["0.0001"]).cast(pa.decimal128(5, 4))})
    out = circuit.step({"s": finer})
    assert sorted((str(row[1]), weight) for row, weight in out["sum"].rows()) == [("3.7500", -1), ("3.7501", 1)]


LARGE = 2**63 + 5
WIDE_TICKS = {
    "large after small": [{1: 1, 2: 1}, {LARGE: 2, 2: 1}, {5: 1, 1: 1, 2: -2}],
    "small after large": [{LARGE: 1, 1: 1}, {2: 1, -7: 3}, {2: 1, LARGE: 1, 1: -1}],
    "decimals": [{Decimal("1.5"): 1, Decimal(2): 1}, {Decimal("1234567890123456789.25"): 1}, {Decimal("1.5"): -1}],
}  # fmt: skip
"""Ticks in which a column turns out to have numbers of more than 63 bits, or has had them before."""


@pytest.mark.parametrize("ticks", WIDE_TICKS.values(), ids=WIDE_TICKS)
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_more_than_63_bits(ticks, kind):
    circuit = streams.Circuit(backend=needed(kind).backend())
    number: Any = type(next(iter(ticks[0])))
    small = circuit.source("small", {"c0": "int64" if number is int else "decimal128(9, 2)"})
    numbers = circuit.source("numbers")
    outputs = {
        "all": numbers.integrate(),
        "distinct": numbers.incremental_distinct().integrate(),
        "with itself": numbers.incremental_join(numbers, on=0).integrate(),
        "with small": numbers.incremental_join(small, on=0).integrate(),
        "small without": small.incremental_antijoin(numbers, on=0).integrate(),
        "greatest": numbers.incremental_aggregate([], streams.Max(0)).integrate(),
        "least two": numbers.incremental_aggregate([], streams.TopK(2, [0])).integrate(),
        "sum": (numbers + small).integrate(),
    }
    for name, stream in outputs.items():
        circuit.sink(name, stream)
    rows: Counter[Any] = Counter()
    for index, tick in enumerate(ticks, 1):
        rows.update(tick)
        rows = Counter({value: weight for value, weight in rows.items() if weight})
        answers = circuit.step({"numbers": zset(tick), "small": zset({number(2): 1, number(9): 1})})
        expected = {
            "with small": {2: rows[2] * index} if rows[2] else {},
            "small without": {9: index} if rows[2] else {2: index, 9: index},
            "sum": Counter({2: index, 9: index}) + rows,
            "all": rows,
            "distinct": dict.fromkeys(rows, 1),
            "with itself": {value: weight**2 for value, weight in rows.items()},
            "greatest": {max(rows): 1},
            "least two": dict.fromkeys(sorted(rows)[:2], 1),
        }
        for name, answer in expected.items():
            assert literal(answers[name]) == answer, name


def test_a_multiway_join_in_a_loop_is_exact_where_the_sum_of_its_weights_leaves_int64():
    circuit = streams.Circuit(backend="cpu")
    loop = circuit.subcircuit()
    rows = loop.introduce(circuit.source("s"))
    circuit.sink("pairs", loop.eliminate(loop.multiway("h(a, b) :- s(a), s(b).", {"s": rows})))
    weights = Counter(dict.fromkeys(range(3), 2**30))
    pairs: Counter[tuple[int, int]] = Counter()
    for change in (weights, {1: -(2**30)}, {0: 2**30, 2: -(2**30)}):
        if change is not weights:
            weights.update(change)
        pairs.update(literal(circuit.step({"s": zset(change)})["pairs"]))
        assert pairs == Counter({(a, b): weights[a] * weights[b] for a in weights for b in weights})
