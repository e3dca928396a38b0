"""Faults planted in copies of the CUDA sources: ``python -m tests.mutants.kernels [NUMBERS]`` sees that each is found.

Each is run on the flavour of the shim that is to find it, on the tests that concern it; ``--all`` runs the other
flavours too, for the whole table. Number 0 has no fault: all of these tests pass on it. The package's own files are
only read.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from tests.mutants.fault import KERNELS, Fault, choose, read_faults
from tests.shim import build
from tests.shim.plugin import environment, run


def plant(folder: Path, fault: Fault | None) -> None:
    """Copy the CUDA sources into a folder, one of them with a fault."""
    for source in files("gpu_wcoj.kernels.cuda").iterdir():
        if source.name.endswith((".cu", ".cuh")):
            (folder / source.name).write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    if fault is not None:
        (folder / Path(fault.file).name).write_text(fault.planted(), encoding="utf-8")


def is_found(fault: Fault | None, tests: Sequence[str], flavour: str) -> bool:
    """Run tests on a copy of the sources; whether they fail.

    Raises
    ------
    RuntimeError
        If the sources do not compile, or no test was run.
    """
    with tempfile.TemporaryDirectory() as name:
        plant(Path(name), fault)
        done = run(tests, environment(flavour, sources=Path(name)), "-q", "-x", capture=True)
    if done.returncode not in (0, 1) or "refuses a source" in done.stdout or "NVRTC refuses" in done.stdout:
        raise RuntimeError(f"{' '.join(tests)} on {flavour} did not run:\n{done.stdout[-3000:]}")
    if fault is None and done.returncode:
        print(done.stdout[-3000:])
    return done.returncode == 1


def main(arguments: list[str]) -> int:
    """Print the table of mutants and flavours; 1 if one escapes, or a test fails without a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.kernels", description="Find planted faults.")
    parser.add_argument("--all", action="store_true", help="run every flavour, not only the one that finds the fault")
    parser.add_argument("numbers", nargs="*", help="the faults, 0 for none; all if none is named")
    chosen = parser.parse_args(arguments)
    faults = read_faults(KERNELS)
    planted = [] if chosen.numbers == ["0"] else choose(faults, [number for number in chosen.numbers if number != "0"])
    print(f"{'mutant':58}" + "".join(f"{flavour:>11}" for flavour in build.FLAVOURS))
    escaped = 0
    if not chosen.numbers or "0" in chosen.numbers:
        escaped += any(is_found(None, *pair) for pair in sorted({(fault.tests, fault.flavour) for fault in faults}))
        print(f"{'0 no fault':58}{'each test passes' if not escaped else 'A TEST FAILS':>44}", flush=True)
    for fault in planted:
        print(f"{f'{fault.name} {fault.breaks}':58}", end="", flush=True)
        results = {}
        for flavour in build.FLAVOURS:
            if chosen.all or flavour == fault.flavour:
                results[flavour] = is_found(fault, fault.tests, flavour)
            print(f"{ {True: 'found', False: 'missed', None: '-'}[results.get(flavour)]:>11}", end="", flush=True)
        print()
        escaped += not any(results.values())
    print("every fault is found" if not escaped else f"{escaped} NOT FOUND")
    return int(escaped > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
