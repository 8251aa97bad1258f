// SPDX-License-Identifier: BSD-2-Clause

// Package channel is the link of two nodes that write into each other's windows: which node is
// there, in which life, whether both understand each other, and an ordered stream of writes. It
// knows nothing of verbs. Sans-IO: it reads no clock, takes no lock and touches no descriptor; its
// caller owns it and serialises every call.
//
//	       back end is there          both know both sessions
//	Down ────────────────► Probing ───────────────────────────► Hello ──► Up
//	 ▲                      ▲   ▲ no common version, bad hello    │        │
//	 │ back end is lost     │   └── Refused ◄──────────────────────┤        │
//	 └── from anywhere      └────── peer silent, restarted, reset ┴────────┘
//
// Only writes cross the link. Each node writes its info page, which lies at the
// start of the peer's window, and reads its own.
//
// A session is one life of the link for one node: a random number, drawn anew whenever the link
// begins afresh. A node writes its own and echoes the one that it has seen of the peer. A node that
// sees its own number echoed knows that the peer has left all earlier sessions. As writes are
// ordered, nothing of those is on its way: only then it lays out its window and says hello. A
// session that changes in the middle is a peer that died, restarted or was reset. So nothing that a
// dead life wrote is taken for the living one's, in memory that outlives both just as well.
//
// The heartbeat is a word that counts on; a peer whose word stands still for peerSilence is gone,
// unless the back end knows better (Watched). There are no doorbell registers: a batch of writes
// ends with one more write, of the signal word. A node that goes to sleep says so, once, in the
// peer's window, and the peer's back end then wakes it.
package channel
