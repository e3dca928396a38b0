"""A program over sets as SQL, so that another engine can judge answers that are too large for the slow reference."""

from __future__ import annotations

from gpu_wcoj.query.ir import Constant, Rule, Rules, Term


def definitions(rules: Rules) -> list[tuple[str, str]]:
    """(head, query) in an order in which each query reads only inputs and earlier heads; columns are c0, c1, ..."""
    found: list[tuple[str, str]] = []
    known = set(rules.inputs)
    while len(found) < len(rules.heads):
        for head in rules.heads:
            own = [rule for rule in rules.rules if rule.head.relation == head]
            if head not in known and all(atom.relation in known for rule in own for atom in rule.atoms):
                found.append((head, " UNION ".join(map(_select, own))))
                known.add(head)
    return found


def _select(rule: Rule) -> str:
    places: dict[Term, str] = {}
    where = []
    for number, atom in enumerate(rule.atoms):
        for column, term in enumerate(atom.terms):
            place = f"t{number}.c{column}"
            if isinstance(term, Constant):
                where.append(f"{place} = {term.value!r}")
            elif term in places:
                where.append(f"{place} = {places[term]}")
            else:
                places[term] = place

    def shown(term: Term) -> str:
        return repr(term.value) if isinstance(term, Constant) else places[term]

    where += [f"{shown(one.left)} {one.op} {shown(one.right)}" for one in rule.comparisons]
    columns = ", ".join(f"{shown(term)} AS c{i}" for i, term in enumerate(rule.head.terms))
    tables = ", ".join(f"{atom.relation} AS t{number}" for number, atom in enumerate(rule.atoms))
    return f"SELECT DISTINCT {columns} FROM {tables}" + (f" WHERE {' AND '.join(where)}" if where else "")
