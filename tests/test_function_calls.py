"""Calls of Python functions on codes: any sequence of evaluations gives what the function gives, with few calls."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj import function_calls
from gpu_wcoj.data.column import Dictionary
from gpu_wcoj.data.schema import INT64, DataType
from gpu_wcoj.errors import FunctionError
from gpu_wcoj.function_calls import BoundFunction

SIZES = (1, 3, 20, 511, 512, 2000, 40, 5000, 2, 700, 700, 700, 700, 700, 700, 700, 30)


def value_of(a: int | None, b: int | None) -> int | None:
    """A result, null for some arguments, and an exception for others."""
    if a == 7:
        raise ValueError(f"seven and {b}")
    if a is None or b is None:
        return -1
    return None if (a + b) % 5 == 0 else a * 1000 + b


@pytest.mark.parametrize("nulls", [False, True], ids=["strict", "nulls"])
@pytest.mark.parametrize("arrays", [False, True], ids=["values", "arrays"])
def test_evaluations_in_any_order(nulls, arrays):
    rng = np.random.default_rng(5)
    calls: Counter[tuple[int | None, int | None]] = Counter()

    def single(a: int | None, b: int | None) -> int | None:
        calls[a, b] += 1
        return value_of(a, b)

    def many(a: Any, b: Any) -> Any:
        pairs = list(zip(a.tolist(), b.tolist(), strict=True))
        results = [value_of(*pair) for pair in pairs]
        calls.update(pairs)  # those of a call that raises are called again
        mask = [one is None for one in results]
        return np.ma.masked_array([one or 0 for one in results], mask)

    function = gw.function(
        many if arrays else single, "int64", "int64", returns="int64", name="f", nulls=nulls, arrays=arrays
    )
    bound = BoundFunction(function, (Dictionary("string"), Dictionary("binary")))
    for size in SIZES:
        columns = [rng.integers(0, 60, size), rng.integers(0, 60, size)]
        masks = [rng.random(size) < 0.1 if nulls else None for _ in columns]
        codes, null, failed = bound.evaluate([INT64, INT64], columns, masks)
        for row in range(size):
            arguments = [
                None if mask is not None and mask[row] else int(column[row])
                for column, mask in zip(columns, masks, strict=True)
            ]
            try:
                right = value_of(*arguments)
            except ValueError:
                right = "failed"
            found = "failed" if failed[row] else None if null[row] else int(codes[row])
            assert found == right, (size, arguments)
            if failed[row] and row < 20:
                error = bound.error_of("in a rule, ", [INT64, INT64], arguments)
                assert error.arguments == tuple(arguments)
                assert str(error.__cause__) == f"seven and {arguments[1]}"
    assert set(calls.values()) == {1}


def test_results_are_forgotten_when_texts_are():
    texts, data = Dictionary("string"), Dictionary("binary")
    string = DataType("string")
    bound = BoundFunction(gw.function(str.upper, "string", returns="string", name="up"), (texts, data))
    for n in (3, 1000):
        for round_ in range(3):
            size = len(texts)
            codes = texts.codes_of([f"t{round_} {i}" for i in range(n)])
            found, null, failed = bound.evaluate([string], [codes], [None])
            assert texts.values_of(found) == [f"T{round_} {i}" for i in range(n)]
            assert not null.any()
            assert not failed.any()
            texts.truncate(size)


def test_large_ticks_of_programs_equal_built_in_calculations():
    calls: Counter[int] = Counter()

    @gw.function
    def inc(n: int) -> int:
        calls[n] += 1
        return n + 1

    rng = np.random.default_rng(8)
    texts = ("h(x, y) :- r(x, z), s(z, w), y = inc(w).", "h(x, y) :- r(x, z), s(z, w), y = w + 1.")
    programs = [gw.Program(text, functions=[inc], chunk_rows=1000) for text in texts]
    for size in (3000, 5, 800, 40, 2000):
        calls.clear()
        change = {name: [tuple(row) for row in rng.integers(0, 1500, (size, 2)).tolist()] for name in "rs"}
        change["r"] += [((x, z), -1) for x, z in rng.integers(0, 1500, (size, 2)).tolist()]
        found, right = (program.step(change)["h"].to_dict() for program in programs)
        assert found == right
        assert set(calls.values()) <= {1}


def test_a_failure_among_many_rows_is_the_smallest():
    @gw.function("int64", returns="int64", arrays=True)
    def checked(n):
        if (n % 1000 == 999).any():
            raise ValueError("at the end of a thousand")
        return n

    program = gw.Program("h(checked(n)) :- r(n).", functions=[checked])
    with pytest.raises(FunctionError, match=r"checked\(1999\) raised ValueError: at the end"):
        program.step({"r": [(n,) for n in range(1000, 4000)]})
    assert program.count("h") == 0
    assert program.step_counts({"r": [(n,) for n in range(1000, 1999)]})["h"].net == 999


def test_tables_are_merged(monkeypatch):
    monkeypatch.setattr(function_calls, "_MAX_TABLES", 2)
    bound = BoundFunction(gw.function(abs, "int64", returns="int64", name="size"), (Dictionary(), Dictionary("binary")))
    for start in range(0, 6000, 600):
        codes, _, _ = bound.evaluate([INT64], [-np.arange(start, start + 700)], [None])
        assert codes.tolist() == list(range(start, start + 700))
    assert len(bound._tables) <= 3


@pytest.mark.parametrize("n", [3, 12], ids=["few", "many"])
def test_an_interrupt_at_any_line_leaves_results_right(n, monkeypatch):
    monkeypatch.setattr(function_calls, "_MIN_SORTED", 8)
    flip = gw.function(lambda text: None if text.endswith("3") else text[::-1], "string", returns="string", name="flip")
    text = "h(t, flip(t)) :- r(t)."
    program, plain = (gw.Program(text, functions=[flip]) for _ in range(2))
    countdown = [0]

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != function_calls.__file__:
            return None
        countdown[0] -= event == "line"
        if countdown[0] == 0:
            raise KeyboardInterrupt
        return trace

    n_interrupts = 0
    for line in range(1, 2000, 13):
        change = {"r": [(f"t{line} {i}",) for i in range(n)]}
        countdown[0] = line
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            program.step(change)
        except KeyboardInterrupt:
            n_interrupts += 1
        else:
            break
        finally:
            sys.settrace(before)
        assert len(program.relation("h")) == len(plain.relation("h"))
        other = {"r": [(f"u{line} {i}",) for i in range(n)]}
        for tick in (other, change, {"r": [(row, -1) for row in change["r"]]}):
            assert program.step(tick)["h"].to_dict() == plain.step(tick)["h"].to_dict()
    assert n_interrupts > 5
