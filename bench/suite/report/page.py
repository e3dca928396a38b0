"""REPORT.md and report.html, from the same pieces."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.suite.record import Document
from bench.suite.report import plots, summary, tables
from bench.suite.report.facts import NEAR, SMALL, SMALL_SHARE, Facts
from bench.suite.report.tables import Table
from bench.suite.report.thresholds import CHANGES, COMMAND, FACTOR, thresholds

TITLE = "Worst-case optimal or binary joins, for answers that are kept up to date"


@dataclass(frozen=True)
class Section:
    """A heading, and what stands under it.

    Attributes
    ----------
    plot
        The name of a plot, and what draws it has found.
    """

    heading: str
    text: str = ""
    lines: tuple[str, ...] = ()
    plot: tuple[str, str] | None = None
    table: Table | None = None


def write(folder: Path, documents: Sequence[Document]) -> tuple[Path, Path]:
    """Write REPORT.md with its plots beside it, and report.html, which refers to nothing outside itself.

    Returns
    -------
    Both paths.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = sections(Facts.of(documents))
    for section in found:
        if section.plot is not None:
            name, svg = section.plot
            (folder / f"{name}.svg").write_text(plots.standalone(svg))
    markdown, page = folder / "REPORT.md", folder / "report.html"
    markdown.write_text(as_markdown(found))
    page.write_text(as_html(found))
    return markdown, page


def read(folder: Path) -> list[Document]:
    """All documents of a folder, in the order of their dates."""
    found = [Document.read(path) for path in sorted(folder.glob("suite-*.json"))]
    return sorted(found, key=lambda one: str(one.machine.get("date", "")))


def sections(facts: Facts) -> list[Section]:
    """The whole report."""
    drawn = {name: draw(facts) for name, draw in plots.PLOTS.items()}

    def plotted(name: str, heading: str, text: str = "", table: Table | None = None) -> Section:
        svg = drawn[name]
        if svg is None:
            return Section(heading, "The records do not hold enough for this.", table=table)
        return Section(heading, text, plot=(name, svg), table=table)

    speedup = "Above the line, binary joins take longer."
    marks = (
        "A cross marks where both are as fast, an arrow where binary joins came to no end, so that they take at least "
        "so many times as long."
    )
    tenfold = Section("Ten times as fast", f"The suite that shows this was not run: `{COMMAND}`.")
    if thresholds(facts):
        tenfold = Section(
            tenfold.heading,
            f"Cyclic patterns on skewed graphs, {CHANGES:,} changes a tick, half of them deletions: how many times as "
            f"long binary joins take as worst-case optimal ones, by processor time, and from which state on that is "
            f"{FACTOR:g} times or more at every size that was measured. Made by `{COMMAND}`.",
            table=tables.tenfold(facts),
        )
    return [
        Section("The question", summary.QUESTION, tuple(summary.lines(facts))),
        plotted("cyclicity", "Speed-up by cyclicity", speedup),
        plotted("skew", "Speed-up by skew", speedup),
        tenfold,
        plotted("change-size", "Speed-up by change size", f"{speedup} {marks}"),
        plotted("state-size", "Speed-up by state size", f"{speedup} {marks}"),
        plotted(
            "crossover", "Where the faster one changes",
            "The plot is of cyclic queries; its black crosses, where there are some, are the changes at which both are "
            "as fast, by the geometric mean over the queries. The table is of all that were varied along an axis.",
            tables.crossings(facts),
        ),
        Section("Where binary joins win", "", table=tables.binary_wins(facts)),
        Section(
            "What the planner chooses",
            "Processor seconds of a tick, by the medians over the rounds of all three, and how many times as long the "
            "planner's choice takes as the better one of both strategies; the last column is the same of what is "
            "proposed, searched for and marked, beside the one that does less of it.",
            table=tables.choices(facts),
        ),
        plotted(
            "bound", "Counted work against the bound",
            "Values that a tick proposes, searches for, tests and marks, added up, so that most count more than once. "
            "On the line, they are as many as the bound has rows.",
        ),
        plotted("time-by-state", "Time of a tick by state size"),
        plotted(
            "memory", "Memory",
            "By how much a contender's processes grew at most while the state was loaded and ticks were taken.",
            tables.memory(facts),
        ),
        Section(
            "Rivals",
            "Median seconds that a tick took, its upkeep included. Where the numbering of vertices changes a "
            "contender's work, it ran with both, and the better one counts. What is said to be taken once is the first "
            "round, since there was no time for another one. dogs3 makes every row that changes, also where the others "
            "only count them.",
            table=tables.rivals(facts),
        ),
        Section("What has no time, and why", table=tables.left_out(facts)),
        Section("What was not run", "Cases that runs were ended before.", table=tables.unfinished(facts)),
        Section(
            "All cases",
            "Processor seconds of a tick. Where one of two was taken once, the first rounds of both are compared.",
            table=tables.strategies(facts),
        ),
        Section("Planning", "From the text to a plan.", table=tables.planning(facts)),
        Section(
            "How it was measured",
            "Each contender runs in a process of its own, and its answers are checked before its times count. "
            "Strategies take their rounds in turn, with one thread each on one core after the other, and again in "
            "further processes where times of the same counted work, or of rounds that overlap, are far apart. "
            f"A change is called small up to {SMALL} rows or {SMALL_SHARE:.1%} of the state, "
            f"and a strategy as good as another up to {NEAR:g} times its time.",
            table=tables.machines(facts),
        ),
    ]  # fmt: skip


def as_markdown(found: Sequence[Section]) -> str:
    """With plots as files beside it."""
    parts = [f"# {TITLE}"]
    for section in found:
        parts.append(f"## {section.heading}")
        if section.text:
            parts.append(section.text)
        if section.lines:
            parts.append("\n".join(f"{number}. {line}" for number, line in enumerate(section.lines, 1)))
        if section.plot is not None:
            parts.append(f"![{section.heading}]({section.plot[0]}.svg)")
        if section.table is not None:
            parts.append(_markdown_table(section.table))
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    if not table.rows:
        return "None."
    lines = [table.header, tuple("---" for _ in table.header), *table.rows]
    return "\n".join(f"| {' | '.join(' '.join(cell.replace('|', '/').split()) for cell in line)} |" for line in lines)


_STYLE = """
body { font: 16px/1.5 sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; font-size: 0.85rem; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid #ddd; padding: 0.25rem 0.6rem; text-align: left; vertical-align: top; }
td + td { white-space: nowrap; }
svg { max-width: 100%; height: auto; font-family: sans-serif; }
"""


def as_html(found: Sequence[Section]) -> str:
    """With everything in it."""
    parts = []
    for section in found:
        parts.append(f"<h2>{html.escape(section.heading)}</h2>")
        if section.text:
            parts.append(f"<p>{html.escape(section.text)}</p>")
        if section.lines:
            parts.append("<ol>" + "".join(f"<li>{html.escape(line)}</li>" for line in section.lines) + "</ol>")
        if section.plot is not None:
            parts.append(section.plot[1])
        if section.table is not None:
            parts.append(_html_table(section.table))
    body = "\n".join(parts)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{html.escape(TITLE)}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n<h1>{html.escape(TITLE)}</h1>\n{body}\n</body>\n</html>\n"
    )


def _html_table(table: Table) -> str:
    if not table.rows:
        return "<p>None.</p>"
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.header)
    rows = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
