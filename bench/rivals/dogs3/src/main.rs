//! Counts the triangles e(a, b), e(b, c), e(a, c) with differential-dogs3 while the nodes of a graph arrive in order.
//!
//!     dogs3 EDGES delta|wcoj NODES [TICKS]
//!     dogs3 - delta|wcoj
//!
//! EDGES is a text file, a line `source target` per edge, each edge once. A tick inserts all edges that leave the next
//! NODES nodes, at one time, and ends when all changes of the triangles are there. After TICKS ticks, or all, the
//! program ends. Each tick is a line of JSON. One thread.
//!
//! With - ticks come from the standard input: the number of changed edges, then source, target, and 1 or -1 of each, all
//! of them int32, little-endian. The next tick is read when the line of the last one is written.

use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::rc::Rc;
use std::time::Instant;

use differential_dataflow::input::Input;
use differential_dataflow::VecCollection;
use differential_dogs3::altneu::AltNeu;
use differential_dogs3::operators::{propose, validate};
use differential_dogs3::{CollectionIndex, ProposeExtensionMethod};
use timely::dataflow::operators::probe::Handle;

type Edge = (u32, u32);
type Triangle = (u32, u32, u32);

/// The change of the triangles by lookups in a fixed order: what proposes is chosen here, once.
///
/// An edge sees the other two as they are after the tick if they stand behind it in the body, else as before.
fn delta<'scope>(edges: VecCollection<'scope, usize, Edge>) -> VecCollection<'scope, usize, Triangle> {
    let reversed = edges.clone().map(|(source, target)| (target, source));
    let forward_by_key = edges.clone().arrange_by_key();
    let forward_by_edge = edges.clone().arrange_by_self();
    let reverse_by_key = reversed.clone().arrange_by_key();
    let reverse_by_edge = reversed.arrange_by_self();
    let scope = edges.scope();
    scope.scoped::<AltNeu<usize>, _, _>("delta query", |inner| {
        let earlier = |time: &AltNeu<usize>| time.time.saturating_sub(1);
        let changes = edges.enter(inner);
        let forward_before = forward_by_key.clone().enter_at(inner, |_, _, t| AltNeu::alt(*t), earlier);
        let forward_after = forward_by_key.enter_at(inner, |_, _, t| AltNeu::neu(*t), earlier);
        let reverse_before = reverse_by_key.enter_at(inner, |_, _, t| AltNeu::alt(*t), earlier);
        let edge_after = forward_by_edge.enter_at(inner, |_, _, t| AltNeu::neu(*t), earlier);
        let reverse_edge_after = reverse_by_edge.clone().enter_at(inner, |_, _, t| AltNeu::neu(*t), earlier);
        let reverse_edge_before = reverse_by_edge.enter_at(inner, |_, _, t| AltNeu::alt(*t), earlier);

        let of_ab = propose(changes.clone(), forward_after, |&(_, b): &Edge| b);
        let of_ab = validate(of_ab, edge_after, |&(a, _): &Edge| a).map(|((a, b), c)| (a, b, c));
        let of_bc = propose(changes.clone(), reverse_before, |&(b, _): &Edge| b);
        let of_bc = validate(of_bc, reverse_edge_after, |&(_, c): &Edge| c).map(|((b, c), a)| (a, b, c));
        let of_ac = propose(changes, forward_before, |&(a, _): &Edge| a);
        let of_ac = validate(of_ac, reverse_edge_before, |&(_, c): &Edge| c).map(|((a, c), b)| (a, b, c));
        of_ab.concat(of_bc).concat(of_ac).leave(scope.clone())
    })
}

/// The same, where of the two relations that hold the third variable, the one with fewer values for it proposes.
fn wcoj<'scope>(edges: VecCollection<'scope, usize, Edge>) -> VecCollection<'scope, usize, Triangle> {
    let scope = edges.scope();
    scope.scoped::<AltNeu<usize>, _, _>("worst-case optimal delta query", |inner| {
        let forward = edges.enter(inner);
        let reverse = forward.clone().map(|(source, target)| (target, source));
        let after = |time: &AltNeu<usize>| AltNeu::neu(time.time);
        let forward_before = CollectionIndex::index(forward.clone());
        let reverse_before = CollectionIndex::index(reverse.clone());
        let forward_after = CollectionIndex::index(forward.clone().delay(after));
        let reverse_after = CollectionIndex::index(reverse.delay(after));

        let of_ab = forward.clone().extend(&mut [
            &mut forward_after.extend_using(|&(_, b): &Edge| b),
            &mut forward_after.extend_using(|&(a, _): &Edge| a),
        ]);
        let of_bc = forward.clone().extend(&mut [
            &mut reverse_before.extend_using(|&(b, _): &Edge| b),
            &mut reverse_after.extend_using(|&(_, c): &Edge| c),
        ]);
        let of_ac = forward.extend(&mut [
            &mut forward_before.extend_using(|&(a, _): &Edge| a),
            &mut reverse_before.extend_using(|&(_, c): &Edge| c),
        ]);
        let of_ab = of_ab.map(|((a, b), c)| (a, b, c));
        let of_bc = of_bc.map(|((b, c), a)| (a, b, c));
        let of_ac = of_ac.map(|((a, c), b)| (a, b, c));
        of_ab.concat(of_bc).concat(of_ac).leave(scope.clone())
    })
}

fn read(path: &str) -> Vec<Edge> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut edges = Vec::new();
    for line in text.lines() {
        let mut parts = line.split_ascii_whitespace().map(|part| part.parse::<u32>());
        match (parts.next(), parts.next(), parts.next()) {
            (Some(Ok(source)), Some(Ok(target)), None) => edges.push((source, target)),
            _ => panic!("{path}: '{line}' is no edge; a line is 'source target'"),
        }
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Seconds that this thread has computed for, as Linux counts them.
fn computed() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().next()?.parse::<f64>().ok().map(|nanoseconds| nanoseconds / 1e9)
}

type Change = (Edge, isize);

/// The edges of nodes in the order of their numbers, so many nodes in a tick.
fn arriving(edges: Vec<Edge>, nodes: u32, limit: usize) -> impl FnMut() -> Option<Vec<Change>> {
    let (mut at, mut first, mut tick) = (0, 0u32, 0);
    move || {
        if at == edges.len() || tick == limit {
            return None;
        }
        let next = first.saturating_add(nodes);
        let end = at + edges[at..].partition_point(|edge| edge.0 < next);
        let changes = edges[at..end].iter().map(|&edge| (edge, 1)).collect();
        (at, first, tick) = (end, next, tick + 1);
        Some(changes)
    }
}

/// Ticks as they come over the standard input, until it ends.
fn incoming() -> Option<Vec<Change>> {
    let mut input = std::io::stdin().lock();
    let mut head = [0u8; 4];
    match input.read_exact(&mut head) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return None,
        read => read.expect("standard input gives ticks"),
    }
    let mut body = vec![0u8; 12 * u32::from_le_bytes(head) as usize];
    input.read_exact(&mut body).expect("a tick has as many edges as it says");
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let change = |row: &[u8]| ((number(&row[..4]), number(&row[4..8])), number(&row[8..]) as i32 as isize);
    Some(body.chunks_exact(12).map(change).collect())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let from_input = arguments.first().is_some_and(|name| name == "-");
    let number_right = if from_input { arguments.len() == 2 } else { (3..=4).contains(&arguments.len()) };
    if !number_right || !["delta", "wcoj"].contains(&arguments[1].as_str()) {
        eprintln!("usage: dogs3 EDGES delta|wcoj NODES [TICKS]\n       dogs3 - delta|wcoj");
        std::process::exit(2);
    }
    let worst_case_optimal = arguments[1] == "wcoj";
    if from_input {
        return run(worst_case_optimal, incoming);
    }
    let edges = read(&arguments[0]);
    let nodes: u32 = arguments[2].parse().expect("NODES is a number");
    assert!(nodes > 0, "NODES is 1 or more");
    let limit: usize = arguments.get(3).map_or(usize::MAX, |ticks| ticks.parse().expect("TICKS is a number"));
    run(worst_case_optimal, arriving(edges, nodes, limit))
}

fn run(worst_case_optimal: bool, mut next: impl FnMut() -> Option<Vec<Change>> + Send + Sync + 'static) {
    timely::execute_directly(move |worker| {
        let mut probe = Handle::new();
        let found = Rc::new(Cell::new(0isize));
        let counted = Rc::clone(&found);
        let mut input = worker.dataflow::<usize, _, _>(|scope| {
            let (input, edges) = scope.new_collection::<Edge, isize>();
            let triangles = if worst_case_optimal { wcoj(edges) } else { delta(edges) };
            triangles.inspect(move |(_, _, weight)| counted.set(counted.get() + weight)).probe_with(&mut probe);
            input
        });
        let mut output = std::io::stdout().lock();
        let mut tick = 0;
        while let Some(changes) = next() {
            let computed_before = computed();
            let start = Instant::now();
            for &(edge, weight) in &changes {
                input.update(edge, weight);
            }
            tick += 1;
            input.advance_to(tick);
            input.flush();
            while probe.less_than(input.time()) {
                worker.step();
            }
            let seconds = start.elapsed().as_secs_f64();
            let cpu = computed().zip(computed_before).map_or("null".to_string(), |(now, then)| (now - then).to_string());
            let (rows, triangles) = (changes.len(), found.replace(0));
            writeln!(
                output,
                "{{\"tick\": {tick}, \"edges\": {rows}, \"triangles\": {triangles}, \"seconds\": {seconds}, \
                 \"cpu\": {cpu}}}"
            )
            .and_then(|()| output.flush())
            .expect("standard output takes lines");
        }
    });
}
