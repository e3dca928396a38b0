"""Explanations of ticks for which full recomputation was considered but not used."""

from __future__ import annotations

import html
import json
import re

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.circuit import recount
from tests.helpers.explained_programs import text_of

TRIED = (
    "counting afresh was tried by samples, and the last tick's change followed: that was expected to cost less, or not "
    "much more"
)
GIVEN_UP = "counting afresh was begun and given up when it cost too much, and the last tick's change followed"
OVERFLOW = "the last tick's change was followed: counted afresh, weights might have left int64"
NOT_TAKEN = "not taken, the change was followed"


def ticked(analyze: bool = True, bag: bool = False) -> gw.Program:
    """Triangles of a graph of which three quarters come in one tick."""
    random = np.random.default_rng(0)
    program = gw.Program(text_of("triangle"), backend="cpu", analyze=analyze, bag=bag)
    program.load({"edge": random.integers(0, 800, (20_000, 2))})
    program.step_counts({"edge": random.integers(0, 800, (60_000, 2))})
    return program


def head_of(program: gw.Program) -> dict:
    (head,) = json.loads(program.explain(analyze=True, format="json"))["heads"]
    return head


def unescaped(drawing: str) -> str:
    """The text of a drawing, lines that were broken put together."""
    plain = re.sub(r"#(\d+);", lambda found: chr(int(found[1])), html.unescape(drawing.replace("<br/>", "\n")))
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", plain))


@pytest.mark.parametrize("analyze", [True, False], ids=["measured", "counted"])
def test_samples_that_promise_too_little(analyze):
    program = ticked(analyze)
    assert not program.last_tick.recounted
    head = head_of(program)
    assert (head["recounted"], head["followed"]) == ([], TRIED)
    afresh = head["rules"][0]["afresh"]
    assert (afresh["change_of"], [name for name, _ in afresh["further"]]) == ("", ["samples, to decide"])
    lines = [line.strip() for line in program.explain(analyze=True).splitlines()]
    assert TRIED in lines
    assert f"counting afresh: {NOT_TAKEN}" in lines
    assert not any("counted afresh" in line for line in lines)
    for drawing in (program.explain(analyze=True, format=format_name) for format_name in ("mermaid", "svg")):
        assert TRIED in unescaped(drawing)
        assert "counting afresh" in drawing
        assert NOT_TAKEN in drawing
        assert "counted afresh" not in drawing
    *_, final_line = re.findall(r"h0_r0_p4_\d.*", program.explain(analyze=True, format="mermaid"))
    assert final_line == "h0_r0_p4_0 --> h0_r0_p4_1", "what was tried leads to no head"


@pytest.mark.parametrize("allowance", [1.0, 7_500_000.0], ids=["before it began", "on the way"])
@pytest.mark.parametrize("analyze", [True, False], ids=["measured", "counted"])
def test_a_whole_count_that_was_given_up(analyze, allowance, monkeypatch):
    monkeypatch.setattr(recount.Recounting, "_incremental_cost", lambda *_: 1e6)
    monkeypatch.setattr(recount.Recounting, "_allowance", lambda *_: allowance)
    monkeypatch.setattr(recount.Recounting, "_estimate", recount._CostEstimate((1.0,), 1, (0,)))
    program = ticked(analyze)
    assert not program.last_tick.recounted
    assert head_of(program)["followed"] == GIVEN_UP
    assert GIVEN_UP in program.explain(analyze=True)


def test_a_whole_count_that_cannot_be_relied_on(monkeypatch):
    monkeypatch.setattr(recount, "MAX_COST_RATIO", 1e9)
    monkeypatch.setattr(recount.Recounting, "bound", lambda _: 1 << 63)
    program = ticked(bag=True)
    assert not program.last_tick.recounted
    assert head_of(program)["followed"] == OVERFLOW


def test_nothing_is_said_where_a_whole_count_was_taken_or_not_thought_of(monkeypatch):
    monkeypatch.setattr(recount, "MAX_COST_RATIO", 1e9)
    allowance = recount.Recounting._allowance
    monkeypatch.setattr(recount.Recounting, "_allowance", lambda *given: 1e30 if allowance(*given) else None)
    program = ticked()
    assert program.last_tick.recounted
    assert head_of(program)["followed"] == ""
    assert "counted afresh: all of edge(" in program.explain(analyze=True)
    assert "\nall of edge(" in program.explain(analyze=True, format="mermaid").replace("<br/>", "\n")
    program.step_counts({"edge": [(900, 901)]})
    assert head_of(program)["followed"] == ""
    assert "afresh" not in program.explain(analyze=True)


def test_halves_of_a_tick_that_are_not_counted_alike(monkeypatch):
    """Deletions are counted by full recomputation and insertions incrementally, or vice versa."""
    allowance = recount.Recounting._allowance
    for half, (said, other_half) in enumerate((("what went", "what came"), ("what came", "what went"))):

        def allowed(self, following, moment, half=half):
            return 1e30 if allowance(self, following, moment) and moment.phase == half + 1 else None

        with monkeypatch.context() as patch:
            patch.setattr(recount, "MAX_COST_RATIO", 1e9)
            patch.setattr(recount.Recounting, "_is_hopeless", lambda *_: False)
            patch.setattr(recount.Recounting, "_allowance", allowed)
            random = np.random.default_rng(0)
            edges = np.unique(random.integers(0, 800, (60_000, 2)), axis=0)
            program = gw.Program(text_of("triangle"), backend="cpu")
            program.load({"edge": edges[:40_000]})
            changes = [(tuple(row), -1) for row in edges[:10_000].tolist()]
            program.step_counts({"edge": changes + [(tuple(row), 1) for row in edges[40_000:50_000].tolist()]})
        ((phase,),) = program.last_tick.recounted.values()
        assert phase.phase == half
        head = head_of(program)
        assert head["recounted"] == [f"{said} with the last tick was {phase}"]
        assert head["followed"] == TRIED.replace("the last tick's change", f"{other_half} with the last tick")
        assert f"{said} with the last tick was counted afresh for" in program.explain()
