/* SPDX-License-Identifier: Apache-2.0 */
/* Texts about a plugin channel: its NIC, its addresses, what its setup waits for. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "engine/channel/comms.h"
#include "sys/addr.h"
#include "sys/iface.h"

const struct engine_nic *comms_nic(const struct engine_comms *comms)
{
	const struct engine_plugin *plugin = comms->peer->link.session->plugin;

	return &plugin->nics[(comms->channel - comms->peer->comms->first) % plugin->nnics];
}

const char *comms_nic_name(const struct engine_comms *comms)
{
	return net_plugin_device(comms->peer->link.session->plugin->plugin, comms_nic(comms)->dev)
		->name;
}

void comms_named(const struct engine_comms *comms, const char *text, char *out_text, size_t size)
{
	char name[128];
	int len = snprintf(name, sizeof(name), "channel %u, NIC %s", comms->channel,
			   comms_nic_name(comms));

	if (strncmp(text, name, (size_t)len) != 0) /* errors of plugin calls begin with the name */
		text_format(out_text, size, "%s: %s", name, text);
	else
		text_format(out_text, size, "%s", text);
}

/* Reads the listening address from a connect handle. Returns false if the handle has none. The
 * format of a handle is the plugin's own, but handles of plugins over IP begin with the address. */
static bool handle_addr(const uint8_t handle[NCCLNET_HANDLE_BYTES], struct sockaddr_storage *out)
{
	memset(out, 0, sizeof(*out));
	memcpy(&out->ss_family, handle, sizeof(out->ss_family));
	if (out->ss_family == AF_INET)
		memcpy(out, handle, sizeof(struct sockaddr_in));
	else if (out->ss_family == AF_INET6)
		memcpy(out, handle, sizeof(struct sockaddr_in6));
	else
		return false;
	return sys_addr_port(out) != 0;
}

/* Finds the address of the interface that has the NIC's name. Log lines and errors state this
 * address while the plugin does not listen yet. Returns false if it has no address. */
static bool nic_addr(const struct engine_comms *comms, struct sockaddr_storage *out)
{
	struct sockaddr_storage addrs[4];
	tcpx_error kept = *error_last();
	unsigned count = 0;
	char exact[80];

	snprintf(exact, sizeof(exact), "=%s", comms_nic_name(comms));
	if (sys_iface_expand(exact, addrs, 4, &count) != TCPX_OK || !count) {
		/* restores the last error, which the caller is about to report */
		(void)error_raise(&kept);
		return false;
	}
	*out = addrs[0];
	return true;
}

void comms_where(const struct engine_comms *comms, enum comms_op op, char *out_text, size_t size)
{
	struct sockaddr_storage here, there;
	char own[SYS_ADDR_TEXT], far[SYS_ADDR_TEXT];

	bool ours = handle_addr(comms->setup.own_handle, &here) || nic_addr(comms, &here), theirs;

	theirs = handle_addr(comms->setup.handle, &there);
	out_text[0] = '\0';
	if (op == COMMS_CONNECT && theirs)
		text_format(out_text, size, ours ? " (to %s from %s)" : " (to %s)",
			    sys_addr_text(&there, far), sys_addr_host_text(&here, own));
	else if (op == COMMS_ACCEPT && ours)
		text_format(out_text, size, theirs ? " (at %s from %s)" : " (at %s)",
			    sys_addr_text(&here, own), sys_addr_host_text(&there, far));
}

/* Appends `what` and `where` to the text of length `len`, after a separator unless `len` is 0.
 * Returns the new length. */
static size_t awaits_add(char *text, size_t len, size_t size, const char *what, const char *where)
{
	return len + text_format(text + len, size - len, "%s%s%s", len ? "; " : "", what, where);
}

void comms_awaits(const struct engine_comms *comms, char *out_text, size_t size)
{
	char where[COMMS_WHERE_BYTES];
	size_t len = 0;

	out_text[0] = '\0';
	if (comms->setup.op[COMMS_LISTEN])
		len = awaits_add(out_text, len, size, "listen is under way", "");
	else if (!comms->setup.handle_came)
		len = awaits_add(out_text, len, size, "the peer does not listen yet", "");
	if (comms->setup.op[COMMS_CONNECT]) {
		comms_where(comms, COMMS_CONNECT, where, sizeof(where));
		len = awaits_add(out_text, len, size, "connect is under way", where);
	}
	if (comms->setup.op[COMMS_ACCEPT]) {
		comms_where(comms, COMMS_ACCEPT, where, sizeof(where));
		len = awaits_add(out_text, len, size, "accept is under way", where);
	}
	if (comms->setup.memory_begun && !comms->setup.ready_told)
		len = awaits_add(out_text, len, size, "memory is being prepared", "");
	if (comms->setup.op[COMMS_FIRST_OUT])
		len = awaits_add(out_text, len, size, "the plugin did not take the first message",
				 "");
	if (comms->setup.op[COMMS_FIRST_IN])
		len = awaits_add(out_text, len, size, "the peer's first message did not come", "");
	if (!len)
		(void)awaits_add(out_text, len, size, "the peer is not ready", "");
}

void comms_why(struct engine_comms *comms, tcpx_status status)
{
	const tcpx_error *error = error_last();

	pthread_mutex_lock(&comms->lock);
	if (!comms->why[0])
		text_format(comms->why, sizeof(comms->why), "%s",
			    error->status == status ? error->what : error_status_text(status));
	pthread_mutex_unlock(&comms->lock);
}

void comms_reason(struct engine_comms *comms, tcpx_status status, char *out_text, size_t size)
{
	pthread_mutex_lock(&comms->lock);
	comms_named(comms, comms->why[0] ? comms->why : error_status_text(status), out_text, size);
	pthread_mutex_unlock(&comms->lock);
}
