"""Random queries in EDN, as text, and random datoms to ask them of."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from gpu_wcoj.query.edn import Attribute

ATTRIBUTES = {
    ":r/a": "ref", ":r/b": "ref", ":n/x": "long", ":n/y": "long", ":s/x": "string", ":s/y": "string", ":d/x": "double",
    ":k/x": "keyword", ":b/x": "boolean",
}  # fmt: skip
KNOWN = {name: Attribute(kind, unique=name == ":s/y") for name, kind in ATTRIBUTES.items()}
VALUES: dict[str, list[object]] = {
    "ref": [1, 2, 3, 4, 5], "long": [-1, 0, 1, 2, 3, 7], "string": ["", "a", "b", "ab"],
    "double": [-0.5, 1.0, 2.0, 2.5],
    "keyword": [":red", ":blue"], "boolean": [True, False],
}  # fmt: skip
POOLS = {
    "ref": ["?e", "?f", "?g", "?h"], "long": ["?n", "?m", "?e"], "string": ["?s", "?t"], "double": ["?d", "?c"],
    "keyword": ["?k"], "boolean": ["?b"],
}  # fmt: skip
RULES = [
    "[(reach ?p ?q) [?p :r/a ?q]] [(reach ?p ?q) [?p :r/a ?o] (reach ?o ?q)]",
    """[(even-way ?p ?q) [?p :r/a ?o] (odd-way ?o ?q)]
       [(odd-way ?p ?q) [?p :r/a ?q]] [(odd-way ?p ?q) [?p :r/a ?o] (even-way ?o ?q)]""",
    "[(big ?p) [?p :n/x ?x] [(> ?x 1)]] [(big ?p) [?p :r/b _]]",
    "[(above [?x]) [(> ?x 1)]] [(above [?x]) [_ :n/y ?x]]",
    "[(valued ?p ?v) [?p _ ?v] (not [?p :r/b _])]",
    "[(lonely ?p) [?p :s/x] (not-join [?p] [?o :r/a ?p])]",
    "[(next ?x ?y) [(+ ?x 1) ?y]]",
]


class Queries:
    """Draws queries: clauses over few variables, so that they join."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rules = self.random.sample(RULES, 3)

    def query(self) -> str:
        """A query, which may be one that is refused."""
        draw = self.random
        clauses = [self.pattern() for _ in range(draw.randint(1, 3))]
        clauses += [self.clause(2) for _ in range(draw.randint(0, 3))]
        direct = [one for one in clauses if one[0] == "[" and (one[1] != "(" or one[-2] != ")")]
        names = sorted(set(re.findall(r"\?\w+", " ".join(direct)))) or ["?e"]
        draw.shuffle(clauses)
        text = " ".join(clauses)
        found = draw.sample(names, min(len(names), draw.randint(1, 3)))
        extra = ""
        if draw.random() < 0.3:
            last = found[-1]
            numeric = last in (*POOLS["long"], *POOLS["ref"])
            op = draw.choice(["count", "count-distinct", *(["sum", "min", "max", "avg"] if numeric else [])])
            found[-1] = f"({op} {last})"
            if draw.random() < 0.3:
                found.append(f"(count {draw.choice(names)})")
            if draw.random() < 0.5:
                extra = f" :with {draw.choice(names)}"
        rules = f" :rules [{' '.join(self.rules)}]"
        return f"[:find {' '.join(found)}{extra} :where {text}{rules}]"

    def clause(self, depth: int) -> str:
        """A clause, with others inside down to some depth."""
        leaves: list[Callable[[], str]] = [self.pattern, self.predicate, self.function, self.call, self.open]
        inner: list[Callable[[int], str]] = [self.either, self.none, self.either_join, self.none_join]
        if depth and self.random.random() < 0.5:
            return self.random.choice(inner)(depth - 1)
        return self.random.choice(leaves)()

    def variable(self, kind: str) -> str:
        return self.random.choice(POOLS[kind])

    def constant(self, kind: str) -> str:
        value = self.random.choice(VALUES[kind])
        if kind == "string":
            return f'"{value}"'
        return str(value).lower() if kind == "boolean" else str(value)

    def term(self, kind: str) -> str:
        chance = self.random.random()
        if chance < 0.7:
            return self.variable(kind)
        return self.constant(kind) if chance < 0.9 else "_"

    def pattern(self) -> str:
        name, kind = self.random.choice(list(ATTRIBUTES.items()))
        if self.random.random() < 0.1:
            return f"[{self.variable('ref')} {name}]"
        return f"[{self.term('ref')} {name} {self.term(kind)}]"

    def open(self) -> str:
        draw = self.random
        kind = draw.choice(list(VALUES))
        value = draw.choice([self.constant(kind), self.variable(kind), "?v", "_"])
        return f"[{self.term('ref')} {draw.choice(['?a', '_'])} {value}]"

    def predicate(self) -> str:
        draw = self.random
        if draw.random() < 0.2:
            return f"[({draw.choice(['even?', 'odd?', 'pos?', 'zero?', 'neg?'])} {self.variable('long')})]"
        if draw.random() < 0.1:
            texts = [self.variable("string"), draw.choice([self.variable, self.constant])("string")]
            draw.shuffle(texts)
            return f"[(clojure.string/{draw.choice(['includes?', 'starts-with?'])} {' '.join(texts)})]"
        kind = draw.choice(["long", "long", "double", "string", "keyword"])
        ops = ["=", "!=", "not="] + (["<", "<=", ">", ">="] if kind != "keyword" else [])
        terms = [self.variable(kind), draw.choice([self.variable, self.constant])(kind)]
        op = draw.choice(ops)
        if kind == "double" and op not in ("=", "!=", "not="):
            terms[1] = draw.choice([terms[1], self.variable("long"), self.constant("long")])
        if op != "!=" and draw.random() < 0.2:
            terms.append(self.variable(kind))
        draw.shuffle(terms)
        return f"[({op} {' '.join(terms)})]"

    def function(self) -> str:
        draw = self.random
        choice = draw.randint(0, 8)
        numbers = [draw.choice([self.variable("long"), self.constant("long")]) for _ in range(2)]
        if choice == 0:
            return f"[({draw.choice(['+', '-', '*'])} {' '.join(numbers)}) {self.variable('long')}]"
        if choice == 1:
            op = draw.choice(["quot", "rem", "mod"])
            return f"[({op} {self.variable('long')} {draw.choice([2, 3, -2])}) {self.variable('long')}]"
        if choice == 2:
            return f"[({draw.choice(['inc', 'dec', '-'])} {self.variable('long')}) {self.variable('long')}]"
        if choice == 3:
            return f"[(count {self.variable('string')}) {self.variable('long')}]"
        if choice == 4:
            return f'[(str {self.variable("string")} "a" {self.variable("string")}) {self.variable("string")}]'
        if choice == 5:
            name = draw.choice(["upper-case", "lower-case"])
            return f"[(clojure.string/{name} {self.variable('string')}) {self.variable('string')}]"
        if choice == 6:
            test = f"(clojure.string/includes? {self.variable('string')} {self.constant('string')})"
            return f"[{test} ?b]"
        if choice == 7:
            return f"[(ground [1 2 7]) [{self.variable('long')} ...]]"
        return f"[(< {self.variable('long')} {self.constant('long')}) ?b]"

    def call(self) -> str:
        entity = [self.term("ref") for _ in range(2)]
        name = self.random.choice(self.rules)[2:].split()[0].strip("(")
        if name in ("big", "lonely"):
            return f"({name} {entity[0]})"
        if name == "above":
            return f"(above {self.variable('long')})"
        if name == "next":
            return f"(next {self.variable('long')} {self.variable('long')})"
        if name == "valued":
            return f"(valued {entity[0]} {self.random.choice(['?v', '?n', '?s', '?f', '_'])})"
        return f"({name} {' '.join(entity)})"

    def either(self, depth: int) -> str:
        """An ``or`` whose branches ask for the same variables, mostly."""
        one, other = self.random.sample(["?e", "?f", "?g"], 2)
        branches = []
        for _ in range(self.random.randint(2, 3)):
            name = self.random.choice([":r/a", ":r/b", ":n/x"])
            branch = f"[{one} {name} {other}]"
            if depth and self.random.random() < 0.5:
                also = self.random.choice([f"(not [{other} :r/a {one}])", f"[(!= {one} {other})]", f"[{other} :s/x]"])
                branch = f"(and {branch} {also})"
            branches.append(branch)
        return f"(or {' '.join(branches)})"

    def none(self, depth: int) -> str:
        inner = " ".join(self.clause(depth) for _ in range(self.random.randint(1, 2)))
        return f"(not {inner})"

    def either_join(self, depth: int) -> str:
        joined = self.random.sample(["?e", "?n", "?s", "?f"], self.random.randint(1, 2))
        branches = []
        for _ in range(2):
            parts = [self.holding(one) for one in joined]
            parts += [self.clause(depth) for _ in range(self.random.randint(0, 1))]
            branches.append(f"(and {' '.join(parts)})")
        return f"(or-join [{' '.join(joined)}] {' '.join(branches)})"

    def none_join(self, depth: int) -> str:
        joined = self.random.choice(["?e", "?n", "?s", "?f"])
        parts = [self.holding(joined), *(self.clause(depth) for _ in range(self.random.randint(0, 2)))]
        return f"(not-join [{joined}] {' '.join(parts)})"

    def holding(self, variable: str) -> str:
        """A clause that has a variable in it."""
        draw = self.random
        if variable in ("?e", "?f"):
            return draw.choice([f"[{variable} :r/a _]", f"[{variable} :n/x ?m]", f"[_ :r/b {variable}]"])
        if variable == "?n":
            return draw.choice(["[?g :n/x ?n]", "[(> ?n 0)]", "[?h :n/y ?n]"])
        return draw.choice(["[?g :s/x ?s]", '[(!= ?s "a")]', "[?g :s/y ?s]"])
