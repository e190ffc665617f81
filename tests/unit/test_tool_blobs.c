/* SPDX-License-Identifier: Apache-2.0 */
/* What other ranks send: pieces of any size, aligned for who reads them, and texts that end. */
#include "unit.h"

#include "node.h"
#include "node_control.h"

#define RANKS 9

static void pieces_come_back_aligned(void **state)
{
	static const char bytes[RANKS] = "abcdefgh";
	struct node_blob in[RANKS], out[RANKS], inner[RANKS];
	void *one, *two;
	size_t len, all;

	(void)state;
	for (uint32_t i = 0; i < RANKS; i++)
		in[i] = (struct node_blob){bytes, i};
	one = node_blobs_pack(in, RANKS, &len);
	assert_non_null(one);
	for (uint32_t i = 0; i < RANKS; i++) /* as rank 0 sends them on: within others */
		in[i] = i == 5 ? (struct node_blob){one, len} : (struct node_blob){bytes, i};
	two = node_blobs_pack(in, RANKS, &all);
	assert_non_null(two);
	assert_int_equal(node_blobs_unpack(two, all, RANKS, out), TCPX_OK);
	assert_int_equal(node_blobs_unpack(out[5].data, out[5].bytes, RANKS, inner), TCPX_OK);
	for (uint32_t i = 0; i < RANKS; i++) {
		assert_int_equal((uintptr_t)inner[i].data % sizeof(uint64_t), 0);
		assert_int_equal(inner[i].bytes, i);
		assert_memory_equal(inner[i].data, bytes, i);
	}
	free(one);
	free(two);
}

/* Cut anywhere, or with any size changed, it is refused or means the bytes that are there. */
static void what_nobody_packed_is_refused(void **state)
{
	static const uint64_t sizes[] = {0, 1, 7, 8, 9, 1 << 20, UINT64_MAX - 7, UINT64_MAX};
	struct node_blob in[2] = {{"0123456789", 10}, {"abc", 3}}, out[2];
	uint64_t *packed;
	size_t len;

	(void)state;
	packed = node_blobs_pack(in, 2, &len);
	assert_non_null(packed);
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(node_blobs_unpack(packed, cut, 2, out), TCPX_ERR_PROTOCOL);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		packed[1] = sizes[i]; /* of 3 bytes, and 5 that fill up */
		assert_int_equal(node_blobs_unpack(packed, len, 2, out),
				 sizes[i] && sizes[i] <= 8 ? TCPX_OK : TCPX_ERR_PROTOCOL);
	}
	free(packed);
}

static void a_hello_is_taken_whole(void **state)
{
	struct node_hello said = {.version = "1", .host = "a", .ngpus = 2}, got;
	const size_t bytes = offsetof(struct node_hello, gpus) + 2 * sizeof(said.gpus[0]);
	struct node_blob blob = {&said, bytes};
	struct {
		char *text;
		size_t cap;
	} texts[] = {
		{said.version, sizeof(said.version)},	      {said.host, sizeof(said.host)},
		{said.options, sizeof(said.options)},	      {said.boot, sizeof(said.boot)},
		{said.gpus[1].pci, sizeof(said.gpus[1].pci)},
	};

	(void)state;
	assert_int_equal(node_hello_take(&blob, 1, &got), TCPX_OK);
	assert_memory_equal(&got, &said, bytes);
	for (blob.bytes = 0; blob.bytes < bytes; blob.bytes++)
		assert_int_equal(node_hello_take(&blob, 1, &got), TCPX_ERR_VERSION);
	blob.bytes = bytes;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		memset(texts[i].text, 'x', texts[i].cap); /* has no end */
		assert_int_equal(node_hello_take(&blob, 1, &got), TCPX_ERR_PROTOCOL);
		memset(texts[i].text, 0, texts[i].cap);
	}
	said.ngpus = UINT32_MAX;
	assert_int_equal(node_hello_take(&blob, 1, &got), TCPX_ERR_VERSION);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_come_back_aligned),
		cmocka_unit_test(what_nobody_packed_is_refused),
		cmocka_unit_test(a_hello_is_taken_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
