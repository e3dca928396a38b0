"""A query, and the rows that it is asked about: what contenders are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
"""Distinct rows of one relation: int64, shape (n, arity)."""


@dataclass(frozen=True, eq=False)
class Change:
    """Rows of one relation that a tick brings and takes; none of the first is there before, all of the second are."""

    inserted: Rows
    deleted: Rows

    def __len__(self) -> int:
        return len(self.inserted) + len(self.deleted)

    def undone(self) -> Change:
        """What takes it back."""
        return Change(self.deleted, self.inserted)


State = Mapping[str, Rows]
Tick = Mapping[str, Change]


@dataclass(frozen=True)
class Pattern:
    """A rule that keeps every variable: atoms, and comparisons of their variables.

    Attributes
    ----------
    atoms
        Relation and variables of each. No variable is twice in an atom.
    comparisons
        Left, sign and right, two variables and one of ``<``, ``<=``, ``!=``.
    """

    atoms: tuple[tuple[str, tuple[str, ...]], ...]
    comparisons: tuple[tuple[str, str, str], ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """In the order in which they first stand, which is that of the answer's columns."""
        return tuple(dict.fromkeys(name for _, variables in self.atoms for name in variables))

    def rule(self, head: str) -> str:
        """As Datalog.

        Examples
        --------
        >>> Pattern((("edge", ("a", "b")), ("edge", ("b", "c"))), (("a", "<", "c"),)).rule("path")
        'path(a, b, c) :- edge(a, b), edge(b, c), a < c.'
        """
        body = [f"{relation}({', '.join(variables)})" for relation, variables in self.atoms]
        body += [" ".join(one) for one in self.comparisons]
        return f"{head}({', '.join(self.variables)}) :- {', '.join(body)}."

    def sql(self, tables: tuple[str, ...] | None = None, select: str = "count(*)") -> str:
        """As SQL over tables with columns c0, c1 and so on.

        Parameters
        ----------
        tables
            Per atom, the table that stands for it; by default its relation.
        select
            What is selected; ``*`` selects the variables.

        Examples
        --------
        >>> Pattern((("edge", ("a", "b")), ("edge", ("b", "c"))), (("a", "<", "c"),)).sql()
        'SELECT count(*) FROM edge t0, edge t1 WHERE t0.c1 = t1.c0 AND t0.c0 < t1.c1'
        """
        place: dict[str, str] = {}
        where = []
        for i, (_, variables) in enumerate(self.atoms):
            for column, name in enumerate(variables):
                here = f"t{i}.c{column}"
                if name in place:
                    where.append(f"{place[name]} = {here}")
                place.setdefault(name, here)
        where += [f"{place[left]} {sign} {place[right]}" for left, sign, right in self.comparisons]
        names = tables or tuple(relation for relation, _ in self.atoms)
        listed = ", ".join(f"{name} t{i}" for i, name in enumerate(names))
        chosen = ", ".join(f"{place[name]} {name}" for name in self.variables) if select == "*" else select
        return f"SELECT {chosen} FROM {listed}" + (f" WHERE {' AND '.join(where)}" if where else "")


@dataclass(frozen=True)
class Workload:
    """A query.

    Attributes
    ----------
    name
        Of the workload.
    text
        The program.
    answer
        The head whose rows are counted.
    columns
        Per input relation, what its columns are called.
    pattern
        The program as one rule; None where it is more than that, and rivals need `sql` or a text of their own, by
        `name`.
    sql
        The number of rows of the answer in SQL, over tables with columns c0, c1 and so on.
    bag
        Whether rows have multiplicities, and the answer is their sum; inputs are sets all the same.
    depends_on_order
        Whether the values are vertices that can be numbered in another way, so that the answer has as many rows and
        takes other work.
    rows_of_change
        Rows of the state that one change is: of an edge that the pattern reads both ways, two.
    """

    name: str
    family: str
    text: str
    answer: str
    columns: Mapping[str, tuple[str, ...]]
    pattern: Pattern | None
    sql: str
    bag: bool = False
    depends_on_order: bool = False
    rows_of_change: int = 1


@dataclass(frozen=True, eq=False)
class Stream:
    """The rows of one case: what is there at first, and what each tick changes."""

    state: State
    ticks: tuple[Tick, ...]

    def write(self, folder: Path) -> None:
        """Write it, for another process to `read`."""
        arrays = {f"state {name}": rows for name, rows in self.state.items()}
        for number, tick in enumerate(self.ticks):
            for name, change in tick.items():
                arrays[f"{number} inserted {name}"] = change.inserted
                arrays[f"{number} deleted {name}"] = change.deleted
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows in arrays.items():
            np.save(folder / f"{name}.npy", rows)
        (folder / "ticks").write_text(str(len(self.ticks)))

    @classmethod
    def read(cls, folder: Path) -> Stream:
        """What `write` wrote."""
        state: dict[str, Rows] = {}
        ticks: list[dict[str, Change]] = [{} for _ in range(int((folder / "ticks").read_text()))]
        for path in sorted(folder.glob("*.npy")):
            first, _, rest = path.stem.partition(" ")
            if first == "state":
                state[rest] = np.load(path)
            elif (parts := rest.partition(" "))[0] == "inserted":
                deleted = np.load(path.with_name(f"{first} deleted {parts[2]}.npy"))
                ticks[int(first)][parts[2]] = Change(np.load(path), deleted)
        return cls(state, tuple(ticks))
