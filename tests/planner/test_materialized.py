"""Answers are the same with and without auxiliary relations."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gpu_wcoj as gw
from bench.suite.random_queries import random_query
from gpu_wcoj.circuit import head
from gpu_wcoj.circuit.head import AuxiliaryHead
from gpu_wcoj.errors import AuxiliaryError, UnknownRelationError
from gpu_wcoj.join.settings import tune
from gpu_wcoj.kernels.protocol import PROPOSALS, Int64Array
from gpu_wcoj.planner import replan
from gpu_wcoj.planner.catalog import Catalog
from gpu_wcoj.planner.ir import Draft
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.planner.passes import share
from tests.helpers.kernel_kinds import QUICK_KINDS
from tests.helpers.long_tests import IS_LONG
from tests.helpers.materialized_homes import NAME, TEXT, Tick, changes, kept, world
from tests.helpers.random_duckdb_queries import N_TICKS, Judge, check, random_script, rows_for
from tests.reference.program_text import written

N_QUERIES = 1000 if IS_LONG else 60


@pytest.fixture
def forced(monkeypatch):
    """Let the planner create every possible auxiliary relation."""
    for name, value in {"KEY": 0.0, "SMALL": float("inf"), "USES": 1, "MIN_ROWS": 0}.items():
        monkeypatch.setattr(share, name, value)


def proposals(program: gw.Program) -> int:
    rules = (rule for head in program.last_tick.work.values() for rule in head.values())
    return sum(int(counted[PROPOSALS]) for rule in rules for path in rule.values() for counted in path.values())


@pytest.mark.parametrize("textual", [False, True], ids=["integers", "text"])
def test_random_queries(forced, monkeypatch, textual):
    """Heads keep one or two variables, nulls occur, and answers equal DuckDB's."""
    chance, used = random.Random(f"{textual}"), []
    grown = share._with_more_auxiliaries

    def noted(draft: Draft) -> Draft:
        found = grown(draft)
        used.append(found is not draft)
        return found

    monkeypatch.setattr(share, "_with_more_auxiliaries", noted)
    judge, counted = Judge(), Counter[bool]()
    queries = [
        replace(one, head=one.head[: chance.choice((1, 1, 2))])
        for one in map(random_query, range(N_QUERIES))
        if one.is_textual == textual
    ]
    for n_rows in sorted(set(map(rows_for, queries))):
        script = random_script(chance, n_rows, bag=True, textual=textual, nulls=n_rows % 2 == 0)
        judge.load(script, [N_TICKS - 1], bag=True, textual=textual)
        for number, query in enumerate(one for one in queries if rows_for(one) == n_rows):
            used.clear()
            options: dict[str, Any] = {"threads": 1, "chunk_rows": (None, 1, 7)[number % 3]}
            check(judge, query, script, [N_TICKS - 1], bag=True, backend="cpu", **options)
            counted[any(used)] += 1
    judge.connection.close()
    assert counted[True] > len(queries) // 5


def together(text: str, state: Tick, n_ticks: int = 3, **options: Any) -> gw.Program:
    """The program, whose changes are found to be those of one that keeps nothing for its rules."""
    program, plain = gw.Program(text, bag=True, **options), gw.Program(text, bag=True, strategy="wcoj")
    for tick in (state, *changes(state, n_ticks)):
        expected = {name: one.rows() for name, one in plain.step(tick).items()}
        assert {name: one.rows() for name, one in program.step(tick).items()} == expected
    return program


def test_what_is_renamed_is_what_it_was():
    """Atoms over a renaming have the columns of its relation in another order."""
    homes = "lives(a, x), city(x, k), lives(b, y), city(y, k), sevil(z, c), city(z, k), sevil(w, d), city(w, k)"
    text = f"sevil(x, a) :- lives(a, x). near(a) :- knows(a, b), knows(b, c), knows(c, d), {homes}. .output near"
    assert kept(together(text, world(60, 20, 3, 400))) == [NAME]


def test_what_is_selected_is_another_relation():
    """Comparisons are pushed down into atoms; those of the same relation may differ in nothing else."""
    homes = ", ".join(f"{'old' if name < 'c' else 'lives'}({name}, {name}x), city({name}x, k)" for name in "abcd")
    text = f"old(a, x) :- lives(a, x), a < 30. near(a) :- knows(a, b), knows(b, c), knows(c, d), {homes}. .output near"
    program = together(text, world(60, 20, 3, 400))
    assert kept(program) == ["(lives where #0 < 30)[1, 0]*city[0, 1]", NAME]


@QUICK_KINDS
@pytest.mark.parametrize("way", ["step", "step_counts", "load"])
def test_the_same_answers_as_without(kind, way):
    state = world(200, 60, 5, 1500)
    program = gw.Program(TEXT, bag=True, keep=["near"], backend=kind.backend())
    plain = gw.Program(TEXT, bag=True, backend="cpu", strategy="wcoj")
    program.load(state)
    plain.load(state)
    assert kept(program) == [NAME]
    assert not kept(plain)
    for tick in changes(state, 6):
        found = getattr(program, way)(tick)
        expected = plain.step(tick)["near"]
        if way == "step":
            assert found["near"].rows() == expected.rows()
        elif way == "step_counts":
            assert found["near"].net == sum(weight for _, weight in expected.rows())
        assert program.relation("near").rows() == plain.relation("near").rows()
        assert program.count("near") == plain.count("near")
    assert kept(program) == [NAME]


def test_less_is_looked_at():
    state = world()
    program, plain = (gw.Program(TEXT, bag=True, strategy=one, threads=1) for one in ("auto", "wcoj"))
    done = []
    for one in (program, plain):
        one.load(state)
        done.append(0)
        for tick in changes(state, 5):
            one.step_counts(tick)
            done[-1] += proposals(one)
    assert 3 * done[0] < done[1]


def test_explain_says_what_is_kept():
    program = gw.Program(TEXT, bag=True)
    assert NAME not in program.explain()
    program.step(world())
    said = program.explain(analyze=True)
    assert f"{NAME}   (kept for the rules, which read it in place of city and lives)" in said
    assert program.relation("near").rows() == gw.query(TEXT, world(), bag=True).rows(weights=True)
    with pytest.raises(UnknownRelationError):
        program.relation(NAME)


def test_explain_foresees_what_will_be_kept(tmp_path):
    """By statistics of relations, before there is a row; columns are called as where they come from."""
    tables = {name: {"a": rows[:, 0], "b": rows[:, 1]} for name, rows in world().items()}
    program = gw.Program(TEXT, bag=True)
    program.load(tables)
    Catalog.of_circuit(program._ledger.lowered.circuit).write(tmp_path)  # type: ignore[union-attr]
    said = gw.Program(TEXT, bag=True).explain(statistics=tmp_path, bounds=True)
    assert f"{NAME}   (kept for the rules, which read it in place of city and lives)" in said
    program._ledger.keeps = False
    program.load({"city": [((10_000, None), 1)]})
    before, _, shown = program.explain().partition("\nlast tick: ")  # which tells why that tick began as no small one
    assert NAME not in before + shown.partition("\n")[2]
    assert f"{NAME}[b, a]" in program.explain(statistics=tmp_path)


def test_not_for_sets_hints_strategies_or_shared_work():
    state = world()
    for options in ({}, {"bag": True, "order": {"near": ["b"]}}, {"bag": True, "strategy": "binary"}):
        program = gw.Program(TEXT, **options)  # type: ignore[arg-type]
        program.load(state)
        assert not kept(program)
    halves = [gw.Program(TEXT, bag=True) for _ in range(2)]
    for number, half in enumerate(halves):
        half.share_work(number, 2)
    whole = gw.Program(TEXT, bag=True).step_counts(state)["near"].net
    assert sum(half.step_counts(state)["near"].net for half in halves) == whole
    assert not any(map(kept, halves))


@pytest.mark.parametrize("seed", range(6 if IS_LONG else 2))
def test_plans_with_and_without_follow_each_other(monkeypatch, tmp_path, seed):
    """Before every tick chance keeps it or not; checkpoints are written and read under either."""
    chance = random.Random(seed)
    monkeypatch.setattr(replan.Feedback, "observe", lambda self, *_: setattr(self, "is_due", True))
    state = world(150, 40, 4, 900, seed)
    text = TEXT + "pair(a, b) :- knows(a, b), near(a), lives(a, x), city(x, k), lives(b, y), city(y, k)."
    program = gw.Program(text, bag=True, keep=["pair"])
    plain = gw.Program(text, bag=True, strategy="wcoj", replan=None)
    program.load(state)
    plain.load(state)
    seen = set()
    for number, tick in enumerate(changes(state, 12, seed)):
        if number == 4:
            tick["city"] += [((10_000, None), 1)]  # type: ignore[list-item]
        program._ledger.keeps = chance.random() < 0.5
        found, expected = program.step(tick), plain.step(tick)
        seen.add(bool(kept(program)))
        for name in ("near", "pair"):
            assert program.relation(name).rows() == plain.relation(name).rows()
        assert {name: one.rows() for name, one in found.items()} == {n: one.rows() for n, one in expected.items()}
        if chance.random() < 0.6:
            program.checkpoint(tmp_path / "state")
            again = gw.Program.restore(tmp_path / "state")
            assert again.relation("pair").rows() == plain.relation("pair").rows()
            if chance.random() < 0.5:
                program = again
    assert seen == {False, True}


def test_a_tick_that_fails_leaves_the_kept_relation(monkeypatch):
    state = world()
    program = gw.Program(TEXT, bag=True)
    program.load(state)
    before = program.relation("near").rows()

    def fail(*_: object) -> Plan:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(program._ledger), "commit", fail)
        with pytest.raises(KeyboardInterrupt):
            program.step({"lives": [((0, 10_001), 5)], "knows": [(0, 1), (1, 0), (0, 0)]})
    assert program.relation("near").rows() == before
    plain = gw.Program(TEXT, bag=True, strategy="wcoj")
    plain.load(state)
    for tick in changes(state, 2):
        assert program.step(tick)["near"].rows() == plain.step(tick)["near"].rows()


@pytest.fixture
def forced_splits(monkeypatch):
    """Let the planner join every possible pair of atoms beforehand, whatever it costs."""
    costs = {"MIN_SPLIT_COST": 0, "SPLIT_GAIN": 1e-9, "MIN_SPLIT_ATOMS": 2, "MAX_FILLING": float("inf")}
    for name, value in costs.items():
        monkeypatch.setattr(share, name, value)


@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
def test_random_queries_over_joined_pairs(forced_splits, monkeypatch, bag):
    """A query that runs once has the same answer with and without; one seed after the other."""
    used, split = list[bool](), share._split

    def noted(draft: Draft, rule_draft: Any) -> Any:
        found = split(draft, rule_draft)
        used.append(found is not None)
        return found

    monkeypatch.setattr(share, "_split", noted)
    n_joined = 0
    for seed in range(N_QUERIES):
        query = replace(random_query(seed), is_textual=False)
        query = replace(query, head=query.head[: 1 + seed % 2])
        chance, arities = np.random.default_rng(seed), written(query.text).arities
        rows = {name: chance.integers(0, 6, (30, arities[name])) for name in query.inputs}
        answers = []
        used.clear()
        for off in (frozenset[str](), frozenset({"joined pairs"})):
            with tune(off=off):
                program = gw.Program(query.text, bag=bag, backend="cpu", single_tick=True)
                answers.append(program.answer(rows)["h"].rows())
        assert answers[0] == answers[1], f"seed {seed}: {query.text}"
        n_joined += any(used)
    assert n_joined > N_QUERIES // 3


CYCLE = "q(a, b) :- e(a, b), e(b, c), e(c, d), e(d, x), e(x, a)."
"""Cycles of five: their paths of length two are fewer than those of length three."""


def edges(n_rows: int, n_vertices: int, seed: int) -> Int64Array:
    return np.random.default_rng(seed).integers(0, n_vertices, (n_rows, 2))


@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
def test_a_query_joins_cycles_from_paths_of_length_two(bag):
    rows, answers, values = edges(4_000, 400, 1), [], []
    for off in (frozenset[str](), frozenset({"joined pairs"})):
        with tune(off=off):
            program = gw.Program(CYCLE, bag=bag, backend="cpu", threads=1, single_tick=True)
            answers.append(program.answer({"e": rows})["q"].rows())
            values.append(proposals(program))
    assert answers[0] == answers[1]
    assert 5 * values[0] < values[1]


@pytest.mark.usefixtures("forced_splits")
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
def test_a_query_answers_without_a_pair_that_is_too_large(monkeypatch, bag):
    """A pair that exceeds its limit is given up while it is listed, and the tick runs again without it."""
    rows, refused = edges(4_000, 400, 1), list[str]()
    with tune(off=frozenset({"joined pairs"})):
        plain = gw.Program(CYCLE, backend="cpu", bag=bag, single_tick=True).answer({"e": rows})["q"].rows()
    check = AuxiliaryHead._check_change

    def noted(pair: AuxiliaryHead, n_rows: int) -> None:
        try:
            check(pair, n_rows)
        except AuxiliaryError as error:
            refused.append(str(error))
            raise

    monkeypatch.setattr(AuxiliaryHead, "_check_change", noted)
    monkeypatch.setattr(head, "SPARE_ROWS", 0)
    monkeypatch.setattr(head, "PER_ROW", 1)
    program = gw.Program(CYCLE, backend="cpu", bag=bag, single_tick=True)
    assert program.answer({"e": rows})["q"].rows() == plain
    assert len(refused) == 1, refused
