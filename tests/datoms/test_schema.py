"""Schemas: what is read, and what is refused."""

import pytest

from gpu_wcoj.datoms import Database
from gpu_wcoj.datoms.schema import Attribute, read_schema
from gpu_wcoj.errors import EdnSyntaxError, SchemaError, UnknownAttributeError

FORMS = {
    "maps": {":g/to": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"}, ":name": {}},
    "without colons": {"g/to": {"db/valueType": "ref", "db/cardinality": "many"}, "name": {}},
    "short": {"g/to": {"valueType": "ref", "cardinality": "many"}, ":name": {}},
    "list": [
        {":db/ident": ":g/to", ":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"},
        {":db/ident": ":name", ":db/doc": "what it is called"},
    ],
}
TEXTS = {
    "maps": "{:g/to {:db/valueType :db.type/ref, :db/cardinality :db.cardinality/many}, :name {}}",
    "list": """[{:db/ident :g/to :db/valueType :db.type/ref :db/cardinality :db.cardinality/many}
                {:db/ident :name :db/index true}]""",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_way_to_write_a_schema_is_one_schema(form):
    assert read_schema(FORMS[form]) == {":g/to": Attribute(":g/to", "ref", True), ":name": Attribute(":name")}


@pytest.mark.parametrize("form", TEXTS)
def test_a_schema_in_edn(form):
    assert Database(TEXTS[form]).attributes == {":g/to": "ref", ":name": None}


def test_a_text_that_is_no_edn_is_refused_with_its_place():
    with pytest.raises(EdnSyntaxError, match="line 2, column 1"):
        Database("{:a {}\n7 {}}")


def test_a_strict_schema_refuses_other_attributes():
    db = Database({":name": {}}, strict=True)
    with pytest.raises(
        UnknownAttributeError, match="':nam' is not in the schema, which is strict. Did you mean ':name'"
    ):
        db.transact([[":db/add", 1, ":nam", "Ann"]])
    with pytest.raises(UnknownAttributeError, match="':nam'"):
        db.load(entity=[1], attribute=":nam", value=["Ann"])
    with pytest.raises(UnknownAttributeError, match="':nam'"):
        db.transact([[":db/retract", 1, ":nam"]])
    db.define({":nam": {}})
    assert len(db.transact([[":db/add", 1, ":nam", "Ann"]])) == 1


def test_an_attribute_cannot_be_defined_as_something_else():
    db = Database({":name": {"valueType": "string"}})
    db.define({":name": {"valueType": "string"}})
    with pytest.raises(SchemaError, match="':name' cannot be changed: got .*type='long'.*, expected .*type='string'"):
        db.define({":name": {"valueType": "long"}})
