"""Plans as a self-contained SVG drawing."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from gpu_wcoj.explain.boxes import Box, Chain, HeadPanel, arrangement_lines, panels
from gpu_wcoj.explain.render import headlines
from gpu_wcoj.explain.tree import PlanTree

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
