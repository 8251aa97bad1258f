// SPDX-License-Identifier: BSD-2-Clause

// Package rc is the reliable connected service over RoCEv2: one QP value is
// requester, responder and completer of one queue pair, sans-IO as package
// roce describes. It must not read clocks, lock or touch the network; its
// caller owns it and serialises every call.
//
// The requester walks the send queue and numbers packets:
//
//	send queue   [ head ........ cur ........ tail )
//	              oldest         sending      newest posted
//	              unfinished     now
//	PSNs    una ─────────── next ──── una+window      max: highest sent + 1
//	        acknowledged    to be     not before
//	        below           sent      una moves
//
// Loss recovery of requests towards foreign responders is go-back-N: next returns to the PSN that a
// NAK or a time-out names. A responder of Verbena lists the requests that it misses, and only those
// are repeated. Responses of Verbena are placed as they come, and only those missing are asked for
// again; those of other responders are placed in order. A congestion window in bytes, invisible to
// the peer, bounds the outstanding data. Retransmissions before the local ACK time-out ("tail
// probes") follow the measured round trip and do not use up retry_cnt.
//
// The responder expects ePSN. A packet before it is a duplicate: it is acknowledged again, a READ
// is executed again, an atomic is answered from the saved result. A packet after it is kept until
// the gap is filled: one NAK per gap, or SACKs towards a requester of Verbena. Each check is a
// named step in the order of IBTA figure 79; the first that fails decides.
//
// Spec: IBTA vol. 1, 9.2–9.4 (packets), 9.7 (reliable service), 9.9 (errors).
package rc
