// SPDX-License-Identifier: BSD-2-Clause

// Package rdmap is a queue pair over iWARP: RDMAP and DDP; as a Stream it is
// over MPA on TCP, as an Association over TRP on UDP. Sans-IO: it must not read
// clocks, lock or touch the network; its caller owns it and serialises every
// call.
//
//	                 Stream                          QP
//	bytes in   ──► Deframer ── BeginSegment, SegmentData, EndSegment ──► place, deliver ──► Completer
//	               Place: where the next payload bytes may be read to
//	bytes out  ◄── Framer  ◄── Peek, Commit ───────────────────────────  Terminate, RTR, responses, requests
//	               HandleWritten: they are out, buffers are free
//
// A QP handles segments, and knows nothing of their transport: any framing that brings whole
// segments in order can carry it. Positions, by which the framing reports written output, are its
// own: bytes of a stream; the segments of an association.
//
// Four queues of untagged messages each count their messages from 1 (MSN): SENDs and immediate
// data, READ and atomic requests, the Terminate, atomic responses. Tagged messages name their
// place: WRITE the peer's choice, READ response ours. Payload is placed as it comes, in memory that
// the header's STag or a posted receive opens. Its meaning (a completion, an invalidation, a
// request) is delivered at the end of the segment, once its CRC is right. So a torn message never
// completes. Deviation: under CRCs RFC 5044 has nothing placed before the CRC is checked; here
// bytes may already stand in the range that the peer was free to write, as with siw, and the stream
// ends.
//
// Differences from InfiniBand:
//   - a WRITE or SEND is complete when its buffer is free, that is, written to
//     the stream; the peer's word of failure comes as a Terminate, and finds it
//     completed. A READ or atomic completes with its data;
//   - there is no RNR: a SEND that finds no receive ends the stream; over TRP it
//     is sent again until there is one, or the sender gives up;
//   - one error ends the stream for both: the end that finds it sends a Terminate;
//   - immediate data is a message of its own behind the WRITE, and like atomics
//     RFC 7306's: only where both sides have it. There is no SEND with immediate;
//   - the sink of a READ needs LOCAL_WRITE here, as with siw; other devices want
//     REMOTE_WRITE. A READ of several elements is as many READ requests.
//
// STag 0 is never sent: where none is needed 1 stands for it, as some hardware
// takes 0 for special even in messages of no bytes.
//
// siw as a responder may overlook the first message until more comes; a WRITE of
// no bytes is sent where a foreign peer does not answer (nudge).
//
// Spec: RFC 5040, RFC 5041, RFC 7306; RFC 6581, 9 (ready-to-receive).
package rdmap
