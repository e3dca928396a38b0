"""Where rows of a rule have to be exchanged between partitions: the rule as a join graph, and what its lookups ask for.

If no lookup of any path needs an exchange, rows of all atoms can be spread by the hash of the same variables, and
everything that joins meets in one partition. Otherwise some prefixes would have to travel, by the variables that
`Exchanges.moved` names, or rows have to be copied to where they may be met.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from gpu_wcoj.planner.joingraph import Column, Edge, Filter, JoinGraph, Table
from gpu_wcoj.planner.lookups import Arranged, Lookup, LookupPlan
from gpu_wcoj.planner.solver import Costs, solve
from gpu_wcoj.query.rules import Rule
from gpu_wcoj.query.terms import MIRRORED, Comparison, Constant, Variable

SENT = Costs(lookup=0.0, found=0.0, exchanged=1.0, maintained=0.0)
"""Costs where only prefixes that travel count; of ways that are equal then, one over arrangements that are there."""


def graph_of(rule: Rule, rows: Mapping[str, float] | None = None) -> JoinGraph:
    """The join graph of a rule's positive atoms, each a table called by its number and its text.

    Parameters
    ----------
    rows
        Of relations, where known.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> graph = graph_of(parse("t(a, c) :- e(a, b), e(b, c), a < c, f(b, 7).").rules[0])
    >>> [table.name for table in graph.tables]
    ['1: e(a, b)', '2: e(b, c)', '3: f(b, 7)']
    >>> graph.classes
    ((('1: e(a, b)', 1), ('2: e(b, c)', 0), ('3: f(b, 7)', 0)),)
    >>> print(*graph.filters, sep="; ")
    3: f(b, 7).1 = 7; 1: e(a, b).0 < 2: e(b, c).1
    """
    known = rows or {}
    tables, edges, filters = [], [], []
    first: dict[str, Column] = {}
    for number, atom in enumerate(rule.atoms, 1):
        table = Table(f"{number}: {atom}", len(atom.terms), atom.relation, known.get(atom.relation))
        tables.append(table)
        for column, term in enumerate(atom.terms):
            if isinstance(term, Variable):
                other = first.setdefault(term.name, (table.name, column))
                if other != (table.name, column):
                    edges.append(Edge(other[0], table.name, (other[1],), (column,)))
            elif isinstance(term, Constant):
                filters.append(Filter((table.name, column), "=", term.value))
    for one in rule.comparisons:
        compared = _filter(one, first)
        if compared is not None:
            filters.append(compared)
    return JoinGraph(tuple(tables), tuple(edges), tuple(filters))


def _filter(one: Comparison, first: Mapping[str, Column]) -> Filter | None:
    """The comparison of columns; None for one of what is calculated, or of constants only."""
    op, left, right = one.op, one.left, one.right
    if not isinstance(left, Variable):
        op, left, right = MIRRORED[op], right, left
    if not isinstance(left, Variable) or left.name not in first:
        return None
    if isinstance(right, Constant):
        return Filter(first[left.name], op, right.value)
    if isinstance(right, Variable) and right.name in first:
        return Filter(first[left.name], op, first[right.name])
    return None


@dataclass(frozen=True)
class Exchanges:
    """The lookups of a rule, seen from where rows are.

    Attributes
    ----------
    rule
        Of positive atoms, comparisons and a head.
    graph, plan
        Its join graph, and its lookups.
    """

    rule: Rule
    graph: JoinGraph
    plan: LookupPlan

    @classmethod
    def of(
        cls,
        rule: Rule,
        rows: Mapping[str, float] | None = None,
        existing: Sequence[Arranged] = (),
        costs: Costs = SENT,
    ) -> Exchanges:
        """Plan a rule's lookups; atoms that share nothing with the others are combined with everything.

        Parameters
        ----------
        rows
            Of relations, where known.
        existing
            Arrangements that are there, say for other rules; rows that need not be sent twice.

        Examples
        --------
        >>> from gpu_wcoj.query.datalog import parse
        >>> star = Exchanges.of(parse("s(a, b, c) :- e(a, b), f(a, c), g(a).").rules[0])
        >>> star.shared, star.moved
        (('a',), ())
        >>> path = Exchanges.of(parse("p(a, d) :- e(a, b), e(b, c), e(c, d).").rules[0])
        >>> path.shared, path.moved
        ((), (('c',), ('b',)))
        """
        graph = graph_of(rule, rows)
        read = {table.source for table in graph.tables}
        there = [one for one in existing if one.relation in read]
        plan = solve(graph.tables, graph.edges, filters=graph.filters, existing=there, cross="allow", costs=costs)
        return cls(rule, graph, plan)

    @property
    def shared(self) -> tuple[str, ...]:
        """Variables that every row of every atom can be spread by, so that no lookup needs an exchange; else none.

        Where the head keeps some of them, these: then nothing that is derived has to be exchanged either.
        """
        if any(path.exchanges for path in self.plan.paths):
            return ()
        used = [self._by(lookup) for path in self.plan.paths for lookup in path.lookups]
        first = used[0] if used else tuple(one.name for one in self.rule.variables)
        common = tuple(name for name in first if all(name in one for one in used))
        kept = {one.name for one in self.rule.head.variables}
        return tuple(name for name in common if name in kept) or common

    @cached_property
    def moved(self) -> tuple[tuple[str, ...], ...]:
        """By which variables prefixes would be exchanged, each once, in the order of the paths."""
        lookups = (lookup for path in self.plan.paths for lookup in path.lookups)
        return tuple(dict.fromkeys(self._by(lookup) for lookup in lookups if lookup.exchange is not None))

    @property
    def crosses(self) -> bool:
        """Whether atoms are combined row by row, so that all partitions would need all rows of one."""
        return any(not one.by for one in self.plan.arrangements)

    @property
    def joined(self) -> tuple[str, ...]:
        """The variables that several atoms have, in the order in which they first stand in the body."""
        held = [atom.variables for atom in self.rule.atoms]
        return tuple(one.name for one in self.rule.variables if sum(one in names for names in held) > 1)

    def _by(self, lookup: Lookup) -> tuple[str, ...]:
        """The variables by which the rows are spread that a lookup reads."""
        atom = self.rule.atoms[[table.name for table in self.graph.tables].index(lookup.table)]
        terms = [atom.terms[column] for column in lookup.arrangement.by]
        return tuple(dict.fromkeys(term.name for term in terms if isinstance(term, Variable)))
