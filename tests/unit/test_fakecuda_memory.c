/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of the stand-in for the CUDA driver: what an address is, mappings, other processes. */
#include "fakecuda_case.h"

static unsigned long long buffer_id(cuda_ptr ptr)
{
	unsigned long long id = 0;

	assert_int_equal(api->pointer_attribute(&id, CUDA_POINTER_BUFFER_ID, ptr), CUDA_OK);
	return id;
}

static void addresses_are_described(void **state)
{
	cuda_ptr plain = take(1000), managed, pooled;
	uint8_t *pinned = host_new(5000), *heap = malloc(8192);
	cuda_stream stream = stream_new();
	unsigned long long id;
	struct facts f;

	(void)state;
	f = facts_of(plain + 999);
	assert_true(f.ctx == gpu->ctx && f.type == CUDA_MEMORY_DEVICE && f.id && !f.managed);
	assert_true(f.ordinal == 0 && f.ipc && f.mapped && f.access == 3 && !f.pool);
	assert_true(f.start == plain && f.bytes == 1000);
	assert_int_equal(facts_of(plain + 1000).type, 0);
	assert_int_equal(api->mem_alloc_managed(&managed, 4096, 1), CUDA_OK);
	*(volatile uint8_t *)(uintptr_t)managed = 5; /* the CPU may */
	f = facts_of(managed);
	assert_true(f.managed && f.type == CUDA_MEMORY_DEVICE && !f.ipc);
	assert_int_equal(api->mem_alloc_async(&pooled, 64, stream), CUDA_OK);
	f = facts_of(pooled);
	assert_true(!f.ctx && f.pool && f.type == CUDA_MEMORY_DEVICE && !f.ipc);
	f = facts_of((uintptr_t)pinned + 4999);
	assert_true(f.type == CUDA_MEMORY_HOST && f.start == (uintptr_t)pinned && f.bytes == 5000);
	/* ordinary memory: the single question fails, the list answers with nothing */
	assert_int_equal(api->pointer_attribute(&id, CUDA_POINTER_BUFFER_ID, (uintptr_t)heap),
			 CUDA_ERR_INVALID_VALUE);
	f = facts_of((uintptr_t)heap);
	assert_true(!f.ctx && !f.type && !f.id && !f.mapped && f.ordinal == -2 && !f.bytes);
	/* freed memory is nobody's; the same address comes back under another id */
	id = buffer_id(plain);
	assert_int_equal(api->mem_free(plain), CUDA_OK);
	assert_int_equal(facts_of(plain).type, 0);
	assert_int_equal(take(1000), plain);
	assert_true(buffer_id(plain) != id);
	assert_int_equal(api->mem_free(plain), CUDA_OK);
	assert_int_equal(api->mem_free(managed), CUDA_OK);
	assert_int_equal(api->mem_free_async(pooled, stream), CUDA_OK);
	assert_int_equal(api->stream_synchronize(stream), CUDA_OK);
	assert_int_equal(facts_of(pooled).type, 0);
	assert_int_equal(api->stream_destroy(stream), CUDA_OK);
	assert_int_equal(api->host_free(pinned), CUDA_OK);
	free(heap);
}

static void registrations_do_not_overlap(void **state)
{
	uint8_t *heap = aligned_alloc(4096, 4 * 4096);
	cuda_ptr ptr = take(4096), at;

	(void)state;
	assert_int_equal(api->host_register(heap + 4096, 8192, CUDA_HOST_PORTABLE), CUDA_OK);
	assert_int_equal(api->host_register(heap, 8192, 0),
			 CUDA_ERR_HOST_MEMORY_ALREADY_REGISTERED);
	assert_int_equal(api->host_register(heap + 12288, 4096, 0), CUDA_OK);
	assert_int_equal(api->host_register(heap, 4096, 0), CUDA_OK);
	assert_int_equal(api->host_register((void *)(uintptr_t)ptr, 4096, 0),
			 CUDA_ERR_INVALID_VALUE);
	assert_int_equal(api->host_register(NULL, 4096, 0), CUDA_ERR_INVALID_VALUE);
	assert_int_equal(api->host_device_ptr(&at, heap + 5000, 0), CUDA_OK);
	assert_int_equal(at, (uintptr_t)heap + 5000);
	assert_int_equal(facts_of((uintptr_t)heap + 5000).type, CUDA_MEMORY_HOST);
	/* a copy over all three pieces */
	assert_int_equal(api->copy((uintptr_t)heap + 4000, ptr, 4096), CUDA_OK);
	assert_int_equal(api->host_unregister(heap + 5000), CUDA_ERR_HOST_MEMORY_NOT_REGISTERED);
	assert_int_equal(api->host_free(heap), CUDA_ERR_INVALID_VALUE);
	for (int i = 0; i < 4; i += i ? 2 : 1)
		assert_int_equal(api->host_unregister(heap + 4096 * i), CUDA_OK);
	assert_int_equal(api->host_device_ptr(&at, heap, 0), CUDA_ERR_INVALID_VALUE);
	assert_int_equal(api->mem_free(ptr), CUDA_OK);
	free(heap);
}

static const struct cuda_alloc_prop vmm_prop = {.type = CUDA_ALLOC_PINNED,
						.handle_types = CUDA_HANDLE_FD,
						.location = {CUDA_LOCATION_DEVICE, 0}};
static const struct cuda_access vmm_rights = {{CUDA_LOCATION_DEVICE, 0}, CUDA_ACCESS_READ_WRITE};

/* Two handles side by side are one range for a copy; the same handle twice is the same bytes. */
static void mappings(void **state)
{
	cuda_alloc first, second, again, imported;
	uint8_t out[64], in[64];
	size_t grain;
	cuda_ptr at;
	int fd;

	(void)state;
	for (int i = 0; i < 64; i++)
		in[i] = (uint8_t)(i + 1);
	assert_int_equal(api->vmm_granularity(&grain, &vmm_prop, 0), CUDA_OK);
	assert_int_equal(api->vmm_create(&first, grain + 1, &vmm_prop, 0), CUDA_ERR_INVALID_VALUE);
	assert_int_equal(api->vmm_create(&first, grain, &vmm_prop, 0), CUDA_OK);
	assert_int_equal(api->vmm_create(&second, grain, &vmm_prop, 0), CUDA_OK);
	assert_int_equal(api->vmm_reserve(&at, 4 * grain, 0, 0, 0), CUDA_OK);
	assert_int_equal(facts_of(at).mapped, 0);
	assert_int_equal(api->vmm_map(at, grain, 0, first, 0), CUDA_OK);
	assert_int_equal(api->vmm_map(at + grain, grain, 0, second, 0), CUDA_OK);
	assert_int_equal(api->vmm_map(at, grain, 0, second, 0), CUDA_ERR_INVALID_VALUE);
	assert_int_equal(facts_of(at).access, 0);
	assert_int_equal(api->vmm_access(at, 2 * grain, &vmm_rights, 1), CUDA_OK);
	assert_int_equal(facts_of(at).access, 3);
	assert_null(facts_of(at).ctx);
	assert_int_equal(facts_of(at + grain).start, at + grain);
	assert_true(facts_of(at).id != facts_of(at + grain).id);
	assert_int_equal(api->copy(at + grain - 32, (uintptr_t)in, 64), CUDA_OK);
	/* out by a descriptor and in again */
	assert_int_equal(api->vmm_export(&fd, second, CUDA_HANDLE_FD, 0), CUDA_OK);
	assert_int_equal(api->vmm_import(&imported, (void *)(intptr_t)fd, CUDA_HANDLE_FD), CUDA_OK);
	close(fd);
	assert_int_equal(api->vmm_map(at + 2 * grain, grain, 0, imported, 0), CUDA_OK);
	assert_int_equal(api->vmm_access(at + 2 * grain, grain, &vmm_rights, 1), CUDA_OK);
	assert_int_equal(api->copy((uintptr_t)out, at + 2 * grain, 32), CUDA_OK);
	assert_memory_equal(out, in + 32, 32);
	assert_int_equal(api->vmm_retain(&again, (void *)(uintptr_t)at), CUDA_OK);
	assert_int_equal(again, first);
	/* handles may go first: mappings keep the memory */
	assert_int_equal(api->vmm_release(first), CUDA_OK);
	assert_int_equal(api->vmm_release(again), CUDA_OK);
	assert_int_equal(api->vmm_release(second), CUDA_OK);
	assert_int_equal(api->vmm_release(imported), CUDA_OK);
	assert_int_equal(api->copy((uintptr_t)out, at + grain - 32, 64), CUDA_OK);
	assert_memory_equal(out, in, 64);
	assert_int_equal(api->vmm_unreserve(at, 4 * grain), CUDA_ERR_INVALID_VALUE);
	assert_int_equal(api->vmm_unmap(at, 2 * grain - 1), CUDA_ERR_INVALID_VALUE);
	assert_int_equal(api->vmm_unmap(at, 3 * grain), CUDA_OK);
	assert_int_equal(api->vmm_unreserve(at, 4 * grain), CUDA_OK);
}

static void memory_without_rights_faults(void **state)
{
	uint8_t out[16];
	cuda_alloc one;
	cuda_ptr at;

	(void)state;
	assert_int_equal(api->vmm_create(&one, 2 * MIB, &vmm_prop, 0), CUDA_OK);
	assert_int_equal(api->vmm_reserve(&at, 2 * MIB, 0, 0, 0), CUDA_OK);
	assert_int_equal(api->vmm_map(at, 2 * MIB, 0, one, 0), CUDA_OK);
	assert_int_equal(api->copy((uintptr_t)out, at, 16), CUDA_ERR_ILLEGAL_ADDRESS);
	assert_int_equal(api->vmm_unmap(at, 2 * MIB), CUDA_OK);
	assert_int_equal(api->vmm_unreserve(at, 2 * MIB), CUDA_OK);
	assert_int_equal(api->vmm_release(one), CUDA_OK);
}

static int ipc_child(const char *hex)
{
	struct cuda_ipc_mem handle;
	struct sys_cuda_scope inside;
	struct sys_cuda_gpu *mine;
	cuda_ptr ptr, twice;
	uint8_t byte;

	for (size_t i = 0; i < sizeof(handle); i++) {
		if (sscanf(hex + 2 * i, "%2hhx", &handle.reserved[i]) != 1)
			return 10;
	}
	if (group_start(NULL) || sys_cuda_get(1, &mine) || sys_cuda_push(mine, &inside))
		return 11;
	if (api->ipc_open(&ptr, handle, CUDA_IPC_LAZY_PEER_ACCESS) ||
	    api->ipc_open(&twice, handle, CUDA_IPC_LAZY_PEER_ACCESS) || ptr != twice)
		return 12;
	if (fake.read(ptr + 3, &byte, 1) || byte != 42)
		return 13;
	byte = 43;
	if (api->copy(ptr + 999, (uintptr_t)&byte, 1) || facts_of(ptr).ordinal != 0)
		return 14;
	if (api->ipc_close(ptr) || api->ipc_close(ptr) || !api->ipc_close(ptr))
		return 15;
	sys_cuda_pop(&inside);
	sys_cuda_put(mine);
	return fake.live(NULL) ? 16 : 0;
}

static void memory_of_another_process(void **state)
{
	char hex[2 * sizeof(struct cuda_ipc_mem) + 1], ipc[] = "ipc", name[] = "test_fakecuda";
	char *argv[] = {name, ipc, hex, NULL};
	struct cuda_ipc_mem handle;
	cuda_ptr ptr = take(1000), other;
	uint8_t byte = 42;

	(void)state;
	assert_int_equal(fake.write(ptr + 3, &byte, 1), 0);
	assert_int_equal(api->ipc_get(&handle, ptr + 500), CUDA_OK);
	assert_int_equal(api->ipc_open(&other, handle, CUDA_IPC_LAZY_PEER_ACCESS),
			 CUDA_ERR_INVALID_CONTEXT);
	for (size_t i = 0; i < sizeof(handle); i++)
		snprintf(hex + 2 * i, 3, "%02x", handle.reserved[i]);
	assert_int_equal(run_self(argv), 0);
	assert_int_equal(fake.read(ptr + 999, &byte, 1), 0);
	assert_int_equal(byte, 43);
	assert_int_equal(api->mem_free(ptr), CUDA_OK);
	assert_int_equal(run_self(argv), 12); /* freed memory cannot be opened */
}

static void peers(void **state)
{
	struct sys_cuda_gpu *other;
	struct sys_cuda_scope inner;
	cuda_ptr near = take(64), far;
	cuda_stream stream = stream_new();
	uint8_t byte;
	int can;

	(void)state;
	assert_int_equal(sys_cuda_get(1, &other), TCPX_OK);
	assert_int_equal(sys_cuda_push(other, &inner), TCPX_OK);
	far = take(64);
	sys_cuda_pop(&inner);
	assert_int_equal(api->device_can_access(&can, 0, 1), CUDA_OK);
	assert_int_equal(can, 1);
	assert_int_equal(api->ctx_enable_peer(other->ctx, 0), CUDA_OK);
	assert_int_equal(api->ctx_enable_peer(other->ctx, 0), CUDA_ERR_PEER_ACCESS_ALREADY_ENABLED);
	assert_int_equal(api->set_async(near, 7, 64, stream), CUDA_OK);
	assert_int_equal(api->copy_peer_async(far, other->ctx, near, gpu->ctx, 64, stream),
			 CUDA_OK);
	assert_int_equal(api->copy_peer_async(near, other->ctx, far, gpu->ctx, 64, stream),
			 CUDA_ERR_INVALID_VALUE);
	assert_int_equal(api->stream_synchronize(stream), CUDA_OK);
	assert_int_equal(fake.read(far + 63, &byte, 1), 0);
	assert_int_equal(byte, 7);
	assert_int_equal(api->stream_destroy(stream), CUDA_OK);
	assert_int_equal(api->mem_free(near), CUDA_OK);
	assert_int_equal(api->mem_free(far), CUDA_OK);
	sys_cuda_put(other);
}

static void memory_is_finite(void **state)
{
	size_t before, after, total;
	cuda_ptr ptr;

	(void)state;
	assert_int_equal(api->mem_info(&before, &total), CUDA_OK);
	assert_int_equal(api->mem_alloc(&ptr, total + 1), CUDA_ERR_OUT_OF_MEMORY);
	assert_int_equal(api->mem_alloc(&ptr, 0), CUDA_ERR_INVALID_VALUE);
	ptr = take(3 * MIB);
	assert_int_equal(api->mem_info(&after, &total), CUDA_OK);
	assert_int_equal(before - after, 3 * MIB);
	assert_int_equal(api->mem_free(ptr), CUDA_OK);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(addresses_are_described),
		CASE(registrations_do_not_overlap),
		CASE(mappings),
		CASE(memory_without_rights_faults),
		CASE(memory_of_another_process),
		CASE(peers),
		CASE(memory_is_finite),
	};

	if (argc == 3 && !strcmp(argv[1], "ipc"))
		return ipc_child(argv[2]);
	return cmocka_run_group_tests(tests, group_start, NULL);
}
