"""Programs of chance with disjunctions, several heads, components, records, sums and functors, after every tick."""

from __future__ import annotations

import random

import pytest

import gpu_wcoj as gw
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.printer import as_datalog
from tests.reference.souffle import Row, draw_program, shown


def _draw_rows(rng: random.Random) -> dict[str, list[Row]]:
    """All rows that inputs have at some time; lists in several spellings."""
    lists = [None, *((x, None) for x in range(3)), *((x, (y, None)) for x in range(2) for y in range(2))]
    return {
        "r": [(x,) for x in range(4)],
        "e": [(x, y) for x in range(4) for y in range(4)],
        "p": [(value,) for value in lists],
    }


@pytest.mark.drawn("seed", share=2)
@pytest.mark.parametrize("seed", range(24))
def test_a_program_equals_its_recomputation_after_every_tick(seed: int):
    rng = random.Random(f"souffle {seed}")
    drawn = draw_program(rng)
    text = drawn.text()
    print(f"seed {seed}\n{text}")
    program = gw.Program(text)
    possible = _draw_rows(rng)
    spelled = {row: tuple(shown(value, rng) for value in row) for row in possible["p"]}
    present: dict[str, set[Row]] = {name: set() for name in possible}
    totals: dict[str, dict[Row, int]] = {drawn.name(head): {} for head in drawn.strata}
    for tick in range(6):
        changes: dict[str, list[tuple[Row, int]]] = {}
        for name, rows in possible.items():
            if name not in program.inputs:
                continue
            chosen = rng.sample(rows, rng.randrange(0, min(len(rows), 6)))
            changes[name] = [
                (spelled[row] if name == "p" else row, -1 if row in present[name] else 1) for row in chosen
            ]
            present[name] ^= set(chosen)
        for name, change in program.step(changes).items():
            for row, weight in change.rows() if name in totals else ():
                totals[name][row] = totals[name].get(row, 0) + weight
        used = {name: present[name] if name in program.inputs else set() for name in possible}
        for head, rows in drawn.evaluate(used).items():
            expected = {tuple(map(shown, row)) for row in rows}
            found = {row: weight for row, weight in totals[drawn.name(head)].items() if weight}
            assert found == dict.fromkeys(expected, 1), f"tick {tick}, {head}"


@pytest.mark.drawn("seed", share=3)
@pytest.mark.parametrize("seed", range(60))
def test_a_program_is_printed_and_read_again(seed: int):
    drawn = draw_program(random.Random(f"souffle {seed}"))
    rules = parse(drawn.text())
    assert parse(str(rules)) == rules
    assert parse(as_datalog(rules)) == rules
