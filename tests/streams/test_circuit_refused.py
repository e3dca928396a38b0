"""Circuits that are refused: when nodes are added, and when rows come."""

from __future__ import annotations

import pytest

from gpu_wcoj import streams
from gpu_wcoj.errors import (
    ArityError,
    CircuitError,
    ColumnError,
    SchemaError,
    TypeMismatchError,
    UnknownRelationError,
    UnsupportedError,
    UsageError,
)
from tests.streams.literals import literal, once


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
