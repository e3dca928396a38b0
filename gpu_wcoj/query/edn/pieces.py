"""Translation of clauses to parts of a rule body."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpu_wcoj.query.edn.ast import Const, Function, Predicate, Text, Var
from gpu_wcoj.query.edn.functions import ARITHMETIC, COMPARISONS, PARITY, TESTS
from gpu_wcoj.query.edn.names import Names
from gpu_wcoj.query.edn.resolve import DOUBLE, LONG, Env, meet
from gpu_wcoj.query.ir import Atom, Call, Comparison, Constant, Expression, Variable, variables_of

ZERO = Constant(0)


@dataclass(frozen=True)
class Piece:
    """Part of a rule body.

    Attributes
    ----------
    needs
        The variables that another part must bind.
    is_plain
        True if it reads no helper relation.
    """

    atoms: tuple[Atom, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    negated: tuple[Atom, ...] = ()
    binds: frozenset[Variable] = frozenset()
    needs: frozenset[Variable] = frozenset()
    is_plain: bool = False


@dataclass
class Body:
    """The body of a rule under construction.

    Attributes
    ----------
    outer
        Parts of the enclosing rules that may be copied where they bind a variable that this body needs.
    """

    outer: tuple[Piece, ...]
    pieces: list[Piece] = field(default_factory=list)

    @property
    def available(self) -> tuple[Piece, ...]:
        """The parts that a nested body may copy."""
        return (*self.outer, *self.pieces)

    def binding_pieces(self, variables: Iterable[Variable]) -> list[Piece]:
        """Return the parts that bind and restrict the arguments of a rule, without other rules.

        Without the restricting parts, a rule that counts down to 0 would be called with all numbers below.
        """
        available = self.available
        chosen = pieces_that_bind(available, variables)
        remaining = [piece for piece in available if piece.is_plain and piece not in chosen]
        while True:
            bound = {variable for piece in chosen for variable in piece.binds}
            joined = [piece for piece in remaining if piece.needs <= bound and (piece.binds | piece.needs) & bound]
            if not joined:
                return [piece for piece in available if piece in chosen]
            chosen += joined
            remaining = [piece for piece in remaining if piece not in joined]

    def rule_pieces(self, variables: Iterable[Variable] = ()) -> list[Piece]:
        """Return the parts of this body, and the outer parts that bind its free variables."""
        bound = {variable for piece in self.pieces for variable in piece.binds}
        missing = {*variables, *(variable for piece in self.pieces for variable in piece.needs)} - bound
        return [*pieces_that_bind(self.outer, missing), *self.pieces]


def pieces_that_bind(pieces: Sequence[Piece], variables: Iterable[Variable]) -> list[Piece]:
    """Return the parts that bind `variables`, with their dependencies and comparisons.

    A comparison may protect a calculation, for example from a division by zero.
    """
    waiting = list(dict.fromkeys(variables))
    bound: set[Variable] = set()
    chosen: set[int] = set()
    while waiting:
        variable = waiting.pop()
        if variable in bound:
            continue
        index = next(index for index, piece in enumerate(pieces) if variable in piece.binds)
        chosen.add(index)
        bound |= pieces[index].binds
        waiting += pieces[index].needs - bound
    if chosen:
        chosen |= {
            index
            for index, piece in enumerate(pieces)
            if piece.comparisons and not piece.binds and piece.needs <= bound
        }
    return [pieces[index] for index in sorted(chosen)]


def to_comparisons(names: Names, clause: Predicate, env: Env) -> list[Comparison]:
    """Return the comparisons of a predicate, all of which must hold."""
    terms = [names.term(term) for term in clause.terms]
    if clause.op in TESTS:
        return [Comparison(TESTS[clause.op], terms[0], ZERO)]
    if clause.op in PARITY:
        return [Comparison(PARITY[clause.op], Call("%", (terms[0], Constant(2))), ZERO)]
    op = COMPARISONS[clause.op]
    if op == "!=":
        first, second = (frozenset({term.type}) if isinstance(term, Const) else env.get(term) for term in clause.terms)
        if meet(first, second) == frozenset():
            return []  # values of two types are unequal
    comparisons = []
    for left, right in zip(clause.terms, clause.terms[1:], strict=False):
        left_term, right_term = unify_numbers(names, (left, right), env)
        comparisons.append(Comparison("=" if op == "==" else op, left_term, right_term))
    return comparisons


def unify_numbers(names: Names, terms: Sequence[Var | Const], env: Env) -> list[Expression]:
    """Return terms with numbers of one type; longs beside doubles become doubles."""
    types = [frozenset({term.type}) if isinstance(term, Const) else env.get(term) for term in terms]
    mixed = DOUBLE in types and LONG in types
    unified: list[Expression] = []
    for operand, kind in zip(terms, types, strict=True):
        term = names.term(operand)
        if mixed and kind == LONG:
            unified.append(
                Constant(float(term.value)) if isinstance(term, Constant) else Call("double", (term,))  # type: ignore[arg-type]  # an int
            )
        else:
            unified.append(term)
    return unified


def to_expression(names: Names, text: Text, clause: Function, env: Env) -> Expression:
    """Return the value of a function as an expression."""
    op, terms = clause.op, clause.terms
    if op == "identity":
        return names.term(terms[0])
    if op == "count":
        return Call("strlen", (names.term(terms[0]),))
    if op == "str":
        return _text(names, text, clause)
    numbers = unify_numbers(names, terms, env)
    if op in ("inc", "dec"):
        return Call("+" if op == "inc" else "-", (numbers[0], Constant(1)))
    if op == "mod":
        remainder = Call("%", (numbers[0], numbers[1]))
        return Call("%", (Call("+", (remainder, numbers[1])), numbers[1]))
    symbol = ARITHMETIC[op]
    if len(numbers) == 1:
        return Call(symbol, (numbers[0],))
    value = numbers[0]
    for operand in numbers[1:]:
        value = Call(symbol, (value, operand))
    return value


def _text(names: Names, text: Text, clause: Function) -> Expression:
    parts: list[Expression] = []
    for operand in clause.terms:
        if isinstance(operand, Var):
            parts.append(names.term(operand))
        elif operand.type in ("double", "instant"):
            raise text.unsupported(f"'str' of {operand} is not supported; write the text", clause.span)
        else:
            value = ("true" if operand.value else "false") if operand.type == "boolean" else str(operand.value)
            parts.append(Constant(value))
    if len(parts) == 1:
        return parts[0]
    return Call("cat", tuple(parts))


def piece_of(
    atoms: Sequence[Atom] = (),
    comparisons: Sequence[Comparison] = (),
    result: Variable | None = None,
    is_plain: bool = True,
) -> Piece:
    """Return a part whose atoms bind their variables and whose comparisons bind `result`."""
    binds = frozenset(variable for atom in atoms for variable in atom.variables)
    used = frozenset(variable for comparison in comparisons for variable in comparison.variables)
    if result is not None:
        used = frozenset(variable for comparison in comparisons for variable in variables_of([comparison.right]))
        return Piece(tuple(atoms), tuple(comparisons), (), binds | ({result} - used), used, is_plain)
    return Piece(tuple(atoms), tuple(comparisons), (), binds, used - binds, is_plain)
