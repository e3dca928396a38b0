"""Ten lines that answer whether worst-case optimal joins are worth it for small changes: numbers of the records only.

Which words are chosen goes by the numbers as well: nothing is said that the records do not show, and what they do not
hold is said to be missing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

from bench.suite.record import Comparison
from bench.suite.report.facts import NEAR, SMALL, SMALL_SHARE, Facts, Pair, counted, cpu_per_tick, ratio
from bench.suite.report.words import cases, digits

QUESTION = (
    "Incoming changes are small: is a worst-case optimal join worth it, or would a left-deep tree of binary joins with "
    "good statistics almost always do?"
)

_SMALL = f"{SMALL} rows a tick or a thousandth of the state at most"
assert SMALL_SHARE == 1e-3, "the text above says a thousandth"


def lines(facts: Facts) -> list[str]:
    """The ten lines."""
    found = facts.measured()
    return [
        _scope(facts),
        _group("On acyclic queries", [one for one in found if not one[0].is_cyclic and one[0].case.atoms]),
        _group("On cyclic queries", [one for one in found if one[0].is_cyclic]),
        _group(
            f"On cyclic queries with small changes, of {_SMALL}",
            [one for one in found if one[0].is_cyclic and one[0].is_small],
        ),
        _skew(found),
        _binary_wins(facts),
        _work(facts),
        _kept(facts),
        _auto(facts),
        _verdict(facts),
    ]


def _scope(facts: Facts) -> str:
    pairs = facts.pairs()
    unfinished = sum(pair.binary.stopped is not None and pair.wcoj.seconds is not None for pair in pairs)
    left_out = [
        f"{len(one.left_out):,} of {len(one.planned):,} cases of the suite {one.suite} are not here"
        for one in facts.documents
        if one.left_out
    ]
    stopped = ""
    if unfinished:
        stopped = f"; at {unfinished} of them binary joins came to no end, or were not taken back, within the limit"
    return (
        f"Worst-case optimal and binary joins of the same engine ran on {cases(len(pairs))}{stopped}; "
        f"{len(facts.checked())} of {len(facts.records)} records have an answer that other code confirms, "
        f"{len(facts.agreed())} one that the engine's own ways agree on, {len(facts.wrong())} a wrong one"
        f"{'; '.join(['', *left_out])}."
    )


def _group(name: str, found: Sequence[tuple[Pair, float]]) -> str:
    if not found:
        return f"{name}: no case was measured."
    values = [speedup for _, speedup in found]
    best, worst = max(found, key=lambda one: one[1]), min(found, key=lambda one: one[1])
    return (
        f"{name} ({cases(len(found))}) binary joins take {digits(statistics.median(values))} times as long as "
        f"worst-case optimal ones (median), from {digits(worst[1])} ({worst[0].case.key}) to {digits(best[1])} "
        f"({best[0].case.key})."
    )


def _skew(found: Sequence[tuple[Pair, float]]) -> str:
    known = sorted(
        (pair.case.skew, speedup) for pair, speedup in found if pair.is_cyclic and pair.case.skew is not None
    )
    if len({skew for skew, _ in known}) < 2:
        return "Of skew, fewer than two values were measured on cyclic queries."
    middle = statistics.median(skew for skew, _ in known)
    low = [speedup for skew, speedup in known if skew <= middle]
    high = [speedup for skew, speedup in known if skew > middle] or low
    return (
        f"By skew, cyclic queries: up to {digits(middle)} (mean squared degree by squared mean) binary joins take "
        f"{digits(statistics.median(low))} times as long (median), above that {digits(statistics.median(high))} times."
    )


def _binary_wins(facts: Facts) -> str:
    found = facts.measured()
    won = sorted((speedup, pair.case.key) for pair, speedup in found if speedup < 1)
    text = f"Binary joins are faster at none of {cases(len(found))}"
    if won:
        cyclic = sum(pair.is_cyclic for pair, speedup in found if speedup < 1)
        text = (
            f"Binary joins are faster at {len(won)} of {cases(len(found))}, {cyclic} of them cyclic; at most "
            f"{digits(1 / won[0][0])} times as fast ({won[0][1]})"
        )
    return f"{text}{_others(facts)}."


def _others(facts: Facts) -> str:
    """What another engine's binary joins change of this: DuckDB's, of the delta queries, on cyclic queries."""
    both = []
    for _, contenders in facts.rivals():
        wcoj, binary, delta = (contenders.get(name) for name in ("wcoj", "binary", "duckdb-delta"))
        if wcoj is None or wcoj.case.is_acyclic or not wcoj.case.atoms:
            continue
        own, other = ratio(binary, wcoj), ratio(delta, wcoj)
        if other is not None and (own is not None or (binary is not None and binary.stopped is not None)):
            both.append((math.inf if own is None else own, other))
    if not both:
        return ""
    return (
        f"; DuckDB's delta queries, binary joins as well, are faster than the engine's at "
        f"{sum(other < own for own, other in both)} of {len(both)} cyclic cases that both took, and the faster of the "
        f"two takes {digits(statistics.median(map(min, both)))} times as long as worst-case optimal joins (median)"
    )


def _work(facts: Facts) -> str:
    cyclic = [pair for pair in facts.pairs() if pair.is_cyclic and pair.work_ratio is not None]
    bounded = [
        (counted(pair.wcoj), counted(pair.binary), pair.wcoj.bound_rows) for pair in cyclic if pair.wcoj.bound_rows
    ]
    if not cyclic:
        return "Work was counted at no cyclic case."
    ratios = statistics.median(pair.work_ratio for pair in cyclic if pair.work_ratio is not None)
    text = (
        f"Counted, not timed: on cyclic queries binary joins propose, search and mark {digits(ratios)} times as often "
        f"(median of {cases(len(cyclic))})"
    )
    if bounded:
        shares = [(own / bound, other / bound) for own, other, bound in bounded if own is not None and other and bound]
        text += (
            f"; that is {digits(statistics.median(b for _, b in shares))} times the bound on the rows of a tick's "
            f"joins, and {digits(statistics.median(w for w, _ in shares))} times for worst-case optimal ones"
        )
    return text + "."


def _kept(facts: Facts) -> str:
    times, memory = [], []
    stopped = 0
    for (name, contender), record in facts.records.items():
        wcoj = facts.records.get((name, "wcoj"))
        if contender != "kept" or wcoj is None:
            continue
        taken = ratio(record, wcoj)
        if taken is None:
            stopped += record.seconds is None
            continue
        times.append(taken)
        if record.state_bytes and wcoj.state_bytes:
            memory.append(record.state_bytes / wcoj.state_bytes)
    if not times:
        return "Joins of two relations that keep all results between were not measured."
    room = f" and {digits(statistics.median(memory))} times the memory for its state" if memory else ""
    lost = f"; at {cases(stopped)} more it came to no end" if stopped else ""
    return (
        f"A tree of joins that keeps what is between takes {digits(statistics.median(times))} times as long as "
        f"worst-case optimal joins (median of {cases(len(times))}, from {digits(min(times))} to {digits(max(times))})"
        f"{room}{lost}."
    )


def _auto(facts: Facts) -> str:
    ratios, random = _ratios(facts.chosen(), "ratio"), _ratios(facts.by_chance(), "ratio")
    text = "The planner's own choice was not compared with both strategies"
    if ratios:
        fastest, work = _ratios(facts.chosen(), "fastest_ratio") or ratios, _ratios(facts.chosen(), "work_ratio")
        text = (
            f"The planner's choice takes {_median(ratios)} times what the better strategy takes (median of "
            f"{cases(len(ratios))}), {digits(ratios[-1][0])} at worst ({ratios[-1][1]}); by the fastest round of each, "
            f"which is disturbed least, {digits(fastest[-1][0])} at worst ({fastest[-1][1]})"
        )
        if work:
            text += (
                f"; it counts {_median(work)} times the work of the one that counts less, at most {digits(work[-1][0])}"
            )
    if untimed := len(facts.chosen()) - len(ratios):
        text += f"; at {cases(untimed)} more it came to no end, or neither of them did"
    if random:
        wrong = sum(one.check is not None and not one.check.is_right for one in facts.by_chance())
        text += (
            f"; on queries that chance wrote ({cases(len(random))}) its choice takes {_median(random)} times as long, "
            f"{digits(random[-1][0])} at worst" + (f", and {cases(wrong)} had a wrong answer" if wrong else "")
        )
    return f"{text}."


def _ratios(
    found: Sequence[Comparison], name: Literal["ratio", "fastest_ratio", "work_ratio"]
) -> list[tuple[float, str]]:
    """One ratio of each, with the case, the largest last."""
    return sorted((value, one.case.key) for one in found if (value := getattr(one, name)) is not None)


def _median(values: Sequence[tuple[float, str]]) -> str:
    return digits(statistics.median(value for value, _ in values))


def _verdict(facts: Facts) -> str:
    pairs = [pair for pair in facts.pairs() if pair.is_cyclic and pair.is_small and cpu_per_tick(pair.wcoj) is not None]
    if not pairs:
        return f"Whether it is worth it for small changes cannot be said: no cyclic query had changes of {_SMALL}."
    near = [pair for pair in pairs if pair.speedup is not None and pair.speedup <= NEAR]
    lost = [pair for pair in pairs if pair.speedup is None]
    known = [pair.speedup for pair in pairs if pair.speedup is not None]
    share = len(near) / len(pairs)
    does = "almost always does" if share >= 0.95 else "mostly does" if share >= 0.5 else "mostly does not do"
    rest = ""
    if share < 1:
        most = f"takes up to {digits(max(known))} times as long" if known else "comes to no end"
        rest = f"; in the rest it {most}" + (f", or to no end ({len(lost)})" if lost and known else "")
    return (
        f"So, for small changes on cyclic queries, a left-deep tree of binary joins {does}: at {len(near)} of "
        f"{cases(len(pairs))} it takes no more than {NEAR:g} times what a worst-case optimal join takes{rest}."
    )
