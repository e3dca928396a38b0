"""Reader of EDN text, by the grammar ``edn.lark``."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gpu_wcoj.errors import EdnSyntaxError, UsageError
from gpu_wcoj.query.edn import atoms
from gpu_wcoj.query.edn.forms import CLOSING, OPENING, Form, Kind
from gpu_wcoj.query.ir import Span

if TYPE_CHECKING:
    from lark import Lark, Token

MAX_TEXT_BYTES = 1_000_000
"""The longest text, in bytes of UTF-8."""
MAX_NESTING = 100
"""The largest nesting depth of collections."""

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
    except atoms.AtomError as error:
        raise _form_error(token, error) from None
    return Form(kind, value, _span(token, token))


def _form_error(token: Token, error: atoms.AtomError) -> _FormError:
    text = str(token)[: error.start]
    lines = text.count("\n")
    column = (token.column or 1) + error.start if not lines else error.start - text.rfind("\n")
    width = len(token) - error.start if error.width is None else error.width
    return _FormError(error.what, (token.line or 1) + lines, column, width)


def _atom(children: Sequence[Any]) -> Form:
    return _read_token(children[0], atoms.parse_atom)


def _char(children: Sequence[Any]) -> Form:
    return _read_token(children[0], lambda text: ("char", atoms.parse_char(text)))


def _string(children: Sequence[Any]) -> Form:
    return _read_token(children[0], lambda text: ("string", atoms.parse_string(text)))


def _tagged(children: Sequence[Any]) -> Form:
    tag, form = children[0], children[-1]
    try:
        kind, value = atoms.parse_tagged(str(tag), form.kind, form.value)
    except atoms.AtomError as error:
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
