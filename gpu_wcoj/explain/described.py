"""Build the plan tree that all formats are written from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gpu_wcoj.circuit.recursion.plan import RANK, LoopPlan
from gpu_wcoj.explain.figures import Estimate
from gpu_wcoj.explain.tree import (
    Arranged,
    BegunTree,
    BranchTree,
    Done,
    HeadTree,
    LevelTree,
    PathTree,
    PlanTree,
    RuleTree,
    Use,
    VariantTree,
    Verb,
)
from gpu_wcoj.join.beginning import Continuation
from gpu_wcoj.join.delta import MIN_PAIRED_ROWS
from gpu_wcoj.join.plan import Absent, AtomUse, Calculation, Check, DeltaPath, DeltaQuery, Step, branch_name
from gpu_wcoj.planner.expected import Expected
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.trace.arrangement import ArrangementKey

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
    sources = (grouping.source.relation for grouping in plan.groupings.values())
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
            note = f"recursive{together}: {stored} are kept with their ranks"
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
        expected = _estimates(plan, name, len(plan.queries[name]))
        queries = tuple(
            replace(self.rule(query, query_estimates), joined_with=_joined_with(plan, name, query))
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
        return RuleTree(query.rule, tuple(paths))

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
            tuple(map(str, path.seed_conditions)),
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


def _common_prefix(way: Continuation) -> BegunTree:
    """Return the common prefix that a path shares with other paths."""
    from gpu_wcoj.join.begun import MIN_CHANGED_ROWS

    beginning = way.beginning
    bound = way.remaining_path.seed.variables[len(beginning.path.seed.variables) :]
    return BegunTree(beginning.head, beginning.rule + 1, beginning.path_index + 1, bound, MIN_CHANGED_ROWS)


def _joined_with(plan: Plan, name: str, query: DeltaQuery) -> tuple[str, ...]:
    """Return the other heads whose rules share a rule's paths."""
    if not query.shared_variables:
        return ()
    return tuple(
        head
        for head, queries in plan.queries.items()
        if head != name
        and any((joined.shared_variables, joined.paths) == (query.shared_variables, query.paths) for joined in queries)
    )


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
