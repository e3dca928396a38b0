"""The programs that can be distributed over cells."""

from __future__ import annotations

from gpu_wcoj.errors import UnsupportedError
from gpu_wcoj.query.ir import NULL, Call, Constant, Variable
from gpu_wcoj.query.rules import Rule, Rules


def reason_against(rules: Rules) -> str:
    """Return the reason against distributing a program over cells; empty if it is possible.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> reason_against(parse("path(a, c) :- edge(a, b), edge(b, c)."))
    ''
    """
    if rules.groupings or rules.extremes or any(rule.aggregates for rule in rules.rules):
        return "it aggregates, and a cell sees a part of a group only"
    if rules.facts:
        return "it has facts, which belong to no cell"
    for rule in rules.rules:
        against = _against(rule)
        if against:
            return f"{against}: {rule}"
    both = [name for name in rules.inputs if name in rules.heads]
    if both:
        return f"'{both[0]}' is an input and the head of a rule, which only one engine adds up"
    cycle = _cycle(rules)
    return f"it is recursive, and a row's derivations pass through many cells: {cycle}" if cycle else ""


def require_spread(rules: Rules) -> None:
    """Raise `UnsupportedError` if a program cannot be distributed over cells."""
    against = reason_against(rules)
    if against:
        raise UnsupportedError.unsupported(
            "this program on cells", against, "Use layout='one', or 'auto', which chooses it."
        )


def _against(rule: Rule) -> str:
    if rule.negated:
        return "a rule has a negation, and a cell that lacks a row cannot tell that there is none"
    terms = [
        *rule.head.terms,
        *(term for atom in rule.atoms for term in atom.terms),
        *(term for comparison in rule.comparisons for term in (comparison.left, comparison.right)),
    ]
    if rule.computed or any(isinstance(term, Call) for term in terms):
        return "a rule calculates, which is done by one engine only"
    if any(not isinstance(term, (Variable, Constant)) for term in terms):
        return "a rule has a term that is neither a variable nor a constant"
    if any(term == NULL or (isinstance(term, Variable) and term.is_null_safe) for term in terms):
        return "a rule asks for null or joins by it, and rows are sent to cells by their values"
    if not rule.atoms:
        return "a rule is a fact, which belongs to no cell"
    return ""


def _cycle(rules: Rules) -> str:
    """Return heads that read one another, as ``a <- b <- a``; empty if there are none."""
    reads = {name: set[str]() for name in rules.heads}
    for rule in rules.rules:
        reads[rule.head.relation] |= {atom.relation for atom in rule.atoms if atom.relation in reads}
    for start in reads:
        paths = [[start]]
        seen: set[str] = set()
        for path in paths:
            for name in sorted(reads[path[-1]]):
                if name == start:
                    return " <- ".join([*path, start])
                if name not in seen:
                    seen.add(name)
                    paths.append([*path, name])
    return ""
