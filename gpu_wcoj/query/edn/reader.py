"""EDN text to forms: a grammar (``edn.lark``), and what its pieces are."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gpu_wcoj.errors import EdnSyntaxError, UsageError
from gpu_wcoj.query.edn import atoms
from gpu_wcoj.query.edn.forms import CLOSING, OPENING, Form, Kind
from gpu_wcoj.query.terms import Span

if TYPE_CHECKING:
    from lark import Lark, Token

TEXT_BYTES = 1_000_000
"""The longest text, in bytes of UTF-8."""
NESTING = 100
"""How deep collections may stand within each other."""

_TOKENS: dict[str, tuple[Kind, str]] = {
    "LPAR": ("list", ")"),
    "LBRACKET": ("vector", "]"),
    "LBRACE": ("map", "}"),
    "SET": ("set", "}"),
}


def read(text: str, *, source: str = "<text>") -> Form:
    """The one form that `text` spells.

    Parameters
    ----------
    text
        EDN, of at most 1,000,000 bytes and with collections at most 100 deep.
    source
        What messages call the text, for example the name of its file.

    Raises
    ------
    EdnSyntaxError
        If it cannot be read; with line, column and what was expected.

    Examples
    --------
    >>> print(read('[:find ?x, :where [?x :name "Ada"]] ; a query'))
    [:find ?x :where [?x :name "Ada"]]
    """
    found = read_all(text, source=source)
    if len(found) == 1:
        return found[0]
    if not found:
        raise EdnSyntaxError("there is nothing to read", text, 1, 1, 1, source)
    span = found[1].span
    what = "expected the end of the text behind the first form"
    raise EdnSyntaxError(what, text, span.line, span.column, span.width, source)


def read_all(text: str, *, source: str = "<text>") -> tuple[Form, ...]:
    """All forms that `text` spells, one behind the other; see `read`."""
    from lark import UnexpectedInput

    if not isinstance(text, str):
        raise UsageError(f"EDN is text (str), not {type(text).__name__}.")
    n_bytes = len(text.encode("utf-8", "surrogatepass"))
    if n_bytes > TEXT_BYTES:
        raise UsageError(f"the EDN text has {n_bytes:,} bytes; {TEXT_BYTES:,} are allowed.")
    if half := re.search("[\\ud800-\\udfff]", text):
        line = text.count("\n", 0, half.start()) + 1
        column = half.start() - text.rfind("\n", 0, half.start())
        raise EdnSyntaxError("half a surrogate pair is no character", text, line, column, 1, source)
    try:
        found = _parser().parse(text)
    except UnexpectedInput:
        raise _explained(text, source) from None
    except _WrongError as wrong:
        raise EdnSyntaxError(wrong.what, text, wrong.line, wrong.column, wrong.width, source) from None
    return tuple(found)  # type: ignore[arg-type]  # what `_Forms.document` makes


class _WrongError(Exception):
    """Something that the grammar reads, and that is nothing all the same."""

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
        first, *inner, last = children
        items = tuple(one for one in inner if one is not None)
        depth = 1 + max((one.depth for one in items), default=0)
        span = _span(first, last)
        if depth > NESTING:
            raise _WrongError(f"collections nest more than {NESTING} deep", span.line, span.column, len(first))
        if kind == "map":
            if len(items) % 2:
                last_key = items[-1].span
                raise _WrongError(
                    f"a map takes keys and values in turn, and the key '{items[-1]}' has no value",
                    last_key.line, last_key.column, last_key.width,
                )  # fmt: skip
            _refuse_twice("the key", items[::2])
        elif kind == "set":
            _refuse_twice("the element", items)
        return Form(kind, items, span, depth)

    return made


def _refuse_twice(what: str, items: Sequence[Form]) -> None:
    seen: set[Form] = set()
    for one in items:
        if one in seen:
            raise _WrongError(f"{what} '{one}' is there twice", one.span.line, one.span.column, one.span.width)
        seen.add(one)


def _read_by(token: Token, function: Callable[[str], tuple[Kind, Any]]) -> Form:
    try:
        kind, value = function(str(token))
    except atoms.AtomError as error:
        raise _wrong(token, error) from None
    return Form(kind, value, _span(token, token))


def _wrong(token: Token, error: atoms.AtomError) -> _WrongError:
    text = str(token)[: error.start]
    lines = text.count("\n")
    column = (token.column or 1) + error.start if not lines else error.start - text.rfind("\n")
    width = len(token) - error.start if error.width is None else error.width
    return _WrongError(error.what, (token.line or 1) + lines, column, width)


def _atom(children: Sequence[Any]) -> Form:
    return _read_by(children[0], atoms.atom)


def _char(children: Sequence[Any]) -> Form:
    return _read_by(children[0], lambda text: ("char", atoms.char(text)))


def _string(children: Sequence[Any]) -> Form:
    return _read_by(children[0], lambda text: ("string", atoms.string(text)))


def _tagged(children: Sequence[Any]) -> Form:
    tag, form = children[0], children[-1]
    try:
        kind, value = atoms.tagged(str(tag), form.kind, form.value)
    except atoms.AtomError as error:
        if str(tag) in ("#inst", "#uuid"):
            raise _WrongError(error.what, form.span.line, form.span.column, form.span.width) from None
        raise _wrong(tag, error) from None
    span = form.span
    width = span.column + span.width - (tag.column or 1) if span.line == tag.line else len(tag)
    return Form(kind, value, Span(tag.line or 1, tag.column or 1, width))


_CALLBACKS: dict[str, Callable[[Sequence[Any]], object]] = {
    "document": lambda children: [one for one in children if one is not None],
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


def _span(first: Token, last: Token) -> Span:
    return Span(first.line or 1, first.column or 1, (last.end_pos or 0) - (first.start_pos or 0))


def _explained(text: str, source: str) -> EdnSyntaxError:
    """The error for a text that the grammar does not read."""
    from lark import Token, UnexpectedCharacters, UnexpectedToken

    reader = _parser().parse_interactive(text)
    position, found = len(text), ""
    try:
        for _ in reader.iter_parse():
            pass
    except UnexpectedCharacters as error:
        position = error.pos_in_stream  # type: ignore[assignment]  # lark declares it as always None
        found = text[position]
    except UnexpectedToken as error:
        position, found = error.token.start_pos or 0, str(error.token)
    except _WrongError as wrong:
        return EdnSyntaxError(wrong.what, text, wrong.line, wrong.column, wrong.width, source)
    opened = [one for one in reader.parser_state.value_stack if isinstance(one, Token) and one.type in _TOKENS]
    tagging = [
        one for one in reader.parser_state.value_stack if isinstance(one, Token) and one.type in ("TAG", "DISCARD")
    ]
    what, start, width = _complaint(text, position, found, opened, tagging)
    line = text.count("\n", 0, start) + 1
    return EdnSyntaxError(what, text, line, start - text.rfind("\n", 0, start), width, source)


def _complaint(
    text: str, position: int, found: str, opened: Sequence[Token], tagging: Sequence[Token]
) -> tuple[str, int, int]:
    last = opened[-1] if opened else None
    if found == '"':
        return "this string is not closed by '\"'", position, 1
    if found == "\\":
        return "a character's name is expected behind '\\'", position, 1
    if found == "#":
        return (
            f"'{text[position : position + 2]}' has no place in EDN; there are #{{...}}, #_, #inst and #uuid",
            position,
            2,
        )
    if tagging and (not last or (tagging[-1].start_pos or 0) > (last.start_pos or 0)):
        return f"expected a form behind '{tagging[-1]}'", tagging[-1].start_pos or 0, len(tagging[-1])
    if not found:
        assert last is not None
        kind, closing = _TOKENS[last.type]
        return f"this '{OPENING[kind]}' is not closed by '{closing}'", last.start_pos or 0, len(last)
    if last is None:
        return f"'{found}' closes nothing", position, len(found)
    kind, closing = _TOKENS[last.type]
    assert closing == CLOSING[kind]
    where = f"the '{OPENING[kind]}' of line {last.line}, column {last.column}"
    return f"expected '{closing}', which closes {where}, and found '{found}'", position, len(found)
