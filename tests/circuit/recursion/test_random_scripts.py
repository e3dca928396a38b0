"""Programs with loops equal recomputation by both judges after every tick of random scripts."""

from __future__ import annotations

import itertools
import random

import pytest

import gpu_wcoj as gw
from tests.helpers.answers import named
from tests.helpers.join_comparison import Rows, Script, fed, random_script, translated
from tests.helpers.kernel_kinds import KINDS, Kind, lacking
from tests.helpers.long_tests import IS_LONG
from tests.helpers.recursion_comparison import SIGNED, SMALL, Judges, bits, check_script, check_scripts, compared
from tests.helpers.recursive_programs import ALL, LAYERED, SETS
from tests.reference.changes import Row, ZSet, plus
from tests.reference.program_text import Literal, aggregates, written

SEEDS = 12 if IS_LONG else 2
OTHER_SEEDS = 4 if IS_LONG else 1
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


def inputs_of(text: str) -> dict[str, int]:
    program = written(text)
    return {name: program.arities[name] for name in program.inputs}


def grown_script(chance: random.Random, inputs: dict[str, int], n_values: int = 7, n_ticks: int = 12) -> Script:
    """A graph that is there at once, then single rows that go and come, often back again."""
    values = list(range(n_values))

    def some(width: int, n_rows: int) -> Rows:
        return [(tuple(chance.choices(values, k=width)), 1) for _ in range(n_rows)]

    script: Script = [{name: ("rows", some(width, 2 * n_values)) for name, width in inputs.items()}]
    there = {name: [row for row, _ in rows] for name, (_, rows) in script[0].items()}
    for _ in range(n_ticks):
        name = chance.choice(list(inputs))
        if there[name] and chance.random() < 0.6:
            row = there[name].pop(chance.randrange(len(there[name])))
            there[name] = [present for present in there[name] if present != row]
            script.append({name: ("rows", [(row, -1)])})
            if chance.random() < 0.5:
                script.append({name: ("rows", [(row, 1)])})
                there[name].append(row)
        else:
            rows = some(inputs[name], chance.choice((1, 1, 3)))
            there[name] += [row for row, _ in rows]
            script.append({name: ("rows", rows)})
    return script


def _portions(rows: list[tuple[str, Row]], size: int) -> list[list[tuple[str, Row]]]:
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


@pytest.mark.drawn("bag")
@BAGS
@pytest.mark.parametrize("name", ALL)
def test_small_scripts(name, bag, backend):
    positive = any(rule.aggregates or any(map(_aggregates, rule.body)) for rule in written(ALL[name]).rules)
    check_scripts(ALL[name], range(SEEDS), bag=bag, positive=bag and positive, backend=backend.name)


def _aggregates(literal: Literal) -> bool:
    """Return whether it aggregates, so that no row may have a negative weight."""
    return any(True for _ in aggregates(literal))


@pytest.mark.drawn("name", share=3)
@pytest.mark.parametrize("name", {**SETS, **LAYERED})
def test_small_scripts_with_negative_values(name, backend):
    check_scripts(ALL[name], range(OTHER_SEEDS), values=SIGNED, backend=backend.name)


@pytest.mark.drawn("name", share=3)
@pytest.mark.parametrize("name", ALL)
def test_small_scripts_with_nulls(name, backend):
    check_scripts(ALL[name], range(OTHER_SEEDS), values=SMALL | {0: None}, backend=backend.name)


@pytest.mark.drawn("name", share=6)
@pytest.mark.parametrize("name", ALL)
def test_rows_that_go_and_come(name, backend):
    for seed in range(OTHER_SEEDS):
        script = grown_script(random.Random(f"{name} {seed}"), inputs_of(ALL[name]))
        check_script(ALL[name], script, clingo=seed == 0, backend=backend.name)


@pytest.mark.drawn("name", "kind", share=4)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("numba", "cuda")])
@pytest.mark.parametrize("name", SOME)
def test_other_kernels(name, kind):
    reason = lacking(kind)
    if reason:
        pytest.skip(reason)
    for seed in range(2):
        script = grown_script(random.Random(f"{name} {seed}"), inputs_of(ALL[name]), 5, 5)
        check_script(ALL[name], script, clingo=False, backend=Kind(kind).backend(seed))


@pytest.mark.drawn("name", share=2)
@pytest.mark.parametrize("name", SOME)
def test_a_batch_is_its_rows_in_any_order(name, backend):
    """One row a tick leaves the answers, and the state, of all rows at once."""
    text = ALL[name]
    inputs = inputs_of(text)
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
    inputs = inputs_of(text)
    script = grown_script(chance, inputs, 6, 0)
    program = gw.Program(text, inputs=named(text), backend=backend.name)
    judges = Judges(text, clingo=False)
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
    inputs = inputs_of(text)
    program = gw.Program(text, inputs=named(text), bag=bag, backend=backend.name)
    judges = Judges(text, bag, clingo=False)
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
    inputs = inputs_of(text)
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


@pytest.mark.drawn("name", share=2)
@pytest.mark.parametrize("name", SOME)
def test_a_restored_program_goes_on(name, backend, tmp_path):
    text = ALL[name]
    inputs = inputs_of(text)
    program = gw.Program(text, inputs=named(text), backend=backend.name)
    judges = Judges(text, clingo=False)
    for tick_index, tick in enumerate(grown_script(random.Random(name), inputs, 6, 6)):
        compared(program, judges, tick, "step", f"tick {tick_index}")
        if tick_index % 3 == 2:
            bits_before = bits(program, program.heads)
            program.checkpoint(tmp_path)
            program = gw.Program.restore(tmp_path, backend=backend.name)
            assert bits(program, program.heads) == bits_before


@pytest.mark.drawn("name", share=2)
@pytest.mark.parametrize("name", SOME)
def test_load_then_follow(name, backend):
    text = ALL[name]
    inputs = inputs_of(text)
    script = grown_script(random.Random(name), inputs, 6, 6)
    program = gw.Program(text, inputs=named(text), backend=backend.name)
    judges = Judges(text, clingo=False)
    program.load({relation: fed(change, inputs[relation]) for relation, change in script[0].items()})
    judges.step(script[0])
    for tick_index, tick in enumerate(script[1:]):
        compared(program, judges, tick, "step", f"tick {tick_index}")
