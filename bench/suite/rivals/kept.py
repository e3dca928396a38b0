"""Joins of two relations at a time that keep what is between: the engine, with each of them a rule of its own.

A left-deep tree: the first rule joins two atoms, each further one joins the result so far with one more atom. All
results are kept, so a tick joins changes of two relations only, at the price of storing what is between and keeping it
up to date.
"""

from __future__ import annotations

import gpu_wcoj as gw
from bench.suite.contender import About, NotForThisError, Setting
from bench.suite.engine import Engine
from bench.suite.workload import Pattern


def tree(setting: Setting) -> Kept:
    """Keep the results of all joins but the last one."""
    pattern = setting.workload.pattern
    if pattern is None:
        raise NotForThisError("the workload is more than one rule, and no tree of joins is written for it")
    if len(pattern.atoms) < 3:
        raise NotForThisError("of two atoms there is one join, and nothing between")
    return Kept(setting, pattern)


def chained(pattern: Pattern, answer: str) -> tuple[str, tuple[str, ...]]:
    """The rules of the tree, and the heads that are kept.

    An atom whose variables are all there comes first, then one that shares some, in the order of the pattern.
    Comparisons come with the atom that brings their second variable.

    Examples
    --------
    >>> text, kept = chained(Pattern((("e", ("a", "b")), ("e", ("b", "c")), ("e", ("a", "c")))), "triangle")
    >>> print(text)
    between1(a, b, c) :- e(a, b), e(b, c).
    triangle(a, b, c) :- between1(a, b, c), e(a, c).
    .output triangle
    >>> kept
    ('between1',)
    """
    left = list(pattern.atoms)
    body = [left.pop(0)]
    bound = set(body[0][1])
    comparisons = list(pattern.comparisons)
    rules: list[str] = []
    kept: list[str] = []
    while left:
        new = max(left, key=lambda atom: (set(atom[1]) <= bound, bool(set(atom[1]) & bound)))
        left.remove(new)
        bound |= set(new[1])
        here = tuple(one for one in comparisons if {one[0], one[2]} <= bound)
        comparisons = [one for one in comparisons if one not in here]
        name = f"between{len(kept) + 1}" if left else answer
        joined = Pattern((*body, new), here)
        columns = joined.variables if left else pattern.variables
        rules.append(f"{name}({', '.join(columns)}) :- {joined.rule(name).partition(' :- ')[2]}")
        body = [(name, columns)]
        if left:
            kept.append(name)
    return "\n".join([*rules, f".output {answer}"]), tuple(kept)


class Kept(Engine):
    """The engine on the tree's rules."""

    def __init__(self, setting: Setting, pattern: Pattern) -> None:
        self.workload = setting.workload
        self.how = setting.how
        self.text, kept = chained(pattern, setting.workload.answer)
        self.program = gw.Program(self.text, backend="cpu", threads=setting.threads, keep=kept)

    @property
    def about(self) -> About:  # type: ignore[override]
        """With the rules."""
        return About(notes={"rules": self.text})
