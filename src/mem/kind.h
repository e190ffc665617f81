/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of a memory kind. Socket calls access memory of a direct kind in place. A staged
 * kind copies bytes between its memory and staging slots by `fill` and `commit`. These copies are
 * asynchronous, as GPU memory needs it: they may end later, in any order, on any thread. Bytes are
 * "applied" when their commit has ended.
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

struct mem_mapping; /* a region of another session on this host, opened for moves */

/* One copy: between the pieces and a slot of staging memory (fill, commit), or from other memory
 * into the pieces (move). The caller keeps the struct and its data until `done` is called. */
struct mem_copy {
	void *slot; /* staging memory for all pieces; for a move: offset of the source in `from` */
	struct mem_mapping *from; /* move only: mapping to read, or NULL if `slot` is an address */
	const uint64_t *sources;  /* move: per piece, source minus `slot`; NULL if contiguous */
	const struct mem_piece *pieces;
	uint32_t npieces;
	uint32_t device;
	int within;    /* move only: 1 if, for some piece, both sides are memory of the device */
	int vanishing; /* 1: system calls copy; the status is ERR_INVALID if a piece is unmapped */
	/* Called once when the copy has ended, on any thread; must be short. */
	void (*done)(struct mem_copy *copy, tcpx_status status);
	int more;    /* a kind may set it: 1 if this thread ends another copy right after `done` */
	void *owner; /* for the caller */
	/* The following fields are for the kind only. */
	int64_t due_ns;
	uint64_t bytes;
	int to_slot;
	tcpx_status result;
	struct mem_copy *next;
};

/* Sharing: one session exports a region and sends its handle. The other session opens the handle
 * and copies bytes out of the region or into it. A thread of the kind exports, opens and closes. */
enum mem_share_op { MEM_SHARE_EXPORT = 1, MEM_SHARE_OPEN, MEM_SHARE_CLOSE };

#define MEM_HANDLE_MAX 160

struct mem_share {
	enum mem_share_op op;
	int same; /* whether both sessions are in this process (proven) */
	/* the region: all three are input of EXPORT; only `length` is output of OPEN */
	void *addr;
	uint64_t length;
	uint32_t device;
	/* EXPORT, output. OPEN, input: received from the peer, so it is untrusted. */
	uint8_t handle[MEM_HANDLE_MAX];
	uint32_t handle_bytes;
	/* EXPORT, output: a descriptor for the peer, owned by the caller, or -1. OPEN, input: the
	 * peer's descriptor, of any type, or -1; owned by the kind if `share` returned OK. */
	int fd;
	struct mem_mapping *mapping; /* OPEN, output. CLOSE, input: no move may use it any more. */
	/* Called once, on a thread of the kind. After OPEN, ERR_AGAIN means that this process uses
	 * no device yet; any other error means that the region cannot be shared. */
	void (*done)(struct mem_share *share, tcpx_status status);
	struct mem_share *next; /* for the kind only */
};

enum mem_call { MEM_CALL_COMMIT, MEM_CALL_FILL, MEM_CALL_MOVE }; /* functions of mem_kind */
struct mem_kind {
	const char *name;
	enum tcpx_mem_kind kind;
	int staged; /* 1 for a staged kind, 0 for a direct one */
	int mapped; /* 1 if the CPU can access the memory; its mappings may lack rights or vanish */

	/* Checks whether this memory may be registered. On ERR_INVALID or ERR_UNSUPPORTED the last
	 * error has the reason. *out_id distinguishes this allocation from a later one at the same
	 * address; it is 0 if the kind has no ids. Caller's thread; may be slow. */
	tcpx_status (*probe)(void *addr, uint64_t length, uint32_t device, uint64_t *out_id);

	/* Returns 0 if the memory at `addr` is no longer the allocation that `probe` saw, and must
	 * not be touched. No function (NULL) means always 1. Any thread; takes a few us at most. */
	int (*same)(void *addr, uint64_t length, uint32_t device, uint64_t id);

	/* `fill` copies pieces into the slot, `commit` the slot into pieces. They block only to
	 * start the device's thread after `stop`. `done` may be called before they return. On an
	 * error nothing is started, and `done` is not called. Any thread, also from `done`. */
	tcpx_status (*fill)(struct mem_copy *copy);
	tcpx_status (*commit)(struct mem_copy *copy);

	/* Starts the operation `op`; on an error nothing is started. NULL if memory of the kind
	 * cannot be shared. Any thread, but not under a lock that `done` takes. */
	tcpx_status (*share)(struct mem_share *share);
	/* Like `commit`, but from offset `slot` of `from` or, if that is NULL, address `slot`. */
	tcpx_status (*move)(struct mem_copy *copy);
	/* Returns the mapping's address on the device; 0 if it is not open there. *out_within is 1
	 * if it is memory of the device itself. Any thread. */
	uint64_t (*mapped_at)(const struct mem_mapping *mapping, uint32_t device, int *out_within);
	/* Wakes an idle thread of the device, because calls of `what` will follow within a
	 * millisecond. NULL if no thread needs this. Any thread, under any lock. */
	void (*rouse)(uint32_t device, enum mem_call what);
	/* Returns 1 if devices are in use, and each moves small pieces as fast as large ones. */
	int (*moves_lists)(void);
	/* Allocates memory for slots, pinned if needed. Returns NULL (last error) on failure. */
	void *(*slot_alloc)(size_t bytes, uint32_t device);
	void (*slot_free)(void *slot, size_t bytes, uint32_t device);
	/* Releases a slot after the last session closed, directly before `stop`. The memory is
	 * freed when the device's thread ends, unless a `slot_alloc` of this size reuses it before
	 * that. NULL for kinds whose `slot_free` never waits for other work of the device. */
	void (*slot_leave)(void *slot, size_t bytes, uint32_t device);

	/* Ends threads and releases devices. Called after the last session closed. Waits a limited
	 * time for copies under way; a thread that has copies even after that ends when they have
	 * ended. The next `probe` or copy starts threads again. NULL if there are no threads. */
	void (*stop)(void);
};

/* For memory that the CPU can access: mem_copy_run copies at once; slots are heap memory. */
tcpx_status mem_copy_run(const struct mem_copy *copy);
void *mem_slot_alloc(size_t bytes, uint32_t device);
void mem_slot_free(void *slot, size_t bytes, uint32_t device);

#define MEM_KINDS 3 /* number of values of enum tcpx_mem_kind, with MEM_KIND_TEST */
/* A kind for tests. The constructor of a test program sets mem_test_kind; otherwise it is NULL. */
#define MEM_KIND_TEST ((enum tcpx_mem_kind)2)
extern const struct mem_kind *mem_test_kind;

/* Returns the table of a kind, or NULL if the kind is unknown or is a test kind that is not set. */
const struct mem_kind *mem_kind_get(enum tcpx_mem_kind kind);

/* Number of sessions that poll busily. If not 0, owner threads and workers spin for longer. */
extern _Atomic int mem_busy_sessions;

/* If not NULL, each GPU's owner thread calls it at its start, with the GPU's PCI address. */
extern void (*_Atomic mem_gpu_thread)(const char *pci);
void mem_gpu_thread_starts(const char *pci);

/* Calls `stop` of every kind. Meanwhile no probe may run and no copy may be started. */
void mem_kinds_stop(void);

#endif
