"""Lower rules to a circuit: strata in order, renamings seen through, one set of arrangements per relation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_wcoj.circuit.circuit import Circuit
from gpu_wcoj.circuit.head import Head
from gpu_wcoj.join.delta import Execution, IncrementalGenericJoin
from gpu_wcoj.join.index import RelationIndex
from gpu_wcoj.join.path import DeltaQuery
from gpu_wcoj.planner.body import Alias, Body, Encode, Shape, alias_of, normalise
from gpu_wcoj.planner.orders import delta_query
from gpu_wcoj.query.terms import Rules
from gpu_wcoj.trace.arrangement import ArrangementKey
from gpu_wcoj.trace.spine import MergePolicy


@dataclass(frozen=True, eq=False)
class Plan:
    """What a program does on stored columns.

    Attributes
    ----------
    shapes
        Per relation, its stored columns.
    order
        The heads, each behind those that its rules read.
    queries
        Per head, one delta query per rule that can derive something.
    aliases
        Heads that only rename another relation.
    counted
        Heads whose rows may be derived more than once, in set semantics.
    """

    shapes: Mapping[str, Shape]
    order: tuple[str, ...]
    queries: Mapping[str, tuple[DeltaQuery, ...]]
    aliases: Mapping[str, Alias]
    counted: frozenset[str]


def plan(rules: Rules, shapes: Mapping[str, Shape], encode: Encode, bag: bool, sizes: Mapping[str, int]) -> Plan:
    """Plan every rule; see `normalise` and `delta_query`."""
    by_head = {name: [rule for rule in rules.rules if rule.head.relation == name] for name in rules.heads}
    aliases = {}

    def textual(relation: str, column: int) -> bool:
        return bool(shapes[relation].family(column))

    for name, own in by_head.items():
        alias = alias_of(own[0], textual) if len(own) == 1 else None
        if alias is not None:
            aliases[name] = alias
    queries: dict[str, tuple[DeltaQuery, ...]] = {}
    counted = set()
    for name, own in by_head.items():
        bodies: list[Body] = [normalise(rule, shapes, aliases, encode) for rule in own]
        live = [body for body in bodies if not body.never]
        queries[name] = tuple(delta_query(body, sizes) for body in live)
        if not bag and not (len(live) <= 1 and all(body.keeps_all for body in live)):
            counted.add(name)
    return Plan(dict(shapes), _sorted_heads(by_head), queries, aliases, frozenset(counted))


def _sorted_heads(by_head: Mapping[str, Sequence[object]]) -> tuple[str, ...]:
    """Heads in an order in which each stands behind those that its rules read."""
    from gpu_wcoj.query.terms import Rule

    done: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in done:
            return
        for rule in by_head[name]:
            assert isinstance(rule, Rule)
            for atom in rule.atoms:
                if atom.relation in by_head:
                    visit(atom.relation)
        done[name] = None

    for name in by_head:
        visit(name)
    return tuple(done)


def lower(
    planned: Plan,
    inputs: Sequence[str],
    keep: Sequence[str],
    outputs: Sequence[str],
    execution: Execution,
    policy: MergePolicy | None,
) -> Circuit:
    """The circuit of a plan, its state empty."""
    keys: dict[str, list[ArrangementKey]] = {name: [] for name in inputs}
    for queries in planned.queries.values():
        for query in queries:
            for key in query.keys:
                keys.setdefault(key.relation, []).append(key)
    backend = execution.backend
    relations = {
        name: RelationIndex(name, planned.shapes[name].width, wanted, backend, policy, execution.threads)
        for name, wanted in {**keys, **{name: keys.get(name, []) for name in keep}}.items()
    }
    heads = {}
    for name in planned.order:
        joins = []
        for query in planned.queries[name]:
            held = {key: relations[key.relation].arrangements[key] for key in query.keys}
            joins.append(IncrementalGenericJoin(query, held, execution))
        width = planned.shapes[name].width
        counts = RelationIndex(name, width, (), backend, policy, execution.threads) if name in planned.counted else None
        heads[name] = Head(name, width, joins, counts, relations.get(name), execution)
    return Circuit({name: relations[name] for name in inputs}, heads, execution, frozenset(outputs))
