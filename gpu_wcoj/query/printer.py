"""Printer of rules as Datalog text; names that Datalog cannot spell are replaced."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from decimal import Decimal
from typing import Any, Final

from gpu_wcoj.data.schema import DataType
from gpu_wcoj.query.datalog import DIRECTIVES, NAME_LENGTH, RESERVED, parse
from gpu_wcoj.query.ir import (
    AGGREGATES,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Computed,
    ComputedGroups,
    Constant,
    Declaration,
    Directive,
    Extreme,
    Facts,
    FirstRows,
    Grouping,
    Rule,
    Rules,
    SortKey,
    Variable,
    functions_by_name,
)
from gpu_wcoj.query.safety import occurrences, rewritten
from gpu_wcoj.query.souffle.functors import functor
from gpu_wcoj.user_functions import SQL_CALL, Function, SqlFunction

_NAME = re.compile(r"[^\W\d]\w*")
_VARIABLE = re.compile(r"\?\w+|[^\W\d]\w*")
_DIRECTIVE = "|".join(word.removeprefix(".") for word in DIRECTIVES)
_RELATION = re.compile(rf"[^\W\d]\w*(\.(?!({_DIRECTIVE}|limitsize|include)(?!\w))[^\W\d]\w*)*")
"""Names of relations; those of components' instances have points."""
_CONSTANTS = frozenset({"true", "false", "null", "_"})
_NO_VARIABLES = _CONSTANTS | {"not"}
_NO_RELATIONS = _NO_VARIABLES | {*AGGREGATES, *RESERVED}


def as_datalog(rules: Rules, *, bag: bool = False) -> str:
    """Return the Datalog text of a program equivalent to `rules`, one line a rule.

    Parsed again, it equals `rules` if Datalog can spell all names and no head keeps first rows. For these it has
    no word; a comment says what they keep. Helper names of front ends and of the core form,
    such as ``once#1``, become ``once_1``; if a relation of the user is renamed, a comment says so. Names of columns are
    quoted.

    Parameters
    ----------
    bag
        Whether the program has exact weights; the text can express that in a comment only.

    Examples
    --------
    >>> from gpu_wcoj.query.ir import Declaration
    >>> x, y = Variable("x"), Variable("first name")
    >>> once = Rule(Atom("once#1", (x, y)), (Atom("my table", (x, y)),))
    >>> print(as_datalog(Rules((once,), (Declaration("my table", ("id", "first name"), ("int64", None)),))))
    // my_table is "my table"
    .decl my_table(id: int64, "first name")
    once_1(x, first_name) :- my_table(x, first_name).
    """
    program = _without_core(rules)
    used = dict.fromkeys(atom.relation for rule in program.rules for atom in (rule.head, *rule.read))
    used.update(dict.fromkeys(program.inputs))
    program = replace(
        program, declarations=tuple(declaration for declaration in program.declarations if declaration.relation in used)
    )
    without_words: tuple[FirstRows | ComputedGroups, ...] = (*program.first_rows, *program.computed_groups)
    kept = [name for helper in without_words for name in (helper.relation, helper.source)]
    relations = [*used, *kept, *(directive.relation for directive in program.directives), *program.outputs]
    names = _legal(relations, _NO_RELATIONS.union(rules.functions), _RELATION)
    notes = ["// of bags: run it with bag=True, or --bag"] if bag else []
    notes += [f"// Datalog has no word for {_without_word(helper, names)}" for helper in without_words]
    notes += [f"// {new} is {Constant(old)}" for old, new in names.items() if old != new and "#" not in old]
    return "\n".join([*notes, str(_renamed(program, names))])


def _without_word(helper: FirstRows | ComputedGroups, names: Mapping[str, str]) -> str:
    """Return the text of a head that Datalog cannot express, with new names of relations."""
    if isinstance(helper, FirstRows):
        return str(replace(helper, relation=names[helper.relation], source=names[helper.source]))
    return str(replace(helper, relation=names[helper.relation], source=names[helper.source]))


def _legal(names: Iterable[str], reserved: frozenset[str], form: re.Pattern[str]) -> dict[str, str]:
    """Return a legal name for each name: the name itself if it is legal, else an unused one."""
    distinct_names = list(dict.fromkeys(names))
    is_short = {name: len(name) <= NAME_LENGTH and name not in reserved for name in distinct_names}
    legal = {name: name for name, is_allowed in is_short.items() if is_allowed and form.fullmatch(name)}
    taken = set(legal)
    for name in distinct_names:
        if name not in legal:
            legal[name] = _fresh(name, taken, reserved)
            taken.add(legal[name])
    return legal


def _fresh(name: str, taken: set[str], reserved: frozenset[str]) -> str:
    base = re.sub(r"\W+", "_", name[: NAME_LENGTH - 20]).strip("_") or "x"
    base = base if _NAME.fullmatch(base) else f"x{base}"
    suffix, candidate = 1, base
    while candidate in taken or candidate in reserved:
        suffix += 1
        candidate = f"{base}_{suffix}"
    return candidate


def _without_core(rules: Rules) -> Rules:
    """Replace groupings, extremes and facts of a program in core form by equivalent rules."""
    if not (rules.groupings or rules.extremes or rules.facts):
        return rules
    columns = {extreme.relation: extreme.column for extreme in rules.extremes}
    ops = {extreme.relation: extreme.op for extreme in rules.extremes}
    written = []
    for rule in rules.rules:
        head = rule.head
        if head.relation in columns:
            column = columns[head.relation]
            applied = Call(ops[head.relation], (head.terms[column],))
            rule = replace(rule, head=replace(head, terms=(*head.terms[:column], applied, *head.terms[column + 1 :])))
        written.append(rule)
    facts = (Rule(Atom(fact.relation, tuple(map(Constant, row))), ()) for fact in rules.facts for row in fact.rows)
    grouped = (_grouped(grouping, rules.arity[grouping.source]) for grouping in rules.groupings)
    return replace(rules, rules=(*facts, *written, *grouped), groupings=(), extremes=(), facts=())


def _grouped(grouping: Grouping, arity: int) -> Rule:
    """Return the rule with an aggregating head that is equivalent to a grouping."""
    terms = tuple(Variable(f"c{i}") for i in range(grouping.keys))
    value = () if grouping.op == "count" else (Variable(f"c{grouping.keys}"),)
    wildcards = tuple(Variable(f"_#{i}") for i in range(arity - len(terms) - len(value)))
    head = Atom(grouping.relation, (*terms, Call(grouping.op, value)))
    return Rule(head, (Atom(grouping.source, (*terms, *value, *wildcards)),))


def _renamed(rules: Rules, relations: Mapping[str, str]) -> Rules:
    """Return the rules with relations renamed and legal names of variables."""
    return replace(
        rules,
        first_rows=(),
        computed_groups=(),
        rules=tuple(_Renaming.for_rule(rule, relations).rule(rule) for rule in rules.rules),
        declarations=tuple(
            replace(declaration, relation=relations[declaration.relation]) for declaration in rules.declarations
        ),
        outputs=tuple(relations[name] for name in rules.outputs),
        directives=tuple(replace(directive, relation=relations[directive.relation]) for directive in rules.directives),
    )


@dataclass(frozen=True)
class _Renaming:
    """New names of the relations and of one rule's variables."""

    relations: Mapping[str, str]
    variables: Mapping[Variable, Variable]

    @classmethod
    def for_rule(cls, rule: Rule, relations: Mapping[str, str]) -> _Renaming:
        times = Counter(occurrences(rule))
        named = [variable for variable in times if times[variable] > 1 or not variable.is_wildcard]
        bases = {variable: variable.name.removesuffix("?") for variable in named}
        legal = _legal(bases.values(), _NO_VARIABLES, _VARIABLE)
        marks = {variable: "?" if variable.is_null_safe else "" for variable in named}
        return cls(relations, {variable: Variable(legal[bases[variable]] + marks[variable]) for variable in named})

    def rule(self, rule: Rule) -> Rule:
        equal = (Comparison("=", computed.variable, computed.call) for computed in rule.computed)
        plain = replace(rule, head=self.atom(rule.head), computed=(), comparisons=(*equal, *rule.comparisons))
        return rewritten(plain, lambda variable: self.variables.get(variable, variable), self.atom)

    def atom(self, atom: Atom) -> Atom:
        return replace(atom, relation=self.relations[atom.relation])


# Serialization of rules: Datalog text if it can spell them, else JSON.


_KIND = "kind"
_CLASSES: Final[dict[str, type[Any]]] = {
    piece_class.__name__: piece_class
    for piece_class in (
        Aggregate, Atom, Call, Comparison, Computed, ComputedGroups, Constant, Declaration, Directive, Extreme, Facts,
        FirstRows, Grouping, Rule, Rules, SortKey, Variable,
    )
}  # fmt: skip
_LEFT_OUT = ("span", "text", "written", "sorting", "records", "is_nullary")
_FUNCTION = "function"
"""Field of a call that holds a function: of a Python function the name is stored, of an SQL expression all."""
_SQL = SqlFunction.__name__
_ADDED = ("first_rows", "computed_groups", _FUNCTION)
"""Fields that texts of earlier versions lack, written only if they have something."""
_OWN_KIND = "own_kind"
"""JSON key of a dataclass field that is itself named ``kind``; `_KIND` holds the class name."""


def serialize(rules: Rules) -> str:
    """Return a text of `rules` for `deserialize`: their source text if they have one.

    Of rules in core form, the text is that of the rules as they are written.

    Examples
    --------
    >>> x = Variable("x")
    >>> text = serialize(Rules((Rule(Atom("h", (x,)), (Atom("once#1", (x,)),)),)))
    >>> print(deserialize(text))
    h(x) :- once#1(x).
    """
    if rules.written is not None:
        return serialize(rules.written)
    if rules.text:
        return rules.text
    text = str(rules)
    is_plain = not (rules.helpers or rules.extremes or rules.facts) and _is_spelled(rules)
    is_datalog = is_plain and as_datalog(rules) == text
    return text if is_datalog else json.dumps(_plain(rules), ensure_ascii=True)


def _is_spelled(rules: Rules) -> bool:
    """Return whether a text can express the declarations: types in a text are binding."""
    return all(declaration.is_binding or not any(declaration.types) for declaration in rules.declarations)


def deserialize(text: str, functions: Iterable[Function] = ()) -> Rules:
    """Return the rules of a text made by `serialize`, which may call these Python functions."""
    if not text.startswith("{"):  # no Datalog text begins with it
        return parse(text, functions=functions)
    rules: Rules = _read(json.loads(text), functions_by_name(functions))
    return rules


def _plain(piece: Any) -> Any:
    if isinstance(piece, Function):
        return piece.name
    if isinstance(piece, SqlFunction):
        types = [kind.name for kind in (*piece.parameters, piece.returns)]
        return {_KIND: _SQL, "types": types, "expression": piece.expression}
    if is_dataclass(piece):
        record = {_KIND: type(piece).__name__}
        return record | {
            _OWN_KIND if field.name == _KIND else field.name: _plain(getattr(piece, field.name))
            for field in fields(piece)
            if field.name not in _LEFT_OUT and not (field.name in _ADDED and not getattr(piece, field.name))
        }
    if isinstance(piece, tuple):
        return [_plain(item) for item in piece]
    return {_KIND: "Decimal", "value": str(piece)} if isinstance(piece, Decimal) else piece


def _read(piece: Any, functions: Mapping[str, Function]) -> Any:
    if isinstance(piece, list):
        return tuple(_read(item, functions) for item in piece)
    if not isinstance(piece, dict):
        return piece
    kind = piece[_KIND]
    if kind == "Decimal":
        return Decimal(piece["value"])
    if kind == _SQL:
        *parameters, returns = map(DataType, piece["types"])
        return SqlFunction(SQL_CALL, tuple(parameters), returns, piece["expression"])
    arguments = {name: _read(value, functions) for name, value in piece.items() if name != _KIND}
    name = arguments.get(_FUNCTION)
    if isinstance(name, str):
        arguments[_FUNCTION] = functions.get(name) or functor(name)
    if _OWN_KIND in arguments:
        arguments[_KIND] = arguments.pop(_OWN_KIND)
    return _CLASSES[kind](**arguments)
