"""Incremental counts, sums and means of groups, from the old values and the changed rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.extremes import rows_below
from gpu_wcoj.circuit.float_sums import MAX_WORD, float_sum_codes, float_words, normalise_words
from gpu_wcoj.circuit.groups import GroupChange, GroupingPlan, refuse_out_of_range
from gpu_wcoj.circuit.sums import add_words, means_of_integers, sums_of_integers
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import positions
from gpu_wcoj.zset.index import IndexedZSet

LOW, HIGH, COUNT = -3, -2, -1
"""Word indices of a group: low and high word of a sum of integers, and number of rows. Words of floats start at 0."""

Additions = tuple[Int64Array, Int64Array, Int64Array]
"""Amounts to add to words: columns of group, word and amount."""


def counts_after(
    before: Int64Array, head: str, change: GroupChange, plan: GroupingPlan, execution: Execution
) -> Int64Array:
    """Return the new row count of each group: the sum of weights, or of ones for a mean.

    Raises
    ------
    AggregateOverflowError
        If a count leaves int64.
    """
    ones = execution.backend.xp.ones(len(change.weights), np.int64)
    more = sums_of_integers(change.weights, ones, change.starts, execution.backend)
    words = add_words((before, before >> 63), more)
    refuse_out_of_range("count", words, head, change, plan, execution.backend)
    return words[0]


class Totals:
    """Words of the changed groups of a head.

    Parameters
    ----------
    batches
        The state: rows of (group, word index), with the word as weight.
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
        """Return the row count and result of each group, and the amounts to add to the state.

        Raises
        ------
        AggregateOverflowError
            If a number of rows, or a sum of integers, leaves int64.
        """
        before = self._word_per_group(COUNT)
        counts = counts_after(before, self._head, self._change, self._plan, self._execution)
        additions = [self._additions(COUNT, counts - before)]
        if self._plan.family.startswith("float"):
            results, fresh = self._add_floats(counts)
            additions.append(fresh)
        else:
            results, words = self._add_integers(counts)
            additions += words
        group, word, amount = (self._backend.xp.concatenate(each) for each in zip(*additions, strict=True))
        return counts, results, (group, word, amount)

    def _word_per_group(self, word_index: int) -> Int64Array:
        """Return the word with this index of every group, 0 if absent."""
        column: Int64Array = self._backend.xp.zeros(self._change.n, np.int64)
        (rows,) = positions(self._backend, self._word == word_index)
        column[self._owner[rows]] = self._amount[rows]
        return column

    def _additions(self, word_index: int, amounts: Int64Array) -> Additions:
        """Return the nonzero amounts as additions to one word."""
        (rows,) = positions(self._backend, amounts != 0)
        return rows, self._backend.xp.full(len(rows), word_index, np.int64), amounts[rows]

    def _add_integers(self, counts: Int64Array) -> tuple[Int64Array, list[Additions]]:
        change = self._change
        assert change.values is not None
        low, high = self._word_per_group(LOW), self._word_per_group(HIGH)
        more = sums_of_integers(change.values, change.weights, change.starts, self._backend)
        words = add_words((low, high), more)
        additions = [self._additions(LOW, words[0] - low), self._additions(HIGH, words[1] - high)]
        if self._plan.op == "mean":
            return means_of_integers(words, counts, self._backend, 10**self._plan.scale), additions
        plan = self._plan
        refuse_out_of_range("sum", words, self._head, change, plan, self._backend, plan.max_sum)
        return words[0] if plan.result_factor == 1 else words[0] * plan.result_factor, additions

    def _add_floats(self, counts: Int64Array) -> tuple[Int64Array, Additions]:
        backend, change = self._backend, self._change
        assert change.values is not None
        n_rows = backend.to_host(counts).tolist()
        words_before: list[dict[int, int]] = [{} for _ in n_rows]
        for group_index, word, amount in _to_lists(backend, self._owner, self._word, self._amount):
            if word >= 0:
                words_before[group_index][word] = amount
        sums = [dict(words) for words in words_before]
        rows = [backend.to_host(each) for each in (change.owner, change.values, change.weights)]
        width = 4 if self._plan.family == "float32" else 8
        for group, word, amount in _to_lists(backend, *float_words(rows[0], rows[1], width, rows[2])):
            sums[group][word] = sums[group].get(word, 0) + amount
        for index, words in enumerate(sums):
            if n_rows[index] == 0:
                sums[index] = {}
            elif any(abs(amount) > MAX_WORD for amount in words.values()):
                sums[index] = normalise_words(words)
        fresh = [
            (group_index, word, words.get(word, 0) - words_before[group_index].get(word, 0))
            for group_index, words in enumerate(sums)
            for word in sorted({**words_before[group_index], **words})
        ]
        table = np.array([triple for triple in fresh if triple[2]], np.int64).reshape(-1, 3).T.copy()
        codes = float_sum_codes(sums, n_rows if self._plan.op == "mean" else None)
        return backend.asarray(codes), (backend.asarray(table[0]), backend.asarray(table[1]), backend.asarray(table[2]))


def _to_lists(backend: Backend, *columns: Int64Array) -> zip[tuple[int, int, int]]:
    return zip(*(backend.to_host(column).tolist() for column in columns), strict=True)
