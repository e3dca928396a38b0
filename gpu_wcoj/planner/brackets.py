"""Bracketings of a path: choices of steps as branches; see `gpu_wcoj.join.bushy`."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_wcoj.join.plan import Branch, Step, split_independent


def ways_of(steps: tuple[Step, ...]) -> Iterator[tuple[tuple[Step, ...], tuple[Branch, ...]]]:
    """Yield reordered steps with the branches among them.

    Examples
    --------
    >>> steps = Step("x", (0, 1)), Step("y", (2, 3)), Step("u", (1,)), Step("v", (3,)), Step("w", (4,))
    >>> for steps, branches in ways_of(steps):
    ...     print(*(step.name for step in steps), *((one.begin, one.end) for one in branches))
    x u y v w (0, 2) (2, 4)
    x y v u w (1, 3)
    """
    for begin in range(len(steps)):
        parts = split_independent(steps[begin:])
        yield from _bracketing(steps[:begin], parts, ())
        if len(parts) == 1:
            for end in range(len(steps) - 1, begin + 1, -1):
                parts = split_independent(steps[begin:end])
                if len(parts) > 1:
                    yield from _bracketing(steps[:begin], parts, steps[end:])
                    break


def _bracketing(
    before: tuple[Step, ...], parts: tuple[tuple[Step, ...], ...], after: tuple[Step, ...]
) -> Iterator[tuple[tuple[Step, ...], tuple[Branch, ...]]]:
    """Yield the parts that can drop prefixes as branches, followed by the other parts."""
    chosen = [part for part in parts if any(map(_drops, part))]
    remaining = [step for part in parts if part not in chosen for step in part]
    branches, begin = [], len(before)
    for part in chosen:
        branches.append(Branch(begin, begin + len(part)))
        begin += len(part)
    if chosen:
        yield (*before, *(step for part in chosen for step in part), *remaining, *after), tuple(branches)


def _drops(step: Step) -> bool:
    """Return True if the step may drop prefixes; a single atom always has a value for each."""
    return len(step.atoms) > 1 or step.is_lookup or bool(step.conditions) or bool(step.checks)
