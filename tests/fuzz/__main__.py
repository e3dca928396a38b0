"""Fuzz the parsers, guided by what they run: ``python -m tests.fuzz [--seconds 600] [PARSER ...]``; needs atheris.

What is found goes to ``.run/fuzz/PARSER``, texts that broke something to ``.run/fuzz/PARSER-crash-...`` or
``-timeout-...``. What was mended is kept in ``tests/fuzz/corpus/PARSER``, from which the tests read it again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from tests.fuzz.targets import ROOT, TARGETS


def main() -> int:
    """Fuzz one parser after the other, each in a process of its own; the number of those that broke."""
    command = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz the parsers.")
    command.add_argument("parsers", nargs="*", metavar="PARSER", help=f"some of {', '.join(TARGETS)}; by default all")
    command.add_argument("--seconds", type=int, default=600, help="for each parser; 600 if not said otherwise")
    given = command.parse_args()
    if unknown := [name for name in given.parsers if name not in TARGETS]:
        command.error(f"there is no parser '{unknown[0]}'; there are {', '.join(TARGETS)}")
    broken = []
    for name in given.parsers or TARGETS:
        print(f"{name}: {given.seconds} s", flush=True)
        worker = [sys.executable, "-m", "tests.fuzz.worker", name, str(given.seconds)]
        if subprocess.run(worker, cwd=ROOT).returncode:
            broken.append(name)
    print(f"broken: {', '.join(broken) or 'none'}")
    return len(broken)


if __name__ == "__main__":
    raise SystemExit(main())
