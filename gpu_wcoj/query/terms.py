"""The one representation of queries: terms, atoms, comparisons and rules, whatever language they came from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from gpu_wcoj.errors import UnsupportedTypeError


@dataclass(frozen=True)
class Variable:
    """A name that a rule binds. A wildcard ``_`` is a variable with a fresh name that starts with ``_``."""

    name: str

    def __str__(self) -> str:
        return "_" if self.is_wildcard else self.name

    @property
    def is_wildcard(self) -> bool:
        """Whether it stands for ``_``."""
        return self.name.startswith("_#")


@dataclass(frozen=True, eq=False)
class Constant:
    r"""A literal value of the text: an int, float, bool or str. Equal to a constant of its own type only.

    Examples
    --------
    >>> Constant(1) == Constant(True)
    False
    >>> print(Constant('say "hi"'))
    "say \"hi\""
    """

    value: int | float | bool | str

    def __post_init__(self) -> None:
        if type(self.value) not in (int, float, bool, str):
            raise UnsupportedTypeError(
                f"a constant of type {type(self.value).__name__} is not supported; int, float, bool and str are."
            )
        if type(self.value) is int and not -(2**63) <= self.value < 2**63:
            raise UnsupportedTypeError(f"integer {self.value} is outside int64, -2^63 to 2^63-1.")
        if type(self.value) is float and not math.isfinite(self.value):
            raise UnsupportedTypeError(f"float {self.value} is not a finite number.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constant):
            return NotImplemented
        return type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))

    def __str__(self) -> str:
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if isinstance(self.value, str):
            return f'"{"".join(map(_escaped, self.value))}"'
        return repr(self.value)


ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
"""Characters of a string constant and how the text spells them; others that do not print are ``\\uXXXX``."""


def _escaped(char: str) -> str:
    if char in ESCAPES:
        return ESCAPES[char]
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


Term = Variable | Constant


@dataclass(frozen=True)
class Span:
    """Where a piece of text stands: line and column count from 1."""

    line: int = 0
    column: int = 0
    width: int = 1


@dataclass(frozen=True)
class Call:
    """``op(arguments)``: arithmetic (``+ - * / %``, ``-`` of one argument) or ``cat``, ``substr``, ``strlen``.

    Examples
    --------
    >>> print(Call("*", (Call("+", (Variable("a"), Constant(1))), Variable("b"))))
    (a + 1) * b
    >>> print(Call("cat", (Variable("a"), Constant("!"))))
    cat(a, "!")
    """

    op: str
    arguments: tuple[Expression, ...]
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        if self.op.isalpha():
            return f"{self.op}({', '.join(map(str, self.arguments))})"
        shown = [f"({one})" if isinstance(one, Call) and not one.op.isalpha() else str(one) for one in self.arguments]
        return f" {self.op} ".join(shown) if len(shown) > 1 else f"{self.op}{shown[0]}"

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The distinct variables, in the order in which they first stand."""
        return variables_of(self.arguments)


Expression = Variable | Constant | Call


def variables_of(parts: Iterable[Expression]) -> tuple[Variable, ...]:
    """The distinct variables of expressions, in the order in which they first stand."""
    found: dict[Variable, None] = {}
    for part in parts:
        if isinstance(part, Variable):
            found[part] = None
        elif isinstance(part, Call):
            found.update(dict.fromkeys(part.variables))
    return tuple(found)


COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Atom:
    """``relation(term, ...)``: one occurrence of a relation in a body, or a head."""

    relation: str
    terms: tuple[Term, ...]
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"{self.relation}({', '.join(map(str, self.terms))})"

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The distinct variables, in the order in which they first stand."""
        return tuple(dict.fromkeys(term for term in self.terms if isinstance(term, Variable)))


@dataclass(frozen=True)
class Comparison:
    """``left op right`` between two terms, with `op` one of `COMPARISONS`."""

    op: str
    left: Term
    right: Term
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The distinct variables, left one first."""
        return tuple(dict.fromkeys(term for term in (self.left, self.right) if isinstance(term, Variable)))


@dataclass(frozen=True)
class Computed:
    """``variable = call`` of a rule in core form: the call's arguments are variables and constants."""

    variable: Variable
    call: Call

    def __str__(self) -> str:
        return f"{self.variable} = {self.call}"


@dataclass(frozen=True)
class Rule:
    """``head :- atoms, not negated, comparisons.``

    In core form, which is what the planner takes, terms of atoms and comparisons are variables and constants, what is
    calculated stands in `computed`, each behind those that it uses, and every variable of a negated atom is bound by
    the positive ones or computed.
    """

    head: Atom
    atoms: tuple[Atom, ...]
    comparisons: tuple[Comparison, ...] = ()
    negated: tuple[Atom, ...] = ()
    computed: tuple[Computed, ...] = ()

    def __str__(self) -> str:
        negated = (f"!{atom}" for atom in self.negated)
        body = [*map(str, self.atoms), *negated, *map(str, self.computed), *map(str, self.comparisons)]
        return f"{self.head} :- {', '.join(body)}."

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The distinct variables of the body's atoms, in the order in which they first stand."""
        return tuple(dict.fromkeys(variable for atom in self.atoms for variable in atom.variables))


@dataclass(frozen=True)
class Declaration:
    """``.decl relation(column: type, ...)``: names of columns, and their types where given (else None)."""

    relation: str
    columns: tuple[str, ...]
    types: tuple[str | None, ...]
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        pairs = zip(self.columns, self.types, strict=True)
        return (
            f".decl {self.relation}({', '.join(name if kind is None else f'{name}: {kind}' for name, kind in pairs)})"
        )


@dataclass(frozen=True)
class Grouping:
    """A head of a program in core form that aggregates another relation by its first columns.

    Attributes
    ----------
    relation
        The head; its columns are the keys and then the result.
    source
        The relation that is aggregated: the keys, then the value (for ``count``: none), then whatever tells the
        rows that count apart.
    keys
        How many columns are keys. Groups without rows do not stand in the head, also where there are no keys.
    op
        ``count``, ``sum``, ``min``, ``max`` or ``mean``.
    """

    relation: str
    source: str
    keys: int
    op: str


@dataclass(frozen=True)
class Extreme:
    """A head of a program in core form that keeps, of rows that agree elsewhere, the one with the least value.

    Attributes
    ----------
    column
        Where the value stands.
    op
        ``min`` or ``max``.
    """

    relation: str
    column: int
    op: str


@dataclass(frozen=True)
class Rules:
    """A whole program text: its rules in order, its declarations, and the relations its ``.output`` lines name.

    As text it is a program again, which parses to an equal value.

    Examples
    --------
    >>> x, y = Variable("x"), Variable("y")
    >>> swap = Rule(Atom("swap", (y, x)), (Atom("pair", (x, y)),), (Comparison("<", x, Constant(5)),))
    >>> print(Rules((swap,), (Declaration("pair", ("left", "right"), ("int64", None)),), ("swap",)))
    .decl pair(left: int64, right)
    swap(y, x) :- pair(x, y), x < 5.
    .output swap
    """

    rules: tuple[Rule, ...]
    declarations: tuple[Declaration, ...] = ()
    outputs: tuple[str, ...] = ()
    text: str = field(default="", compare=False)
    groupings: tuple[Grouping, ...] = ()
    extremes: tuple[Extreme, ...] = ()

    def __str__(self) -> str:
        outputs = [f".output {name}" for name in self.outputs]
        return "\n".join([*map(str, self.declarations), *map(str, self.rules), *outputs])

    @property
    def heads(self) -> tuple[str, ...]:
        """The relations that rules define, in the order in which they first stand."""
        grouped = (one.relation for one in self.groupings)
        return tuple(dict.fromkeys([*(rule.head.relation for rule in self.rules), *grouped]))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The relations that bodies read and no rule defines, in the order in which they first stand."""
        heads = set(self.heads)
        used = dict.fromkeys(atom.relation for rule in self.rules for atom in (*rule.atoms, *rule.negated))
        return tuple(name for name in used if name not in heads)
