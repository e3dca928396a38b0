"""Sums and means are exact however large, and what leaves int64 is an error that leaves no trace."""

from __future__ import annotations

import datetime as dt
import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.circuit.float_sums import codes_of_floats, words_of_floats, written
from gpu_wcoj.circuit.sums import added, integers_of, sums_of_integers, words_of
from gpu_wcoj.column import float_codes, floats_of
from gpu_wcoj.errors import AggregateOverflowError
from tests.kinds import KINDS, needed

TEXT = "s(x, sum(v)) :- r(x, v). m(x, mean(v)) :- r(x, v). c(x, n) :- g(x), n = count : { r(x, _) }."
MOST, LEAST = 2**63 - 1, -(2**63)


@pytest.fixture(params=KINDS)
def backend(request):
    return needed(request.param).backend()


def test_sums_of_words(backend):
    chance = random.Random(1)
    for most, heaviest in ((3, 1), (MOST, 1), (MOST, 2**20), (2**40, 2**40), (MOST, MOST)):
        for n_runs in (1, 5):
            weighed = (heaviest, -heaviest, 1, -1)
            many = [own for own in range(n_runs) for _ in range(chance.randint(1, 6))]
            numbers = [chance.choice((chance.randint(-most - 1, most), most, -most - 1)) for _ in many]
            rows = [(own, number, chance.choice(weighed)) for own, number in zip(many, numbers, strict=True)]
            own, values, weights = (np.array(column, np.int64) for column in zip(*rows, strict=True))
            starts = np.flatnonzero(np.diff(own, prepend=-1))
            found = sums_of_integers(*map(backend.asarray, (values, weights, starts)), backend)
            exact = [sum(value * weight for at, value, weight in rows if at == one) for one in range(n_runs)]
            assert integers_of(found, backend) == exact
            twice = integers_of(added(found, found), backend)
            assert [(one - 2 * other) % 2**128 for one, other in zip(twice, exact, strict=True)] == [0] * n_runs


def test_words_of_python_integers():
    numbers = [0, 1, -1, MOST, LEAST, 2**64, -(2**64), 2**126 + 5, -(2**127)]
    assert integers_of(words_of(numbers, cpu_backend()), cpu_backend()) == numbers
    low, high = words_of([2**130, -(2**130)], cpu_backend())
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
        for own, word, amount in zip(*words_of_floats(group, float_codes(values), width, weights), strict=True):
            sums[own][int(word)] = int(amount)
        found = floats_of(codes_of_floats(sums), 8).tolist()
        again = floats_of(codes_of_floats([written(words) for words in sums]), 8).tolist()
        for own in range(3):
            mine = zip(values[group == own].tolist(), weights[group == own].tolist(), strict=True)
            exact = sum((Fraction(value) * weight for value, weight in mine), Fraction(0))
            try:
                right = exact.numerator / exact.denominator
            except OverflowError:
                right = float("inf") if exact > 0 else float("-inf")
            assert found[own] == again[own] == right


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
            groups = {x: [(v, w) for (own, v), w in after.items() if own == x] for x, _ in after}
            sums = {x: sum(v * w for v, w in own) for x, own in groups.items()}
            if any(not LEAST <= one <= MOST for one in sums.values()):
                refused += 1
                with pytest.raises(AggregateOverflowError):
                    program.step({"r": change})
            else:
                program.step({"r": change})
                state = after
            kept = {x: [(v, w) for (own, v), w in state.items() if own == x] for x, _ in state}
            sums = {x: sum(v * w for v, w in own) for x, own in kept.items()}
            assert program.relation("s").to_dict() == dict.fromkeys(sums.items(), 1)
            means = {(x, float(sum(v for v, _ in own)) / len(own)): 1 for x, own in kept.items()}
            assert program.relation("m").to_dict() == means
        assert 0 < refused < 40
