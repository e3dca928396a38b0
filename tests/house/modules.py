"""Modules: who imports them, how long they are, what they show."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

from tests.house.sources import PACKAGES, Sources, Violation

MIN_LINES = 80


def single_importers(sources: Sources) -> Iterator[Violation]:
    """Modules that one other module imports, facades aside."""
    importers: dict[str, set[str]] = {name: set() for name in sources.modules}
    for name, module in sources.modules.items():
        for statement in module.imports:
            target = sources.origin(statement)
            if target and target != name:
                importers[target].add(name)
    for name, found in importers.items():
        if len(found) == 1 and not sources.modules[name].is_facade:
            (importer,) = found
            if not sources.modules[importer].is_facade:
                yield Violation(name, f"move it into {importer}, its only importer")


def short_files(sources: Sources) -> Iterator[Violation]:
    """Files of few lines, facades aside."""
    for name, module in sources.modules.items():
        n_lines = len(module.text.splitlines())
        if n_lines < MIN_LINES and not module.is_facade:
            yield Violation(name, f"join its {n_lines} lines with the module that they belong to")


def hidden_imports(sources: Sources) -> Iterator[Violation]:
    """Imports of the package itself inside functions and for types only."""
    for name, module in sources.modules.items():
        package = name.partition(".")[0]
        for statement in module.imports:
            target = sources.target(statement)
            if statement.place != "module" and target and target.partition(".")[0] == package:
                address = f"{module.address(statement.place)} imports {target}"
                yield Violation(address, "import it at the top of the file, or move what needs it")


def public_names(sources: Sources) -> Iterator[Violation]:
    """Names that a package shows and does not export."""
    package = importlib.import_module(PACKAGES[0])
    for name in sorted({*dir(package)} - {*package.__all__}):
        if not (name.startswith("__") and name.endswith("__")):
            yield Violation(f"{PACKAGES[0]}:{name}", "add it to __all__, or let __dir__ leave it out")


def circles(sources: Sources) -> Iterator[Violation]:
    """Modules that import themselves by way of others, whatever the place of the imports."""
    for component in components(sources.imported):
        for name in sorted(component):
            inside = sorted(sources.imported[name] & component)
            yield Violation(name, f"break the circle of {len(component)} modules: it imports {', '.join(inside)}")


def components(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected components of more than one node (Tarjan 1972, doi:10.1137/0201010)."""
    order: dict[str, int] = {}
    lows: dict[str, int] = {}
    stack: list[str] = []
    result: list[set[str]] = []

    def visit(node: str) -> None:
        order[node] = lows[node] = len(order)
        stack.append(node)
        for target in sorted(graph[node]):
            if target not in order:
                visit(target)
                lows[node] = min(lows[node], lows[target])
            elif target in stack:
                lows[node] = min(lows[node], order[target])
        if lows[node] == order[node]:
            component = set(stack[stack.index(node) :])
            del stack[stack.index(node) :]
            if len(component) > 1:
                result.append(component)

    for node in graph:
        if node not in order:
            visit(node)
    return result
