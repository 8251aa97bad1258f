/* SPDX-License-Identifier: BSD-2-Clause */
/* riomap: memory that the peer writes into by itself. */
#include "rsocket.h"

#include <stdlib.h>

static const int maps = 2;

int main(int argc, char **argv)
{
	static uint8_t a[100000], b[5000], data[100000];
	struct sockaddr_in addr;
	int listener = rs_listener(argv[1], &addr, 1), ends[2];
	char byte;

	(void)argc;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = rs_byte(i);
	/* An end that maps needs room in the table of the end that writes. */
	ends[0] = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(rsetsockopt(ends[0], SOL_RDMA, RDMA_IOMAPSIZE, &maps, sizeof(maps)) == 0);
	CHECK(rconnect(ends[0], (struct sockaddr *)&addr, sizeof(addr)) == 0);
	ends[1] = raccept(listener, NULL, NULL);
	CHECK(ends[1] >= 0);

	CHECK_FAILS(riomap(ends[0], a, sizeof(a), PROT_WRITE, 0, -1), ENOMEM); /* the peer has no table */
	CHECK(riomap(ends[0], a, sizeof(a), PROT_NONE, 0, -1) == (off_t)(uintptr_t)a);
	CHECK(riounmap(ends[0], a, sizeof(a)) == 0);
	CHECK(riomap(ends[1], a, sizeof(a), PROT_WRITE, 0, 0) == 0);
	CHECK(riomap(ends[1], b, sizeof(b), PROT_WRITE, 0, -1) == (off_t)(uintptr_t)b);
	CHECK_FAILS(riomap(ends[1], data, sizeof(data), PROT_WRITE, 0, -1), ENOMEM);
	CHECK_FAILS(riounmap(ends[1], data, sizeof(data)), EINVAL);

	/* The peer knows of them with the next data. */
	CHECK(rsend(ends[1], "m", 1, 0) == 1);
	CHECK(rrecv(ends[0], &byte, 1, 0) == 1 && byte == 'm');
	CHECK(riowrite(ends[0], data, sizeof(data), 0, 0) == sizeof(data));
	CHECK(riowrite(ends[0], data, 10, (off_t)(uintptr_t)b + 4990, 0) == 10);
	/* The rest lies beyond the mapping. */
	CHECK(riowrite(ends[0], data, 10, (off_t)(uintptr_t)b + 4995, 0) == 5);
	CHECK(riowrite(ends[0], data, 10, (off_t)(uintptr_t)b + 5000, 0) == 0);
	CHECK(rsend(ends[0], "w", 1, 0) == 1);
	CHECK(rrecv(ends[1], &byte, 1, 0) == 1 && byte == 'w');
	CHECK(!memcmp(a, data, sizeof(a)));
	CHECK(!memcmp(b + 4990, data, 5) && !memcmp(b + 4995, data, 5) && !b[4989]);

	/* An entry that is free is used again. */
	CHECK(riounmap(ends[1], a, sizeof(a)) == 0);
	memset(a, 0, sizeof(a));
	CHECK(riomap(ends[1], a, 100, PROT_WRITE, 0, 7000) == 7000);
	CHECK(rsend(ends[1], "m", 1, 0) == 1);
	CHECK(rrecv(ends[0], &byte, 1, 0) == 1);
	CHECK(riowrite(ends[0], data, 50, 0, 0) == 0);
	CHECK(riowrite(ends[0], data, 50, 7050, 0) == 50);
	CHECK(rsend(ends[0], "w", 1, 0) == 1);
	CHECK(rrecv(ends[1], &byte, 1, 0) == 1);
	CHECK(!memcmp(a + 50, data, 50) && !a[49]);
	rs_close_pair(ends);
	CHECK(rclose(listener) == 0);
	return 0;
}
