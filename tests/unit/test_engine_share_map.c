/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory that is shared by a descriptor (cuMemMap, CUDA memory pools) between two processes:
 * tests the bytes that arrive, which memory is staged instead, and that neither process leaks a
 * descriptor, a mapping or a handle.
 */
#include <errno.h>
#include <fcntl.h>

#include "net/local/local.h"
#include "share_stock.h"

/* What becomes of a question for a descriptor that this process asks. */
static _Atomic enum {
	FETCH_REAL,
	FETCH_STALLS,
	FETCH_AGAIN,  /* once */
	FETCH_NONCE,  /* once with a wrong one */
	FETCH_NUMBER, /* the same */
	FETCH_ALTERED,
} fetch_how;
static _Atomic unsigned fetches, cancels;
static _Atomic int fetch_gives; /* ALTERED: instead of what came */
static struct {
	local_fetched_fn fetched;
	void *arg;
} asker;

tcpx_status __real_local_fetch_start(struct sys_loop *loop, const char *name,
				     const uint8_t nonce[LOCAL_NONCE_BYTES], uint64_t number,
				     local_fetched_fn fetched, void *arg,
				     struct local_fetch **out_fetch);
void __real_local_fetch_cancel(struct local_fetch *fetch);
tcpx_status __wrap_local_fetch_start(struct sys_loop *loop, const char *name,
				     const uint8_t nonce[LOCAL_NONCE_BYTES], uint64_t number,
				     local_fetched_fn fetched, void *arg,
				     struct local_fetch **out_fetch);
void __wrap_local_fetch_cancel(struct local_fetch *fetch);

static void altered(void *arg, tcpx_status status, int fd)
{
	(void)arg;
	assert_int_equal(status, TCPX_OK);
	close(fd);
	asker.fetched(asker.arg, status, fcntl(fetch_gives, F_DUPFD_CLOEXEC, 0));
}

tcpx_status __wrap_local_fetch_start(struct sys_loop *loop, const char *name,
				     const uint8_t nonce[LOCAL_NONCE_BYTES], uint64_t number,
				     local_fetched_fn fetched, void *arg,
				     struct local_fetch **out_fetch)
{
	uint8_t wrong[LOCAL_NONCE_BYTES];

	memcpy(wrong, nonce, sizeof(wrong));
	atomic_fetch_add(&fetches, 1);
	switch (atomic_load(&fetch_how)) {
	case FETCH_STALLS:
		*out_fetch = (struct local_fetch *)&asker;
		return TCPX_OK;
	case FETCH_AGAIN:
		atomic_store(&fetch_how, FETCH_REAL);
		return error_set(TCPX_ERR_AGAIN, 0, "the test says so");
	case FETCH_NONCE:
		atomic_store(&fetch_how, FETCH_REAL);
		wrong[LOCAL_NONCE_BYTES - 1] ^= 1;
		break;
	case FETCH_NUMBER:
		atomic_store(&fetch_how, FETCH_REAL);
		number++;
		break;
	case FETCH_ALTERED:
		asker.fetched = fetched;
		asker.arg = arg;
		fetched = altered;
		break;
	case FETCH_REAL:
		break;
	}
	return __real_local_fetch_start(loop, name, wrong, number, fetched, arg, out_fetch);
}

void __wrap_local_fetch_cancel(struct local_fetch *fetch)
{
	if (fetch != (struct local_fetch *)&asker)
		__real_local_fetch_cancel(fetch);
	else
		atomic_fetch_add(&cancels, 1);
}

/* The errno with which this process's next message of descriptors fails, or 0. */
static _Atomic int pass_errno;

int __real_sys_fd_pass(int sock, const void *bytes, size_t n, const int *fds, uint32_t count);
int __wrap_sys_fd_pass(int sock, const void *bytes, size_t n, const int *fds, uint32_t count);
int __wrap_sys_fd_pass(int sock, const void *bytes, size_t n, const int *fds, uint32_t count)
{
	int err = atomic_exchange(&pass_errno, 0);

	if (!err)
		return __real_sys_fd_pass(sock, bytes, n, fds, count);
	errno = err;
	return -1;
}

static void open_two(struct share_pair *pair, enum share_memory memory, uint32_t near, uint32_t far)
{
	share_memory = memory;
	atomic_store(&fetch_how, FETCH_REAL);
	atomic_store(&fetches, 0);
	atomic_store(&cancels, 0);
	share_open(pair, true, near, far);
}

static void moves(enum share_memory memory, uint32_t near, uint32_t far)
{
	unsigned before = open_descriptors();

	share_memory = memory;
	atomic_store(&fetch_how, FETCH_REAL);
	share_moves(true, near, far);
	assert_int_equal(open_descriptors(), before);
}

static void whole_mappings_go_by_reference(void **state)
{
	(void)state;
	moves(SHARE_MAPPED, 0, 1);
	moves(SHARE_MAPPED, 1, 1);
}

/* Its place in the mapping is not the mapping's place in the reservation. */
static void parts_of_mappings_go_by_reference(void **state)
{
	(void)state;
	moves(SHARE_INSIDE, 1, 0);
}

/* A tensor in PyTorch's expandable segments is such a region. */
static void regions_over_several_mappings_go_by_reference(void **state)
{
	(void)state;
	moves(SHARE_ACROSS, 0, 1);
	moves(SHARE_ACROSS, 1, 1);
}

static void memory_of_pools_goes_by_reference(void **state)
{
	(void)state;
	moves(SHARE_POOL_FD, 0, 1);
	moves(SHARE_POOL_FD, 1, 1);
}

static void is_staged(struct share_pair *pair)
{
	assert_false(share_settles(pair, TCPX_OP_WRITE, SHARE_FEW));
	assert_false(share_settles(pair, TCPX_OP_READ, SHARE_FEW));
	side_fill(&pair->near, 1);
	assert_int_equal(share_move(pair, TCPX_OP_WRITE), TCPX_OK);
	assert_true(far_asks(pair, 'h', 1));
}

static void what_cannot_be_exported_is_staged(void **state)
{
	unsigned before = open_descriptors();
	struct share_pair pair;

	(void)state;
	open_two(&pair, SHARE_CLOSED, 0, 1);
	share_error_says(&pair, "");
	is_staged(&pair);
	share_error_says(&pair, "without a handle for other processes; next: ask cuMemCreate");
	share_close(&pair);
	open_two(&pair, SHARE_POOL, 0, 1);
	is_staged(&pair);
	share_error_says(&pair,
			 "without a handle for other processes; next: allocate it by cudaMalloc");
	assert_int_equal(atomic_load(&fetches), 0);
	share_close(&pair);
	assert_int_equal(open_descriptors(), before);
}

/* Shares both regions, then deregisters them. Nothing of them may remain while the link is up.
 * `opened` and `descriptors` are what the near side's driver holds for the far side's region. */
static void deregister_unmaps(enum share_memory memory, int opened, int descriptors)
{
	struct share_pair pair;
	struct stock before;

	open_two(&pair, memory, 0, 1);
	assert_int_equal(share_part(&pair, TCPX_OP_WRITE, SHARE_PART), TCPX_OK);
	share_settle(&pair, TCPX_OP_WRITE);
	share_settle(&pair, TCPX_OP_READ);
	wait_leading(&pair);
	assert_int_equal(
		tcpx_region_deregister(pair.near.session, pair.near.region, TCPX_WAIT_FOREVER),
		TCPX_OK);
	before = stock_at_rest(&pair); /* with what a session keeps once it has shared something */
	/* but without the far side's region, which the near side has mapped */
	before.live[0] -= opened;
	before.descriptors[0] -= descriptors;
	side_register(&pair.near);
	share_settle(&pair, TCPX_OP_WRITE);
	share_settle(&pair, TCPX_OP_READ);
	assert_int_equal(far_asks(&pair, 'd', 5000), TCPX_OK);
	assert_int_equal(
		tcpx_region_deregister(pair.near.session, pair.near.region, TCPX_WAIT_FOREVER),
		TCPX_OK);
	stock_same(&pair, &before, "deregister");
	share_close(&pair);
}

static void deregister_unmaps_at_the_peer(void **state)
{
	(void)state;
	deregister_unmaps(SHARE_MAPPED, 2, 1);	/* a mapping and a reservation */
	deregister_unmaps(SHARE_ACROSS, 4, 3);	/* three mappings and a reservation */
	deregister_unmaps(SHARE_POOL_FD, 2, 2); /* a pool and its memory */
}

/* Opens a second session in this process, which reads the same memory by reference. */
static void second_open(struct share_pair *pair, struct side *second)
{
	tcpx_region theirs;
	int before;

	*second = (struct side){0};
	side_open(second, pair->near.device);
	assert_int_equal(tcpx_session_connect(second->session, pair->info, pair->info_len, NULL,
					      &second->peer),
			 TCPX_OK);
	assert_int_equal(far_asks(pair, 'a', 0), TCPX_OK);
	assert_int_equal(tcpx_region_import(second->session, second->peer, pair->token,
					    sizeof(pair->token), &theirs),
			 TCPX_OK);
	do {
		tcpx_request request;

		before = share_copies(pair);
		assert_int_equal(side_start(second, TCPX_OP_READ, theirs, SHARE_PART, &request),
				 TCPX_OK);
		assert_int_equal(side_end(second, request), TCPX_OK);
	} while (share_copies(pair) - before != 1);
}

/* The driver opens an allocation once per process, and the first close ends it for all sessions. */
static void a_pool_stays_open_for_the_other_session(void **state)
{
	struct share_pair pair;
	struct side second;
	uint64_t openings;

	(void)state;
	open_two(&pair, SHARE_POOL_FD, 0, 1);
	share_settle(&pair, TCPX_OP_READ);
	openings = fake.calls("cuMemPoolImportPointer") + 1;
	second_open(&pair, &second);
	assert_int_equal(fake.calls("cuMemPoolImportPointer"), openings);
	side_close(&second);
	far_asks(&pair, 'f', 9);
	assert_true(share_settles(&pair, TCPX_OP_READ, 1));
	assert_int_equal(share_move(&pair, TCPX_OP_READ), TCPX_OK);
	assert_true(side_has(&pair.near, 9));
	assert_int_equal(fake.calls("cuMemPoolImportPointer"), openings);
	share_close(&pair);
}

/* What the list of the next test moves, which is of one size with all else there is, comes back. */
static void regions_are_their_own(struct share_pair *pair, unsigned count, size_t length)
{
	uint8_t *got = malloc(count * length);

	assert_non_null(got);
	assert_int_equal(share_part(pair, TCPX_OP_READ, count * length), TCPX_OK);
	assert_int_equal(fake.read(pair->near.memory, got, count * length), 0);
	for (size_t i = 0; i < count * length; i++)
		if (got[i] != i / length + 1)
			fail_msg("byte %zu is %u, of another region", i, got[i]);
	free(got);
}

/* More than may have a descriptor at once: each gets its turn, its own one, and keeps none. */
static void many_regions_take_turns(void **state)
{
	enum { MANY = 40, LENGTH = 96 << 10 };
	tcpx_segment list[MANY];
	struct share_pair pair;
	struct side side[MANY];
	unsigned before, by_copies = 0;
	uint8_t bytes[LENGTH];

	(void)state;
	open_two(&pair, SHARE_MAPPED, 0, 1);
	share_settle(&pair, TCPX_OP_WRITE);
	wait_leading(&pair);
	for (unsigned i = 0; i < MANY; i++) {
		side[i] = pair.near;
		side[i].memory = layout_take(0);
		side_register(&side[i]);
		memset(bytes, (int)i + 1, sizeof(bytes));
		assert_int_equal(fake.write(side[i].memory + i * 4096, bytes, LENGTH), 0);
		list[i] = (tcpx_segment){.local = side[i].region,
					 .local_offset = i * 4096,
					 .remote = pair.theirs,
					 .remote_offset = i * LENGTH,
					 .length = LENGTH};
	}
	before = open_descriptors();
	do {
		uint64_t copies = fake.calls("cuMemcpyAsync");
		tcpx_request request;

		assert_int_equal(tcpx_request_start(pair.near.session, pair.near.peer,
						    TCPX_OP_WRITE, list, MANY, NULL, &request),
				 TCPX_OK);
		assert_int_equal(side_end(&pair.near, request), TCPX_OK);
		by_copies = fake.calls("cuMemcpyAsync") == copies; /* of theirs alone */
	} while (!by_copies);
	assert_int_equal(open_descriptors(), before);
	regions_are_their_own(&pair, MANY, LENGTH);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(tcpx_region_deregister(pair.near.session, side[i].region,
							TCPX_WAIT_FOREVER),
				 TCPX_OK);
		share_give(0, side[i].memory);
	}
	share_close(&pair);
}

/* What has no answer, or none that is a descriptor, is offered anew a second later. */
static void a_question_that_fails_is_asked_again(void **state)
{
	(void)state;
	for (int how = FETCH_AGAIN; how <= FETCH_NUMBER; how++) {
		struct share_pair pair;

		open_two(&pair, SHARE_MAPPED, 0, 1);
		atomic_store(&fetch_how, how);
		share_settle(&pair, TCPX_OP_READ);
		assert_int_equal(atomic_load(&fetches), 2);
		share_close(&pair);
	}
}

/* A region for which descriptors are lacking is offered again a second later. The query reports no
 * error meanwhile. */
static void a_region_without_descriptors_is_offered_again(void **state)
{
	struct share_pair pair;

	(void)state;
	open_two(&pair, SHARE_ACROSS, 0, 1);
	atomic_store(&pass_errno, ETOOMANYREFS);
	share_settle(&pair, TCPX_OP_WRITE);
	assert_int_equal(atomic_load(&pass_errno), 0);
	share_error_says(&pair, "");
	share_close(&pair);
}

/* The near one has asked, and the answer does not come. */
static void stall(struct share_pair *pair)
{
	open_two(pair, SHARE_MAPPED, 0, 1);
	atomic_store(&fetch_how, FETCH_STALLS);
	while (!atomic_load(&fetches))
		assert_int_equal(share_part(pair, TCPX_OP_READ, SHARE_PART), TCPX_OK);
}

static void a_region_goes_before_its_descriptor_came(void **state)
{
	unsigned before = open_descriptors();
	struct share_pair pair;

	(void)state;
	stall(&pair);
	assert_int_equal(far_asks(&pair, 'd', 50000), TCPX_OK);
	assert_int_equal(atomic_load(&cancels), 1);
	share_close(&pair);
	assert_int_equal(open_descriptors(), before);
}

static void a_session_goes_before_a_descriptor_came(void **state)
{
	unsigned before = open_descriptors();
	struct share_pair pair;

	(void)state;
	stall(&pair);
	share_close(&pair);
	assert_int_equal(atomic_load(&cancels), 1);
	assert_int_equal(open_descriptors(), before);
}

static void a_peer_dies(bool stalled)
{
	unsigned before = open_descriptors();
	struct share_pair pair;

	if (stalled)
		stall(&pair);
	else
		open_two(&pair, SHARE_MAPPED, 0, 1);
	if (!stalled) {
		share_settle(&pair, TCPX_OP_READ);
		share_settle(&pair, TCPX_OP_WRITE);
	}
	kill(pair.child, SIGKILL);
	share_child_gone(&pair);
	assert_int_equal(
		tcpx_region_deregister(pair.near.session, pair.near.region, TCPX_WAIT_FOREVER),
		TCPX_OK);
	side_close(&pair.near);
	assert_int_equal(atomic_load(&cancels), stalled);
	assert_int_equal(fake.settle(0), 0);
	assert_int_equal(open_descriptors(), before);
}

static void a_peer_dies_before_its_descriptor_came(void **state)
{
	(void)state;
	a_peer_dies(true);
}

static void a_peer_dies_whose_memory_is_mapped(void **state)
{
	(void)state;
	a_peer_dies(false);
}

/* fd comes instead of the peer's memory. */
static void refused(int fd)
{
	unsigned before = open_descriptors();
	struct share_pair pair;

	open_two(&pair, SHARE_MAPPED, 0, 1);
	atomic_store(&fetch_gives, fd);
	atomic_store(&fetch_how, FETCH_ALTERED);
	assert_false(share_settles(&pair, TCPX_OP_READ, SHARE_FEW));
	far_asks(&pair, 'f', 9);
	assert_int_equal(share_move(&pair, TCPX_OP_READ), TCPX_OK);
	assert_true(side_has(&pair.near, 9));
	assert_int_equal(atomic_load(&fetches), 1);
	share_close(&pair);
	assert_int_equal(open_descriptors(), before);
}

static void what_is_no_memory_of_a_gpu_is_refused(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	refused(fds[0]);
	refused(fds[1]);
	close(fds[0]);
	close(fds[1]);
}

/* Another region's: what is too small for the offer. */
static void less_memory_than_was_offered_is_refused(void **state)
{
	struct cuda_alloc_prop prop = cuda_map_prop(1, CUDA_HANDLE_FD);
	struct rig_scope rig;
	cuda_alloc alloc;
	int fd = -1;

	(void)state;
	rig_enter(&rig, 1);
	assert_int_equal(api->vmm_create(&alloc, 10u << 21, &prop, 0), CUDA_OK);
	assert_int_equal(api->vmm_export(&fd, alloc, CUDA_HANDLE_FD, 0), CUDA_OK);
	assert_int_equal(api->vmm_release(alloc), CUDA_OK);
	rig_leave(&rig);
	refused(fd);
	close(fd);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_mappings_go_by_reference),
		cmocka_unit_test(parts_of_mappings_go_by_reference),
		cmocka_unit_test(regions_over_several_mappings_go_by_reference),
		cmocka_unit_test(memory_of_pools_goes_by_reference),
		cmocka_unit_test(what_cannot_be_exported_is_staged),
		cmocka_unit_test(deregister_unmaps_at_the_peer),
		cmocka_unit_test(a_pool_stays_open_for_the_other_session),
		cmocka_unit_test(many_regions_take_turns),
		cmocka_unit_test(a_question_that_fails_is_asked_again),
		cmocka_unit_test(a_region_without_descriptors_is_offered_again),
		cmocka_unit_test(a_region_goes_before_its_descriptor_came),
		cmocka_unit_test(a_session_goes_before_a_descriptor_came),
		cmocka_unit_test(a_peer_dies_before_its_descriptor_came),
		cmocka_unit_test(a_peer_dies_whose_memory_is_mapped),
		cmocka_unit_test(what_is_no_memory_of_a_gpu_is_refused),
		cmocka_unit_test(less_memory_than_was_offered_is_refused),
	};

	if (argc == 5)
		return far_main(argv);
	if (rig_open())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
