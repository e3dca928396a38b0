"""Options of a program, each declared and validated once."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Final, Literal, TypedDict, cast

import numpy as np

from gpu_wcoj.backend import Backend, BackendName, validate_backend
from gpu_wcoj.budget import Budget
from gpu_wcoj.data.schema import INT64, DataType, check_names, declared_type
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
from gpu_wcoj.query.ir import Aggregate, Rule, Rules, Variable, functions_by_name
from gpu_wcoj.query.safety import inner_aggregates
from gpu_wcoj.query.stratify import unread
from gpu_wcoj.trace.spine import MergePolicy
from gpu_wcoj.units import machine_memory, part_of
from gpu_wcoj.user_functions import Function

# The record of options. Functions that users call spell them out again, because editors show signatures, and `Program`
# documents them; `tests/engine/test_options.py` compares these with the record.


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


def validate_integer(option: str, value: object) -> int | None:
    """Return an option that must be an integer of at least 1, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise UsageError.invalid_value(option, value, "an integer from 1 on, or None")
    return int(value)


def validate_positive(option: str, value: object, default: int) -> int:
    """Return an option that must be an integer of at least 1; None stands for `default`."""
    return validate_integer(option, value) or default


def validate_number(option: str, value: object, above: float, below: float, expected: str) -> float | None:
    """Return an option that must be a number between two bounds, or None.

    Examples
    --------
    >>> validate_number("replan", 4, 1, 1e300, "a number above 1"), validate_number("replan", None, 1, 1e300, "")
    (4.0, None)
    """
    if value is None:
        return None
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not is_number or not above < cast(float, value) < below:
        raise UsageError.invalid_value(option, value, expected)
    return float(cast(float, value))


_validate_seconds = partial(
    validate_number, above=0, below=1e9, expected="seconds above 0 and below 1e9, or None for no limit"
)
_validate_factor = partial(  # below 1e300, so that products with it are finite
    validate_number, above=1, below=1e300, expected="a number above 1 and below 1e300, or None for never"
)


def validate_memory(option: str, value: float | str | None, whose: str) -> float | str | None:
    """Return an option that must be an amount of memory; its owner may turn out to have less."""
    if value is not None:
        part_of(1 << 62, value, option, whose)
    return value


def validate_route(option: str, value: object) -> str | int:
    """Return an option that must be a side of a tick, or a number of changed rows."""
    if isinstance(value, str) and value in ("auto", "device", "cpu"):
        return value
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 0:
        return int(value)
    raise UsageError.invalid_value(
        option,
        value,
        "'auto', 'device', 'cpu', or the number of changed rows from which a tick runs on the device",
    )


def validate_strategy(option: str, value: object) -> Strategy:
    """Return the strategy of this name."""
    for name in STRATEGIES:
        if isinstance(value, str) and name == value:
            return name
    raise UsageError.invalid_value(option, value, f"one of {listed(STRATEGIES)}")


def validate_heads(option: str, value: object) -> tuple[str, ...] | None:
    """Return an option that must be a list of heads, without duplicates, or None."""
    if value is None:
        return None
    if isinstance(value, str):
        raise UsageError.invalid_value(option, value, "a list of heads", f"Write {option}=[{value!r}].")
    if not isinstance(value, Collection) or not all(isinstance(name, str) for name in value):
        raise UsageError.invalid_value(option, value, "a list of heads", f"Write {option}=['head'].")
    return tuple(dict.fromkeys(value))


def validate_inputs(option: str, value: object) -> tuple[str, ...] | None:
    """Return an option that must be a list of relations, without duplicates, or None."""
    if value is None:
        return None
    is_list = isinstance(value, Collection) and not isinstance(value, (str, bytes, Mapping))
    if not is_list or not all(isinstance(name, str) for name in cast(Collection[object], value)):
        raise UsageError.wrong_type(
            f"the option '{option}'",
            value,
            "a list of names",
            "Write inputs=['edge']; types of columns go into schema={'edge': ['int64', 'int64']}.",
        )
    return tuple(dict.fromkeys(cast(Collection[str], value)))


def validate_order(option: str, value: object) -> dict[str, tuple[str, ...]] | None:
    """Return an option that must be a mapping from heads to lists of variables, or None."""
    if value is None:
        return None
    remedy = "Write order={'head': ['x', 'y']}."
    if not isinstance(value, Mapping) or not all(isinstance(head, str) for head in value):
        raise UsageError.invalid_value(option, value, "a mapping from heads to variables", remedy)
    for head, names in value.items():
        is_list = isinstance(names, Sequence) and not isinstance(names, str)
        if not is_list or not all(isinstance(name, str) for name in names):
            raise UsageError.invalid_value(
                option, value, f"a list of variables for '{head}'", f"Write order={{{head!r}: ['x', 'y']}}."
            )
    return {head: tuple(names) for head, names in value.items()}


def validate_schema(option: str, value: object) -> Mapping[str, Sequence[str] | Mapping[str, str]] | None:
    """Return an option that must be a mapping from relations to types of columns, or None."""
    if value is not None and not isinstance(value, Mapping):
        raise UsageError.invalid_value(
            option, value, "a mapping from relations to types", "Write schema={'edge': ['int64', 'int64']}."
        )
    return value


def validate_merge_policy(option: str, value: object) -> MergePolicy | None:
    """Return an option that must be a merge policy, or None."""
    if value is not None and not isinstance(value, MergePolicy):
        raise UsageError.invalid_value(option, value, "a MergePolicy or None")
    return value


def validate_functions(option: str, value: object) -> tuple[Function, ...]:
    """Return an option that must be a list of functions with declared types and distinct names."""
    if value is None:
        return ()
    if isinstance(value, (str, bytes, Mapping, Function)) or not isinstance(value, Collection):
        raise UsageError.wrong_type(
            f"the option '{option}'", value, "a list of functions", "Write functions=[score]."
        )  # fmt: skip
    for function in value:
        if not isinstance(function, Function):
            raise UsageError.wrong_type(
                f"an element of the option '{option}'", function, "a function with declared types",
                "Declare it: @gpu_wcoj.function('int64', returns='float64').",
            )  # fmt: skip
    return tuple(functions_by_name(value).values())


def _optional_backend(option: str, value: object) -> BackendName | Backend | None:
    return None if value is None else validate_backend(option, value)


def _heads(option: str, value: object) -> tuple[str, ...]:
    return validate_heads(option, () if value is None else value) or ()


def _integer(text: str) -> int | str:
    """Return the integer of a text, or the text itself if it has none."""
    return int(text) if text.isascii() and text.isdecimal() else text


class ExecutionKeywords(TypedDict, total=False):
    """The options of `ExecutionOptions` as keywords."""

    gpu_memory: float | str | None
    route: Literal["auto", "device", "cpu"] | int
    twin_memory: float | str | None
    twin: BackendName | Backend | None
    chunk_rows: int | None
    replan: float | None
    analyze: bool
    strategy: Strategy
    order: Mapping[str, Sequence[str]] | None
    merge_policy: MergePolicy | None
    single_tick: bool


class _Rule(TypedDict):
    """The treatment of an option.

    Attributes
    ----------
    validate
        Returns the normalised value; takes the name for messages and the value.
    parse
        Converts the text of a conf or of a command line.
    is_stored
        True if the option is part of the definition that a checkpoint stores.
    """

    validate: Callable[[str, Any], object]
    parse: Callable[[str], object]
    is_stored: bool


def _rule(
    validate: Callable[[str, Any], object], parse: Callable[[str], object] = str, is_stored: bool = False
) -> _Rule:
    return {"validate": validate, "parse": parse, "is_stored": is_stored}


@dataclass(frozen=True)
class ExecutionOptions:
    """Rarely needed options of a program: how its ticks run. Answers do not depend on them.

    Parameters
    ----------
    gpu_memory
        Maximum memory of the GPU for the process: bytes (8000000000, ``"8GB"``) or a share (0.5, ``"50%"``); by
        default all of it. One pool serves all programs of the process. Ignored on the CPU.
    route
        Side on which ticks run if the state is on a device: ``"auto"``, ``"device"``, ``"cpu"``, or the number of
        changed rows from which they run on the device. ``"auto"`` is a twin of the state on the CPU if that is
        estimated to cost less, by the changed rows and the values that joins look at. `explain` shows the choice.
    twin_memory
        Maximum host memory of the twin, in the same forms; by default a quarter. A larger state has no twin.
    twin
        Backend of the twin; by default the CPU if the state is on a device, else there is no twin.
    chunk_rows
        Maximum rows of intermediate results in memory, per level; by default chosen on a GPU by its free memory.
    replan
        Plan again before a tick if the ticks so far have looked at this factor more, or fewer, values than estimated,
        and if it pays; a number above 1, or None for never. Answers do not change.
    analyze
        Measure every tick for ``explain(analyze=True)``; this makes ticks slower.
    strategy
        Join of a change with the other atoms of a rule: ``"wcoj"`` binds one variable at a time in all atoms that
        contain it, ``"binary"`` joins one atom after the other, ``"auto"`` is the cheaper one by estimate. Answers
        are the same.
    order
        Per head, variables of its rules in the order in which to bind them, before all others: ``{"triangle": ["b",
        "a"]}``; variables of the changed atom always come first. ``"auto"`` joins such rules as ``"wcoj"``.
    merge_policy
        Conditions under which batches of an arrangement merge; by default those of `MergePolicy`.
    single_tick
        Only answer once, by `answer`: rows are indexed only where the answer looks them up. Recursive programs and
        programs on a GPU index all rows.

    Raises
    ------
    UsageError
        If a value is not allowed.

    Examples
    --------
    >>> from gpu_wcoj import Program
    >>> Program("hop(a, c) :- edge(a, b), edge(b, c).", options=ExecutionOptions(strategy="wcoj")).strategy
    'wcoj'
    """

    gpu_memory: float | str | None = field(default=None, metadata=_rule(partial(validate_memory, whose="GPU")))
    route: Literal["auto", "device", "cpu"] | int = field(
        default="auto", metadata=_rule(validate_route, parse=_integer)
    )
    twin_memory: float | str | None = field(default=None, metadata=_rule(partial(validate_memory, whose="host")))
    twin: BackendName | Backend | None = field(default=None, metadata=_rule(_optional_backend))
    chunk_rows: int | None = field(default=None, metadata=_rule(validate_integer, parse=_integer))
    replan: float | None = field(default=4.0, metadata=_rule(_validate_factor))
    analyze: bool = field(default=False, metadata=_rule(validate_flag))
    strategy: Strategy = field(default="auto", metadata=_rule(validate_strategy))
    order: Mapping[str, Sequence[str]] | None = field(default=None, metadata=_rule(validate_order))
    merge_policy: MergePolicy | None = field(default=None, metadata=_rule(validate_merge_policy))
    single_tick: bool = field(default=False, metadata=_rule(validate_flag))

    def __post_init__(self) -> None:
        for declared in fields(self):
            value = declared.metadata["validate"](declared.name, getattr(self, declared.name))
            object.__setattr__(self, declared.name, value)


@dataclass(frozen=True)
class ProgramOptions(ExecutionOptions):
    """Options of a program, as `gpu_wcoj.program.Program` and `ExecutionOptions` document them.

    Raises
    ------
    UsageError
        If a value is not allowed, whatever the rules are.

    Examples
    --------
    >>> ProgramOptions(threads=0)
    Traceback (most recent call last):
    gpu_wcoj.errors.UsageError: threads=0 is not allowed: expected an integer from 1 on, or None.
    """

    bag: bool = field(default=False, metadata=_rule(validate_flag, is_stored=True))
    keep: Sequence[str] = field(default=(), metadata=_rule(_heads, is_stored=True))
    outputs: Sequence[str] | None = field(default=None, metadata=_rule(validate_heads, is_stored=True))
    backend: BackendName | Backend = field(default="auto", metadata=_rule(validate_backend))
    threads: int | None = field(default=None, metadata=_rule(validate_integer, parse=_integer))
    iterations: int | None = field(default=None, metadata=_rule(validate_integer, parse=_integer))
    limit: int | None = field(default=None, metadata=_rule(validate_integer, parse=_integer))
    timeout: float | None = field(default=None, metadata=_rule(_validate_seconds))
    memory: float | str | None = field(default=None, metadata=_rule(partial(validate_memory, whose="machine")))
    schema: Mapping[str, Sequence[str] | Mapping[str, str]] | None = field(
        default=None, metadata=_rule(validate_schema, is_stored=True)
    )
    inputs: Sequence[str] | None = field(default=None, metadata=_rule(validate_inputs, is_stored=True))
    functions: Sequence[Function] = field(default=(), metadata=_rule(validate_functions))

    @classmethod
    def from_keywords(cls, /, **keywords: Any) -> ProgramOptions:
        """Return the options of keywords, one of which may be `options`, an `ExecutionOptions`.

        Raises
        ------
        UsageError
            If a name is not the name of an option, an option is in both places, or a value is not allowed.
        """
        options = keywords.pop("options", None)
        for name in keywords:
            if name not in OPTIONS:
                raise UsageError.unknown_name("option", name, OPTIONS)
        if options is not None and not isinstance(options, ExecutionOptions):
            raise UsageError.wrong_type("options", options, "ExecutionOptions", "Write ExecutionOptions(order=...).")
        for name in EXECUTION_OPTIONS if options is not None else ():
            if name in keywords:
                raise UsageError.conflict(
                    "'options'", f"'{name}'", f"Pass it in one place: ExecutionOptions({name}=...)."
                )
            keywords[name] = getattr(options, name)
        return cls(**keywords)

    @classmethod
    def for_restore(cls, keywords: Mapping[str, Any]) -> ProgramOptions:
        """Return the options with which a program is restored from a checkpoint.

        Raises
        ------
        UsageError
            As `from_keywords`; and if an option is part of the checkpoint.
        """
        for name in STORED_OPTIONS:
            if name in keywords:
                raise UsageError.with_parts(
                    f"the option '{name}' is stored in the checkpoint and cannot be passed",
                    subject=name,
                    got=keywords[name],
                    remedy="Leave it out.",
                )
        return cls.from_keywords(**keywords)

    def budget(self) -> Budget | None:
        """Return the limits of the work; None if there are none."""
        if self.limit is None and self.timeout is None and self.memory is None:
            return None
        nbytes = None if self.memory is None else part_of(machine_memory(), self.memory, "memory", "machine")
        return Budget(self.timeout, nbytes, self.limit)

    def without_relations(self) -> ProgramOptions:
        """Return the options without those that name relations, for a program of other rules."""
        return replace(self, keep=(), outputs=None, order=None, schema=None, inputs=None)

    def for_other_rules(self, rules: Rules, outputs: Sequence[str]) -> ProgramOptions:
        """Return the options for other rules and outputs.

        Names of relations that those lack are left out.
        """
        return replace(
            self,
            keep=[name for name in self.keep if name in rules.heads],
            outputs=outputs,
            order={name: order for name, order in (self.order or {}).items() if name in rules.heads} or None,
            schema={name: kinds for name, kinds in (self.schema or {}).items() if name in rules.inputs} or None,
            inputs=rules.inputs,
        )

    def changed(self, names: Iterable[str]) -> list[str]:
        """Return those of the names whose options do not have their default."""
        return [name for name in names if getattr(self, name) != getattr(ProgramOptions, name)]

    @classmethod
    def parse(cls, name: str, value: object, label: str) -> Any:
        """Return the value of the option `name` of a conf or a command line, as text or converted.

        Parameters
        ----------
        label
            The name of the option in messages.

        Examples
        --------
        >>> ProgramOptions.parse("threads", "4", "spark.gpuWcoj.threads")
        4
        >>> ProgramOptions.parse("threads", "four", "spark.gpuWcoj.threads")
        Traceback (most recent call last):
        gpu_wcoj.errors.UsageError: spark.gpuWcoj.threads='four' is not allowed: expected an integer from 1 on, or None.
        """
        metadata = cls.__dataclass_fields__[name].metadata
        return metadata["validate"](label, metadata["parse"](value) if isinstance(value, str) else value)

    def for_rules(self, rules: Rules) -> ProgramOptions:
        """Return the options with their names compared with the rules, and the default outputs.

        Raises
        ------
        UnknownRelationError
            If the rules lack a relation that an option names.
        UsageError
            If `order` names a variable that no positive atom of the head's rules has, or one twice.
        """
        outputs = (rules.outputs or unread(rules)) if self.outputs is None else self.outputs
        for name in (*self.keep, *(self.outputs or ())):
            if name not in rules.heads:
                raise UnknownRelationError(name, rules.heads, "heads")
        for name in self.inputs or ():
            if name not in rules.inputs:
                raise UnknownRelationError(name, rules.inputs, "relations that rules read and none defines")
        for head, names in (self.order or {}).items():
            _check_order(rules, head, names)
        return replace(self, outputs=outputs)


EXECUTION_OPTIONS: Final = tuple(declared.name for declared in fields(ExecutionOptions))
"""The names of the options that are rarely needed."""

VIEW_KEYWORDS: Final = ("gpu_memory", "route", "chunk_rows", "replan", "analyze", "strategy", "order")
"""The names of those that `gpu_wcoj.view` takes as keywords, too; no relation among its keywords has such a name."""

OPTIONS: Final = tuple(declared.name for declared in fields(ProgramOptions))
"""The names of all options."""

STORED_OPTIONS: Final = tuple(declared.name for declared in fields(ProgramOptions) if declared.metadata["is_stored"])
"""The options that are part of a program's definition in a checkpoint."""


def _check_order(rules: Rules, head: str, names: Sequence[str]) -> None:
    """Raise unless `names` are distinct variables of positive atoms of the head's rules."""
    if head not in rules.heads:
        raise UnknownRelationError(head, rules.heads, "heads")
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
                f"order={{{head!r}: {list(names)!r}}}: {which} atom in a rule of '{head}' has a variable '{name}'{why}",
                subject="order",
                got=name,
                remedy=f"Variables of atoms that are not negated are allowed: {listed(allowed)}.",
            )
    twice = [name for name in names if list(names).count(name) > 1]
    if twice:
        raise UsageError.duplicate("variable", twice[0], f"in order[{head!r}]", "Name each variable once.")


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


# Types and names of columns before any row.


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
        if isinstance(column_kinds, str) or not hasattr(column_kinds, "__len__"):
            example = column_kinds if isinstance(column_kinds, str) else "int64"
            raise SchemaError.wrong_type(
                f"schema[{name!r}]",
                column_kinds,
                "a list of types or a mapping from names to types",
                f"Write {{{name!r}: [{example!r}, ...]}}, or {{{name!r}: {{'column': {example!r}, ...}}}}.",
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
    """Return the narrow integers and the decimals that declarations and the schema give inputs."""
    said = {declaration.relation: declaration.types for declaration in rules.declarations if declaration.is_binding}
    said |= {name: tuple(kinds.values() if isinstance(kinds, Mapping) else kinds) for name, kinds in schema.items()}
    narrow = {}
    for name in rules.inputs:
        kinds = [None if kind is None else DataType(declared_type(str(kind))) for kind in said.get(name, ())]
        narrow_kinds = tuple(
            kind if kind is not None and (kind.family == "decimal" or _is_narrow(kind)) else None for kind in kinds
        )
        if any(narrow_kinds):
            narrow[name] = narrow_kinds
    return narrow


def _is_narrow(kind: DataType) -> bool:
    return kind.family == "integer" and kind.code_range != INT64.code_range


def _type_of(relation: str, kind: object) -> DataType:
    try:
        return DataType(declared_type(str(kind)))
    except UnsupportedTypeError as error:
        raise SchemaError(f"the schema of relation '{relation}': {error}") from None


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
    stateful += [helper.relation for helper in core.helpers]
    negating = [rule.head.relation for rule in core.rules if rule.negated]
    if negating and not stateful:
        raise UnsupportedError.unsupported(
            f"sharing the work of head '{negating[0]}'",
            "its rules use negation, so one worker could retract what another derived",
            "Run the program in one process.",
        )
    if stateful:
        raise state_is_shared(min(stateful, key=lambda name: "#" in name))  # helpers have no name in the text


def state_is_shared(head: str) -> UnsupportedError:
    """Return the error for a head whose state depends on the changes of all workers."""
    return UnsupportedError.unsupported(
        f"sharing the work of head '{head}'",
        "it has state that depends on the changes of all workers",
        "Let it keep all variables in one rule, and combine the shares elsewhere.",
    )
