"""Incremental sums and means of floats: exact, without reading groups again."""

from __future__ import annotations

import numpy as np

from gpu_wcoj.data.column import Column
from gpu_wcoj.streams.device_context import NOTHING, Place
from gpu_wcoj.streams.grouped import Groups
from gpu_wcoj.streams.layout import Sorting
from gpu_wcoj.streams.totals import Sum
from gpu_wcoj.streams.trace import Trace
from gpu_wcoj.streams.words import ROWS, Words, words_by_group
from gpu_wcoj.zset.zset import ZSet


def float_change(place: Place, groups: Groups, aggregator: Sum, state: Trace | None) -> tuple[ZSet, Trace]:
    """Return the change of the float sums of changed groups, and the new state.

    The rows of `groups` are a change. The state has words as rows and amounts as weights.
    """
    keys = tuple(range(len(groups.keys)))
    before = Trace(place, Sorting(keys)) if state is None else state
    group, word, amount = aggregator.words(groups)
    asarray = place.backend.asarray
    columns = [place.taken_column(head, asarray(group)) for head in groups.heads()]
    names = [*(groups.rows.names[key] for key in groups.keys), "#word"]
    after = before.append(place.made(names, [*columns, Column.of_integers(asarray(word))], asarray(amount)))
    return place.minus(_sums(groups, aggregator, after), _sums(groups, aggregator, before)), after


def _sums(groups: Groups, aggregator: Sum, trace: Trace) -> ZSet:
    """Return the sums of the groups that have rows."""
    place, heads = groups.place, groups.heads()
    entries = trace.below(heads, nulls=True, count=len(groups))
    if entries is None:
        return NOTHING
    listed = (
        place.backend.to_host(each).tolist() for each in (entries.owner, entries.columns[-1].stored, entries.weights)
    )
    words: list[Words] = words_by_group(len(groups), *listed)
    present = np.array([index for index, group_words in enumerate(words) if group_words.get(ROWS, 0) > 0], np.int64)
    if not len(present):
        return NOTHING
    rows = place.backend.asarray(present)
    columns = [
        *(place.taken_column(head, rows) for head in heads),
        aggregator.of_words([words[index] for index in present], place),
    ]
    names = [*(groups.rows.names[key] for key in groups.keys), aggregator.name]
    return place.made(names, columns, place.xp.ones(len(present), np.int64))
