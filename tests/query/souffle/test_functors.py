"""Functors and records by themselves, and in programs: their values, their mistakes, their state."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import CalculationError, TypeMismatchError
from gpu_wcoj.query.souffle.functors import functor, ordinal, power, range_size
from gpu_wcoj.query.souffle.records import format_record, pack, stored, unpack

LISTS = """
    .type List = [head: number, tail: List]
    .decl list(l: List)
    .decl length(l: List, n: number)
    list(t) :- list([_, t]).
    length(nil, 0).
    length(l, n + 1) :- list(l), l = [_, t], length(t, n).
    .input list
"""


class TestValues:
    def test_a_range_has_the_values_that_a_loop_has(self):
        rng = random.Random("ranges")
        for _ in range(300):
            start, end, step = rng.randrange(-9, 9), rng.randrange(-9, 9), rng.choice((-3, -1, 1, 2, 7))
            assert range_size(start, end, step) == len(range(start, end, step))

    def test_powers_are_those_of_python_within_int64(self):
        for base in range(-5, 6):
            for exponent in range(20):
                assert power(base, exponent) == base**exponent
        assert (power(1, 10**18), power(-1, 10**18 + 1), power(0, 10**18)) == (1, -1, 0)
        with pytest.raises(OverflowError):
            power(3, 10**9)
        with pytest.raises(ZeroDivisionError):
            power(0, -1)

    def test_ordinals_differ_and_stay(self):
        texts = ["", "a", "b", "ab", "ba", "\ud800", "é"]
        assert len({ordinal(text) for text in texts}) == len(texts)
        assert ordinal("a") == 2340832890917691671

    def test_shifts_and_bits_are_those_of_64_bits(self):
        values = {"bshl": -(2**63), "bshru": 1, "bshr": -1}
        arguments = {"bshl": (1, 63), "bshru": (-1, 63), "bshr": (-1, 63)}
        for name, value in values.items():
            assert functor(name)(*arguments[name]) == value

    def test_records_are_read_again(self):
        rng = random.Random("records")
        types = json.dumps({"R": {"": ["n", "s", "R"]}, "S": {"A": ["R", "s"], "B": []}})
        for _ in range(200):
            text = "null"
            for _ in range(rng.randrange(4)):
                word = "".join(rng.choice('a"\\,[]{} é') for _ in range(rng.randrange(4)))
                text = pack("", "nsr", (rng.randrange(-5, 5), word, text))
                assert unpack(text, "", 1, 3, "s") == word
            assert stored(text, "R", types) == stored(json.dumps(json.loads(text), indent=1), "R", types) == text
            branch = pack("A", "rs", (text, "x"))
            assert stored(branch, "S", types) == branch
            assert unpack(branch, "A", 0, 2, "r") == text
            assert unpack(branch, "B", 0, 1, "r") is None

    @pytest.mark.parametrize(
        ("text", "what"),
        [
            ("[1", "expected ','"), ("[1,2]", "expected '['"), ("[1,null]x", "expected the end at character 8"),
            ("[a,nil]", "expected a number"), ("", "expected '['"), ("{}", "expected '['"),
        ],
    )  # fmt: skip
    def test_what_is_no_record(self, text, what):
        with pytest.raises(ValueError, match=what.replace("[", r"\[")):
            stored(text, "List", '{"List":{"":["n","List"]}}')

    def test_long_lists_need_no_recursion(self):
        text = "null"
        for number in range(5_000):
            text = f"[{number},{text}]"
        assert stored(text, "List", '{"List":{"":["n","List"]}}') == text
        assert format_record(text).startswith("[4999, [4998, ")
        assert unpack(text, "", 1, 2, "r").startswith("[4998,")


class TestPrograms:
    def test_a_value_that_a_functor_lacks_undoes_the_tick(self):
        program = gw.Program("h(to_number(s)) :- r(s).")
        assert program.step({"r": [("1",)]})["h"].rows() == [((1,), 1)]
        with pytest.raises(CalculationError, match=r"to_number\('x'\) has no value: 'x' is not a number"):
            program.step({"r": [("x",)]})
        assert program.step({"r": [("2",)]})["h"].rows() == [((2,), 1)]

    def test_a_constant_that_a_functor_lacks_is_a_mistake(self):
        with pytest.raises(TypeMismatchError, match=r"'to_number\(\"x\"\)' has no value: .* \(line 1, column 3\)"):
            gw.Program('h(to_number("x")) :- r(_).')

    def test_spellings_of_one_record_are_one(self):
        program = gw.Program(LISTS)
        assert program.step({"list": [("[1, nil]",)]})["length"].rows() == [(("null", 0), 1), (("[1,null]", 1), 1)]
        assert program.step({"list": [("[1,null]",)]})["length"].rows() == []
        assert program.step({"list": [(("[1, nil]",), -1)]})["length"].rows() == []
        assert program.step({"list": [(("[1,null]",), -1)]})["length"].rows() == [(("[1,null]", 1), -1)]
        with pytest.raises(CalculationError, match=r"the record '\[x, nil\]' has no value: expected a number"):
            program.step({"list": [("[x, nil]",)]})

    def test_a_checkpoint_goes_on_without_functions(self, tmp_path: Path):
        program = gw.Program(LISTS)
        program.step({"list": [("[1, [2, nil]]",)]})
        program.checkpoint(tmp_path / "state")
        again = gw.Program.restore(tmp_path / "state")
        assert again.step({"list": [(("[1, [2, nil]]",), -1)]})["length"].rows() == [
            (("[1,[2,null]]", 2), -1), (("[2,null]", 1), -1),
        ]  # fmt: skip

    def test_an_explanation_shows_how_records_are_taken_apart(self):
        text = gw.Program(LISTS).explain()
        assert 'is_branch(c0, "")' in text or "is_branch(" in text
        assert "unpack_r(" in text

    def test_nulls_take_part_in_no_functor(self):
        program = gw.Program("h(x, x band 1) :- r(x). g(min(x, 3)) :- r(x).")
        rows = {name: change.rows() for name, change in program.step({"r": [(None,), (5,)]}).items()}
        assert [row for row, _ in rows["g"] if row[0] is not None] == [(3,)]

    def test_functions_of_users_come_first(self):
        shout = gw.function(lambda text: text.upper() + "!", str, returns=str, name="to_string")
        assert gw.query("h(to_string(x)) :- r(x).", r=[("a",)], functions=[shout]).rows() == [("A!",)]
