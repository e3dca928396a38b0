"""Syntax errors of Datalog: expected tokens, common slips, unsupported features."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from gpu_wcoj.errors import DatalogSyntaxError, UnsupportedError, UsageError, nearest, pointed
from gpu_wcoj.query.ir import AGGREGATES, FUNCTIONS, SOUFFLE_FUNCTORS
from gpu_wcoj.query.languages import language_of

if TYPE_CHECKING:
    from lark import Lark, Token

_UNKNOWN_AGGREGATES = {"avg", "average", "range"}
DIRECTIVES = (".decl", ".input", ".output")

_WORDS = {
    "OPERATOR": "a comparison (=, !=, <, <=, >, >=)",
    "BRACKET": "'[...]'",
    "INTEGER": "a number",
    "EQUALS": "'='",
    "_LBRACE": "'{'",
    "_IF": "':-'",
    "_LPAR": "'('",
    "_COLON": "':'",
    "_COMMA": "','",
    "_RPAR": "')'",
    "_RBRACE": "'}'",
    "_DOT": "'.'",
}
_SLIPS = {"==": "=", "=<": "<=", "=>": ">=", "<>": "!="}
_TERMS = {"NAME", "SAFE", "NULL", "INTEGER", "FLOAT", "DECIMAL", "STRING", "BOOL"}
_OPERANDS = _TERMS | {"MINUS", "_LPAR", "_RPAR", "_RBRACE", "_NOT"}
_MAX_TEXT_LENGTH = 40
"""Longest token shown in a message, in characters."""
_FILE_NAME = re.compile(r"[^\n(),]+\.(?:dl|sql|motif|edn)", re.IGNORECASE)
_SQL_BEGINS = ("SELECT", "WITH", "CREATE", "FROM")
_SQL_STATEMENTS = {
    "PIVOT", "UNPIVOT", "VALUES", "TABLE", "INSERT", "UPDATE", "DELETE", "MERGE", "ALTER", "DROP", "EXPLAIN",
    "DESCRIBE", "SHOW", "SUMMARIZE",
}  # fmt: skip
_MIN_SIMILARITY = 0.75
"""Least similarity of a first word to an SQL keyword for the hint about SQL, as a ratio of `difflib`."""
_TWO_WORDS = re.compile(r"(?:\s|/\*.*?\*/)*([A-Za-z]+)\s+[\w*\"']", re.DOTALL)
_SHOWN_LANGUAGES = {"sql": "SQL", "motif": "a motif", "edn": "EDN"}


@dataclass(frozen=True)
class _Place:
    """Position where parsing stopped, and its context.

    Attributes
    ----------
    found
        The text there: of a token, one character, or empty at the end of the text.
    kind
        The kind of token; empty at the end and where no token could be read.
    last, last_but_one
        The tokens before it.
    accepts
        The kinds of token that could stand there.
    inside
        Whether a parenthesis is open.
    in_directive
        Whether the parenthesis belongs to a line ``.input`` or ``.output``.
    """

    token_text: str
    kind: str
    position: int
    previous: Token | None
    before_previous: Token | None
    accepts: frozenset[str]
    inside: bool
    in_directive: bool

    @property
    def is_statement(self) -> bool:
        return "_DECL" in self.accepts

    @property
    def is_literal(self) -> bool:
        """Return whether an atom or comparison of a body could start there."""
        return "_NOT" in self.accepts

    def follows(self, *kinds: str) -> bool:
        return self.previous is not None and self.previous.type in kinds


def syntax_error(parser: Lark, text: str, source: str) -> DatalogSyntaxError | UnsupportedError:
    """Return the error for a text that the parser refuses."""
    place = _stopped(parser, text)
    refused = _unsupported(place, text)
    if _FILE_NAME.fullmatch(text.strip()):
        return DatalogSyntaxError(
            "this is the name of a file, and a program is its text",
            text,
            1,
            1,
            len(text),
            source,
            "Read the file first.",
        )
    what, start, length = refused or _slip(place, text) or (_expected(place), place.position, len(place.token_text))
    line = text.count("\n", 0, start) + 1
    column = start - text.rfind("\n", 0, start)
    if refused:
        return UnsupportedError(pointed(what, text, line, column, length, source))
    return DatalogSyntaxError(what, text, line, column, length, source, _hint(text))


def _hint(text: str) -> str:
    """Return a hint for a text that looks like another language, or an empty string."""
    try:
        language = language_of(text)
    except UsageError:
        return ""
    if language == "datalog":
        advice = "ask gpu_wcoj.query or view with language='sql', or with --language sql"
        return f"This is read as Datalog. If it is SQL, {advice}." if _is_like_sql(text) else ""
    advice = "gpu_wcoj.find or view" if language == "motif" else "gpu_wcoj.query or view"
    return f"It begins as {_SHOWN_LANGUAGES[language]} does: ask with {advice}, or with --language {language}."


def _is_like_sql(text: str) -> bool:
    """Return whether the first of two leading words resembles an SQL keyword."""
    words = _TWO_WORDS.match(text)
    first = "" if words is None else words[1].upper()
    return first in _SQL_STATEMENTS or bool(get_close_matches(first, _SQL_BEGINS, n=1, cutoff=_MIN_SIMILARITY))


def _stopped(parser: Lark, text: str) -> _Place:
    from lark import Token, UnexpectedCharacters, UnexpectedToken

    reader = parser.parse_interactive(text)
    read: deque[Token] = deque(maxlen=3)
    token_text, kind, position = "", "", 0
    try:
        for token in reader.iter_parse():
            read.append(token)
        reader.feed_eof(read[-1] if read else None)  # type: ignore[no-untyped-call]  # untyped in lark
    except UnexpectedCharacters as error:
        position = error.pos_in_stream  # type: ignore[assignment]  # lark declares it as always None
        token_text = text[position]
    except UnexpectedToken as error:
        if error.token.type == "$END":
            position = (read[-1].end_pos if read else 0) or 0
        else:
            if read and read[-1] is error.token:
                _ = read.pop()
            token_text, kind, position = str(error.token), error.token.type, error.token.start_pos or 0
    stack = reader.parser_state.value_stack
    inside = any(isinstance(value, Token) and value.type == "_LPAR" for value in stack)
    in_directive = any(isinstance(value, Token) and value.type in ("_INPUT", "_OUTPUT") for value in stack)
    accepts = frozenset(reader.accepts())  # type: ignore[no-untyped-call]  # untyped in lark
    previous, before_previous = [*reversed(read), None, None][:2]
    return _Place(token_text, kind, position, previous, before_previous, accepts, inside, in_directive)


Complaint = tuple[str, int, int]


def _unsupported(place: _Place, text: str) -> Complaint | None:
    """Return the unsupported feature, its offset and its length; None for any other mistake."""
    previous, token_text, here = place.previous, place.token_text, (place.position, len(place.token_text))
    if place.is_statement and token_text == ".":
        name = re.compile(r"\.\w*").match(text, place.position)
        directive = name[0] if name else "."
        if directive != ".":
            supported = f"{', '.join(DIRECTIVES)} are.{nearest(directive, DIRECTIVES)}"
            return f"'{_short(directive)}' is not supported; {supported}", place.position, len(directive)
    if token_text == ";":
        return "';' (or) is not supported; write one rule with the same head for each case", *here
    if token_text == "^" and "PLUS" in place.accepts:
        return "'^' is not supported; + - * / % are", *here
    if previous is None or not place.follows("NAME") or place.in_directive:
        return None
    there = (previous.start_pos or 0, len(previous))
    in_body = "PLUS" in place.accepts
    if previous in SOUFFLE_FUNCTORS and place.kind == "_LPAR":
        return f"Soufflé's '{previous}' is not supported; {', '.join(FUNCTIONS)} are", *there
    if previous.lower() in _UNKNOWN_AGGREGATES and in_body and place.kind in {*_TERMS, "_LPAR", "_COLON"}:
        return f"the aggregate '{previous}' is not supported; {', '.join(AGGREGATES)} are", *there
    if place.kind == "_LPAR" and in_body:
        return f"functions such as '{_short(previous)}(...)' are not supported; {', '.join(FUNCTIONS)} are", *there
    if place.kind in ("_IF", "_DOT") and not place.inside and "_LPAR" in place.accepts and not in_body:
        return f"relation '{_short(previous)}' has no columns; relations without columns are not supported", *there
    return None


def _slip(place: _Place, text: str) -> Complaint | None:
    """Return the message, offset and length of a common slip; None if it is not one of them."""
    if place.previous is not None and place.follows("OPERATOR"):
        start = place.previous.start_pos or 0
        written = text[start : start + 2]
        if written in _SLIPS:
            return f"'{written}' is not a comparison operator; write '{_SLIPS[written]}'", start, 2
    if place.token_text == '"':
        return "this text is not closed by '\"' on its line", place.position, 1
    if place.token_text == "'":
        return 'texts stand in double quotes: write "..."', place.position, 1
    if place.token_text == "[":
        return "this '[' is not closed by ']' on its line", place.position, 1
    if place.kind == "_LPAR" and place.previous is not None and place.follows("BOOL", "NULL"):
        what = f"'{place.previous}' is a constant and cannot be a name"
        return what, place.previous.start_pos or 0, len(place.previous)
    if place.kind in ("BOOL", "NULL") and "INTEGER" not in place.accepts and "NAME" in place.accepts:
        what = f"'{place.token_text}' is a constant and cannot be a name"
        return what, place.position, len(place.token_text)
    if text.startswith("/*", place.position):
        return "this comment is not closed by '*/'", place.position, 2
    return None


def _expected(place: _Place) -> str:
    accepts = set(place.accepts) - {"$END"}
    words = []
    if place.is_statement:
        accepts -= {"NAME", "_DECL", "_INPUT", "_OUTPUT", "_LPAR"}
        words = ["a rule or a declaration"]
    elif accepts >= {"STRING", "INTEGER"}:
        accepts -= {*_OPERANDS, "_COLON"}
        if place.in_directive:
            words = ["a name, a number or a text"]
        else:
            words = ["a relation or a comparison" if place.is_literal else "a variable or a constant"]
    elif "NAME" in accepts:
        accepts -= {"NAME", "STRING", "_RPAR"}
        if place.follows("_COLON"):
            words = ["a type"]
        elif place.inside:
            words = ["the name of a parameter" if place.in_directive else "the name of a column"]
        else:
            words = ["the name of a relation"]
    elif accepts == {"_COLON"}:
        return _after("expected ':' and the body of the aggregate, as in sum x : { r(x) },", place)
    words += [word for kind, word in _WORDS.items() if kind in accepts]
    listing = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
    return _after(f"expected {listing}", place)


def _after(what: str, place: _Place) -> str:
    after = f" after '{_short(place.previous)}'" if place.previous else ""
    return f"{what}{after}" + ("" if place.token_text else ", where the text ends")


def _short(text: str) -> str:
    return text if len(text) <= _MAX_TEXT_LENGTH else f"{text[:_MAX_TEXT_LENGTH]}..."
