"""From a plan to the tree that people read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gpu_wcoj.circuit.recursion.rules import RANK, LoopPlan
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
from gpu_wcoj.join.beginning import Begun
from gpu_wcoj.join.delta import FEWEST_PAIRED
from gpu_wcoj.join.path import Absent, AtomUse, Calculation, Check, DeltaPath, DeltaQuery, Step, branch_name
from gpu_wcoj.planner.expected import Expected
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.trace.arrangement import ArrangementKey

ColumnName = Callable[[str, int], str]
"""What a stored column of a relation is called."""
IS_NULL = " is null"
"""What stands behind the name of a column that says whether another one is null."""


def described(
    plan: Plan, name_of: ColumnName, backend: str, semantics: Literal["set", "bag"], route: str | None = None
) -> PlanTree:
    """The plan as a tree; `route` says which ticks run where, if there is a choice."""
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
    """How parts of a plan are called whose relations' columns are called so."""
    return Words(_with_ranks(_with_auxiliaries(name_of, plan), plan.loops))


def _with_ranks(name_of: ColumnName, loops: Iterable[LoopPlan]) -> ColumnName:
    """Names of columns, the rank's too."""
    widths = {name: width for loop in loops for name, width in loop.widths.items()}
    return lambda relation, column: "rank" if column == widths.get(relation) else name_of(relation, column)


def _with_auxiliaries(name_of: ColumnName, plan: Plan) -> ColumnName:
    """Names of columns; those of what is kept for the rules are called as where they come from, once each.

    Of two that are one column of one relation, on either side, the second has a prime.
    """
    called: dict[str, list[str]] = {}

    def name(relation: str, column: int) -> str:
        return called[relation][column] if relation in called else name_of(relation, column)

    for one in plan.auxiliaries:  # those that others read stand before these
        own: list[str] = []
        for source, column in one.columns:
            said = name(source, column)
            while said in own:
                stem = said.removesuffix(IS_NULL)
                said = f"{stem}'{said.removeprefix(stem)}"
            own.append(said)
        called[one.name] = own
    return name


def _used(plan: Plan, loop_of: Mapping[str, LoopPlan]) -> list[ArrangementKey]:
    """The arrangements that rules use, each as often as there are rules that do."""
    alone = (queries for name, queries in plan.queries.items() if name not in loop_of)
    used = [key for queries in alone for query in queries for key in query.keys]
    used += [key for loop in plan.loops for key in loop.keys]
    read = {key.relation for key in used}
    unread = (name.removesuffix("#unread") for name in plan.order if name.endswith("#unread"))
    return used + [ArrangementKey(name, tuple(range(plan.shapes[name].width))) for name in unread if name not in read]


def _is_read(plan: Plan, name: str) -> bool:
    """Whether rules read a head, so that its rows are kept."""
    sources = (one.source.relation for one in plan.groupings.values())
    read = (key.relation for queries in plan.queries.values() for query in queries for key in query.keys)
    return name in (*sources, *read, *(key.relation for loop in plan.loops for key in loop.keys))


@dataclass(frozen=True)
class Words:
    """How parts of a plan are called.

    Attributes
    ----------
    name_of
        Columns.
    """

    name_of: ColumnName

    def head(self, plan: Plan, name: str, stratum: int, loop: LoopPlan | None) -> HeadTree:
        """One head with its rules."""
        if loop is not None:
            others = tuple(other for other in loop.widths if other != name)
            is_best = name in loop.best
            kept = "the values that have been a group's best" if is_best else "its rows"
            together = f", evaluated with {', '.join(others)}" if others else ""
            note = f"recursive{together}: {kept} are kept with their ranks"
            rules = []
            own = [rule for rule in loop.rules if rule.head == name]
            for rule, known in zip(own, _estimates(plan, name, len(own)), strict=True):
                asked = self.asked(rule.asked.paths[0], name)
                paths = self.rule(rule.query, known).paths
                rules.append(RuleTree(rule.query.rule, paths, asked, "groups" if is_best else "rows"))
            return HeadTree(name, stratum, "recursive", note, others, None, False, tuple(rules))
        if name in plan.groupings:
            grouping = plan.groupings[name]
            reads = self.arrangement(grouping.source)
            note = f"{grouping.op} by group: reads {reads}"
            return HeadTree(name, stratum, "grouping", note, (), reads, False, ())
        expected = _estimates(plan, name, len(plan.queries[name]))
        queries = tuple(
            replace(self.rule(query, known), joined_with=_joined_with(plan, name, query))
            for query, known in zip(plan.queries[name], expected, strict=True)
        )
        is_counted = name in plan.counted
        if not is_counted and not _is_read(plan, name):
            queries = tuple(map(self.with_images, queries, plan.queries[name]))
        if name in plan.aliases:
            verb = "selects from" if plan.aliases[name].compared else "renames"
            note = f"only {verb} {plan.aliases[name].relation}: rules read that instead"
            return HeadTree(name, stratum, "alias", note, (), None, is_counted, queries)
        note = "derivations are counted: its rows are distinct" if is_counted else ""
        auxiliary = next((one for one in plan.auxiliaries if one.name == name), None)
        if auxiliary is not None:
            read = " and ".join(dict.fromkeys(auxiliary.relations))
            note = f"kept for the rules, which read it in place of {read}"
        if not queries:
            taken, is_unread = name.partition("#")[::2]
            note = "its rules never hold, or ask for a null that has not turned up"
            note = f"lets {taken} take rows, which no rule reads that can hold" if is_unread == "unread" else note
        return HeadTree(name, stratum, "rules", note, (), None, is_counted, queries)

    def rule(self, query: DeltaQuery, expected: Sequence[Sequence[Expected]] = ()) -> RuleTree:
        """One rule with its delta paths; what is expected of these, if that is known."""
        known = expected or ((),) * len(query.paths)
        found = []
        begun = query.begun or (None,) * len(query.paths)
        for number, (path, way, own) in enumerate(zip(query.paths, begun, known, strict=True), 1):
            found.append(replace(self.path(path, number, own), begins_as=None if way is None else _begun(way)))
        return RuleTree(query.rule, tuple(found))

    def with_images(self, rule: RuleTree, query: DeltaQuery) -> RuleTree:
        """The rule of a head that may be only counted, with the paths that are counted for others."""
        symmetry, paths = query.symmetry, list(rule.paths)
        for at, orbit in enumerate(() if symmetry is None else symmetry.orbits):
            assert symmetry is not None
            taken, own = symmetry.taken[at], query.paths[symmetry.taken[at]]
            fewest = FEWEST_PAIRED if symmetry.order == 2 else 1
            for number in orbit if len(orbit) > 1 else ():
                paths[number] = replace(paths[number], counted_by=taken + 1, counted_from=fewest)
            if len(orbit) > 1:
                then = replace(own, after=symmetry.after(at))
                seen = tuple(self.use(one, then) for one in own.others if own.sees_after(one) != then.sees_after(one))
                images = tuple(number + 1 for number in orbit)
                paths[taken] = replace(paths[taken], counted_by=None, counted_for=images, counted_seeing=seen)
        return replace(rule, paths=tuple(paths))

    def path(self, path: DeltaPath, number: int, expected: Sequence[Expected] = ()) -> PathTree:
        """One delta path; `expected` has its seeds, and then every step."""
        seeds, steps = (expected[0], expected[1:]) if expected else (None, ())
        bound = set(path.seed.variables)
        held = tuple(self.use(use, path) for use in path.others if set(use.variables) <= bound)
        return PathTree(
            number,
            self.atom(path.seed),
            path.is_negated,
            tuple(self.arrangement(use.key) for use in path.seeds) if number else (),
            tuple(map(str, path.seed_conditions)),
            held,
            tuple(self.done(check, path) for check in path.seed_checks),
            self.levels(path, steps),
            tuple(VariantTree(self.levels(variant)) for variant in path.variants),
            strategy_of(path),
            branches=tuple(self.branches(path)),
            seed_estimate=None if seeds is None else Estimate(seeds.proposed, seeds.rows),
        )

    def asked(self, path: DeltaPath, head: str) -> PathTree:
        """The path from rows of a recursive head to their derivations; its seed is no relation that is stored."""
        variables = (name for name in path.seed.variables if not name.startswith("#"))
        return replace(self.path(path, 0), change_of=f"{head}({', '.join(variables)})")

    def branches(self, path: DeltaPath) -> Iterator[BranchTree]:
        """The branches of a path."""
        for branch in path.branches:
            steps = path.steps[branch.begin : branch.end]
            atoms = {number for step in steps for number in step.atoms}
            seen = {name for use in path.others if use.atom in atoms for name in use.variables}
            seen = seen.union(*(step.spoken for step in steps))
            bound = [*path.seed.variables, *(one.variable for one in path.seed_checks if isinstance(one, Calculation))]
            for step in path.steps[: branch.begin]:
                bound += [step.variable, *sorted(step.calculated)]
            sees = tuple(name for name in dict.fromkeys(bound) if name in seen)
            yield BranchTree(branch_name(steps), sees, tuple(step.name for step in steps))

    def levels(self, path: DeltaPath, expected: Sequence[Expected] = ()) -> tuple[LevelTree, ...]:
        """The steps of a path, but those that bind ranks: these follow from the others."""
        known = expected or (None,) * len(path.steps)
        steps = zip(path.steps, known, strict=True)
        return tuple(self.level(step, path, own) for step, own in steps if not step.variable.startswith(RANK))

    def level(self, step: Step, path: DeltaPath, expected: Expected | None = None) -> LevelTree:
        """One step."""
        by_number = {use.atom: use for use in path.others}
        verb: Verb = "intersect"
        if len(step.atoms) == 1:
            verb = "check" if step.is_lookup else "look up"
        uses = tuple(self.use(by_number[number], path) for number in step.atoms)
        then = tuple(self.done(check, path) for check in step.checks)
        estimate = None if expected is None else Estimate(expected.proposed, expected.rows)
        return LevelTree(step.name, step.variable, verb, uses, tuple(map(str, step.conditions)), then, estimate)

    def done(self, check: Check, path: DeltaPath) -> Done:
        """What follows once variables are bound."""
        return Done(str(check), self.use(check.use, path) if isinstance(check, Absent) else None)

    def use(self, use: AtomUse, path: DeltaPath) -> Use:
        """One atom on a path."""
        sees: Literal["before", "after"] = "after" if path.sees_after(use) else "before"
        return Use(self.atom(use), use.key.relation, sees, self.arrangement(use.key))

    def atom(self, use: AtomUse) -> str:
        """An atom with its variables, in the order of the relation's columns; ranks are left out."""
        variables = sorted(zip(use.key.order, use.variables, strict=True))
        return f"{use.key.relation}({', '.join(name for _, name in variables if not name.startswith(RANK))})"

    def arrangement(self, key: ArrangementKey) -> str:
        """An arrangement with the names of its columns."""
        columns, where = ", ".join(self._columns(key)), ", ".join(self._where(key))
        return f"{key.relation}[{columns}" + (f" | {where}]" if where else "]")

    def arranged(self, used: list[ArrangementKey]) -> Iterable[Arranged]:
        """Each arrangement once, with how often it is in the list."""
        for key in dict.fromkeys(used):
            columns, where = tuple(self._columns(key)), tuple(self._where(key))
            yield Arranged(self.arrangement(key), key.relation, columns, where, used.count(key))

    def _columns(self, key: ArrangementKey) -> list[str]:
        return [self.name_of(key.relation, column) for column in key.order]

    def _where(self, key: ArrangementKey) -> list[str]:
        def name(column: int) -> str:
            return self.name_of(key.relation, column)

        codes = {name(column): given for column, given in key.constants}
        where = []
        for said, given in codes.items():
            if said.endswith(IS_NULL):
                where.append(said if given else f"{said.removesuffix(' null')} not null")
            elif codes.get(said + IS_NULL) != 1:
                where.append(f"{said} = code {given}")
        where += [f"{name(left)} = {name(right)}" for left, right in key.equal]
        for column, op, other, code in key.compared:
            where.append(f"{name(column)} {op} {name(other) if other is not None else f'code {code}'}")
        return where


def _begun(way: Begun) -> BegunTree:
    """What a path shares with others."""
    from gpu_wcoj.join.begun import FEWEST_CHANGED

    one = way.beginning
    bound = way.rest.seed.variables[len(one.path.seed.variables) :]
    return BegunTree(one.head, one.rule + 1, one.number + 1, bound, FEWEST_CHANGED)


def _joined_with(plan: Plan, name: str, query: DeltaQuery) -> tuple[str, ...]:
    """The other heads whose rules share a rule's paths."""
    if not query.together:
        return ()
    return tuple(
        other
        for other, queries in plan.queries.items()
        if other != name and any((one.together, one.paths) == (query.together, query.paths) for one in queries)
    )


def strategy_of(path: DeltaPath) -> Literal["wcoj", "binary", "hybrid", "either"]:
    """How the atoms of a path meet."""
    intersects = any(len(step.atoms) > 1 for step in path.steps)
    looks_up = any(step.is_lookup for step in path.steps)
    if intersects and looks_up:
        return "hybrid"
    return "wcoj" if intersects else "binary" if looks_up else "either"


def _estimates(plan: Plan, head: str, n_rules: int) -> Sequence[Sequence[Sequence[Expected]]]:
    """Per rule and path of a head, what is expected; nothing where that is not known."""
    return plan.estimates.get(head) or ((),) * n_rules
