/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory-kind interface. It is asynchronous, so that GPU memory is one more kind. A direct
 * kind provides pointers for socket calls. A staged one moves bytes between its memory and staging
 * slots by fill and commit, which end later, in any order, on any thread. "Applied" means that
 * commit ended.
 */
#ifndef MEM_KIND_H
#define MEM_KIND_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

struct mem_kind;

#define MEM_MOVE_LIST 4096u /* most pieces of a move */

/* One piece of a copy: an address in memory of the kind. */
struct mem_piece {
	void *addr;
	uint64_t length;
};

struct mem_mapping; /* a region of another session on this host, from which this process copies */

/* A copy between a slot (in a move: other memory) and pieces. The caller keeps it until done. */
struct mem_copy {
	void *slot; /* staging memory, as long as all pieces; of a move: an offset in from */
	struct mem_mapping *from; /* of a move; NULL: slot and sources are addresses */
	const uint64_t *sources;  /* of a move, relative to slot: where each piece is; or NULL */
	const struct mem_piece *pieces;
	uint32_t npieces;
	uint32_t device;
	int vanishing; /* copy by system calls: ERR_INVALID if a piece is not mapped any more */
	/* Called once at the end, on a thread of the kind; must be short. */
	void (*done)(struct mem_copy *copy, tcpx_status status);
	int more; /* set before done: the same thread will end another copy at once */
	void *owner;
	/* the kind's */
	int64_t due_ns;
	uint64_t bytes;
	int to_slot;
	tcpx_status result;
	struct mem_copy *next;
};

/*
 * Sharing: the owner of a region exports it, a handle is sent, the other session opens it and then
 * copies bytes out of it. All three operations run on a thread of the kind and end by done.
 */
enum mem_share_op { MEM_SHARE_EXPORT = 1, MEM_SHARE_OPEN, MEM_SHARE_CLOSE };

#define MEM_HANDLE_MAX 160

struct mem_share {
	enum mem_share_op op;
	int same; /* both sessions are in this process (proven) */
	/* EXPORT, in: the region. OPEN, out: length. */
	void *addr;
	uint64_t length;
	uint32_t device;
	/* EXPORT, out; OPEN, in: from the peer, untrusted. */
	uint8_t handle[MEM_HANDLE_MAX];
	uint32_t handle_bytes;
	/* EXPORT, out: a descriptor to send with the handle, owned by the caller; OPEN, in: owned
	 * by the kind once it started, of any type. -1: none. */
	int fd;
	struct mem_mapping *mapping; /* OPEN, out; CLOSE, in: no move from it is under way */
	/* Called once, on a thread of the kind. OPEN: ERR_AGAIN: this process uses no device yet;
	 * other errors: it cannot be shared. */
	void (*done)(struct mem_share *share, tcpx_status status);
	struct mem_share *next; /* the kind's */
};

struct mem_kind {
	const char *name;
	enum tcpx_mem_kind kind;
	int staged; /* 0: direct */
	int mapped; /* memory of this process: its mappings decide what it allows, and it may
		     * vanish */

	/* Whether this memory may be registered. ERR_INVALID, ERR_UNSUPPORTED with the reason in
	 * the last error. *out_id distinguishes this allocation from a later one at the same
	 * address; 0: the kind has no ids. Caller's thread, may be slow. */
	tcpx_status (*probe)(void *addr, uint64_t length, uint32_t device, uint64_t *out_id);

	/* 0: the memory there is not the allocation that probe saw any more, so it must not be
	 * touched. NULL: always 1. Any thread, at most a few microseconds. */
	int (*same)(void *addr, uint64_t length, uint32_t device, uint64_t id);

	/* fill: pieces -> slot; commit: slot -> pieces. Never block. On an error (ERR_NO_MEMORY;
	 * ERR_SYSTEM: the device is broken) nothing started, and done is not called. Any thread,
	 * also from done. */
	tcpx_status (*fill)(struct mem_copy *copy);
	tcpx_status (*commit)(struct mem_copy *copy);

	/* Starts an operation; on an error nothing was started. NULL: the kind cannot be shared.
	 * Any thread, but not under a lock that done takes. */
	tcpx_status (*share)(struct mem_share *share);
	/* Memory of copy->from, at offset slot, -> pieces; otherwise like commit. */
	tcpx_status (*move)(struct mem_copy *copy);
	/* Where the device accesses the mapping; 0: move opens it there first. Any thread. */
	uint64_t (*mapped_at)(const struct mem_mapping *mapping, uint32_t device);
	/* Copies into slots, or out of them, will come within a millisecond: an idle thread of the
	 * device wakes up now. NULL: none sleeps. Any thread, any lock. */
	void (*rouse)(uint32_t device, int to_slot);
	/* Whether every device in use here moves many small pieces as fast as few large ones. */
	int (*moves_lists)(void);

	/* Memory for slots of this kind (pinned if needed); slot_free releases it. */
	void *(*slot_alloc)(size_t bytes, uint32_t device);
	void (*slot_free)(void *slot, size_t bytes, uint32_t device);
	/* Releases a slot when the last session closed, directly before stop, for a kind whose
	 * slot_free may wait for other work of the device: the memory is freed after stop, or
	 * reused by the next slot_alloc of this size. NULL: slot_free does not wait. */
	void (*slot_leave)(void *slot, size_t bytes, uint32_t device);

	/* After the last session closed: threads end and devices are released, at once or after the
	 * last copy. The call waits for that, but not for long. The next probe or copy starts them
	 * again. NULL: nothing to stop. */
	void (*stop)(void);
};

/* Moves the bytes of a copy between host addresses; slots in host memory. */
tcpx_status mem_copy_run(const struct mem_copy *copy);
void *mem_slot_alloc(size_t bytes, uint32_t device);
void mem_slot_free(void *slot, size_t bytes, uint32_t device);

#define MEM_KINDS 3
/* A kind that only tests have: NULL in what is shipped. A test program's constructor sets it. */
#define MEM_KIND_TEST ((enum tcpx_mem_kind)2)
extern const struct mem_kind *mem_test_kind;

/* NULL: the kind is not in this build. */
const struct mem_kind *mem_kind_get(enum tcpx_mem_kind kind);

/* Number of sessions that poll busily: threads of the kinds then spin longer before they sleep. */
extern _Atomic int mem_busy_sessions;

/* Called on the thread that serves a GPU when it starts, with the PCI address; or NULL. */
extern void (*_Atomic mem_gpu_thread)(const char *pci);
void mem_gpu_thread_starts(const char *pci);

/* Calls stop of every kind. Not concurrent with a probe or a copy. */
void mem_kinds_stop(void);

#endif
