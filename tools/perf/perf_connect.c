/* SPDX-License-Identifier: Apache-2.0 */
/* How perf connects to a serve. */
#include "perf_connect.h"

#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "perf_host.h"
#include "perf_rails.h"
#include "perf_resolve.h"
#include "sys/addr.h"
#include "sys/iface.h"

struct target {
	const struct perf_options *options;
	const struct perf_path *path;
	char host[PERF_HOST_MAX];
	unsigned port;
	struct perf_client *client;
};

/* A handshake that failed while this end has no key: the other end wants one. */
static tcpx_status explain(const struct target *t, tcpx_status status, int asked)
{
	if (status != TCPX_ERR_AUTH || !asked || t->options->key || *config_text(CONFIG_KEY_FILE))
		return status;
	error_set(status, 0, "the other end wants a key, and there is none here");
	return error_next("give the key file of its serve: --key FILE or TCPX_KEY_FILE");
}

/* Opens the session on these local addresses (NULL: loopback) and connects. */
static tcpx_status connect_with(struct target *t, const char *bind)
{
	const struct perf_options *o = t->options;
	TCPX_OPTS(tcpx_session_opts, opts, .bind = bind, .key_file = o->key,
		  .channels = t->path->want_channels, .chunk_bytes = t->path->want_chunk,
		  .workers = (uint32_t)o->workers);
	char address[PERF_ADDRESS_TEXT];
	tcpx_status status;

	if (o->insecure)
		opts.flags |= TCPX_SESSION_INSECURE;
	if (o->busy_poll)
		opts.flags |= TCPX_SESSION_BUSY_POLL;
	if (perf_by_plugin(t->path->want)) {
		opts.plugin = o->plugin.file;
		opts.nic = o->plugin.nic;
		opts.plugin_channels = (uint32_t)o->plugin.channels;
	}
	if (t->path->want == PERF_TRANSPORT_TCP || perf_by_plugin(t->path->want))
		opts.flags |= TCPX_SESSION_NO_LOCAL;
	if (t->path->want == PERF_TRANSPORT_LOCAL)
		opts.flags |= TCPX_SESSION_LOCAL_ONLY;
	snprintf(address, sizeof(address), strchr(t->host, ':') ? "[%s]:%u" : "%s:%u", t->host,
		 t->port);
	status = perf_client_open(t->client, &opts, address, o->peer_key, o->deadline_ns);
	/* without a key or --insecure nobody beyond loopback was contacted */
	return explain(t, status, o->insecure || !bind);
}

/* Fails if no local address has the family of an address of the host. */
static tcpx_status check_bind(const struct target *t, const char *bind)
{
	struct sockaddr_storage locals[PERF_RAILS_MAX];
	struct addrinfo *list, *ai;
	unsigned count, found = 0;
	int family = AF_INET;
	tcpx_status status = sys_iface_expand(bind, locals, PERF_RAILS_MAX, &count);

	if (status == TCPX_OK)
		status = perf_resolve(t->host, t->options->deadline_ns, &list);
	if (status != TCPX_OK)
		return status;
	for (ai = list; ai; ai = ai->ai_next) {
		family = ai->ai_family;
		for (unsigned i = 0; i < count; i++)
			found += locals[i].ss_family == ai->ai_family;
	}
	freeaddrinfo(list);
	if (found)
		return TCPX_OK;
	error_set(TCPX_ERR_ADDRESS, 0, "%.60s has no IPv%d address, and %.60s no other", bind,
		  family == AF_INET ? 4 : 6, t->host);
	return error_next("bind an interface that has one, or connect to another address");
}

/* Without --bind: the addresses of the other end are known only after it has answered over the
 * first one, so there may be a second connection over all of them. */
static tcpx_status connect_direct(struct target *t)
{
	char first[PERF_BIND_MAX], all[PERF_BIND_MAX];
	const char *bind;
	tcpx_status status;

	status = perf_rails_first(t->host, t->options->deadline_ns, first, sizeof(first), &bind);
	if (status == TCPX_OK)
		status = connect_with(t, bind);
	if (status != TCPX_OK || !bind ||
	    perf_rails_direct(t->client->addresses, all, sizeof(all)) < 2)
		return status;
	perf_client_close(t->client, 1);
	return connect_with(t, all);
}

/* Replaces the host by its first address of the family. */
static tcpx_status take_family(struct target *t, int family)
{
	struct addrinfo *list, *ai;
	tcpx_status status = perf_resolve(t->host, t->options->deadline_ns, &list);
	char name[PERF_HOST_MAX], text[SYS_ADDR_TEXT];
	struct sockaddr_storage addr = {0};

	if (status != TCPX_OK)
		return status;
	for (ai = list; ai && ai->ai_family != family; ai = ai->ai_next)
		;
	if (ai)
		memcpy(&addr, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(list);
	snprintf(name, sizeof(name), "%s", t->host);
	if (!addr.ss_family) {
		error_set(TCPX_ERR_ADDRESS, 0, "host '%.80s' has no IPv%d address", name,
			  family == AF_INET ? 4 : 6);
		return error_next("leave -%d out", family == AF_INET ? 4 : 6);
	}
	snprintf(t->host, sizeof(t->host), "%s", sys_addr_host_text(&addr, text));
	return TCPX_OK;
}

tcpx_status perf_connect(const struct perf_options *o, const struct perf_path *path,
			 const char *address, struct perf_client *client)
{
	struct target t = {.options = o, .path = path, .client = client};
	const char *bind = o->bind ? o->bind : config_text(CONFIG_BIND);
	const char *wrong = perf_host_split(address, t.host, &t.port);
	tcpx_status status = TCPX_OK;

	if (wrong)
		return error_set(TCPX_ERR_INVALID, 0, "%s", wrong);
	if (!t.port)
		t.port = o->port ? (unsigned)o->port : perf_port_default();
	if (o->ipv4 || o->ipv6)
		status = take_family(&t, o->ipv4 ? AF_INET : AF_INET6);
	if (status != TCPX_OK)
		return status;
	if (!*bind)
		return connect_direct(&t);
	status = check_bind(&t, bind);
	return status == TCPX_OK ? connect_with(&t, bind) : status;
}
