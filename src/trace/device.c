/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the plugin's devices, the GPU that is current, and the NIC that owns a GPU. */
#include "trace/device.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "abi/cuda.h"
#include "base/config.h"
#include "topo/graph.h"
#include "topo/pairing.h"
#include "trace/record.h"

#define DEVICES_MAX 32 /* maximum number of devices of a plugin */
#define GPUS_MAX 64    /* maximum number of GPUs of the process */

/* Functions of the CUDA driver. They are called only if the process has loaded the driver;
 * otherwise no GPU counts as current. */
#define DRIVER_CALLS(X)                                                                            \
	X(current, "cuCtxGetCurrent", (cuda_ctx * out))                                            \
	X(device, "cuCtxGetDevice", (cuda_device * out))                                           \
	X(pci, "cuDeviceGetPCIBusId", (char *out, int len, cuda_device device))

struct driver {
#define DRIVER_MEMBER(member, symbol, params) cuda_result(*member) params;
	DRIVER_CALLS(DRIVER_MEMBER)
#undef DRIVER_MEMBER
};

/* Facts about devices; changed under `lock`. */
static struct {
	pthread_mutex_t lock;
	char names[DEVICES_MAX][64], pcis[DEVICES_MAX][64]; /* of the plugin's devices, by number */
	unsigned known; /* bit i is set if names[i] and pcis[i] are set */
	struct driver driver;
	_Atomic int driver_found; /* 1 if the members of `driver` are set */
	struct topo *topo;
	struct topo_pairs pairs;
	pci_addr gpus[GPUS_MAX]; /* index: the driver's ordinal; PCI_NONE if not known yet */
} dev = {.lock = PTHREAD_MUTEX_INITIALIZER};

void trace_device_start(void)
{
	int err = errno;

	pthread_mutex_lock(&dev.lock);
	if (!dev.topo && topo_scan(config_text(CONFIG_SYSFS), &dev.topo) == TCPX_OK)
		topo_pairs_build(dev.topo, NULL, NULL, &dev.pairs);
	pthread_mutex_unlock(&dev.lock);
	errno = err;
}

int trace_device_learn(int number, const char *name, const char *pci_path)
{
	const char *slash = pci_path ? strrchr(pci_path, '/') : NULL;
	int err = errno, added;

	if (number < 0 || number >= DEVICES_MAX || !name)
		return 0;
	pthread_mutex_lock(&dev.lock);
	snprintf(dev.names[number], sizeof(dev.names[number]), "%s", name);
	snprintf(dev.pcis[number], sizeof(dev.pcis[number]), "%s",
		 slash ? slash + 1 : (pci_path ? pci_path : ""));
	added = !(dev.known & (1u << number));
	dev.known |= 1u << number;
	pthread_mutex_unlock(&dev.lock);
	errno = err;
	return added;
}

int trace_device_name(int number, char *out, size_t cap)
{
	int known;

	if (number < 0 || number >= DEVICES_MAX)
		return 0;
	pthread_mutex_lock(&dev.lock);
	known = !!(dev.known & (1u << number));
	if (known)
		snprintf(out, cap, "%s", dev.names[number]);
	pthread_mutex_unlock(&dev.lock);
	return known;
}

int trace_device_is(const char *name)
{
	char known[sizeof(dev.names[0])];

	for (int i = 0; i < DEVICES_MAX; i++)
		if (trace_device_name(i, known, sizeof(known)) && !strcmp(known, name))
			return 1;
	return 0;
}

/* Names of loaded objects that may be the CUDA driver. Each object is searched by its own handle:
 * the driver is often loaded with RTLD_LOCAL, and then a search of the whole process does not find
 * its symbols. */
struct loaded {
	char names[64][256];
	unsigned count;
};

/* Callback of dl_iterate_phdr: adds an object whose name contains "cuda" to the list. */
static int note_driver(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct loaded *loaded = arg;
	const char *name = info->dlpi_name ? info->dlpi_name : "";

	(void)size;
	if (strstr(name, "cuda") && strlen(name) < sizeof(loaded->names[0]) && loaded->count < 64)
		memcpy(loaded->names[loaded->count++], name, strlen(name) + 1);
	return 0;
}

/* Sets dev.driver from the symbols of a loaded object. Returns 1, or 0 if a symbol is missing. */
static int driver_of(void *handle)
{
	void *symbol;

#define DRIVER_FIND(member, name, params)                                                          \
	symbol = dlsym(handle, name);                                                              \
	if (!symbol)                                                                               \
		return 0;                                                                          \
	memcpy(&dev.driver.member, &symbol, sizeof(symbol));
	DRIVER_CALLS(DRIVER_FIND)
#undef DRIVER_FIND
	return 1;
}

/* Looks for the driver among the loaded objects. Called under dev.lock. */
static void find_driver(void)
{
	struct loaded *loaded = calloc(1, sizeof(*loaded));

	if (!loaded)
		return;
	dl_iterate_phdr(note_driver, loaded);
	for (unsigned i = 0; i < loaded->count && !dev.driver_found; i++) {
		void *handle = dlopen(loaded->names[i], RTLD_NOW | RTLD_NOLOAD);

		if (handle && driver_of(handle))
			atomic_store_explicit(&dev.driver_found, 1, memory_order_release);
		else if (handle)
			dlclose(handle);
	}
	free(loaded);
}

int16_t trace_device_gpu(void)
{
	int16_t gpu = TRACE_DEV_UNKNOWN;
	cuda_device device = 0;
	cuda_ctx ctx = NULL;
	int err = errno;
	char text[32];

	pthread_mutex_lock(&dev.lock);
	if (!atomic_load_explicit(&dev.driver_found, memory_order_acquire))
		find_driver();
	pthread_mutex_unlock(&dev.lock);
	if (atomic_load_explicit(&dev.driver_found, memory_order_acquire) &&
	    !dev.driver.current(&ctx) && ctx && !dev.driver.device(&device) && device >= 0 &&
	    device < GPUS_MAX) {
		gpu = (int16_t)device;
		if (!dev.driver.pci(text, sizeof(text), device)) {
			pthread_mutex_lock(&dev.lock);
			(void)pci_parse(text, &dev.gpus[device]);
			pthread_mutex_unlock(&dev.lock);
		}
	}
	errno = err;
	return gpu;
}

/* Returns the owner (the paired NIC) of the GPU with this ordinal, or NULL if it is not known.
 * Called under dev.lock. */
static const struct topo_owner *owner_of(int16_t gpu)
{
	if (gpu < 0 || gpu >= GPUS_MAX || dev.gpus[gpu] == PCI_NONE || !dev.topo)
		return NULL;
	return topo_owner_of(&dev.pairs, dev.gpus[gpu]);
}

int16_t trace_device_owner(int16_t gpu)
{
	int16_t found = TRACE_DEV_UNKNOWN;
	const struct topo_owner *owner;
	char pci[PCI_TEXT_MAX];

	pthread_mutex_lock(&dev.lock);
	owner = owner_of(gpu);
	if (owner && owner->nic != PCI_NONE) {
		pci_format(owner->nic, pci);
		found = TRACE_DEV_NOT_LISTED;
		for (int i = 0; i < DEVICES_MAX && found < 0; i++)
			if ((dev.known & (1u << i)) &&
			    (!strcmp(dev.names[i], owner->nic_name) || !strcmp(dev.pcis[i], pci)))
				found = (int16_t)i;
	}
	pthread_mutex_unlock(&dev.lock);
	return found;
}

void trace_device_write(FILE *out)
{
	char pci[PCI_TEXT_MAX];

	pthread_mutex_lock(&dev.lock);
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (dev.known & (1u << i))
			fprintf(out, "nic.%u.name=%s\nnic.%u.pci=%s\n", i, dev.names[i], i,
				dev.pcis[i]);
	for (int16_t i = 0; i < GPUS_MAX && dev.topo; i++) {
		const struct topo_owner *owner = owner_of(i);

		if (dev.gpus[i] == PCI_NONE)
			continue;
		fprintf(out, "gpu.%d.pci=%s\n", i, pci_format(dev.gpus[i], pci));
		if (owner && owner->nic != PCI_NONE)
			fprintf(out, "gpu.%d.owner=%s\n", i, owner->nic_name);
	}
	pthread_mutex_unlock(&dev.lock);
}

void trace_device_topology(FILE *out)
{
	char pci[PCI_TEXT_MAX];

	pthread_mutex_lock(&dev.lock);
	for (unsigned i = 0; dev.topo && i < dev.pairs.count; i++) {
		const struct topo_owner *owner = &dev.pairs.owners[i];

		fprintf(out, "topo.gpu.%s=%s\n", pci_format(owner->gpu, pci),
			owner->nic != PCI_NONE ? owner->nic_name : "-");
	}
	pthread_mutex_unlock(&dev.lock);
}
