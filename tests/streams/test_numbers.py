"""Numbers in streams at the edges of their types: exact, or refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj import streams
from gpu_wcoj.errors import NegativeWeightError, TypeMismatchError, UnsupportedTypeError, WeightOverflowError
from tests.helpers.stream_literals import once, run


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
