"""``python -m tests.frozen``: compare, or write with ``--write``; see the package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.frozen.cases import random_cases
from tests.frozen.compare import differences, write
from tests.frozen.records import TEXTS, as_text, record


def main() -> int:
    """Return 1 if anything differs from what is stored."""
    parser = argparse.ArgumentParser(prog="python -m tests.frozen", description=__doc__)
    parser.add_argument(
        "--write", nargs="?", const="", metavar="FOLDER",
        help="store what the code does now; with a folder, write full texts of everything there instead",
    )  # fmt: skip
    parser.add_argument("--programs", action="store_true", help="write the random programs anew, by the generators")
    arguments = parser.parse_args()
    if arguments.programs:
        from tests.frozen.generate import write as write_programs

        write_programs()
        return 0
    if arguments.write == "":
        write()
        return 0
    if arguments.write:
        folder = Path(arguments.write)
        folder.mkdir(parents=True, exist_ok=True)
        for name, cases in {**TEXTS, "random": random_cases}.items():
            for case in cases():
                file = f"{name} {case.name}.txt".replace(" ", "_").replace("/", "_").replace(":", "")
                (folder / file).write_text(as_text(case, record(case, name == "random")))
        return 0
    found = list(differences())
    for one in found:
        print(one)
    print(f"{len(found)} programs differ" if found else "nothing differs")
    return 1 if found else 0


sys.exit(main())
