"""Options of a program: validation and defaults."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from gpu_wcoj.data.schema import INT64, DataType, check_names
from gpu_wcoj.errors import (
    SchemaError,
    UnknownRelationError,
    UnsupportedError,
    UnsupportedTypeError,
    UsageError,
    listed,
)
from gpu_wcoj.planner.ir import STRATEGIES, Strategy
from gpu_wcoj.planner.types import Types, names_of
from gpu_wcoj.query.datalog import declared_type
from gpu_wcoj.query.ir import Aggregate, Rule, Rules, Variable
from gpu_wcoj.query.safety import inner_aggregates

Names = dict[str, tuple[str, ...]]
"""Per relation, the names of its columns."""

Narrow = dict[str, tuple[DataType | None, ...]]
"""Per input, the declared integer types of its columns that are narrower than int64; else None."""


def declared_columns(
    rules: Rules,
    core: Rules,
    arity: Mapping[str, int],
    schema: Mapping[str, Sequence[str] | Mapping[str, str]],
    bag: bool,
) -> tuple[Types, Names, Names, Narrow]:
    """Return the types and names of columns before any row.

    The parts are: types, names, declared names, and the narrow integer types.

    Parameters
    ----------
    rules, core
        The program as it is written, and in core form.

    Raises
    ------
    UnknownRelationError, SchemaError
        If the schema names another relation, or gives other columns than the rules use.
    """
    types = Types(core, bag)
    names: Names = {**names_of(core), **names_of(rules)}
    by_declaration = {declaration.relation: declaration.columns for declaration in core.declarations}
    for declared_relation in core.declarations:
        kinds = [None if kind is None else DataType(kind) for kind in declared_relation.types]
        types.bind(
            declared_relation.relation, kinds, [f"{i} ('{name}')" for i, name in enumerate(declared_relation.columns)]
        )
    for name, column_kinds in schema.items():
        if name not in rules.inputs:
            raise UnknownRelationError(name, rules.inputs, "inputs")
        if isinstance(column_kinds, Mapping):
            check_names(column_kinds, f"the schema of relation '{name}'")
            by_declaration[name] = names[name] = tuple(column_kinds)
            column_kinds = list(column_kinds.values())
        if isinstance(column_kinds, str):
            raise SchemaError.wrong_type(
                f"schema[{name!r}]",
                column_kinds,
                "a list of types or a mapping from names to types",
                f"Write {{{name!r}: [{column_kinds!r}, ...]}}, or {{{name!r}: {{'column': {column_kinds!r}, ...}}}}.",
            )
        if len(column_kinds) != arity[name]:
            raise SchemaError.mismatch(
                f"the schema of relation '{name}'",
                "has the wrong number of columns",
                len(column_kinds),
                f"{arity[name]}, as in the program",
            )
        types.bind(name, [_type_of(name, kind) for kind in column_kinds])
    return types, names, by_declaration, _narrow(rules, schema)


def _narrow(rules: Rules, schema: Mapping[str, Sequence[str] | Mapping[str, str]]) -> Narrow:
    """Return the narrow types that declarations and the schema give inputs."""
    said = {declaration.relation: declaration.types for declaration in rules.declarations if declaration.is_binding}
    said |= {name: tuple(kinds.values() if isinstance(kinds, Mapping) else kinds) for name, kinds in schema.items()}
    narrow = {}
    for name in rules.inputs:
        kinds = [None if kind is None else DataType(declared_type(str(kind))) for kind in said.get(name, ())]
        narrow_kinds = tuple(
            kind if kind is not None and kind.family == "integer" and kind.code_range != INT64.code_range else None
            for kind in kinds
        )
        if any(narrow_kinds):
            narrow[name] = narrow_kinds
    return narrow


def _type_of(relation: str, kind: object) -> DataType:
    try:
        return DataType(declared_type(str(kind)))
    except UnsupportedTypeError as error:
        raise SchemaError(f"the schema of relation '{relation}': {error}") from None


def validate_heads(names: Sequence[str], option: str, heads: Sequence[str]) -> tuple[str, ...]:
    """Return the heads that an option lists, without duplicates."""
    if isinstance(names, str):
        raise UsageError.invalid_value(option, names, "a list of heads", f"Write {option}=[{names!r}].")
    for name in names:
        if name not in heads:
            raise UnknownRelationError(name, heads, "heads")
    return tuple(dict.fromkeys(names))


def validate_inputs(names: Sequence[str] | None, rules: Rules) -> tuple[str, ...] | None:
    """Return the input relations that an option lists, without duplicates; None if omitted.

    Raises
    ------
    UsageError
        If it is not a list of names.
    UnknownRelationError
        If no rule reads such a relation, or rules define it.
    """
    if names is None:
        return None
    candidate: object = names
    if isinstance(candidate, (str, bytes, Mapping)) or not isinstance(candidate, Collection):
        raise UsageError.wrong_type(
            "the option 'inputs'",
            candidate,
            "a list of names",
            "Write inputs=['edge']; types of columns go into schema={'edge': ['int64', 'int64']}.",
        )
    for name in candidate:
        if name not in rules.inputs:
            raise UnknownRelationError(name, rules.inputs, "relations that rules read and none defines")
    return tuple(dict.fromkeys(names))


def validate_strategy(strategy: str) -> Strategy:
    """Return the strategy of this name."""
    for name in STRATEGIES:
        if name == strategy:
            return name
    raise UsageError.invalid_value("strategy", strategy, f"one of {listed(STRATEGIES)}")


def validate_order(order: Mapping[str, Sequence[str]] | None, rules: Rules) -> dict[str, tuple[str, ...]]:
    """Return per head the order in which variables are bound.

    Raises
    ------
    UsageError
        If it is not a mapping from heads to lists of distinct variables of positive atoms of their rules.
    UnknownRelationError
        If there is no such head.
    """
    expected = "a mapping from heads to variables"
    if order is not None and not isinstance(order, Mapping):
        raise UsageError.invalid_value("order", order, expected, "Write order={'head': ['x', 'y']}.")
    validated = {}
    for head, names in (order or {}).items():
        if not isinstance(head, str):
            raise UsageError.invalid_value("order", order, expected, "Write order={'head': ['x', 'y']}.")
        if head not in rules.heads:
            raise UnknownRelationError(head, rules.heads, "heads")
        variables: object = names
        is_list = isinstance(variables, Sequence) and not isinstance(variables, str)
        if not is_list or not all(isinstance(name, str) for name in names):
            raise UsageError.invalid_value(
                "order", order, f"a list of variables for '{head}'", f"Write order={{{head!r}: ['x', 'y']}}."
            )
        bodies = [rule for rule in rules.rules if rule.head.relation == head]
        bound_names = [
            variable.name for rule in bodies for variable in _positive_variables(rule) if not variable.is_wildcard
        ]
        allowed = list(dict.fromkeys(bound_names))
        for name in names:
            if name not in allowed:
                is_negated = any(variable.name == name for rule in bodies for variable in _negated_variables(rule))
                which, why = ("only a negated", ", which does not bind it") if is_negated else ("no", "")
                raise UsageError.with_parts(
                    f"order={{{head!r}: {list(names)!r}}}: {which} atom in a rule of '{head}' has a variable '{name}'"
                    f"{why}",
                    subject="order",
                    got=name,
                    remedy=f"Variables of atoms that are not negated are allowed: {listed(allowed)}.",
                )
        twice = [name for name in names if list(names).count(name) > 1]
        if twice:
            raise UsageError.duplicate("variable", twice[0], f"in order[{head!r}]", "Name each variable once.")
        validated[head] = tuple(names)
    return validated


def _positive_variables(body: Rule | Aggregate) -> Iterator[Variable]:
    """Yield the variables of positive atoms of a body, those in braces included."""
    for atom in body.atoms:
        yield from atom.variables
    for inner in inner_aggregates(body):
        yield from _positive_variables(inner)


def _negated_variables(body: Rule | Aggregate) -> Iterator[Variable]:
    """Yield the variables of negated atoms of a body, those in braces included."""
    for atom in body.negated:
        yield from atom.variables
    for inner in inner_aggregates(body):
        yield from _negated_variables(inner)


def check_inputs(changes: object, inputs: Sequence[str], heads: Sequence[str]) -> None:
    """Raise unless the changes are a mapping from input relations.

    Raises
    ------
    UsageError, SchemaError, UnknownRelationError
        If they are not a mapping, name a head, or name an unknown relation.
    """
    if not isinstance(changes, Mapping):
        raise UsageError.mismatch(
            "the argument 'changes'",
            "has the wrong type",
            type(changes).__name__,
            "a mapping from input relations to rows",
        )
    for name in changes:
        if name in inputs:
            continue
        if name in heads:
            raise SchemaError.with_parts(
                f"relation '{name}' is defined by rules and takes no rows",
                subject=name,
                remedy=f"The inputs are: {listed(inputs)}. A line '.input {name}' makes the head an input, too.",
            )
        raise UnknownRelationError(name, inputs, "inputs")


def validate_flag(option: str, value: object) -> bool:
    """Return an option that must be True or False.

    Raises
    ------
    UsageError
        If it is anything else.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise UsageError.invalid_value(option, value, "True or False")
    return bool(value)


def validate_positive(option: str, value: object, default: int) -> int:
    """Return an option that must be an integer of at least 1; None stands for `default`."""
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise UsageError.invalid_value(option, value, "an integer from 1 on, or None")
    return int(value)


def validate_factor(option: str, value: object) -> float | None:
    """Return an option that must be a number between 1 and 1e300, or None.

    The upper bound keeps products with it finite.

    Examples
    --------
    >>> validate_factor("replan", 4), validate_factor("replan", None)
    (4.0, None)
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)) or not 1 < value < 1e300:
        raise UsageError.invalid_value(option, value, "a number above 1 and below 1e300, or None for never")
    return float(value)


def processors() -> int:
    """Return the number of processors that this process may use; all if unknown."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


# Checks for programs that share the work of ticks with copies of the same state.


def check_share(share_index: int, n_shares: int) -> None:
    """Raise for a share index outside the number of shares."""
    if not 0 <= share_index < n_shares:
        raise UsageError.invalid_value("number", share_index, f"0 to {n_shares - 1}")


def check_shareable(rules: Rules, core: Rules, keep: Collection[str], counted: Collection[str]) -> None:
    """Raise for a program whose shares do not add up to its complete change.

    Parameters
    ----------
    rules, core
        The program as it is written, and in core form.
    keep
        Heads whose answers are stored.
    counted
        Heads whose derivations are counted.

    Examples
    --------
    >>> from gpu_wcoj.query.desugar import desugar
    >>> from gpu_wcoj.query.datalog import parse
    >>> rules = parse("few(a) :- edge(a, b), !big(b).")
    >>> check_shareable(rules, desugar(rules), (), ())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    gpu_wcoj.errors.UnsupportedError: sharing the work of head 'few' is not supported: ...
      Run the program in one process.
    """
    read = {atom.relation for rule in rules.rules for atom in rule.read}
    stateful = [name for name in rules.heads if name in read or name in keep]
    stateful += sorted(counted)
    stateful += [grouping.relation for grouping in core.groupings]
    negating = [rule.head.relation for rule in core.rules if rule.negated]
    if negating and not stateful:
        raise UnsupportedError.unsupported(
            f"sharing the work of head '{negating[0]}'",
            "its rules use negation, so one worker could retract what another derived",
            "Run the program in one process.",
        )
    if stateful:
        raise UnsupportedError.unsupported(
            f"sharing the work of head '{stateful[0]}'",
            "it has state that depends on the changes of all workers",
            "Let it keep all variables in one rule, and combine the shares elsewhere.",
        )
