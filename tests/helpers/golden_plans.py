"""Golden pairs of planner passes: a program and its draft before and after a pass, as text.

A file holds cases of one pass, which it is called by. Each has sections, whose lines are indented: ``program``,
``options`` if there are any (``strategy binary``, ``order h: a b``, ``sizes r 1000``, ``keys r 0``, ``bag``,
``single_tick``), ``before``, ``after``.
``WRITE_GOLDEN=1`` in the environment writes what the passes say now; read what has changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_wcoj.planner.ir import Draft
from gpu_wcoj.planner.passes import PASSES, Pass
from tests.planner.examples import draft_program

FOLDER = Path(__file__).parents[1] / "planner" / "golden"
SECTIONS = ("program", "options", "before", "after")


@dataclass
class Case:
    """One pair.

    Attributes
    ----------
    note
        What it shows.
    """

    note: str
    program: str = ""
    options: str = ""
    before: str = ""
    after: str = ""

    @property
    def arguments(self) -> dict[str, Any]:
        """The options as `drafted` takes them."""
        found: dict[str, Any] = {}
        for line in self.options.splitlines():
            word, *rest = line.split()
            if word == "order":
                found.setdefault("order", {})[rest[0].rstrip(":")] = rest[1:]
            elif word == "sizes":
                found.setdefault("sizes", {})[rest[0]] = float(rest[1])
            elif word == "keys":
                found.setdefault("keys", {})[rest[0]] = tuple(map(int, rest[1:]))
            else:
                assert word in ("strategy", "bag", "single_tick"), line
                found[word] = rest[0] if rest else True
        return found

    def drafts(self, one: Pass) -> tuple[Draft, Draft]:
        """Before and after this pass."""
        before = draft_program(self.program, PASSES[: PASSES.index(one)], **self.arguments)
        return before, one(before)

    def __str__(self) -> str:
        lines = [f"# {line}" for line in self.note.splitlines()]
        for section in SECTIONS:
            text: str = getattr(self, section)
            if text or section != "options":
                lines += [section, *(f"  {line}" for line in text.splitlines())]
        return "\n".join(lines) + "\n"


def read(path: Path) -> Iterator[Case]:
    """Yield the cases of a file."""
    for block in path.read_text().split("\n\n"):
        case, section, found = Case(""), "", dict[str, list[str]]()
        for line in block.strip("\n").splitlines():
            if line.startswith("# "):
                case.note += ("\n" if case.note else "") + line[2:]
            elif line.startswith("  "):
                found[section].append(line[2:])
            else:
                section = line
                assert section in SECTIONS, (
                    f"{path.name}: '{line}' is not a section: expected one of {', '.join(SECTIONS)}"
                )
                found[section] = []
        for name, lines in found.items():
            setattr(case, name, "\n".join(lines))
        yield case
