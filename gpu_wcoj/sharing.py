"""Checks for programs that share the work of ticks with copies of the same state."""

from __future__ import annotations

from collections.abc import Collection

from gpu_wcoj.errors import UnsupportedError, UsageError
from gpu_wcoj.query.rules import Rules


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
    >>> from gpu_wcoj.query.core import desugar
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
