"""The benchmark of recursion runs on small inputs, and its own checks have teeth."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("duckdb", reason="the extra 'bench' is not installed")
pytest.importorskip("clingo", reason="the extra 'bench' is not installed")

from bench.recursion import asp, contender, duck, engine, tasks
from bench.recursion.tasks import CLOSURE, GALEN

ROOT = Path(__file__).parents[2]
RING = np.array([(i, (i + 1) % 30) for i in range(30)] + [(i, i + 100) for i in range(30)])
RING_CLOSURE = 30 * 60


def some_facts() -> dict[str, tasks.Rows]:
    rng = np.random.default_rng(3)
    arity = {"p0": 2, "q0": 3, "c": 3, "r": 3, "s": 2, "u": 3}
    return {name: rng.integers(0, 12, (30, width)) for name, width in arity.items()}


@pytest.mark.parametrize("call", ["engine", "duckdb loop", "duckdb recursive", "clingo"])
def test_the_closure_of_a_ring(call):
    functions = {
        "engine": lambda: engine.from_scratch(CLOSURE, {"edge": RING}, 1),
        "duckdb loop": lambda: duck.loop(CLOSURE, {"edge": RING}, 1),
        "duckdb recursive": lambda: duck.recursive(CLOSURE, {"edge": RING}, 1),
        "clingo": lambda: asp.ground(CLOSURE, {"edge": RING}),
    }
    seconds, rows = functions[call]()
    assert seconds > 0
    assert rows == {"reach": RING_CLOSURE}


def test_all_agree_on_rules_that_feed_each_other():
    facts = some_facts()
    found = engine.from_scratch(GALEN, facts, 2)[1]
    assert found == duck.loop(GALEN, facts, 1)[1] == asp.ground(GALEN, facts)[1]
    assert found["q"] > len(np.unique(facts["q0"], axis=0))


def test_single_edges_are_checked(monkeypatch):
    found = engine.single_edges(RING, 5, 1, 1)
    assert len(found["seconds"]["delete"]) == len(found["seconds"]["insert"]) == len(found["rows"]) == 5
    assert all(seconds > 0 for seconds in found["seconds"]["delete"])
    shorter = "reach(x, y) :- edge(x, y). reach(x, z) :- edge(x, y), edge(y, z)."
    monkeypatch.setattr(engine, "CLOSURE", replace(CLOSURE, text=shorter))
    with pytest.raises(engine.AnswerError, match=r"reaches \d+ vertices, the engine says [1-4]$"):
        engine.single_edges(RING, 5, 1, 1)


def test_a_wrong_answer_ends_the_run(monkeypatch):
    wrong = replace(CLOSURE, known={"reach": 5})
    monkeypatch.setattr(tasks.Task, "inputs", lambda self: {"edge": RING})
    monkeypatch.setattr(contender, "TASKS", {"ring": wrong})
    with pytest.raises(engine.AnswerError, match=r"\{'reach': 5\} rows are known, \{'reach': 1800\} were found"):
        contender.fixpoint({"task": "ring"}, lambda task, inputs: duck.loop(task, inputs, 1))


def test_a_run_is_stopped_at_its_limits():
    what = {"call": "clingo", "task": CLOSURE.name, "threads": 1}
    assert contender.run(what, 0.01, 10**10).stopped == "stopped after 0.01 s"
    stopped = contender.run({**what, "call": "no such"}, 60, 10**10).stopped
    assert stopped == "There is no call 'no such'."


def test_unknown_parts_are_named(tmp_path):
    command = [sys.executable, "-m", "bench.recursion", "--parts", "squares", "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "There is no part squares. The parts are: wiki-Vote closure, GALEN," in done.stderr
