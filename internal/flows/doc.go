// SPDX-License-Identifier: BSD-2-Clause

// Package flows runs flows across an emulated network in virtual time: WRITE, READ and SEND over
// RC, segments over TRP, and models of TCP beside them. A World has any network of package simnet
// and any flows between its hosts. A Scenario is flows between pairs of hosts that share one link
// each way. A scenario and a seed give the same Result to the last byte.
//
// Hosts take no time, unless they nap: a machine's output enters the buffer of the link at once,
// and each arrival is handled at once. They cut no bursts, so only the First of a WRITE has a RETH.
//
// testdata/goodput.txt has the goodput by kind of flow, rate, path MTU, loss and round
// trip. Each cell is one scenario. The test plays some of the cells and compares. To play
// all and write the file anew:
//
//	go test ./internal/flows -run TestGoodput -update
package flows
