"""What is refused of queries in EDN: with its place, the reason, and what to write instead."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from gpu_wcoj.errors import EdnSyntaxError, TypeMismatchError, UnsupportedError, UsageError
from gpu_wcoj.query.edn import Attribute, Datoms, Relation, parse
from gpu_wcoj.query.edn.parse import MAX_CLAUSES, MAX_NESTING

DB = Datoms(
    {
        ":name": Attribute("string", unique=True), ":age": Attribute("long"), ":to": Attribute("ref"),
        ":size": Attribute("double"), ":mood": Attribute("keyword"), ":id": Attribute("uuid"),
        ":at": Attribute("instant"), ":on": Attribute("boolean"), ":raw": Attribute("bytes"),
    }
)  # fmt: skip
SOURCES = {"$": DB, "edges": Relation("edges", ("src", "dst"), ("int64", "int64")), "loose": Relation("loose")}


def refused(text: Any, *arguments: Any) -> Any:
    return parse(text, SOURCES, arguments=arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # the query and its parts
        ("5", "a query is a map or a vector"),
        ("[?x :find]", r"a query begins with :find, .* got '\?x' \(line 1, column 2\)"),
        ("[:where [?e]]", "the query has no :find"),
        ("[:find ?e]", "the query has no :where"),
        ("[:find ?e :find ?e :where [?e]]", "':find' is given twice"),
        ("[:find ?e :wher [?e]]", r"unknown part ':wher' of a query: .* Did you mean ':where'\? \(line 1, column 11\)"),
        ("{:find ?e :where [[?e]]}", r"':find' takes a vector: got '\?e'"),
        ("[:find :where [?e]]", "':find' finds nothing"),
        ("[:find [] :where [?e]]", "':find' finds nothing"),
        ("[:find 5 :where [?e]]", "expected a variable or an aggregate in ':find'; '5' is not allowed"),
        ("[:find ?e ?f . :where [?e :to ?f]]", r"'\.' is not allowed here"),
        ("[:find ?e ... :where [?e]]", r"'\.\.\.' is not allowed here"),
        ("[:find [?e] ?f :where [?e :to ?f]]", "':find' with a vector cannot have further elements"),
        ("[:find ?x :where [?e :age]]", r"'\?x' in ':find' is not bound by ':where' or ':in'; bound are '\?e'"),
        ("[:find (count ?e) :with ?x :where [?e]]", r"'\?x' in ':with' is not bound"),
        ("[:find ?e :with 5 :where [?e]]", "':with' takes variables"),
        ("[:find ?e :where [?e] :with]", "':with' has no variables"),
        ("[:find ?e :keys a b :where [?e]]", "':keys' has the wrong number of names: got 2, expected 1"),
        ("[:find ?e ?f :keys a a :where [?e :to ?f]]", "':keys' has 'a' twice"),
        ("[:find ?e :keys a :strs a :where [?e]]",
         ":keys and :strs cannot be combined: a query has at most one of :keys, :strs, :syms"),
        ("[:find ?e . :keys a :where [?e]]", "':keys' names columns, but this ':find' returns bare values"),
        ('[:find ?e :keys "a" :where [?e]]', "':keys' takes symbols"),
        ("[:find (sum) :where [?e]]", r"'sum' takes one variable: \(sum \?x\)"),
        # clauses
        ("[:find ?e :where ?e]", "expected a clause, got"),
        ("[:find ?e :where [?e] []]", "this clause is empty"),
        ("[:find ?e :where [?e] (5 ?e)]", "expected and, or, or-join, not, not-join or the name of a rule"),
        ("[:find ?e :where [?e] (< ?e 5)]", r"'<' must be in a vector: \[\(< \?e 5\)\] as a predicate"),
        ("[:find ?e :where [?e :age ?a] [(inc ?a)]]", "'inc' is a function; bind its result"),
        ("[:find ?e :where [?e :age ?a] [(< ?a)]]", "'<' takes 2 or more arguments: got 1"),
        ("[:find ?e :where [?e :age ?a] [(!= ?a 1 2)]]", "'!=' takes 2 arguments: got 3"),
        ("[:find ?e :where [?e :age ?a] [(quot ?a) ?b]]", "'quot' takes 2 arguments"),
        ("[:find ?e :where [?e :age ?a] [(< ?a _)]]", "'_' has no value, but an argument needs one"),
        ("[:find ?e :where [?e :age ?a] [(< ?a nil)]]", "nil is not a value"),
        ("[:find ?e :where [?e :age ?a] [(< ?a b)]]", r"got the symbol 'b'; did you mean '\?b'\?"),
        ("[:find ?e :where [?e :age ?a] [(inc ?a) 5]]", "expected a variable for the result, got '5'"),
        ("[:find ?e :where [?e :age ?a] [(inc ?a) ?b ?c]]", r"expected \[\(predicate ...\)\]"),
        ("[:find ?e :where [?e :age ?a] [()]]", "expected a function or predicate"),
        ("[:find ?e :where [?e :age {:a 1}]]", "expected a variable, a constant or '_'"),
        ("[:find ?e :where [?e name ?a]]", r"got the symbol 'name'; did you mean '\?name'\?"),
        ('[:find ?e :where [?e "name" ?a]]', "an attribute is a keyword such as :name: got '\"name\"'"),
        ("[:find ?e :where [?e 5 ?a]]", "an attribute is a keyword such as :name: got '5'"),
        ("[:find ?e :where [?e [:a 1] ?a]]", "an attribute is a keyword or a variable"),
        ("[:find ?e :where [[:name] :to ?e]]", r"a vector here is a lookup ref, \[:attribute value\]"),
        ("[:find ?e :where [[:name _] :to ?e]]", "a lookup ref needs a value"),
        ("[:find ?e :where [[:age 5] :to ?e]]",
         "a lookup ref needs a unique attribute: got ':age', which is not unique"),
        ("[:find ?e :where [?e _ [:name 5]]]", "needs an attribute that is a ref"),
        ("[:find ?e :where [$edges [:name 5] ?e]]", "a lookup ref needs a database of datoms"),
        ("[:find ?e :where [:some/one :age ?e]]", "':some/one' names an entity by :db/ident, but no entity"),
        ("[:find ?e :where [$edge ?e]]", r"unknown source '\$edge': expected one of .* Did you mean 'edges'\?"),
        ("[:find ?e :where [$edges ?e 1 2]]", "'\\$edges' has 2 columns: got 3 terms"),
        ("[:find ?e :where [$loose ?e 1 2] [$loose ?e 1]]",
         r"'\$loose' differ in their numbers of terms: got 2, expected 3"),
        ("[:find ?e :where [$edges]]", "has no terms"),
        ("[:find ?e :where [?e] (reech ?e)]", r"unknown rule 'reech': expected one of 'edges'"),
        ("[:find ?e :where [?e] (not)]", "'not' has no clauses"),
        ("[:find ?e :where [?e] (or)]", "'or' has no clauses"),
        ("[:find ?e :where [?e] (or-join [?e])]", "'or-join' has no clauses"),
        ("[:find ?e :where [?e] (or-join ?e [?e])]", "'or-join' takes a vector of variables first"),
        ("[:find ?e :where [?e] (not-join [[?e]] [?e])]", "'not-join' takes variables, without a vector"),
        ("[:find ?e :where [?e] (not-join [?e ?e] [?e])]", r"the variable '\?e' is given twice"),
        ("[:find ?e :where [?e] (not-join [5] [?e])]", r"expected a variable such as \?x"),
        ("[:find ?e :where [?e] (not-join [?e ?x] [?e])]", r"the clauses of 'not-join' do not use '\?x'"),
        ("[:find ?e :where (or-join [?e ?x] [?e :to ?x] [?e])]", r"the clauses of 'or-join' do not use '\?x'"),
        ("[:find ?e :where (or [?e :to ?x] [?e])]",
         r"must have the same variables, but only some have '\?x'; write or-join"),
        ("[:find ?e :where [?e] ($edges and [?e])]", "'and' takes no source"),
        ("[:find ?e :where [?e] ($edges [?e])]", "expected and, or"),
        ("[:find ?e :where [$edges (< 1 2)]]", "takes its source as an argument"),
        ("[:find ?e :where [?e :age ?a] [(missing? ?e :age)]]", "'missing\\?' takes 3 arguments"),
        ("[:find ?e :where [?e :age ?a] [(missing? ?e ?e :age)]]", "takes a source such as \\$ first"),
        ("[:find ?e :where [?e :age ?a] [(missing? $ ?e ?a)]]", "takes an attribute such as :name"),
        ("[:find ?e :where [?e :age ?a] [(missing? $ _ :age)]]", "'_' has no value"),
        ("[:find ?e :where [?e :age ?a] [(get-else $ ?e :age 5)]]", "is a function; bind its result"),
        ("[:find ?e :where [?e :age ?a] [(missing? $ ?e :age) ?b]]", "is a predicate; it binds nothing"),
        ("[:find ?e :where [?e] [(ground 5)]]", "'ground' is a function; bind its result"),
        ("[:find ?e :where [?e] [(ground 5) [?x ...]]]", r"'\[\?x \.\.\.\]' binds a collection: got '5'"),
        ("[:find ?e :where [?e] [(ground [5]) [?x ?y]]]", r"binds 2 values, but '\[5\]' has 1"),
        ("[:find ?e :where [?e] [(ground [[5]]) [[?x ?y]]]]", r"binds 2 values, but '\[5\]' has 1"),
        ("[:find ?e :where [?e] [(ground [5 \"a\"]) [?x ...]]]", "would bind values of type long and of type string"),
        ("[:find ?e :where [?e] [(ground []) []]]", "this binding is empty"),
        ("[:find ?e :where [?e] [(ground [5]) ?x]]", r"'\?x' binds a single value: got '\[5\]'"),
        ("[:find ?e :where [?e] [(ground [5]) [x ...]]]", "expected a variable or '_' in a binding, got 'x'"),
        # bindings
        ("[:find ?e :where [?e :age ?a] [(< ?a ?b)]]", r"insufficient bindings: '\?b' is not bound by another clause"),
        ("[:find ?e :where [?e :age ?a] [(inc ?b) ?c] [(inc ?c) ?d]]", r"insufficient bindings: '\?b' is not bound"),
        ("[:find ?e :where [(inc ?a) ?e] [(inc ?e) ?a] [_ :age 5]]",
         r"insufficient bindings: '\?a' is not bound"),
        ("[:find ?e :where [?e :age ?a] (not [?x :to ?y])]", r"insufficient bindings: '\?x', '\?y' are not bound"),
        ("[:find ?e :where [?e :age ?a] (not-join [?x] [?x :to ?e])]", r"insufficient bindings: '\?x' is not bound"),
        ("[:find ?e :where [?e :age ?a] (not [?e :to ?x] [(< ?x ?y)])]", r"insufficient bindings: '\?y' is not bound"),
        ("[:find ?e :where (or [(< ?e 5)] [?e :to 5]) [_ :age]]", r"insufficient bindings: '\?e' is not bound"),
        ("[:find ?f :where [_ :age ?f] (or-join [[?e]] [?e :to 5])]", r"insufficient bindings: '\?e' is not bound"),
        ("[:find ?f :where [_ :age ?f] (or [(< ?e ?f)] (and [?e :to 5] [(= ?f 3)]))]", r"'\?e' is not bound"),
        # rules
        ("[:find ?e :where [?e] :rules [[r ?e]]]", r"a rule is \[\(name \?x \.\.\.\) clause"),
        ("[:find ?e :where [?e] :rules [[(r) [?e]]]]", "the rule 'r' has no variables"),
        ("[:find ?e :where [?e] :rules [[(r ?e)]]]", "the rule 'r' has no clauses"),
        ("[:find ?e :where [?e] :rules [[(r ?e ?x) [?e]]]]", r"the clauses of 'r' do not use '\?x'"),
        ("[:find ?e :where [?e] :rules [[(not ?e) [?e]]]]", "'not' cannot be the name of a rule"),
        ("[:find ?e :where [?e] :rules [[(r 5) [?e]]]]", r"expected a variable such as \?x"),
        ("[:find ?e :where [?e] :rules [[(r ?e) [?e]] [(r ?e ?f) [?e :to ?f]]]]",
         "differ in their numbers of variables: got 2, expected 1"),
        ("[:find ?e :where [?e] :rules [[(r ?e) [?e]] [(r [?e]) [?e]]]]", "require different variables"),
        ("[:find ?e :where (r ?e 5) :rules [[(r ?e) [?e]]]]", "the rule 'r' takes 1 term: got 2"),
        ("[:find ?e :where (rr ?e) :rules [[(r ?e) [?e]]]]",
         "unknown rule 'rr': expected one of 'edges', 'loose', 'r'"),
        ("[:find ?e :where (r ?e) :rules [[(r [?e]) [?e]]]]", r"insufficient bindings: '\?e' is not bound"),
        ("[:find ?n :where [_ :age ?n] (r ?e) :rules [[(r [?e]) [?e]]]]", r"insufficient bindings: '\?e' is not bound"),
        ("[:find ?n :where [_ :age ?n] (r _) :rules [[(r [?e]) [?e]]]]", "insufficient bindings: '_' is not bound"),
        ("[:find ?n :where [_ :age ?n] (r ?m) :rules [[(r ?e) [(< ?e 5)]]]]",
         r"insufficient bindings: '\?m' is not bound"),
        ("[:find ?n :where (r ?n) :rules [[(r ?e) [?e :age ?a] [(< ?a ?b)]]]]", r"insufficient bindings: '\?b'"),
        # limits
        ("[:find ?e :where " + "[?e] " * (MAX_CLAUSES + 1) + "]", "a query has at most 1,000 clauses"),
        (
            "[:find ?e :where " + "(and " * (MAX_NESTING + 1) + "[?e]" + ")" * (MAX_NESTING + 1) + "]",
            "nest more than 30 deep",
        ),
    ],
)  # fmt: skip
def test_what_is_no_query(text: str, message: str) -> None:
    with pytest.raises(EdnSyntaxError, match=message):
        refused(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[:find (pull ?e [*]) :where [?e]]", "'pull' is not supported"),
        ("[:find (median ?e) :where [?e]]",
         "the aggregate 'median' is not supported: expected one of count, count-distinct, sum"),
        ("[:find (suum ?e) :where [?e]]", r"Did you mean 'sum'\?"),
        ("[:find (max 3 ?e) :where [?e]]", "'max' of the first 3 values is not supported"),
        ("[:find ?e :with ?a :where [?e :age ?a]]",
         "':with' needs an aggregate in ':find', which is missing"),
        ("[:find ?e :where [?e :age ?a ?tx]]", "transactions cannot be queried"),
        ("[:find ?e :where [?e :age ?a] [(cout ?a) ?b]]", r"'cout' is not supported: .* Did you mean 'count'\?"),
        ("[:find ?e :where [?e :age \\a]]", "characters are not supported; write a string"),
        ("[:find ?e :where [?e :age ?a] [(inc ?a) [?b]]]", "this function has a single value"),
        ("[:find ?e :where [?e] [(ground [[1 2]]) [[?x ?y] ?z]]]", "binds 2 values|bindings within tuples"),
        ("[:find ?e :where [?e :name ?n] [(str ?n 0.5) ?m]]", "'str' of 0.5 is not supported; write the text"),
        ("[:find ?e :where (r ?e) :rules [[(r ?e) [?e :to ?f] (not (r ?f))]]]",
         r"negation through recursion is not supported: 'r' negates 'r', which needs 'r' \(line 1, column 58\)"),
        ("[:find ?e :where (r ?e) :rules [[(r ?e) [?e :to ?f] (not (s ?f))] [(s ?e) (r ?e)]]]",
         "'r' negates 's', which needs 'r'"),
        ("[:find ?a :where [$loose ?a ?b] [_ _ ?b]]", r"the type of '\?b' is not known, but the attributes have 8"),
    ],
)  # fmt: skip
def test_what_is_not_supported(text: str, message: str) -> None:
    with pytest.raises((UnsupportedError, EdnSyntaxError), match=message):
        refused(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[:find ?v :where [?e ?a ?v]]", r"the column '\?v' would hold values of the types boolean, bytes, double"),
        ("[:find ?v :where (or [?e :age ?v] [?e :name ?v])]", "types long and string"),
        ('[:find ?e :where [?e :age "x"]]',
         r"""'"x"' has the wrong type: got a string, expected a long, so nothing can match"""),
        ("[:find ?e :where [?e :size 5]]",
         r"'5' has the wrong type: got a long, expected a double, so nothing can match; write 5.0"),
        ("[:find ?e :where [?e :age ?a] [?e :name ?a]]",
         r"expected a string, so nothing can match \(line 1, column 41\)"),
        ("[:find ?e :where [?e :age ?a] (not [?e :name ?a])]",
         r"'\?a' has the wrong type: got a long, expected a string"),
        ("[:find ?e :where [?e :age ?a] (or [?e :to ?a] [?e :name ?a])]",
         r"'\?a' has the wrong type: got a long, expected a string"),
        ('[:find ?e :where ["x" :age ?e]]', "got a string, expected a long"),
        ('[:find ?e :where [?e :age ?a] [(< ?a "x")]]', "'<' compares a long and a string"),
        ("[:find ?e :where [?e :size ?a] [(= ?a 5)]]",
         "'=' compares a double and a long, which are never equal; compare with '=='"),
        ("[:find ?e :where [?e :size ?a] [(!= ?a 5)]]", "'!=' compares a double and a long, which are never equal"),
        ("[:find ?e :where [?e :mood ?a] [(< ?a :b)]]", "'<' needs values that have an order: got a keyword"),
        ("[:find ?e :where [?e :id ?a] [?f :id ?b] [(< ?a ?b)]]", "'<' needs values that have an order: got a uuid"),
        ("[:find ?e :where [?e :name ?a] [(inc ?a) ?b]]",
         "'\\?a' has the wrong type: got a string, expected a double or a long"),
        ("[:find ?e :where [?e :age ?a] [(/ ?a 2) ?b]]", "'/' of longs is a ratio in Clojure"),
        ("[:find ?e :where [?e :size ?a] [(quot ?a 2) ?b]]",
         "'\\?a' has the wrong type: got a double, expected a long"),
        ("[:find ?e :where [?e :age ?a] [(count ?a) ?b]]", "'\\?a' has the wrong type: got a long, expected a string"),
        ("[:find ?e :where [?e :age ?a] [(str ?a) ?b]]", "'\\?a' has the wrong type: got a long, expected"),
        ("[:find (sum ?n) :where [?e :name ?n]]", "'sum' takes numbers: got '\\?n' of type string"),
        ("[:find (max ?n) :where [?e :mood ?n]]", "'max' takes values that have an order"),
        ("[:find ?e :where [?e :age [:name 1]]]",
         "a lookup ref denotes an entity, but ':age' holds values of type long"),
        ("[:find ?e :where [?e] (r ?e) :rules [[(r ?x) (r ?x)]]]", "the rule 'r' never derives a row"),
        ("[:find ?e :where [?e] (r ?e) :rules [[(r ?x) [?x :age ?a] [?x :name ?a]]]]",
         "'\\?a' has the wrong type: got a long, expected a string"),
        ("[:find ?e :where [?e :name] (s ?e) :rules [[(s ?x) [_ :name ?x]]]]",
         "'\\?e' has the wrong type: got a long, expected a string"),
    ],
)  # fmt: skip
def test_types_that_do_not_meet(text: str, message: str) -> None:
    with pytest.raises(TypeMismatchError, match=message):
        refused(text)


@pytest.mark.parametrize(
    ("in_", "arguments", "message"),
    [
        ("$ ?n", (), r"':in' takes 1 argument \(\?n\): got 0"),
        ("$", (5,), "':in' takes no arguments: got 1"),
        ("$ ?n ?n", (5, 6), r"'\?n' is given twice in ':in'"),
        ("$ ?n", ([5],), r"'\?n' binds a single value: got '\[5\]'"),
        ("$ ?n", (dt.datetime(2026, 1, 1),), "2026-01-01T00:00:00 has no time zone"),  # on purpose
        ("$ ?n", (None,), r"the argument for '\?n' cannot be used: None is not a value"),
        ("$ ?n", (2**63,), "outside int64"),
        ("$ ?n", (float("nan"),), "not a finite number"),
        ("$ ?n", (b"x",), "a value of type 'bytes' cannot be used in a query"),
        ("$ ?n", (DB,), "its argument is a source; name the source"),
        ("$ [?n ...]", (5,), "binds a collection: got '5'"),
        ("$ [?n ...]", ([5, 0.5],), "would bind values of type long and of type double"),
        ("$ [?n ?m]", ([5],), "binds 2 values"),
        ("$ [[?n ?m]]", ([5],), "binds a relation"),
        ("$ [[?n ?m]]", ([(5, 6, 7)],), "binds 2 values, but .* has 3"),
        ("$ $old ?n", (5, 6), r"the argument of the source '\$old' has the wrong type: got 'int'"),
        ("$ 5", (5,), "expected a binding such as"),
        ("$ %", (5,), "rules are a vector of"),
        ("$ %", ("[[(r ?x)]]",), r"the rule 'r' has no clauses \(line 1, column 2 of the rules\)"),
        ("$ %", ("[[",), r"this '\[' is not closed by '\]' \(line 1, column 2 of the rules\)"),
        ("$ %", (object(),), "these rules cannot be read: a value of type 'object'"),
    ],
)
def test_arguments_that_do_not_fit(in_: str, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises((EdnSyntaxError, UnsupportedError), match=message):
        refused(f"[:find ?e :in {in_} :where [?e :age ?n]]", *arguments)


def test_arguments_without_in() -> None:
    with pytest.raises(EdnSyntaxError, match="the query has no ':in' and takes no arguments: got 1"):
        refused("[:find ?e :where [?e :age]]", 5)


def test_data_that_is_no_query() -> None:
    with pytest.raises(
        UsageError, match="a query cannot be read: a value of type 'object' cannot be represented in EDN"
    ):
        refused([":find", object()])
    with pytest.raises(EdnSyntaxError, match="a query is a map or a vector"):
        refused(5)


def test_the_place_is_shown() -> None:
    with pytest.raises(EdnSyntaxError) as caught:
        parse("[:find ?e\n :where [?e :age ?a]\n        [(< ?b 5)]]", {"$": DB}, source="people.edn")
    assert str(caught.value) == (
        "insufficient bindings: '?b' is not bound by another clause (line 3, column 9 of people.edn)\n"
        "  [(< ?b 5)]]\n"
        "  ~~~~~~~~~~"
    )
    assert (caught.value.lineno, caught.value.offset, caught.value.filename) == (3, 9, "people.edn")


def test_attributes_among_arguments_are_keywords() -> None:
    with pytest.raises(EdnSyntaxError, match="an attribute is a keyword such as :name: got 'age'"):
        refused("[:find ?e :in $ ?a :where [?e ?a 5]]", "age")
