"""How many values stand below positions, and which choice leaves the fewest, on every kind of kernels."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_wcoj.kernels.protocol import Choice, Int64Array
from tests.helpers.kernel_cases import DOMAINS, SIZES, WEIGHTS, columns_of, moved, random_batch, random_rows, trie
from tests.reference import kernels as reference

seeds = st.integers(0, 2**32)


@given(seeds)
@settings(max_examples=80)
def test_count_children(kind, seed):
    rng = random.Random(seed)
    backend = kind.backend(seed)
    domains = [DOMAINS[rng.choice(list(DOMAINS))] for _ in range(3)]
    rows = random_rows(rng, rng.choice([0, 1, 33, 1500]), domains)
    levels, column_of, expected = [], [], []
    for _ in range(rng.randint(0, 3)):
        bound = rng.sample(range(3), rng.randint(1, 2))
        order = [*bound, *(column for column in range(3) if column not in bound)]
        batch = random_batch(rng, rng.choice(SIZES[1:]), [domains[column] for column in order], WEIGHTS["one"])
        levels.append(trie(batch, 3, backend).levels[: len(bound) + 1])
        column_of.append(bound)
        wanted = [tuple(row[column] for column in bound) for row in rows]
        known = {row: reference.count_children(batch, [row]) for row in set(wanted)}
        expected.append(sum(known[row] for row in wanted))
    matrix = backend.asarray(np.array(columns_of(rows, 3), np.int64).reshape(3, len(rows)))
    found = backend.kernels.count_children(levels, column_of, matrix)
    assert found.dtype == np.int64
    assert found.tolist() == expected


@given(seeds)
@settings(max_examples=80)
def test_weights_of(kind, seed):
    rng = random.Random(seed)
    backend = kind.backend(seed)
    arity = rng.randint(1, 3)
    domains = [DOMAINS[rng.choice(list(DOMAINS))] for _ in range(arity)]
    rows = random_rows(rng, rng.choice([0, 1, 33, 700]), domains)
    levels, column_of, expected = [], [], [0] * len(rows)
    for _ in range(rng.choice([0, 1, 2, 3, 5, 33])):
        order = rng.sample(range(arity), arity)
        weights = WEIGHTS[rng.choice(list(WEIGHTS))]
        batch = random_batch(rng, rng.choice(SIZES[1:5]), [domains[column] for column in order], weights)
        if not batch:
            continue
        levels.append(trie(batch, arity, backend).levels)
        column_of.append(order)
        for i, row in enumerate(rows):
            expected[i] = reference.wrap(expected[i] + batch.get(tuple(row[column] for column in order), 0))
    matrix = backend.asarray(np.array(columns_of(rows, arity), np.int64).reshape(arity, len(rows)))
    found = backend.kernels.weights_of(levels, column_of, matrix)
    assert found.dtype == np.int64
    assert found.tolist() == expected


@given(seeds)
@settings(max_examples=80)
def test_narrowest(kind, seed):
    rng = random.Random(seed)
    backend = kind.backend(seed)
    n = rng.choice([0, 1, 5, 300])
    choices: list[Choice] = []
    widths: list[list[list[int]]] = []
    for _ in range(rng.randint(1, 3)):
        atoms: list[list[tuple[int, Int64Array]]] = []
        rows: list[list[int]] = []
        own: list[list[int]] = []
        for _ in range(rng.randint(0, 3)):
            batches, total = [], [0] * n
            for _ in range(rng.randint(1, 2)):
                sizes = [rng.choice([0, 1, 3, 2**40]) for _ in range(rng.randint(1, 4))]
                row = [rng.randrange(-1, len(sizes)) for _ in range(n)]
                offsets = backend.asarray(np.cumsum([rng.choice([0, 7]), *sizes]))
                batches.append((len(rows), offsets))
                rows.append(row)
                total = [x + (sizes[at] if at >= 0 else 0) for x, at in zip(total, row, strict=True)]
            atoms.append(batches)
            own.append(total)
        choices.append((backend.asarray(np.array(rows, np.int64).reshape(len(rows), n)), atoms))
        widths.append(own)
    chosen = backend.kernels.narrowest(choices)
    assert chosen.dtype == np.int64
    assert chosen.tolist() == [reference.narrowest([[atom[i] for atom in own] for own in widths]) for i in range(n)]


@given(seeds)
@settings(max_examples=80)
def test_widths(kind, seed):
    """Of batches with values of 4 and of 8 bytes, without any value, at the top and below; bounds may cross."""
    rng = random.Random(seed)
    backend = kind.backend(seed)
    domains = [DOMAINS[rng.choice(list(DOMAINS))] for _ in range(2)]
    depth = rng.randrange(2)
    n = rng.choice([0, 1, 33, 700])
    prefixes = [row[:depth] for row in random_rows(rng, n, domains)]
    bounds = [[row[1 - depth] for row in random_rows(rng, n, domains[::-1])] for _ in range(2)]
    is_bounded = rng.random() < 0.7
    levels, rows, places, expected = [], [], [[-1] * n], [0] * n
    for _ in range(rng.randint(0, 3)):
        batch = random_batch(rng, rng.choice(SIZES), domains, WEIGHTS[rng.choice(list(WEIGHTS))])
        index = trie(batch, 2, backend)
        levels.append(index.levels[depth])
        nodes = reference.prefixes(batch, depth + 1)
        numbers = {parent: number for number, parent in enumerate(reference.prefixes(batch, depth))}
        rows.append(len(places) if depth else rng.choice([-1, 0]))
        places.append([numbers.get(prefix, -1) for prefix in prefixes])
        for at, prefix in enumerate(prefixes):
            below = [node[-1] for node in nodes if node[:-1] == prefix]
            expected[at] += sum(not is_bounded or bounds[0][at] <= value <= bounds[1][at] for value in below)
    lower, upper = moved([np.array(one if is_bounded else [], np.int64) for one in bounds], backend)
    positions = backend.asarray(np.array(places, np.int64).reshape(len(places), n))
    found = backend.kernels.widths(levels, rows, positions, lower, upper)
    assert found.dtype == np.int64
    assert found.tolist() == expected


@pytest.mark.parametrize("n", [0, 3])
def test_choices_without_atoms_come_last(backend, n):
    nothing = backend.asarray(np.zeros((0, n), np.int64))
    positions, offsets = moved([np.zeros((1, n), np.int64), np.array([0, 2**62])], backend)
    choices = [(nothing, []), (positions, [[(0, offsets)]]), (nothing, [])]
    assert backend.kernels.narrowest(choices).tolist() == [1] * n
    assert backend.kernels.narrowest([(nothing, []), (nothing, [])]).tolist() == [0] * n
