"""Input changes of bags."""

from __future__ import annotations

import numpy as np
import pytest

from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.circuit.source import bag_change
from gpu_wcoj.errors import WeightOverflowError
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.trace.arrangement import ArrangementKey


def relation_of(rows=(), weights=()):
    relation = RelationIndex("edge", 2, [ArrangementKey("edge", (1, 0))], cpu_backend())
    if rows:
        relation.load(columns_of(rows), np.array(weights, np.int64))
    return relation


def columns_of(rows):
    return [np.array(column, np.int64) for column in zip(*rows, strict=True)]


def changed(relation, rows, weights=None):
    (phase,), ignored = bag_change(relation, columns_of(rows), weights)
    relation.receive_delta([phase])
    relation.commit()
    codes = zip(*(column.tolist() for column in phase.columns), phase.weight_column().tolist(), strict=True)
    return list(codes), ignored


def test_distinct_rows_without_weights_are_sorted_alone(monkeypatch):
    relation = relation_of()
    kernels = type(relation.backend.kernels)
    for name in ("consolidate", "lexsort"):
        monkeypatch.setattr(kernels, name, staticmethod(lambda *_: pytest.fail("weights were sorted with the rows")))
    assert changed(relation, [(3, 1), (1, 2), (1, 1)]) == ([(1, 1, 1), (1, 2, 1), (3, 1, 1)], 0)
    assert changed(relation, [(2, 1), (1, 1)]) == ([(1, 1, 1), (2, 1, 1)], 0)
    monkeypatch.undo()
    columns, weights = relation.rows()
    assert list(zip(*map(np.ndarray.tolist, columns), strict=True)) == [(1, 1), (1, 2), (2, 1), (3, 1)]
    assert weights.tolist() == [2, 1, 1, 1]


def test_rows_that_come_twice_add():
    assert changed(relation_of(), [(3, 1), (1, 2), (3, 1)]) == ([(1, 2, 1), (3, 1, 2)], 1)


def test_a_row_of_the_largest_weight_takes_no_more():
    largest = (1 << 63) - 1
    relation = relation_of([(1, 1)], [largest])
    assert changed(relation, [(2, 1)]) == ([(2, 1, 1)], 0)
    with pytest.raises(WeightOverflowError, match="edge"):
        changed(relation, [(3, 1), (1, 1)])
    assert changed(relation_of([(1, 1)], [largest - 1]), [(1, 1)]) == ([(1, 1, 1)], 0)
