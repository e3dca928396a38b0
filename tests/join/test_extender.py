"""The three verbs, and a generic join that is nothing but them: it equals the fused one, step by step."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.errors import CalculationError
from gpu_wcoj.functions import Calculation
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.extender import (
    INFINITE,
    AtomExtender,
    AtomIndex,
    CalculationExtender,
    CheckExtender,
    IncrementalIndex,
    RangeExtender,
    bind_step,
    bind_variable,
    extenders_of,
)
from gpu_wcoj.join.generic import GenericJoin
from gpu_wcoj.join.plan import Absent, AtomUse, Condition
from gpu_wcoj.join.prefixes import Prefixes, concatenate
from gpu_wcoj.join.seeds import bind_seeds
from gpu_wcoj.join.settings import Execution
from gpu_wcoj.kernels.protocol import SUM_OF_MINIMA
from gpu_wcoj.planner.body import Shape
from gpu_wcoj.planner.lower import lower, make_setting, plan
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import MergePolicy
from gpu_wcoj.zset.index import IndexedZSet
from tests.helpers.answers import named
from tests.helpers.comparison import arities, fed, random_script, translated
from tests.helpers.join_patterns import PATTERNS
from tests.helpers.kernel_kinds import Kind, needed
from tests.helpers.long_tests import IS_LONG
from tests.reference.random_programs import random_rules, random_text

BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
PREDICATES = {
    "less": "h(x, y, z) :- e(x, y), e(y, z), x < z.",
    "not equal": "h(x, y, z) :- e(x, y), e(y, z), x != z.",
    "chain": "h(x, y, z) :- e(x, y), e(y, z), e(x, z), x <= y, y > z, x >= 0, z != 1.",
    "range": "h(x, y, z) :- e(x, y), e(y, z), f(x, z), z >= 0, z <= x.",
    "sum": "h(x, y, z) :- e(x, y), f(y, w), e(x, z), z = x + w.",
    "solved sum": "h(x, y, z) :- e(x, y), f(z, z), y = x + z.",
    "absent": "h(x, y, z) :- e(x, y), e(y, z), !e(x, z), !u(z).",
    "absent sum": "h(x, y) :- e(x, y), e(y, z), w = x + z, w < 5, !u(w).",
}


def table(values, weights=None):
    """Prefixes of which no atom has a position yet."""
    columns = {name: np.array(column, np.int64) for name, column in values.items()}
    n = len(next(iter(columns.values())))
    weights = None if weights is None else np.array(weights, np.int64)
    return Prefixes(tuple(columns), columns, weights, (), np.empty((0, n), np.int64))


def index(rows, weights=None):
    return IndexedZSet.from_columns(list(np.array(rows, np.int64).T), weights and np.array(weights))


@pytest.fixture
def two_batches():
    """r(x, y, z): 1 has the y 5, 6 and 7; (1, 6, 0) has cancelled; (1, 7, 0) weighs 5."""
    old = index([(1, 5, 0), (1, 6, 0), (1, 7, 0), (2, 5, 9)], [1, 1, 2, 1])
    new = index([(1, 6, 0), (1, 7, 0), (4, 4, 4)], [-1, 3, 1])
    use = AtomUse(0, ArrangementKey("r", (0, 1, 2)), ("x", "y", "z"))
    return AtomExtender(GenericJoin({0: use}, {0: (old, new)}, True, frozenset("xyz"), cpu_backend()), use)


def descended(extender, *names, **values):
    """Positions of these values in the batches, and the prefixes that are in one."""
    rows, prefixes = np.arange(len(values["x"])), table(values)
    for name in names:
        kept, prefixes = extender.intersect(name, prefixes)
        rows = rows[kept]
    return rows.tolist(), prefixes


def proposed(extender, name, prefixes):
    parent, extended = extender.propose(name, prefixes)
    return list(zip(parent.tolist(), extended.values[name].tolist(), strict=True))


class TestVerbs:
    def test_levels(self, two_batches):
        levels = [two_batches.participates_in_level(name) for name in ("x", "y", "z", "w")]
        assert levels == [True, True, True, False]

    def test_count_adds_the_widths_of_all_batches(self, two_batches):
        assert two_batches.count("x", table({"a": [0, 0]})).tolist() == [4, 4]
        rows, prefixes = descended(two_batches, "x", x=[1, 2, 3, 4])
        assert rows == [0, 1, 3]
        assert two_batches.count("y", prefixes).tolist() == [5, 1, 1]
        _, prefixes = descended(two_batches, "x", "y", x=[1, 1], y=[7, 8])
        assert two_batches.count("z", prefixes).tolist() == [2]

    def test_a_value_in_several_batches_is_proposed_once(self, two_batches):
        _, prefixes = descended(two_batches, "x", x=[2, 3, 1])
        assert proposed(two_batches, "y", prefixes) == [(0, 5), (1, 5), (1, 6), (1, 7)]
        assert proposed(two_batches, "x", table({"a": [0]})) == [(0, 1), (0, 2), (0, 4)]

    def test_the_last_variable_brings_the_sum_of_the_weights(self, two_batches):
        rows, prefixes = descended(two_batches, "x", "y", x=[1, 1, 1, 3, 2], y=[5, 6, 7, 5, 5], z=[0, 0, 0, 0, 9])
        assert rows == [0, 1, 2, 4]
        assert prefixes.weights is None
        prefixes = replace(prefixes, weights=np.array([1, 1, 1, 10]))
        kept, extended = two_batches.intersect("z", prefixes)
        assert (kept.tolist(), extended.weights.tolist()) == ([0, 2, 3], [1, 5, 10])
        parent, extended = two_batches.propose("z", replace(prefixes, values={}))
        assert (parent.tolist(), extended.weights.tolist()) == ([0, 2, 3], [1, 5, 10])

    def test_nothing_is_left_in_the_right_shape(self, two_batches):
        rows, prefixes = descended(two_batches, "x", x=[7, 8])
        assert (rows, len(prefixes), prefixes.layout) == ([], 0, ((0, 1),))
        assert two_batches.count("y", prefixes).tolist() == []
        assert proposed(two_batches, "y", prefixes) == []

    def test_a_range_proposes_where_both_ends_are_known(self):
        join = GenericJoin({}, {}, False, frozenset("xy"), cpu_backend())
        prefixes = table({"x": [5, -(2**63), 2**63 - 1]})
        below, equal = (RangeExtender(join, (Condition("y", op, "x"),)) for op in ("<", "="))
        assert [below.participates_in_level(name) for name in ("x", "y")] == [False, True]
        assert below.count("y", prefixes).tolist() == [INFINITE, 0, INFINITE]
        assert proposed(equal, "y", prefixes) == [(0, 5), (1, -(2**63)), (2, 2**63 - 1)]
        different = RangeExtender(join, (Condition("y", "!=", "x"),))
        assert different.count("y", prefixes).tolist() == [INFINITE] * 3
        assert different.intersect("y", table({"x": [0, 0], "y": [0, 1]}))[0].tolist() == [1]

    def test_a_negated_atom_only_intersects(self):
        check = Absent(AtomUse(-1, ArrangementKey("n", (0,)), ("x",)), ("x",))
        negated = {-1: (index([(1,), (2,)], [1, -1]),)}
        absent = CheckExtender(GenericJoin({}, {}, True, frozenset("x"), cpu_backend(), negated=negated), check)
        prefixes = table({"x": [1, 2, 3]})
        assert [absent.participates_in_level(name) for name in ("x", "y")] == [True, False]
        assert absent.count("x", prefixes).tolist() == [INFINITE] * 3
        assert absent.intersect("x", prefixes)[0].tolist() == [1, 2]
        with pytest.raises(NotImplementedError, match="CheckExtender proposes no values of 'x'"):
            absent.propose("x", prefixes)

    def test_a_calculation_proposes_its_result_and_intersects_with_it(self):
        join = GenericJoin({}, {}, True, frozenset("xyz"), cpu_backend())
        divided = CalculationExtender(join, Calculation("z", "/", ("x", "y"), ("integer",) * 2, "integer"))
        values = {"x": [7, 7, 7], "y": [2, 0, 7]}
        assert [divided.participates_in_level(name) for name in ("x", "z")] == [False, True]
        assert divided.count("z", table(values)).tolist() == [1, 1, 1]
        assert proposed(divided, "z", table(values)) == [(0, 3), (2, 1)]
        assert [bool(failed) for failed in join.failed] == [True]
        rows, kept = divided.intersect("z", table({**values, "z": [3, 3, 3]}))
        assert (rows.tolist(), kept.values["z"].tolist()) == ([0], [3])


def test_the_smallest_proposes_for_each_prefix():
    """1 has three values in r and one in s; 2 has one in r and three in s."""
    batches = {0: (index([(1, 5), (1, 6), (1, 7), (2, 5)]),), 1: (index([(1, 6), (2, 4), (2, 5), (2, 6)]),)}
    uses = {atom: AtomUse(atom, ArrangementKey("rs"[atom], (0, 1)), ("x", "y")) for atom in batches}
    join = GenericJoin(uses, batches, False, frozenset("xy"), cpu_backend())
    n_proposed = []

    class Recorded(AtomExtender):
        def propose(self, variable, prefixes):
            extended = super().propose(variable, prefixes)
            n_proposed.append(len(extended[1]))
            return extended

    extenders = [Recorded(join, use) for use in uses.values()]
    _, prefixes = bind_variable("x", extenders, table({"x": [2, 1, 3]}))
    assert prefixes.values["x"].tolist() == [2, 1]
    parent, extended = bind_variable("y", extenders, prefixes)
    assert (parent.tolist(), extended.values["y"].tolist()) == ([0, 1], [5, 6])
    assert n_proposed == [1, 1]


class TestIndices:
    def test_an_atoms_index_shows_the_change_beside_the_state(self):
        key = ArrangementKey("r", (1, 0))
        arrangement = Arrangement(key, cpu_backend())
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
        atom = AtomIndex(AtomUse(1, key, ("x",)), Arrangement(key, cpu_backend()))
        atom.receive_delta([PhaseRows([np.array([3])], 1)])
        for seed, kept in ((2, [0]), (0, [])):
            extender = atom.extender(0, seed)
            assert extender.count("x", table({"a": [0]})).tolist() == [len(kept)]
            assert extender.intersect("x", table({"x": [3]}))[0].tolist() == kept

    def test_a_relations_index_passes_a_change_to_every_child(self):
        circuit = circuit_of("h(a, b, c) :- e(a, b), e(b, c).")
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


def circuit_of(text):
    rules = parse(text)
    atoms = [atom for rule in rules.rules for atom in (rule.head, *rule.atoms)]
    shapes = {atom.relation: Shape(atom.relation, (False,) * len(atom.terms)) for atom in atoms}
    planned = plan(rules, make_setting(rules, shapes, lambda relation, column, value: int(value), True))
    # Any two batches stay apart, so that values in several of them are common.
    return lower(planned, rules, (), rules.heads, Execution(cpu_backend(), True), MergePolicy(ratio=0.001))


def table_of(join, parent, prefixes, names):
    """The layout, and per row its parent, values, weight and positions, sorted: values of a parent have no order."""
    xp, rows_of = join.backend.xp, join.position_rows(prefixes.layout)
    weights = xp.ones(len(prefixes), np.int64) if prefixes.weights is None else prefixes.weights
    columns = [parent, *(prefixes.values[name] for name in sorted(names)), weights]
    columns += [prefixes.positions[row] for atom in sorted(rows_of) for row in rows_of[atom]]
    rows = sorted(zip(*(join.backend.to_host(column).tolist() for column in columns), strict=True))
    return sorted(prefixes.layout), rows


def check_steps(joined, phase, seen):
    """Compare the verbs with the fused kernel at every step of every delta path, for this tick's prefixes."""
    failed = list(joined.failed)
    for path_index, path in enumerate(joined.query.paths):
        for variant, way in enumerate((path, *path.variants)):
            join = joined.generic_join(path_index, phase, variant)
            if join is None:
                continue
            prefixes = bind_seeds(way, joined.seeds_of(path_index, phase, join), join)
            for step in way.steps:
                joined.failed.clear()
                pieces = list(join.extend(prefixes, step))
                fused_failed = any(joined.failed)
                joined.failed.clear()
                parent, extended = bind_step(join, prefixes, step)
                assert any(joined.failed) == fused_failed
                if not pieces:
                    assert len(parent) == len(extended) == 0
                    break
                fused = concatenate([piece for _, piece in pieces], join.backend.xp)
                fused_parent = join.backend.xp.concatenate([parent for parent, _ in pieces])
                assert bool((parent[1:] >= parent[:-1]).all())
                found = table_of(join, parent, extended, fused.values)
                assert found == table_of(join, fused_parent, fused, fused.values), (way, step)
                assert extended.order == fused.order
                check_minima(join, prefixes, step)
                count_kinds(join, step, len(parent), seen)
                prefixes = fused
    joined.failed[:] = failed


def check_minima(join, prefixes, step):
    """The kernel's count of what the narrowest atoms propose is the sum of the smallest of the verb's counts."""
    if not step.is_lookup and not step.conditions:
        before = join.work_of(step).copy()
        for _ in join.extend(prefixes, step):
            pass
        counts = [AtomExtender(join, join.uses[atom]).count(step.variable, prefixes) for atom in step.atoms]
        smallest = join.backend.xp.stack(counts).min(axis=0).sum()
        assert int((join.work_of(step) - before)[SUM_OF_MINIMA]) == int(smallest)


def count_kinds(join, step, n, seen):
    """Add what a step with `n` results had, so that a test can tell that it saw all of it."""
    levels = extenders_of(join, step)
    for variable, extenders in levels:
        assert all(extender.participates_in_level(variable) for extender in extenders[:1])
        seen.update(type(extender).__name__ for extender in extenders if n)
    seen["several atoms"] += n and len(step.atoms) > 1
    seen["lookup"] += n and step.is_lookup
    seen["several batches"] += n and any(len(join.batches[atom]) > 1 for atom in step.atoms)
    seen["negated"] += n and any(isinstance(check, Absent) for check in step.checks)


@pytest.fixture
def seen(monkeypatch):
    """Every join that runs is checked step by step; what the steps had."""
    seen: Counter[str] = Counter()
    run = IncrementalGenericJoin.join

    def checked(joined, phase, paths=None):
        check_steps(joined, phase, seen)
        return run(joined, phase, paths)

    monkeypatch.setattr(IncrementalGenericJoin, "join", checked)
    # Any two batches stay apart, so that values in several of them are common.
    monkeypatch.setattr(MergePolicy, "__init__", keep_batches(MergePolicy.__init__))
    return seen


def keep_batches(make):
    return lambda policy, *given, **options: make(policy, *given, **{**options, "ratio": 0.001})


def run_script(rules, inputs, script, kind, bag, **options):
    program = gw.Program(rules, bag=bag, backend=kind.backend(), inputs=named(rules), **options)
    for tick in script:
        with suppress(CalculationError):
            program.step({name: fed(change, inputs[name]) for name, change in tick.items()})


@pytest.fixture(params=["numba", "numpy"])
def host_kind(request):
    """Both kernels of the CPU; the shim takes too long for random programs."""
    return needed(request.param)


def is_enough(seen, *names):
    return min(seen[name] for name in names) >= 3


@pytest.mark.drawn("bag", "kind", share=3)
@BAGS
@pytest.mark.parametrize("name", PREDICATES)
def test_verbs_equal_the_fused_kernel_with_conditions(name, bag, kind, seen):
    text = PREDICATES[name]
    inputs = {relation: 1 if relation == "u" else 2 for relation in parse(text).inputs}
    for seed in range(20 if IS_LONG else 4):
        run_script(text, inputs, random_script(random.Random(f"{name} {seed}"), inputs), kind, bag)


@pytest.mark.drawn("bag", "name", share=6)
@BAGS
@pytest.mark.parametrize("name", PATTERNS)
def test_verbs_equal_the_fused_kernel_on_patterns(name, bag, seen):
    for seed in range(8 if IS_LONG else 2):
        script = random_script(random.Random(f"{name} {seed}"), arities(PATTERNS[name]))
        run_script(PATTERNS[name], arities(PATTERNS[name]), script, Kind("numba"), bag)


@pytest.mark.drawn("bag")
@BAGS
def test_verbs_equal_the_fused_kernel_on_random_programs(bag, host_kind, seen):
    seed = 0
    while seed < (120 if IS_LONG else 5) or not is_enough(seen, "RangeExtender", "several atoms", "lookup"):
        text = random_text(random.Random(seed))
        script = translated(random_script(random.Random(seed), arities(text)), {0: None} if seed % 5 == 0 else {})
        script = script if IS_LONG else script[:4]
        run_script(text, arities(text), script, host_kind, bag, chunk_rows=(None, 1, 7)[seed % 3])
        seed += 1


@pytest.mark.drawn("bag")
@BAGS
def test_verbs_equal_the_fused_kernel_on_random_rules_in_core_form(bag, host_kind, seen):
    seed = 0
    while seed < (240 if IS_LONG else 8) or not is_enough(seen, "CalculationExtender", "negated"):
        rules = random_rules(random.Random(seed))
        script = random_script(random.Random(seed), arities(rules))
        run_script(rules, arities(rules), script, host_kind, bag)
        seed += 1
