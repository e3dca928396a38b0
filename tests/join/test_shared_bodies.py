"""Rules with the same body bind its variables once: the work of a tick, and the answers of rules on their own."""

from __future__ import annotations

import random

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import CalculationError
from gpu_wcoj.kernels.protocol import PROPOSALS

TEXT = """
    triangle(a, b, c) :- e(a, b), e(b, c), e(a, c).
    n(x, count()) :- e(x, y), e(y, z), e(x, z).
    furthest(u, max(w)) :- e(u, v), e(v, w), e(u, w).
    total(u, sum(w)) :- e(u, v), e(v, w), e(u, w).
    corner(7, w, u) :- e(u, v), e(v, w), e(u, w).
    closed(u, v) :- e(u, v), e(v, w), e(u, w).
"""


def proposals(program: gw.Program, head: str) -> int:
    return sum(
        int(counted[PROPOSALS])
        for paths in program.last_tick.work[head].values()
        for steps in paths.values()
        for counted in steps.values()
    )


@pytest.mark.drawn("bag")
@pytest.mark.parametrize("bag", [False, True])
def test_answers_are_those_of_rules_on_their_own(kind, bag):
    random_ = random.Random(f"{kind}{bag}")
    program = gw.Program(TEXT, bag=bag, backend=kind.backend(), analyze=True)
    rows: dict[tuple[int, int], int] = {}
    kept = {name: {} for name in program.outputs}
    for _ in range(5):
        change = {}
        for _ in range(60):
            row = (random_.randrange(9), random_.randrange(9))
            change[row] = random_.choice([1, 1, -1]) if rows.get(row, 0) > 0 else 1
        change = {row: weight for row, weight in change.items() if not (not bag and weight == 1 and row in rows)}
        for row, weight in change.items():
            rows[row] = rows.get(row, 0) + weight
            if not rows[row]:
                del rows[row]
        for name, found in program.step({"e": gw.ZSet.from_rows(change.items())}).items():
            for row, weight in found.rows():
                kept[name][row] = kept[name].get(row, 0) + weight
        for line in TEXT.strip().splitlines():
            own = gw.Program(line, bag=bag)
            (name,) = own.outputs
            own.step({"e": gw.ZSet.from_rows(rows.items())})
            expected = dict(own.relation(name).rows())
            assert {row: weight for row, weight in kept[name].items() if weight} == expected
            assert dict(program.relation(name).rows()) == expected


@pytest.mark.usefixtures("large_ticks")
def test_a_tick_looks_at_values_once():
    edges = [(i, (i * k) % 101) for i in range(101) for k in (2, 3, 5, 7)]
    program, alone = gw.Program(TEXT), gw.Program(TEXT.strip().splitlines()[0])
    for one in (program, alone):
        one.step({"e": edges[:-50]})
        one.step({"e": edges[-50:]})
    once = proposals(alone, "triangle")
    assert once > 0
    worked = {name: found for name in program.last_tick.work if (found := proposals(program, name))}
    assert list(worked) == ["triangle", "rule#2", "corner", "closed"]  # all corners; the others count the third one
    assert all(worked[name] < once for name in ("rule#2", "corner", "closed"))
    assert worked["triangle"] == once
    assert "shares its beginning, that of path 1 of triangle: z is bound once a tick" in program.explain()


def test_heads_with_the_same_rows_are_stored_once():
    text = """
        n(x, count()) :- e(x, y), e(y, z), e(x, z).
        total(u, sum(w)) :- e(u, v), e(v, w), e(u, w).
        middle(u, mean(w)) :- e(u, v), e(v, w), e(u, w).
    """
    program = gw.Program(text)
    program.step({"e": [(1, 2), (2, 3), (1, 3), (3, 4), (2, 4)]})
    rows = {name for name in program.state_rows if name.startswith("rule#")}
    assert {name.partition("[")[0] for name in rows} == {"rule#1"}
    assert program.relation("total").rows() == [((1, 3), 1), ((2, 4), 1)]
    assert program.step({"e": [(1, 4)]})["middle"].rows() == [((1, 3.0), -1), ((1, 11 / 3), 1)]


def test_who_only_counts_goes_alone():
    text = "h(a, b, c) :- e(a, b), e(b, c). g(z, y, x) :- e(x, y), e(y, z)."
    program = gw.Program(text)
    program.load({"e": [(1, 2), (2, 3)]})
    assert {name: one.net for name, one in program.step_counts({"e": [(3, 4)]}).items()} == {"h": 1, "g": 1}
    pieces: list[str] = []
    program.step_pieces({"e": [(4, 5)]}, lambda name, piece: pieces.append((name, piece.rows())))
    assert sorted(pieces) == [("g", [((5, 4, 3), 1)]), ("h", [((3, 4, 5), 1)])]
    assert program.step({"e": [((2, 3), -1)]})["g"].rows() == [((3, 2, 1), -1), ((4, 3, 2), -1)]


def test_a_failing_calculation_is_told_of_the_first_rule():
    program = gw.Program("h(a, c, a / c) :- e(a, b), e(b, c). g(c, a, a / c) :- e(a, b), e(b, c).")
    program.step({"e": [(1, 2), (2, 3)]})
    with pytest.raises(CalculationError, match="'h"):
        program.step({"e": [(3, 0), (2, 0)]})
    assert program.step({"e": [(3, 1)]})["g"].rows() == [((1, 2, 2), 1), ((2, 3, 1), 1)]
