"""Triangles kept up to date on graphs that only a device draws and holds: scale 20 and scale 24."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.engine.streams import CountError
from bench.gpu import stream
from bench.gpu.feed import change, load, program_of
from bench.gpu.graph import Split, split
from bench.gpu.patterns import ORIENTED, rules_of
from bench.gpu.place import Place, find
from bench.gpu.probes import bound
from bench.gpu.recount import triangles
from bench.gpu.report import Options, Report, against

BYTES_AN_EDGE = 64
"""Of state, both orders and the peak during ticks included."""
EDGES_A_SECOND = 2e6
"""The CPU is loaded only if there is time for so many edges a second."""
RATE, RATE_AIM = 4e6, 15e6
"""Changes a second at 1,000,000 changes a tick, on scale 24."""


@dataclass(frozen=True)
class Size:
    """A graph and the ticks on it.

    Attributes
    ----------
    ticks
        (changes a tick, how many such ticks).
    has_targets
        Whether the targets are for this graph.
    """

    scale: int
    ticks: tuple[tuple[int, int], ...]
    has_targets: bool = False


SCALE20 = Size(20, ((1, 50), (1_000, 20), (10_000, 10), (100_000, 5), (1_000_000, 1)))
SCALE24 = Size(24, ((1_000, 10), (100_000, 5), (1_000_000, 3), (10_000_000, 1)), has_targets=True)


def run20(place: Place, options: Options, report: Report) -> None:
    """Scale 20: about 16 M edges, up to 1 M changes a tick."""
    _run(place, options, report, SCALE20)


def run24(place: Place, options: Options, report: Report) -> None:
    """Scale 24: about 260 M edges, up to 10 M changes a tick."""
    _run(place, options, report, SCALE24)


def _run(place: Place, options: Options, report: Report, size: Size) -> None:
    scale, n_drawn = options.graph(size.scale)
    standard = (scale, n_drawn) == (size.scale, 16 << size.scale)
    ticks = [(n_rows, min(n, options.ticks or n)) for n_rows, n in size.ticks]
    if not standard:
        ticks = list(dict.fromkeys((max(1, min(n_rows, n_drawn // 8 // n)), n) for n_rows, n in ticks))
    n_stream = max(n_rows * n for n_rows, n in ticks)
    seconds, graph = place.wall(lambda: split(place.xp, scale, n_drawn, n_stream))
    report.say(graph=graph.described(), draw_seconds=seconds, program=str(rules_of(ORIENTED)))
    report.attempt("bound", bound, place, options.rows >> 3, report)
    place.release()
    counted: dict[int, int] = {}
    _engine(place, graph, ticks, counted, standard and size.has_targets, report)
    place.release()
    if options.rivals:
        report.attempt("binary joins", _binary, place, graph, ticks, counted, report)
        place.release()
        report.attempt("engine on the CPU", _cpu, place, graph, ticks, counted, report)


def _engine(
    place: Place,
    graph: Split,
    ticks: list[tuple[int, int]],
    counted: dict[int, int],
    with_targets: bool,
    report: Report,
) -> None:
    program = program_of(place, ORIENTED)
    memory, seconds = place.peak_bytes(lambda: load(place, program, graph.loaded))
    n_edges = len(graph.loaded)
    report.add("load", edges=n_edges, load_seconds=seconds, edges_per_s=n_edges / seconds, memory=memory)
    for n_rows, n_ticks in ticks:
        with_target = with_targets and n_rows == 1_000_000
        name = f"ticks of {n_rows:,}"
        report.attempt(name, _ticks, place, program, graph, n_rows, n_ticks, with_target, counted, report)
    report.attempt("state", _state, place, program, graph, with_targets, report)
    report.attempt("recount", _recount, place, program, graph, report)


def _cut(graph: Split, n_rows: int, n_ticks: int) -> list[Any]:
    return [graph.stream[i * n_rows : (i + 1) * n_rows] for i in range(n_ticks)]


def _ticks(
    place: Place,
    program: Any,
    graph: Split,
    n_rows: int,
    n_ticks: int,
    with_target: bool,
    counted: dict[int, int],
    report: Report,
) -> None:
    found = stream.run_engine(place, program, ORIENTED, _cut(graph, n_rows, n_ticks), rounds=2)
    counted[n_rows] = sum(found.inserted)
    record = found.record(n_rows)
    report.add(
        f"ticks of {n_rows:,}",
        tick_rows=n_rows,
        output_rows=counted[n_rows],
        candidates_of_first_tick=found.n_candidates,
        candidates_a_change=found.n_candidates / n_rows,
        **report.bound(found.n_candidates),
        **record,
        **(against(record["changes_per_s"], target=RATE, aim=RATE_AIM) if with_target else {}),
        checks=["each deletion took away what its insertion had added"],
    )


def _state(place: Place, program: Any, graph: Split, with_target: bool, report: Report) -> None:
    """Bytes an edge: of the state at rest, and at the peak of one tick of the largest size, inserted and deleted."""
    n_edges = len(graph.loaded) + len(graph.stream)
    graph_bytes = graph.loaded.nbytes + graph.stream.nbytes
    state = program.nbytes

    def largest_tick() -> None:
        for weight in (1, -1):
            program.step_counts({"edge": change(place, graph.stream, weight)})

    peak, _ = place.peak_bytes(largest_tick)
    figures: dict[str, Any] = {"state_bytes": state, "state_bytes_an_edge": state / len(graph.loaded)}
    if peak is not None:
        # The keys of the graph itself are the benchmark's, not the state's.
        figures |= {"memory": peak, "graph_keys_bytes": graph_bytes}
        figures["peak_bytes_an_edge"] = (peak["peak"] - graph_bytes) / n_edges
        figures["held_bytes_an_edge"] = (peak["held"] - graph_bytes) / n_edges
        if with_target:
            figures |= against(figures["peak_bytes_an_edge"], target=BYTES_AN_EDGE, most=True)
    report.add("state", edges=len(graph.loaded), tick_rows=len(graph.stream), **figures)


def _recount(place: Place, program: Any, graph: Split, report: Report) -> None:
    """Insert the stream, and count all triangles anew: by a fresh program, and by other code than the engine's."""
    xp = place.xp
    n_vertices = 1 << graph.scale
    before_seconds, before = place.wall(lambda: triangles(place, graph.loaded, n_vertices))
    grown = program.step_counts({"edge": change(place, graph.stream)})["triangle"].net
    everything = xp.sort(xp.concatenate([graph.loaded, graph.stream]))
    after = triangles(place, everything, n_vertices)
    if after - before != grown:
        raise CountError(
            f"the stream adds {grown:,} triangles; other code counts {after:,} after and {before:,} before"
        )
    fresh = program_of(place, ORIENTED)
    load(place, fresh, everything)
    seconds, whole = place.wall(lambda: fresh.count("triangle"))
    if whole != after:
        raise CountError(f"a fresh program counts {whole:,} triangles; other code counts {after:,}")
    report.add(
        "recount",
        edges=len(everything),
        triangles=after,
        triangles_added=grown,
        count_seconds=seconds,
        other_code_seconds=before_seconds,
        checks=["what the ticks added, a fresh program's count and other code's count agree"],
    )


def _binary(place: Place, graph: Split, ticks: list[tuple[int, int]], counted: dict[int, int], report: Report) -> None:
    for n_rows, n_ticks in ticks:
        if place.time_left <= 60:
            report.leave_out(f"binary joins, ticks of {n_rows:,}", "the part's time was over")
            continue
        cut = _cut(graph, n_rows, n_ticks)
        ran = stream.run_binary(
            place, ORIENTED, graph.loaded, cut, rounds=1, warm_up=0, limit=min(15, place.time_left / 8)
        )
        _check_sum("binary joins", ran, n_rows, n_ticks, counted)
        report.add(
            f"binary joins, ticks of {n_rows:,}", tick_rows=n_rows, output_rows=sum(ran.inserted), **ran.record(n_rows)
        )
        place.release()


def _cpu(place: Place, graph: Split, ticks: list[tuple[int, int]], counted: dict[int, int], report: Report) -> None:
    needed = len(graph.loaded) / EDGES_A_SECOND
    if place.time_left < needed:
        report.leave_out("engine on the CPU", f"less than {needed:.0f} s of the part's time were left")
        return
    cpu = find("cpu")
    program = program_of(cpu, ORIENTED)
    loaded, arriving = (place.backend.to_host(keys) for keys in (graph.loaded, graph.stream))
    on_host = Split(graph.scale, graph.n_drawn, graph.seed, loaded, arriving)
    report.add("engine on the CPU, load", edges=len(on_host.loaded), load_seconds=load(cpu, program, on_host.loaded))
    for n_rows, n_ticks in ticks:
        if place.time_left <= 30:
            report.leave_out(f"engine on the CPU, ticks of {n_rows:,}", "the part's time was over")
            continue
        ran = stream.run_engine(cpu, program, ORIENTED, _cut(on_host, n_rows, n_ticks), rounds=1, warm_up=0, limit=10)
        _check_sum("engine on the CPU", ran, n_rows, n_ticks, counted)
        report.add(
            f"engine on the CPU, ticks of {n_rows:,}",
            tick_rows=n_rows,
            output_rows=sum(ran.inserted),
            **ran.record(n_rows),
        )


def _check_sum(what: str, ran: stream.Ticks, n_rows: int, n_ticks: int, counted: dict[int, int]) -> None:
    if len(ran.inserted) == n_ticks and n_rows in counted and sum(ran.inserted) != counted[n_rows]:
        raise CountError(f"{what} counts {sum(ran.inserted):,} rows, the engine on the device {counted[n_rows]:,}")
