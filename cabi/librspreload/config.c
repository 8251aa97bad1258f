/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * preload_config has lines of four words: program, domain, type, protocol. An asterisk matches all.
 * The name of a program matches if the running program begins with it.
 */
#include "config.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef RS_CONF_DIR
#define RS_CONF_DIR "/etc/rdma/rsocket"
#endif

/* More lines than this are not read. */
#define RULES 64

struct rule {
	char program[64]; /* empty: any */
	int domain, type, protocol; /* 0: any */
};

static struct rule rules[RULES];
static int rule_count;
static int send_queue, receive_queue, inline_data; /* 0: not set */
static bool forks;

struct word {
	const char *word;
	int value;
};

static const struct word domains[] = { { "INET", AF_INET }, { "INET6", AF_INET6 }, { NULL, 0 } };
static const struct word types[] = { { "STREAM", SOCK_STREAM },
				     { "DGRAM", SOCK_DGRAM },
				     { NULL, 0 } };
static const struct word protocols[] = { { "TCP", IPPROTO_TCP },
					 { "UDP", IPPROTO_UDP },
					 { NULL, 0 } };

/*
 * Looks a word up, with or without the prefix that C has, such as AF_. Returns false if it is
 * unknown.
 */
static bool look_up(const struct word *words, const char *word, int *value)
{
	*value = 0;
	if (!strcmp(word, "*"))
		return true;
	const char *underscore = strrchr(word, '_');

	if (underscore)
		word = underscore + 1;
	for (; words->word; words++) {
		if (!strcasecmp(words->word, word)) {
			*value = words->value;
			return true;
		}
	}
	return false;
}

static void read_rules(void)
{
	FILE *f = fopen(RS_CONF_DIR "/preload_config", "re");
	char line[160], program[64], domain[16], type[16], protocol[16];

	if (!f)
		return;
	while (rule_count < RULES && fgets(line, sizeof(line), f)) {
		struct rule rule = { 0 };

		if (line[0] == '#' ||
		    sscanf(line, "%63s %15s %15s %15s", program, domain, type, protocol) != 4)
			continue;
		if (!look_up(domains, domain, &rule.domain) || !look_up(types, type, &rule.type) ||
		    !look_up(protocols, protocol, &rule.protocol))
			continue;
		if (strcmp(program, "*"))
			strcpy(rule.program, program);
		rules[rule_count++] = rule;
	}
	fclose(f);
}

static int number_of(const char *variable)
{
	const char *value = secure_getenv(variable);
	int n = value ? atoi(value) : 0;

	return n > 0 ? n : 0;
}

static void read_all(void)
{
	send_queue = number_of("RS_SQ_SIZE");
	receive_queue = number_of("RS_RQ_SIZE");
	inline_data = number_of("RS_INLINE");
	forks = number_of("RDMAV_FORK_SAFE");
	read_rules();
}

static void ensure(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_all);
}

static bool matches(const struct rule *r, int domain, int type, int protocol)
{
	return (!r->program[0] ||
		!strncasecmp(r->program, program_invocation_short_name, strlen(r->program))) &&
	       (!r->domain || r->domain == domain) && (!r->type || r->type == type) &&
	       (!r->protocol || r->protocol == protocol);
}

bool config_wants(int domain, int type, int protocol)
{
	type &= ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
	if ((domain != AF_INET && domain != AF_INET6) || (type != SOCK_STREAM && type != SOCK_DGRAM))
		return false;
	if (!protocol)
		protocol = type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
	if (protocol != (type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP))
		return false;
	ensure();
	for (int i = 0; i < rule_count; i++) {
		if (matches(&rules[i], domain, type, protocol))
			return true;
	}
	return !rule_count;
}

bool config_forks(void)
{
	ensure();
	return forks;
}

void config_apply(int number)
{
	ensure();
	if (send_queue)
		rsetsockopt(number, SOL_RDMA, RDMA_SQSIZE, &send_queue, sizeof(send_queue));
	if (receive_queue)
		rsetsockopt(number, SOL_RDMA, RDMA_RQSIZE, &receive_queue, sizeof(receive_queue));
	if (inline_data)
		rsetsockopt(number, SOL_RDMA, RDMA_INLINE, &inline_data, sizeof(inline_data));
}
