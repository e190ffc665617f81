/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of a memory kind. Copies are asynchronous, as GPU memory needs it. Socket calls
 * access memory of a direct kind as it is. A staged kind moves bytes between its memory and staging
 * slots by fill and commit, which end later, in any order, on any thread. Bytes are "applied" when
 * their commit has ended.
 */
#ifndef MEM_KIND_H
#define MEM_KIND_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

struct mem_kind;

#define MEM_MOVE_LIST 4096u /* most pieces of one move */

/* One piece of a copy: an address in memory of the kind. */
struct mem_piece {
	void *addr;
	uint64_t length;
};

struct mem_mapping; /* a region of another session on this host, from which this process copies */

/* One copy: by fill or commit between the pieces and a slot of staging memory; by move from other
 * memory into the pieces. The caller keeps it, and what it points to, until done is called. */
struct mem_copy {
	void *slot; /* staging memory for all pieces; of a move: the source, an offset in from */
	struct mem_mapping *from; /* of a move: the mapping to read; NULL: slot is an address */
	const uint64_t *sources;  /* of a move: offset of each piece from slot; NULL: contiguous */
	const struct mem_piece *pieces;
	uint32_t npieces;
	uint32_t device;
	int vanishing; /* 1: copy by system calls; ERR_INVALID if a piece is not mapped any more */
	/* Called once when the copy has ended, on any thread; must be short. */
	void (*done)(struct mem_copy *copy, tcpx_status status);
	int more;    /* set by the kind before done: this thread ends another copy right after it */
	void *owner; /* for the caller */
	/* for the kind only */
	int64_t due_ns;
	uint64_t bytes;
	int to_slot;
	tcpx_status result;
	struct mem_copy *next;
};

/*
 * Sharing: one session exports a region and sends the handle, the other one opens it and copies
 * bytes out of it. All operations run on a thread of the kind and end by done.
 */
enum mem_share_op { MEM_SHARE_EXPORT = 1, MEM_SHARE_OPEN, MEM_SHARE_CLOSE };

#define MEM_HANDLE_MAX 160

struct mem_share {
	enum mem_share_op op;
	int same; /* 1: both sessions are in this process (proven) */
	/* EXPORT, in: the region. OPEN, out: its length. */
	void *addr;
	uint64_t length;
	uint32_t device;
	/* EXPORT, out; OPEN, in: from the peer, untrusted. */
	uint8_t handle[MEM_HANDLE_MAX];
	uint32_t handle_bytes;
	/* EXPORT, out: a descriptor to send with the handle, owned by the caller. OPEN, in: the
	 * peer's descriptor, of any type; the kind owns it if share returned OK. -1: none. */
	int fd;
	struct mem_mapping *mapping; /* OPEN, out; CLOSE, in: no move from it is under way */
	/* Called once, on a thread of the kind. OPEN: ERR_AGAIN: this process uses no device yet;
	 * other errors: the region cannot be shared. */
	void (*done)(struct mem_share *share, tcpx_status status);
	struct mem_share *next; /* for the kind only */
};

struct mem_kind {
	const char *name;
	enum tcpx_mem_kind kind;
	int staged; /* 1: a staged kind; 0: a direct one */
	int mapped; /* 1: the CPU can access it; its mappings limit the rights, and it may vanish */

	/* Checks whether this memory may be registered. ERR_INVALID, ERR_UNSUPPORTED: no; the last
	 * error has the reason. *out_id distinguishes this allocation from a later one at the same
	 * address; 0: the kind has no ids. Caller's thread, may be slow. */
	tcpx_status (*probe)(void *addr, uint64_t length, uint32_t device, uint64_t *out_id);

	/* Returns 0 if the memory at addr is no longer the allocation that probe saw, and must not
	 * be touched. NULL: always 1. Any thread, at most a few microseconds. */
	int (*same)(void *addr, uint64_t length, uint32_t device, uint64_t id);

	/* fill: pieces -> slot; commit: slot -> pieces. Never block. On an error (ERR_NO_MEMORY;
	 * ERR_SYSTEM: the device is broken) nothing started, and done is not called. Any thread,
	 * also from done. */
	tcpx_status (*fill)(struct mem_copy *copy);
	tcpx_status (*commit)(struct mem_copy *copy);

	/* Starts an operation; on an error nothing was started. NULL: the kind's memory cannot be
	 * shared. Any thread, but not under a lock that done takes. */
	tcpx_status (*share)(struct mem_share *share);
	/* Copies from offset copy->slot of copy->from to the pieces, otherwise like commit. */
	tcpx_status (*move)(struct mem_copy *copy);
	/* The mapping's address for the device; 0: move opens it there first. Any thread. */
	uint64_t (*mapped_at)(const struct mem_mapping *mapping, uint32_t device);
	/* Announces copies (to_slot: into slots) within a millisecond, so that an idle thread of
	 * the device wakes up now. NULL: no thread sleeps. Any thread, under any lock. */
	void (*rouse)(uint32_t device, int to_slot);
	/* Whether the devices in use (at least one) move small pieces as fast as large ones. */
	int (*moves_lists)(void);

	/* Memory for slots of this kind (pinned if needed); slot_free releases it. */
	void *(*slot_alloc)(size_t bytes, uint32_t device);
	void (*slot_free)(void *slot, size_t bytes, uint32_t device);
	/* Releases a slot after the last session closed, directly before stop, for a kind whose
	 * slot_free may wait for other work of the device: the memory is freed after stop, or
	 * reused by the next slot_alloc of this size. NULL: slot_free does not wait. */
	void (*slot_leave)(void *slot, size_t bytes, uint32_t device);

	/* Called after the last session closed: ends threads and releases devices, at once or
	 * after the last copy, for which it waits a limited time. The next probe or copy starts
	 * them again. NULL: nothing to stop. */
	void (*stop)(void);
};

/* For memory that the CPU can access: makes a copy at once; allocates and frees slots. */
tcpx_status mem_copy_run(const struct mem_copy *copy);
void *mem_slot_alloc(size_t bytes, uint32_t device);
void mem_slot_free(void *slot, size_t bytes, uint32_t device);

#define MEM_KINDS 3 /* values of enum tcpx_mem_kind */
/* A kind for tests: a test program's constructor sets it. NULL in the shipped library. */
#define MEM_KIND_TEST ((enum tcpx_mem_kind)2)
extern const struct mem_kind *mem_test_kind;

/* Returns the table of a kind; NULL: the kind is not in this build. */
const struct mem_kind *mem_kind_get(enum tcpx_mem_kind kind);

/* Number of sessions that poll busily: threads of the kinds then spin longer before they sleep. */
extern _Atomic int mem_busy_sessions;

/* Called with a GPU's PCI address by the thread that serves it, at its start; NULL: no call. */
extern void (*_Atomic mem_gpu_thread)(const char *pci);
void mem_gpu_thread_starts(const char *pci);

/* Calls stop of every kind. The caller makes sure that no probe or copy runs meanwhile. */
void mem_kinds_stop(void);

#endif
