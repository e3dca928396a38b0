"""Measurement of the costs of ticks on this machine, on both backends.

Two rules run over a skewed graph at several sizes.

A triangle proposes many values for a changed row, and a lookup proposes none: together they tell what a row costs from
what a value costs.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.circuit import InputChange
from gpu_wcoj.data.column import Column, Dictionary
from gpu_wcoj.engine.compile import Compiler
from gpu_wcoj.engine.ingest import Incoming
from gpu_wcoj.engine.options import ProgramOptions, processors
from gpu_wcoj.engine.replicas import ALWAYS, CostModel, Replica, Replicas, SideCosts, proposed_by
from gpu_wcoj.function_calls import FunctionCalls
from gpu_wcoj.join.settings import Execution
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.planner.types import Types
from gpu_wcoj.query.ir import Atom, Rule, Rules, Variable

N_ROWS: Final = 1_000_000
"""Edges of the graph."""
SIZES: Final = (1, 100, 1_000, 10_000, 100_000)
"""Rows of the measured ticks."""
ROUNDS: Final = 5
"""Repetitions of each tick; the median counts."""

_A, _B, _C = (Variable(name) for name in "abc")
_EDGES: Final = (Atom("edge", (_A, _B)), Atom("edge", (_B, _C)), Atom("edge", (_A, _C)))
RULES: Final = {
    "triangle": Rules((Rule(Atom("triangle", (_A, _B, _C)), _EDGES),)),
    "lookup": Rules((Rule(Atom("lookup", (_A, _B)), (Atom("edge", (_A, _B)), Atom("edge", (_B, _A)))),)),
}
"""triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c). lookup(a, b) :- edge(a, b), edge(b, a)."""


@dataclass(frozen=True)
class Sample:
    """Seconds of ticks of one rule and size: each the median of several.

    Attributes
    ----------
    rule
        The name of the rule.
    n_rows
        Rows of a tick, half of them deletions.
    values
        Values that joins proposed in a tick.
    device, cpu
        Of the tick where it runs.
    device_take_in, cpu_take_in
        Of taking it in where it did not run.
    """

    rule: str
    n_rows: int
    values: float
    device: float
    cpu: float
    device_take_in: float
    cpu_take_in: float


@dataclass(frozen=True)
class Calibration:
    """The measurements, and the costs fitted to them."""

    model: CostModel
    samples: tuple[Sample, ...]

    @property
    def thresholds(self) -> dict[str, int]:
        """Per rule, the rows from which a tick is faster on the device.

        The values per row are those of its largest tick.
        """
        largest = {sample.rule: sample for sample in self.samples}
        return {rule: self.model.threshold(sample.values / sample.n_rows) for rule, sample in largest.items()}

    def __str__(self) -> str:
        lines = [f"{'':<9}{'rows':>9}{'on the GPU':>14}{'on the CPU':>14}{'GPU takes in':>14}{'CPU takes in':>14}"]
        for sample in self.samples:
            times = (sample.device, sample.cpu, sample.device_take_in, sample.cpu_take_in)
            cells = "".join(f"{1e3 * seconds:>11.3f} ms" for seconds in times)
            lines.append(f"{sample.rule:<9}{sample.n_rows:>9,}{cells}")
        for rule, threshold in self.thresholds.items():
            if threshold == 0:
                lines.append(f"{rule}: all ticks are faster on the GPU")
            elif threshold >= ALWAYS:
                lines.append(f"{rule}: all ticks are faster on the CPU")
            else:
                lines.append(f"{rule}: ticks of fewer than {threshold:,} rows are faster on the CPU")
        return "\n".join(lines)


def calibrate(
    primary: Backend,
    twin: Backend,
    n_rows: int = N_ROWS,
    sizes: Sequence[int] | None = None,
    rounds: int = ROUNDS,
    seed: int = 1,
) -> Calibration:
    """Measure ticks of these sizes on both sides, and fit lines through their costs.

    Parameters
    ----------
    primary, twin
        The backends of the two sides.
    n_rows
        Edges of the graph.
    sizes
        Rows of the ticks, two different numbers at least.
    rounds
        Ticks of each size and side that count; one before them does not.
    seed
        Of the graph and the ticks.
    """
    random = np.random.default_rng(seed)
    edges = _edges(random, n_rows, n_rows)
    samples, build_per_row = [], 0.0
    for name, rules in RULES.items():
        lowering = _lowering(primary, rules)
        sides = _loaded(lowering, edges)
        start = time.perf_counter()
        sides = sides.with_twin(lowering, twin)
        build_per_row = max(build_per_row, (time.perf_counter() - start) / n_rows)
        for size in sizes or SIZES:
            measured = []
            for _ in range(rounds + 1):
                round_figures: list[float] = []
                for on_twin in (False, True):
                    sides, figures = _ticked(sides, on_twin, _change(random, edges, size))
                    round_figures.extend(figures)
                measured.append(round_figures)
            device, cpu_take_in, _, cpu, device_take_in, values = (
                statistics.median(column) for column in zip(*measured[1:], strict=True)
            )
            samples.append(Sample(name, size, values, device, cpu, device_take_in, cpu_take_in))
    return Calibration(_fitted(samples, build_per_row), tuple(samples))


def _lowering(backend: Backend, rules: Rules) -> Compiler:
    arity = {atom.relation: len(atom.terms) for rule in rules.rules for atom in (rule.head, *rule.atoms)}
    dictionaries = (Dictionary("string"), Dictionary("binary"))

    def execution() -> Execution:
        return Execution(backend, False, threads=processors())

    calls = FunctionCalls(dictionaries)
    return Compiler(rules, arity, ProgramOptions(outputs=rules.heads), dictionaries, execution, calls)


def _loaded(lowering: Compiler, edges: Int64Array) -> Replicas:
    columns = tuple(Column.of_integers(np.ascontiguousarray(column)) for column in edges.T)
    rows = Incoming(("src", "dst"), columns, None, False)
    lowered = lowering.compile_for({"edge": rows}, None, Types(lowering.rules), {})
    sides = Replicas.from_compiled(lowered)
    circuit = sides.primary.circuit
    change = InputChange([circuit.backend.asarray(column.codes) for column in columns], None, False)
    circuit.evaluate({"edge": change}, None)
    circuit_state = circuit.prepare()
    circuit.install(circuit_state)
    return Replicas(Replica(lowered, circuit_state))


def _edges(random: np.random.Generator, n: int, n_rows: int) -> Int64Array:
    """Edges among n / 8 vertices, few of which have many; the density is that of `n_rows` edges."""
    n_vertices = max(4, n_rows // 8)
    drawn = (n_vertices * random.random((n, 2)) ** 2).astype(np.int64)
    return np.unique(drawn, axis=0)


def _change(random: np.random.Generator, edges: Int64Array, size: int) -> tuple[Int64Array, Int64Array]:
    """Distinct rows and their weights: half of them edges of the graph, to be deleted."""
    n_gone = min(size // 2, len(edges))
    gone = edges[random.choice(len(edges), n_gone, replace=False)]
    come = _edges(random, size - n_gone, len(edges))
    rows = np.concatenate([gone, come])
    return rows, np.concatenate([np.full(len(gone), -1, np.int64), np.ones(len(come), np.int64)])


def _ticked(
    sides: Replicas, on_twin: bool, change: tuple[Int64Array, Int64Array]
) -> tuple[Replicas, tuple[float, float, float]]:
    """Run one tick; return its seconds, the other side's seconds, and the proposed values."""
    assert sides.twin is not None
    side = sides.twin if on_twin else sides.primary
    circuit = side.circuit
    rows, weights = change
    start = time.perf_counter()
    columns = [circuit.backend.asarray(np.ascontiguousarray(column)) for column in rows.T]
    given = InputChange(columns, circuit.backend.asarray(weights), True)
    circuit.evaluate({"edge": given}, circuit.outputs)
    circuit_state = circuit.prepare()
    _wait(circuit.backend)
    middle = time.perf_counter()
    with_tick = sides.after(side, circuit_state)
    circuit.install(circuit_state)
    if with_tick.twin is None:  # so large a tick that nobody would take it in
        with_tick = Replicas(with_tick.primary, sides.twin.with_backlog(circuit))
    start_take_in = time.perf_counter()
    with_tick = with_tick.up_to_date()
    for replica in with_tick:
        _wait(replica.circuit.backend)
    return with_tick, (middle - start, time.perf_counter() - start_take_in, proposed_by(circuit.work))


def _wait(backend: Backend) -> None:
    """Until the device has done all that it was told."""
    if backend.device is not None:
        backend.to_host(backend.xp.zeros(1, np.int64))


def _fitted(samples: Sequence[Sample], build_per_row: float) -> CostModel:
    ones = [1.0] * len(samples)
    rows = [float(sample.n_rows) for sample in samples]
    values = [sample.values for sample in samples]

    def side(ticks: list[float], take_ins: list[float]) -> SideCosts:
        return SideCosts(*fit_costs([ones, rows, values], ticks), *fit_costs([ones, rows], take_ins))

    return CostModel(
        side([one.device for one in samples], [sample.device_take_in for sample in samples]),
        side([one.cpu for one in samples], [sample.cpu_take_in for sample in samples]),
        build_per_row,
    )


def fit_costs(amounts: Sequence[Sequence[float]], seconds: Sequence[float]) -> list[float]:
    """Return non-negative costs per unit by least squares of the relative errors.

    All subsets of the amounts are tried, as some cost nothing: O(2^k) for k amounts.

    Examples
    --------
    >>> fixed, per_row = fit_costs([[1, 1, 1], [1, 100, 1000]], [1.5, 51.0, 501.0])
    >>> round(fixed, 6), round(per_row, 6)
    (1.0, 0.5)
    """
    took = np.maximum(np.array(seconds, np.float64), 1e-9)
    shares = np.array(amounts, np.float64) / took
    best, costs = np.inf, np.zeros(len(amounts))
    for n_used in range(1, len(amounts) + 1):
        for used in map(list, itertools.combinations(range(len(amounts)), n_used)):
            coefficients, *_ = np.linalg.lstsq(shares[used].T, np.ones(len(took)))
            error = float(np.square(shares[used].T @ coefficients - 1).sum())
            if (coefficients >= 0).all() and error < best:
                best, costs = error, np.zeros(len(amounts))
                costs[used] = coefficients
    return [float(cost) for cost in costs]
