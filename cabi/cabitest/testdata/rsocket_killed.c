/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer that is killed: its bytes are read, then comes the end. */
#include "rsocket.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct sockaddr_in addr;
	char buf[8];
	int pipes[2], status;

	(void)argc;
	CHECK(pipe(pipes) == 0);
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		int s = rsocket(AF_INET, SOCK_STREAM, 0);

		CHECK(read(pipes[0], &addr, sizeof(addr)) == sizeof(addr));
		CHECK(rconnect(s, (struct sockaddr *)&addr, sizeof(addr)) == 0);
		CHECK(rsend(s, "bye", 3, 0) == 3);
		CHECK(rrecv(s, buf, 1, 0) == 1); /* it has arrived */
		raise(SIGKILL);
	}
	int listener = rs_listener(argv[1], &addr, 1);

	CHECK(write(pipes[1], &addr, sizeof(addr)) == sizeof(addr));
	int s = raccept(listener, NULL, NULL);

	CHECK(s >= 0);
	CHECK(rrecv(s, buf, 3, MSG_WAITALL) == 3 && !memcmp(buf, "bye", 3));
	CHECK(rsend(s, "k", 1, 0) == 1);
	CHECK(rrecv(s, buf, sizeof(buf), 0) == 0);
	CHECK_FAILS(rsend(s, buf, 1, 0), ECONNRESET);
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	CHECK(rclose(s) == 0);
	CHECK(rclose(listener) == 0);
	return 0;
}
