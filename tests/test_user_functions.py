"""Declarations of Python functions: names, types, options; values of arguments and results; functions of arrays."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import (
    CheckpointError,
    CheckpointMismatchError,
    FunctionError,
    UsageError,
)
from gpu_wcoj.function_calls import MAX_REMEMBERED
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.printer import deserialize, serialize
from gpu_wcoj.user_functions import Function


@gw.function
def score(amount: int, text: str) -> float:
    """Rate an amount."""
    return amount / (1 + len(text))


class TestDeclarations:
    def test_types_come_from_annotations_or_names(self):
        assert score.signature == "score(int64, string) -> double"

        @gw.function("int32", "decimal(9, 2)", returns="timestamp[us, tz=UTC]", nulls=True)
        def moment(n, m): ...

        assert moment.signature == "moment(int32, decimal128(9, 2)) -> timestamp[us, tz=UTC], nulls=True"

        @gw.function(returns="date")
        def day(when: dt.datetime, flag: bool | None, data: bytes, other: float = 1.0) -> str: ...

        assert day.signature == "day(timestamp[us], bool, binary) -> date32[day]"
        assert gw.function(math.log, float, returns=float, name="ln").signature == "ln(double) -> double"
        assert gw.function()(score.call).signature == score.signature

    def test_a_declared_function_is_called_as_before(self):
        assert score(6, text="ab") == 2.0
        assert (score.__name__, score.__doc__, score.__module__) == ("score", "Rate an amount.", __name__)
        assert repr(score) == "Function(score(int64, string) -> double)"
        assert pickle.loads(pickle.dumps(score)) is score

    def test_names_that_are_taken(self):
        first, second = (gw.function(abs, int, returns=int, name=name) for name in ("size", "Size"))
        with pytest.raises(UsageError, match="the function 'Size' is given twice"):
            gw.Program("h(n) :- r(n).", functions=[first, second])
        length = gw.function(len, str, returns=int, name="length")
        assert gw.query("h(length(t)) :- r(t).", r=[("ab",)], functions=[length, length]).rows(weights=True) == [
            ((2,), 1)
        ]
        with pytest.raises(UsageError, match="the function 'length' has the name of a function of SQL"):
            gw.view("SELECT length(t) AS n FROM r", r={"t": ["ab"]}, functions=[length])

    def test_functions_of_sqlglot_may_be_replaced(self):
        for name in ("reverse", "trim", "sqrt", "log1p"):
            mine = gw.function(lambda t: f"<{t}>", str, returns=str, name=name)
            query = f"SELECT {name}(t) AS u FROM r"
            assert gw.query(query, r={"t": ["a"]}, functions=[mine]).rows(weights=True) == [(("<a>",), 1)]


class TestTexts:
    def test_rules_are_written_and_read_with_their_functions(self):
        text = "h(a, score(a, t) * 2.0) :- r(a, t), score(a, t) > 0.5."
        rules = parse(text, functions=[score])
        assert str(rules) == text.replace("score(a, t) * 2.0", "score(a, t) * 2.0")
        assert parse(str(rules), functions=[score]) == rules
        assert rules.functions == {"score": score}
        other = gw.function(score.call)
        assert parse(text, functions=[other]) != rules
        query = "SELECT a, COUNT(*) AS n FROM r WHERE score(a, t) > 0.5 GROUP BY a"
        program = gw.view(query, r={"a": [1], "t": ["b"]}, functions=[score]).program
        for made in (program.rules, program.subject.lowering.rules):
            assert deserialize(serialize(made), [score]) == program.rules


VALUES: list[tuple[str, Any]] = [
    ("int8", -128), ("uint8", 255), ("int64", -(2**63)), ("bool", True), ("float64", -0.0), ("float64", math.inf),
    ("string", "größe"), ("binary", b"\x00"), ("date32", dt.date(1969, 12, 31)), ("date64", dt.date(1, 1, 1)),
    ("timestamp[us]", dt.datetime(1960, 1, 2, 3, 4, 5, 6)), ("timestamp[s]", dt.datetime(1960, 1, 2, 3, 4, 5)),
    ("timestamp[ns]", dt.datetime(2020, 1, 2, 3, 4, 5, 6)),
    ("timestamp[us, tz=UTC]", dt.datetime(2020, 1, 2, tzinfo=dt.UTC)), ("decimal(4, 2)", Decimal("-99.99")),
    ("decimal(18, 0)", Decimal(10**18 - 1)),
]  # fmt: skip


class TestValues:
    @pytest.mark.parametrize(("kind", "value"), VALUES)
    @pytest.mark.parametrize("arrays", [False, True], ids=["values", "arrays"])
    def test_values_pass_through(self, kind, value, arrays):
        seen: list[Any] = []

        def same(values):
            seen.append(values)
            return values

        program = gw.Program(
            "h(x, same(x)) :- r(x).", schema={"r": [kind]},
            functions=[gw.function(same, kind, returns=kind, arrays=arrays)],
        )  # fmt: skip
        ((row, _),) = program.step({"r": [(value,)]})["h"].rows()
        assert row == (value, value)
        assert [type(one) for one in row] == [type(value)] * 2
        assert isinstance(seen[0], np.ndarray) if arrays else seen == [value] and type(seen[0]) is type(value)

    @pytest.mark.parametrize(
        ("column", "kind", "value", "passed"),
        [
            ("int64", "float64", 3, 3.0), ("int64", "decimal(9, 2)", 3, Decimal("3.00")), ("int8", "int64", 3, 3),
            ("decimal(4, 2)", "float64", Decimal("1.25"), 1.25), ("int64", "uint8", 200, 200),
            ("decimal(4, 1)", "decimal(9, 3)", Decimal("1.2"), Decimal("1.200")),
            ("timestamp[s]", "timestamp[us]", dt.datetime(2020, 1, 2), dt.datetime(2020, 1, 2)),
        ],
    )  # fmt: skip
    def test_arguments_are_widened(self, column, kind, value, passed):
        seen: list[Any] = []
        keep = gw.function(lambda one: seen.append(one), kind, returns=kind, name="keep")
        gw.Program("h(keep(x)) :- r(x).", schema={"r": [column]}, functions=[keep]).step({"r": [(value,)]})
        assert seen == [passed]
        assert type(seen[0]) is type(passed)

    def test_arguments_that_a_parameter_does_not_have(self):
        narrow = gw.function(lambda n: n, "uint8", returns="int64", name="narrow")
        program = gw.Program("h(narrow(n)) :- r(n).", functions=[narrow])
        with pytest.raises(FunctionError, match=r"narrow\(300\) takes 'uint8', which one of these arguments is not"):
            program.step({"r": [(3,), (300,), (None,)]})
        fine = gw.function(lambda n: n, "timestamp[us]", returns="timestamp[us]", name="fine")
        program = gw.Program("h(fine(n)) :- r(n).", functions=[fine], schema={"r": ["timestamp[ns]"]})
        with pytest.raises(FunctionError, match="takes 'timestamp"):
            program.step({"r": {"n": np.array([1], "M8[ns]")}})

    def test_nulls_are_passed_on_demand(self):
        calls: list[Any] = []
        first = gw.function(lambda a, b: calls.append((a, b)), int, int, returns=int, name="first")
        rows = {"a": [1, None, None], "b": [None, 2, None]}
        assert gw.query("SELECT first(a, b) AS x FROM r", r=rows, functions=[first]).rows(weights=True) == [
            ((None,), 3)
        ]
        assert not calls
        first = gw.function(first.call, int, int, returns=int, nulls=True, name="first")
        gw.query("SELECT first(a, b) AS x FROM r", r=rows, functions=[first])
        assert sorted(calls, key=repr) == [(1, None), (None, 2), (None, None)]


class TestArrays:
    def test_a_call_has_all_arguments_of_a_piece(self):
        calls: list[int] = []

        @gw.function("int64", "float64", returns="float64", arrays=True)
        def mixed(n, x):
            calls.append(len(n))
            return np.where(n % 2 == 0, x, np.nan)

        rows = [(n, n / 4) for n in range(1000)] + [(None, 1.0)]
        found = gw.query("h(n, mixed(n, x)) :- r(n, x).", r=rows, functions=[mixed])
        assert sum(calls) == 1000
        assert len(calls) < 10
        assert {n: x for n, x in found if n % 2 == 0} == {n: n / 4 for n in range(0, 1000, 2)}
        assert all(math.isnan(x) for n, x in found if n % 2)

    def test_masked_elements_are_null(self):
        @gw.function("int64", returns="int64", arrays=True)
        def even(n):
            return np.ma.masked_array(n, n % 2 == 1)

        @gw.function("int64", returns="string", arrays=True, nulls=True)
        def shown(n):
            return np.array([None if one == 3 else str(one) for one in n.tolist()], object)

        text = "h(n, even(n), shown(n)) :- r(n)."
        found = gw.query(text, r=[(2,), (3,), (None,)], functions=[even, shown]).rows(weights=True)
        assert found == [((2, 2, "2"), 1), ((3, None, None), 1)]
        assert gw.query("h(shown(n)) :- r(n).", r=[(2,), (None,)], functions=[shown]).rows() == [("2",), ("None",)]

    def test_a_call_that_raises_is_repeated_for_each_element(self):
        @gw.function("int64", returns="int64", arrays=True)
        def checked(n):
            if (n == 0).any():
                raise ValueError("zero")
            return 12 // n

        rows = [(0,), (3,), (4,)]
        assert gw.query("h(checked(n)) :- r(n), n != 0.", r=rows, functions=[checked]).rows(weights=True) == [
            ((3,), 1),
            ((4,), 1),
        ]
        with pytest.raises(FunctionError, match=r"checked\(0\) raised ValueError: zero"):
            gw.query("h(checked(n)) :- r(n).", r=rows, functions=[checked])


class TestPrograms:
    def test_checkpoints_store_the_signature_alone(self, tmp_path):
        text = 'h(a, score(a, t)) :- r(a, t). k(n) :- n = count : { h(_, s), s > score(1, "b") }.'
        program = gw.Program(text, functions=[score])
        program.step({"r": [(1, "b"), (5, "c")]})
        program.checkpoint(tmp_path)
        for functions in ((), [gw.function(score.call, name="other")]):
            with pytest.raises(
                CheckpointError, match=r"calls the Python function score\(int64, string\) -> double(?s:.*)Pass"
            ):
                gw.Program.restore(tmp_path, functions=functions)
        other = gw.function(score.call, "float64", "string", returns="float64")
        with pytest.raises(CheckpointError, match="'score' has other types than in the checkpoint"):
            gw.Program.restore(tmp_path, functions=[other])
        with pytest.raises(CheckpointMismatchError, match="functions"):
            gw.Program(text, functions=[other]).checkpoint(tmp_path)
        again = gw.Program.restore(tmp_path, functions=[score])
        change = {"r": [((1, "b"), -1), (7, "d")]}
        assert {n: z.rows() for n, z in again.step(change).items()} == {
            n: z.rows() for n, z in program.step(change).items()
        }

    def test_results_of_earlier_ticks_are_kept_up_to_a_limit(self, monkeypatch):
        calls: list[int] = []
        seen = gw.function(lambda n: calls.append(n), int, returns=int, name="seen")
        program = gw.Program("h(n, seen(n)) :- r(n).", functions=[seen])
        assert MAX_REMEMBERED > 1000
        monkeypatch.setattr("gpu_wcoj.function_calls.MAX_REMEMBERED", 5)
        program.step({"r": [(n,) for n in range(5)]})
        program.step({"r": [((0,), -1), (7,)]})
        assert sorted(calls) == [0, 1, 2, 3, 4, 7]
        program.step({"r": [((7,), -1)]})
        assert sorted(calls) == [0, 1, 2, 3, 4, 7, 7]

    def test_a_function_of_c_keeps_its_exception(self):
        root = gw.function(math.sqrt, "float64", returns="float64", name="root")
        with pytest.raises(FunctionError, match=r"root\(-1.0\) raised ValueError") as raised:
            gw.query("h(root(x)) :- r(x).", r=[(-1.0,)], functions=[root])
        assert isinstance(raised.value.__cause__, ValueError)

    def test_functions_are_exported(self):
        assert "function" in dir(gw)
        assert isinstance(score, Function)
