"""Random programs for cells: joins, negation, calculations, nulls, facts, aggregates, recursion, heads as inputs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence

from tests.spark.cluster.local_cells import Row

ARITIES = {"e": 2, "f": 2, "g": 1}
VALUES = 6


def random_program(rnd: random.Random) -> str:
    """Return a program over `ARITIES` of two to five heads, of which later ones read earlier ones."""
    arities = dict(ARITIES)
    lines: list[str] = []
    for i in range(rnd.randint(1, 4)):
        name = f"h{i}"
        make = rnd.choice((_join, _join, _aggregate, _aggregate_inline, _recursion))
        rule, width = make(rnd, name, arities)
        lines.append(rule)
        if make is _join and rnd.random() < 0.3:
            lines.append(_join(rnd, name, arities, width)[0])
        arities[name] = width
    if rnd.random() < 0.3:  # doubles, which no head of integers can read
        lines.append(_aggregate(rnd, "m", arities, ("mean",))[0])
    if rnd.random() < 0.3:
        relation = rnd.choice(list(ARITIES))
        lines.append(f"{relation}({', '.join(str(rnd.randrange(VALUES)) for _ in range(ARITIES[relation]))}).")
    if rnd.random() < 0.15:
        lines.append(".input e\ne(a, b) :- f(b, a), g(a).")
    if rnd.random() < 0.2:
        lines.append("unit(1, 2) :- !g(3).")
    return "\n".join(lines)


def random_ticks(rnd: random.Random, n: int, bag: bool) -> Iterator[dict[str, list[Row]]]:
    """Yield ticks of inserted and deleted rows, with nulls, and in bags with duplicates; weights are last."""
    state: dict[str, Counter[Row]] = {name: Counter() for name in ARITIES}
    for _ in range(n):
        tick: dict[str, list[Row]] = {}
        for name, width in ARITIES.items():
            change: Counter[Row] = Counter()
            for row, weight in state[name].items():
                if rnd.random() < 0.3:
                    change[row] -= rnd.randint(1, weight)
            for _ in range(rnd.randrange(10)):
                row = tuple(None if rnd.random() < 0.12 else rnd.randrange(VALUES) for _ in range(width))
                change[row] += rnd.randint(1, 2) if bag else 1
            state[name].update(change)
            state[name] = Counter({row: weight for row, weight in state[name].items() if weight})
            tick[name] = [(*row, weight) for row, weight in change.items() if weight]
        yield tick


def _body(rnd: random.Random, arities: dict[str, int]) -> tuple[list[str], list[str]]:
    """Return the atoms of a body and its variables."""
    names = "abcd"[: rnd.randint(2, 4)]
    atoms, used = [], []
    for _ in range(rnd.randint(1, 3)):
        relation = rnd.choice(list(arities))
        terms = []
        for _ in range(arities[relation]):
            kind = rnd.random()
            if kind < 0.08:
                terms.append("_")
            elif kind < 0.14:
                terms.append(rnd.choice(("null", str(rnd.randrange(VALUES)))))
            else:
                terms.append(rnd.choice(names))
                used.append(terms[-1])
        atoms.append(f"{relation}({', '.join(terms)})")
    if not used:
        atoms.append("e(a, b)")
        used = ["a", "b"]
    variables = sorted(set(used))
    if rnd.random() < 0.4:
        relation = rnd.choice(list(arities))
        terms = [rnd.choice((*variables, "_")) for _ in range(arities[relation])]
        atoms.append(f"!{relation}({', '.join(terms)})")
    if rnd.random() < 0.3:
        atoms.append(f"{rnd.choice(variables)} {rnd.choice(('<', '!=', '<='))} {rnd.choice((*variables, '3'))}")
    if rnd.random() < 0.15:
        atoms.append(f"{rnd.choice(variables)} != null")
    if rnd.random() < 0.3:
        atoms.append(f"z = {rnd.choice(variables)} {rnd.choice('+*')} {rnd.choice((*variables, '1'))}")
        variables.append("z")
        if rnd.random() < 0.3:
            atoms.append("e(z, _)")
    if rnd.random() < 0.15:
        safe = variables[0]
        atoms = [_with_null_safe(atom, safe) for atom in atoms]
        variables[0] = f"{safe}?"
    return atoms, variables


def _with_null_safe(atom: str, name: str) -> str:
    head, brace, terms = atom.partition("(")
    if not brace:
        return " ".join(f"{word}?" if word == name else word for word in atom.split(" "))
    return f"{head}({', '.join(f'{term}?' if term == name else term for term in terms[:-1].split(', '))})"


def _join(rnd: random.Random, name: str, arities: dict[str, int], width: int | None = None) -> tuple[str, int]:
    atoms, variables = _body(rnd, arities)
    width = width or rnd.randint(1, min(3, len(variables)))
    terms = [rnd.choice(variables) for _ in range(width)]
    return f"{name}({', '.join(terms)}) :- {', '.join(atoms)}.", width


def _aggregate(
    rnd: random.Random, name: str, arities: dict[str, int], ops: Sequence[str] = ("count", "sum", "min", "max")
) -> tuple[str, int]:
    atoms, variables = _body(rnd, arities)
    variables = [variable for variable in variables if not variable.endswith("?")] or ["a"]
    if variables == ["a"]:
        atoms, variables = [*atoms, "g(a)"], ["a"]
    keys = rnd.sample(variables, rnd.randint(0, min(2, len(variables) - 1)))
    op = rnd.choice(ops)
    value = "" if op == "count" else rnd.choice(variables)
    return f"{name}({', '.join([*keys, f'{op}({value})'])}) :- {', '.join(atoms)}.", len(keys) + 1


def _recursion(rnd: random.Random, name: str, arities: dict[str, int]) -> tuple[str, int]:
    first, step = (rnd.choice([relation for relation, width in arities.items() if width == 2]) for _ in range(2))
    negated = rnd.choice(("", "", ", !g(c)"))
    base = f"{name}(a, b) :- {first}(a, b)."
    recursive = rnd.choice((
        f"{name}(a, c) :- {name}(a, b), {step}(b, c){negated}.",
        f"{name}(c, b) :- {name}(a, b), {step}(a, c){negated}.",
        f"{name}(a, c) :- {name}(a, b), {name}(b, c){negated}.",
        f"{name}(c, d) :- {name}(a, b), {step}(a, c), {step}(b, d).",
    ))  # fmt: skip
    if rnd.random() < 0.3:
        base = f"{name}(a, min(b)) :- {first}(a, b)."
        recursive = f"{name}(c, min(b)) :- {name}(a, b), {step}(a, c){negated}."
    return f"{base}\n{recursive}", 2


def _aggregate_inline(rnd: random.Random, name: str, arities: dict[str, int]) -> tuple[str, int]:
    relation = rnd.choice([relation for relation, width in arities.items() if width == 2])
    op = rnd.choice(("count", "sum", "min", "max"))
    value = "" if op == "count" else " v"
    negated = rnd.choice(("", ", !g(v)", ", v > 2"))
    inner = f"{op}{value} : {{ {relation}(x, v){negated} }}"
    return f"{name}(x, n) :- {rnd.choice(('g(x)', 'e(x, _)'))}, n = {inner}{rnd.choice(('', ', n > 2'))}.", 2
