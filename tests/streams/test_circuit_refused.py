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
from tests.helpers.stream_literals import literal, once


def test_a_subcircuit_in_a_subcircuit_is_refused(circuit):
    with pytest.raises(CircuitError, match="is a subcircuit and cannot contain a subcircuit"):
        circuit.subcircuit("outer").subcircuit("inner")


def test_streams_of_other_circuits_are_refused(circuit):
    foreign = streams.Circuit(backend="cpu").source("s")
    source = circuit.source("s")
    loop = circuit.subcircuit()
    inner = loop.introduce(source)
    for use in (
        lambda: source + foreign,
        lambda: source + inner,
        lambda: inner + source,
        lambda: circuit.sink("x", inner),
        lambda: loop.introduce(foreign),
        lambda: loop.export(source),
        lambda: loop.feedback().connect(source),
    ):
        with pytest.raises(CircuitError, match=r"belongs to another circuit|belongs to the wrong circuit"):
            use()


def test_unknown_and_repeated_names_are_refused(circuit):
    circuit.sink("out", circuit.source("s"))
    with pytest.raises(CircuitError, match="source 's' is given twice"):
        circuit.source("s")
    with pytest.raises(CircuitError, match="sink 'out' is given twice"):
        circuit.sink("out", circuit.source("t"))
    with pytest.raises(UnknownRelationError, match="unknown relation 'q'"):
        circuit.step({"q": []})


def test_ends_that_are_not_connected_or_twice(circuit):
    source = circuit.source("s")
    loose = circuit.feedback("loose")
    with pytest.raises(CircuitError, match="node 1 loose is not connected"):
        circuit.step()
    loose.connect(source)
    with pytest.raises(CircuitError, match="is connected with node 0 s"):
        loose.connect(source)


def test_nodes_are_not_added_to_a_circuit_that_runs(circuit):
    source = circuit.source("s")
    circuit.step()
    with pytest.raises(CircuitError, match="adding a node is not possible: the circuit has run"):
        source.distinct()
    circuit.stop()
    circuit.sink("out", source.distinct())
    assert literal(circuit.step({"s": [(1,)]})["out"]) == {1: 1}


def test_an_operator_has_one_node(circuit):
    class Mine(streams.Operator):
        def evaluate(self, rows):
            return rows

    operator, source = Mine(), circuit.source("s")
    circuit.add(operator, source)
    with pytest.raises(CircuitError, match="'Mine' has a node already"):
        circuit.add(operator, source)


@pytest.mark.parametrize(
    ("build", "error", "match"),
    [
        (lambda s: s.join(s), UsageError, "the join needs columns"),
        (lambda s: s.join(s.trace(0), on=1), CircuitError, "has the wrong keys: got 0, expected 1"),
        (lambda s: s.consolidate(), CircuitError, "consolidate has the wrong input: .*, expected a trace"),
        (lambda s: s.incremental_distinct(s), CircuitError, "incremental_distinct has the wrong input"),
        (lambda s: s.incremental_distinct(s.trace(timed=True)), CircuitError, "in a subcircuit only, with times"),
        (lambda s: s.trace().map([0]), CircuitError, "'map to 0' takes Z-sets, and .* is a trace"),
        (lambda s: s + s.trace(), CircuitError, "'Plus' takes Z-sets, and .* is a trace"),
        (lambda s: s.trace().distinct(), CircuitError, "'Distinct' takes Z-sets"),
        (lambda s: s.semijoin(s.trace(0), on=0), CircuitError, "'Semijoin' takes Z-sets"),
        (lambda s: s.outer_join(s, on=0, keep="both"), UsageError, "keep='both' is not allowed"),
        (lambda s: s.join(s, on=0, select="x"), UsageError, "select has the wrong type: .*, expected a list"),
        (lambda s: s.aggregate(0, "count"), UsageError, "aggregator has the wrong type: .*'count'"),
        (lambda s: s.index_with(lambda *c: c[0]), UsageError, "needs names for its columns"),
        (lambda s: s.scope.subcircuit(iterations=0), UsageError, "iterations=0"),
        (lambda s: streams.TopK(0, [0]), UsageError, "k=0"),
        (lambda s: streams.TopK(1, [(0, "up")]), UsageError, "'asc' or 'desc'"),
        (lambda s: streams.CountDistinct(), UsageError, "needs one or more columns"),
        (lambda s: s.scope.multiway("h(x) :- s(x, _). h(x) :- s(_, x).", {"s": s}), UnsupportedError, "rules: got 2"),
        (lambda s: s.scope.multiway("h(x) :- s(x, _), !t(x).", {"s": s, "t": s}), UnsupportedError, "positive atoms"),
        (lambda s: s.scope.multiway("h(x + 1) :- s(x, _).", {"s": s}), UnsupportedError, "positive atoms"),
        (lambda s: s.scope.multiway("h(x) :- s(x, null).", {"s": s}), UnsupportedError, "asks for null"),
        (lambda s: s.scope.multiway("h(x) :- h(z), s(z, x).", {"h": s, "s": s}), UnsupportedError, "its own head"),
        (lambda s: s.scope.multiway("h(x) :- t(x, _).", {"s": s}), UnknownRelationError, "unknown relation 't'"),
        (lambda s: s.scope.multiway("h(x) :- s(x, _).", {"s": s, "t": s}), UsageError, "does not read it"),
    ],
)  # fmt: skip
def test_what_is_refused_when_nodes_are_added(circuit, build, error, match):
    with pytest.raises(error, match=match):
        build(circuit.source("s"))


@pytest.mark.parametrize(
    ("build", "error", "match"),
    [
        (lambda s: s.map(lambda a, b: "text"), TypeMismatchError, "got str .'text'., expected arrays"),
        (lambda s: s.map(lambda a, b: (a, b[:1])), ArityError, "wrong number of values: got 1, expected 2"),
        (
            lambda s: s.map(lambda a, b: (a, b), names=["a"]),
            ArityError,
            "returned the wrong number of columns: got 2, expected 1",
        ),
        (lambda s: s.map(["x"]), ColumnError, "has no column 'x'"),
        (lambda s: s.map([0, 0]), SchemaError, "given twice"),
        (lambda s: s.map(lambda a, b: (a, b), names=["a", "a"]), SchemaError, "'a' is given twice"),
        (lambda s: s.map_rows(lambda row: row, names=["a", "a"]), SchemaError, "'a' is given twice"),
        (lambda s: s.flat_map_rows(lambda row: [row], names=["a", "a"]), SchemaError, "'a' is given twice"),
        (
            lambda s: s.map_rows(lambda row: row[0]),
            TypeMismatchError,
            "has the wrong type: got int .*, expected a tuple",
        ),
        (lambda s: s.map_rows(lambda row: row * row[0]), ArityError, "differ in length"),
        (lambda s: s.filter(lambda a, b: a), UsageError, "boolean mask"),
        (lambda s: s.filter_rows(lambda row: row[0]), UsageError, "True or False"),
        (lambda s: s.flat_map(lambda a, b: a), UsageError, r"\(owner, columns\)"),
        (lambda s: s.flat_map(lambda a, b: ([0, 2], (a,))), UsageError, "is out of range: got 0 to 2"),
        (lambda s: s.aggregate(0, streams.Sum(2)), ColumnError, "has no column '2'"),
        (
            lambda s: s.map_rows(lambda row: ("a", "b")).aggregate(0, streams.Sum(1)),
            TypeMismatchError,
            "has the wrong type: got 'string', expected a numeric column",
        ),
        (lambda s: s.plus(s.map([0])), ArityError, "wrong number of columns: got 1"),
        (
            lambda s: s.aggregate([], streams.Apply(lambda a, b, starts: (a,), ["x"])),
            ArityError,
            "expected 1, the number of rows",
        ),
    ],
)
def test_what_is_refused_when_rows_come(build, error, match):
    with pytest.raises(error, match=match):
        once(build, {(1, 2): 1, (2, 3): 1})
