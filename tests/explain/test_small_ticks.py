"""`explain` says which ticks are walked, why none is, and how the last one ran."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.join.settings import tune
from tests.helpers.kernel_kinds import needed

PATH = "path(a, b, c) :- edge(a, b), edge(b, c)."
WALKED = "small ticks: up to 512 rows at 3,000,000 values, and fewer at up to 48,000,000, are walked row by row"
NONE = "small ticks: none, all run path by path: "


def lines(program: gw.Program) -> list[str]:
    """The lines about ticks."""
    return [line for line in program.explain().splitlines() if line.startswith(("small ticks: ", "last tick: "))]


@pytest.fixture(autouse=True)
def _compiled() -> None:
    needed("numba")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("t(a, b) :- edge(a, b). t(a, c) :- t(a, b), edge(b, c).", "head t: it is recursive"),
        ("t(a, c) :- edge(a, b), c = b + 1.", "head t: c is calculated"),
        ('t(a) :- name(a, b), b > "m".', "head t: text is compared in b > "),
    ],
)
def test_rules_that_are_not_walked(text, reason):
    (line,) = lines(gw.Program(text, backend="cpu"))
    assert line.startswith(NONE + reason)


def test_settings_without_walks():
    assert lines(gw.Program(PATH, backend="cpu")) == [WALKED]
    assert lines(gw.Program(PATH, backend=cpu_backend(compiled=False))) == [NONE + "the NumPy kernels have no walk"]
    assert lines(gw.Program(PATH, backend="cpu", single_tick=True)) == [NONE + "the program answers once"]
    assert lines(gw.Program(PATH, backend="cpu", analyze=True))[0].startswith(NONE + "ticks are measured")
    share = gw.Program(PATH, backend="cpu")
    share.share_work(0, 2)
    assert lines(share) == [NONE + "the work on each tick is shared between programs"]
    with tune(max_tick_rows=-1):
        assert lines(gw.Program(PATH, backend="cpu")) == [NONE + "walks of ticks are turned off"]
    with tune(max_tick_rows=3, max_expected_work=40):
        few = gw.Program(PATH, backend="cpu")
    assert lines(few) == ["small ticks: up to 3 rows at 2 values, and fewer at up to 40, are walked row by row"]


def test_the_last_tick():
    with tune(max_tick_rows=2, max_expected_work=3200):
        program = gw.Program(PATH, backend="cpu")
    program.load({"edge": [(a, b) for a in range(20) for b in range(20)]})
    assert len(lines(program)) == 1
    assert program.last_tick.path_by_path == "there were no rows before it"
    ways = []
    for change in ([(30, 31)], [(30, i) for i in range(40, 43)], [(31, 1), (1, 30)], [(i, i) for i in range(50, 52)]):
        program.step({"edge": change})
        ways.append(lines(program)[1].removeprefix("last tick: "))
    assert ways == [
        "walked row by row",
        "path by path, as it has more than 2 rows",
        "walked row by row",
        "walked row by row",
    ]
    program.step({"edge": []})
    assert len(lines(program)) == 1
    document = json.loads(program.explain(format="json"))
    assert document["small_ticks"] in lines(program)[0]
    assert document["last_tick"] == ""


def test_more_work_than_expected():
    with tune(max_expected_work=2):
        program = gw.Program(PATH, backend="cpu")
    program.load({"edge": [(a, b) for a in range(20) for b in range(20)]})
    program.step({"edge": [(1, 30), (30, 1)]})
    assert program.last_tick.path_by_path == ""
    program.step({"edge": [(2, 30)]})
    assert program.last_tick.path_by_path == ("it was expected to look at more than 2 values, by the ticks before it")


def test_many_rows_may_look_at_fewer_values():
    """A tick of 2 rows walks as much as one row may, and one of 8 rows a sixteenth of it."""
    with tune(max_tick_rows=8, max_expected_work=800):
        program = gw.Program(PATH, backend="cpu")
    program.load({"edge": [(a, b) for a in range(20) for b in range(20)]})
    ways = []
    for n_rows in (2, 8, 2):
        rows = [(30 + row, 1) for row in range(n_rows)]
        program.step({"edge": rows})
        ways.append(program.last_tick.path_by_path)
        program.step({"edge": gw.ZSet.from_rows([(row, -1) for row in rows])})
    assert ways == ["", "it was expected to look at more than 50 values, by the ticks before it", ""]


@pytest.mark.parametrize(
    ("text", "n_rows"),
    [
        ("t(a, b, c) :- e(a, b), e(b, c), e(a, c). e(a, b) :- edge(a, b), a < b. .output t", 2048),
        ("t(a, count()) :- edge(a, b), edge(b, c).", 128),
    ],
)
def test_rules_that_walk_for_more_or_fewer_rows(text, n_rows):
    program = gw.Program(text, backend="cpu")
    assert lines(program) == [WALKED.replace("512", f"{n_rows:,}")]
    program.load({"edge": [(0, 1)]})
    rows = np.arange(2 * n_rows).reshape(-1, 2)
    program.step({"edge": rows})
    assert program.last_tick.path_by_path == ""
    program.step({"edge": np.arange(2 * n_rows + 2).reshape(-1, 2)})
    assert program.last_tick.path_by_path == f"it has more than {n_rows:,} rows"


@pytest.mark.parametrize(
    "change",
    [
        {"c0": [5], "c1": [6]},
        gw.ZSet.from_rows([(5, 6)]),
        pd.DataFrame({"c0": [5], "c1": [6]}),
        pl.DataFrame({"c0": [5], "c1": [6]}),
    ],
    ids=["lists", "zset", "pandas", "polars"],
)
def test_rows_of_all_forms_walk(change):
    program = gw.Program(PATH, backend="cpu")
    program.load({"edge": [(1, 2)]})
    program.step({"edge": change})
    assert program.last_tick.path_by_path == ""
    assert program.relation("edge").to_dict() == {(1, 2): 1, (5, 6): 1}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (pa.table({"c0": np.arange(1100), "c1": np.arange(1100)}), "it has more than 512 rows"),
        (((i, i) for i in range(3)), "the number of rows of relation edge was not known before it"),
        (np.array([[5, 6]], np.int32), "the columns of relation edge had other types before it, or no nulls"),
        ([(1, None)], "the columns of relation edge had other types before it, or no nulls"),
        (pa.table({"from": [3], "to": [4]}), "the columns of relation edge had other names before it"),
    ],
    ids=["many", "generator", "int32", "null", "names"],
)
def test_rows_that_are_not_walked(change, reason):
    program = gw.Program(PATH, backend="cpu")
    program.load({"edge": [(1, 2)]})
    program.step({"edge": change})
    assert program.last_tick.path_by_path.startswith(reason)


def test_rows_that_are_refused_leave_no_text_behind():
    program = gw.Program("t(a) :- name(a, b), other(b, a).", backend="cpu")
    program.load({"name": [("a", "b")], "other": [("b", "a")]})
    sizes = [len(dictionary) for dictionary in program.dictionaries]
    with pytest.raises(gw.errors.GpuWcojError):
        program.step({"name": [("new", "text")], "other": [("x", 3)]})
    assert [len(dictionary) for dictionary in program.dictionaries] == sizes
    program.step({"name": [("new", "text")], "other": [("text", "new")]})
    assert program.last_tick.path_by_path == ""
    assert program.relation("t").to_dict() == {("a",): 1, ("new",): 1}


def test_rows_that_are_passed_on_in_pieces():
    program = gw.Program(PATH, backend="cpu")
    program.load({"edge": [(1, 2)]})
    program.step_pieces({"edge": [(2, 3)]}, lambda name, piece: None)
    assert program.last_tick.path_by_path == "its rows were passed on in pieces"
    program.explain(analyze=True)
    program.step({"edge": [(3, 4)]})
    assert program.last_tick.path_by_path == "ticks are measured, for explain(analyze=True)"


def test_ticks_that_are_given_up():
    program = gw.Program("h(a, b) :- e(a, _), e(b, _). t(a) :- h(a, b), e(b, a). .output t", backend="cpu", bag=True)
    program.load({"e": [(a, a) for a in range(200)]})
    program.step({"e": [(a, a) for a in range(300, 315)]})
    assert program.last_tick.path_by_path == "it derived more than 4,096 rows of a relation that others read"
    assert lines(program)[1] == f"last tick: path by path, as {program.last_tick.path_by_path}"
    program = gw.Program("t(a) :- e(a, b), e(b, a).", backend="cpu", bag=True)
    program.load({"e": [(1, 2)]})
    program.step({"e": [((1, 1), 2**31)]})
    assert program.last_tick.path_by_path == "a weight might have left int64"
