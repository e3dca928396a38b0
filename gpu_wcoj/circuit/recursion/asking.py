"""Asking the rules how a row was derived before the tick: the derivations that are not kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpu_wcoj.circuit.recursion.derived import derived
from gpu_wcoj.circuit.recursion.rules import LoopRule
from gpu_wcoj.join.delta import Execution, IncrementalGenericJoin
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows


class Asking:
    """The rules of one head, asked backwards over the state before the tick.

    Parameters
    ----------
    rules
        Of the head.
    before
        Arrangements as they were before the tick.
    execution
        With weights.
    """

    def __init__(
        self, rules: Sequence[LoopRule], before: Mapping[ArrangementKey, Arrangement], execution: Execution
    ) -> None:
        self._execution = execution
        backend = execution.backend
        self._seeds = [Arrangement(rule.asked.paths[0].seed.key, backend) for rule in rules]
        self.joins = [
            IncrementalGenericJoin(rule.asked, {**before, seed.key: seed}, execution)
            for rule, seed in zip(rules, self._seeds, strict=True)
        ]

    def derivations(self, columns: Sequence[Int64Array]) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Of these distinct sorted rows: (row's number, iteration, how many derivations it has there).

        Sorted by number and then by iteration.
        """
        backend = self._execution.backend
        xp, n = backend.xp, len(columns[0])
        rows = PhaseRows([*columns, xp.arange(n, dtype=np.int64)], 1)
        found: list[tuple[Int64Array, Int64Array, Int64Array]] = []
        for seed, join in zip(self._seeds, self.joins, strict=True):
            seed.receive_delta([rows])
            found.extend((columns[0], iterations, counts) for columns, iterations, counts in derived(join, 1, -1))
            seed.discard()
        if not found:
            nothing = xp.empty(0, np.int64)
            return nothing, nothing, nothing
        numbers, iterations, counts = (
            own[0] if len(own) == 1 else xp.concatenate(own) for own in zip(*found, strict=True)
        )
        (numbers, iterations), counts = backend.kernels.consolidate([numbers, iterations], counts)
        return numbers, iterations, counts
