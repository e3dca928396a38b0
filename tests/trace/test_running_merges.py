"""Merges in instalments: bounded work an insertion, readers that see two batches, and states that share the work."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.trace.spine import DEAD_FLOOR, FUEL, INSTALMENT, MergePolicy, RunningMerge, Spine
from gpu_wcoj.zset.index import IndexedZSet
from tests.helpers.kernel_kinds import lacking

pytestmark = pytest.mark.skipif(lacking("numba") is not None, reason=str(lacking("numba")))

POLICIES = {
    "ratio 4": MergePolicy(ratio=4, instalment=16, fuel=0.02),
    "ratio 64": MergePolicy(ratio=64, instalment=1, fuel=0.02),
    "two batches": MergePolicy(ratio=2, most_batches=2, instalment=7, fuel=0.02),
    "patient": MergePolicy(ratio=8, patience=2, instalment=32, fuel=0.02),
}
"""Merges read few rows per inserted row, so that many are running, and some have to be completed at once."""


@pytest.fixture
def backend():
    return cpu_backend(True)


def batch(rows, weights=None, backend=None):
    columns = list(np.array(rows, np.int64).reshape(len(rows), -1).T)
    return IndexedZSet.from_columns(columns, None if weights is None else np.array(weights, np.int64), backend)


def content(batches):
    """{row: weight} of batches, without those of weight 0."""
    total = {}
    for one in batches:
        for *row, weight in zip(*map(np.ndarray.tolist, (*one.columns(), one.weight_column())), strict=True):
            total[tuple(row)] = total.get(tuple(row), 0) + weight
    return {row: weight for row, weight in total.items() if weight}


def random_changes(seed, depth, n_changes=80, n_values=12):
    """Changes of 1 to 60 rows over few values, so that rows meet and cancel; every third one takes back another."""
    random = np.random.default_rng(seed)
    earlier = []
    for _ in range(n_changes):
        if earlier and random.random() < 0.3:
            rows, weights = earlier.pop(int(random.integers(len(earlier))))
            weights = [-weight for weight in weights]
        else:
            rows = random.integers(0, n_values, (int(random.integers(1, 60)), depth))
            weights = random.choice([-2, -1, 1, 1, 1, 2], len(rows)).tolist()
            earlier.append((rows, weights))
        yield rows, weights


def add(expected, change):
    total = dict(expected)
    for row, weight in zip(map(tuple, change[0].tolist()), change[1], strict=True):
        total[row] = total.get(row, 0) + weight
    return {row: weight for row, weight in total.items() if weight}


class TestContent:
    @pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
    @pytest.mark.parametrize("depth", [1, 2, 3, 4])
    def test_the_sum_of_the_batches_is_the_sum_of_the_changes_between_all_instalments(self, backend, policy, depth):
        spine, expected, n_running = Spine(policy=policy), {}, 0
        for change in random_changes(depth, depth, n_values=40 if depth == 1 else 9):
            spine = spine.insert(batch(*change, backend))
            expected = add(expected, change)
            n_running += len(spine.running)
            assert content(spine.batches) == expected
            assert len(spine) == sum(map(len, spine.batches))
            assert all(map(len, spine.batches))
            assert content(spine.compact().batches) == expected
            assert len(spine.compact().batches) == bool(expected)
        assert n_running > 10

    @pytest.mark.parametrize("depth", [1, 2, 3])
    def test_instalments_give_the_bits_of_one_merge(self, backend, depth):
        """That holds for the search structures of a merged batch, too."""
        made = [Spine(policy=MergePolicy(ratio=4, instalment=instalment, fuel=0.02)) for instalment in (16, math.inf)]
        for change in random_changes(3, depth):
            made = [spine.insert(batch(*change, backend)) for spine in made]
        (parts,), (whole,) = (spine.compact().batches for spine in made)
        for x, y in zip((*parts.values, *parts.offsets), (*whole.values, *whole.offsets), strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(parts.weight_column(), whole.weight_column())
        assert (parts.largest_weight, parts.n_negative) == (whole.largest_weight, whole.n_negative)
        rows = parts.columns()
        assert parts.locate(rows).tolist() == whole.locate(rows).tolist() == list(range(len(parts)))

    def test_a_batch_that_a_reader_holds_stays(self, backend):
        spine = Spine(policy=POLICIES["ratio 4"])
        held = []
        for change in random_changes(8, 2):
            spine = spine.insert(batch(*change, backend))
            held.append((spine.batches, content(spine.batches)))
        assert all(content(batches) == expected for batches, expected in held)


class TestUndo:
    @pytest.mark.parametrize("depth", [1, 2, 3])
    def test_states_that_share_a_running_merge_stay_right(self, backend, depth):
        """From any earlier state, another change may follow, in any order."""
        random = np.random.default_rng(depth)
        states = [(Spine(policy=POLICIES["ratio 4"]), {})]
        for change in random_changes(5, depth, n_changes=150):
            spine, expected = states[int(random.integers(max(0, len(states) - 12), len(states)))]
            states.append((spine.insert(batch(*change, backend)), add(expected, change)))
            back = int(random.integers(max(0, len(states) - 12), len(states)))
            assert content(states[back][0].batches) == states[back][1]
        assert all(content(spine.batches) == expected for spine, expected in states)
        assert all(content(spine.compact().batches) == expected for spine, expected in states)

    def test_the_batches_do_not_depend_on_work_that_was_undone(self, backend):
        changes = [batch(*change, backend) for change in random_changes(6, 2)]
        sizes = []
        for undoes in (False, True):
            spine, seen = Spine(policy=POLICIES["ratio 4"]), []
            for i, change in enumerate(changes):
                if undoes:
                    ahead = spine
                    for other in changes[i : i + 5]:
                        ahead = ahead.insert(other)
                spine = spine.insert(change)
                seen.append(([len(one) for one in spine.batches], spine.merged_rows))
            sizes.append(seen)
        assert sizes[0] == sizes[1]

    def test_an_instalment_that_fails_is_done_again(self, backend, monkeypatch):
        """Without memory, an insertion fails; the state before it is as it was, and goes on."""
        random = np.random.default_rng(1)
        kernels = backend.kernels
        begin = kernels.begin_merge

        class Failing:
            def __init__(self, *arguments):
                if random.random() < 0.2:
                    raise MemoryError
                self.merge = begin(*arguments)
                self.n_rows, self.result = self.merge.n_rows, self.merge.result

            def advance(self, n_read):
                if random.random() < 0.2:
                    self.merge.advance(n_read // 2)
                    raise MemoryError
                self.merge.advance(n_read)

        monkeypatch.setattr(type(kernels), "begin_merge", Failing)
        spine, expected, n_failed = Spine(policy=POLICIES["ratio 4"]), {}, 0
        for change in random_changes(7, 2):
            while True:
                try:
                    spine = spine.insert(batch(*change, backend))
                    break
                except MemoryError:
                    n_failed += 1
                    assert content(spine.batches) == expected
            expected = add(expected, change)
            assert content(spine.batches) == expected
        assert n_failed > 10

    def test_a_merge_that_another_thread_is_working_on_is_not_waited_for(self, backend):
        left, right = (batch(np.arange(start, 1000, 2), backend=backend) for start in (0, 1))
        merge = left.begin_merge(right)
        merge.advance(300)
        with merge._lock:
            merge.advance(600)
            assert merge.result().values[0].tolist() == list(range(1000))
        assert merge.result() is merge.result()
        assert merge.result().values[0].tolist() == list(range(1000))


class TestWork:
    """What an insertion costs in merged rows."""

    def sizes(self, random, n):
        return (int(random.choice([1, 1, 5, 40, 300])) for _ in range(n))

    @pytest.mark.parametrize("deletes", [False, True])
    @pytest.mark.parametrize(("depth", "ratio"), [(1, 16), (2, 16), (2, 64), (3, 32)])
    def test_an_insertion_merges_few_rows(self, depth, ratio, deletes):
        """In every tier a constant, and a constant times the rows that come: FUEL is enough for all merges."""
        policy = MergePolicy(ratio=ratio, instalment=128)
        spine, random = Spine(policy=policy), np.random.default_rng(1)
        inserted, n_running, start = 0, 0, 0
        at_once = Spine(policy=replace(policy, instalment=math.inf))
        most_at_once = 0
        for n in self.sizes(random, 600):
            rows = np.stack([*[random.integers(0, 50, n)] * (depth - 1), np.arange(start, start + n)], axis=1)
            change = batch(rows)
            spine, before = spine.insert(change), spine
            at_once, before_at_once = at_once.insert(change), at_once
            start += n
            if deletes and random.random() < 0.5:
                gone = batch(rows[: n // 2], [-1] * (n // 2)) if n > 1 else IndexedZSet.empty(depth)
                spine, before = spine.insert(gone), spine
                n = n // 2
            inserted += n
            bound = policy.most_batches * max(policy.instalment, FUEL * ratio * n)
            assert spine.merged_rows - before.merged_rows <= bound
            most_at_once = max(most_at_once, (at_once.merged_rows - before_at_once.merged_rows) / bound)
            assert len(spine.tiers) <= policy.most_batches
            assert len(spine.batches) == len(spine.tiers) + len(spine.running) <= 2 * policy.most_batches
            n_running = max(n_running, len(spine.running))
        assert n_running > 0
        assert most_at_once > 2 / FUEL
        tiers = math.ceil(math.log(inserted, ratio / (2 if depth == 3 else 1)))
        assert spine.merged_rows <= (ratio + 2) * tiers * inserted
        assert spine.merged_rows <= 1.3 * at_once.merged_rows or deletes

    def test_a_policy_without_instalments_merges_at_once(self):
        spine = Spine(policy=MergePolicy(ratio=4, instalment=math.inf))
        for change in random_changes(2, 2):
            spine = spine.insert(batch(*change))
            assert spine.running == ()

    def test_a_small_merge_is_done_at_once(self):
        spine = Spine().insert(batch(np.arange(INSTALMENT // 2))).insert(batch(np.arange(INSTALMENT, INSTALMENT + 300)))
        assert len(spine.batches) == 1
        large = Spine().insert(batch(np.arange(2 * INSTALMENT))).insert(batch([(-1 - i,) for i in range(511)]))
        later = large.insert(batch([(-1000 - i,) for i in range(10)]))
        assert [len(tier) for tier in large.tiers] == [2 * INSTALMENT, 511]
        assert [type(tier) for tier in later.tiers] == [RunningMerge]

    def test_half_of_the_insertions_before_the_next_merge_complete_one(self):
        """With a constant of 1, only the rows that come pay for it."""
        spine = Spine(policy=MergePolicy(ratio=16, instalment=1)).insert(batch(np.arange(10_000)))
        running = []
        for i in range(1100):
            spine = spine.insert(batch([(10_000 + i,)]))
            running.append(any(len(merge) > 10_000 for merge in spine.running))
        begin = running.index(True)
        assert begin == pytest.approx(625, abs=40)
        assert running.index(False, begin) - begin == pytest.approx(10_650 / (FUEL * 16), abs=4)

    def test_a_spine_that_was_idle_is_merged_in_instalments(self):
        """Its many batches are fewer after every insertion, until they are as few as usual."""
        n = 1 << 16
        spine, start = Spine().insert(batch(np.arange(n))), n
        for _ in range(383):
            spine = spine.insert(batch(np.arange(start, start + 100)), is_idle=True)
            start += 100
        n_tiers = len(spine.tiers)
        assert n_tiers > spine.policy.most_batches
        expected = content(spine.batches)
        for _ in range(40):
            before = spine
            spine = spine.insert(batch([(start,)]))
            expected[start,] = 1
            start += 1
            assert len(spine.tiers) <= max(len(before.tiers), spine.policy.most_batches)
            assert spine.merged_rows - before.merged_rows <= (n_tiers + 1) * INSTALMENT
        assert len(spine.tiers) <= spine.policy.most_batches
        assert content(spine.batches) == expected


class TestDeadRows:
    @pytest.mark.parametrize("per_tick", [20, 100, 400])
    def test_dead_rows_under_a_key_stay_few_without_a_large_merge(self, per_tick):
        """They are merged faster than others, at most the square root of the state for every deleted row."""
        n, n_other = 6000, 300_000
        key = np.concatenate([np.zeros(n, np.int64), 1 + np.arange(n_other)])
        rows = np.stack([key, np.concatenate([np.arange(n), np.arange(n_other)])], axis=1)
        spine = Spine().insert(batch(rows))
        floor = max(DEAD_FLOOR, math.isqrt(len(rows)))
        for begin in range(0, n, per_tick):
            part = rows[begin : begin + per_tick]
            before = spine
            spine = spine.insert(batch(part, [-1] * len(part)))
            live = n - begin - len(part)
            dead = sum(len(one.get_by_prefix([np.zeros(1, np.int64)])[0]) for one in spine.batches) - live
            assert dead <= max(live, 2 * floor) + 4 * (floor + per_tick)
            merged = spine.merged_rows - before.merged_rows
            assert merged <= 2 * max(INSTALMENT, (math.isqrt(len(rows)) + 1) * len(part))
            assert merged < len(rows)
        assert content([one for one in spine.batches if len(one) < 10_000]).keys() <= set(map(tuple, rows[:n].tolist()))
