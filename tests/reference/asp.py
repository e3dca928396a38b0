"""The same programs as answer-set programs, which clingo evaluates: a second judge, written by somebody else.

Sets of integers and texts only; texts are not put in order, nor cut or joined, and there are no means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tests.reference.changes import Row, ZSet
from tests.reference.fixpoint import strata
from tests.reference.program_text import (
    Aggregate,
    Atom,
    Call,
    Literal,
    Name,
    Rule,
    Term,
    Written,
    atoms,
    names_in,
)

WILDCARD = re.compile(r"\bV_\w*")
SIGNS = {"+": "+", "-": "-", "*": "*", "/": "/", "%": "\\"}


def answer_set(program: Written, given: Mapping[str, Mapping[Row, int]], bound: int = 60) -> dict[str, ZSet]:
    """Every head over what is `given`, as {head: {row: 1}}.

    `bound` is the largest absolute value that a least or greatest value through recursion may take: clingo lists all
    that come up, of which there would be no end.
    """
    import clingo

    control = clingo.Control(["--warn=none"])
    control.add("base", [], translated(program, bound) + "\n" + facts(given))
    control.ground([("base", [])])
    found: dict[str, ZSet] = {head: {} for head in program.heads}
    with control.solve(yield_=True) as handle:
        models = [model.symbols(atoms=True) for model in handle]
    assert len(models) == 1
    for symbol in models[0]:
        relation = symbol.name.removeprefix("r_")
        if relation in found and symbol.name.startswith("r_"):
            row = tuple(one.string if one.type is clingo.SymbolType.String else one.number for one in symbol.arguments)
            found[relation][row] = 1
    return found


def facts(given: Mapping[str, Mapping[Row, int]]) -> str:
    """The rows of positive weight."""
    return "\n".join(
        f"r_{name}({', '.join(map(_constant, row))})."
        for name, rows in given.items()
        for row, weight in rows.items()
        if weight > 0
    )


def translated(program: Written, bound: int = 60) -> str:
    """The rules as clingo reads them."""
    lines = []
    for stratum in strata(program):
        rules = [rule for rule in program.rules if rule.head.relation in stratum]
        recursive = any(atom.relation in stratum for rule in rules for atom in atoms(rule.body))
        best = {rule.head.relation: rule for rule in rules if _aggregate_of(rule)[1] in ("min", "max")}
        inner = {name: f"c_{name}" for name in best}
        for rule in rules:
            if rule.head.relation in best:
                lines.append(_candidates(rule, inner, bound if recursive else None))
            elif rule.aggregates:
                assert len(rules) == 1, f"one rule for {rule.head.relation}"
                lines.append(_aggregating(rule))
            else:
                lines.append(f"{_atom(rule.head, {})}{_if(rule.body, inner)}.")
        lines += [_best(rule, inner) for rule in best.values()]
    return "\n".join(lines)


def _aggregate_of(rule: Rule) -> tuple[int, str, Term | None]:
    """Where a head aggregates, by what, and of what; (-1, "", None) where it does not."""
    found = ((i, term.op, term.value) for i, term in enumerate(rule.head.terms) if isinstance(term, Aggregate))
    return next(found, (-1, "", None))


def _candidates(rule: Rule, inner: Mapping[str, str], bound: int | None) -> str:
    """What a least or greatest value is chosen from, inside the loop: all of it."""
    column, _, value = _aggregate_of(rule)
    terms = [_term(term) for term in rule.head.terms if not isinstance(term, Aggregate)]
    terms.insert(column, "Best")
    assert value is not None
    limits = f"Best = {_term(value)}" + ("" if bound is None else f", Best <= {bound}, Best >= {-bound}")
    body = _if(rule.body, inner) + ", " if rule.body else " :- "
    return f"{inner[rule.head.relation]}({', '.join(terms)}){body}{limits}."


def _best(rule: Rule, inner: Mapping[str, str]) -> str:
    column, op, _ = _aggregate_of(rule)
    candidates, width = inner[rule.head.relation], len(rule.head.terms)

    def row(value: str) -> str:
        return ", ".join(value if i == column else f"K{i}" for i in range(width))

    chosen = f"Best = #{op} {{ One : {candidates}({row('One')}) }}"
    return f"r_{rule.head.relation}({row('Best')}) :- {candidates}({row('_')}), {chosen}."


def _aggregating(rule: Rule) -> str:
    """A head that counts or adds: every way to satisfy its body first, then what each group has."""
    column, op, value = _aggregate_of(rule)
    ways = [_variable(name) for name in sorted(names_in(rule.body), key=lambda name: name.name)]
    own = [] if value is None or op == "count" else [_term(value)]
    terms = [_term(term) for term in rule.head.terms if not isinstance(term, Aggregate)]
    keys = [f"K{i}" for i in range(len(terms))]
    every = [f"One{i}" for i in range(len(own) + len(ways))]

    def row(*terms: str) -> str:
        return f"g_{rule.head.relation}({', '.join(terms)})"

    counted = f"Best = #{op} {{ {', '.join(every)} : {row(*keys, *every)} }}"
    shown = ", ".join([*keys[:column], "Best", *keys[column:]])
    return (
        f"{row(*terms, *own, *ways)}{_if(rule.body, {})}.\n"
        f"r_{rule.head.relation}({shown}) :- {row(*keys, *('_' for _ in every))}, {counted}."
    )


def _if(body: Iterable[Literal], inner: Mapping[str, str]) -> str:
    literals = [part for literal in body for part in _literal(literal, inner)]
    return f" :- {', '.join(literals)}" if literals else ""


def _literal(literal: Literal, inner: Mapping[str, str]) -> list[str]:
    if isinstance(literal, Atom):
        return [_atom(literal, inner) if literal.positive else f"not {WILDCARD.sub('_', _atom(literal, inner))}"]
    for one, other, op in (
        (literal.left, literal.right, literal.op),
        (literal.right, literal.left, {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(literal.op, literal.op)),
    ):
        if isinstance(other, Aggregate):
            return _aggregate(_term(one), op, other)
    return [f"{_term(literal.left)} {literal.op} {_term(literal.right)}"]


def _aggregate(left: str, op: str, aggregate: Aggregate) -> list[str]:
    inside = names_in(one for one in aggregate.body if not isinstance(one, Atom) or one.positive)
    ways = [_variable(name) for name in sorted(inside, key=lambda name: name.name)]
    first = [] if aggregate.value is None else [_term(aggregate.value)]
    body = ", ".join(part for literal in aggregate.body for part in _literal(literal, {}))
    if aggregate.op not in ("min", "max"):
        return [f"{left} {op} #{aggregate.op} {{ {', '.join([*first, *ways]) or '1'} : {body} }}"]
    there = f"0 < #count {{ {', '.join(ways) or '1'} : {body} }}"  # of nothing there is no least value
    return [f"{left} {op} #{aggregate.op} {{ {first[0]} : {body} }}", there]


def _atom(atom: Atom, inner: Mapping[str, str]) -> str:
    return f"{inner.get(atom.relation, f'r_{atom.relation}')}({', '.join(map(_term, atom.terms))})"


def _term(term: Term) -> str:
    if isinstance(term, Name):
        return _variable(term)
    if isinstance(term, Call):
        shown = list(map(_term, term.arguments))
        return f"({SIGNS[term.op].join(shown)})" if len(shown) > 1 else f"({SIGNS[term.op]}{shown[0]})"
    assert not isinstance(term, Aggregate)
    return _constant(term)


def _variable(name: Name) -> str:
    return f"V{name.name}"


def _constant(constant: object) -> str:
    if isinstance(constant, str):
        escaped = constant.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    assert type(constant) is int, constant
    assert abs(constant) < 2**31, f"clingo counts in 32 bits: {constant}"
    return str(constant)
