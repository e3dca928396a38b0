"""``pull``: attributes of entities as nested maps, beside the same read from the list of datoms."""

import random

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import EdnSyntaxError, TypeMismatchError, UnknownAttributeError, UnsupportedError, UsageError

MANY = {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"}
SCHEMA = {
    ":to": MANY,
    ":boss": {":db/valueType": ":db.type/ref"},
    ":part": {**MANY, ":db/isComponent": True},
    ":email": {":db/unique": ":db.unique/identity"},
    ":tag": {":db/cardinality": ":db.cardinality/many"},
}
PEOPLE = [
    {":db/id": 1, ":name": "Ann", ":to": [2, 3], ":email": "a@x", ":tag": ["u", "t"]},
    {":db/id": 2, ":name": "Bob", ":to": [1], ":boss": 1},
    {
        ":db/id": 3,
        ":name": "Cy",
        ":boss": 2,
        ":part": [{":db/id": 10, ":name": "arm", ":part": [{":db/id": 11, ":name": "hand"}]}],
    },
]
HAND = {":db/id": 11, ":name": "hand"}
CASES = [
    ("[:name :nope]", 1, {":name": "Ann"}),
    ("[:nope]", 1, None),
    ("[*]", 99, None),
    ("[:db/id]", 99, {":db/id": 99}),
    ("[*]", [":email", "a@x"],
     {":db/id": 1, ":email": "a@x", ":name": "Ann", ":tag": ["t", "u"], ":to": [{":db/id": 2}, {":db/id": 3}]}),
    ("[* {:boss [:name]}]", 3,
     {":db/id": 3, ":name": "Cy", ":boss": {":name": "Bob"},
      ":part": [{":db/id": 10, ":name": "arm", ":part": [HAND]}]}),
    ("[:_boss {:_to [:name]}]", 1, {":_boss": [{":db/id": 2}], ":_to": [{":name": "Bob"}]}),
    ("[{:_part [:name {:_part [:name]}]}]", 11, {":_part": {":name": "arm", ":_part": {":name": "Cy"}}}),
    ("[:name {:to ...}]", 1,
     {":name": "Ann", ":to": [{":name": "Bob", ":to": [{":db/id": 1}]}, {":name": "Cy"}]}),
    ("[:name {:boss 1}]", 3, {":name": "Cy", ":boss": {":name": "Bob"}}),
    ("[:name {:boss 2}]", 3, {":name": "Cy", ":boss": {":name": "Bob", ":boss": {":name": "Ann"}}}),
    ("[[:name :as :n] [:nope :default 5] (:tag :limit 1) (limit :to 1) (default :foo 0)]", 1,
     {":n": "Ann", ":nope": 5, ":tag": ["t"], ":to": [{":db/id": 2}], ":foo": 0}),
    ('[{[:to :as "t" :limit 1] [:name]}]', 1, {"t": [{":name": "Bob"}]}),
    ([":name", {":to": [":name", "*"]}, (":tag", ":limit", 1)], 2,
     {":name": "Bob", ":to": [{":db/id": 1, ":name": "Ann", ":email": "a@x", ":tag": ["t", "u"],
                              ":to": [{":db/id": 2}, {":db/id": 3}]}]}),
]  # fmt: skip


@pytest.fixture
def db():
    db = gw.datoms.Database(SCHEMA)
    db.transact(PEOPLE)
    return db


@pytest.mark.parametrize(("pattern", "entity", "expected"), CASES, ids=str)
def test_patterns(db, pattern, entity, expected):
    assert db.pull(pattern, entity) == expected


def test_pull_in_find(db):
    assert db.query("[:find [(pull ?e [:name {:boss [:name]}]) ...] :where [?e :boss]]") == [
        {":name": "Bob", ":boss": {":name": "Ann"}}, {":name": "Cy", ":boss": {":name": "Bob"}},
    ]  # fmt: skip
    assert db.query("[:find ?b (pull ?b [:name]) (count ?e) :keys b m n :where [?e :boss ?b]]") == [
        {":b": 1, ":m": {":name": "Ann"}, ":n": 1}, {":b": 2, ":m": {":name": "Bob"}, ":n": 1},
    ]  # fmt: skip
    other = gw.datoms.Database(SCHEMA)
    other.transact([{":db/id": 1, ":name": "Other"}])
    query = "[:find (pull $b ?x [:name]) (pull ?x [:name]) :in $ $b :where [_ :boss ?x] [?x :email]]"
    assert db.query(query, other) == [({":name": "Other"}, {":name": "Ann"})]
    assert db.query('[:find (pull ?e [:name]) . :where [?e :name "Nobody"]]') is None


def test_what_is_pulled_follows_the_transactions(db):
    db.transact([[":db/retract", 1, ":to", 2], [":db/add", 3, ":name", "Cyd"], [":db/retract", 1, ":tag"]])
    assert db.pull("[:name :tag {:to [:name]}]", 1) == {":name": "Ann", ":to": [{":name": "Cyd"}]}


@pytest.mark.parametrize(
    ("query", "error", "words"),
    [
        (
            "[:find (pull ?n [:name]) :where [?e :name ?n]]",
            TypeMismatchError,
            "takes an entity: got '.n' of type string",
        ),
        ("[:find (pull ?e) :where [?e :name]]", EdnSyntaxError, "takes a variable and a pattern"),
        ("[:find (pull ?e :name) :where [?e :name]]", EdnSyntaxError, "a pattern is a vector of attributes"),
        ("[:find (pull ?e [[:name :lmit 3]]) :where [?e :name]]", UnsupportedError, "Did you mean ':limit'"),
        ("[:find (pull ?e [[:name :limit 0]]) :where [?e :name]]", EdnSyntaxError, "takes a number of values"),
        ("[:find (pull ?e [{:to 0}]) :where [?e :name]]", EdnSyntaxError, "applied at least once"),
        ("[:find (pull $x ?e [:name]) :where [?e :name]]", UnsupportedError, "'.x' is not one"),
    ],
)
def test_what_is_wrong_points_at_the_place(db, query, error, words):
    with pytest.raises(error, match=words) as caught:
        db.query(query)
    assert "line 1, column" in str(caught.value)


def test_refusals(db):
    with pytest.raises(UnsupportedError, match="Subscribe to the entities"):
        db.subscribe("[:find (pull ?e [:name]) :where [?e :name]]")
    with pytest.raises(UnsupportedError, match="reads a database of datoms"):
        gw.query("[:find (pull ?a [:name]) :in $edges :where [$edges ?a ?b]]", edges=[(1, 2)])
    db.transact([[":db/add", 100 + i, ":boss", 101 + i] for i in range(300)])
    with pytest.raises(UsageError, match="more than 200 entities below each other"):
        db.pull("[{:boss ...}]", 100)
    with pytest.raises(UnknownAttributeError):
        gw.datoms.Database(strict=True).pull("[:name]", 1)


def pulled(rows, pattern, entity):
    """The same from the list of datoms: `pattern` is a list of attributes and of pairs with a pattern."""
    result = {}
    for item in pattern:
        name, inner = item if isinstance(item, tuple) else (item, None)
        is_reverse = name.startswith(":_")
        forward = f":{name[2:]}" if is_reverse else name
        ends = [(v, e) if is_reverse else (e, v) for e, a, v in rows if a == forward]
        values = sorted(value for start, value in ends if start == entity)
        if forward in (":to", ":boss"):
            values = [{":db/id": value} if inner is None else pulled(rows, inner, value) for value in values]
            values = [value for value in values if value]
        if values:
            result[name] = values if name in (":to", ":tag", ":_to", ":_boss") else values[0]
    return result


def drawn(chance, depth=0):
    names = chance.sample([":name", ":tag", ":to", ":boss", ":_to", ":_boss"], chance.randint(1, 4))
    return [
        (name, drawn(chance, depth + 1)) if name[-1] in "os" and depth < 3 and chance.random() < 0.6 else name
        for name in names
    ]


def written(pattern):
    return [{item[0]: written(item[1])} if isinstance(item, tuple) else item for item in pattern]


def test_random_patterns():
    seed = random.randrange(2**16)
    print("seed", seed)
    chance = random.Random(seed)
    db = gw.datoms.Database(SCHEMA)
    for _ in range(15):
        forms = []
        for _ in range(6):
            entity, other = chance.randint(1, 6), chance.randint(1, 6)
            add = ":db/add" if chance.random() < 0.7 else ":db/retract"
            forms.append([add, entity, ":to", other])
            forms.append([":db/add", 10 + len(forms), ":tag", chance.choice("xyz")])
        unique = {(form[1], form[2], form[3]): form for form in forms}
        bosses = [{":db/id": i, ":boss": chance.randint(1, 6), ":name": chance.choice("abc")} for i in range(1, 4)]
        db.transact([*unique.values(), *bosses])
        rows = db.datoms()
        for _ in range(10):
            pattern, entity = drawn(chance), chance.randint(1, 8)
            assert db.pull(written(pattern), entity) == (pulled(rows, pattern, entity) or None), (pattern, entity)
