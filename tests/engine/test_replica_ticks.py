"""Whichever side a tick runs on, its answers are the same."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.data.column import Column
from gpu_wcoj.errors import UsageError
from tests.helpers.answers import named
from tests.helpers.comparison import Judges, arities, check_script, fed, random_script
from tests.helpers.join_patterns import PATTERNS
from tests.helpers.long_tests import IS_LONG

BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
SOME = ("triangle", "4-cycle once", "heads of heads", "diamond once", "wildcards on both sides", "two components")
ONE_EDGE = "h(a, b, c) :- e(a, b), e(b, c), e(a, c)."


def routes(seed):
    """Which ticks run on the twin, by their number."""
    draw = random.Random(seed)
    chosen = [draw.random() < 0.5 for _ in range(64)]
    return lambda number: chosen[number % 64]


@pytest.mark.drawn("bag", "route", "name", each=True)
@BAGS
@pytest.mark.parametrize("route", ["device", "cpu", 5])
@pytest.mark.parametrize("name", SOME)
def test_forced_routes_give_the_answers_of_recomputation(name, route, bag, pair):
    text = PATTERNS[name]
    for seed in range(2):
        script = random_script(random.Random(f"{name} {seed}"), arities(text))
        check_script(text, script, bag=bag, way=("step", "step_counts")[seed], **pair.options(route=route))


@pytest.mark.drawn("bag", "keeps")
@BAGS
@pytest.mark.parametrize("keeps", [False, True], ids=["joined afresh", "kept"])
@pytest.mark.parametrize("name", SOME)
def test_alternating_routes_give_the_answers_of_recomputation(name, keeps, bag, pair, sides):
    text = PATTERNS[name]
    for seed in range(4) if IS_LONG else (1, 2):
        sides(routes(seed), keeps=seed < 2)
        script = random_script(random.Random(f"{name} {seed}"), arities(text))
        options = pair.options(route=1, keep=gw.Program(text).heads if keeps else ())
        check_script(text, script, bag=bag, way=("step", "step_pieces")[seed % 2], **options)


@pytest.mark.drawn("bag", "name", share=4)
@BAGS
@pytest.mark.parametrize("name", SOME)
def test_nothing_but_ticks_between_alternating_routes(name, bag, pair, sides):
    """No relation is read, so that backlogs of several ticks stand on either side."""
    text = PATTERNS[name]
    inputs = arities(text)
    behind = set()
    for seed in range(4 if IS_LONG else 2):
        sides(routes(seed))
        program = gw.Program(text, bag=bag, inputs=named(text), **pair.options(route=1))
        reference = Judges(text, bag)
        script = [tick for part in range(3) for tick in random_script(random.Random(f"{seed} {part}"), inputs)]
        for number, tick in enumerate(script):
            expected = reference.step(tick)
            changes = program.step({one: fed(change, inputs[one]) for one, change in tick.items()})
            for output, zset in changes.items():
                assert zset.to_dict() == expected[output], f"tick {number}: {output}"
            behind.update(label for label, rows in program.last_tick.backlog_rows.items() if rows)
        for head in program.heads:
            assert program.relation(head).to_dict() == reference.heads[head]
        for one in inputs:
            assert program.relation(one).to_dict() == reference.state[one]
    assert behind == {pair.primary.name, "cpu"}


@pytest.mark.drawn("bag")
@BAGS
def test_a_lowering_in_the_middle(bag, pair, sides):
    """Nulls, text and finer units turn up while either side is ahead."""
    text = "h(a, b, c) :- e(a, b), f(b, c)."
    stamps = [pa.timestamp(unit) for unit in ("s", "ms", "us")]
    ticks = []
    for number in range(9):
        kind = stamps[number // 3]
        scale = 1000 ** (number // 3)
        rows = [[number % 4 * scale, number % 3 * scale, None if number % 4 == 3 else scale], [scale, 2 * scale, 0]]
        first, second = (pa.array(row, pa.int64()).cast(kind) for row in rows)
        texts = pa.array([f"t{number}", "x", None if number == 5 else "y"])
        ticks.append({"e": pa.table({"a": texts, "b": first}), "f": pa.table({"b": second, "c": texts})})
        ticks.append({"e": pa.table({"a": texts[:1], "b": first[:1], "weight": [-1]})})
    for seed in range(4 if IS_LONG else 2):
        sides(routes(seed))
        program, alone = gw.Program(text, bag=bag, **pair.options(route=1)), gw.Program(text, bag=bag, backend="cpu")
        for tick in ticks:
            assert program.step(tick)["h"].rows() == alone.step(tick)["h"].rows()
        for name in ("e", "f", "h"):
            assert program.relation(name).rows() == alone.relation(name).rows()


def test_the_threshold_is_a_number_of_given_rows(pair):
    program = gw.Program(ONE_EDGE, **pair.options(route=3))
    ran_on = []
    for rows in ([(1, 2)], [(1, 2), (1, 2)], [(1, 2), (2, 3), (1, 3)], [(4, 5)] * 4, [(7, 8), (8, 9)]):
        program.step({"e": rows})
        ran_on.append(program.last_tick.backend)
    assert ran_on == ["cpu", "cpu", pair.primary.name, pair.primary.name, "cpu"]
    assert program.last_tick.backlog_rows == {pair.primary.name: 2, "cpu": 0}
    program.step({"e": []})
    assert program.last_tick.backend == ""
    assert program.last_tick.backlog_rows == {pair.primary.name: 2, "cpu": 0}


@pytest.mark.parametrize("route", ["gpu", -1, 1.5, True, None])
def test_other_routes_are_refused(route):
    with pytest.raises(UsageError, match=r"(?s)route=.*'auto', 'device', 'cpu'"):
        gw.Program(ONE_EDGE, backend="cpu", route=route)


@pytest.mark.parametrize("memory", [-1, 0, 1.5, "much", True])
def test_other_amounts_of_memory_are_refused(memory):
    with pytest.raises(UsageError, match=r"(?s)twin_memory=.*bytes"):
        gw.Program(ONE_EDGE, backend="cpu", twin_memory=memory)


class TestTheSideThatIsRead:
    """All that shows the state, while one side is ahead."""

    @pytest.fixture
    def programs(self, pair):
        """One that has run ticks on the twin last, one that has run them on the device last, and one without a twin."""
        ticks = [[(1, 2), (2, 3), (1, 3), (3, 4)], [(2, 4)], [((1, 2), -1), (5, 6)], [(1, 4), (1, 2)]]
        found = []
        for route in (1 << 20, 3):
            program = gw.Program(ONE_EDGE, keep=["h"], **pair.options(route=route))
            for tick in ticks:
                program.step({"e": tick})
            found.append(program)
        found[1].step({"e": [((5, 6), 0)] * 3})
        alone = gw.Program(ONE_EDGE, keep=["h"], backend="cpu")
        for tick in ticks:
            alone.step({"e": tick})
        return [*found, alone]

    def test_relations_counts_and_rows_of_batches(self, programs):
        *both, alone = programs
        assert both[0].last_tick.backlog_rows[both[0].backend.name] > 0
        for program in both:
            for name in ("e", "h"):
                assert program.relation(name) == alone.relation(name)
                assert program.count(name) == alone.count(name)
            assert {key: sum(rows) for key, rows in program.state_rows.items()} == {
                key: sum(rows) for key, rows in alone.state_rows.items()
            }

    def test_compact_takes_in_what_stands_out(self, programs):
        for program in programs[:2]:
            before = program.relation("e")
            program.compact()
            assert program.relation("e") == before
            assert all(len(rows) <= 1 for rows in program.state_rows.values())
            assert all(not side.backlog for side in program._ledger.state.sides)

    @pytest.mark.usefixtures("large_ticks")
    def test_bytes_count_both_sides_and_what_stands_out(self, programs):
        both, _, alone = programs
        of_both, of_one = (sum(side.nbytes for side in one._ledger.state.sides) for one in (both, alone))
        assert of_both > 2 * of_one > 0
        assert both.nbytes >= of_both  # and what either side has made of its arrays
        assert alone.nbytes > of_one

    def test_explain_says_where_ticks_run(self, pair):
        shown = gw.Program(ONE_EDGE, **pair.options(route=7, twin_memory=10**9)).explain().splitlines()
        assert shown[0] == f"backend {pair.primary.description}, set semantics"
        assert (
            shown[1]
            == "route: ticks of fewer than 7 rows run on the CPU (as asked for); the state there takes up to 1.0 GB"
        )
        for route, text in (("device", "all ticks run on the device"), ("cpu", "all ticks run on the CPU")):
            assert text in gw.Program(ONE_EDGE, **pair.options(route=route)).explain()

    def test_a_program_on_the_cpu_has_no_route(self):
        program = gw.Program(ONE_EDGE, backend="cpu", route=5)
        program.step({"e": [(1, 2)]})
        assert "route" not in program.explain()
        assert program.last_tick.backend == "cpu"
        assert program.last_tick.backlog_rows == {}


def test_weights_at_the_ends_of_int64_pass_through_a_backlog(pair, sides):
    """A change of 2^64 - 1 is no int64; modulo 2^64 it is right all the same."""
    sides(lambda number: number % 2 == 0 or number < 4)
    program = gw.Program("h(a) :- e(a, _).", bag=True, **pair.options(route=1))
    low, high = -(2**63), 2**63 - 1
    for weights in ([low], [high, 1], [high]):
        for weight in weights:
            program.step({"e": gw.ZSet.from_rows([((1, 2), weight)])})
    assert program.relation("e").to_dict() == {(1, 2): high}
    program.compact()
    for side in program._ledger.state.sides:
        _, found = side.circuit.sources["e"].rows()
        assert np.asarray(side.circuit.backend.to_host(found)).tolist() == [high]


def test_rows_of_a_device_come_in_on_either_side_and_answers_stay_where_they_were_made(pair, sides):
    """Text and nulls too: a tick on the CPU fetches them."""
    if pair.primary.device is None:
        pytest.skip("this pair has no device")
    sides(lambda number: number % 2 == 1)
    program, alone = gw.Program(ONE_EDGE, **pair.options(route=1)), gw.Program(ONE_EDGE, backend="cpu")
    for number in range(4):
        rows = [(number, number + 1), (number + 1, number + 2), (number, number + 2), (number, 7)]
        given = gw.ZSet.from_rows([(f"{a}", None if b == 4 else f"{b}") for a, b in rows])
        columns = [
            Column(one.type, pair.primary.asarray(one.codes), moved_mask(one.valid, pair), one.dictionary)
            for one in given.columns
        ]
        there = gw.ZSet.from_columns(given.names, columns, pair.primary.asarray(given.weights), backend=pair.primary)
        assert there.backend is pair.primary
        found = program.step({"e": there})["h"]
        assert found == alone.step({"e": given})["h"]
        assert found.backend is (None if number % 2 else pair.primary)
    assert program.relation("e") == alone.relation("e")


def moved_mask(valid, pair):
    return None if valid is None else pair.primary.asarray(valid)
