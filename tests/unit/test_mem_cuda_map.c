/* SPDX-License-Identifier: Apache-2.0 */
/* Exports and opens regions over many mappings (cuMemMap) with the stand-in driver. Tests that the
 * memory is the same, that a hostile peer's messages are refused, and that failures leak
 * nothing. */
#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "cuda_map.h"
#include "cuda_rig.h"
#include "descriptors.h"
#include "mem/cuda_share_map.h"
#include "sys/fd.h"
#include "sys/fd_pass.h"

#define GRAIN ((uint64_t)2 << 20)
#define MAPPINGS 150 /* more than two messages take */

static struct rig_scope rig;
static cuda_ptr app;	   /* adjacent mappings of 1 and 2 grains alternately */
static uint64_t app_bytes; /* bytes of all these mappings */
static int pass_errno;	   /* errno with which the next sys_fd_pass fails, or 0 */

int __real_sys_fd_pass(int sock, const void *bytes, size_t n, const int *fds, uint32_t count);
int __wrap_sys_fd_pass(int sock, const void *bytes, size_t n, const int *fds, uint32_t count);
int __wrap_sys_fd_pass(int sock, const void *bytes, size_t n, const int *fds, uint32_t count)
{
	if (!pass_errno)
		return __real_sys_fd_pass(sock, bytes, n, fds, count);
	errno = pass_errno;
	pass_errno = 0;
	return -1;
}

static uint64_t grains_of(unsigned mapping)
{
	return 1 + mapping % 2;
}

static int app_make(void **state)
{
	cuda_ptr at;

	(void)state;
	rig_enter(&rig, 0);
	for (unsigned i = 0; i < MAPPINGS; i++)
		app_bytes += grains_of(i) * GRAIN;
	assert_int_equal(api->vmm_reserve(&app, app_bytes, 0, 0, 0), CUDA_OK);
	at = app;
	for (unsigned i = 0; i < MAPPINGS; i++) {
		assert_int_equal(cuda_map_at(api, 0, at, grains_of(i) * GRAIN, CUDA_HANDLE_FD),
				 CUDA_OK);
		at += grains_of(i) * GRAIN;
	}
	return 0;
}

static int app_free(void **state)
{
	(void)state;
	assert_int_equal(api->vmm_unmap(app, app_bytes), CUDA_OK);
	assert_int_equal(api->vmm_unreserve(app, app_bytes), CUDA_OK);
	rig_leave(&rig);
	return fake.settle(0) != 0;
}

/* Checks that both addresses refer to the same memory, at several places of each grain. */
static void same_memory(cuda_ptr here, cuda_ptr there, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += GRAIN / 2) {
		uint64_t mark = 0x9e3779b97f4a7c15u * (at + 1), got = 0;
		uint64_t place = bytes - at < sizeof(mark) ? bytes - sizeof(mark) : at;

		assert_int_equal(fake.write(here + place, &mark, sizeof(mark)), 0);
		assert_int_equal(fake.read(there + place, &got, sizeof(got)), 0);
		assert_int_equal(got, mark);
	}
}

/* Exports and opens the part of the application's memory between two offsets. */
static void opens(uint64_t from, uint64_t to, uint64_t want_offset, uint64_t want_span)
{
	unsigned descriptors = open_descriptors(), live = fake.live(NULL);
	uint64_t offset = 0, span = 0;
	cuda_ptr base = 0;
	int fd = -1;

	assert_int_equal(mem_cuda_map_export(rig.gpu, app + from, to - from, &offset, &span, &fd),
			 TCPX_OK);
	assert_int_equal(offset, want_offset);
	assert_int_equal(span, want_span);
	/* the descriptors of the mappings are in the socket, not in this process's table */
	assert_int_equal(open_descriptors(), descriptors + 1);
	assert_int_equal(mem_cuda_map_open(rig.gpu, fd, span, &base), TCPX_OK);
	sys_fd_close(fd);
	assert_int_equal(open_descriptors(), descriptors + (fake.live(NULL) - live - 1));
	same_memory(app + from, base + offset, to - from);
	mem_cuda_map_close(api, base, span);
	assert_int_equal(open_descriptors(), descriptors);
	assert_int_equal(fake.live(NULL), live);
}

static void all_mappings_of_a_region_are_opened(void **state)
{
	(void)state;
	opens(0, app_bytes, 0, app_bytes);
	opens(GRAIN + 100, app_bytes - 5, 100, app_bytes - GRAIN);
	opens(GRAIN + 100, GRAIN + 200, 100, 2 * GRAIN);
	opens(3 * GRAIN - 1, 3 * GRAIN + 1, 2 * GRAIN - 1, 3 * GRAIN);
	opens(3 * GRAIN - 100, 3 * GRAIN, 2 * GRAIN - 100, 2 * GRAIN);
	opens(0, 96 * GRAIN, 0, 96 * GRAIN); /* 64 mappings: one full message */
}

static void no_export(tcpx_status status, const char *what, const char *next)
{
	unsigned descriptors = open_descriptors(), live = fake.live(NULL);
	uint64_t offset = 0, span = 0;
	int fd = -1;

	assert_int_equal(mem_cuda_map_export(rig.gpu, app, app_bytes, &offset, &span, &fd), status);
	if (!strstr(error_last()->what, what) || !strstr(error_last()->next, next))
		fail_msg("%s; next: %s", error_last()->what, error_last()->next);
	assert_int_equal(fd, -1);
	assert_int_equal(open_descriptors(), descriptors);
	assert_int_equal(fake.live(NULL), live);
}

static void what_cannot_be_exported_leaves_nothing(void **state)
{
	static const char *const calls[] = {
		"cuMemRetainAllocationHandle", "cuMemGetAllocationPropertiesFromHandle",
		"cuMemGetAllocationGranularity", "cuMemExportToShareableHandle"};
	cuda_ptr last = app + app_bytes - 2 * GRAIN;

	(void)state;
	pass_errno = EAGAIN;
	no_export(TCPX_ERR_LIMIT, "too many mappings", "smaller regions");
	pass_errno = ETOOMANYREFS;
	no_export(TCPX_ERR_NO_DESCRIPTORS, "descriptors", "");
	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		assert_int_equal(fake.fail_call(calls[i], 100, CUDA_ERR_OUT_OF_MEMORY), 0);
		no_export(TCPX_ERR_NO_MEMORY, "OUT_OF_MEMORY", "");
	}
	/* only the last mapping cannot be exported */
	assert_int_equal(api->vmm_unmap(last, 2 * GRAIN), CUDA_OK);
	assert_int_equal(cuda_map_at(api, 0, last, 2 * GRAIN, CUDA_HANDLE_NONE), CUDA_OK);
	no_export(TCPX_ERR_UNSUPPORTED, "without a handle", "cuMemCreate");
	assert_int_equal(api->vmm_unmap(last, 2 * GRAIN), CUDA_OK);
	no_export(TCPX_ERR_SYSTEM, "handle of mapped", "");
	assert_int_equal(cuda_map_at(api, 0, last, 2 * GRAIN, CUDA_HANDLE_FD), CUDA_OK);
}

static void no_open(int fd, uint64_t span, tcpx_status status, const char *what)
{
	unsigned live = fake.live(NULL);
	cuda_ptr base = 0;

	assert_int_equal(mem_cuda_map_open(rig.gpu, fd, span, &base), status);
	if (!strstr(error_last()->what, what))
		fail_msg("%s", error_last()->what);
	assert_int_equal(base, 0);
	assert_int_equal(fake.live(NULL), live);
}

/* Returns a socket that contains one message of `count` mappings, each with the descriptor fd. */
static int message_of(const uint64_t *bytes, size_t n, int fd, uint32_t count)
{
	int socks[2], fds[SYS_FD_PASS_MAX];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks), 0);
	for (uint32_t i = 0; i < count; i++)
		fds[i] = fd;
	assert_int_equal(sys_fd_pass(socks[0], bytes, n, fds, count), 0);
	close(socks[0]);
	return socks[1];
}

static void refused(const uint64_t *bytes, size_t n, int fd, uint32_t count, uint64_t span,
		    tcpx_status status, const char *what)
{
	unsigned descriptors = open_descriptors();
	int sock = message_of(bytes, n, fd, count);

	no_open(sock, span, status, what);
	close(sock);
	assert_int_equal(open_descriptors(), descriptors);
}

static void what_a_peer_makes_up_is_refused(void **state)
{
	static const uint64_t zero[] = {0}, one[] = {GRAIN}, three[] = {GRAIN, GRAIN, GRAIN},
			      huge[] = {UINT64_MAX - GRAIN + 1}, odd[] = {GRAIN / 2, GRAIN / 2};
	int pipes[2], socks[2], fd = -1;
	cuda_alloc alloc;

	(void)state;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	no_open(pipes[0], GRAIN, TCPX_ERR_PROTOCOL, "did not pass");
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks), 0);
	no_open(socks[0], GRAIN, TCPX_ERR_PROTOCOL, "did not pass"); /* without waiting */
	assert_int_equal(send(socks[1], one, sizeof(one), 0), sizeof(one));
	no_open(socks[0], GRAIN, TCPX_ERR_PROTOCOL, "did not pass");
	assert_int_equal(api->vmm_retain(&alloc, (void *)(uintptr_t)app), CUDA_OK);
	assert_int_equal(api->vmm_export(&fd, alloc, CUDA_HANDLE_FD, 0), CUDA_OK);
	assert_int_equal(api->vmm_release(alloc), CUDA_OK);
	refused(zero, sizeof(zero), fd, 1, GRAIN, TCPX_ERR_PROTOCOL, "not as long");
	refused(three, sizeof(three), fd, 3, 2 * GRAIN, TCPX_ERR_PROTOCOL, "not as long");
	refused(huge, sizeof(huge), fd, 1, 2 * GRAIN, TCPX_ERR_PROTOCOL, "not as long");
	refused(one, sizeof(one), fd, 1, 2 * GRAIN, TCPX_ERR_PROTOCOL, "did not pass");
	refused(three, sizeof(three), fd, 2, 3 * GRAIN, TCPX_ERR_PROTOCOL, "did not pass");
	refused(three, sizeof(three) - 1, fd, 3, 3 * GRAIN, TCPX_ERR_PROTOCOL, "did not pass");
	refused(odd, sizeof(odd), fd, 2, GRAIN, TCPX_ERR_SYSTEM, "INVALID_VALUE");
	refused(one, sizeof(one), pipes[0], 1, GRAIN, TCPX_ERR_SYSTEM, "of another process");
	refused(one, sizeof(one), fd, 1, (uint64_t)1 << 46, TCPX_ERR_NO_MEMORY, "addresses");
	/* the descriptor's memory has only one grain */
	refused((const uint64_t[]){2 * GRAIN}, sizeof(uint64_t), fd, 1, 2 * GRAIN, TCPX_ERR_SYSTEM,
		"INVALID_VALUE");
	close(fd);
	for (int i = 0; i < 2; i++) {
		close(pipes[i]);
		close(socks[i]);
	}
}

static void without_room_for_descriptors_it_is_tried_again(void **state)
{
	unsigned descriptors = open_descriptors();
	struct rlimit old, low;
	uint64_t offset = 0, span = 0;
	cuda_ptr base = 0;
	int fd = -1;

	(void)state;
	assert_int_equal(mem_cuda_map_export(rig.gpu, app, app_bytes, &offset, &span, &fd),
			 TCPX_OK);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = (rlim_t)fd + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	no_open(fd, span, TCPX_ERR_AGAIN, "descriptors");
	assert_int_equal(mem_cuda_map_open(rig.gpu, fd, span, &base), TCPX_ERR_AGAIN);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	sys_fd_close(fd);
	assert_int_equal(open_descriptors(), descriptors);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_mappings_of_a_region_are_opened),
		cmocka_unit_test(what_cannot_be_exported_leaves_nothing),
		cmocka_unit_test(what_a_peer_makes_up_is_refused),
		cmocka_unit_test(without_room_for_descriptors_it_is_tried_again),
	};

	if (rig_open())
		return 1;
	return cmocka_run_group_tests(tests, app_make, app_free);
}
