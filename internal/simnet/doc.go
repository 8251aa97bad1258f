// SPDX-License-Identifier: BSD-2-Clause

// Package simnet is a virtual network in virtual time: datagrams with real bytes, one heap of
// events, one seed. It loses, repeats, delays, reorders, damages and cuts datagrams, and separates
// hosts, as its Faults say. The same seed does the same again, to the last byte; Hash shows it.
//
// Hosts with a Route between them use Links instead, which have a rate, a delay and a
// buffer, mark congestion, lose and reorder.
//
// Timers and the workload of a simulation are events of the same heap.
package simnet
