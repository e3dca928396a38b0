"""Parser of Datalog text to `Rules`, with the grammar ``datalog.lark``."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from gpu_wcoj.data.column import whole_pattern
from gpu_wcoj.data.schema import declared_type
from gpu_wcoj.errors import (
    DatalogSyntaxError,
    SchemaError,
    UnsupportedError,
    UnsupportedTypeError,
    UsageError,
    counted,
    nearest,
    pointed,
)
from gpu_wcoj.query.check import check
from gpu_wcoj.query.ir import (
    AGGREGATES,
    ARGUMENT_COUNTS,
    CONSTRAINTS,
    ESCAPES,
    FUNCTIONS,
    NEVER,
    NULL,
    TRUE,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Declaration,
    Directive,
    Expression,
    Rule,
    Rules,
    Span,
    Variable,
    functions_by_name,
)
from gpu_wcoj.query.languages import language_of
from gpu_wcoj.query.souffle import (
    FITTED,
    NIL_TERM,
    PRIMITIVES,
    RECORD,
    RECORD_TERM,
    Definition,
    Element,
    Rewriting,
    Scope,
    TypeDefinitionError,
    TypeTable,
    expand,
    first_token,
    functors,
    has_open_calls,
    is_arrow,
    with_equivalences,
)
from gpu_wcoj.query.stratify import extremes_of, loops_of
from gpu_wcoj.user_functions import Function

if TYPE_CHECKING:
    from lark import Lark, Token, Tree


if TYPE_CHECKING:
    Node = Tree[Token]  # the syntax tree of one statement or a part of it

_Body = tuple[tuple[Atom, ...], tuple[Comparison, ...], tuple[Atom, ...]]
_Literal = tuple["Node", bool]
"""A literal of a body, and whether it is negated."""

TEXT_BYTES = 1_000_000
"""Longest program text, in bytes of UTF-8."""
NAME_LENGTH = 255
"""Longest name of a relation, variable or column, in characters."""
NEGATED: Final[Mapping[str, str]] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""Comparison operators, and those that hold exactly if they do not."""
NESTING = 100
"""Deepest nesting of calculations, bodies and aggregates, in levels."""
MAX_ALTERNATIVES = 1_000
"""Most rules for which one rule stands by disjunctions in its body."""

_INTEGER_DIGITS = 30
"""Integers of more digits are refused without conversion; messages show this many digits."""
_FLOAT_DIGITS = 15
"""Significant decimal digits that every double preserves; a longer float constant stays a float."""
_MAX_DIGITS = 66
"""Most characters of an integer that is written in base 2 or 16."""
_MAX_BYTE = 255
"""Largest value of a part of an address, in units of 1."""
_PRECEDENCE: Final[Mapping[str, int]] = {
    "lor": 1, "lxor": 2, "land": 3, "bor": 4, "bxor": 5, "band": 6, "bshl": 7, "bshr": 7, "bshru": 7, "+": 8, "-": 8,
    "*": 9, "/": 9, "%": 9, "prefix -": 10, "prefix bnot": 10, "prefix lnot": 10, "^": 11,
}  # fmt: skip
"""Operators and how strongly they bind; ``^`` is right associative."""
_PREFIXES: Final[Mapping[str, str]] = {f"prefix {op}": op for op in ("-", "bnot", "lnot")}
_FUNCTOR_ARGUMENTS: Final[Mapping[str, tuple[int, int, str]]] = {
    "as": (2, 2, "a value and a type"),
    "range": (2, 3, "a start, an end and maybe a step"),
    "autoinc": (0, 0, "nothing"),
    **dict.fromkeys(("ord", "to_float", "to_number", "to_string", "to_unsigned"), (1, 1, "a value")),
}
"""Functors that the types of their arguments choose: least and greatest number of arguments, and these in words."""
RESERVED = ("cat", "substr", "strlen", *CONSTRAINTS)
"""Functions whose names no relation can have; other function names are relations outside of calculations."""
_UNESCAPED = {
    **{spelled[1]: char for char, spelled in ESCAPES.items()},
    "'": "'", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
}  # fmt: skip
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")


def parse(text: str, *, source: str = "<text>", functions: Iterable[Function] = ()) -> Rules:
    """Parse and check a program.

    Parameters
    ----------
    text
        Rules ``head :- body.``, facts ``head.``, comments (``%``, ``//``, ``/* */``), lines such as ``.decl``,
        ``.input`` and ``.output``, and components; see docs/datalog.md. At most 1,000,000 bytes.
    source
        The name of the text in messages, for example the name of its file.
    functions
        Python functions that the text may call; no relation can have the name of one.

    Raises
    ------
    DatalogSyntaxError
        If the text cannot be read; with line, column and the expected tokens.
    UnsupportedError
        For negation or aggregation through recursion, and for what depends on an order of evaluation.
    ArityError, SchemaError, UnknownRelationError, UnsafeRuleError, TypeMismatchError
        If rules and declarations disagree; see `gpu_wcoj.query.check.check`.

    Examples
    --------
    >>> rules = parse("triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).")
    >>> rules.inputs, rules.heads
    (('edge',), ('triangle',))
    >>> print(parse("young(name) :- person(name, age, _), age < 30. // comments are left out"))
    young(name) :- person(name, age, _), age < 30.
    >>> print(parse("far(x, y, 2 * d + 1) :- way(x, y, d), not near(x, y), n = count : { way(x, _, _) }, n > 3."))
    far(x, y, (2 * d) + 1) :- way(x, y, d), !near(x, y), n = count : { way(x, _, _) }, n > 3.
    """
    if not isinstance(text, str):
        raise UsageError.wrong_type("the program", text, "text (str)")
    n_bytes = len(text.encode("utf-8", "surrogatepass"))
    if n_bytes > TEXT_BYTES:
        raise UsageError.mismatch(
            "the program text", "is too long", f"{n_bytes:,} bytes", f"at most {TEXT_BYTES:,} bytes"
        )
    return _read(text, source, tuple(functions_by_name(functions).values()))


@functools.lru_cache(maxsize=64)
def _read(text: str, source: str, functions: tuple[Function, ...]) -> Rules:
    """Return the program of a text; equal texts share it, as `Rules` are immutable."""
    return _Reader(text, source, functions).rules()


@functools.lru_cache(maxsize=16)
def _parser(names: tuple[str, ...] = (), conditions: tuple[str, ...] = (), is_small: bool = False) -> Lark:
    """Return the parser of texts that may call Python functions; conditions return a bool."""
    from importlib.resources import files

    from lark import Lark

    grammar = files("gpu_wcoj.query").joinpath("datalog.lark").read_text(encoding="utf-8")
    if is_small:
        grammar = re.sub(r"(?m)^.*// \+\n", "", grammar)
    grammar = grammar.replace("FUNCTION.2: /(", f"FUNCTION.2: /({functors.PATTERN}|{'|'.join(functors.SPELLED)}|")
    for token, added in (("FUNCTION", names), ("CONSTRAINT", conditions)):
        grammar = grammar.replace(f"{token}.2: /(", "".join((f"{token}.2: /(", *(f"{name}|" for name in added))))
    return Lark(grammar, parser="lalr", lexer="contextual", start="program", propagate_positions=True)


@dataclass(frozen=True)
class _Declared:
    """A declaration with what only its text says.

    Attributes
    ----------
    kinds
        The full names of the columns' types.
    is_equivalence
        Whether the relation is closed to an equivalence.
    is_inside
        Whether it is declared in a component, where it may be unused.
    directives
        Lines of files and sizes for which qualifiers stand.
    """

    declaration: Declaration
    kinds: tuple[str | None, ...]
    is_equivalence: bool
    is_inside: bool
    directives: tuple[Directive, ...]


class _Reader:
    """Converter of the syntax tree of one text to rules."""

    def __init__(self, text: str, source: str, functions: Iterable[Function] = ()) -> None:
        self.text = text
        self.source = source
        self.functions = {function.name: function for function in functions}
        self.n_wildcards = 0
        self.scope = Scope()
        self.types = TypeTable()

    def rules(self) -> Rules:
        elements = expand(list(self.statements()), self.error)
        by_kind: dict[str, list[Element]] = {}
        for element in elements:
            by_kind.setdefault(element.node.data, []).append(element)
        for element in by_kind.get("refused", ()):
            if next(_tokens(element.node)) != ".once":  # the command line reads each file once
                raise self.refusal(element.node)
        if "rule" not in by_kind:
            raise DatalogSyntaxError(
                "the program has no rule; write one such as 'h(x) :- r(x, y).'", self.text, 1, 1, 1, self.source
            )
        self.define_types(by_kind.get("typing", ()))
        declared = [one for element in by_kind.get("declaration", ()) for one in self.declarations(element)]
        rules = tuple(rule for element in by_kind["rule"] for rule in self.rules_of(element))
        used = {atom.relation for rule in rules for atom in (rule.head, *rule.read)}
        declared = [one for one in declared if one.declaration.relation in used or not one.is_inside]
        tagged = [directive for one in declared for directive in one.directives]
        directives = self.directives([*by_kind.get("directive", ()), *by_kind.get("counted", ())], tagged)
        rules, declarations = self.typed(rules, declared, directives)
        outputs = tuple(dict.fromkeys(one.relation for one in directives if one.kind not in ("input", "limitsize")))
        inputs = [directive for directive in directives if directive.kind == "input"]
        sized = {one.relation for one in directives if one.kind in ("printsize", "test")}
        written = [one for one in directives if one.kind != "input" and (one.parameters or one.relation in sized)]
        program = Rules(rules, declarations, outputs, self.text, directives=(*inputs, *written), source=self.source)
        check(program, source=self.source)
        equivalences = [one.declaration.relation for one in declared if one.is_equivalence]
        self.check_limits(program, equivalences, used)
        return with_equivalences(program, equivalences) if equivalences else program

    def statements(self) -> Iterator[Node]:
        from lark import UnexpectedInput

        are_bool = {name: function.returns.family == "bool" for name, function in sorted(self.functions.items())}
        names = tuple(name for name, is_bool in are_bool.items() if not is_bool)
        conditions = tuple(name for name, is_bool in are_bool.items() if is_bool)
        try:
            return _trees(_parser(names, conditions, is_small=True).parse(self.text))
        except UnexpectedInput:  # a mistake, or what the small parser does not know
            parser = _parser(names, conditions)
        try:
            return _trees(parser.parse(self.text))
        except UnexpectedInput:
            raise syntax_error(parser, self.text, self.source, tuple(are_bool)) from None

    def refusal(self, node: Node) -> UnsupportedError:
        """Return the error for a line that is never supported."""
        token, *_ = _tokens(node)
        word = token.split()[0]
        what = {
            ".include": "'.include' is read by the command line only: run the file by gpu-wcoj run, or join the texts",
            ".functor": "'.functor' declares functions of C++; declare a Python function with gpu_wcoj.function, pass "
            "it as functions=[...], and call it without '@'",
            ".lattice": "'.lattice' is not supported; min and max in heads go through recursion: dist(y, min(d + w))",
        }[word]
        return UnsupportedError(pointed(what, self.text, token.line or 0, token.column or 0, len(word), self.source))

    # Rules and bodies

    def rules_of(self, element: Element) -> Iterator[Rule]:
        """Yield the rules of a statement: one for each head and each alternative of its body."""
        self.scope = element.scope
        heads, *bodies = list(_trees(element.node))
        for head in _trees(heads):
            (name,) = _tokens(head)
            if str(name) in element.overridden and name in element.scope.names.relations:
                continue
            for conjunction in self.alternatives(bodies[0]) if bodies else [[]]:
                self.n_wildcards = 0
                terms = tuple(
                    self.applied(term) if term.data == "applied" else self.expression(term) for term in _trees(head)
                )
                atoms, comparisons, negated = self.body(conjunction)
                yield Rule(Atom(self.relation(name), terms or (TRUE,), _span(head)), atoms, comparisons, negated)

    def alternatives(self, node: Node, is_negated: bool = False, depth: int = 0) -> list[list[_Literal]]:
        """Return the conjunctions whose disjunction a body is, with negations at literals only."""
        if depth > NESTING:
            raise self.error(f"bodies nest more than {NESTING} deep; derive a part in a rule before", first_token(node))
        if node.data == "negated":
            return self.alternatives(next(_trees(node)), not is_negated, depth + 1)
        if node.data == "grouped":
            return self.alternatives(next(_trees(node)), is_negated, depth + 1)
        if node.data not in ("body", "conjunction"):
            return [[(node, is_negated)]]
        parts = [self.alternatives(part, is_negated, depth + 1) for part in _trees(node)]
        if (node.data == "body") != is_negated:
            return [conjunction for part in parts for conjunction in part]
        if math.prod(map(len, parts)) > MAX_ALTERNATIVES:
            what = f"the body stands for more than {MAX_ALTERNATIVES:,} rules, one for each choice of its ';'"
            raise self.error(f"{what}; write a relation for each disjunction", first_token(node))
        return [[literal for part in choice for literal in part] for choice in itertools.product(*parts)]

    def body(self, literals: Sequence[_Literal], depth: int = 0) -> _Body:
        """Return the atoms, comparisons and negated atoms of a conjunction, converted in this order."""
        atoms: list[Node] = []
        comparisons: list[tuple[Node, bool]] = []
        negated: list[Node] = []
        for written, is_negated in literals:
            node = written
            while node.data == "group":  # a condition in parentheses
                (node,) = _trees(node)
                while node.data == "expression":
                    (node,) = _trees(node)
            is_call = node.data in ("atom", "call", "constraint", "lone")
            if is_call and not self.is_condition(next(_tokens(node))):
                (negated if is_negated else atoms).append(node)
            elif is_call or node.data == "comparison" or _is_truth(node):
                comparisons.append((node, is_negated))
            else:
                what = "expected a relation or a comparison in the parentheses"
                raise self.error(what, first_token(written))
        return (
            tuple(self.atom(node, depth) for node in atoms),
            tuple(one for part, is_negated in comparisons for one in self.comparison(part, depth, is_negated)),
            tuple(self.atom(node, depth) for node in negated),
        )

    def is_condition(self, token: Token) -> bool:
        """Return whether a call is a condition by itself."""
        return token in CONSTRAINTS or token in self.functions

    def atom(self, node: Node, depth: int) -> Atom:
        (name,) = _tokens(node)
        terms = tuple(self.expression(term, depth) for term in _trees(node))
        return Atom(self.relation(name), terms or (TRUE,), _span(node))

    def comparison(self, node: Node, depth: int, is_negated: bool) -> Iterator[Comparison]:
        """Yield the comparison that a condition is; none for one that is always true."""
        if _is_truth(node):
            yield from () if (next(_tokens(node)) == "true") != is_negated else (NEVER,)
        elif node.data == "comparison":
            left, right = (self.expression(self.ungrouped(term), depth) for term in _trees(node))
            (operator,) = _tokens(node)
            yield Comparison(NEGATED[operator] if is_negated else str(operator), left, right, _span(node))
        else:
            call = self.call(node, depth)
            assert isinstance(call, Call)
            if call.function is not None and call.function.returns.family != "bool":
                kind = call.function.returns.name
                what = f"'{call.op}' returns '{kind}': a condition must return bool; compare it with a value"
                raise self.error(what, next(_tokens(node)))
            yield Comparison("=", call, Constant(not is_negated), _span(node))

    def ungrouped(self, node: Node) -> Node:
        """Return a side of a comparison; a single condition in parentheses is a value there."""
        while node.data == "grouped":
            alternatives = self.alternatives(node)
            if len(alternatives) != 1 or len(alternatives[0]) != 1 or alternatives[0][0][1]:
                raise self.error("expected a value in the parentheses", first_token(node))
            ((node, _),) = alternatives[0]
            if node.data != "constraint":
                raise self.error("expected a value in the parentheses", first_token(node))
        return node

    def expression(self, node: Node, depth: int = 0) -> Expression:
        while node.data in ("expression", "group"):
            (node,) = _trees(node)
        if depth > NESTING:
            what = f"calculations nest more than {NESTING} deep; calculate a part in a rule before"
            raise DatalogSyntaxError(what, self.text, *_place(_span(node)), self.source)
        inner, tokens = list(_trees(node)), list(_tokens(node))
        if node.data == "literal":
            return self.literal(tokens[0])
        if node.data == "minus" and inner[0].data == "literal" and tokens[0] == "-":
            (literal,) = _tokens(inner[0])
            if literal.type in ("INTEGER", "FLOAT", "DECIMAL"):
                return self.literal(literal, is_negative=True)
        if node.data == "aggregate":
            return self.aggregate(node, depth)
        if node.data == "chain":
            return self.chain(node, depth)
        if node.data in ("record", "branch"):
            op = RECORD_TERM if node.data == "record" else f"${tokens[0].rpartition('.')[2].removeprefix('$')}"
            return Call(op, tuple(self.expression(part, depth + 1) for part in inner), _span(node))
        return self.call(node, depth)

    def chain(self, node: Node, depth: int) -> Expression:
        """Return the calculation of operands and the operators between them, by precedence."""
        from lark import Token

        parts = list(node.children)
        if depth + len(parts) // 2 > NESTING:
            what = f"calculations nest more than {NESTING} deep; calculate a part in a rule before"
            raise DatalogSyntaxError(what, self.text, *_place(_span(node)), self.source)
        values: list[Expression] = []
        operators: list[str] = []

        def reduce(precedence: int) -> None:
            while operators and _PRECEDENCE[operators[-1]] >= precedence + (operators[-1] == "^"):
                op = operators.pop()
                count = 1 if op in _PREFIXES else 2
                operands = [values.pop() for _ in range(count)][::-1]
                values.append(self.operation(_PREFIXES.get(op, op), operands, _span(node)))

        for i, part in enumerate(parts):
            if isinstance(part, Token):
                reduce(_PRECEDENCE[part])
                operators.append(str(part))
                continue
            operand = part
            while operand.data == "minus" and parts[i + 1 : i + 2] == ["^"]:  # -x ^ 2 is -(x ^ 2)
                operators.append(f"prefix {next(_tokens(operand))}")
                (operand,) = _trees(operand)
            values.append(self.expression(operand, depth + 1))
        reduce(0)
        (result,) = values
        return result

    def operation(self, op: str, values: Sequence[Expression], span: Span) -> Call:
        """Return the call of an operator."""
        return Call(op, tuple(values), span, None if op in ("+", "-", "*", "/", "%", "^") else functors.functor(op))

    def call(self, node: Node, depth: int) -> Expression:
        """Return the call of a function or operator."""
        name = next(_tokens(node))
        inner = list(_trees(node))
        if name in functors.OLD_NAMES and name not in self.functions:
            name = name.update(value=functors.OLD_NAMES[name])
        function = self.functions.get(str(name)) or (functors.functor(str(name)) if name.isidentifier() else None)
        arguments = tuple(self.expression(argument, depth + 1) for argument in inner)
        call = Call(str(name), arguments, _span(node), function)
        n_arguments = len(call.arguments)
        if function is not None and n_arguments != len(function.parameters):
            raise self.error(f"'{call.op}' is {function.signature}: got {counted(n_arguments, 'argument')}", name)
        if function is None and call.op in _FUNCTOR_ARGUMENTS:
            least, most, words = _FUNCTOR_ARGUMENTS[call.op]
            if not least <= n_arguments <= most:
                raise self.error(f"'{call.op}' takes {words}: got {counted(n_arguments, 'argument')}", name)
            if call.op == "as":
                return self.cast(call, name)
        if call.op in ("count", "sum", "mean") and node.data == "call":
            raise self.error(f"'{call.op}' is an aggregate, and takes no list of values", name)
        min_arguments, max_arguments = ARGUMENT_COUNTS.get(call.op, (1, 1))
        if call.op in FUNCTIONS and not min_arguments <= n_arguments <= max_arguments:
            raise self.error(f"'{call.op}' takes {FUNCTIONS[call.op]}: got {counted(n_arguments, 'argument')}", name)
        if call.op == "match" and isinstance(call.arguments[0], Constant):
            self.check_pattern(call.arguments[0], _span(inner[0]))
        return call

    def cast(self, call: Call, token: Token) -> Call:
        """Return ``as(x, type)`` with the full name of the type."""
        value, kind = call.arguments
        if not isinstance(kind, Variable):
            raise self.error(f"'{call}' has no type: as(x, number)", token)
        return replace(call, arguments=(value, Variable(self.type_name(kind.name, token))))

    def check_pattern(self, pattern: Constant, span: Span) -> None:
        """Raise for a constant that is not a regular expression."""
        if isinstance(pattern.value, str) and whole_pattern(pattern.value) is None:
            what = (
                f"{pattern} is not a regular expression in the syntax of RE2, which has no back references and no "
                "look-around"
            )
            raise DatalogSyntaxError(what, self.text, span.line, span.column, span.width, self.source)

    def applied(self, node: Node) -> Call:
        """Return an aggregate of a head, over the body of its rule."""
        (op,) = _tokens(node)
        arguments = tuple(self.expression(argument) for argument in _trees(node))
        if op == "count" and any(
            not isinstance(argument, Variable) or not argument.is_wildcard for argument in arguments
        ):
            what = "'count' counts the ways to satisfy the body: write count(), and derive before what is distinct"
            raise self.error(what, op)
        if op != "count" and not arguments:
            raise self.error(f"'{op}' takes a value, as {op}(x)", op)
        return Call(str(op), () if op == "count" else arguments, _span(node))

    def aggregate(self, node: Node, depth: int) -> Aggregate:
        (op,) = _tokens(node)
        parts = list(_trees(node))
        value = self.expression(parts.pop(0), depth + 1) if parts[0].data == "expression" else None
        if (value is None) != (op == "count"):
            what = "takes no value: count : { ... }" if op == "count" else f"takes a value: {op} x : {{ ... }}"
            raise self.error(f"'{op}' {what}", op)
        if parts[0].data == "lone":
            literals: list[_Literal] = [(parts[0], False)]
        else:
            alternatives = self.alternatives(parts[0], depth=depth)
            if len(alternatives) > 1:
                what = "an aggregate has no ';' in its braces; derive the disjunction as a relation, and aggregate that"
                raise UnsupportedError(self.point(what, _span(parts[0])))
            (literals,) = alternatives
        atoms, comparisons, negated = self.body(literals, depth + 1)
        return Aggregate(str(op), value, atoms, comparisons, negated, _span(node))

    # Declarations

    def directives(self, elements: Iterable[Element], tagged: Iterable[Directive]) -> list[Directive]:
        """Return the lines of files and sizes in order, one for each relation and kind."""
        by_relation = {(directive.kind, directive.relation): directive for directive in tagged}
        for element in elements:
            self.scope, node = element.scope, element.node
            tokens = list(_tokens(node))
            parameters: dict[str, str] = {}
            for parameter in (child for part in _trees(node) for child in _trees(part)):
                name, _, value = _tokens(parameter)
                if name in parameters:
                    raise self.error(f"the parameter '{name}' is given twice", name)
                parameters[str(name)] = self.string(value) if value.type == "STRING" else str(value)
            if node.data == "counted":
                kind, parameters = "test", {"count": str(self.literal(tokens.pop()))}
            else:
                kind = tokens.pop(0).removeprefix(".")
            if kind == "limitsize":
                n_rows = parameters.get("n", "")
                if len(parameters) > 1 or not n_rows.isdecimal() or not 0 < len(n_rows.lstrip("0")) <= _INTEGER_DIGITS:
                    what = "'.limitsize' needs a number of rows above 0 and nothing else, as in .limitsize r(n=100)"
                    raise SchemaError(self.point(what, _span(node)))
            for token in tokens:
                directive = Directive(kind, self.relation(token), tuple(parameters.items()), _span(node))
                earlier = by_relation.setdefault((directive.kind, directive.relation), directive)
                if earlier.parameters and parameters and earlier != directive:
                    what = f"'{directive.relation}' has two lines .{directive.kind} with other parameters"
                    raise SchemaError(
                        pointed(what, self.text, token.line or 0, token.column or 0, len(token), self.source)
                    )
                if parameters:
                    by_relation[directive.kind, directive.relation] = directive
        return list(by_relation.values())

    def check_limits(self, program: Rules, equivalences: Collection[str], written: Collection[str]) -> None:
        """Raise for a limit of a relation that is not recursive, or has other iterations.

        `written` are the relations of the text; others take the place of ranges.
        """
        loops = loops_of(program) if program.size_limits else {}
        for directive in program.directives:
            if directive.kind == "limitsize":
                name, what = directive.relation, ""
                if name not in loops:
                    what = f"'.limitsize' ends a recursion, and '{name}' is not recursive; leave the line out"
                elif closed := [one for one in loops[name] if one in equivalences]:
                    what = f"'.limitsize' cannot end a recursion with '{closed[0]}', which is closed to an equivalence"
                elif best := [one for one in loops[name] if one in extremes_of(program)]:
                    what = f"'.limitsize' cannot end a recursion with '{best[0]}', which keeps one value of each group"
                elif not set(loops[name]).issubset(written):
                    what = "'.limitsize' cannot end a recursion through range(...), which takes iterations, too"
                if what:
                    raise UnsupportedError(self.point(what, directive.span))

    def declarations(self, element: Element) -> Iterator[_Declared]:
        """Yield the declaration of each relation of a line."""
        self.scope, node = element.scope, element.node
        tokens = list(_tokens(node))
        qualifiers = {str(token): token for token in tokens if token.type == "QUALIFIER"}
        for token in tokens:
            if token.type == "CHOICE":
                what = (
                    "'choice-domain' keeps any one row of several, which changes cannot keep; choose one by min or max "
                    "in the head, as in first(x, min(y))"
                )
                raise UnsupportedError(self.point(what, Span(token.line or 0, token.column or 0, len("choice-domain"))))
        columns = list(_trees(node))
        names = tuple(self.column(token) for column in columns for token in _tokens(column))
        kinds = tuple(next((self.type(kind) for kind in _trees(column)), None) for column in columns)
        types = tuple(None if kind is None else self.types.arrow(kind) for kind in kinds)
        held = (
            tuple(i for i, kind in enumerate(kinds) if kind is not None and self.types.kind(kind) == RECORD)
            if self.types
            else ()
        )
        is_equivalence = "eqrel" in qualifiers
        if is_equivalence and len(names) != 2:
            raise self.error("an equivalence relation has two columns", qualifiers["eqrel"])
        if not columns:
            names, types, kinds = ("holds",), ("bool",), ("bool",)
        for token in tokens:
            if token.type not in ("NAME", "QUALIFIED"):
                continue
            relation = self.relation(token)
            declaration = Declaration(relation, names, types, _span(node), records=held, is_nullary=not columns)
            tags = [Directive(kind, relation) for kind in ("input", "output", "printsize") if kind in qualifiers]
            yield _Declared(declaration, kinds, is_equivalence, bool(element.scope.prefix), tuple(tags))

    def define_types(self, elements: Iterable[Element]) -> None:
        """Define the types of ``.type`` lines."""
        defined: dict[str, Span] = {}
        for element in elements:
            self.scope = element.scope
            word, token, *signs = _tokens(element.node)
            parts = list(_trees(element.node))
            name = element.scope.prefix + self.name(token)
            defined[name] = _span(element.node)
            if name in PRIMITIVES or (not element.scope.prefix and is_arrow(name)):
                raise self.error(f"'{name}' is a built-in type", token)
            if not parts:
                base = "int64" if word == ".number_type" else "string"
                definition = Definition("subtype", (base,))
            elif signs[0] == "<:":
                definition = Definition("subtype", (self.type(parts[0]),))
            elif parts[0].data == "union":
                members = tuple(map(self.type, _trees(parts[0])))
                definition = Definition("union" if len(members) > 1 else "alias", members)
            elif parts[0].data == "fields":
                definition = Definition("record", branches={"": self.fields(parts[0])})
            else:
                branches: dict[str, tuple[str, ...]] = {}
                for branch in _trees(parts[0]):
                    (label,) = _tokens(branch)
                    if str(label) in branches:
                        raise self.error(f"the branch '{label}' is declared twice", label)
                    branches[str(label)] = self.fields(branch)
                definition = Definition("sum", branches=branches)
            try:
                self.types.define(name, definition)
            except TypeDefinitionError as error:
                raise SchemaError(self.point(str(error), _span(element.node))) from None
        for name, span in defined.items():
            try:
                self.types.check(name)
            except TypeDefinitionError as error:
                raise SchemaError(self.point(str(error), span)) from None

    def fields(self, node: Node) -> tuple[str, ...]:
        """Return the types of the fields of a record or branch."""
        fields = list(_trees(node))
        for column in fields:
            if not list(_trees(column)):
                raise self.error("a field of a record has a type, as in [first: number]", first_token(column))
        return tuple(self.type(kind) for column in fields for kind in _trees(column))

    def typed(
        self, rules: tuple[Rule, ...], declared: Sequence[_Declared], directives: Sequence[Directive]
    ) -> tuple[tuple[Rule, ...], tuple[Declaration, ...]]:
        """Return the rules with records and typed functors rewritten, and the declarations."""
        declarations = tuple(one.declaration for one in declared)
        is_fitted = any(FITTED.keys() & set(one.declaration.types) for one in declared)
        if not (self.types or is_fitted or any(map(has_open_calls, rules))):
            return rules, declarations
        reserved = {atom.relation for rule in rules for atom in (rule.head, *rule.read)}
        reserved.update(declaration.relation for declaration in declarations)
        columns = {one.declaration.relation: one.kinds for one in declared}
        terms = Rewriting(self.types, columns, self.point, reserved)
        rewritten = [terms.rule(rule) for rule in rules]
        inputs = {directive.relation for directive in directives if directive.kind == "input"}
        heads = {rule.head.relation for rule in rules}
        stored = [
            one.declaration for one in declared
            if one.declaration.records and (one.declaration.relation in inputs or one.declaration.relation not in heads)
        ]  # fmt: skip
        return tuple(terms.with_stored([*terms.helpers, *rewritten], stored)), declarations

    def type_name(self, name: str, token: Token) -> str:
        """Return the full name of a type: that of the program, or else Arrow's."""
        full = self.scope.type(name)
        if full in self.types.definitions:
            return full
        try:
            return declared_type(full)
        except UnsupportedTypeError:
            raise self.error(
                f"unknown type '{name}'; declare it with .type.{nearest(name, self.types.definitions)}", token
            ) from None

    def type(self, node: Node) -> str:
        """Return the full name of a type."""
        name, *arguments = map(str, _tokens(node))
        if not arguments:
            full = self.scope.type(name)
            if full in self.types.definitions or any(name in scope.names.types for scope in self.scope.around()):
                return full
            name = full
        if "-" in arguments:
            arguments = [arguments[0], f"-{arguments[-1]}"]
        if arguments:
            name += arguments[0] if arguments[0].startswith("[") else f"({', '.join(arguments)})"
        try:
            return declared_type(name)
        except UnsupportedTypeError as error:
            span = _span(node)
            raise UnsupportedTypeError(
                pointed(str(error), self.text, span.line, span.column, span.width, self.source)
            ) from None

    def literal(self, token: Token, is_negative: bool = False) -> Variable | Constant | Call:
        if token.type == "NAME":
            if token == NIL_TERM and self.types.has_records:
                return Call(NIL_TERM, (), Span(token.line or 0, token.column or 0, len(token)))
            if token == "_":
                self.n_wildcards += 1
                return Variable(f"_#{self.n_wildcards}")
            return Variable(self.name(token))
        if token.type == "SAFE":
            return Variable(f"{self.name(token, token[:-1])}?")
        if token.type == "NULL":
            return NULL
        if token.type == "QUERY":
            return Variable(self.name(token))
        if token.type == "BOOL":
            return Constant(token == "true")
        if token.type == "STRING":
            return Constant(self.string(token))
        sign = "-" if is_negative else ""
        if token.type == "ADDRESS" or token.type == "UNSIGNED" or token[:2] in ("0x", "0b"):
            return self.coded(token, sign)
        digits = token.lstrip("0") or "0"
        if token.type == "INTEGER" and len(digits) > _INTEGER_DIGITS:
            raise self.error(f"integer {sign}{token[:_INTEGER_DIGITS]}... is outside int64, -2^63 to 2^63-1", token)
        try:
            if token.type == "DECIMAL":
                return Constant(Decimal(sign + token[:-1]))
            if token.type == "FLOAT":
                return float_constant(sign + token)
            return Constant(int(sign + digits))
        except UnsupportedTypeError as error:
            raise self.error(str(error), token) from None

    def coded(self, token: Token, sign: str) -> Constant:
        """Return the integer of ``0xff``, ``0b11``, ``5u`` or ``127.0.0.1``."""
        if token.type == "ADDRESS":
            parts = list(map(int, token.split(".")))
            if max(parts) > _MAX_BYTE:
                raise self.error(f"'{token}' is not an address: its parts are 0 to {_MAX_BYTE}", token)
            value = int.from_bytes(bytes(parts), "big")
        else:
            digits = token.removesuffix("u")
            base = {"0x": 16, "0b": 2}.get(digits[:2], 10)
            if len(digits) > _MAX_DIGITS:
                raise self.error(f"integer {digits[:_INTEGER_DIGITS]}... is outside int64, -2^63 to 2^63-1", token)
            value = int(digits if base == 10 else digits[2:], base)
        try:
            return Constant(-value if sign else value)
        except UnsupportedTypeError as error:
            raise self.error(str(error), token) from None

    def relation(self, token: Token) -> str:
        """Return the full name of a relation."""
        functions = (*RESERVED, *self.functions)
        for names, what in ((AGGREGATES, "an aggregate"), (functions, "a function"), (("not",), "negation")):
            if token in names:
                raise self.error(f"'{token}' is {what}; no relation can have this name", token)
        return self.scope.relation(self.name(token))

    def column(self, token: Token) -> str:
        """Return the name of a column: any text if it is quoted."""
        if token.type != "STRING":
            return self.name(token)
        name = self.string(token)
        if len(name) > NAME_LENGTH:
            raise self.error(f"the name has {len(name):,} characters; {NAME_LENGTH} are allowed", token)
        return name

    def name(self, token: Token, text: str = "") -> str:
        """Return `text`, or else the token, as a checked name."""
        text = text or str(token)
        if len(text) > NAME_LENGTH:
            raise self.error(f"the name has {len(text):,} characters; {NAME_LENGTH} are allowed", token)
        if text in ("true", "false", "null"):
            raise self.error(f"'{text}' is a constant and cannot be a name", token)
        if text == "_":
            raise self.error("'_' stands for a value and cannot be a name", token)
        return text

    def string(self, token: Token) -> str:
        """Return the text between the quotes, with escapes replaced."""

        def read(match: re.Match[str]) -> str:
            point = int(match[1] or match[2] or "0", 16)
            is_valid = match[3] in _UNESCAPED if match[3] else point < 0x110000 and not 0xD800 <= point < 0xE000
            if not is_valid:
                raise self.error(
                    f"unknown escape '{match[0]}'; allowed are {' '.join(ESCAPES.values())},"
                    " and \\uXXXX or \\UXXXXXXXX of a character",
                    token,
                    match.start() + 1,
                    len(match[0]),
                )
            return _UNESCAPED[match[3]] if match[3] else chr(point)

        inside = token[1:-1]
        for place, char in enumerate(inside, start=1):
            if 0xD800 <= ord(char) < 0xE000:
                raise self.error(f"the text contains an unpaired surrogate (U+{ord(char):04X})", token, place, 1)
        return _ESCAPE.sub(read, inside)

    def point(self, what: str, span: Span) -> str:
        """Return a message with its place in the text."""
        return pointed(what, self.text, span.line, span.column, span.width, self.source)

    def error(self, what: str, token: Token, start: int = 0, width: int | None = None) -> DatalogSyntaxError:
        line, column = token.line or 1, (token.column or 1) + start
        return DatalogSyntaxError(what, self.text, line, column, width or len(token) - start, self.source)


def float_constant(text: str) -> Constant:
    """Return a float, or a decimal if the float's shortest text differs from `text`.

    A float whose shortest text has more than 15 digits stays a float.
    """
    constant = Constant(float(text))
    shortest = Decimal(repr(constant.value))
    if len(shortest.normalize().as_tuple().digits) > _FLOAT_DIGITS or shortest == Decimal(text):
        return constant
    return Constant(Decimal(text))


def _trees(node: Node) -> Iterator[Node]:
    from lark import Tree

    return (child for child in node.children if isinstance(child, Tree))


def _tokens(node: Node) -> Iterator[Token]:
    from lark import Token

    return (child for child in node.children if isinstance(child, Token))


def _is_truth(node: Node) -> bool:
    """Return whether a literal is the word true or false."""
    return node.data == "truth" or (node.data == "literal" and next(_tokens(node)).type == "BOOL")


def _place(span: Span) -> tuple[int, int, int]:
    return span.line, span.column, span.width


def _span(node: Node) -> Span:
    meta = node.meta
    return Span(meta.line, meta.column, meta.end_pos - meta.start_pos)


# Syntax errors of Datalog: expected tokens, common slips, unsupported features.


_UNKNOWN_AGGREGATES = {"avg", "average", "range"}
DIRECTIVES = (
    ".decl", ".input", ".output", ".printsize", ".type", ".comp", ".init", ".override", ".test", ".pragma", ".plan",
)  # fmt: skip

_WORDS = {
    "OPERATOR": "a comparison (=, !=, <, <=, >, >=)",
    "BRACKET": "'[...]'",
    "INTEGER": "a number",
    "EQUALS": "'='",
    "_LBRACE": "'{'",
    "_IF": "':-'",
    "_LPAR": "'('",
    "_COLON": "':'",
    "_COMMA": "','",
    "_RPAR": "')'",
    "_RBRACE": "'}'",
    "_RBRACKET": "']'",
    "_GREATER": "'>'",
    "_DOT": "'.'",
}
_SLIPS = {"==": "=", "=<": "<=", "=>": ">=", "<>": "!="}
_TERMS = {"NAME", "SAFE", "NULL", "INTEGER", "FLOAT", "DECIMAL", "STRING", "BOOL"}
_OPERANDS = _TERMS | {"MINUS", "_LPAR", "_RPAR", "_RBRACE", "_NOT"}
_MAX_TEXT_LENGTH = 40
"""Longest token shown in a message, in characters."""
_FILE_NAME = re.compile(r"[^\n(),]+\.(?:dl|sql|motif|edn)", re.IGNORECASE)
_SQL_BEGINS = (
    "SELECT", "WITH", "CREATE", "FROM", "PIVOT", "UNPIVOT", "VALUES", "INSERT", "UPDATE", "DELETE", "EXPLAIN",
    "DESCRIBE", "SUMMARIZE",
)  # fmt: skip
_MIN_SIMILARITY = 0.75
"""Least similarity of a first word to an SQL keyword for the hint about SQL, as a ratio of `difflib`."""
_TWO_WORDS = re.compile(r"(?:\s|/\*.*?\*/)*([A-Za-z]+)\s+[\w*\"']", re.DOTALL)
_SHOWN_LANGUAGES = {"sql": "SQL", "motif": "a motif", "edn": "EDN"}


@dataclass(frozen=True)
class _Place:
    """Position where parsing stopped, and its context.

    Attributes
    ----------
    found
        The text there: of a token, one character, or empty at the end of the text.
    kind
        The kind of token; empty at the end and where no token could be read.
    last, last_but_one
        The tokens before it.
    accepts
        The kinds of token that could stand there.
    inside
        Whether a parenthesis is open.
    in_directive
        Whether the parenthesis belongs to a line such as ``.input`` or ``.output``.
    """

    token_text: str
    kind: str
    position: int
    previous: Token | None
    before_previous: Token | None
    accepts: frozenset[str]
    inside: bool
    in_directive: bool

    @property
    def is_statement(self) -> bool:
        return "_DECL" in self.accepts

    @property
    def is_literal(self) -> bool:
        """Return whether an atom or comparison of a body could start there."""
        return "_NOT" in self.accepts

    def follows(self, *kinds: str) -> bool:
        return self.previous is not None and self.previous.type in kinds


def syntax_error(
    parser: Lark, text: str, source: str, functions: Sequence[str] = ()
) -> DatalogSyntaxError | UnsupportedError:
    """Return the error for a text that the parser refuses; `functions` are declared names."""
    place = _stopped(parser, text)
    refused = _unsupported(place, text, functions)
    if _FILE_NAME.fullmatch(text.strip()):
        return DatalogSyntaxError(
            "this is the name of a file, and a program is its text",
            text,
            1,
            1,
            len(text),
            source,
            "Read the file first.",
        )
    what, start, length = refused or _slip(place, text) or (_expected(place), place.position, len(place.token_text))
    line = text.count("\n", 0, start) + 1
    column = start - text.rfind("\n", 0, start)
    if refused:
        return UnsupportedError(pointed(what, text, line, column, length, source))
    return DatalogSyntaxError(what, text, line, column, length, source, _hint(text))


def _hint(text: str) -> str:
    """Return a hint for a text that looks like another language, or an empty string."""
    try:
        language = language_of(text)
    except UsageError:
        return ""
    if language == "datalog":
        advice = "ask gpu_wcoj.query or view with language='sql', or with --language sql"
        return f"This is read as Datalog. If it is SQL, {advice}." if _is_like_sql(text) else ""
    advice = "gpu_wcoj.find or view" if language == "motif" else "gpu_wcoj.query or view"
    return f"It begins as {_SHOWN_LANGUAGES[language]} does: ask with {advice}, or with --language {language}."


def _is_like_sql(text: str) -> bool:
    """Return whether the first of two leading words resembles an SQL keyword."""
    words = _TWO_WORDS.match(text)
    first = "" if words is None else words[1].upper()
    return bool(get_close_matches(first, _SQL_BEGINS, n=1, cutoff=_MIN_SIMILARITY))


def _stopped(parser: Lark, text: str) -> _Place:
    from lark import Token, UnexpectedCharacters, UnexpectedToken

    reader = parser.parse_interactive(text)
    read: deque[Token] = deque(maxlen=3)
    token_text, kind, position = "", "", 0
    try:
        for token in reader.iter_parse():
            read.append(token)
        reader.feed_eof(read[-1] if read else None)  # type: ignore[no-untyped-call]  # untyped in lark
    except UnexpectedCharacters as error:
        position = error.pos_in_stream  # type: ignore[assignment]  # lark declares it as always None
        token_text = text[position]
    except UnexpectedToken as error:
        if error.token.type == "$END":
            position = (read[-1].end_pos if read else 0) or 0
        else:
            if read and read[-1] is error.token:
                _ = read.pop()
            token_text, kind, position = str(error.token), error.token.type, error.token.start_pos or 0
    stack = reader.parser_state.value_stack
    inside = any(isinstance(value, Token) and value.type == "_LPAR" for value in stack)
    in_directive = any(isinstance(value, Token) and value.type == "DIRECTIVE" for value in stack)
    accepts = frozenset(reader.accepts())  # type: ignore[no-untyped-call]  # untyped in lark
    previous, before_previous = [*reversed(read), None, None][:2]
    return _Place(token_text, kind, position, previous, before_previous, accepts, inside, in_directive)


Complaint = tuple[str, int, int]


def _unsupported(place: _Place, text: str, functions: Sequence[str]) -> Complaint | None:
    """Return the unsupported feature, its offset and its length; None for any other mistake."""
    previous, token_text, here = place.previous, place.token_text, (place.position, len(place.token_text))
    if place.is_statement and token_text == ".":
        name = re.compile(r"\.\w*").match(text, place.position)
        directive = name[0] if name else "."
        if directive != ".":
            supported = f"{', '.join(DIRECTIVES)} are.{nearest(directive, DIRECTIVES)}"
            return f"'{_short(directive)}' is not supported; {supported}", place.position, len(directive)
    if place.is_statement and token_text == "#":
        line = text[place.position :].split("\n", 1)[0]
        what = "lines of the C preprocessor are not read; run the file through 'cpp -P', or use .include and .comp"
        return what, place.position, len(line)
    if token_text == "@":
        what = "'@' calls a functor of C++; declare a Python function with gpu_wcoj.function and call it without '@'"
        return what, *here
    if token_text == "$" and "INTEGER" in place.accepts:
        return "'$' numbers rows in the order in which they are derived, which changes cannot keep", *here
    if place.kind == "OPERATOR" and "_IF" in place.accepts and place.follows("_RPAR"):
        what = "subsumption is not supported; keep the best row by min or max in the head, as in dist(y, min(d + w))"
        return what, *here
    if previous is None or not place.follows("NAME") or place.in_directive:
        return None
    there = (previous.start_pos or 0, len(previous))
    in_body = "PLUS" in place.accepts
    if previous.lower() in _UNKNOWN_AGGREGATES and in_body and place.kind in {*_TERMS, "_LPAR", "_COLON"}:
        return f"the aggregate '{previous}' is not supported; {', '.join(AGGREGATES)} are", *there
    if place.kind == "_LPAR" and in_body:
        names = (*functions, *FUNCTIONS, *_FUNCTOR_ARGUMENTS)
        what = f"functions such as '{_short(previous)}(...)' are not supported; {', '.join(names)} are"
        near = nearest(previous, names)
        return f"{what}.{near}" if near else what, *there
    if place.kind in ("_IF", "_DOT") and not place.inside and "_LPAR" in place.accepts and not in_body:
        return f"'{_short(previous)}' has no parentheses; a relation without columns is '{_short(previous)}()'", *there
    return None


def _slip(place: _Place, text: str) -> Complaint | None:
    """Return the message, offset and length of a common slip; None if it is not one of them."""
    if place.previous is not None and place.follows("OPERATOR"):
        start = place.previous.start_pos or 0
        written = text[start : start + 2]
        if written in _SLIPS:
            return f"'{written}' is not a comparison operator; write '{_SLIPS[written]}'", start, 2
    if place.token_text == '"':
        return "this text is not closed by '\"' on its line", place.position, 1
    if place.token_text == "'":
        return 'texts stand in double quotes: write "..."', place.position, 1
    if place.token_text == "[":
        return "this '[' is not closed by ']' on its line", place.position, 1
    if place.kind == "_LPAR" and place.previous is not None and place.follows("BOOL", "NULL"):
        what = f"'{place.previous}' is a constant and cannot be a name"
        return what, place.previous.start_pos or 0, len(place.previous)
    if place.kind in ("BOOL", "NULL") and "INTEGER" not in place.accepts and "NAME" in place.accepts:
        what = f"'{place.token_text}' is a constant and cannot be a name"
        return what, place.position, len(place.token_text)
    if text.startswith("/*", place.position):
        return "this comment is not closed by '*/'", place.position, 2
    return None


def _expected(place: _Place) -> str:
    accepts = set(place.accepts) - {"$END"}
    words = []
    if place.is_statement:
        accepts -= {"NAME", "_LPAR", "EQUALS", "_RBRACE"}
        words = ["a rule or a declaration"]
    elif accepts >= {"STRING", "INTEGER"}:
        accepts -= {*_OPERANDS, "_COLON"}
        if place.in_directive:
            words = ["a name, a number or a text"]
        else:
            words = ["a relation or a comparison" if place.is_literal else "a variable or a constant"]
    elif "NAME" in accepts:
        accepts -= {"NAME", "STRING", "_RPAR"}
        if place.follows("_COLON"):
            words = ["a type"]
        elif place.inside:
            words = ["the name of a parameter" if place.in_directive else "the name of a column"]
        else:
            words = ["the name of a relation"]
    elif accepts == {"_COLON"}:
        return _after("expected ':' and the body of the aggregate, as in sum x : { r(x) },", place)
    words += [word for kind, word in _WORDS.items() if kind in accepts]
    words = words or ["something else"]
    listing = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
    return _after(f"expected {listing}", place)


def _after(what: str, place: _Place) -> str:
    after = f" after '{_short(place.previous)}'" if place.previous else ""
    return f"{what}{after}" + ("" if place.token_text else ", where the text ends")


def _short(text: str) -> str:
    return text if len(text) <= _MAX_TEXT_LENGTH else f"{text[:_MAX_TEXT_LENGTH]}..."
