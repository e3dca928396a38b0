"""Branches: whichever steps are taken apart from the prefixes and joined back, answers are those from scratch."""

from __future__ import annotations

import random

import pytest

from tests.helpers import core_rules
from tests.helpers import recursion_comparison as recursion
from tests.helpers.core_rules import random_rules
from tests.helpers.join_comparison import arities, check_script, check_scripts, random_script, random_text, translated
from tests.helpers.join_patterns import PATTERNS
from tests.helpers.kernel_kinds import KINDS, Kind, lacking
from tests.helpers.long_tests import IS_LONG
from tests.helpers.random_plans import with_any_branches
from tests.helpers.recursion_comparison import SIGNED
from tests.reference.random_programs import chance_text

STARS = {
    "star of paths": "h(a, b, c, x, y) :- r(a, b), s(b, x), r(a, c), t(c, y), u(x), u(y).",
    "snowflake": "h(k, a, b, x, y) :- f(k, a, b), d(a, x), e(b, y), g(x, u), g(y, v), u < v.",
    "what is kept of a snowflake": "h(k, x) :- f(k, a, b), d(a, x), e(b, y), g(x, u), g(y, v).",
    "branches that one condition joins": "h(a, x, y) :- r(a, x), s(a, y), t(x, z), t(y, w), z < w, x != y.",
    "branches that share what is bound last": "h(a, x, y, z) :- r(a, x), s(a, y), t(x, z), t(y, z), u(z).",
}
TEXTS = {**STARS, **PATTERNS, **{f"chance {i}": random_text(random.Random(i)) for i in range(200 if IS_LONG else 12)}}
BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])


@BAGS
@pytest.mark.parametrize("orders", [False, True], ids=["orders as planned", "any order"])
def test_any_branches(orders, bag, monkeypatch):
    chance = random.Random(f"{orders} {bag}")
    with_any_branches(monkeypatch, chance, orders=orders)
    for number, (name, text) in enumerate(TEXTS.items()):
        if IS_LONG or name in STARS or number % 8 == 2 * orders + bag:
            chance.seed(f"{name} {bag} {orders}")
            check_scripts(text, range(4) if IS_LONG else [number], bag=bag, backend="cpu", replan=None)


@BAGS
def test_negation_and_calculation(bag, monkeypatch):
    chance = random.Random("branches")
    with_any_branches(monkeypatch, chance)
    for seed in range(400 if IS_LONG else 8):
        chance.seed(seed)
        rules = random_rules(random.Random(f"branches {seed}"))
        script = random_script(random.Random(seed), core_rules.arities(rules))
        options = {"chunk_rows": (None, 1, 2, 7)[seed % 4], "threads": 1, "replan": None, "outputs": rules.heads}
        core_rules.check_script(rules, script, bag=bag, backend="cpu", **options)


@pytest.mark.drawn("bag")
@BAGS
def test_recursion(bag, monkeypatch):
    chance = random.Random("loops")
    with_any_branches(monkeypatch, chance)
    for seed in range(60 if IS_LONG else 2):
        text = chance_text(random.Random(f"branches {seed} {bag}"), negative=True)
        recursion.check_scripts(text, [seed], bag=bag, positive=bag, backend="cpu", clingo=False, values=SIGNED)


@pytest.mark.parametrize("kind", [*map(Kind, KINDS)], ids=repr)
def test_all_kinds_of_kernels(kind, monkeypatch):
    why = lacking(kind.name)
    if why:
        pytest.skip(why)
    chance = random.Random(1)
    with_any_branches(monkeypatch, chance)
    for number, (name, text) in enumerate((TEXTS if IS_LONG else STARS).items()):
        for bag in (False, True):
            chance.seed(f"{name} {bag}")
            script = random_script(random.Random(name), arities(text))
            script = translated(script, {0: None}) if number % 3 == 0 else script
            options = {"chunk_rows": (None, 2, 7)[number % 3], "threads": 1, "replan": None}
            check_script(text, script, bag=bag, backend=kind.backend(number), **options)
