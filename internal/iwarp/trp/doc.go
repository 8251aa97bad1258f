// SPDX-License-Identifier: BSD-2-Clause

// Package trp is the protocol machine of TRP: one reliable association over UDP that carries whole
// DDP segments, one per datagram. It does not look into segments.
//
// A Conn is sans-IO and single-threaded. Its caller serialises all calls and passes the time. It
// fills datagrams in with HandleInput, takes bursts of them out of PollOutput until it returns
// false, and calls HandleTimeout when NextTimeout has come. A Listener knows the requests that come
// to one port.
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
// Sending. Segments wait in a ring of at most as many slots as the peer's window has. They keep
// hold of their memory, uncopied, until they are acknowledged.
//
//	             una             next            end      una+window
//	acknowledged  │ sent          │ queued        │ free   │
//	              │ flying        │               │        │
//	              │ sacked, lost  │               │        │
//
// A segment is lost when three sent later have arrived, or one, and more than a round trip has
// passed. Lost segments are sent again at once. Where none is queued and nothing is reported for
// some two round trips, the newest segment goes again. Else the retransmission time-out of RFC 6298
// sends all unreported segments again.
//
// Receiving. A segment goes up as it arrives, also beyond a gap, with its place in the peer's
// order; HandleInOrder says how far there are no gaps. So data are placed without a copy and
// completed in order, as RFC 5041 requires. Each segment goes up once.
//
// urdma's own implementation of TRP lacks some things that this one does. It repeats Request,
// Accept and FIN, acknowledges duplicates again, obeys SACK, measures the round trip, backs off and
// listens to ICMP. It keeps more than one range beyond a gap, and agrees about the window (see
// Setup of the wire format). It asks an idle peer whether it is there. The peer need not know of
// any of it.
//
// A Request whose address is forged costs little, see challenge.go. Beyond that there is no
// protection against forgery: a sender that uses the peer's address and port can end an
// association. Impossible input of any kind is counted and dropped; it holds no memory.
//
// Source: urdma at 48336d1, src/liburdma/interface.c and src/kmod/cm.c;
// RFC 6298 and RFC 8985 for the sender's time-outs and loss detection.
package trp
