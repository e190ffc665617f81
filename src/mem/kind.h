/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory-kind interface: asynchronous, so that GPU memory is one more kind. A direct kind gives
 * pointers for socket calls; a staged one moves bytes between its memory and slots of ours by fill
 * and commit, which end later, in any order, on any thread. "Applied" means commit ended.
 */
#ifndef MEM_KIND_H
#define MEM_KIND_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

struct mem_kind;

/* One piece of a copy: memory of the kind, by address. */
struct mem_piece {
	void *addr;
	uint64_t length;
};

struct mem_mapping; /* a region of another session on this host, for copies by this process */

/* One asynchronous copy between a slot and pieces. The caller owns it until done ran. */
struct mem_copy {
	void *slot; /* staging memory: the sum of the pieces; a move's: an offset in from */
	struct mem_mapping *from; /* of a move */
	const struct mem_piece *pieces;
	uint32_t npieces;
	uint32_t device;
	int vanishing; /* the kernel copies: ERR_INVALID where a piece is not there any more */
	/* Ends it; exactly once; on a thread of the kind's own; must be short. */
	void (*done)(struct mem_copy *copy, tcpx_status status);
	int more; /* set before done: the same thread ends another one at once */
	void *owner;
	/* the kind's */
	int64_t due_ns;
	uint64_t bytes;
	int to_slot;
	tcpx_status result;
	struct mem_copy *next;
};

/*
 * Sharing: a region's owner exports it, a handle travels, the other session opens it and then moves
 * bytes out of it by itself. All three run on a thread of the kind's own and end by done.
 */
enum mem_share_op { MEM_SHARE_EXPORT = 1, MEM_SHARE_OPEN, MEM_SHARE_CLOSE };

#define MEM_HANDLE_MAX 160

struct mem_share {
	enum mem_share_op op;
	int same; /* both sessions are in this process, which is proven */
	/* EXPORT, in: the region. OPEN, out: length. */
	void *addr;
	uint64_t length;
	uint32_t device;
	/* EXPORT, out; OPEN, in: the peer's word, not trusted. */
	uint8_t handle[MEM_HANDLE_MAX];
	uint32_t handle_bytes;
	/* EXPORT, out: goes with the handle, the caller's; OPEN, in: the kind's once it started,
	 * anything for all it knows. -1: none. */
	int fd;
	struct mem_mapping *mapping; /* OPEN, out; CLOSE, in: no move of it is under way */
	/* Once; on a thread of the kind's own. OPEN: ERR_AGAIN: no device of this process is in
	 * use; other errors: it cannot be shared. */
	void (*done)(struct mem_share *share, tcpx_status status);
	struct mem_share *next; /* the kind's */
};

struct mem_kind {
	const char *name;
	enum tcpx_mem_kind kind;
	int staged; /* 0: direct */
	int mapped; /* memory of this process: it is what its mappings allow, and may vanish */

	/* May this memory be registered? ERR_INVALID, ERR_UNSUPPORTED with the reason in the last
	 * error. *out_id tells this allocation from a later one at the same address; 0: nothing
	 * does. Caller's thread, may be slow. */
	tcpx_status (*probe)(void *addr, uint64_t length, uint32_t device, uint64_t *out_id);

	/* 0: what is there now is not the allocation that probe saw, so it must not be touched.
	 * NULL: always 1. Any thread, under a microsecond or two. */
	int (*same)(void *addr, uint64_t length, uint32_t device, uint64_t id);

	/* pieces -> slot, slot -> pieces. Never block. An error (ERR_NO_MEMORY; ERR_SYSTEM: the
	 * device is broken): nothing started, done is not called. Any thread, done included. */
	tcpx_status (*fill)(struct mem_copy *copy);
	tcpx_status (*commit)(struct mem_copy *copy);

	/* Starts one; an error: nothing was started. NULL: memory of the kind is not shared. Any
	 * thread, not under a lock that done takes. */
	tcpx_status (*share)(struct mem_share *share);
	/* Memory of copy->from, at the offset slot, -> pieces: else as commit. */
	tcpx_status (*move)(struct mem_copy *copy);

	/* Memory for slots of this kind (pinned where that matters); slot_free takes it back. */
	void *(*slot_alloc)(size_t bytes, uint32_t device);
	void (*slot_free)(void *slot, size_t bytes, uint32_t device);
	/* The same when the last session went, right before stop, for a kind whose slot_free may
	 * wait for what else the device does: it goes behind stop, or to the next slot_alloc of
	 * these bytes. NULL: slot_free does not wait. */
	void (*slot_leave)(void *slot, size_t bytes, uint32_t device);

	/* The last session went: threads end and devices are let go of, at once where no copy is
	 * under way, else behind the last one; it waits for that, but not for long. The next probe
	 * or copy starts them again. NULL: nothing to stop. */
	void (*stop)(void);
};

/* Moves the bytes of a copy between host addresses; slots in host memory. */
tcpx_status mem_copy_run(const struct mem_copy *copy);
void *mem_slot_alloc(size_t bytes, uint32_t device);
void mem_slot_free(void *slot, size_t bytes, uint32_t device);

/* The number of a kind that only tests have; the public header has no name for it. */
#define MEM_KIND_TEST ((enum tcpx_mem_kind)2)
#define MEM_KINDS 3

/* That kind; NULL in what is shipped. A constructor of a test program sets it. */
extern const struct mem_kind *mem_test_kind;

/* NULL: not in this build. */
const struct mem_kind *mem_kind_get(enum tcpx_mem_kind kind);

/* Sessions that poll busily: threads of the kinds then spin for longer before they sleep. */
extern _Atomic int mem_busy_sessions;

/* Called on the thread that serves a GPU before it does, with its PCI address; or NULL. */
extern void (*_Atomic mem_gpu_thread)(const char *pci);
void mem_gpu_thread_starts(const char *pci);

/* Calls every kind's stop. Not together with a probe or a copy of another thread. */
void mem_kinds_stop(void);

#endif
