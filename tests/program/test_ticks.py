"""Ticks of a program: the first, empty ones, pieces, what is reported, and that nothing given or taken is touched."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

import gpu_wcoj as gw
from tests.helpers.answers import answer_of, changes_of

PAIRS = "h(x, y) :- e(x, y)."
JOIN = "h(x, y, z) :- r(x, y), s(y, z)."


class TestTicks:
    def test_before_the_first_tick_everything_is_empty(self):
        program = gw.Program(JOIN, inputs=["r", "s"])
        assert len(program.relation("h")) == 0
        assert program.count("h") == 0
        assert changes_of(program) == {"h": {}}

    def test_types_are_learnt_when_the_first_rows_come(self):
        program = gw.Program(JOIN, inputs=["r", "s"])
        assert changes_of(program, r=[("a", 1)]) == {"h": {}}
        assert changes_of(program, r=[("b", 2)]) == {"h": {}}
        assert changes_of(program, s=[(1, dt.date(2024, 1, 1))]) == {"h": {("a", 1, dt.date(2024, 1, 1)): 1}}

    def test_empty_changes_change_nothing(self):
        program = gw.Program(JOIN)
        program.step({"r": [(1, 2)], "s": [(2, 3)]})
        for changes in ({}, {"r": []}, {"r": np.empty((0, 2), np.int64)}, {"s": gw.ZSet.from_rows([((2, 3), 0)])}):
            assert {name: found.to_dict() for name, found in program.step(changes).items()} == {"h": {}}
            assert program.step_counts(changes)["h"].net == 0
        assert answer_of(program) == {(1, 2, 3): 1}

    def test_the_report_of_a_tick(self):
        program = gw.Program(JOIN, inputs=["r", "s"])
        program.step({"r": [(1, 2)]})
        first = program.last_tick
        program.step({"s": [(2, 3)]})
        assert program.last_tick.tick == first.tick + 1
        assert program.last_tick.seconds > 0

    def test_pieces_sum_to_the_changes(self):
        rows = [(x, y) for x in range(6) for y in range(6)]
        whole, cut = (gw.Program("h(a, b, c) :- e(a, b), e(b, c), e(a, c).", chunk_rows=n) for n in (None, 5))
        pieces = []
        counts = cut.step_pieces({"e": rows}, lambda name, piece: pieces.append((name, piece.to_dict())))
        changes = changes_of(whole, e=rows)
        assert counts["h"].net == len(changes["h"]) == 216
        assert len(pieces) > 1
        assert {name for name, _ in pieces} == {"h"}
        assert sorted(row for _, piece in pieces for row in piece) == sorted(changes["h"])

    def test_what_a_step_returns_is_not_touched_by_the_next(self):
        program = gw.Program(PAIRS)
        first = program.step({"e": [(1, 2)]})["h"]
        whole = program.relation("h")
        program.step({"e": [(0, 0), ((1, 2), -1)]})
        assert first.to_dict() == whole.to_dict() == {(1, 2): 1}

    def test_what_a_step_is_given_is_not_touched(self):
        program = gw.Program(PAIRS)
        rows = np.array([[3, 1], [1, 2], [3, 1]])
        program.step({"e": rows})
        assert rows.tolist() == [[3, 1], [1, 2], [3, 1]]
        rows[:] = 0
        assert answer_of(program) == {(3, 1): 1, (1, 2): 1}

    @pytest.mark.usefixtures("large_ticks")
    def test_a_program_returns_to_a_mark(self):
        program = gw.Program(JOIN)
        program.load({"r": [(1, 2)], "s": [(2, 3)]})
        mark = program.mark()
        assert changes_of(program, r=[(4, 2)], s=[((2, 3), -1)]) == {"h": {(1, 2, 3): -1}}
        program.return_to(mark)
        assert answer_of(program) == {(1, 2, 3): 1}
        assert program.relation("r").to_dict() == {(1, 2): 1}
        assert changes_of(program, s=[(2, 5)]) == {"h": {(1, 2, 5): 1}}
