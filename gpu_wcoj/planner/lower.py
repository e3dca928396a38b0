"""Lower rules to a circuit: strata in order, aliases resolved, shared arrangements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import exp, log
from types import MappingProxyType
from typing import TYPE_CHECKING

from gpu_wcoj.circuit.aggregate import GroupingHead, GroupingPlan
from gpu_wcoj.circuit.circuit import Circuit
from gpu_wcoj.circuit.computed_groups import ComputedGroupsHead, ComputedGroupsPlan, SourceColumn
from gpu_wcoj.circuit.first_rows import FirstRowsHead, FirstRowsPlan, SortedLevel
from gpu_wcoj.circuit.head import AuxiliaryHead, Head, PositiveHead
from gpu_wcoj.circuit.operator import RelationOperator
from gpu_wcoj.circuit.recursion.plan import Best, LoopPlan, LoopRule
from gpu_wcoj.circuit.recursion.relation import RankedIndex
from gpu_wcoj.costs import COUNTED_PROPOSAL, PROPOSAL, SORTED_PREFIX, WRITTEN_PREFIX
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.join.delta import CommonPrefixes, IncrementalGenericJoin
from gpu_wcoj.join.plan import DeltaPath, DeltaQuery
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.join.settings import Execution
from gpu_wcoj.planner.body import INTEGERS, Alias, Body, BodyAtom, Encode, Kinds, Shape, standing_for, through_aliases
from gpu_wcoj.planner.cost import assumed_share, cost_of_full_join, foreseen
from gpu_wcoj.planner.ir import EMPTY_CATALOG, Auxiliary, CatalogReader, Draft, Expected, RuleDraft, Setting, Strategy
from gpu_wcoj.planner.join_order import Chooser
from gpu_wcoj.planner.passes import PASSES, run_passes
from gpu_wcoj.planner.passes.arrange import (
    arrangements_of,
    path_along,
    with_checks,
    with_last_variable_last,
    with_lookups,
    with_sorting,
)
from gpu_wcoj.planner.passes.simplify import normalise_rules, push_down_predicates
from gpu_wcoj.query.ir import ComputedGroups, FirstRows, Grouping, Rules, SortKey
from gpu_wcoj.query.stratify import components, cycle, loops_of
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, UnsortedArrangement
from gpu_wcoj.trace.spine import MergePolicy

if TYPE_CHECKING:
    from gpu_wcoj.circuit.recursion.loop import LoopHead

Place = tuple[str, int, int]
"""Address of a delta path: head, index of the rule, index of the path."""

INVERSE = -2
"""Path index of the query by which a loop finds derivations of rows."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Plan of a program over stored columns.

    Attributes
    ----------
    shapes
        Per relation, its stored columns.
    order
        The heads, each after the heads that its rules read; the heads of a loop are adjacent.
    queries
        Per head, one delta query per rule that can derive something.
    aliases
        Heads that only rename another relation.
    counted
        Heads whose rows may be derived more than once, in set semantics.
    loops
        Groups of mutually recursive heads.
    groupings
        Heads that aggregate.
    first_rows
        Heads that keep the first rows of others.
    computed_groups
        Heads that DuckDB computes group by group.
    strategy
        Requested join strategy.
    estimates
        Per head, rule and delta path, the estimates of each level for one changed row: of the seeds, then of each step;
        empty without statistics.
    candidates
        Number of orders of delta paths that were compared.
    asked
        Per head of a loop and rule, the estimates of the derivation path, for one row.
    auxiliaries
        Auxiliary relations; they are heads, too.
    head_rows
        Estimated rows of heads that rules read, where there are statistics.
    """

    shapes: Mapping[str, Shape]
    order: tuple[str, ...]
    queries: Mapping[str, tuple[DeltaQuery, ...]]
    aliases: Mapping[str, Alias]
    counted: frozenset[str]
    loops: tuple[LoopPlan, ...] = ()
    groupings: Mapping[str, GroupingPlan] = field(default_factory=dict)
    first_rows: Mapping[str, FirstRowsPlan] = field(default_factory=dict)
    computed_groups: Mapping[str, ComputedGroupsPlan] = field(default_factory=dict)
    strategy: Strategy = "auto"
    estimates: Mapping[str, tuple[tuple[tuple[Expected, ...], ...], ...]] = field(default_factory=dict)
    candidates: int = 0
    asked: Mapping[str, tuple[tuple[Expected, ...], ...]] = field(default_factory=dict)
    auxiliaries: tuple[Auxiliary, ...] = ()
    head_rows: Mapping[str, float] = field(default_factory=dict)

    def path(self, place: Place) -> DeltaPath:
        """Return a delta path, or a derivation path of a loop without ranks."""
        head, rule, path_index = place
        if path_index != INVERSE:
            return self.queries[head][rule].paths[path_index]
        rules = (loop_rule for loop in self.loops for loop_rule in loop.rules)
        return next(
            loop_rule.inverse.paths[0] for loop_rule in rules if (loop_rule.head, loop_rule.index) == (head, rule)
        )

    def find_head_variables(self, place: Place) -> frozenset[str] | None:
        """Return the variables of a path that its head keeps; None for all."""
        head, rule, path_index = place
        return None if path_index == INVERSE else self.queries[head][rule].head_variables

    def places(self) -> list[Place]:
        """Return the addresses of all paths."""
        places = [
            (head, rule, path_index)
            for head, head_queries in self.queries.items()
            for rule, query in enumerate(head_queries)
            for path_index in range(len(query.paths))
        ]
        return places + [(loop_rule.head, loop_rule.index, INVERSE) for loop in self.loops for loop_rule in loop.rules]

    def expecting(self, catalog: CatalogReader) -> Plan:
        """Return this plan with estimates by other statistics."""
        estimates = {
            name: tuple(
                tuple(_estimate(path, catalog, query.head_variables) for path in query.paths) for query in head_queries
            )
            for name, head_queries in self.queries.items()
        }
        return replace(self, estimates=estimates, asked=_derivation_estimates(self.loops, catalog))

    def taking_the_cheapest(self) -> Plan:
        """Return this plan with the cheapest path of each orbit of automorphic atoms."""
        queries = {
            name: tuple(_taking(query, path) for query, path in zip(head_queries, self.estimates[name], strict=True))
            for name, head_queries in self.queries.items()
        }
        return replace(self, queries=queries)


def make_setting(
    rules: Rules,
    shapes: Mapping[str, Shape],
    encode: Encode,
    bag: bool,
    kinds: Kinds = INTEGERS,
    catalog: CatalogReader = EMPTY_CATALOG,
    strategy: Strategy = "auto",
    hints: Mapping[str, Sequence[str]] = MappingProxyType({}),
    auxiliaries: Collection[Auxiliary] | None = None,
    execution: Execution | None = None,
) -> Setting:
    """Return the settings of the passes for some rules.

    Parameters
    ----------
    auxiliaries
        Existing auxiliary relations; None to use none.
    execution
        Settings of the joins that run the plan; None for usual ones. A single tick is ignored if rules are recursive.
    """
    best = {extreme.relation: extreme.column for extreme in rules.extremes}
    recursive = frozenset(loops_of(rules)) if bag else frozenset[str]()
    return Setting(
        shapes, encode, kinds, bag, strategy, _with_helpers(hints, rules), catalog, best, recursive, auxiliaries,
        execution is not None and execution.single_tick and not _is_recursive(rules),
        () if execution is None else execution.tuning.off, rules.groupings,
    )  # fmt: skip


def _is_recursive(rules: Rules) -> bool:
    return bool(loops_of(rules) or rules.extremes)


def plan(rules: Rules, setting: Setting) -> Plan:
    """Plan every rule; see `gpu_wcoj.planner.passes`."""
    bag, encode, kinds = setting.bag, setting.encode, setting.kinds
    extremes = {extreme.relation: extreme for extreme in rules.extremes}
    recursive = setting.recursive
    draft = run_passes(Draft(setting, tuple(RuleDraft(rule.head.relation, rule) for rule in rules.rules)))
    shapes, catalog = draft.setting.shapes, draft.setting.known
    derived = {rule.head.relation for rule in rules.rules}
    names = [*(auxiliary.name for auxiliary in draft.auxiliaries), *(name for name in rules.heads if name in derived)]
    bodies: dict[str, list[Body]] = {name: [] for name in names}
    queries: dict[str, tuple[DeltaQuery, ...]] = dict.fromkeys(names, ())
    estimates: dict[str, tuple[tuple[tuple[Expected, ...], ...], ...]] = dict.fromkeys(names, ())
    for rule_draft in draft.rules:
        assert rule_draft.query is not None
        bodies[rule_draft.head].append(rule_draft.normalised)
        queries[rule_draft.head] = (*queries[rule_draft.head], rule_draft.query)
        expected = tuple(() if path is None else path.levels for path in rule_draft.foreseen)
        estimates[rule_draft.head] = (*estimates[rule_draft.head], expected)
    aliases = draft.aliases
    reads = {
        name: list(dict.fromkeys(atom.relation for body in head_bodies for atom in (*body.atoms, *body.negated)))
        for name, head_bodies in bodies.items()
    }
    groupings: dict[str, GroupingPlan] = {}
    if rules.groupings:
        groupings = {
            grouping.relation: grouping_plan(grouping, shapes, aliases, encode, kinds) for grouping in rules.groupings
        }
    first_rows = {first.relation: first_rows_plan(first, shapes, aliases, encode, kinds) for first in rules.first_rows}
    computed = {
        groups.relation: computed_groups_plan(groups, shapes, aliases, encode, kinds)
        for groups in rules.computed_groups
    }
    reads.update({name: [groups.source.relation] for name, groups in computed.items()})
    reads.update({name: [grouping.source.relation] for name, grouping in groupings.items()})
    reads.update({name: [first.source.relation] for name, first in first_rows.items()})
    order: list[str] = []
    loops: list[LoopPlan] = []
    counted, sources = set(), draft.setting.derivation_sources
    for members in components(reads):
        order.extend(members)
        first = members[0]
        if len(members) > 1 or first in reads[first] or first in extremes or (first in recursive and bodies.get(first)):
            planned = {name: list(zip(bodies[name], queries[name], strict=True)) for name in members}
            widths = {name: shapes[name].width for name in members}
            best_of = {
                name: Best(
                    extremes[name].column, extremes[name].op == "max", shapes[name].family(extremes[name].column)
                )
                for name in members
                if name in extremes
            }
            limits = {name: n_rows for name, n_rows in rules.size_limits.items() if name in members}
            loops.append(loop_plan(planned, widths, cycle(first, members, reads), draft.setting, best_of, limits))
            continue
        live = bodies.get(first, [])  # an aggregating head has none
        if not bag and (first in sources or not (len(live) <= 1 and all(body.keeps_all for body in live))):
            counted.add(first)
    return Plan(
        dict(shapes), tuple(order), queries, aliases, frozenset(counted), tuple(loops), groupings, first_rows, computed,
        setting.strategy, estimates, draft.candidates, _derivation_estimates(loops, catalog), draft.auxiliaries,
        {name: rows for name in order if (rows := catalog.rows(name)) is not None},
    ).taking_the_cheapest()  # fmt: skip


def along_single_paths(planned: Plan, catalog: CatalogReader) -> Plan:
    """Return the plan of a single tick: one path per rule, whose atoms see all rows.

    A path costs what indexing the rows of its other atoms costs, and what its steps propose. The rows that start it are
    read as they are, so mostly those of the largest atom do. The other paths stay as alternatives to one that turns out
    dearer than expected.
    """
    queries: dict[str, tuple[DeltaQuery, ...]] = {}
    estimates: dict[str, tuple[tuple[tuple[Expected, ...], ...], ...]] = {}
    for name in planned.order:
        chosen = [
            _cheapest_path(query, expected, planned.head_rows, catalog)
            for query, expected in zip(planned.queries.get(name, ()), planned.estimates.get(name, ()), strict=True)
        ]
        if name in planned.queries:
            queries[name] = tuple(
                _along_one(query, index, expected, planned.head_rows, catalog)
                for query, index, expected in zip(planned.queries[name], chosen, planned.estimates[name], strict=True)
            )
            estimates[name] = tuple(
                (expected[index],) for expected, index in zip(planned.estimates[name], chosen, strict=True)
            )
    counted = frozenset(one.source.relation for one in planned.groupings.values() if one.of_derivations)
    return replace(planned, queries=queries, estimates=estimates, counted=counted)


MIN_PLANNED_ROWS, MIN_PLANNED_COST = 1 << 12, 1 << 17
"""Rows of a load, and its cost in nanoseconds by the estimates of delta paths, from either of which on it is planned.

Planning takes one to ten milliseconds, most where the join has many atoms and costs more, too. Without a plan, the path
of a load is chosen by samples, which take some milliseconds where they are drawn (`python -m bench.cliffs`)."""


def with_loads(planned: Plan, rules: Rules, setting: Setting) -> Plan:
    """Return the plan with a query for loads beside the delta paths of each rule.

    From nothing, one path has all rows to join, as in a single tick, and the same path is the cheapest. Delta paths
    have been chosen for ticks of few rows, and for arrangements that are kept. Ticks that list all rows again run along
    the plan of the load, too. Only costly loads are planned; those of
    rules that read auxiliary relations, and of recursive programs, are not.
    """
    auxiliaries = {auxiliary.name for auxiliary in planned.auxiliaries}
    planned_queries = [query for head in planned.queries.values() for query in head if _has_load(query, auxiliaries)]
    relations = {path.seed.key.relation for query in planned_queries for path in query.paths}
    rows = sum(planned.head_rows.get(name) or setting.known.rows(name) or 0.0 for name in relations)
    is_costly = rows >= MIN_PLANNED_ROWS or _cost_of_load(planned, setting.known) >= MIN_PLANNED_COST
    if _is_recursive(rules) or not is_costly:
        return planned
    single = replace(setting, single_tick=True, is_load=True, auxiliaries=None)
    loads = along_single_paths(plan(rules, single), setting.known).queries
    queries = dict(planned.queries)
    for name, head_queries in planned.queries.items():
        if len(loads.get(name, ())) == len(head_queries):
            queries[name] = tuple(
                replace(query, load=load) if _has_load(query, auxiliaries) else query
                for query, load in zip(head_queries, loads[name], strict=True)
            )
    return replace(planned, queries=queries)


def _has_load(query: DeltaQuery, auxiliaries: Collection[str]) -> bool:
    """Return whether a load has a choice of paths, all of which read the same relations."""
    return sum(not path.is_negated for path in query.paths) > 1 and all(
        key.relation not in auxiliaries for key in query.keys
    )


def _cost_of_load(planned: Plan, catalog: CatalogReader) -> float:
    """Return the estimated cost of the cheapest delta path of each rule, in nanoseconds."""
    total = 0.0
    for name, head_queries in planned.queries.items():
        for query, expected in zip(head_queries, planned.estimates[name], strict=True):
            costs = []
            for path, levels in zip(query.paths, expected, strict=False):
                relation = path.seed.key.relation
                rows = planned.head_rows.get(relation, catalog.rows(relation)) or 0.0
                costs.append(cost_of_full_join(0.0, rows, sum(1.0 + level.proposed for level in levels)))
            total += min(costs, default=0.0)
    return total


def _along_one(
    query: DeltaQuery, index: int, expected: Sequence[Sequence[Expected]], head_rows: Mapping[str, float],
    catalog: CatalogReader,
) -> DeltaQuery:  # fmt: skip
    """Return the query along one path, with the others as alternatives if it was estimated."""
    alternatives = [
        with_last_variable_last(query.along(other).paths[0])
        for other, path in enumerate(query.paths if any(expected) else ())
        if other != index and path.seed.variables and not path.is_negated
    ]
    relation = query.paths[index].seed.key.relation
    rows = head_rows.get(relation, catalog.rows(relation)) or 0.0
    cost = cost_of_full_join(0.0, rows, sum(1.0 + level.proposed for level in expected[index]))
    (path,) = query.along(index).paths
    path = with_last_variable_last(path)
    return replace(query.along(index), paths=(path,), alternatives=tuple(alternatives), expected_cost=cost)


def _cheapest_path(
    query: DeltaQuery, expected: Sequence[Sequence[Expected]], head_rows: Mapping[str, float], catalog: CatalogReader
) -> int:
    """Return the index of the cheapest path; the last one if a size is not known.

    Paths without estimates are left out if others have some.
    """
    costs: dict[int, float] = {}
    counted: dict[int, float] = {}
    listed: list[float] = []
    for index, path in enumerate(query.paths):
        if path.is_negated or (any(expected) and not expected[index]):
            continue
        rows = {key: head_rows.get(key.relation, catalog.rows(key.relation)) for key in (path.seed.key, *path.keys)}
        if None in rows.values():
            return len(query.paths) - 1
        n_indexed = sum(rows[key] or 0.0 for key in dict.fromkeys(path.keys))
        n_seeds = rows[path.seed.key] or 0.0
        if expected[index]:
            proposed = sum(1.0 + level.proposed for level in expected[index])
            listed.append(max(1.0, n_seeds * expected[index][-1].rows))
            if path.steps and path.steps[-1].variable not in query.head_variables:
                counted[index] = n_seeds * expected[index][-2].rows
                proposed -= expected[index][-1].proposed * (1.0 - COUNTED_PROPOSAL / PROPOSAL)
        else:
            proposed = 1.0 + len(path.steps) * assumed_share((*path.seed_conditions, *path.seed_checks))
        costs[index] = cost_of_full_join(n_indexed, n_seeds, proposed)
    # A last variable that the head does not read is counted, not listed. Else all paths list the same rows, whose
    # number they estimate differently: one of them may be far off.
    bound = exp(sum(map(log, listed)) / len(listed)) if listed else 0.0  # their geometric mean
    for index in costs:
        costs[index] += (WRITTEN_PREFIX + SORTED_PREFIX) * min(counted.get(index, bound), bound)
    return min(costs, key=costs.__getitem__)


def _with_helpers(hints: Mapping[str, Sequence[str]], rules: Rules) -> dict[str, Sequence[str]]:
    """Return the hints, extended to the helper relations that hold one of the variables."""
    extended = dict(hints)
    if not extended:
        return extended
    reads: dict[str, list[str]] = {}
    variables_of: dict[str, set[str]] = {}
    for rule in rules.rules:
        reads.setdefault(rule.head.relation, []).extend(atom.relation for atom in (*rule.atoms, *rule.negated))
        variables_of.setdefault(rule.head.relation, set()).update(
            variable.name for atom in rule.atoms for variable in atom.variables
        )
    for helper in rules.helpers:
        reads.setdefault(helper.relation, []).append(helper.source)
    for head, names in hints.items():
        seen, waiting = {head}, list(reads.get(head, ()))
        while waiting:
            name = waiting.pop()
            if name in seen or "#" not in name:
                continue
            seen.add(name)
            waiting += reads.get(name, ())
            if not variables_of.get(name, set()).isdisjoint(names):
                extended.setdefault(name, names)
    return extended


def _demands(rules: Rules, heads: Mapping[str, RelationOperator]) -> tuple[dict[str, str], ...]:
    """Return the heads of keys and their inputs, grouped by mutual dependence, in order."""
    if not rules.demands:
        return ()
    reads = {name: [*head.reads] for name, head in heads.items()}
    reads |= {demand: [name] for name, demand in rules.demands.items()}
    groups = (
        {head: demand for head, demand in rules.demands.items() if demand in members} for members in components(reads)
    )
    return tuple(group for group in groups if group)


def _taking(query: DeltaQuery, expected: Sequence[Sequence[Expected]]) -> DeltaQuery:
    if query.symmetry is None:
        return query
    cost = [sum(level.proposed for level in levels[1:]) for levels in expected]
    taken = tuple(min(orbit, key=cost.__getitem__) for orbit in query.symmetry.orbits)
    return replace(query, symmetry=replace(query.symmetry, representatives=taken))


def _derivation_estimates(
    loops: Sequence[LoopPlan], catalog: CatalogReader
) -> dict[str, tuple[tuple[Expected, ...], ...]]:
    """Return the estimates of the derivation paths of loops; see `Plan.asked`."""
    estimates: dict[str, tuple[tuple[Expected, ...], ...]] = {}
    for loop_rule in (looped_rule for loop in loops for looped_rule in loop.rules):
        estimates[loop_rule.head] = (*estimates.get(loop_rule.head, ()), _estimate(loop_rule.inverse.paths[0], catalog))
    return estimates


def _estimate(
    path: DeltaPath, catalog: CatalogReader, head_variables: Collection[str] | None = None
) -> tuple[Expected, ...]:
    estimate = foreseen(path, catalog, head_variables)
    return () if estimate is None else estimate.levels


def lower(
    planned: Plan,
    rules: Rules,
    keep: Sequence[str],
    outputs: Sequence[str],
    execution: Execution,
    policy: MergePolicy | None,
) -> Circuit:
    """Return the circuit of a plan, with an empty state."""
    inputs = (*rules.inputs, *rules.demands.values())
    builder = _CircuitBuilder(planned, execution, policy, frozenset(outputs))
    builder.add_relations(inputs, keep)
    for name in planned.order:
        builder.add_head(name)
    sources = {name: builder.relations[name] for name in inputs}
    return Circuit(
        sources, builder.heads, execution, builder.outputs, {}, builder.beginnings, _demands(rules, builder.heads)
    )  # fmt: skip


@dataclass(eq=False)
class _CircuitBuilder:
    """The parts of a circuit, made one after the other.

    Attributes
    ----------
    relations, histories
        The indices of relations, and for those of loops with a best value also those with ranks.
    heads
        The operators, in the order of evaluation.
    """

    planned: Plan
    execution: Execution
    policy: MergePolicy | None
    outputs: frozenset[str]
    relations: dict[str, RelationIndex] = field(default_factory=dict)
    histories: dict[str, RankedIndex] = field(default_factory=dict)
    heads: dict[str, RelationOperator] = field(default_factory=dict)
    beginnings: CommonPrefixes | None = None

    def __post_init__(self) -> None:
        planned = self.planned
        self.loop_of = {name: loop for loop in planned.loops for name in loop.widths}
        self.best = {name for loop in planned.loops for name in loop.best}
        self.auxiliaries = {auxiliary.name: auxiliary for auxiliary in planned.auxiliaries}
        self.ranked: dict[str, list[ArrangementKey]] = {name: [] for name in self.loop_of}
        self.to_loops: dict[str, list[ArrangementKey]] = {}
        for loop in planned.loops:
            for key in loop.keys:
                keys = self.ranked if key.relation in loop.widths else self.to_loops
                keys.setdefault(key.relation, []).append(key)
        self.grouped: dict[str, ArrangementKey] = {}
        self.of_derivations: dict[str, list[ArrangementKey]] = {}
        for grouping in planned.groupings.values():
            if grouping.of_derivations:
                self.of_derivations.setdefault(grouping.source.relation, []).append(grouping.source)

    def _keys(self, inputs: Iterable[str]) -> dict[str, list[ArrangementKey]]:
        """Return the arrangements of each relation that joins, loops and groups read."""
        planned = self.planned
        keys: dict[str, list[ArrangementKey]] = {name: [] for name in inputs}
        for name, queries in planned.queries.items():
            if name not in self.loop_of:
                for key in (key for query in queries for key in query.keys):
                    keys.setdefault(key.relation, []).append(key)
        for name, loop_keys in self.to_loops.items():
            if name not in self.loop_of or name in self.best:
                keys.setdefault(name, []).extend(() if self.execution.weighted else loop_keys)
        for name, grouping in planned.groupings.items():
            if not grouping.of_derivations:
                source_keys = keys.setdefault(grouping.source.relation, [])
                self.grouped[name] = source_key(grouping, source_keys)
                source_keys.append(self.grouped[name])
            keys[name] = [ArrangementKey(name, grouping.order), *keys.get(name, [])]
        plans: tuple[Mapping[str, FirstRowsPlan | ComputedGroupsPlan], ...]
        plans = planned.first_rows, planned.computed_groups
        for name, plan in (item for plans_of_kind in plans for item in plans_of_kind.items()):
            keys.setdefault(plan.source.relation, []).append(plan.source)
            keys[name] = [ArrangementKey(name, plan.head), *keys.get(name, [])]
        return keys

    def _index(
        self,
        name: str,
        keys: Sequence[ArrangementKey],
        arrange: Callable[[ArrangementKey], Arrangement] | None = None,
    ) -> RelationIndex:
        execution, width = self.execution, self.planned.shapes[name].width
        return RelationIndex(name, width, keys, execution.backend, self.policy, execution.threads, arrange)

    def add_relations(self, inputs: Iterable[str], keep: Iterable[str]) -> None:
        """Add the indices of all relations that are stored."""
        execution, keys = self.execution, self._keys(inputs)
        backend, threads, policy = execution.backend, execution.threads, self.policy
        arrange = None
        if execution.single_tick:
            arrange = partial(UnsortedArrangement, backend=backend, weighted=execution.weighted)
        for name in dict.fromkeys([*keys, *keep, *self.loop_of]):
            width, own_keys, ranked = self.planned.shapes[name].width, keys.get(name, []), self.ranked.get(name, [])
            if name not in self.loop_of:
                self.relations[name] = self._index(name, own_keys, arrange)
            elif name in self.best:
                order = self.loop_of[name].order(name)
                self.relations[name] = self._index(name, own_keys)
                self.histories[name] = RankedIndex(name, width, ranked, (), (), backend, policy, threads, order)
            else:
                shared_keys = self.to_loops.get(name, ())
                index = RankedIndex(name, width, ranked, own_keys, shared_keys, backend, policy, threads)
                self.relations[name] = index

    def add_head(self, name: str) -> None:
        """Add the operator of a head, or those of its whole recursion."""
        planned, execution, relations = self.planned, self.execution, self.relations
        width = planned.shapes[name].width
        if name in self.loop_of:
            if name not in self.heads:
                self._add_loop(self.loop_of[name])
        elif name in planned.groupings:
            grouping = planned.groupings[name]
            totals = self._index(name, [ArrangementKey(name, grouping.order)]) if grouping.has_totals else None
            if grouping.of_derivations:
                derivations = self.heads[grouping.source.relation].derivations
                assert derivations is not None
                source = derivations.read(grouping.source)
            else:
                source = relations[grouping.source.relation].read(self.grouped[name])
            self.heads[name] = GroupingHead(name, width, grouping, source, totals, relations[name], execution)
        elif name in planned.first_rows:
            first = planned.first_rows[name]
            window = self._index(name, [ArrangementKey(name, first.head)])
            source = relations[first.source.relation].read(first.source)
            self.heads[name] = FirstRowsHead(name, width, first, source, window, relations[name], execution)
        elif name in planned.computed_groups:
            groups = planned.computed_groups[name]
            source = relations[groups.source.relation].read(groups.source)
            self.heads[name] = ComputedGroupsHead(name, width, groups, source, relations[name], execution)
        else:
            self._add_joins(name, width)

    def _add_loop(self, loop: LoopPlan) -> None:
        execution, seen = self.execution, dict(self.relations)
        for outer in dict.fromkeys(key.relation for key in loop.keys):
            is_outside = outer not in loop.widths and (outer not in self.loop_of or outer in self.best)
            if not (is_outside and execution.weighted):
                continue
            name = f"{outer}#set"
            if name not in self.heads:
                self.heads[name] = PositiveHead(name, self.relations[outer], self._index(outer, self.to_loops[outer]))
            (seen[outer],) = self.heads[name].state
        self.heads.update({head.name: head for head in lower_loop(loop, seen, self.histories, execution)})

    def _add_joins(self, name: str, width: int) -> None:
        planned, execution, relations = self.planned, self.execution, self.relations
        joins: list[IncrementalGenericJoin] = []
        for query in planned.queries[name]:
            arrangements = {key: relations[key.relation].read(key) for key in query.keys}
            joins.append(IncrementalGenericJoin(query, arrangements, execution))
            if query.continuations:
                if self.beginnings is None:
                    self.beginnings = CommonPrefixes(
                        execution, lambda key: relations[key.relation].read(key), self.outputs
                    )
                joins[-1].prefix_users = self.beginnings.users(name, joins[-1])
        counts = None
        if name in planned.counted:
            arrange = None
            if execution.single_tick:
                arrange = partial(UnsortedArrangement, backend=execution.backend, weighted=True)
                for seeds in (join.arrangements[path.seed.key] for join in joins for path in join.query.all_paths):
                    if isinstance(seeds, UnsortedArrangement):
                        seeds.starts_distinct = True
            counts = self._index(name, self.of_derivations.get(name, ()), arrange)
        if name in self.auxiliaries:
            joined = [relations[relation] for relation in self.auxiliaries[name].relations]
            head: Head = AuxiliaryHead(name, width, joins, counts, relations[name], execution, inputs=joined)
        else:
            head = Head(name, width, joins, counts, relations.get(name), execution, name in self.outputs)
        self.heads[name] = head
        if self.beginnings is not None and head.state:
            self.beginnings.stored.add(name)


# Plans of aggregating heads, over stored columns.


def grouping_plan(
    grouping: Grouping, shapes: Mapping[str, Shape], aliases: Mapping[str, Alias], encode: Encode, kinds: Kinds
) -> GroupingPlan:
    """Return the grouping over an arrangement of its source: group, value, other columns.

    Nulls are equal to each other in a group; rows whose value is null are not there.

    Examples
    --------
    >>> from gpu_wcoj.planner.body import INTEGERS
    >>> shapes = {"paid": Shape("paid", (False, True, False)), "total": Shape("total", (False, False))}
    >>> one = Grouping("total", "paid", 1, "sum")
    >>> print(grouping_plan(one, shapes, {}, lambda relation, column, value: int(value), INTEGERS).source)
    paid[0, 1, 2 | 3 = 0]
    """
    source, head = shapes[grouping.source], shapes[grouping.relation]
    keys = range(grouping.keys)
    value = None if grouping.op == "count" else grouping.keys
    flags = [flag for column in keys if (flag := source.flag(column)) is not None]
    no_value = None if value is None else source.flag(value)
    columns = [*keys, *flags, *([] if value is None else [value])]
    columns += [column for column in range(source.width) if column not in (*columns, no_value)]
    constants = () if no_value is None else ((no_value, 0),)
    names = tuple(f"#{column}" for column in columns)
    atom = through_aliases(BodyAtom(grouping.source, tuple(columns), names, constants), aliases, shapes, encode, kinds)
    n_group = len(keys) + len(flags)
    of_head = [flag for column in keys if (flag := head.flag(column)) is not None]
    assert len(of_head) == len(flags), "keys of a source and of its grouping have nulls alike"
    kind = None if value is None else kinds.column(grouping.source, value)
    return GroupingPlan(
        grouping.op,
        ArrangementKey(atom.relation, atom.columns, atom.constants, atom.equal, atom.compared),
        atom.columns[:n_group],
        None if value is None else atom.columns[n_group],
        (*keys, *of_head),
        grouping.keys,
        "integer" if kind is None else kind.dictionary or kind.family,
        *_scales(kind, kinds.column(grouping.relation, grouping.keys)),
        is_weighted=grouping.is_weighted,
        of_derivations=grouping.of_derivations,
    )


def first_rows_plan(
    first: FirstRows, shapes: Mapping[str, Shape], aliases: Mapping[str, Alias], encode: Encode, kinds: Kinds
) -> FirstRowsPlan:
    """Return the first rows over an arrangement of their source: groups, then the other columns.

    A null of a column that is sorted by is a flag before the values; all other columns decide between rows that agree.

    Examples
    --------
    >>> from gpu_wcoj.planner.body import INTEGERS
    >>> from gpu_wcoj.query.ir import SortKey
    >>> shapes = {"paid": Shape("paid", (False, True)), "first": Shape("first", (False, True))}
    >>> one = FirstRows("first", "paid", (SortKey(1, is_descending=True),), 3)
    >>> made = first_rows_plan(one, shapes, {}, lambda relation, column, value: int(value), INTEGERS)
    >>> print(made.source, [(key.level, key.is_descending) for key in made.order])
    paid[0, 1, 2] [(2, False), (1, True), (0, False)]
    """
    source = shapes[first.source]
    flags = {column: source.flag(column) for column in range(len(source.nullable))}
    group = [*first.groups, *(flag for column in first.groups if (flag := flags[column]) is not None)]
    columns = [*group, *(column for column in range(source.width) if column not in group)]
    atom = through_aliases(
        BodyAtom(first.source, tuple(columns), tuple(f"#{column}" for column in columns), ()),
        aliases, shapes, encode, kinds,
    )  # fmt: skip
    rest = [SortKey(column) for column in range(len(source.nullable))]
    order: dict[int, SortedLevel] = {}
    for key in (*first.keys, *rest):
        flag, kind = flags[key.column], kinds.column(first.source, key.column)
        if flag is not None:
            order.setdefault(flag, SortedLevel(columns.index(flag), key.nulls_first))
        family = "" if kind is None else kind.dictionary
        order.setdefault(key.column, SortedLevel(columns.index(key.column), key.is_descending, family))
    return FirstRowsPlan(
        ArrangementKey(atom.relation, atom.columns, atom.constants, atom.equal, atom.compared),
        len(group),
        tuple(columns),
        tuple(level for column, level in order.items() if column not in group),
        first.limit,
        first.offset,
    )


def computed_groups_plan(
    groups: ComputedGroups, shapes: Mapping[str, Shape], aliases: Mapping[str, Alias], encode: Encode, kinds: Kinds
) -> ComputedGroupsPlan:
    """Return the groups over an arrangement of their source: group, then the other columns."""
    source, head = shapes[groups.source], shapes[groups.relation]
    n_columns = len(source.nullable)
    group = [*range(groups.keys), *(flag for i in range(groups.keys) if (flag := source.flag(i)) is not None)]
    columns = [*group, *(column for column in range(source.width) if column not in group)]
    atom = through_aliases(
        BodyAtom(groups.source, tuple(columns), tuple(f"#{column}" for column in columns), ()),
        aliases, shapes, encode, kinds,
    )  # fmt: skip
    of_head = [*range(groups.keys), *(flag for i in range(groups.keys) if (flag := head.flag(i)) is not None)]
    of_types = tuple(
        kinds.column(groups.source, column) or DataType(groups.kinds[column]) for column in range(n_columns)
    )
    assert kinds.bind_groups is not None
    results = range(groups.n_passed, len(head.nullable))
    return ComputedGroupsPlan(
        ArrangementKey(atom.relation, atom.columns, atom.constants, atom.equal, atom.compared),
        len(group),
        (*of_head, *(column for column in range(head.width) if column not in of_head)),
        tuple(
            SourceColumn(columns.index(column), None if (flag := source.flag(column)) is None else columns.index(flag))
            for column in range(n_columns)
        ),
        tuple((column, head.flag(column)) for column in range(groups.n_passed)),
        tuple((column, flag) for column in results if (flag := head.flag(column)) is not None),
        kinds.bind_groups(
            groups.functions, of_types, tuple(kinds.column(groups.relation, column) for column in results)
        ),
    )


def _scales(value: DataType | None, result: DataType | None) -> tuple[int, int, int]:
    """Return the decimal scale of values, the factor to the result's scale, and the largest sum."""
    if value is None or value.family != "decimal":
        return 0, 1, 0
    if result is None or result.family != "decimal":
        return value.digits[1], 1, 0
    finer = value.factor_to(result)
    return value.digits[1], finer, result.code_range[1] // finer


def source_key(planned: GroupingPlan, needed: Sequence[ArrangementKey]) -> ArrangementKey:
    """Return the arrangement to read: one that is needed anyway, if any order will do."""
    if planned.is_extreme:
        return planned.source
    return next((key for key in needed if key.selection == planned.source.selection), planned.source)


# Plans of a single rule: all delta paths of a body, or one of them.


def delta_query(
    body: Body, catalog: CatalogReader = EMPTY_CATALOG, strategy: Strategy = "auto", bag: bool = True
) -> DeltaQuery:
    """Return one delta path per atom of a body, negated ones first.

    Parameters
    ----------
    bag
        If True, every atom counts, also an atom that another atom implies.
    """
    setting = Setting({}, _no_constants, bag=bag, known=catalog, strategy=strategy)
    draft = Draft(setting, (RuleDraft(body.rule.head.relation, body.rule, body),))
    passes = tuple(
        planner_pass for planner_pass in PASSES if planner_pass not in (normalise_rules, push_down_predicates)
    )  # these may drop the rule
    query = run_passes(draft, passes).rules[0].query
    assert query is not None
    return query


def path_from(
    body: Body,
    seed: int,
    catalog: CatalogReader = EMPTY_CATALOG,
    existing: Collection[ArrangementKey] = (),
    strategy: Strategy = "auto",
    hint: Sequence[str] = (),
) -> DeltaPath:
    """Return the path that starts with the rows of atom `seed`, maybe a separate relation.

    Of the orders that begin with a variable that as many atoms reach, the result needs the fewest arrangements beyond
    those in `existing`; with a `hint`, it begins with the variables of the hint.
    """
    orders = Chooser(body, seed, catalog, strategy).choose(hint)
    paths = [with_lookups(path_along(body, order), order) for order in orders]
    candidates = [with_checks(body, path, arrangements_of([path]) if body.negated else None) for path in paths]
    return with_sorting(min(candidates, key=lambda one: len(set(one.keys).difference(existing))))


def _no_constants(relation: str, column: int, value: object) -> int:
    raise AssertionError(f"a body is encoded: {relation}, {column}, {value!r}")


# Plan recursive heads: each rule for an empty loop, for changes, and for derivations.


ROW_NUMBER = "#row"
"""Variable that numbers the rows whose derivations are looked up."""


def loop_plan(
    bodies: Mapping[str, Sequence[tuple[Body, DeltaQuery]]],
    widths: Mapping[str, int],
    cycle: Sequence[str],
    setting: Setting,
    best: Mapping[str, Best],
    size_limits: Mapping[str, int],
) -> LoopPlan:
    """Plan a loop.

    Parameters
    ----------
    bodies
        Per head of the loop, its rules that can derive something, and the queries over rows without ranks.
    widths
        Per head, its number of stored columns.
    cycle
        A cycle of heads, from one head back to itself.
    setting
        Strategy, hints and statistics.
    best
        The heads that keep best values.
    size_limits
        Per head, the number of rows at which the loop ends.
    """
    existing = {key for rules_of in bodies.values() for _, query in rules_of for key in query.keys}
    rules = []
    for head, head_rules in bodies.items():
        for rule_index, (body, query) in enumerate(head_rules):
            asking = derivation_query(head, body, setting, existing, best.get(head))
            existing.update(asking.paths[0].keys)
            rules.append(LoopRule.from_queries(head, rule_index, query, asking, widths))
    return LoopPlan(dict(widths), tuple(rules), tuple(cycle), dict(best), dict(size_limits))


def lower_loop(
    planned: LoopPlan,
    relations: Mapping[str, RelationIndex],
    histories: Mapping[str, RankedIndex],
    execution: Execution,
) -> Iterator[LoopHead]:
    """Return the heads of a loop over the relations' indices.

    `histories` are the indices of heads that keep best values.
    """
    from gpu_wcoj.circuit.recursion.loop import Loop, loop_heads

    ranked: dict[str, RankedIndex] = {}
    best: dict[str, RelationIndex] = {}
    for name in planned.widths:
        index = relations[name]
        if name in histories:
            ranked[name], best[name] = histories[name], index
        else:
            assert isinstance(index, RankedIndex)
            ranked[name] = index
    outside: dict[ArrangementKey, Arrangement] = {}
    for key in (key for key in planned.keys if key.relation not in ranked):
        outside[key] = relations[key.relation].read_by_loop(key)
    return loop_heads(Loop(planned, ranked, best, outside, execution))


def derivation_query(
    head: str,
    body: Body,
    setting: Setting,
    existing: Collection[ArrangementKey],
    best: Best | None = None,
) -> DeltaQuery:
    """Return the query from numbered rows of the head to their derivations by the rule.

    Ranks are left out. If the head keeps best values, the query goes from numbered groups to (number, value).
    `existing` are existing arrangements.
    """
    output: tuple[str | int, ...] = (ROW_NUMBER,)
    terms = list(body.head)
    if best is not None:
        output = (ROW_NUMBER, terms.pop(best.value))
    columns: list[int] = []
    variables: list[str] = []
    constants: list[tuple[int, int]] = []
    equal: list[tuple[int, int]] = []
    for column, term in enumerate(terms):
        if not isinstance(term, str):
            constants.append((column, term))
        elif term in variables:
            equal.append((columns[variables.index(term)], column))
        else:
            columns.append(column)
            variables.append(term)
    seed = BodyAtom(f"{head}#asked", (*columns, len(terms)), (*variables, ROW_NUMBER), tuple(constants), tuple(equal))
    bound = replace(body, head=output, atoms=(seed, *body.atoms))
    hint = standing_for(setting.hints.get(head, ()), body.rule)
    path = path_from(bound, 0, setting.known, existing, setting.strategy, hint)
    return DeltaQuery(str(body.rule), output, (path,), body.calculations)
