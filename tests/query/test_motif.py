"""The text of motifs: every form, everything that is refused, and the rules that come of it."""

from __future__ import annotations

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import GpuWcojError, MotifSyntaxError, TypeMismatchError, UnsupportedError, UsageError
from gpu_wcoj.query.check import check
from gpu_wcoj.query.ir import Rule
from gpu_wcoj.query.motif import Graph, compile_motif, parse
from gpu_wcoj.query.motif.parse import MAX_EDGES, MAX_HOPS, MAX_NAME_LENGTH, MAX_TEXT_BYTES

FORMS = {
    "(a)": ("a",),
    "(a)-[e]->(b)": ("a", "e", "b"),
    "(a)<-[e]-(b)": ("a", "e", "b"),
    "(a)-[]->(b)": ("a", "b"),
    "(a)-[]->()": ("a",),
    "()-[]->(b)": ("b",),
    "()-[e]->()": ("e",),
    "(a)<-[e]->(b)": ("a", "e1", "e2", "b"),
    "(a)<-[]->(b)": ("a", "b"),
    "(a)-[e]-(b)": ("a", "e", "b", "_pattern", "_direction"),
    "(a)-[]-(b)": ("a", "b", "_pattern", "_direction"),
    "(u)-[e]-(v); (v)-[f]->(k)": ("u", "e", "v", "_pattern", "_direction", "f", "k"),
    "(a)-[]->(b); !(b)-[]->(a)": ("a", "b"),
    "(a)-[]->(b); !(c)<-[]-(b)": ("a", "b", "c"),
    "!(a)-[]->(b)": ("a", "b"),
    "!(a)-[]->()": ("a",),
    "(a)-[*2]->(b)": ("a", "_ab1", "b"),
    "(u)-[e*3]->(v)": ("u", "_e1", "_uv1", "_e2", "_uv2", "_e3", "v"),
    "(a)<-[e*2]-(b)": ("a", "_e1", "_ba1", "_e2", "b"),
    "(a)-[e*1]->(b)": ("a", "_e1", "b"),
    "(a)-[*2]->()": ("a", "_a1"),
    "()-[e*2]->()": ("_e1", "_e2"),
    "(a)<-[*2]->(b)": ("a", "_ab1", "_ba1", "b"),
    "(u)-[e*2..3]->(v)": ("u", "_e1", "_uv1", "_e2", "_uv2", "_e3", "v", "_hop", "_pattern", "_direction"),
    "(u)-[*1..2]-(v)": ("u", "_uv1", "v", "_hop", "_pattern", "_direction", "_vu1"),
    "(u)-[e*2]-(v)": ("u", "_e1", "_uv1", "_e2", "v", "_hop", "_pattern", "_direction", "_vu1"),
    "(a)<-[*1..2]-(b)": ("a", "_ba1", "b", "_hop", "_pattern", "_direction"),
    "(1)-[2]->(3)": ("1", "2", "3"),
    "(1)-[2*3]->(4_)": ("1", "_21", "_14_1", "_22", "_14_2", "_23", "4_"),
    "(a); (b)": ("a", "b"),
}
"""Terms, and the columns that GraphFrames gives them."""


@pytest.mark.parametrize("text", FORMS)
def test_forms(text):
    motif = parse(text)
    assert motif.columns == FORMS[text]
    assert str(motif) == text
    assert parse(str(motif)) == motif


@pytest.mark.parametrize("text", FORMS)
def test_rules_of_forms_are_rules(text):
    for semantics in ("homomorphism", "edges-distinct", "nodes-distinct"):
        for graph in (Graph(), Graph(has_vertices=False)):
            check(compile_motif(parse(text), semantics=semantics, graph=graph).rules)


def test_space_stands_anywhere():
    spread = parse(" ( a )\n - [ e * 2 .. 3 ]\t-> ( b ) ;\n! ( b ) <- [ ] - ( a ) ")
    assert str(spread) == "(a)-[e*2..3]->(b); !(b)<-[]-(a)"


LIFTED = {
    "(a)-[*..2]->(b)": ("a", "_ab1", "b", "_hop", "_pattern", "_direction"),
    "(a)-[*1..2]->(b); (b)-[f]->(c)": ("a", "_ab1", "b", "_hop", "_pattern", "_direction", "f", "c"),
    "(a)-[*1..2]->(b); (b)-[*1..2]->(c)": (
        "a", "_ab1", "b", "_hop1", "_pattern1", "_direction1", "_bc1", "c", "_hop2", "_pattern2", "_direction2",
    ),
    "(a)-[]-(b); (b)-[]-(c)": ("a", "b", "_pattern1", "_direction1", "c", "_pattern2", "_direction2"),
    "(a)-[e]->(b); (c)-[e]->(d)": ("a", "e", "b", "c", "d"),
    "!(b)-[]->(a); (a)-[]->(b)": ("b", "a"),
}  # fmt: skip
"""What GraphFrames refuses, and a join can do."""


@pytest.mark.parametrize("text", LIFTED)
def test_limits_of_graphframes_that_are_none_here(text):
    assert parse(text).columns == LIFTED[text]


REFUSED = {
    "()": "a single vertex needs a name",
    "!(a)": "a vertex cannot be negated",
    "()-[]->()": "an edge or one of its vertices needs a name",
    "()-[]-()": "an edge or one of its vertices needs a name",
    "()<-[]->()": "an edge or one of its vertices needs a name",
    "()-[*2]->()": "an edge or one of its vertices needs a name",
    "!()-[]->()": "a negated edge needs a vertex with a name",
    "!(a)-[e]->(b)": "a negated edge cannot have a name, because 'e' is in no match",
    "(a)-[e]->(b); !(a)-[e]->(b)": "a negated edge cannot have a name",
    "!(a)<-[]->(b)": "an edge each way cannot be negated",
    "!(a)-[]-(b)": "an undirected edge cannot be negated",
    "!(a)-[*2]->(b)": "a chain cannot be negated",
    "!(a)-[*1..2]->(b)": "a chain cannot be negated",
    "(a)-[*2..]->(b)": "a chain needs a maximum number of hops",
    "(a)-[e*..]->(b)": "a chain needs a maximum number of hops",
    "(a)-[a]->(b)": "the name 'a' is used for a vertex and an edge",
    "(a)-[]->(b); (c)-[a]->(d)": "the name 'a' is used for a vertex and an edge",
    "(_e1)-[e*2]->(b)": "the name '_e1' is used for a vertex and an edge",
    "(a)-[*2]->(b); (a)-[*2]->(b)": "would both have an element '_ab1'",
    "(ab)-[*2]->(c); (a)-[*2]->(bc)": "would both have an element '_abc1'",
    "(a)-[e*2]->(b); (c)-[e*2]->(d)": "would both have an element '_e1'",
    "(a)<-[e*2]->(b)": r"a chain each way is not supported; .* \(a\)-\[e1\*2\]->\(b\); \(b\)-\[e2\*2\]->\(a\)",
    "(a)<-[*1..2]->(b)": "a chain each way is not supported",
    "(_pattern)-[]-(b)": "'_pattern' is also a column",
    "(a)-[_hop]->(b); (b)-[*1..2]->(c)": "'_hop' is also a column",
    "(a)-[*1..8]-(b); (c)-[*1..8]-(d)": "got at least 256, expected at most 64",
    "; ".join(f"(a)-[*{MAX_HOPS}]->(b{at})" for at in range(3)): f"more than {MAX_EDGES} edges",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_has_no_one_meaning_is_refused(text):
    with pytest.raises(UnsupportedError, match=REFUSED[text]) as caught:
        parse(text)
    assert "(line 1, column " in str(caught.value)


MISTAKES = {
    "": (1, "the motif is empty: expected a term such as"),
    " \n ": (1, "the motif is empty"),
    "(a)-[]->(b);": (13, "expected a term after the last ';'; remove that ';'"),
    "(a);;(b)": (5, "expected a term such as .* after ';'"),
    "a": (1, "expected a term such as"),
    "(a": (3, "expected '\\)' or a name|expected '\\)'"),
    "(a b)": (4, "expected '\\)' after 'a'"),
    "(ä)": (2, "a name of the letters a to z, digits and '_'"),
    "(a)-[e": (7, "expected ']' or '\\*' after 'e', where the text ends"),
    "(a)-[e]>(b)": (8, "expected '->' or '-' after ']'"),
    "(a)=[e]=>(b)": (4, "expected an edge such as -\\[e\\]->, ';' or the end"),
    "(a)-[]->b": (9, "expected a vertex such as \\(b\\) after '->'"),
    "(a)-->(b)": (5, "an edge needs brackets"),
    "(a)--(b)": (5, "an edge needs brackets"),
    "(a)-[]->(b)-[]->(c)": (12, "a term has a single edge"),
    "(a)-[]->(b), (c)": (12, "expected ';' between terms"),
    "(a:P)-[]->(b)": (3, "labels are not supported in a motif"),
    "(a)-[:K]->(b)": (6, "labels are not supported in a motif"),
    "(a {x:1})": (4, "properties are not supported in a motif"),
    "(a)-[*]->(b)": (6, "expected the number of hops after '\\*'"),
    "(a)-[*0]->(b)": (7, "a chain has at least one hop"),
    "(a)-[*0..2]->(b)": (7, "a chain has at least one hop"),
    "(a)-[*3..2]->(b)": (6, "the range of hops is empty: got 3 to 2"),
    "(a)-[*99]->(b)": (7, f"a chain is too long: got 99 hops, expected at most {MAX_HOPS}"),
    "(a)-[*99999999999999999999]->(b)": (7, "a chain is too long: got 999999999999 hops"),
    "(a)-[e*-1]->(b)": (8, "expected ']', '..' or a number of hops"),
    f"({'x' * (MAX_NAME_LENGTH + 1)})": (2, "the name is too long: got 256 characters, expected at most 255"),
    "(a)-[e]->(b)]": (13, "expected"),
    "(a)\x00": (4, "expected"),
    "(a)\ud800": (4, "expected"),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_shown(text):
    column, message = MISTAKES[text]
    with pytest.raises(MotifSyntaxError, match=message) as caught:
        parse(text, source="rings.motif")
    assert (caught.value.lineno, caught.value.offset, caught.value.filename) == (1, column, "rings.motif")


def test_a_mistake_on_a_later_line_is_marked_there():
    with pytest.raises(MotifSyntaxError) as caught:
        parse("(a)\n-[e]->\n(b];(c)")
    assert str(caught.value) == "expected ')' after 'b' (line 3, column 3)\n  (b];(c)\n    ~"


def test_texts_are_bounded():
    with pytest.raises(
        UsageError, match="the text of a motif is too long: got 100,001 bytes, expected at most 100,000 bytes"
    ):
        parse("(a)" + " " * (MAX_TEXT_BYTES - 2))
    with pytest.raises(UsageError, match="a motif has the wrong type"):
        parse(b"(a)")  # type: ignore[arg-type]
    many = "; ".join(f"(v{at})" for at in range(2000))
    with pytest.raises(
        UnsupportedError, match=r"the motif is too large: got 2,000 terms, expected at most 64 \(line 1, column 439\)"
    ):
        parse(many)


CONDITIONS = {
    "1": "expected a comparison, got a value",
    "a.id + (b.id = 1) = 2": "expected a value, got a condition",
    "x.id = 1": r"unknown element 'x' of the motif: expected one of a, b, t",
    "tt.n = 1": "Did you mean 't'",
    "a = 1": "'a' is an element; name a column of it, as in a.id",
    "t = 1": "'t' is an element; name a column of it, as in t.src",
    "id = 1": "unknown column 'id' of the matches; qualify it with an element, as in a.id",
    'a.id = "x"': "texts are quoted in single quotes",
    "a.`x y = 1": "backticks quote the column|expected",
    "a.id == 1": "'==' is not supported; write '='",
    "a.id = NULL": "'= NULL' is never true; write IS NULL",
    "a.id <> NULL": "'!= NULL' is never true",
    "a.id = 'x": "this text has no closing single quote",
    "(a.id = 1": r"expected '\)' after '1', where the text ends|expected",
    "a.id = 1 AND": "expected a column such as a.id or a value after 'AND', where the text ends",
    "a.id = 1 && b.id = 2": "write AND",
    "a.id = 1 || b.id = 2": "write OR",
    "lowr(a.id) = 'x'": r"unknown function 'lowr' in where: .* Did you mean 'lower'\?",
    "a.id LIKE b.id": r"the pattern of LIKE is not a text literal; write LIKE '...'",
    "": "where is empty",
    "a.id = 1e400": "is not a finite number",
    "a.id = 99999999999999999999": "is outside int64",
    f"a.id = {'9' * 40}": "is outside int64",
    "a.id = '\ud800'": "unpaired surrogate",
    "a.id NOT 1": "expected IN, BETWEEN or LIKE",
    "a.id BETWEEN 1 OR 2": "expected AND",
}


@pytest.mark.parametrize("text", CONDITIONS)
def test_mistakes_in_conditions_are_shown(text):
    with pytest.raises(MotifSyntaxError, match=CONDITIONS[text]) as caught:
        compile_motif(parse("(a)-[t]->(b)"), where=text)
    assert "of <where>)" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.id IN (b.id)", "a list holds constants"),
        (
            f"a.id IN ({', '.join(map(str, range(1001)))})",
            "the list is too long: got 1,001 values, expected at most 1,000",
        ),
        ("a.id IN (1, 'x')", "the values of a list have different types"),
        ("1 = 'x'", "compares values of different types"),
        ("a.x + 'x' * 2 = 1", "has an operand of the wrong type"),
        ("1 / 0 = a.x", "divides by zero"),
        ("_pattern = 'x'", "compare '_direction'"),
    ],
)
def test_conditions_that_cannot_be_answered(text, message):
    with pytest.raises(GpuWcojError, match=message):
        compile_motif(parse("(a)-[t]-(b)"), where=text)


def test_an_or_is_one_rule_with_a_filter():
    text = " OR ".join(f"a.x = b.y + {at}" for at in range(100))
    (rule,) = _matching(text)
    (test,) = rule.comparisons
    assert str(test).startswith("istrue(any(eq(a_x, b_y + 0), eq(a_x, b_y + 1), ")


def test_an_or_whose_sides_join_elements_is_split_up_to_a_limit():
    rules = _matching("a.x = b.x OR a.y = b.y AND a.z > 1")
    assert [[str(one) for one in rule.comparisons] for rule in rules] == [
        ["a_x = b_x"],
        ["a_y = b_y", "a_z > 1", "eq(istrue(eq(a_x, b_x)), false) = true"],
    ]
    pairs = " AND ".join(f"(a.x = b.x{at} OR a.y = b.y{at})" for at in range(7))
    assert len(_matching(pairs)) == 64


def _matching(where: str) -> list[Rule]:
    """The rules of the matches themselves."""
    rules = compile_motif(parse("(a)-[t]->(b)"), where=where).rules.rules
    return [rule for rule in rules if rule.head.relation == "motif"]


@pytest.mark.parametrize(
    "text", ["(" * 5000 + "a.x = 1" + ")" * 5000, "NOT " * 5000 + "a.x = 1", "-" * 5000 + "a.x = 1"]
)
def test_deep_conditions_neither_crash_nor_hang(text):
    try:
        compile_motif(parse("(a)"), where=text)
    except MotifSyntaxError as error:
        assert "nest more than 100 deep" in str(error)  # noqa: PT017  # groups and double negation need no depth
    with pytest.raises(MotifSyntaxError, match="nest more than 100 deep"):
        compile_motif(parse("(a)"), where="a.x" + " + 1" * 5000 + " = 1")


def test_what_is_asked_of_one_element_restricts_its_relation():
    rules = compile_motif(
        parse("(a)-[t]->(b); (b)-[]->(c); !(c)-[]->(a)"),
        where="t.amount > 900 AND a.country IN ('CH', 'LI') AND a.age < c.age",
    ).rules
    assert str(rules) == (
        ".decl vertices(id, country, age)\n"
        ".decl edges(_row, src, dst, amount)\n"
        'list#1("CH").\n'
        'list#1("LI").\n'
        "picked#a(id, a_age) :- vertices(id, a_country, a_age), list#1(a_country).\n"
        "nodes#(id) :- vertices(id, _, _).\n"
        "nodes#2(id, c_age) :- vertices(id, _, c_age).\n"
        "picked#t(row_t, src, dst) :- edges(row_t, src, dst, t_amount), t_amount > 900.\n"
        "pairs#(src, dst) :- edges(_, src, dst, _).\n"
        "motif(a, row_t, b, c) :- picked#a(a, a_age), nodes#(b), nodes#2(c, c_age), picked#t(row_t, a, b),"
        " pairs#(b, c), !pairs#(c, a), a_age < c_age.\n"
        ".output motif"
    )


def test_ids_are_a_relation_and_the_ends_of_edges_are_vertices():
    found = compile_motif(parse("(a)-[]->(b); !(c)-[]->(a)"), ids=["a"], graph=Graph(has_vertices=False))
    assert str(found.rules) == (
        ".decl edges(src, dst)\n"
        "ends#(id) :- edges(id, _).\n"
        "ends#(id) :- edges(_, id).\n"
        "once#(id, count()) :- ends#(id).\n"
        "nodes#(id) :- once#(id, _).\n"
        "motif(a, b, c) :- ids#a(a), nodes#(c), edges(a, b), !edges(c, a).\n"
        ".output motif"
    )
    assert found.vertices == ()
    with pytest.raises(UsageError, match="ids= names an unknown vertex 'z'"):
        compile_motif(parse("(a)"), ids=["z"])
    with pytest.raises(UsageError, match="unknown semantics 'iso'"):
        compile_motif(parse("(a)"), semantics="iso")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("e.amount > 'x'", "the text 'x' is compared with 'e.amount', which has numbers"),
        ("e.kind = 5", "the number 5 is compared with 'e.kind', which has texts"),
        ("e.kind IN (1, 2)", "the number 1 is compared with 'e.kind', which has texts"),
        ("NOT ('x' < e.amount + 1 OR e.src = 1)", "the text 'x' is compared with 'e.amount [+] 1'"),
    ],
)
def test_texts_and_numbers_do_not_compare(where, says):
    edges = {"src": [1], "dst": [2], "amount": [1.5], "kind": ["a"]}
    with pytest.raises(TypeMismatchError, match=says):
        gw.find("(a)-[e]->(b)", edges=edges, where=where)
