"""What a motif or a condition that the grammar does not read should have said, in a person's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_wcoj.errors import MotifSyntaxError, nearest
from gpu_wcoj.query.motif.expressions import FUNCTIONS

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
_SHOWN = 40


def motif_error(parser: Lark, text: str, source: str) -> MotifSyntaxError:
    """The error for a motif that `parser` refuses."""
    last, start, found, accepts = _stopped(parser, text)
    rest = text[start:]
    what, width = "", max(1, len(found))
    if rest.startswith(("-->", "--", "<--")) or (rest.startswith(("-", ">")) and text[:start].rstrip().endswith("-")):
        what = "an edge has brackets, also if it has no name: (a)-[]->(b)"
    elif rest.startswith(":"):
        what = "labels are no part of a motif; compare a column in where, as in where=\"a.label = 'x'\""
    elif rest.startswith("{"):
        what = 'properties are no part of a motif; compare columns in where, as in where="a.age > 30"'
    elif rest.startswith(",") and "_SEMICOLON" in accepts:
        what = "terms stand apart by ';'"
    elif not rest and last is not None and last.type == "_SEMICOLON":
        what = "expected a term after the last ';'; leave that out"
    elif "_SEMICOLON" in accepts and rest.startswith(("-", "<")):
        what = "a term is one edge: write (a)-[]->(b); (b)-[]->(c)"
    elif not text.strip():
        what = "there is no term; write one such as (a)-[e]->(b)"
    elif {"NAME", "_RPAR"} <= accepts:
        what = f"expected ')' or a name of the letters a to z, digits and '_'{_after(last, found)}"
    elif accepts == {"LPAR"} and last is not None and last.type != "_SEMICOLON":
        what = f"expected a vertex such as (b){_after(last, found)}"
    else:
        words = dict.fromkeys(word for kind, word in _MOTIF_WORDS.items() if kind in accepts and word)
        if {"LEFT", "LINE"} & accepts and "_SEMICOLON" in accepts:
            words = dict.fromkeys(["an edge such as -[e]->", "';'", "the end"])
        elif {"RIGHT", "LINE"} & accepts and "LPAR" not in accepts:
            words = dict.fromkeys(["'->'", "'-'"])
        elif "_RBRACKET" in accepts:
            words["'*'" if "STAR" in accepts else "']'"] = None
        what = f"expected {_either(list(words))}{_after(last, found)}"
    return _error(what, text, start, width, source)


def where_error(parser: Lark, text: str, source: str) -> MotifSyntaxError:
    """The error for a condition that `parser` refuses."""
    last, start, found, accepts = _stopped(parser, text)
    rest, width = text[start:], max(1, len(found))
    is_value = "COLUMN" in accepts
    if rest.startswith('"'):
        what = "texts stand in single quotes: write '...'; names of columns, where they have to, in backticks"
    elif rest.startswith("'"):
        what = "this text is not closed by a single quote"
    elif rest.startswith("`"):
        what = "backticks stand around a column behind the name of its element: a.`a column`"
    elif rest.startswith("=") and last is not None and last.type == "OPERATOR":
        what = "'==' is no comparison; write '='"
    elif rest.startswith(("&", "|")):
        what = f"write {'AND' if rest[0] == '&' else 'OR'}"
    elif not is_value and found == "(" and last is not None:
        what = f"there is no function '{last[:_SHOWN]}' in where; {', '.join(FUNCTIONS)} are.{nearest(last, FUNCTIONS)}"
    elif not text.strip():
        what = "there is no condition; write one such as a.id = 1, or leave where out"
    else:
        if is_value:
            accepts -= {"_LPAR", "_RPAR"}
        words = [word for kind, word in _WHERE_WORDS.items() if kind in accepts]
        if "OPERATOR" in accepts and "_IN" in accepts:
            words.remove(_WHERE_WORDS["_IN"])
        what = f"expected {_either(words)}{_after(last, found)}"
    return _error(what, text, start, width, source)


def _stopped(parser: Lark, text: str) -> tuple[Token | None, int, str, set[str]]:
    """The last token that was read, where reading stopped, what stands there, and what could."""
    from lark import UnexpectedCharacters, UnexpectedToken

    reader = parser.parse_interactive(text)
    read: list[Token | None] = [None, None]
    start, found = len(text.rstrip()), ""
    try:
        for token in reader.iter_parse():
            read = [read[-1], token]
        reader.feed_eof(read[-1])  # type: ignore[no-untyped-call]  # lark leaves it so
    except UnexpectedCharacters as error:
        start = error.pos_in_stream  # type: ignore[assignment]  # lark declares it as always None
        found = text[start]
    except UnexpectedToken as error:
        if error.token.type != "$END":
            if read[-1] is error.token:
                read = [None, read[0]]
            start, found = error.token.start_pos or 0, str(error.token)
    accepts = set(reader.accepts())  # type: ignore[no-untyped-call]  # lark leaves it so
    return read[-1], start, found, accepts


def _either(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else (words or ["something else"])[0]


def _after(last: Token | None, found: str) -> str:
    after = f" after '{last[:_SHOWN]}'" if last else ""
    return after + ("" if found else ", where the text ends")


def _error(what: str, text: str, start: int, width: int, source: str) -> MotifSyntaxError:
    line = text.count("\n", 0, start) + 1
    column = start - text.rfind("\n", 0, start)
    return MotifSyntaxError(what, text, line, column, width, source)
