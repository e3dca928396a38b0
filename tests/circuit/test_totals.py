"""Sums and means are exact; results outside int64 raise an error and change nothing."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.circuit.aggregate import (
    add_words,
    float_sum_codes,
    float_words,
    normalise_words,
    sums_of_integers,
    to_integers,
    to_words,
)
from gpu_wcoj.data.column import float_codes, floats_of
from gpu_wcoj.errors import AggregateOverflowError
from tests.helpers.kernel_kinds import KINDS, needed

TEXT = "s(x, sum(v)) :- r(x, v). m(x, mean(v)) :- r(x, v). c(x, n) :- g(x), n = count : { r(x, _) }."
MOST, LEAST = 2**63 - 1, -(2**63)


@pytest.fixture(params=KINDS)
def backend(request):
    return needed(request.param).backend()


def test_sums_of_words(backend):
    chance = random.Random(1)
    for max_value, max_weight in ((3, 1), (MOST, 1), (MOST, 2**20), (2**40, 2**40), (MOST, MOST)):
        for n_runs in (1, 5):
            weighed = (max_weight, -max_weight, 1, -1)
            many = [run for run in range(n_runs) for _ in range(chance.randint(1, 6))]
            numbers = [
                chance.choice((chance.randint(-max_value - 1, max_value), max_value, -max_value - 1)) for _ in many
            ]
            rows = [(run, value, chance.choice(weighed)) for run, value in zip(many, numbers, strict=True)]
            runs, values, weights = (np.array(column, np.int64) for column in zip(*rows, strict=True))
            starts = np.flatnonzero(np.diff(runs, prepend=-1))
            sums = sums_of_integers(*map(backend.asarray, (values, weights, starts)), backend)
            exact = [
                sum(value * weight for position, value, weight in rows if position == run) for run in range(n_runs)
            ]
            assert to_integers(sums, backend) == exact
            twice = to_integers(add_words(sums, sums), backend)
            assert [(double - 2 * single) % 2**128 for double, single in zip(twice, exact, strict=True)] == [0] * n_runs


def test_words_of_python_integers():
    numbers = [0, 1, -1, MOST, LEAST, 2**64, -(2**64), 2**126 + 5, -(2**127)]
    assert to_integers(to_words(numbers, cpu_backend()), cpu_backend()) == numbers
    low, high = to_words([2**130, -(2**130)], cpu_backend())
    assert (high != low >> 63).all()


@pytest.mark.parametrize("heaviest", [1, 2**40])
@pytest.mark.parametrize("width", [4, 8])
def test_sums_of_floats_are_those_of_fractions(width, heaviest):
    chance = np.random.default_rng(3)
    for _ in range(40):
        bits = chance.integers(0, 2 ** (8 * width - 1) - 1, 8, dtype=np.int64).astype(f"i{width}")
        values = bits.view(f"f{width}") * chance.choice([-1, 1], 8).astype(f"f{width}")
        values = np.where(np.isfinite(values), values, np.float32(1.5) if width == 4 else 5e-324)
        weights = chance.choice([1, -1, heaviest], 8)
        group = np.sort(chance.integers(0, 3, 8))
        sums = [{}, {}, {}]
        for position, word, amount in zip(*float_words(group, float_codes(values), width, weights), strict=True):
            sums[position][int(word)] = int(amount)
        rounded = floats_of(float_sum_codes(sums), 8).tolist()
        again = floats_of(float_sum_codes([normalise_words(words) for words in sums]), 8).tolist()
        for group_index in range(3):
            members = zip(values[group == group_index].tolist(), weights[group == group_index].tolist(), strict=True)
            exact = sum((Fraction(value) * weight for value, weight in members), Fraction(0))
            try:
                right = exact.numerator / exact.denominator
            except OverflowError:
                right = float("inf") if exact > 0 else float("-inf")
            assert rounded[group_index] == again[group_index] == right


@pytest.mark.parametrize("heavy", [1, 2**40])
def test_infinities_and_nans_come_and_go(heavy):
    inf, nan = float("inf"), float("nan")
    program = gw.Program("s(x, sum(v)) :- r(x, v). .output s", bag=True)

    def total(*changes):
        values, weights = zip(*changes, strict=True)
        columns = {"x": [1] * len(values), "v": pa.array(values, pa.float64()), "weight": weights}
        table = pa.table(columns)
        program.step({"r": table})
        rows = program.relation("s").rows()
        return None if not rows else repr(rows[0][0][1])

    assert total((2.5, heavy)) == repr(2.5 * heavy)
    assert total((inf, 1)) == "inf"
    assert total((-inf, 2)) == "nan"
    assert total((inf, -1)) == "-inf"
    assert total((nan, heavy)) == "nan"
    assert total((-inf, -2)) == "nan"
    assert total((nan, -heavy)) == repr(2.5 * heavy)
    assert total((-0.0, 1), (2.5, -heavy)) == "0.0"
    assert total((0.0, -1)) is None


def rows_of(program):
    names = (*program.inputs, *program.heads)
    return {name: program.relation(name).rows() for name in names}


@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
def test_only_the_final_sum_has_to_fit(bag, backend):
    program = gw.Program(TEXT, bag=bag, backend=backend)
    changes = program.step({"r": [(1, MOST), (1, MOST - 1), (1, LEAST), (2, LEAST), (2, 0)], "g": [(1,), (3,)]})
    assert changes["s"].to_dict() == {(1, MOST - 2): 1, (2, LEAST): 1}
    assert changes["m"].to_dict() == {(1, float(MOST - 2) / 3): 1, (2, float(LEAST) / 2): 1}
    assert changes["c"].to_dict() == {(1, 3): 1, (3, 0): 1}
    before = rows_of(program)
    for rows in ([(1, 3)], [((1, LEAST), -1)], [(2, -1)], [(5, 1), (2, -7)]):
        with pytest.raises(
            AggregateOverflowError, match=r"the sum of the group \(\d,\) in 's' is -?\d+, outside int64"
        ):
            program.step({"r": rows})
        assert rows_of(program) == before
    changes = program.step({"r": [((2, LEAST), -1), (2, MOST), (1, 2)]})
    assert changes["s"].to_dict() == {(1, MOST - 2): -1, (1, MOST): 1, (2, LEAST): -1, (2, MOST): 1}


def test_means_need_no_sum_that_fits(backend):
    program = gw.Program("m(mean(v)) :- r(_, v).", backend=backend)
    assert program.step({"r": [(i, MOST - i) for i in range(5)]})["m"].to_dict() == {(float(5 * MOST - 10) / 5,): 1}
    change = program.step({"r": [((i, MOST - i), -1) for i in range(4)]})["m"].to_dict()
    assert change == {}
    assert program.relation("m").to_dict() == {(float(MOST - 4),): 1}


def test_a_count_outside_int64():
    program = gw.Program(TEXT, bag=True)
    program.step({"r": [((1, 0), MOST), ((2, 0), 1)], "g": [(1,)]})
    before = rows_of(program)
    with pytest.raises(
        AggregateOverflowError, match=rf"the count of the group \(1,\) for 'c' is {MOST + 1}, outside int64"
    ):
        program.step({"r": [(1, 1), (2, 5)]})
    assert rows_of(program) == before


def test_groups_in_messages_are_values():
    program = gw.Program("s(x, y, sum(v)) :- r(x, y, v).")
    with pytest.raises(AggregateOverflowError, match=r"the sum of the group \('größe', 2.5\) in 's' is "):
        program.step({"r": [("größe", 2.5, MOST), ("größe", 2.5, 1)]})
    rows = [((None, dt.date(2024, 2, 29), MOST), 1), ((None, dt.date(2024, 2, 29), 1), 1), (("x", None, 1), 1)]
    for text, place in (
        ("s(x?, sum(v), y?) :- r(x?, y?, v).", "for"),
        ("s(x?, y?, sum(v)) :- r(x?, y?, v).", "in"),
    ):
        program = gw.Program(text)
        match = rf"the sum of the group \(None, datetime.date\(2024, 2, 29\)\) {place} 's' is {MOST + 1}, outside"
        with pytest.raises(AggregateOverflowError, match=match):
            program.step({"r": rows})


def test_a_sum_with_more_digits_than_a_decimal_is_named_in_its_unit():
    program = gw.Program("""
        .decl t(k: number, x: decimal(18,2))
        .decl q(k: number, s: decimal(18,4))
        q(k, sum(x)) :- t(k, x).
    """)
    rows = [(1, decimal.Decimal("99999999999999.99")), (1, decimal.Decimal("0.01"))]
    with pytest.raises(AggregateOverflowError, match=r"is 100000000000000\.00, outside the digits of the result, -999"):
        program.step({"t": rows})
    assert program.step({"t": rows[:1]})["q"].rows() == [((1, decimal.Decimal("99999999999999.9900")), 1)]


def test_random_sums_and_means(backend):
    chance = random.Random(5)
    pool = (0, 1, -1, MOST, LEAST, 2**62, -(2**62), 12345678901234567)
    for bag in (False, True):
        program = gw.Program(TEXT.split(" c(", maxsplit=1)[0], bag=bag, backend=backend, threads=1)
        state = {}
        refused = 0
        for _ in range(40):
            weights = [chance.choice((1, 1, 2**33 if bag else 1)) for _ in range(3)]
            change = [((chance.randrange(3), chance.choice(pool)), weight) for weight in weights]
            change += [(row, -weight) for row, weight in state.items() if chance.random() < 0.3]
            after = dict(state)
            for row, weight in change:
                if bag:
                    after[row] = after.get(row, 0) + weight
                elif weight > 0:
                    after[row] = 1
                else:
                    after.pop(row, None)
            after = {row: weight for row, weight in after.items() if weight}
            groups = {x: [(v, w) for (group, v), w in after.items() if group == x] for x, _ in after}
            sums = {x: sum(v * w for v, w in pairs) for x, pairs in groups.items()}
            if any(not LEAST <= total <= MOST for total in sums.values()):
                refused += 1
                with pytest.raises(AggregateOverflowError):
                    program.step({"r": change})
            else:
                program.step({"r": change})
                state = after
            remaining = {x: [(v, w) for (group, v), w in state.items() if group == x] for x, _ in state}
            sums = {x: sum(v * w for v, w in pairs) for x, pairs in remaining.items()}
            assert program.relation("s").to_dict() == dict.fromkeys(sums.items(), 1)
            means = {(x, float(sum(v for v, _ in pairs)) / len(pairs)): 1 for x, pairs in remaining.items()}
            assert program.relation("m").to_dict() == means
        assert 0 < refused < 40
