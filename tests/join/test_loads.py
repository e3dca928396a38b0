"""Loads: first ticks that run along the cheapest path, against recomputation and against the other paths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gpu_wcoj as gw
from bench.fast_paths.cases import CASES
from gpu_wcoj.engine.replicas import proposed_by
from gpu_wcoj.join import delta, full_join
from gpu_wcoj.join.seeds import bind_seeds
from gpu_wcoj.join.settings import tune
from gpu_wcoj.kernels.protocol import PROPOSALS
from gpu_wcoj.planner import lower

ATOMS = ("left(u, v)", "middle(w, v)", "right(x, w)", "middle(x, z)")


@pytest.fixture
def any_load(monkeypatch):
    """The cheapest path of every load is chosen, also if it is the one that runs otherwise."""
    monkeypatch.setattr(full_join, "LOAD_ROWS", 1)
    monkeypatch.setattr(full_join, "SMALL_LOAD_ROWS", 1)
    monkeypatch.setattr(full_join, "MIN_GAIN", 1e-9)


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
    answer, work = first_tick(ATOMS, rows, off={"load paths", "merged prefixes"})
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
    answer, planned = first_tick(body, hub_rows(), bag=bag)
    assert len(answer) == 0
    monkeypatch.setattr(lower, "MIN_PLANNED_ROWS", np.inf)
    monkeypatch.setattr(lower, "MIN_PLANNED_COST", np.inf)
    answer, work = first_tick(body, hub_rows(), bag=bag)
    assert len(answer) == 0
    assert max(planned, work) < 150_000
    monkeypatch.setattr(full_join, "DECISIVE_SURPRISE", np.inf)
    answer, misled = first_tick(body, hub_rows(), bag=bag)
    assert len(answer) == 0
    assert misled > 5 * work


def answer_once(text, rows, off=(), bag=False):
    """Return the answer to a query that is answered once, its work, and the work of samples."""
    with tune(off=frozenset(off)):
        program = gw.Program(text, single_tick=True, threads=1, backend="cpu", bag=bag)
    (answer,) = program.answer(rows).values()
    sampled = sum(
        int(counters[PROPOSALS])
        for rules in program.last_tick.work.values()
        for paths in rules.values()
        for path in paths.values()
        for name, counters in path.items()
        if name == full_join.SAMPLED
    )
    return answer, proposed_by(program.last_tick.work), sampled


def rows_that_meet_often(n=6_000):
    """Half of the rows of `middle` meet `left`, though few of its distinct values do."""
    chance = np.random.default_rng(7)
    few, many = np.arange(n // 2) % 10, np.arange(10, 10 + n // 2)
    return {
        "left": np.stack([np.arange(n) % 10, chance.permutation(n)], axis=1),
        "middle": np.stack([np.concatenate([few, many]), np.arange(n)], axis=1),
        "right": np.stack([np.arange(n), np.arange(n)], axis=1),
        "end": np.arange(0, n, 40)[:, None],
    }


ONCE = ("left(u, v)", "middle(u, w)", "right(z, v)", "end(z)")


@pytest.mark.parametrize("bag", [False, True])
def test_a_query_that_is_answered_once_leaves_a_path_that_turns_out_dear(bag):
    rows, text = rows_that_meet_often(), f"h(v, w, z) :- {', '.join(ONCE)}."
    answer, work, sampled = answer_once(text, rows, bag=bag)
    expected, planned, _ = answer_once(text, rows, {"load paths"}, bag=bag)
    assert answer == expected
    assert planned > 800_000
    assert work < 200_000
    assert sampled < work / 2


def test_the_order_of_atoms_does_not_matter_to_a_query_that_is_answered_once():
    rows = rows_that_meet_often()
    found = [answer_once(f"h(v, w, z) :- {', '.join(body)}.", rows) for body in itertools.permutations(ONCE)]
    assert all(answer == found[0][0] for answer, _, _ in found)
    assert len({work for _, work, _ in found}) == 1


def test_atoms_of_one_relation_are_told_apart_by_their_variables():
    """Two triangles at a node: estimates are equal, work is not."""
    chance = np.random.default_rng(11)
    rows = {"e": chance.integers(0, 60, (700, 2))}
    body = ("e(a, b)", "e(b, c)", "e(a, c)", "e(a, d)", "e(d, f)", "e(a, f)")
    orders = list(itertools.permutations(body))[::60]
    found = [answer_once(f"h(a, b) :- {', '.join(order)}.", rows, {"load paths"}) for order in orders]
    assert len({work for _, work, _ in found}) == 1
    assert len(found) == 12


def test_a_path_that_is_as_cheap_as_planned_is_not_compared():
    rows = {name: np.stack([np.arange(5_000)] * 2, axis=1) for name in ("r", "s", "t")}
    _, work, sampled = answer_once("h(a, d) :- r(a, b), s(b, c), t(c, d).", rows)
    assert work < 11_000
    assert sampled < 1_000


BODIES = {
    "bow-tie": "t(a, b), t(b, c), t(a, c), t(a, d), t(d, e), t(a, e), c < 1",
    "chain": "t(a, b), t(b, c), t(c, d), t(d, e)",
    "negated": "t(a, b), t(b, c), t(a, d), !t(d, c)",
    "constant": "t(a, b), t(b, c), t(c, d), t(d, 1)",
}


def loaded_and_answered(body, rows, bag):
    """Return the rows of a load, those of a query, and the values that either proposed."""
    text = f"h(a, b) :- {body}. n(a, sum(b)) :- h(a, b)." if bag else f"h(a, b) :- {body}. g(b) :- h(a, b)."
    view = gw.Program(text, threads=1, backend="cpu", bag=bag)
    single = gw.Program(text, threads=1, backend="cpu", bag=bag, single_tick=True)
    changes = view.step({"t": rows})
    assert [*view.last_tick.work["h"][0]] == [full_join.LOAD]
    answers = single.answer({"t": rows})
    return view, changes, answers, proposed_by(view.last_tick.work), proposed_by(single.last_tick.work)


@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_load_is_planned_as_a_query_is(body, bag, seed, monkeypatch):
    monkeypatch.setattr(lower, "MIN_PLANNED_ROWS", 1)
    monkeypatch.setattr(full_join, "SMALL_LOAD_ROWS", 1)
    chance = np.random.default_rng(seed)
    rows = np.unique(np.stack([chance.zipf(1.6, 3_000) % 300, chance.integers(0, 300, 3_000)], axis=1), axis=0)
    view, changes, answers, load, query = loaded_and_answered(body, rows, bag)
    assert changes == answers
    assert load <= 2 * query + 2_000
    gone = gw.ZSet.from_rows([(tuple(row), -1) for row in rows.tolist()])  # all that the load has counted is deleted
    changes = view.step({"t": gone})
    assert all(change == -answers[name] for name, change in changes.items())


def test_loads_without_a_plan_give_the_same_rows(rows, monkeypatch):
    planned = first_tick(ATOMS, rows)[0]
    monkeypatch.setattr(lower, "MIN_PLANNED_ROWS", np.inf)
    monkeypatch.setattr(lower, "MIN_PLANNED_COST", np.inf)
    assert first_tick(ATOMS, rows)[0] == planned


@pytest.mark.parametrize("bag", [False, True])
def test_a_planned_path_that_meets_a_hub_is_given_up(bag, monkeypatch):
    """What the planned path has cost tells more than samples that miss the hub."""
    monkeypatch.setattr(full_join, "UNCOMPARED_COST", float(1 << 18))
    monkeypatch.setattr(full_join, "_extrapolated_cost", lambda *_: 1.0)
    body = "left(u, a), middle(a, b), right(b, v)"
    answer, work, _ = answer_once(f"h(u, v) :- {body}.", hub_rows(), bag=bag)
    assert len(answer) == 0
    assert work < 600_000


@pytest.mark.parametrize(("scale", "column", "seed"), [(12, "x.c0", "e(c0, c1)"), (11, "y.c1", "e(c1_2, c1)")])
def test_a_load_counts_what_the_head_does_not_read(scale, column, seed):
    """Its path binds such a variable last: it lists rows per edge, not per triangle."""
    edges = gw.datasets.rmat(scale=scale, edges=30_000 if scale == 11 else 60_000, seed=1)
    triangles = "FROM e x, e y, e z WHERE x.c1 = y.c0 AND y.c1 = z.c1 AND x.c0 = z.c0"
    view = gw.view(f"SELECT {column}, count(*) {triangles} GROUP BY {column}", e=edges)
    load = next(line.strip() for line in view.explain().splitlines() if line.strip().startswith("load: all of"))
    assert load == f"load: all of {seed}"
    assert [(sum(n for _, n in view.snapshot().rows()),)] == gw.query(f"SELECT count(*) {triangles}", e=edges).rows()


def test_counting_a_value_of_a_load_costs_less_than_listing_it():
    """In larger graphs, counting triangles per edge looks at more values than listing them, and takes a fifth."""
    edges = gw.datasets.undirected(gw.datasets.rmat(scale=17, edges=1 << 20, seed=1))
    triangles = "FROM e x, e y, e z WHERE x.c1 = y.c0 AND y.c1 = z.c1 AND x.c0 = z.c0"
    assert "load: all of e(c0, " in gw.view(f"SELECT x.c0, count(*) {triangles} GROUP BY x.c0", e=edges).explain()


def test_one_thread_binds_the_rows_of_a_load_in_blocks(monkeypatch):
    """It needs memory for what a block of them leads to, as several threads do."""
    bound = []

    def bind(path, seeds, join):
        bound.append(len(seeds))
        return bind_seeds(path, seeds, join)

    monkeypatch.setattr(delta, "MAX_BLOCK_SEEDS", 1000)
    monkeypatch.setattr(delta, "bind_seeds", bind)
    edges = gw.datasets.undirected(gw.datasets.rmat(scale=12, edges=9000, seed=1))
    program = gw.Program("t(a, b, c) :- e(a, b), e(b, c), e(a, c).", threads=1)
    counted = program.step_counts({"e": edges})["t"].net
    assert max(bound) < 2000
    assert sum(bound) == len(edges)
    triangles = "FROM e x, e y, e z WHERE x.c1 = y.c0 AND y.c1 = z.c1 AND x.c0 = z.c0"
    assert gw.query(f"SELECT count(*) {triangles}", e=edges).rows() == [(counted,)]
