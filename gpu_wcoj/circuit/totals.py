"""Counts, sums and means of groups, which follow from what they were and from the rows that change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.extremes import rows_below
from gpu_wcoj.circuit.float_sums import FULL, codes_of_floats, words_of_floats, written
from gpu_wcoj.circuit.groups import GroupChange, GroupingPlan, refuse_beyond
from gpu_wcoj.circuit.sums import added, means_of_integers, sums_of_integers
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import positions
from gpu_wcoj.zset.index import IndexedZSet

LOW, HIGH, COUNT = -3, -2, -1
"""Words of a group: the low and the high one of a sum of integers, and the number of rows. Those of floats are 0 on."""

Additions = tuple[Int64Array, Int64Array, Int64Array]
"""What is added to words: group, word, amount."""


def counts_after(
    before: Int64Array, head: str, change: GroupChange, plan: GroupingPlan, execution: Execution
) -> Int64Array:
    """How much the rows of each group count, from what it was: their weights, or each 1 for a mean.

    Raises
    ------
    AggregateOverflowError
        If it leaves int64.
    """
    ones = execution.backend.xp.ones(len(change.weights), np.int64)
    more = sums_of_integers(change.weights, ones, change.starts, execution.backend)
    words = added((before, before >> 63), more)
    refuse_beyond("count", words, head, change, plan, execution.backend)
    return words[0]


class Totals:
    """The words of the changed groups of a head.

    Parameters
    ----------
    batches
        The state: rows of (group, word), with the word as weight.
    """

    def __init__(
        self,
        head: str,
        batches: Sequence[IndexedZSet],
        change: GroupChange,
        plan: GroupingPlan,
        execution: Execution,
    ) -> None:
        self._head, self._change, self._plan, self._execution = head, change, plan, execution
        self._owner, (self._word,), self._amount = rows_below(batches, change.columns, execution.backend)

    @property
    def _backend(self) -> Backend:
        return self._execution.backend

    def after(self) -> tuple[Int64Array, Int64Array, Additions]:
        """Per group its number of rows and its result, and what is added to the state.

        Raises
        ------
        AggregateOverflowError
            If a number of rows, or a sum of integers, leaves int64.
        """
        before = self._held(COUNT)
        counts = counts_after(before, self._head, self._change, self._plan, self._execution)
        additions = [self._additions(COUNT, counts - before)]
        if self._plan.family.startswith("float"):
            results, fresh = self._of_floats(counts)
            additions.append(fresh)
        else:
            results, words = self._of_integers(counts)
            additions += words
        group, word, amount = (self._backend.xp.concatenate(each) for each in zip(*additions, strict=True))
        return counts, results, (group, word, amount)

    def _held(self, which: int) -> Int64Array:
        """One word of every group."""
        column: Int64Array = self._backend.xp.zeros(self._change.n, np.int64)
        (rows,) = positions(self._backend, self._word == which)
        column[self._owner[rows]] = self._amount[rows]
        return column

    def _additions(self, which: int, amounts: Int64Array) -> Additions:
        """To one word, where they are not 0."""
        (rows,) = positions(self._backend, amounts != 0)
        return rows, self._backend.xp.full(len(rows), which, np.int64), amounts[rows]

    def _of_integers(self, counts: Int64Array) -> tuple[Int64Array, list[Additions]]:
        change = self._change
        assert change.values is not None
        low, high = self._held(LOW), self._held(HIGH)
        more = sums_of_integers(change.values, change.weights, change.starts, self._backend)
        words = added((low, high), more)
        additions = [self._additions(LOW, words[0] - low), self._additions(HIGH, words[1] - high)]
        if self._plan.op == "mean":
            return means_of_integers(words, counts, self._backend, 10**self._plan.scale), additions
        plan = self._plan
        refuse_beyond("sum", words, self._head, change, plan, self._backend, plan.most)
        return words[0] if plan.finer == 1 else words[0] * plan.finer, additions

    def _of_floats(self, counts: Int64Array) -> tuple[Int64Array, Additions]:
        backend, change = self._backend, self._change
        assert change.values is not None
        n_rows = backend.to_host(counts).tolist()
        held: list[dict[int, int]] = [{} for _ in n_rows]
        for own, word, amount in _listed(backend, self._owner, self._word, self._amount):
            if word >= 0:
                held[own][word] = amount
        sums = [dict(words) for words in held]
        rows = [backend.to_host(each) for each in (change.owner, change.values, change.weights)]
        width = 4 if self._plan.family == "float32" else 8
        for own, word, amount in _listed(backend, *words_of_floats(rows[0], rows[1], width, rows[2])):
            sums[own][word] = sums[own].get(word, 0) + amount
        for own, words in enumerate(sums):
            if n_rows[own] == 0:
                sums[own] = {}
            elif any(abs(amount) > FULL for amount in words.values()):
                sums[own] = written(words)
        fresh = [
            (own, word, words.get(word, 0) - held[own].get(word, 0))
            for own, words in enumerate(sums)
            for word in sorted({**held[own], **words})
        ]
        found = np.array([one for one in fresh if one[2]], np.int64).reshape(-1, 3).T.copy()
        codes = codes_of_floats(sums, n_rows if self._plan.op == "mean" else None)
        return backend.asarray(codes), (backend.asarray(found[0]), backend.asarray(found[1]), backend.asarray(found[2]))


def _listed(backend: Backend, *columns: Int64Array) -> zip[tuple[int, int, int]]:
    return zip(*(backend.to_host(column).tolist() for column in columns), strict=True)
