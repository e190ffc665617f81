/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of RxDM: what decodes lies within its bytes and bounds and survives its own encoding. */
#include "target.h"

#include "wire/rxdm.h"

static void check(const uint8_t *data, size_t size)
{
	uint8_t first[WIRE_RXDM_HEAD + WIRE_RXDM_BODY_MAX], second[sizeof(first)];
	struct wire_rxdm message, again;
	size_t len;

	if (wire_rxdm_decode(data, size, &message))
		return;
	FUZZ_CHECK(message.nqueues <= WIRE_RXDM_QUEUES_MAX);
	FUZZ_CHECK(memchr(message.gpu, 0, sizeof(message.gpu)));
	FUZZ_CHECK(memchr(message.rule.src.ip, 0, sizeof(message.rule.src.ip)));
	FUZZ_CHECK(memchr(message.rule.dst.ip, 0, sizeof(message.rule.dst.ip)));
	FUZZ_CHECK(!message.bytes_len ||
		   (message.bytes >= data && message.bytes + message.bytes_len <= data + size));
	FUZZ_CHECK(!message.words_len ||
		   (message.words >= data && message.words + message.words_len <= data + size));
	len = wire_rxdm_encode(&message, first, sizeof(first));
	if (!len) /* many packed numbers may take more room one by one */
		return;
	FUZZ_CHECK(wire_rxdm_length(first) == len - WIRE_RXDM_HEAD);
	FUZZ_CHECK(!wire_rxdm_decode(first + WIRE_RXDM_HEAD, len - WIRE_RXDM_HEAD, &again));
	FUZZ_CHECK(again.kind == message.kind && again.status == message.status);
	FUZZ_CHECK(wire_rxdm_encode(&again, second, sizeof(second)) == len);
	FUZZ_CHECK(!memcmp(first, second, len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_rxdm_memory memory;

	check(data, size);
	if (size >= WIRE_RXDM_HEAD) /* the golden ones have a head */
		check(data + WIRE_RXDM_HEAD, size - WIRE_RXDM_HEAD);
	if (!wire_rxdm_memory_decode(data, size, &memory))
		FUZZ_CHECK(memory.size_bytes && !(memory.align_bytes & (memory.align_bytes - 1)));
	return 0;
}
