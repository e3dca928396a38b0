"""Circuits as structures: nodes, order, time, ticks that fail, and what is refused."""

from __future__ import annotations

import importlib
import pkgutil

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj import streams
from gpu_wcoj.errors import (
    ArityError,
    CircuitError,
    ColumnError,
    IterationLimitError,
    NegativeWeightError,
    SchemaError,
    TypeMismatchError,
    UnknownRelationError,
    UnsupportedError,
    UnsupportedTypeError,
    UsageError,
    WeightOverflowError,
)
from gpu_wcoj.streams import operators
from gpu_wcoj.streams.place import NOTHING
from tests.streams.graphs import closure_by_joins, truss_from_changes
from tests.streams.literals import literal, once, run, zset


@pytest.fixture
def circuit():
    return streams.Circuit(backend="cpu")


# Structure


def test_names_come_from_the_package():
    assert gw.Circuit is streams.Circuit
    assert gw.streams is streams
    assert {getattr(streams, name) is not None for name in streams.__all__} == {True}
    assert set(streams.__all__) <= set(dir(streams))
    with pytest.raises(AttributeError, match="has no attribute 'Sink'"):
        _ = streams.Sink
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = gw.nonsense


def test_ids(circuit):
    edges = circuit.source("edge")
    loop = circuit.subcircuit()
    edge, again = loop.introduce(edges), loop.feedback()
    again.connect((edge + again).distinct())
    circuit.sink("out", loop.export(edge))
    assert [node.local_id for node in circuit.nodes] == list(range(len(circuit.nodes)))
    assert [node.local_id for node in loop.nodes] == list(range(len(loop.nodes)))
    assert loop.node.global_id == (1,)
    assert edge.node.global_id == (1, 0)
    everything = [node.global_id for node in circuit.all_nodes()]
    assert len(set(everything)) == len(everything)
    kinds = [node.kind for node in circuit.nodes]
    assert kinds == ["source", "child", "operator", "sink"]
    assert [node.kind for node in loop.nodes] == ["import", "feedback", "operator", "operator"]


def test_nodes_are_evaluated_in_topological_order(circuit):
    order = []
    later = circuit.forward("later")
    after = later.inspect(lambda _: order.append("after"))
    source = circuit.source("s")
    later.connect(source.inspect(lambda _: order.append("before")))
    circuit.sink("out", after)
    assert literal(circuit.step({"s": [(1,)]})["out"]) == {1: 1}
    assert order == ["before", "after"]


def test_cells_hold_the_current_value(circuit):
    source = circuit.source("s")
    twice = source + source
    assert twice.value is NOTHING
    circuit.step({"s": [(1,)]})
    assert literal(twice.value) == {1: 2}
    circuit.step()
    assert literal(twice.value) == {}


def test_a_feedback_is_read_in_the_next_tick(circuit):
    before = circuit.feedback()
    total = circuit.source("s") + before
    before.connect(total)
    circuit.sink("total", total)
    circuit.sink("before", before)
    out = [circuit.step({"s": [row]}) for row in [(1,), (1,), (2,)]]
    assert [literal(one["total"]) for one in out] == [{1: 1}, {1: 2}, {1: 2, 2: 1}]
    assert [literal(one["before"]) for one in out] == [{}, {1: 1}, {1: 2}]


def test_a_cycle_without_a_feedback_is_named(circuit):
    around = circuit.forward("around")
    around.connect((circuit.source("s") + around).named("sum").distinct().named("set"))
    with pytest.raises(CircuitError, match=r"cycle: 0 around <- 3 set <- 2 sum <- 0 around\.") as caught:
        circuit.step()
    assert "feedback" in str(caught.value)


def test_explain_lists_nodes_in_order(circuit):
    edges = circuit.source("edge")
    circuit.sink("reach", closure_by_joins(circuit, edges))
    text = circuit.explain()
    assert "0 edge (source)" in text
    assert "1 closure (child) reads 0" in text
    assert "  1.0 δ0 (import) reads 0" in text
    assert "(feedback)" in text


def test_nodes_may_be_added_after_the_order_was_asked_for(circuit):
    loop = circuit.subcircuit()
    start = loop.introduce(circuit.source("s"))
    circuit.explain()
    seen = []
    start.inspect(lambda value: seen.append(literal(value)))
    circuit.step({"s": [(1,)]})
    assert seen == [{1: 1}, {}]


def test_what_comes_in_is_the_circuits_own(circuit):
    array = np.array([5])
    circuit.sink("out", circuit.source("s").integrate())
    out = circuit.step({"s": {"x": array}})["out"]
    array[0] = 7
    assert literal(out) == {5: 1}
    assert literal(circuit.step()["out"]) == {5: 1}


def test_traces_are_shared(circuit):
    a, b = circuit.source("a"), circuit.source("b")
    a.incremental_join(b, on=0)
    n_nodes = len(circuit.nodes)
    a.incremental_join(b, on=0)
    assert len(circuit.nodes) == n_nodes + 3
    assert a.trace(0).node is a.trace([0]).node
    assert a.trace(0).delay().node is a.trace(0).delay().node
    assert a.trace(0).node is not a.trace(1).node


def test_every_operator_says_whether_it_is_linear():
    found = {}
    for module in pkgutil.iter_modules(operators.__path__):
        for one in vars(importlib.import_module(f"{operators.__name__}.{module.name}")).values():
            if isinstance(one, type) and issubclass(one, streams.Operator) and one.__module__.endswith(module.name):
                found[one.__name__] = one.__doc__
    assert len(found) > 30
    silent = [name for name, text in found.items() if "inear" not in text]
    assert sorted(silent) == ["Generate", "Source"]


# Ticks


def test_ticks_are_counted_and_stop_forgets(circuit):
    circuit.sink("out", circuit.source("s").integrate())
    assert circuit.time == streams.Time(0)
    circuit.step({"s": [(1,)]})
    circuit.step({"s": [(1,)]})
    assert circuit.time == streams.Time(2)
    circuit.stop()
    assert literal(circuit.step({"s": [(1,)]})["out"]) == {1: 1}
    assert circuit.time == streams.Time(1)


def test_what_a_source_takes(circuit):
    circuit.sink("out", circuit.source("s"))
    assert circuit.step({"s": [(1, "a"), ((2, "b"), -1)]})["out"].to_dict() == {(1, "a"): 1, (2, "b"): -1}
    table = pa.table({"x": [1, 1], "y": ["a", None], "weight": [2, 3]})
    assert circuit.step({"s": table})["out"].to_dict() == {(1, "a"): 2, (1, None): 3}
    assert circuit.step({"s": {"x": [7], "y": ["q"]}})["out"].to_dict() == {(7, "q"): 1}
    assert circuit.step({"s": zset({(1, "a"): 4})})["out"].to_dict() == {(1, "a"): 4}
    out = circuit.step()["out"]
    assert (len(out), len(out.columns)) == (0, 2)
    assert circuit.step({"s": []})["out"].to_dict() == {}


@pytest.mark.parametrize("schema", [{"a": "int64", "b": "int64"}, None])
def test_columns_of_a_table_are_taken_by_name(circuit, schema):
    circuit.sink("out", circuit.source("edge", schema))
    assert circuit.step({"edge": {"a": [1], "b": [2]}})["out"].rows() == [((1, 2), 1)]
    assert circuit.step({"edge": {"b": [4], "a": [3]}})["out"].rows() == [((3, 4), 1)]
    turned = gw.ZSet.from_dict({(6, 5): -2}, ["b", "a"])
    assert circuit.step({"edge": turned})["out"].rows() == [((5, 6), -2)]
    assert circuit.step({"edge": [(7, 8)]})["out"].rows() == [((7, 8), 1)]
    if schema is None:
        assert circuit.step({"edge": {"x": [1], "y": [2]}})["out"].rows() == [((1, 2), 1)]
    else:
        with pytest.raises(ColumnError, match="relation 'edge' has no column 'x'.\n.*'a', 'b'"):
            circuit.step({"edge": {"x": [1], "y": [2]}})
    with pytest.raises(ArityError, match="relation 'edge' has 2 columns, and the rows have 1"):
        circuit.step({"edge": [(1,)]})


def test_a_schema_gives_columns_before_any_rows(circuit):
    circuit.sink("out", circuit.source("s", {"x": "int64", "t": "string"}))
    out = circuit.step()["out"]
    assert out.names == ("x", "t")
    assert [column.type.name for column in out.columns] == ["int64", "string"]
    with pytest.raises(ArityError, match="has 2 columns, and the rows have 1"):
        circuit.step({"s": [(1,)]})
    with pytest.raises(TypeMismatchError, match="column 't'"):
        circuit.step({"s": [(1, 2)]})


def test_types_widen_and_nulls_turn_up_between_ticks(circuit):
    a, b = circuit.source("a"), circuit.source("b")
    circuit.sink("join", a.incremental_join(b, on=0))
    circuit.sink("many", circuit.multiway("h(k, v, w) :- a(k, v), b(k, w).", {"a": a, "b": b}))
    circuit.sink("max", a.incremental_aggregate(0, streams.Max(1)))
    circuit.sink("sum", a.incremental_aggregate(1, streams.Count()))
    first = {"k": pa.array([1, 2], pa.timestamp("s")), "v": [1, 2]}
    second = {"k": pa.array([1000, 3000], pa.timestamp("ms")), "v": [None, 5]}
    zero = circuit.step({"a": pa.table(first), "b": pa.table(first)})
    assert len(zero["join"]) == len(zero["many"]) == 2
    one = circuit.step({"a": pa.table(second)})
    assert one["join"] == one["many"]
    assert [row[1:] for row, _ in one["many"].rows()] == [(None, 1)]
    assert one["max"].to_arrow().column(1).to_pylist() == [5]
    assert {row: weight for (row, _), weight in one["sum"].rows()} == {None: 1, 5: 1}
    two = circuit.step({"b": pa.table(second)})
    assert two["join"] == two["many"]
    assert len(two["join"]) == 3


@pytest.mark.parametrize("at", range(4))
def test_a_tick_that_fails_leaves_all_state_as_before(at):
    """Whichever operator fails; the next tick gives what it would have given without the failure."""

    class Fault(Exception):
        pass

    def build(fails):
        circuit = streams.Circuit(backend="cpu")
        edges = circuit.source("edge")
        seen = []

        def check(number):
            def look(value):
                seen.append(len(value))
                if fails and number == at and circuit.time.tick == 2 and fails.pop():
                    raise Fault

            return look

        reach = closure_by_joins(circuit, edges).inspect(check(0))
        truss = truss_from_changes(circuit, edges.filter(lambda a, b: a < b), 3).inspect(check(1))
        ahead = edges.incremental_aggregate(0, streams.Count()).inspect(check(2))
        best = edges.incremental_aggregate(0, streams.Max(1)).delay().inspect(check(3))
        for number, stream in enumerate([reach, truss, ahead, best, edges.integrate(), edges.integrate().delay()]):
            circuit.sink(str(number), stream)
        return circuit

    ticks = [[(1, 2), (2, 3)], [(1, 3), (3, 1)], [((2, 3), -1), (2, 4), (4, 3)], [(2, 3), ((1, 2), -1)], []]
    plain, faulty = build([]), build([True])
    for tick, change in enumerate(ticks):
        if tick == 2:
            cells = [node.value for node in faulty.all_nodes()]
            with pytest.raises(Fault):
                faulty.step({"edge": change})
            assert [node.value for node in faulty.all_nodes()] == cells
            assert faulty.time == streams.Time(2)
        assert faulty.step({"edge": change}) == plain.step({"edge": change})


def test_texts_of_a_tick_that_fails_are_forgotten(circuit):
    source = circuit.source("s")
    source.inspect(lambda value: 1 / (len(value) - 2))
    circuit.step({"s": [("a",)]})
    size = len(circuit.place.string)
    with pytest.raises(ZeroDivisionError) as caught:
        circuit.step({"s": [("b",), ("c",)]})
    assert len(circuit.place.string) == size
    assert any("Inspect" in note for note in caught.value.__notes__)


def test_an_iteration_limit_ends_a_loop_and_undoes_the_tick(circuit):
    loop = circuit.subcircuit("counting", iterations=50)
    start, again = loop.introduce(circuit.source("s")), loop.feedback()
    number = (start + again).map(lambda x: x + 1)
    again.connect(number.filter(lambda x: x != 10))
    circuit.sink("out", loop.eliminate(number))
    assert len(circuit.step({"s": [(3,)]})["out"]) == 7
    with pytest.raises(IterationLimitError, match=r"0 counting has not come to a fixpoint after 50 iterations"):
        circuit.step({"s": [(11,)]})
    assert circuit.time == streams.Time(1)
    assert len(circuit.step({"s": [(8,)]})["out"]) == 2


def test_clocks_stop_when_a_tick_fails(circuit):
    log = []

    class Told(streams.Operator):
        def evaluate(self, *_):
            raise ValueError("no value")

        def clock_start(self, scope):
            log.append(("start", scope))

        def clock_stop(self, scope):
            log.append(("stop", scope))

    circuit.subcircuit().add(Told())
    with pytest.raises(ValueError, match="no value"):
        circuit.step()
    circuit.stop()
    assert log == [("start", 1), ("start", 0), ("stop", 0), ("stop", 1)]


# What is refused


def test_a_subcircuit_in_a_subcircuit_is_refused(circuit):
    with pytest.raises(CircuitError, match="is a subcircuit, and cannot have one of its own"):
        circuit.subcircuit("outer").subcircuit("inner")


def test_streams_of_other_circuits_are_refused(circuit):
    other = streams.Circuit(backend="cpu").source("s")
    source = circuit.source("s")
    loop = circuit.subcircuit()
    inner = loop.introduce(source)
    for use in (
        lambda: source + other,
        lambda: source + inner,
        lambda: inner + source,
        lambda: circuit.sink("x", inner),
        lambda: loop.introduce(other),
        lambda: loop.export(source),
        lambda: loop.feedback().connect(source),
    ):
        with pytest.raises(CircuitError, match=r"of another circuit|not of the circuit around|is not of"):
            use()


def test_unknown_and_repeated_names_are_refused(circuit):
    circuit.sink("out", circuit.source("s"))
    with pytest.raises(CircuitError, match="source 's' already"):
        circuit.source("s")
    with pytest.raises(CircuitError, match="sink 'out' already"):
        circuit.sink("out", circuit.source("t"))
    with pytest.raises(UnknownRelationError, match="no relation 'q'"):
        circuit.step({"q": []})


def test_ends_that_are_not_connected_or_twice(circuit):
    source = circuit.source("s")
    loose = circuit.feedback("loose")
    with pytest.raises(CircuitError, match="node 1 loose is not connected"):
        circuit.step()
    loose.connect(source)
    with pytest.raises(CircuitError, match="is connected already, with node 0 s"):
        loose.connect(source)


def test_nodes_are_not_added_to_a_circuit_that_runs(circuit):
    source = circuit.source("s")
    circuit.step()
    with pytest.raises(CircuitError, match="gets no more nodes"):
        source.distinct()
    circuit.stop()
    circuit.sink("out", source.distinct())
    assert literal(circuit.step({"s": [(1,)]})["out"]) == {1: 1}


def test_an_operator_has_one_node(circuit):
    class Mine(streams.Operator):
        def evaluate(self, rows):
            return rows

    mine, source = Mine(), circuit.source("s")
    circuit.add(mine, source)
    with pytest.raises(CircuitError, match="'Mine' has a node already"):
        circuit.add(mine, source)


@pytest.mark.parametrize(
    ("build", "error", "match"),
    [
        (lambda s: s.join(s), UsageError, "the join needs columns"),
        (lambda s: s.join(s.trace(0), on=1), CircuitError, "is looked up by 0, and the join asks for 1"),
        (lambda s: s.consolidate(), CircuitError, "consolidate takes a trace"),
        (lambda s: s.incremental_distinct(s), CircuitError, "incremental_distinct takes a trace"),
        (lambda s: s.incremental_distinct(s.trace(timed=True)), CircuitError, "with times in a subcircuit only"),
        (lambda s: s.trace().map([0]), CircuitError, "'map to 0' takes Z-sets, and .* is a trace"),
        (lambda s: s + s.trace(), CircuitError, "'Plus' takes Z-sets, and .* is a trace"),
        (lambda s: s.trace().distinct(), CircuitError, "'Distinct' takes Z-sets"),
        (lambda s: s.semijoin(s.trace(0), on=0), CircuitError, "'Semijoin' takes Z-sets"),
        (lambda s: s.outer_join(s, on=0, keep="both"), UsageError, "keep='both' is no side"),
        (lambda s: s.join(s, on=0, select="x"), UsageError, "select takes a list"),
        (lambda s: s.aggregate(0, "count"), UsageError, "'count' is no aggregator"),
        (lambda s: s.index_with(lambda *c: c[0]), UsageError, "needs names"),
        (lambda s: s.scope.subcircuit(iterations=0), UsageError, "iterations=0"),
        (lambda s: streams.TopK(0, [0]), UsageError, "k=0"),
        (lambda s: streams.TopK(1, [(0, "up")]), UsageError, "'asc' or 'desc'"),
        (lambda s: streams.CountDistinct(), UsageError, "none is given"),
        (lambda s: s.scope.multiway("h(x) :- s(x, _). h(x) :- s(_, x).", {"s": s}), UnsupportedError, "there are 2"),
        (lambda s: s.scope.multiway("h(x) :- s(x, _), !t(x).", {"s": s, "t": s}), UnsupportedError, "positive atoms"),
        (lambda s: s.scope.multiway("h(x + 1) :- s(x, _).", {"s": s}), UnsupportedError, "positive atoms"),
        (lambda s: s.scope.multiway("h(x) :- s(x, null).", {"s": s}), UnsupportedError, "asks for null"),
        (lambda s: s.scope.multiway("h(x) :- h(z), s(z, x).", {"h": s, "s": s}), UnsupportedError, "its own head"),
        (lambda s: s.scope.multiway("h(x) :- t(x, _).", {"s": s}), UnknownRelationError, "no relation 't'"),
        (lambda s: s.scope.multiway("h(x) :- s(x, _).", {"s": s, "t": s}), UsageError, "does not read it"),
    ],
)  # fmt: skip
def test_what_is_refused_when_nodes_are_added(circuit, build, error, match):
    with pytest.raises(error, match=match):
        build(circuit.source("s"))


@pytest.mark.parametrize(
    ("build", "error", "match"),
    [
        (lambda s: s.map(lambda a, b: "text"), TypeMismatchError, "returned 'text'"),
        (lambda s: s.map(lambda a, b: (a, b[:1])), ArityError, "has 1 values, and there are 2 rows"),
        (lambda s: s.map(lambda a, b: (a, b), names=["a"]), ArityError, "returned 2 columns, and there are 1 names"),
        (lambda s: s.map(["x"]), ColumnError, "has no column 'x'"),
        (lambda s: s.map([0, 0]), SchemaError, "named twice"),
        (lambda s: s.map(lambda a, b: (a, b), names=["a", "a"]), SchemaError, "'a' is named twice"),
        (lambda s: s.map_rows(lambda row: row, names=["a", "a"]), SchemaError, "'a' is named twice"),
        (lambda s: s.flat_map_rows(lambda row: [row], names=["a", "a"]), SchemaError, "'a' is named twice"),
        (lambda s: s.map_rows(lambda row: row[0]), TypeMismatchError, "which is no tuple"),
        (lambda s: s.map_rows(lambda row: row * row[0]), ArityError, "differ in length"),
        (lambda s: s.filter(lambda a, b: a), UsageError, "boolean mask"),
        (lambda s: s.filter_rows(lambda row: row[0]), UsageError, "True or False"),
        (lambda s: s.flat_map(lambda a, b: a), UsageError, r"\(owner, columns\)"),
        (lambda s: s.flat_map(lambda a, b: ([0, 2], (a,))), UsageError, "0 to 2"),
        (lambda s: s.aggregate(0, streams.Sum(2)), ColumnError, "has no column '2'"),
        (lambda s: s.map_rows(lambda row: ("a", "b")).aggregate(0, streams.Sum(1)), TypeMismatchError, "have sums"),
        (lambda s: s.plus(s.map([0])), ArityError, "do not add up"),
        (lambda s: s.aggregate([], streams.Apply(lambda a, b, starts: (a,), ["x"])), ArityError, "there are 1 rows"),
    ],
)
def test_what_is_refused_when_rows_come(build, error, match):
    with pytest.raises(error, match=match):
        once(build, {(1, 2): 1, (2, 3): 1})


# Numbers at the edges


def test_integers_outside_the_declared_type_are_refused():
    circuit = gw.Circuit()
    circuit.sink("out", circuit.source("in", {"a": "int8"}))
    assert circuit.step({"in": [(5,)]})["out"].columns[0].type.name == "int8"
    with pytest.raises(TypeMismatchError, match=r"relation 'in', column 'a': the value 300 \(row 1\) is no 'int8'"):
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
    found = []
    for order in (values, values[::-1], sorted(values)):
        circuit = streams.Circuit(backend="cpu")
        circuit.sink("out", circuit.source("s").incremental_aggregate(0, streams.Sum(1)).integrate())
        circuit.sink("mean", circuit.source("t").aggregate(0, streams.Mean(1)))
        for value in order:
            out = circuit.step({"s": [(1, value)]})["out"]
        circuit.step({"s": [(1, 99.0)]})
        out = circuit.step({"s": [((1, 99.0), -1)]})["out"]
        found.append(out.rows())
    assert found[0] == found[1] == found[2]


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
