"""Auxiliary relations are dropped when they grow, without any visible effect."""

from __future__ import annotations

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.circuit import head
from gpu_wcoj.engine import state as replanning
from gpu_wcoj.errors import AuxiliaryError, WeightOverflowError
from tests.helpers.kernel_kinds import needed
from tests.helpers.materialized_homes import NAME, TEXT, Tick, changes, kept, world


def crowded(n: int) -> Tick:
    """Everybody lives in one city, which is in many countries."""
    return {"lives": [(i, 10_000) for i in range(n)], "city": [(10_000, 50_000 + i) for i in range(n)]}


def test_what_grows_is_given_up_and_the_tick_is_taken_without(monkeypatch):
    monkeypatch.setattr(head, "SPARE_ROWS", 100)
    state = world()
    program, plain = gw.Program(TEXT, bag=True), gw.Program(TEXT, bag=True, strategy="wcoj")
    program.load(state)
    plain.load(state)
    assert kept(program) == [NAME]
    found = program.step(crowded(400))["near"]
    assert found.rows() == plain.step(crowded(400))["near"].rows()
    assert not kept(program)
    assert "nothing is kept for the rules any more" in program.explain()
    for tick in changes(state, 3):
        assert program.step(tick)["near"].rows() == plain.step(tick)["near"].rows()
    assert not kept(program)


def test_to_be_given_up_is_no_lack_of_memory_on_a_device(monkeypatch):
    """CuPy's devices take every `MemoryError` for one of theirs."""
    monkeypatch.setattr(head, "SPARE_ROWS", 100)
    backend = needed("shim").backend()
    assert backend.device is not None
    monkeypatch.setattr(backend.device, "out_of_memory", MemoryError)
    state = world(200, 60, 5, 1500)
    program = gw.Program(TEXT, bag=True, backend=backend, route="device")
    plain = gw.Program(TEXT, bag=True, backend="cpu", strategy="wcoj")
    program.load(state)
    plain.load(state)
    assert kept(program) == [NAME]
    assert program.step(crowded(150))["near"].rows() == plain.step(crowded(150))["near"].rows()
    assert not kept(program)
    program._ledger.keeps = program._ledger.feedback.is_due = True
    program.step({"knows": [(0, 1)]})
    assert not kept(program)


def test_a_first_tick_may_be_given_up_too(monkeypatch):
    monkeypatch.setattr(head, "SPARE_ROWS", 0)
    monkeypatch.setattr(head, "PER_ROW", 0)
    program = gw.Program(TEXT, bag=True)
    found = program.step(world())["near"]
    assert found.rows() == gw.Program(TEXT, bag=True, strategy="wcoj").step(world())["near"].rows()
    assert not kept(program)


def test_weights_that_only_the_kept_relation_has_are_no_error():
    """A city's weight times that of who lives there leaves int64, but nobody knows them."""
    state = world()
    heavy = {"lives": [((9_999, 77_777), 1 << 40)], "city": [((77_777, 3), 1 << 40)]}
    program, plain = gw.Program(TEXT, bag=True), gw.Program(TEXT, bag=True, strategy="wcoj")
    for one in (program, plain):
        one.load(state)
    before = program.relation("near").rows()
    assert program.step(heavy)["near"].rows() == plain.step(heavy)["near"].rows() == []
    assert program.relation("near").rows() == before
    assert not kept(program)
    friends = {"knows": [(9_999, 9_999)]}
    with pytest.raises(WeightOverflowError, match="near"):
        program.step(friends)
    assert program.relation("near").rows() == before


def test_what_grows_little_by_little_is_given_up_too(monkeypatch):
    """No tick brings much, but all of them together bring far more than there is to join."""
    monkeypatch.setattr(head, "SPARE_ROWS", 1000)
    state = world()
    program, plain = gw.Program(TEXT, bag=True), gw.Program(TEXT, bag=True, strategy="wcoj")
    for one in (program, plain):
        one.load(state)
    for i in range(12):
        assert kept(program) or i > 4
        tick = {"lives": [(i * 50 + j, 10_000) for j in range(50)], "city": [(10_000, 50_000 + i)]}
        assert program.step(tick)["near"].rows() == plain.step(tick)["near"].rows()
    assert not kept(program)


def heavy(program: gw.Program) -> gw.Program:
    """A program in whose state a city's weight times that of who lives there leaves int64; it has been given up."""
    program.load(world())
    program.load({"lives": [((9_999, 77_777), 1 << 40)], "city": [((77_777, 3), 1 << 40)]})
    assert not kept(program)
    return program


@pytest.mark.parametrize("why", ["planned anew", "null", "restored", "too large"])
def test_what_cannot_be_joined_from_the_state_is_not_kept(monkeypatch, tmp_path, why):
    program = heavy(gw.Program(TEXT, bag=True))
    expected = program.relation("near").rows()
    program._ledger.keeps = True  # as if it were to be tried once more
    if why == "restored":
        program.checkpoint(tmp_path / "state")
        program = gw.Program.restore(tmp_path / "state")
    elif why == "null":
        program.step({"lives": [((9_998, None), 1)]})
    else:
        if why == "too large":
            program.load({"lives": [((9_999, 77_777), -(1 << 40))]})
            monkeypatch.setattr(head, "PER_ROW", 0)
            monkeypatch.setattr(head, "SPARE_ROWS", 100)
        program._ledger.feedback.is_due = True
        program.step({"lives": [((9_998, 77_777), 1)]})
    assert not kept(program)
    assert program.relation("near").rows() == expected
    assert program._ledger.keeps == (why == "restored")


def test_where_nothing_can_be_given_up_the_tick_is_undone(monkeypatch):
    """There is no memory to arrange the state without it."""
    monkeypatch.setattr(head, "SPARE_ROWS", 100)
    program = gw.Program(TEXT, bag=True)
    program.load(world())
    before = program.relation("near").rows()

    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(replanning, "replan", fail)
        for _ in range(2):
            with pytest.raises(AuxiliaryError, match="kept for the rules, changes by more than"):
                program.step(crowded(400))
            assert program.relation("near").rows() == before
            assert kept(program) == [NAME]
    program.step(crowded(400))
    assert not kept(program)


def test_what_was_given_up_since_a_mark_can_be_given_up_again(monkeypatch):
    monkeypatch.setattr(head, "SPARE_ROWS", 100)
    program = gw.Program(TEXT, bag=True, replan=None)
    program.load(world())
    mark, found = program.mark(), []
    for _ in range(2):
        program.return_to(mark)
        assert kept(program) == [NAME]
        found.append(program.step(crowded(400))["near"].rows())
        assert not kept(program)
    assert found[0] == found[1]


@pytest.mark.parametrize("why", ["null", "mark"])
def test_what_was_done_by_a_plan_that_kept_it_says_nothing_of_one_that_does_not(why):
    program = gw.Program(TEXT, bag=True, threads=1)
    state = world()
    program._ledger.keeps = False
    program.load(state)
    mark = program.mark()
    program._ledger.keeps = program._ledger.feedback.is_due = True
    ticks = changes(state, 4)
    for _ in range(2):
        program.step(next(ticks))
        assert kept(program) == [NAME]
    assert any(head == NAME for head, *_ in program._ledger.feedback.done)
    program._ledger.keeps = False
    if why == "mark":
        program.return_to(mark)
    else:
        program.load({"city": [((10_000, None), 1)]})
    assert not kept(program)
    program._ledger.feedback.is_due = True
    program.step({"lives": [((0, 10_001), 1)]})
    rows = {name: program.relation(name) for name in ("knows", "lives", "city")}
    assert program.relation("near").rows() == gw.query(TEXT, rows, bag=True).rows(weights=True)


def test_what_is_kept_stays_a_little_longer():
    """People grow to more than a quarter of whom they know, and then to more than half."""
    program = gw.Program(TEXT, bag=True)
    program.load(world(600, 120, 12, 3000))
    seen = []
    for n_more in (0, 400, 1000):
        program.load({"lives": [(10_000_000 + n_more + i, 10_000) for i in range(n_more)]})
        program._ledger.feedback.is_due = True
        program.load({"knows": [(0, 1)]})
        seen.append(kept(program))
    assert seen == [[NAME], [NAME], []]
    fresh, state = gw.Program(TEXT, bag=True), world(600, 120, 12, 3000)
    more = np.stack([np.arange(10_000_000, 10_000_400), np.full(400, 10_000)], axis=1)
    fresh.load({**state, "lives": np.concatenate([state["lives"], more])})
    assert kept(fresh) == []
