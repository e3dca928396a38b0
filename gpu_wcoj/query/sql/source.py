"""SQL text to sqlglot statements, and messages for syntax errors."""

from __future__ import annotations

import logging
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gpu_wcoj.errors import BackendUnavailableError, GpuWcojError, SqlSyntaxError, nearest
from gpu_wcoj.query.sql.place import Place

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

NESTING = 100
"""Deepest nesting of expressions and queries, in levels."""
OPEN_JOINS = 8
"""Most JOINs without their ON or USING so far: each one doubles the parses that sqlglot tries."""
KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "JOIN", "LEFT JOIN", "ON", "USING", "UNION ALL", "CREATE VIEW",
    "WITH", "DISTINCT", "EXISTS", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "AND", "OR", "NOT", "IN", "AS",
)  # fmt: skip
_OPENED = {
    "'": "this text is not closed by a '",
    '"': 'this name is not closed by a "',
    "/*": "this comment is not closed by '*/'",
}


def statements(text: str, dialect: str, place: Place) -> list[Node]:
    """Parse the statements of a text.

    Raises
    ------
    SqlSyntaxError
        If there are none, or they cannot be read, or nest too deep.
    BackendUnavailableError
        If sqlglot is not installed.
    """
    try:
        import sqlglot
    except ImportError:
        raise BackendUnavailableError.missing_package("SQL", "sqlglot", "sql") from None
    from sqlglot.errors import ParseError

    tokens: Sequence[Any] = ()
    try:
        with _quiet():
            tokens = sqlglot.tokenize(text, read=dialect)
            _check_tokens(tokens, place)
            parser = sqlglot.Dialect.get_or_raise(dialect).parser()
            nodes = [node for node in parser.parse(tokens, text) if node is not None]
        for node in nodes:
            _check_depth(node, place)
    except ParseError as error:
        raise _explained(error, tokens, place) from None
    except RecursionError:
        raise SqlSyntaxError("this nests too deep", text, 1, 1, 1, place.source) from None
    except GpuWcojError:
        raise
    except Exception:  # sqlglot's errors, also unexpected ones: MAP(1, *) is an IndexError
        raise _unread(place) from None
    if not nodes:
        raise SqlSyntaxError("there is no statement; write SELECT or CREATE VIEW", text, 1, 1, 1, place.source)
    return nodes


@contextmanager
def _quiet() -> Generator[None]:
    """Keep sqlglot from logging unread syntax, which is refused later."""
    logger = logging.getLogger("sqlglot")

    def nothing(_: logging.LogRecord) -> bool:
        return False

    logger.addFilter(nothing)
    try:
        yield
    finally:
        logger.removeFilter(nothing)


def _check_tokens(tokens: Sequence[Any], place: Place) -> None:
    depth, before = 0, ""
    n_open, is_whole = 0, False
    for token in tokens:
        kind = token.token_type.name
        is_whole = is_whole or kind in ("CROSS", "NATURAL")
        if kind == "JOIN":
            n_open, is_whole = n_open + (not is_whole), False
        elif kind in ("ON", "USING", "SEMICOLON"):
            n_open = 0 if kind == "SEMICOLON" else max(0, n_open - 1)
        if n_open > OPEN_JOINS:
            raise _error_at(
                "this JOIN and those before it have no ON or USING; write CROSS JOIN", place, token.start, 4
            )
        depth += (kind in ("L_PAREN", "L_BRACKET", "CASE")) - (kind in ("R_PAREN", "R_BRACKET", "END"))
        if depth > NESTING:
            raise _error_at(f"this nests more than {NESTING} deep", place, token.start, 1)
        if kind == "COMMA" and before in ("COMMA", "L_PAREN", "SELECT", "DISTINCT", "FROM", "GROUP_BY", "BY"):
            raise _error_at("there is nothing before this comma", place, token.start, 1)
        before = kind


def _check_depth(root: Node, place: Place) -> None:
    """Refuse trees that are too deep; chains of one AND, OR or UNION count once."""
    from sqlglot import expressions as exp

    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > NESTING:
            raise place.wrong(f"this nests more than {NESTING} deep", node)
        _check_names(node, place)
        is_chain = isinstance(node, (exp.Connector, exp.SetOperation))
        waiting += [
            (child, depth + (not is_chain or type(child) is not type(node))) for child in node.iter_expressions()
        ]


def _check_names(node: Node, place: Place) -> None:
    """Refuse variables and parameters, which sqlglot accepts in place of names."""
    from sqlglot import expressions as exp

    if not isinstance(node, (exp.Alias, exp.Column, exp.CTE, exp.Table, exp.TableAlias)):
        return
    names = (exp.Identifier, exp.Star) if isinstance(node, exp.Column) else (exp.Identifier,)
    parts = ("alias",) if isinstance(node, (exp.Alias, exp.CTE)) else ("this", "table", "db", "catalog", "columns")
    for part in parts:
        value = node.args.get(part)
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, (exp.Var, exp.Parameter, exp.Placeholder, exp.SessionParameter)) or (
                isinstance(node, exp.Column) and child is not None and not isinstance(child, names)
            ):
                raise place.wrong("expected a name", child if child.meta else node)


def _explained(error: Any, tokens: Sequence[Any], place: Place) -> SqlSyntaxError:
    """Return the error in plain words: the expected token, and a similar keyword."""
    first = error.errors[0] if error.errors else {}
    description, marked = str(first.get("description") or "").rstrip("."), str(first.get("highlight") or "")
    line, end = int(first.get("line") or 1), int(first.get("col") or 1)
    start = sum(len(text_line) + 1 for text_line in place.text.split("\n")[: line - 1]) + end - len(marked)
    token_index = next((i for i, token in enumerate(tokens) if token.start == start), None)
    before = tokens[token_index - 1].text if token_index else ""
    after = f" after '{before}'" if before else ""
    if description.startswith("Required keyword"):
        return _error_at(f"something is missing at '{marked}'", place, start, len(marked))
    if description.startswith("Expected table name"):
        return _error_at(f"expected the name of a relation{after}", place, start, len(marked))
    if match := re.match(r"Expecting (.*)", description):
        return _error_at(f"expected '{match[1].lower()}' near '{marked}'", place, start, len(marked))
    near = (
        ""
        if token_index is None
        else _keyword(
            [token for token in tokens[max(0, token_index - 3) : token_index] if token.token_type.name == "VAR"]
        )
    )
    return _error_at(
        f"'{marked}' cannot stand here{after}.{near}",
        place,
        start,
        len(marked),
    )


def _keyword(tokens: Sequence[Any]) -> str:
    keywords = (nearest(token.text.upper(), KEYWORDS) for token in reversed(tokens) if len(token.text) > 2)
    return next((keyword for keyword in keywords if keyword), "")


def _unread(place: Place) -> SqlSyntaxError:
    """Return the error for the last unclosed quote or comment."""
    pattern = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|('|\"|/\*)", re.DOTALL)
    opened = next((match for match in pattern.finditer(place.text) if match[1]), None)
    if opened is None:
        return SqlSyntaxError("this cannot be read as SQL", place.text, 1, 1, 1, place.source)
    return _error_at(_OPENED[opened[1]], place, opened.start(), len(opened[1]))


def _error_at(what: str, place: Place, start: int, width: int) -> SqlSyntaxError:
    return SqlSyntaxError(what, place.text, *place.span_at(start, width), place.source)
