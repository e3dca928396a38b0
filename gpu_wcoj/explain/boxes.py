"""Layout of a plan as chains of boxes, from which both drawings are made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gpu_wcoj.explain.figures import SeedCounts
from gpu_wcoj.explain.render import (
    afresh_phrases,
    begins_phrase,
    branch_phrase,
    counts_phrase,
    expected_phrases,
    head_notes,
    images_phrase,
    joined_phrase,
    seeds_phrase,
)
from gpu_wcoj.explain.tree import BranchTree, HeadTree, LevelTree, PathTree, PlanTree, RuleTree

Kind = Literal["seed", "level", "head"]


@dataclass(frozen=True)
class Box:
    """A box of a drawing.

    Attributes
    ----------
    lines
        The first is its title.
    share
        Share of the last tick's work, from 0 to 1, if known.
    """

    kind: Kind
    lines: tuple[str, ...]
    share: float = 0.0


@dataclass(frozen=True)
class Chain:
    """Boxes from a change to a head."""

    title: str
    boxes: tuple[Box, ...]


@dataclass(frozen=True)
class RulePanel:
    """A rule and its chains."""

    rule: str
    chains: tuple[Chain, ...]


@dataclass(frozen=True)
class HeadPanel:
    """A head and its rules."""

    title: str
    notes: tuple[str, ...]
    rules: tuple[RulePanel, ...]


def panels(tree: PlanTree) -> tuple[HeadPanel, ...]:
    """Return the boxes of a plan, one panel per head."""
    total = 0 if tree.tick is None else tree.tick.total.proposals
    return tuple(_head_boxes(head, total) for head in tree.heads)


def arrangement_lines(tree: PlanTree) -> tuple[str, ...]:
    """Return one line per arrangement in use."""
    return tuple(
        f"{arrangement.name}   used by {arrangement.rules} rules" if arrangement.rules > 1 else arrangement.name
        for arrangement in tree.arrangements
    )


def _head_boxes(head: HeadTree, total: int) -> HeadPanel:
    notes = [*([head.note] if head.note else []), *head_notes(head)]
    return HeadPanel(head.name, tuple(notes), tuple(_rule_boxes(head, rule, total) for rule in head.rules))


def _rule_boxes(head: HeadTree, rule: RuleTree, total: int) -> RulePanel:
    chains = [chain for path in rule.paths for chain in _chains(path, Box("head", (head.name,)))]
    if rule.asked is not None:
        derivations = Box("head", (f"derivations of {head.name}",))
        inverse_chains = _chains(rule.asked, derivations, f"asked for the derivations of {rule.asked_for}")
        chains.extend(inverse_chains)
    if rule.afresh is not None:
        was_counted = rule.afresh.change_of != ""
        chains.extend(
            _chains(rule.afresh, Box("head", (head.name,)) if was_counted else None, *afresh_phrases(rule.afresh))
        )
    shared = (replace(chain, boxes=tuple(_with_share(chain.boxes, total))) for chain in chains)
    return RulePanel(rule.rule, tuple(shared))


def _chains(path: PathTree, end: Box | None, title: str = "", beginning: str = "") -> Iterator[Chain]:
    """Yield the chain of a path and of its counted variants; without `end` it has no head."""
    title = title or f"delta path {path.number}"
    lines = [beginning or _beginning(path)]
    lines += [f"where {', '.join(path.where)}"] if path.where else []
    lines += [f"check {use}" for use in path.held]
    lines += map(str, path.then)
    lines += [] if path.begins_as is None else [begins_phrase(path.begins_as)]
    lines += filter(None, [images_phrase(path)])
    if path.seed_estimate is not None:
        lines.append(f"expected prefixes: {path.seed_estimate.rows:.3g}")
    further = [Box("level", (name, counts_phrase(counts))) for name, counts in path.further]
    ends = () if end is None else (end,)
    yield Chain(title, (_seed(lines, path.seed_counts), *_level_boxes(path.levels, path.branches), *further, *ends))
    for variant in path.variants:
        order = f"{title} in the order {', '.join(variant.order)}, where that begins with fewer values"
        yield Chain(order, (_seed(lines[:1], variant.seed_counts), *_level_boxes(variant.levels), *ends))


def _beginning(path: PathTree) -> str:
    """Return the text of a path's seed."""
    return f"{path.change_of} is given" if path.number == 0 else f"change of {'!' * path.is_negated}{path.change_of}"


def _seed(lines: Iterable[str], counts: SeedCounts | None) -> Box:
    return Box("seed", (*lines, *(() if counts is None else (seeds_phrase(counts),))))


def _level_boxes(levels: Iterable[LevelTree], branches: Sequence[BranchTree] = ()) -> Iterator[Box]:
    for level in levels:
        lines = [f"{level.variable}: {level.verb}", *map(str, level.uses)]
        branch = next((candidate for candidate in branches if level.step in candidate.levels), None)
        lines += [] if branch is None else [branch_phrase(branch)]
        lines += [f"where {', '.join(level.where)}"] if level.where else []
        lines += map(str, level.then)
        lines += expected_phrases(level.estimate, level.at_most)
        share = 0.0
        if level.counts is not None:
            lines.append(counts_phrase(level.counts))
            share = float(level.counts.proposals)
        if branch is not None and level.step == branch.levels[-1] and branch.counts is not None:
            lines.append(joined_phrase(branch.counts))
        yield Box("level", tuple(lines), share)


def _with_share(boxes: Iterable[Box], total: int) -> Iterator[Box]:
    """Yield the boxes with their share; before, it holds a number of proposals."""
    for box in boxes:
        yield replace(box, share=box.share / total if total else 0.0)
