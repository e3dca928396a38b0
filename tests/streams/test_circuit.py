"""Circuits as structures: nodes, their names and order, cycles, and what is shared."""

from __future__ import annotations

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj import streams
from gpu_wcoj.errors import CircuitError
from gpu_wcoj.streams import aggregators, linear, multiway
from gpu_wcoj.streams.device_context import NOTHING
from tests.helpers.stream_graphs import closure_by_joins
from tests.helpers.stream_literals import literal


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
    assert [literal(output["total"]) for output in out] == [{1: 1}, {1: 2}, {1: 2, 2: 1}]
    assert [literal(output["before"]) for output in out] == [{}, {1: 1}, {1: 2}]


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
    operators_found = {
        member.__name__: member.__doc__ or ""
        for module in (aggregators, linear, multiway)
        for member in vars(module).values()
        if isinstance(member, type) and issubclass(member, streams.Operator) and member.__module__ == module.__name__
    }
    assert len(operators_found) > 30
    silent = [name for name, text in operators_found.items() if "inear" not in text]
    assert sorted(silent) == ["Generate", "Source"]
