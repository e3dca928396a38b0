"""The worst-case optimal multi-way join: one variable at a time through all relations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.exact import exact_change
from gpu_wcoj.circuit.source import refuse_overflow
from gpu_wcoj.engine.options import processors
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.join.magnitudes import bound_magnitudes, to_python
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.query.rules import Rule
from gpu_wcoj.streams.later import Later
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.ruled import PlannedRule, checked_rule
from gpu_wcoj.trace.arrangement import ArrangementKey
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.zset import ZSet

_Spines = Mapping[str, Mapping[ArrangementKey, Spine]]


@dataclass(frozen=True, eq=False)
class _State:
    """State between calls.

    Attributes
    ----------
    ruled
        The rule, planned for the seen types and nulls.
    spines
        Per relation, the spine of each arrangement; empty if there are no rows.
    later
        Pending results of later iterations.
    settled
        Whether no relation changed.
    """

    ruled: PlannedRule
    spines: _Spines = field(default_factory=dict)
    later: Later = field(default_factory=Later)
    settled: bool = True


class Multiway(Operator):
    """``out(h) = sum over bindings with head h of the product of atom weights``.

    Linear in each atom.

    Incrementally, it uses the delta rule: one path per atom, seeded by its change, with the preceding atoms after the
    change and the following atoms before it. In a subcircuit every relation has its iteration as an additional last
    column, and a result belongs to the latest iteration of its rows.

    The work on a change is within the worst-case optimal bound, times a logarithm.

    References
    ----------
    Ngo, Porat, Ré, Rudra, "Worst-case optimal join algorithms", 2018, doi:10.1145/3180143.
    """

    state: _State

    def __init__(self, rule: str | Rule, relations: Sequence[str], incremental: bool) -> None:
        self.rules = checked_rule(rule, relations)
        self.relations, self.incremental = tuple(relations), incremental
        self._join: tuple[PlannedRule, IncrementalGenericJoin] | None = None

    @property
    def label(self) -> str:
        """A short description of the operator."""
        return f"multiway {self.rules.rules[0]}"

    def clock_start(self, scope: int) -> None:
        """Start without rows on the outermost clock.

        At each tick of a subcircuit, clear pending results.
        """
        if scope == self.scope.depth:
            self.state = _State(
                PlannedRule.unplanned(self.rules, self.place, self.incremental and self.scope.depth > 0)
            )
        elif scope == 0:
            self.state = replace(self.state, later=Later(), settled=True)

    def evaluate(self, *values: ZSet) -> ZSet:
        """Return the join of these values, or its change."""
        rows_by_name = dict(zip(self.relations, values, strict=True))
        state = self._fitted(rows_by_name)
        now = self.time.iteration if state.ruled.timed else 0
        out, later = state.later.without(now)
        if any(len(rows) for rows in values):
            spines, results = self._join_change(state, rows_by_name, now)
            for iteration, rows in results:
                if iteration == now:
                    out = self.place.plus(out, rows)
                else:
                    later = later.with_rows(self.place, iteration, rows)
            self.state = _State(state.ruled, spines if self.incremental else {}, later, not self.incremental)
        else:
            self.state = replace(state, later=later, settled=True)
        return out

    def _fitted(self, rows_by_name: Mapping[str, ZSet]) -> _State:
        """Return the state in a plan for the types and nulls of these rows."""
        state = self.state
        ruled = state.ruled.planned_for(rows_by_name)
        if ruled is state.ruled:
            return state
        spines = {}
        for name, index in ruled.indices.items():
            old = state.ruled.indices[name]
            spines_before = state.spines.get(name)
            if spines_before:
                old.commit(spines_before)
                index.load(*ruled.migrate_rows(name, old.rows(), state.ruled))
                spines[name] = index.spines()
        return replace(state, ruled=ruled, spines=spines)

    def _join_change(
        self, state: _State, rows_by_name: Mapping[str, ZSet], now: int
    ) -> tuple[_Spines, Sequence[tuple[int, ZSet]]]:
        """Return the relations after the change, and the join's change by iteration."""
        ruled, place = state.ruled, self.place
        for name, index in ruled.indices.items():
            for key, arrangement in index.arrangements.items():
                arrangement.spine = state.spines[name][key] if name in state.spines else Spine()
            rows = ruled.stored(name, rows_by_name[name], now)
            if len(rows):
                refuse_overflow(name, rows.columns, rows.weight_column(place.xp), index, place.backend)
            index.receive_delta([rows])
        try:
            results = self._change(ruled, now)
            spines = {name: index.committed() for name, index in ruled.indices.items()}
        finally:
            for index in ruled.indices.values():
                index.discard()
        return spines, results

    def _change(self, ruled: PlannedRule, now: int) -> Sequence[tuple[int, ZSet]]:
        """Return the change of the join by iteration."""
        if ruled.query is None:
            return []
        if self._join is None or self._join[0] is not ruled:
            self._join = ruled, self._incremental_join(ruled)
        join, xp = self._join[1], self.place.xp
        join.begin()
        join.execution.begin()
        columns: list[Sequence[Int64Array]] = []
        weights: list[Int64Array] = []
        magnitude = 0
        for piece in join.join(0):
            columns.append(piece.columns)
            piece_weights = piece.weights
            weights.append(
                xp.full(len(piece), piece_weights, np.int64) if isinstance(piece_weights, int) else piece_weights
            )
            magnitude += bound_magnitudes(weights[-1], piece.bound, self.place.backend)
        if not weights:
            return []
        if join.weight_bound >= 1 << 63:  # products of weights are modulo 2^64
            return ruled.exact(exact_change(join, 0), now)
        if magnitude >= 1 << 63 or any(array.dtype == object for array in weights):
            return ruled.exact(_sum_weights(columns, weights, self.place.backend), now)
        joined = [self.place.concatenated(parts) for parts in zip(*columns, strict=True)]
        return ruled.result(joined, self.place.concatenated(weights), now)

    def _incremental_join(self, ruled: PlannedRule) -> IncrementalGenericJoin:
        place = self.place

        def ranks(family: str) -> Int64Array:
            return (place.string if family == "string" else place.binary).rank()

        assert ruled.query is not None
        arrangements = {key: ruled.indices[key.relation].arrangements[key] for key in ruled.query.keys}
        return IncrementalGenericJoin(
            ruled.query, arrangements, Execution(place.backend, True, threads=processors(), host_ranks=ranks)
        )

    @property
    def settled(self) -> bool:
        """True if no relation changed and nothing is pending."""
        return self.state.settled and not self.state.later


def _sum_weights(
    columns: Sequence[Sequence[Int64Array]], weights: Sequence[Int64Array], backend: Backend
) -> dict[tuple[int, ...], int]:
    """Return the sum of weights per row as Python integers."""
    total: dict[tuple[int, ...], int] = {}
    for part, piece_weights in zip(columns, weights, strict=True):
        rows = zip(*(backend.to_host(column).tolist() for column in part), strict=True)
        for row, weight in zip(rows, to_python(backend, piece_weights).tolist(), strict=True):
            total[row] = total.get(row, 0) + weight
    return total
