"""Migration of a program's state to another compiled program.

Its columns may have other units or more flags of nulls.

Rules that test for null derive nothing before there is a null, and the planner leaves them out. So the new program may
store state that the old one did not need: rows of heads that only such rules read, derivations of heads that had one
rule, heads that have become recursive. Constants of the text may also turn out to be of another type than their
spelling suggests: then their order changes, and so do comparisons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gpu_wcoj.circuit.auxiliary import AuxiliaryHead
from gpu_wcoj.circuit.circuit import InputChange
from gpu_wcoj.circuit.head import Head, as_recomputation
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import ArrangementKey

if TYPE_CHECKING:
    from gpu_wcoj.engine.compile import CompiledProgram

Rows = tuple[Sequence[Int64Array], Int64Array]
Moved = Callable[[str, Rows], Rows]
"""(relation, its rows in the old columns) to its rows in the new ones."""

_Atom = tuple[str, frozenset[tuple[int, str]], frozenset[object]]


def migrate_state(old: CompiledProgram, new: CompiledProgram, migrate: Moved) -> None:
    """Load the state of `old` into `new`, which has none.

    Raises
    ------
    AuxiliaryError
        If an auxiliary relation of `new` is not worth keeping.
    """
    inputs = {name: migrate(name, old.circuit.sources[name].rows()) for name in new.circuit.sources}
    if _reads_otherwise(new, old) or not _has_heads_of(new, old):
        changes = {name: InputChange(columns, weights, False) for name, (columns, weights) in inputs.items()}
        new.circuit.evaluate(changes, None)
        new.circuit.install(new.circuit.prepare())
        return
    for name, rows in inputs.items():
        new.circuit.sources[name].load(*rows)
    for name, head in new.circuit.heads.items():
        if isinstance(head, AuxiliaryHead):
            head.fill()
            continue
        before = old.circuit.heads[name]
        head.weight_bound = before.weight_bound
        if head.relation is not None:
            rows = old.circuit.rows(name) if before.relation is None else before.relation.rows()
            if len(rows[1]):
                head.relation.load(*migrate(head.relation.name, rows))
        if head.derivations is None:
            continue
        if isinstance(head, Head) and not _has_rules_of(name, new, old):
            head.execution.begin()
            rows = as_recomputation(head).derivation_changes()
        elif before.derivations is None:  # each row had a single derivation
            rows = migrate(name, old.circuit.rows(name))
        else:
            rows = migrate(head.derivations.name, before.derivations.rows())
        if len(rows[1]):
            head.derivations.load(*rows)


def _reads_otherwise(new: CompiledProgram, old: CompiledProgram) -> bool:
    """Return True if a column of constants only turns out to be of another family of types."""
    for name, shape in new.shapes.items():
        for column in range(len(shape.nullable)):
            was, now = old.types.assumed(name, column), new.types.type_of(name, column)
            if was is not None and now is not None and was.family != now.family:
                return True
    return False


def _has_heads_of(new: CompiledProgram, old: CompiledProgram) -> bool:
    """Return True if heads store their state in the same way in both programs."""
    loops = [{frozenset(loop.widths) for loop in compiled.plan.loops} for compiled in (new, old)]
    heads = [
        compiled.circuit.heads.keys() - {auxiliary.name for auxiliary in compiled.plan.auxiliaries}
        for compiled in (new, old)
    ]
    if loops[0] != loops[1] or heads[0] != heads[1]:
        return False
    if _units(new) != _units(old):
        return False
    return all(_has_rules_of(name, new, old) for loop in new.plan.loops for name in loop.widths)


def _units(lowered: CompiledProgram) -> dict[str, int]:
    """Return the scales of the sums that heads keep."""
    return {name: grouping.scale for name, grouping in lowered.plan.groupings.items() if grouping.has_totals}


def _has_rules_of(name: str, new: CompiledProgram, old: CompiledProgram) -> bool:
    """Return True if a head has all its former rules with equal derivations, nulls aside."""
    return not _bodies(name, old) - _bodies(name, new)


def _bodies(name: str, lowered: CompiledProgram) -> Counter[tuple[str, frozenset[tuple[_Atom, int]]]]:
    """Return the atoms of a head's rules, without flags of nulls."""
    bodies: Counter[tuple[str, frozenset[tuple[_Atom, int]]]] = Counter()
    for query in lowered.plan.queries.get(name, ()):
        seeds = [path.seed for path in query.paths if not path.is_negated]
        atoms = Counter(_atom(seed.key, seed.variables, lowered) for seed in seeds)
        bodies[query.rule, frozenset(atoms.items())] += 1
    return bodies


def _atom(key: ArrangementKey, variables: Sequence[str], lowered: CompiledProgram) -> _Atom:
    arity = len(lowered.shapes[key.relation].nullable)
    bound = frozenset((column, name) for column, name in zip(key.order, variables, strict=True) if column < arity)
    conditions = [("=", column, code) for column, code in key.constants if column < arity]
    conditions += [("equal", left, right) for left, right in key.equal if left < arity]
    return key.relation, bound, frozenset([*conditions, *key.compared])
