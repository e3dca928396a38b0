"""The last step of a count: sums of weights over ranges, without listing values if possible."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gpu_wcoj.join.checks import presence_mask
from gpu_wcoj.join.conditions import find_bounds
from gpu_wcoj.join.memory import run_within_memory
from gpu_wcoj.join.plan import Absent, AtomUse, Step
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.kernels.protocol import N_WORK, SURVIVORS, Int64Array
from gpu_wcoj.zset.arrays import stacked

if TYPE_CHECKING:
    from gpu_wcoj.join.generic import GenericJoin

MIN_RANGE_PREFIXES = 32
"""Prefixes below which values are proposed one by one: that is one kernel call."""

Counted = tuple[Int64Array, int | None]
"""Counts, and a bound of their magnitude, if there is one."""


def can_count_last_step(step: Step, n: int) -> bool:
    """Return whether `count_last_step` has a result for `n` prefixes."""
    return step.is_plain or _subtracted_atom(step, n) is not None


def _subtracted_atom(step: Step, n: int) -> Absent | None:
    """Return the negated atom to subtract from the values of a last step, its only check.

    Its arrangement has to end with the step's variable, and to begin with other variables; otherwise None.
    """
    if n < MIN_RANGE_PREFIXES or len(step.checks) != 1 or any(condition.textual for condition in step.conditions):
        return None
    (absent,) = step.checks
    if (
        not isinstance(absent, Absent)
        or len(absent.terms) < 2
        or not all(isinstance(term, str) for term in absent.terms)
    ):
        return None
    *prefix, last_term = absent.terms
    return absent if last_term == step.variable and last_term not in prefix else None


def count_last_step(prefixes: Prefixes, step: Step, join: GenericJoin) -> Counted | None:
    """Return the counts of a last step as `GenericJoin.count_bounded` does.

    The result is None if its values have to be listed. They have to if the sum of their weights may leave int64:
    kernels add modulo 2^64.
    """
    if join.weighted and join.max_weight is not None and join.max_weight > 1:
        n_values = min(sum(map(len, join.batches[atom])) for atom in step.atoms)
        if n_values * join.max_weight >= 1 << 63:
            return None
    if not step.is_plain:
        absent = _subtracted_atom(step, len(prefixes))
        return None if absent is None else _count_without(prefixes, step, absent, join)
    if len(prefixes) >= MIN_RANGE_PREFIXES and len(step.atoms) == 1 and not step.is_lookup:
        (atom,) = step.atoms
        ends = dict(prefixes.layout).get(atom, 0) + 1 == len(join.uses[atom].variables)
        measures = join.backend.kernels.measures_ranges and all(batch.weights is None for batch in join.batches[atom])
        if ends and not measures and all(condition.op == "!=" for condition in step.conditions):
            return _sum_ranges(prefixes, step, join), None
    return _count_proposed(prefixes, step, join)


def _count_proposed(prefixes: Prefixes, step: Step, join: GenericJoin) -> Counted:
    """Return the sums of the weights of the values that all atoms hold."""
    backend = join.backend
    extension = join.extension(prefixes, step)
    bounds = find_bounds(step, prefixes.values, len(prefixes), backend)
    n = len(prefixes)
    work = join.work_of(step)
    if step.is_lookup:
        work = backend.xp.zeros(N_WORK, np.int64)

    def run(begin: int, end: int) -> Int64Array:
        sums = backend.kernels.count_common(extension.kernel, prefixes.positions, begin, end, *bounds, work)
        if step.is_lookup:
            join.record_searches(step, end - begin, work)
            work[:] = 0
        return sums

    if backend.device is None:
        return run(0, n), None

    def in_blocks(rows: int) -> Int64Array:
        blocks = [run(begin, min(n, begin + rows)) for begin in range(0, n, rows)]
        counts: Int64Array = blocks[0] if len(blocks) == 1 else backend.xp.concatenate(blocks)
        return counts

    depth = dict(prefixes.layout)
    values = min(sum(len(batch.values[depth.get(atom, 0)]) for batch in join.batches[atom]) for atom in step.atoms)
    bound = None if join.max_weight is None else values * join.max_weight
    return run_within_memory(backend, n, in_blocks, f"counting {step.variable}"), bound


def _sum_ranges(prefixes: Prefixes, step: Step, join: GenericJoin) -> Int64Array:
    """Return the sum of the weights of each prefix's range, less those of excluded values.

    Sums are taken modulo 2^64.
    """
    xp, n = join.backend.xp, len(prefixes)
    total: Int64Array = xp.zeros(n, np.int64)
    n_values: Int64Array = xp.zeros(n, np.int64)
    (atom,) = step.atoms
    offset = 0
    for layout_atom, _ in prefixes.layout:
        if layout_atom == atom:
            break
        offset += len(join.batches[layout_atom])
    reached = atom in dict(prefixes.layout)
    for row, batch in enumerate(join.batches[atom], offset):
        if not reached:
            total += batch.weight_before[-1]
            n_values += len(batch)
            continue
        is_present, node = prefixes.positions[row] >= 0, xp.maximum(prefixes.positions[row], 0)
        begin, end = batch.offsets[-1][node], batch.offsets[-1][node + 1]
        sums = end - begin if batch.weights is None else batch.weight_before[end] - batch.weight_before[begin]
        total += xp.where(is_present, sums, 0)
        if join.weighted:
            n_values += xp.where(is_present, end - begin, 0)
    work = join.work_of(step)
    work[SURVIVORS] += (n_values if join.weighted else total).sum()  # sums of weights may cancel, or leave int64
    if step.conditions:
        _, _, excluded = find_bounds(step, prefixes.values, n, join.backend)
        extension = join.extension(prefixes, step)
        for row_index in range(excluded.shape[0]):
            value, before = excluded[row_index], xp.ascontiguousarray(excluded[:row_index])
            search_work = xp.zeros(N_WORK, np.int64)
            total -= join.backend.kernels.count_common(
                extension.kernel, prefixes.positions, 0, n, value, value, before, search_work
            )
            join.record_searches(step, n, search_work)
    return total


def _count_without(prefixes: Prefixes, step: Step, absent: Absent, join: GenericJoin) -> Counted | None:
    """Count all values of the step, less those that the negated atom holds as well.

    For the latter the negated atom's arrangement takes part as one more atom. Negation depends on the presence of a row
    and not on its weight, so a virtual level, which is none of its variables, is added below.
    """
    prefix = absent.terms[:-1]
    plain = replace(step, checks=())
    counts = count_last_step(prefixes, plain, join)
    if counts is None:
        return None
    total, bound = counts
    negated_atom, batches = absent.use.atom, join.negated[absent.use.atom]
    if not batches:
        return total, bound
    backend, xp = join.backend, join.backend.xp
    columns = stacked(backend, [prefixes.values[name] for name in prefix if isinstance(name, str)])
    records = [batch.records[: len(prefix)] for batch in batches]
    located = backend.kernels.locate(records, [range(len(prefix))] * len(batches), columns)
    with_it = replace(prefixes, layout=(*prefixes.layout, (negated_atom, len(prefix))))
    with_it = replace(with_it, positions=xp.ascontiguousarray(xp.concatenate([prefixes.positions, located])))
    also = replace(
        join, uses={**join.uses, negated_atom: AtomUse(negated_atom, absent.use.key, (*absent.use.variables, ""))},
        batches={**join.batches, negated_atom: batches}, meter=None,
    )  # fmt: skip
    common = replace(plain, atoms=(*step.atoms, negated_atom))
    if not any(batch.n_negative for batch in batches):
        return total - _count_proposed(with_it, common, also)[0], bound
    taken: Int64Array = xp.zeros(len(prefixes), np.int64)
    for parent, piece in also.extend(with_it, common):
        is_present = presence_mask(absent, [piece.values[name] for name in absent.terms if isinstance(name, str)], join)
        weights = xp.where(is_present, 1 if piece.weights is None else piece.weights, 0)
        taken = join.add_by_parent(taken, parent, weights, 0)
    return total - taken, bound
