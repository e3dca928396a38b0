"""Expected costs of orders and paths: one model for both, and the choices that follow."""

from __future__ import annotations

import math
import operator
from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from bench.suite.random_queries import random_query
from gpu_wcoj import Program, datasets
from gpu_wcoj.backend import select_backend
from gpu_wcoj.circuit.circuit import InputChange
from gpu_wcoj.join.plan import Condition
from gpu_wcoj.join.settings import tune
from gpu_wcoj.planner.body import BodyAtom
from gpu_wcoj.planner.catalog import Catalog
from gpu_wcoj.planner.cost import Estimator, foreseen, share_of
from gpu_wcoj.planner.ir import TOO_DEAR
from gpu_wcoj.planner.join_order import MAX_ATOMS, Chooser, order_variables
from gpu_wcoj.planner.passes.arrange import path_along, with_checks, with_lookups
from gpu_wcoj.planner.passes.simplify import normalise_rules, push_down_predicates
from tests.helpers.kernel_kinds import KINDS, Kind, lacking
from tests.planner.examples import draft_program
from tests.reference.program_text import written

CPU = select_backend("cpu")
R, S = BodyAtom("r", (0, 1), ("a", "b")), BodyAtom("s", (1, 0), ("d", "c"))
OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def skewed(random, n):
    """Pairs of which the left ones are small, most of them."""
    return np.unique(np.stack([random.integers(0, 1000, n) ** 2 // 1000, random.integers(0, 1000, n)]), axis=1)


@pytest.mark.drawn("kind", "n", each=True)
@pytest.mark.parametrize("n", [200, 40_000])
@pytest.mark.parametrize("kind", KINDS)
def test_shares_are_those_of_the_rows(kind, n):
    """Before the first tick and of a state, in one atom and across two."""
    if reason := lacking(kind):
        pytest.skip(reason)
    random = np.random.default_rng(n)
    rows = {"r": skewed(random, n), "s": skewed(random, n)}
    program = Program("h(a) :- r(a, b), s(b, a).", backend=Kind(kind).backend())
    program.load({name: pa.table({"c0": one[0], "c1": one[1]}) for name, one in rows.items()})
    sides = program._ledger.settle()
    assert sides is not None
    changes = {name: InputChange(list(one), None, True) for name, one in rows.items()}
    (a, b), (c, _) = rows["r"], rows["s"]
    for known in (Catalog.of_rows(changes, CPU), Catalog.of_circuit(sides.ahead.circuit)):
        for op, compare in OPERATORS.items():
            for one, truth in (
                (Condition("a", op, 90), compare(a, 90).mean()),
                (Condition("a", op, "b"), compare(a, b).mean()),
                (Condition("c", op, "b"), np.mean([compare(value, b).mean() for value in c[:: max(1, n // 500)]])),
            ):
                assert share_of(one, [R, S], {}, known) == pytest.approx(truth, abs=0.06)


def test_what_is_not_known_is_half():
    assert share_of(Condition("a", "<", "b"), [R, S], {}, Catalog.from_sizes({"r": 10, "s": 10})) == 0.5
    assert share_of(Condition("a", "<", 5), [R, S], {}, Catalog({})) == 0.5
    assert share_of(Condition("a", "=", 5), [R, S], {"a": 8.0}, Catalog({})) == 1 / 8


@pytest.mark.parametrize("strategy", ["auto", "binary", "wcoj"])
def test_orders_and_their_paths_are_foreseen_alike(strategy):
    """Whatever chance writes, calculation and negation included."""
    random, looked_at = np.random.default_rng(5), 0
    for seed in range(60):
        query = replace(random_query(seed), is_textual=False)
        changes = {
            name: InputChange(list(random.integers(0, 40, (arity, 300))), None, True)
            for name, arity in query.inputs.items()
        }
        draft, known = (
            draft_program(query.text, [normalise_rules, push_down_predicates], strategy=strategy),
            Catalog.of_rows(changes, CPU),
        )
        for rule in order_variables(replace(draft, setting=replace(draft.setting, known=known))).rules:
            for order, *_ in rule.orders:
                path = with_lookups(path_along(rule.normalised, order), order)
                planned = foreseen(with_checks(rule.normalised, path), known, rule.normalised.head)
                own = Estimator.of_body(rule.normalised, order.seed, known).along(order)
                assert planned is not None
                assert list(planned.levels) == [
                    (one.variable, pytest.approx(one.proposed), pytest.approx(one.rows)) for one in own.levels
                ]
                assert planned.cost == pytest.approx(own.cost)
                looked_at += 1
    assert looked_at > 100


ALIKE = [
    "h(a, b, c) :- e(a, b), e(b, c), e(c, a).",
    "h(a) :- e(a, b), e(b, c), e(c, a), v(a, x), v(b, y), v(c, z), w(x, k), w(y, k), w(z, k).",
    "h(c) :- e(a, b), e(b, c), e(c, d), e(d, a), a != c, b != d.",
    "h(b, f) :- e(a, b), e(b, c), e(c, d), e(d, f), e(f, g), e(g, a).",
    "h(d, a) :- e(a, b), e(a, c), v(b, d), v(c, d).",
    "h(x) :- v(a, x), v(b, x), v(c, x), w(a, 3), w(b, 3), w(c, 3).",
]
"""Bodies with atoms that are each other's images, and heads that keep some of their variables."""


def known_by_chance(random, arities):
    """Return statistics of skewed relations of different sizes."""
    rows = {name: random.integers(50, 500) for name in sorted(arities)}
    columns = {name: [random.integers(0, 40, n) ** 2 // 40 for _ in range(arities[name])] for name, n in rows.items()}
    return Catalog.of_rows({name: InputChange(one, None, True) for name, one in columns.items()}, CPU)


@pytest.mark.parametrize("strategy", ["auto", "binary", "wcoj"])
def test_a_plan_expects_what_its_paths_are_foreseen_to_do(strategy):
    """What was found while orders were chosen, also of images, of branches, and of rules that share a join."""
    random, branches, seen = np.random.default_rng(8), 0, 0
    texts = [*ALIKE, "h(a, b, c) :- r(a, b), s(b, c). g(z, x) :- r(x, y), s(y, z). f(u, w) :- r(u, v), s(v, w), v < 9."]
    texts += ["h(a, b, x, u, y, v) :- f(a, b), d(a, x), g(x, u), k(u), d(b, y), g(y, v), k(v)."]
    texts += ["p(x, y) :- e(x, y). p(x, z) :- p(x, y), p(y, z), !e(z, x). h(x) :- p(x, y), p(y, x)."]
    for text in texts + [replace(random_query(seed), is_textual=False).text for seed in range(60)]:
        known = known_by_chance(random, written(text).arities)
        with tune(off=frozenset({"projections"})):  # `known` has no rows of these
            planned = Program(text, strategy=strategy)._planned(known)
        again = planned.expecting(known)
        assert (planned.estimates.keys(), planned.asked) == (again.estimates.keys(), again.asked)
        for head, query in ((head, rule) for head, own in planned.queries.items() for rule in enumerate(own)):
            for number, path in enumerate(query[1].paths):
                one, other = (found.estimates[head][query[0]][number] for found in (planned, again))
                assert [level.variable for level in one] == ["", *(step.variable for step in path.steps)]
                assert [level[1:] for level in one] == [pytest.approx(level[1:]) for level in other]
                branches += bool(path.branches)
                seen += 1
    assert seen > 200
    assert (branches > 0) == (strategy != "wcoj")


@pytest.mark.parametrize("strategy", ["auto", "binary", "wcoj"])
def test_images_are_ordered_as_if_each_was_compared(strategy, monkeypatch):
    """Fewer orders are looked at; those that are chosen cost as much, but where ties are broken in another way."""
    random, fewer, dearer = np.random.default_rng(9), 0, []
    for text in ALIKE * 5:
        draft = draft_program(text, [normalise_rules], strategy=strategy)
        known = known_by_chance(random, written(text).arities)
        draft = replace(draft, setting=replace(draft.setting, known=known))
        found = order_variables(draft)
        with monkeypatch.context() as alone:
            alone.setattr("gpu_wcoj.planner.join_order.symmetry_of", lambda _: None)
            apart = order_variables(draft)
        assert found.candidates <= apart.candidates
        fewer += found.candidates < 0.7 * apart.candidates
        (one,), (other,) = found.rules, apart.rules
        for mine, theirs, (order, *_) in zip(one.foreseen, other.foreseen, one.orders, strict=True):
            own = Estimator.of_body(one.normalised, order.seed, known).along(order)
            assert list(mine.levels) == [
                (level.variable, pytest.approx(level.proposed), pytest.approx(level.rows)) for level in own.levels
            ]
            assert mine.cost == pytest.approx(own.cost)
            dearer.append(math.log(mine.cost / theirs.cost))
    assert fewer >= 10
    assert np.mean(np.abs(dearer) < 1e-9) > 0.75
    assert np.mean(dearer) < 0.05


def test_what_costs_more_than_is_asked_about_is_not_gone_through():
    """Up to its own cost an order is foreseen as ever."""
    random, dear = np.random.default_rng(6), 0
    for seed in range(30):
        query = replace(random_query(seed), is_textual=False)
        changes = {
            name: InputChange(list(random.integers(0, 40, (arity, 300))), None, True)
            for name, arity in query.inputs.items()
        }
        draft, known = draft_program(query.text, [normalise_rules, push_down_predicates]), Catalog.of_rows(changes, CPU)
        for rule in order_variables(draft).rules:
            for order, *_ in rule.orders:
                estimator = Estimator.of_body(rule.normalised, order.seed, known)
                found = estimator.along(order)
                for limit in (found.cost, 2 * found.cost, math.inf):
                    assert estimator.along(order, limit) == found
                for limit in (0.01 * found.cost, 0.9 * found.cost):
                    assert estimator.along(order, limit) in (found, TOO_DEAR)
                    dear += estimator.along(order, limit) is TOO_DEAR
    assert dear > 50


def test_what_is_looked_at_to_plan_a_chain(monkeypatch):
    """Variables: those that atoms reach, two at every place; what a level costs: once, whichever atom changes."""
    n, seen = 30, Counter[str]()
    owners = ((Chooser, "_preference"), (Estimator, "_intersection"), (Estimator, "_level"), (Catalog, "degree"))
    made = {name: getattr(owner, name) for owner, name in owners}

    def counted(name):
        def one(*given):
            seen[name] += 1
            return made[name](*given)

        return one

    for owner, name in owners:
        monkeypatch.setattr(owner, name, counted(name))
    draft = draft_program(chain(n), [normalise_rules], sizes={"e": 1000})
    order_variables(draft)
    assert 0 < seen["_preference"] <= 2 * n**2
    short = draft_program(chain(MAX_ATOMS), [normalise_rules], sizes={"e": 1000})
    seen.clear()
    order_variables(short)
    assert all(0 < seen[name] <= 8 * MAX_ATOMS for name in ("_intersection", "_level", "degree"))


def chain(n: int) -> str:
    """Return a chain of this many atoms."""
    return f"h(v0, v{n}) :- {', '.join(f'e(v{i}, v{i + 1})' for i in range(n))}."


@pytest.mark.parametrize("n", [3, 4, 5, 6])
@pytest.mark.parametrize("rows", [100, 10_000, 1_000_000])
def test_wide_ranges_are_intersected(n, rows):
    """The last vertex of a clique is among 10, 100 or 1,000 neighbours of each other one: none proposes it alone."""
    names = "abcdfg"[:n]
    atoms = [f"e({one}, {other})" for one, other in combinations(names, 2)]
    draft = draft_program(f"h({', '.join(names)}) :- {', '.join(atoms)}.", [normalise_rules], sizes={"e": rows})
    estimator = Estimator.of_body(draft.rules[0].normalised, 0, draft.setting.known)
    bound, last = estimator.bits.mask(names[:-1]), names[-1]
    together = estimator.level(bound, last)
    for number in estimator.bits.holding[last]:
        alone = estimator.level(bound, last, number)
        assert together[1] == pytest.approx(alone[1])
        assert together[2] < alone[2]
    (rule,) = order_variables(draft).rules
    assert all(order.is_together for orders in rule.orders for order in orders)


def test_a_clique_of_a_skewed_graph_is_intersected():
    """By lookups of the neighbours that one vertex has, some of them thousands, it took 20 times as long."""
    edges = datasets.undirected(datasets.rmat(scale=14, edges=200_000, seed=1))
    changes = {"e": InputChange([edges[:, 0].copy(), edges[:, 1].copy()], None, True)}
    draft = draft_program("h(a, b, c, d) :- e(a, b), e(a, c), e(a, d), e(b, c), e(b, d), e(c, d).", [normalise_rules])
    known = Catalog.of_rows(changes, CPU)
    (rule,) = order_variables(replace(draft, setting=replace(draft.setting, known=known))).rules
    assert all(order.is_together for orders in rule.orders for order in orders)


def test_a_key_is_followed_alone_and_what_it_leads_to_is_intersected():
    """Of triangles in one country: whose a person is goes alone and is looked up for the other, the rest together."""
    text = "h(a, b, c, n) :- knows(a, b), of(a, n), of(b, n), of(c, n), knows(b, c), knows(a, c)."
    draft = draft_program(text, [normalise_rules], sizes={"knows": 40_000, "of": 2_000}, keys={"of": [0]})
    best = Chooser(draft.rules[0].normalised, 0, draft.setting.known).best
    assert best.variables == ("n", "c")
    assert best.via[0] is not None
    assert best.via[1] is None


@pytest.mark.parametrize("atoms", ["all(a, b), few(a, b)", "few(a, b), all(a, b)"])
def test_a_comparison_is_measured_on_the_row_that_changes(atoms):
    """Of one relation all rows satisfy it, of the other few, whichever comes first in the text."""
    pairs = [(a, b) for a in range(40) for b in range(40) if a >= b]
    few = [(a, a + 1) for a in range(39)]
    rows = {"all": pairs + few, "few": few, "d": [(a, b) for a in range(40) for b in range(3)]}
    changes = {name: InputChange(list(np.array(own).T.copy()), None, True) for name, own in rows.items()}
    draft = draft_program(f"h(a, b, c) :- {atoms}, a < b, d(b, c), d(a, c).", [normalise_rules])
    known = Catalog.of_rows(changes, CPU)
    (rule,) = order_variables(replace(draft, setting=replace(draft.setting, known=known))).rules
    left = {rule.normalised.atoms[seed].relation: one.levels[0].rows for seed, one in enumerate(rule.foreseen[:2])}
    assert left["few"] > 0.5  # as many pairs as that are in the other one
    assert left["all"] < 0.005


def test_a_selective_comparison_comes_first_and_alone():
    """Of a 4-cycle: few rows have so small a value, which a range finds without a look at the others."""
    random = np.random.default_rng(1)
    changes = {"e": InputChange(list(random.integers(0, 5000, (2, 20_000))), None, True)}
    body = "e(a, b), e(b, c), e(c, d), e(d, a)"
    chosen = {}
    for text in (f"h(a, b, c, d) :- {body}.", f"h(a, b, c, d) :- {body}, c < 20."):
        draft, known = draft_program(text, [normalise_rules, push_down_predicates]), Catalog.of_rows(changes, CPU)
        rule = order_variables(replace(draft, setting=replace(draft.setting, known=known))).rules[0]
        chosen[text[-3:-1]] = [order.variables for order in rule.orders[0]]
    assert chosen["a)"] == [("c", "d"), ("d", "c")]
    assert chosen["20"] == [("c", "d")]
