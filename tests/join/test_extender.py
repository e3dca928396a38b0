"""The three verbs, and a generic join that is nothing but them: it equals the fused one, path by path."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gpu_wcoj.backend import select_backend
from gpu_wcoj.circuit.source import bag_change, set_change
from gpu_wcoj.join.extender import INFINITE, ConditionExtender, Extender
from gpu_wcoj.join.plan import AtomUse, Condition
from gpu_wcoj.join.relation import AtomIndex, IncrementalIndex
from gpu_wcoj.join.settings import Execution
from gpu_wcoj.planner.body import Shape
from gpu_wcoj.planner.lower import lower, plan
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import MergePolicy
from gpu_wcoj.zset.index import IndexedZSet
from tests.helpers.join_comparison import arities, random_script
from tests.helpers.join_patterns import ARITIES, GRAPHS

PREDICATES = {
    "less": "h(x, y, z) :- e(x, y), e(y, z), x < z.",
    "not equal": "h(x, y, z) :- e(x, y), e(y, z), x != z.",
    "chain": "h(x, y, z) :- e(x, y), e(y, z), e(x, z), x <= y, y > z, x >= 0, z != 1.",
    "constants": "h(x, y) :- t(x, 0, y), e(y, x), x < 3.",
    "projection": "h(a, c) :- e(a, b), e(b, c), e(c, d), a < d.",
}
PATTERNS = {name: text for name, text in {**GRAPHS, **ARITIES, **PREDICATES}.items() if text.count(":-") == 1}


def arange(n):
    return np.arange(n, dtype=np.int64)


def index(rows, weights=None):
    return IndexedZSet.from_columns(list(np.array(rows, np.int64).T), weights and np.array(weights))


@pytest.fixture
def two_batches():
    """r(x, y, z): 1 has the y 5, 6 and 7; (1, 6, 0) has cancelled; (1, 7, 0) weighs 5."""
    old = index([(1, 5, 0), (1, 6, 0), (1, 7, 0), (2, 5, 9)], [1, 1, 2, 1])
    new = index([(1, 6, 0), (1, 7, 0), (4, 4, 4)], [-1, 3, 1])
    return Extender(("x", "y", "z"), (old, new), select_backend("cpu"))


class TestVerbs:
    def test_levels(self, two_batches):
        levels = [two_batches.participates_in_level(name) for name in ("x", "y", "z", "w")]
        assert levels == [True, True, True, False]

    def test_count_adds_the_widths_of_all_batches(self, two_batches):
        assert two_batches.count("x", {}, 2).tolist() == [4, 4]
        assert two_batches.count("y", {"x": np.array([1, 2, 3, 4])}, 4).tolist() == [5, 1, 0, 1]
        assert two_batches.count("z", {"x": np.array([1, 1]), "y": np.array([7, 8])}, 2).tolist() == [2, 0]

    def test_a_value_in_several_batches_is_proposed_once(self, two_batches):
        parent, value = two_batches.propose("y", {"x": np.array([2, 3, 1])}, 3)
        assert list(zip(parent.tolist(), value.tolist(), strict=True)) == [(0, 5), (2, 5), (2, 6), (2, 7)]
        parent, value = two_batches.propose("x", {}, 1)
        assert (parent.tolist(), value.tolist()) == ([0, 0, 0], [1, 2, 4])

    def test_intersect_is_unweighted_before_the_last_variable(self, two_batches):
        bound = {"x": np.array([1, 1, 1, 3]), "y": np.array([5, 6, 7, 5])}
        assert two_batches.intersect("y", bound).tolist() == [1, 1, 1, 0]
        assert two_batches.intersect("x", bound).tolist() == [1, 1, 1, 0]

    def test_intersect_sums_the_weights_at_the_last_variable(self, two_batches):
        bound = {"x": np.array([1, 1, 1, 2]), "y": np.array([5, 6, 7, 5]), "z": np.array([0, 0, 0, 9])}
        assert two_batches.intersect("z", bound).tolist() == [1, 0, 5, 1]

    def test_no_batches_hold_nothing(self):
        nothing = Extender(("x", "y"), (), select_backend("cpu"))
        assert nothing.count("y", {"x": arange(2)}, 2).tolist() == [0, 0]
        assert [len(array) for array in nothing.propose("y", {"x": arange(2)}, 2)] == [0, 0]
        assert nothing.intersect("y", {"x": arange(2), "y": arange(2)}).tolist() == [0, 0]

    def test_a_comparison_never_proposes(self):
        extender = ConditionExtender(Condition("y", "!=", "x"))
        assert [extender.participates_in_level(name) for name in ("x", "y")] == [False, True]
        assert extender.count("y", {"x": arange(2)}, 2).tolist() == [INFINITE, INFINITE]
        assert extender.intersect("y", {"x": arange(2), "y": np.array([0, 0])}).tolist() == [0, 1]


class TestIndices:
    def test_an_atoms_index_shows_the_change_beside_the_state(self):
        key = ArrangementKey("r", (1, 0))
        arrangement = Arrangement(key, select_backend("cpu"))
        atom: IncrementalIndex[str] = AtomIndex(AtomUse(1, key, ("y", "x")), arrangement)
        assert [atom.participates_in_level(name) for name in ("x", "y", "z")] == [True, True, False]
        atom.receive_delta([PhaseRows([np.array([1, 2]), np.array([8, 7])], 1)])
        assert atom.accumulated() == ()
        assert [column.tolist() for column in atom.delta(0).columns()] == [[7, 8], [2, 1]]
        assert atom.delta(1) is None
        atom.commit()
        assert atom.delta(0) is None
        assert sum(map(len, atom.accumulated())) == 2

    def test_an_atom_before_the_seed_sees_the_change_and_one_behind_it_does_not(self):
        key = ArrangementKey("r", (0,))
        atom = AtomIndex(AtomUse(1, key, ("x",)), Arrangement(key, select_backend("cpu")))
        atom.receive_delta([PhaseRows([np.array([3])], 1)])
        held = {"x": np.array([3])}
        assert atom.extender(0, seed=2).intersect("x", held).tolist() == [1]
        assert atom.extender(0, seed=0).intersect("x", held).tolist() == [0]

    def test_a_relations_index_passes_a_change_to_every_child(self):
        circuit = circuit_of("h(a, b, c) :- e(a, b), e(b, c).", bag=True)
        relation: IncrementalIndex[int] = circuit.sources["e"]
        children = circuit.sources["e"].arrangements.values()
        assert len(children) == 2
        assert [relation.participates_in_level(column) for column in (-1, 0, 1, 2)] == [False, True, True, False]
        relation.receive_delta([PhaseRows([np.array([1]), np.array([2])], 1)])
        assert [len(child.delta(0)) for child in (relation, *children)] == [1, 1, 1]
        assert [child.accumulated() for child in (relation, *children)] == [(), (), ()]
        relation.commit()
        assert [child.delta(0) for child in (relation, *children)] == [None] * 3
        assert [len(child.accumulated()) for child in (relation, *children)] == [1, 1, 1]


def circuit_of(text, bag):
    rules = parse(text)
    atoms = [atom for rule in rules.rules for atom in (rule.head, *rule.atoms)]
    shapes = {atom.relation: Shape(atom.relation, (False,) * len(atom.terms)) for atom in atoms}
    planned = plan(rules, shapes, lambda relation, column, value: int(value), bag)
    # Any two batches stay apart, so that values in several of them are common.
    return lower(planned, rules, (), rules.heads, Execution(select_backend("cpu"), bag), MergePolicy(ratio=0.001))


def unfused(join, path, phase):
    """{head row: weight} of one delta path, by count, propose and intersect alone."""
    seed = AtomIndex(path.seed, join.arrangements[path.seed.key]).delta(phase)
    if seed is None:
        return {}
    extenders = [AtomIndex(use, join.arrangements[use.key]).extender(phase, path.seed.atom) for use in path.other_atoms]
    conditions = [*path.seed_conditions, *(condition for step in path.steps for condition in step.conditions)]
    everything = [*extenders, *map(ConditionExtender, conditions)]
    bound = dict(zip(path.seed.variables, seed.columns(), strict=True))
    weight = seed.weight_column()
    for extender in extenders:
        if set(extender.variables) <= set(bound):
            weight = weight * extender.intersect(extender.variables[-1], bound)
    for condition in path.seed_conditions:
        weight = weight * ConditionExtender(condition).intersect(condition.variable, bound)
    for step in path.steps:
        name = step.variable
        those = [extender for extender in everything if extender.participates_in_level(name)]
        counts = np.array([extender.count(name, bound, len(weight)) for extender in those])
        smallest = counts.argmin(axis=0)
        assert (counts.min(axis=0, initial=INFINITE) < INFINITE).all()
        parents, values = [arange(0)], [arange(0)]
        for number, extender in enumerate(those):
            own = np.flatnonzero(smallest == number)
            if len(own):
                prefixes = {other: column[own] for other, column in bound.items()}
                parent, value = extender.propose(name, prefixes, len(own))
                parents.append(own[parent])
                values.append(value)
        parent = np.concatenate(parents)
        bound = {other: column[parent] for other, column in bound.items()} | {name: np.concatenate(values)}
        weight = weight[parent]
        for extender in those:
            weight = weight * extender.intersect(name, bound)
        alive = np.flatnonzero(weight)
        bound, weight = {other: column[alive] for other, column in bound.items()}, weight[alive]
    columns = [bound[term].tolist() if isinstance(term, str) else [term] * len(weight) for term in join.query.head]
    return summed(zip(zip(*columns, strict=True), weight.tolist(), strict=True))


def summed(rows):
    total = {}
    for row, weight in rows:
        total[row] = total.get(row, 0) + weight
    return {row: weight for row, weight in total.items() if weight}


def pieces_of(join, phase):
    for piece in join.join(phase):
        weights = [piece.weights] * len(piece) if isinstance(piece.weights, int) else piece.weights.tolist()
        yield from zip(zip(*(column.tolist() for column in piece.columns), strict=True), weights, strict=True)


@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("name", PATTERNS)
def test_a_join_of_verbs_equals_the_fused_one(name, bag):
    text = PATTERNS[name]
    changed = seed = 0
    while seed < 4 or not changed:
        circuit = circuit_of(text, bag)
        (join,) = circuit.heads["h"].joins
        for tick in random_script(random.Random(f"{name} {seed}"), arities(text)):
            for relation, (_, rows) in tick.items():
                if not rows:
                    continue
                source = circuit.sources[relation]
                columns = list(np.array([row for row, _ in rows], np.int64).T)
                weights = np.array([weight for _, weight in rows])
                if bag:
                    phases, _ = bag_change(source, columns, weights)
                else:  # in order, whatever the script says: rows may repeat
                    phases, _ = set_change(source, columns, weights, is_ordered=True)
                source.receive_delta(phases)
            for phase in range(len(circuit.execution.phases)):
                slow = summed(row for path in join.query.paths for row in unfused(join, path, phase).items())
                assert summed(pieces_of(join, phase)) == slow
                changed += len(slow)
            circuit.install(circuit.prepare())
        seed += 1
