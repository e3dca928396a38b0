"""The one representation of queries: terms, atoms, comparisons and rules, whatever language they came from."""

from __future__ import annotations

from dataclasses import dataclass, field


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


@dataclass(frozen=True)
class Constant:
    """A literal value of the text: an int, float, bool or str."""

    value: int | float | bool | str

    def __str__(self) -> str:
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if isinstance(self.value, str):
            escaped = self.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
            return f'"{escaped}"'
        return repr(self.value)


Term = Variable | Constant

COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Span:
    """Where a piece of text stands: line and column count from 1."""

    line: int = 0
    column: int = 0
    width: int = 1


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
class Rule:
    """``head :- atoms, comparisons.``"""

    head: Atom
    atoms: tuple[Atom, ...]
    comparisons: tuple[Comparison, ...] = ()

    def __str__(self) -> str:
        body = [str(part) for part in (*self.atoms, *self.comparisons)]
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


@dataclass(frozen=True)
class Rules:
    """A whole program text: its rules in order, its declarations, and the relations its ``.output`` lines name."""

    rules: tuple[Rule, ...]
    declarations: tuple[Declaration, ...] = ()
    outputs: tuple[str, ...] = ()
    text: str = field(default="", compare=False)

    @property
    def heads(self) -> tuple[str, ...]:
        """The relations that rules define, in the order in which they first stand."""
        return tuple(dict.fromkeys(rule.head.relation for rule in self.rules))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The relations that bodies read and no rule defines, in the order in which they first stand."""
        heads = set(self.heads)
        used = dict.fromkeys(atom.relation for rule in self.rules for atom in rule.atoms)
        return tuple(name for name in used if name not in heads)
