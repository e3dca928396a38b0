"""``python -m tests.gpu``: the tests on a device, part by part, and a JSON of what passed.

It needs the checkout, pytest, hypothesis and CuPy. Each part is a run of pytest of its own with a limit of time; one
that is stopped has its tests counted up to there. With ``--sanitize`` compute-sanitizer watches the kernel tests.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"
LIMIT = 470.0
"""Seconds that a part may take."""
FINDINGS = 86
"""The exit status by which compute-sanitizer says that it has found something."""


@dataclass(frozen=True)
class Part:
    """Some of the tests.

    Attributes
    ----------
    paths
        What pytest is given; what is not there is left out, and the report says so.
    expression
        pytest's ``-k``.
    workers
        Processes that share the device, where pytest-xdist is there.
    route
        Where programs run that do not say so; see `tests.gpu.plugin`.
    """

    paths: tuple[str, ...]
    expression: str = ""
    workers: int = 0
    route: str = "device"


PROGRAMS = (
    "weights", "types", "constants", "nulls_in_changes", "heads", "ticks", "change_formats", "errors", "overflow",
    "refused",
)  # fmt: skip
KERNELS = ("tests/kernels/test_rows.py", "tests/kernels/test_tries.py", "tests/kernels/test_extend.py")
PARTS = {
    "kernels": Part((*KERNELS, "tests/gpu/test_kernels.py"), workers=6),
    "random": Part(("tests/generated", "tests/join/test_random_programs.py"), workers=8),
    "engine": Part(
        ("tests/join", "tests/trace", "tests/circuit", "tests/zset", "tests/planner", "tests/streams"),
        # Those in processes of their own measure the host's memory, and parse texts there.
        "not test_random_programs and not test_memory.py and not test_a_million_in_seconds",
        workers=8,
    ),
    "programs": Part(tuple(f"tests/program/test_{name}.py" for name in PROGRAMS), workers=6),
    "border": Part(("tests/gpu/test_border.py",)),
    "routing": Part(("tests/engine", "tests/gpu/test_routing.py"), workers=4, route="auto"),
    "memory": Part(("tests/gpu/test_memory.py",)),
    "large": Part(("tests/gpu/test_large.py",)),
}
SANITIZED = {
    tool: Part(KERNELS, "not test_long_hubs and not thousands")
    for tool in ("memcheck", "racecheck", "initcheck", "synccheck")
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that are asked for; 1 if anything failed, or nothing ran."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description="Run the tests on a GPU.")
    parser.add_argument("--part", action="append", help="a part to run; all if none is named")
    parser.add_argument("--on", default="cuda", choices=["cuda", "shim"], help="the backend")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds that a part may take")
    parser.add_argument("--sanitize", action="store_true", help="run compute-sanitizer's tools over the kernel tests")
    parser.add_argument("--test", action="append", help="what pytest is given, in place of the part's own paths")
    chosen = parser.parse_args(arguments)
    known = SANITIZED if chosen.sanitize else PARTS
    if unknown := sorted(set(chosen.part or ()) - set(known)):
        parser.error(f"there is no part {', '.join(unknown)}; the parts are {', '.join(known)}")
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if chosen.sanitize and sanitizer is None:
        print("compute-sanitizer is not at hand: it comes with CUDA's toolkit", file=sys.stderr)
        return 1
    parts = {name: known[name] for name in chosen.part or known}
    what = "sanitize" if chosen.sanitize else "tests"
    folder = Path(os.environ.get("OUT") or RESULTS)
    machine = described(chosen.on)
    path = folder / file_name(what, machine, [] if len(parts) == len(known) else list(parts))
    found = []
    for name, part in parts.items():
        print(f"{name}:", flush=True)
        wrapped = [sanitizer, *sanitizer_options(name)] if chosen.sanitize and sanitizer else []
        found.append(run_part(name, part, chosen.on, chosen.limit, folder, wrapped, chosen.test))
        folder.mkdir(parents=True, exist_ok=True)
        document = {"machine": machine, "what": what, "on": chosen.on, "parts": found}
        path.write_text(json.dumps(document, indent=1) + "\n")
    for one in found:
        counts = ", ".join(f"{one[key]} {key}" for key in ("passed", "failed", "skipped") if one[key])
        print(f"{one['part']}: {one['verdict']}; {counts or 'no test'}; {one['seconds']:.0f} s")
    print(f"Written to {path}")
    return int(any(one["verdict"] != "passed" for one in found))


def sanitizer_options(tool: str) -> list[str]:
    """How compute-sanitizer is called; a finding is an exit status of its own."""
    options = ["--tool", tool, "--error-exitcode", str(FINDINGS), "--target-processes", "all", "--print-limit", "20"]
    return [*options, "--report-api-errors", "no"] if tool == "memcheck" else options


def run_part(
    name: str,
    part: Part,
    on: str,
    limit: float,
    folder: Path,
    wrapped: Sequence[str],
    tests: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Run one part, and say what came of it."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f".{name}.jsonl"
    log.unlink(missing_ok=True)
    there = [path for path in tests or part.paths if (ROOT / path.partition("::")[0]).exists()]
    absent = [path for path in tests or part.paths if path not in there]
    start = time.monotonic()
    ended = "passed" if there else "nothing to run"
    if there:
        command = [*wrapped, *pytest_command(part, there, bool(wrapped))]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment(part, on, log, bool(wrapped)), timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            ended = f"stopped after {limit:g} s"
        else:
            if done.returncode == FINDINGS and wrapped:
                ended = "the sanitizer has findings"
            elif done.returncode == 5:
                ended = "no test was chosen"
            elif done.returncode:
                ended = f"exit status {done.returncode}"
    found = outcomes(log)
    log.unlink(missing_ok=True)
    if ended == "passed" and not found["passed"]:
        ended = "nothing passed: every test was skipped"
    seconds = time.monotonic() - start
    return {"part": name, "verdict": ended, "seconds": seconds, "paths": there, "absent": absent, **found}


def pytest_command(part: Part, paths: Sequence[str], is_slow: bool) -> list[str]:
    """The command line of pytest; without xdist, or where every launch is watched, in one process."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.gpu.plugin", "-q", "-o", "addopts="]
    command += ["-ra", "--strict-markers", "--import-mode=importlib", "-p", "no:cacheprovider", "-p", "no:benchmark"]
    if part.expression:
        command += ["-k", part.expression]
    workers = min(part.workers, (os.cpu_count() or 1) // 2)
    if workers > 1 and not is_slow and importlib.util.find_spec("xdist") is not None:
        command += ["--numprocesses", str(workers)]
    return [*command, *paths]


def environment(part: Part, on: str, log: Path, is_slow: bool) -> dict[str, str]:
    """The variables of the run; examples are the same every time, and few where every launch is watched."""
    # A part that a test starts is no worker of that test's run.
    found = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    found |= {"GPU_WCOJ_TESTS_ON": on, "GPU_WCOJ_TESTS_ROUTE": part.route, "GPU_WCOJ_TESTS_LOG": str(log)}
    found |= {"CI": "1", "PYTHONUNBUFFERED": "1"}
    if is_slow:
        # A pool hides what is read or written past the end of an array.
        found |= {"GPU_WCOJ_TESTS_EXAMPLES": "5", "GPU_WCOJ_TESTS_POOL": "none"}
    return found


def outcomes(log: Path) -> dict[str, Any]:
    """Numbers of tests by outcome, what failed and why, and the reasons of what was skipped."""
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    counts = Counter(line["outcome"] for line in lines)
    slowest = sorted(lines, key=lambda line: -line["seconds"])[:5]
    return {
        **{outcome: counts[outcome] for outcome in ("passed", "failed", "skipped")},
        "failures": [
            {"test": line["test"], "message": line.get("message")} for line in lines if line["outcome"] == "failed"
        ],
        "skip_reasons": dict(Counter(line.get("message", "") for line in lines if line["outcome"] == "skipped")),
        "slowest": [{"test": line["test"], "seconds": round(line["seconds"], 2)} for line in slowest],
    }


def described(on: str) -> dict[str, object]:
    """The machine: as the benchmark tells it, or why there is no device to tell of."""
    from bench.gpu.place import Place, find, host_described

    if on == "cuda":
        try:
            return find().described()
        except Exception as error:
            return {**host_described(), "device": f"none: {str(error).splitlines()[0]}"}
    from tests.shim import shim_backend

    return Place(shim_backend()).described()


def file_name(what: str, machine: Mapping[str, object], parts: Sequence[str]) -> str:
    """The name of the report: what, day, commit, and the parts if not all."""
    day, commit = str(machine["date"])[:10], str(machine["commit"]).replace(" ", "-").replace("+", "-")
    return "-".join(["gpu", what, day, commit, *parts]) + ".json"


if __name__ == "__main__":
    sys.exit(main())
