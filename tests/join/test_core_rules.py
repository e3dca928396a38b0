"""Rules with negated atoms and calculations equal brute force after every tick of random scripts."""

from __future__ import annotations

import random

import pytest

import gpu_wcoj as gw
from tests.helpers.core_rules import arities, check_script, random_rules
from tests.helpers.join_comparison import random_script, smallest
from tests.helpers.long_tests import IS_LONG

BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
WAYS = ("step", "step_counts", "step_pieces")


def n_seeds(kind):
    """How many rules and scripts are made for a kind of kernels."""
    return 16 if kind.on_device and IS_LONG else 120 if IS_LONG else 8 if kind.compiled else 4


def check(seed, bag, kind, **chances):
    """Rules and a script by chance, with small ticks that walk and path by path; shows the smallest that fails."""
    chance = random.Random(seed)
    rules = random_rules(chance, **chances)
    script = random_script(chance, arities(rules))
    options = {"chunk_rows": (None, 1, 2, 7)[seed % 4], "threads": 1 + seed % 2, "backend": kind.backend(seed)}
    options |= {"keep": rules.heads[: seed % 3], "outputs": rules.heads}
    failed = 0
    for walks, way in ((seed % 2 == 0, WAYS[seed % 3]), (seed % 2 == 1, WAYS[(seed + 1) % 3])):

        def run(script, way=way, walks=walks):
            return check_script(rules, script, bag=bag, way=way, walks=walks, **options)

        def fails(script):
            try:
                run(script)
            except Exception:
                return True
            return False

        try:
            failed += run(script)
        except Exception as error:
            shown = f"seed {seed}, {way}, walks={walks}, {options}\n{rules}\nsmallest: {smallest(script, fails)}"
            raise AssertionError(shown) from error
    return failed


@pytest.mark.drawn("bag")
@BAGS
@pytest.mark.parametrize("block", range(4))
def test_negated_atoms(block, bag, kind):
    for seed in range(block, n_seeds(kind), 4):
        check(seed, bag, kind, n_negated=(1, 2), n_computed=(0,))


@pytest.mark.drawn("bag")
@BAGS
@pytest.mark.parametrize("block", range(4))
def test_calculations(block, bag, kind):
    seeds = range(block, max(n_seeds(kind), 48 if kind.compiled else 0), 4)
    failed = sum(check(1000 + seed, bag, kind, n_negated=(0,), n_computed=(1, 2)) for seed in seeds)
    assert failed > 0 or not kind.compiled  # others take fewer seeds


@pytest.mark.drawn("bag")
@BAGS
@pytest.mark.parametrize("block", range(4))
def test_both(block, bag, kind):
    for seed in range(block, n_seeds(kind), 4):
        check(2000 + seed, bag, kind)


@pytest.mark.usefixtures("large_ticks")
@BAGS
def test_rows_that_a_negated_relation_gains_and_loses(bag, kind):
    program = gw.Program("h(x, y) :- r(x, y), !n(y), !m(x).", bag=bag, inputs=["r", "n", "m"], backend=kind.backend())
    program.step({"r": [(1, 1), (2, 2), (3, 3)], "n": [(1,)]})
    assert program.step({"n": [((1,), -1), (2,)]})["h"].to_dict() == {(1, 1): 1, (2, 2): -1}
    assert program.step({"n": [((2,), -1), (3,)], "m": [(2,), (3,)]})["h"].to_dict() == {(3, 3): -1}
    counts = program.step_counts({"m": [((2,), -1), (1,)]})["h"]
    assert counts.net == 0
    assert program.relation("h").to_dict() == {(2, 2): 1}


def test_counts_where_a_negated_relation_changes():
    program = gw.Program("h(a, b, c) :- e(a, b), f(b, c), !n(a, b). .output h", threads=1)
    ends = [(0, x) for x in range(2000)]
    program.load({"e": [(x, 0) for x in range(2000)], "f": ends, "n": [(x, 0) for x in range(0, 2000, 2)]})
    assert program.count("h") == 1000 * 2000
    counts = program.step_counts({"e": [(5000, 0)], "n": [(1, 0), ((0, 0), -1)]})["h"]
    assert (counts.inserted, counts.deleted) == (4000, 2000)
