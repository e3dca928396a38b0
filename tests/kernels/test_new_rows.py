"""What is new below groups of prefixes, on every kind of kernels."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpu_fallback import new_rows
from cpu_fallback import numpy_kernels as vectorised
from gpu_wcoj.backend import Backend
from gpu_wcoj.kernels.protocol import N_WORK, PROPOSALS, SUM_OF_MINIMA, SURVIVORS
from tests.helpers.kernel_cases import DOMAINS, LEAST, MOST, SIZES, columns_of, random_batch, random_rows, trie
from tests.helpers.long_tests import IS_LONG
from tests.reference import kernels as reference
from tests.reference.kernels import Batch, Row

seeds = st.integers(0, 2**32)


def ask(
    backend: Backend, batches: Sequence[Batch], depth: int, groups: Sequence[Sequence[Row]],
    known: Sequence[Batch], known_depth: int, known_groups: Sequence[Row],
) -> tuple[list[list[int]], list[int]]:  # fmt: skip
    """What the kernel says is new to each group, and what it counted."""
    prefixes = [prefix for group in groups for prefix in group]
    levels, positions = stand(backend, batches, depth, prefixes)
    known_levels, known_positions = stand(backend, known, known_depth, known_groups)
    starts = np.array([0, *accumulate(map(len, groups))], np.int64)
    work = backend.asarray(np.zeros(N_WORK, np.int64))
    offsets, values = backend.kernels.fresh_values(
        levels, positions, backend.asarray(starts), known_levels, known_positions, work
    )
    assert offsets.dtype == values.dtype == np.int64
    bounds, found = backend.to_host(offsets).tolist(), backend.to_host(values).tolist()
    assert bounds[0] == 0
    assert bounds[-1] == len(found)
    return [found[begin:end] for begin, end in pairwise(bounds)], backend.to_host(work).tolist()


def stand(backend: Backend, batches: Sequence[Batch], depth: int, prefixes: Sequence[Row]):
    """Per batch the level below these prefixes, and where they stand in the one above."""
    tries = [trie(batch, len(next(iter(batch), [0] * (depth + 1))), backend) for batch in batches]
    if depth == 0 or not tries:
        return [index.levels[depth] for index in tries], backend.asarray(np.full((len(tries), len(prefixes)), -1))
    columns = backend.asarray(np.array(columns_of(prefixes, depth), np.int64))
    records = [[level.record for level in index.levels[:depth]] for index in tries]
    positions = backend.kernels.locate(records, [range(depth)] * len(tries), columns)
    return [index.levels[depth] for index in tries], positions


def drawn_batches(rng: random.Random, n: int, keys: Sequence[int], depth: int, domain: Sequence[int]) -> list[Batch]:
    deeper = [DOMAINS["few"]] * rng.randint(0, 1)
    size = rng.choice([*SIZES, 100, 300])
    return [
        random_batch(rng, rng.choice([size, size, 3, 0]), [*[keys] * depth, domain, *deeper], [1]) for _ in range(n)
    ]


def sparse(rng: random.Random) -> list[int]:
    return [rng.randrange(LEAST, MOST) for _ in range(200)]


@given(seeds)
@settings(max_examples=150 if IS_LONG else 60)
def test_random(kind, seed):
    rng = random.Random(seed)
    keys = DOMAINS[rng.choice(["one", "few", "negative", "extreme"])]
    domain = rng.choice([*DOMAINS.values(), range(300), range(-5000, 5000, 7), sparse(rng)])
    depth, known_depth = rng.randint(0, 2), rng.randint(0, 2)
    batches = drawn_batches(rng, rng.randint(1, 3), keys, depth, domain)
    known = drawn_batches(rng, rng.randint(0, 3), keys, known_depth, domain)
    sizes = [rng.choice([0, 1, 1, 2, 5, 33]) for _ in range(rng.choice([0, 1, 2, 20]))]
    groups = [random_rows(rng, size, [keys] * depth) for size in sizes]
    known_groups = random_rows(rng, len(groups), [keys] * known_depth)
    found, work = ask(kind.backend(seed), batches, depth, groups, known, known_depth, known_groups)
    expected = reference.fresh_values(batches, groups, known, known_groups)
    assert found == expected
    proposed = sum(
        len({node for node in reference.prefixes(batch, depth + 1) if node[:-1] == prefix})
        for group in groups for prefix in group for batch in batches
    )  # fmt: skip
    assert work[SUM_OF_MINIMA] == work[PROPOSALS] == proposed
    assert work[SURVIVORS] == sum(map(len, expected))


@pytest.mark.drawn("spread", "base", each=True)
@pytest.mark.parametrize("spread", [1, 3, 1000, 2**31, 2**45])
@pytest.mark.parametrize("base", [0, -(2**62)])
def test_one_large_group(backend, base, spread):
    """Values close together and far apart, many times each, some known, and a group of its own behind it."""
    n = 700
    batch = {(key, base + spread * (37 * key * value % n)): 1 for key in range(5) for value in range(n)}
    known = {(0, base + spread * value): 1 for value in range(-10, n, 3)}
    groups = [[(key,) for key in range(5)] * 3, [(3,)], [(9,)], [(2,), (9,), (2,)]]
    known_groups = [(0,), (0,), (0,), (1,)]
    found, _ = ask(backend, [batch], 1, groups, [known], 1, known_groups)
    assert found == reference.fresh_values([batch], groups, [known], known_groups)


@pytest.mark.parametrize("n_known", [1, 20_000])
@pytest.mark.parametrize("step", [1, 5000])
def test_few_known_and_many(backend, n_known, step):
    """Known values around those proposed, below them and above them, far more or far fewer than they are."""
    batch = {(key, step * (1000 + value)): 1 for key in range(2) for value in range(key, 120, 2 + key)}
    known = {(0, step * (1000 + value)): 1 for value in range(-n_known // 2 + 30, n_known // 2 + 31)}
    groups = [[(0,), (1,)], [(0,), (1,)]]
    found, _ = ask(backend, [batch], 1, groups, [known], 1, [(0,), (1,)])
    assert found == reference.fresh_values([batch], groups, [known], [(0,), (1,)])
    assert (found[0] == []) == (n_known > 1000)


@pytest.mark.parametrize(("low", "high"), [(LEAST, MOST), (LEAST, LEAST + 40), (MOST - 40, MOST), (-1, MOST)])
def test_the_ends_of_int64(backend, low, high):
    first, second = {(0, low): 1, (0, high): 1, (1, low): 1}, {(0, low): 1, (0, high - 1): 1}
    groups = [[(0,), (1,)], [(0,)], [(1,)]]
    known = {(0, high): 1, (1, low): 1}
    for own in ([], [known]):
        found, _ = ask(backend, [first, second], 1, groups, own, 1, [(1,), (0,), (0,)])
        assert found == reference.fresh_values([first, second], groups, own, [(1,), (0,), (0,)])


def test_in_portions(kind, monkeypatch):
    """Portions end inside prefixes and inside groups."""
    monkeypatch.setattr(vectorised, "PORTION", 7)
    if kind.on_device:
        from gpu_wcoj.kernels.cuda import extend as cuda

        monkeypatch.setattr(cuda, "MIN_PORTION", 7)
        monkeypatch.setattr(cuda, "MAX_PORTION", 7)
    rng = random.Random(5)
    for seed in range(5):
        batches = [random_batch(rng, 60, [range(3), range(25)], [1]) for _ in range(2)]
        groups = [random_rows(rng, 4, [range(4)]) for _ in range(5)]
        known_groups = random_rows(rng, 5, [range(3)])
        known = [random_batch(rng, 20, [range(3), range(25)], [1])]
        found, _ = ask(kind.backend(seed), batches, 1, groups, known, 1, known_groups)
        assert found == reference.fresh_values(batches, groups, known, known_groups)


@pytest.mark.parametrize("domain", [range(4000), range(0, 400_000, 100), range(0, 2**26, 2**14)])
def test_marks_and_hashes_agree(domain, monkeypatch):
    """The compiled kernel's ways, on values that all of them can take."""
    from tests.helpers.kernel_kinds import Kind

    rng = random.Random(11)
    batches = [random_batch(rng, 3000, [range(20), domain], [1]) for _ in range(2)]
    groups = [random_rows(rng, size, [range(20)]) for size in (1, 2, 8, 19)]
    known = [random_batch(rng, 500, [range(3), domain], [1])]
    known_groups = [(0,), (1,), (2,), (5,)]
    expected = reference.fresh_values(batches, groups, known, known_groups)
    for bytes_of, bits_of in ((new_rows.MAX_BYTE_SPAN, new_rows.MAX_BIT_SPAN), (0, new_rows.MAX_BIT_SPAN), (0, 0)):
        monkeypatch.setattr("cpu_fallback.kernels.MAX_BYTE_SPAN", bytes_of)
        monkeypatch.setattr("cpu_fallback.kernels.MAX_BIT_SPAN", bits_of)
        assert ask(Kind("numba").backend(), batches, 1, groups, known, 1, known_groups)[0] == expected
