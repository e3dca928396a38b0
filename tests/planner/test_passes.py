"""Planner passes: golden pairs, which are executed too; idempotence; number of orders."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import combinations

import pytest

import gpu_wcoj as gw
from bench.suite.random_queries import random_query
from gpu_wcoj.join.settings import tune
from gpu_wcoj.planner.catalog import Catalog
from gpu_wcoj.planner.ir import STRATEGIES, Draft, Order
from gpu_wcoj.planner.join_order import Chooser
from gpu_wcoj.planner.passes import PASSES, Pass
from gpu_wcoj.planner.passes.share import split_joins
from gpu_wcoj.query.datalog import parse
from tests.helpers.comparison import check_scripts
from tests.helpers.golden_plans import FOLDER, Case, read
from tests.helpers.random_plans import with_passes
from tests.planner.examples import draft_program
from tests.reference.program_text import written

FILES = (
    "normalise", "push_down", "redundant", "select", "sorted", "auxiliaries", "orders", "split", "arrangements",
    "fuse", "checks", "share", "branches", "sort", "queries", "beginnings", "symmetries",
)  # fmt: skip
"""The file with the golden pairs of each pass, in the order of the passes."""
BY_NAME = dict(zip(FILES, PASSES, strict=True))
OPTIONAL = (
    "push_down", "redundant", "select", "sorted", "auxiliaries", "split", "fuse", "share", "sort", "beginnings",
)  # fmt: skip
"""Without these, a program runs as well. Without another one it does not, so that there the rest of the passes says
whether what it was given and what it gave mean the same."""
CASES = [(path.stem, number) for path in sorted(FOLDER.glob("*.txt")) for number, _ in enumerate(read(path))]
WRITES = bool(os.environ.get("WRITE_GOLDEN"))


def case_of(name: str, number: int) -> Case:
    return list(read(FOLDER / f"{name}.txt"))[number]


def test_every_pass_has_golden_pairs():
    assert {name for name, _ in CASES} == set(BY_NAME)
    for name, one in BY_NAME.items():
        path = FOLDER / f"{name}.txt"
        assert len(list(read(path))) >= 2
        if WRITES:
            cases = list(read(path))
            for case in cases:
                case.before, case.after = map(str, case.drafts(one))
            path.write_text("\n".join(map(str, cases)))


@pytest.mark.parametrize(("name", "number"), CASES)
def test_golden_pairs(name, number):
    case = case_of(name, number)
    before, after = case.drafts(BY_NAME[name])
    assert str(before) == case.before
    assert str(after) == case.after


@pytest.mark.parametrize(("name", "number"), CASES)
def test_golden_pairs_are_what_runs(name, number, monkeypatch):
    """The first tick plans so; with the pass and, where that can be, without it, answers are those from scratch."""
    case = case_of(name, number)
    options = case.arguments
    sizes, keys, bag = options.pop("sizes", {}), options.pop("keys", {}), options.pop("bag", False)
    seen: list[tuple[Draft, Draft]] = []

    def watched(draft: Draft) -> Draft:
        seen.append((draft, BY_NAME[name](draft)))
        return seen[-1][1]

    def sized(draft: Draft) -> Draft:
        return replace(draft, setting=replace(draft.setting, known=Catalog.from_sizes(sizes, keys)))

    passes: list[Pass] = [sized, *(watched if one is BY_NAME[name] else one for one in PASSES)]
    with_passes(monkeypatch, passes)
    options = {"backend": "cpu"} | options  # conditions over single columns are planned otherwise on a device
    with tune(off=frozenset({"projections"})):  # the passes are shown the program as it is written
        program = gw.Program(case.program, bag=bag, replan=None, **options)
    inputs = written(case.program).arities
    first = program.answer if options.pop("single_tick", False) else program.step
    first({relation: [(3,) * inputs[relation]] for relation in program.inputs})
    assert tuple(map(str, seen[-1])) == (case.before, case.after)
    for way in [passes, [one for one in passes if one is not watched]] if name in OPTIONAL else [passes]:
        with_passes(monkeypatch, way)
        check_scripts(case.program, range(2), bag=bag, replan=None, **options)


def test_passes_are_idempotent():
    for seed in range(60):
        query = replace(random_query(seed), is_textual=False)
        sizes = {name: 100.0 * (number + 1) for number, name in enumerate(query.inputs)}
        draft = draft_program(
            query.text, strategy=STRATEGIES[seed % 3], sizes=sizes if seed % 4 else None, bag=seed % 2 == 0
        )
        for one in PASSES:
            draft = one(draft)
            assert one(draft).rules == draft.rules, f"{query.text}\n{one.__name__}"


@pytest.mark.parametrize(("name", "number"), [one for one in CASES if one[0] in ("auxiliaries", "split")])
def test_auxiliary_relations_are_found_once(name, number):
    _, after = case_of(name, number).drafts(BY_NAME[name])
    again = BY_NAME[name](after)
    assert (again.rules, again.auxiliaries) == (after.rules, after.auxiliaries)


def bound(draft: Draft) -> int:
    """Atoms squared times variables, of all rules."""
    bodies = [one.normalised for one in draft.rules]
    return sum((len(body.atoms) + len(body.negated)) ** 2 * len(body.variables) for body in bodies)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_more_than_atoms_squared_times_variables_orders_are_looked_at(strategy, monkeypatch):
    """Neither orders of variables, nor, by which atoms propose them, orders whose cost is asked for.

    Costly bodies are planned again for each auxiliary relation that is tried.
    """
    along, asked = Chooser.along, set[tuple[Chooser, Order]]()

    def counted(chooser, order, *limit):
        asked.add((chooser, order))
        return along(chooser, order, *limit)

    monkeypatch.setattr(Chooser, "along", counted)
    passes = [one for one in PASSES if one is not split_joins]
    texts = [replace(random_query(seed), is_textual=False).text for seed in range(60)]
    for n in (4, 5):
        names = [f"v{i}" for i in range(n)]
        body = ", ".join(f"e({one}, {other})" for one, other in combinations(names, 2))
        texts.append(f"h({', '.join(names)}) :- {body}.")
        texts.append(f"h(v0) :- {', '.join(f'e(v0, w{i})' for i in range(2 * n))}.")
    most, n_asked = 0.0, 0
    for text in texts:
        for sizes in ({}, dict.fromkeys(parse(text).inputs, 1000.0)):
            asked.clear()
            draft = draft_program(text, passes, strategy=strategy, sizes=sizes)
            assert max(draft.candidates, len(asked)) <= bound(draft), text
            n_asked += len(asked)
            assert not draft.rules or draft.candidates > 0
            most = max(most, draft.candidates / max(bound(draft), 1))
    assert most > 0.2  # it is counted
    assert n_asked > 100
