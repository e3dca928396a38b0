"""What rules derive that is not known: against all bindings, tried one by one."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.recursion import semi_naive
from gpu_wcoj.circuit.recursion.semi_naive import StoredRows, find_new_rows
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.settings import Execution
from gpu_wcoj.planner.body import Shape, normalise
from gpu_wcoj.planner.lower import delta_query
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import Rule, Variable
from gpu_wcoj.trace.arrangement import COMPARE, Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.zset.index import IndexedZSet
from tests.helpers.kernel_kinds import Kind, needed
from tests.helpers.long_tests import IS_LONG

Row = tuple[int, ...]

ORDERS = ("the head's", "all", "another")
RULES = {
    "linear": "h(x, z) :- h(x, y), e(y, z).",
    "not linear": "h(x, z) :- h(x, y), h(y, z).",
    "reversed": "h(z, x) :- h(y, x), e(y, z).",
    "two rules": "h(x, z) :- h(x, y), e(y, z). h(x, z) :- h(x, y), f(z, y).",
    "same generation": "h(x, y) :- e(z, x), h(z, w), e(w, y).",
    "three columns": "q(x, r, z) :- h(x, y), q(y, r, z). q(x, s, z) :- q(x, r, z), e(r, s).",
    "triangle": "q(x, e, o) :- q(x, y, z), t(y, u, e), q(z, u, o).",
    "an intersection last": "h(x, z) :- h(x, y), e(y, z), f(x, z).",
    "an intersection before": "h(x, z) :- t(y, w, z), h(x, w), h(x, y).",
    "one column": "a(y) :- a(x), e(x, y).",
    "a cross product": "h(x, z) :- h(x, y), a(z), e(y, y).",
    "what is last is not kept": "a(x) :- h(x, y), e(y, z), e(z, w).",
    "constants": "q(x, 3, z) :- h(x, y), e(y, z). q(2, y, z) :- e(y, x), h(x, z).",
    "repeated in the head": "q(x, z, z) :- h(x, y), e(y, z).",
    "compared": "h(x, z) :- h(x, y), e(y, z), x < z. h(x, z) :- e(x, y), x != 2, h(y, z).",
    "nothing but the change": "h(y, x) :- e(x, y).",
    "a chain": "h(x, z) :- e(x, y), e(y, w), h(w, v), e(v, z).",
}


@pytest.fixture(params=["numba", "numpy", "shim"])
def backend(request: pytest.FixtureRequest) -> Backend:
    return needed(request.param).backend(len(request.node.name))


class Question:
    """Rules of one head over random relations, some of whose rows are this tick's."""

    def __init__(self, text: str, seed: int, values: Sequence[int], n_rows: int) -> None:
        rng = random.Random(f"{text} {seed}")
        self.rules = parse(text).rules
        atoms = [atom for rule in self.rules for atom in (rule.head, *rule.atoms)]
        self.arity = {atom.relation: len(atom.terms) for atom in atoms}
        self.rng = rng
        self.values = values
        self.old = {name: self.random_rows(name, n_rows) for name in self.arity}
        self.new = {name: self.random_rows(name, n_rows // 2) - self.old[name] for name in self.arity}
        self.head = self.rules[0].head.relation
        self.known = self.old[self.head] | set(rng.sample(sorted(self.derived()), len(self.derived()) // 3))

    def random_rows(self, name: str, n: int) -> set[Row]:
        return {tuple(self.rng.choice(self.values) for _ in range(self.arity[name])) for _ in range(n)}

    def derived(self) -> set[Row]:
        """The heads of all bindings with at least one row of this tick."""
        return {row for rule in self.rules for row in self._derived(rule)}

    def _derived(self, rule: Rule) -> set[Row]:
        bindings: list[tuple[dict[Variable, int], bool]] = [({}, False)]
        for atom in rule.atoms:
            rows = [(row, False) for row in self.old[atom.relation]] + [(row, True) for row in self.new[atom.relation]]
            longer = []
            for (bound, fresh_one), (row, is_new) in itertools.product(bindings, rows):
                own = dict(bound)
                if all(own.setdefault(term, code) == code for term, code in zip(atom.terms, row, strict=True)):
                    longer.append((own, fresh_one or is_new))
            bindings = longer

        def code(term: object, bound: dict[Variable, int]) -> int:
            return bound[term] if isinstance(term, Variable) else term.value  # type: ignore[attr-defined]

        return {
            tuple(code(term, bound) for term in rule.head.terms)
            for bound, is_new in bindings
            if is_new and all(COMPARE[c.op](code(c.left, bound), code(c.right, bound)) for c in rule.comparisons)
        }

    def joins(self, backend: Backend, threads: int, dead: bool) -> list[IncrementalGenericJoin]:
        """The rules' joins; with `dead` rows that have come and gone stand in the state."""
        shapes = {name: Shape(name, (False,) * arity) for name, arity in self.arity.items()}
        execution = Execution(backend, False, 64, threads)
        bodies = [normalise(rule, shapes, {}, lambda relation, column, value: int(str(value))) for rule in self.rules]
        queries = [delta_query(body) for body in bodies]
        held: dict[ArrangementKey, Arrangement] = {}
        for key in (key for query in queries for key in query.keys):
            if key not in held:
                held[key] = self._arrangement(key, backend, dead)
        return [IncrementalGenericJoin(query, held, execution) for query in queries]

    def _arrangement(self, key: ArrangementKey, backend: Backend, dead: bool) -> Arrangement:
        arrangement = Arrangement(key, backend)
        rows = sorted(self.old[key.relation])
        parts = [(rows[::2], 1), (rows[1::2], 1)]
        if dead:
            gone = sorted(self.random_rows(key.relation, 9) - set(rows))
            parts = [(sorted({*rows[::2], *gone}), 1), (gone, -1), (rows[1::2], 1)]
        for part, sign in parts:
            batch = arrangement.index(PhaseRows(self.columns(part, self.arity[key.relation], backend), sign))
            arrangement.spine = type(arrangement.spine)((*arrangement.spine.batches, *[batch] * (len(batch) > 0)))
        new = self.columns(sorted(self.new[key.relation]), self.arity[key.relation], backend)
        arrangement.receive_delta([PhaseRows([column[:0] for column in new], -1), PhaseRows(new, 1)])
        return arrangement

    @staticmethod
    def columns(rows: Sequence[Row], arity: int, backend: Backend):
        return [backend.asarray(np.array([row[i] for row in rows], np.int64)) for i in range(arity)]

    def known_in(self, order: tuple[int, ...], backend: Backend, ranked: bool) -> list[IndexedZSet]:
        """What is known in an order of the head's columns, in two batches, perhaps with one more level."""
        batches = []
        for part in (sorted(self.known)[::3], sorted(self.known)[1::3], sorted(self.known)[2::3], []):
            rows = sorted((*(row[i] for i in order), *[sum(row) % 5] * ranked) for row in part)
            columns = self.columns(rows, len(order) + ranked, backend)
            batches.append(IndexedZSet.from_sorted(columns, 1, backend))
        return batches

    def check(self, found, backend: Backend) -> None:
        assert all(column.dtype == np.int64 for column in found)
        rows = list(zip(*(backend.to_host(column).tolist() for column in found), strict=True))
        assert rows == sorted(self.derived() - self.known)


def knowns(question: Question, backend: Backend, orders: str) -> StoredRows:
    identity = tuple(range(question.arity[question.head]))
    every = {"the head's": [identity], "all": list(itertools.permutations(identity)), "another": [identity[::-1]]}
    return {order: question.known_in(order, backend, ranked=orders == "all") for order in every[orders]}


@pytest.mark.drawn("orders", "name", share=12)
@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("name", RULES)
def test_rules(name, orders, backend):
    for seed in range(3) if IS_LONG else [ORDERS.index(orders)]:
        values = [range(6), range(-(2**62), 2**62, 2**60), range(40)][seed]
        question = Question(RULES[name], seed, values, 25)
        joins = question.joins(backend, 1, dead=seed == 1)
        question.check(find_new_rows(joins, 1, knowns(question, backend, orders)), backend)
        assert all(column.shape == (0,) for column in find_new_rows(joins, 0, knowns(question, backend, orders)))


@pytest.mark.drawn("threads", "name", share=8)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", RULES)
def test_in_pieces(name, threads, backend, monkeypatch):
    """Blocks, pieces and portions end anywhere."""
    for constant, size in {
        "PORTION": 20,
        "SPLIT_FROM": 4,
        "MIN_BLOCK_SEEDS": 3,
        "MAX_BLOCK_SEEDS": 7,
        "FEW_SEEDS": 0,
    }.items():
        monkeypatch.setattr(semi_naive, constant, size)
    question = Question(RULES[name], 7, range(7), 20)
    joins = question.joins(backend, threads, dead=False)
    for join in joins:
        join.execution.chunk_rows = 5
        join.execution.begin()
    question.check(find_new_rows(joins, 1, knowns(question, backend, "all")), backend)


@pytest.mark.parametrize("name", ["linear", "not linear", "nothing but the change"])
def test_one_rule(name, backend):
    question = Question(RULES[name], 3, range(9), 60)
    (join,) = question.joins(backend, 1, dead=False)
    question.check(find_new_rows([join], 1, {(0, 1): question.known_in((0, 1), backend, ranked=True)}), backend)
    question.known = set()
    question.check(find_new_rows([join], 1, {(0, 1): []}), backend)


def test_a_hub_takes_memory_for_what_is_new_only():
    """A thousand ways to each of ten thousand rows."""
    import tracemalloc

    text, n = "a(y) :- a(x), e(x, y).", 3000
    backend = Kind("numba").backend()
    question = Question(text, 0, range(3), 0)
    (join,) = question.joins(backend, 1, dead=False)
    edges = [np.repeat(np.arange(1000), n), np.tile(np.arange(n), 1000)]
    for use, arrangement in join.arrangements.items():
        rows = edges if use.relation == "e" else [np.empty(0, np.int64)]
        arrangement.receive_delta([PhaseRows(rows, 1)])
        arrangement.commit()
        new = [column[:0] for column in edges] if use.relation == "e" else [np.arange(1000)]
        arrangement.receive_delta([PhaseRows([column[:0] for column in new], -1), PhaseRows(new, 1)])
    find_new_rows([join], 1, {(0,): []})
    tracemalloc.start()
    (found,) = find_new_rows([join], 1, {(0,): []})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.tolist() == list(range(n))
    assert peak < 4_000_000
