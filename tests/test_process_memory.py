"""Limits of memory hold for the process: in children, by the peak of their resident memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

from gpu_wcoj import units
from gpu_wcoj.budget import DEFAULT_SHARE, UNCHARGED

LIMIT = 300_000_000
TOLERANCE = 1.25
PATHS = "from e x, e y, e z where x.b = y.a and y.b = z.a"

pytestmark = [
    pytest.mark.slow,  # each child makes rows of some hundred megabytes
    pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="needs /proc of Linux"),
]

SETUP = """
import json, resource, sys
import numpy as np
import gpu_wcoj as gw
from cpu_fallback.tries import return_freed

def peak_and_now():
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return [1024 * int(fields[name].split()[0]) for name in ("VmHWM", "VmRSS")]

def run(name, work):
    return_freed()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    before = peak_and_now()[1]
    try:
        result = work()
        error = ""
    except MemoryError as caught:
        result, error = None, f"{type(caught).__name__}: {caught}"
    print(json.dumps([name, peak_and_now()[0] - before, error, result]), flush=True)

def graph(seed, n, values):
    edges = np.unique(np.random.default_rng(seed).integers(0, values, (n, 2)), axis=0)
    return {"a": edges[:, 0].copy(), "b": edges[:, 1].copy()}

E = graph(1, 99_000, 5000)
HOPS = "h(a, d) :- e(a, b), e(b, c), e(c, d)."
TEXTS = {name: np.array([f"a text of some length, number {value}" for value in column]) for name, column in
         graph(2, 400_000, 10**6).items()}
"""


def measure(body, *arguments):
    """Run a body in a child; return its lines by name: bytes above the start, error, result."""
    script = SETUP + textwrap.dedent(body)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    environment["GPU_WCOJ_COMPILE"] = "wait"  # and memory that is freed goes back, whatever the machine's settings
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *arguments], capture_output=True, text=True, env=environment,
        check=False, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, (run.returncode, run.stderr[-2000:])
    print(run.stdout)
    return {name: rest for name, *rest in map(json.loads, run.stdout.splitlines())}


def test_a_limit_holds_wherever_the_rows_are_made():
    """A join of 39 million paths, which needs 2 GB or more without a limit, and what comes before and after it."""
    lines = measure(
        f"""
        run("warm", lambda: len(gw.query("h(a, c) :- e(a, b), e(b, c).", e=[(1, 2), (2, 3)])))
        limit = {{"memory": {LIMIT}}}
        run("projected", lambda: len(gw.query(HOPS, e=E, **limit)))
        run("bag", lambda: len(gw.query("select x.a, z.b {PATHS}", e=E, **limit)))
        run("groups", lambda: len(gw.query("select x.a, y.b, z.b, count(*) {PATHS} group by 1, 2, 3", e=E, **limit)))
        run("recursion", lambda: len(gw.query("p(a, b) :- e(a, b). p(a, c) :- p(a, b), e(b, c).", e=E, **limit)))
        run("windows", lambda: len(gw.query(
            "select x.a, y.b, z.b, sum(y.b) over (partition by x.a order by y.b) {PATHS}", e=E, **limit)))
        run("by duckdb", lambda: len(gw.query(
            "select list(z.b order by z.b desc), x.a {PATHS} group by x.a, y.a", e=E, **limit)))
        run("texts", lambda: len(gw.query("h(a, c) :- e(a, b), e(c, b).", e=TEXTS, memory="100MB")))
        view = gw.view("h(a, d) :- e(a, b), e(b, c), e(c, d).", e=[(1, 2), (2, 3), (3, 4)], keep=["h"], **limit)
        run("tick", lambda: len(view.apply(e=E)))
        run("after", lambda: [view.snapshot().rows(), view.count("e"), view.apply(e=[(4, 5)]).rows()])
        """
    )
    assert lines["warm"][2] == 1
    assert lines["after"][2] == [[[1, 4]], 3, [[[2, 5], 1]]]
    for name, (growth, error, _) in lines.items():
        limit = 100_000_000 if name == "texts" else LIMIT
        assert growth <= TOLERANCE * limit + UNCHARGED, (name, growth, error)
        if name not in ("warm", "after", "texts"):
            assert error.startswith("MemoryBudgetError: "), name
            assert all(part in error for part in ("need", "allows", "Nothing was changed.")), error


@pytest.mark.parametrize("kind", ["RLIMIT_DATA", "RLIMIT_AS"])
def test_work_without_a_limit_ends_with_an_error_before_the_machine_is_out_of_memory(kind):
    machine = 1_600_000_000 if kind == "RLIMIT_DATA" else 3_000_000_000  # machine code is mapped, too
    lines = measure(
        f"""
        resource.setrlimit(resource.{kind}, ({machine}, {machine}))
        run("warm", lambda: len(gw.query("h(a, c) :- e(a, b), e(b, c).", e=[(1, 2), (2, 3)])))
        run("bag", lambda: len(gw.query("select x.a, y.a c, z.a d, z.b {PATHS}", e=E)))
        large = graph(3, 100_000, 9000)
        run("recursion", lambda: len(gw.query("p(a, b) :- e(a, b). p(a, c) :- p(a, b), e(b, c).", e=large, timeout=60)))
        run("triangles", lambda: gw.query("t(a, b, c) :- e(a, b), e(b, c), e(a, c).", e=E).shape[0])
        """
    )
    assert lines["bag"][1].startswith("MemoryBudgetError: deriving 'answer': "), lines["bag"]
    assert f"({DEFAULT_SHARE:.0%} of the machine) allows" in lines["bag"][1]
    assert lines["recursion"][1].startswith("MemoryBudgetError: "), lines["recursion"]
    assert lines["triangles"][1] == ""
    assert lines["triangles"][2] > 0


def test_limits_of_control_groups(tmp_path):
    table = tmp_path / "table"
    groups = {"memory.max": ("max", "5000", "7000"), "memory.limit_in_bytes": ("9000", "4000", "8000")}
    for name, values in groups.items():
        root = tmp_path / "groups" / ("memory" if "limit" in name else "")
        for folder, value in zip((root, root / "a", root / "a" / "b"), values, strict=True):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(value + "\n")
    table.write_text("4:memory,pids:/a/b\n1:cpu:/a\n0::/a/b\n")
    found = units.control_groups(table, tmp_path / "groups")
    assert [limit for limit, _ in found] == [8000, 4000, 9000, 7000, 5000]
    assert {path.name for _, path in found} == {"memory.usage_in_bytes", "memory.current"}
    assert units.control_groups(tmp_path / "none") == []


def test_joins_of_streams_end_with_an_error_too():
    lines = measure(
        """
        import gpu_wcoj.budget as budget
        budget.default_limit = lambda: 900_000_000
        def joined():
            circuit = gw.Circuit()
            edges = circuit.source("e", {"a": "int64", "b": "int64"})
            circuit.sink("h", edges.incremental_join(edges, on={1: 0}).incremental_join(edges, on={2: 0}))
            return len(circuit.step({"e": E})["h"])
        run("streams", joined)
        """
    )
    growth, error, _ = lines["streams"]
    assert error.startswith("MemoryBudgetError: "), error
    assert growth <= 900_000_000
