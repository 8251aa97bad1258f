// SPDX-License-Identifier: BSD-2-Clause

// Package script drives one protocol machine by hand: the test posts work, plays the peer's
// packets, moves the clock, and states its expectations with their reasons. A test reads as the
// story of an exchange:
//
//	s := script.New(t, newRC)
//	s.Post(script.Write(2048))
//	s.WantPacket("first half", wire.RCRDMAWriteFirst, 100)
//	s.WantPacket("second half", wire.RCRDMAWriteLast, 101)
//	s.Recv(script.Nak(101, wire.NAKPSNSequence))
//	s.WantPacket("the half that was lost", wire.RCRDMAWriteLast, 101)
//	s.Recv(script.Ack(101, 1))
//	s.WantWC("the WRITE", 1, ib.WCSuccess)
//	s.WantIdle("all is done")
//
// Everything the machine sends is taken off the burst as the wire would carry
// it, its ICRC verified and parsed; everything it receives is encoded first.
// A failure prints the story so far.
package script
