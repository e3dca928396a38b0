"""SQL text to sqlglot statements, and messages for syntax errors."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Collection, Container, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from gpu_wcoj.arrow import sql_expressions
from gpu_wcoj.errors import (
    BackendUnavailableError,
    GpuWcojError,
    SqlSyntaxError,
    TypeMismatchError,
    UnknownRelationError,
    UnsupportedError,
    nearest,
    pointed,
)
from gpu_wcoj.query.ir import unique_names

if TYPE_CHECKING:
    from sqlglot import Token
    from sqlglot.expressions import Expr as Node


# Comparison of names in the dialects, by the normalization rules of sqlglot.
#
# There are three kinds of dialects. PostgreSQL, Materialize and RisingWave fold an unquoted name to lower case,
# Snowflake to upper case, and a quoted name is exact. All other dialects ignore the case of names, quoted or not,
# except that BigQuery distinguishes tables by case; Redshift shows every name in lower case.
#
# Names of input columns and tables are exact. An unquoted name also matches one that differs in case if no name equals
# the folded name exactly, because the sources of tables do not fold names.


SHOWN_IN_LOWER_CASE = ("redshift",)
"""Dialects that ignore case and show names in lower case; others that ignore case show names as written."""


class Quoted(str):
    """A quoted name in a dialect whose quotes keep the case."""

    __slots__ = ()


class Names:
    """Rules of a dialect for the comparison of names.

    Examples
    --------
    >>> Names("duckdb").matching("SRC", True, ["src", "dst"]), Names("postgres").matching("SRC", True, ["src", "dst"])
    (['src'], [])
    >>> [Names(dialect).matching("a", False, ["A", "a"]) for dialect in ("duckdb", "postgres", "snowflake")]
    [['A', 'a'], ['a'], ['A']]
    """

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self._folded: dict[tuple[str, bool], str] = {}

    @cached_property
    def _rules(self) -> Any:
        """The dialect of sqlglot."""
        from sqlglot.dialects.dialect import Dialect

        return Dialect.get_or_raise(self.dialect)

    @cached_property
    def has_case(self) -> bool:
        """Return whether quotes keep the case of a name.

        Unquoted names are folded, and then compared exactly.
        """
        from sqlglot.dialects.dialect import NormalizationStrategy

        return self._rules.normalization_strategy in (NormalizationStrategy.LOWERCASE, NormalizationStrategy.UPPERCASE)

    def folded(self, name: str, *, is_table: bool = False) -> str:
        """Return an unquoted name as the dialect folds it.

        Examples
        --------
        >>> [Names(dialect).folded("Src") for dialect in ("postgres", "snowflake", "spark")]
        ['src', 'SRC', 'src']
        >>> Names("bigquery").folded("Src", is_table=True)
        'Src'
        """
        folded = self._folded.get((name, is_table))
        if folded is None:
            from sqlglot import expressions as exp

            node = exp.Identifier(this=name, quoted=False)
            if is_table:
                node.meta["is_table"] = True
            folded = self._folded[name, is_table] = str(self._rules.normalize_identifier(node).this)
        return folded

    def key(self, name: str) -> str:
        """Return a key that equal names of the text share, after `fold`."""
        return str(name) if self.has_case else self.folded(name)

    def unique(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return names of columns, with numbers appended to repeated ones.

        Examples
        --------
        >>> Names("duckdb").unique(["x", "y", "x", "X"]), Names("postgres").unique(["x", "x", "X"])
        (('x', 'y', 'x_1', 'X_2'), ('x', 'x_1', 'X'))
        """
        return unique_names(names, 1, self.key)

    def matching(self, name: str, is_quoted: bool, candidates: Iterable[str], *, is_table: bool = False) -> list[str]:
        """Return the candidates that a name refers to; several if the dialect equates them.

        Parameters
        ----------
        is_table
            Whether the names are tables or views, which BigQuery distinguishes by case.
        """
        names = list(candidates)
        if is_quoted and self.has_case:
            return [candidate for candidate in names if candidate == name]
        folded = self.folded(name, is_table=is_table)
        if not self.has_case:
            return [candidate for candidate in names if self.folded(candidate, is_table=is_table) == folded]
        exact = [candidate for candidate in names if candidate == folded]
        return exact or [
            candidate for candidate in names if not isinstance(candidate, Quoted) and self.folded(candidate) == folded
        ]

    def counterparts(self, name: str, columns: Sequence[str]) -> list[str]:
        """Return the columns that equal a column of another relation, as NATURAL compares them."""
        exact = [candidate for candidate in columns if candidate == name]
        if (exact and self.has_case) or isinstance(name, Quoted):
            return exact
        return self.matching(name, False, columns)

    def fold(self, root: Node) -> None:
        """Fold the names of a statement as the dialect does."""
        from sqlglot import expressions as exp

        if not self.has_case and self.dialect not in SHOWN_IN_LOWER_CASE:
            return
        for node in root.find_all(exp.Identifier):
            if self.has_case and node.args.get("quoted"):
                node.set("this", Quoted(node.this))
            else:
                node.set("this", self.folded(node.this))


# Source positions of the nodes of an SQL text, and errors that point at them.


_Error = TypeVar("_Error", bound=GpuWcojError)


class Place:
    r"""An SQL text with its name in messages.

    Attributes
    ----------
    of_dialect, refused_part
        The last error about an expression that has its meaning by the dialect, and the last one of `check_parts`.

    Examples
    --------
    >>> from sqlglot import parse_one
    >>> text = "SELECT a,\n  b + c FROM r"
    >>> place = Place(text, "<text>")
    >>> place.span_of(parse_one(text).expressions[1])
    (2, 3, 5)
    """

    def __init__(self, text: str, source: str, dialect: str = "duckdb") -> None:
        self.text = text.removeprefix(_BOM)
        self.source = source
        self.names = Names(dialect)
        self.of_dialect: UnsupportedError | None = None
        self.refused_part: UnsupportedError | None = None

    def check_meaning(self, root: Node, dialect: str) -> None:
        """Refuse what the dialect means in another way than DuckDB, which would evaluate it."""
        found = other_meaning(root, dialect)
        if found is not None:
            node, meaning = found
            self.of_dialect = self.refused(
                f"'{node.sql(dialect)}' in the dialect '{dialect}' {meaning} than DuckDB, which would evaluate it",
                node,
                "Write DuckDB's SQL, with dialect='duckdb'.",
            )
            raise self.of_dialect

    def span_of(self, node: Node | None) -> tuple[int, int, int]:
        """Return line, column and width of a node, or of the nearest ancestor with a token."""
        while node is not None:
            spans = [
                (piece.meta["start"], piece.meta["end"])
                for piece in node.walk()
                if "start" in piece.meta and "end" in piece.meta
            ]
            spans += [span for piece in node.walk() if (span := self._keyword(piece)) is not None]
            if spans:
                start, end = min(begin for begin, _ in spans), max(stop for _, stop in spans) + 1
                start, end = self._closed(self._start_of_call(node, start), end)
                end += 2 * self.text.startswith("()", end)  # of a call without arguments
                return self.span_at(start, end - start)
            node = node.parent
        return 1, 1, 1

    def _start_of_call(self, node: Node, start: int) -> int:
        """Return the position of a function's name, which calls with keywords in them do not record."""
        from sqlglot import expressions as exp

        if not isinstance(node, exp.Func) or "start" in node.meta:
            return start
        name = re.search(r"(\w+)\s*\(\s*$", self.text[:start])
        names = (*type(node).sql_names(), *("STRING_AGG", "LISTAGG") * isinstance(node, exp.GroupConcat))
        return name.start() if name is not None and name[1].upper() in names else start

    def _keyword(self, node: Node) -> tuple[int, int] | None:
        """Return first and last character of a function that is a keyword, or None.

        Such nodes, as that of CURRENT_DATE, do not record their positions.
        """
        from sqlglot import expressions as exp

        if not isinstance(node, exp.Func) or node.args or "start" in node.meta:
            return None
        names = type(node).sql_names()
        tokens = [token for token in self._tokens if token.text.upper() in names]
        same = [piece for piece in node.root().walk(bfs=False) if type(piece) is type(node) and not piece.meta]
        position = next((i for i, piece in enumerate(same) if piece is node), len(tokens))
        return (tokens[position].start, tokens[position].end) if position < len(tokens) == len(same) else None

    @cached_property
    def _tokens(self) -> list[Token]:
        from sqlglot import tokenize

        return tokenize(self.text, read=self.names.dialect)

    def _closed(self, start: int, end: int) -> tuple[int, int]:
        """Extend a piece of text to the parentheses that it opens or closes.

        Nodes do not record the positions of parentheses.
        """
        depth = min_depth = 0
        for char in self.text[start:end]:
            depth += (char == "(") - (char == ")")
            min_depth = min(min_depth, depth)
        for _ in range(depth - min_depth):
            position = self.text.find(")", end)
            end = end if position < 0 else position + 1
        for _ in range(-min_depth):
            position = self.text.rfind("(", 0, start)
            start = start if position < 0 else position
        return start, end

    def text_of(self, node: Node) -> str:
        """Return the text of a node, up to the end of its line."""
        line, column, width = self.span_of(node)
        return self.text.split("\n")[line - 1][column - 1 : column - 1 + width]

    def span_at(self, start: int, width: int) -> tuple[int, int, int]:
        """Return line, column and width of a piece of the text, cut at the end of its line."""
        line = self.text.count("\n", 0, start) + 1
        column = start - self.text.rfind("\n", 0, start)
        end = self.text.find("\n", start)
        return line, column, max(1, min(width, (len(self.text) if end < 0 else end) - start))

    def pointed(self, what: str, node: Node | None) -> str:
        """Return the message with line, column and the marked text."""
        return pointed(what, self.text, *self.span_of(node), self.source)

    def word_before(self, node: Node) -> str:
        """Return the last ``,``, ``JOIN`` or ``FROM`` before a relation of FROM."""
        line, column, _ = self.span_of(node)
        start = sum(len(text_line) + 1 for text_line in self.text.split("\n")[: line - 1]) + column - 1
        words = re.findall(r",|\bjoin\b|\bfrom\b", self.text[:start], re.IGNORECASE)
        return words[-1].upper() if words else ""

    def refused(self, what: str, node: Node | None, instead: str = "") -> UnsupportedError:
        """Return the error for an unsupported feature, and its replacement."""
        message = self.pointed(what, node)
        return UnsupportedError(f"{message}\n  {instead}" if instead else message)

    def mistyped(self, what: str, node: Node | None) -> TypeMismatchError:
        """Return the error for types that do not fit."""
        return TypeMismatchError(self.pointed(what, node))

    def wrong(self, what: str, node: Node | None) -> SqlSyntaxError:
        """Return the error for invalid SQL."""
        return SqlSyntaxError(what, self.text, *self.span_of(node), self.source)

    def ambiguous(self, what: str, node: Node, matches: Iterable[str]) -> SqlSyntaxError:
        """Return the error for a name with several matches that the dialect equates."""
        names = " and ".join(f"'{name}'" for name in matches)
        dialect = self.names.dialect
        instead = "Quote the one that is meant" if self.names.has_case else "Rename one of them"
        why = f"which the dialect '{dialect}' does not tell apart" if not self.names.has_case else "and is neither"
        return self.wrong(f"the {what} '{node.name}' stands for {names}, {why}. {instead}", node)

    def unknown(self, node: Node, available: Iterable[str], what: str) -> UnknownRelationError:
        """Return the error for an unknown relation."""
        names = list(available)
        remedy = f"Pass its rows: {node.name}=..." if what == "relations" and not names else ""
        is_path = re.fullmatch(r"[^?:]+[./][^?:]+", node.name) and what == "relations"
        if is_path and not os.path.exists(node.name):
            remedy = f"There is no file '{node.name}'."
        where = "" if "relations" in what else f"unknown {what.removesuffix('s')} '{node.name}'."
        return self.marked(UnknownRelationError(node.name, names, what, where=where, remedy=remedy), node)

    def marked(self, error: _Error, node: Node | None) -> _Error:
        """Return the error with the place in its first line."""
        first, *lines = str(error).split("\n")
        error.args = ("\n".join([self.pointed(first, node), *lines]),)
        return error


_BOM = "\ufeff"
"""A byte order mark, with which editors on Windows begin files."""
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


def statements(text: str, dialect: str, place: Place, functions: Collection[str] = ()) -> list[Node]:
    """Parse the statements of a text; `functions` are names that sqlglot must not know.

    Raises
    ------
    SqlSyntaxError
        If there are none, or they cannot be read, or nest too deep.
    BackendUnavailableError
        If sqlglot is not installed.
    """
    text = text.removeprefix(_BOM)
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
            parser: Any = sqlglot.Dialect.get_or_raise(dialect).parser()
            for table in ("FUNCTIONS", "FUNCTION_PARSERS") if functions else ():
                known = {name: made for name, made in getattr(parser, table).items() if name.lower() not in functions}
                setattr(parser, table, known)
            nodes = [_as_query(node) for node in parser.parse(tokens, text) if node is not None]
        for node in nodes:
            _name_files(node)
            _mark_aggregates(_check_depth(node, place), functions)
            _spell_comprehensions(node)
            if _TRAILING_ZERO.search(text):
                _shorten_compared(node)
    except ParseError as error:
        raise _explained(error, tokens, place) from None
    except RecursionError:
        raise SqlSyntaxError("this nests too deep", text, 1, 1, 1, place.source) from None
    except GpuWcojError:
        raise
    except Exception:  # sqlglot's errors, also unexpected ones: MAP(1, *) is an IndexError
        raise _unread(place) from None
    if not nodes:
        raise SqlSyntaxError("the text has no statement; write SELECT or CREATE VIEW", text, 1, 1, 1, place.source)
    return nodes


def _as_query(node: Node) -> Node:
    """Return a statement that gives rows as a SELECT of them; others as they are."""
    from sqlglot import expressions as exp

    if not isinstance(node, (exp.Pivot, exp.Describe, exp.Summarize)):
        return node
    clause = node.args.get("with_")
    node.set("with_", None)
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=exp.Subquery(this=node)), with_=clause)


_TRAILING_ZERO = re.compile(r"\.[0-9]*0(?![0-9])")
"""A decimal number whose last digit is 0."""


def _spell_comprehensions(root: Node) -> None:
    """Replace ``[x + 1 FOR x IN list IF x > 2]`` by the functions of lists that it stands for."""
    from sqlglot import expressions as exp

    def function_of(part: Node, variable: Node) -> Node:
        def named(piece: Node) -> Node:
            is_name = isinstance(piece, exp.Column) and not piece.table
            return variable.copy() if is_name and piece.name.lower() == variable.name.lower() else piece

        return exp.Lambda(this=part.transform(named), expressions=[variable.copy()])

    for node in reversed(list(root.find_all(exp.Comprehension))):
        values, variable, condition = node.args["iterator"], node.expression, node.args.get("condition")
        if condition is not None:
            values = exp.ArrayFilter(this=values, expression=function_of(condition, variable))
        brackets = node.parent
        assert brackets is not None
        brackets.replace(exp.Transform(this=values, expression=function_of(node.this, variable)))


def _shorten_compared(root: Node) -> None:
    """Drop trailing zeros of decimal factors and terms that are only compared.

    Their scale shows nowhere. The product with 0.0001000000 has ten more digits behind the point than its other factor,
    and may not fit.
    """
    from sqlglot import expressions as exp

    passed = (exp.Mul, exp.Add, exp.Sub, exp.Paren, exp.Neg, exp.Alias, exp.Select, exp.Subquery)
    for number in list(root.find_all(exp.Literal)):
        user = number.parent
        is_operand = isinstance(user, (exp.Mul, exp.Add, exp.Sub)) and not number.is_string
        if not is_operand or not _TRAILING_ZERO.fullmatch(number.this.lstrip("0123456789")):
            continue
        while isinstance(user, passed):
            user = user.parent
        if isinstance(user, (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)):
            shorter = exp.Literal.number(number.this.rstrip("0").rstrip(".") or "0")
            shorter.meta.update(number.meta)
            number.replace(shorter)


_FILE_READERS = {"read_csv", "read_csv_auto", "read_parquet", "parquet_scan", "read_json", "read_json_auto"}
"""DuckDB's functions of FROM that read files whose form is found out."""


def _name_files(root: Node) -> None:
    """Replace functions that read a file, without options, by the name of the file."""
    from sqlglot import expressions as exp

    for table in root.find_all(exp.Table):
        call = table.this
        if isinstance(call, (exp.ReadCSV, exp.ReadParquet, exp.Anonymous)):
            name = call.name if isinstance(call, exp.Anonymous) else call.sql_name()
            arguments = [*([] if isinstance(call, exp.Anonymous) else [call.this]), *call.expressions]
            arguments = [argument for argument in arguments if argument is not None]
            if name.lower() in _FILE_READERS and len(arguments) == 1 and arguments[0].is_string:
                file = exp.to_identifier(arguments[0].this, quoted=True)
                file.meta.update(arguments[0].meta)
                table.set("this", file)


def _mark_aggregates(calls: Iterable[Node], functions: Iterable[str]) -> None:
    """Replace those of the calls that are of DuckDB's aggregates which sqlglot does not know."""
    from sqlglot import expressions as exp

    names = set(functions)
    for node in calls:
        if node.name.lower() not in names and sql_expressions.is_aggregate(node.name):
            made = exp.AnonymousAggFunc(this=node.this, expressions=node.expressions)
            made.meta.update(node.meta)
            node.replace(made)


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


def _check_depth(root: Node, place: Place) -> list[Node]:
    """Refuse trees that are too deep; chains of one AND, OR or UNION count once.

    Return the calls of functions that sqlglot does not know.
    """
    from sqlglot import expressions as exp

    named = (exp.Alias, exp.Column, exp.CTE, exp.Table, exp.TableAlias)
    chains = (exp.Connector, exp.SetOperation)
    unknown: list[Node] = []
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        kind = type(node)
        if kind is exp.Identifier:  # a leaf
            continue
        if depth > NESTING:
            raise place.wrong(f"this nests more than {NESTING} deep", node)
        if isinstance(node, named):
            _check_names(node, place)
        elif kind is exp.Anonymous:
            unknown.append(node)
        is_chain = isinstance(node, chains)
        waiting += [(child, depth + (not is_chain or type(child) is not kind)) for child in node.iter_expressions()]
    return unknown


def _check_names(node: Node, place: Place) -> None:
    """Refuse variables and parameters, which sqlglot accepts in place of names."""
    from sqlglot import expressions as exp

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


# Rejection of SQL syntax that the compiler would otherwise ignore.


_NODES = {
    "ILike": "ILIKE",
    "RegexpLike": "a regular expression",
    "Explode": "UNNEST",
    "GroupConcat": "STRING_AGG",
    "Star": "*",
    "Rand": "RANDOM",
    "Bracket": "'[...]'",
    "Tuple": "a row of values",
    "Placeholder": "a parameter",
    "Parameter": "a parameter",
    "LogicalAnd": "BOOL_AND",
    "LogicalOr": "BOOL_OR",
}
_WORDS = {
    "limit": ("LIMIT here", "Write it at the end of a SELECT that stands alone, in FROM or in WITH."),
    "offset": ("OFFSET here", "Write it at the end of a SELECT that stands alone, in FROM or in WITH."),
    "order": ("ORDER BY without LIMIT", "A view has no order; sort what you read from it, or write LIMIT."),
    "sort": ("SORT BY", "A view has no order; sort what you read from it."),
    "cluster": ("CLUSTER BY", "Leave it out."),
    "distribute": ("DISTRIBUTE BY", "Leave it out."),
    "qualify": ("QUALIFY here", "Write it at the end of a SELECT that stands alone, in FROM or in WITH."),
    "sample": ("TABLESAMPLE", "A view of a random part cannot be kept; filter by a column instead."),
    "laterals": ("LATERAL", "Join with a subquery that does not refer to the relations beside it."),
    "rollup": ("WITH ROLLUP", "Write GROUP BY ROLLUP (a, b)."),
    "cube": ("WITH CUBE", "Write GROUP BY CUBE (a, b)."),
    "hint": ("a hint", "Leave it out."),
    "hints": ("a hint", "Leave it out."),
    "pivots": (
        "PIVOT",
        "Write an aggregate with FILTER for each column, or for UNPIVOT a SELECT for each; gpu_wcoj.query answers it.",
    ),
    "into": ("INTO", "Write CREATE VIEW name AS SELECT ..."),
    "locks": ("FOR UPDATE", "Leave it out."),
    "by_name": ("BY NAME here", "Name the columns of both queries in the same order."),
    "on": ("DISTINCT ON here", "Write it in a SELECT that stands alone, in FROM or in WITH."),
    "except_": ("EXCLUDE", "Name the columns to select."),
    "replace": ("REPLACE", "Name the columns to select."),
    "rename": ("RENAME", "Name the columns to select, with AS."),
    "properties": ("this kind of view", "Write CREATE VIEW name AS SELECT ...; what is kept is up to the program."),
    "when": ("a point in time", "Relations are as the last tick has left them."),
    "version": ("a version of a table", "Relations are as the last tick has left them."),
}


_SELECT = "Write SELECT or CREATE VIEW name AS SELECT."
_CHANGE = "Pass the rows as tables; a view takes changes by its method apply()."
_STATEMENTS = {
    "EXPLAIN": "Call explain() of the answer or the view, or write 'gpu-wcoj explain' on the command line.",
    "SHOW": "Write DESCRIBE name for the columns of a relation.",
    "COPY": "Write a SELECT, and store its answer.",
    **dict.fromkeys(("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE TABLE"), _CHANGE),
}
"""Advice for statements that are not queries, by their first word."""


def refused_statement(node: Node, place: Place) -> UnsupportedError:
    """Return the error for a statement that is not a query, which points at its first word."""
    word = str(node.name).upper() if type(node).__name__ == "Command" else describe_node(node)
    found = re.search(rf"\b{word.split()[0]}\b", place.text, re.IGNORECASE)
    start, end = found.span() if found is not None else (0, 1)
    message = pointed(f"{word} is not supported", place.text, *place.span_at(start, end - start), place.source)
    return UnsupportedError(f"{message}\n  {_STATEMENTS.get(word, _SELECT)}")


def written_name(node: Node, place: Place) -> str:
    """Return the name of a function as it is written, in lower case."""
    if isinstance(node.meta.get("start"), int):
        name = place.text[node.meta["start"] : node.meta["end"] + 1].lower()
        if name.isidentifier():
            return name
    name = describe_node(node)
    return str(type(node).sql_name() if " " in name else name).lower()  # type: ignore[attr-defined]  # a function


def check_parts(node: Node, place: Place, *allowed: str) -> None:
    """Raise for a part of `node` that is present but not allowed.

    Raises
    ------
    UnsupportedError
    """
    for name, value in node.args.items():
        if name in allowed or value is None or value is False or value == []:
            continue
        word, instead = _WORDS.get(name, (f"'{name}' of {describe_node(node)}", ""))
        pieces = value if isinstance(value, list) else [value]
        where = next((piece for piece in pieces if hasattr(piece, "walk")), node)
        place.refused_part = place.refused(f"{word} is not supported", where, instead)
        raise place.refused_part


def describe_node(node: Node) -> str:
    """Return the name of a node in messages.

    Examples
    --------
    >>> from sqlglot import parse_one
    >>> describe_node(parse_one("a ILIKE b"))
    'ILIKE'
    """
    from sqlglot import expressions as exp

    name = type(node).__name__
    if name not in _NODES and isinstance(node, exp.Func) and not node.args:
        return type(node).sql_names()[0]
    return _NODES.get(name) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).upper()


def has_query(node: Node) -> bool:
    """Return whether a condition contains EXISTS, or IN, ANY or ALL of a query."""
    from sqlglot import expressions as exp

    return any(
        isinstance(predicate, exp.Exists)
        or predicate.args.get("query") is not None
        or (isinstance(predicate, (exp.Any, exp.All)) and isinstance(predicate.this.unnest(), exp.Query))
        for predicate in node.find_all(exp.Predicate)
    )


def describes_columns(node: Node, functions: Container[str]) -> bool:
    """Return whether a query reads the type, the name or the position of a column.

    Parameters
    ----------
    functions
        The names of Python functions in lower case, which hide DuckDB's.
    """
    from sqlglot import expressions as exp

    names = ("pg_typeof", "alias", "stats", "vector_type", "get_type", "can_cast_implicitly")
    found = node.find_all(exp.Typeof, exp.PositionalColumn, exp.Anonymous)
    return any(
        not isinstance(part, exp.Anonymous) or (part.name.lower() in names and part.name.lower() not in functions)
        for part in found
    )


def is_unnest(node: Node) -> bool:
    """Return whether a node is ``unnest`` of a list, which gives a row for each element."""
    from sqlglot import expressions as exp

    return type(node) is exp.Explode


def windows_in(node: Node) -> Iterator[Node]:
    """Yield the window functions and ``unnest`` of an expression, without those of subqueries."""
    from sqlglot import expressions as exp

    if isinstance(node, exp.Window) or is_unnest(node):
        yield node
    elif not isinstance(node, (exp.Query, exp.Subquery)):
        for child in node.iter_expressions():
            yield from windows_in(child)


def is_grouped(node: Node) -> bool:
    """Return whether a SELECT groups or aggregates."""
    if node.args.get("group") or node.args.get("having"):
        return True
    return any(next(aggregates_in(expression), None) is not None for expression in node.expressions)


def aggregates_in(node: Node) -> Iterator[Node]:
    """Yield the aggregates of an expression, without those of its subqueries."""
    from sqlglot import expressions as exp

    wrappers = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
    if isinstance(node, exp.Window):
        function: Node = node.this
        parts: list[Node] = [part for part in node.iter_expressions() if part is not function]
        while isinstance(function, wrappers):
            parts += [part for part in function.iter_expressions() if part is not function.this]
            function = function.this
        for part in (*function.iter_expressions(), *parts):
            yield from aggregates_in(part)
        return
    if isinstance(node, (exp.AggFunc, *wrappers)) and not isinstance(node, (exp.Grouping, exp.GroupingId)):
        yield node
        return
    if isinstance(node, (exp.Query, exp.Subquery)):
        return
    for child in node.iter_expressions():
        yield from aggregates_in(child)


# What other dialects mean in another way than DuckDB, where sqlglot's translation says the same. DuckDB does not
# evaluate it, as its values would be wrong without an error.


_SPARK = ("spark", "databricks")
_TRINO = ("trino", "presto", "athena")
_ROUNDING = (*_SPARK, *_TRINO, "bigquery", "snowflake")
"""Dialects whose casts to integers cut off, or round halves away from zero; DuckDB rounds halves to even numbers."""
_FROM_ONE = (*_SPARK, *_TRINO, "bigquery")
"""Dialects in which the position 0 of a text is its first character, and which count days of the week from 1."""


def other_meaning(root: Node, dialect: str) -> tuple[Node, str] | None:
    """Return a part that DuckDB would evaluate in another way, and the difference, or None.

    Examples
    --------
    >>> from sqlglot import parse_one
    >>> part, meaning = other_meaning(parse_one("SELECT percentile(x, 0.5) + 1 FROM t", read="spark"), "spark")
    >>> part.sql("spark"), meaning
    ('PERCENTILE(x, 0.5)', 'takes values between rows in another way')
    >>> other_meaning(parse_one("SELECT median(x) FROM t", read="spark"), "spark")
    """
    if dialect == "duckdb":
        return None
    for node in root.walk():
        meaning = _meaning(node, dialect)
        if meaning is not None:
            return node, meaning
    return None


def _meaning(node: Node, dialect: str) -> str | None:
    from sqlglot import expressions as exp

    part = node.name.upper() if isinstance(node, exp.Extract) else ""
    if isinstance(node, exp.Cast) and dialect in _ROUNDING and node.to.is_type(*exp.DataType.INTEGER_TYPES):
        is_whole = isinstance(node.this, exp.Literal) and node.this.this.isdigit()
        return None if is_whole else "treats fractions in another way"
    if isinstance(node, exp.Substring) and dialect in _FROM_ONE:
        start = node.args.get("start")
        is_usual = isinstance(start, exp.Literal) and start.this.isdigit() and int(start.this) > 0
        return None if start is None or is_usual else "counts positions up to 0 in another way"
    if (isinstance(node, exp.DayOfWeek) or part in ("DAYOFWEEK", "DOW")) and dialect in _FROM_ONE:
        return "counts days of the week in another way"
    if part == "WEEK" and dialect == "bigquery":
        return "counts weeks in another way"
    if isinstance(node, (exp.Skewness, exp.Kurtosis)):
        return "may have another formula"
    if isinstance(node, exp.Quantile) and dialect in _SPARK:
        return "takes values between rows in another way"
    if isinstance(node, exp.Anonymous) and dialect in _SPARK and node.name.lower() in ("weekday", "date_part"):
        return "counts days of the week in another way"
    return None
