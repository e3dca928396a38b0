"""Rules as Datalog text, whatever language they came from: names that Datalog cannot spell get others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from gpu_wcoj.query.binding import expressions
from gpu_wcoj.query.datalog import NAME_LENGTH, RESERVED
from gpu_wcoj.query.rules import Grouping, Rule, Rules
from gpu_wcoj.query.terms import AGGREGATES, Aggregate, Atom, Call, Comparison, Constant, Expression, Variable

_NAME = re.compile(r"[^\W\d]\w*")
_CONSTANTS = frozenset({"true", "false", "null", "_"})
_NO_VARIABLES = _CONSTANTS | {"not"}
_NO_RELATIONS = _NO_VARIABLES | {*AGGREGATES, *RESERVED}


def as_datalog(rules: Rules, *, bag: bool = False) -> str:
    """The text of a program that does the same as `rules`, line by line.

    Parsed again, it is equal to them where they have no names that Datalog cannot spell. Those that front ends and the
    core make, such as ``once#1``, become ``once_1``; where a relation that a user knows has such a name, a comment says
    what became of it. Names of columns are quoted.

    Parameters
    ----------
    bag
        Whether the program has exact weights, which its text cannot say; a comment does.

    Examples
    --------
    >>> from gpu_wcoj.query.rules import Declaration
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
    names = _legal([*used, *(directive.relation for directive in program.directives), *program.outputs], _NO_RELATIONS)
    notes = ["// of bags: run it with bag=True, or --bag"] if bag else []
    notes += [f"// {new} is {Constant(old)}" for old, new in names.items() if old != new and "#" not in old]
    return "\n".join([*notes, str(_renamed(program, names))])


def _legal(names: Iterable[str], reserved: frozenset[str]) -> dict[str, str]:
    """A legal name for each name: itself where it is one, else another one that is not taken."""
    distinct_names = list(dict.fromkeys(names))
    legal = {name: name for name in distinct_names if _is_legal(name, reserved)}
    taken = set(legal)
    for name in distinct_names:
        if name not in legal:
            legal[name] = _fresh(name, taken, reserved)
            taken.add(legal[name])
    return legal


def _is_legal(name: str, reserved: frozenset[str]) -> bool:
    return len(name) <= NAME_LENGTH and name not in reserved and _NAME.fullmatch(name) is not None


def _fresh(name: str, taken: set[str], reserved: frozenset[str]) -> str:
    base = re.sub(r"\W+", "_", name[: NAME_LENGTH - 20]).strip("_") or "x"
    base = base if _NAME.fullmatch(base) else f"x{base}"
    suffix, candidate = 1, base
    while candidate in taken or candidate in reserved:
        suffix += 1
        candidate = f"{base}_{suffix}"
    return candidate


def _without_core(rules: Rules) -> Rules:
    """Groupings, extremes and facts of a program in core form as the rules that say the same."""
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
    """The head that aggregates, as a rule."""
    terms = tuple(Variable(f"c{i}") for i in range(grouping.keys))
    value = () if grouping.op == "count" else (Variable(f"c{grouping.keys}"),)
    wildcards = tuple(Variable(f"_#{i}") for i in range(arity - len(terms) - len(value)))
    head = Atom(grouping.relation, (*terms, Call(grouping.op, value)))
    return Rule(head, (Atom(grouping.source, (*terms, *value, *wildcards)),))


def _renamed(rules: Rules, relations: Mapping[str, str]) -> Rules:
    """The same rules with other names of relations, and with legal ones of variables."""
    return replace(
        rules,
        rules=tuple(_Renaming.of(rule, relations).rule(rule) for rule in rules.rules),
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
    def of(cls, rule: Rule, relations: Mapping[str, str]) -> _Renaming:
        times = Counter(_standing(rule))
        named = [variable for variable in times if times[variable] > 1 or not variable.is_wildcard]
        bases = {variable: variable.name.removesuffix("?") for variable in named}
        legal = _legal(bases.values(), _NO_VARIABLES)
        marks = {variable: "?" if variable.is_null_safe else "" for variable in named}
        return cls(relations, {variable: Variable(legal[bases[variable]] + marks[variable]) for variable in named})

    def rule(self, rule: Rule) -> Rule:
        equal = (Comparison("=", computed.variable, computed.call) for computed in rule.computed)
        return Rule(
            self.atom(rule.head),
            tuple(map(self.atom, rule.atoms)),
            tuple(map(self.comparison, (*equal, *rule.comparisons))),
            tuple(map(self.atom, rule.negated)),
        )

    def atom(self, atom: Atom) -> Atom:
        return replace(atom, relation=self.relations[atom.relation], terms=tuple(map(self.expression, atom.terms)))

    def comparison(self, one: Comparison) -> Comparison:
        return replace(one, left=self.expression(one.left), right=self.expression(one.right))

    def expression(self, one: Expression) -> Expression:
        if isinstance(one, Variable):
            return self.variables.get(one, one)
        if isinstance(one, Call):
            return replace(one, arguments=tuple(map(self.expression, one.arguments)))
        if isinstance(one, Aggregate):
            return replace(
                one,
                value=None if one.value is None else self.expression(one.value),
                atoms=tuple(map(self.atom, one.atoms)),
                comparisons=tuple(map(self.comparison, one.comparisons)),
                negated=tuple(map(self.atom, one.negated)),
            )
        return one


def _standing(body: Rule | Aggregate) -> Iterator[Variable]:
    """Every place where a variable stands in a rule, in the braces of aggregates too."""
    for expression in expressions(body):
        yield from _variables(expression)


def _variables(one: Expression) -> Iterator[Variable]:
    if isinstance(one, Variable):
        yield one
    elif isinstance(one, Call):
        for argument in one.arguments:
            yield from _variables(argument)
    elif isinstance(one, Aggregate):
        yield from _standing(one)
