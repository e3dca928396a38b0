"""Programs that chance writes: joins, rules in core form, and strata with loops, negation, arithmetic, aggregates."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpu_wcoj.query.ir import Atom, Call, Comparison, Computed, Constant, Rule, Rules, Term, Variable

INPUTS = {"u": 1, "e": 2, "f": 2, "t": 3}
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
MODULUS = 5


def chance_text(random: random.Random, negative: bool = True, lacking: bool = False, nested: bool = False) -> str:
    """A safe program of a few strata.

    Values stay few: what a loop calculates is a remainder. Without `negative`, least sums of a column come up too, for
    which no value of an input may be below 0. With `lacking`, some values are divided by 0, or leave int64. With
    `nested`, aggregates stand within others, which clingo has none of.
    """
    writer = _Writer(random, negative, lacking, nested)
    for _ in range(random.randint(2, 4)):
        writer.stratum()
    if random.random() < 0.3:
        random.shuffle(writer.rules)
    return " ".join(writer.rules)


@dataclass
class _Writer:
    random: random.Random
    negative: bool
    lacking: bool
    nested: bool
    readable: dict[str, int] = field(default_factory=lambda: dict(INPUTS))
    rules: list[str] = field(default_factory=list)
    heads: int = 0

    def stratum(self) -> None:
        kinds = [self.loop, self.loop, self.plain, self.grouped, self.extreme]
        heads = self.random.choice(kinds)()
        self.readable |= heads

    def head(self, width: int | None = None) -> dict[str, int]:
        self.heads += 1
        return {f"h{self.heads}": width or self.random.randint(1, 3)}

    def plain(self) -> dict[str, int]:
        """One head that does not read itself."""
        heads = self.head()
        ((name, width),) = heads.items()
        for _ in range(self.random.randint(1, 2)):
            self.rule(name, width, {}, in_loop=False)
        return heads

    def loop(self) -> dict[str, int]:
        """One to three heads that may all read each other."""
        heads: dict[str, int] = {}
        for _ in range(self.random.choice((1, 1, 2, 3))):
            heads |= self.head(self.random.choice((1, 2, 2, 2, 3)))
        for name, width in heads.items():
            if not self.lacking and self.random.random() < 0.2:  # facts alone may lack a value, before any tick
                self.rules.append(f"{name}({', '.join(self.random.choices('012', k=width))}).")
            self.rule(name, width, {}, in_loop=True)
            for _ in range(self.random.randint(1, 2)):
                self.rule(name, width, heads, in_loop=True)
        return heads

    def grouped(self) -> dict[str, int]:
        """A head that aggregates."""
        heads = self.head(self.random.randint(1, 3))
        ((name, width),) = heads.items()
        body, bound = self.body({})
        terms = self.random.choices([*sorted(bound), "5"], k=width - 1)
        op = self.random.choice(("count", "sum", "min", "max"))
        terms.insert(
            self.random.randrange(width), f"{op}({'' if op == 'count' else self.random.choice(sorted(bound))})"
        )
        self.rules.append(f"{name}({', '.join(terms)}) :- {', '.join(body)}.")
        return heads

    def extreme(self) -> dict[str, int]:
        """A least or greatest value through recursion."""
        heads = self.head(2)
        (name,) = heads
        u, e, t = (self.pick(width) for width in (1, 2, 3))
        start = self.random.choice((f"{u}(a)", f"{e}(a, _)", f"{e}(_, a), {u}(a)"))
        value = self.random.choice(("a", "0", "3"))
        op, step = self.random.choice(
            [("min", "d"), ("max", "d"), ("max", "d / 2")]
            + ([] if self.negative else [("min", "d + w"), ("max", "d - w")])
        )
        if self.random.random() < 0.2:
            start += f", {self.compared({'a'})}"
        self.rules.append(f"{name}(a, {op}({value})) :- {start}.")
        edge = f"{t}(a, b, w)" if "w" in step else f"{e}(a, b)"
        extra = self.random.choice(["", "", ", d < 6" if op == "min" else ", d > -3", f", !{u}(b)", ", a != b"])
        if self.random.random() < 0.3:
            extra += f", {self.compared({'a', 'b'})}"
        again = f"{name}(c, d), {e}(c, a), {edge}" if self.random.random() < 0.3 else f"{name}(a, d), {edge}"
        self.rules.append(f"{name}(b, {op}({step})) :- {again}{extra}.")
        return heads

    def rule(self, name: str, width: int, loop: Mapping[str, int], in_loop: bool) -> None:
        body, bound = self.body(loop)
        if self.random.random() < 0.3:
            body.append(f"z = {self.calculated(bound, in_loop)}")
            bound = bound | {"z"}
            if self.random.random() < 0.3:  # a calculated value that is looked up as well
                body.append(self.atom(self.readable, [*sorted(bound), "z", "z"]))
        counted = [one for one in "nm" if self.random.random() < 0.2]
        for one in counted:
            body.append(f"{one} = {self.aggregate(bound)}")
        for _ in range(self.random.choice((0, 0, 0, 0, 0, 1, 1, 2))):
            body.append(self.compared(bound))
        plain, bound = sorted(bound), bound | set(counted)
        if self.random.random() < 0.35:
            body.append("!" + self.atom(self.readable, [*sorted(bound) * 3, "_", "1"]))
        for _ in range(self.random.choice((0, 0, 1, 2))):
            one, other = self.random.choice(sorted(bound)), self.random.choice([*sorted(bound), "0", "1", "2"])
            if self.random.random() < 0.2:
                other = self.calculated(bound, in_loop=False)
            # Of a rule that can never hold, it is not said whether it makes a loop.
            allowed = COMPARISONS if one != other else ("=", "<=", ">=")
            allowed = tuple(op for op in allowed if op != "=" or not other.isdigit())
            body.append(f"{one} {self.random.choice(allowed)} {other}")
        if self.random.random() < 0.5:
            self.random.shuffle(body)
        values = [f"{one} % {MODULUS}" for one in counted] if in_loop else counted
        terms = [self.random.choice([*plain * 3, *values * 3, "3"]) for _ in range(width)]
        if self.random.random() < 0.2:
            terms[self.random.randrange(width)] = self.calculated(bound, in_loop)
        self.rules.append(f"{name}({', '.join(terms)}) :- {', '.join(body)}.")

    def body(self, loop: Mapping[str, int]) -> tuple[list[str], set[str]]:
        """Positive atoms, one at least of the loop if there is one, and their variables."""
        names = "abcd"[: self.random.randint(2, 4)]
        n_atoms = self.random.choice((1, 2, 2, 2, 3))
        places: list[str] = []
        while not set(names) & set("".join(places)):
            choices = [*names * 4, "_", "1"]
            places = [self.atom({**self.readable, **loop}, choices) for _ in range(n_atoms)]
            if loop:
                places[self.random.randrange(n_atoms)] = self.atom(loop, choices)
        terms = {term.strip() for atom in places for term in atom[atom.index("(") + 1 : -1].split(",")}
        bound = {term for term in terms if term in names}
        return (places, bound) if bound else self.body(loop)

    def atom(self, readable: Mapping[str, int], choices: list[str]) -> str:
        name = self.random.choice(list(readable))
        terms = self.random.choices(choices, k=readable[name])
        for _ in range(3):  # a variable twice in one atom leaves little, so it is rare
            if len(set(terms)) < len(terms):
                terms = self.random.choices(choices, k=readable[name])
        return f"{name}({', '.join(terms)})"

    def calculated(self, bound: Iterable[str], in_loop: bool) -> str:
        one, other = self.random.choice(sorted(bound)), self.random.choice([*sorted(bound) * 2, "2", "3"])
        inner = self.random.choice(
            (f"{one} + {other}", f"{one} - {other}", f"{one} * {other}", f"{one} / 2", f"{one} % 3", f"-{one}")
        )
        if self.lacking and self.random.random() < 0.3:
            inner = self.random.choice((f"{one} / {other}", f"{one} % {other}", f"{one} * 4611686018427387904"))
            if not in_loop:
                return inner
        return f"({inner}) % {MODULUS}" if in_loop or self.random.random() < 0.5 else inner

    def compared(self, bound: set[str]) -> str:
        """A comparison of an aggregate."""
        return f"{self.random.randint(0, 2)} {self.random.choice(COMPARISONS)} {self.aggregate(bound)}"

    def aggregate(self, bound: set[str], depth: int = 0) -> str:
        """An aggregate, whose braces may bind the variables of outside, compare with them, or negate by them."""
        own = "pq" if depth == 0 else "rs"
        if self.lacking:  # the judge does not know which groups a key without a value may stand for
            bound = (bound - {"z"}) or bound
        names = [*sorted(bound) * self.random.choice((0, 1, 2)), *own, "_"]
        body = [self.atom(self.readable, names) for _ in range(self.random.choice((1, 1, 2)))]
        inside = {one for one in own if any(one in atom[atom.index("(") :] for atom in body)}
        if inside and self.random.random() < 0.6:
            one, other = self.random.choice(sorted(inside)), self.random.choice([*sorted(bound) * 2, "1"])
            if self.random.random() < 0.2:
                other = f"{other} {self.random.choice('+-')} 1"
            body.append(f"{one} {self.random.choice(COMPARISONS)} {other}")
        if inside and self.random.random() < 0.25:
            body.append("!" + self.atom(self.readable, [*sorted(bound), *sorted(inside), "_", "1"]))
        if self.nested and depth == 0 and inside and self.random.random() < 0.3:
            inner = self.aggregate(inside | bound, 1)
            body.append(f"{self.random.choice(sorted(inside))} {self.random.choice(COMPARISONS)} {inner}")
        op = self.random.choice(("count", "sum", "min", "max")) if inside else "count"
        value = "" if op == "count" else f" {self.random.choice(sorted(inside))}"
        if value and bound and self.random.random() < 0.15:
            value += f" {self.random.choice('+-*')} {self.random.choice(sorted(bound))}"
        return f"{op}{value} : {{ {', '.join(body)} }}"

    def pick(self, width: int) -> str:
        return self.random.choice([name for name, own in self.readable.items() if own == width])


def random_text(random: random.Random) -> str:
    """A program of one to three rules over few relations: any atoms, constants, ``_``, comparisons, unions, heads."""
    inputs = INPUTS
    heads: dict[str, int] = {}
    rules = []
    for number in range(random.randint(1, 3)):
        name = random.choice([f"h{number}", *list(heads)[-1:]])
        readable = inputs if name in heads else {**inputs, **heads}  # a second rule for a head reads no head: no cycle
        names = "abcd"[: random.randint(1, 4)]
        body, bound = [], set()
        for relation in random.choices(list(readable), k=random.randint(1, 4)):
            terms = [_random_term(random, names) for _ in range(readable[relation])]
            bound.update(term for term in terms if term in names)
            body.append(f"{relation}({', '.join(terms)})")
        head = random.choices([*sorted(bound) * 3, "5"], k=heads.setdefault(name, random.randint(1, 3)))
        for _ in range(random.choice((0, 0, 1, 2)) if bound else 0):
            other = random.choice([*sorted(bound), "0", "1", "-9"])
            body.append(f"{random.choice(sorted(bound))} {random.choice(COMPARISONS)} {other}")
        rules.append(f"{name}({', '.join(head)}) :- {', '.join(body)}.")
    return " ".join(rules)


def _random_term(random: random.Random, names: str) -> str:
    return random.choice([*names * 4, "_", random.choice(("0", "1", "2"))])


def random_rules(
    chance: random.Random, n_negated: Sequence[int] = (0, 1, 2), n_computed: Sequence[int] = (0, 1, 2)
) -> Rules:
    """One to three rules over few relations; what is calculated can fail, and can stand anywhere."""
    inputs = INPUTS
    heads: dict[str, int] = {}
    rules = []
    for number in range(chance.randint(1, 3)):
        name = chance.choice([f"h{number}", *list(heads)[-1:]])
        readable = inputs if name in heads else {**inputs, **heads}
        names = [Variable(one) for one in "abcd"[: chance.randint(1, 3)]]

        def term(known: Sequence[Variable], wild: str | None = None) -> Term:
            options: list[Term] = [*known, *known, *known, Constant(chance.choice((0, 1, 2)))]
            if wild is not None and chance.random() < 0.1:
                return Variable(wild)
            return chance.choice(options)

        def atom(known: Sequence[Variable], at: int | None = None, readable: Mapping[str, int] = readable) -> Atom:
            relation = chance.choice(list(readable))
            terms = [term(known, None if at is None else f"_#{at}{i}") for i in range(readable[relation])]
            return Atom(relation, tuple(terms))

        atoms = tuple(atom(names, at) for at in range(chance.randint(1, 3)))
        bound = [one for one in dict.fromkeys(v for one in atoms for v in one.variables) if not one.is_wildcard]
        known = list(bound)
        computed = []
        for at in range(chance.choice(n_computed) if bound else 0):
            op = chance.choice(("+", "-", "*", "/", "%", "-1"))
            arguments = (term(known),) if op == "-1" else (term(known), term(known))
            computed.append(Computed(Variable(f"z{at}"), Call(op[0], arguments)))
            known.append(computed[-1].variable)
        negated = tuple(atom(known) for _ in range(chance.choice(n_negated)))
        comparisons = []
        for _ in range(chance.choice((0, 1, 2)) if known else 0):
            op = chance.choice(("=", "=", "!=", "<", "<=", ">", ">="))
            comparisons.append(Comparison(op, chance.choice(known), term(known)))
        width = heads.setdefault(name, chance.randint(1, 3))
        head = Atom(name, tuple(term(known) for _ in range(width)))
        rules.append(Rule(head, atoms, tuple(comparisons), negated, tuple(computed)))
    return Rules(tuple(rules))
