// SPDX-License-Identifier: BSD-2-Clause

// Package sim runs whole machines against each other on package simnet's network, from one seed. It
// has several nodes, RC, XRC, UC and UD queue pairs between them, and random work with random
// faults. It checks from outside that the users see the behaviour that the specification promises:
//
//   - each work request has exactly one fate: a completion, silent success, or
//     a flush; completions come in queue order
//   - bytes outside the granted memory never change; nor do bytes after the key
//     that opened them is gone
//   - when the completion of a SEND is polled, the bytes of all earlier WRITEs
//     of that RC queue pair are in place
//   - atomics execute exactly once, whatever is repeated
//   - a datagram that was damaged on the way reaches no machine
//   - memory for packets that arrive before their turn is bounded, and given back
//   - no completion queue overflows; no state changes but as figure 124 allows
//   - RC ends in the memory and the completions of package oracle, with or
//     without faults, unless a queue pair was killed or its key taken away
//   - on a perfect network UC and UD lose nothing either, and RC sends nothing
//     twice unless a receiver was not ready
//   - once the faults are healed, all work ends in bounded virtual time
//     and no timer is left
//   - a seed replays to the same trace hash
//
// The tests run some hundred seeds, and for ever those of testdata/seeds, which
// once failed. VERBENA_SIM_SEEDS=20000 runs more, VERBENA_SIM_SEEDS=5000+1
// only seed 5000.
package sim
