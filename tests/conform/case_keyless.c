/* SPDX-License-Identifier: Apache-2.0 */
/* Where a build without a crypto library may connect to. */
#include <netinet/in.h>

#include "conform.h"
#include "sys/iface.h"
#include "wire/hello.h"

static tcpx_status connect_one_of(struct env *env, const struct wire_address *first,
				  const struct wire_address *second)
{
	TCPX_OPTS(tcpx_connect_opts, opts, .timeout_ns = 20 * SEC);
	uint8_t info[TCPX_INFO_MAX_BYTES];
	struct wire_info parts;
	tcpx_peer peer;
	size_t len;

	OK(wire_info_decode(env->info, env->info_len, &parts));
	parts.naddrs = 2;
	parts.addrs[0] = *first;
	parts.addrs[1] = *second;
	len = wire_info_encode(&parts, info, sizeof(info));
	return tcpx_session_connect(env->session, info, len, &opts, &peer);
}

/* An address of this host that is not loopback, if it has one. */
static bool own_address(struct wire_address *out)
{
	struct sys_iface *ifaces;
	unsigned count, i = 0;

	OK(sys_iface_list(&ifaces, &count));
	while (i < count && (ifaces[i].loopback || ifaces[i].addr.ss_family != AF_INET))
		i++;
	if (i < count)
		memcpy(out->bytes, &((struct sockaddr_in *)&ifaces[i].addr)->sin_addr, 4);
	free(ifaces);
	return i < count;
}

/* Without a crypto library the secret goes to loopback alone, and there only to a peer of this
 * host: who has an address that is not ours has another loopback. */
static void case_info_beyond_loopback(struct env *env)
{
	const struct wire_address away = {.family = 4, .port = 9, .bytes = {203, 0, 113, 77}};
	struct wire_address dead, own = {.family = 4, .port = 9};
	struct wire_info parts;
	tcpx_session_opts opts;

	env_far(env, NULL);
	conform_opts(&opts, "near");
	OK(tcpx_session_open(&opts, &env->session));
	OK(wire_info_decode(env->info, env->info_len, &parts));
	dead = parts.addrs[0];
	dead.port = 1; /* nobody listens there */
	EXPECT(connect_one_of(env, &away, &away), TCPX_ERR_UNSUPPORTED);
	CHECK(strstr(tcpx_last_error()->what, "203.0.113.77: without a crypto library"));
	CHECK(strstr(tcpx_last_error()->next, "libssl3"));
	EXPECT(connect_one_of(env, &dead, &away), TCPX_ERR_UNSUPPORTED);
	EXPECT(connect_one_of(env, &away, &dead), TCPX_ERR_UNSUPPORTED);
	EXPECT(connect_one_of(env, &dead, &dead), TCPX_ERR_REFUSED);
	EXPECT(connect_one_of(env, &away, &parts.addrs[0]), TCPX_ERR_UNSUPPORTED);
	if (own_address(&own)) /* of this host, and no loopback either */
		EXPECT(connect_one_of(env, &own, &own), TCPX_ERR_UNSUPPORTED);
	else
		own = dead;
	OK(connect_one_of(env, &own, &parts.addrs[0]));
}

const struct case_row cases_keyless[] = {
	{"info_beyond_loopback", case_info_beyond_loopback, CASE_BARE | CASE_KEYLESS},
	{0},
};
