/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that is played: NICs with their addresses and GPUs, and which of them are devices. */
#include "emu.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An A3 host on aliases of the loopback; eth0 has no GPU and serves control sockets. */
#define A3                                                                                         \
	"eth0=127.0.0.1;eth1=127.0.1.1:06:00.0:04,05;eth2=127.0.2.1:0c:00.0:0a,0b;"                \
	"eth3=127.0.3.1:86:00.0:84,85;eth4=127.0.4.1:8c:00.0:8a,8b"

/* An address, or the first IPv4 one of a real interface. */
static int address(const char *text, union emu_addr *out)
{
	struct ifaddrs *all, *at;
	int rc = -1;

	memset(out, 0, sizeof(*out));
	out->in.sin_family = AF_INET;
	if (inet_pton(AF_INET, text, &out->in.sin_addr) == 1)
		return 0;
	if (getifaddrs(&all))
		return -1;
	for (at = all; at && rc; at = at->ifa_next) {
		if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET &&
		    !strcmp(at->ifa_name, text)) {
			out->in = *(const struct sockaddr_in *)(const void *)at->ifa_addr;
			out->in.sin_port = 0;
			rc = 0;
		}
	}
	freeifaddrs(all);
	return rc;
}

/* "06:00.0", "04" or "0000:04:00.0" in full. */
static int pci(const char *text, char *out, size_t size)
{
	unsigned domain = 0, bus, device = 0, function = 0;

	if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4) {
		domain = device = function = 0;
		if (sscanf(text, "%x:%x.%x", &bus, &device, &function) != 3) {
			device = function = 0;
			if (sscanf(text, "%x", &bus) != 1)
				return -1;
		}
	}
	if (domain > 0xffff || bus > 0xff || device > 0x1f || function > 7)
		return -1;
	snprintf(out, size, "%04x:%02x:%02x.%x", domain, bus, device, function);
	return 0;
}

static int read_gpus(char *text, int nic)
{
	char *rest = NULL;

	for (char *one = strtok_r(text, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
		struct emu_gpu *gpu = &emu_config.gpu[emu_config.gpus];

		if (emu_config.gpus == EMU_GPUS || pci(one, gpu->pci, sizeof(gpu->pci)))
			return -1;
		gpu->nic = nic;
		emu_config.gpus++;
	}
	return 0;
}

/* name=address[:pci:gpu,gpu...], pci with a colon or two of its own */
static int read_nic(char *text)
{
	struct emu_nic *nic = &emu_config.topo[emu_config.nics];
	char *equals = strchr(text, '='), *colon, *last, at[sizeof(nic->pci)];

	if (emu_config.nics == EMU_NICS || !equals || (size_t)(equals - text) >= sizeof(nic->name))
		return -1;
	*equals = 0;
	snprintf(nic->name, sizeof(nic->name), "%s", text);
	text = equals + 1;
	colon = strchr(text, ':');
	if (colon)
		*colon = 0;
	if (address(text, &nic->addr))
		return -1;
	if (colon) {
		last = strrchr(colon + 1, ':');
		if (!last)
			return -1;
		*last = 0;
		if (pci(colon + 1, nic->pci, sizeof(nic->pci)) ||
		    read_gpus(last + 1, emu_config.nics))
			return -1;
		memcpy(at, nic->pci, sizeof(at));
		snprintf(nic->path, sizeof(nic->path), "/sys/devices/pci%.7s/%s", at, at);
	}
	emu_config.nics++;
	return 0;
}

int emu_topo_read(const char *topology)
{
	char *copy = strdup(topology && *topology ? topology : A3), *rest = NULL;
	int rc = copy ? 0 : -1;

	for (char *one = copy ? strtok_r(copy, ";", &rest) : NULL; one && !rc;
	     one = strtok_r(NULL, ";", &rest)) {
		if (read_nic(one)) {
			EMU_WARN("TCPXEMU: TCPXEMU_TOPO: %s: not name=address:pci:gpu,gpu", one);
			rc = -1;
		}
	}
	free(copy);
	return rc;
}

/* The original's list: prefixes, or whole names behind '='; '^' turns it round. */
static bool named(const char *name, const char *list)
{
	bool not = *list == '^', exact, hit = false;

	list += not ;
	exact = *list == '=';
	list += exact;
	while (*list) {
		size_t len = strcspn(list, ",");

		if (len && !strncmp(name, list, len) && (!exact || !name[len]))
			hit = true;
		list += len + (list[len] == ',');
	}
	return hit != not ;
}

int emu_topo_choose(const char *interfaces, const char *ctrl_dev)
{
	struct emu_config *config = &emu_config;
	int at;

	config->devs = 0;
	for (int i = 0; i < config->nics; i++) {
		const struct emu_nic *nic = &config->topo[i];

		if (interfaces && *interfaces ? !named(nic->name, interfaces) : !nic->pci[0])
			continue;
		for (at = config->devs++; at > 0; at--) { /* sorted, whatever the list's order */
			if (strcmp(config->topo[config->dev[at - 1]].name, nic->name) < 0)
				break;
			config->dev[at] = config->dev[at - 1];
		}
		config->dev[at] = i;
	}
	if (!config->devs) {
		EMU_WARN("TCPXEMU: no interface found");
		return -1;
	}
	config->ctrl_set = ctrl_dev && *ctrl_dev;
	if (config->ctrl_set) {
		for (at = 0; at < config->nics && !named(config->topo[at].name, ctrl_dev); at++)
			;
		if (at < config->nics)
			config->ctrl = config->topo[at].addr;
		else if (address(ctrl_dev, &config->ctrl)) /* not detected there either */
			EMU_INFO("TCPXEMU: no control interface %s", ctrl_dev);
	}
	return 0;
}

const struct emu_nic *emu_nic(int dev)
{
	return &emu_config.topo[emu_config.dev[dev]];
}

int emu_nic_of_gpu(int gpu)
{
	for (int dev = 0; gpu >= 0 && gpu < emu_config.gpus && dev < emu_config.devs; dev++) {
		if (emu_config.dev[dev] == emu_config.gpu[gpu].nic)
			return dev;
	}
	return -1;
}
