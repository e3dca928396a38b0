"""Bushy plans by what the kernels count: where they propose several times less, and where there is nothing to gain."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.join import bushy as branch
from gpu_wcoj.join.settings import tune
from gpu_wcoj.kernels.protocol import PROPOSALS
from gpu_wcoj.planner.passes import PASSES, make_bushy
from tests.helpers.random_plans import with_passes

SNOWFLAKE = "h(k, a, b, x, u, y, v) :- f(k, a, b), d(a, x), g(x, u), p(u), e(b, y), i(y, v), q(v)."
"""Two arms of two steps each, most of which end dead."""
STAR = "h(a, b, c, x, u, y, v) :- f(a, b), f(a, c), g(b, x), i(x, u), p(u), g(c, y), i(y, v), q(v)."
FANS = {
    "snowflake without dead ends": "h(k, a, b, x, y) :- f(k, a, b), d(a, x), e(b, y).",
    "path": "h(a, b, c, d) :- d(a, b), g(b, c), g2(c, d).",
    "star": "h(a, b, c, d) :- d(a, b), e(a, c), g(a, d).",
    "triangle": "h(a, b, c) :- d(a, b), g(b, c), e(a, c).",
}


def skewed(random, n, n_values):
    return (random.zipf(1.3, n) % n_values).astype(np.int64)


def rows_of(n_values=200, fan=10, one_in=40):
    """Facts on few, skewed keys; from each key `fan` values lead on to `fan` others each, of which few are wanted."""
    random = np.random.default_rng(1)
    leads = np.stack([np.repeat(np.arange(n_values), fan), np.arange(n_values * fan)], axis=1)
    ends = np.stack([np.repeat(np.arange(n_values * fan), fan), random.integers(0, 4000, n_values * fan * fan)], axis=1)
    wanted = np.arange(0, 4000, one_in)[:, None]
    facts = np.stack([np.arange(6000), skewed(random, 6000, n_values), skewed(random, 6000, n_values)], axis=1)
    return {"d": leads, "e": leads, "g": ends, "i": ends, "p": wanted, "q": wanted, "f": facts}


def pairs_of(n_values=120):
    """Pairs of few, skewed values; those lead on as the others do."""
    random = np.random.default_rng(2)
    rows = rows_of()
    pairs = np.unique(np.stack([skewed(random, 3000, n_values), skewed(random, 3000, n_values)], axis=1), axis=0)
    return {"f": random.permutation(pairs), "g": rows["d"], "i": rows["g"], "p": rows["p"], "q": rows["q"]}


def done(text, rows, strategy, monkeypatch, *, bushy, changed="f", n=400):
    """The changes of a tick after most is loaded, what it proposed, and how many branches its plan has."""
    with_passes(monkeypatch, [one for one in PASSES if bushy or one is not make_bushy])
    program = gw.Program(text, backend="cpu", strategy=strategy, threads=1, replan=None)
    program.load({name: own[:-n] if name == changed else own for name, own in rows.items()})
    found = program.step({changed: rows[changed][-n:]})["h"]
    (head,) = json.loads(program.explain(format="json"))["heads"]
    n_branches = sum(len(path["branches"]) for rule in head["rules"] for path in rule["paths"])
    work = [own for rules in program.last_tick.work.values() for paths in rules.values() for own in paths.values()]
    return found, sum(int(one[PROPOSALS]) for steps in work for one in steps.values()), n_branches


@pytest.mark.usefixtures("large_ticks")
@pytest.mark.parametrize(("text", "rows"), [(SNOWFLAKE, rows_of()), (STAR, pairs_of())], ids=["snowflake", "star"])
@pytest.mark.parametrize("strategy", ["auto", "binary"])
def test_several_times_less_is_proposed(text, rows, strategy, monkeypatch):
    flat, much, none = done(text, rows, strategy, monkeypatch, bushy=False)
    found, little, some = done(text, rows, strategy, monkeypatch, bushy=True)
    assert len(found) > 1000
    assert found == flat
    assert none == 0 < some
    assert 4 * little < much


def test_worst_case_optimal_joins_have_no_branches(monkeypatch):
    assert done(SNOWFLAKE, rows_of(), "wcoj", monkeypatch, bushy=True)[2] == 0


@pytest.mark.parametrize("name", FANS)
@pytest.mark.parametrize("strategy", ["auto", "binary"])
def test_none_is_chosen_where_nothing_is_gained(name, strategy, monkeypatch):
    rows = rows_of(n_values=100, fan=4)
    rows["g2"] = np.stack([np.arange(4000), np.arange(4000) // 2], axis=1)
    used = {one: rows[one] for one in ("f", "d", "e", "g", "g2") if f"{one}(" in FANS[name]}
    found, _, n_branches = done(FANS[name], used, strategy, monkeypatch, bushy=True, changed="d", n=40)
    assert n_branches == 0
    assert len(found) > 0 or name == "triangle"


@pytest.mark.usefixtures("large_ticks")
@pytest.mark.parametrize("chunk_rows", [64, 1000, None])
def test_pieces_are_within_bounds_and_rows_the_same(chunk_rows, monkeypatch):
    """Also the rows of branches that do not fit a piece."""
    sizes, whole = [], branch.bind_branched

    def watched(join, prefixes, path, depth):
        for piece in whole(join, prefixes, path, depth):
            sizes.append(len(piece))
            yield piece

    monkeypatch.setattr(branch, "bind_branched", watched)
    rows = rows_of(one_in=8)
    with tune(off=frozenset({"recounts"})):  # the change is listed once
        program = gw.Program(SNOWFLAKE, backend="cpu", threads=1, chunk_rows=chunk_rows, replan=None)
    program.load({name: own[:-400] if name == "f" else own for name, own in rows.items()})
    found = program.step({"f": rows["f"][-400:]})["h"]
    assert 0 < max(sizes) <= (chunk_rows or 1 << 17)
    assert sum(sizes) == len(found)
    assert found == done(SNOWFLAKE, rows, "auto", monkeypatch, bushy=False)[0]
