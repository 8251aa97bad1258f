/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_getaddrinfo(3): the result of getaddrinfo(3) as struct rdma_addrinfo. Over Ethernet there is
 * no route to look up, so RAI_NOROUTE changes nothing.
 */
#include "cm.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

static int socktype(int qp_type)
{
	switch (qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return SOCK_STREAM;
	case IBV_QPT_UD:
		return SOCK_DGRAM;
	default:
		return 0;
	}
}

static int protocol(int port_space, int type)
{
	switch (port_space) {
	case RDMA_PS_TCP:
		return IPPROTO_TCP;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		return IPPROTO_UDP;
	case RDMA_PS_IB:
		return type == SOCK_STREAM ? IPPROTO_TCP : type == SOCK_DGRAM ? IPPROTO_UDP : 0;
	default:
		return 0;
	}
}

/* Derives the other fields where the hints leave them open. */
static int qp_type(const struct addrinfo *ai)
{
	return ai->ai_socktype == SOCK_STREAM  ? IBV_QPT_RC
	       : ai->ai_socktype == SOCK_DGRAM ? IBV_QPT_UD
					       : 0;
}

static int port_space(const struct addrinfo *ai)
{
	return ai->ai_protocol == IPPROTO_TCP	? RDMA_PS_TCP
	       : ai->ai_protocol == IPPROTO_UDP ? RDMA_PS_UDP
						: 0;
}

/* Copies an address; an empty one stays NULL. 0 or EAI_MEMORY. */
static int copy_addr(struct sockaddr **to, socklen_t *to_len, const struct sockaddr *from,
		     socklen_t len)
{
	if (!len || !from)
		return 0;
	*to = malloc(len);
	if (!*to)
		return EAI_MEMORY;
	memcpy(*to, from, len);
	*to_len = len;
	return 0;
}

static int copy_name(char **to, const char *from)
{
	if (!from)
		return 0;
	*to = strdup(from);
	return *to ? 0 : EAI_MEMORY;
}

/* Looks the names up and returns the first answer, as rdma-core does. */
static int look_up(const char *node, const char *service, const struct rdma_addrinfo *hints,
		   struct rdma_addrinfo *rai)
{
	struct addrinfo ai_hints, *ai;
	int ret;

	memset(&ai_hints, 0, sizeof(ai_hints));
	if (hints) {
		if (hints->ai_flags & RAI_PASSIVE)
			ai_hints.ai_flags |= AI_PASSIVE;
		if (hints->ai_flags & RAI_NUMERICHOST)
			ai_hints.ai_flags |= AI_NUMERICHOST;
		if (hints->ai_flags & RAI_FAMILY)
			ai_hints.ai_family = hints->ai_family;
		ai_hints.ai_socktype = socktype(hints->ai_qp_type);
		ai_hints.ai_protocol = protocol(hints->ai_port_space, ai_hints.ai_socktype);
	}
	ret = getaddrinfo(node, service, &ai_hints, &ai);
	if (ret)
		return ret;
	rai->ai_family = ai->ai_family;
	rai->ai_qp_type = hints && hints->ai_qp_type ? hints->ai_qp_type : qp_type(ai);
	rai->ai_port_space = hints && hints->ai_port_space ? hints->ai_port_space : port_space(ai);
	if (hints && hints->ai_flags & RAI_PASSIVE) {
		rai->ai_flags = RAI_PASSIVE;
		ret = copy_addr(&rai->ai_src_addr, &rai->ai_src_len, ai->ai_addr, ai->ai_addrlen);
		if (!ret)
			ret = copy_name(&rai->ai_src_canonname, ai->ai_canonname);
	} else {
		ret = copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len, ai->ai_addr, ai->ai_addrlen);
		if (!ret)
			ret = copy_name(&rai->ai_dst_canonname, ai->ai_canonname);
	}
	freeaddrinfo(ai);
	return ret;
}

/* Without names the hints have the addresses. */
static int take_hints(const struct rdma_addrinfo *hints, struct rdma_addrinfo *rai)
{
	rai->ai_flags = hints->ai_flags;
	rai->ai_family = hints->ai_family;
	rai->ai_qp_type = hints->ai_qp_type;
	rai->ai_port_space = hints->ai_port_space;
	return copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len, hints->ai_dst_addr, hints->ai_dst_len);
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_getaddrinfo,
			   (const char *node, const char *service,
			    const struct rdma_addrinfo *hints, struct rdma_addrinfo **res),
			   (node, service, hints, res))
{
	struct rdma_addrinfo *rai;
	int ret;

	if (!res || (!node && !service && !hints))
		return cm_fail(EINVAL);
	rai = calloc(1, sizeof(*rai));
	if (!rai)
		return cm_fail(ENOMEM);
	ret = node || service ? look_up(node, service, hints, rai) : take_hints(hints, rai);
	if (!ret && hints && !rai->ai_src_len)
		ret = copy_addr(&rai->ai_src_addr, &rai->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
	if (ret) {
		rdma_freeaddrinfo(rai);
		if (ret != EAI_SYSTEM) /* getaddrinfo has set errno */
			errno = ret == EAI_MEMORY ? ENOMEM : EADDRNOTAVAIL;
		return ret; /* of getaddrinfo(3), for gai_strerror(3) */
	}
	*res = rai;
	return 0;
}

VB_EXPORT VB_RETURNS_NOTHING(rdma_freeaddrinfo, (struct rdma_addrinfo *res), (res))
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		free(res->ai_connect);
		free(res->ai_route);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res);
		res = next;
	}
}
