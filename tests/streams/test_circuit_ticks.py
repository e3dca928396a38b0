"""Ticks of circuits: what sources take, types that turn up on the way, and ticks that fail."""

from __future__ import annotations

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj import streams
from gpu_wcoj.errors import ArityError, ColumnError, IterationLimitError, TypeMismatchError
from tests.helpers.stream_graphs import closure_by_joins, truss_from_changes
from tests.helpers.stream_literals import literal, zset


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
    output = circuit.step({"a": pa.table(second)})
    assert output["join"] == output["many"]
    assert [row[1:] for row, _ in output["many"].rows()] == [(None, 1)]
    assert output["max"].to_arrow().column(1).to_pylist() == [5]
    assert {row: weight for (row, _), weight in output["sum"].rows()} == {None: 1, 5: 1}
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
        for index, stream in enumerate([reach, truss, ahead, best, edges.integrate(), edges.integrate().delay()]):
            circuit.sink(str(index), stream)
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
    numbers = (start + again).map(lambda x: x + 1)
    again.connect(numbers.filter(lambda x: x != 10))
    circuit.sink("out", loop.eliminate(numbers))
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
