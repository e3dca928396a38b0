"""Walks of a loop's rules: their delta paths as tables of operations for kernels.

Where an iteration has few rows, calls per iteration cost more than the rows. A loop then runs in one call over many
iterations, if each of its rules reads at most one atom of the loop and calculates with integers only: each new row is
extended through the rest of its rules, which is constant, depth first.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpu_wcoj.circuit.recursion.plan import SYNONYMS, LoopRule, RuleJoin
from gpu_wcoj.functions import Calculation
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.plan import AtomUse, Check, Condition, DeltaPath, Step
from gpu_wcoj.kernels.protocol import (
    ABSENT,
    BIND,
    CALCULATE,
    COMPARE,
    COMPARISONS,
    COPY,
    DROP,
    EMIT,
    FAIL,
    LOAD,
    OPERATORS,
    SEEK,
    WRAP,
    Level,
    LoopRun,
    Walks,
)
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey
from gpu_wcoj.zset.index import IndexedZSet


def seeded_path(rule: LoopRule, heads: Container[str]) -> int | None:
    """Return the index of the path that a row of the loop starts.

    None if no atom of the rule is in the loop.
    """
    seeded = (index for index, path in enumerate(rule.query.paths) if path.seed.key.relation in heads)
    return next(seeded, None)


@dataclass(eq=False)
class CountedWalk:
    """A walk, and the rows of counters of its steps.

    Attributes
    ----------
    rule_join
        The join whose work it does.
    path_index
        The path of that join.
    source
        The head whose rows it begins with, by number.
    """

    start: int
    rule_join: RuleJoin
    path_index: int
    source: int
    counters: dict[str, int]


@dataclass(eq=False)
class WalkTable:
    """The walks of a loop for one tick.

    Parameters
    ----------
    orders
        Per head, the order of the columns of its rows.
    """

    orders: Mapping[str, tuple[int, ...]]
    walks: list[CountedWalk] = field(default_factory=list)
    inverse: list[CountedWalk] = field(default_factory=list)
    operations: list[int] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    level_offsets: list[int] = field(default_factory=list)
    registers: list[int] = field(default_factory=list)
    n_places: int = 0
    n_cursors: int = 0
    n_counters: int = 1  # the first one is that of searches for the first row, which are not reported

    def __post_init__(self) -> None:
        self.heads = {name: number for number, name in enumerate(self.orders)}

    def add_walk(self, rule_join: RuleJoin, path_index: int) -> None:
        """Add the walk from a row of the loop to the rows that a rule derives from it."""
        join = rule_join.join
        path, name = join.query.paths[path_index], rule_join.rule.head
        terms = [join.query.head[column] for column in self.orders[name]]
        source = path.seed.key.relation
        self.walks.append(self._walk(rule_join, path_index, source, self.heads[name], terms))

    def add_inverse(self, rule_join: RuleJoin) -> None:
        """Add the walk from a row to its derivations by a rule."""
        ranks = rule_join.join.query.head[1:]
        self.inverse.append(self._walk(rule_join, 0, rule_join.rule.head, 0, ranks or (-1,)))

    def table(self) -> Walks:
        """Return the table for kernels."""
        names = list(self.orders)
        return Walks(
            np.array(self.operations, np.int64), np.array(self.level_offsets, np.int64), self.levels,
            np.array(self.registers or [0], np.int64), self.n_places, self.n_cursors, self.n_counters,
            [len(order) for order in self.orders.values()], *(
                [[walk.start for walk in walks if walk.source == head] for head in range(len(names))]
                for walks in (self.walks, self.inverse)
            ),
        )  # fmt: skip

    def report(self, run: LoopRun, seeds: Sequence[int]) -> None:
        """Add a run's counters and failures to those of the joins.

        `seeds` counts the rows of each head that were extended.
        """
        grouped = [walk for walks in (self.walks, self.inverse) for walk in sorted(walks, key=lambda walk: walk.source)]
        for number, walk in enumerate(grouped):
            join = walk.rule_join.join
            if number < len(self.walks):
                walk.rule_join.seeds[walk.path_index] += seeds[walk.source]
                join.seeds += seeds[walk.source]
            join.finished.append((walk.path_index, {name: run.work[row].copy() for name, row in walk.counters.items()}))
            if run.failed[number]:
                join.failed.append(True)

    def _walk(
        self, rule_join: RuleJoin, path_index: int, source: str, target: int, terms: Sequence[str | int]
    ) -> CountedWalk:
        path = rule_join.join.query.paths[path_index]
        writer = _WalkWriter(self, rule_join.join, path)
        start = writer.start
        writer.write(self.orders[source], target, terms)
        return CountedWalk(start, rule_join, path_index, self.heads[source], writer.counters)


class _WalkWriter:
    """Writes one walk into a table."""

    def __init__(self, table: WalkTable, join: IncrementalGenericJoin, path: DeltaPath) -> None:
        self._table = table
        self._path = path
        self._operations = table.operations
        self._arrangements: Mapping[ArrangementKey, Arrangement] = join.arrangements
        self.start = len(self._operations)
        self.counters: dict[str, int] = {}
        self._last_bind = -1
        self._numbers: dict[str | int, int] = {}
        self._uses = {use.atom: use for use in path.other_atoms}
        self._places: dict[int, list[int]] = {}
        self._depths: dict[int, int] = dict.fromkeys(self._uses, 0)

    def write(self, order: Sequence[int], target: int, terms: Sequence[str | int]) -> None:
        """Write the walk from a row, in an order of its columns, to the terms that are emitted."""
        path = self._path
        self._load(order)
        for condition in path.seed_conditions:
            self._check(condition)
        for atom, depth, _ in path.binding:
            for variable in self._uses[atom].variables[:depth]:
                self._seek(variable, atom, 0)
        for check in path.seed_checks:
            self._check(check)
        for step in path.steps:
            self._step(step)
            for check in step.checks:
                self._check(check)
        self._add(EMIT, target, len(terms), *map(self._register, terms))

    def _add(self, operation: int, *fields: int) -> int:
        """Append an operation; return its offset."""
        offset = len(self._operations)
        self._operations += (operation, offset + 3 + len(fields), self._last_bind, *fields)
        return offset

    def _register(self, term: str | int) -> int:
        """Return the register of a variable or constant."""
        register = self._numbers.get(term)
        if register is None:
            registers = self._table.registers
            register = self._numbers[term] = len(registers)
            registers.append(0 if isinstance(term, str) else int(term))
        return register

    def _load(self, order: Sequence[int]) -> None:
        """Load the seed's row, and check the filter of its arrangement."""
        key, place = self._path.seed.key, {column: position for position, column in enumerate(order, 1)}
        variables = [(column, name) for column, name in zip(key.order, self._path.seed.variables, strict=True)]
        names = {column: name for column, name in variables if column in place}
        compared = [side for left, _, right, _ in key.compared for side in (left, right) if side is not None]
        equal = [column for pair in key.equal for column in pair]
        for column in (*(column for column, _ in key.constants), *equal, *compared):
            names.setdefault(column, f"#column{column}")
        loaded = [(place[column], self._register(name)) for column, name in names.items()]
        self._add(LOAD, len(loaded), *(number for pair in loaded for number in pair))
        for column, code in key.constants:
            self._compare(names[column], "=", code)
        for left, equal_column in key.equal:
            self._compare(names[left], "=", names[equal_column])
        for left, op, right, compared_code in key.compared:
            self._compare(names[left], op, names[right] if right is not None else compared_code or 0)

    def _compare(self, left: str, op: str, right: str | int) -> None:
        self._add(COMPARE, COMPARISONS.index(op), self._register(left), self._register(right))

    def _check(self, check: Check) -> None:
        if isinstance(check, Condition):
            self._compare(check.variable, check.op, check.operand)
        elif isinstance(check, Calculation):
            self._calculate(check)
        else:
            batches = self._batches(check.use)
            fields = [len(check.terms), len(batches), *map(self._register, check.terms)]
            offset = self._add(ABSENT, *fields, *([0] * (len(batches) * len(check.terms))))
            at = offset + 3 + len(fields)
            for batch in batches:
                for level in batch.levels[: len(check.terms)]:
                    self._set_level(at, level)
                    at += 1

    def _calculate(self, check: Calculation) -> None:
        arguments = list(check.arguments)
        op = SYNONYMS.get(check.op, check.op)
        if op == "-" and len(arguments) == 1:
            arguments.insert(0, 0)
        left, right = (arguments[0], arguments[-1])
        effect = DROP if check.drops else WRAP if check.is_inverse else FAIL
        registers = self._register(left), self._register(right)
        self._add(CALCULATE, self._register(check.variable), OPERATORS.index(op), *registers, effect)

    def _batches(self, use: AtomUse) -> tuple[IndexedZSet, ...]:
        return self._arrangements[use.key].spine.batches

    def _step(self, step: Step) -> None:
        counter = self.counters.setdefault(step.name, self._table.n_counters)
        self._table.n_counters += 1
        if step.is_lookup:
            self._seek(step.variable, step.atoms[0], counter)
            return
        equal = next((condition for condition in step.conditions if condition.op == "="), None)
        bounds = [condition for condition in step.conditions if condition.op not in ("=", "!=")]
        if equal is not None:
            self._add(COPY, self._register(step.variable), self._register(equal.operand))
            for atom in step.atoms:
                self._seek(step.variable, atom, counter)
        else:
            self._bind(step, counter, bounds)
        for condition in step.conditions:
            if condition is not equal and (equal is not None or condition.op == "!="):
                self._check(condition)

    def _bind(self, step: Step, counter: int, bounds: Sequence[Condition]) -> None:
        fields = [self._register(step.variable), self._table.n_cursors, counter, len(bounds), len(step.atoms), 0]
        self._table.n_cursors += 1
        at = len(self._operations) + 3 + len(fields)
        levels = []
        for atom in step.atoms:
            described, atom_levels = self._next_level(atom)
            levels += [(at + len(fields) - 6 + 2 + 3 * i, level) for i, level in enumerate(atom_levels)]
            fields += described
        fields[5] = at + len(fields) - 6
        for bound in bounds:
            fields += (COMPARISONS.index(bound.op), self._register(bound.operand))
        offset = self._add(BIND, *fields)
        for level_at, level in levels:
            self._set_level(level_at, level)
        self._last_bind = offset

    def _seek(self, variable: str, atom: int, counter: int) -> None:
        described, levels = self._next_level(atom)
        offset = self._add(SEEK, self._register(variable), counter, *described)
        for i, level in enumerate(levels):
            self._set_level(offset + 7 + 3 * i, level)

    def _next_level(self, atom: int) -> tuple[list[int], list[Level]]:
        """Return the description of an atom's next level and its levels, and go on to it."""
        use, depth = self._uses[atom], self._depths[atom]
        batches = self._batches(use)
        above = self._places.get(atom, [-1] * len(batches))
        places = list(range(self._table.n_places, self._table.n_places + len(batches)))
        self._table.n_places += len(batches)
        self._places[atom] = places
        self._depths[atom] = depth + 1
        described = [len(batches), int(depth + 1 == len(use.variables))]
        for place_above, place in zip(above, places, strict=True):
            described += (0, place_above, place)
        return described, [batch.levels[depth] for batch in batches]

    def _set_level(self, offset: int, level: Level) -> None:
        self._operations[offset] = len(self._table.levels)
        self._table.levels.append(level)
        self._table.level_offsets.append(offset)
