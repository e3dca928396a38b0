"""clingo: its grounder evaluates stratified programs, by semi-naive evaluation over symbols, on one thread."""

from __future__ import annotations

import time
from collections.abc import Mapping

import clingo

from bench.recursion.tasks import Rows, Task
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import Atom, Variable


def ground(task: Task, inputs: Mapping[str, Rows]) -> tuple[float, dict[str, int]]:
    """Seconds to ground the program, the facts being read already, and the atoms of each derived relation."""
    rules = parse(task.text).rules
    arity = {rule.head.relation: len(rule.head.terms) for rule in rules}
    control = clingo.Control()
    text = [f"{_shown(rule.head)} :- {', '.join(map(_shown, rule.atoms))}." for rule in rules]
    for name, rows in inputs.items():
        text += [f"{name}({', '.join(map(str, row))})." for row in rows.tolist()]
    control.add("base", [], "\n".join(text))
    start = time.perf_counter()
    control.ground([("base", [])])
    seconds = time.perf_counter() - start
    symbols = control.symbolic_atoms
    return seconds, {name: sum(1 for _ in symbols.by_signature(name, width)) for name, width in arity.items()}


def _shown(atom: Atom) -> str:
    """The atom in clingo's text: variables begin with a capital."""
    terms = [f"V{term.name}" if isinstance(term, Variable) else str(term) for term in atom.terms]
    return f"{atom.relation}({', '.join(terms)})"
