"""Reader of EDN text, by the grammar ``edn.lark``."""

from __future__ import annotations

import functools
import math
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal

from gpu_wcoj.errors import EdnSyntaxError, UsageError, nearest
from gpu_wcoj.query.ir import Span

if TYPE_CHECKING:
    from lark import Lark, Token


# Data model of EDN, and its conversion from and to plain Python data.


Kind = Literal[
    "nil", "bool", "int", "float", "string", "char", "keyword", "symbol", "inst", "uuid", "list", "vector", "map", "set"
]

COLLECTIONS = ("list", "vector", "map", "set")
OPENING = {"list": "(", "vector": "[", "map": "{", "set": "#{"}
CLOSING = {"list": ")", "vector": "]", "map": "}", "set": "}"}
MAX_PRINTED = 60
"""Length at which a form is cut off in messages, in characters."""


class Symbol(str):
    """A symbol of EDN in Python data, where a plain string is a text or a keyword."""

    __slots__ = ()


@dataclass(frozen=True)
class Form:
    """A form: an EDN value with its place in the text.

    Attributes
    ----------
    kind
        The kind of the form.
    value
        The Python value of nil, bool, int, float, string and char; the text of a keyword (with its colon) or symbol;
        a `datetime` with time zone for an inst; a `uuid.UUID`; the forms of a collection, keys and values of a map
        alternating.
    span
        Its place in the text; ignored in comparisons.
    depth
        Nesting depth of collections; 0 for a scalar.
    """

    kind: Kind
    value: Any
    span: Span = field(default=Span(), compare=False)
    depth: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        """Return the form as EDN text, cut off after `MAX_PRINTED` characters."""
        pieces: list[str] = []
        waiting: list[Form | str] = [self]
        length = 0
        while waiting and length <= MAX_PRINTED:
            item = waiting.pop()
            if isinstance(item, Form) and item.kind in COLLECTIONS:
                inner: list[Form | str] = [OPENING[item.kind]]
                for index, element in enumerate(item.value):
                    inner += [" ", element] if index else [element]
                waiting += reversed([*inner, CLOSING[item.kind]])
                continue
            text = item if isinstance(item, str) else _format_scalar(item)
            pieces.append(text)
            length += len(text)
        printed = "".join(pieces)
        return printed if len(printed) <= MAX_PRINTED and not waiting else f"{printed[:MAX_PRINTED]}..."

    @property
    def is_sequence(self) -> bool:
        """True for a list or a vector."""
        return self.kind in ("list", "vector")

    def is_symbol(self, *names: str) -> bool:
        """Return whether the form is a symbol in `names`."""
        return self.kind == "symbol" and self.value in names

    @property
    def is_variable(self) -> bool:
        """True for a symbol such as ``?x``."""
        return self.kind == "symbol" and self.value.startswith("?") and len(self.value) > 1

    @property
    def is_blank(self) -> bool:
        """True for ``_``."""
        return self.is_symbol("_")

    @property
    def is_source(self) -> bool:
        """True for a symbol such as ``$`` or ``$edges``."""
        return self.kind == "symbol" and self.value.startswith("$")


_ESCAPED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _escape(char: str) -> str:
    return _ESCAPED.get(char, char)


def _format_scalar(form: Form) -> str:
    value = form.value
    if form.kind == "nil":
        return "nil"
    if form.kind == "bool":
        return "true" if value else "false"
    if form.kind == "string":
        escaped = "".join(map(_escape, value))
        return f'"{escaped}"'
    if form.kind == "char":
        return f"\\{value}"
    if form.kind == "inst":
        return f'#inst "{value.astimezone(UTC).isoformat()}"'
    if form.kind == "uuid":
        return f'#uuid "{value}"'
    return str(value)


def to_python(form: Form) -> Any:
    """Convert a form to Python data.

    Keywords become strings with their colon, lists and vectors lists, sets frozensets.

    Examples
    --------
    >>> from gpu_wcoj.query.edn.reader import read
    >>> to_python(read('{:name "Ada", :tags #{1 2}, :at [nil true]}'))
    {':name': 'Ada', ':tags': frozenset({1, 2}), ':at': [None, True]}
    """
    if form.kind == "symbol":
        return Symbol(form.value)
    if form.is_sequence:
        return [to_python(item) for item in form.value]
    if form.kind == "set":
        return frozenset(_hashable(to_python(item)) for item in form.value)
    if form.kind == "map":
        pairs = zip(form.value[::2], form.value[1::2], strict=True)
        return {_hashable(to_python(key)): to_python(value) for key, value in pairs}
    return form.value


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return tuple((key, _hashable(item)) for key, item in value.items())
    return value


def to_form(data: Any, depth: int = 0) -> Form:
    """Convert Python data to a form; the inverse of `to_python`, for generated queries.

    Strings that begin with a colon are keywords, and those that begin with ``?``, ``$`` or ``%``, or that are ``_``,
    ``.`` or ``...``, are symbols, as is the first string of a tuple: ``("<", "?a", 5)``. Lists are vectors, tuples
    are lists.

    Raises
    ------
    ValueError
        If the data cannot be represented in EDN; the message names its type.

    Examples
    --------
    >>> print(to_form([":find", "?e", ":where", ["?e", ":age", "?a"], [("<", "?a", 30)]]))
    [:find ?e :where [?e :age ?a] [(< ?a 30)]]
    """
    if depth > 100:
        raise ValueError("it nests deeper than 100 levels")
    if isinstance(data, Form):
        return data
    if data is None:
        return Form("nil", None)
    for kind, type_ in (("bool", bool), ("int", int), ("float", float), ("symbol", Symbol)):
        if isinstance(data, type_):
            return Form(kind, data)  # type: ignore[arg-type]  # the kinds of the tuple above
    if isinstance(data, str):
        return _text_form(data)
    if isinstance(data, datetime):
        if data.tzinfo is None:
            raise ValueError(f"{data.isoformat()} has no time zone")
        return Form("inst", data)
    if isinstance(data, uuid.UUID):
        return Form("uuid", data)
    if isinstance(data, dict):
        items = [to_form(item, depth + 1) for pair in data.items() for item in pair]
        return _collection_of_forms("map", items)
    if isinstance(data, (set, frozenset)):
        return _collection_of_forms("set", [to_form(item, depth + 1) for item in data])
    if isinstance(data, tuple):
        items = [to_form(item, depth + 1) for item in data]
        if items and isinstance(data[0], str) and items[0].kind == "string":
            items[0] = Form("symbol", data[0])
        return _collection_of_forms("list", items)
    if isinstance(data, list):
        return _collection_of_forms("vector", [to_form(item, depth + 1) for item in data])
    raise ValueError(f"a value of type '{type(data).__name__}' cannot be represented in EDN: {data!r:.80}")


def _collection_of_forms(kind: Kind, items: list[Form]) -> Form:
    return Form(kind, tuple(items), depth=1 + max((item.depth for item in items), default=0))


def _text_form(text: str) -> Form:
    if text.startswith(":") and len(text) > 1:
        return Form("keyword", text)
    is_symbol = text in ("_", ".", "...") or (text[:1] in ("?", "$", "%") and not any(map(str.isspace, text)))
    return Form("symbol" if is_symbol else "string", text)


# EDN tokens: numbers, names, characters, strings and tagged values.


_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*)(N?)")
_FLOAT = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_MAX_DIGITS = 30
"""The longest integer literal that is converted, in digits; longer ones are outside int64 anyway."""
_PART = r"(?:[A-Za-z*!_?$%&=<>|]|[+\-.](?![0-9])|[^\W\d_]|[^\x00-\x7f])(?:[\w*!?$%&=<>|+\-.:#']|[^\x00-\x7f])*"
_SYMBOL = re.compile(rf"(?:{_PART})(?:/(?:{_PART}))?|/")
_KEYWORD = re.compile(r":[^\s:/]+(?:/[^\s/]+)?")
_CHARS = {"newline": "\n", "return": "\r", "space": " ", "tab": "\t", "formfeed": "\f", "backspace": "\b"}
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "b": "\b", "f": "\f"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_INST = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?(Z|[+-]\d\d:\d\d)?)?)?)?")
_MACROS = {
    "'": "a quote is not allowed in EDN; remove it",
    "`": "a quote is not allowed in EDN; remove it",
    "^": "metadata is not allowed in EDN; remove it",
    "@": "'@' is not allowed in EDN; remove it",
    "~": "'~' is not allowed in EDN; remove it",
}


class AtomError(Exception):
    """A problem in a token, with its start and its width in characters."""

    def __init__(self, what: str, start: int = 0, width: int | None = None) -> None:
        super().__init__(what)
        self.what, self.start, self.width = what, start, width


def parse_atom(text: str) -> tuple[Kind, Any]:
    """Return the kind and the value of a token without delimiters.

    Raises
    ------
    AtomError
        If the token is not EDN, or is not supported.

    Examples
    --------
    >>> parse_atom("-12"), parse_atom("1e3"), parse_atom(":g/to"), parse_atom("?x"), parse_atom("-")
    (('int', -12), ('float', 1000.0), ('keyword', ':g/to'), ('symbol', '?x'), ('symbol', '-'))
    """
    if text in ("nil", "true", "false"):
        return ("nil", None) if text == "nil" else ("bool", text == "true")
    if text[0] in _MACROS:
        raise AtomError(_MACROS[text[0]], 0, 1)
    if text[0] == ":":
        if text.startswith("::"):
            raise AtomError("'::' needs a namespace of Clojure; write the keyword out, as :name/space")
        if not _KEYWORD.fullmatch(text):
            raise AtomError(f"'{text[:40]}' is not a valid keyword; write :name or :space/name")
        return "keyword", text
    if text[0].isdigit() or (text[0] in "+-." and text[1:2].isdigit()):
        return _parse_number(text)
    if not _SYMBOL.fullmatch(text):
        raise AtomError(f"'{text[:40]}' is not a valid EDN token")
    return "symbol", text


def _parse_number(text: str) -> tuple[Kind, Any]:
    if match := _INTEGER.fullmatch(text):
        if len(match[1]) > _MAX_DIGITS or not -(2**63) <= (value := int(text.removesuffix("N"))) < 2**63:
            raise AtomError(f"integer {text[:_MAX_DIGITS]} is outside int64, -2^63 to 2^63-1")
        return "int", value
    if _FLOAT.fullmatch(text):
        double = float(text)
        if not math.isfinite(double):
            raise AtomError(f"'{text[:40]}' is too large for a double")
        return "float", double
    if re.fullmatch(r"[+-]?[0-9]+/[0-9]+", text):
        raise AtomError(f"the ratio {text[:40]} is not supported; write a double, such as 0.5")
    if text.endswith("M"):
        raise AtomError(f"the decimal {text[:40]} is not supported; write a double, such as 0.5")
    if re.fullmatch(r"[+-]?0[0-9]+", text):
        raise AtomError(f"integer {text[:40]} has a leading 0; remove it")
    raise AtomError(f"'{text[:40]}' is not a valid number")


def parse_char(text: str) -> str:
    r"""Return the character that ``\a``, ``\newline`` or ``\u0041`` denotes.

    Raises
    ------
    AtomError
        If the name of the character is unknown.
    """
    name = text[1:]
    if len(name) == 1:
        return _check_surrogates(name)
    if name in _CHARS:
        return _CHARS[name]
    if re.fullmatch(r"u[0-9a-fA-F]{4}", name):
        return _check_surrogates(chr(int(name[1:], 16)))
    listing = ", ".join("\\" + name for name in _CHARS)
    raise AtomError(f"unknown character '{text[:40]}': expected \\a, \\u0041, or one of {listing}")


def parse_string(text: str) -> str:
    r"""Return the text of a string literal; escapes are ``\t \r \n \\ \" \b \f \uXXXX``.

    Raises
    ------
    AtomError
        If an escape is unknown, or a surrogate is unpaired.
    """

    def unescaped(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] not in _ESCAPES:
            listing = " ".join("\\" + escape for escape in _ESCAPES)
            raise AtomError(
                f"unknown escape '{match[0]}': expected one of {listing} \\uXXXX", match.start() + 1, len(match[0])
            )
        return _ESCAPES[match[2]]

    unescaped_text = _ESCAPE.sub(unescaped, text[1:-1])
    return _check_surrogates(unescaped_text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass"))


def _check_surrogates(text: str) -> str:
    if any(0xD800 <= ord(char) < 0xE000 for char in text):
        raise AtomError("the text contains an unpaired surrogate")
    return text


def parse_inst(text: str) -> datetime:
    """Return the point in time of an ``#inst`` literal, with its time zone.

    Raises
    ------
    AtomError
        If the text is not a point in time, or is finer than a microsecond.

    Examples
    --------
    >>> parse_inst("2026-02-03T04:05:06.070-01:00").isoformat()
    '2026-02-03T04:05:06.070000-01:00'
    """
    match = _INST.fullmatch(text)
    if not match:
        raise AtomError(f'"{text[:40]}" is not a point in time; write one as "2026-01-31T12:00:00.000Z"')
    fraction = (match[7] or "").rstrip("0")
    if len(fraction) > 6:
        raise AtomError("points in time have microsecond precision; remove the finer digits")
    zone: timezone = UTC
    numbers = [int(match[i] or default) for i, default in ((1, 0), (2, 1), (3, 1), (4, 0), (5, 0), (6, 0))]
    year, month, day, hour, minute, second = numbers
    try:
        if match[8] and match[8] != "Z":
            sign = -1 if match[8][0] == "-" else 1
            zone = timezone(sign * timedelta(hours=int(match[8][1:3]), minutes=int(match[8][4:6])))
        instant = datetime(year, month, day, hour, minute, second, int(fraction.ljust(6, "0")), zone)
        _ = instant.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise AtomError(f'"{text[:40]}" is not a point in time: {error}') from None
    return instant


def parse_tagged(tag: str, kind: Kind, value: Any) -> tuple[Kind, Any]:
    """Return the kind and value of a tagged form.

    Raises
    ------
    AtomError
        If the tag is unknown, or does not take such a form.
    """
    if tag not in ("#inst", "#uuid"):
        raise AtomError(
            f"the tag '{tag[:40]}' is not supported: expected #inst or #uuid.{nearest(tag, ['#inst', '#uuid'])}"
        )
    if kind != "string":
        raise AtomError(f"{tag} takes a string")
    if tag == "#inst":
        return "inst", parse_inst(value)
    if not re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", value):
        raise AtomError(f'"{value[:40]}" is not a UUID; write one as "01234567-89ab-cdef-0123-456789abcdef"')
    return "uuid", uuid.UUID(value)


MAX_TEXT_BYTES = 1_000_000
"""The longest text, in bytes of UTF-8."""
MAX_NESTING = 100
"""Maximum levels of nested collections."""

_TOKENS: dict[str, tuple[Kind, str]] = {
    "LPAR": ("list", ")"),
    "LBRACKET": ("vector", "]"),
    "LBRACE": ("map", "}"),
    "SET": ("set", "}"),
}


def read(text: str, *, source: str = "<text>") -> Form:
    """Read the single form of a text.

    Parameters
    ----------
    text
        EDN, of at most 1,000,000 bytes and with collections at most 100 deep.
    source
        Name of the text in messages, for example its file name.

    Raises
    ------
    EdnSyntaxError
        If the text cannot be read; with line, column and the expected token.

    Examples
    --------
    >>> print(read('[:find ?x, :where [?x :name "Ada"]] ; a query'))
    [:find ?x :where [?x :name "Ada"]]
    """
    forms = read_all(text, source=source)
    if len(forms) == 1:
        return forms[0]
    if not forms:
        raise EdnSyntaxError("the text contains no form", text, 1, 1, 1, source)
    span = forms[1].span
    what = "expected the end of the text after the first form"
    raise EdnSyntaxError(what, text, span.line, span.column, span.width, source)


def read_all(text: str, *, source: str = "<text>") -> tuple[Form, ...]:
    """Read all forms of a text; see `read`."""
    from lark import UnexpectedInput

    if not isinstance(text, str):
        raise UsageError.wrong_type("the EDN text", text, "str")
    n_bytes = len(text.encode("utf-8", "surrogatepass"))
    if n_bytes > MAX_TEXT_BYTES:
        raise UsageError.mismatch(
            "the EDN text", "is too long", f"{n_bytes:,} bytes", f"at most {MAX_TEXT_BYTES:,} bytes"
        )
    if half := re.search("[\\ud800-\\udfff]", text):
        line = text.count("\n", 0, half.start()) + 1
        column = half.start() - text.rfind("\n", 0, half.start())
        raise EdnSyntaxError("the text contains an unpaired surrogate", text, line, column, 1, source)
    try:
        forms = _parser().parse(text)
    except UnexpectedInput:
        raise _syntax_error(text, source) from None
    except _FormError as wrong:
        raise EdnSyntaxError(wrong.what, text, wrong.line, wrong.column, wrong.width, source) from None
    return tuple(forms)  # type: ignore[arg-type]  # the forms of `document`


class _FormError(Exception):
    """A form that the grammar accepts but that is not valid EDN."""

    def __init__(self, what: str, line: int, column: int, width: int) -> None:
        super().__init__(what)
        self.what, self.line, self.column, self.width = what, line, column, width


@functools.cache
def _parser() -> Lark:
    from importlib.resources import files

    from lark import Lark, Transformer

    grammar = files("gpu_wcoj.query.edn").joinpath("edn.lark").read_text(encoding="utf-8")
    callbacks = {name: staticmethod(function) for name, function in _CALLBACKS.items()}
    forms = type("Forms", (Transformer,), callbacks)
    return Lark(grammar, parser="lalr", lexer="contextual", start="document", transformer=forms())


def _collection(kind: Kind) -> Callable[[Sequence[Any]], Form]:
    def made(children: Sequence[Any]) -> Form:
        opening, *inner, closing = children
        items = tuple(item for item in inner if item is not None)
        depth = 1 + max((item.depth for item in items), default=0)
        span = _span(opening, closing)
        if depth > MAX_NESTING:
            raise _FormError(f"collections nest more than {MAX_NESTING} deep", span.line, span.column, len(opening))
        if kind == "map":
            if len(items) % 2:
                last_key = items[-1].span
                raise _FormError(
                    f"a map needs a value for each key, which is missing for '{items[-1]}'",
                    last_key.line, last_key.column, last_key.width,
                )  # fmt: skip
            _refuse_duplicates("the key", items[::2])
        elif kind == "set":
            _refuse_duplicates("the element", items)
        return Form(kind, items, span, depth)

    return made


def _refuse_duplicates(what: str, items: Sequence[Form]) -> None:
    seen: set[Form] = set()
    for item in items:
        if item in seen:
            raise _FormError(f"{what} '{item}' is given twice", item.span.line, item.span.column, item.span.width)
        seen.add(item)


def _read_token(token: Token, function: Callable[[str], tuple[Kind, Any]]) -> Form:
    try:
        kind, value = function(str(token))
    except AtomError as error:
        raise _form_error(token, error) from None
    return Form(kind, value, _span(token, token))


def _form_error(token: Token, error: AtomError) -> _FormError:
    text = str(token)[: error.start]
    lines = text.count("\n")
    column = (token.column or 1) + error.start if not lines else error.start - text.rfind("\n")
    width = len(token) - error.start if error.width is None else error.width
    return _FormError(error.what, (token.line or 1) + lines, column, width)


def _atom(children: Sequence[Any]) -> Form:
    return _read_token(children[0], parse_atom)


def _char(children: Sequence[Any]) -> Form:
    return _read_token(children[0], lambda text: ("char", parse_char(text)))


def _string(children: Sequence[Any]) -> Form:
    return _read_token(children[0], lambda text: ("string", parse_string(text)))


def _tagged(children: Sequence[Any]) -> Form:
    tag, form = children[0], children[-1]
    try:
        kind, value = parse_tagged(str(tag), form.kind, form.value)
    except AtomError as error:
        if str(tag) in ("#inst", "#uuid"):
            raise _FormError(error.what, form.span.line, form.span.column, form.span.width) from None
        raise _form_error(tag, error) from None
    span = form.span
    width = span.column + span.width - (tag.column or 1) if span.line == tag.line else len(tag)
    return Form(kind, value, Span(tag.line or 1, tag.column or 1, width))


_CALLBACKS: dict[str, Callable[[Sequence[Any]], object]] = {
    "document": lambda children: [form for form in children if form is not None],
    "list": _collection("list"),
    "vector": _collection("vector"),
    "map": _collection("map"),
    "set": _collection("set"),
    "atom": _atom,
    "char": _char,
    "string": _string,
    "tagged": _tagged,
    "discard": lambda _: None,
}


def _span(opening: Token, closing: Token) -> Span:
    return Span(opening.line or 1, opening.column or 1, (closing.end_pos or 0) - (opening.start_pos or 0))


def _syntax_error(text: str, source: str) -> EdnSyntaxError:
    """Return the error of a text that the grammar rejects."""
    from lark import Token, UnexpectedCharacters, UnexpectedToken

    reader = _parser().parse_interactive(text)
    position, token_text = len(text), ""
    try:
        for _ in reader.iter_parse():
            pass
    except UnexpectedCharacters as error:
        position = error.pos_in_stream  # type: ignore[assignment]  # lark declares it as always None
        token_text = text[position]
    except UnexpectedToken as error:
        position, token_text = error.token.start_pos or 0, str(error.token)
    except _FormError as wrong:
        return EdnSyntaxError(wrong.what, text, wrong.line, wrong.column, wrong.width, source)
    opened = [token for token in reader.parser_state.value_stack if isinstance(token, Token) and token.type in _TOKENS]
    tagging = [
        token
        for token in reader.parser_state.value_stack
        if isinstance(token, Token) and token.type in ("TAG", "DISCARD")
    ]
    what, start, width = _diagnose(text, position, token_text, opened, tagging)
    line = text.count("\n", 0, start) + 1
    return EdnSyntaxError(what, text, line, start - text.rfind("\n", 0, start), width, source)


def _diagnose(
    text: str, position: int, token: str, opened: Sequence[Token], tagging: Sequence[Token]
) -> tuple[str, int, int]:
    innermost = opened[-1] if opened else None
    if token == '"':
        return "this string is not closed by '\"'", position, 1
    if token == "\\":
        return "expected the name of a character after '\\'", position, 1
    if token == "#":
        return (
            f"'{text[position : position + 2]}' is not allowed in EDN: expected #{{...}}, #_, #inst or #uuid",
            position,
            2,
        )
    if tagging and (not innermost or (tagging[-1].start_pos or 0) > (innermost.start_pos or 0)):
        return f"expected a form after '{tagging[-1]}'", tagging[-1].start_pos or 0, len(tagging[-1])
    if not token:
        assert innermost is not None
        kind, closing = _TOKENS[innermost.type]
        return f"this '{OPENING[kind]}' is not closed by '{closing}'", innermost.start_pos or 0, len(innermost)
    if innermost is None:
        return f"'{token}' has no matching opening bracket", position, len(token)
    kind, closing = _TOKENS[innermost.type]
    assert closing == CLOSING[kind]
    where = f"the '{OPENING[kind]}' of line {innermost.line}, column {innermost.column}"
    return f"expected '{closing}', which closes {where}, got '{token}'", position, len(token)
