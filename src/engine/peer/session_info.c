/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses that a session advertises, its connection info, and its hello. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "engine/channel/comms.h"
#include "engine/peer/peer_calls.h"
#include "engine/peer/peer_route.h"
#include "sys/addr.h"
#include "sys/iface.h"

#define ADVERTISE_NS (10 * CLOCK_S_NS) /* time limit for name look-ups */
/* bytes for one entry of `advertise`: a name, a port and a NUL; a longer entry is an error */
#define ADVERTISE_MAX 280

tcpx_status session_option_error(enum config_id id, const char *text)
{
	const struct config_value *value = config_value(id);
	const char *name = config_row(id)->name;
	bool theirs = value->source != CONFIG_DEFAULT && !strcmp(text, value->text);
	tcpx_error error = *error_last();
	char field[32];
	size_t len = 0;

	for (const char *at = name + strlen("TCPX_"); *at && len + 1 < sizeof(field); at++)
		field[len++] = (char)tolower((unsigned char)*at);
	field[len] = '\0';
	(void)error_set(error.status, error.system_errno, "%s=%.*s%s: %s", theirs ? name : field,
			40, text, strlen(text) > 40 ? "..." : "", error.what);
	return error_next("%s", error.next);
}

static void advertised_add_address(struct wire_address *addrs, uint32_t *count,
				   const struct sockaddr_storage *addr, uint16_t port)
{
	if (*count == WIRE_ADDR_MAX)
		return;
	peer_addr_to_wire(addr, &addrs[*count]);
	addrs[(*count)++].port = port;
}

/* Returns how far an address can be reached: 0 from anywhere, 1 from its network segment, 2 from
 * this host only. */
static unsigned advertised_reach(const struct sys_iface *iface)
{
	if (iface->loopback)
		return 2;
	return sys_addr_is_link_local(&iface->addr) ? 1 : 0;
}

/* Reads TCPX_CTRL_IP. *out_set tells whether it is set; if not, returns OK and no address. */
static tcpx_status advertised_published(uint16_t port, struct sockaddr_storage *out_addr,
					bool *out_set)
{
	const char *text = config_text(CONFIG_CTRL_IP);

	*out_set = *text != '\0';
	return *text ? sys_addr_parse(text, port, out_addr) : TCPX_OK;
}

tcpx_status session_published_check(void)
{
	struct sockaddr_storage addr;
	bool set;

	if (advertised_published(0, &addr, &set) == TCPX_OK)
		return TCPX_OK;
	(void)error_set(TCPX_ERR_INVALID, 0, "%s=%s is not an IP address",
			config_row(CONFIG_CTRL_IP)->name, config_text(CONFIG_CTRL_IP));
	return error_next("set it to an address at which peers reach this process, or unset it");
}

static bool advertised_same_address(const struct wire_address *a, const struct wire_address *b)
{
	return a->family == b->family && a->port == b->port && a->scope == b->scope &&
	       !memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

/* Moves the address of TCPX_CTRL_IP to the front of `addrs`. If `addrs` does not contain that
 * address (it may belong to a NAT or a service), replaces the whole list by that address. */
static void advertised_publish(const struct engine_session *session, struct wire_address *addrs,
			       uint32_t *count)
{
	struct sockaddr_storage addr;
	struct wire_address wire;
	uint32_t at = 0;
	bool set;

	if (advertised_published(session->listen.port, &addr, &set) != TCPX_OK || !set)
		return;
	peer_addr_to_wire(&addr, &wire);
	wire.port = session->listen.port;
	while (at < *count && !advertised_same_address(&addrs[at], &wire))
		at++;
	if (at == *count)
		*count = at = 0;
	memmove(&addrs[1], &addrs[0], at * sizeof(*addrs));
	addrs[0] = wire;
	*count += !*count;
}

/* Resolves one entry of the option `advertise`, an address or a name, with or without a port, and
 * appends its addresses to `out`. */
static tcpx_status advertised_advertise_one(const char *text, int64_t deadline_ns,
					    struct wire_address *out, uint32_t *count)
{
	struct sockaddr_storage addrs[WIRE_ADDR_MAX];
	unsigned found = 0;
	tcpx_status status = ctl_resolve(text, 0, deadline_ns, addrs, WIRE_ADDR_MAX, &found);

	for (unsigned i = 0; i < found && status == TCPX_OK; i++) {
		if (sys_addr_is_any(&addrs[i])) {
			(void)error_set(TCPX_ERR_INVALID, 0,
					"no peer can connect to the wildcard %.80s", text);
			return error_next("name an address at which peers reach this host");
		}
		if (*count == WIRE_ADDR_MAX)
			return error_set(TCPX_ERR_LIMIT, 0, "more than %d addresses to advertise",
					 WIRE_ADDR_MAX);
		peer_addr_to_wire(&addrs[i], &out[(*count)++]);
	}
	return status;
}

tcpx_status session_advertised_find(const struct engine_session *session,
				    struct wire_address *out_addrs, uint32_t *out_count)
{
	int64_t deadline_ns = clock_now_ns() + ADVERTISE_NS;
	const char *rest = session->advertised.option;
	tcpx_status status = TCPX_OK;
	uint32_t count = 0;

	while (rest && status == TCPX_OK) {
		char text[ADVERTISE_MAX];
		size_t skip = strspn(rest, " \t"), len = strcspn(rest, ",");
		size_t end = len;

		while (end > skip && (rest[end - 1] == ' ' || rest[end - 1] == '\t'))
			end--;
		skip = skip < end ? skip : end;
		snprintf(text, sizeof(text), "%.*s", (int)(end - skip), rest + skip);
		if (end - skip >= sizeof(text))
			status =
				error_set(TCPX_ERR_INVALID, 0, "an entry of %zu bytes, at most %zu",
					  end - skip, sizeof(text) - 1);
		else
			status = advertised_advertise_one(text, deadline_ns, out_addrs, &count);
		rest = rest[len] ? rest + len + 1 : NULL;
	}
	if (status != TCPX_OK)
		return session_option_error(CONFIG_ADVERTISE, session->advertised.option);
	*out_count = count;
	return TCPX_OK;
}

/* Fills in the addresses that the option `advertise` names, or, if it names none, those at which
 * the session listens. A wildcard stands for all addresses of its family on the host, the most
 * widely reachable ones first, because at most WIRE_ADDR_MAX are advertised. If `advertise` names
 * none, TCPX_CTRL_IP changes the list (advertised_publish). */
uint32_t session_addresses(struct engine_session *session, struct wire_address addrs[WIRE_ADDR_MAX])
{
	struct sys_iface *ifaces;
	unsigned nifaces, j;
	uint32_t count = 0, i;

	for (i = 0; i < session->advertised.count; i++) {
		addrs[i] = session->advertised.addrs[i];
		if (!addrs[i].port)
			addrs[i].port = session->listen.port;
	}
	if (session->advertised.count)
		return session->advertised.count;
	for (i = 0; i < session->rails.count; i++) {
		const struct sockaddr_storage *rail = &session->rails.at[i];

		if (!sys_addr_is_any(rail)) {
			advertised_add_address(addrs, &count, rail, session->listen.port);
			continue;
		}
		if (sys_iface_list(&ifaces, &nifaces) != TCPX_OK)
			continue;
		for (j = 0; j < 3 * nifaces; j++) {
			const struct sys_iface *iface = &ifaces[j % nifaces];

			if (iface->addr.ss_family == rail->ss_family &&
			    advertised_reach(iface) == j / nifaces)
				advertised_add_address(addrs, &count, &iface->addr,
						       session->listen.port);
		}
		free(ifaces);
	}
	advertised_publish(session, addrs, &count);
	return count;
}

tcpx_status engine_info(struct engine_session *session, void *buf, size_t cap, size_t *out_len)
{
	struct wire_info info = {0};
	size_t len;

	if (!session->listen.port) {
		error_set(TCPX_ERR_STATE, 0, "session does not listen");
		return error_next("call tcpx_session_listen() first");
	}
	memcpy(info.uuid, session->uuid, sizeof(info.uuid));
	memcpy(info.incarnation, session->incarnation, sizeof(info.incarnation));
	memcpy(info.secret, session->secret, sizeof(info.secret));
	memcpy(info.name, session->name, sizeof(info.name));
	info.has_key = session->identity.own.there;
	memcpy(info.key, session->identity.own.public_key, sizeof(info.key));
	info.naddrs = session_addresses(session, info.addrs);
	len = wire_info_encode(&info, buf, cap);
	explicit_bzero(info.secret, sizeof(info.secret));
	if (!len)
		return error_set(TCPX_ERR_RANGE, 0,
				 "a buffer of %zu bytes is too small for the info", cap);
	*out_len = len;
	return TCPX_OK;
}

void peer_fill_hello(struct engine_session *session, struct wire_hello *hello)
{
	hello->proto_min = WIRE_PROTO_MIN;
	hello->proto_max = WIRE_PROTO_MAX;
	memcpy(hello->uuid, session->uuid, sizeof(hello->uuid));
	memcpy(hello->incarnation, session->incarnation, sizeof(hello->incarnation));
	memcpy(hello->name, session->name, sizeof(hello->name));
	hello->channels = session->tuning.channels;
	hello->chunk_bytes = session->tuning.chunk_bytes;
	hello->features = WIRE_FEATURE_SEGMENTS;
	if (!(session->flags & TCPX_SESSION_NO_LOCAL))
		hello->features |= WIRE_FEATURE_LOCAL | WIRE_FEATURE_LOCAL_ANSWER;
	if (comms_first_known(session))
		hello->features |= WIRE_FEATURE_FIRST;
	hello->notify_budget = session->tuning.notify_budget;
	hello->notify_cover = session->account.share;
	hello->eager_budget = ENGINE_EAGER_BUDGET;
	hello->read_budget = ENGINE_READ_WINDOW;
	comms_hello(session, &hello->messages);
}
