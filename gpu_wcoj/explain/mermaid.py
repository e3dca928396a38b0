"""Plans as a flowchart that Mermaid draws: https://mermaid.js.org/syntax/flowchart.html"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpu_wcoj.explain.boxes import Chain, HeadPanel, arrangement_lines, panels
from gpu_wcoj.explain.render import headlines
from gpu_wcoj.explain.tree import PlanTree

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
