"""Circuits that are refused: when nodes are added, and when rows come."""

from __future__ import annotations

import pytest

from gpu_wcoj import streams
from gpu_wcoj.errors import (
    CircuitError,
    UnknownRelationError,
    UnsupportedTypeError,
    UsageError,
)
from tests.helpers.stream_literals import literal


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


def test_schemas_without_types_are_refused(circuit):
    with pytest.raises(UsageError, match="schema has the wrong type: got .*list.*expected a dict of types by column"):
        circuit.source("s", ["a", "b"])
    circuit.sink("out", circuit.source("s"))
    with pytest.raises(UnsupportedTypeError, match="column 'c1', holds nothing but nulls, so it has no type"):
        circuit.step({"s": [(1, None)]})
    assert circuit.step({"s": [(1, None), (2, "x")]})["out"].rows() == [((1, None), 1), ((2, "x"), 1)]


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
