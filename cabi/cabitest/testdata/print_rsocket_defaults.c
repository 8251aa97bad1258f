/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints the defaults that the files of a directory, RS_CONF_DIR, set. Linked with defaults.c. */
#include "../../rsocket/defaults.h"

#include <stdio.h>

int main(void)
{
	const struct rs_default_values *v = rs_defaults();

	printf("mem_default %u\nwmem_default %u\nsqsize_default %u\nrqsize_default %u\n", v->receive_buffer, v->send_buffer, v->send_queue,
	       v->receive_queue);
	printf("inline_default %u\niomap_size %u\npolling_time %u\nwake_up_interval %u\n", v->inline_data, v->iomap_size, v->polling_time_us,
	       v->wake_up_interval_ms);
	return 0;
}
