/* SPDX-License-Identifier: BSD-2-Clause */
/* rselect, by rpoll. */
#include "fdsets.h"

#include "socket.h"

VB_RETURNS_COUNT(int, rselect,
	(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout),
	(nfds, readfds, writefds, exceptfds, timeout))
{
	return select_by_poll(rpoll, nfds, readfds, writefds, exceptfds, timeout);
}
