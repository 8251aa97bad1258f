/*
 * The Go runtime's poller is never started, whose descriptors a daemon would
 * close, and be ended for it: not by polling busily, and not by the garbage of
 * objects that come and go.
 */
#include "loop.h"

#include <dirent.h>
#include <unistd.h>

#define PAIRS 200
#define ROUNDS 6
#define BUSY_MS 20

/*
 * Whether a descriptor is the runtime's poller: that one notes its eventfd by an
 * address. Ours note theirs by numbers that are small, or negative.
 */
static int is_pollers(const char *fd)
{
	char path[300], line[200];
	unsigned long long data;
	int found = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", fd);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "tfd: %*d events: %*x data: %llx", &data) == 1 && data >> 32 && !(data >> 63))
			found = 1;
	if (f)
		fclose(f);
	return found;
}

static void no_poller(const char *when)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;

	MUST(dir);
	while ((e = readdir(dir)))
		if (is_pollers(e->d_name))
			failed(__FILE__, __LINE__, "%s: descriptor %s is a poller's", when, e->d_name);
	closedir(dir);
}

static void spin(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (long long end = now_ms() + BUSY_MS; now_ms() < end;)
		EQUAL(ibv_poll_cq(cq, 1, &wc), 0);
}

int main(void)
{
	static struct end ends[2 * PAIRS];
	struct ibv_context *ctx = open_loopback();
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	spin(a.cq);
	no_poller("polled");
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < PAIRS; i++)
			pair(&ends[2 * i], &ends[2 * i + 1], ctx, IBV_QPT_RC);
		for (int i = 0; i < PAIRS; i++)
			unpair(&ends[2 * i], &ends[2 * i + 1]);
		spin(a.cq);
		no_poller("objects came and went");
	}
	unpair(&a, &b);
	return finish(ctx);
}
