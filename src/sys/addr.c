/* SPDX-License-Identifier: Apache-2.0 */
/* Socket addresses as text and as bits. */
#include "sys/addr.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const struct sockaddr_in *v4(const struct sockaddr_storage *addr)
{
	return (const struct sockaddr_in *)addr;
}

static const struct sockaddr_in6 *v6(const struct sockaddr_storage *addr)
{
	return (const struct sockaddr_in6 *)addr;
}

/* Returns the bytes of the address in network order, and stores their number in *len. Returns NULL
 * and sets *len to 0 if the address is neither v4 nor v6. */
static const uint8_t *host_bits(const struct sockaddr_storage *addr, unsigned *len)
{
	*len = 0;
	if (addr->ss_family == AF_INET) {
		*len = 4;
		return (const uint8_t *)&v4(addr)->sin_addr;
	}
	if (addr->ss_family == AF_INET6) {
		*len = 16;
		return (const uint8_t *)&v6(addr)->sin6_addr;
	}
	return NULL;
}

/* Parses the text after % of a v6 address, the name or number of an interface. Returns 1. Returns 0
 * if no interface has the name and the text is not a number above 0. */
static int parse_scope(const char *text, uint32_t *out_scope)
{
	char *end;
	unsigned long number;

	/* if_nametoindex() would cut the name at a colon */
	*out_scope = strchr(text, ':') ? 0 : if_nametoindex(text);
	if (*out_scope)
		return 1;
	if (*text < '0' || *text > '9')
		return 0;
	number = strtoul(text, &end, 10);
	*out_scope = (uint32_t)number;
	return !*end && number > 0 && number <= INT32_MAX;
}

tcpx_status sys_addr_parse(const char *text, uint16_t port, struct sockaddr_storage *out_addr)
{
	struct sockaddr_storage addr = {0};
	struct sockaddr_in *in = (struct sockaddr_in *)&addr;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&addr;
	char host[INET6_ADDRSTRLEN];
	const char *percent = strchr(text, '%');
	size_t len = percent ? (size_t)(percent - text) : strlen(text);

	if (len >= sizeof(host))
		return TCPX_ERR_INVALID;
	memcpy(host, text, len);
	host[len] = '\0';
	if (!percent && inet_pton(AF_INET, host, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
	} else if (inet_pton(AF_INET6, host, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		if (percent && !parse_scope(percent + 1, &in6->sin6_scope_id))
			return TCPX_ERR_INVALID;
	} else {
		return TCPX_ERR_INVALID;
	}
	*out_addr = addr;
	return TCPX_OK;
}

/* Returns the port that the text names, or 0 if the text is not a number from 1 to 65535. */
static uint16_t parse_port(const char *text)
{
	size_t len = strspn(text, "0123456789");
	unsigned port = 0;

	if (!len || len > 5 || text[len])
		return 0;
	for (; *text; text++)
		port = port * 10 + (unsigned)(*text - '0');
	return port <= UINT16_MAX ? (uint16_t)port : 0;
}

/* Checks a text with several colons. Returns NULL if it is an address, otherwise an explanation of
 * what is wrong. For "fd09::1:20000" the explanation suggests "[fd09::1]:20000", an address with a
 * port. */
static const char *explain_bare_v6(const char *text)
{
	static _Thread_local char hint[SYS_ADDR_TEXT + 24];
	const char *colon = strrchr(text, ':'), *scope = text + strcspn(text, "%");
	struct sockaddr_storage addr;
	char host[INET6_ADDRSTRLEN + IF_NAMESIZE];

	if (sys_addr_parse(text, 0, &addr) == TCPX_OK)
		return NULL;
	snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
	if (parse_port(colon + 1) && sys_addr_parse(host, 0, &addr) == TCPX_OK) {
		text_format(hint, sizeof(hint), "write [%s]:%s", host, colon + 1);
		return hint;
	}
	snprintf(host, sizeof(host), "%.*s", (int)(scope - text), text);
	if (*scope && sys_addr_parse(host, 0, &addr) == TCPX_OK)
		return "no interface has the name after the %";
	return "it has several colons and is not an IPv6 address";
}

const char *sys_addr_split(const char *text, char host[SYS_HOST_MAX], uint16_t *out_port)
{
	const char *end, *colon, *why;
	uint16_t port = 0;
	size_t len;

	if (*text == '[') {
		end = strchr(++text, ']');
		if (!end)
			return "the ] is missing";
		if (end[1] && end[1] != ':')
			return "only :PORT may follow the ]";
		colon = end[1] ? end + 1 : NULL;
	} else {
		colon = strchr(text, ':');
		if (colon && strchr(colon + 1, ':')) {
			why = explain_bare_v6(text);
			if (why)
				return why;
			colon = NULL;
		}
		end = colon ? colon : text + strlen(text);
	}
	len = (size_t)(end - text);
	if (!len)
		return "the host is empty";
	if (len >= SYS_HOST_MAX)
		return "the host is longer than 255 bytes";
	if (colon) {
		port = parse_port(colon + 1);
		if (!port)
			return "the port is not in 1..65535";
		*out_port = port;
	}
	memcpy(host, text, len);
	host[len] = '\0';
	return NULL;
}

const char *sys_addr_host_text(const struct sockaddr_storage *addr, char buf[SYS_ADDR_TEXT])
{
	char host[INET6_ADDRSTRLEN] = "?", name[IF_NAMESIZE];
	unsigned len;
	const uint8_t *bits = host_bits(addr, &len);

	if (!bits) {
		snprintf(buf, SYS_ADDR_TEXT, "(no address)");
		return buf;
	}
	inet_ntop(addr->ss_family, bits, host, sizeof(host));
	if (addr->ss_family == AF_INET6 && v6(addr)->sin6_scope_id) {
		uint32_t scope = v6(addr)->sin6_scope_id;

		if (if_indextoname(scope, name))
			snprintf(buf, SYS_ADDR_TEXT, "%s%%%s", host, name);
		else
			snprintf(buf, SYS_ADDR_TEXT, "%s%%%u", host, scope);
	} else {
		snprintf(buf, SYS_ADDR_TEXT, "%s", host);
	}
	return buf;
}

const char *sys_addr_text(const struct sockaddr_storage *addr, char buf[SYS_ADDR_TEXT])
{
	char host[SYS_ADDR_TEXT];

	sys_addr_host_text(addr, host);
	if (addr->ss_family == AF_INET6)
		snprintf(buf, SYS_ADDR_TEXT, "[%.62s]:%u", host, sys_addr_port(addr));
	else if (addr->ss_family == AF_INET)
		snprintf(buf, SYS_ADDR_TEXT, "%.62s:%u", host, sys_addr_port(addr));
	else
		memcpy(buf, host, sizeof(host));
	return buf;
}

socklen_t sys_addr_len(const struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET    ? sizeof(struct sockaddr_in)
	       : addr->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					     : sizeof(*addr);
}

uint16_t sys_addr_port(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return ntohs(v4(addr)->sin_port);
	return addr->ss_family == AF_INET6 ? ntohs(v6(addr)->sin6_port) : 0;
}

void sys_addr_set_port(struct sockaddr_storage *addr, uint16_t port)
{
	if (addr->ss_family == AF_INET)
		((struct sockaddr_in *)addr)->sin_port = htons(port);
	else if (addr->ss_family == AF_INET6)
		((struct sockaddr_in6 *)addr)->sin6_port = htons(port);
}

int sys_addr_is_loopback(const struct sockaddr_storage *addr)
{
	const struct in6_addr *in6 = &v6(addr)->sin6_addr;

	if (addr->ss_family == AF_INET)
		return ntohl(v4(addr)->sin_addr.s_addr) >> 24 == 127;
	if (addr->ss_family != AF_INET6)
		return 0;
	return IN6_IS_ADDR_LOOPBACK(in6) || (IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == 127);
}

int sys_addr_is_any(const struct sockaddr_storage *addr)
{
	static const uint8_t zero[16];
	unsigned len;
	const uint8_t *bits = host_bits(addr, &len);

	return bits && memcmp(bits, zero, len) == 0;
}

int sys_addr_is_link_local(const struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6(addr)->sin6_addr);
}

static enum sys_scope scope_of_v4(uint32_t host)
{
	if (host >> 24 == 127)
		return SYS_SCOPE_LOOPBACK;
	/* 169.254/16, which also contains the metadata server of clouds */
	if (host >> 16 == 0xa9fe)
		return SYS_SCOPE_LINK;
	return host >> 24 && host >> 24 < 224 ? SYS_SCOPE_WIDE : SYS_SCOPE_NONE;
}

enum sys_scope sys_addr_scope(const struct sockaddr_storage *addr)
{
	const struct in6_addr *in6 = &v6(addr)->sin6_addr;
	uint32_t low;

	if (addr->ss_family == AF_INET)
		return scope_of_v4(ntohl(v4(addr)->sin_addr.s_addr));
	if (addr->ss_family != AF_INET6 || IN6_IS_ADDR_UNSPECIFIED(in6) ||
	    IN6_IS_ADDR_MULTICAST(in6))
		return SYS_SCOPE_NONE;
	if (IN6_IS_ADDR_V4MAPPED(in6)) {
		memcpy(&low, &in6->s6_addr[12], sizeof(low));
		return scope_of_v4(ntohl(low));
	}
	if (IN6_IS_ADDR_LOOPBACK(in6))
		return SYS_SCOPE_LOOPBACK;
	return IN6_IS_ADDR_LINKLOCAL(in6) ? SYS_SCOPE_LINK : SYS_SCOPE_WIDE;
}

int sys_addr_may_dial(const struct sockaddr_storage *addr, const struct sockaddr_storage *link,
		      int same_host)
{
	enum sys_scope scope = sys_addr_scope(addr);

	return scope == SYS_SCOPE_WIDE || (scope == SYS_SCOPE_LOOPBACK && same_host) ||
	       (scope != SYS_SCOPE_NONE && scope == sys_addr_scope(link));
}

int sys_addr_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	unsigned len;
	const uint8_t *bits = host_bits(a, &len);

	if (!bits || a->ss_family != b->ss_family || memcmp(bits, host_bits(b, &len), len))
		return 0;
	return a->ss_family == AF_INET || v6(a)->sin6_scope_id == v6(b)->sin6_scope_id;
}

int sys_addr_same_subnet(const struct sockaddr_storage *a, const struct sockaddr_storage *b,
			 unsigned prefix)
{
	unsigned len, whole, rest;
	const uint8_t *x = host_bits(a, &len), *y;

	if (!x || a->ss_family != b->ss_family)
		return 0;
	y = host_bits(b, &len);
	if (prefix > len * 8)
		prefix = len * 8;
	whole = prefix / 8;
	rest = prefix % 8;
	if (memcmp(x, y, whole))
		return 0;
	return !rest || (x[whole] ^ y[whole]) >> (8 - rest) == 0;
}

uint64_t sys_addr_source(const struct sockaddr_storage *addr)
{
	const struct in6_addr *in6 = &v6(addr)->sin6_addr;
	uint64_t source = 0;
	uint32_t low;

	if (sys_addr_is_loopback(addr))
		return 1;
	if (addr->ss_family == AF_INET)
		return ntohl(v4(addr)->sin_addr.s_addr);
	if (addr->ss_family != AF_INET6)
		return 0;
	if (IN6_IS_ADDR_V4MAPPED(in6)) {
		memcpy(&low, &in6->s6_addr[12], sizeof(low));
		return ntohl(low);
	}
	memcpy(&source, in6, sizeof(source));
	return source;
}
