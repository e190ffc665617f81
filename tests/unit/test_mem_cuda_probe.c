/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory the kind "cuda" takes, over the stand-in driver; what was freed is noticed. */
#include "cuda_rig.h"
#include "mem/region.h"
#include "mem/staging.h"

#define CHUNK (2u << 20)

static tcpx_status probe(cuda_ptr ptr, uint64_t bytes, uint32_t device)
{
	uint64_t id = 0;
	tcpx_status status = cuda->probe((void *)(uintptr_t)ptr, bytes, device, &id);

	if (status == TCPX_OK)
		assert_true(id != 0);
	return status;
}

static void refused(cuda_ptr ptr, uint64_t bytes, uint32_t device, tcpx_status status,
		    const char *what, const char *next)
{
	assert_int_equal(probe(ptr, bytes, device), status);
	if (!strstr(error_last()->what, what) || !strstr(error_last()->next, next))
		fail_msg("\"%s; %s\" lacks \"%s\" or \"%s\"", error_last()->what,
			 error_last()->next, what, next);
}

static void plain_memory_is_taken(void **state)
{
	cuda_ptr ptr = rig_alloc(0, 10000), other = rig_alloc(1, 10000);

	(void)state;
	assert_int_equal(probe(ptr, 10000, 0), TCPX_OK);
	assert_int_equal(probe(ptr + 77, 1, 0), TCPX_OK);
	assert_int_equal(probe(other, 10000, 1), TCPX_OK);
	refused(ptr, 10001, 0, TCPX_ERR_INVALID, "longer than its allocation", "each allocation");
	refused(ptr + 9999, 2, 0, TCPX_ERR_INVALID, "longer than its allocation", "");
	refused(other, 100, 0, TCPX_ERR_INVALID, "memory of GPU 1", "set device to 1");
	refused(ptr, 100, 2, TCPX_ERR_INVALID, "2 visible", "");
	rig_free(0, ptr);
	rig_free(1, other);
	refused(ptr, 1, 0, TCPX_ERR_INVALID, "no CUDA allocation", "TCPX_MEM_HOST");
}

static void host_memory_is_refused(void **state)
{
	struct rig_scope rig;
	void *pinned = NULL;
	cuda_ptr managed = 0;
	char here[64];

	(void)state;
	rig_enter(&rig, 0);
	assert_int_equal(api->host_alloc(&pinned, 4096, 0), CUDA_OK);
	assert_int_equal(api->mem_alloc_managed(&managed, 4096, 1), CUDA_OK);
	rig_leave(&rig);
	refused((uintptr_t)here, sizeof(here), 0, TCPX_ERR_INVALID, "not GPU memory",
		"TCPX_MEM_HOST");
	refused((uintptr_t)pinned, 4096, 0, TCPX_ERR_INVALID, "host memory of the CUDA driver",
		"TCPX_MEM_HOST");
	refused(managed, 4096, 0, TCPX_ERR_UNSUPPORTED, "managed", "TCPX_MEM_HOST");
	rig_enter(&rig, 0);
	assert_int_equal(api->host_free(pinned), CUDA_OK);
	assert_int_equal(api->mem_free(managed), CUDA_OK);
	rig_leave(&rig);
}

static void pool_memory_is_taken(void **state)
{
	struct rig_scope rig;
	cuda_ptr ptr = 0;

	(void)state;
	rig_enter(&rig, 0);
	assert_int_equal(api->mem_alloc_async(&ptr, 5000, NULL), CUDA_OK);
	assert_int_equal(api->ctx_synchronize(), CUDA_OK);
	rig_leave(&rig);
	assert_int_equal(probe(ptr, 5000, 0), TCPX_OK);
	refused(ptr, 1ull << 40, 0, TCPX_ERR_INVALID, "longer than its allocation", "");
	rig_enter(&rig, 0);
	assert_int_equal(api->mem_free_async(ptr, NULL), CUDA_OK);
	assert_int_equal(api->ctx_synchronize(), CUDA_OK);
	rig_leave(&rig);
}

static void other_contexts_are_refused(void **state)
{
	cuda_ctx own = NULL, popped;
	cuda_device device;
	cuda_ptr ptr = 0;

	(void)state;
	assert_int_equal(api->device_get(&device, 0), CUDA_OK);
	assert_int_equal(api->ctx_create(&own, 0, device), CUDA_OK); /* and is current */
	assert_int_equal(api->mem_alloc(&ptr, 4096), CUDA_OK);
	refused(ptr, 4096, 0, TCPX_ERR_UNSUPPORTED, "context of its own", "primary context");
	assert_int_equal(api->mem_free(ptr), CUDA_OK);
	assert_int_equal(api->ctx_pop(&popped), CUDA_OK);
	assert_ptr_equal(popped, own);
	assert_int_equal(api->ctx_destroy(own), CUDA_OK);
}

/* Chunks of an address range that the application maps itself. */
static cuda_alloc chunk_map(cuda_ptr at, uint32_t device, int open)
{
	struct cuda_alloc_prop prop = {.type = CUDA_ALLOC_PINNED,
				       .location = {CUDA_LOCATION_DEVICE, (int)device}};
	struct cuda_access access = {{CUDA_LOCATION_DEVICE, (int)device}, CUDA_ACCESS_READ_WRITE};
	cuda_alloc chunk = 0;

	assert_int_equal(api->vmm_create(&chunk, CHUNK, &prop, 0), CUDA_OK);
	assert_int_equal(api->vmm_map(at, CHUNK, 0, chunk, 0), CUDA_OK);
	if (open)
		assert_int_equal(api->vmm_access(at, CHUNK, &access, 1), CUDA_OK);
	return chunk;
}

static void chunk_unmap(cuda_ptr at, cuda_alloc chunk)
{
	assert_int_equal(api->vmm_unmap(at, CHUNK), CUDA_OK);
	assert_int_equal(api->vmm_release(chunk), CUDA_OK);
}

static void mapped_chunks_are_walked(void **state)
{
	cuda_alloc chunks[4];
	cuda_ptr base = 0;

	(void)state;
	assert_int_equal(api->vmm_reserve(&base, 8 * CHUNK, 0, 0, 0), CUDA_OK);
	refused(base, 4096, 0, TCPX_ERR_INVALID, "", "");
	for (unsigned i = 0; i < 3; i++)
		chunks[i] = chunk_map(base + i * CHUNK, 0, 1);
	assert_int_equal(probe(base, 3 * CHUNK, 0), TCPX_OK);
	assert_int_equal(probe(base + 5, 3 * CHUNK - 5, 0), TCPX_OK);
	assert_int_equal(probe(base + CHUNK - 1, 2, 0), TCPX_OK);
	refused(base, 3 * CHUNK + 1, 0, TCPX_ERR_INVALID, "no memory is mapped", "map all");
	refused(base + 3 * CHUNK - 1, 2, 0, TCPX_ERR_INVALID, "no memory is mapped", "map all");
	chunks[3] = chunk_map(base + 3 * CHUNK, 0, 0);
	refused(base, 4 * CHUNK, 0, TCPX_ERR_UNSUPPORTED, "may not read and write",
		"cuMemSetAccess");
	chunk_unmap(base + 3 * CHUNK, chunks[3]);
	chunks[3] = chunk_map(base + 3 * CHUNK, 1, 1);
	refused(base, 4 * CHUNK, 0, TCPX_ERR_INVALID, "memory of GPU 1", "");
	chunk_unmap(base + 3 * CHUNK, chunks[3]);
	chunk_unmap(base + CHUNK, chunks[1]); /* a hole */
	refused(base, 3 * CHUNK, 0, TCPX_ERR_INVALID, "no memory is mapped", "map all");
	assert_int_equal(probe(base, CHUNK, 0), TCPX_OK);
	chunk_unmap(base, chunks[0]);
	chunk_unmap(base + 2 * CHUNK, chunks[2]);
	assert_int_equal(api->vmm_unreserve(base, 8 * CHUNK), CUDA_OK);
}

/* Freed under its registration: refused at prepare, also where another allocation has the address
 * now, which may not have the STABLE key of the first. */
static void freed_memory_is_noticed(void **state)
{
	tcpx_region_opts opts = {.sz = sizeof(opts),
				 .kind = TCPX_MEM_CUDA,
				 .flags = TCPX_REGION_STABLE,
				 .rights = TCPX_RIGHT_READ};
	struct mem_regions *regions;
	struct mem_region *region;
	uint64_t id, twin, other;
	cuda_ptr ptr = rig_alloc(0, 4096), again;
	void *addr = (void *)(uintptr_t)ptr;

	(void)state;
	assert_int_equal(mem_regions_create(&regions), TCPX_OK);
	assert_int_equal(mem_region_add(regions, addr, 4096, &opts, &id), TCPX_OK);
	assert_int_equal(mem_region_add(regions, addr, 4096, &opts, &twin), TCPX_OK);
	region = mem_region_get(regions, id);
	assert_non_null(region);
	assert_int_equal(region->ids, 2);
	assert_int_equal(mem_region_same(region), TCPX_OK);
	rig_free(0, ptr);
	assert_int_equal(mem_region_same(region), TCPX_ERR_STALE);
	assert_non_null(strstr(error_last()->what, "freed"));
	again = rig_alloc(0, 4096);
	assert_int_equal(mem_region_same(region), TCPX_ERR_STALE);
	if (again == ptr)
		assert_int_equal(mem_region_add(regions, addr, 4096, &opts, &other),
				 TCPX_ERR_EXISTS);
	else
		print_message("the address was not given out again\n");
	mem_region_put(region);
	mem_regions_destroy(regions);
	mem_staging_stop();
	rig_free(0, again);
}

/* A context of the application stays current, and a capture of its does not hear of us. */
static void contexts_stay_as_they_were(void **state)
{
	cuda_ptr ptr = rig_alloc(0, 4096), last = rig_alloc(0, 4096);
	cuda_ctx own = NULL, now = NULL;
	struct rig_copy job;
	cuda_device device;
	uint64_t id;
	void *slot;

	(void)state;
	assert_int_equal(api->device_get(&device, 1), CUDA_OK);
	assert_int_equal(api->ctx_create(&own, 0, device), CUDA_OK);
	mem_kinds_stop();
	fake.capture(1);
	assert_int_equal(probe(ptr, 4096, 0), TCPX_OK);
	assert_int_equal(cuda->probe((void *)(uintptr_t)ptr, 4096, 0, &id), TCPX_OK);
	assert_int_equal(cuda->same((void *)(uintptr_t)ptr, 4096, 0, id), 1);
	assert_int_equal(probe((uintptr_t)&job, 1, 0), TCPX_ERR_INVALID);
	slot = cuda->slot_alloc(4096, 0);
	assert_non_null(slot);
	rig_init(&job, 0, slot, ptr, 4096);
	rig_ended = 0;
	assert_int_equal(cuda->fill(&job.copy), TCPX_OK);
	rig_wait(1);
	assert_int_equal(job.status, TCPX_OK);
	cuda->slot_free(slot, 4096, 0);
	mem_kinds_stop();
	assert_int_equal(fake.capture(0), 0);
	assert_int_equal(api->ctx_current(&now), CUDA_OK);
	assert_ptr_equal(now, own);
	assert_int_equal(api->ctx_destroy(own), CUDA_OK);
	rig_free(0, ptr);
	rig_free(0, last);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_memory_is_taken),
		cmocka_unit_test(host_memory_is_refused),
		cmocka_unit_test(pool_memory_is_taken),
		cmocka_unit_test(other_contexts_are_refused),
		cmocka_unit_test(mapped_chunks_are_walked),
		cmocka_unit_test(freed_memory_is_noticed),
		cmocka_unit_test(contexts_stay_as_they_were),
	};

	if (rig_open())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
