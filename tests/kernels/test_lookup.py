"""Values that prefixes ask one atom for: what is found is what the reference says, with and without ranks."""

from __future__ import annotations

import random
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.kernels.protocol import PROPOSALS, SURVIVORS
from tests.helpers import rank_bitmaps
from tests.helpers.kernel_cases import Case, Question, random_case
from tests.helpers.kernel_kinds import lacking
from tests.helpers.long_tests import IS_LONG
from tests.kernels.test_extend import check
from tests.reference.kernels import Atom


def asking(seed):
    """A random case of one atom whose prefixes ask for values that it holds, mostly."""
    rng = random.Random(seed)
    case = random_case(seed)
    values = [row[len(case.atoms[0].bound)] for batch in case.atoms[0].batches for row in batch] or [0]
    sought = [rng.choice(values) if rng.random() < 0.8 else rng.randrange(-9, 9) for _ in case.prefixes]
    excluded = [[value if rng.random() < 0.3 else rng.choice(values) for value in sought] for _ in case.excluded]
    own = case.atoms[:1], case.rest[:1], case.prefixes, case.shared[:1]
    return Case(*own, case.weights, excluded=excluded, sought=sought)


@given(st.integers(0, 2**32))
@settings(max_examples=60 if IS_LONG else 30, deadline=None)
def test_looking_up_is_what_the_reference_says(kind, seed):
    with rank_bitmaps.everywhere() if kind.compiled and seed % 2 else nullcontext():
        check(asking(seed), kind.backend(seed))


@pytest.mark.drawn("rest")
@pytest.mark.skipif(lacking("numba") is not None, reason=str(lacking("numba")))
@pytest.mark.parametrize("rest", [0, 1])
def test_a_long_range_is_looked_up_by_its_ranks(rest):
    """Also by prefixes that come and go between two ranges, one of which has too few values for ranks."""
    rng = random.Random(rest)
    batches = [
        {(0, value, *[1] * rest): 1 for value in range(0, 9_000, 3)},
        {(key, value, *[1] * rest): -1 for key in (0, 1) for value in range(0, 90, 9)},
    ]
    prefixes = [(rng.randrange(3),) for _ in range(400)]
    sought = [rng.randrange(-5, 9_100) if n % 2 else rng.randrange(100) for n in range(400)]
    case = Case([Atom(tuple(batches), (0,), rest == 0)], [rest], prefixes, [False], sought=sought)
    check(case, cpu_backend(), (3, 2**62))
    question = Question(case, cpu_backend())
    assert [len(index.levels[1].support[2]) for index in question.tries] == [2, 0]
    question.count()
    assert question.work[PROPOSALS] == sum(key < 2 for (key,) in prefixes)
    assert question.work[SURVIVORS] == len(case.expected())
    assert question.count().dtype == np.int64
