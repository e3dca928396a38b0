"""State across a change of plan: checkpoints, shared arrangements, failed planning."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpu_wcoj import Program
from gpu_wcoj.backend import select_backend
from gpu_wcoj.circuit import circuit as adopting
from gpu_wcoj.engine.replicas import Journal
from gpu_wcoj.engine.state import carry_over_journal
from gpu_wcoj.errors import DeviceMemoryError
from gpu_wcoj.join.plan import AtomUse
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.join.settings import tune
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey
from tests.helpers.kernel_kinds import QUICK_KINDS
from tests.helpers.replanned_programs import RULE, proposed, run_both, stream, was_replanned


def test_checkpoints_before_and_after(eager, tmp_path):
    """What is written under one plan goes on under another, and under none; increments are not mixed up."""
    text = RULE + "pair(b, c) :- h(a, b, c, d)."
    program, fixed = Program(text, keep=["pair"]), Program(text, keep=["pair"], replan=None)
    replanned = set()
    for number, tick in enumerate(stream(10, 3, n=3000, changes=40)):
        found, expected = program.step(tick), fixed.step(tick)
        assert found["pair"].rows() == expected["pair"].rows()
        program.checkpoint(tmp_path / "state")
        again = Program.restore(tmp_path / "state", replan=4.0 if number % 2 else None)
        assert again.relation("pair").rows() == fixed.relation("pair").rows()
        assert again.relation("r").rows() == fixed.relation("r").rows()
        replanned.add(was_replanned(program))
        if number in (2, 3, 9):
            program = again
    assert replanned == {False, True}


def test_an_arrangement_of_selected_rows_is_made_of_all_rows():
    cpu = select_backend("cpu")
    index = RelationIndex("r", 2, [ArrangementKey("r", (0, 1))], cpu)
    index.load([np.array([4, 5, 5]), np.array([1, 1, 2])], np.ones(3, np.int64))
    selected = Arrangement(ArrangementKey("r", (1,), constants=((0, 5),)), cpu)
    assert [column.tolist() for column in adopting._arranged(selected, index, {}).columns()] == [[1, 2]]


@pytest.mark.parametrize(("order", "is_kept"), [((0, 1), True), ((1, 0), False)])
def test_changes_that_a_checkpoint_lacks_stay_if_rows_have_the_same_order(order, is_kept):
    """The rows of a journal are in the order of the circuit that made them."""

    def sides(order: tuple[int, ...]) -> Any:
        index = SimpleNamespace(canonical=ArrangementKey("r", order))
        return SimpleNamespace(primary=SimpleNamespace(circuit=SimpleNamespace(indices=lambda: [index])))

    before, after = sides((0, 1)), sides(order)
    journal = carry_over_journal(Journal("version", before.primary.circuit), before, after)
    assert journal is not None
    assert journal.circuit is after.primary.circuit
    assert (journal.changes is not None) == is_kept


def test_a_restored_state_is_planned_for_what_it_holds(tmp_path):
    fixed = Program(RULE, replan=None)
    *ticks, last = stream(8, 2, n=3000, changes=40)
    for tick in ticks:
        fixed.step(tick)
    fixed.checkpoint(tmp_path)
    again = Program.restore(tmp_path, replan=None)
    assert again.step(last)["h"].rows() == fixed.step(last)["h"].rows()
    assert 4 * proposed(again) < proposed(fixed)


@pytest.mark.usefixtures("large_ticks")
def test_no_memory_for_another_plan_leaves_all_as_it_is(eager, monkeypatch):
    program, fixed = Program(RULE), Program(RULE, replan=None)
    calls = []

    def fail(*_: object) -> None:
        calls.append(1)
        raise DeviceMemoryError("arranging", 1)

    monkeypatch.setattr(adopting, "_arranged", fail)
    work, wasted = run_both(program, fixed, stream(12, 2, n=3000, changes=40))
    assert calls
    assert work == wasted
    assert "plan: kept before tick" in program.explain()
    assert len(calls) < 6


@pytest.mark.usefixtures("large_ticks")
def test_an_interrupt_while_planning_anew_undoes_it(eager, monkeypatch):
    program, fixed = Program(RULE), Program(RULE, replan=None)
    made = adopting._arranged
    interrupted = []

    def interrupt(*given: Any) -> Any:
        if not interrupted:
            interrupted.append(1)
            raise KeyboardInterrupt
        return made(*given)

    monkeypatch.setattr(adopting, "_arranged", interrupt)
    for tick in stream(8, 2, n=3000, changes=40):
        try:
            found = program.step(tick)
        except KeyboardInterrupt:
            assert program.relation("h").rows() == fixed.relation("h").rows()
            assert not was_replanned(program)
            found = program.step(tick)
        assert found["h"].rows() == fixed.step(tick)["h"].rows()
    assert interrupted
    assert was_replanned(program)


@QUICK_KINDS
@pytest.mark.parametrize("bag", [False, True])
def test_what_both_plans_arrange_is_shared(kind, bag):
    """What is arranged anew is what its rows would have given; selections, weights and derivations too."""
    text = "h(a, c) :- r(a, b, c), r(b, a, 1), s(c). k(a, b) :- h(a, b), r(a, b, c), c < 3, !s(a)."
    with tune(off=frozenset({"projections"})):
        program = Program(text, bag=bag, keep=["h"], backend=kind.backend(), route="device")
    numbers = np.random.default_rng(5)
    for _ in range(3):
        rows = [(tuple(row), int(numbers.integers(-1, 4))) for row in numbers.integers(0, 6, (80, 3)).tolist()]
        program.step({"r": rows, "s": [(1,), (2,)]})
    sides = program._ledger.settle()
    assert sides is not None
    circuit, lowering = sides.primary.circuit, program._lowering
    n_built = []
    for order in itertools.permutations(range(3)):
        plan = _turned(sides.primary.lowered.plan, order)
        other = lowering.circuit(plan, circuit.execution)
        to_build = adopting.rows_to_build(other, circuit)
        adopting.adopt(other, circuit)
        built = 0
        for new, old in zip(other.indices(), circuit.indices(), strict=True):
            assert [one.tolist() for one in map(circuit.backend.to_host, new.rows()[0])] == [
                one.tolist() for one in map(circuit.backend.to_host, old.rows()[0])
            ]
            for key, arrangement in new.arrangements.items():
                if key in old.arrangements:
                    assert arrangement.spine is old.arrangements[key].spine
                    continue
                built += len(arrangement.spine)
                again = RelationIndex(new.name, new.width, [key], circuit.backend)
                again.load(*old.rows())
                for found, expected in zip(_flat(arrangement), _flat(again.arrangements[key]), strict=True):
                    assert found.tolist() == expected.tolist()
        assert built <= to_build
        n_built.append(built)
    assert max(n_built) > 0


def _turned(plan: Plan, order: tuple[int, ...]) -> Plan:
    """The plan with arrangements of r in another order besides; for their rows only, they fit no path."""
    (query,) = plan.queries["k"]
    keys = [use for path in query.paths for use in path.other_atoms if use.key.relation == "r"]
    wanted = {use.key._replace(order=order) for use in keys if len(use.key.order) == 3}
    path = query.paths[0]
    extra = tuple(AtomUse(9, key, tuple("xyz")) for key in wanted)
    turned = replace(query, paths=(replace(path, other_atoms=(*path.other_atoms, *extra)), *query.paths[1:]))
    return replace(plan, queries={**plan.queries, "k": (turned,)})


def _flat(arrangement: Arrangement) -> list[Any]:
    columns, weights = arrangement.columns()
    return [arrangement.backend.to_host(one) for one in (*columns, weights)]
