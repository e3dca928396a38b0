"""EXPLAIN ANALYZE: work of the last tick per level of the plan that it used."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from types import MappingProxyType
from typing import Any, Literal

from gpu_wcoj.backend import described
from gpu_wcoj.circuit.circuit import Circuit, TickProfile
from gpu_wcoj.circuit.head import PositiveHead
from gpu_wcoj.circuit.recount import Declined, Recounted
from gpu_wcoj.circuit.recursion.plan import RANK, LoopPlan
from gpu_wcoj.data.rows import Row
from gpu_wcoj.engine.replicas import Work
from gpu_wcoj.engine.state import TickReport
from gpu_wcoj.explain.tree import (
    Arranged,
    BegunTree,
    BranchTree,
    Counts,
    Done,
    Estimate,
    HeadTree,
    LevelTree,
    PathTree,
    PlanTree,
    RuleTree,
    SeedCounts,
    TickTree,
    Use,
    VariantTree,
    Verb,
)
from gpu_wcoj.functions import Calculation
from gpu_wcoj.join.delta import MIN_CHANGED_ROWS, MIN_PAIRED_ROWS
from gpu_wcoj.join.full_join import FULL_COUNT, GIVEN_UP, LOAD, SAMPLED
from gpu_wcoj.join.plan import Absent, AtomUse, Check, Continuation, DeltaPath, DeltaQuery, Step, branch_name
from gpu_wcoj.join.prefixes import JoinCounts, PathCounts, StepCounts
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.kernels.protocol import MARKS, PROBES, PROPOSALS, SUM_OF_MINIMA, SURVIVORS, Int64Array
from gpu_wcoj.planner.body import Shape
from gpu_wcoj.planner.catalog import Catalog
from gpu_wcoj.planner.cost import Size, bound
from gpu_wcoj.planner.ir import Expected
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.planner.statistics import Degrees, measure
from gpu_wcoj.trace.arrangement import ArrangementKey

AMONG_CHANGES = "changes joined with each other"
"""Name of extra work of a path that is counted for automorphic paths; see `gpu_wcoj.join.delta`."""

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
        ticked.tick, described(ticked.backend, ticked.kernels), ticked.seconds, ticked.merged_rows,
        ticked.measured is not None, total, tuple(notes),
    )  # fmt: skip
    return replace(tree, heads=heads, tick=tick)


def counts_of_work(work: Sequence[int] | Int64Array) -> Counts:
    """Return the kernel counts of one step."""
    numbers = (int(work[index]) for index in (SUM_OF_MINIMA, PROPOSALS, PROBES, MARKS, SURVIVORS))
    return Counts(*numbers)


def _all_levels(heads: Iterable[HeadTree]) -> Iterable[Counts]:
    """Yield the counts of all levels."""
    for path in (
        path
        for head in heads
        for rule in head.rules
        for path in (*rule.paths, rule.asked, rule.afresh, rule.load)
        if path
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
        load = _path_with_work(rule.load, paths.get(LOAD, {})) if rule.load else None
        afresh = _full_count(rule, rule_index, recounted, counts)
        rules.append(replace(rule, paths=counted_paths, afresh=afresh, load=load))
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
        index = recounted[-1].paths[rule_index]
        path = rule.load if index == LOAD and rule.load is not None else rule.paths[index]
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
    further = tuple((NAMED[name], counts_of_work(counted)) for name, counted in steps.items() if name in NAMED)
    return replace(path, levels=levels, branches=branches, further=(*path.further, *further))


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
            load = _with_path(rule.load, [join.paths]) if rule.load else None
            rules.append(replace(rule, paths=_with_paths(rule.paths, [join]), afresh=afresh, load=load))
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
            description = NAMED.get(name, description)
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


# Build the plan tree that all formats are written from.


ColumnName = Callable[[str, int], str]
"""Function from a relation and a stored column to its name."""
IS_NULL = " is null"
"""Suffix of the name of a null-flag column."""


def build_tree(
    plan: Plan, name_of: ColumnName, backend: str, semantics: Literal["set", "bag"], route: str | None = None
) -> PlanTree:
    """Return the plan as a tree; `route` says which ticks run where, if there is a choice."""
    words = words_of(plan, name_of)
    loop_of = {name: loop for loop in plan.loops for name in loop.widths}
    heads: list[HeadTree] = []
    strata: dict[str, int] = {}
    for head in plan.order:
        loop = loop_of.get(head)
        first = head if loop is None else next(iter(loop.widths))
        stratum = strata.setdefault(first, len(strata))
        heads.append(words.head(plan, head, stratum, loop))
    return PlanTree(
        backend, semantics, route, tuple(heads), tuple(words.arranged(_used(plan, loop_of))),
        strategy=plan.strategy, candidates=plan.candidates,
    )  # fmt: skip


def words_of(plan: Plan, name_of: ColumnName) -> Words:
    """Return the naming of a plan's parts, given the names of stored columns."""
    return Words(_with_ranks(_with_auxiliaries(name_of, plan), plan.loops))


def _with_ranks(name_of: ColumnName, loops: Iterable[LoopPlan]) -> ColumnName:
    """Extend column names to the rank columns of loops."""
    widths = {name: width for loop in loops for name, width in loop.widths.items()}
    return lambda relation, column: "rank" if column == widths.get(relation) else name_of(relation, column)


def _with_auxiliaries(name_of: ColumnName, plan: Plan) -> ColumnName:
    """Extend column names to auxiliary relations, whose columns get the names of their origins.

    If both sides have the same column of the same relation, the second name gets a prime.
    """
    called: dict[str, list[str]] = {}

    def name(relation: str, column: int) -> str:
        return called[relation][column] if relation in called else name_of(relation, column)

    for auxiliary in plan.auxiliaries:  # auxiliary relations are listed before their readers
        names: list[str] = []
        for source, column in auxiliary.columns:
            column_name = name(source, column)
            while column_name in names:
                stem = column_name.removesuffix(IS_NULL)
                column_name = f"{stem}'{column_name.removeprefix(stem)}"
            names.append(column_name)
        called[auxiliary.name] = names
    return name


def _used(plan: Plan, loop_of: Mapping[str, LoopPlan]) -> list[ArrangementKey]:
    """Return the arrangements that rules use, once per using rule."""
    non_recursive = (queries for name, queries in plan.queries.items() if name not in loop_of)
    used = [key for queries in non_recursive for query in queries for key in query.keys]
    used += [key for loop in plan.loops for key in loop.keys]
    read = {key.relation for key in used}
    unread = (name.removesuffix("#unread") for name in plan.order if name.endswith("#unread"))
    return used + [ArrangementKey(name, tuple(range(plan.shapes[name].width))) for name in unread if name not in read]


def _is_read(plan: Plan, name: str) -> bool:
    """Return whether rules read a head, so that its rows are stored."""
    sources = [grouping.source.relation for grouping in plan.groupings.values()]
    sources += [first.source.relation for first in plan.first_rows.values()]
    sources += [groups.source.relation for groups in plan.computed_groups.values()]
    read = (key.relation for queries in plan.queries.values() for query in queries for key in query.keys)
    return name in (*sources, *read, *(key.relation for loop in plan.loops for key in loop.keys))


@dataclass(frozen=True)
class Words:
    """Texts for the parts of a plan.

    Attributes
    ----------
    name_of
        Names of columns.
    """

    name_of: ColumnName

    def head(self, plan: Plan, name: str, stratum: int, loop: LoopPlan | None) -> HeadTree:
        """Return the tree of a head with its rules."""
        if loop is not None:
            other_heads = tuple(head_name for head_name in loop.widths if head_name != name)
            is_best = name in loop.best
            stored = "the values that have been a group's best" if is_best else "its rows"
            together = f", evaluated with {', '.join(other_heads)}" if other_heads else ""
            obstacle = loop.reason_against_walks
            way = f"never row at a time: {obstacle}" if obstacle else "iterations with few rows run row at a time"
            note = f"recursive{together}: {stored} are kept with their ranks; {way}"
            rules = []
            head_rules = [rule for rule in loop.rules if rule.head == name]
            for rule, rule_estimates in zip(head_rules, _estimates(plan, name, len(head_rules)), strict=True):
                derivations = self.derivation_path(rule.inverse_ranked.paths[0], name)
                paths = self.rule(rule.query, rule_estimates).paths
                rules.append(RuleTree(rule.query.rule, paths, derivations, "groups" if is_best else "rows"))
            return HeadTree(name, stratum, "recursive", note, other_heads, None, False, tuple(rules))
        if name in plan.groupings:
            grouping = plan.groupings[name]
            reads = self.arrangement(grouping.source)
            note = f"{grouping.op} by group: reads {reads}"
            return HeadTree(name, stratum, "grouping", note, (), reads, False, ())
        if name in plan.first_rows:
            first = plan.first_rows[name]
            reads = self.arrangement(first.source)
            note = (
                f"first rows: reads {reads}, and keeps {first.end:,} rows of a group and {first.reserve:,} in reserve"
            )
            return HeadTree(name, stratum, "first rows", note, (), reads, False, ())
        if name in plan.computed_groups:
            groups = plan.computed_groups[name]
            reads = self.arrangement(groups.source)
            parts = "changed groups" if groups.n_group else "all rows, as there is one group,"
            note = f"computed by DuckDB: reads {reads}, {parts} anew in each tick: {groups.bound.functions}"
            return HeadTree(name, stratum, "computed groups", note, (), reads, False, ())
        expected = _estimates(plan, name, len(plan.queries[name]))
        queries = tuple(
            self.rule(query, query_estimates)
            for query, query_estimates in zip(plan.queries[name], expected, strict=True)
        )
        is_counted = name in plan.counted
        if not is_counted and not _is_read(plan, name):
            queries = tuple(map(self.with_images, queries, plan.queries[name]))
        if name in plan.aliases:
            verb = "selects from" if plan.aliases[name].compared else "renames"
            note = f"only {verb} {plan.aliases[name].relation}: rules read that instead"
            return HeadTree(name, stratum, "alias", note, (), None, is_counted, queries)
        note = "derivations are counted: its rows are distinct" if is_counted else ""
        auxiliary = next((candidate for candidate in plan.auxiliaries if candidate.name == name), None)
        if auxiliary is not None:
            replaced = " and ".join(dict.fromkeys(auxiliary.relations))
            note = f"kept for the rules, which read it in place of {replaced}"
        if not queries:
            relation, is_unread = name.partition("#")[::2]
            note = "its rules never hold, or ask for a null that has not turned up"
            note = f"lets {relation} take rows, which no rule reads that can hold" if is_unread == "unread" else note
        return HeadTree(name, stratum, "rules", note, (), None, is_counted, queries)

    def rule(self, query: DeltaQuery, expected: Sequence[Sequence[Expected]] = ()) -> RuleTree:
        """Return the tree of a rule with its delta paths and their estimates, if known."""
        path_estimates = expected or ((),) * len(query.paths)
        paths = []
        prefixes = query.continuations or (None,) * len(query.paths)
        for path_number, (path, way, estimates) in enumerate(
            zip(query.paths, prefixes, path_estimates, strict=True), 1
        ):
            paths.append(
                replace(self.path(path, path_number, estimates), begins_as=None if way is None else _common_prefix(way))
            )
        load = None if query.load is None else self.path(query.load.paths[0], LOAD + 1)
        return RuleTree(query.rule, tuple(paths), load=load)

    def with_images(self, rule: RuleTree, query: DeltaQuery) -> RuleTree:
        """Return the rule of a head that is only counted, with its automorphic paths marked."""
        symmetry, paths = query.symmetry, list(rule.paths)
        for orbit_index, orbit in enumerate(() if symmetry is None else symmetry.orbits):
            assert symmetry is not None
            counted_index, counted_path = (
                symmetry.representatives[orbit_index],
                query.paths[symmetry.representatives[orbit_index]],
            )
            min_rows = MIN_PAIRED_ROWS if symmetry.order == 2 else 1
            for path_index in orbit if len(orbit) > 1 else ():
                paths[path_index] = replace(paths[path_index], counted_by=counted_index + 1, counted_from=min_rows)
            if len(orbit) > 1:
                then = replace(counted_path, after=symmetry.after(orbit_index))
                seen = tuple(
                    self.use(use, then)
                    for use in counted_path.other_atoms
                    if counted_path.sees_after(use) != then.sees_after(use)
                )
                images = tuple(path_index + 1 for path_index in orbit)
                paths[counted_index] = replace(
                    paths[counted_index], counted_by=None, counted_for=images, counted_seeing=seen
                )
        return replace(rule, paths=tuple(paths))

    def path(self, path: DeltaPath, path_number: int, expected: Sequence[Expected] = ()) -> PathTree:
        """Return the tree of a delta path; `expected` has its seeds, and then every step."""
        seeds, steps = (expected[0], expected[1:]) if expected else (None, ())
        bound = set(path.seed.variables)
        checked_uses = tuple(self.use(use, path) for use in path.other_atoms if set(use.variables) <= bound)
        return PathTree(
            path_number,
            self.atom(path.seed),
            path.is_negated,
            tuple(self.arrangement(use.key) for use in path.seeds) if path_number else (),
            (*_ordered(path.seed), *map(str, path.seed_conditions)),
            checked_uses,
            tuple(self.done(check, path) for check in path.seed_checks),
            self.levels(path, steps),
            tuple(VariantTree(self.levels(variant)) for variant in path.variants),
            strategy_of(path),
            branches=tuple(self.branches(path)),
            seed_estimate=None if seeds is None else Estimate(seeds.proposed, seeds.rows),
        )

    def derivation_path(self, path: DeltaPath, head: str) -> PathTree:
        """Return the path from rows of a recursive head to their derivations.

        Its seed is not stored.
        """
        variables = (name for name in path.seed.variables if not name.startswith("#"))
        return replace(self.path(path, 0), change_of=f"{head}({', '.join(variables)})")

    def branches(self, path: DeltaPath) -> Iterator[BranchTree]:
        """Yield the branches of a path."""
        for branch in path.branches:
            steps = path.steps[branch.begin : branch.end]
            atoms = {atom for step in steps for atom in step.atoms}
            seen = {name for use in path.other_atoms if use.atom in atoms for name in use.variables}
            seen = seen.union(*(step.read_variables for step in steps))
            bound = [
                *path.seed.variables,
                *(check.variable for check in path.seed_checks if isinstance(check, Calculation)),
            ]
            for step in path.steps[: branch.begin]:
                bound += [step.variable, *sorted(step.calculated)]
            sees = tuple(name for name in dict.fromkeys(bound) if name in seen)
            yield BranchTree(branch_name(steps), sees, tuple(step.name for step in steps))

    def levels(self, path: DeltaPath, expected: Sequence[Expected] = ()) -> tuple[LevelTree, ...]:
        """Return the steps of a path except those that bind ranks, which follow from the others."""
        step_estimates = expected or (None,) * len(path.steps)
        steps = zip(path.steps, step_estimates, strict=True)
        return tuple(self.level(step, path, estimate) for step, estimate in steps if not step.variable.startswith(RANK))

    def level(self, step: Step, path: DeltaPath, expected: Expected | None = None) -> LevelTree:
        """Return the tree of a step."""
        by_number = {use.atom: use for use in path.other_atoms}
        verb: Verb = "intersect"
        if len(step.atoms) == 1:
            verb = "check" if step.is_lookup else "look up"
        uses = tuple(self.use(by_number[atom], path) for atom in step.atoms)
        then = tuple(self.done(check, path) for check in step.checks)
        estimate = None if expected is None else Estimate(expected.proposed, expected.rows)
        return LevelTree(step.name, step.variable, verb, uses, tuple(map(str, step.conditions)), then, estimate)

    def done(self, check: Check, path: DeltaPath) -> Done:
        """Return a check that follows once variables are bound."""
        return Done(str(check), self.use(check.use, path) if isinstance(check, Absent) else None)

    def use(self, use: AtomUse, path: DeltaPath) -> Use:
        """Return an atom on a path."""
        sees: Literal["before", "after"] = "after" if path.sees_after(use) else "before"
        return Use(self.atom(use), use.key.relation, sees, self.arrangement(use.key))

    def atom(self, use: AtomUse) -> str:
        """Return an atom as text, with variables in the relation's column order, without ranks."""
        variables = sorted(zip(use.key.order, use.variables, strict=True))
        return f"{use.key.relation}({', '.join(name for _, name in variables if not name.startswith(RANK))})"

    def arrangement(self, key: ArrangementKey) -> str:
        """Return an arrangement as text with the names of its columns."""
        columns, where = ", ".join(self._columns(key)), ", ".join(self._where(key))
        return f"{key.relation}[{columns}" + (f" | {where}]" if where else "]")

    def arranged(self, used: list[ArrangementKey]) -> Iterable[Arranged]:
        """Yield each arrangement once, with its number of occurrences in the list."""
        for key in dict.fromkeys(used):
            columns, where = tuple(self._columns(key)), tuple(self._where(key))
            yield Arranged(self.arrangement(key), key.relation, columns, where, used.count(key))

    def _columns(self, key: ArrangementKey) -> list[str]:
        return [self.name_of(key.relation, column) for column in key.order]

    def _where(self, key: ArrangementKey) -> list[str]:
        def name(column: int) -> str:
            return self.name_of(key.relation, column)

        codes = {name(column): value for column, value in key.constants}
        where = []
        for column_name, constant in codes.items():
            if column_name.endswith(IS_NULL):
                where.append(column_name if constant else f"{column_name.removesuffix(' null')} not null")
            elif codes.get(column_name + IS_NULL) != 1:
                where.append(f"{column_name} = code {constant}")
        where += [f"{name(left)} = {name(right)}" for left, right in key.equal]
        for column, op, other_column, code in key.compared:
            where.append(f"{name(column)} {op} {name(other_column) if other_column is not None else f'code {code}'}")
        return where


def _ordered(use: AtomUse) -> Iterator[str]:
    """Yield the comparisons between variables of an atom that select its rows."""
    names = dict(zip(use.key.order, use.variables, strict=True))
    for column, op, other_column, _ in use.key.compared:
        if column in names and other_column in names:
            yield f"{names[column]} {op} {names[other_column]}"


def _common_prefix(way: Continuation) -> BegunTree:
    """Return the common prefix that a path shares with other paths."""
    beginning = way.beginning
    bound = way.remaining_path.seed.variables[len(beginning.path.seed.variables) :]
    return BegunTree(beginning.head, beginning.rule + 1, beginning.path_index + 1, bound, MIN_CHANGED_ROWS)


def strategy_of(path: DeltaPath) -> Literal["wcoj", "binary", "hybrid", "either"]:
    """Return the join strategy of a path."""
    intersects = any(len(step.atoms) > 1 for step in path.steps)
    looks_up = any(step.is_lookup for step in path.steps)
    if intersects and looks_up:
        return "hybrid"
    return "wcoj" if intersects else "binary" if looks_up else "either"


def _estimates(plan: Plan, head: str, n_rules: int) -> Sequence[Sequence[Sequence[Expected]]]:
    """Return the estimates per rule and path of a head; empty if unknown."""
    return plan.estimates.get(head) or ((),) * n_rules


# Statistics of arrangements: rows, prefixes, degrees and heavy hitters.


POSITIVE = ", rows of positive weight"
"""Suffix of the name of an arrangement of the positive part of a bag, which a recursion reads."""

Sides = tuple[int, ...]
"""Index of a side of an auxiliary relation, followed by those of nested auxiliary relations."""

ValuesOf = Callable[[str, int, Sequence[int]], Sequence[Any]]
"""Function from (relation, column, codes) to the decoded values."""


@dataclass(frozen=True)
class LevelStatistics:
    """One level of a trie: the values of a column below each prefix of the columns before it.

    Attributes
    ----------
    column
        Its name, as `explain` shows it.
    prefixes
        Number of distinct prefixes up to this level; at the last level, the number of rows.
    histogram
        Degrees, that is numbers of values at the next level below a prefix: entry i counts the prefixes with at least
        2^i and fewer than 2^(i + 1) values. Empty at the last level.
    heaviest
        At most 16 prefixes with the largest degrees, and these degrees; ties in storage order. Empty at the last level.
        None is null; if a deeper level has the null flag, None also stands for 0, the stored code of null, or the first
        text, as they are not separated before that level.
    """

    column: str
    prefixes: int
    histogram: tuple[int, ...] = ()
    heaviest: tuple[tuple[Row, int], ...] = ()


@dataclass(frozen=True)
class ArrangementStatistics:
    """Statistics of one relation in one order of its columns, regardless of weights.

    Attributes
    ----------
    name
        As in `explain`; with the suffix `POSITIVE` for the positive part of a bag.
    relation
        The relation that the rows belong to.
    levels
        Outermost level first.
    """

    name: str
    relation: str
    levels: tuple[LevelStatistics, ...]

    @property
    def rows(self) -> int:
        """Number of distinct rows."""
        return self.levels[-1].prefixes


def arrangement_statistics(
    circuit: Circuit, plan: Plan, shapes: Mapping[str, Shape], name_of: ColumnName, values_of: ValuesOf
) -> Iterator[ArrangementStatistics]:
    """Yield the statistics of all arrangements of inputs and stored heads, between ticks."""
    words = words_of(plan, name_of)
    sources = {
        auxiliary.name: [
            (side_index, side.atom.relation, column)
            for side_index, side in enumerate(auxiliary.sides)
            for column in side.kept
        ]
        for auxiliary in plan.auxiliaries
    }
    widths = {name: width for loop in plan.loops for name, width in loop.widths.items()}

    def origin(relation: str, column: int, sides: Sides = ()) -> tuple[Sides, str, int]:
        """Return the stored column that a column comes from, and its sides of auxiliary relations."""
        if relation not in sources:
            return sides, relation, column
        side_index, source, source_column = sources[relation][column]
        return origin(source, source_column, (*sides, side_index))

    def value(key: ArrangementKey, depth: int, codes: Sequence[int]) -> Any:
        """Return the value of the code at a level of a prefix."""
        if key.order[depth] == widths.get(key.relation):
            return codes[depth]  # a rank
        sides, relation, column = origin(key.relation, key.order[depth])
        shape = shapes[relation]
        if column >= len(shape.nullable):
            return bool(codes[depth])
        flag = shape.flag(column)
        if flag is not None and codes[depth] == 0:
            codes_by_origin = {origin(key.relation, position): code for position, code in key.constants}
            codes_by_origin.update(
                (origin(key.relation, position), code) for position, code in zip(key.order, codes, strict=False)
            )
            if codes_by_origin.get((sides, relation, flag), 1):
                return None
        return values_of(relation, column, [codes[depth]])[0]

    def level(key: ArrangementKey, depth: int, prefixes: int, degrees: Degrees | None) -> LevelStatistics:
        column = words.name_of(key.relation, key.order[depth])
        if degrees is None:
            return LevelStatistics(column, prefixes)
        heaviest = (
            (tuple(value(key, position, codes) for position in range(len(codes))), n) for codes, n in degrees.heaviest
        )
        return LevelStatistics(column, prefixes, degrees.histogram, tuple(heaviest))

    for index, suffix in _read(circuit, widths):
        for key, arrangement in index.arrangements.items():
            statistics = measure(arrangement)
            degrees = (*statistics.degrees, None)
            levels = (level(key, depth, statistics.distinct[depth], degrees[depth]) for depth in range(len(key.order)))
            yield ArrangementStatistics(words.arrangement(key) + suffix, key.relation, tuple(levels))


def _read(circuit: Circuit, loops: Container[str]) -> Iterator[tuple[RelationIndex, str]]:
    """Yield the indices that rules or users read, each with a suffix of its name.

    Counts of derivations and totals of groups are excluded.
    """
    yield from ((index, "") for index in circuit.sources.values())
    for name, head in circuit.heads.items():
        suffix = POSITIVE if isinstance(head, PositiveHead) else ""
        yield from ((index, suffix) for index in head.state if index is head.relation or name in loops)


# Upper bounds of the prefixes at each level of a plan, per changed row.
#
# The bound of Atserias, Grohe and Marx from the sizes of relations and, if there is a state, from its largest degrees;
# see `gpu_wcoj.planner.cost`.


@dataclass(frozen=True)
class AtomBounds:
    """Upper bounds of an atom in the order of its arrangement.

    Attributes
    ----------
    distinct
        Prefixes per level.
    children
        Maximum degree per level except the last; empty if unknown.
    """

    distinct: tuple[float, ...]
    children: tuple[float, ...] = ()

    def sizes(self, variables: tuple[str, ...]) -> list[Size]:
        """Return the sizes of the first levels."""
        depth = len(variables)
        degrees = zip(range(1, depth), self.children, strict=False)
        below = [Size(variables[: level + 1], degree, variables[:level]) for level, degree in degrees]
        return [Size(variables, self.distinct[depth - 1]), *below]


SizesOf = Callable[[AtomUse], AtomBounds | None]
"""Function from an atom to its bounds; None if unknown."""


def with_bounds(tree: PlanTree, plan: Plan, sizes_of: SizesOf) -> PlanTree:
    """Return the tree of a plan with bounds.

    Levels of recursions and unknown relations get none.

    Raises
    ------
    BackendUnavailableError
        If SciPy is not installed.
    """
    return replace(tree, heads=tuple(_head(head, plan, sizes_of) for head in tree.heads))


def sizes_of_state(circuit: Circuit) -> SizesOf:
    """Return the exact sizes and largest degrees of a circuit's state."""
    indices = dict(circuit.sources)
    indices.update({name: head.relation for name, head in circuit.heads.items() if head.relation is not None})

    def bounds_of_atom(use: AtomUse) -> AtomBounds | None:
        index = indices.get(use.key.relation)
        arrangement = None if index is None else index.arrangements.get(use.key)
        if arrangement is None:
            return None
        statistics = measure(arrangement)
        return AtomBounds(
            tuple(map(float, statistics.distinct)),
            tuple(float(level_degrees.largest) for level_degrees in statistics.degrees),
        )

    return bounds_of_atom


def sizes_of_catalog(catalog: Catalog) -> SizesOf:
    """Return the sizes of relations by statistics."""

    def bounds_of_atom(use: AtomUse) -> AtomBounds | None:
        rows = catalog.rows(use.key.relation)
        return None if rows is None else AtomBounds((rows,) * len(use.variables))

    return bounds_of_atom


def _head(head: HeadTree, plan: Plan, sizes_of: SizesOf) -> HeadTree:
    if head.kind not in ("rules", "alias"):
        return head
    rules = (
        replace(rule, paths=tuple(map(_path, rule.paths, query.paths, [sizes_of] * len(rule.paths))))
        for rule, query in zip(head.rules, plan.queries[head.name], strict=True)
    )
    return replace(head, rules=tuple(rules))


def _path(tree: PathTree, path: DeltaPath, sizes_of: SizesOf) -> PathTree:
    variants = zip(tree.variants, path.variants, strict=True)
    return replace(
        tree,
        levels=_levels(tree.levels, path, sizes_of),
        variants=tuple(
            replace(variant_tree, levels=_levels(variant_tree.levels, variant, sizes_of))
            for variant_tree, variant in variants
        ),
    )


def _levels(levels: Sequence[LevelTree], path: DeltaPath, sizes_of: SizesOf) -> tuple[LevelTree, ...]:
    """Return the levels, each bounded by the atoms of this and earlier levels."""
    uses = {use.atom: use for use in path.other_atoms}
    limits = {atom: atom_limits for atom, use in uses.items() if (atom_limits := sizes_of(use)) is not None}
    if len(limits) < len(uses):
        return tuple(levels)
    bound_names = list(path.seed.variables)
    depths = dict.fromkeys(uses, 0) | {atom: depth for atom, depth, _ in path.binding}
    bounded = []
    for level, step in zip(levels, path.steps, strict=True):
        for atom_number in step.atoms:
            depths[atom_number] += 1
        if not step.is_lookup:
            bound_names.append(step.variable)
        sizes = [Size(path.seed.variables, 1.0)]
        for atom_number, depth in ((atom_number, depth) for atom_number, depth in depths.items() if depth):
            sizes += limits[atom_number].sizes(uses[atom_number].variables[:depth])
        bounded.append(replace(level, at_most=bound(sizes, bound_names).rows))
    return tuple(bounded)
