"""Schema of attributes: type, cardinality and uniqueness."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np

from gpu_wcoj.data.column import Column, Dictionary, float_codes, without_zero_signs
from gpu_wcoj.data.rows import as_python
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import EdnSyntaxError, SchemaError, TypeMismatchError, listed, nearest, pointed
from gpu_wcoj.query.edn.reader import Form, read
from gpu_wcoj.zset.zset import python_values

# Types of values, their Python types, and their int64 codes.


TYPES = {
    "long": DataType("int64"),
    "ref": DataType("int64"),
    "double": DataType("double"),
    "boolean": DataType("bool"),
    "string": DataType("string"),
    "keyword": DataType("string"),
    "instant": DataType("timestamp[us, tz=UTC]"),
    "uuid": DataType("string"),
    "bytes": DataType("binary"),
}
"""The types of values, and their column types; ``long`` is ``:db.type/long``."""

ACCEPTED = {
    "long": "an integer from -2^63 to 2^63-1",
    "ref": "an entity id from 0 to 2^63-1, a temporary id, or a lookup reference [attribute, value]",
    "double": "a float",
    "boolean": "True or False",
    "string": "a text",
    "keyword": "a keyword, such as ':red'",
    "instant": "a datetime with a time zone",
    "uuid": "a uuid.UUID",
    "bytes": "bytes",
}
"""The accepted Python values of each type, in words."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True)
class Keyword:
    """A keyword of EDN, ``:red``, where it must differ from a text with a leading colon.

    Examples
    --------
    >>> print(Keyword(":color/red"))
    :color/red
    """

    text: str

    def __str__(self) -> str:
        return self.text


class Text(str):
    """A string of EDN: a text even if it begins with a colon."""

    __slots__ = ()


@dataclass(frozen=True)
class Texts:
    """The dictionaries of the texts and bytes of a database."""

    string: Dictionary
    binary: Dictionary

    @classmethod
    def empty(cls) -> Texts:
        """Create empty dictionaries."""
        return cls(Dictionary("string"), Dictionary("binary"))

    def dictionary_of(self, kind: str) -> Dictionary | None:
        """Return the dictionary of a type, or None if its codes are not dictionary codes."""
        if kind == "bytes":
            return self.binary
        return self.string if kind in ("string", "keyword", "uuid") else None

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of values; see `truncate`."""
        return len(self.string), len(self.binary)

    def truncate(self, sizes: tuple[int, int]) -> None:
        """Remove the values added since the dictionaries had these sizes."""
        self.string.truncate(sizes[0])
        self.binary.truncate(sizes[1])

    def column(self, kind: str, codes: Any) -> Column:
        """Return codes of a type as a column."""
        return Column(TYPES[kind], codes, None, self.dictionary_of(kind))

    def values(self, kind: str, codes: Any) -> list[Any]:
        """Decode codes to Python values; keywords (with their colon) and UUIDs are texts.

        Examples
        --------
        >>> texts = Texts.empty()
        >>> texts.values("keyword", np.array([code_of("keyword", ":red", texts)]))
        [':red']
        """
        if not len(codes):
            return []
        dictionary = self.dictionary_of(kind)
        if dictionary is not None:
            return dictionary.values_of(np.asarray(codes))
        return python_values(self.column(kind, np.asarray(codes, np.int64)))


def type_of(value: Any) -> str | None:
    """Return the type of a value of an untyped attribute; None if no type fits.

    Examples
    --------
    >>> type_of(1), type_of(True), type_of("a"), type_of(Keyword(":a")), type_of(None)
    ('long', 'boolean', 'string', 'keyword', None)
    """
    kinds = {
        bool: "boolean",
        int: "long",
        float: "double",
        str: "string",
        Keyword: "keyword",
        bytes: "bytes",
        dt.datetime: "instant",
        UUID: "uuid",
        Text: "string",
    }
    return kinds.get(type(as_python(value)))


def code_of(kind: str, value: Any, texts: Texts) -> int:
    """Return the code of a value without coercion; new texts and bytes are added.

    Raises
    ------
    TypeMismatchError
        If the value has another type; the message is the expected value.

    Examples
    --------
    >>> code_of("boolean", True, Texts.empty())
    1
    """
    value = as_python(value)
    data_type = type(value)  # not subclasses: of an enumeration or another library's time, a part would be lost
    code: int | None = None
    if kind in ("long", "ref"):
        if data_type is int and (0 if kind == "ref" else -(2**63)) <= value < 2**63:
            code = value
    elif kind == "double":
        if data_type is float:
            code = int(without_zero_signs(float_codes(np.array([value])))[0])  # equal values are the same datom
    elif kind == "boolean":
        if data_type is bool:
            code = int(value)
    elif kind == "string":
        if data_type in (str, Text):
            code = texts.string.encode_one(str(value))
    elif kind == "keyword":
        if data_type is Keyword or (data_type is str and value[:1] == ":" and len(value) > 1):
            code = texts.string.encode_one(str(value))
    elif kind == "instant":
        if data_type is dt.datetime and value.utcoffset() is not None:
            code = (value - _EPOCH) // _MICROSECOND
    elif kind == "uuid":
        if data_type is UUID:
            code = texts.string.encode_one(str(value))
    elif data_type is bytes:
        code = texts.binary.encode_one(value)
    if code is None:
        raise TypeMismatchError(ACCEPTED[kind])
    return code


def describe(value: Any) -> str:
    """Format a value and its type for a message.

    Examples
    --------
    >>> describe("a"), describe(Keyword(":a"))
    ("'a' of type 'str'", ":a of type 'keyword'")
    """
    if isinstance(value, Keyword):
        return f"{value.text:.80} of type 'keyword'"
    kind = "str" if type(value) is Text else type(value).__name__
    return f"{value!r:.80} of type '{kind}'"


_CHOICES: dict[str, Mapping[Any, Any]] = {
    ":db/valueType": {f":db.type/{name}": name for name in TYPES},
    ":db/cardinality": {":db.cardinality/one": False, ":db.cardinality/many": True},
    ":db/unique": {":db.unique/identity": "identity", ":db.unique/value": "value"},
    ":db/isComponent": {True: True, False: False},
}
_WITHOUT_EFFECT = (":db/doc", ":db/index", ":db/noHistory")
"""Accepted properties without effect: indexes follow from the queries, and no history is kept."""


@dataclass(frozen=True)
class Attribute:
    """The schema of an attribute.

    Attributes
    ----------
    name
        The name with its colon, ``:person/name``.
    type
        One of `TYPES`; None until the first value determines it.
    many
        True if an entity can have several values.
    unique
        ``identity``: a value identifies its entity, in lookup references and for temporary ids; ``value``: entities
        with the same value are an error; or None.
    component
        True if the referenced entity is retracted with its entity.
    """

    name: str
    type: str | None = None
    many: bool = False
    unique: str | None = None
    component: bool = False


def attribute_name(value: Any) -> str | None:
    """Return the stored name of an attribute, or None if invalid; the colon is optional.

    Examples
    --------
    >>> attribute_name(":g/to"), attribute_name("g/to"), attribute_name(7)
    (':g/to', ':g/to', None)
    """
    if not isinstance(value, (str, Keyword)):
        return None
    text = value.text if isinstance(value, Keyword) else str.__str__(value)  # the value of an enumeration member
    name = text if text.startswith(":") else f":{text}"
    plain = len(name) > 1 and ":" not in name[1:2] and not any(char.isspace() or char in '"()[]{},;' for char in name)
    return name if plain else None


def read_schema(schema: Any) -> dict[str, Attribute]:
    """Parse a schema: ``{attribute: {property: value}}``, or maps with ``:db/ident``.

    Raises
    ------
    SchemaError
        If an attribute, a property or a value is invalid.

    Examples
    --------
    >>> read_schema({":g/to": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"}})
    {':g/to': Attribute(name=':g/to', type='ref', many=True, unique=None, component=False)}
    """
    attributes: dict[str, Attribute] = {}
    for ident, properties in _entries(schema):
        name = attribute_name(ident)
        if name is None or name.startswith((":db/", ":db.")):
            raise SchemaError(f"{ident!r:.80} is not the name of an attribute.\n  Write it as ':person/name'.")
        if name in attributes:
            raise SchemaError.duplicate("attribute", name, "in the schema")
        if not isinstance(properties, Mapping):
            raise SchemaError(
                f"the properties of attribute '{name}' have the wrong type: got {properties!r:.80}, expected a map.\n"
                "  Write a map such as {':db/valueType': ':db.type/long', ':db/cardinality': ':db.cardinality/one'}."
            )
        attributes[name] = _attribute(name, properties)
    return attributes


def _entries(schema: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(schema, Mapping):
        return list(schema.items())
    if isinstance(schema, (list, tuple)) and all(isinstance(properties, Mapping) for properties in schema):
        entries = []
        for properties in schema:
            plain = {_property(key): value for key, value in properties.items()}
            if ":db/ident" not in plain:
                raise SchemaError(
                    f"a map of the schema needs ':db/ident', which is missing: {dict(properties)!r:.120}."
                )
            entries.append((plain.pop(":db/ident"), plain))
        return entries
    raise SchemaError(
        f"the schema has the wrong type: got {schema!r:.80} of type '{type(schema).__name__}', expected "
        f"{{attribute: {{property: value}}}} or a list of maps with ':db/ident'."
    )


def _property(key: Any) -> Any:
    text = str(key)
    if not isinstance(key, (str, Keyword)):
        return key
    if text.startswith(":"):
        return text
    return f":{text}" if "/" in text else f":db/{text}"


def _attribute(name: str, properties: Mapping[Any, Any]) -> Attribute:
    settings: dict[str, Any] = {}
    for key, value in properties.items():
        what = _property(key)
        if what in _WITHOUT_EFFECT:
            continue
        if what not in _CHOICES:
            allowed = [*_CHOICES, *_WITHOUT_EFFECT]
            close = nearest(str(what), allowed)
            raise SchemaError(
                f"unknown property {what!r:.60} of attribute '{name}': expected one of {listed(allowed)}.{close}"
            )
        choices = _CHOICES[what]
        chosen = value if isinstance(value, bool) else _choice(value, choices)
        if chosen not in choices:
            if what == ":db/isComponent":
                raise SchemaError(f"attribute '{name}': {what}={value!r:.60} is not allowed: expected True or False.")
            close = nearest(str(chosen), choices)
            raise SchemaError(
                f"attribute '{name}': {what}={str(value)!r:.60} is not allowed: expected one of "
                f"{listed(map(str, choices))}.{close}"
            )
        settings[what] = choices[chosen]
    attribute = Attribute(
        name, settings.get(":db/valueType"), settings.get(":db/cardinality", False), settings.get(":db/unique"),
        settings.get(":db/isComponent", False),
    )  # fmt: skip
    if attribute.component and attribute.type != "ref":
        raise SchemaError(
            f"attribute '{name}' is a component of the wrong type: got '{attribute.type}', expected 'ref'.\n"
            "  Declare it :db.type/ref."
        )
    if attribute.unique and attribute.many:
        raise SchemaError.conflict(
            f"':db/unique' of attribute '{name}'", ":db.cardinality/many", "Declare it :db.cardinality/one."
        )
    return attribute


def _choice(value: Any, choices: Mapping[Any, Any]) -> Any:
    """Return a choice by its full name or, for a plain text, by its last part."""
    if not isinstance(value, (str, Keyword)):
        return None
    text = str(value)
    if text in choices or isinstance(value, Keyword):
        return text
    return next((choice for choice in choices if str(choice).rsplit("/", 1)[-1] == text), text)


# Transactions and schemas in EDN, as Python data with distinct keywords and texts.


_NO_VALUE = {"symbol": "a symbol", "char": "a character"}


def read_forms(text: str, source: str = "<text>") -> tuple[list[Any], Callable[[int, str], str]]:
    """Read the forms of a transaction; return them and a function that points at a form.

    Raises
    ------
    EdnSyntaxError
        If the text cannot be read or is not a list of forms.

    Examples
    --------
    >>> read_forms('[[:db/add 1 :color :red] {:db/id 2, :name "Ann"}]')[0][1]
    {Keyword(text=':db/id'): 2, Keyword(text=':name'): 'Ann'}
    """
    form = read(text, source=source)
    if not form.is_sequence:
        what = f'a transaction is a vector of forms, [[:db/add 1 :person/name "Ann"]], got a {form.kind}'
        raise EdnSyntaxError(what, text, form.span.line, form.span.column, form.span.width, source)

    def point_at(place: int, what: str) -> str:
        span = form.value[place].span
        return pointed(what, text, span.line, span.column, span.width, source)

    return [_data(item, text, source) for item in form.value], point_at


def read_schema_text(text: str, source: str = "<text>") -> Any:
    """Read the EDN text of a schema as input of `read_schema`.

    Examples
    --------
    >>> read_schema_text("{:g/to {:db/valueType :db.type/ref}}")
    {Keyword(text=':g/to'): {Keyword(text=':db/valueType'): Keyword(text=':db.type/ref')}}
    """
    return _data(read(text, source=source), text, source)


def _data(form: Form, text: str, source: str) -> Any:
    if form.kind == "keyword":
        return Keyword(form.value)
    if form.kind == "string":
        return Text(form.value)
    if form.kind in ("list", "vector", "set"):  # Python sets treat 1 and True as equal
        return [_data(item, text, source) for item in form.value]
    if form.kind == "map":
        for key in form.value[::2]:
            if key.kind != "keyword":
                raise _error(f"expected a keyword for the key of a map, got {key.kind} '{key}'", key, text, source)
        pairs = zip(form.value[::2], form.value[1::2], strict=True)
        return {Keyword(key.value): _data(value, text, source) for key, value in pairs}
    if form.kind in _NO_VALUE:
        raise _error(f"{_NO_VALUE[form.kind]} cannot be the value of a datom", form, text, source)
    return form.value


def _error(what: str, form: Form, text: str, source: str) -> EdnSyntaxError:
    return EdnSyntaxError(what, text, form.span.line, form.span.column, form.span.width, source)
