/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The wire format of rsockets: the private data of a connection, the 32 bits of immediate data that
 * make a message, and the headers of datagrams. It also has the tables that peers write into each
 * other's memory. rsocket(7) describes the parts.
 *
 * Private data and headers of datagrams are big-endian. Table entries have the byte order of the
 * host that reads them, which RS_CONN_BIG_ENDIAN names.
 */
#ifndef VERBENA_RSOCKET_WIRE_H
#define VERBENA_RSOCKET_WIRE_H

#include <stdbool.h>
#include <stdint.h>

/* -- streams ------------------------------------------------------------------ */

/* A piece of memory that the peer may write: an entry of the buffer table. */
struct rs_sge {
	uint64_t addr;
	uint32_t key;
	uint32_t length; /* written last: once it is non-zero the rest is valid */
};
_Static_assert(sizeof(struct rs_sge) == 16, "16 bytes on the wire");

/* Memory that riomap(3) gave to the peer at an offset: an entry of the iomap table. */
struct rs_iomap {
	uint64_t offset;
	struct rs_sge sge;
};
_Static_assert(sizeof(struct rs_iomap) == 24, "24 bytes on the wire");

#define RS_CONN_VERSION 1

#define RS_CONN_BIG_ENDIAN 0x01 /* the sender reads its tables big-endian */
#define RS_CONN_IOMAP 0x02	/* iomap_size counts */

/*
 * Private data of REQ and REP. The buffer table lies at table.addr and has
 * table.length entries; the iomap table follows it, under the same key.
 */
struct rs_conn_data {
	uint8_t version;
	uint8_t flags;
	uint16_t credits; /* receives that are posted for messages */
	uint8_t reserved[3];
	uint8_t iomap_size; /* scaled: rs_scale */
	struct rs_sge table;
	struct rs_sge buffer; /* the first entry of the peer's table */
};
_Static_assert(sizeof(struct rs_conn_data) == 40, "40 bytes on the wire");

/* Entries of our own buffer table: one being filled, one waiting. */
#define RS_TABLE_SIZE 2

/*
 * Encodes a size in 8 bits: sizes of up to 128 as they are, larger ones in units of 256 with the
 * top bit set.
 */
static inline uint8_t rs_scale(uint32_t size)
{
	if (size <= 128)
		return (uint8_t)size;
	return (uint8_t)(0x80 | (size >> 8 > 0x7f ? 0x7f : size >> 8));
}

static inline uint32_t rs_unscale(uint8_t scaled)
{
	return scaled <= 128 ? scaled : (uint32_t)(scaled & 0x7f) << 8;
}

/*
 * Messages: 3 bits of type, 29 of value. They come as immediate data. Over iWARP, which may lack
 * it, a message is a SEND behind the write, in the byte order of its sender.
 */
enum rs_msg {
	RS_MSG_DATA = 0,    /* value bytes were written */
	RS_MSG_CREDIT = 4,  /* value is the last message granted; the buffer table has changed */
	RS_MSG_IOMAP = 6,   /* entry value of the iomap table was written */
	RS_MSG_CONTROL = 7, /* value is an enum rs_control */
};

enum rs_control {
	RS_CONTROL_DISCONNECT = 0, /* shuts both halves */
	RS_CONTROL_KEEPALIVE = 1,
	RS_CONTROL_SHUTDOWN = 2, /* shuts its sending half */
};

#define RS_MSG_VALUE_BITS 29

static inline uint32_t rs_msg(enum rs_msg type, uint32_t value)
{
	return (uint32_t)type << RS_MSG_VALUE_BITS | value;
}

static inline enum rs_msg rs_msg_type(uint32_t msg)
{
	return (enum rs_msg)(msg >> RS_MSG_VALUE_BITS);
}

static inline uint32_t rs_msg_value(uint32_t msg)
{
	return msg & ((1u << RS_MSG_VALUE_BITS) - 1);
}

/* -- datagrams ------------------------------------------------------------------ */

/* Precedes the data of each datagram between UD queue pairs, and names the sender. */
struct rs_ud_header {
	uint8_t version; /* 4 or 6 */
	uint8_t length;	 /* of this header */
	uint16_t port;
	union {
		uint32_t ipv4;
		struct {
			uint32_t flowinfo;
			uint8_t addr[16];
		} ipv6;
	};
};

#define RS_UD_HEADER_IPV4 8
#define RS_UD_HEADER_IPV6 24
_Static_assert(sizeof(struct rs_ud_header) == RS_UD_HEADER_IPV6, "24 bytes on the wire");

#define RS_UDP_TAG 0x55555555

enum rs_udp_op {
	RS_UDP_DATA = 0,    /* data for the application follows; asks for the number */
	RS_UDP_CONTROL = 7, /* the answer, which has the number */
};

/* Precedes datagrams over UDP, while the queue pair of the peer is unknown. */
struct rs_udp_header {
	uint32_t tag;
	uint8_t version;
	uint8_t op;
	uint8_t length;
	uint8_t reserved;
	uint32_t qpn; /* the sender's */
	union {
		uint32_t ipv4;
		uint8_t ipv6[16];
	};
};

#define RS_UDP_HEADER_IPV4 16
#define RS_UDP_HEADER_IPV6 28
_Static_assert(sizeof(struct rs_udp_header) == RS_UDP_HEADER_IPV6, "28 bytes on the wire");

#endif
