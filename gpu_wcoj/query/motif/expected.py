"""Syntax errors of motifs and conditions, with the expected tokens in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_wcoj.errors import MotifSyntaxError, nearest
from gpu_wcoj.query.motif.pattern import MOTIF_FUNCTIONS

if TYPE_CHECKING:
    from lark import Lark, Token

_MOTIF_WORDS = {
    "NOT": "",
    "LPAR": "a term such as (a)-[e]->(b)",
    "_RPAR": "')'",
    "_LBRACKET": "'['",
    "_RBRACKET": "']'",
    "_SEMICOLON": "';'",
    "LEFT": "",
    "LINE": "",
    "RIGHT": "",
    "STAR": "",
    "DOTS": "'..'",
    "NAME": "a name",
    "LEAST": "a number of hops",
    "MOST": "a number of hops",
    "$END": "the end",
}
_WHERE_WORDS = {
    "OPERATOR": "a comparison (=, !=, <, <=, >, >=, IN, BETWEEN, LIKE, IS NULL)",
    "_AND": "AND",
    "_OR": "OR",
    "COLUMN": "a column such as a.id or a value",
    "_LPAR": "'('",
    "_RPAR": "')'",
    "_COMMA": "','",
    "_NULL": "NULL",
    "_IN": "IN, BETWEEN or LIKE",
    "$END": "the end",
}
_MAX_PRINTED = 40
"""Length at which a token is cut off in messages, in characters."""


def motif_error(parser: Lark, text: str, source: str) -> MotifSyntaxError:
    """Return the syntax error of a motif that `parser` rejects."""
    previous, start, token_text, accepts = _stop_position(parser, text)
    remaining = text[start:]
    what, width = "", max(1, len(token_text))
    if remaining.startswith(("-->", "--", "<--")) or (
        remaining.startswith(("-", ">")) and text[:start].rstrip().endswith("-")
    ):
        what = "an edge needs brackets, with or without a name: (a)-[]->(b)"
    elif remaining.startswith(":"):
        what = "labels are not supported in a motif; compare a column in where, as in where=\"a.label = 'x'\""
    elif remaining.startswith("{"):
        what = 'properties are not supported in a motif; compare columns in where, as in where="a.age > 30"'
    elif remaining.startswith(",") and "_SEMICOLON" in accepts:
        what = "expected ';' between terms, got ','"
    elif not remaining and previous is not None and previous.type == "_SEMICOLON":
        what = "expected a term after the last ';'; remove that ';'"
    elif "_SEMICOLON" in accepts and remaining.startswith(("-", "<")):
        what = "a term has a single edge; write (a)-[]->(b); (b)-[]->(c)"
    elif not text.strip():
        what = "the motif is empty: expected a term such as (a)-[e]->(b)"
    elif {"NAME", "_RPAR"} <= accepts:
        what = f"expected ')' or a name of the letters a to z, digits and '_'{_after(previous, token_text)}"
    elif accepts == {"LPAR"} and previous is not None and previous.type != "_SEMICOLON":
        what = f"expected a vertex such as (b){_after(previous, token_text)}"
    else:
        words = dict.fromkeys(word for kind, word in _MOTIF_WORDS.items() if kind in accepts and word)
        if {"LEFT", "LINE"} & accepts and "_SEMICOLON" in accepts:
            words = dict.fromkeys(["an edge such as -[e]->", "';'", "the end"])
        elif {"RIGHT", "LINE"} & accepts and "LPAR" not in accepts:
            words = dict.fromkeys(["'->'", "'-'"])
        elif "_RBRACKET" in accepts:
            words["'*'" if "STAR" in accepts else "']'"] = None
        what = f"expected {_join_words(list(words))}{_after(previous, token_text)}"
    return _error(what, text, start, width, source)


def where_error(parser: Lark, text: str, source: str) -> MotifSyntaxError:
    """Return the syntax error of a condition that `parser` rejects."""
    previous, start, token_text, accepts = _stop_position(parser, text)
    remaining, width = text[start:], max(1, len(token_text))
    is_value = "COLUMN" in accepts
    if remaining.startswith('"'):
        what = "texts are quoted in single quotes: '...'; column names that are not identifiers in backticks"
    elif remaining.startswith("'"):
        what = "this text has no closing single quote"
    elif remaining.startswith("`"):
        what = "backticks quote the column after the name of its element: a.`a column`"
    elif remaining.startswith("=") and previous is not None and previous.type == "OPERATOR":
        what = "'==' is not supported; write '='"
    elif remaining.startswith(("&", "|")):
        what = f"write {'AND' if remaining[0] == '&' else 'OR'}"
    elif not is_value and token_text == "(" and previous is not None:
        allowed = ", ".join(MOTIF_FUNCTIONS)
        name = previous[:_MAX_PRINTED]
        what = f"unknown function '{name}' in where: expected one of {allowed}.{nearest(previous, MOTIF_FUNCTIONS)}"
    elif not text.strip():
        what = "where is empty: expected a condition such as a.id = 1; or leave out where"
    else:
        if is_value:
            accepts -= {"_LPAR", "_RPAR"}
        words = [word for kind, word in _WHERE_WORDS.items() if kind in accepts]
        if "OPERATOR" in accepts and "_IN" in accepts:
            words.remove(_WHERE_WORDS["_IN"])
        what = f"expected {_join_words(words)}{_after(previous, token_text)}"
    return _error(what, text, start, width, source)


def _stop_position(parser: Lark, text: str) -> tuple[Token | None, int, str, set[str]]:
    """Return the last token, the stop position, the text there and the accepted tokens."""
    from lark import UnexpectedCharacters, UnexpectedToken

    reader = parser.parse_interactive(text)
    read: list[Token | None] = [None, None]
    start, token_text = len(text.rstrip()), ""
    try:
        for token in reader.iter_parse():
            read = [read[-1], token]
        reader.feed_eof(read[-1])  # type: ignore[no-untyped-call]  # lark leaves it so
    except UnexpectedCharacters as error:
        start = error.pos_in_stream  # type: ignore[assignment]  # lark declares it as always None
        token_text = text[start]
    except UnexpectedToken as error:
        if error.token.type != "$END":
            if read[-1] is error.token:
                read = [None, read[0]]
            start, token_text = error.token.start_pos or 0, str(error.token)
    accepts = set(reader.accepts())  # type: ignore[no-untyped-call]  # lark leaves it so
    return read[-1], start, token_text, accepts


def _join_words(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else (words or ["something else"])[0]


def _after(previous: Token | None, token_text: str) -> str:
    after = f" after '{previous[:_MAX_PRINTED]}'" if previous else ""
    return after + ("" if token_text else ", where the text ends")


def _error(what: str, text: str, start: int, width: int, source: str) -> MotifSyntaxError:
    line = text.count("\n", 0, start) + 1
    column = start - text.rfind("\n", 0, start)
    return MotifSyntaxError(what, text, line, column, width, source)
