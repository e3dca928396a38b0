"""The layout of a program on cells, stored in its checkpoint: cells, shares, heavy values.

The lookup plan (`gpu_wcoj.planner.delta_lookups`) decides whether rows must be exchanged for lookups. If not, one hash
sends each row to one cell. If so, there is still only one exchange, before all lookups: rows are copied to the cells of
a grid over the variables that atoms share, so that prefixes never travel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, TypeVar

from gpu_wcoj.errors import CheckpointMismatchError, UnsupportedError, UsageError, listed
from gpu_wcoj.planner.delta_lookups import Arranged, Exchanges
from gpu_wcoj.query.desugar import desugar
from gpu_wcoj.query.ir import Rule, Rules
from gpu_wcoj.query.stratify import cycle, loops_of

# Shares: the numbers of parts of a rule's variables on a grid that holds each binding once.
#
# A row of an atom is sent to every cell that agrees with it on the atom's variables. So an atom's rows are copied once
# for each part of the variables that it lacks, and each cell holds their number divided by the parts of those that it
# has.
#
# References
# ----------
# S. Chu, M. Balazinska and D. Suciu, "From Theory to Practice: Efficient Join Query Evaluation in a Parallel Database
# System", SIGMOD 2015, doi:10.1145/2723372.2750545: integer shares by exhaustive search.


T = TypeVar("T")

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


Layout = Literal["auto", "hypercube", "replicated"]
Value = int | str
Heavy = Mapping[str, Sequence[Value]]
"""Per variable of a rule, values of so many rows that the part they hash to would be too large."""
Names = tuple[str, ...]

MAX_CELL_FRACTION = 0.5
"""Fraction of a rule's rows: if the cells of a grid would hold more, every cell holds all rows instead."""

MAX_HEAVY_VARIABLES = 3
"""Variables of a rule that may have heavy values: each doubles the number of ways to route a rule's rows."""


@dataclass(frozen=True)
class CellLayout:
    """The layout of a program over cells.

    Attributes
    ----------
    layout
        ``"hypercube"``: each cell holds the rows that agree with it. ``"replicated"``: each cell holds all rows and
        works on its share of every change.
    cells
        The number of cells.
    parts
        Per rule and way, the parts of each variable that is hashed by itself. A way is one of the groups into which
        heavy values split the bindings: bit i of its index is set if the i-th variable with heavy values has one.
    heavy
        Per rule, the heavy values of its variables.
    reason
        The reason for the layout, for people.
    shared
        Per rule and way, variables that all atoms have and whose common hash names the cell, if lookups need no
        exchange: then no variable is hashed by itself. Empty in checkpoints of older versions.
    moved
        Per rule, the variables by which lookups would have to be exchanged, for people.
    """

    layout: Literal["hypercube", "replicated"]
    cells: int
    parts: tuple[tuple[Mapping[str, int], ...], ...]
    heavy: tuple[Heavy, ...]
    reason: str = field(default="", compare=False)
    shared: tuple[tuple[Names, ...], ...] = ()
    moved: tuple[tuple[Names, ...], ...] = field(default=(), compare=False)

    def is_shared(self, rule: int, way: int = 0) -> bool:
        """Return whether lookups need no exchange in one way of a rule."""
        return bool(self.shared and self.shared[rule][way])

    def coordinates(self, rule: int, way: int = 0) -> tuple[tuple[Names, int], ...]:
        """Return the variables that are hashed together in one way of a rule, and their parts."""
        if self.is_shared(rule, way):
            return ((self.shared[rule][way], self.cells),)
        return tuple(((name,), parts) for name, parts in self.parts[rule][way].items())

    def parts_of(self, rule: int, variable: str) -> int:
        """Return the number of parts of a variable, hashed by itself or with others.

        This is the way in which no variable has a heavy value.
        """
        return next((parts for names, parts in self.coordinates(rule) if variable in names), 1)

    def to_json(self) -> dict[str, Any]:
        """Return the layout as plain values."""
        content: dict[str, Any] = {
            "layout": self.layout,
            "cells": self.cells,
            "parts": [[dict(way) for way in ways] for ways in self.parts],
            "heavy": [{name: list(values) for name, values in values_of.items()} for values_of in self.heavy],
            "reason": self.reason,
        }
        if self.shared:
            content["shared"] = [[list(names) for names in ways] for ways in self.shared]
        if self.moved:
            content["moved"] = [[list(names) for names in moves] for moves in self.moved]
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> CellLayout:
        """Return the layout from the result of `to_json`."""
        return cls(
            content["layout"],
            int(content["cells"]),
            tuple(tuple(dict(way) for way in ways) for ways in content["parts"]),
            tuple({name: tuple(values) for name, values in values_of.items()} for values_of in content["heavy"]),
            str(content["reason"]),
            tuple(tuple(map(tuple, ways)) for ways in content.get("shared", ())),
            tuple(tuple(map(tuple, moves)) for moves in content.get("moved", ())),
        )

    def check(self, path: object, layout: Layout, cells: int | None) -> None:
        """Raise `CheckpointMismatchError` if a different layout or number of cells is requested."""
        if layout not in ("auto", self.layout):
            raise CheckpointMismatchError(path, "layout", self.layout, layout)
        if cells not in (None, self.cells):
            raise CheckpointMismatchError(path, "number of cells", self.cells, cells)


def choose(
    rules: Rules,
    layout: Layout,
    cells: int,
    sizes: Mapping[str, float] | None = None,
    heavy: Mapping[int, Heavy] | None = None,
) -> CellLayout:
    """Return the layout with the least work, with its shares.

    Parameters
    ----------
    layout
        ``"auto"`` for the cheaper one.
    cells
        The number of cells. More cells than concurrent tasks balance the load.
    sizes
        Rows of relations with known sizes; other relations are estimated by the mean of these.
    heavy
        Per index of a rule, the heavy values of its variables.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> text = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."
    >>> choose(parse(text), "auto", 8).parts
    (({'a': 2, 'b': 2, 'c': 2},),)
    >>> choose(parse("both(a, b) :- r(a, b), s(a, b)."), "auto", 8).coordinates(0)
    ((('a', 'b'), 8),)
    """
    if layout not in ("auto", "hypercube", "replicated"):
        raise UsageError.invalid_value("layout", layout, "'auto', 'hypercube' or 'replicated'")
    if type(cells) is not int or not 1 <= cells <= MAX_CELLS:
        raise UsageError.invalid_value("cells", cells, f"an integer from 1 to {MAX_CELLS}")
    core = desugar(rules)
    heavy_of = {rule_index: _validate_heavy(core, rule_index, values) for rule_index, values in (heavy or {}).items()}
    known_sizes = by_core_name(core, sizes or {})
    mean = sum(known_sizes.values()) / len(known_sizes) if known_sizes else 1.0
    rows = {name: known_sizes.get(name, mean or 1.0) for name in (*core.inputs, *core.heads)}
    plans = _planned(core, rows if known_sizes else {})
    parts, shared = [], []
    for rule_index, plan in enumerate(plans):
        heavy_names = list(heavy_of.get(rule_index, {}))
        ways, together = [], []
        for way in range(1 << len(heavy_names)):
            fixed = {name for bit, name in enumerate(heavy_names) if way >> bit & 1}
            one_key = tuple(name for name in plan.shared if name not in fixed and cells > 1)
            ways.append({} if one_key else dict(best_shares(_hashable_variables(plan, rows, fixed), cells).parts))
            together.append(one_key)
        parts.append(tuple(ways))
        shared.append(tuple(together))
    grid = CellLayout("hypercube", cells, tuple(parts), (), "", tuple(shared))
    fraction = max((shares.fraction for shares in shares_in(rules, grid, sizes)), default=0.0)
    chosen: Literal["hypercube", "replicated"]
    if layout == "auto":
        chosen = "replicated" if fraction > MAX_CELL_FRACTION and cells > 1 else "hypercube"
        reason = (
            f"on a grid a cell would hold {fraction:.0%} of a rule's rows, "
            f"{'more than' if fraction > MAX_CELL_FRACTION else 'at most'} {MAX_CELL_FRACTION:.0%}"
        )
    else:
        chosen, reason = layout, "as asked for"
    if chosen == "replicated":
        if heavy_of:
            raise UsageError.conflict(
                "heavy values", "layout='replicated'", "Leave one of them out.", "its work is split by rows"
            )
        parts, shared = [({},) for _ in parts], []
    moved = tuple(plan.moved for plan in plans)
    return CellLayout(
        chosen, cells, tuple(parts), tuple(heavy_of.get(i, {}) for i in range(len(parts))), reason, tuple(shared), moved
    )


def shares_in(rules: Rules, chosen: CellLayout, sizes: Mapping[str, float] | None = None) -> list[Shares]:
    """Return the cost of the shares of each rule, without heavy values."""
    core = desugar(rules)
    known_sizes = by_core_name(core, sizes or {})
    mean = sum(known_sizes.values()) / len(known_sizes) if known_sizes else 1.0
    shares = []
    for rule_index, rule in enumerate(core.rules):
        atoms = _atom_sizes(rule, known_sizes, mean or 1.0)
        if chosen.is_shared(rule_index):
            shares.append(even_shares(atoms, chosen.shared[rule_index][0], chosen.cells))
        else:
            shares.append(shares_of(atoms, chosen.parts[rule_index][0]))
    return shares


# Seconds of an answer in one engine and in cells, by which "auto" chooses.
#
# Both are proportional to the rows that engines load, as joins of R-MAT graphs take less time than loading them and
# exchanging them: a pattern whose join is the work is faster on cells than estimated.


START_SECONDS = 0.5
"""Seconds of planning and starting the tasks of cells (`make bench-spark-scale`, scale 18, two cores)."""
ENGINE_ROW_SECONDS = 0.12e-6
"""Seconds of an atom's row in one engine with two threads: 1.3 s for 10.9 million (the same run)."""
COLLECTED_ROW_SECONDS = 0.2e-6
"""Seconds in which a row comes from Spark into the driver: 0.7 s for 3.5 million (the same graph)."""
CELL_ROW_SECONDS = 0.33e-6
"""Seconds of a row of a cell, exchanged and loaded: 2.4 s for 7.3 million (the same run, 2 cells)."""


@dataclass(frozen=True)
class Estimate:
    """Estimated seconds of an answer in one engine, and in cells."""

    engine: float
    cells: float
    n_cells: int

    def __str__(self) -> str:
        return f"estimated at {self.engine:.2g} s in one engine and at {self.cells:.2g} s in {self.n_cells} cells"


@dataclass(frozen=True)
class OneEngine:
    """The choice of one engine for an answer.

    Attributes
    ----------
    reason
        The reason, for people.
    estimate
        The estimate that decided; None if something else did.
    """

    reason: str
    estimate: Estimate | None = None


def estimate_answer(
    rules: Rules, chosen: CellLayout, rows: Mapping[str, float], tasks: int, collected: float
) -> Estimate:
    """Return the estimated seconds of an answer.

    Parameters
    ----------
    rows
        Rows of the inputs.
    tasks
        Tasks that run at a time; the cells of more tasks follow one another.
    collected
        Rows that one engine gets through Spark; it reads plain files itself.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> rules = parse("triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).")
    >>> for n in (2, 64):
    ...     print(estimate_answer(rules, choose(rules, "auto", n), {"edge": 1e8}, n, 0.0))
    estimated at 36 s in one engine and at 52 s in 2 cells
    estimated at 36 s in one engine and at 6.7 s in 64 cells
    """
    shares = shares_in(rules, chosen, rows)
    atom_rows = sum(cost.input_rows for cost in shares)
    engine = ENGINE_ROW_SECONDS * atom_rows
    if chosen.layout == "replicated" or loops_of(desugar(rules)):  # each cell loads all rows, and does its share
        cell = CELL_ROW_SECONDS * sum(rows.values()) + engine / chosen.cells
    else:
        cell = CELL_ROW_SECONDS * sum(cost.cell_rows for cost in shares)
    rounds = -(-chosen.cells // max(1, tasks))
    return Estimate(engine + COLLECTED_ROW_SECONDS * collected, START_SECONDS + cell * rounds, chosen.cells)


def by_core_name(core: Rules, of_input: Mapping[str, T]) -> dict[str, T]:
    """Return values by the names of inputs in core form, which differ if an input is a head."""
    return {f"{name}#in" if name in core.heads else name: value for name, value in of_input.items()}


def _planned(rules: Rules, rows: Mapping[str, float]) -> list[Exchanges]:
    """Return the lookups of each rule; rows are routed as for an earlier rule where possible."""
    plans: list[Exchanges] = []
    existing: list[Arranged] = []
    for rule in rules.rules:
        plans.append(Exchanges.plan_rule(rule, rows, existing))
        existing += plans[-1].plan.made
    return plans


def _hashable_variables(
    plan: Exchanges, rows: Mapping[str, float], fixed: Collection[str]
) -> list[tuple[float, list[str]]]:
    """Return, per atom, its rows and the variables that the grid may hash.

    A variable of only one atom is not worth hashing: a variable that this atom shares divides its rows too, and copies
    fewer rows of other atoms. The exception is an atom that shares no variable, or none that is not fixed.
    """
    usable = [variable.name for variable in plan.rule.variables] if fixed or plan.crosses else plan.joined
    names = {name for name in usable if name not in fixed}
    return [(n, [name for name in atom_names if name in names]) for n, atom_names in _atom_sizes(plan.rule, rows, 1.0)]


def _atom_sizes(rule: Rule, sizes: Mapping[str, float], mean: float) -> list[tuple[float, list[str]]]:
    """Return, per atom, its rows and its variables; negated atoms are sent to cells, too."""
    atoms = (*rule.atoms, *rule.negated)
    return [(sizes.get(atom.relation, mean), [variable.name for variable in atom.variables]) for atom in atoms]


def _validate_heavy(rules: Rules, rule_index: int, heavy: Heavy) -> Heavy:
    if not 0 <= rule_index < len(rules.rules):
        raise UsageError.with_parts(
            f"heavy values are given for rule {rule_index}",
            subject="heavy", got=rule_index, expected=f"a rule from 0 to {len(rules.rules) - 1}",
        )  # fmt: skip
    names = [variable.name for variable in rules.rules[rule_index].variables]
    if len(heavy) > MAX_HEAVY_VARIABLES:
        raise UnsupportedError.with_parts(
            f"rule {rule_index} has heavy values of {len(heavy)} variables",
            subject="heavy", got=len(heavy), expected=f"at most {MAX_HEAVY_VARIABLES}",
            remedy="Leave some out, or use layout='replicated'.",
        )  # fmt: skip
    validated: dict[str, Sequence[Value]] = {}
    for name, values in heavy.items():
        if name not in names:
            raise UsageError.with_parts(
                f"rule {rule_index} has no variable '{name}'",
                subject="heavy", got=name, expected=f"one of {listed(names)}",
            )  # fmt: skip
        for value in values:
            if type(value) not in (int, str):
                raise UnsupportedError.wrong_type(f"a heavy value of '{name}'", value, "an integer or text")
        validated[name] = tuple(dict.fromkeys(values))
    return validated


# The programs that can be distributed over cells.


def reason_against(rules: Rules) -> str:
    """Return the reason against distributing a program over cells; empty if it is possible.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> reason_against(parse("path(a, c) :- edge(a, b), edge(b, c)."))
    ''
    """
    core = desugar(rules)
    loops = loops_of(core)
    if core.demands or any(helper.relation in loops for helper in core.helpers):
        return f"it aggregates within a recursion, whose groups pass through many cells: {_cycle(core, loops)}"
    if core.limits:
        return f"'{core.limits[0]}' counts rows that many cells have"
    return ""


def reason_for_one(rules: Rules) -> str:
    """Return the reason for which ``"auto"`` takes one engine; empty if there is none.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> reason_for_one(parse("far(a, b) :- edge(a, b). far(a, c) :- far(a, b), edge(b, c)."))
    'it is recursive, and cells copy what one engine holds once: far <- far'
    """
    if against := reason_against(rules):
        return against
    core = desugar(rules)
    loops = loops_of(core)
    return f"it is recursive, and cells copy what one engine holds once: {_cycle(core, loops)}" if loops else ""


def require_spread(rules: Rules) -> None:
    """Raise `UnsupportedError` if a program cannot be distributed over cells."""
    against = reason_against(rules)
    if against:
        raise UnsupportedError.unsupported(
            "this program on cells", against, "Use layout='one', or 'auto', which chooses it."
        )


def _cycle(core: Rules, loops: Mapping[str, Collection[str]]) -> str:
    """Return heads that read one another, as ``a <- b <- a``."""
    start = next(name for name in core.heads if name in loops)
    return " <- ".join(cycle(start, loops[start], {head: sorted(reads) for head, reads in core.read_by_head.items()}))
