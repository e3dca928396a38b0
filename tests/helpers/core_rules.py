"""Rules in core form by brute force: negated atoms and calculations, and random rules that have them."""

from __future__ import annotations

import itertools
import operator
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import gpu_wcoj as gw
from gpu_wcoj.errors import CalculationError
from gpu_wcoj.query.ir import Atom, Call, Comparison, Computed, Constant, Rule, Rules, Term, Variable
from tests.helpers.answers import named
from tests.helpers.join_comparison import Script, check_counts, fed, walking
from tests.reference.changes import Row, ZSet, apply_bag, apply_rows, apply_zset, minus, plus
from tests.reference.functions import UndefinedError, called

OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Binding = dict[Variable, object]
Relations = Mapping[str, Mapping[Row, int]]


def arities(rules: Rules) -> dict[str, int]:
    """{relation: columns} of the inputs."""
    found = {atom.relation: len(atom.terms) for rule in rules.rules for atom in (*rule.atoms, *rule.negated)}
    return {name: found[name] for name in rules.inputs}


def evaluate(rules: Rules, relations: Relations, bag: bool) -> dict[str, ZSet]:
    """Every head; UndefinedError if a binding of which nothing is false lacks a value."""
    known = {name: relations.get(name, {}) for name in rules.inputs}
    while len(known) < len(rules.inputs) + len(rules.heads):
        for head in rules.heads:
            own = [rule for rule in rules.rules if rule.head.relation == head]
            read = {atom.relation for rule in own for atom in (*rule.atoms, *rule.negated)}
            if head not in known and read <= known.keys():
                total: ZSet = defaultdict(int)
                for rule in own:
                    for row, weight in derived(rule, known):
                        total[row] += weight
                kept = {row: weight for row, weight in total.items() if weight}
                known[head] = kept if bag else {row: 1 for row, weight in kept.items() if weight > 0}
    return {head: dict(known[head]) for head in rules.heads}


def derived(rule: Rule, known: Relations) -> Iterator[tuple[Row, int]]:
    """(head row, weight) for every way to satisfy the body, whatever the order in which it is looked at."""
    terms = [term for atom in (*rule.atoms, *rule.negated) for term in atom.terms]
    terms += [term for one in rule.comparisons for term in (one.left, one.right)]
    terms += [term for one in rule.computed for term in one.call.arguments]
    joined = {term for term, n in Counter(map(str, terms)).items() if n > 1}
    for rows in itertools.product(*(known[atom.relation].items() for atom in rule.atoms)):
        binding: Binding = {}
        weight = 1
        for atom, (row, own) in zip(rule.atoms, rows, strict=True):
            weight *= own
            if not all(_binds(term, one, binding, joined) for term, one in zip(atom.terms, row, strict=True)):
                break
        else:
            if _holds(rule, binding, known):
                yield tuple(_value(term, binding) for term in rule.head.terms), weight


def _binds(term: Term, one: object, binding: Binding, joined: set[str]) -> bool:
    if one is None and (isinstance(term, Constant) or str(term) in joined):
        return False
    return one == (term.value if isinstance(term, Constant) else binding.setdefault(term, one))


def _holds(rule: Rule, binding: Binding, known: Relations) -> bool:
    lacking: set[Variable] = set()
    calculated = {one.variable for one in rule.computed}
    for one in rule.computed:
        if lacking.intersection(one.call.variables):
            lacking.add(one.variable)
            continue
        try:
            binding[one.variable] = called(one.call.op, [_value(term, binding) for term in one.call.arguments])
        except UndefinedError:
            if one.call.op in ("+", "-", "*") and _is_equal(one.variable, rule, calculated):
                return False  # to a value of int64, and this one is outside
            lacking.add(one.variable)
    for test in rule.comparisons:
        known_sides = test.left == test.right or not lacking.intersection(test.variables)
        if known_sides and not OPERATORS[test.op](_value(test.left, binding), _value(test.right, binding)):
            return False
    asked = [atom for atom in rule.negated if not lacking.intersection(atom.variables)]
    rows = [tuple(_value(term, binding) for term in atom.terms) for atom in asked]
    if any(known[atom.relation].get(row, 0) > 0 for atom, row in zip(asked, rows, strict=True)):
        return False
    if lacking:
        raise UndefinedError(f"{rule}: {binding}")
    return True


def _is_equal(name: Variable, rule: Rule, calculated: set[Variable]) -> bool:
    """Whether a comparison says that it is equal to something that is not calculated."""
    sides = [(test.left, test.right) for test in rule.comparisons if test.op == "="]
    return any((one == name) and other not in calculated for pair in sides for one, other in (pair, pair[::-1]))


def _value(term: Term, binding: Binding) -> object:
    return term.value if isinstance(term, Constant) else binding.get(term, 0)


def check_script(
    rules: Rules, script: Script, *, bag: bool, way: str = "step", walks: bool = True, **options: object
) -> int:
    """Run `script`; after every tick answers and changes are those of brute force, and a tick fails where it does.

    A tick that fails leaves the state as it was. Returns how many have failed.
    """
    inputs = arities(rules)
    with walking(walks):
        program = gw.Program(rules, bag=bag, inputs=named(rules), **options)
    state: dict[str, ZSet] = {name: {} for name in inputs}
    heads = evaluate(rules, state, bag)
    failed = 0
    for number, tick in enumerate(script):
        place = f"tick {number}"
        changes = {name: fed(change, inputs[name]) for name, change in tick.items()}
        after = dict(state)
        for name, (kind, rows) in tick.items():
            apply = apply_bag if bag else apply_rows if kind == "rows" else apply_zset
            after[name] = apply(state[name], rows)
        try:
            expected = evaluate(rules, after, bag)
        except UndefinedError:
            failed += 1
            try:
                _taken(program, way, changes, {}, bag, place)
            except CalculationError:
                pass
            else:
                raise AssertionError(f"{place}: no error") from None
        else:
            _taken(program, way, changes, {name: minus(expected[name], heads[name]) for name in heads}, bag, place)
            state, heads = after, expected
        for name in rules.heads:
            whole = program.relation(name).to_dict()
            assert whole == heads[name], f"{place}: {name} is {whole} instead of {heads[name]}"
            assert program.count(name) == sum(heads[name].values()), f"{place}: count of {name}"
        for name, rows in state.items():
            assert program.relation(name).to_dict() == rows, f"{place}: {name}"
    return failed


def _taken(
    program: gw.Program, way: str, changes: Mapping[str, object], expected: Mapping[str, ZSet], bag: bool, place: str
) -> None:
    found: dict[str, ZSet] = {}
    if way == "step":
        found = {name: zset.to_dict() for name, zset in program.step(changes).items()}
    elif way == "step_counts":
        check_counts(program.step_counts(changes), expected, bag, place)
    elif way == "load":
        program.load(changes)
    else:
        found = {name: {} for name in program.outputs}

        def take(name: str, piece: gw.ZSet) -> None:
            found[name] = plus(found[name], piece.to_dict())

        check_counts(program.step_pieces(changes, take), expected, bag, place)
    for name, zset in found.items():
        assert zset == expected[name], f"{place}: changes of {name}: {zset} instead of {expected[name]}"


def random_rules(
    chance: random.Random, n_negated: Sequence[int] = (0, 1, 2), n_computed: Sequence[int] = (0, 1, 2)
) -> Rules:
    """One to three rules over few relations; what is calculated can fail, and can stand anywhere."""
    inputs = {"u": 1, "e": 2, "f": 2, "t": 3}
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
