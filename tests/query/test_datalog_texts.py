"""Random Datalog texts: printed programs parse again, and no text breaks the parser."""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpu_wcoj.errors import (
    DatalogSyntaxError,
    GpuWcojError,
)
from gpu_wcoj.query.check import check
from gpu_wcoj.query.datalog import _parser, parse
from gpu_wcoj.query.ir import (
    COMPARISONS,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Declaration,
    Directive,
    Rule,
    Rules,
    Variable,
)
from tests.helpers.long_tests import IS_LONG
from tests.reference.random_programs import chance_text

NAMES = st.from_regex(r"[A-Za-z_äß][A-Za-z0-9_é]{0,5}", fullmatch=True).filter(
    lambda name: name not in ("_", "true", "false", "not")
)
CONSTANTS = (
    st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)).map(Constant),
    st.booleans().map(Constant),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8).map(Constant),
)


@st.composite
def programs(draw):
    """Return random safe programs without recursion.

    Names of relations contain their arity, and heads read inputs or earlier heads.
    """
    rules = []
    constants = draw(st.sampled_from(CONSTANTS))
    arities = {
        f"in{name}{arity}": arity for name, arity in draw(st.lists(st.tuples(NAMES, st.integers(1, 3)), min_size=1))
    }
    for number in range(draw(st.integers(1, 3))):
        pool = [Variable(name) for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))]
        known = dict(arities)
        atoms = []
        n_wildcards = 0
        for relation in draw(st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=3)):
            terms = []
            for _ in range(known[relation]):
                term = draw(st.sampled_from([*pool, None]) | constants)
                if term is None:
                    n_wildcards += 1
                    term = Variable(f"_#{n_wildcards}")
                terms.append(term)
            atoms.append(Atom(relation, tuple(terms)))
        bound = [variable for atom in atoms for variable in atom.variables if not variable.is_wildcard]
        terms = st.sampled_from(bound) if bound else constants
        comparisons = draw(st.lists(st.tuples(st.sampled_from(COMPARISONS), terms, constants), max_size=2))
        comparisons = [pair for pair in comparisons if isinstance(pair[1], Variable)]
        head = draw(st.lists(terms | constants, min_size=1, max_size=3))
        name = f"head{number}_{len(head)}"
        rules.append(
            Rule(Atom(name, tuple(head)), tuple(atoms), tuple(Comparison(*comparison) for comparison in comparisons))
        )
        arities[name] = len(head)
    used = {atom.relation: len(atom.terms) for rule in rules for atom in rule.atoms}
    declared = draw(st.lists(st.sampled_from(sorted(used)), unique=True, max_size=2))
    types = st.sampled_from([None, "int64", "timestamp[us, tz=UTC]", "decimal128(9, 2)", "date32[day]"])
    declarations = tuple(
        Declaration(name, tuple(f"c{i}" for i in range(used[name])), tuple(draw(types) for _ in range(used[name])))
        for name in declared
    )
    heads = list(dict.fromkeys(rule.head.relation for rule in rules))
    return Rules(tuple(rules), declarations, tuple(draw(st.lists(st.sampled_from(heads), unique=True))))


@given(programs())
@settings(max_examples=200 if IS_LONG else 80, deadline=None)
def test_the_text_of_a_program_reads_as_the_program(rules):
    check(rules)
    assert parse(str(rules)) == rules


class _Chance:
    """Generator of the parts of a rule; it numbers wildcards in the order of the parser."""

    def __init__(self, draw, relations):
        self.draw = draw
        self.relations = relations
        self.n_wildcards = 0

    def atom(self, terms, wildcards=True):
        relation = self.draw(st.sampled_from(sorted(self.relations)))
        return Atom(relation, tuple(self.term(terms, wildcards) for _ in range(self.relations[relation])))

    def term(self, terms, wildcards):
        term = self.draw(st.sampled_from([*terms, None]) if wildcards else st.sampled_from(terms))
        if term is not None:
            return term
        self.n_wildcards += 1
        return Variable(f"_#{self.n_wildcards}")

    def expression(self, variables, aggregates, depth=3):
        kind = self.draw(st.sampled_from(["variable", "constant", "minus", "calculate", "call", "aggregate"]))
        if depth == 0 or kind == "variable":
            return self.draw(st.sampled_from(variables))
        if kind == "constant":
            return self.draw(st.one_of(*CONSTANTS))
        if kind == "aggregate" and aggregates:
            return self.aggregate(variables, depth)
        op, least, most = ("-", 1, 1) if kind == "minus" else (self.draw(st.sampled_from("+-*/%")), 2, 2)
        if kind == "call":
            op, least, most = self.draw(st.sampled_from([("cat", 2, 4), ("substr", 3, 3), ("strlen", 1, 1)]))
        n_arguments = self.draw(st.integers(least, most))
        return Call(op, tuple(self.expression(variables, aggregates, depth - 1) for _ in range(n_arguments)))

    def aggregate(self, variables, depth):
        own = [Variable(f"own{depth}"), Variable("count")]
        op = self.draw(st.sampled_from(["count", "sum", "min", "max", "mean"]))
        value = None if op == "count" else self.expression([*variables, *own], False, depth - 1)
        atoms = (
            Atom("pair", tuple(own)),
            *(self.atom([*variables, *own]) for _ in range(self.draw(st.integers(0, 2)))),
        )
        comparisons = self.comparisons([*variables, *own], depth - 1, 1)
        negated = tuple(self.atom([*variables, *own]) for _ in range(self.draw(st.integers(0, 1))))
        return Aggregate(op, value, atoms, comparisons, negated)

    def comparisons(self, variables, depth, most):
        return tuple(
            Comparison(
                self.draw(st.sampled_from(COMPARISONS)),
                Call("+", (self.expression(variables, False, depth), self.draw(st.sampled_from(variables)))),
                self.expression(variables, True, depth),
            )
            for _ in range(self.draw(st.integers(0, most)))
        )


@st.composite
def full_programs(draw):
    """Safe programs with everything but recursion."""
    relations = {"one": 1, "two": 2, "three": 3}
    rules = []
    for number in range(draw(st.integers(1, 3))):
        names = draw(
            st.lists(NAMES.filter(lambda name: not name.startswith("own")), min_size=2, max_size=3, unique=True)
        )
        variables = [Variable(name) for name in names if name != "count"]
        chance = _Chance(draw, relations)
        head = [chance.expression(variables, False) for _ in range(draw(st.integers(1, 3)))]
        if draw(st.booleans()):
            op = draw(st.sampled_from(["count", "sum", "min", "max", "mean"]))
            head.append(Call(op, () if op == "count" else (chance.expression(variables, False),)))
        binding = tuple(Atom("one", (variable,)) for variable in variables)
        atoms = (*binding, *(chance.atom([*variables, chance.expression(variables, False)]) for _ in range(2)))
        comparisons = chance.comparisons(variables, 3, 2)
        negated = tuple(chance.atom([*variables, Constant(5)]) for _ in range(draw(st.integers(0, 2))))
        name = f"head{number}"
        rules.append(Rule(Atom(name, tuple(head)), atoms, comparisons, negated))
        if not isinstance(head[-1], Call) or head[-1].op not in ("count", "sum", "min", "max", "mean"):
            relations[name] = len(head)
    fact = Rule(Atom("fact", tuple(draw(st.lists(st.one_of(*CONSTANTS), min_size=1, max_size=3)))), ())
    inputs = draw(st.lists(st.sampled_from(["one", "fact"]), unique=True))
    values = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
    directives = tuple(
        Directive("input", name, tuple(draw(st.dictionaries(NAMES, values, max_size=2)).items())) for name in inputs
    )
    return Rules((*rules, fact), directives=directives)


@given(full_programs())
@settings(max_examples=200 if IS_LONG else 80, deadline=None)
def test_the_text_of_a_full_program_reads_as_the_program(rules):
    check(rules)
    assert parse(str(rules)) == rules


def reads_or_refuses(text):
    try:
        rules = parse(text)
    except GpuWcojError as error:
        shown = str(error)
        tokens = ("_LPAR", "_COMMA", "_DOT", "$END", "OPERATOR", "INTEGER", "STRING", "BRACKET", "Token(")
        assert not [token for token in tokens if token in shown and token not in text]
        return
    assert parse(str(rules)) == rules


PIECES = (
    *(
        "h(x) :- r(x).",
        "h",
        "r",
        "x",
        "_",
        "(",
        ")",
        ",",
        ".",
        ":-",
        ":",
        "=",
        "!=",
        "<",
        "!",
        "not",
        "count",
        "sum ",
        "min(",
        "strlen(",
        "cat",
        "+",
        "-",
        "{ r(x) }",
    ),
    *("/*", "*/", "//", "%", '"', '"a"', "\\", "5", "-5", "1.5", "1e", "true", "[", "]", "{", "}", ";", "'", "\n", " "),
    *("*", "/", "(x)", "5 ", "=5", "file", ".input r(a=b)", "count : { r(x) }", "!r(x)", ", "),
    *(".decl", ".input", ".output", ".x", "int64", "timestamp[us]", "decimal(", "\r", "\t", "\x00", "\ufeff", "²", "ü"),
)


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
@settings(max_examples=600 if IS_LONG else 240, deadline=None)
@example("h(x):-r(x).h(x):-!")
def test_no_text_of_known_pieces_breaks_the_reader(text):
    reads_or_refuses(text)


@given(st.text(max_size=60))
@settings(max_examples=200 if IS_LONG else 80, deadline=None)
def test_no_text_breaks_the_reader(text):
    reads_or_refuses(text)


@given(programs(), st.data())
@settings(max_examples=200 if IS_LONG else 80, deadline=None)
def test_no_damaged_program_breaks_the_reader(rules, data):
    text = str(rules)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 4)))
    reads_or_refuses(text[:start] + data.draw(st.sampled_from(["", *PIECES])) + text[end:])


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SELECT src FROM edges", "It begins as SQL does: ask with gpu_wcoj.query or view, or with --language sql."),
        ("(a)-[e]->(b)", "It begins as a motif does: ask with gpu_wcoj.find or view, or with --language motif."),
        (
            "[:find ?a :where [?a :x _]]",
            "It begins as EDN does: ask with gpu_wcoj.query or view, or with --language edn.",
        ),
        ("rules/rings.dl", "this is the name of a file, and a program is its text (line 1, column 1)"),
        (r"C:\my views\x.SQL", "this is the name of a file, and a program is its text (line 1, column 1)"),
    ],
)
def test_what_is_written_for_another_reader_is_told(text, hint):
    with pytest.raises(DatalogSyntaxError) as raised:
        parse(text)
    assert hint in str(raised.value)
    with pytest.raises(DatalogSyntaxError) as raised:
        parse("select(x) :- ")  # begins as two languages may
    assert "begins as" not in str(raised.value)


@pytest.mark.parametrize(
    "piece", ["(", "h(", "r(x),", "[", "/*", '"\\', "!", "not ", ".decl ", "h(x) :- r(x), ", "-", "{"]
)
def test_deep_and_long_texts_are_refused_in_words(piece):
    with pytest.raises(GpuWcojError):
        parse("h(x) :- " + piece * (20_000 if IS_LONG else 4_000))


@pytest.mark.parametrize("seed", range(10))
def test_the_small_and_the_full_parser_read_a_text_alike(seed):
    text = chance_text(random.Random(f"parsers {seed}"), negative=True)
    text += (
        '.decl e(a: int64, "b c": decimal(9, 2))\n.input e(filename="e.csv", headers=true)\nh(-x % 2) :- e(x?, null).'
    )
    assert _parser((), (), is_small=True).parse(text) == _parser().parse(text)
