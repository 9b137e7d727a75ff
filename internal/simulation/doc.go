// Package simulation runs fleets of generators on virtual time, breaks all
// around them that can break, and checks what they promise. One seed gives
// one run, to the last id:
//
//	go run ./internal/simulation/cmd                    a fresh seed, 5 million ids
//	go run ./internal/simulation/cmd -seed 7 -ids 1000000
//	go run ./internal/simulation/cmd -mutant NAME       exits with 1: a check failed
//	go run ./internal/simulation/cmd -mutants           lists them
//
// # What is real
//
// The generator, its keeper, bursts and backfills are the code of package
// generator. It sees the machine through internal/world: here a process, whose
// goroutines are coroutines that run one at a time until they wait. Between
// two waits nothing else happens, so a run depends on its seed alone.
//
// # What is modelled
//
// A run is a row of episodes. Each draws 3 to 64 nodes on 4 to 16 worker ids,
// a layout, a window, the settings of the generators, and a store:
//
//   - The store keeps lease's contract in atomic steps; an acquire is a read
//     and a compare-and-swap. It is linearizable, or a primary whose replica
//     lags: a failover loses the tail, some nodes go on with the old primary for
//     a while, and the keys may be wiped. Its newcomers then wait out a guard.
//   - The network delays, loses and doubles requests, and loses replies after
//     the commit. Nodes are cut off, one way or both.
//   - Nodes crash between any two steps and start again, end in order, pause
//     while their clocks run on. Clocks are skewed, drift, jump, stop, swing.
//   - Callers take single ids, bursts, and more than there are; backfills import
//     rows of the past, and of the very moment.
//
// Then all faults are healed, and every node must issue again, in turns where
// there are more nodes than worker ids.
//
// A clone of a process is a second client with a copy of the grant, which
// extends it as its original does, chained on the high water that both
// remember: only one of them may go on. It issues nothing itself, since until
// its first extension a clone of memory repeats what its original issues, and
// no store can help that. There are no clones where the store may lose its
// tail: a failover that loses the original's extension lets the clone's win as
// well.
//
// A pause inside Next, between its look at the limit and its compare-and-swap,
// can't happen here, for Next gives way only where it waits. The proof covers
// it: a limit that has grown since is the end of the same grant, and a word
// that was taken since makes the swap fail.
//
// # What is checked
//
// The Check constants say it; the checker is told of each grant as its reply
// reaches the process, and of each id as its caller gets it. Mutants are faults
// in the protocol, put between generator and store; each makes a check fail,
// and given time each gives an id twice.
package simulation
