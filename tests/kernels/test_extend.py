"""Count and fill: what they find is what the reference finds, in any pieces, and the work they do is bounded."""

from __future__ import annotations

import random
import tracemalloc
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_wcoj.backend import Backend, cpu_backend
from gpu_wcoj.kernels.protocol import MARKS, PROBES, PROPOSALS, RANKED, SUM_OF_MINIMA, SURVIVORS
from tests.helpers.kernel_cases import Case, Question, marked_alike, random_case
from tests.helpers.long_tests import IS_LONG
from tests.reference.kernels import Atom, wrap

HUGE = 2**62


def check(case: Case, backend: Backend, capacities=(1, 2, 7, HUGE)) -> None:
    """Count and fill `case` in pieces of these capacities, and compare with the reference."""
    expected = case.expected()
    own = [1] * len(case.prefixes) if case.weights is None else case.weights
    for capacity in capacities:
        question = Question(case, backend)
        found = question.filled(capacity)
        assert found == [(p, value, wrap(weight * own[p]), places) for p, value, weight, places in expected]
        assert question.work[SURVIVORS] == len(expected)
    assert Question(case, backend).filled(capacities[-1], weighted=False) == [
        (p, value, 1, places) for p, value, _, places in expected
    ]
    sums: dict[int, int] = defaultdict(int)
    for p, _, weight, _ in expected:
        sums[p] += weight
    question = Question(case, backend)
    counts = question.count()
    assert counts.dtype == np.int64
    assert counts.tolist() == [wrap(sums[p]) for p in range(len(case.prefixes))]
    assert question.work[SURVIVORS] >= len(expected)  # a value in two batches may be counted in each


@given(st.integers(0, 2**32))
@settings(max_examples=60 if IS_LONG else 30)
def test_extending_is_what_the_reference_says(kind, seed):
    check(random_case(seed), kind.backend(seed))


@given(st.integers(0, 2**32))
@settings(max_examples=30)
def test_a_part_of_the_prefixes(kind, seed):
    case = random_case(seed)
    n = len(case.prefixes)
    begin, end = n // 3, n - n // 4
    question = Question(case, kind.backend(seed))
    assert question.count(begin, end).tolist() == question.count()[begin:end].tolist()
    assert [p.tolist() for p, *_ in question.fill(HUGE, begin=begin)] == [
        [p for p, *_ in case.expected() if p >= begin]
    ]


@given(st.integers(0, 2**32))
@settings(max_examples=30)
def test_shared_flags_are_only_a_hint(kind, seed):
    case = random_case(seed)
    expected = case.expected()
    for shared in (True, False):
        flagged = replace(case, shared=[shared] * len(case.atoms), weights=None)
        assert Question(flagged, kind.backend(seed)).filled(HUGE) == expected


def hub(
    n_prefixes: int, shared_values, own_values, *, own_batches: int = 1, shared_batches: int = 1, own_rest: int = 0,
    shared_rest: int = 0, second_own: bool = False, top=None, weights=(1,), seed: int = 0,
) -> Case:  # fmt: skip
    """Prefixes (hub, x): one atom with a list below the hub, one with a list below every x, perhaps others."""
    rng = random.Random(seed)
    tail = lambda rest: tuple(rng.randrange(3) for _ in range(rest))  # noqa: E731 one line, used twice
    shared = [{} for _ in range(shared_batches)]
    for key in (5, 6):
        for value in shared_values:
            shared[rng.randrange(shared_batches)][key, value, *tail(shared_rest)] = rng.choice(weights)
            if shared_batches > 1 and rng.random() < 0.3:
                shared[rng.randrange(shared_batches)][key, value, *tail(shared_rest)] = rng.choice(weights)
    own = [{} for _ in range(own_batches)]
    for x in range(n_prefixes):
        # Some prefixes are in one batch only, others in several.
        allowed = rng.sample(range(own_batches), rng.randint(1, own_batches))
        for value in own_values(x):
            own[rng.choice(allowed)][x, value, *tail(own_rest)] = rng.choice(weights)
            if rng.random() < 0.3:
                own[rng.choice(allowed)][x, value, *tail(own_rest)] = rng.choice(weights)
    atoms = [Atom(tuple(shared), (0,), shared_rest == 0), Atom(tuple(own), (1,), own_rest == 0)]
    rest, flags = [shared_rest, own_rest], [True, False]
    if second_own:
        keys = [(x, key, value) for key in (5, 6) for x in range(n_prefixes) for value in own_values(x)]
        pairs = {key: rng.choice(weights) for key in keys if rng.random() < 0.7}
        atoms.append(Atom((pairs,), (1, 0), True))
        rest.append(0)
        flags.append(False)
    if top is not None:
        atoms.append(Atom(({(value,): rng.choice(weights) for value in top},), (), True))
        rest.append(0)
        flags.append(True)
    prefixes = [(key, x) for key in (5, 6) for x in range(n_prefixes)]
    return Case(atoms, rest, prefixes, flags)


def few_of(size, domain):
    return lambda x: random.Random(x).sample(domain, min(size, len(domain)))


NEAR = range(-600, 1400)
FAR = range(-(2**62), 2**62, 2**52)
HELD, ALIKE = marked_alike()
ENDS = [*range(-(2**63), -(2**63) + 500), *range(2**63 - 500, 2**63)]
HUBS = {
    "scan": {"n_prefixes": 12, "shared_values": NEAR[:400], "own_values": few_of(40, NEAR)},
    "list": {"n_prefixes": 12, "shared_values": NEAR[:9], "own_values": few_of(200, NEAR)},
    "hashed": {"n_prefixes": 12, "shared_values": FAR[:400], "own_values": few_of(40, FAR)},
    "around 2^63": {"n_prefixes": 12, "shared_values": ENDS[::2], "own_values": few_of(60, ENDS)},
    "list, hashed": {"n_prefixes": 8, "shared_values": FAR[:9], "own_values": few_of(200, FAR)},
    "one half alike": {"n_prefixes": 12, "shared_values": HELD, "own_values": few_of(120, [*ALIKE, *HELD[:40]])},
}
SHORT_HUBS = {
    "list": {"n_prefixes": 12, "shared_values": NEAR[:3], "own_values": few_of(200, NEAR)},
    "list, hashed": {"n_prefixes": 8, "shared_values": FAR[:3], "own_values": few_of(100, FAR)},
    "a value each": {"n_prefixes": 40, "shared_values": NEAR[:300], "own_values": few_of(1, NEAR[:400])},
    "a value each, far": {"n_prefixes": 40, "shared_values": FAR[:300], "own_values": few_of(1, FAR[:400])},
    "a value shared": {"n_prefixes": 12, "shared_values": [9], "own_values": few_of(40, range(50))},
}
LONG_HUBS = {
    "several blocks": {"n_prefixes": 4, "shared_values": NEAR, "own_values": few_of(1300, NEAR)},
    "more hashed than there was room for": {
        "n_prefixes": 3,
        "shared_values": range(0, 2**60, 2**46),
        "own_values": few_of(4000, range(0, 2**60, 2**46)),
    },
}
VARIANTS = {
    "plain": {},
    "weights": {"weights": (-1, 1, 2)},
    "own in batches": {"own_batches": 3},
    "own in batches, cancelling": {"own_batches": 3, "weights": (-1, 1)},
    "own goes on": {"own_rest": 1},
    "own goes on in batches": {"own_rest": 1, "own_batches": 3},
    "shared in batches": {"shared_batches": 3},
    "shared in batches, cancelling": {"shared_batches": 2, "weights": (-1, 1)},
    "shared goes on": {"shared_rest": 1},
    "shared goes on in batches": {"shared_rest": 1, "shared_batches": 2, "own_batches": 2},
    "both go on in batches": {
        "shared_rest": 1,
        "own_rest": 2,
        "shared_batches": 2,
        "own_batches": 3,
        "second_own": True,
    },
    "two own": {"second_own": True, "weights": (1, 3)},
}


@pytest.mark.drawn("name", "variant", each=True)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", HUBS)
def test_hubs(kind, backend, name, variant):
    case = hub(**HUBS[name], **VARIANTS[variant])
    check(case, backend, (7 if kind.compiled else 100, HUGE))
    question = Question(case, backend)
    question.count()
    if kind.compiled:
        assert question.work[MARKS] > 0


@pytest.mark.drawn("name", "variant", "kind", each=True)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", SHORT_HUBS)
def test_what_is_short_is_sought(kind, backend, name, variant):
    """A group that shares a few values gains nothing from marks."""
    case = hub(**SHORT_HUBS[name], **VARIANTS[variant])
    check(case, backend, (7 if kind.compiled else 100, HUGE))
    question = Question(case, backend)
    question.count()
    if kind.compiled:
        assert question.work[MARKS] == 0


@pytest.mark.parametrize("width", [15, 16])
def test_short_ranges_of_single_prefixes_are_sought(kind, backend, width):
    """Both atoms have ranges of their own for each prefix; marking pays where the shorter one is long enough."""
    few = {(x, value): 1 for x in range(10) for value in range(x, x + width)}
    many = {(x, value): 1 for x in range(10) for value in range(0, 40, 2)}
    case = Case(
        [Atom((few,), (0,), True), Atom((many,), (0,), True)], [0, 0], [(x,) for x in range(10)], [False, False]
    )
    check(case, backend, (7 if kind.compiled else 100, HUGE))
    question = Question(case, backend)
    question.count()
    if kind.compiled:
        assert question.work[MARKS] == (0 if width == 15 else 10 * width)


@pytest.mark.drawn("name", "variant", share=4)
@pytest.mark.parametrize("variant", ["plain", "own goes on in batches"])
@pytest.mark.parametrize("name", LONG_HUBS)
def test_long_hubs(kind, backend, name, variant):
    """Of two atoms that end here, long dense ranges are counted word by word, without marks."""
    case = hub(**LONG_HUBS[name], **VARIANTS[variant])
    check(case, backend, (1000, HUGE))
    question = Question(case, backend)
    question.count()
    if kind.compiled:
        assert (question.work[MARKS] == 0) == (name == "several blocks" and variant == "plain")


@pytest.mark.drawn("name", share=3)
@pytest.mark.parametrize("name", ["scan", "list", "hashed", "around 2^63", "a value each", "a value each, far"])
def test_hubs_within_bounds(kind, backend, name):
    shape = {**HUBS, **SHORT_HUBS}[name]
    values = list(shape["shared_values"])
    case = hub(**shape, own_batches=2, own_rest=1, top=values[::2])
    rng = random.Random(name)
    case.bounds = [tuple(rng.choices(values, k=2)) for _ in case.prefixes]
    case.excluded = [[rng.choice(values) for _ in case.prefixes] for _ in range(2)]
    case.weights = [rng.choice([-1, 2]) for _ in case.prefixes]
    check(case, backend, (3 if kind.compiled else 50, HUGE))


@pytest.mark.drawn("bounded", "variant", each=True)
@pytest.mark.parametrize("bounded", ["no", "upper", "lower", "both"])
@pytest.mark.parametrize("variant", ["ends", "goes on", "two batches", "weights", "excluded"])
def test_a_few_lists_that_thousands_of_prefixes_seek_in(backend, variant, bounded):
    """Long ranges may be marked once and for all; what one prefix may see of them says nothing of the next."""
    rng = random.Random(f"{variant} {bounded}")
    few = {(key, value): 1 for key in range(2100) for value in rng.sample(range(500), 4)}
    rest = variant == "goes on"
    long = {(hub, value, *[7] * rest): 2 if variant == "weights" else 1
            for hub in range(3) for value in rng.sample(range(500), 300)}  # fmt: skip
    batches = [long, {(2, value, *[7] * rest): 1 for value in range(90, 110)}] if variant == "two batches" else [long]
    atoms = [Atom((few,), (0,), True), Atom(tuple(batches), (1,), not rest)]
    prefixes = [(key, hub) for key in range(2100) for hub in sorted(rng.sample(range(3), 2))]
    case = Case(atoms, [0, int(rest)], prefixes, [True, False])
    if bounded != "no":
        ends = [sorted(rng.choices(range(500), k=2)) for _ in prefixes]
        case.bounds = [(low if bounded != "upper" else -5, high if bounded != "lower" else 900) for low, high in ends]
    if variant == "excluded":
        case.excluded = [[rng.randrange(500) for _ in prefixes]]
    check(case, backend, (500, HUGE))


@pytest.mark.parametrize("rest", [0, 1])
def test_cross_product(backend, rest):
    """No atom depends on the prefix: every value for every prefix."""
    batches = [{(value, *[0] * rest): value + 1 for value in range(begin, 60, 2)} for begin in (0, 1, 10)]
    atoms = [Atom(tuple(batches), (), rest == 0), Atom(({(value,): 1 for value in range(7, 90)},), (), True)]
    case = Case(atoms, [rest, 0], [(x,) for x in range(5)], [True, True])
    assert len(case.expected()) == 5 * 53
    check(case, backend)


def test_no_prefixes(backend):
    case = Case([Atom(({(1, 2): 1},), (0,), True)], [0], [], [False])
    question = Question(case, backend)
    assert question.count().shape == (0,)
    assert question.filled(1) == []


def test_an_atom_without_batches_holds_nothing(backend):
    for atoms in ([Atom((), (0,), True)], [Atom(({(1,): 1},), (), True), Atom((), (), False)]):
        case = Case(atoms, [0] * len(atoms), [(1,), (2,)], [False] * len(atoms))
        check(case, backend)


def test_more_candidates_than_a_block_holds(backend):
    """One prefix with 200,000 candidates of which few survive, and survivors on both sides of every cut."""
    wide = np.arange(0, 400_000, 2)
    kept = np.array([0, 2, 131_070, 131_072, 131_074, 262_142, 262_144, 399_998])
    atoms = [
        {(0, value): 1 for value in wide.tolist()},
        {(0, value): 3 for value in [*kept.tolist(), *range(1, 400_001, 2)]},
    ]
    case = Case([Atom((atom,), (0,), True) for atom in atoms], [0, 0], [(0,), (1,)], [False, False])
    assert Question(case, backend).count().tolist() == [24, 0]
    for capacity in (1, 3, HUGE):
        found = Question(case, backend).filled(capacity)
        assert found == [(0, value, 3, ()) for value in kept.tolist()]


@given(st.integers(0, 2**32))
@settings(max_examples=60 if IS_LONG else 30)
def test_work_is_bounded_by_the_smallest_counts(kind, seed):
    case = random_case(seed)
    bound = case.sum_of_minima()
    slots = sum(len(atom.batches) for atom in case.atoms)
    for counting in (True, False):
        question = Question(case, kind.backend(seed))
        if counting:
            question.count()
        else:
            question.filled(HUGE)
        assert question.work[SUM_OF_MINIMA] <= bound
        looked_at = question.work[PROPOSALS] + question.work[MARKS]
        assert looked_at <= 18 * bound
        # Of ranges that are only measured, what is excluded is sought: each value once a batch.
        assert question.work[PROBES] <= slots * looked_at + (2 + slots * len(case.excluded)) * len(case.prefixes)


@pytest.mark.parametrize("step", [1, 7, 10, 25, 50, 100])
def test_a_few_wide_prefixes_do_not_speak_for_a_group(backend, step):
    """A long shared range is not marked for prefixes of which nearly all are narrow, whichever are looked at first."""
    own = {(x, value): 1 for x in range(800) for value in range(0 if x % step == 0 and x < 8 * step else 500, 502)}
    shared = {(0, value): 1 for value in range(200, 20_000)}
    atoms = [Atom((shared,), (0,), True), Atom((own,), (1,), True)]
    case = Case(atoms, [0, 0], [(0, x) for x in range(800)], [True, False])
    question = Question(case, backend)
    assert question.count().tolist() == [302 if x % step == 0 and x < 8 * step else 2 for x in range(800)]
    assert question.work[PROPOSALS] + question.work[MARKS] <= 3 * case.sum_of_minima()


def test_smallest_atom_is_chosen_per_prefix(backend):
    """Half of the prefixes are narrow in one atom, half in the other."""
    left = {(x, value): 1 for x in range(20) for value in range(1000 if x % 2 else 2)}
    right = {(x, value): 1 for x in range(20) for value in range(2 if x % 2 else 1000)}
    atoms = [Atom((left,), (0,), True), Atom((right,), (0,), True)]
    case = Case(atoms, [0, 0], [(x,) for x in range(20)], [False, False])
    question = Question(case, backend)
    assert question.count().tolist() == [2] * 20
    assert question.work[:RANKED].tolist() == [40, 40, 40, 0, 40]


@given(st.integers(0, 2**32))
@settings(max_examples=40)
def test_a_prefix_that_is_cut_counts_once(kind, seed):
    case = random_case(seed)
    question = Question(case, kind.backend(seed))
    question.filled(3)
    assert question.work[SUM_OF_MINIMA] <= case.sum_of_minima()
    if kind.name == "numpy" and case.bounds is None:
        assert question.work[SUM_OF_MINIMA] == case.sum_of_minima()


def test_a_block_of_candidates_is_looked_at_at_a_time(kind):
    """Four million candidates, in the memory of some of them."""
    if kind.name not in ("numpy", "shim"):
        pytest.skip("what numba and a GPU allocate is not known")
    n = 20_000
    batch = {(0, value): 1 for value in range(n)}
    case = Case([Atom((batch,), (0,), True)], [0], [(0,)] * 200, [True])
    backend = kind.backend()
    question = Question(case, backend)
    tracemalloc.start()
    with backend.device.counted() if kind.on_device else nullcontext() as counts:
        try:
            assert question.count().tolist() == [n] * 200
            piece = next(question.fill(1000))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert len(piece[0]) == 1000
    assert peak < 32 << 20
    assert counts is None or counts.peak < 32 << 20


def test_numpy_kernels_count_what_they_look_at():
    case = hub(**HUBS["scan"])
    question = Question(case, cpu_backend(False))
    question.count()
    assert question.work[SUM_OF_MINIMA] == question.work[PROPOSALS] == case.sum_of_minima()
    assert question.work[MARKS] == 0
