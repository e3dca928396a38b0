"""``python -m tests.house``: check, or rewrite the lists of exceptions with ``--write``."""

from __future__ import annotations

import argparse
import gc
import sys

from tests.house.checks import FILE, as_toml, growing, problems, read_exceptions, run
from tests.house.module_list import FILE as MODULES
from tests.house.module_list import module_list
from tests.house.sources import read


def main() -> int:
    """Return 1 if anything is wrong."""
    gc.disable()  # millions of nodes, which all stay until the end
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__)
    parser.add_argument("--write", action="store_true", help="rewrite the lists of exceptions, none of which may grow")
    parser.add_argument("--allow-growth", action="store_true", help="let lists grow with --write")
    parser.add_argument("--all", action="store_true", help="print listed violations too, and how many there are")
    parser.add_argument("--modules", action="store_true", help="write docs/modules.md")
    arguments = parser.parse_args()
    if arguments.modules:
        MODULES.write_text(module_list(), encoding="utf-8")
        return 0
    found, exceptions = run(read()), read_exceptions()
    if arguments.write:
        grown = growing(found, exceptions)
        if grown and not arguments.allow_growth:
            for name in grown:
                print(f"{name}: the list would grow from {len(exceptions.get(name, []))} to {len(found[name])}")
            listed = {name: exceptions.get(name, []) for name in grown}
            print(*sorted(problems({name: found[name] for name in grown}, listed)), sep="\n")
            return 1
        FILE.write_text(as_toml(found, FILE.read_text() if FILE.exists() else ""))
        return 0
    if arguments.all:
        for name, remedies in found.items():
            print(f"{name}: {len(remedies)}", *(f"  {one}: {remedy}" for one, remedy in remedies.items()), sep="\n")
    messages = sorted(problems(found, exceptions))
    if not MODULES.exists() or MODULES.read_text(encoding="utf-8") != module_list():
        messages.append("docs/modules.md: it differs from the modules; run python -m tests.house --modules")
    print(*messages, sep="\n", end="\n" if messages else "")
    return 1 if messages else 0


sys.exit(main())
