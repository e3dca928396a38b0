"""A tick that fails in any kernel call leaves the circuit unchanged; a retry is right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_wcoj import streams
from gpu_wcoj.backend import cpu_backend
from tests.circuit.test_undefined_values import CountingKernels
from tests.helpers.long_tests import IS_LONG
from tests.helpers.stream_graphs import closure_by_joins, closure_by_multiway, truss_from_changes

TICKS = [
    [("a", "b"), ("b", "c"), ("c", "d"), ("a", "c")],
    [(("b", "c"), -1), ("d", "a"), ("b", "d")],
    [("b", "c"), (("a", "b"), -1), ("e", None)],
]


def everything(circuit: streams.Circuit) -> None:
    edges = circuit.source("edge", {"src": "string", "dst": "string"})
    backwards = edges.map(["dst", "src"], names=["src", "dst"])
    outputs = {
        "closure": closure_by_joins(circuit, edges),
        "closure again": closure_by_multiway(circuit, edges),
        "truss": truss_from_changes(circuit, edges, 3),
        "degree": edges.incremental_aggregate("src", streams.Count()),
        "last": edges.incremental_aggregate("src", streams.Max("dst")),
        "ends": edges.incremental_antijoin(backwards, on="dst"),
        "both": edges.incremental_outer_join(backwards, on={"dst": "src"}, keep="full"),
        "whole": edges.integrate(),
    }
    for name, stream in outputs.items():
        circuit.sink(name, stream)


@pytest.mark.parametrize("part", range(4 if IS_LONG else 2))
def test_failures_of_kernels(part):
    plain = streams.Circuit(backend="cpu")
    everything(plain)
    expected = [plain.step({"edge": tick}) for tick in TICKS]
    kernels = CountingKernels(cpu_backend().kernels)
    circuit = streams.Circuit(backend=replace(cpu_backend(), kernels=kernels))
    everything(circuit)
    for tick, change in enumerate(TICKS[:-1]):
        assert circuit.step({"edge": change}) == expected[tick]
    kernels.error = MemoryError("a kernel failed")
    n_failed = 0
    for fails_at in range(part, 10**6, 16):  # until there are no more calls
        kernels.calls, kernels.fails_at = 0, fails_at
        try:
            outputs = circuit.step({"edge": TICKS[-1]})
        except MemoryError:
            assert circuit.time == streams.Time(2)
            n_failed += 1
        else:
            break
    assert n_failed > 20
    assert outputs == expected[-1]
