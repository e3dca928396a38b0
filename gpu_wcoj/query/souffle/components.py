"""Components, expanded to the statements of each instance with a scope for their names.

A name of an instance's relation is its name in the component behind the name of the instance: ``x.rel``. A name that a
component does not declare is looked up where the component is instantiated, then around that, as in Soufflé.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpu_wcoj.errors import GpuWcojError, nearest

if TYPE_CHECKING:
    from lark import Token, Tree

    Node = Tree[Token]

MAX_STATEMENTS = 20_000
"""Most statements after the expansion of components, as a number of lines."""
MAX_DEPTH = 50
"""Deepest nesting of instances and longest chain of inheritance, in levels."""

Complain = Callable[[str, "Token"], GpuWcojError]
"""Returns an error at a token."""


@dataclass(eq=False)
class Names:
    """The names that one instance, or the program outside of components, declares."""

    relations: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    components: dict[str, Node] = field(default_factory=dict)
    instances: dict[str, Scope] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Scope:
    """Lookup of the names of a statement.

    Attributes
    ----------
    prefix
        The name of the instance and a point; empty outside of components.
    outer
        The scope of the ``.init`` line; None outside of components.
    parameters
        Per parameter of the component, its argument as written and as the name of a type.
    """

    prefix: str = ""
    outer: Scope | None = None
    names: Names = field(default_factory=Names)
    parameters: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def around(self) -> Iterator[Scope]:
        """Yield this scope and those around it, from the inside."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def relation(self, name: str) -> str:
        """Return the full name of a relation; a name that is declared nowhere stays as it is."""
        head, _, rest = name.partition(".")
        for scope in self.around():
            if rest and head in scope.names.instances:
                return scope.names.instances[head].prefix + rest
            if not rest and head in scope.names.relations:
                return scope.prefix + head
        return name

    def type(self, name: str) -> str:
        """Return the full name of a type; a name that is declared nowhere stays as it is."""
        if name in self.parameters:
            return self.parameters[name][1]
        head, _, rest = name.partition(".")
        for scope in self.around():
            if rest and head in scope.names.instances:
                return scope.names.instances[head].prefix + rest
            if not rest and head in scope.names.types:
                return scope.prefix + head
        return name

    def argument(self, name: str) -> tuple[str, str]:
        """Return an argument as written, parameters replaced, and as the name of a type."""
        return (self.parameters[name][0] if name in self.parameters else name), self.type(name)

    def component(self, name: str) -> Node | None:
        """Return the definition of a component; None if there is none."""
        written, _ = self.argument(name)
        return next((found for scope in self.around() if (found := scope.names.components.get(written))), None)

    def components(self) -> set[str]:
        """Return the names of all components here."""
        return {name for scope in self.around() for name in scope.names.components}


@dataclass(frozen=True, eq=False)
class Element:
    """A statement with its scope, and the relations whose rules a sub-component overrides."""

    node: Node
    scope: Scope
    overridden: frozenset[str] = frozenset()


def expand(statements: Sequence[Node], complain: Complain) -> tuple[Element, ...]:
    """Return the statements of a program and of all its instances, in order."""
    expansion = _Expansion(complain)
    scope = Scope()
    return tuple(expansion.enter([Element(statement, scope) for statement in statements], scope, 0))


class _Expansion:
    def __init__(self, complain: Complain) -> None:
        self.complain = complain
        self.n_statements = 0

    def enter(self, elements: Sequence[Element], scope: Scope, depth: int) -> list[Element]:
        """Declare the names of statements, then instantiate what they initialise."""
        names = scope.names
        for element in elements:
            node = element.node
            if node.data == "declaration":
                names.relations.update(map(str, _tokens(node)))
            elif node.data == "typing":
                names.types.add(str(_tokens(node)[1]))
            elif node.data == "component":
                (token, *_) = _tokens(_trees(node)[0])
                if names.components.setdefault(str(token), node) is not node:
                    raise self.complain(f"component '{token}' is defined twice", token)
        expanded: list[Element] = []
        for element in elements:
            if element.node.data in ("component", "override"):
                continue
            self.n_statements += 1
            if self.n_statements > MAX_STATEMENTS:
                what = f"the components expand to more than {MAX_STATEMENTS:,} statements; instantiate less"
                raise self.complain(what, first_token(element.node))
            if element.node.data == "instance":
                expanded += self.instance(element, depth)
            else:
                expanded.append(element)
        return expanded

    def instance(self, element: Element, depth: int) -> list[Element]:
        """Return the statements of an instance."""
        token, *_ = _tokens(element.node)
        (component,) = _trees(element.node)
        names = element.scope.names
        if str(token) in names.instances:
            raise self.complain(f"the instance '{token}' is initialised twice", token)
        if depth >= MAX_DEPTH:
            raise self.complain(f"components nest more than {MAX_DEPTH} deep; one may instantiate itself", token)
        inner = Scope(f"{element.scope.prefix}{token}.", element.scope)
        names.instances[str(token)] = inner
        return self.enter(self.inherit(component, element.scope, inner, frozenset(), depth), inner, depth + 1)

    def inherit(
        self, component: Node, written_in: Scope, inner: Scope, overridden: frozenset[str], depth: int
    ) -> list[Element]:
        """Return the statements of a component and of those that it inherits from, the latter first."""
        token, *arguments = _tokens(component)
        definition = written_in.component(str(token))
        if definition is None:
            near = nearest(str(token), written_in.components())
            raise self.complain(f"unknown component '{token}'; define it with .comp.{near}", token)
        if depth >= MAX_DEPTH:
            raise self.complain(f"components inherit more than {MAX_DEPTH} deep; one may inherit from itself", token)
        own, *supers = [tree for tree in _trees(definition) if tree.data == "component_type"]
        _, *parameters = map(str, _tokens(own))
        if len(arguments) != len(parameters):
            what = f"component '{token}' takes {len(parameters)} parameters, and gets {len(arguments)}"
            raise self.complain(what, token)
        values = [written_in.argument(str(argument)) for argument in arguments]
        layer = Scope(inner.prefix, inner.outer, inner.names, dict(zip(parameters, values, strict=True)))
        (body,) = [tree for tree in _trees(definition) if tree.data == "program"]
        statements = _trees(body)
        overrides = [_tokens(statement)[0] for statement in statements if statement.data == "override"]
        names = frozenset(map(str, overrides))
        inherited: list[Element] = []
        for base in supers:
            inherited += self.inherit(base, layer, inner, overridden | names, depth + 1)
        for override in overrides:
            self.check_override(override, inherited)
        return [*inherited, *(Element(statement, layer, overridden) for statement in statements)]

    def check_override(self, name: Token, inherited: Sequence[Element]) -> None:
        """Raise unless a super-component declares the relation as overridable."""
        for element in inherited:
            tokens = _tokens(element.node)
            if element.node.data == "declaration" and name in tokens:
                if "overridable" in tokens:
                    return
                what = f"relation '{name}' is not declared 'overridable', so no component can override its rules"
                raise self.complain(what, name)
        raise self.complain(f"'{name}' is not a relation of a super-component, so there is nothing to override", name)


def first_token(node: Node) -> Token:
    """Return the first token of a statement."""
    from lark import Token

    return next(token for token in node.scan_values(lambda value: isinstance(value, Token)))


def _trees(node: Node) -> list[Node]:
    from lark import Tree

    return [child for child in node.children if isinstance(child, Tree)]


def _tokens(node: Node) -> list[Token]:
    from lark import Token

    return [child for child in node.children if isinstance(child, Token)]
