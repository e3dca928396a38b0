"""Semijoins and antijoins: rows with or without a match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpu_wcoj.query.ir import Atom, Call, Constant, Variable, variables_of
from gpu_wcoj.query.rules import Rule
from gpu_wcoj.query.sql.branch import Branch
from gpu_wcoj.query.sql.context import Context

_ZERO = Constant(0)


def antijoin(context: Context, row: Branch, base: Branch, pairs: Sequence[Branch]) -> list[Branch]:
    """Return the branch of rows of `row` that match none of `pairs`.

    `pairs` are branches that join `base`, an earlier state of `row`, with other relations.
    """
    if not pairs:
        return [row]
    head, keys, _ = _keys(context, base, pairs)
    negated = Atom(head, keys or (_ZERO,))
    return [replace(row, negated=(*row.negated, negated), safe=row.safe | frozenset(variables_of(keys)))]


def semijoin(context: Context, row: Branch, base: Branch, pairs: Sequence[Branch]) -> list[Branch]:
    """Return the branch of rows of `row` that match one of `pairs`, with their weights."""
    if not pairs:
        return []
    head, keys, solid = _keys(context, base, pairs)
    if head in context.recursing:  # a set, as all relations of a recursion are
        atom = Atom(head, keys or (context.fresh("_"),))
    else:
        once = distinct(context, head, len(keys) or 1)
        atom = Atom(once, (*(keys or (context.fresh("_"),)), context.fresh("_")))
    result = row.required(solid)
    return [replace(result, atoms=(*result.atoms, atom), safe=result.safe | frozenset(keys))]


def distinct(context: Context, head: str, n_columns: int) -> str:
    """Add a relation of the rows of a head, each once with its weight; return its name."""
    name = context.helper("once")
    terms = tuple(Variable(f"c{i}") for i in range(n_columns))
    context.rules.append(Rule(Atom(name, (*terms, Call("count", ()))), (Atom(head, terms),)))
    return name


def _keys(
    context: Context, row: Branch, pairs: Sequence[Branch]
) -> tuple[str, tuple[Variable, ...], frozenset[Variable]]:
    """Return the relation of the keys by which `pairs` match a row.

    The result is its name, the variables of the row, and those of them that are never null.

    The rule of a pair has only the atoms that the row lacks if they bind these variables, else also those of the row.
    """
    row_variables = row.variables
    added = [_added(row, pair) for pair in pairs]
    shared = {
        variable
        for pair in added
        for variable in (*pair.variables, *(pair.solid - row.solid - row.non_null))
        if variable in row_variables
    }
    keys = tuple(sorted(shared, key=_creation_order))
    head = context.helper("keys")
    for pair, full_pair in zip(added, pairs, strict=True):
        bound = {term for atom in pair.atoms for term in atom.terms}
        is_free = all(key in bound for key in keys) and all(
            variable in bound for variable in pair.variables if variable in row_variables
        )
        branch = pair if is_free else replace(full_pair, negated=pair.negated)
        for name in (atom.relation for atom in branch.atoms if atom.relation in context.recursing):
            context.recursing[head] = context.recursing[name]
        context.write(head, replace(branch, values={}), keys or (_ZERO,))
    solid = frozenset(key for key in keys if all(key in pair.solid for pair in pairs))
    return head, keys, solid


def _added(row: Branch, pair: Branch) -> Branch:
    """Return the atoms and conditions of a pair that the row does not have."""
    atoms = pair.atoms[len(row.atoms) :]
    negated = pair.negated[len(row.negated) :]
    comparisons = pair.comparisons[len(row.comparisons) :]
    return replace(pair, atoms=atoms, negated=negated, comparisons=comparisons)


def _creation_order(variable: Variable) -> tuple[int, str]:
    return int(variable.name.rsplit("#", 1)[-1]), variable.name
