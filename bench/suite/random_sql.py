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
    places: dict[str, str] = {}
    where = []
    for number, atom in enumerate(query.atoms):
        for column, term in enumerate(atom.terms):
            place = f"t{number}.c{column}"
            if term in places:
                where.append(f"{place} = {places[term]}")
            elif NAME.fullmatch(term):
                places[term] = place
            elif term != "_":
                where.append(f"{place} = {_expression(query, term, places)}")
    body = list(query.predicates)
    for left, op, right in query.predicates:
        if op == "=" and left not in places and NAME.fullmatch(left):
            places[left] = f"({_expression(query, right, places)})"
            body.remove((left, op, right))
    where += [f"{_expression(query, left, places)} {op} {_expression(query, right, places)}" for left, op, right in body]
    where += [f"NOT EXISTS ({_present(query, atom, places)})" for atom in query.negated]
    where += [f"{places[name]} IS NOT NULL" for name, number in _uses(query).items() if number > 1]
    columns = [_expression(query, term, places) for term in query.head]
    tables = ", ".join(f"{atom.relation} AS t{number}" for number, atom in enumerate(query.atoms))
    rest = f"FROM {tables}" + (f" WHERE {' AND '.join(where)}" if where else "")
    if not bag:
        return f"SELECT DISTINCT {', '.join(columns)}, 1 {rest}"
    weight = "sum(" + " * ".join(f"t{number}.{WEIGHT}" for number in range(len(query.atoms))) + ")"
    return f"SELECT {', '.join(columns)}, {weight} {rest} GROUP BY ALL HAVING {weight} <> 0"


def _present(query: Query, atom: Atom, places: dict[str, str]) -> str:
    """The rows of positive weight that a negated atom asks for."""
    where = [f"n.{WEIGHT} > 0"]
    where += [
        f"n.c{column} = {_expression(query, term, places)}" for column, term in enumerate(atom.terms) if term != "_"
    ]
    return f"SELECT 1 FROM {atom.relation} AS n WHERE {' AND '.join(where)}"


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
    return NAME.sub(lambda found: places[found[0]], text).replace("/", "//")
