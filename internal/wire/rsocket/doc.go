// SPDX-License-Identifier: BSD-2-Clause

// Package rsocket has the wire format of librdmacm's rsockets. It has the private data of a
// connection, and messages of 32 bits, which are immediate data. Peers write table entries into
// each other's memory.
//
//	private data   version 1 │ flags │ credits │ table: address, key, entries │ first window
//	table entry    address (64) key (32) length (32)    a window: memory that the peer may write
//	message        type (3) value (29)
//
//	datagram       version │ length │ port │ address, then data: between UD queue pairs
//	over UDP       tag │ version │ operation │ length │ QPN │ address, then data
//
// Datagrams and private data are big-endian. Table entries have the byte order of the host that
// reads them.
//
// Source: rsocket(7); cabi/rsocket/wire.h has the same for the C library.
package rsocket
