"""Undefined values: bindings for which a calculation of a rule has no value.

A tick fails if and only if, in the state after it, a rule has a binding with an undefined value that no other part of
the rule rejects: all its positive atoms contain it, and no negated atom and no comparison drops it. Atoms and
comparisons that need the undefined value drop nothing. So a comparison such as ``y != 0`` guards a division by y
wherever it is written in the rule, and under every plan. A sum, difference or product outside int64 equals no value, so
``y = x + 1`` is false in that case if y is a variable of an atom.

Joins calculate as early as possible, also for bindings that are dropped later or are in no state, and drop bindings
with an undefined value: a loop must not continue with one, which might be taken for the best value. Only if a join
dropped any, the bindings that the tick may have added are enumerated, and each is looked up in the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.afresh import recomputation_joins
from gpu_wcoj.data.column import floats_of
from gpu_wcoj.data.schema import MAX_DIGITS
from gpu_wcoj.errors import CalculationError
from gpu_wcoj.functions import FormulaRun, evaluate_calculation
from gpu_wcoj.join.conditions import condition_mask
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.join.plan import (
    Absent,
    AtomUse,
    Calculation,
    Check,
    Condition,
    DeltaPath,
    DeltaQuery,
    Formula,
    check_variables,
)
from gpu_wcoj.join.weights import weights_of_rows
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import BoolArray, positions, stacked


def refuse_failures(joins: Sequence[IncrementalGenericJoin]) -> None:
    """Raise if a binding of the state after this tick has an undefined value.

    See the module docstring.

    Raises
    ------
    CalculationError
        For the first failing calculation of the rule, with the smallest values for which it fails.
    """
    for join in joins:
        if join.may_have_failed:
            refuse_failure(join)


def refuse_failure(join: IncrementalGenericJoin) -> None:
    """Raise if a binding of a rule has an undefined value after this pending tick."""
    _FailureSearch(join).refuse()


class _FailureSearch:
    """Search for the bindings of one rule that have an undefined value."""

    def __init__(self, join: IncrementalGenericJoin) -> None:
        self.join = join
        self.query = join.query
        self.names = {calculation.variable for path in self.query.paths for calculation in path.calculations}
        path = next(path for path in self.query.paths if not path.is_negated)
        self.atoms = (path.seed, *path.other_atoms)
        checks = (*path.seed_conditions, *path.seed_checks)
        checks += tuple(check for step in path.steps for check in (*step.conditions, *step.checks))
        helping = self.names.difference(calculation.variable for calculation in self.query.calculations)
        kept_checks = [check for check in checks if not isinstance(check, Calculation)]
        self.checks = [check for check in kept_checks if not helping.intersection(check_variables(check))]

    def refuse(self) -> None:
        """Raise for the smallest failing binding."""
        execution = self.join.execution
        smallest: tuple[tuple[int, ...], Calculation, list[int]] | None = None
        for values in self._bindings():
            failure = self._failing(values, execution.backend)
            if failure is not None and (smallest is None or failure[0] < smallest[0]):
                smallest = failure
        if smallest is not None:
            _, calculation, arguments = smallest
            described = f"in the rule '{self.query.rule}', {_describe(calculation, arguments, execution)}"
            raise CalculationError(described, _failure_reason(calculation, arguments))

    def _bindings(self) -> Iterator[dict[str, Int64Array]]:
        """Yield a superset of the bindings added by the tick, without calculated variables."""
        base = _without_calculations(self.query, self.names)
        join = self.join
        if self._is_uncovered():
            (join,) = recomputation_joins([join], join.execution, after=True)
        join = IncrementalGenericJoin(base, join.arrangements, join.execution)
        for phase in range(len(join.execution.phases)):
            for piece in join.join(phase):
                yield {str(name): column for name, column in zip(base.head, piece.columns, strict=True)}

    def _is_uncovered(self) -> bool:
        """Return whether a negated atom with calculated variables changes.

        Then there are new bindings that the delta paths of the other atoms do not derive.
        """
        seeds = [path.seed for path in self.query.paths if path.is_negated and self.names & set(path.seed.variables)]
        return any(batch.n_rows for use in seeds for batch in self.join.arrangements[use.key].pending)

    def _failing(
        self, values: dict[str, Int64Array], backend: Backend
    ) -> tuple[tuple[int, ...], Calculation, list[int]] | None:
        """Return the smallest failing binding, its calculation, and the codes of the arguments."""
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

        for calculation in self.query.calculations:
            arguments_now = [self._column(term, values, n) for term in calculation.arguments]
            values[calculation.variable], failed = evaluate_calculation(
                calculation, arguments_now, alive, backend, execution.dictionary, ranks
            )
            undefined_input = undefined[calculation.variable] = lacks(check_variables(calculation))
            if failed is not None and calculation.drops:
                alive &= undefined_input | ~failed
            elif failed is not None:
                undefined[calculation.variable] = undefined_input | failed
        for check in self.checks:
            alive &= lacks(check_variables(check)) | self._holds(check, values, n)
        (rows,) = positions(backend, alive & lacks(list(undefined)))
        if len(rows) == 0:
            return None
        first = backend.kernels.lexsort([values[name][rows] for name in names])[:1]

        def first_value(column: Any) -> int:
            return int(backend.to_host(column[rows[first]])[0])

        failed_calculation = next(
            failed_calculation
            for failed_calculation in self.query.calculations
            if first_value(undefined[failed_calculation.variable])
        )
        arguments = [first_value(self._column(term, values, n)) for term in failed_calculation.arguments]
        if failed_calculation.formula is not None:
            failed_calculation, arguments = self._find_failed_step(failed_calculation.formula, arguments)
        return tuple(first_value(values[name]) for name in names), failed_calculation, arguments

    def _find_failed_step(self, formula: Formula, arguments: Sequence[int]) -> tuple[Calculation, list[int]]:
        """Return the first undefined step of a formula for one row, and its argument codes."""
        backend, execution = self.join.execution.backend, self.join.execution
        columns = [backend.asarray(np.array([code], np.int64)) for code in arguments]
        ranks = execution.ranks if execution.host_ranks else None
        run = FormulaRun(columns, backend, execution.dictionary, ranks)
        _ = run.evaluate(formula, backend.xp.ones(1, np.bool_))
        calculation, columns_of_arguments = next(
            (step, inputs) for step, inputs, lost in run.lost if bool(backend.to_host(lost)[0])
        )
        return calculation, [int(backend.to_host(column)[0]) for column in columns_of_arguments]

    def _holds(self, check: Check, values: dict[str, Int64Array], n: int) -> BoolArray:
        if isinstance(check, Absent):
            absent: BoolArray = self._weights(check.use, [self._column(term, values, n) for term in check.terms]) <= 0
            return absent
        assert isinstance(check, Condition)
        execution = self.join.execution
        return condition_mask([check], values, execution.ranks if execution.host_ranks else None, execution.backend.xp)

    def _weights(self, use: AtomUse, columns: Sequence[Int64Array]) -> Int64Array:
        """Return the weights of rows of an atom after the tick."""
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


def _without_calculations(query: DeltaQuery, names: set[str]) -> DeltaQuery:
    """Return the query without calculations and checks that use them.

    Its head has all variables of positive atoms.
    """

    def is_kept(check: Check) -> bool:
        return not isinstance(check, Calculation) and not names.intersection(check_variables(check))

    def strip(path: DeltaPath) -> DeltaPath:
        steps = []
        for step in path.steps:
            conditions = tuple(filter(is_kept, step.conditions))
            steps.append(replace(step, conditions=conditions, checks=tuple(filter(is_kept, step.checks))))
        return replace(path, steps=tuple(steps), variants=(), seed_checks=tuple(filter(is_kept, path.seed_checks)))

    paths = [strip(path) for path in query.paths if not (path.is_negated and names & set(path.seed.variables))]
    head = tuple(sorted(next(path for path in paths if not path.is_negated).order))
    return DeltaQuery(query.rule, head, tuple(paths))


def _describe(calculation: Calculation, arguments: Sequence[int], execution: Execution) -> str:
    texts = list(map(str, arguments))
    for i, family in enumerate(calculation.families):
        if family == "string":
            assert execution.dictionary is not None
            texts[i] = repr(execution.dictionary.value_of(arguments[i]))
        elif family.startswith("float"):
            texts[i] = str(float(floats_of(np.array([arguments[i]]), 4 if family == "float32" else 8)[0]))
        elif family == "decimal":
            texts[i] = str(Decimal(arguments[i]).scaleb(-calculation.scales[i]))
    text = str(replace(calculation, arguments=tuple(texts)))
    return text.removeprefix("# = ")  # part of a null-aware calculation, which has no name


def _failure_reason(calculation: Calculation, arguments: Sequence[int]) -> str:
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
        return f"has more than {MAX_DIGITS} digits"
    return "is outside int64, -2^63 to 2^63-1"
