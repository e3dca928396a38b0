"""Which programs can share the work of their ticks with others that hold the same state."""

from __future__ import annotations

from collections.abc import Collection

from gpu_wcoj.errors import UnsupportedError, UsageError
from gpu_wcoj.query.rules import Rules


def check_share(share_index: int, n_shares: int) -> None:
    """Raise for a share that there is not."""
    if not 0 <= share_index < n_shares:
        raise UsageError(f"there is no share {share_index} of {n_shares}; they are numbered from 0.")


def check_shareable(rules: Rules, core: Rules, keep: Collection[str], counted: Collection[str]) -> None:
    """Raise for a program whose shares do not add up.

    Parameters
    ----------
    rules, core
        The program as it is written, and in core form.
    keep
        Heads whose answer is stored.
    counted
        Heads whose derivations are counted.

    Examples
    --------
    >>> from gpu_wcoj.query.core import core
    >>> from gpu_wcoj.query.datalog import parse
    >>> rules = parse("few(a) :- edge(a, b), !big(b).")
    >>> check_shareable(rules, core(rules), (), ())
    Traceback (most recent call last):
    gpu_wcoj.errors.UnsupportedError: the head 'few' negates, and what one share derives another may take back.
      Run the program in one process.
    """
    read = {atom.relation for rule in rules.rules for atom in rule.read}
    stateful = [name for name in rules.heads if name in read or name in keep]
    stateful += sorted(counted)
    stateful += [grouping.relation for grouping in core.groupings]
    negating = [rule.head.relation for rule in core.rules if rule.negated]
    if negating and not stateful:
        raise UnsupportedError(
            f"the head '{negating[0]}' negates, and what one share derives another may take back.\n"
            "  Run the program in one process."
        )
    if stateful:
        raise UnsupportedError(
            f"the head '{stateful[0]}' has state of its own, of which no share can tell the rest.\n"
            "  Let it keep all variables in one rule, and combine the shares elsewhere."
        )
