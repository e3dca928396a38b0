"""User-facing names of internal helper relations, which have a ``#`` in their names."""

from __future__ import annotations

from gpu_wcoj.query.rules import Rules

_ROW_HELPERS = ("in", "facts", "set", "cut")
"""Names after the ``#`` of helpers that hold rows of a single relation."""


def served_relation(rules: Rules, relation: str) -> str | None:
    """Return the relation of the text that a relation or helper serves, or None.

    A helper serves the only relation of the text that reads it, directly or through other helpers.

    Parameters
    ----------
    rules
        The program in core form.

    Examples
    --------
    >>> from gpu_wcoj.query.core import desugar
    >>> from gpu_wcoj.query.datalog import parse
    >>> rules = desugar(parse("h(x, n) :- r(x, _), n = min v : { r(x, v) }."))
    >>> served_relation(rules, "r"), served_relation(rules, "rule#1"), served_relation(rules, "r#in")
    ('r', 'h', 'r')
    """
    name, helper = relation.partition("#")[::2]
    if not helper or relation in rules.outputs:
        return relation
    if name and helper.rstrip("0123456789") in _ROW_HELPERS:
        return name
    readers: dict[str, list[str]] = {}
    for rule in rules.rules:
        for atom in rule.read:
            readers.setdefault(atom.relation, []).append(rule.head.relation)
    for grouping in rules.groupings:
        readers.setdefault(grouping.source, []).append(grouping.relation)
    heads: set[str] = set()
    pending, seen = [relation], {relation}
    while pending:
        for head in readers.get(pending.pop(), ()):
            if "#" not in head or head in rules.outputs:
                heads.add(head)
            elif head not in seen:
                seen.add(head)
                pending.append(head)
    return heads.pop() if len(heads) == 1 else None


def describe_place(rules: Rules, relation: str, preposition: str) -> str:
    """Return a phrase for a relation in a message: its name, or the purpose of a helper.

    Examples
    --------
    >>> from gpu_wcoj.query.core import desugar
    >>> from gpu_wcoj.query.datalog import parse
    >>> rules = desugar(parse("h(x, n) :- r(x, _), n = min v : { r(x, v) }."))
    >>> describe_place(rules, "h", "of"), describe_place(rules, "agg#1", "of")
    ("of 'h'", "for 'h'")
    """
    name = served_relation(rules, relation)
    if name is None:
        return "in the query"
    is_helper = name != relation and not relation.startswith(f"{name}#")
    return f"for '{name}'" if is_helper else f"{preposition} '{name}'"


def describe_aggregate(relation: str, op: str) -> str:
    """Return the user-facing operation of a grouping; helpers that count only remove duplicates.

    Examples
    --------
    >>> describe_aggregate("h", "count"), describe_aggregate("count#2", "count"), describe_aggregate("once#2", "count")
    ('count', 'count', 'distinct rows')
    """
    name, helper = relation.partition("#")[::2]
    return op if not helper or name in (op, "agg", "avg") else "distinct rows"


def describe_column(rules: Rules, relation: str, column: int, name: str | None = None) -> str:
    """Return the user-facing name of a column or calculated variable.

    A calculated variable has the relation name ``number#variable``.

    Parameters
    ----------
    name
        The name of the column.

    Examples
    --------
    >>> from gpu_wcoj.query.core import desugar
    >>> from gpu_wcoj.query.datalog import parse
    >>> rules = desugar(parse("h(x, n) :- r(x, _), n = min v : { r(x, v) }."))
    >>> describe_column(rules, "r#in", 0), describe_column(rules, "agg#1", 1), describe_column(rules, "0#x", 0)
    ("relation 'r', column 0", "the min for 'h'", "the calculated 'x'")
    """
    prefix, calculated = relation.partition("#")[::2]
    if prefix.isdecimal():
        return f"the calculated '{calculated}'"
    served_name = served_relation(rules, relation)
    if served_name in (relation, prefix):
        return f"relation '{served_name}', column {column if name is None else name}"
    results = {(grouping.relation, grouping.keys): grouping.op for grouping in rules.groupings}
    op = results.get((relation, column))
    return f"{'a value' if op is None else f'the {op}'} {describe_place(rules, relation, 'of')}"
