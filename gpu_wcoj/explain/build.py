"""EXPLAIN ANALYZE: work of the last tick per level of the plan that it used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from types import MappingProxyType

from gpu_wcoj.circuit.circuit import TickProfile
from gpu_wcoj.circuit.recount import Declined, Recounted
from gpu_wcoj.circuit.recursion.plan import RANK
from gpu_wcoj.engine.replicas import Work
from gpu_wcoj.engine.state import TickReport
from gpu_wcoj.explain.figures import Counts, SeedCounts, TickTree
from gpu_wcoj.explain.tree import (
    BranchTree,
    Done,
    HeadTree,
    LevelTree,
    PathTree,
    PlanTree,
    RuleTree,
    Use,
    VariantTree,
)
from gpu_wcoj.join.meter import JoinCounts, PathCounts, StepCounts
from gpu_wcoj.join.whole import FULL_COUNT, GIVEN_UP, SAMPLED
from gpu_wcoj.kernels.protocol import MARKS, PROBES, PROPOSALS, SUM_OF_MINIMA, SURVIVORS, Int64Array

AMONG_CHANGES = "changes joined with each other"
"""Name of extra work of a path that is counted for automorphic paths; see `gpu_wcoj.join.symmetric`."""

NAMED = {SAMPLED: "samples, to decide", GIVEN_UP: "given up, as it costs more than following the change"}
"""Names of work outside the steps of full counts."""

FOLLOWED: Mapping[Declined, str] = MappingProxyType(
    {
        "tried": "counting afresh was tried by samples, and {change} followed: that was expected to cost less, or not "
        "much more",
        "given up": "counting afresh was begun and given up when it cost too much, and {change} followed",
        "overflow": "{change} was followed: counted afresh, weights might have left int64",
    }
)
"""Texts of the reasons for not using full recomputation."""

CHANGE = "the last tick's change"
HALVES = "what went with the last tick", "what came with the last tick"
"""Names of a change, and of its two halves if they were counted differently."""


def afresh_sentences(recounted: Sequence[Recounted], declined: Sequence[Declined]) -> tuple[str, ...]:
    """Return how the phases of a head's change were counted, where by full recomputation."""
    return tuple(f"{HALVES[phase.phase] if declined else CHANGE} was {phase}" for phase in recounted)


def _reason_followed(recounted: Sequence[Recounted], declined: Sequence[Declined]) -> str:
    """Return the reason for which the change, or one half of it, was not recomputed."""
    if not declined:
        return ""
    return FOLLOWED[declined[-1]].format(change=HALVES[1 - recounted[0].phase] if recounted else CHANGE)


def with_counts(tree: PlanTree, ticked: TickReport, notes: Sequence[str] = ()) -> PlanTree:
    """Return the plan with the work of a tick that used it; `notes` are additional remarks."""
    notes = [*notes, *_unmeasured(tree, ticked)]
    total = _sum(map(counts_of_work, _all_work(ticked.work)))
    heads = tuple(_with_tick(head, tree, ticked) for head in tree.heads)
    if ticked.measured is not None:
        levels = _sum_measured(_all_levels(heads))
        more = total.proposals - levels.proposals
        if more < 0:  # a recursion was aborted in the middle of a path and restarted
            notes.append(f"{-more:,} proposals are those of a recursion that was begun anew, and not in the total")
        elif more:
            notes.append(f"{more:,} proposals are in the total only: their levels were not measured")
        total = replace(
            levels, proposals=total.proposals, probes=total.probes, marks=total.marks, survivors=total.survivors
        )
    tick = TickTree(
        ticked.tick, ticked.backend, ticked.seconds, ticked.merged_rows, ticked.measured is not None, total,
        tuple(notes),
    )  # fmt: skip
    return replace(tree, heads=heads, tick=tick)


def counts_of_work(work: Sequence[int] | Int64Array) -> Counts:
    """Return the kernel counts of one step."""
    numbers = (int(work[index]) for index in (SUM_OF_MINIMA, PROPOSALS, PROBES, MARKS, SURVIVORS))
    return Counts(*numbers)


def _all_levels(heads: Iterable[HeadTree]) -> Iterable[Counts]:
    """Yield the counts of all levels."""
    for path in (
        path for head in heads for rule in head.rules for path in (*rule.paths, rule.asked, rule.afresh) if path
    ):
        for levels in (path.levels, *(variant.levels for variant in path.variants)):
            yield from (level.counts for level in levels if level.counts is not None)
        yield from (counts for _, counts in path.further)
        yield from (branch.counts for branch in path.branches if branch.counts is not None)


def _unmeasured(tree: PlanTree, ticked: TickReport) -> list[str]:
    """Return remarks on numbers that are missing, and why."""
    kinds = {head.kind for head in tree.heads}
    notes: list[str] = []
    if ticked.plan is None:
        return notes
    if ticked.measured is None:
        notes.append(
            "prefixes, bytes and times of levels were not measured in this tick; they are from the next one on"
        )
        if any(path.variants for path in tree.paths()):
            notes.append("counts of a path and of its other orders stand together at the path")
        if "recursive" in kinds:
            notes.append("counts of recursions were not told apart: they are in the total only")
    elif "grouping" in kinds:
        notes.append("aggregates have no levels: only the time of the whole is measured")
    return notes


def _with_tick(head: HeadTree, tree: PlanTree, ticked: TickReport) -> HeadTree:
    recounted, declined = ticked.recounted.get(head.name, ()), ticked.declined.get(head.name, ())
    if ticked.measured is None:
        result = _with_work(head, ticked.work, recounted)
    else:
        result = _with_profile(head, tree, ticked.measured, recounted)
    return replace(result, followed=_reason_followed(recounted, declined))


def _all_work(work: Work) -> Iterable[Int64Array]:
    return (
        counted for rules in work.values() for paths in rules.values() for steps in paths.values()
        for counted in steps.values()
    )  # fmt: skip


def _sum(counts: Iterable[Counts]) -> Counts:
    return reduce(Counts.plus, counts, Counts())


def _sum_measured(counts: Iterable[Counts]) -> Counts:
    return reduce(Counts.plus, counts, Counts(prefixes=0, rows=0, bytes=0, seconds=0.0))


# A tick with kernel counts only.


def _with_work(head: HeadTree, work: Work, recounted: Sequence[Recounted]) -> HeadTree:
    if head.kind == "recursive" or head.name not in work:
        return head
    rules = []
    for rule_index, rule in enumerate(head.rules):
        paths = work[head.name].get(rule_index, {})
        counted_paths = tuple(
            _among_changes(
                _path_with_work(path, paths.get(path.number - 1, {})),
                map(counts_of_work, paths.get(path.number - 1 + len(rule.paths), {}).values()),
            )
            for path in rule.paths
        )
        counts = {name: counts_of_work(counted) for name, counted in paths.get(FULL_COUNT, {}).items()}
        rules.append(replace(rule, paths=counted_paths, afresh=_full_count(rule, rule_index, recounted, counts)))
    return replace(head, rules=tuple(rules))


def _full_count(
    rule: RuleTree, rule_index: int, recounted: Sequence[Recounted], counts: Mapping[str, Counts], prefixes: int = 0,
    seconds: float | None = None,
) -> PathTree | None:  # fmt: skip
    """Return the full count of a rule with its work by steps.

    None if there was none, nor an attempt.
    """
    if not counts:
        return None
    levels: tuple[LevelTree, ...] = ()
    path = replace(rule.paths[0], number=0, change_of="", is_negated=False, seeds=(), where=(), held=(), then=())
    if recounted:
        path = rule.paths[recounted[-1].paths[rule_index]]
        path = replace(path, number=0, held=tuple(map(_seen_after, path.held)), then=tuple(map(_done, path.then)))
        levels = tuple(_level_afresh(level, counts) for level in path.levels)
    step_names = {level.step for level in levels}
    further = ((NAMED.get(name, name), step_counts) for name, step_counts in counts.items() if name not in step_names)
    seeds = None if seconds is None else SeedCounts(0, prefixes, seconds)
    return replace(
        path, levels=levels, variants=(), branches=(), seed_estimate=None, seed_counts=seeds if recounted else None,
        further=tuple(further), begins_as=None, counted_for=(), counted_seeing=(), counted_by=None,
    )  # fmt: skip


def _level_afresh(level: LevelTree, counts: Mapping[str, Counts]) -> LevelTree:
    uses, then = tuple(map(_seen_after, level.uses)), tuple(map(_done, level.then))
    return replace(level, uses=uses, then=then, estimate=None, at_most=None, counts=counts.get(level.step))


def _seen_after(use: Use) -> Use:
    """Return an atom as a full count after a phase of the tick sees it."""
    return replace(use, sees="after")


def _done(done: Done) -> Done:
    return done if done.use is None else replace(done, use=_seen_after(done.use))


def _path_with_work(path: PathTree, steps: Mapping[str, Int64Array]) -> PathTree:
    if not steps:
        return path
    levels = tuple(
        replace(level, counts=counts_of_work(steps[level.step])) if level.step in steps else level
        for level in path.levels
    )
    branches = tuple(
        replace(branch, counts=counts_of_work(steps[branch.name])) if branch.name in steps else branch
        for branch in path.branches
    )
    return replace(path, levels=levels, branches=branches)


def _among_changes(path: PathTree, counts: Iterable[Counts]) -> PathTree:
    """Return a path with the work of joining changes with each other, if there was any."""
    all_counts = list(counts)
    return (
        replace(path, further=(*path.further, (AMONG_CHANGES, reduce(Counts.plus, all_counts)))) if all_counts else path
    )


# A tick that was measured.


def _with_profile(head: HeadTree, tree: PlanTree, measured: TickProfile, recounted: Sequence[Recounted]) -> HeadTree:
    """Return a head with the measurements of its joins.

    Those of a recursion are matched by rule text.
    """
    head = replace(head, seconds=measured.seconds.get(head.name))
    if head.kind != "recursive":
        joins = measured.joins.get(head.name, ())
        rules = []
        for rule_index, (rule, join) in enumerate(zip(head.rules, joins, strict=False)):
            full_count = join.paths.get((FULL_COUNT, 0), PathCounts(0, 0, 0.0, {}))
            counts = {name: _counts(step) for name, step in full_count.steps.items()}
            afresh = _full_count(rule, rule_index, recounted, counts, full_count.prefixes, full_count.seconds)
            rules.append(replace(rule, paths=_with_paths(rule.paths, [join]), afresh=afresh))
        return replace(head, rules=(*rules, *head.rules[len(rules) :]))
    together = [other_head.name for other_head in tree.heads if other_head.stratum == head.stratum]
    of_loop = [join for name in together for join in measured.joins.get(name, ())]
    texts = [rule.rule for rule in head.rules]
    return replace(
        head,
        rules=tuple(
            # The first of several rules with the same text shows the work of all of them.
            _recursive(rule, of_loop if texts.index(rule.rule) == rule_index else ())
            for rule_index, rule in enumerate(head.rules)
        ),
    )


def _recursive(rule: RuleTree, joins: Sequence[JoinCounts]) -> RuleTree:
    rule_joins = [join for join in joins if join.query.rule == rule.rule]
    asking = [join for join in rule_joins if join.query.paths[0].seed.key.relation.endswith("#asked")]
    following = [join for join in rule_joins if join not in asking]
    asked = None if rule.asked is None else _with_paths((replace(rule.asked, number=1),), asking)[0]
    return replace(
        rule,
        paths=_with_paths(rule.paths, following),
        asked=None if asked is None else replace(asked, number=0),
    )


def _with_paths(paths: Sequence[PathTree], joins: Sequence[JoinCounts]) -> tuple[PathTree, ...]:
    result = []
    for path in paths:
        pair_index = path.number - 1 + len(paths)
        runs = (run for join in joins for (path_index, _), run in join.paths.items() if path_index == pair_index)
        counted = _with_path(path, [join.paths for join in joins])
        result.append(_among_changes(counted, (_counts(step) for run in runs for step in run.steps.values())))
    return tuple(result)


def _with_path(path: PathTree, counted: Sequence[Mapping[tuple[int, int], PathCounts]]) -> PathTree:
    """Return a path with the work of all joins on it."""
    runs = [joins_by_path[path.number - 1, 0] for joins_by_path in counted if (path.number - 1, 0) in joins_by_path]
    variants = tuple(
        _with_variant(
            variant,
            [
                joins_by_path[path.number - 1, variant_index]
                for joins_by_path in counted
                if (path.number - 1, variant_index) in joins_by_path
            ],
        )
        for variant_index, variant in enumerate(path.variants, 1)
    )
    path = replace(path, variants=variants)
    if not runs:
        return path
    step_names = {*(level.step for level in path.levels), *(branch.name for branch in path.branches)}
    further: dict[str, list[Counts]] = {}
    for name, step in ((name, step) for run in runs for name, step in run.steps.items()):
        if name not in step_names:
            description = "ranks" if name.startswith(RANK) else f"values of {name} that are new to a group of rows"
            further.setdefault(description, []).append(_counts(step))
    levels, prefix = _with_levels(path.levels, runs), path.begins_as
    has_begun = _seeds(runs).prefixes > 0 or not any(level.counts and level.counts.prefixes for level in levels)
    if prefix is not None and not has_begun:
        prefix = replace(prefix, was_taken=True)
        levels = tuple(
            replace(level, counts=None)
            if level.variable in prefix.binds and level.counts == _sum_measured(())
            else level
            for level in levels
        )
    return replace(
        path,
        levels=levels,
        branches=tuple(_with_branch(branch, runs) for branch in path.branches),
        seed_counts=None if prefix is not None and prefix.was_taken else _seeds(runs),
        begins_as=prefix,
        further=tuple((name, _sum_measured(counts)) for name, counts in further.items()),
    )


def _with_variant(variant: VariantTree, runs: Sequence[PathCounts]) -> VariantTree:
    if not runs:
        return variant
    return replace(variant, levels=_with_levels(variant.levels, runs), seed_counts=_seeds(runs))


def _seeds(runs: Sequence[PathCounts]) -> SeedCounts:
    return SeedCounts(
        sum(run.changes for run in runs), sum(run.prefixes for run in runs), sum(run.seconds for run in runs)
    )


def _with_levels(levels: Sequence[LevelTree], runs: Sequence[PathCounts]) -> tuple[LevelTree, ...]:
    return tuple(
        replace(level, counts=_sum_measured(_counts(run.steps.get(level.step, StepCounts())) for run in runs))
        for level in levels
    )


def _with_branch(branch: BranchTree, runs: Sequence[PathCounts]) -> BranchTree:
    branch_counts = [_counts(run.steps[branch.name]) for run in runs if branch.name in run.steps]
    return replace(branch, counts=_sum_measured(branch_counts)) if branch_counts else branch


def _counts(step: StepCounts) -> Counts:
    return replace(
        counts_of_work(step.work), prefixes=step.prefixes, rows=step.rows, bytes=step.nbytes, seconds=step.seconds
    )
