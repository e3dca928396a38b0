"""A query that chance wrote as SQL, so that another engine can judge the answers."""

from __future__ import annotations

from collections import Counter

from bench.suite.random_queries import NAME, Atom, Query, shown

WEIGHT = "weight"
"""The column of a table that holds the weight of its row; the others are c0, c1, ..."""


def select(query: Query, bag: bool) -> str:
    """The rows of the head and their weights: of a bag, those of all bindings, multiplied and added, else 1.

    NULL joins with nothing: a variable may be null only if it stands in one place.
    """
    places = _places(query)
    columns = ", ".join(_expression(query, term, places) for term in query.head)
    if not bag:
        return f"SELECT DISTINCT {columns}, 1 {bindings(query)}"
    weight = "sum(" + " * ".join(f"t{number}.{WEIGHT}" for number in range(len(query.atoms))) + ")"
    return f"SELECT {columns}, {weight} {bindings(query)} GROUP BY ALL HAVING {weight} <> 0"


def bindings(query: Query) -> str:
    """``FROM ... WHERE ...`` of a query: one row per binding of its body."""
    places = _places(query)
    where = []
    for number, atom in enumerate(query.atoms):
        for column, term in enumerate(atom.terms):
            place = f"t{number}.c{column}"
            if term != "_" and places.get(term) != place:
                where.append(f"{place} = {_expression(query, term, places)}")
    for left, op, right in query.predicates:
        if not _defines(query, left, op):
            where.append(f"{_expression(query, left, places)} {op} {_expression(query, right, places)}")
    where += [f"NOT EXISTS ({_held(query, atom, places)})" for atom in query.negated]
    where += [f"{places[name]} IS NOT NULL" for name, number in _uses(query).items() if number > 1]
    tables = ", ".join(f"{atom.relation} AS t{number}" for number, atom in enumerate(query.atoms))
    return f"FROM {tables}" + (f" WHERE {' AND '.join(where)}" if where else "")


def _places(query: Query) -> dict[str, str]:
    """What each variable is in SQL: the first column that it stands in, or what it is calculated from."""
    places: dict[str, str] = {}
    for number, atom in enumerate(query.atoms):
        for column, term in enumerate(atom.terms):
            if NAME.fullmatch(term):
                places.setdefault(term, f"t{number}.c{column}")
    for left, op, right in query.predicates:
        if _defines(query, left, op):
            places[left] = f"({_expression(query, right, places)})"
    return places


def _defines(query: Query, left: str, op: str) -> bool:
    return op == "=" and NAME.fullmatch(left) is not None and left not in query.variables


def _held(query: Query, atom: Atom, places: dict[str, str]) -> str:
    """A row if what a negated atom asks for is held: the weights add over what it leaves open."""
    where = [
        f"n.c{column} = {_expression(query, term, places)}" for column, term in enumerate(atom.terms) if term != "_"
    ]
    rest = f" WHERE {' AND '.join(where)}" if where else ""
    return f"SELECT sum(n.{WEIGHT}) FROM {atom.relation} AS n{rest} HAVING sum(n.{WEIGHT}) > 0"


def _uses(query: Query) -> Counter[str]:
    """In how many places of the body each variable stands; those that are calculated in the head count as well."""
    texts = [term for atom in (*query.atoms, *query.negated) for term in atom.terms]
    texts += [side for left, _, right in query.predicates for side in (left, right)]
    texts += [term for term in query.head if not NAME.fullmatch(term)]
    return Counter(name for text in texts for name in NAME.findall(text))


def _expression(query: Query, text: str, places: dict[str, str]) -> str:
    """Division cuts off towards zero, and so does SQL's ``//``."""
    if query.is_textual and not NAME.fullmatch(text):
        return f"'{shown(int(text))}'"
    return NAME.sub(lambda found: places[found[0]], text.replace("/", "//"))
