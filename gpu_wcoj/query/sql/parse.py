"""A text in SQL to `Rules`: statements, and the relations that they define."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpu_wcoj.errors import BackendUnavailableError, SqlSyntaxError, UsageError
from gpu_wcoj.query.checks import check
from gpu_wcoj.query.sql.compiler import Compiler
from gpu_wcoj.query.sql.context import Derived
from gpu_wcoj.query.sql.known import called, check_parts
from gpu_wcoj.query.sql.place import Place
from gpu_wcoj.query.sql.scope import matching
from gpu_wcoj.query.terms import Declaration, Rules

if TYPE_CHECKING:
    from sqlglot.expressions import Expression as Node

TEXT_BYTES = 1_000_000
"""The longest text, in bytes of UTF-8."""
NESTING = 100
"""How deep expressions and queries may stand within each other."""
ANSWER = "answer"
"""What the rows of a SELECT without CREATE VIEW are called."""


def parse(
    text: str,
    tables: Mapping[str, Sequence[str] | Mapping[str, str | None]],
    *,
    dialect: str = "duckdb",
    source: str = "<text>",
) -> Rules:
    """The rules that views in SQL come to; they are meant for a program with ``bag=True``.

    Parameters
    ----------
    text
        ``CREATE VIEW name AS SELECT ...`` once or several times, with ``;`` between, or one SELECT.
    tables
        Per table the names of its columns, or their types by name, as Arrow spells them (None if not known).
    dialect
        One of sqlglot's.
    source
        What messages call the text.

    Raises
    ------
    SqlSyntaxError
        If the text is no SQL.
    UnknownRelationError, ColumnError
        If it names what is not there.
    UnsupportedError
        For SQL that has no place in a view that is kept, with what to write instead.
    TypeMismatchError
        If types do not fit.
    BackendUnavailableError
        If sqlglot is not installed.

    Examples
    --------
    >>> print(parse("SELECT e.src a, f.dst b FROM edge e JOIN edge f ON e.dst = f.src", {"edge": ["src", "dst"]}))
    .decl edge(src, dst)
    .decl answer(a, b)
    answer(src, dst_2) :- edge(src, dst), edge(dst, dst_2).
    .output answer
    """
    if not isinstance(text, str):
        raise UsageError(f"a query is text (str), not {type(text).__name__}.")
    n_bytes = len(text.encode("utf-8", "surrogatepass"))
    if n_bytes > TEXT_BYTES:
        raise UsageError(f"the text has {n_bytes:,} bytes; {TEXT_BYTES:,} are allowed.")
    place = Place(text, source)
    known = {
        name: dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns)
        for name, columns in tables.items()
    }
    compiler = Compiler(place, dialect, known)
    statements = _statements(text, dialect, place)
    outputs: list[str] = []
    found: dict[str, Derived] = {}
    for node in statements:
        name, derived = _statement(compiler, node, found, single=len(statements) == 1)
        found[name] = derived
        compiler.views[name] = derived
        outputs.append(compiler.named(derived, head=name))
    return _rules(compiler, found, known, source)


def _statements(text: str, dialect: str, place: Place) -> list[Node]:
    try:
        import sqlglot
    except ImportError:
        raise BackendUnavailableError(
            "views in SQL need sqlglot, which is not installed.\n  Install the extra: pip install 'gpu_wcoj[sql]'"
        ) from None
    from sqlglot.errors import ParseError, SqlglotError

    try:
        tokens = sqlglot.tokenize(text, read=dialect)
        _check_nesting(tokens, place)
        found = [one for one in sqlglot.parse(text, read=dialect) if one is not None]
    except ParseError as error:
        raise _explained(error, place) from None
    except SqlglotError as error:
        raise SqlSyntaxError(str(error).split("\n")[0], text, 1, 1, 1, place.source) from None
    except ValueError as error:
        raise UsageError(f"{str(error).rstrip('.')}.") from None
    except RecursionError:
        raise SqlSyntaxError("this nests too deep", text, 1, 1, 1, place.source) from None
    if not found:
        raise SqlSyntaxError("there is no statement; write SELECT or CREATE VIEW", text, 1, 1, 1, place.source)
    return found


def _check_nesting(tokens: Sequence[Any], place: Place) -> None:
    depth = 0
    for token in tokens:
        kind = token.token_type.name
        depth += (kind in ("L_PAREN", "CASE")) - (kind in ("R_PAREN", "END"))
        if depth > NESTING:
            raise SqlSyntaxError(
                f"this nests more than {NESTING} deep", place.text, *place.at(token.start, 1), place.source
            )


def _explained(error: Any, place: Place) -> SqlSyntaxError:
    first = error.errors[0] if error.errors else {}
    what = str(first.get("description") or str(error).split("\n")[0]).rstrip(".")
    marked = str(first.get("highlight") or "")
    line, column = int(first.get("line") or 1), int(first.get("col") or 1)
    column = max(1, column - len(marked) + 1)
    return SqlSyntaxError(f"{what[:1].lower()}{what[1:]}", place.text, line, column, max(1, len(marked)), place.source)


def _statement(compiler: Compiler, node: Node, found: Mapping[str, Derived], single: bool) -> tuple[str, Derived]:
    from sqlglot import expressions as exp

    place = compiler.place
    if not isinstance(node, exp.Create):
        if not isinstance(node, (exp.Query, exp.Subquery, exp.Values)):
            raise place.refused(f"{called(node)} is not supported", node, "Write SELECT or CREATE VIEW name AS SELECT.")
        name = ANSWER
        while name in found or name in compiler.tables:
            name += "_"
        return name, compiler.query(node, None)
    check_parts(node, place, "this", "kind", "expression", "replace", "exists", "with_")
    if node.args.get("kind") != "VIEW" or node.expression is None:
        raise place.refused(
            f"CREATE {node.args.get('kind')} is not supported", node, "Write CREATE VIEW name AS SELECT."
        )
    target, names = node.this, []
    if isinstance(target, exp.Schema):
        check_parts(target, place, "this", "expressions")
        names = [one.name for one in target.expressions]
        target = target.this
    check_parts(target, place, "this")
    name = target.name
    if matching(name, False, [*found, *compiler.tables]):
        raise place.wrong(f"there is a relation '{name}' already", target)
    return name, compiler.with_names(compiler.query(node.expression, None), names, target)


def _rules(
    compiler: Compiler, found: Mapping[str, Derived], known: Mapping[str, Mapping[str, str | None]], source: str
) -> Rules:
    from gpu_wcoj.query.declared import declared_type

    del declared_type
    read = dict.fromkeys(atom.relation for rule in compiler.rules for atom in rule.read)
    inputs = [Declaration(name, tuple(known[name]), tuple(known[name].values())) for name in read if name in known]
    outputs = [Declaration(name, one.columns, (None,) * len(one.columns)) for name, one in found.items()]
    rules = Rules(tuple(compiler.rules), (*inputs, *outputs), tuple(found))
    check(rules, source=source)
    return rules
