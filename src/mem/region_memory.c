/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the arguments of a registration, and what the mappings of the memory allow. */
#include <inttypes.h>

#include "base/error.h"
#include "mem/region.h"
#include "sys/maps.h"

#define MAP_ALL "register memory of which every page is mapped"

/* Sets region->traits from the mappings of the memory, and returns what was found. Memory that the
 * CPU cannot access counts as readable and writable. If the kernel cannot report the mappings, the
 * memory counts as readable, writable and able to vanish. */
static struct sys_maps check_mappings(struct mem_region *region)
{
	struct sys_maps maps = {.readable = 1, .writable = 1, .file = 1};
	uint32_t traits = 0;

	if (!region->kind->mapped)
		maps.file = 0;
	else
		(void)sys_maps_look(region->base, region->length, &maps);
	traits |= maps.readable ? MEM_CAN_READ : 0;
	traits |= maps.writable ? MEM_CAN_WRITE : 0;
	traits |= maps.file ? MEM_MAY_VANISH : 0;
	atomic_store(&region->traits, traits);
	return maps;
}

/* Sets the error that the memory cannot be written (`write` 1) or read (`write` 0). The error names
 * the first address where this is so. */
static tcpx_status mapping_error(const struct mem_region *region, const struct sys_maps *maps,
				 int write)
{
	const char *perms = write ? maps->write_perms : maps->read_perms;
	uint64_t at = write ? maps->no_write : maps->no_read;
	const char *verb = write ? "written" : "read";

	if (!*perms)
		return error_set(TCPX_ERR_INVALID, 0,
				 "memory %p of %" PRIu64
				 " bytes cannot be %s: nothing is mapped at "
				 "0x%" PRIx64,
				 (void *)region->base, region->length, verb, at);
	return error_set(TCPX_ERR_INVALID, 0,
			 "memory %p of %" PRIu64 " bytes cannot be %s: its mapping at 0x%" PRIx64
			 " allows %s",
			 (void *)region->base, region->length, verb, at, perms);
}

/* Returns ERR_INVALID if the region has a right that the mappings of its memory do not allow. RDMA
 * drivers check this, too. */
static tcpx_status check_rights(struct mem_region *region)
{
	struct sys_maps maps = check_mappings(region);

	if (region->rights & TCPX_RIGHT_WRITE && !maps.writable) {
		mapping_error(region, &maps, 1);
		return *maps.write_perms ? error_next("map it with PROT_WRITE, or register it "
						      "without TCPX_RIGHT_WRITE")
					 : error_next(MAP_ALL);
	}
	if (region->rights & TCPX_RIGHT_READ && !maps.readable) {
		mapping_error(region, &maps, 0);
		return *maps.read_perms ? error_next("map it with PROT_READ, or register it "
						     "without TCPX_RIGHT_READ")
					: error_next(MAP_ALL);
	}
	return TCPX_OK;
}

tcpx_status mem_region_check(void *addr, uint64_t length, const tcpx_region_opts *opts,
			     struct mem_region *region)
{
	const struct mem_kind *kind = mem_kind_get(opts->kind);
	tcpx_status status;

	if (!addr || !length || (uintptr_t)addr + (length - 1) < (uintptr_t)addr ||
	    length > UINTPTR_MAX)
		return error_set(TCPX_ERR_INVALID, 0, "region %p of %llu bytes", addr,
				 (unsigned long long)length);
	if (opts->rights & ~(uint32_t)(TCPX_RIGHT_READ | TCPX_RIGHT_WRITE))
		return error_set(TCPX_ERR_INVALID, 0, "unknown region rights in 0x%x",
				 opts->rights);
	if (opts->flags & ~(uint32_t)TCPX_REGION_STABLE)
		return error_set(TCPX_ERR_INVALID, 0, "unknown region flags in 0x%x", opts->flags);
	if (!kind)
		return error_set(TCPX_ERR_UNSUPPORTED, 0, "memory kind %d is not in this build",
				 (int)opts->kind);
	region->kind = kind;
	region->base = addr;
	region->length = length;
	region->device = opts->device;
	region->rights = opts->rights;
	region->flags = opts->flags;
	status = kind->probe(addr, length, opts->device, &region->memory_id);
	return status == TCPX_OK ? check_rights(region) : status;
}

tcpx_status mem_region_allows(struct mem_region *region, uint32_t traits)
{
	struct sys_maps maps;

	if ((atomic_load_explicit(&region->traits, memory_order_relaxed) & traits) == traits)
		return TCPX_OK;
	maps = check_mappings(region);
	if (traits & MEM_CAN_WRITE && !maps.writable) {
		mapping_error(region, &maps, 1);
		return error_next(*maps.write_perms ? "map it with PROT_WRITE" : MAP_ALL);
	}
	if (traits & MEM_CAN_READ && !maps.readable) {
		mapping_error(region, &maps, 0);
		return error_next(*maps.read_perms ? "map it with PROT_READ" : MAP_ALL);
	}
	return TCPX_OK;
}
