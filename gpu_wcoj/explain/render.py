"""Phrases shared by the formats for people: estimates, counts, times."""

from __future__ import annotations

import json
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Final, Literal, get_args
from xml.sax.saxutils import escape

from gpu_wcoj.engine.state import TickReport
from gpu_wcoj.errors import UsageError
from gpu_wcoj.explain.build import ColumnName, SizesOf, afresh_sentences, build_tree, with_bounds, with_counts
from gpu_wcoj.explain.tree import (
    BegunTree,
    BranchTree,
    Counts,
    Estimate,
    HeadTree,
    LevelTree,
    PathTree,
    PlanTree,
    RuleTree,
    SeedCounts,
    TickTree,
)
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.units import format_bytes


def headlines(tree: PlanTree) -> list[str]:
    """Return the lines about the plan as a whole and the last tick."""
    strategy = "" if tree.strategy == "auto" else f", strategy {tree.strategy}"
    lines = [f"backend {tree.backend}, {tree.semantics} semantics{strategy}"]
    if tree.route is not None:
        lines.append(f"route: {tree.route}")
    if tree.chosen is not None:
        lines.append(f"plan: {tree.chosen}")
    if tree.pushed_down:
        lines.append(f"pushed down: {'; '.join(tree.pushed_down)}")
    if tree.small_ticks:
        lines.append(f"small ticks: {tree.small_ticks}")
    if tree.last_tick:
        lines.append(f"last tick: {tree.last_tick}")
    if tree.tick is not None:
        lines.append(tick_phrase(tree.tick))
        if tree.tick.backend:
            lines.append(f"  all levels: {counts_phrase(tree.tick.total)}")
        lines += [f"  {note}" for note in tree.tick.notes]
    return lines


def head_notes(head: HeadTree) -> list[str]:
    """Return the notes on a head and its last tick."""
    lines = [*head.recounted, *([head.followed] if head.followed else [])]
    if head.seconds is not None:
        lines.append(f"evaluated in {seconds_phrase(head.seconds)}")
    return lines


def expected_phrases(estimate: Estimate | None, at_most: float | None) -> list[str]:
    """Return the estimate per changed row as one line or none.

    Examples
    --------
    >>> expected_phrases(Estimate(20, 0.4), None), expected_phrases(Estimate(12345.6, 3.14159), 1e6)
    (['expected: 20 proposed, 0.4 left'], ['expected: 12,346 proposed, 3.14 left, at most 1,000,000'])
    >>> expected_phrases(None, 3), expected_phrases(None, None)
    (['left at most: 3'], [])
    """
    bound = "" if at_most is None else _rounded(at_most)
    if estimate is None:
        return [f"left at most: {bound}"] if bound else []
    expected = f"expected: {_rounded(estimate.proposals)} proposed, {_rounded(estimate.rows)} left"
    return [expected + (f", at most {bound}" if bound else "")]


def branch_phrase(branch: BranchTree) -> str:
    """Return the phrase at the start of a branch.

    Examples
    --------
    >>> branch_phrase(BranchTree("branch of x", ("a", "b"), ("x", "y"))), branch_phrase(BranchTree("", (), ()))
    ('branch, taken once for each a, b', 'branch, taken once')
    """
    return "branch, taken once" + (f" for each {', '.join(branch.sees)}" if branch.sees else "")


def joined_phrase(counts: Counts) -> str:
    """Return the phrase for joining a branch back.

    Examples
    --------
    >>> joined_phrase(Counts(survivors=1200, prefixes=400, rows=1200, bytes=72, seconds=0.002))
    'joined back: prefixes 400, rows 1,200, 72 B, 2 ms'
    >>> joined_phrase(Counts(survivors=1200))
    'joined back: rows 1,200'
    """
    parts = [] if counts.prefixes is None else [f"prefixes {counts.prefixes:,}"]
    parts.append(f"rows {counts.survivors:,}")
    if counts.bytes is not None:
        parts.append(format_bytes(counts.bytes))
    if counts.seconds is not None:
        parts.append(seconds_phrase(counts.seconds))
    return f"joined back: {', '.join(parts)}"


def counts_phrase(counts: Counts) -> str:
    """Return the phrase for the work of a level.

    Examples
    --------
    >>> counts_phrase(Counts(52, 50, 60, 2, 3, 10, 3, 72, 0.00012))
    'prefixes 10, work bound 52, proposals 50, marks 2, survivors 3, 72 B, 0.12 ms'
    >>> counts_phrase(Counts(5, 5, 0, 0, 3))
    'work bound 5, proposals 5, survivors 3'
    """
    parts = [] if counts.prefixes is None else [f"prefixes {counts.prefixes:,}"]
    parts += [f"work bound {counts.work_bound:,}", f"proposals {counts.proposals:,}"]
    if counts.marks:
        parts.append(f"marks {counts.marks:,}")
    parts.append(f"survivors {counts.survivors:,}")
    if counts.rows is not None and counts.rows != counts.survivors:
        parts.append(f"rows {counts.rows:,}")
    if counts.bytes is not None:
        parts.append(format_bytes(counts.bytes))
    if counts.seconds is not None:
        parts.append(seconds_phrase(counts.seconds))
    return ", ".join(parts)


def seeds_phrase(counts: SeedCounts) -> str:
    """Return the phrase for the seeds of a path.

    Examples
    --------
    >>> seeds_phrase(SeedCounts(12, 10, 0.00002))
    'changed rows 12, prefixes 10, 0.02 ms'
    >>> seeds_phrase(SeedCounts(0, 3, 0.00002))
    'prefixes 3, 0.02 ms'
    """
    changes = f"changed rows {counts.changes:,}, " if counts.changes else ""
    return f"{changes}prefixes {counts.prefixes:,}, {seconds_phrase(counts.seconds)}"


def begins_phrase(prefix: BegunTree) -> str:
    """Return the phrase for a common prefix of paths.

    Examples
    --------
    >>> begins_phrase(BegunTree("triangle", 1, 2, ("c", "d"), 100))
    'shares its beginning, that of path 2 of triangle: c, d are bound once a tick, if 100 rows change or more'
    """
    rule = f", rule {prefix.rule}" if prefix.rule > 1 else ""
    bound = f"{', '.join(prefix.binds)} {'are' if len(prefix.binds) > 1 else 'is'} bound once a tick"
    whose = f"that of path {prefix.path} of {prefix.head}{rule}"
    taken = ", as it was in this tick" if prefix.was_taken else ""
    return f"shares its beginning, {whose}: {bound}, if {prefix.from_rows:,} rows change or more{taken}"


def images_phrase(path: PathTree) -> str:
    """Return the phrase for the paths that one path is counted for, or by; empty if none."""
    where = "where changes are few and only counted"
    where += f", from {path.counted_from:,} rows on" if path.counted_from > 1 else ""
    if path.counted_by is not None:
        return f"counted by path {path.counted_by}, {where}"
    if not path.counted_for:
        return ""
    *first_paths, final_path = map(str, path.counted_for)
    seen = ", ".join(f"{use.atom} {use.sees}" for use in path.counted_seeing)
    seen_note = f"; it sees {seen} then" if seen else ""
    return f"counted for paths {', '.join(first_paths)} and {final_path}, its images, {where}{seen_note}"


def afresh_phrases(path: PathTree) -> tuple[str, str]:
    """Return the title of full counts, and their first line."""
    if path.change_of:
        return "counted afresh", f"all of {path.change_of}"
    return "counting afresh", "not taken, the change was followed"


def tick_phrase(tick: TickTree) -> str:
    """Return the phrase for the last tick."""
    if not tick.backend:
        return "no tick"
    merged = f", merging read {tick.merged_rows:,} rows" if tick.merged_rows else ""
    return f"tick {tick.tick:,} on {tick.backend} in {seconds_phrase(tick.seconds)}{merged}"


def seconds_phrase(seconds: float) -> str:
    """Format a duration.

    Examples
    --------
    >>> seconds_phrase(0.00000042), seconds_phrase(0.0123), seconds_phrase(12.345)
    ('0.00042 ms', '12.3 ms', '12.3 s')
    """
    return f"{seconds:,.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


# Plans as text: seeds, variables with their extenders, and the arrangements in use.


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
    for path in rule.paths:
        yield f"  delta path {path.number}: change of {'!' if path.is_negated else ''}{path.change_of}"
        yield from _indented(_path(path), 4)
    if rule.asked is not None:
        yield f"  asked for the derivations of {rule.asked_for}"
        yield from _indented(_path(rule.asked), 4)
    if rule.load is not None:
        yield f"  load: all of {rule.load.change_of}"
        yield from _indented(_path(rule.load), 4)
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


# Layout of a plan as chains of boxes, from which both drawings are made.


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
    if rule.load is not None:
        chains.extend(_chains(rule.load, Box("head", (head.name,)), "load", f"all of {rule.load.change_of}"))
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


# Plans as a page for a browser: the drawing, and the text.


def as_html(tree: PlanTree) -> str:
    """Return the plan as a page that stands alone: the drawing, and below it the text."""
    head = '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Query plan</title></head><body>'
    return f"{head}\n{as_svg(tree)}\n<pre>{escape(as_text(tree))}</pre>\n</body></html>"


# Plans as a flowchart that Mermaid draws: https://mermaid.js.org/syntax/flowchart.html


_BRACKETS = {"seed": ("([", "])"), "level": ("[", "]"), "head": ("{{", "}}")}


def as_mermaid(tree: PlanTree) -> str:
    """Return the plan as a flowchart: subgraphs for heads and rules, chains for delta paths."""
    return "\n".join(_mermaid_lines(tree))


def label(lines: Sequence[str]) -> str:
    """Return a quoted label with characters that are special in Mermaid or HTML escaped.

    Examples
    --------
    >>> label(["a < b", 'say "hi"'])
    '"a #60; b<br/>say #34;hi#34;"'
    """
    return f'"{"<br/>".join("".join(map(_escaped, line)) for line in lines)}"'


def _escaped(character: str) -> str:
    if character.isalnum() or character in " .,:()[]/=+-_|!?":
        return character
    return f"#{ord(character)};" if character.isprintable() else "#65533;"


def _mermaid_lines(tree: PlanTree) -> Iterator[str]:
    yield "flowchart LR"
    yield f"  about[{label(headlines(tree))}]"
    for index, head in enumerate(panels(tree)):
        yield from _head(f"h{index}", head)
    if tree.arrangements:
        yield f"  subgraph arrangements [{label(['arrangements'])}]"
        for index, line in enumerate(arrangement_lines(tree)):
            yield f"    a{index}[({label([line])})]"
        yield "  end"


def _head(name: str, head: HeadPanel) -> Iterator[str]:
    yield f"  subgraph {name} [{label([head.title, *head.notes])}]"
    if not head.rules:
        yield f"    {name}_only{{{{{label([head.title])}}}}}"
    for rule_index, rule in enumerate(head.rules):
        rule_id = f"{name}_r{rule_index}"
        yield f"    subgraph {rule_id} [{label([rule.rule])}]"
        for chain_index, chain in enumerate(rule.chains):
            yield from _chain(f"{rule_id}_p{chain_index}", chain)
        yield "    end"
    yield "  end"


def _chain(name: str, chain: Chain) -> Iterator[str]:
    for index, box in enumerate(chain.boxes):
        left, right = _BRACKETS[box.kind]
        lines = (chain.title, *box.lines) if index == 0 else box.lines
        yield f"      {name}_{index}{left}{label(lines)}{right}"
    for index in range(len(chain.boxes) - 1):
        yield f"      {name}_{index} --> {name}_{index + 1}"


# Plans as a self-contained SVG drawing.


CHARACTER, LINE = 7.2, 16
"""Width of a character of the fonts below, and height of a line, in pixels."""
MARGIN, PADDING, GAP = 16, 8, 30
"""Space around the drawing and in panels, in boxes, and between boxes for arrows, in pixels."""
WIDEST_BOX, WIDEST_LINE = 48, 120
"""Maximum characters of a line in a box, and of other lines; longer lines are wrapped."""

_STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1c2430;white-space:pre}"
    ".title{font-weight:bold}.note{fill:#5b6675}.panel{fill:#f6f8fa;stroke:#c9d1da}.seed{stroke:#2f6f9f}"
    ".level{stroke:#5b6675}.head{stroke:#3c7a4e}.arrow{stroke:#5b6675;fill:none;marker-end:url(#tip)}"
)
_HEADER = (
    f"<title>Query plan</title><style>{_STYLE}</style>"
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#5b6675"/></marker></defs>'
)
_COLD = {"seed": (226, 239, 249), "level": (255, 255, 255), "head": (228, 243, 232)}
_HOT = (255, 178, 92)
"""Colour (RGB) of a level that did all of a tick's work."""


def as_svg(tree: PlanTree) -> str:
    """Return the plan as a drawing: a panel per head, a chain of boxes per delta path.

    The warmer the colour of a box, the larger its share of the last tick's work.
    """
    drawing = _Drawing()
    drawing.lines(MARGIN, headlines(tree), "note")
    for head in panels(tree):
        drawing.panel(head)
    drawing.down += LINE // 2
    drawing.lines(MARGIN, ["arrangements"], "title")
    drawing.lines(MARGIN + PADDING, arrangement_lines(tree))
    return drawing.document()


@dataclass
class _Drawing:
    """The drawing so far, from top to bottom.

    Attributes
    ----------
    down
        Lower end so far, in pixels.
    right
        Right end so far, in pixels.
    """

    parts: list[str] = field(default_factory=list)
    down: float = MARGIN
    right: float = 0.0

    def lines(self, x: float, lines: Iterable[str], style: str = "") -> None:
        """Draw lines of text below the drawing so far."""
        for line in _broken(lines, WIDEST_LINE):
            self.down += LINE
            self._text(x, self.down - 4, line, style)

    def panel(self, head: HeadPanel) -> None:
        """Draw a head with its rules."""
        self.down += LINE
        top, part_index = self.down, len(self.parts)
        right, self.right = self.right, 0.0
        self.down += PADDING
        self.lines(2 * MARGIN, [head.title], "title")
        self.lines(2 * MARGIN, head.notes, "note")
        for rule in head.rules:
            self.down += LINE // 2
            self.lines(2 * MARGIN, [rule.rule])
            for chain in rule.chains:
                self._chain(chain)
        self.down += PADDING
        edge = self.right + MARGIN
        frame = _rectangle(MARGIN, top, edge - MARGIN, self.down - top, "panel", 8)
        self.parts.insert(part_index, frame)
        self.right = max(right, edge)

    def _chain(self, chain: Chain) -> None:
        self.down += LINE // 4
        self.lines(3 * MARGIN, [chain.title], "note")
        self.down += LINE // 4
        placed = [list(_broken(box.lines, WIDEST_BOX)) for box in chain.boxes]
        height = max(map(len, placed)) * LINE + 2 * PADDING
        x, y = 3.0 * MARGIN, self.down + height / 2
        for box, lines in zip(chain.boxes, placed, strict=True):
            if box is not chain.boxes[0]:
                self.parts.append(f'<path class="arrow" d="M{x - GAP + 2:g} {y:g}H{x - 4:g}"/>')
            x += self._box(x, y, box, lines) + GAP
        self.down += height + LINE // 4

    def _box(self, x: float, middle: float, box: Box, lines: Sequence[str]) -> float:
        """Draw a box around the height `middle`; return its width."""
        width = max(map(_width, lines)) + 2 * PADDING
        height = len(lines) * LINE + 2 * PADDING
        top = middle - height / 2
        fill = "#" + "".join(
            f"{round(cold + (hot - cold) * box.share):02x}" for cold, hot in zip(_COLD[box.kind], _HOT, strict=True)
        )
        self.parts.append(_rectangle(x, top, width, height, box.kind, 4 if box.kind == "level" else 12, fill))
        for index, line in enumerate(lines):
            style = "title" if index == 0 else ""
            self._text(x + PADDING, top + PADDING + (index + 1) * LINE - 4, line, style)
        self.right = max(self.right, x + width)
        return width

    def _text(self, x: float, y: float, line: str, style: str) -> None:
        kind = f' class="{style}"' if style else ""
        self.parts.append(f'<text{kind} x="{x:g}" y="{y:g}">{escape(line)}</text>')
        self.right = max(self.right, x + _width(line))

    def document(self) -> str:
        """Return the complete document."""
        width, height = self.right + MARGIN, self.down + MARGIN
        size = f'width="{width:g}" height="{height:g}"'
        opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width:g} {height:g}" role="img">'
        background = f'<rect {size} fill="#ffffff"/>'
        return "\n".join([opening, _HEADER, background, *self.parts, "</svg>"])


def _rectangle(x: float, y: float, width: float, height: float, style: str, radius: int, fill: str = "") -> str:
    colour = f' fill="{fill}"' if fill else ""
    return f'<rect class="{style}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}"{colour}/>'


def _broken(lines: Iterable[str], widest: int) -> Iterator[str]:
    """Wrap lines to a width, with characters that XML does not allow replaced."""
    for line in lines:
        printable = "".join(character if character.isprintable() else "\ufffd" for character in line)
        yield from textwrap.wrap(printable, widest, subsequent_indent="  ", drop_whitespace=False) or [""]


def _width(line: str) -> float:
    return CHARACTER * sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in line)


# Plans as JSON: the tree with its field names as keys; see `gpu_wcoj.explain.tree`.


FORMAT = 1
"""Format version of the document; it increases when a key changes its meaning or is removed."""


def as_json(tree: PlanTree) -> str:
    """Return the plan as indented JSON."""
    return json.dumps({"format": FORMAT, **_plain(tree)}, indent=2, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Convert a value of the tree to JSON types; infinity and NaN become null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {attribute.name: _plain(getattr(value, attribute.name)) for attribute in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value


# Rendering of plans by format name.


Format = Literal["text", "json", "mermaid", "svg", "html", "datalog"]
"""Formats of the plan, and ``datalog`` for the program itself."""

FORMATS: Final[Mapping[str, Callable[[PlanTree], str]]] = {
    "text": as_text,
    "json": as_json,
    "mermaid": as_mermaid,
    "svg": as_svg,
    "html": as_html,
}


def check_format(name: str) -> None:
    """Raise for an unknown format."""
    if name not in get_args(Format):
        raise UsageError.unknown_name("format", name, get_args(Format))


def render(tree: PlanTree, name: Format) -> str:
    """Return the plan in one of the formats that show it."""
    check_format(name)
    return FORMATS[name](tree)


# View of a program's plan with its settings and last tick.


@dataclass(frozen=True, eq=False)
class PlanView:
    """The parts of a program that `explain` shows.

    Attributes
    ----------
    name_of
        Names of stored columns.
    route
        Rule that assigns ticks to backends, if there are several.
    chosen
        Reason for which the plan was replaced, if it was.
    ticked
        The last tick, if the plan is that of its program.
    small_ticks
        Ticks that are walked row by row, for people.
    pushed_down
        What rules ask of heads that hold no more than that, for people.
    """

    name_of: ColumnName
    backend: str
    is_bag: bool
    route: str | None
    chosen: str | None = None
    ticked: TickReport = field(default_factory=TickReport)
    small_ticks: str = ""
    pushed_down: tuple[str, ...] = ()

    def tree(self, plan: Plan) -> PlanTree:
        """Return the tree of a plan."""
        semantics: Literal["set", "bag"] = "bag" if self.is_bag else "set"
        tree = build_tree(plan, self.name_of, self.backend, semantics, self.route)
        recounted, declined = self.ticked.recounted, self.ticked.declined
        sentences = {name: afresh_sentences(phases, declined.get(name, ())) for name, phases in recounted.items()}
        heads = tuple(replace(head, recounted=sentences.get(head.name, ())) for head in tree.heads)
        return replace(
            tree,
            chosen=self.chosen,
            heads=heads,
            small_ticks=self.small_ticks,
            pushed_down=self.pushed_down,
            last_tick=_way_of(self.ticked),
        )

    def explained_tree(
        self, plan: Plan, analyzed: TickReport | None = None, sizes_of: SizesOf | None = None
    ) -> PlanTree:
        """Return the tree of a plan, with bounds and the last tick's work if given.

        Parameters
        ----------
        analyzed
            The last tick, if its work is shown, in the plan that it used.
        sizes_of
            Bounds of atoms, if bounds are shown.
        """
        by = analyzed.plan if analyzed is not None and analyzed.plan is not None else plan
        tree = self.tree(by)
        if sizes_of is not None:
            tree = with_bounds(tree, by, sizes_of)
        return tree if analyzed is None else with_counts(tree, analyzed, _of_tick(analyzed, plan))


def _way_of(report: TickReport) -> str:
    """Return how a tick ran, for people; empty for the first tick and one without changes."""
    if report.plan is None or report.tick == 0:
        return ""
    return f"path by path, as {report.path_by_path}" if report.path_by_path else "walked row by row"


def _of_tick(report: TickReport, plan: Plan) -> list[str]:
    """Return the notes on the last tick."""
    if report.plan is not None:
        return [] if report.plan.queries == plan.queries else ["the next tick goes by another plan"]
    why = "there has been no tick" if report.tick < 0 else "nothing changed in the last tick, or it was restored"
    return [f"{why}: what the next one does is measured"]
