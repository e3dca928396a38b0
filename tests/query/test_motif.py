"""The text of motifs: every form, everything that is refused, and the rules that come of it."""

from __future__ import annotations

import pytest

from gpu_wcoj.errors import MotifSyntaxError, UsageError
from gpu_wcoj.query.check import check
from gpu_wcoj.query.ir import Rule
from gpu_wcoj.query.motif import Graph, compile_motif, parse

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
