"""Docstrings, units of constants, messages and pages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.house.sources import Module, Sources, Violation, docstring

FIRST_WORDS = frozenset({"what", "whether", "where", "how", "of", "which", "those", "that", "so"})
MAX_LINE = 90
MAX_PARAGRAPH = 700
UNITS = re.compile(
    r"\b(rows?|columns?|bytes|bits?|KiB|MiB|GiB|seconds?|minutes?|days?|ms|milliseconds?|us|microseconds?|ns"
    r"|nanoseconds?|probes?|prefix(es)?|values?|ticks?|times|iterations?|passes|ratio|share|factor|percent|batch(es)?"
    r"|levels?|atoms?|variables?|rules?|paths?|keys?|entries|lines?|characters?|digits|threads?|blocks?|warps?|lanes"
    r"|launch(es)?|files?|slots?|words?|elements?|positions?|places?|index|offset|code|version|exponent|seed|attempts?"
    r"|tasks?|processes|partitions?|cells?|names?|proposals|searches|loads|steps?|candidates|queries|programs"
    r"|folders|runs|arguments|conjunctions|sides|hops|terms|constants|branches|joins|checkpoints|links|ids|edges|seeds"
    r"|changes|survivors|flag|status|fraction)\b",
    re.IGNORECASE,
)
"""Words that say what a number counts; a docstring with none of them states no unit."""
IS_NO = re.compile(r"(?<!\bthere )\bis no (\w|$)", re.IGNORECASE)
LIST_ITEM = re.compile(r"\s*([-*+]|\d+[.)])\s")


def first_words(sources: Sources) -> Iterator[Violation]:
    """Docstrings that begin neither with a verb nor with a noun phrase."""
    for address, line in _first_lines(sources):
        word = re.match(r"\w*", line)
        if word and word[0].casefold() in FIRST_WORDS:
            yield Violation(address, f"begin the docstring with a verb or a noun phrase, not with '{word[0]}'")


def first_lengths(sources: Sources) -> Iterator[Violation]:
    """Docstrings with a long first line."""
    for address, line in _first_lines(sources):
        if len(line) > MAX_LINE:
            yield Violation(address, f"shorten the docstring's first line from {len(line)} to {MAX_LINE} characters")


def _first_lines(sources: Sources) -> Iterator[tuple[str, str]]:
    for module in sources.modules.values():
        for name, node in [("", module.tree), *module.definitions]:
            text = docstring(node)
            if text:
                yield module.address(name), text.splitlines()[0]


def units(sources: Sources) -> Iterator[Violation]:
    """Numeric constants of modules without a docstring that states a unit."""
    for module in sources.modules.values():
        for name, text in _constants(module):
            if not UNITS.search(text or ""):
                yield Violation(module.address(name), "state the unit in a docstring below: rows, bytes, seconds, ...")


def _constants(module: Module) -> Iterator[tuple[str, str | None]]:
    """Numeric constants, each with the docstring below it or below the lines of constants that it stands in."""
    body = module.tree.body
    for index, statement in enumerate(body):
        name = _constant(statement)
        if name is None:
            continue
        end = index
        while end + 1 < len(body) and _constant(body[end + 1]) and body[end + 1].lineno - 1 == body[end].end_lineno:
            end += 1
        below = body[end + 1] if end + 1 < len(body) else None
        is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        yield name, str(below.value.value) if is_text else None


def _constant(statement: ast.stmt) -> str | None:
    """The name of a numeric constant that a statement defines."""
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
        return None
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    is_number = _is_number(statement.value)
    return target.id if isinstance(target, ast.Name) and target.id.isupper() and is_number else None


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def is_no(sources: Sources) -> Iterator[Violation]:
    """Texts that say "X is no Y", docstrings aside."""
    for module in sources.modules.values():
        texts = {id(node.value) for _, node in module.nodes if isinstance(node, ast.Expr)}
        for around, node in module.nodes:
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts
            if is_text and (match := IS_NO.search(node.value)):
                shown = node.value[match.start() : match.start() + 20].splitlines()[0]
                yield Violation(module.address(around), f"say what was expected and what it got, not '{shown}'")


def long_paragraphs(sources: Sources) -> Iterator[Violation]:
    """Paragraphs of pages that are too long; code and tables aside."""
    for path, text in sources.pages.items():
        for paragraph in _paragraphs(text):
            if len(paragraph) > MAX_PARAGRAPH:
                address = f"{path}:{' '.join(paragraph.split()[:6])}"
                yield Violation(address, f"split the paragraph: {len(paragraph)} characters, at most {MAX_PARAGRAPH}")


def _paragraphs(text: str) -> Iterator[str]:
    lines: list[str] = []
    fence = ""
    for line in [*text.splitlines(), ""]:
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        elif fence or line.lstrip().startswith("|"):
            continue
        elif line.strip() and not LIST_ITEM.match(line) and not line.startswith("#"):
            lines.append(line.strip())
            continue
        if lines:
            yield " ".join(lines)
        lines = [line.strip()] if not mark and LIST_ITEM.match(line) else []
    if lines:
        yield " ".join(lines)
