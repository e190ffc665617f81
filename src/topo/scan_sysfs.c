/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the graph of a machine from sysfs, or from a recorded sysfs tree. */
#include "topo/scan.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "sys/fd.h"

/* Reads the first line of the file folder/name into `text`, without the line feed. Returns 0.
 * Returns -1 if the file cannot be read; `text` is then "". */
static int read_line(const char *folder, const char *name, char *text, size_t cap)
{
	char path[PATH_MAX];
	ssize_t got = -1;
	int fd, len = snprintf(path, sizeof(path), "%s/%s", folder, name);

	text[0] = '\0';
	if (len < 0 || (size_t)len >= sizeof(path))
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	got = read(fd, text, cap - 1); /* one read() returns a whole file of sysfs */
	sys_fd_close(fd);
	text[got < 0 ? 0 : got] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return got < 0 ? -1 : 0;
}

/* Returns the number in the file folder/name. Returns `without` if there is no such file or it does
 * not contain a number. */
static long read_number(const char *folder, const char *name, long without)
{
	char text[64], *end;
	long value;

	if (read_line(folder, name, text, sizeof(text)))
		return without;
	errno = 0;
	value = strtol(text, &end, 0);
	return end == text || *end || errno ? without : value;
}

/* Parses "pciDDDD:BB", the name of a host bridge's folder. Returns 0, or -1 if it is another
 * name. */
static int parse_root(const char *name, uint64_t *out_root)
{
	unsigned domain, bus;
	int len = 0;

	if (sscanf(name, "pci%8x:%2x%n", &domain, &bus, &len) != 2 || name[len])
		return -1;
	*out_root = (uint64_t)domain << 8 | bus;
	return 0;
}

/* Finds the place of a device from its path in sysfs, which names all folders above it:
 * .../pci0000:00/BRIDGE/.../FUNCTION[/virtio0]. Modifies the text `real`. Returns 0, or -1 if the
 * device is not a PCI device or has too many bridges above it. */
static int place_from_path(char *real, struct topo_place *place)
{
	pci_addr path[TOPO_BRIDGES_MAX + 1], addr;
	unsigned depth = 0;
	int below = 0;
	char *part, *rest = NULL;

	for (part = strtok_r(real, "/", &rest); part; part = strtok_r(NULL, "/", &rest)) {
		if (!below) {
			below = !parse_root(part, &place->root);
			continue;
		}
		if (pci_parse(part, &addr))
			break;
		if (depth == TOPO_BRIDGES_MAX + 1)
			return -1;
		path[depth++] = addr;
	}
	if (!depth)
		return -1;
	place->pci = path[depth - 1];
	place->nbridges = depth - 1;
	memcpy(place->bridges, path, place->nbridges * sizeof(*path));
	place->located = 1;
	return 0;
}

/* Finds the place of the device that the symbolic link points to, and writes the folder of its PCI
 * function to `folder`. Returns 0, or -1 if the device is not a PCI device or has too many
 * bridges above it. */
static int place_from_link(const char *root, const char *link, struct topo_place *place,
			   char folder[PATH_MAX])
{
	char real[PATH_MAX], pci[PCI_TEXT_MAX];
	int len;

	*place = (struct topo_place){.numa = TOPO_NUMA_UNKNOWN};
	if (!realpath(link, real) || place_from_path(real, place))
		return -1;
	len = snprintf(folder, PATH_MAX, "%s/bus/pci/devices/%s", root,
		       pci_format(place->pci, pci));
	if (len < 0 || len >= PATH_MAX)
		return -1;
	place->numa = (int)read_number(folder, "numa_node", TOPO_NUMA_UNKNOWN);
	if (place->numa < 0)
		place->numa = TOPO_NUMA_UNKNOWN;
	place->vendor = (uint16_t)read_number(folder, "vendor", 0);
	place->device = (uint16_t)read_number(folder, "device", 0);
	return 0;
}

/* Sets nic->driver to the name of the driver that the symbolic link folder/driver points to. */
static void read_driver(const char *folder, struct topo_nic *nic)
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *name;
	ssize_t got = -1;
	int len = snprintf(path, sizeof(path), "%s/driver", folder);

	if (len > 0 && (size_t)len < sizeof(path))
		got = readlink(path, target, sizeof(target) - 1);
	if (got < 0)
		return;
	target[got] = '\0';
	name = strrchr(target, '/');
	snprintf(nic->driver, sizeof(nic->driver), "%.31s", name ? name + 1 : target);
}

void topo_nic_facts(const char *root, struct topo_nic *nic)
{
	char folder[PATH_MAX], device[PATH_MAX], pci[PCI_TEXT_MAX];
	int len = snprintf(folder, sizeof(folder), "%s/class/net/%s", root, nic->name);
	long number;

	if (len < 0 || (size_t)len >= sizeof(folder) - sizeof("/device"))
		return;
	if (nic->place.pci == PCI_NONE)
		len = snprintf(device, sizeof(device), "%s/class/net/%s/device", root, nic->name);
	else
		len = snprintf(device, sizeof(device), "%s/bus/pci/devices/%s", root,
			       pci_format(nic->place.pci, pci));
	if (len > 0 && (size_t)len < sizeof(device))
		read_driver(device, nic);
	read_line(folder, "address", nic->mac, sizeof(nic->mac));
	read_line(folder, "operstate", nic->state, sizeof(nic->state));
	/* The file "speed" contains -1 or cannot be read while the NIC is down. */
	number = read_number(folder, "speed", 0);
	nic->speed_mbps = number > 0 ? (uint64_t)number : 0;
	number = read_number(folder, "mtu", 0);
	nic->mtu = number > 0 && number < 1 << 20 ? (unsigned)number : 0;
}

/* Writes two paths of an interface: its folder to `at`, and the symbolic link to its device to
 * `link`. Returns 0, or -1 if the name or path is too long. */
static int interface_paths(const char *root, const char *name, char at[PATH_MAX],
			   char link[PATH_MAX + 8])
{
	int len = snprintf(at, PATH_MAX, "%s/class/net/%s", root, name);

	if (strlen(name) >= IF_NAMESIZE || len < 0 || len >= PATH_MAX)
		return -1;
	snprintf(link, PATH_MAX + 8, "%s/device", at);
	return 0;
}

/* Adds an interface that has no PCI function. Skips interfaces of a PCI function, loopback, and
 * files that are not interfaces. */
static void add_virtual(struct topo *topo, const char *root, const char *name)
{
	char at[PATH_MAX], link[PATH_MAX + 8], folder[PATH_MAX];
	struct topo_nic *nic = &topo->virtuals[topo->nvirtuals];
	struct topo_place place;
	struct stat st;

	if (interface_paths(root, name, at, link) || stat(at, &st) || !S_ISDIR(st.st_mode) ||
	    !strcmp(name, "lo") || read_number(at, "type", 0) == ARPHRD_LOOPBACK ||
	    !place_from_link(root, link, &place, folder))
		return;
	if (topo->nvirtuals == TOPO_NICS_MAX) {
		LOG_DEBUG("more than %d interfaces without PCI; %s is left out", TOPO_NICS_MAX,
			  name);
		return;
	}
	*nic = (struct topo_nic){.place = {.numa = TOPO_NUMA_UNKNOWN}};
	snprintf(nic->name, sizeof(nic->name), "%s", name);
	topo_nic_facts(root, nic);
	topo->nvirtuals++;
}

/* Adds an interface of a PCI function. Skips other interfaces. */
static void add_nic(struct topo *topo, const char *root, const char *name)
{
	char at[PATH_MAX], link[PATH_MAX + 8], folder[PATH_MAX];
	struct topo_place place;
	struct topo_nic *nic;

	if (interface_paths(root, name, at, link) || place_from_link(root, link, &place, folder))
		return;
	if (topo->nnics == TOPO_NICS_MAX) {
		LOG_WARN("more than %d NICs; %s is left out", TOPO_NICS_MAX, name);
		return;
	}
	nic = &topo->nics[topo->nnics++];
	*nic = (struct topo_nic){.place = place};
	snprintf(nic->name, sizeof(nic->name), "%s", name);
	topo_nic_facts(root, nic);
}

/* Adds a PCI device if it is a GPU of NVIDIA (a display controller: class 0x03, with or without
 * outputs). Skips other devices. */
static void add_gpu(struct topo *topo, const char *root, const char *name)
{
	char link[PATH_MAX], folder[PATH_MAX];
	struct topo_gpu *gpu;
	long class;
	int len = snprintf(link, sizeof(link), "%s/bus/pci/devices/%s", root, name);

	if (len < 0 || (size_t)len >= sizeof(link))
		return;
	class = read_number(link, "class", 0);
	if (class >> 16 != 0x03 || read_number(link, "vendor", 0) != TOPO_VENDOR_NVIDIA)
		return;
	if (topo->ngpus == TOPO_GPUS_MAX) {
		LOG_WARN("more than %d GPUs; %s is left out", TOPO_GPUS_MAX, name);
		return;
	}
	gpu = &topo->gpus[topo->ngpus];
	if (!place_from_link(root, link, &gpu->place, folder))
		topo->ngpus++;
}

/* Adds a NUMA node. Skips files that are not nodes, and nodes for which the graph has no room. */
static void add_node(struct topo *topo, const char *root, const char *name)
{
	struct topo_node *node = &topo->nodes[topo->nnodes];
	char folder[PATH_MAX];
	int used = 0,
	    len = snprintf(folder, sizeof(folder), "%s/devices/system/node/%s", root, name);

	if (len < 0 || (size_t)len >= sizeof(folder) || topo->nnodes == TOPO_NODES_MAX ||
	    sscanf(name, "node%9d%n", &node->id, &used) != 1 || name[used])
		return;
	if (read_line(folder, "cpulist", node->cpus, sizeof(node->cpus)))
		return;
	/* A text that fills the buffer may have been cut in the middle of a number. */
	if (strlen(node->cpus) == sizeof(node->cpus) - 1)
		node->cpus[0] = '\0';
	topo->nnodes++;
}

/* Calls `take` for each file in root/folder. Does nothing if that folder does not exist. */
static void for_each_entry(struct topo *topo, const char *root, const char *folder,
			   void (*take)(struct topo *topo, const char *root, const char *name))
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *dir;

	if (snprintf(path, sizeof(path), "%s/%s", root, folder) >= (int)sizeof(path))
		return;
	dir = opendir(path);
	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			take(topo, root, entry->d_name);
	closedir(dir);
}

void topo_scan_virtuals(const char *root, struct topo *topo)
{
	for_each_entry(topo, root, "class/net", add_virtual);
}

static int gpu_order(const void *a, const void *b)
{
	const struct topo_gpu *x = a, *y = b;

	return (x->place.pci > y->place.pci) - (x->place.pci < y->place.pci);
}

static int nic_order(const void *a, const void *b)
{
	const struct topo_nic *x = a, *y = b;
	int order = (x->place.pci > y->place.pci) - (x->place.pci < y->place.pci);

	return order ? order : strcmp(x->name, y->name);
}

static int node_order(const void *a, const void *b)
{
	return ((const struct topo_node *)a)->id - ((const struct topo_node *)b)->id;
}

void topo_sort(struct topo *topo)
{
	qsort(topo->nics, topo->nnics, sizeof(*topo->nics), nic_order);
	qsort(topo->virtuals, topo->nvirtuals, sizeof(*topo->virtuals), nic_order);
	qsort(topo->gpus, topo->ngpus, sizeof(*topo->gpus), gpu_order);
	qsort(topo->nodes, topo->nnodes, sizeof(*topo->nodes), node_order);
}

tcpx_status topo_scan(const char *root, struct topo **out_topo)
{
	struct topo *topo;
	struct stat st;
	int err = stat(root, &st) ? errno : 0;

	if (!err && !S_ISDIR(st.st_mode))
		err = ENOTDIR;
	if (err)
		return error_set(TCPX_ERR_NOT_FOUND, err, "cannot scan the machine at %.100s",
				 root);
	topo = calloc(1, sizeof(*topo));
	if (!topo)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for a machine's topology");
	for_each_entry(topo, root, "class/net", add_nic);
	topo_scan_virtuals(root, topo);
	for_each_entry(topo, root, "bus/pci/devices", add_gpu);
	for_each_entry(topo, root, "devices/system/node", add_node);
	topo_sort(topo);
	*out_topo = topo;
	return TCPX_OK;
}
