// SPDX-License-Identifier: BSD-2-Clause

// Package shm carries bursts of packets between the processes of a host, and within one, through
// memory: a ring each way for each pair of processes. It does not parse packets: a Reader of their
// transport handles them.
//
//	Out  Reserve ─► the machine fills the burst in place ─► CommitLocked ─► wake the reader, if it sleeps
//	In   TryPoll ─► Reader.Burst … Reader.EndTurn ─► answer a question, if there is one
//
// Lock order: In.rxMu → the Reader's → Out.mu. Rings.mu is a leaf; Rings.dialMu stands above.
package shm
