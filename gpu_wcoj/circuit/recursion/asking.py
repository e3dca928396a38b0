"""Asking the rules how rows were derived before the tick: the derivations that are not kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpu_wcoj.circuit.recursion.derived import derived
from gpu_wcoj.circuit.recursion.rule_join import RuleJoin
from gpu_wcoj.circuit.recursion.rules import LoopRule
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.execution import Execution
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
    width
        What is told of a derivation beside its iteration: the number of what was asked for, and perhaps a value.
    """

    def __init__(
        self,
        rules: Sequence[LoopRule],
        before: Mapping[ArrangementKey, Arrangement],
        execution: Execution,
        width: int = 1,
    ) -> None:
        self._execution = execution
        self._width = width
        backend = execution.backend
        self._seeds = [Arrangement(rule.asked.paths[0].seed.key, backend) for rule in rules]
        self.joins = [
            RuleJoin(rule, IncrementalGenericJoin(rule.asked, {**before, seed.key: seed}, execution), is_asked=True)
            for rule, seed in zip(rules, self._seeds, strict=True)
        ]

    def derivations(self, columns: Sequence[Int64Array], n: int) -> tuple[list[Int64Array], Int64Array, Int64Array]:
        """What is told of the derivations of `n` distinct sorted rows, iterations, how many derivations there are.

        Parameters
        ----------
        columns
            Those that are asked for, in the relation's order; all but the value of a relation that keeps best values.
        """
        backend = self._execution.backend
        xp = backend.xp
        rows = PhaseRows([*columns, xp.arange(n, dtype=np.int64)], 1)
        found: list[list[Int64Array]] = []
        for seed, one in zip(self._seeds, self.joins, strict=True):
            seed.receive_delta([rows])
            one.begins((0,))
            for told, iterations, counts in derived(one.join, self._width, -1):
                found.append([*told, iterations, counts])
            seed.discard()
        if not found:
            nothing = xp.empty(0, np.int64)
            return [nothing] * self._width, nothing, nothing
        together = [own[0] if len(own) == 1 else xp.concatenate(own) for own in zip(*found, strict=True)]
        (*told, iterations), counts = backend.kernels.consolidate(together[:-1], together[-1])
        return told, iterations, counts
