"""``python -m tests.mutants [NAMES]``: plant faults in copies of the tree, and see which of them the tests find.

Each fault is planted alone, and its tests run until one fails. At the end those that failed run without a fault: a
test that fails then has found nothing. The outcome is written to found.json. The tree itself is only read.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.fault import ENGINE, ROOT, Fault, choose, read_faults
from tests.mutants.plugin import VARIABLE

OUTCOME = Path(__file__).with_name("found.json")
MAX_SECONDS = 900
"""Seconds after which tests are stopped; a fault that they take so long with counts as found."""
ALL_TESTS = (
    "tests", "gpu_wcoj", "cpu_fallback",
    *(f"--ignore=tests/{name}" for name in ("mutants", "house", "spark", "rapids", "docker")),
)  # fmt: skip
"""The tests that ``--widen`` runs where those of a fault do not find it."""


@dataclass(frozen=True)
class Outcome:
    """What the tests say of a fault.

    Attributes
    ----------
    is_found
        Whether a test failed.
    by
        The first test that failed, or what happened instead.
    seconds
        Seconds until then, including the start of Python.
    """

    is_found: bool
    by: str
    seconds: float


def copy_tree(folder: Path) -> Path:
    """Copy the files of the checkout into a folder; return the root of the copy."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    tree = folder / "tree"
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    for link, target in ((tree / ".venv", ROOT / ".venv"), (folder / "shared", ROOT.parent / "shared")):
        if target.is_dir():
            link.symlink_to(target.resolve())
    return tree


def run_pytest(tree: Path, arguments: Sequence[str], variables: dict[str, str]) -> tuple[int | None, list[str]]:
    """Run tests in a copy of the tree; return the exit status, None if they were stopped, and those that failed."""
    failed = tree.parent / "failed"
    failed.write_text("")
    environment = os.environ | {"PYTHONPATH": str(tree), "CI": "1", VARIABLE: str(failed)} | variables
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutants.plugin", "-p", "no:cacheprovider"]
    with (tree.parent / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, *arguments], cwd=tree, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            status: int | None = process.wait(MAX_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = None
    return status, failed.read_text().splitlines()


def try_fault(tree: Path, fault: Fault, widens: bool) -> Outcome:
    """Plant a fault in a copy of the tree, run its tests, and take it out again."""
    path = tree / fault.file
    before, times = path.read_bytes(), path.stat()
    path.write_text(fault.planted(tree), encoding="utf-8")
    kernels = tree.parent / "kernels"
    # The folder of compiled kernels depends on their sources: a faulty one would take the place of another.
    variables = {"NUMBA_CACHE_DIR": str(kernels)} if fault.file.startswith("cpu_fallback/") else {}
    start = time.monotonic()
    try:
        for arguments in (fault.tests, ALL_TESTS) if widens else (fault.tests,):
            status, failed = run_pytest(tree, ["-x", *arguments], variables)
            seconds = round(time.monotonic() - start, 1)
            if status is None:
                return Outcome(True, f"stopped after {MAX_SECONDS} s", seconds)
            if status < 0:
                return Outcome(True, f"ended by {signal.Signals(-status).name}", seconds)
            if failed:
                return Outcome(True, failed[0], seconds)
            if status != 0:
                log = (tree.parent / "log").read_text()
                raise RuntimeError(f"The tests of {fault.name} did not run:\n{log[-3000:]}")
        return Outcome(False, "", seconds)
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        shutil.rmtree(kernels, ignore_errors=True)


def without_false_alarms(tree: Path, outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
    """Return the outcomes; those by a test that fails without a fault, too, have found nothing."""
    nodes = sorted({outcome.by for outcome in outcomes.values() if outcome.by.split("::")[0].endswith(".py")})
    if not nodes:
        return outcomes
    _, failed = run_pytest(tree, nodes, {})
    if failed:
        print((tree.parent / "log").read_text()[-3000:])
    return {
        name: replace(outcome, is_found=False, by=f"fails without a fault: {outcome.by}")
        if outcome.by in failed
        else outcome
        for name, outcome in outcomes.items()
    }


def write_outcomes(faults: Sequence[Fault], outcomes: dict[str, Outcome]) -> None:
    """Write the outcomes; those of faults that were not run now stay as they are."""
    stored = json.loads(OUTCOME.read_text(encoding="utf-8")) if OUTCOME.exists() else {}
    stored |= {name: asdict(outcome) for name, outcome in outcomes.items()}
    in_order = {fault.name: stored[fault.name] for fault in faults if fault.name in stored}
    OUTCOME.write_text(json.dumps(in_order, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Print and store which faults are found; 1 if one is not."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Find planted faults.")
    parser.add_argument("--jobs", type=int, default=1, help="faults that are tried at the same time")
    parser.add_argument("--widen", action="store_true", help="run all tests where those of a fault do not find it")
    parser.add_argument("names", nargs="*", help="the faults; all if none is named")
    options = parser.parse_args(arguments)
    faults = read_faults(ENGINE)
    chosen = choose(faults, options.names)
    outcomes: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory() as name:
        trees: SimpleQueue[Path] = SimpleQueue()
        for job in range(options.jobs):
            trees.put(copy_tree(Path(name) / str(job)))

        def run(fault: Fault) -> None:
            tree = trees.get()
            try:
                outcome = outcomes[fault.name] = try_fault(tree, fault, options.widen)
            finally:
                trees.put(tree)
            print(f"{fault.name:40}{'found' if outcome.is_found else 'MISSED':7}{outcome.seconds:7.1f} s  {outcome.by}",
                  flush=True)  # fmt: skip

        try:
            with ThreadPoolExecutor(options.jobs) as pool:
                list(pool.map(run, chosen))
        finally:
            outcomes = without_false_alarms(trees.get(), outcomes)
            write_outcomes(faults, outcomes)
    missed = [name for name, outcome in outcomes.items() if not outcome.is_found]
    print("every fault is found" if not missed else f"{len(missed)} of {len(chosen)} NOT FOUND: {', '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
