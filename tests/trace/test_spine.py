"""Spines: few batches of geometric sizes, merged without a trace in what they hold."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from gpu_wcoj.trace.spine import DEAD_FLOOR, MAX_BATCHES, RATIO, MergePolicy, Spine
from gpu_wcoj.zset.index import IndexedZSet

POLICIES = {
    "always": MergePolicy(ratio=math.inf),
    "ratio 64": MergePolicy(ratio=64),
    "ratio 2": MergePolicy(ratio=2),
    "ratio 1": MergePolicy(ratio=1),
    "only when there are too many": MergePolicy(ratio=0, most_batches=3),
}


def batch(rows, weights=None):
    columns = list(np.array(rows, np.int64).reshape(len(rows), -1).T)
    return IndexedZSet.from_columns(columns, None if weights is None else np.array(weights, np.int64))


def arrays(index):
    return [*index.values, *index.offsets, *([] if index.weights is None else [index.weights])]


def content(spine):
    """All rows and weights of a spine, merged."""
    whole = spine.compact().batches
    return [] if not whole else [array.tolist() for array in (*whole[0].columns(), whole[0].weight_column())]


def random_batches(seed, depth=2, n_batches=60, n_values=12):
    """Batches of 1 to 60 rows over few values, so that rows meet and cancel."""
    random = np.random.default_rng(seed)
    for _ in range(n_batches):
        n = int(random.integers(1, 60))
        rows = random.integers(0, n_values, (n, depth))
        yield batch(rows, random.choice([-2, -1, 1, 1, 2], n))


class TestSizes:
    @pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
    def test_there_are_few_batches_and_none_is_empty(self, policy):
        spine = Spine(policy=policy)
        for change in random_batches(1, depth=3):
            spine = spine.insert(change)
            assert len(spine.batches) == len(spine.tiers) <= policy.most_batches
            assert all(len(one) for one in spine.batches)
            assert len(spine) == sum(len(one) for one in spine.batches)

    def test_batches_that_cancel_leave_none(self):
        rows = [(x, -x) for x in range(9)]
        assert Spine().insert(batch(rows)).insert(batch(rows, [-1] * 9)).batches == ()

    @pytest.mark.parametrize("ratio", [2, 8, RATIO])
    def test_sizes_are_geometric(self, ratio):
        spine = Spine(policy=MergePolicy(ratio=ratio, most_batches=100))
        random = np.random.default_rng(2)
        for start in range(2000):
            n = int(random.choice([1, 1, 1, 5, 50]))
            spine = spine.insert(batch([(start, i) for i in range(n)]))
            sizes = [len(tier) for tier in spine.tiers]
            assert all(small * ratio <= large for large, small in itertools.pairwise(sizes))
        assert len(spine.tiers) <= 1 + math.log(len(spine), ratio)

    def test_four_batches_at_most(self):
        spine = Spine()
        most = 0
        for n in (500_000, 7000, 100, 1, 1, 1):
            spine = spine.insert(batch(np.arange(n) + len(spine)))
            most = max(most, len(spine.batches))
        assert most == MAX_BATCHES == 4
        for tick in range(300):
            spine = spine.insert(batch([(-1 - tick,)]))
            assert len(spine.batches) == len(spine.tiers) <= MAX_BATCHES

    def test_a_row_pays_for_ratio_rows_a_tier(self):
        ratio, n = 8, 8**4
        spine = Spine(policy=MergePolicy(ratio=ratio, most_batches=100))
        for tick in range(n):
            spine = spine.insert(batch([(tick,)]))
        tiers = math.log(n, ratio)
        assert n < spine.merged_rows <= (ratio + 2) * tiers * n

    def test_an_empty_batch_changes_nothing(self):
        spine = Spine().insert(batch([(1, 2)]))
        assert spine.insert(IndexedZSet.empty(2)) is spine


class TestContent:
    @pytest.mark.parametrize("depth", [1, 2, 3])
    def test_every_merge_schedule_gives_the_same_bits(self, depth):
        spines = {name: Spine(policy=policy) for name, policy in POLICIES.items()}
        for change in random_batches(3, depth):
            spines = {name: spine.insert(change) for name, spine in spines.items()}
        found = {name: spine.compact().batches for name, spine in spines.items()}
        assert len({len(spine.batches) for spine in spines.values()}) > 1
        for batches in found.values():
            for left, right in zip(arrays(batches[0]), arrays(found["always"][0]), strict=True):
                assert left.dtype == right.dtype
                np.testing.assert_array_equal(left, right)

    @pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
    def test_the_sum_of_the_batches_is_the_sum_of_the_changes(self, policy):
        spine, expected = Spine(policy=policy), {}
        for change in random_batches(4):
            spine = spine.insert(change)
            for *row, weight in zip(*map(np.ndarray.tolist, (*change.columns(), change.weight_column())), strict=True):
                expected[tuple(row)] = expected.get(tuple(row), 0) + weight
            *columns, weights = content(spine)
            held = dict(zip(zip(*columns, strict=True), weights, strict=True))
            assert held == {row: weight for row, weight in expected.items() if weight}

    @pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
    def test_what_came_and_went_leaves_nothing_once_compact(self, policy):
        changes = list(random_batches(5))
        spine = Spine(policy=policy)
        for change in changes:
            spine = spine.insert(change)
        for change in changes[::-1]:
            spine = spine.insert(batch(np.array(change.columns()).T, -change.weight_column()))
        assert spine.compact().batches == ()

    def test_insert_and_compact_leave_the_spine_that_they_are_asked_of(self):
        spine = Spine().insert(batch([(1, 2), (3, 4)]))
        held, before = spine.batches, [array.copy() for one in spine.batches for array in arrays(one)]
        later = spine.insert(batch([(1, 2), (5, 6)], [-1, 1]))
        later.compact()
        assert spine.batches is held
        assert content(later) == [[3, 5], [4, 6], [1, 1]]
        for array, copy in zip([array for one in held for array in arrays(one)], before, strict=True):
            np.testing.assert_array_equal(array, copy)

    def test_a_batch_that_needs_no_merge_is_not_copied(self):
        large, small = batch(np.arange(1000)), batch([(-1,)])
        spine = Spine().insert(large).insert(small)
        assert [one is other for one, other in zip(spine.batches, (large, small), strict=True)] == [True, True]
        assert spine.merged_rows == 0

    def test_weights_are_left_out_once_all_are_one_again(self):
        spine = Spine(policy=POLICIES["always"]).insert(batch([(1, 2), (1, 3)], [2, 1])).insert(batch([(1, 2)], [-1]))
        assert spine.batches[0].weights is None
        assert content(spine) == [[1, 1], [2, 3], [1, 1]]


class TestDeadRows:
    def state(self, n_hub, n_other):
        rows = np.concatenate([
            np.stack([np.zeros(n_hub, np.int64), np.arange(n_hub)], axis=1),
            np.stack([1 + np.arange(n_other), np.arange(n_other)], axis=1),
        ])  # fmt: skip
        return Spine().insert(batch(rows))

    def deletions(self, n):
        return batch(np.stack([np.zeros(n, np.int64), np.arange(n)], axis=1), -np.ones(n, np.int64))

    @pytest.mark.parametrize("n_ticks", [1, 7, 50])
    def test_a_key_whose_rows_are_mostly_dead_is_merged(self, n_ticks):
        n = 3000
        spine = self.state(n, 400_000)
        gone = self.deletions(n)
        for part in np.array_split(np.arange(n), n_ticks):
            columns = [column[part] for column in gone.columns()]
            spine = spine.insert(IndexedZSet.from_columns(columns, gone.weight_column()[part]))
            left = [one.get_by_prefix([np.zeros(1, np.int64)])[0] for one in spine.batches]
            live = n - int(part[-1]) - 1
            dead = sum(map(len, left)) - live
            still_merging = 3 * (np.sqrt(len(spine)) + n // n_ticks) if spine.running else 0  # rows deleted meanwhile
            assert dead <= max(live + 2 * n // n_ticks, 2 * np.sqrt(len(spine))) + still_merging
        assert dead <= 2 * np.sqrt(len(spine)) + still_merging

    def test_dead_rows_spread_over_keys_are_merged_when_they_are_half(self):
        n = 20_000
        spine = Spine(policy=MergePolicy(ratio=0, most_batches=1000)).insert(
            batch(np.stack([np.arange(n), np.arange(n)], axis=1))
        )
        for part in np.array_split(np.arange(n), 100):
            spine = spine.insert(batch(np.stack([part, part], axis=1), -np.ones(len(part), np.int64)))
            live = n - int(part[-1]) - 1
            assert len(spine) - live <= len(spine) / 2 + 2 * len(part)
        assert len(spine) == 0

    def test_few_dead_rows_do_not_force_a_merge(self):
        spine = self.state(100, 400_000)
        merged = spine.merged_rows
        assert DEAD_FLOOR > 100
        assert spine.insert(self.deletions(100)).merged_rows == merged

    def test_deletions_spread_thin_do_not_force_a_merge(self):
        spine = self.state(3000, 400_000)
        n = 3000
        other = batch(np.stack([1 + np.arange(n), np.arange(n)], axis=1), -np.ones(n, np.int64))
        assert len(spine.insert(other).batches) == 2

    def test_unary_relations_have_no_keys_to_look_at(self):
        n = 10_000
        spine = Spine().insert(batch(np.arange(n)))
        spine = spine.insert(batch(np.arange(100), -np.ones(100, np.int64)))
        assert [len(one) for one in spine.batches] == [n, 100]
        assert len(spine.compact()) == n - 100
