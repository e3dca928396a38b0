"""What one clause becomes in the body of a rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpu_wcoj.query.edn.clauses import Const, Function, Predicate, Text, Var
from gpu_wcoj.query.edn.functions import ARITHMETIC, COMPARISONS, PARITY, TESTS
from gpu_wcoj.query.edn.kinds import DOUBLE, LONG, Env, meet
from gpu_wcoj.query.edn.names import Names
from gpu_wcoj.query.terms import Atom, Call, Comparison, Constant, Expression, Variable, variables_of

ZERO = Constant(0)


@dataclass(frozen=True)
class Piece:
    """Part of a rule's body.

    Attributes
    ----------
    needs
        The variables that other parts must bind.
    is_plain
        Whether it reads no helper.
    """

    atoms: tuple[Atom, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    negated: tuple[Atom, ...] = ()
    binds: frozenset[Variable] = frozenset()
    needs: frozenset[Variable] = frozenset()
    is_plain: bool = False


@dataclass
class Body:
    """The body of a rule, as far as it has come.

    Attributes
    ----------
    outer
        Parts of the rules around that may be taken over, where they bind something that this body needs.
    """

    outer: tuple[Piece, ...]
    pieces: list[Piece] = field(default_factory=list)

    @property
    def available(self) -> tuple[Piece, ...]:
        """What a body within this one may take over."""
        return (*self.outer, *self.pieces)

    def asking(self, wanted: Iterable[Variable]) -> list[Piece]:
        """What binds what a rule is asked with, and all that narrows it down, other rules aside.

        Without that, a rule that counts down to 0 would be asked for all numbers below.
        """
        available = self.available
        chosen = needed(available, wanted)
        rest = [piece for piece in available if piece.is_plain and piece not in chosen]
        while True:
            bound = {one for piece in chosen for one in piece.binds}
            joined = [piece for piece in rest if piece.needs <= bound and (piece.binds | piece.needs) & bound]
            if not joined:
                return [piece for piece in available if piece in chosen]
            chosen += joined
            rest = [piece for piece in rest if piece not in joined]

    def taken(self, wanted: Iterable[Variable] = ()) -> list[Piece]:
        """The parts of the rule: those of this body, and what they and `wanted` need of those around."""
        bound = {one for piece in self.pieces for one in piece.binds}
        missing = {*wanted, *(one for piece in self.pieces for one in piece.needs)} - bound
        return [*needed(self.outer, missing), *self.pieces]


def needed(pieces: Sequence[Piece], wanted: Iterable[Variable]) -> list[Piece]:
    """The parts that bind what is wanted, with what they need themselves, and the comparisons of what they bind.

    Comparisons may keep a calculation from what it cannot be asked of, such as a division by zero.
    """
    waiting = list(dict.fromkeys(wanted))
    bound: set[Variable] = set()
    chosen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one in bound:
            continue
        at = next(at for at, piece in enumerate(pieces) if one in piece.binds)
        chosen.add(at)
        bound |= pieces[at].binds
        waiting += pieces[at].needs - bound
    if chosen:
        chosen |= {at for at, one in enumerate(pieces) if one.comparisons and not one.binds and one.needs <= bound}
    return [pieces[at] for at in sorted(chosen)]


def compared(names: Names, clause: Predicate, env: Env) -> list[Comparison]:
    """The comparisons that a predicate stands for, all of which must hold."""
    terms = [names.term(one) for one in clause.terms]
    if clause.op in TESTS:
        return [Comparison(TESTS[clause.op], terms[0], ZERO)]
    if clause.op in PARITY:
        return [Comparison(PARITY[clause.op], Call("%", (terms[0], Constant(2))), ZERO)]
    op = COMPARISONS[clause.op]
    if op == "!=":
        first, second = (frozenset({one.type}) if isinstance(one, Const) else env.get(one) for one in clause.terms)
        if meet(first, second) == frozenset():
            return []  # values of two types are unequal
    found = []
    for left, right in zip(clause.terms, clause.terms[1:], strict=False):
        one, other = alike(names, (left, right), env)
        found.append(Comparison("=" if op == "==" else op, one, other))
    return found


def alike(names: Names, terms: Sequence[Var | Const], env: Env) -> list[Expression]:
    """Terms with numbers of one type: longs beside doubles are made doubles, as Clojure does."""
    types = [frozenset({one.type}) if isinstance(one, Const) else env.get(one) for one in terms]
    mixed = DOUBLE in types and LONG in types
    found: list[Expression] = []
    for one, kind in zip(terms, types, strict=True):
        term = names.term(one)
        if mixed and kind == LONG:
            found.append(
                Constant(float(term.value)) if isinstance(term, Constant) else Call("double", (term,))  # type: ignore[arg-type]  # an int
            )
        else:
            found.append(term)
    return found


def calculated(names: Names, text: Text, clause: Function, env: Env) -> Expression:
    """The value of a function."""
    op, terms = clause.op, clause.terms
    if op == "identity":
        return names.term(terms[0])
    if op == "count":
        return Call("strlen", (names.term(terms[0]),))
    if op == "str":
        return _text(names, text, clause)
    numbers = alike(names, terms, env)
    if op in ("inc", "dec"):
        return Call("+" if op == "inc" else "-", (numbers[0], Constant(1)))
    if op == "mod":
        rest = Call("%", (numbers[0], numbers[1]))
        return Call("%", (Call("+", (rest, numbers[1])), numbers[1]))
    symbol = ARITHMETIC[op]
    if len(numbers) == 1:
        return Call(symbol, (numbers[0],))
    found = numbers[0]
    for one in numbers[1:]:
        found = Call(symbol, (found, one))
    return found


def _text(names: Names, text: Text, clause: Function) -> Expression:
    parts: list[Expression] = []
    for one in clause.terms:
        if isinstance(one, Var):
            parts.append(names.term(one))
        elif one.type in ("double", "instant"):
            raise text.unsupported(f"'str' of {one} is not supported; write the text", clause.span)
        else:
            value = ("true" if one.value else "false") if one.type == "boolean" else str(one.value)
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
    """A part whose atoms bind all their variables, and whose comparisons bind `result` if there is one."""
    binds = frozenset(one for atom in atoms for one in atom.variables)
    used = frozenset(one for comparison in comparisons for one in comparison.variables)
    if result is not None:
        used = frozenset(one for comparison in comparisons for one in variables_of([comparison.right]))
        return Piece(tuple(atoms), tuple(comparisons), (), binds | ({result} - used), used, is_plain)
    return Piece(tuple(atoms), tuple(comparisons), (), binds, used - binds, is_plain)
