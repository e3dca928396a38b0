"""Lower rules to a circuit: strata in order, aliases resolved, shared arrangements."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from gpu_wcoj.circuit.circuit import Circuit, Derived
from gpu_wcoj.circuit.head import Head
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.join.index import RelationIndex
from gpu_wcoj.join.path import DeltaPath, DeltaQuery
from gpu_wcoj.planner.body import Alias, Body, Encode, Shape
from gpu_wcoj.planner.calculations import INTEGERS, Kinds
from gpu_wcoj.planner.draft import NOTHING, Draft, KnownRelations, RuleDraft, Setting, Strategy
from gpu_wcoj.planner.expected import Expected
from gpu_wcoj.query.rules import Rules
from gpu_wcoj.query.strata import components, cycle
from gpu_wcoj.query.stratified import loops_of
from gpu_wcoj.trace.arrangement import ArrangementKey
from gpu_wcoj.trace.spine import MergePolicy

if TYPE_CHECKING:
    from gpu_wcoj.circuit.groups import GroupingPlan
    from gpu_wcoj.circuit.recursion.ranked import RankedIndex
    from gpu_wcoj.circuit.recursion.rules import LoopPlan
    from gpu_wcoj.join.begun import Beginnings
    from gpu_wcoj.join.common import CommonJoin
    from gpu_wcoj.planner.auxiliary import Auxiliary

Place = tuple[str, int, int]
"""Address of a delta path: head, index of the rule, index of the path."""

ASKED = -2
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
    """

    shapes: Mapping[str, Shape]
    order: tuple[str, ...]
    queries: Mapping[str, tuple[DeltaQuery, ...]]
    aliases: Mapping[str, Alias]
    counted: frozenset[str]
    loops: tuple[LoopPlan, ...] = ()
    groupings: Mapping[str, GroupingPlan] = field(default_factory=dict)
    strategy: Strategy = "auto"
    estimates: Mapping[str, tuple[tuple[tuple[Expected, ...], ...], ...]] = field(default_factory=dict)
    candidates: int = 0
    asked: Mapping[str, tuple[tuple[Expected, ...], ...]] = field(default_factory=dict)
    auxiliaries: tuple[Auxiliary, ...] = ()

    def path(self, place: Place) -> DeltaPath:
        """Return a delta path, or a derivation path of a loop without ranks."""
        head, rule, number = place
        if number != ASKED:
            return self.queries[head][rule].paths[number]
        rules = (one for loop in self.loops for one in loop.rules)
        return next(one.asking.paths[0] for one in rules if (one.head, one.number) == (head, rule))

    def places(self) -> list[Place]:
        """Return the addresses of all paths."""
        found = [
            (head, rule, number)
            for head, own in self.queries.items()
            for rule, query in enumerate(own)
            for number in range(len(query.paths))
        ]
        return found + [(one.head, one.number, ASKED) for loop in self.loops for one in loop.rules]

    def expecting(self, known: KnownRelations) -> Plan:
        """Return this plan with estimates by other statistics."""
        estimates = {
            name: tuple(tuple(_estimate(path, known) for path in one.paths) for one in own)
            for name, own in self.queries.items()
        }
        return replace(self, estimates=estimates, asked=_asked(self.loops, known))

    def taking_the_cheapest(self) -> Plan:
        """Return this plan with the cheapest path of each orbit of automorphic atoms."""
        queries = {
            name: tuple(_taking(one, path) for one, path in zip(own, self.estimates[name], strict=True))
            for name, own in self.queries.items()
        }
        return replace(self, queries=queries)


def plan(
    rules: Rules,
    shapes: Mapping[str, Shape],
    encode: Encode,
    bag: bool,
    kinds: Kinds = INTEGERS,
    known: KnownRelations = NOTHING,
    strategy: Strategy = "auto",
    hints: Mapping[str, Sequence[str]] = MappingProxyType({}),
    auxiliaries: Collection[Auxiliary] | None = None,
) -> Plan:
    """Plan every rule; see `gpu_wcoj.planner.passes`.

    Parameters
    ----------
    auxiliaries
        Existing auxiliary relations; None to use none.
    """
    from gpu_wcoj.planner.passes import through_passes  # not needed to import the package

    extremes = {one.relation: one for one in rules.extremes}
    best = {name: one.column for name, one in extremes.items()}
    recursive = frozenset(loops_of(rules)) if bag else frozenset[str]()
    setting = Setting(
        shapes, encode, kinds, bag, strategy, _with_helpers(hints, rules), known, best, recursive, auxiliaries
    )
    draft = through_passes(Draft(setting, tuple(RuleDraft(rule.head.relation, rule) for rule in rules.rules)))
    shapes, known = draft.setting.shapes, draft.setting.known
    derived = {rule.head.relation for rule in rules.rules}
    names = [*(one.name for one in draft.auxiliaries), *(name for name in rules.heads if name in derived)]
    bodies: dict[str, list[Body]] = {name: [] for name in names}
    queries: dict[str, tuple[DeltaQuery, ...]] = dict.fromkeys(names, ())
    estimates: dict[str, tuple[tuple[tuple[Expected, ...], ...], ...]] = dict.fromkeys(names, ())
    for one in draft.rules:
        assert one.query is not None
        bodies[one.head].append(one.normalised)
        queries[one.head] = (*queries[one.head], one.query)
        expected = tuple(() if path is None else path.levels for path in one.foreseen)
        estimates[one.head] = (*estimates[one.head], expected)
    aliases = draft.aliases
    reads = {
        name: list(dict.fromkeys(atom.relation for body in own for atom in (*body.atoms, *body.negated)))
        for name, own in bodies.items()
    }
    groupings: dict[str, GroupingPlan] = {}
    if rules.groupings:
        from gpu_wcoj.planner.groupings import grouping_plan  # only for programs with aggregates

        groupings = {one.relation: grouping_plan(one, shapes, aliases, encode, kinds) for one in rules.groupings}
    reads.update({name: [one.source.relation] for name, one in groupings.items()})
    order: list[str] = []
    loops: list[LoopPlan] = []
    counted = set()
    for members in components(reads):
        order.extend(members)
        first = members[0]
        if len(members) > 1 or first in reads[first] or first in extremes or (first in recursive and bodies.get(first)):
            from gpu_wcoj.circuit.recursion.rules import Best
            from gpu_wcoj.planner.loops import loop_plan

            planned = {name: list(zip(bodies[name], queries[name], strict=True)) for name in members}
            widths = {name: shapes[name].width for name in members}
            kept = {
                name: Best(
                    extremes[name].column, extremes[name].op == "max", shapes[name].family(extremes[name].column)
                )
                for name in members
                if name in extremes
            }
            loops.append(loop_plan(planned, widths, cycle(first, members, reads), draft.setting, kept))
            continue
        live = bodies.get(first, [])  # an aggregating head has none
        if not bag and not (len(live) <= 1 and all(body.keeps_all for body in live)):
            counted.add(first)
    return Plan(
        dict(shapes), tuple(order), queries, aliases, frozenset(counted), tuple(loops), groupings, strategy,
        estimates, draft.candidates, _asked(loops, known), draft.auxiliaries,
    ).taking_the_cheapest()  # fmt: skip


def _with_helpers(hints: Mapping[str, Sequence[str]], rules: Rules) -> dict[str, Sequence[str]]:
    """Return the hints, extended to the helper relations that hold one of the variables."""
    found = dict(hints)
    if not found:
        return found
    reads: dict[str, list[str]] = {}
    held: dict[str, set[str]] = {}
    for rule in rules.rules:
        reads.setdefault(rule.head.relation, []).extend(atom.relation for atom in (*rule.atoms, *rule.negated))
        held.setdefault(rule.head.relation, set()).update(one.name for atom in rule.atoms for one in atom.variables)
    for one in rules.groupings:
        reads.setdefault(one.relation, []).append(one.source)
    for head, names in hints.items():
        seen, waiting = {head}, list(reads.get(head, ()))
        while waiting:
            name = waiting.pop()
            if name in seen or "#" not in name:
                continue
            seen.add(name)
            waiting += reads.get(name, ())
            if not held.get(name, set()).isdisjoint(names):
                found.setdefault(name, names)
    return found


def _demands(rules: Rules, heads: Mapping[str, Derived]) -> tuple[dict[str, str], ...]:
    """Return the heads of keys and their inputs, grouped by mutual dependence, in order."""
    if not rules.demands:
        return ()
    reads = {name: [*head.reads] for name, head in heads.items()}
    reads |= {demand: [name] for name, demand in rules.demands.items()}
    groups = ({one: demand for one, demand in rules.demands.items() if demand in own} for own in components(reads))
    return tuple(group for group in groups if group)


def _taking(query: DeltaQuery, expected: Sequence[Sequence[Expected]]) -> DeltaQuery:
    if query.symmetry is None:
        return query
    cost = [sum(level.proposed for level in own[1:]) for own in expected]
    taken = tuple(min(orbit, key=cost.__getitem__) for orbit in query.symmetry.orbits)
    return replace(query, symmetry=replace(query.symmetry, taken=taken))


def _asked(loops: Sequence[LoopPlan], known: KnownRelations) -> dict[str, tuple[tuple[Expected, ...], ...]]:
    """Return the estimates of the derivation paths of loops; see `Plan.asked`."""
    found: dict[str, tuple[tuple[Expected, ...], ...]] = {}
    for one in (one for loop in loops for one in loop.rules):
        found[one.head] = (*found.get(one.head, ()), _estimate(one.asking.paths[0], known))
    return found


def _estimate(path: DeltaPath, known: KnownRelations) -> tuple[Expected, ...]:
    from gpu_wcoj.planner.costs import foreseen

    found = foreseen(path, known)
    return () if found is None else found.levels


def lower(
    planned: Plan,
    rules: Rules,
    keep: Sequence[str],
    outputs: Sequence[str],
    execution: Execution,
    policy: MergePolicy | None,
) -> Circuit:
    """Return the circuit of a plan, with an empty state."""
    backend, threads = execution.backend, execution.threads
    loop_of = {name: loop for loop in planned.loops for name in loop.widths}
    inputs = (*rules.inputs, *rules.demands.values())
    keys: dict[str, list[ArrangementKey]] = {name: [] for name in inputs}
    best = {name for loop in planned.loops for name in loop.best}
    ranked: dict[str, list[ArrangementKey]] = {name: [] for name in loop_of}
    to_loops: dict[str, list[ArrangementKey]] = {}
    for name, queries in planned.queries.items():
        if name not in loop_of:
            for key in (key for query in queries for key in query.keys):
                keys.setdefault(key.relation, []).append(key)
    for loop in planned.loops:
        for key in loop.keys:
            (ranked if key.relation in loop.widths else to_loops).setdefault(key.relation, []).append(key)
    for name, wanted in to_loops.items():
        if name not in loop_of or name in best:
            keys.setdefault(name, []).extend(() if execution.weighted else wanted)
    grouped: dict[str, ArrangementKey] = {}
    for name, grouping in planned.groupings.items():
        from gpu_wcoj.planner.groupings import source_key

        wanted = keys.setdefault(grouping.source.relation, [])
        grouped[name] = source_key(grouping, wanted)
        wanted.append(grouped[name])
        keys[name] = [ArrangementKey(name, grouping.order), *keys.get(name, [])]
    relations: dict[str, RelationIndex] = {}
    histories: dict[str, RankedIndex] = {}
    for name in dict.fromkeys([*keys, *keep, *loop_of]):
        width, wanted = planned.shapes[name].width, keys.get(name, [])
        if name not in loop_of:
            relations[name] = RelationIndex(name, width, wanted, backend, policy, threads)
            continue
        from gpu_wcoj.circuit.recursion.ranked import RankedIndex  # only for programs with recursion

        if name in best:
            relations[name] = RelationIndex(name, width, wanted, backend, policy, threads)
            order = loop_of[name].order(name)
            histories[name] = RankedIndex(name, width, ranked[name], (), (), backend, policy, threads, order)
        else:
            shown = to_loops.get(name, ())
            relations[name] = RankedIndex(name, width, ranked[name], wanted, shown, backend, policy, threads)
    heads: dict[str, Derived] = {}
    common: dict[tuple[object, ...], CommonJoin] = {}
    beginnings: Beginnings | None = None
    added = {one.name: one for one in planned.auxiliaries}
    for name in planned.order:
        if name in loop_of:
            if name not in heads:
                read = dict.fromkeys(key.relation for key in loop_of[name].keys)
                seen = dict(relations)
                outside = (one for one in read if one not in loop_of[name].widths)
                for other in (one for one in outside if execution.weighted and (one not in loop_of or one in best)):
                    if f"{other}#set" not in heads:
                        width = planned.shapes[other].width
                        index = RelationIndex(other, width, to_loops[other], backend, policy, threads)
                        from gpu_wcoj.circuit.positive import PositiveHead

                        heads[f"{other}#set"] = PositiveHead(f"{other}#set", relations[other], index)
                    (seen[other],) = heads[f"{other}#set"].state
                from gpu_wcoj.planner.loops import lowered_loop

                own = lowered_loop(loop_of[name], seen, histories, execution)
                heads.update({head.name: head for head in own})
            continue
        if name in planned.groupings:
            from gpu_wcoj.circuit.grouping import GroupingHead

            grouping, width = planned.groupings[name], planned.shapes[name].width
            own_keys = [ArrangementKey(name, grouping.order)]
            totals = RelationIndex(name, width, own_keys, backend, policy, threads) if grouping.has_totals else None
            source = relations[grouping.source.relation].read(grouped[name])
            heads[name] = GroupingHead(name, width, grouping, source, totals, relations[name], execution)
            continue
        joins: list[IncrementalGenericJoin] = []
        for query in planned.queries[name]:
            held = {key: relations[key.relation].read(key) for key in query.keys}
            if query.together:
                from gpu_wcoj.join.common import CommonJoin, SharedJoin  # rarely needed

                shared = common.setdefault((query.paths, query.together), CommonJoin())
                joins.append(SharedJoin(query, held, execution, common=shared))
            else:
                joins.append(IncrementalGenericJoin(query, held, execution))
            if query.begun:
                from gpu_wcoj.join.begun import Beginnings  # rarely needed

                if beginnings is None:
                    beginnings = Beginnings(
                        execution, lambda key: relations[key.relation].read(key), frozenset(outputs)
                    )
                joins[-1].begun = beginnings.users(name, joins[-1])
        width = planned.shapes[name].width
        counts = RelationIndex(name, width, (), backend, policy, threads) if name in planned.counted else None
        if name in added:
            from gpu_wcoj.circuit.auxiliary import AuxiliaryHead  # rarely needed

            joined = [relations[one] for one in added[name].relations]
            heads[name] = AuxiliaryHead(name, width, joins, counts, relations[name], execution, read=joined)
        else:
            heads[name] = Head(name, width, joins, counts, relations.get(name), execution)
        if beginnings is not None and heads[name].state:
            beginnings.stored.add(name)
    sources = {name: relations[name] for name in inputs}
    return Circuit(
        sources, heads, execution, frozenset(outputs), {}, tuple(common.values()), beginnings, _demands(rules, heads)
    )
