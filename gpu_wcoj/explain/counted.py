"""What the last tick did, put to the levels of the plan that it went by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from types import MappingProxyType

from gpu_wcoj.circuit.circuit import Measured
from gpu_wcoj.circuit.recount import Declined, Recounted
from gpu_wcoj.circuit.recursion.rules import RANK
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
from gpu_wcoj.join.whole import GIVEN_UP, SAMPLED, WHOLE
from gpu_wcoj.kernels.protocol import MARKS, PROBES, PROPOSALS, SUM_OF_MINIMA, SURVIVORS, Int64Array
from gpu_wcoj.routing.costs import Work
from gpu_wcoj.tick import TickReport

AMONG_CHANGES = "changes joined with each other"
"""What is called so of a path that is counted for others; see `gpu_wcoj.join.symmetric`."""

NAMED = {SAMPLED: "samples, to decide", GIVEN_UP: "given up, as it costs more than following the change"}
"""What was done beside the steps of whole counts."""

FOLLOWED: Mapping[Declined, str] = MappingProxyType(
    {
        "tried": "counting afresh was tried by samples, and {change} followed: that was expected to cost less, or not "
        "much more",
        "given up": "counting afresh was begun and given up when it cost too much, and {change} followed",
        "overflow": "{change} was followed: counted afresh, weights might have left int64",
    }
)
"""Why a change was followed though counting afresh was thought of."""

CHANGE = "the last tick's change"
HALVES = "what went with the last tick", "what came with the last tick"
"""What is said of a change, and of its halves where they were not counted alike."""


def afresh_sentences(recounted: Sequence[Recounted], declined: Sequence[Declined]) -> tuple[str, ...]:
    """How a head's change was counted in the last tick, where it was not followed; in halves, if one of them was."""
    return tuple(f"{HALVES[one.phase] if declined else CHANGE} was {one}" for one in recounted)


def _followed(recounted: Sequence[Recounted], declined: Sequence[Declined]) -> str:
    """Why it was followed though counting afresh was thought of, or the half of it that was."""
    if not declined:
        return ""
    return FOLLOWED[declined[-1]].format(change=HALVES[1 - recounted[0].phase] if recounted else CHANGE)


def with_counts(tree: PlanTree, ticked: TickReport, notes: Sequence[str] = ()) -> PlanTree:
    """The plan with what a tick that went by it did; `notes` say more about the tick."""
    notes = [*notes, *_unmeasured(tree, ticked)]
    total = _sum(map(counts_of_work, _all_work(ticked.work)))
    heads = tuple(_ticked(head, tree, ticked) for head in tree.heads)
    if ticked.measured is not None:
        levels = _sum_measured(_all_levels(heads))
        more = total.proposals - levels.proposals
        if more < 0:  # a recursion was given up in the middle of a path, and begun anew
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
    """What the kernels counted of one step."""
    numbers = (int(work[at]) for at in (SUM_OF_MINIMA, PROPOSALS, PROBES, MARKS, SURVIVORS))
    return Counts(*numbers)


def _all_levels(heads: Iterable[HeadTree]) -> Iterable[Counts]:
    """What all levels did."""
    for path in (
        path for head in heads for rule in head.rules for path in (*rule.paths, rule.asked, rule.afresh) if path
    ):
        for levels in (path.levels, *(variant.levels for variant in path.variants)):
            yield from (level.counts for level in levels if level.counts is not None)
        yield from (counts for _, counts in path.further)
        yield from (branch.counts for branch in path.branches if branch.counts is not None)


def _unmeasured(tree: PlanTree, ticked: TickReport) -> list[str]:
    """What no number is there for, and why."""
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


def _ticked(head: HeadTree, tree: PlanTree, ticked: TickReport) -> HeadTree:
    recounted, declined = ticked.recounted.get(head.name, ()), ticked.declined.get(head.name, ())
    if ticked.measured is None:
        found = _worked(head, ticked.work, recounted)
    else:
        found = _measured(head, tree, ticked.measured, recounted)
    return replace(found, followed=_followed(recounted, declined))


def _all_work(work: Work) -> Iterable[Int64Array]:
    return (
        counted for rules in work.values() for paths in rules.values() for steps in paths.values()
        for counted in steps.values()
    )  # fmt: skip


def _sum(counts: Iterable[Counts]) -> Counts:
    return reduce(Counts.plus, counts, Counts())


def _sum_measured(counts: Iterable[Counts]) -> Counts:
    return reduce(Counts.plus, counts, Counts(prefixes=0, rows=0, bytes=0, seconds=0.0))


# A tick of which only the kernels' counts are there.


def _worked(head: HeadTree, work: Work, recounted: Sequence[Recounted]) -> HeadTree:
    if head.kind == "recursive" or head.name not in work:
        return head
    rules = []
    for at, rule in enumerate(head.rules):
        paths = work[head.name].get(at, {})
        own = tuple(
            _among_changes(
                _worked_path(path, paths.get(path.number - 1, {})),
                map(counts_of_work, paths.get(path.number - 1 + len(rule.paths), {}).values()),
            )
            for path in rule.paths
        )
        counts = {name: counts_of_work(counted) for name, counted in paths.get(WHOLE, {}).items()}
        rules.append(replace(rule, paths=own, afresh=_afresh(rule, at, recounted, counts)))
    return replace(head, rules=tuple(rules))


def _afresh(
    rule: RuleTree, number: int, recounted: Sequence[Recounted], counts: Mapping[str, Counts], prefixes: int = 0,
    seconds: float | None = None,
) -> PathTree | None:  # fmt: skip
    """What whole counts of a rule did, by steps; None if there were none and none was thought of."""
    if not counts:
        return None
    levels: tuple[LevelTree, ...] = ()
    path = replace(rule.paths[0], number=0, change_of="", is_negated=False, seeds=(), where=(), held=(), then=())
    if recounted:
        path = rule.paths[recounted[-1].paths[number]]
        path = replace(path, number=0, held=tuple(map(_whole, path.held)), then=tuple(map(_done, path.then)))
        levels = tuple(_level_afresh(level, counts) for level in path.levels)
    known = {level.step for level in levels}
    further = ((NAMED.get(name, name), one) for name, one in counts.items() if name not in known)
    seeds = None if seconds is None else SeedCounts(0, prefixes, seconds)
    return replace(
        path, levels=levels, variants=(), branches=(), seed_estimate=None, seed_counts=seeds if recounted else None,
        further=tuple(further), begins_as=None, counted_for=(), counted_seeing=(), counted_by=None,
    )  # fmt: skip


def _level_afresh(level: LevelTree, counts: Mapping[str, Counts]) -> LevelTree:
    uses, then = tuple(map(_whole, level.uses)), tuple(map(_done, level.then))
    return replace(level, uses=uses, then=then, estimate=None, at_most=None, counts=counts.get(level.step))


def _whole(use: Use) -> Use:
    """An atom as a whole count after a phase of the tick sees it."""
    return replace(use, sees="after")


def _done(done: Done) -> Done:
    return done if done.use is None else replace(done, use=_whole(done.use))


def _worked_path(path: PathTree, steps: Mapping[str, Int64Array]) -> PathTree:
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
    """A path with what was done to join changes with each other, where it was counted for others."""
    found = list(counts)
    return replace(path, further=(*path.further, (AMONG_CHANGES, reduce(Counts.plus, found)))) if found else path


# A tick that was measured.


def _measured(head: HeadTree, tree: PlanTree, measured: Measured, recounted: Sequence[Recounted]) -> HeadTree:
    """A head with what its joins did; those of a recursion stand at its first head, and tell by their rules' text."""
    head = replace(head, seconds=measured.seconds.get(head.name))
    if head.kind != "recursive":
        joins = measured.joins.get(head.name, ())
        rules = []
        for at, (rule, join) in enumerate(zip(head.rules, joins, strict=False)):
            whole = join.paths.get((WHOLE, 0), PathCounts(0, 0, 0.0, {}))
            counts = {name: _counts(step) for name, step in whole.steps.items()}
            afresh = _afresh(rule, at, recounted, counts, whole.prefixes, whole.seconds)
            rules.append(replace(rule, paths=_with_paths(rule.paths, [join]), afresh=afresh))
        return replace(head, rules=(*rules, *head.rules[len(rules) :]))
    together = [other.name for other in tree.heads if other.stratum == head.stratum]
    of_loop = [join for name in together for join in measured.joins.get(name, ())]
    shown = [rule.rule for rule in head.rules]
    return replace(
        head,
        rules=tuple(
            # Of rules that are the same text, the first shows what all of them did.
            _recursive(rule, of_loop if shown.index(rule.rule) == at else ())
            for at, rule in enumerate(head.rules)
        ),
    )


def _recursive(rule: RuleTree, joins: Sequence[JoinCounts]) -> RuleTree:
    own = [join for join in joins if join.query.rule == rule.rule]
    asking = [join for join in own if join.query.paths[0].seed.key.relation.endswith("#asked")]
    following = [join for join in own if join not in asking]
    asked = None if rule.asked is None else _with_paths((replace(rule.asked, number=1),), asking)[0]
    return replace(
        rule,
        paths=_with_paths(rule.paths, following),
        asked=None if asked is None else replace(asked, number=0),
    )


def _with_paths(paths: Sequence[PathTree], joins: Sequence[JoinCounts]) -> tuple[PathTree, ...]:
    found = []
    for path in paths:
        number = path.number - 1 + len(paths)
        runs = (run for join in joins for (own, _), run in join.paths.items() if own == number)
        counted = _with_path(path, [join.paths for join in joins])
        found.append(_among_changes(counted, (_counts(step) for run in runs for step in run.steps.values())))
    return tuple(found)


def _with_path(path: PathTree, counted: Sequence[Mapping[tuple[int, int], PathCounts]]) -> PathTree:
    """A path with what all of these joins did on it."""
    runs = [own[path.number - 1, 0] for own in counted if (path.number - 1, 0) in own]
    variants = tuple(
        _with_variant(variant, [own[path.number - 1, at] for own in counted if (path.number - 1, at) in own])
        for at, variant in enumerate(path.variants, 1)
    )
    path = replace(path, variants=variants)
    if not runs:
        return path
    known = {*(level.step for level in path.levels), *(branch.name for branch in path.branches)}
    further: dict[str, list[Counts]] = {}
    for name, step in ((name, step) for run in runs for name, step in run.steps.items()):
        if name not in known:
            shown = "ranks" if name.startswith(RANK) else f"values of {name} that are new to a group of rows"
            further.setdefault(shown, []).append(_counts(step))
    levels, begun = _with_levels(path.levels, runs), path.begins_as
    has_begun = _seeds(runs).prefixes > 0 or not any(one.counts and one.counts.prefixes for one in levels)
    if begun is not None and not has_begun:
        begun = replace(begun, was_taken=True)
        levels = tuple(
            replace(one, counts=None) if one.variable in begun.binds and one.counts == _sum_measured(()) else one
            for one in levels
        )
    return replace(
        path,
        levels=levels,
        branches=tuple(_with_branch(branch, runs) for branch in path.branches),
        seed_counts=None if begun is not None and begun.was_taken else _seeds(runs),
        begins_as=begun,
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
    found = [_counts(run.steps[branch.name]) for run in runs if branch.name in run.steps]
    return replace(branch, counts=_sum_measured(found)) if found else branch


def _counts(step: StepCounts) -> Counts:
    return replace(
        counts_of_work(step.work), prefixes=step.prefixes, rows=step.rows, bytes=step.nbytes, seconds=step.seconds
    )
