"""How often kernels on a device wait for it: a transfer to the host costs as much as several launches."""

from __future__ import annotations

import random
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_wcoj.kernels.protocol import N_WORK
from tests.helpers.kernel_cases import DOMAINS, WEIGHTS, Question, columns_of, moved, random_batch, random_case, trie
from tests.helpers.kernel_kinds import Kind
from tests.shim import available, shim_backend

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))
seeds = st.integers(0, 2**32)
HUGE = 2**62


@contextmanager
def transfers(backend, reads: int, uploads: int = 0):
    """At most so many transfers are made inside."""
    with backend.device.counted() as counts:
        yield
    assert counts.reads <= reads
    assert counts.uploads <= uploads


def batch_of(rng: random.Random, size: int = 60):
    return random_batch(rng, size, [DOMAINS["few"], DOMAINS["negative"]], WEIGHTS[rng.choice(list(WEIGHTS))])


@given(seeds)
@settings(max_examples=15)
def test_tries(seed):
    rng = random.Random(seed)
    backend = Kind("shim").backend(seed)
    kernels = backend.kernels
    left, right = (trie(batch_of(rng), 2, backend) for _ in range(2))
    with transfers(backend, reads=1, uploads=2):
        kernels.merge_tries(*((t.values, t.offsets, t.weights) for t in (left, right)))
    columns = moved(columns_of(sorted(batch_of(rng)), 2), backend)
    with transfers(backend, reads=1, uploads=1):
        values, offsets = kernels.build_levels(columns)
    with transfers(backend, reads=0, uploads=1):
        kernels.expand_columns(values, offsets)
    prefixes = backend.asarray(np.array([[1, 2, 3], [0, 4, -5]]))
    records = [[level.record for level in index.levels] for index in (left, right)]
    with transfers(backend, reads=0, uploads=1):
        kernels.locate(records, [[0, 1], [0, 1]], prefixes)


@given(seeds)
@settings(max_examples=25)
def test_extending(seed):
    case = random_case(seed)
    backend = Kind("shim").backend(seed)
    question = Question(case, backend)
    arguments = question.lower, question.upper, question.excluded
    with transfers(backend, reads=0, uploads=1):  # of where running sums of many weights are
        question.kernels.count_common(
            question.extension, question.positions, 0, len(case.prefixes), *arguments, question.counters
        )
    resume = np.zeros(3, np.int64)
    with transfers(backend, reads=1):
        question.kernels.fill_common(
            question.extension, question.positions, resume, len(case.prefixes), *arguments,
            question.weights, True, 50, question.n_out_rows, question.counters,
        )  # fmt: skip


def test_preparing_uploads_one_table():
    rng = random.Random(0)
    backend = shim_backend()
    levels = [trie(batch_of(rng), 2, backend).levels for _ in range(3)]
    with transfers(backend, reads=0, uploads=1):
        backend.kernels.prepare([a for a, _ in levels], [0, 2, 3], [False, False], [True, True], [-1] * 3, [0, 1, 2])
    assert len(backend.asarray(np.zeros(N_WORK, np.int64))) == N_WORK


@given(seeds)
@settings(max_examples=10)
def test_rows(seed):
    """One for the ranges of the columns, one for the number of rows that stay."""
    rng = random.Random(seed)
    backend = Kind("shim").backend(seed)
    rows = [row for row in batch_of(rng) for _ in range(2)]
    columns = moved(columns_of(rows, 2), backend)
    weights = backend.asarray(np.ones(len(rows), np.int64))
    for call, reads in (
        (lambda: backend.kernels.lexsort(columns), 1),
        (lambda: backend.kernels.run_starts(columns), 1),
        (lambda: backend.kernels.distinct_rows(columns), 2),
        (lambda: backend.kernels.consolidate(columns, weights), 2),
    ):
        with transfers(backend, reads=reads, uploads=1):
            call()
