"""What is evaluated: programs, their inputs and their known answers."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]

DATA = Path(__file__).parents[3] / "shared" / "data"
"""Where the graphs and fact files are; they are no part of the project."""


@dataclass(frozen=True)
class Task:
    """A fixpoint from scratch.

    Attributes
    ----------
    text
        The rules; every relation that is read and not derived comes from a file.
    files
        Of each input, below the data folder.
    known
        Rows of each derived relation.
    must, aim
        Seconds that it may take on two cores.
    """

    name: str
    text: str
    files: Mapping[str, str]
    known: Mapping[str, int]
    must: float
    aim: float

    def inputs(self, folder: Path = DATA) -> dict[str, Rows]:
        """The rows of each input."""
        return {relation: read_rows(folder / file) for relation, file in self.files.items()}


CLOSURE = Task(
    "wiki-Vote closure",
    """
    reach(x, y) :- edge(x, y).
    reach(x, z) :- reach(x, y), edge(y, z).
    """,
    {"edge": "graphs/wiki-Vote.txt.gz"},
    {"reach": 11_947_132},
    must=5,
    aim=5,
)

GALEN = Task(
    "GALEN",
    """
    p(x, z) :- p0(x, z).
    q(x, r, z) :- q0(x, r, z).
    p(x, z) :- p(x, y), p(y, z).
    q(x, r, z) :- p(x, y), q(y, r, z).
    p(x, z) :- p(y, w), u(w, r, z), q(x, r, y).
    p(x, z) :- c(y, w, z), p(x, w), p(x, y).
    q(x, t, z) :- q(x, r, z), s(r, t).
    q(x, e, o) :- q(x, y, z), r(y, u, e), q(z, u, o).
    """,
    {f"{name}0" if name in "pq" else name: f"galen/{name}.txt.gz" for name in "cpqrsu"},
    {"p": 7_560_179, "q": 16_595_494},
    must=30,
    aim=12,
)

TASKS = {task.name: task for task in (CLOSURE, GALEN)}


def read_rows(path: Path) -> Rows:
    """Rows of integers, separated by commas or blanks; lines that start with ``#`` are left out."""
    with gzip.open(path, "rt", encoding="ascii") as file:
        lines = [line.replace(",", " ") for line in file if not line.startswith("#")]
    width = len(lines[0].split())
    return np.array(" ".join(lines).split(), np.int64).reshape(-1, width)
