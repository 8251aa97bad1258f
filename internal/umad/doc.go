// SPDX-License-Identifier: BSD-2-Clause

// Package umad answers the management datagrams (MADs) that an application sends through
// /dev/infiniband/umadN: the interface of Linux's ib_umad, which libibumad uses.
//
//	application ─ write: header, MAD ─► File.Handle ─ Answer ─► header, MAD ─ read ─► application
//	                                        │
//	                                        └ nobody answers: File.Expire, header with ETIMEDOUT
//
// A File holds what an application registered, and its requests that have no answer yet. A MAD with
// LID 0 and no GRH is for the port itself, as a RoCE port has no other LID. The port answers those
// of performance management: ClassPortInfo, PortCounters and PortCountersExtended. Requests to
// others time out.
//
// The package does no I/O and reads no clock; a File has one caller at a time.
//
// Spec: IBTA vol. 1, 13.4 (MADs) and 16.1 (performance management); Linux, ib_user_mad.h.
package umad
