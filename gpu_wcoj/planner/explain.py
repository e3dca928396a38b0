"""Plans as text: per delta path the seed, each variable with its extenders, and the arrangements in use."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpu_wcoj.circuit.recursion.rules import RANK, LoopPlan
from gpu_wcoj.join.path import Absent, AtomUse, Check, DeltaPath, DeltaQuery
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.trace.arrangement import ArrangementKey

ColumnName = Callable[[str, int], str]


def explain(plan: Plan, name_of: ColumnName, backend: str, semantics: str, route: str | None = None) -> str:
    """The plan for a person to read; `route` says which ticks run where, if there is a choice."""
    lines = [f"backend {backend}, {semantics} semantics"]
    if route is not None:
        lines.append(f"route: {route}")
    loop_of = {name: loop for loop in plan.loops for name in loop.widths}
    name_of = _with_ranks(name_of, plan.loops)
    for head in plan.order:
        lines.append("")
        note = "derivations are counted: its rows are distinct" if head in plan.counted else ""
        if head in plan.aliases:
            verb = "selects from" if plan.aliases[head].compared else "renames"
            note = f"only {verb} {plan.aliases[head].relation}: rules read that instead"
        if head in plan.groupings:
            grouping = plan.groupings[head]
            note = f"{grouping.op} by group: reads {_arrangement(grouping.source, name_of)}"
        if head in loop_of:
            note = _loop_note(head, loop_of[head])
        lines.append(f"{head}" + (f"   ({note})" if note else ""))
        if head in loop_of:
            for rule in (rule for rule in loop_of[head].rules if rule.head == head):
                lines.extend("  " + line for line in _query(rule.query, name_of))
                lines.append(f"    asked for the derivations of {'groups' if head in loop_of[head].best else 'rows'}")
                lines.extend("      " + line for line in _path(rule.asked.paths[0], name_of))
            continue
        for query in plan.queries[head]:
            lines.extend("  " + line for line in _query(query, name_of))
    alone = (queries for name, queries in plan.queries.items() if name not in loop_of)
    used = [key for queries in alone for query in queries for key in query.keys]
    used += [key for loop in plan.loops for key in loop.keys]
    lines.append("")
    lines.append("arrangements")
    for key in dict.fromkeys(used):
        count = used.count(key)
        lines.append(f"  {_arrangement(key, name_of)}" + (f"   used by {count} rules" if count > 1 else ""))
    return "\n".join(lines)


def _with_ranks(name_of: ColumnName, loops: Sequence[LoopPlan]) -> ColumnName:
    """Names of columns, the rank's too."""
    widths = {name: width for loop in loops for name, width in loop.widths.items()}
    return lambda relation, column: "rank" if column == widths.get(relation) else name_of(relation, column)


def _loop_note(head: str, loop: LoopPlan) -> str:
    """How a head of a loop is kept."""
    others = [name for name in loop.widths if name != head]
    kept = "the values that have been a group's best" if head in loop.best else "its rows"
    together = f", evaluated with {', '.join(others)}" if others else ""
    return f"recursive{together}: {kept} are kept with their ranks"


def _query(query: DeltaQuery, name_of: ColumnName) -> list[str]:
    lines = [query.rule]
    for number, path in enumerate(query.paths, 1):
        lines.append(f"  delta path {number}: change of {'!' if path.is_negated else ''}{_use(path.seed)}")
        lines.extend("    " + line for line in _path(path, name_of))
    return lines


def _path(path: DeltaPath, name_of: ColumnName) -> list[str]:
    lines = []
    if path.seed_conditions:
        lines.append("where " + ", ".join(map(str, path.seed_conditions)))
    bound = set(path.seed.variables)
    by_number = {use.atom: use for use in path.others}
    lines.extend(f"check {_extender(use, path, name_of)}" for use in path.others if set(use.variables) <= bound)
    lines.extend(_check(check, path, name_of) for check in path.seed_checks)
    for step in path.steps:
        if step.variable.startswith(RANK):  # what follows from the others
            continue
        extenders = [by_number[number] for number in step.atoms]
        verb = "look up" if len(extenders) == 1 else "intersect"
        shown = " with ".join(_extender(use, path, name_of) for use in extenders)
        where = f" where {', '.join(map(str, step.conditions))}" if step.conditions else ""
        lines.append(f"{step.variable}: {verb} {shown}{where}")
        lines.extend(f"  {_check(check, path, name_of)}" for check in step.checks)
    for variant in path.variants:
        names = ", ".join(step.variable for step in variant.steps)
        lines.append(f"or in the order {names}, where that begins with fewer values")
    return lines


def _check(check: Check, path: DeltaPath, name_of: ColumnName) -> str:
    if isinstance(check, Absent):
        return f"drop where {_extender(check.use, path, name_of)}"
    return f"then {check}"


def _extender(use: AtomUse, path: DeltaPath, name_of: ColumnName) -> str:
    when = "after" if use.atom < path.seed.atom else "before"
    return f"{_use(use)} {when}, by {_arrangement(use.key, name_of)}"


def _use(use: AtomUse) -> str:
    variables = sorted(zip(use.key.order, use.variables, strict=True))
    return f"{use.key.relation}({', '.join(name for _, name in variables if not name.startswith(RANK))})"


def _arrangement(key: ArrangementKey, name_of: ColumnName) -> str:
    order = ", ".join(name_of(key.relation, column) for column in key.order)
    where: Sequence[str] = [f"{name_of(key.relation, column)} = code {code}" for column, code in key.constants]
    where = [*where, *(f"{name_of(key.relation, a)} = {name_of(key.relation, b)}" for a, b in key.equal)]
    for column, op, other, code in key.compared:
        right = name_of(key.relation, other) if other is not None else f"code {code}"
        where = [*where, f"{name_of(key.relation, column)} {op} {right}"]
    return f"{key.relation}[{order}" + (f" | {', '.join(where)}]" if where else "]")
