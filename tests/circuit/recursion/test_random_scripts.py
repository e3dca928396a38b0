"""Programs with loops keep the same bits whatever the order, the batches, the pieces and the threads."""

from __future__ import annotations

import itertools
import random

import pytest

import gpu_wcoj as gw
from tests.helpers.answers import named
from tests.helpers.comparison import (
    SMALL,
    Judges,
    arities,
    bits,
    compared,
    fed,
    grown_script,
    random_script,
    translated,
)
from tests.helpers.recursive_programs import ALL
from tests.reference.changes import Row, ZSet, plus

SOME = (
    "closure, both",
    "odd walks, three at once",
    "points-to",
    "an input that is a head",
    "a loop on negation over a loop",
    "sums over a loop",
    "sizes of components",
    "shortest paths",
)
BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])


def _portions(rows: list[tuple[str, Row]], size: int) -> list[list[tuple[str, Row]]]:
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


@pytest.mark.drawn("name", share=2)
@pytest.mark.parametrize("name", SOME)
def test_a_batch_is_its_rows_in_any_order(name, backend):
    """One row a tick leaves the answers, and the state, of all rows at once."""
    text = ALL[name]
    inputs = arities(text)
    for seed in range(3):
        chance = random.Random(f"{name} {seed}")
        script = translated(random_script(chance, inputs), SMALL)
        judges = Judges(text)
        for tick in script:
            judges.step(tick)
        rows = [(relation, row) for relation, rows_of_relation in judges.state.items() for row in rows_of_relation]
        results = []
        for order in range(4):
            program = gw.Program(text, inputs=named(text), backend=backend.name)
            total: dict[str, ZSet] = {output: {} for output in program.outputs}
            for portion in _portions(rows, max(len(rows), 1) if order == 0 else order):
                tick = {
                    relation: ("rows", [(row, 1) for name, row in portion if name == relation])
                    for relation, _ in portion
                }
                changes = program.step({relation: fed(change, inputs[relation]) for relation, change in tick.items()})
                total = {output: plus(total[output], zset.to_dict()) for output, zset in changes.items()}
            assert total == {output: judges.heads[output] for output in program.outputs} or not rows
            results.append(bits(program, program.heads))
            chance.shuffle(rows)
        assert all(result == results[0] for result in results) or not rows


@pytest.mark.drawn("name", share=6)
@pytest.mark.parametrize("name", ALL)
def test_what_goes_and_comes_back_leaves_the_same_bits(name, backend):
    text = ALL[name]
    chance = random.Random(name)
    inputs = arities(text)
    script = grown_script(chance, inputs, 6, 0)
    program = gw.Program(text, inputs=named(text), backend=backend.name)
    judges = Judges(text)
    compared(program, judges, script[0], "step", "load")
    before = bits(program, program.heads)
    for tick_index in range(6):
        gone = {
            relation: [(row, -1) for row in chance.sample(sorted(rows), min(len(rows), chance.choice((1, 1, 4))))]
            for relation, rows in judges.state.items()
        }
        compared(
            program, judges, {relation: ("rows", rows) for relation, rows in gone.items()}, "step", f"gone {tick_index}"
        )
        back = {relation: ("zset", [(row, 1) for row, _ in rows]) for relation, rows in gone.items()}
        compared(program, judges, back, "step", f"back {tick_index}")
        assert bits(program, program.heads) == before


@pytest.mark.drawn("bag", "name", share=12)
@BAGS
@pytest.mark.parametrize("name", ALL)
def test_taking_everything_back_leaves_nothing_but_facts(name, bag, backend):
    text = ALL[name]
    inputs = arities(text)
    program = gw.Program(text, inputs=named(text), bag=bag, backend=backend.name)
    judges = Judges(text, bag)
    for tick in grown_script(random.Random(f"empty {name}"), inputs, 5, 4):
        compared(program, judges, tick, "step", "there")
    back = {
        relation: ("zset", [(row, -weight) for row, weight in rows.items()]) for relation, rows in judges.state.items()
    }
    compared(program, judges, back, "step", "back")
    empty = gw.Program(text, inputs=named(text), bag=bag, backend=backend.name)
    first = {relation: gw.ZSet.from_rows([(0,) * width]) for relation, width in inputs.items()}
    empty.step(first)
    empty.step({relation: -rows for relation, rows in first.items()})
    assert bits(program, program.heads) == bits(empty, empty.heads)


@pytest.mark.drawn("name", share=2)
@pytest.mark.parametrize("name", SOME)
def test_chunks_and_threads_do_not_change_a_bit(name, backend):
    text = ALL[name]
    inputs = arities(text)
    script = grown_script(random.Random(name), inputs, 6, 6)
    results = []
    for chunk_rows, threads in itertools.product((None, 1, 7), (1, 2)):
        program = gw.Program(text, inputs=named(text), backend=backend.name, chunk_rows=chunk_rows, threads=threads)
        ticks = [
            program.step({relation: fed(change, inputs[relation]) for relation, change in tick.items()})
            for tick in script
        ]
        results.append(
            [
                [{relation: zset.rows() for relation, zset in tick.items()} for tick in ticks],
                bits(program, program.heads),
            ]
        )
    assert all(result == results[0] for result in results)
