"""Calculations without a value: when they are an error.

A tick fails if and only if, in the state after it, a rule has a binding that lacks a value and of which nothing is
false: its atoms hold it, and no negated atom and no comparison drops it; those that cannot be asked for want of the
value drop nothing. So a comparison such as ``y != 0`` guards a division by y wherever in the rule it stands, and
whatever the plan. A sum, difference or product outside int64 is equal to no value, so ``y = x + 1`` is false of such a
one where y stands in an atom.

Joins calculate as early as they can, for bindings that may be dropped later or that are in no state at all, and drop
those that lack a value: a loop must not go on with one, which would be better than every true one, say. Only if there
were any are the bindings that the tick may have brought looked at, and each is looked up in the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.afresh import joins_afresh
from gpu_wcoj.column import floats_of
from gpu_wcoj.errors import CalculationError
from gpu_wcoj.join.calculate import FormulaRun, calculated
from gpu_wcoj.join.conditions import passes
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.join.path import Absent, AtomUse, Calculation, Check, Condition, DeltaPath, DeltaQuery, Formula, names_of
from gpu_wcoj.join.weights import weights_of_rows
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.schema import MOST_DIGITS
from gpu_wcoj.zset.arrays import BoolArray, positions, stacked


def refuse_failures(joins: Sequence[IncrementalGenericJoin]) -> None:
    """Raise if a binding of the state after this tick lacks a value; see the module's text.

    Raises
    ------
    CalculationError
        For the first calculation of the rule that fails, with the least values for which it does.
    """
    for join in joins:
        if join.may_have_failed:
            refuse_failure(join)


def refuse_failure(join: IncrementalGenericJoin) -> None:
    """Raise if a binding of a rule lacks a value after this tick, which its arrangements hold as pending."""
    _Failures(join).refuse()


class _Failures:
    """The bindings of one rule."""

    def __init__(self, join: IncrementalGenericJoin) -> None:
        self.join = join
        self.query = join.query
        self.names = {one.variable for path in self.query.paths for one in path.calculations}
        path = next(path for path in self.query.paths if not path.is_negated)
        self.atoms = (path.seed, *path.others)
        checks = (*path.seed_conditions, *path.seed_checks)
        checks += tuple(check for step in path.steps for check in (*step.conditions, *step.checks))
        helping = self.names.difference(one.variable for one in self.query.calculations)
        said = [check for check in checks if not isinstance(check, Calculation)]
        self.checks = [check for check in said if not helping.intersection(names_of(check))]

    def refuse(self) -> None:
        """Raise for the least binding that fails."""
        execution = self.join.execution
        least: tuple[tuple[int, ...], Calculation, list[int]] | None = None
        for values in self._bindings():
            found = self._failing(values, execution.backend)
            if found is not None and (least is None or found[0] < least[0]):
                least = found
        if least is not None:
            _, calculation, arguments = least
            shown = f"in the rule '{self.query.rule}', {_shown(calculation, arguments, execution)}"
            raise CalculationError(shown, _why(calculation, arguments))

    def _bindings(self) -> Iterator[dict[str, Int64Array]]:
        """Those that the tick may have brought, and others; without what is calculated."""
        base = _without(self.query, self.names)
        join = self.join
        if self._is_uncovered():
            (join,) = joins_afresh([join], join.execution, after=True)
        join = IncrementalGenericJoin(base, join.arrangements, join.execution)
        for phase in range(len(join.execution.phases)):
            for piece in join.join(phase):
                yield {str(name): column for name, column in zip(base.head, piece.columns, strict=True)}

    def _is_uncovered(self) -> bool:
        """Whether a negated atom with what is calculated changes: then bindings are new that no other atom brings."""
        seeds = [path.seed for path in self.query.paths if path.is_negated and self.names & set(path.seed.variables)]
        return any(batch.n_rows for use in seeds for batch in self.join.arrangements[use.key].pending)

    def _failing(
        self, values: dict[str, Int64Array], backend: Backend
    ) -> tuple[tuple[int, ...], Calculation, list[int]] | None:
        """The least binding that fails, what fails, and the codes of its arguments."""
        xp, execution = backend.xp, self.join.execution
        n = len(next(iter(values.values())))
        names = sorted(values)
        alive: BoolArray = xp.ones(n, np.bool_)
        for use in self.atoms:
            alive &= self._weights(use, [values[name] for name in use.variables]) != 0
        undefined: dict[str, BoolArray] = {}
        ranks = execution.ranks if execution.host_ranks else None

        def lacks(read: Sequence[str]) -> BoolArray:
            mask: BoolArray = xp.zeros(n, np.bool_)
            for name in read:
                mask |= undefined.get(name, False)
            return mask

        for one in self.query.calculations:
            given = [self._column(term, values, n) for term in one.arguments]
            values[one.variable], failed = calculated(one, given, alive, backend, execution.dictionary, ranks)
            unsaid = undefined[one.variable] = lacks(names_of(one))
            if failed is not None and one.drops:
                alive &= unsaid | ~failed
            elif failed is not None:
                undefined[one.variable] = unsaid | failed
        for check in self.checks:
            alive &= lacks(names_of(check)) | self._holds(check, values, n)
        (rows,) = positions(backend, alive & lacks(list(undefined)))
        if len(rows) == 0:
            return None
        first = backend.kernels.lexsort([values[name][rows] for name in names])[:1]

        def number(column: Any) -> int:
            return int(backend.to_host(column[rows[first]])[0])

        one = next(one for one in self.query.calculations if number(undefined[one.variable]))
        arguments = [number(self._column(term, values, n)) for term in one.arguments]
        if one.formula is not None:
            one, arguments = self._lost(one.formula, arguments)
        return tuple(number(values[name]) for name in names), one, arguments

    def _lost(self, formula: Formula, arguments: Sequence[int]) -> tuple[Calculation, list[int]]:
        """The first calculation within a formula that has no value for one row, and the codes of its arguments."""
        backend, execution = self.join.execution.backend, self.join.execution
        columns = [backend.asarray(np.array([one], np.int64)) for one in arguments]
        ranks = execution.ranks if execution.host_ranks else None
        run = FormulaRun(columns, backend, execution.dictionary, ranks)
        _ = run.value(formula, backend.xp.ones(1, np.bool_))
        found, given = next((one, own) for one, own, lost in run.lost if bool(backend.to_host(lost)[0]))
        return found, [int(backend.to_host(column)[0]) for column in given]

    def _holds(self, check: Check, values: dict[str, Int64Array], n: int) -> BoolArray:
        if isinstance(check, Absent):
            absent: BoolArray = self._weights(check.use, [self._column(term, values, n) for term in check.terms]) <= 0
            return absent
        assert isinstance(check, Condition)
        execution = self.join.execution
        return passes([check], values, execution.ranks if execution.host_ranks else None, execution.backend.xp)

    def _weights(self, use: AtomUse, columns: Sequence[Int64Array]) -> Int64Array:
        """After the tick."""
        backend = self.join.execution.backend
        batches = self.join.arrangements[use.key].after(len(self.join.execution.phases) - 1)
        if not batches:
            nothing: Int64Array = backend.xp.zeros(len(columns[0]), np.int64)
            return nothing
        return weights_of_rows(batches, range(len(columns)), stacked(backend, columns), backend)

    def _column(self, term: str | int, values: dict[str, Int64Array], n: int) -> Int64Array:
        xp = self.join.execution.backend.xp
        column: Int64Array = values[term] if isinstance(term, str) else xp.full(n, term, np.int64)
        return column


def _without(query: DeltaQuery, names: set[str]) -> DeltaQuery:
    """The query without what is calculated and whatever speaks of it, its head all variables of the positive atoms."""

    def is_kept(check: Check) -> bool:
        return not isinstance(check, Calculation) and not names.intersection(names_of(check))

    def over(path: DeltaPath) -> DeltaPath:
        steps = []
        for step in path.steps:
            conditions = tuple(filter(is_kept, step.conditions))
            steps.append(replace(step, conditions=conditions, checks=tuple(filter(is_kept, step.checks))))
        return replace(path, steps=tuple(steps), variants=(), seed_checks=tuple(filter(is_kept, path.seed_checks)))

    paths = [over(path) for path in query.paths if not (path.is_negated and names & set(path.seed.variables))]
    head = tuple(sorted(next(path for path in paths if not path.is_negated).order))
    return DeltaQuery(query.rule, head, tuple(paths))


def _shown(calculation: Calculation, arguments: Sequence[int], execution: Execution) -> str:
    shown = list(map(str, arguments))
    for i, family in enumerate(calculation.families):
        if family == "string":
            assert execution.dictionary is not None
            shown[i] = repr(execution.dictionary.value_of(arguments[i]))
        elif family.startswith("float"):
            shown[i] = str(float(floats_of(np.array([arguments[i]]), 4 if family == "float32" else 8)[0]))
        elif family == "decimal":
            shown[i] = str(Decimal(arguments[i]).scaleb(-calculation.scales[i]))
    made = str(replace(calculation, arguments=tuple(shown)))
    return made.removeprefix("# = ")  # of a null-aware calculation, a piece that has no name


def _why(calculation: Calculation, arguments: Sequence[int]) -> str:
    if calculation.op == "substr":
        return "has no value: a begin or a length is negative"
    divides = calculation.op in ("/", "%", "quotient", "rest")
    if divides and (arguments[1] == 0 or calculation.family.startswith("float")):  # floats fail by either zero alone
        return "has no value: it divides by zero"
    if calculation.op == "like":
        return "has no value: the escape is not one character, or ends the pattern"
    if calculation.op == "match":
        return "has no value: RE2 does not read the pattern"
    if calculation.family == "decimal":
        return f"has more than {MOST_DIGITS} digits"
    return "is outside int64, -2^63 to 2^63-1"
