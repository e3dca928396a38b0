"""The sources of the packages: each file is read and parsed once."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("gpu_wcoj", "cpu_fallback")
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


@dataclass(frozen=True)
class Violation:
    """What is wrong at an address, ``module:qualname``, and what to do about it."""

    address: str
    remedy: str


@dataclass(frozen=True)
class Import:
    """An imported module, or a name of it; `place` is ``module``, ``TYPE_CHECKING`` or a function's qualified name."""

    module: str
    name: str | None
    place: str


@dataclass
class Module:
    """A file of a package; of a package itself, its ``__init__``."""

    name: str
    text: str
    is_package: bool = False

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[tuple[str, ast.AST]]:
        """All nodes, each with the qualified name of the definition around it."""
        return list(_walk(self.tree))

    @cached_property
    def definitions(self) -> list[tuple[str, Definition]]:
        """Classes and functions with their qualified names."""
        return [(_join(around, node.name), node) for around, node in self.nodes if isinstance(node, Definition)]

    @cached_property
    def imports(self) -> list[Import]:
        """Every import of the file, wherever it stands."""
        return list(_imports(self.tree, "module"))

    @cached_property
    def is_facade(self) -> bool:
        """Whether it is an ``__init__`` that only imports, names what it exports, and loads it when asked."""
        return self.is_package and all(map(_is_of_facade, self.tree.body))

    def address(self, name: str = "") -> str:
        """The address of a definition."""
        return f"{self.name}:{name}" if name else self.name


@dataclass
class Sources:
    """Modules by name, and the texts of the tracked files in Markdown by path."""

    modules: dict[str, Module]
    pages: dict[str, str] = field(default_factory=dict)

    @cached_property
    def imported(self) -> dict[str, set[str]]:
        """Per module the modules that it imports, anywhere in its file."""
        return {
            name: {target for one in module.imports if (target := self.target(one)) and target != name}
            for name, module in self.modules.items()
        }

    def target(self, statement: Import) -> str | None:
        """The module of ours that an import loads; None for others."""
        inner = f"{statement.module}.{statement.name}"
        return inner if inner in self.modules else statement.module if statement.module in self.modules else None

    def origin(self, statement: Import) -> str | None:
        """The module of ours that has what is imported, behind all facades."""
        target = self.target(statement)
        if target is None or not self.modules[target].is_facade or statement.module != target:
            return target
        for one in self.modules[target].imports:
            if one.name == statement.name and one != statement:
                return self.origin(one)
        return target


def read() -> Sources:
    """Read what is checked."""
    modules = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            modules[name] = Module(name, path.read_text(), is_package)
    return Sources(modules, {str(path.relative_to(ROOT)): path.read_text() for path in _pages()})


def _pages() -> list[Path]:
    """The tracked files in Markdown; outside a repository, those beside the packages."""
    command = ["git", "ls-files", "*.md"]
    try:
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return sorted(ROOT.glob("*.md"))
    return [path for path in map(ROOT.joinpath, listed.splitlines()) if path.exists()]


def docstring(node: ast.AST) -> str | None:
    """The docstring of a module or a definition."""
    return ast.get_docstring(node) if isinstance(node, ast.Module | Definition) else None


def _join(around: str, name: str) -> str:
    return f"{around}.{name}" if around else name


def _walk(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    stack: list[tuple[str, ast.AST]] = [("", tree)]
    while stack:
        around, node = stack.pop()
        if node is not tree:
            yield around, node
            around = _join(around, node.name) if isinstance(node, Definition) else around
        stack += [(around, child) for child in ast.iter_child_nodes(node)][::-1]


def _imports(node: ast.AST, place: str, around: str = "") -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, None, place) for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield from (Import(child.module, alias.name, place) for alias in child.names)
        elif isinstance(child, Definition):
            name = _join(around, child.name)
            yield from _imports(child, place if isinstance(child, ast.ClassDef) else name, name)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from _imports(ast.Module(child.body, []), "TYPE_CHECKING", around)
            yield from _imports(ast.Module(child.orelse, []), place, around)
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _imports(child, place, around)


def _is_of_facade(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        return all(isinstance(one, ast.Name) and one.id.startswith("_") for one in statement.targets)
    if isinstance(statement, ast.AnnAssign):
        return isinstance(statement.target, ast.Name) and statement.target.id.startswith("_")
    if isinstance(statement, Function):
        return statement.name in ("__getattr__", "__dir__")
    if isinstance(statement, ast.If):
        return all(map(_is_of_facade, statement.body))
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or isinstance(statement, (ast.Import, ast.ImportFrom))
