// SPDX-License-Identifier: BSD-2-Clause

// Package mpa carries DDP segments over a TCP stream: the set-up of a
// connection, then FPDUs. Sans-IO: bytes and the time go in, bytes come out; its
// caller owns all of it and serialises every call.
//
//	initiator                                        responder
//	NewInitiator   StateRequesting                   NewResponder  StateListening
//	               ────────── Request ─────────────►               StateDeciding
//	                                                 Accept, or Reject
//	               ◄───────── Reply ────────────────               StateReady, StateRefused
//	StateReady, StateRefused
//	               ══════════ FPDUs ════════════════
//
// Conn is the set-up of one end. Once it is ready, Settled returns the agreement of the two: CRCs,
// markers, the number of READs, and which side speaks first. A Deframer takes the rest of the
// stream, and a Framer writes output into a Burst.
//
// CRCs are used if either side asks for them. Markers are sent if the peer asks for them, and never
// asked for. The maker of the ULPDUs fits an FPDU to the segment size of the connection (wire
// MaxULPDUFor), so that it usually is one TCP segment. The Deframer does not rely on it.
//
// Quirks of others are heeded. The responder echoes control flag A of the enhanced data, and picks
// one of the ready-to-receive kinds offered. The initiator sends the kind that the responder
// picked, not the one it would have liked (iw_cxgb4). Bytes behind a Request are an error, as with
// siw.
//
// Spec: RFC 5044; RFC 6581.
package mpa
