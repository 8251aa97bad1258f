// SPDX-License-Identifier: BSD-2-Clause

// Package trp is the protocol machine of TRP: one reliable association over
// UDP that carries whole DDP segments, one a datagram. What is in a segment it
// does not know.
//
// A Conn is sans-IO and single-threaded: its caller serialises all calls,
// passes the time, fills datagrams in with HandleInput, takes trains of them
// out of PollOutput until it returns false, and calls HandleTimeout when
// NextTimeout has come. A Listener knows the requests that come to one port.
//
//	client                                         server
//	Dial       ReqSent ───── Request ──────▶                Listener.HandleInput
//	           (repeated)  ◀── challenge ───                Challenge
//	                   ───── Request ──────▶ Requested      with its cookie
//	                                         │  Accept: from another port, repeated
//	           Established ◀── Accept ────── AcceptSent
//	                       ─── ACK ────────▶ Established
//	Close      Draining    ─── segments ───▶
//	           FinSent     ─── FIN ────────▶ TimeWait       EventDisconnected
//	           TimeWait    ◀── FIN ─────────
//	           Closed                        Closed         EventClosed
//
// Sending. Segments wait in a ring of as many slots as the peer's window has,
// and keep hold of the memory they point at, uncopied, until they are
// acknowledged.
//
//	             una             next            end      una+window
//	acknowledged  │ sent          │ queued        │ free   │
//	              │ flying        │               │        │
//	              │ sacked, lost  │               │        │
//
// A segment is lost when three sent later have arrived, or one, and more than a
// round trip has passed; what is lost goes again at once. Else the
// retransmission time-out of RFC 6298 sends again all that was not reported.
//
// Receiving. A segment goes up as it arrives, whatever is missing before it,
// with its place in the peer's order; HandleInOrder tells how far there are no
// gaps. So data are placed without a copy and completed in order, as RFC 5041
// has it. Each segment goes up once.
//
// What urdma's own implementation of TRP does not do, and this one does: repeat
// Request, Accept and FIN, acknowledge duplicates again, obey SACK, measure the
// round trip, back off, keep more than one range beyond a gap, agree about the
// window (see Setup of the wire format), ask an idle peer whether it is there, and
// listen to ICMP. Nothing of it needs the peer to know.
//
// A Request whose address is forged costs little, see challenge.go. Beyond that there is
// no protection against forgery: a sender that uses the peer's address and port can
// end an association. Input that cannot be right, of
// whatever kind, is counted and dropped; it holds no memory.
//
// Source: urdma at 48336d1, src/liburdma/interface.c and src/kmod/cm.c;
// RFC 6298 and RFC 8985 for the sender's time-outs and loss detection.
package trp
