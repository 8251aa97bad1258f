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
// Conn is the set-up of one end. Once it is ready, Settled tells what the two
// agreed on: CRCs, who wants markers, how many READs, who speaks first. All that
// follows in the stream is for a Deframer, and what goes out is written into a
// Burst by a Framer.
//
// CRCs are used if either side asks for them. Markers are sent where the peer
// asks for them, and never asked for. An FPDU is fitted to the segment size of
// the connection by who makes the ULPDUs (wire MaxULPDUFor), so that it usually
// is one TCP segment; the Deframer does not rely on it.
//
// Quirks of others that are heeded: the responder echoes control flag A of the
// enhanced data, picks one of the ready-to-receive kinds offered, and the
// initiator sends what the responder picked, not what it would have liked
// (iw_cxgb4); bytes behind a Request are an error, as with siw.
//
// Spec: RFC 5044; RFC 6581.
package mpa
