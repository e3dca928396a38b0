"""Phrases shared by the formats for people: estimates, counts, times."""

from __future__ import annotations

from gpu_wcoj.explain.figures import Counts, Estimate, SeedCounts, TickTree
from gpu_wcoj.explain.tree import BegunTree, BranchTree, HeadTree, PathTree, PlanTree
from gpu_wcoj.units import format_bytes


def headlines(tree: PlanTree) -> list[str]:
    """Return the lines about the plan as a whole and the last tick."""
    strategy = "" if tree.strategy == "auto" else f", strategy {tree.strategy}"
    lines = [f"backend {tree.backend}, {tree.semantics} semantics{strategy}"]
    if tree.route is not None:
        lines.append(f"route: {tree.route}")
    if tree.chosen is not None:
        lines.append(f"plan: {tree.chosen}")
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
