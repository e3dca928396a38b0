"""Arrangements: one relation in one order; before and after a change without a copy; commits that fail whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpu_wcoj.backend import select_backend
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows, StateAsChange
from gpu_wcoj.trace.spine import MergePolicy
from tests.trace.test_spine import POLICIES, arrays

CPU = select_backend("cpu")


class FailingKernels:
    """The CPU's kernels, of which one raises."""

    def __init__(self, name, error):
        self.name, self.error = name, error

    def __getattr__(self, name):
        if name == self.name:
            raise self.error
        return getattr(CPU.kernels, name)


def failing(name, error):
    return replace(CPU, kernels=FailingKernels(name, error))


def rows(pairs, weights=1):
    columns = list(np.array(pairs, np.int64).T)
    return PhaseRows(columns, weights if isinstance(weights, int) else np.array(weights))


def content(batches):
    """{row: weight} of a list of batches."""
    total = {}
    for one in batches:
        for *row, weight in zip(*map(np.ndarray.tolist, (*one.columns(), one.weight_column())), strict=True):
            total[tuple(row)] = total.get(tuple(row), 0) + weight
    return {row: weight for row, weight in total.items() if weight}


@pytest.fixture
def arrangement():
    """e(x, y) by y, with three rows and many far ones, and a change that deletes one and inserts another."""
    made = Arrangement(ArrangementKey("e", (1, 0)), CPU)
    made.receive_delta([rows([(1, 5), (2, 5), (3, 6), *((7, 100 + i) for i in range(1000))])])
    made.commit()
    made.receive_delta([rows([(2, 5)], -1), rows([(4, 5)], 1)])
    return made


def test_the_spine_to_commit_is_that_of_the_last_change(arrangement):
    assert (2, 5) not in content(arrangement.committed().batches)
    arrangement.receive_delta([rows([(8, 5)])])
    assert near(arrangement.committed().batches) == {(5, 1): 1, (5, 2): 1, (5, 8): 1, (6, 3): 1}


def near(batches):
    return {row: weight for row, weight in content(batches).items() if row[0] < 100}


class TestBeforeAndAfter:
    def test_they_differ_by_the_phase(self, arrangement):
        state = {(5, 1): 1, (5, 2): 1, (6, 3): 1}
        deleted = {(5, 1): 1, (6, 3): 1}
        assert near(arrangement.before(0)) == state
        assert near(arrangement.after(0)) == near(arrangement.before(1)) == deleted
        assert near(arrangement.after(1)) == deleted | {(5, 4): 1}
        assert near(arrangement.accumulated()) == state
        assert content([arrangement.delta(0)]) == {(5, 2): -1}
        assert content([arrangement.delta(1)]) == {(5, 4): 1}
        assert arrangement.delta(2) is None

    def test_they_share_every_array_with_the_state(self, arrangement):
        (state,) = arrangement.accumulated()
        for batches in (arrangement.before(0), arrangement.after(0), arrangement.before(1), arrangement.after(1)):
            for array, other in zip(arrays(batches[0]), arrays(state), strict=True):
                assert np.shares_memory(array, other)
        for array, other in zip(arrays(arrangement.after(1)[2]), arrays(arrangement.delta(1)), strict=True):
            assert np.shares_memory(array, other)

    def test_a_commit_without_a_merge_shares_every_array_too(self, arrangement):
        (state,) = arrangement.accumulated()
        arrangement.commit()
        assert len(arrangement.accumulated()) == 2
        assert arrangement.accumulated()[0] is state

    def test_a_batch_that_a_reader_holds_is_never_changed(self, arrangement):
        held = arrangement.after(1)
        copies = [[array.copy() for array in arrays(one)] for one in held]
        arrangement.commit()
        for i in range(100):
            arrangement.receive_delta([rows([(i, 5)])])
            arrangement.commit()
        for one, copy in zip(held, copies, strict=True):
            for array, other in zip(arrays(one), copy, strict=True):
                np.testing.assert_array_equal(array, other)

    def test_rows_spread_out_for_a_reader_go_with_the_commit(self, arrangement):
        change = arrangement.delta(1)
        assert change.matrix.tolist() == [[5], [4]]
        assert change.lent().matrix is change.matrix
        arrangement.commit()
        assert "matrix" not in vars(change)

    def test_what_is_lent_keeps_its_own_rows(self, arrangement):
        (state,) = arrangement.accumulated()
        lent = state.lent()
        assert lent.matrix.shape == (2, 1003)
        assert "matrix" not in vars(state)
        assert (lent.levels is state.levels, lent.n_negative) == (True, 0)

    def test_a_phase_without_rows_adds_no_batch(self):
        made = Arrangement(ArrangementKey("e", (0,)), CPU)
        made.receive_delta([rows([(1,)]), rows(np.empty((0, 1)))])
        assert (len(made.after(0)), len(made.after(1)), made.delta(1)) == (1, 1, None)

    def test_discard_forgets_the_change(self, arrangement):
        before = content(arrangement.accumulated())
        arrangement.discard()
        assert (arrangement.delta(0), content(arrangement.after(1))) == (None, before)
        arrangement.commit()
        assert content(arrangement.accumulated()) == before

    def test_a_row_that_goes_and_comes_back_in_one_tick_leaves_no_batch(self):
        made = Arrangement(ArrangementKey("e", (0, 1)), CPU)
        made.receive_delta([rows([(1, 2)])])
        made.commit()
        made.receive_delta([rows([(1, 2)], -1), rows([(1, 2)], 1)])
        made.commit()
        assert content(made.accumulated()) == {(1, 2): 1}
        assert len(made.accumulated()) == 1


class TestMergedEarly:
    """What will be merged when the tick is committed is merged when a join asks for the state after it."""

    @pytest.fixture
    def early(self):
        made = Arrangement(ArrangementKey("e", (1, 0)), CPU, merges_early=True)
        made.receive_delta([rows([(1, 5), (2, 5), (3, 6)])])
        made.commit()
        made.receive_delta([rows([(2, 5)], -1), rows([(4, 5)], 1)])
        return made

    def test_the_state_after_is_what_the_commit_takes(self, early):
        assert content(early.before(0)) == {(5, 1): 1, (5, 2): 1, (6, 3): 1}
        assert content(early.before(1)) == {(5, 1): 1, (6, 3): 1}
        (merged,) = early.after(1)
        assert content([merged]) == {(5, 1): 1, (6, 3): 1, (5, 4): 1}
        assert early.after(1)[0] is merged  # merged once
        assert early.committed().batches == (merged,)
        assert content(early.accumulated()) == {(5, 1): 1, (5, 2): 1, (6, 3): 1}
        early.commit()
        assert early.accumulated() == (merged,)

    def test_another_change_is_merged_anew(self, early):
        before = early.after(1)
        early.discard()
        assert content(early.after(1)) == {(5, 1): 1, (5, 2): 1, (6, 3): 1}
        early.receive_delta([rows([(1, 5)], -1), rows([(9, 9)], 1)])
        assert content(early.after(1)) == {(5, 2): 1, (6, 3): 1, (9, 9): 1}
        assert content(before) == {(5, 1): 1, (6, 3): 1, (5, 4): 1}

    def test_a_change_that_changes_nothing(self, early):
        early.discard()
        early.receive_delta([rows(np.empty((0, 2)), -1), rows(np.empty((0, 2)), 1)])
        assert early.after(1) == early.before(0)


class TestStateAsChange:
    """The state is the change of a tick from nothing, and is merged for a path that starts with it."""

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("after", [False, True])
    def test_it_is_the_state_before_or_after_the_tick(self, arrangement, weighted, after):
        state = StateAsChange(arrangement, weighted, after)
        phase = 0 if weighted else 1
        expected = content(arrangement.committed().batches if after else arrangement.before(0))
        assert content(state.before(phase)) == {}
        assert content(state.after(phase)) == expected
        assert state.n_starting_rows(phase) >= len(expected)
        assert state.largest_starting_weight(phase) >= 1
        assert "_compact" not in vars(state)
        assert content([state.starting_rows(phase)]) == expected
        assert len(state.starting_rows(phase)) == len(expected)

    def test_of_a_set_nothing_is_deleted(self, arrangement):
        state = StateAsChange(arrangement, False, True)
        assert (state.n_starting_rows(0), state.sampled_rows(0), state.starting_rows(0)) == (0, None, None)

    def test_a_sample_reads_the_largest_batch(self, arrangement):
        state = StateAsChange(arrangement, True, True)
        assert len(state.sampled_rows(0)) == max(map(len, state.after(0)))
        assert "_compact" not in vars(state)

    def test_nothing(self):
        state = StateAsChange(Arrangement(ArrangementKey("e", (0,)), CPU), False, False)
        assert (state.after(1), state.n_starting_rows(1), state.sampled_rows(1), state.starting_rows(1)) == (
            (), 0, None, None,
        )  # fmt: skip


class TestSelection:
    def test_constants_and_repetitions(self):
        key = ArrangementKey("t", (2, 0), constants=((1, 7),), equal=((0, 3),))
        made = Arrangement(key, CPU)
        made.receive_delta([rows([(1, 7, 5, 1), (1, 7, 6, 2), (2, 8, 5, 2), (3, 7, 4, 3)], [2, 3, 4, -5])])
        assert content([made.delta(0)]) == {(5, 1): 2, (4, 3): -5}

    def test_a_change_that_selects_nothing_is_none(self):
        made = Arrangement(ArrangementKey("e", (0,), constants=((1, 9),)), CPU)
        made.receive_delta([rows([(1, 2)])])
        assert made.delta(0) is None
        made.commit()
        assert made.accumulated() == ()

    def test_the_rows_can_be_read_back(self, arrangement):
        arrangement.commit()
        columns, weights = arrangement.columns()
        assert [column[:3].tolist() for column in columns] == [[5, 5, 6], [1, 4, 3]]
        assert weights.tolist() == [1] * 1003


@pytest.fixture
def relation():
    """e in both orders, with a change pending that is due to be merged in both."""
    keys = [ArrangementKey("e", (0, 1)), ArrangementKey("e", (1, 0))]
    made = RelationIndex("e", 2, keys, CPU, MergePolicy())
    made.receive_delta([rows([(1, 5), (2, 5), (3, 6)])])
    made.commit()
    made.receive_delta([rows([(2, 5)], -1), rows([(4, 5)], 1)])
    return made


class TestAtomicCommit:
    @pytest.mark.parametrize("error", [MemoryError("no memory for the merge"), KeyboardInterrupt()])
    @pytest.mark.parametrize("child", [0, 1])
    def test_an_error_inside_a_merge_leaves_all_children_as_they_were(self, relation, child, error, monkeypatch):
        children = list(relation.arrangements.values())
        states = [one.accumulated() for one in children]
        for one in states[child]:
            monkeypatch.setattr(one, "backend", failing("merge_tries", error))
        with pytest.raises(type(error), match=str(error) or None):
            relation.commit()
        assert [one.accumulated() for one in children] == states
        monkeypatch.undo()
        relation.commit()
        assert [content(one.accumulated()) for one in children] == [
            {(1, 5): 1, (3, 6): 1, (4, 5): 1}, {(5, 1): 1, (5, 4): 1, (6, 3): 1},
        ]  # fmt: skip

    def test_what_a_failed_commit_left_can_be_discarded(self, relation, monkeypatch):
        before = content(relation.accumulated())
        for one in relation.accumulated():
            monkeypatch.setattr(one, "backend", failing("merge_tries", MemoryError("no memory for the merge")))
        with pytest.raises(MemoryError, match="no memory for the merge"):
            relation.commit()
        relation.discard()
        monkeypatch.undo()
        relation.commit()
        assert content(relation.accumulated()) == before

    def test_preparing_a_commit_moves_nothing(self, relation):
        states = [one.accumulated() for one in relation.arrangements.values()]
        prepared = relation.committed()
        assert [one.accumulated() for one in relation.arrangements.values()] == states
        relation.commit(prepared)
        assert [one.spine for one in relation.arrangements.values()] == list(prepared.values())


class TestRelationIndex:
    @pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
    def test_inserting_and_deleting_leaves_nothing_once_compact(self, policy):
        random = np.random.default_rng(1)
        keys = [ArrangementKey("t", order) for order in ((0, 1, 2), (2, 0, 1))]
        made = RelationIndex("t", 3, keys, CPU, policy)
        every = np.unique(random.integers(0, 9, (500, 3)), axis=0)
        for sign in (1, -1):
            for part in np.array_split(random.permutation(every), 40):
                made.receive_delta([rows(part[np.lexsort(part.T[::-1])], sign)])
                made.commit()
        made.compact()
        assert len(made) == 0
        assert [one.accumulated() for one in made.arrangements.values()] == [()] * 2

    def test_rows_and_weights_are_those_of_the_relation_whatever_the_order(self):
        made = RelationIndex("e", 2, [ArrangementKey("e", (1, 0))], CPU)
        made.load([np.array([1, 2, 3]), np.array([9, 8, 7])], np.array([1, -2, 5]))
        columns, weights = made.rows()
        assert ([column.tolist() for column in columns], weights.tolist()) == ([[1, 2, 3], [9, 8, 7]], [1, -2, 5])
        assert made.weights_of([np.array([3, 3, 2]), np.array([7, 8, 8])]).tolist() == [5, 0, -2]
        assert list(made.arrangements) == [ArrangementKey("e", (1, 0))]

    def test_a_relation_without_a_full_arrangement_gets_one(self):
        made = RelationIndex("e", 2, [ArrangementKey("e", (1, 0), constants=((0, 3),))], CPU)
        assert made.canonical == ArrangementKey("e", (0, 1))
        assert made.weights_of([np.array([3]), np.array([7])]).tolist() == [0]
        made.load([np.array([1, 3]), np.array([2, 7])], np.array([1, 1]))
        assert [len(one.accumulated()[0]) for one in made.arrangements.values()] == [1, 2]
