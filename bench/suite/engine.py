"""The engine as a contender, by each of its strategies."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa

import gpu_wcoj as gw
from bench.suite.contender import About, Contender, Outcome, Setting
from bench.suite.digest import digest
from bench.suite.record import Work
from bench.suite.workload import State, Tick
from gpu_wcoj.kernels.protocol import MARKS, N_WORK, PROBES, PROPOSALS, SUM_OF_MINIMA, SURVIVORS

Strategy = Literal["wcoj", "binary", "auto"]


class Engine:
    """A program that is loaded once and takes ticks."""

    about = About()

    def __init__(self, setting: Setting, strategy: Strategy) -> None:
        workload = setting.workload
        self.program = gw.Program(
            workload.text, backend="cpu", threads=setting.threads, bag=workload.bag, strategy=strategy
        )
        self.workload = workload
        self.how = setting.how

    def load(self, state: State) -> None:
        """See `Contender`."""
        self.program.load({name: _batch(self.workload.columns[name], rows, None) for name, rows in state.items()})

    def prepare(self, tick: Tick) -> Any:
        """Arrow batches, with weights where rows are deleted."""
        batches = {}
        for name, change in tick.items():
            weights = None
            rows = change.inserted
            if len(change.deleted):
                rows = np.concatenate([change.deleted, rows])
                weights = np.repeat(np.array([-1, 1]), [len(change.deleted), len(change.inserted)])
            batches[name] = _batch(self.workload.columns[name], rows, weights)
        return batches

    def tick(self, prepared: Any) -> Outcome:
        """See `Contender`."""
        answer = self.workload.answer
        if self.how == "count":
            return Outcome(self.program.step_counts(prepared)[answer].net)
        return Outcome(int(self.program.step(prepared)[answer].weights.sum()))

    def work(self) -> Work:
        """Of all delta paths and levels."""
        report = self.program.last_tick
        total = np.zeros(N_WORK, np.int64)
        for rules in report.work.values():
            for paths in rules.values():
                for levels in paths.values():
                    for counted in levels.values():
                        total += counted
        minima, proposals, probes, marks, rows = total[[SUM_OF_MINIMA, PROPOSALS, PROBES, MARKS, SURVIVORS]].tolist()
        return Work(minima, proposals, probes, rows, report.merged_rows, marks)

    def count(self) -> int:
        """See `Contender`."""
        return self.program.count(self.workload.answer)

    def digest(self) -> str | None:
        """None in bags, whose rows have multiplicities."""
        if self.workload.bag:
            return None
        found = self.program.relation(self.workload.answer).to_numpy()
        return digest(np.stack([column for name, column in found.items() if name != "weight"], axis=1))

    def state_bytes(self) -> int:
        """See `Contender`."""
        return self.program.nbytes

    def close(self) -> None:
        """Nothing is left open."""


def wcoj(setting: Setting) -> Contender:
    """Every atom that holds a variable takes part in binding it."""
    return Engine(setting, "wcoj")


def binary(setting: Setting) -> Contender:
    """One atom after the other is looked up."""
    return Engine(setting, "binary")


def auto(setting: Setting) -> Contender:
    """As the planner chooses."""
    return Engine(setting, "auto")


def _batch(names: tuple[str, ...], rows: Any, weights: Any) -> pa.RecordBatch:
    columns = {name: pa.array(np.ascontiguousarray(rows[:, i])) for i, name in enumerate(names)}
    if weights is not None:
        columns["weight"] = pa.array(weights)
    return pa.RecordBatch.from_pydict(columns)
