"""Shares: the numbers of parts of a rule's variables on a grid that holds each binding once.

A row of an atom is sent to every cell that agrees with it on the atom's variables. So an atom's rows are copied once
for each part of the variables that it lacks, and each cell holds their number divided by the parts of those that it
has.

References
----------
S. Chu, M. Balazinska and D. Suciu, "From Theory to Practice: Efficient Join Query Evaluation in a Parallel Database
System", SIGMOD 2015, doi:10.1145/2723372.2750545: integer shares by exhaustive search.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from gpu_wcoj.errors import UsageError

MAX_CELLS = 64
"""Cells of a layout: the cells of a row are the bits of one 64-bit integer."""
MAX_VARIABLES = 8
"""Variables of a rule that are hashed. If a rule has more, only those of several atoms are hashed, the first ones."""


@dataclass(frozen=True)
class Shares:
    """The shares of one rule.

    Attributes
    ----------
    parts
        Per hashed variable, the number of its parts.
    cell_rows
        Rows that a cell holds on average, over all atoms.
    shipped_rows
        Sum of the rows of all cells.
    input_rows
        Rows of all atoms, each counted once.
    """

    parts: tuple[tuple[str, int], ...]
    cell_rows: float
    shipped_rows: float
    input_rows: float

    @property
    def cells(self) -> int:
        """The number of cells of the grid."""
        return prod(part for _, part in self.parts)

    @property
    def fraction(self) -> float:
        """The fraction of the atoms' rows that a cell holds."""
        return self.cell_rows / self.input_rows if self.input_rows else 0.0

    def __str__(self) -> str:
        grid = " x ".join(f"{name}:{part}" for name, part in self.parts) or "one cell"
        copies = self.shipped_rows / self.input_rows if self.input_rows else 1.0
        return f"{grid} ({self.cells} cells, {copies:.3g} copies of a row, {self.fraction:.0%} of the rows in a cell)"


def best_shares(atoms: Sequence[tuple[float, Sequence[str]]], cells: int) -> Shares:
    """Return the shares with the fewest rows in a cell.

    Ties are decided by the fewest rows shipped, then by the most even parts. Every assignment of integer parts with at
    most `cells` cells is examined. Remaining ties are decided by the order in which the variables first occur, so that
    the answer is deterministic.

    Parameters
    ----------
    atoms
        Per atom its number of rows and its variables.
    cells
        Maximum number of cells.

    Examples
    --------
    >>> triangle = [(100, "ab"), (100, "bc"), (100, "ac")]
    >>> print(best_shares(triangle, 8))
    a:2 x b:2 x c:2 (8 cells, 2 copies of a row, 25% of the rows in a cell)
    >>> best_shares(triangle, 7).parts
    (('a', 3), ('b', 2))
    >>> best_shares([(100, "ab"), (100, "ac"), (100, "ad")], 8).parts
    (('a', 8),)
    """
    if not 1 <= cells <= MAX_CELLS:
        raise UsageError.invalid_value("cells", cells, f"an integer from 1 to {MAX_CELLS}")
    variables = list(dict.fromkeys(name for _, names in atoms for name in names))
    if len(variables) > MAX_VARIABLES:
        shared = [name for name in variables if sum(name in names for _, names in atoms) > 1]
        variables = shared[:MAX_VARIABLES]
    best: tuple[tuple[float, float, int, tuple[int, ...]], Shares] | None = None
    for parts in _assignments(len(variables), cells):
        shares = _cost(atoms, dict(zip(variables, parts, strict=True)))
        key = (shares.cell_rows, shares.shipped_rows, max(parts, default=1), tuple(-part for part in parts))
        if best is None or key < best[0]:
            best = key, shares
    assert best is not None
    return best[1]


def shares_of(atoms: Sequence[tuple[float, Sequence[str]]], parts: Mapping[str, int]) -> Shares:
    """Return the cost of these parts."""
    return _cost(atoms, parts)


def even_shares(atoms: Sequence[tuple[float, Sequence[str]]], names: Sequence[str], cells: int) -> Shares:
    """Return the cost of hashing variables that all atoms have together: no row is copied.

    Examples
    --------
    >>> print(even_shares([(100, "ab"), (100, "abc")], "ab", 8))
    (a, b):8 (8 cells, 1 copies of a row, 12% of the rows in a cell)
    """
    total_rows = sum(rows for rows, _ in atoms)
    label = names[0] if len(names) == 1 else f"({', '.join(names)})"
    return Shares(((label, cells),) if cells > 1 else (), total_rows / cells, total_rows, total_rows)


def _cost(atoms: Sequence[tuple[float, Sequence[str]]], parts: Mapping[str, int]) -> Shares:
    n_cells = prod(parts.values())
    cell_rows = sum(rows / prod(parts.get(name, 1) for name in set(names)) for rows, names in atoms)
    hashed = tuple((name, part) for name, part in parts.items() if part > 1)
    return Shares(hashed, cell_rows, cell_rows * n_cells, sum(rows for rows, _ in atoms))


def _assignments(n: int, cells: int) -> Iterator[tuple[int, ...]]:
    """Yield all tuples of `n` positive integers whose product is at most `cells`."""
    if n == 0:
        yield ()
        return
    for part in range(1, cells + 1):
        for remaining in _assignments(n - 1, cells // part):
            yield (part, *remaining)
