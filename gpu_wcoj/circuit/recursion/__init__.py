"""Recursion: incremental maintenance of relations that rules derive from themselves.

What a loop computes from scratch: X(-1) is empty, and X(i) is all that the rules derive from X(i-1) and from the
relations outside the loop, which are constant. The *rank* f(x) of a row is the first iteration that has it. A
derivation that reads rows of ranks r1, ..., rk of the loop belongs to iteration 1 + max(r1, ..., rk), and to iteration
0 if it reads the outside only; so f(x) is the first iteration of a derivation of x. A loop stores each row once, with
its rank as an additional last column (`ranked`). The number of derivations of a row per iteration is not stored; it is
recomputed from the rules for the rows that need it (`inverse`).

`scratch` fills an empty loop: semi-naive evaluation of sets. `changes` maintains a filled loop; it emits an entry
(x, i, +1) for a row that is present from iteration i on and was not before the tick, and (x, i, -1) for the opposite.
Times are pairs (tick, iteration) under the product order, and the ticks before this one are collapsed into the ranks. A
combination of rows that a rule joins is derived once: at the step s that is the latest iteration of this tick's entries
in it, -1 if only rows of the outside change in it. Step s reads the rows of the loop before this tick, whatever their
rank, and this tick's entries up to s; the delta rule decides which of several entries of iteration s is the seed. The
derived row belongs to iteration 1 + max(s, the ranks of the joined rows), which may be a later one: it waits in a
`buffer`.

At iteration i (`history`), let S(x) be the sum of the derivations that have arrived there for a row x, e(x) the sum of
its entries so far, and p(x) = [f(x) < i] + e(x), which is 1 if x is present before i and else 0.

- p(x) = 1: nothing changes.
- p(x) = 0 and f(x) = i: if S(x) >= 0, x stays. Else the rules compute the derivations F(x, j) that x had before
  the tick, by iteration. F(x, i) + S(x) > 0: x stays. = 0: the entry (x, i, -1) is emitted, and each F(x, j) with j > i
  waits at j.
- p(x) = 0 otherwise: if S(x) > 0, the entry (x, i, +1) is emitted, and, if f(x) > i, the entry (x, f(x), -1) at f(x).

The tick ends when nothing waits. The ranks after it equal those of a run from scratch, so deleting a row and inserting
it again restores the same bits; if a tick derives more rows than that, or costs half as much, it is a run from scratch.

Both run row at a time in one kernel call over many iterations (`walks`) if iterations have few rows, every rule reads
at most one atom of the loop and calculates with integers only, and, for `changes`, no head keeps best values. The rows,
their ranks and the limit of iterations are the same in either way.

A head that keeps the minimum or maximum of each group works the same way over another history (`best`). In programs
over bags a loop reads the rows of positive weight, and its heads are sets.

The nested time is that of DBSP (Budiu et al., doi:10.14778/3587136.3587137) and of differential dataflow (McSherry et
al., CIDR 2013); in addition, under positive rules over sets, one number per row suffices as history.
"""
