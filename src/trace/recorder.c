/* SPDX-License-Identifier: Apache-2.0 */
/* The rings of all threads, and the writer thread, which moves their records into the file. */
#include "trace/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sys/fd.h"
#include "trace/file.h"

#define RING_RECORDS 16384u /* default number of records of a ring */
#define THREADS_MAX 60000u  /* maximum number of threads that get a ring */
#define NAMES_MAX 64	    /* maximum number of names tried if files exist already */
#define DRAIN_MS 25	    /* pause of the writer between two rounds over the rings */
#define IDLE_MS 100	    /* pause of the writer after IDLE_ROUNDS rounds without a record */
#define IDLE_ROUNDS 100u
#define CLOSE_MS 2000		     /* how long trace_recorder_close waits for the writer */
#define RETRY_NS CLOCK_S_NS	     /* pause after a failed write */
#define CONTEXT_NS (CLOCK_S_NS / 10) /* shortest time between two context blocks */

/* A record is written to the file as it is in memory, so the memory must be little-endian too. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file is little-endian");

_Atomic int trace_recorder_on;
uint64_t trace_recorder_hz;
__thread struct trace_ring *trace_own_ring __attribute__((tls_model("initial-exec")));
static __thread int ring_refused; /* 1 if this thread must not make a ring */

static struct {
	pthread_mutex_t lock; /* guards `rings`, `threads` and the notes */
	struct trace_ring *rings;
	unsigned threads; /* number of threads that have had a ring */
	char *notes;	  /* lines for the next context block */
	size_t notes_len, notes_room;
	void (*context)(FILE *out, enum trace_context_places place);
	uint32_t ring_records; /* number of records of a ring, a power of two */
	int opened, fork_handled;
	pid_t pid;
	pthread_key_t key; /* its destructor runs when a thread with a ring ends */
	sem_t wake, finished;
	/* 1 if the writer sleeps; 1 if it must end; 1 if a context block is due */
	_Atomic int asleep, stop, context_wanted;
	/* records written, records lost, writes that failed */
	_Atomic uint64_t written, dropped, failed_writes;
	/* Used by the writer thread, and before its start by the thread that opens the recorder. */
	int fd;
	off_t good; /* offset of the end of the last whole block */
	/* Times of base/clock.h. Until the trace ends, nothing is written before retry_ns, no CLOCK
	 * block before clock_ns, and no context block before context_ns. */
	int64_t retry_ns, clock_ns, context_ns;
	char path[1024]; /* set before the writer starts; any thread may read it then */
} rec = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

void trace_writer_wake(void)
{
	int err = errno;

	if (atomic_exchange_explicit(&rec.asleep, 0, memory_order_relaxed))
		sem_post(&rec.wake);
	errno = err;
}

/* ---- rings ---- */

/* Destructor of rec.key, called when a thread ends: marks the thread's ring, so that the writer
 * frees it. */
static void ring_of_ended_thread(void *arg)
{
	struct trace_ring *ring = arg;

	trace_own_ring = NULL;
	ring_refused = 1;
	atomic_store_explicit(&ring->ended, 1, memory_order_release);
}

struct trace_ring *trace_ring_make(void)
{
	size_t bytes =
		sizeof(struct trace_ring) + (size_t)rec.ring_records * sizeof(struct trace_record);
	struct trace_ring *ring;
	int err = errno;

	if (ring_refused)
		return NULL;
	ring_refused = 1; /* stays 1 unless this function succeeds */
	ring = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	errno = err;
	if (ring == MAP_FAILED)
		return NULL;
	ring->mask = rec.ring_records - 1;
	ring->bytes = bytes;
	ring->tid = (uint32_t)syscall(SYS_gettid);
	pthread_mutex_lock(&rec.lock);
	if (rec.threads >= THREADS_MAX || pthread_setspecific(rec.key, ring)) {
		pthread_mutex_unlock(&rec.lock);
		munmap(ring, bytes);
		errno = err;
		return NULL;
	}
	ring->thread = (uint16_t)rec.threads++;
	ring->next = rec.rings;
	rec.rings = ring;
	pthread_mutex_unlock(&rec.lock);
	ring_refused = 0;
	trace_own_ring = ring;
	errno = err;
	return ring;
}

/* ---- the file ---- */

/* Writes all parts to the file. Returns 0, or -1 on an error; some bytes may have been written
 * then. */
static int write_parts(struct iovec *parts, int count)
{
	while (count) {
		ssize_t done = writev(rec.fd, parts, count);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return -1;
		while (count && (size_t)done >= parts->iov_len) {
			done -= (ssize_t)parts->iov_len;
			parts++;
			count--;
		}
		if (count) {
			parts->iov_base = (char *)parts->iov_base + done;
			parts->iov_len -= (size_t)done;
		}
	}
	return 0;
}

/* Writes a block, whose payload is `a` followed by `b`. If only a part can be written, cuts it off
 * again. Returns 0, or -1 if the block is lost: the write failed, or an earlier write failed less
 * than RETRY_NS ago. */
static int write_block(struct trace_block *block, const void *a, size_t a_len, const void *b,
		       size_t b_len)
{
	uint8_t head[TRACE_BLOCK_BYTES];
	struct iovec parts[] = {{head, sizeof(head)}, {(void *)a, a_len}, {(void *)b, b_len}};
	int64_t now_ns = clock_now_ns();

	if (now_ns < rec.retry_ns)
		return -1;
	block->bytes = (uint32_t)(a_len + b_len);
	trace_block_put(head, block);
	if (!write_parts(parts, 3)) {
		rec.good += (off_t)(sizeof(head) + a_len + b_len);
		return 0;
	}
	rec.retry_ns = now_ns + RETRY_NS;
	atomic_fetch_add_explicit(&rec.failed_writes, 1, memory_order_relaxed);
	if (!ftruncate(rec.fd, rec.good))
		(void)lseek(rec.fd, rec.good, SEEK_SET);
	return -1;
}

static void write_moment(void)
{
	struct trace_block block = {.type = TRACE_BLOCK_CLOCK};
	struct trace_moment moment;

	trace_moment_now(&moment);
	(void)write_block(&block, &moment, sizeof(moment), NULL, 0);
	rec.clock_ns = clock_now_ns() + CLOCK_S_NS;
}

/* Writes a context block with the lines of rec.context and the notes added so far. */
static void write_text(enum trace_context_places place)
{
	struct trace_block block = {.type = TRACE_BLOCK_CONTEXT, .thread = (uint16_t)place};
	char *text = NULL, *notes;
	size_t len = 0, notes_len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return;
	if (rec.context)
		rec.context(out, place);
	(void)fclose(out);
	pthread_mutex_lock(&rec.lock);
	notes = rec.notes;
	notes_len = rec.notes_len;
	rec.notes = NULL;
	rec.notes_len = rec.notes_room = 0;
	pthread_mutex_unlock(&rec.lock);
	if (text)
		(void)write_block(&block, text, len, notes, notes_len);
	free(text);
	free(notes);
	rec.context_ns = clock_now_ns() + CONTEXT_NS;
}

static void write_thread(struct trace_ring *ring)
{
	struct trace_block block = {.type = TRACE_BLOCK_THREAD, .thread = ring->thread};

	ring->named = !write_block(&block, &ring->tid, sizeof(ring->tid), NULL, 0);
}

/* Writes all records of the ring to the file and frees their places. If the write fails, the
 * records count as dropped. Returns 1 if there were any records. */
static int drain(struct trace_ring *ring)
{
	uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
	uint32_t count = atomic_load_explicit(&ring->head, memory_order_acquire) - tail;
	uint32_t at = tail & ring->mask, to_end = ring->mask + 1 - at;
	struct trace_block block = {
		.type = TRACE_BLOCK_RECORDS,
		.thread = ring->thread,
		.first = ring->written,
		.dropped = atomic_load_explicit(&ring->dropped, memory_order_relaxed),
	};
	uint32_t first = count < to_end ? count : to_end;

	if (!count)
		return 0;
	if (!ring->named)
		write_thread(ring);
	if (write_block(&block, &ring->slots[at], first * sizeof(ring->slots[0]), ring->slots,
			(count - first) * sizeof(ring->slots[0])))
		atomic_fetch_add_explicit(&rec.dropped, count, memory_order_relaxed);
	else
		atomic_fetch_add_explicit(&rec.written, count, memory_order_relaxed);
	ring->written += count;
	atomic_store_explicit(&ring->tail, tail + count, memory_order_release);
	return 1;
}

/* Called at the end of the trace: writes a record of the call that the ring's thread is in, if
 * any. */
static void write_unfinished(struct trace_ring *ring)
{
	struct trace_block block = {
		.type = TRACE_BLOCK_RECORDS, .thread = ring->thread, .first = ring->written};
	uint32_t call = atomic_load_explicit(&ring->busy_call, memory_order_acquire);
	struct trace_record record = {
		.time = atomic_load_explicit(&ring->busy_time, memory_order_relaxed),
		.comm = atomic_load_explicit(&ring->busy_comm, memory_order_relaxed),
		.thread = ring->thread,
		.call = (uint8_t)call,
		.flags = TRACE_UNFINISHED,
		.memory = TRACE_NONE,
		.nic = TRACE_DEV_UNKNOWN,
		.owner = TRACE_DEV_UNKNOWN,
		.gpu = TRACE_DEV_UNKNOWN,
		.parts = 1,
	};

	if (call == TRACE_GAP)
		return;
	record.duration = trace_ticks() - record.time;
	block.dropped = atomic_load_explicit(&ring->dropped, memory_order_relaxed);
	if (write_block(&block, &record, sizeof(record), NULL, 0))
		atomic_fetch_add_explicit(&rec.dropped, 1, memory_order_relaxed);
	else
		atomic_fetch_add_explicit(&rec.written, 1, memory_order_relaxed);
}

/* ---- the writer ---- */

/* Returns the ring that is first in the list at this moment. Threads add rings only in front of it,
 * and only the writer removes rings, so the writer can walk the list from this ring without the
 * lock. */
static struct trace_ring *rings_now(void)
{
	struct trace_ring *first;

	pthread_mutex_lock(&rec.lock);
	first = rec.rings;
	pthread_mutex_unlock(&rec.lock);
	return first;
}

static void ring_free(struct trace_ring *ring)
{
	pthread_mutex_lock(&rec.lock);
	for (struct trace_ring **at = &rec.rings; *at; at = &(*at)->next) {
		if (*at != ring)
			continue;
		*at = ring->next;
		break;
	}
	pthread_mutex_unlock(&rec.lock);
	atomic_fetch_add_explicit(&rec.dropped,
				  atomic_load_explicit(&ring->dropped, memory_order_relaxed),
				  memory_order_relaxed);
	munmap(ring, ring->bytes);
}

/* Writes the records of all rings and frees the rings of ended threads. Returns 1 if there were
 * records. */
static int drain_all(void)
{
	int found = 0;

	for (struct trace_ring *ring = rings_now(), *next; ring; ring = next) {
		int ended = atomic_load_explicit(&ring->ended, memory_order_acquire);

		next = ring->next;
		found |= drain(ring);
		if (ended)
			ring_free(ring);
	}
	return found;
}

/* Writes the remaining records and the last blocks, and closes the file. */
static void write_last(void)
{
	struct trace_block block = {.type = TRACE_BLOCK_END};

	drain_all();
	for (struct trace_ring *ring = rings_now(); ring; ring = ring->next) {
		write_unfinished(ring);
		atomic_fetch_add_explicit(
			&rec.dropped, atomic_load_explicit(&ring->dropped, memory_order_relaxed),
			memory_order_relaxed);
	}
	rec.retry_ns = 0; /* allows a last attempt if an earlier write failed */
	write_text(TRACE_AT_END);
	write_moment();
	block.dropped = atomic_load_explicit(&rec.dropped, memory_order_relaxed);
	(void)write_block(&block, NULL, 0, NULL, 0);
	sys_fd_close(rec.fd);
	rec.fd = -1;
}

/* Sleeps for `ms` milliseconds, or until trace_writer_wake is called. */
static void sleep_ms(unsigned ms)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += (long)ms * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	atomic_store_explicit(&rec.asleep, 1, memory_order_relaxed);
	(void)sem_timedwait(&rec.wake, &until);
	atomic_store_explicit(&rec.asleep, 0, memory_order_relaxed);
}

static void *writer_main(void *arg)
{
	unsigned idle = 0;

	while (!atomic_load_explicit(&rec.stop, memory_order_acquire)) {
		sleep_ms(idle < IDLE_ROUNDS ? DRAIN_MS : IDLE_MS);
		if (drain_all())
			idle = 0;
		else
			idle++;
		if (!idle && clock_now_ns() >= rec.clock_ns)
			write_moment();
		if (clock_now_ns() >= rec.context_ns &&
		    atomic_exchange_explicit(&rec.context_wanted, 0, memory_order_relaxed))
			write_text(TRACE_BETWEEN);
	}
	write_last();
	sem_post(&rec.finished);
	return arg;
}

/* Starts the writer thread. Returns 0, or -1 with errno. */
static int writer_start(void)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	sigfillset(&all); /* also SIGXFSZ: a write beyond a file-size limit then only fails */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &attr, writer_main, NULL);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = err;
	return err ? -1 : 0;
}

/* ---- opening and closing ---- */

/* Called in a forked child: switches recording off. */
static void child_of_fork(void)
{
	atomic_store_explicit(&trace_recorder_on, 0, memory_order_relaxed);
	trace_own_ring = NULL;
	ring_refused = 1;
}

/* Stores the name of the file in `out`: the first "%p" of the pattern becomes the process id, and
 * `number` is appended if it is above 1. */
static void path_expand(const char *pattern, unsigned number, char *out, size_t cap)
{
	const char *place = strstr(pattern, "%p");
	size_t len;

	if (place)
		snprintf(out, cap, "%.*s%ld%s", (int)(place - pattern), pattern, (long)getpid(),
			 place + 2);
	else
		snprintf(out, cap, "%s", pattern);
	len = strlen(out);
	if (number > 1)
		snprintf(out + len, cap - len, ".%u", number);
}

/* Opens a character device for writing. Returns -1, with EEXIST, if it is something else. */
static int device_open(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st) && S_ISCHR(st.st_mode) && !fcntl(fd, F_SETFL, 0))
		return fd;
	if (fd >= 0)
		sys_fd_close(fd);
	errno = EEXIST;
	return -1;
}

/* Creates a file that does not exist yet, trying up to NAMES_MAX names. Opens a character device as
 * it is. Returns 0, or -1 with errno. */
static int file_create(const char *pattern)
{
	for (unsigned i = 1; i <= NAMES_MAX; i++) {
		path_expand(pattern, i, rec.path, sizeof(rec.path));
		rec.fd = open(rec.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (rec.fd >= 0 || errno != EEXIST)
			break;
		rec.fd = device_open(rec.path);
		if (rec.fd >= 0)
			break;
	}
	return rec.fd < 0 ? -1 : 0;
}

/* Starts the clock and writes the header and the first context block. Returns 0, or -1 with
 * errno. */
static int file_begin(int force_clock)
{
	struct trace_header header = {.version = TRACE_VERSION, .pid = (uint32_t)getpid()};
	uint8_t bytes[TRACE_HEADER_BYTES];
	struct iovec part = {bytes, sizeof(bytes)};

	trace_recorder_hz = header.hz = trace_clock_start(force_clock);
	header.flags = trace_clock_tsc ? TRACE_CLOCK_TSC : 0;
	trace_moment_now(&header.start);
	trace_header_put(bytes, &header);
	if (write_parts(&part, 1))
		return -1;
	rec.good = TRACE_HEADER_BYTES;
	write_text(TRACE_AT_START);
	return 0;
}

/* Closes the file of a recorder that does not start. Keeps errno. */
static void file_give_up(void)
{
	int err = errno;

	if (rec.fd >= 0)
		sys_fd_close(rec.fd);
	rec.fd = -1;
	errno = err;
}

/* Sets up the recorder and creates the file. Returns 0, or -1 with errno. */
static int recorder_begin(const struct trace_recorder_opts *opts)
{
	rec.ring_records = opts->ring_records ? opts->ring_records : RING_RECORDS;
	rec.context = opts->context;
	rec.pid = getpid();
	if (sem_init(&rec.wake, 0, 0) || sem_init(&rec.finished, 0, 0))
		return -1;
	if (!rec.fork_handled) {
		errno = pthread_key_create(&rec.key, ring_of_ended_thread);
		if (!errno)
			errno = pthread_atfork(NULL, NULL, child_of_fork);
		if (!errno && atexit(trace_recorder_close))
			errno = ENOMEM;
		if (errno)
			return -1;
		rec.fork_handled = 1;
	}
	return file_create(opts->path);
}

int trace_recorder_open(const struct trace_recorder_opts *opts)
{
	static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
	int rc = 0;

	pthread_mutex_lock(&opening);
	if (!rec.opened) {
		rc = recorder_begin(opts);
		if (!rc)
			rc = file_begin(opts->force_clock);
		if (!rc)
			rc = writer_start();
		if (rc)
			file_give_up();
		rec.opened = 1; /* there is no second attempt after a failure */
		atomic_store_explicit(&trace_recorder_on, !rc, memory_order_release);
	}
	pthread_mutex_unlock(&opening);
	return rc;
}

void trace_recorder_close(void)
{
	struct timespec until;
	int err = errno;

	if (!atomic_exchange_explicit(&trace_recorder_on, 0, memory_order_acq_rel) ||
	    rec.pid != getpid())
		return;
	atomic_store_explicit(&rec.stop, 1, memory_order_release);
	sem_post(&rec.wake);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += CLOSE_MS / 1000;
	while (sem_timedwait(&rec.finished, &until) && errno == EINTR)
		continue;
	errno = err;
}

void trace_recorder_note(const char *key, const char *format, ...)
{
	char line[1400];
	int err = errno, len = snprintf(line, sizeof(line), "%s=", key), more;
	va_list args;

	va_start(args, format);
	more = vsnprintf(line + len, sizeof(line) - 1 - (size_t)len, format, args);
	va_end(args);
	if (more > 0)
		len = (int)strlen(line);
	for (int i = 0; i < len; i++)
		if (line[i] == '\n')
			line[i] = ' ';
	line[len++] = '\n';
	pthread_mutex_lock(&rec.lock);
	if (rec.notes_len + (size_t)len > rec.notes_room) {
		size_t room = rec.notes_room * 2 + sizeof(line);
		char *notes = realloc(rec.notes, room);

		if (!notes)
			goto out; /* only this line is lost */
		rec.notes = notes;
		rec.notes_room = room;
	}
	memcpy(rec.notes + rec.notes_len, line, (size_t)len);
	rec.notes_len += (size_t)len;
out:
	pthread_mutex_unlock(&rec.lock);
	atomic_store_explicit(&rec.context_wanted, 1, memory_order_relaxed);
	errno = err;
}

void trace_recorder_context(void)
{
	atomic_store_explicit(&rec.context_wanted, 1, memory_order_relaxed);
}

void trace_recorder_counts(struct trace_recorder_counts *out_counts)
{
	uint64_t dropped = atomic_load_explicit(&rec.dropped, memory_order_relaxed);

	pthread_mutex_lock(&rec.lock);
	for (struct trace_ring *ring = rec.rings; ring; ring = ring->next)
		dropped += atomic_load_explicit(&ring->dropped, memory_order_relaxed);
	pthread_mutex_unlock(&rec.lock);
	*out_counts = (struct trace_recorder_counts){
		.written = atomic_load_explicit(&rec.written, memory_order_relaxed),
		.dropped = dropped,
		.failed_writes = atomic_load_explicit(&rec.failed_writes, memory_order_relaxed),
	};
	memcpy(out_counts->path, rec.path, sizeof(out_counts->path));
}
