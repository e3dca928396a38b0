"""Plans as text: seeds, variables with their extenders, and the arrangements in use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpu_wcoj.explain.render import (
    afresh_phrases,
    begins_phrase,
    branch_phrase,
    counts_phrase,
    expected_phrases,
    head_notes,
    headlines,
    images_phrase,
    joined_phrase,
    seeds_phrase,
)
from gpu_wcoj.explain.tree import BranchTree, LevelTree, PathTree, PlanTree, RuleTree


def as_text(tree: PlanTree) -> str:
    """Return the plan as text for people."""
    return "\n".join(_lines(tree))


def _lines(tree: PlanTree) -> Iterator[str]:
    yield from headlines(tree)
    for head in tree.heads:
        yield ""
        yield head.name + (f"   ({head.note})" if head.note else "")
        yield from _indented(iter(head_notes(head)), 2)
        for rule in head.rules:
            yield from _indented(_rule(rule), 2)
    yield ""
    yield "arrangements"
    for arrangement in tree.arrangements:
        yield f"  {arrangement.name}" + (f"   used by {arrangement.rules} rules" if arrangement.rules > 1 else "")


def _rule(rule: RuleTree) -> Iterator[str]:
    yield rule.rule
    if rule.joined_with:
        yield f"  joined once with {', '.join(rule.joined_with)}: the same body, here in the first one's names"
    for path in rule.paths:
        yield f"  delta path {path.number}: change of {'!' if path.is_negated else ''}{path.change_of}"
        yield from _indented(_path(path), 4)
    if rule.asked is not None:
        yield f"  asked for the derivations of {rule.asked_for}"
        yield from _indented(_path(rule.asked), 4)
    if rule.afresh is not None:
        yield f"  {': '.join(afresh_phrases(rule.afresh))}"
        yield from _indented(_path(rule.afresh), 4)


def _path(path: PathTree) -> Iterator[str]:
    if path.where:
        yield f"where {', '.join(path.where)}"
    for use in path.held:
        yield f"check {use}"
    for done in path.then:
        yield str(done)
    if path.begins_as is not None:
        yield begins_phrase(path.begins_as)
    if images := images_phrase(path):
        yield images
    if path.seed_counts is not None:
        yield seeds_phrase(path.seed_counts)
    yield from _levels(path.levels, path.branches)
    for name, counts in path.further:
        yield f"{name}: {counts_phrase(counts)}"
    for variant in path.variants:
        yield f"or in the order {', '.join(variant.order)}, where that begins with fewer values"
        if variant.seed_counts is not None:
            yield f"  {seeds_phrase(variant.seed_counts)}"
            yield from _indented(_levels(variant.levels), 2)


def _levels(levels: Sequence[LevelTree], branches: Sequence[BranchTree] = ()) -> Iterator[str]:
    for level in levels:
        branch = next((candidate for candidate in branches if level.step in candidate.levels), None)
        if branch is None:
            yield from _level(level)
            continue
        if level.step == branch.levels[0]:
            yield branch_phrase(branch)
        yield from _indented(_level(level), 2)
        if level.step == branch.levels[-1] and branch.counts is not None:
            yield f"  {joined_phrase(branch.counts)}"


def _level(level: LevelTree) -> Iterator[str]:
    where = f" where {', '.join(level.where)}" if level.where else ""
    yield f"{level.variable}: {level.verb} {' with '.join(map(str, level.uses))}{where}"
    for done in level.then:
        yield f"  {done}"
    for line in expected_phrases(level.estimate, level.at_most):
        yield f"  {line}"
    if level.counts is not None:
        yield f"  {counts_phrase(level.counts)}"


def _indented(lines: Iterator[str], by: int) -> Iterator[str]:
    for line in lines:
        yield " " * by + line
