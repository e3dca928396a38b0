"""Extending by CUDA kernels, on the shim: marks, cuts of work, windows and their rest, memory, what a call costs."""

from __future__ import annotations

import random
from itertools import accumulate
from typing import Any

import numpy as np
import pytest

from gpu_wcoj.backend import Backend, cpu_backend
from gpu_wcoj.kernels.cuda import extend
from gpu_wcoj.kernels.cuda import extend as alone
from gpu_wcoj.kernels.cuda import extend as plan
from gpu_wcoj.kernels.protocol import MARKS, N_WORK, PROPOSALS, SUM_OF_MINIMA, SURVIVORS
from tests.helpers.kernel_cases import Case, Question, random_case, trie
from tests.kernels.test_extend import FAR, HUGE, NEAR, check, few_of, hub
from tests.reference.kernels import Atom
from tests.shim import ShimOutOfMemoryError, available, shim_backend

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))

SEEDS = range(5)
BIG = Case(
    [
        Atom(({(0, value): 1 for value in range(0, 30_000, 2)},), (0,), True),
        Atom(({(0, value): 3 for value in range(0, 30_001, 5)},), (0,), False),
    ],
    [0, 0], [(0,), (1,), (0,)], [False, False],
)  # fmt: skip


def wide_hub(values: Any, **options: Any) -> Case:
    return hub(12, values[:400], few_of(60, values), **options)


def totals(case: Case) -> list[int]:
    sums = [0] * len(case.prefixes)
    for p, _, weight, _ in case.expected():
        sums[p] += weight
    return sums


@pytest.mark.drawn("seed", "domain", "goes_on", each=True)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("domain", ["bitmap", "hash"])
@pytest.mark.parametrize("goes_on", [False, True])
def test_each_value_of_a_hub_is_marked_once(seed, domain, goes_on):
    """Near values fit bitmaps unless positions are asked for, which take a hash table as far ones do."""
    case = wide_hub(NEAR if domain == "bitmap" else FAR, shared_rest=int(goes_on))
    backend = shim_backend(seed)
    check(case, backend, (50, HUGE))
    for question, run in ((Question(case, backend), Question.count), (Question(case, backend), Question.filled)):
        run(question, *(() if run is Question.count else (HUGE,)))
        assert question.work[MARKS] == 2 * 400  # two hubs, each once however many prefixes and pieces
        assert question.work[SURVIVORS] == len(case.expected())


@pytest.mark.parametrize("weights", [(1,), (-1, 1, 2)])
@pytest.mark.parametrize("extra", [0, 1])
def test_a_bitmap_takes_spans_up_to_a_multiple_of_its_values(monkeypatch, weights, extra):
    """The widest bitmap and the narrowest hash table; int64 values at both ends of the range."""
    monkeypatch.setattr(plan, "MIN_MARKED", 64)
    for least in (0, -(2**63), 2**63 - plan_bits(70)):
        values = [least, *(least + 100 * i + 7 for i in range(68)), least + plan_bits(70) - 1 + extra]
        values = [min(value, 2**63 - 1) for value in values]
        case = hub(6, sorted(set(values)), few_of(50, values), weights=weights)
        question = Question(case, shim_backend(2))
        assert question.count().tolist() == totals(case)
        assert question.work[MARKS] == 2 * len(set(values))


def plan_bits(n: int) -> int:
    """The widest span whose bitmap is taken for n values."""
    return 128 * n


def test_groups_beyond_the_budget_are_searched(monkeypatch):
    monkeypatch.setattr(extend, "MARK_VALUES", 500)
    for values in (NEAR, FAR):
        case = wide_hub(values, shared_rest=1)
        check(case, shim_backend(4), (HUGE,))
        question = Question(case, shim_backend(4))
        assert question.count().tolist() == totals(case)
        assert question.work[MARKS] == 400


def test_a_prefix_alone_and_short_ranges_are_not_marked():
    case = wide_hub(NEAR)
    case.prefixes = case.prefixes[:1]
    short = hub(12, NEAR[: plan.MIN_MARKED - 1], few_of(400, NEAR))
    for one in (case, short):
        question = Question(one, shim_backend())
        assert question.count().tolist() == totals(one)
        assert question.work[MARKS] == 0


def test_a_long_top_level_is_marked_for_all_prefixes(monkeypatch):
    case = hub(20, NEAR[:300], few_of(80, NEAR), top=NEAR[::3])
    for shortest in (len(NEAR[::3]), len(NEAR[::3]) + 1):
        monkeypatch.setattr(plan, "MIN_MARKED_TOP", shortest)
        question = Question(case, shim_backend(3))
        assert question.count().tolist() == totals(case)
        assert question.work[MARKS] == 2 * 300 + (len(NEAR[::3]) if shortest == len(NEAR[::3]) else 0)


@pytest.mark.drawn("seed", "step", "batches", each=True)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("step", [1, 2**40])
@pytest.mark.parametrize("batches", [1, 3])
def test_short_ranges_are_scanned_by_a_warp(seed, step, batches):
    """Candidates of one prefix that fill warps, in ranges of 1 to 65 values of 4 and 8 bytes, in batches too."""
    rng = random.Random(seed)
    left: dict[tuple[int, ...], int] = {}
    right: list[dict[tuple[int, ...], int]] = [{} for _ in range(batches)]
    for x, size in enumerate([*range(30, 67), 1, 2, 31, 32, 33, 63, 64, 65]):
        domain = [step * value for value in range(-size, size)]
        left.update({(x, value): 1 for value in rng.sample(domain, size)})
        for batch in right:
            few = rng.sample(domain, size if batches == 1 else rng.choice([1, 32, 33, size]) % (2 * size))
            batch.update({(x, value): rng.choice([-1, 1, 2]) if batches > 1 else 1 for value in few})
    atoms = [Atom((left,), (0,), True), Atom(tuple(right), (0,), True)]
    case = Case(atoms, [0, 0], [(x,) for x in range(45)], [False, False])
    check(case, shim_backend(seed), (97, HUGE))


@pytest.mark.drawn("seed", share=3)
@pytest.mark.parametrize("seed", SEEDS)
def test_units_end_anywhere(seed):
    """Prefixes of sizes around a block's and a unit's, some of none, thousands of none together."""
    rng = random.Random(seed)
    sizes = [255, 0, 1, 256, 257, *[0] * 1500, 31, 32, 33, 1023, 1024, 1025, 3, *[1] * 700, *[0] * 40, 2048]
    rng.shuffle(sizes)
    left = {(x, value): 1 for x, size in enumerate(sizes) for value in range(size)}
    right = {(x, value): 1 for x, size in enumerate(sizes) for value in range(0, 2 * size, 3)}
    atoms = [Atom((left,), (0,), True), Atom((right,), (0,), True)]
    case = Case(atoms, [0, 0], [(x,) for x in range(len(sizes))], [False, False])
    backend = shim_backend(seed)
    question = Question(case, backend)
    expected = [-(-size // 3) for size in sizes]
    assert question.count().tolist() == expected
    assert question.work[SURVIVORS] == sum(expected)
    for capacity in (97, 1024, HUGE):
        found = [(p, value) for p, value, *_ in Question(case, backend).filled(capacity)]
        assert found == [(x, value) for x, size in enumerate(sizes) for value in range(0, size, 3)]


def test_more_atoms_than_an_order_holds():
    """Seventeen atoms are not ranked, only the smallest is known."""
    rng = random.Random(17)
    atoms = [
        Atom(({(x, value): 1 for x in range(3) for value in rng.sample(range(40), 36)},), (0,), a % 2 == 0)
        for a in range(17)
    ]
    atoms = [
        Atom(tuple({(*row, 0): 1 for row in batch} for batch in atom.batches), (0,), False) if not atom.ends else atom
        for atom in atoms
    ]
    case = Case(atoms, [int(not atom.ends) for atom in atoms], [(0,), (1,), (2,), (1,)], [False] * 17)
    assert case.expected()
    check(case, shim_backend(2), (1, HUGE))


def test_more_slots_than_shared_memory_holds():
    rng = random.Random(3)
    batches = tuple({(x, rng.randrange(300)): rng.choice([-1, 1]) for x in range(3)} for _ in range(60))
    atoms = [Atom(batches, (0,), True), Atom(({(value,): 1 for value in range(250)},), (), True)]
    check(Case(atoms, [0, 0], [(0,), (1,), (2,)], [False, True]), shim_backend(1), (5, HUGE))


@pytest.mark.parametrize("capacity", [1, 2, 100, 999, 4096, HUGE])
def test_pieces_are_full_as_long_as_windows_last(capacity):
    """A window's survivors are handed out in pieces of that size, in order; none is looked at twice."""
    question = Question(BIG, shim_backend(3))
    pieces = []
    for piece in question.fill(capacity):
        pieces.append(len(piece[0]))
        if len(pieces) == 40:
            break
    else:
        assert sum(pieces) == question.work[SURVIVORS] == len(BIG.expected())
        assert question.work[PROPOSALS] == question.work[SUM_OF_MINIMA] == BIG.sum_of_minima()
    assert all(size <= capacity for size in pieces)
    if capacity <= 100:
        assert pieces[:20] == [capacity] * 20


def test_a_walk_that_was_interrupted_goes_on_in_its_place():
    """Two walks on one extension take turns: neither skips or repeats a row."""
    question = Question(BIG, shim_backend(6))
    walks = [question.fill(700), question.fill(900, weighted=False)]
    found: list[list[tuple[int, int]]] = [[], []]
    for _ in range(40):
        for number, walk in enumerate(walks):
            for parent, value, _, _ in [*([] if (piece := next(walk, None)) is None else [piece])]:
                found[number].extend(zip(parent.tolist(), value.tolist(), strict=True))
    expected = [(p, value) for p, value, *_ in BIG.expected()]
    assert found == [expected, expected]


@pytest.mark.drawn("seed", share=4)
@pytest.mark.parametrize("seed", range(12))
def test_small_windows_and_stretches(monkeypatch, seed):
    """Windows, plans and counts cut everywhere."""
    rng = random.Random(seed)
    monkeypatch.setattr(extend, "MIN_ITEMS", rng.choice([1, 5, 300]))
    monkeypatch.setattr(extend, "MAX_ITEMS", rng.choice([300, 1000]))
    monkeypatch.setattr(extend, "MAX_SPREAD", rng.choice([1, 2, 8]))
    monkeypatch.setattr(extend, "COUNTED_PREFIXES", rng.choice([1, 7, 1000]))
    case = random_case(f"small windows {seed}")
    check(case, shim_backend(seed), (1, 4, HUGE))
    question = Question(case, shim_backend(seed))
    question.filled(3)
    assert question.work[SUM_OF_MINIMA] == case.sum_of_minima()


def on_device(backend: Backend, n: int) -> Question:
    """A question of n prefixes, with a hub in it."""
    shared = {(0, value): 1 for value in range(0, 600, 2)}
    own = {(x, value): 1 for x in range(50) for value in range(x, x + 4)}
    atoms = [Atom((shared,), (0,), True), Atom((own,), (1,), True)]
    return Question(Case(atoms, [0, 0], [(0, x % 50) for x in range(n)], [True, False]), backend)


def test_what_calls_cost():
    """No read for a count, one for a window, none for its rest; launches do not depend on the number of prefixes."""
    launches = []
    for n in (4, 60, 3000):
        backend = shim_backend(3)
        question = on_device(backend, n)
        work = question.counters
        arguments = question.positions, 0, n, question.lower, question.upper, question.excluded, work
        with backend.device.counted() as counted:
            question.kernels.count_common(question.extension, *arguments)
        assert counted.reads == counted.uploads == 0
        resume = np.zeros(3, np.int64)
        costs = []
        for capacity in (3, 1, 10**6):
            with backend.device.counted() as filling:
                question.kernels.fill_common(
                    question.extension, question.positions, resume, n, question.lower, question.upper,
                    question.excluded, None, False, capacity, 0, work,
                )  # fmt: skip
            costs.append((filling.launches, filling.reads, filling.uploads))
        launches.append((counted.launches, costs))
        if n < 3000:
            assert resume.tolist() == [n, 0, 0]
    assert launches == [(5, [(7, 1, 0), (1, 0, 0), (1, 0, 0)])] * 3


def lone(rng: random.Random, n_batches: int, weights: tuple[int, ...], *, top: bool, rest: int) -> Case:
    """One atom, bounds and two values excluded, now and then the same; ranges from none to hundreds."""
    sizes = [rng.choice([0, 1, 5, 40, 150]) for _ in range(6)]
    batches = tuple(
        {(*([] if top else [x]), value, *[3] * rest): rng.choice(weights)
         for x in range(1 if top else 6) for value in rng.sample(range(300), sizes[x])}
        for _ in range(n_batches)
    )  # fmt: skip
    prefixes = [(rng.randrange(7),) for _ in range(30)]
    case = Case([Atom(batches, () if top else (0,), rest == 0)], [rest], prefixes, [False])
    case.bounds = [tuple(rng.choices(range(-5, 305), k=2)) for _ in prefixes]
    case.excluded = [[rng.randrange(3) for _ in prefixes], [rng.randrange(300) for _ in prefixes]]
    case.excluded.append([rng.choice(pair) for pair in zip(*case.excluded, strict=True)])
    return case


@pytest.mark.drawn("seed", "n_batches", "rest", share=8)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_batches", [1, 3])
@pytest.mark.parametrize("rest", [0, 1])
def test_an_atom_alone(monkeypatch, seed, n_batches, rest):
    """With and without weights, bounds, exclusions and running sums."""
    rng = random.Random(f"{seed} {n_batches} {rest}")
    monkeypatch.setattr(alone, "MIN_SUMMED", rng.choice([1, 100, HUGE]))
    monkeypatch.setattr(extend, "COUNTED_PREFIXES", rng.choice([4, 20, HUGE]))
    weights = rng.choice([(1,), (-1, 1, 2), (2**62, -(2**63))]) if rest == 0 else (1,)
    case = lone(rng, n_batches, weights, top=seed % 3 == 0, rest=rest)
    case.weights = [rng.choice([-1, 3]) for _ in case.prefixes]
    backend = shim_backend(seed)
    for bounds in (case.bounds, None):
        for excluded in (case.excluded, []):
            case.bounds, case.excluded = bounds, excluded
            check(case, backend, (100, HUGE))


def test_what_an_atom_alone_costs():
    """A count looks at no value, and takes one launch; running sums of weights are made once."""
    backend = shim_backend(3)
    for weight in (1, 2):
        rows = {(x, value): weight for x in range(3) for value in range(100)}
        question = Question(Case([Atom((rows,), (0,), True)], [0], [(x % 4,) for x in range(50)], [False]), backend)
        costs = []
        for _ in range(2):
            with backend.device.counted() as counted:
                counts = question.count().tolist()
            costs.append((counted.launches, counted.uploads))
            assert counts == [0 if x % 4 == 3 else 100 * weight for x in range(50)]
        assert costs == ([(1, 0)] * 2 if weight == 1 else [(1, 1), (1, 0)])
        assert question.work.tolist() == [7600, 0, 0, 0, 7600, 0]
        assert [len(piece[0]) for piece in question.fill(3000)] == [3000, 800]
        assert question.work[PROPOSALS] == 3800


def test_copies_that_were_interrupted_go_on_in_their_place():
    rows = {(x, value): 2 for x in range(3) for value in range(100)}
    case = Case([Atom((rows,), (0,), True)], [0], [(x % 4,) for x in range(50)], [False])
    question = Question(case, shim_backend(4))
    walks = [question.fill(170), question.fill(90, weighted=False)]
    found: list[list[tuple[int, int]]] = [[], []]
    for _ in range(50):
        for number, walk in enumerate(walks):
            for parent, value, _, _ in [*([] if (piece := next(walk, None)) is None else [piece])]:
                found[number].extend(zip(parent.tolist(), value.tolist(), strict=True))
    assert found == [[(p, value) for p, value, *_ in case.expected()]] * 2
    assert question.work[SUM_OF_MINIMA] == 2 * case.sum_of_minima()


@pytest.mark.drawn("seed", share=3)
@pytest.mark.parametrize("seed", SEEDS)
def test_without_memory_nothing_moves(seed):
    """A call that fails leaves `resume`; one with a smaller capacity succeeds, and no row is lost or repeated."""
    expected = [(p, value) for p, value, *_ in BIG.expected()]
    failures = 0
    for limit in range(500_000, 1_500_000, 100_000):
        backend = shim_backend(seed, limit)
        question = Question(BIG, backend)
        resume = np.zeros(3, np.int64)
        capacity, found = 1 << 20, []
        while resume[0] < 3:
            before = resume.tolist()
            try:
                parent, value, _, _ = question.kernels.fill_common(
                    question.extension, question.positions, resume, 3, question.lower, question.upper,
                    question.excluded, None, True, capacity, question.n_out_rows, question.counters,
                )  # fmt: skip
            except ShimOutOfMemoryError:
                failures += 1
                assert resume.tolist() == before
                assert capacity > 1, "no memory for the least window"
                capacity //= 2
                continue
            found.extend(zip(backend.to_host(parent).tolist(), backend.to_host(value).tolist(), strict=True))
        assert found == expected
        assert question.work[SUM_OF_MINIMA] == BIG.sum_of_minima()
    assert failures


def test_scratch_is_given_back():
    backend = shim_backend(2)
    question = Question(BIG, backend)
    held = backend.device.counts.allocated
    assert len(question.filled(1000)) == len(BIG.expected())
    question.count()
    assert backend.device.counts.allocated == held


def batches_of(rng: random.Random, n_batches: int) -> list[dict[tuple[int, int], int]]:
    """Batches whose sums are 0 or 1: rows come, go and come again."""
    batches: list[dict[tuple[int, int], int]] = []
    present: set[tuple[int, int]] = set()
    for _ in range(n_batches):
        touched = {(rng.randrange(6), rng.randrange(40)) for _ in range(60)}
        batches.append({row: -1 if row in present else 1 for row in touched})
        present ^= touched
    return batches


@pytest.mark.drawn("seed", share=4)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n", [1, 3, 16])
@pytest.mark.parametrize("top", [False, True])
def test_seeds(seed, n, top):
    """Descending and extending in one: what the CPU's kernels answer, in few launches and at most one read.

    The CPU's are not asked about atoms that no seed reaches.
    """
    rng = random.Random(f"{seed} {n}")
    columns = np.array([[rng.randrange(7) for _ in range(n)] for _ in range(2)], np.int64)
    sizes = [rng.randint(1, 3) for _ in range(rng.randint(1, 3))]
    rows = [batch for size in sizes for batch in batches_of(rng, size)]
    column_of = [column for size in sizes for column in [[rng.randrange(2)]] * size]
    cpu = cpu_backend(True)
    levels = [trie(batch, 2, cpu).levels for batch in rows]
    first = [0, *accumulate(sizes)]
    _, found = cpu.kernels.extend_seeds(levels, column_of, first, columns, True, np.zeros(N_WORK, np.int64))
    expected = sorted((row, value) for row, value in found.T.tolist() if not top or value % 3 == 0)
    backend = shim_backend(seed)
    levels = [trie(batch, 2, backend).levels for batch in rows]
    if top:
        levels.append(trie({(value,): 1 for value in range(0, 40, 3)}, 1, backend).levels)
        column_of.append([])
        first.append(len(levels))
    moved, work = backend.asarray(columns), backend.asarray(np.zeros(N_WORK, np.int64))
    for fill in (False, True):
        with backend.device.counted() as cost:
            counts, found = backend.kernels.extend_seeds(levels, column_of, first, moved, fill, work)
        assert cost.reads <= fill
        assert cost.launches <= 6
        counts, found = backend.to_host(counts), backend.to_host(found)
        assert counts.dtype == found.dtype == np.int64
        assert counts.tolist() == [sum(row == seed_row for row, _ in expected) for seed_row in range(n)]
        assert sorted(map(tuple, found.T.tolist())) == (expected if fill else [])
        assert found.shape[0] == 2
