/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped GPU memory between two processes while each call of the driver fails once, on either side:
 * the right bytes, by reference or not, and nothing left behind. And while the control link is full
 * at any of its messages. */
#include "share_stock.h"

#include "ctl/conn.h"

static _Atomic int until_full; /* messages about shared memory; 0: it has room */

tcpx_status __real_ctl_link_send(struct ctl_link *link, const struct frame *frame,
				 const void *payload);
tcpx_status __wrap_ctl_link_send(struct ctl_link *link, const struct frame *frame,
				 const void *payload);
tcpx_status __wrap_ctl_link_send(struct ctl_link *link, const struct frame *frame,
				 const void *payload)
{
	bool about = frame->type == FRAME_SHARE || frame->type == FRAME_LOCAL;

	if (about && atomic_load(&until_full) && atomic_fetch_sub(&until_full, 1) == 1)
		return TCPX_ERR_LIMIT;
	return __real_ctl_link_send(link, frame, payload);
}

/* The driver calls by which mappings and pools are shared. Otherwise only a registration makes
 * some of them. */
static const char *const failing[] = {
	"cuMemRetainAllocationHandle",
	"cuMemGetAllocationPropertiesFromHandle",
	"cuMemGetAllocationGranularity",
	"cuMemExportToShareableHandle",
	"cuMemImportFromShareableHandle",
	"cuMemAddressReserve",
	"cuMemMap",
	"cuMemSetAccess",
	"cuMemRelease",
	"cuMemUnmap",
	"cuMemAddressFree",
	"cuMemPoolExportToShareableHandle",
	"cuMemPoolExportPointer",
	"cuMemPoolImportFromShareableHandle",
	"cuMemPoolSetAccess",
	"cuMemPoolImportPointer",
	"cuStreamCreateWithPriority",
	"cuMemFreeAsync",
	"cuStreamDestroy_v2",
	"cuMemPoolDestroy",
};
#define FAILING (sizeof(failing) / sizeof(failing[0]))

/* A region's whole life after it was registered; the bytes arrive whichever way they go. */
static void life(struct share_pair *pair, unsigned salt)
{
	uint8_t bytes[SHARE_PART];

	(void)share_settles(pair, TCPX_OP_WRITE, SHARE_FEW);
	memset(bytes, (int)(salt % 256), sizeof(bytes));
	assert_int_equal(fake.write(pair->near.memory, bytes, sizeof(bytes)), 0);
	side_meet(&pair->near);
	assert_int_equal(share_part(pair, TCPX_OP_WRITE, SHARE_PART), TCPX_OK);
	assert_int_equal(far_asks(pair, 'b', 0), salt % 256);
	assert_int_equal(
		tcpx_region_deregister(pair->near.session, pair->near.region, TCPX_WAIT_FOREVER),
		TCPX_OK);
}

static unsigned symbol_index(const char *symbol)
{
	unsigned i = 0;

	while (strcmp(rig_symbols[i], symbol) != 0)
		i++;
	return i;
}

static unsigned calls_of(struct share_pair *pair, bool far, unsigned symbol)
{
	return far ? (unsigned)far_asks(pair, 'k', symbol)
		   : (unsigned)fake.calls(rig_symbols[symbol]);
}

static void fail_call(struct share_pair *pair, bool far, unsigned symbol, unsigned nth, int result)
{
	if (far)
		assert_int_equal(far_asks(pair, 'x', symbol << 16 | nth << 10 | (unsigned)result),
				 0);
	else
		assert_int_equal(fake.fail_call(rig_symbols[symbol], nth, result), 0);
}

static void every_call_fails_once(enum share_memory memory)
{
	static const int results[] = {CUDA_ERR_OUT_OF_MEMORY, CUDA_ERR_INVALID_VALUE};
	unsigned calls[2][FAILING], turn = 0;
	struct share_pair pair;
	struct stock before;

	share_memory = memory;
	share_open(&pair, true, 0, 1);
	share_settle(&pair, TCPX_OP_WRITE);
	wait_leading(&pair);
	life(&pair, turn++);
	before = stock_at_rest(&pair);
	side_register(&pair.near);
	for (unsigned i = 0; i < 2 * FAILING; i++)
		calls[i % 2][i / 2] = calls_of(&pair, i % 2, symbol_index(failing[i / 2]));
	share_settle(&pair, TCPX_OP_WRITE);
	life(&pair, turn++);
	for (unsigned i = 0; i < 2 * FAILING; i++)
		calls[i % 2][i / 2] =
			calls_of(&pair, i % 2, symbol_index(failing[i / 2])) - calls[i % 2][i / 2];
	for (unsigned i = 0; i < 2 * FAILING; i++) {
		unsigned symbol = symbol_index(failing[i / 2]), count = calls[i % 2][i / 2];

		assert_in_range(count, 0, 62);
		for (unsigned k = 0; k < 2 * count; k++) {
			side_register(&pair.near);
			fail_call(&pair, i % 2, symbol, 1 + k / 2, results[k % 2]);
			life(&pair, turn++);
			fail_call(&pair, i % 2, symbol, 0, 0);
			stock_same(&pair, &before, failing[i / 2]);
		}
	}
	print_message("%u lives\n", turn);
	assert_in_range(turn, 20, 1000);
	side_register(&pair.near);
	share_settle(&pair, TCPX_OP_WRITE);
	share_close(&pair);
}

static void every_call_of_mappings_fails_once(void **state)
{
	(void)state;
	every_call_fails_once(SHARE_INSIDE);
	every_call_fails_once(SHARE_ACROSS);
}

static void every_call_of_pools_fails_once(void **state)
{
	(void)state;
	every_call_fails_once(SHARE_POOL_FD);
}

/* The link ends at once, with all that was shared over it, beneath whoever sent. */
static void no_room_at_any_message(void **state)
{
	static const enum share_memory kinds[] = {SHARE_ALLOC, SHARE_ACROSS};
	unsigned ended = 0;

	(void)state;
	for (unsigned k = 0; k < 2 * 4; k++) {
		struct share_pair pair;
		tcpx_status status = TCPX_OK;
		tcpx_error error = {.sz = sizeof(error)};

		share_memory = kinds[k % 2];
		share_open(&pair, true, 0, 1);
		share_settle(&pair, TCPX_OP_WRITE);
		atomic_store(&until_full, 1 + (int)k / 2);
		for (unsigned i = 0; i < 4 && status == TCPX_OK; i++) {
			/* offered, answered, revoked, and once more */
			(void)tcpx_region_deregister(pair.near.session, pair.near.region,
						     TCPX_WAIT_FOREVER);
			side_register(&pair.near);
			for (unsigned n = 0; n < SHARE_FEW && status == TCPX_OK; n++)
				status = share_part(&pair, TCPX_OP_WRITE, SHARE_PART);
		}
		atomic_store(&until_full, 0);
		assert_int_equal(tcpx_peer_error(pair.near.session, pair.near.peer, &error),
				 TCPX_OK);
		assert_int_equal(error.status, status);
		ended += status == TCPX_ERR_PEER_STOPPED;
		share_close(&pair);
	}
	assert_true(ended >= 4);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_call_of_mappings_fails_once),
		cmocka_unit_test(every_call_of_pools_fails_once),
		cmocka_unit_test(no_room_at_any_message),
	};

	if (argc == 5)
		return far_main(argv);
	if (rig_open())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
