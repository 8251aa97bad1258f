// SPDX-License-Identifier: BSD-2-Clause

// Package simnet is a virtual network in virtual time: datagrams with real bytes, one heap of
// events, one seed. The same seed does the same again, to the last byte; Hash shows it.
//
// A network has one of three forms:
//
//   - Without links it loses, repeats, delays, reorders, damages and cuts datagrams, and separates
//     hosts, as its Faults say.
//   - Route gives two hosts a path of Links. A Link has a rate, a delay and a buffer; it marks
//     congestion, loses and reorders.
//   - Connect joins hosts and switches by Links. Datagrams take a shortest path. Among several the
//     addresses and ports choose (equal-cost multi-path). Set changes links while datagrams are
//     under way; Down takes them away.
//
// Timers and the workload of a simulation are events of the same heap. Its time can follow a clock:
// Step runs the events that are due, and Next returns the time of the next one.
package simnet
