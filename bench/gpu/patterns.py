"""The patterns as rules: those of `bench.engine.queries`, and two paths, which a binary join is made for.

They are built, not parsed: the machine need not have a parser.
"""

from __future__ import annotations

from bench.engine.queries import CLIQUE, CYCLE, DIAMOND, TRIANGLE, E, Query, S
from gpu_wcoj.query.ir import Atom, Comparison, Rule, Rules, Variable

ORIENTED = Query("triangle", (), (("edge", "ab"), ("edge", "bc"), ("edge", "ac")))
"""Triangles of edges that come as (smaller, larger): nothing is selected, so the state is the edges in two orders."""
PATH2 = Query("path2", (E,), (("e", "ab"), ("e", "bc")))
PATH3 = Query("path3", (E,), (("e", "ab"), ("e", "bc"), ("e", "cd")))
ACYCLIC = (PATH2, PATH3)
PATTERNS = {query.name: query for query in (TRIANGLE, CLIQUE, DIAMOND, CYCLE, PATH2, PATH3)}


def rules_of(query: Query) -> Rules:
    """What parsing ``query.text`` gives.

    Examples
    --------
    >>> print(rules_of(PATH2))
    e(a, b) :- edge(a, b), a < b.
    path2(a, b, c) :- e(a, b), e(b, c).
    .output path2
    """
    head = _atom(query.name, "".join(query.variables))
    body = tuple(_atom(relation, variables) for relation, variables in query.atoms)
    main = Rule(head, body, tuple(_less(left, right) for left, right in query.comparisons))
    derived = tuple(rule for text in query.derived for rule in _DERIVED[text])
    return Rules((*derived, main), (), (query.name,), query.text)


def _atom(relation: str, variables: str) -> Atom:
    return Atom(relation, tuple(map(Variable, variables)))


def _less(left: str, right: str) -> Comparison:
    return Comparison("<", Variable(left), Variable(right))


_DERIVED = {
    E: (Rule(_atom("e", "ab"), (_atom("edge", "ab"),), (_less("a", "b"),)),),
    S: (Rule(_atom("s", "ab"), (_atom("edge", "ab"),)), Rule(_atom("s", "ba"), (_atom("edge", "ab"),))),
}
