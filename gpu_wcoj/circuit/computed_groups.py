"""Heads whose changed groups DuckDB computes anew, from all rows of these groups.

A tick costs what the rows of the changed groups cost, in one call of DuckDB; the difference to the head's rows goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gpu_wcoj.budget import TEXT_BYTES, reserve
from gpu_wcoj.circuit.aggregate import changed_rows, refuse_negative_weights, rows_of_groups
from gpu_wcoj.circuit.operator import ChangeCount, GroupsOperator, PieceSink
from gpu_wcoj.function_calls import BoundGroups, GroupRows
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.join.settings import Execution
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.zset.arrays import joined_columns


class SourceColumn(NamedTuple):
    """Levels of an arrangement with the codes of a column, and its null flags if it has any."""

    level: int
    flag: int | None


@dataclass(frozen=True)
class ComputedGroupsPlan:
    """The groups that a head computes.

    Attributes
    ----------
    source
        The arrangement of the rows; the columns of a group come first.
    n_group
        Number of levels of a group.
    head
        The head's stored columns, those of a group first.
    columns
        The columns of the source.
    passed
        Per column that the head takes from the source, its stored column and that of its null flags, if it has any.
    results
        Per result, its stored column in the head and that of its null flags.
    bound
        The results.
    """

    source: ArrangementKey
    n_group: int
    head: tuple[int, ...]
    columns: tuple[SourceColumn, ...]
    passed: tuple[tuple[int, int | None], ...]
    results: tuple[tuple[int, int], ...]
    bound: BoundGroups


@dataclass(eq=False)
class ComputedGroupsHead(GroupsOperator):
    """A head that DuckDB computes from the rows of another relation.

    Attributes
    ----------
    relation
        Its rows.
    source
        The arrangement `plan.source`.
    """

    name: str
    width: int
    plan: ComputedGroupsPlan
    source: Arrangement
    relation: RelationIndex = field()
    execution: Execution

    def evaluate(
        self,
        collect: bool,  # noqa: ARG002  # the rows are state
        sink: PieceSink | None = None,  # noqa: ARG002
    ) -> tuple[ChangeCount, list[PhaseRows]]:
        """Compute this tick's change from the pending change of the source.

        O(m log m + log n) for m rows, with their weights, of the changed groups.

        Raises
        ------
        NegativeWeightError
            If a row of a changed group has a negative weight after the tick.
        CalculationError
            If DuckDB has no result for a group.
        """
        plan, backend = self.plan, self._backend
        xp, kernels = backend.xp, backend.kernels
        change = changed_rows(self.source, backend)
        if change is None:
            return self._emit(self._no_rows(), xp.empty(0, np.int64))
        columns, _ = change
        starts = kernels.run_starts(columns[: plan.n_group]) if plan.n_group else xp.zeros(1, np.int64)
        groups = [column[starts] for column in columns[: plan.n_group]]
        after, weights = self._rows_after(groups)
        before, weights_before = self._rows_before(groups)
        *columns, weights = joined_columns([(*before, -weights_before), (*after, weights)], xp)
        return self._emit(*kernels.consolidate(columns, weights))

    def _rows_before(self, groups: Sequence[Int64Array]) -> tuple[list[Int64Array], Int64Array]:
        """Return the head's rows of groups before the tick, by stored column."""
        _, levels, weights = rows_of_groups(self.relation.accumulated(), groups, self.width, self._backend)
        placed = dict(zip(self.plan.head, levels, strict=True))
        return [placed[column] for column in range(self.width)], weights

    def _rows_after(self, groups: Sequence[Int64Array]) -> tuple[list[Int64Array], Int64Array]:
        """Return the head's rows of groups after the tick, by stored column."""
        plan, backend = self.plan, self._backend
        state = self.source.after(len(self.execution.phases) - 1)
        owner, levels, weights = rows_of_groups(state, groups, len(self.source.key.order), backend)
        if not len(owner):
            return self._no_rows(), weights
        refuse_negative_weights("computing groups", self.name, self.source.key, levels, weights, backend)
        host = [backend.to_host(level) for level in levels]
        codes = [host[column.level] for column in plan.columns]
        null = [None if column.flag is None else host[column.flag] != 0 for column in plan.columns]
        reserve(TEXT_BYTES * len(owner), "computing groups of", len(owner))
        repeats = backend.to_host(weights) if self.execution.weighted else np.ones(len(owner), np.int64)
        where = "" if "#" in self.name else f"in '{self.name}', "
        computed = plan.bound.compute(where, GroupRows(backend.to_host(owner), codes, null, repeats))
        placed: dict[int, Int64Array] = {}
        for (column, flag), source in zip(plan.passed, plan.columns, strict=False):
            placed[column] = host[source.level][computed.rows]
            if flag is not None:
                assert source.flag is not None
                placed[flag] = host[source.flag][computed.rows]
        for (column, flag), values, lacking in zip(plan.results, computed.codes, computed.null, strict=True):
            placed[column], placed[flag] = values, lacking.astype(np.int64)
        columns = [backend.asarray(placed[column]) for column in range(self.width)]
        return columns, backend.xp.ones(len(computed.rows), np.int64)
