/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of the conformance cases, wherever they are: guards, poison, the way to their bytes. */
#include <pthread.h>
#include <sys/mman.h>

#include "conform.h"

#define BOUNCE (512 * KIB)
#define GUARD 64 /* bytes of slack behind the data, at least */
#define BUFS_MAX 256

/* What was made and not freed, for the end of a case. */
static pthread_mutex_t made_lock = PTHREAD_MUTEX_INITIALIZER;
static struct buf made[BUFS_MAX];

static void made_add(const struct buf *buf)
{
	int i;

	pthread_mutex_lock(&made_lock);
	for (i = 0; i < BUFS_MAX && made[i].map; i++)
		;
	CHECK(i < BUFS_MAX);
	made[i] = *buf;
	pthread_mutex_unlock(&made_lock);
}

static void made_remove(const struct buf *buf)
{
	pthread_mutex_lock(&made_lock);
	for (int i = 0; i < BUFS_MAX; i++)
		if (made[i].map == buf->map)
			made[i].map = NULL;
	pthread_mutex_unlock(&made_lock);
}

static bool by_driver(const struct buf *buf)
{
	return buf->place.kind == TCPX_MEM_CUDA;
}

static void host_take(struct buf *buf, size_t body)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *map;

	body = (body + page - 1) / page * page;
	map = mmap(NULL, body + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		   -1, 0);
	CHECK_MSG(map != MAP_FAILED, "no memory for %zu bytes", body);
	if (buf->place.file) {
		buf->file = memfd_create("conform", MFD_CLOEXEC);
		CHECK(buf->file >= 0 && !ftruncate(buf->file, (off_t)body));
		CHECK(mmap(map + page, body, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			   buf->file, 0) == map + page);
	} else {
		CHECK(mprotect(map + page, body, PROT_READ | PROT_WRITE) == 0);
	}
	buf->map = map;
	buf->map_bytes = body + 2 * page;
	buf->addr = map + page + buf->lead;
	buf->tail = body - buf->lead - buf->size;
	if (buf->lead == 0) { /* then the end touches the guard page, up to alignment of 8 */
		size_t shift = buf->tail & ~(size_t)7;

		buf->addr = (uint8_t *)buf->addr + shift;
		buf->lead = shift;
		buf->tail -= shift;
	}
}

void buf_make_at(struct buf *buf, struct place place, uint64_t size, size_t lead)
{
	*buf = (struct buf){.place = place, .size = size, .lead = lead};
	if (by_driver(buf)) {
		buf->lead += GUARD;
		buf->tail = GUARD;
		gpu_memory_take(buf, buf->lead + size + buf->tail);
	} else {
		host_take(buf, lead + size + GUARD);
	}
	made_add(buf);
	buf_poison(buf);
}

void buf_make(struct buf *buf, uint64_t size, size_t lead)
{
	buf_make_at(buf, config.mem, size, lead);
}

void buf_free(struct buf *buf)
{
	if (!buf->map)
		return;
	made_remove(buf);
	if (by_driver(buf))
		gpu_memory_give(buf);
	else
		munmap(buf->map, buf->map_bytes);
	if (buf->place.file)
		close(buf->file);
	memset(buf, 0, sizeof(*buf));
}

void buf_free_all(void)
{
	for (int i = 0; i < BUFS_MAX; i++) {
		struct buf buf = made[i];

		buf_free(&buf);
	}
}

void buf_cut(const struct buf *buf, uint64_t off)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	CHECK(buf->place.file && !ftruncate(buf->file, (off_t)((buf->lead + off) & ~(page - 1))));
}

static void *place_of(const struct buf *buf, uint64_t off, uint64_t len)
{
	CHECK(off <= buf->size && len <= buf->size - off);
	return (uint8_t *)buf->addr + off;
}

void buf_read(const struct buf *buf, uint64_t off, void *out, uint64_t len)
{
	void *from = place_of(buf, off, len);

	if (by_driver(buf))
		gpu_memory_read(buf, buf->lead + off, out, len);
	else
		memcpy(out, from, len);
}

void buf_write(const struct buf *buf, uint64_t off, const void *data, uint64_t len)
{
	void *to = place_of(buf, off, len);

	if (by_driver(buf))
		gpu_memory_write(buf, buf->lead + off, data, len);
	else
		memcpy(to, data, len);
}

void buf_set(const struct buf *buf, uint64_t off, uint64_t len, uint8_t value)
{
	void *to = place_of(buf, off, len);

	if (by_driver(buf))
		gpu_memory_set(buf, buf->lead + off, len, value);
	else
		byte_fill(to, len, value);
}

void buf_poison(struct buf *buf)
{
	uint64_t all = buf->lead + buf->size + buf->tail;

	if (by_driver(buf))
		gpu_memory_set(buf, 0, all, POISON);
	else
		byte_fill((uint8_t *)buf->addr - buf->lead, all, POISON);
}

/* The next part of memory that only the driver reaches: its bytes. */
static uint64_t part_read(const struct buf *buf, uint64_t from, uint64_t left, void *bounce)
{
	uint64_t len = left < BOUNCE ? left : BOUNCE;

	gpu_memory_read(buf, from, bounce, len);
	return len;
}

static void *bounce_new(uint64_t len)
{
	void *bounce = malloc(len < BOUNCE ? len + 1 : BOUNCE);

	CHECK(bounce);
	return bounce;
}

/* From the beginning of the slack. */
static int64_t driver_bytes(const struct buf *buf, uint64_t from, uint64_t len, uint8_t value)
{
	void *bounce = bounce_new(len);
	int64_t wrong = -1;

	for (uint64_t at = 0, part; at < len && wrong < 0; at += part) {
		part = part_read(buf, from + at, len - at, bounce);
		wrong = byte_check(bounce, part, value);
		if (wrong >= 0)
			wrong += (int64_t)at;
	}
	free(bounce);
	return wrong;
}

bool buf_slack_whole(const struct buf *buf)
{
	uint8_t *data = buf->addr;

	if (by_driver(buf))
		return driver_bytes(buf, 0, buf->lead, POISON) < 0 &&
		       driver_bytes(buf, buf->lead + buf->size, buf->tail, POISON) < 0;
	return byte_check(data - buf->lead, buf->lead, POISON) < 0 &&
	       byte_check(data + buf->size, buf->tail, POISON) < 0;
}

int64_t buf_bytes(const struct buf *buf, uint64_t off, uint64_t len, uint8_t value)
{
	void *from = place_of(buf, off, len);

	return by_driver(buf) ? driver_bytes(buf, buf->lead + off, len, value)
			      : byte_check(from, len, value);
}

void buf_fill(const struct buf *buf, uint64_t off, uint64_t len, uint64_t seed, uint64_t position)
{
	void *to = place_of(buf, off, len), *bounce;

	if (!by_driver(buf)) {
		pat_fill(to, len, seed, position);
		return;
	}
	bounce = bounce_new(len);
	for (uint64_t at = 0; at < len; at += BOUNCE) {
		uint64_t part = len - at < BOUNCE ? len - at : BOUNCE;

		pat_fill(bounce, part, seed, position + at);
		gpu_memory_write(buf, buf->lead + off + at, bounce, part);
	}
	free(bounce);
}

int64_t buf_check(const struct buf *buf, uint64_t off, uint64_t len, uint64_t seed,
		  uint64_t position)
{
	void *from = place_of(buf, off, len), *bounce;
	int64_t wrong = -1;

	if (!by_driver(buf))
		return pat_check(from, len, seed, position);
	bounce = bounce_new(len);
	for (uint64_t at = 0, part; at < len && wrong < 0; at += part) {
		part = part_read(buf, buf->lead + off + at, len - at, bounce);
		wrong = pat_check(bounce, part, seed, position + at);
		if (wrong >= 0)
			wrong += (int64_t)at;
	}
	free(bounce);
	return wrong;
}

uint64_t buf_differ(const struct buf *buf, uint64_t off, const void *want, uint64_t len)
{
	void *from = place_of(buf, off, len), *bounce;
	uint64_t wrong = 0;

	if (!by_driver(buf))
		return byte_differ(want, from, len);
	bounce = bounce_new(len);
	for (uint64_t at = 0, part; at < len; at += part) {
		part = part_read(buf, buf->lead + off + at, len - at, bounce);
		wrong += byte_differ((const uint8_t *)want + at, bounce, part);
	}
	free(bounce);
	return wrong;
}

uint64_t buf_run(const struct buf *buf, uint64_t off, uint64_t len, uint8_t value)
{
	void *from = place_of(buf, off, len), *bounce;
	uint64_t best = 0, run = 0;

	if (!by_driver(buf))
		return byte_run(from, len, value, &run);
	bounce = bounce_new(len);
	for (uint64_t at = 0, part; at < len; at += part) {
		uint64_t here;

		part = part_read(buf, buf->lead + off + at, len - at, bounce);
		here = byte_run(bounce, part, value, &run);
		best = here > best ? here : best;
	}
	free(bounce);
	return best;
}
