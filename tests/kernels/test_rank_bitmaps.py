"""Long ranges with ranks: what is found by them is what is found by searching, for less work and in little room."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.kernels.protocol import MARKS, PROBES, PROPOSALS, RANKED, SUM_OF_MINIMA, Level
from tests.helpers import rank_bitmaps
from tests.helpers.kernel_cases import Case, Question, random_case
from tests.helpers.kernel_kinds import lacking
from tests.helpers.long_tests import IS_LONG
from tests.kernels.test_extend import HUBS, LONG_HUBS, VARIANTS, check, hub
from tests.reference.kernels import Atom

ranked = pytest.importorskip("cpu_fallback.ranges", reason="numba is not installed")
pytestmark = pytest.mark.skipif(lacking("numba") is not None, reason=str(lacking("numba")))
HUGE = 2**62


@pytest.fixture(scope="class")
def everywhere():
    """A backend whose ranges all have ranks."""
    with rank_bitmaps.everywhere():
        yield cpu_backend()


def ranks_of(level):
    """The arrays that hold a level's ranks."""
    kernels = cpu_backend().kernels
    kernels.prepare([level, level], [0, 1, 2], [True, True], [False, False], [0, 0], [-1, -1])
    (found,) = level.support[2:]
    return found


def level_of(ranges):
    """A level of ascending ranges."""
    values = np.array([value for one in ranges for value in one], np.int32)
    offsets = np.cumsum([0, *map(len, ranges)], dtype=np.int64)
    return Level(values, offsets, None, *cpu_backend().kernels.describe(values, offsets, None))


DISTANCES = st.one_of(st.integers(0, 130), st.integers(4000, 4200), st.integers(0, 40_000))
RANGES = st.lists(st.lists(DISTANCES, unique=True, max_size=80), min_size=1, max_size=6)
BASES = st.sampled_from([0, -20_000, -(2**31), 2**40, -(2**63), 2**63 - 1 - 40_064])


class TestEverywhere:
    @given(RANGES, BASES, st.integers(0, 1), st.sampled_from([(1,), (-1, 1, 2)]))
    @settings(max_examples=150 if IS_LONG else 40, deadline=None)
    def test_every_value_is_found_where_it_stands(self, everywhere, ranges, base, rest, weights):
        """Values around those that are there are sought, too, and values beyond all of them."""
        rng = random.Random(len(ranges))
        held = [(p, base + distance) for p, one in enumerate(ranges) for distance in one]
        sought = {(p, min(value + more, 2**63 - 1)) for p, value in held for more in (0, 1, 64)}
        sought |= {(p, edge) for p, _ in held for edge in (max(base - 1, -(2**63)), base + 40_064)}
        batch = {(*row, *[3] * rest): rng.choice(weights) for row in held}
        atoms = [Atom((dict.fromkeys(sought, 1),), (0,), True), Atom((batch,), (0,), rest == 0)]
        case = Case(atoms, [0, rest], [(p,) for p in range(len(ranges))], [False, False])
        check(case, everywhere, (3, HUGE))

    @given(st.integers(0, 2**32))
    @settings(max_examples=200 if IS_LONG else 60, deadline=None)
    def test_extending_is_what_the_reference_says(self, everywhere, seed):
        check(random_case(seed), everywhere)

    @pytest.mark.drawn("name", "variant", each=True)
    @pytest.mark.parametrize("variant", VARIANTS)
    @pytest.mark.parametrize("name", [*HUBS, "several blocks"])
    def test_hubs(self, everywhere, name, variant):
        case = hub(**(HUBS | LONG_HUBS)[name], **VARIANTS[variant])
        check(case, everywhere, (7 if name in HUBS else 500, HUGE))
        rng = random.Random(name)
        values = list((HUBS | LONG_HUBS)[name]["shared_values"])
        case.bounds = [tuple(sorted(rng.choices(values, k=2))) for _ in case.prefixes]
        check(case, everywhere, (50, HUGE))
        case.excluded = [[rng.choice(values) for _ in case.prefixes] for _ in range(2)]
        check(case, everywhere, (50, HUGE))

    def test_candidates_are_counted_once_however_many_batches_hold_them(self, everywhere):
        few = {(0, value): 1 for value in range(0, 800, 8)}
        batches = tuple({(0, value): 1 for value in range(one, 800, 8)} for one in range(8))
        case = Case([Atom((few,), (0,), True), Atom(batches, (0,), True)], [0, 0], [(0,)], [False, False])
        question = Question(case, everywhere)
        assert question.count().tolist() == [100]
        assert question.work[SUM_OF_MINIMA] == question.work[PROPOSALS] == 100

    @given(st.integers(0, 2**32))
    @settings(max_examples=300 if IS_LONG else 60, deadline=None)
    def test_what_two_ranges_have_in_common(self, everywhere, seed):
        """Dense ranges of several batches, from other least values on, within bounds, without what is excluded."""
        rng = random.Random(seed)
        base = rng.choice([0, -(2**31), 2**40, -(2**63), 2**63 - 1 - 20_000])
        atoms = []
        for _ in range(2):
            batches = []
            for _ in range(rng.randint(1, 2)):
                begin = base + rng.choice([0, 1, 63, 64, 700, 4_095, 4_097, 9_000])
                values = range(begin, begin + rng.choice([70, 500, 5_000]))
                share, weights = rng.choice([0.1, 0.5, 0.95]), rng.choice([(1,), (1, 2, -1)])
                batches.append({(x, y): rng.choice(weights) for x in range(3) for y in values if rng.random() < share})
            atoms.append(Atom(tuple(batches), (0,), True))
        case = Case(atoms, [0, 0], [(x,) for x in range(3)], [rng.random() < 0.5, False])
        some = sorted({value for atom in atoms for batch in atom.batches for _, value in batch} or {base})
        if rng.random() < 0.6:
            case.bounds = [tuple(sorted(rng.choices(some, k=2))) for _ in case.prefixes]
        case.excluded = [[rng.choice(some) for _ in case.prefixes] for _ in range(rng.randrange(3))]
        check(case, everywhere, (HUGE,))


@pytest.mark.parametrize(("width", "most"), [(64, 192), (400, 1_200), (10, 1_200)])
def test_what_has_ranks_is_not_marked(width, most):
    """Two ranges with ranks are intersected word by word; values of one without are sought, with a probe each."""
    few = {(x, value): 1 for x in range(12) for value in range(x, x + width)}
    many = {(x, value): 1 for x in range(12) for value in range(0, most, 2)}
    atoms = [Atom((few,), (0,), True), Atom((many,), (0,), True)]
    case = Case(atoms, [0, 0], [(x,) for x in range(12)], [False, False])
    question = Question(case, cpu_backend())
    assert question.count().tolist() == [width // 2] * 12
    expected = 12 * width
    if 12 * most // 2 < ranked.RANKED_FROM:  # both are too small a level
        assert question.work[MARKS] == expected
        return
    probes = sum((x + width - 1) // 64 + 1 for x in range(12)) if width == 400 else expected
    assert question.work[[SUM_OF_MINIMA, PROPOSALS, PROBES, MARKS, RANKED]].tolist() == [
        expected, expected, probes, 0, probes
    ]  # fmt: skip


@pytest.mark.parametrize("short", [0, 59])
@pytest.mark.parametrize(("batches", "marks"), [(1, False), (8, True)])
def test_groups_are_marked_where_pairs_of_batches_are_many(short, batches, marks):
    """One prefix, first or last, with few values does not speak for the group."""

    def own(x):
        return range(10 if x == short else 1_500)

    case = hub(60, range(20_000), own, own_batches=batches, shared_batches=batches)
    question = Question(case, cpu_backend())
    question.count()
    assert (question.work[MARKS] > 0) == marks


def test_excluded_values_are_taken_away():
    """Of wide ranges all values are counted, and those that are excluded are sought: a few probes for each prefix."""
    rows = {(x, value): 1 for x in range(12) for value in range(x, x + 400)}
    atoms = [Atom((rows,), (0,), True), Atom((rows,), (0,), True)]
    case = Case(atoms, [0, 0], [(x,) for x in range(12)], [False, False])
    case.excluded = [[200] * 12, [200] * 12, [x - 1 for x in range(12)]]
    question = Question(case, cpu_backend())
    assert question.count().tolist() == [399] * 12
    assert question.work[PROBES] == question.work[RANKED] == sum((x + 399) // 64 + 1 for x in range(12)) + 12 * 3
    assert question.work[MARKS] == 0


def test_ranks_take_no_more_room_than_values():
    """Of ranges that lie wide apart in their span, the longest have ranks; of short ones, and few, none."""
    rng = random.Random(1)
    spread = [sorted(rng.sample(range(1 << 18), 4_000 if hub == 0 else 300)) for hub in range(40)]
    level = level_of(spread)
    places, words = ranks_of(level)
    assert places.nbytes + words.nbytes - 16 <= level.values.nbytes
    fields, starts = level.support[:2]
    assert len(starts) == 0
    beside = cpu_backend().kernels.bytes_beside
    assert beside(level) == fields.nbytes + places.nbytes + words.nbytes
    assert [place >= 0 for place in places] == [hub == 0 for hub in range(40)]
    assert ranks_of(level_of([sorted(rng.sample(range(1 << 18), 200)) for _ in range(40)])) == ()
    assert ranks_of(level_of([range(15)] * 200)) == ()
    assert ranks_of(level_of([[one] for one in range(20_000)] + [range(70)])) == ()  # places for all of them
    assert ranks_of(level_of([range(100)])) == ()
    assert ranks_of(level_of([[*range(9_000), 2**31 - 1]])) == ()
    close, _ = ranks_of(level_of([range(65)] * 100))
    assert (close >= 0).all()


def test_ranks_are_made_for_what_is_joined():
    """A level that is looked up alone has none."""
    level = level_of([range(5000)])
    cpu_backend().kernels.prepare([level], [0, 1], [True], [False], [0], [-1])
    assert len(level.support) == 2
