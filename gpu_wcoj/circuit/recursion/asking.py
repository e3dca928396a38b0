"""Derivations of rows before the tick, recomputed from the rules as they are not stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpu_wcoj.circuit.recursion.derived import derive
from gpu_wcoj.circuit.recursion.plan import LoopRule
from gpu_wcoj.circuit.recursion.rule_join import RuleJoin
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows


class DerivationQuery:
    """Queries from rows of one head to their derivations in the state before the tick.

    Parameters
    ----------
    rules
        Rules of the head.
    before
        Arrangements as they were before the tick.
    execution
        With weights.
    width
        Number of result columns of a derivation beside its iteration: the position of the row, and perhaps a value.
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
        self._seeds = [Arrangement(rule.inverse_ranked.paths[0].seed.key, backend) for rule in rules]
        self.joins = [
            RuleJoin(
                rule,
                IncrementalGenericJoin(rule.inverse_ranked, {**before, seed.key: seed}, execution),
                is_inverse=True,
            )
            for rule, seed in zip(rules, self._seeds, strict=True)
        ]

    def derivations(self, columns: Sequence[Int64Array], n: int) -> tuple[list[Int64Array], Int64Array, Int64Array]:
        """Return the derivations of `n` distinct sorted rows: result columns, iterations and counts.

        Parameters
        ----------
        columns
            The rows, in the relation's order; without the value for a relation that keeps best values.
        """
        backend = self._execution.backend
        xp = backend.xp
        rows = PhaseRows([*columns, xp.arange(n, dtype=np.int64)], 1)
        pieces: list[list[Int64Array]] = []
        for seed, rule_join in zip(self._seeds, self.joins, strict=True):
            seed.receive_delta([rows])
            rule_join.has_seeds((0,))
            for values, iterations, counts in derive(rule_join.join, self._width, -1):
                pieces.append([*values, iterations, counts])
            seed.discard()
        if not pieces:
            nothing = xp.empty(0, np.int64)
            return [nothing] * self._width, nothing, nothing
        together = [parts[0] if len(parts) == 1 else xp.concatenate(parts) for parts in zip(*pieces, strict=True)]
        (*values, iterations), counts = backend.kernels.consolidate(together[:-1], together[-1])
        return values, iterations, counts
