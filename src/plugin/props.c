/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a device's properties into a buffer larger than the properties of any version, and
 * accepts them only if they are plausible. This refuses a table that has another version than
 * its symbol. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

#include "plugin/priv.h"

/* fills the buffer after the properties, to detect a plugin that writes too much */
#define PROPS_BEYOND 0x5a
#define PROPS_PAGE 4096u
#define PROPS_SPEED_MAX 100000000 /* Mb/s */
#define PROPS_P2P_MAX ((size_t)1 << 40)

/* Copies a string of the plugin, cut to what fits. Returns -1 if the pointer is not valid. A system
 * call reads the string, so that an invalid pointer causes no fault. If that call is not possible
 * (seccomp), the pointer is trusted. */
static int copy_string(const char *from, char *out, size_t bytes)
{
	size_t done = 0, end;

	out[0] = '\0';
	if ((uintptr_t)from < PROPS_PAGE)
		return -1;
	while (done < bytes - 1) {
		size_t left = PROPS_PAGE - ((uintptr_t)from + done) % PROPS_PAGE;
		struct iovec local = {out + done,
				      left < bytes - 1 - done ? left : bytes - 1 - done};
		struct iovec remote = {(char *)from + done, local.iov_len};
		ssize_t n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);

		if (n <= 0 && errno == EFAULT)
			return -1;
		if (n <= 0) {
			snprintf(out, bytes, "%s", from);
			return 0;
		}
		end = strnlen(out + done, (size_t)n);
		done += end;
		if (end < (size_t)n)
			break;
	}
	out[done] = '\0';
	return 0;
}

/* Returns the name of the first number among the properties that is not plausible, or NULL. Does
 * not check the strings. */
static const char *implausible(const struct net_props *props)
{
	if (props->ptr_support & ~7 || !(props->ptr_support & NCCLNET_PTR_HOST))
		return "pointer support";
	if (props->reg_is_global < 0 || props->reg_is_global > 1)
		return "regIsGlobal";
	if (props->speed < -1 || props->speed > PROPS_SPEED_MAX)
		return "speed";
	if (props->port < 0 || props->port > UINT16_MAX)
		return "port";
	if (!isfinite(props->latency) || props->latency < 0)
		return "latency";
	if (props->max_comms <= 0)
		return "limit of comms";
	if (props->max_recvs < 1)
		return "limit of receives";
	if (props->device_type < NCCLNET_DEVICE_HOST || props->device_type > NCCLNET_DEVICE_GIN_GPI)
		return "device type";
	if (props->device_type == NCCLNET_DEVICE_UNPACK &&
	    props->device_version != NCCLNET_UNPACK_VERSION)
		return "version of the device type";
	if (!props->max_p2p_bytes || props->max_p2p_bytes > PROPS_P2P_MAX)
		return "message size limit";
	return NULL;
}

static tcpx_status props_wrong(const struct net_plugin *plugin, int dev, const char *what)
{
	error_set(TCPX_ERR_VERSION, 0,
		  "%s of %s is not a v%d table: the %s of device %d is invalid",
		  plugin->adapter->symbol, plugin->log.file, plugin->adapter->version, what, dev);
	return error_next("use a plugin whose table matches its symbol");
}

static void device_fill(const struct net_plugin *plugin, const struct net_props *props,
			struct net_plugin_device *device)
{
	device->guid = props->guid;
	device->ptr_support = (uint32_t)props->ptr_support;
	device->speed_mbps = props->speed > 0 ? (uint32_t)props->speed : 0; /* -1: no link */
	device->port = props->port;
	device->max_comms = props->max_comms;
	device->max_recvs = props->max_recvs;
	device->device_type = props->device_type;
	device->device_version = props->device_version;
	device->latency_us = props->latency;
	device->message_max = plugin->adapter->message_max;
	if (props->max_p2p_bytes < device->message_max)
		device->message_max = props->max_p2p_bytes;
}

tcpx_status net_plugin_properties(struct net_plugin *plugin, int dev,
				  struct net_plugin_device *out_device)
{
	_Alignas(16) unsigned char room[NET_PROPS_BYTES] = {0};
	size_t own = plugin->adapter->props_bytes;
	struct net_plugin_device device = {0};
	unsigned warned = net_plugin_warnings(plugin);
	char said[NET_PLUGIN_LINE_BYTES];
	struct net_props props;
	const char *what;
	ncclnet_result rc;

	memset(room + own, PROPS_BEYOND, sizeof(room) - own);
	rc = plugin->adapter->properties(plugin->table, dev, room);
	if (rc) {
		net_plugin_said(plugin, warned, said, sizeof(said));
		return error_set(TCPX_ERR_UNSUPPORTED, 0, "getProperties(%d) of %s: %s%s", dev,
				 plugin->log.file, net_plugin_result(rc), said);
	}
	for (size_t i = own; i < sizeof(room); i++)
		if (room[i] != PROPS_BEYOND)
			return props_wrong(plugin, dev, "size of the properties");
	plugin->adapter->translate(room, &props);
	what = implausible(&props);
	if (!what && (copy_string(props.name, device.name, sizeof(device.name)) || !device.name[0]))
		what = "name";
	if (!what && props.pci_path &&
	    copy_string(props.pci_path, device.pci_path, sizeof(device.pci_path)))
		what = "PCI path";
	if (what)
		return props_wrong(plugin, dev, what);
	device_fill(plugin, &props, &device);
	*out_device = device;
	return TCPX_OK;
}
