"""Exchanges of rows between partitions that a rule needs, by its join graph and lookups.

If no lookup of any path needs an exchange, the rows of all atoms can be partitioned by the hash of the same variables,
and rows that join are in the same partition. Otherwise some prefixes have to be exchanged, by the variables of
`Exchanges.moved`, or rows have to be copied to every partition that may need them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from gpu_wcoj.planner.delta_lookups import Costs, solve
from gpu_wcoj.planner.joingraph import Column, Edge, Filter, JoinGraph, Table
from gpu_wcoj.planner.lookups import Arranged, Lookup, LookupPlan
from gpu_wcoj.query.ir import MIRRORED, Comparison, Constant, Variable
from gpu_wcoj.query.rules import Rule

SENT = Costs(lookup=0.0, found=0.0, exchanged=1.0, maintained=0.0)
"""Costs that count only prefixes that travel; ties prefer existing arrangements."""


def graph_of(rule: Rule, rows: Mapping[str, float] | None = None) -> JoinGraph:
    """Return the join graph of a rule's positive atoms, with tables named by number and text.

    Parameters
    ----------
    rows
        Known rows of relations.

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
    rows_of = rows or {}
    tables, edges, filters = [], [], []
    first: dict[str, Column] = {}
    for atom_number, atom in enumerate(rule.atoms, 1):
        table = Table(f"{atom_number}: {atom}", len(atom.terms), atom.relation, rows_of.get(atom.relation))
        tables.append(table)
        for column, term in enumerate(atom.terms):
            if isinstance(term, Variable):
                first_column = first.setdefault(term.name, (table.name, column))
                if first_column != (table.name, column):
                    edges.append(Edge(first_column[0], table.name, (first_column[1],), (column,)))
            elif isinstance(term, Constant):
                filters.append(Filter((table.name, column), "=", term.value))
    for comparison in rule.comparisons:
        compared = _filter(comparison, first)
        if compared is not None:
            filters.append(compared)
    return JoinGraph(tuple(tables), tuple(edges), tuple(filters))


def _filter(comparison: Comparison, first: Mapping[str, Column]) -> Filter | None:
    """Return the comparison of columns; None if it compares calculations or only constants."""
    op, left, right = comparison.op, comparison.left, comparison.right
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
    """Lookups of a rule, with the partitions that rows are in.

    Attributes
    ----------
    rule
        Rule of positive atoms and comparisons.
    graph, plan
        Its join graph, and its plan of lookups.
    """

    rule: Rule
    graph: JoinGraph
    plan: LookupPlan

    @classmethod
    def plan_rule(
        cls,
        rule: Rule,
        rows: Mapping[str, float] | None = None,
        existing: Sequence[Arranged] = (),
        costs: Costs = SENT,
    ) -> Exchanges:
        """Plan the lookups of a rule; unconnected atoms are combined by a cross product.

        Parameters
        ----------
        rows
            Known rows of relations.
        existing
            Existing arrangements, for example of other rules, whose rows need not be sent again.

        Examples
        --------
        >>> from gpu_wcoj.query.datalog import parse
        >>> star = Exchanges.plan_rule(parse("s(a, b, c) :- e(a, b), f(a, c), g(a).").rules[0])
        >>> star.shared, star.moved
        (('a',), ())
        >>> path = Exchanges.plan_rule(parse("p(a, d) :- e(a, b), e(b, c), e(c, d).").rules[0])
        >>> path.shared, path.moved
        ((), (('c',), ('b',)))
        """
        graph = graph_of(rule, rows)
        read = {table.source for table in graph.tables}
        there = [arrangement for arrangement in existing if arrangement.relation in read]
        plan = solve(graph.tables, graph.edges, filters=graph.filters, existing=there, cross="allow", costs=costs)
        return cls(rule, graph, plan)

    @property
    def shared(self) -> tuple[str, ...]:
        """Variables to partition all atoms by so that no lookup needs an exchange; else none.

        If the head keeps some of these variables, only those: then derived rows need no exchange either.
        """
        if any(path.exchanges for path in self.plan.paths):
            return ()
        used = [self._by(lookup) for path in self.plan.paths for lookup in path.lookups]
        first = used[0] if used else tuple(variable.name for variable in self.rule.variables)
        common = tuple(name for name in first if all(name in names for names in used))
        head_names = {variable.name for variable in self.rule.head.variables}
        return tuple(name for name in common if name in head_names) or common

    @cached_property
    def moved(self) -> tuple[tuple[str, ...], ...]:
        """Variables by which prefixes are exchanged, each tuple once, in the order of the paths."""
        lookups = (lookup for path in self.plan.paths for lookup in path.lookups)
        return tuple(dict.fromkeys(self._by(lookup) for lookup in lookups if lookup.exchange is not None))

    @property
    def crosses(self) -> bool:
        """True if atoms form a cross product, so that every partition needs all rows of one atom."""
        return any(not arrangement.by for arrangement in self.plan.arrangements)

    @property
    def joined(self) -> tuple[str, ...]:
        """Variables that several atoms have, in order of first occurrence."""
        variables_of = [atom.variables for atom in self.rule.atoms]
        return tuple(
            variable.name for variable in self.rule.variables if sum(variable in names for names in variables_of) > 1
        )

    def _by(self, lookup: Lookup) -> tuple[str, ...]:
        """Return the variables that partition the rows that a lookup reads."""
        atom = self.rule.atoms[[table.name for table in self.graph.tables].index(lookup.table)]
        terms = [atom.terms[column] for column in lookup.arrangement.by]
        return tuple(dict.fromkeys(term.name for term in terms if isinstance(term, Variable)))
