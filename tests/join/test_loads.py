"""Loads: first ticks that run along the cheapest path, against recomputation and against the other paths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gpu_wcoj as gw
from bench.fast_paths.cases import CASES
from gpu_wcoj.engine.replicas import proposed_by
from gpu_wcoj.join import full_join
from gpu_wcoj.join.settings import tune
from tests.helpers.join_comparison import check_scripts
from tests.helpers.join_patterns import PATTERNS

ATOMS = ("left(u, v)", "middle(w, v)", "right(x, w)", "middle(x, z)")


@pytest.fixture
def any_load(monkeypatch):
    """The cheapest path of every load is chosen, also if it is the one that runs otherwise."""
    monkeypatch.setattr(full_join, "LOAD_ROWS", 1)
    monkeypatch.setattr(full_join, "SMALL_LOAD_ROWS", 1)
    monkeypatch.setattr(full_join, "MIN_GAIN", 1e-9)


@pytest.mark.drawn("bag", "name", share=4)
@pytest.mark.usefixtures("any_load")
@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize("name", PATTERNS)
def test_loads_equal_recomputation(name, bag):
    check_scripts(PATTERNS[name], range(3), bag=bag, backend="cpu")


@pytest.fixture(scope="module")
def rows():
    return dict(CASES["load paths"].rows())


def first_tick(body, rows, off=(), **options):
    with tune(off=frozenset({"projections", *off})):  # which would drop z
        program = gw.Program(f"h(u, v) :- {', '.join(body)}.", threads=1, backend="cpu", **options)
    answer = program.step(rows)["h"]
    return answer, proposed_by(program.last_tick.work)


def test_the_order_of_atoms_does_not_matter(rows, monkeypatch):
    monkeypatch.setattr(full_join, "LOAD_ROWS", 4096)
    found = [first_tick(body, rows) for body in itertools.permutations(ATOMS)]
    assert all(answer == found[0][0] for answer, _ in found)
    assert max(work for _, work in found) <= 2 * min(work for _, work in found)
    answer, work = first_tick(ATOMS, rows, off={"load paths"})
    assert answer == found[0][0]
    assert work > 20 * found[0][1]


def test_small_loads_choose_their_path_too(rows):
    few = {name: own[:: len(own) // 700] for name, own in rows.items()}
    assert 256 < sum(map(len, few.values())) < full_join.LOAD_ROWS
    found = [first_tick(body, few) for body in itertools.permutations(ATOMS)]
    assert all(answer == found[0][0] for answer, _ in found)
    assert max(work for _, work in found) <= 2 * min(work for _, work in found) + 10_000


def test_samples_count_prefixes_that_are_alike_once():
    """Ten values of w have 2,000 rows of z each, of which it is only asked that none is gone."""
    chance = np.random.default_rng(5)
    rows = {
        "start": np.stack([np.arange(20_000), chance.integers(0, 10, 20_000)], 1),
        "wide": np.stack([np.arange(20_000) % 10, np.arange(20_000)], 1),
        "gone": np.stack([np.arange(0, 20_000, 7)] * 2, 1)[:, :1],
    }
    answer, work = first_tick(["start(u, v)", "wide(v, z)", "!gone(z)"], rows)
    assert len(answer) == 20_000
    assert work < 200_000  # 40,000,000 pairs of u and z


@pytest.mark.drawn("bag")
@pytest.mark.parametrize("bag", [False, True])
def test_a_negated_atom_and_a_calculation(rows, bag):
    body = (*ATOMS, "!gone(u)", "v != w + 1")
    given = rows | {"gone": np.arange(0, 6_000, 3)[:, None]}
    found = first_tick(body, given, bag=bag)
    assert first_tick(body, given, off={"load paths"}, bag=bag)[0] == found[0]


def test_later_ticks_follow_their_changes(rows):
    program = gw.Program(f"h(u, v) :- {', '.join(ATOMS)}.", backend="cpu")
    state = {name: own[: len(own) // 2] for name, own in rows.items()}
    answer = program.step(state)["h"]
    answer += program.step({name: own[len(own) // 2 :] for name, own in rows.items()})["h"]
    assert answer == first_tick(ATOMS, rows)[0]


def hub_rows(n=8192, hubs=164, width=1024):
    """Rows of which a sample of 16 misses the hubs, where the join ends for those that come from the right."""
    first, hub = np.arange(n), n // 32 + np.arange(hubs)
    below_hubs = np.stack([np.repeat(hub, width), 2 * np.tile(np.arange(width), hubs)], axis=1)
    return {
        "left": np.stack([first, first], axis=1),
        "middle": np.concatenate([below_hubs, np.stack([first, 2 * first], axis=1)]),
        "right": np.stack([2 * np.arange(8 * n) + 1, np.arange(8 * n)], axis=1),
    }


@pytest.mark.parametrize("bag", [False, True])
def test_a_hub_that_a_small_sample_misses_does_not_mislead_a_load(bag, monkeypatch):
    body = ("left(u, a)", "middle(a, b)", "right(b, v)")
    answer, work = first_tick(body, hub_rows(), bag=bag)
    assert len(answer) == 0
    assert work < 150_000
    monkeypatch.setattr(full_join, "DECISIVE_SURPRISE", np.inf)
    answer, misled = first_tick(body, hub_rows(), bag=bag)
    assert len(answer) == 0
    assert misled > 5 * work
