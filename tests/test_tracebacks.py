"""Tracebacks of errors that a user makes: the user's own lines and the message, nothing of the package's inside."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj import datoms, errors, prepared_query, spark
from gpu_wcoj.checkpoint import Checkpoint
from gpu_wcoj.errors import FULL_TRACEBACK
from gpu_wcoj.streams import Circuit, Stream, Subcircuit
from tests.helpers.command_line import ENVIRONMENT, ROOT

E = {"a": [1], "c": [2]}


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gw.config, "traceback", "short")


def shown(call: Callable[[], object]) -> list[str]:
    """The lines that Python prints for the error of a call."""
    try:
        call()
    except Exception:
        return traceback.format_exc().splitlines()
    raise AssertionError("there is no error")


CASES: dict[str, Callable[[], object]] = {
    "SQL": lambda: gw.query("select b from e", e=E),
    "SQL syntax": lambda: gw.query("select a from from e", e=E),
    "Datalog": lambda: gw.query("h(x) :- e(x, y), .", e=E),
    "EDN": lambda: gw.query("[:find ?a :where [?a :x", e=E),
    "motif": lambda: gw.find("(a)-[]->(b", edges={"src": [1], "dst": [2]}),
    "motif condition": lambda: gw.find("(a)-[t]->(b)", edges={"src": [1], "dst": [2]}, where="t.amount > 9"),
    "view": lambda: gw.view("select b from e", e=E),
    "apply": lambda: gw.view("select a from e", e=E).apply(e={"a": [1], "d": [2]}),
    "snapshot": lambda: gw.view("select a from e", e=E).snapshot("other"),
    "program": lambda: gw.Program("h(x) :- e(y)."),
    "step": lambda: gw.Program("h(x) :- e(x, y).").step({"f": [(1, 2)]}),
    "restore": lambda: gw.Program.restore("/no/such/folder"),
    "inherited": lambda: gw.Program("h(x) :- e(x, y).").relation("other"),
    "class method": lambda: gw.ZSet.from_rows([(1, 2), (1,)]),
    "transaction": lambda: datoms.Database().transact([[":db/add"]]),
    "circuit": lambda: Circuit().source("s", {"a": "no type"}),
    "data set": lambda: gw.datasets.rmat(scale=99),
}


@pytest.mark.parametrize("name", CASES)
def test_only_lines_of_the_user_are_shown(name: str):
    lines = shown(CASES[name])
    files = [line for line in lines if line.startswith("  File ")]
    assert [line for line in files if str(ROOT / "tests") not in line and '"<text>"' not in line] == []
    assert not any("gpu_wcoj/" in line or "site-packages" in line for line in lines)
    assert len(lines) <= 20
    assert any(line.startswith("gpu_wcoj.errors.") for line in lines)


def test_the_whole_traceback_is_there_when_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gw.config, "traceback", "full")
    lines = shown(CASES["SQL"])
    assert sum("gpu_wcoj/" in line for line in lines) > 5


def test_a_mistake_of_the_package_keeps_its_frames(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(prepared_query, "merge_relations", lambda *_: 1 // 0)
    lines = shown(CASES["SQL"])
    assert any("gpu_wcoj/one_shot.py" in line for line in lines)
    assert lines[-1].startswith("ZeroDivisionError")


def test_frames_of_a_function_of_the_user_stay():
    program = gw.Program("h(x) :- e(x, y).")

    def sink(_name: str, _piece: object) -> None:
        raise errors.UsageError("the sink is full")

    lines = shown(lambda: program.step_pieces({"e": [(1, 2)]}, sink))
    assert any(line.endswith("in sink") for line in lines)
    assert not any("gpu_wcoj/" in line for line in lines)
    assert program.step({"e": [(1, 2)]})["h"].rows() == [((1,), 1)]  # the tick was undone


def test_an_error_that_the_user_was_handling_stays():
    def call() -> None:
        try:
            {}["user's"]
        except KeyError:
            CASES["step"]()

    lines = shown(call)
    assert any(line.startswith("KeyError") for line in lines)
    assert not any("gpu_wcoj/" in line for line in lines)
    assert not any("UnexpectedToken" in line for line in shown(CASES["Datalog"]))  # what the message is made of


def test_a_process_ends_with_the_user_s_line_and_the_message():
    code = "import gpu_wcoj as gw\ngw.query('select b from e', e={'a': [1]})\n"
    environment = {name: value for name, value in ENVIRONMENT.items() if name != FULL_TRACEBACK}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    lines = run.stderr.splitlines()
    assert lines[1] == '  File "<string>", line 2, in <module>'
    assert sum(line.startswith("  File") for line in lines) == 1
    assert "no column 'b'" in run.stderr


def test_entry_points_are_marked():
    functions = [gw.query, gw.view, gw.find, gw.datasets.rmat, gw.datasets.undirected, gw.datasets.payments]
    functions += [getattr(spark, name) for name in spark.__all__ if name != "View"]
    assert [one for one in functions if not hasattr(one, "__wrapped__")] == []
    for kind in (
        gw.Program,
        gw.View,
        gw.MultiView,
        gw.Matcher,
        gw.MatchChange,
        gw.Result,
        gw.ZSet,
        datoms.Database,
        Checkpoint,
        Circuit,
        Subcircuit,
        Stream,
    ):
        public = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
        plain = [name for name, one in public.items() if callable(one) and not hasattr(one, "__wrapped__")]
        assert plain == [], kind


PROGRAM = "h(x) :- e(x)."
api: Any = gw  # without its types
MISUSES: dict[str, tuple[Callable[[], object], str]] = {
    "no arguments": (lambda: api.Connection(), "Connection.. is not possible: gpu_wcoj.connect makes its objects"),
    "no columns": (lambda: api.ZSet(), "ZSet.. is not possible: gpu_wcoj.ZSet.from_rows makes"),
    "None": (
        lambda: api.ZSet.from_rows(None),
        "the argument 'rows' of ZSet.from_rows.. has the wrong type: got NoneTy",
    ),
    "other object": (
        lambda: api.ZSet.from_rows([(1,)]).plus([(1,)]),
        r"'other' of ZSet.plus.. .*got list .*expected ZSet",
    ),
    "mark": (lambda: api.Program(PROGRAM).return_to(None), "'mark' of Program.return_to.. has the wrong type"),
    "arguments in a list": (
        lambda: api.streams.Circuit().add(api.streams.Operator(), 3),
        "'inputs' of Scope.add.. has the wrong type: got int .3., expected Stream",
    ),
    "elements": (lambda: api.ZSet.from_dict({1: 1}), "the key of from_dict has the wrong type: got int"),
    "sink": (lambda: api.Program(PROGRAM).step_pieces({"e": [(1,)]}, None), "'sink' of Program.step_pieces"),
    "array of names": (lambda: api.Program(PROGRAM, backend=np.zeros(2)), "backend=.* is not allowed"),
    "file": (lambda: api.ZSet.read_parquet("missing.parquet"), "'missing.parquet' cannot be read as Parquet"),
    "result": (lambda: api.Result([(1,)]), "rows has the wrong type: got list"),
    "probabilities": (lambda: api.datasets.rmat(4, 5, a=-1), "three numbers above 0 whose sum is below 1"),
    "memory": (lambda: api.Program(PROGRAM, memory=10**400), "memory=1000.* more than the machine has"),
}


@pytest.mark.parametrize("name", MISUSES)
def test_arguments_of_other_types_are_named(name: str) -> None:
    call, message = MISUSES[name]
    with pytest.raises(errors.GpuWcojError, match=message):
        call()
    lines = shown(call)
    assert not [line for line in lines if "gpu_wcoj/" in line], lines


def test_errors_of_functions_that_users_pass_are_their_own() -> None:
    """Also if an argument is not of its declared type: it did not cause the error."""

    def fail(*_: object) -> None:
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        gw.Program(PROGRAM).step_pieces({"e": [(1,)]}, fail)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        api.Program(PROGRAM).step()
