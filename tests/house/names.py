"""Names and parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.house.sources import Function, Module, Sources, Violation

BANNED = frozenset(
    {
        "one", "own", "other", "others", "rest", "found", "given", "held", "kept", "known", "asked", "told", "wanted",
        "shown", "tried", "worked", "begun", "alike", "few", "most", "least", "last", "alone", "whole", "take", "of",
        "at", "number",
    }
)  # fmt: skip
"""Words that need a noun beside them."""
PREFIXES = ("most_", "fewest_", "least_")
MAX_PARAMETERS = 10


def banned_names(sources: Sources) -> Iterator[Violation]:
    """Names of modules, definitions, parameters and public variables that say nothing."""
    for module in sources.modules.values():
        if _is_banned(module.name.rpartition(".")[2]):
            yield Violation(module.address(), "name the module by a noun of the field")
        for name, node in module.definitions:
            if _is_banned(node.name):
                word = "class by a noun" if isinstance(node, ast.ClassDef) else "function by a verb and its object"
                yield Violation(module.address(name), f"name the {word}")
            if isinstance(node, Function):
                is_special = node.name.startswith("__")  # whose parameter Python itself calls `other`
                for parameter in _parameters(node):
                    if _is_banned(parameter) and not (is_special and parameter == "other"):
                        yield Violation(module.address(f"{name}({parameter})"), "name the thing that is passed")
        for name in _variables(module):
            last = name.rpartition(".")[2]
            if not last.startswith("_") and _is_banned(last):
                remedy = "name the thing" if last.casefold() in BANNED else "use max_... or min_..."
                yield Violation(module.address(name), remedy)


def many_parameters(sources: Sources) -> Iterator[Violation]:
    """Functions with more parameters than a reader can hold; ``self`` does not count."""
    for module in sources.modules.values():
        for name, node in module.definitions:
            if isinstance(node, Function):
                n_parameters = len([one for one in _parameters(node) if one not in ("self", "cls")])
                if n_parameters > MAX_PARAMETERS:
                    yield Violation(module.address(name), f"put some of the {n_parameters} parameters into a record")


def _is_banned(name: str) -> bool:
    plain = name.strip("_").casefold()
    return plain in BANNED or plain.startswith(PREFIXES)


def _parameters(node: Function) -> list[str]:
    arguments = node.args
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _variables(module: Module) -> Iterator[str]:
    """Variables of the module and of its classes, and attributes that methods set."""
    classes = [(name, node) for name, node in module.definitions if isinstance(node, ast.ClassDef)]
    for around, body in [("", module.tree.body), *((f"{name}.", node.body) for name, node in classes)]:
        yield from (around + name for statement in body for name in _assigned(statement, ast.Name))
    for around, node in classes:
        methods = [one for one in node.body if isinstance(one, Function)]
        found = [name for method in methods for one in ast.walk(method) for name in _assigned(one, ast.Attribute)]
        yield from (f"{around}.{name}" for name in dict.fromkeys(found))


def _assigned(statement: ast.AST, kind: type[ast.Name | ast.Attribute]) -> Iterator[str]:
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    for target in [inner for one in targets for inner in (one.elts if isinstance(one, ast.Tuple) else [one])]:
        if isinstance(target, kind):
            if isinstance(target, ast.Name):
                yield target.id
            elif isinstance(target.value, ast.Name) and target.value.id == "self":
                yield target.attr
