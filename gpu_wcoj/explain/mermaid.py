"""Plans as a flowchart that Mermaid draws: https://mermaid.js.org/syntax/flowchart.html"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpu_wcoj.explain.boxes import Chain, HeadPanel, arrangement_lines, panels
from gpu_wcoj.explain.phrases import headlines
from gpu_wcoj.explain.tree import PlanTree

_BRACKETS = {"seed": ("([", "])"), "level": ("[", "]"), "head": ("{{", "}}")}


def as_mermaid(tree: PlanTree) -> str:
    """The plan as a flowchart: a subgraph a head, a subgraph a rule in it, a chain of nodes a delta path."""
    return "\n".join(_lines(tree))


def label(lines: Sequence[str]) -> str:
    """A quoted label; whatever Mermaid or HTML would take for its own is written by its number.

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


def _lines(tree: PlanTree) -> Iterator[str]:
    yield "flowchart LR"
    yield f"  about[{label(headlines(tree))}]"
    for number, head in enumerate(panels(tree)):
        yield from _head(f"h{number}", head)
    if tree.arrangements:
        yield f"  subgraph arrangements [{label(['arrangements'])}]"
        for number, line in enumerate(arrangement_lines(tree)):
            yield f"    a{number}[({label([line])})]"
        yield "  end"


def _head(name: str, head: HeadPanel) -> Iterator[str]:
    yield f"  subgraph {name} [{label([head.title, *head.notes])}]"
    if not head.rules:
        yield f"    {name}_only{{{{{label([head.title])}}}}}"
    for number, rule in enumerate(head.rules):
        own = f"{name}_r{number}"
        yield f"    subgraph {own} [{label([rule.rule])}]"
        for at, chain in enumerate(rule.chains):
            yield from _chain(f"{own}_p{at}", chain)
        yield "    end"
    yield "  end"


def _chain(name: str, chain: Chain) -> Iterator[str]:
    for number, box in enumerate(chain.boxes):
        left, right = _BRACKETS[box.kind]
        lines = (chain.title, *box.lines) if number == 0 else box.lines
        yield f"      {name}_{number}{left}{label(lines)}{right}"
    for number in range(len(chain.boxes) - 1):
        yield f"      {name}_{number} --> {name}_{number + 1}"
