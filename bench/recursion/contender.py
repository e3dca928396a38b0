"""One contender at one task, in a process of its own, so that its memory is its own.

``python -m bench.recursion.contender`` takes what to do as JSON in its argument, and prints what it found as JSON.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.recursion.tasks import CLOSURE, TASKS, Rows
from bench.suite.memory import peak_bytes

ROOT = Path(__file__).parents[2]
WARM_UP = 40
"""Rows of each input of a small run before the one that is timed, so that nothing is compiled in that one."""


@dataclass(frozen=True)
class Outcome:
    """What a contender's process gave.

    Attributes
    ----------
    found
        What it printed; None if it came to no end.
    peak_bytes
        Of its memory.
    stopped
        Why it came to no end.
    """

    found: dict[str, Any] | None
    peak_bytes: int | None = None
    stopped: str | None = None


def run(what: Mapping[str, Any], limit_seconds: float, limit_bytes: int) -> Outcome:
    """Start the process and wait for it, `limit_seconds` at most."""
    command = [sys.executable, "-m", "bench.recursion.contender", json.dumps({**what, "limit_bytes": limit_bytes})]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit_seconds, check=False)
    except subprocess.TimeoutExpired:
        return Outcome(None, None, f"stopped after {limit_seconds:g} s")
    if done.returncode:
        last = (done.stderr.strip() or f"ended with {done.returncode}").splitlines()[-1]
        if "AnswerError" in last:
            raise AssertionError(last)
        return Outcome(None, None, last[:200])
    answer = json.loads(done.stdout.splitlines()[-1])
    return Outcome(answer, answer.pop("peak_bytes"))


def fixpoint(what: Mapping[str, Any], call: Callable[[Any, Mapping[str, Rows]], tuple[float, dict[str, int]]]) -> Any:
    """A task's seconds and rows, after a small run.

    Raises
    ------
    AnswerError
        If the rows are not as many as are known.
    """
    from bench.recursion.engine import AnswerError

    task = TASKS[what["task"]]
    inputs = task.inputs()
    call(task, {name: rows[:WARM_UP] for name, rows in inputs.items()})
    seconds, rows = call(task, inputs)
    if rows != dict(task.known):
        raise AnswerError(f"{task.name}: {dict(task.known)} rows are known, {rows} were found")
    return {"seconds": seconds, "rows": rows}


def _main() -> None:
    what = json.loads(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (what["limit_bytes"], what["limit_bytes"]))
    threads = what["threads"]
    found: Any
    match what["call"]:
        case "engine":
            from bench.recursion import engine

            found = fixpoint(what, lambda task, inputs: engine.from_scratch(task, inputs, threads))
        case "duckdb-loop" | "duckdb-recursive":
            from bench.recursion import duck

            function = duck.loop if what["call"] == "duckdb-loop" else duck.recursive
            found = fixpoint(what, lambda task, inputs: function(task, inputs, threads))
        case "clingo":
            from bench.recursion import asp

            found = fixpoint(what, asp.ground)
        case "edges":
            from bench.recursion import engine

            found = engine.single_edges(CLOSURE.inputs()["edge"], what["n_edges"], what["seed"], threads)
        case "social-media":
            from bench.recursion import engine

            seconds, checked = engine.social_media(what["size"], what["query"], threads)
            found = {"seconds": seconds, "checked": checked}
        case other:
            raise SystemExit(f"There is no call {other!r}.")
    print(json.dumps({**found, "peak_bytes": peak_bytes()}))


if __name__ == "__main__":
    _main()
