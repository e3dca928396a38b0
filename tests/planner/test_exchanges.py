"""Rules as join graphs: the solver's paths beside those of the join and of recursion, and where rows must be sent."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_wcoj.backend import select_backend
from gpu_wcoj.circuit.recursion.plan import RANK, ranked_query
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.extender import AtomIndex
from gpu_wcoj.join.settings import Execution
from gpu_wcoj.planner.body import Shape, normalise
from gpu_wcoj.planner.delta_lookups import Edge, Exchanges, Table, graph_of, solve
from gpu_wcoj.planner.lower import delta_query
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import Atom, Variable
from gpu_wcoj.trace.arrangement import Arrangement, PhaseRows
from tests.helpers.lookup_simulator import path_output, plus
from tests.reference.random_programs import random_rules

ARITY = {"u": 1, "e": 2, "f": 2, "t": 3}


def random_rule(chance):
    """Return a random rule of positive atoms and comparisons that keeps every named variable."""
    while True:
        for rule in random_rules(chance, (0,), (0,)).rules:
            names = tuple(one for one in rule.variables if not one.is_wildcard)
            if names and all(atom.relation in ARITY for atom in rule.atoms):
                return replace(rule, head=Atom("h", names))


def random_bags(chance, arities):
    """Rows before a tick and its change, which has one phase, with weights of either sign."""
    before, changes = {}, {}
    for name, arity in arities.items():
        some = [tuple(chance.choices((0, 1, 2), k=arity)) for _ in range(chance.randint(0, 12))]
        before[name] = {row: chance.choice((-1, 1, 1, 2)) for row in some[3:]}
        changes[name] = {row: chance.choice((-2, -1, 1, 1)) for row in some[:6]}
    return before, [changes]


def random_sets(chance, arities):
    """Rows before a tick, and its two phases: rows that go, and rows that come."""
    before, gone, come = {}, {}, {}
    for name, arity in arities.items():
        some = dict.fromkeys(tuple(chance.choices((0, 1, 2), k=arity)) for _ in range(chance.randint(0, 9)))
        before[name] = {row: 1 for row in some if chance.random() < 0.6}
        gone[name] = {row: -1 for row in before[name] if chance.random() < 0.3}
        come[name] = {row: 1 for row in some if row not in before[name]}
    return before, [gone, come]


def with_ranks(rule, loop):
    """The rule with one more variable in every atom of the loop, and behind the head."""
    atoms, ranks = [], []
    for number, atom in enumerate(rule.atoms):
        if atom.relation in loop:
            ranks.append(Variable(f"r{number}"))
            atom = replace(atom, terms=(*atom.terms, ranks[-1]))
        atoms.append(atom)
    return replace(rule, atoms=tuple(atoms), head=replace(rule.head, terms=(*rule.head.terms, *ranks)))


def rows_of(rows, arity):
    ordered = sorted(rows)
    columns = np.array(ordered, np.int64).reshape(len(ordered), arity).T.copy()
    weights = {rows[row] for row in ordered}
    return PhaseRows(list(columns), weights.pop() if len(weights) == 1 else np.array([rows[row] for row in ordered]))


def paths_of_the_join(query, arities, before, phases, weighted):
    """Per phase and number of the atom that changes, what the engine's join gives of its path."""
    backend = select_backend("cpu")
    held = {}
    for path in query.paths:
        for key in (*(use.key for use in path.seeds), *path.keys, *(k for way in path.variants for k in way.keys)):
            if key not in held:
                held[key] = Arrangement(key, backend)
                held[key].receive_delta([rows_of(before[key.relation], arities[key.relation])])
                held[key].commit()
                held[key].receive_delta([rows_of(rows[key.relation], arities[key.relation]) for rows in phases])
    join = IncrementalGenericJoin(query, held, Execution(backend, weighted))
    found = [{} for _ in phases]
    for phase, number in product(range(len(phases)), range(len(query.paths))):
        total: Counter = Counter()
        for piece in join.join(phase, [number]):
            weights = piece.weights if isinstance(piece.weights, int) else piece.weights.tolist()
            weights = [weights] * len(piece) if isinstance(weights, int) else weights
            for *row, weight in zip(*(column.tolist() for column in piece.columns), weights, strict=True):
                total[tuple(row)] += weight
        found[phase][query.paths[number].seed.atom] = nonzero(total)
    return found


def nonzero(rows):
    return {row: weight for row, weight in rows.items() if weight}


@pytest.mark.parametrize("kind", ["bags", "sets", "recursion"])
@given(seed=st.integers(0, 2**32))
def test_solver_join_and_recursion_agree(kind, seed):
    """Path by path, in marks and rows: which atoms each sees before the tick, and which after it."""
    chance = random.Random(seed)
    rule = random_rule(chance)
    shapes = {name: Shape(name, (False,) * arity) for name, arity in {**ARITY, "h": len(rule.head.terms)}.items()}
    body = normalise(rule, shapes, {}, lambda relation, column, value: int(str(value)))
    if body.never:
        return
    query, solved, arities = delta_query(body), rule, dict(ARITY)
    if kind == "recursion":
        loop = {atom.relation: ARITY[atom.relation] for atom in rule.atoms if chance.random() < 0.7}
        query, solved = ranked_query(query, loop), with_ranks(rule, loop)
        arities |= {name: arity + 1 for name, arity in loop.items()}
    before, phases = (random_sets if kind == "sets" else random_bags)(chance, arities)
    engine = paths_of_the_join(query, arities, before, phases, kind != "sets")
    exchanges = Exchanges.plan_rule(solved)
    graph, plan = exchanges.graph, exchanges.plan
    numbers = {table.name: number for number, table in enumerate(graph.tables)}
    assert [numbers[path.table] for path in plan.paths] == [path.seed.atom for path in query.paths]
    for path, steps in zip(plan.paths, query.paths, strict=True):
        marks = {numbers[lookup.table]: str(lookup).endswith("*") for lookup in path.lookups}
        assert marks == {use.atom: use.atom < steps.seed.atom for use in steps.other_atoms}
    for changes, answers in zip(phases, engine, strict=True):
        after = {name: plus(rows, changes[name]) for name, rows in before.items()}
        for path in plan.paths:
            expected: Counter = Counter()
            for row, weight in path_output(path, graph, before, after, changes, chance.choice((1, 3))).items():
                expected[tuple(row[at] for at in head_columns(solved))] += weight
            assert answers[numbers[path.table]] == nonzero(expected), str(rule)
        before = after


def head_columns(rule):
    """Return the first position of each head variable among the concatenated atoms."""
    terms = [term for atom in rule.atoms for term in atom.terms]
    return [terms.index(term) for term in rule.head.terms]


def exchanges_of(text):
    return Exchanges.plan_rule(parse(text).rules[0])


@pytest.mark.parametrize("leaves", range(2, 7))
def test_stars_share_their_centre(leaves):
    names = [f"b{i}" for i in range(leaves)]
    star = exchanges_of(f"s(a) :- {', '.join(f'e(a, {name})' for name in names)}, centre(a).")
    assert (star.shared, star.moved) == (("a",), ())


def test_keys_of_several_columns():
    assert exchanges_of("p(a, b, c) :- e(a, b), f(b, a, c).").shared == ("a", "b")
    assert exchanges_of("p(b) :- e(a, b), f(b, a, c).").shared == ("b",), "what the head keeps is enough"
    assert exchanges_of("p(c) :- e(a, b), f(b, a, c).").shared == ("a", "b")
    assert exchanges_of("p(a) :- e(a, b).").shared == ("a",)
    assert exchanges_of("p(1) :- e(a, b).").shared == ("a", "b")


def test_what_has_to_move():
    triangle = exchanges_of("t(a, b, c) :- e(a, b), e(b, c), e(a, c).")
    assert triangle.shared == ()
    assert len(triangle.moved) > 1
    assert triangle.joined == ("a", "b", "c")
    assert exchanges_of("p(a, d) :- e(a, b), e(b, c), e(c, d).").joined == ("b", "c")
    apart = exchanges_of("x(a, c) :- e(a, b), f(c, d).")
    assert (apart.shared, apart.moved, apart.crosses) == ((), (), True)


def test_arrangements_that_are_there_are_taken():
    first = exchanges_of("s(a, b) :- e(a, b), f(a, c).")
    rule = parse("o(a, b) :- e(a, b), f(a, b).").rules[0]
    assert Exchanges.plan_rule(rule).shared == ("a", "b")
    again = Exchanges.plan_rule(rule, existing=first.plan.arrangements)
    assert again.shared == ("a",)
    assert again.plan.made == ()


def test_filters_of_a_rule():
    """On columns that atoms bind; others are not of the graph."""
    rule = parse('p(a, b) :- e(a, b), f(b, "x"), 3 < a, b != a, 1.5 >= b.').rules[0]
    shown = [str(one) for one in graph_of(rule).filters]
    assert shown == [
        "2: f(b, \"x\").1 = 'x'",
        "1: e(a, b).0 > 3",
        "1: e(a, b).1 != 1: e(a, b).0",
        "1: e(a, b).1 <= 1.5",
    ]


TEXTS = ["h(a, b, c) :- e(a, b), e(b, c), e(a, c).", "h(a, d) :- e(a, b), f(b, c), e(c, d), f(a, c)."]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("recursive", [False, True], ids=["join", "recursion"])
def test_the_join_and_the_recursion_see_what_the_solver_says(text, recursive):
    """One convention: the numbers of the atoms in the body are the solver's numbering."""
    rule = parse(text).rules[0]
    shapes = {name: Shape(name, (False,) * arity) for name, arity in (("e", 2), ("f", 2), ("h", len(rule.head.terms)))}
    query = delta_query(normalise(rule, shapes, {}, lambda relation, column, value: 0))
    if recursive:
        query = ranked_query(query, {"e": 2})
        assert any(use.variables[-1].startswith(RANK) for path in query.paths for use in path.other_atoms)
    atoms = rule.atoms
    edges = [
        Edge(str(i), str(j), (atoms[i].terms.index(term),), (atoms[j].terms.index(term),))
        for i in range(len(atoms))
        for j in range(i)
        for term in atoms[i].terms
        if term in atoms[j].terms
    ]
    plan = solve([Table(str(i), 2, atom.relation) for i, atom in enumerate(atoms)], edges)
    for path, solved in zip(query.paths, plan.paths, strict=True):
        assert solved.table == str(path.seed.atom)
        sees = {lookup.table: lookup.sees for lookup in solved.lookups}
        for use in path.other_atoms:
            seen = Seen()
            AtomIndex(use, seen).extender(0, path.seed.atom)
            assert seen.asked == [sees[str(use.atom)]]
            assert path.sees_after(use) == (seen.asked == ["after"])


class Seen:
    """An arrangement that keeps how it was seen."""

    def __init__(self):
        self.asked, self.backend = [], select_backend("cpu")

    def before(self, phase):
        self.asked.append("before")
        return ()

    def after(self, phase):
        self.asked.append("after")
        return ()
