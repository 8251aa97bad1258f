/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets stay with the process that made them; a child makes its own, and harms nothing. */
#include "rsocket.h"

#include <sys/wait.h>
#include <unistd.h>

static void talk(int ends[2])
{
	char buf[4];

	CHECK(rsend(ends[0], "ping", 4, 0) == 4);
	CHECK(rrecv(ends[1], buf, 4, MSG_WAITALL) == 4 && !memcmp(buf, "ping", 4));
}

int main(int argc, char **argv)
{
	int ends[2], status;

	(void)argc;
	rs_pair(argv[1], ends);
	talk(ends);
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		int own[2];

		CHECK_FAILS(rsend(ends[0], "x", 1, 0), EBADF);
		CHECK(rclose(ends[0]) == 0);
		CHECK(rclose(ends[1]) == 0);
		rs_pair(argv[1], own);
		talk(own);
		rs_close_pair(own);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	talk(ends);
	rs_close_pair(ends);
	return 0;
}
