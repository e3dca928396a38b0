"""Inputs and outputs per operator as literals, after public notes on DBSP (RhizomeDB)."""

from __future__ import annotations

from typing import Any

import pytest

import gpu_wcoj as gw
from gpu_wcoj import streams
from gpu_wcoj.streams import Time
from tests.helpers.kernel_kinds import KINDS, needed
from tests.helpers.stream_literals import literal, once, run, zset


@pytest.fixture(params=KINDS)
def place(request):
    return needed(request.param).backend()


def test_consolidate_of_a_trace_with_times(place):
    entries = [
        ((0, 0), +1), ((0, 0), -1), ((0, 1), +1), ((0, 1), +1), ((1, 2), +2),
        ((1, 3), +1), ((1, 3), -1), ((1, 4), -1), ((2, 2), +1), ((2, 4), +1),
    ]  # fmt: skip
    circuit = streams.Circuit(backend=place)
    circuit.sink("out", circuit.source("entry").trace(0, timed=True).consolidate())
    out = circuit.step({"entry": gw.ZSet.from_rows(entries)})["out"]
    assert literal(out) == {(0, 1): 2, (1, 2): 2, (1, 4): -1, (2, 2): 1, (2, 4): 1}


def test_consolidate_adds_the_entries_of_all_times(place):
    ticks = [[{(0, 0): 1, (1, 3): 1, (1, 2): 2}], [{(0, 0): -1, (1, 4): -1}], [{(1, 3): -1, (1, 2): 1}]]
    out = run(lambda s: s.trace(0, timed=True).consolidate(), ticks, place)
    assert out[-1] == {(1, 2): 3, (1, 4): -1}


def test_distinct(place):
    assert once(lambda s: s.distinct(), {0: 1, 1: 2, 2: -1, 3: 0}, backend=place) == {0: 1, 1: 1}


def test_negate_flips_signs(place):
    assert once(lambda s: s.negate(), {(0, 1): 1, (1, 2): -3}, backend=place) == {(0, 1): -1, (1, 2): 3}


def test_negate_keeps_times(place):
    circuit = streams.Circuit(backend=place)
    circuit.sink("out", circuit.source("s").trace(timed=True).negate())
    circuit.step({"s": zset({5: 1})})
    trace = circuit.step({"s": zset({5: 2, 6: -1})})["out"]
    assert isinstance(trace, streams.TimedTrace)
    assert literal(trace.present.consolidated()) == {(5, 0): -1, (5, 1): -2, (6, 1): 1}


def test_aggregate_count(place):
    rows = {(1, "foo"): 1, (1, "bar"): 1, (2, "baz"): 1}
    assert once(lambda s: s.aggregate(0, streams.Count()), rows, backend=place) == {(1, 2): 1, (2, 1): 1}


def test_join_of_streams(place):
    a = {("A", 1): 1, ("B", 2): 2, ("C", 2): 1}
    b = {("A", 1): 1, ("B", 3): 1, ("B", 4): -1}
    out = once(lambda x, y: x.join(y, on={0: 0}), a, b, backend=place)
    assert out == {("A", 1, 1): 1, ("B", 2, 3): 2, ("B", 2, 4): -2}


def test_join_of_changes_with_a_trace(place):
    change = {("A", 0): 0, ("A", 1): 1, ("B", 2): 2, ("C", 2): 1}
    trace = {("A", 1): 1, ("B", -3): -1, ("B", 3): 1, ("B", 4): -1, ("C", 4): 1}
    out = once(lambda x, y: x.join(y.trace(0), on=0), change, trace, backend=place)
    assert out == {("A", 1, 1): 1, ("B", 2, -3): -2, ("B", 2, 3): 2, ("B", 2, 4): -2, ("C", 2, 4): 1}


def test_join_of_changes_with_a_trace_where_a_change_cancels(place):
    change = [(("A", 0), 1), (("A", 0), -1), (("A", 1), 1), (("B", 2), 2), (("C", 2), 1)]
    trace = zset({("A", 1): 1, ("B", -3): -1, ("B", 3): 1, ("B", 4): -1, ("C", 4): 1})
    circuit = streams.Circuit(backend=place)
    left, right = circuit.source("left"), circuit.source("right")
    circuit.sink("out", left.join(right.trace(0), on=0))
    out = circuit.step({"left": gw.ZSet.from_rows(change), "right": trace})["out"]
    expected = {("A", 1, 1): 1, ("B", 2, -3): -2, ("B", 2, 3): 2, ("B", 2, 4): -2, ("C", 2, 4): 1}
    assert literal(out) == expected


@pytest.mark.parametrize("name", ["outer_join", "incremental_outer_join"])
def test_an_outer_join_gives_rows_of_either_side_their_key(name, place):
    circuit = streams.Circuit(backend=place)
    left, right = circuit.source("left"), circuit.source("right")
    circuit.sink("out", getattr(left, name)(right, on={"a": "k"}, keep="full"))
    rows = gw.ZSet.from_rows([(1, 10), (2, 20)], ["a", "b"]), gw.ZSet.from_rows([(2, 200), (3, 300)], ["k", "c"])
    out = circuit.step({"left": rows[0], "right": rows[1]})["out"]
    assert out.names == ("a", "b", "c")
    assert out.to_dict() == {(1, 10, None): 1, (2, 20, 200): 1, (3, None, 300): 1}


def test_plus_and_minus(place):
    a, b = {0: 1, 1: 1, 2: 2, 3: 1}, {0: 1, 1: -1, 2: 1}
    assert once(lambda x, y: x + y, a, b, backend=place) == {0: 2, 2: 3, 3: 1}
    assert once(lambda x, y: x - y, a, b, backend=place) == {1: 2, 2: 1, 3: 1}


NESTED = {
    Time(0, 0): {0: 1, 2: 1, 3: -1},
    Time(0, 1): {5: 1},
    Time(1, 0): {5: 1},
    Time(1, 1): {0: 1, 1: 1, 2: -1, 3: 1, 4: -1},
}


def test_distinct_of_a_trace_under_nested_time(place):
    seen: dict[Time, dict[Any, int]] = {}
    circuit = streams.Circuit(backend=place)
    loop = circuit.subcircuit(until=lambda time: time.iteration == 1)
    changes = loop.generate(lambda time: zset(NESTED[time]))
    out = changes.incremental_distinct(changes.trace(None))
    out.inspect(lambda value: seen.update({loop.time: literal(value)}))
    circuit.step()
    circuit.step()
    assert seen == {
        Time(0, 0): {0: 1, 2: 1},
        Time(0, 1): {5: 1},
        Time(1, 0): {5: 1},
        Time(1, 1): {1: 1, 2: -1, 5: -1},
    }


@pytest.mark.parametrize(
    ("trace", "expected"),
    [({0: 1}, {2: 1}), ({2: 1, 3: 1}, {0: 1, 3: -1}), ({0: -1}, {0: 1, 2: 1})],
    ids=["0:1", "2:1 3:1", "0:-1"],
)
def test_incremental_distinct_against_a_trace(place, trace, expected):
    change = {0: 2, 2: 1, 3: -1}
    assert once(lambda x, y: x.incremental_distinct(y.trace()), change, trace, backend=place) == expected
    in_two_ticks = run(lambda x: x.incremental_distinct(), [[trace], [change]], place)
    assert in_two_ticks[1] == expected


EDGES = {(0, 1, 1): 1, (1, 2, 1): 1, (1, 3, 2): -1}


def test_index_with_keeps_each_row_under_its_key_with_its_weight(place):
    circuit = streams.Circuit(backend=place)
    by_source = circuit.source("edge", {"src": "int64", "dst": "int64", "cost": "int64"}).index_with("src")
    circuit.sink("out", by_source)
    circuit.sink("trace", by_source.trace("src"))
    out = circuit.step({"edge": zset(EDGES)})
    assert by_source.keys == 1
    assert literal(out["out"]) == EDGES
    entries = out["trace"].below([out["out"].columns[0]])
    owners = place.to_host(entries.owner).tolist()
    keys = out["out"].columns[0].codes[owners].tolist()
    rows = zip(*(column.codes.tolist() for column in entries.columns), strict=True)
    assert {(key, row) for key, row in zip(keys, rows, strict=True)} == {(row[0], row) for row in EDGES}


def test_index_with_a_function(place):
    out = once(lambda s: s.index_with(lambda src, *_: src % 2, names=["parity"]), EDGES, backend=place)
    assert out == {(0, 0, 1, 1): 1, (1, 1, 2, 1): 1, (1, 1, 3, 2): -1}


def test_filter(place):
    rows = {0: 1, 1: 2, 2: -3}
    assert once(lambda s: s.filter(lambda x: x >= 1), rows, backend=place) == {1: 2, 2: -3}
    assert once(lambda s: s.filter_rows(lambda row: row[0] >= 1), rows, backend=place) == {1: 2, 2: -3}


def test_map_merges_rows_whose_weights_add(place):
    rows = {1: 1, 2: 2, 3: -4, 5: -1}
    assert once(lambda s: s.map(lambda x: x % 2), rows, backend=place) == {0: 2, 1: -4}
    assert once(lambda s: s.map_rows(lambda row: (row[0] % 2,)), rows, backend=place) == {0: 2, 1: -4}
    assert once(lambda s: s.map([1]), {(1, 7): 2, (2, 7): -2, (3, 8): 1}, backend=place) == {8: 1}


def test_inspect_gives_its_input_and_calls_back_once_a_tick(place):
    seen = []
    ticks = [[{1: 1}], [{}], [{2: -1}]]
    assert run(lambda s: s.inspect(lambda value: seen.append(literal(value))), ticks, place) == [{1: 1}, {}, {2: -1}]
    assert seen == [{1: 1}, {}, {2: -1}]


def test_delay_gives_what_the_tick_before_had(place):
    assert run(lambda s: s.delay(), [[{1: 1}], [{2: -2}], [{}], [{3: 1}]], place) == [{}, {1: 1}, {2: -2}, {}]


def test_delay_of_a_trace_gives_what_the_tick_before_left(place):
    out = run(lambda s: s.trace().delay().consolidate(), [[{1: 1}], [{1: 1, 2: -2}], [{1: -2}], [{}]], place)
    assert out == [{}, {1: 1}, {1: 2, 2: -2}, {2: -2}]


def test_trace_append_without_time(place):
    out = run(lambda s: s.trace(), [[{(1, 2): 1}], [{(1, 2): 1, (3, 4): -1}], [{(3, 4): 1}]], place)
    assert [literal(trace.consolidated()) for trace in out] == [{(1, 2): 1}, {(1, 2): 2, (3, 4): -1}, {(1, 2): 2}]


def test_trace_append_with_time(place):
    out = run(lambda s: s.trace(timed=True), [[{1: 1}], [{1: 1, 2: -1}], [{2: 1}]], place)
    assert [literal(trace.present.consolidated()) for trace in out] == [
        {(1, 0): 1},
        {(1, 0): 1, (1, 1): 1, (2, 1): -1},
        {(1, 0): 1, (1, 1): 1, (2, 1): -1, (2, 2): 1},
    ]
    assert literal(out[-1].consolidated()) == {1: 2}


class Told(streams.Operator):
    """Writes down when it is called, and which clocks start and stop."""

    def __init__(self):
        self.log = []

    def evaluate(self, *_):
        self.log.append((self.time.tick, self.time.iteration))
        return gw.ZSet.empty()

    def clock_start(self, scope):
        self.log.append(f"start {scope}")

    def clock_stop(self, scope):
        self.log.append(f"stop {scope}")


def test_time_path_of_a_subcircuit_and_the_scopes_of_the_hooks():
    circuit = streams.Circuit(backend="cpu")
    outer, inner = Told(), Told()
    circuit.add(outer)
    circuit.subcircuit(until=lambda time: time.iteration == 2).add(inner)
    circuit.step()
    circuit.step()
    circuit.stop()
    assert inner.log == [
        "start 1", "start 0", (0, 0), (0, 1), (0, 2), "stop 0", "start 0", (1, 0), (1, 1), (1, 2), "stop 0", "stop 1",
    ]  # fmt: skip
    assert outer.log == ["start 0", (0, 0), (1, 0), "stop 0"]


def test_introduction_and_elimination(place):
    """δ0 gives a value at iteration 0 only, ∫ adds up what all iterations give."""
    seen = []
    circuit = streams.Circuit(backend=place)
    loop = circuit.subcircuit()
    first = loop.introduce(circuit.source("s"))
    countdown = loop.feedback()
    now = first + countdown
    countdown.connect(now.map(lambda x: x - 1).filter(lambda x: x > 0))
    now.inspect(lambda value: seen.append(literal(value)))
    circuit.sink("out", loop.eliminate(now))
    assert literal(circuit.step({"s": zset({3: 2, 1: -1})})["out"]) == {3: 2, 2: 2, 1: 1}
    assert seen == [{1: -1, 3: 2}, {2: 2}, {1: 2}, {}]


def test_times_are_ordered_coordinate_by_coordinate():
    assert Time(0, 1) <= Time(1, 1)
    assert Time(0, 1) < Time(1, 1)
    assert Time(1, 1) >= Time(0, 1)
    assert Time(1, 1) > Time(0, 1)
    assert not Time(0, 2) <= Time(1, 1)
    assert not Time(1, 1) <= Time(0, 2)
    assert not Time(0, 2).is_comparable(Time(1, 1))
    assert Time(0, 2).join(Time(1, 1)) == Time(1, 2)
    assert Time(0, 2).meet(Time(1, 1)) == Time(0, 1)
    assert Time(1, 1) <= Time(1, 1)
    assert not Time(1, 1) < Time(1, 1)
