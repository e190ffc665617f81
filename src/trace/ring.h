/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of a thread's records. Its only producer is the thread, which never waits. Its only
 * consumer is the writer thread. */
#ifndef TRACE_RING_H
#define TRACE_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>

#include "trace/record.h"

struct trace_ring {
	/* Fields of the producer. */
	alignas(64) _Atomic uint32_t head;
	uint32_t seen_tail, mask; /* value of `tail` when last read; number of slots - 1 */
	uint64_t missed;	  /* records dropped since the last GAP record */
	_Atomic uint64_t dropped;
	/* The call that the thread is in; busy_call is TRACE_GAP outside of calls. */
	_Atomic uint64_t busy_time;
	_Atomic uint32_t busy_comm;
	_Atomic uint32_t busy_call;
	/* Fields of the writer, except `ended`, which the thread sets. Those from `thread` on are
	 * set when the ring is made. */
	alignas(64) _Atomic uint32_t tail;
	uint64_t written;  /* records taken out of the ring so far */
	int named;	   /* 1 if the file has the THREAD block of this thread */
	_Atomic int ended; /* 1 if the thread has ended, so that the writer frees the ring */
	uint16_t thread;   /* number of the thread in the file */
	uint32_t tid;	   /* the kernel's thread id */
	size_t bytes;	   /* size of the ring's mapping */
	struct trace_ring *next;
	alignas(64) struct trace_record slots[];
};

/* Wakes the writer; makes a system call only if the writer sleeps. */
void trace_writer_wake(void);

/* Returns the next record to fill in, or NULL if the ring is full. */
static inline struct trace_record *trace_ring_room(struct trace_ring *ring)
{
	uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

	if (__builtin_expect(head - ring->seen_tail > ring->mask, 0)) {
		ring->seen_tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
		if (head - ring->seen_tail > ring->mask)
			return NULL;
	}
	return &ring->slots[head & ring->mask];
}

/* Counts a record that is dropped. */
static inline void trace_ring_miss(struct trace_ring *ring)
{
	ring->missed++;
	atomic_fetch_add_explicit(&ring->dropped, 1, memory_order_relaxed);
}

/* Like trace_ring_room, but also counts a dropped record if the ring is full. */
static inline struct trace_record *trace_ring_slot(struct trace_ring *ring)
{
	struct trace_record *slot = trace_ring_room(ring);

	if (__builtin_expect(!slot, 0))
		trace_ring_miss(ring);
	return slot;
}

/* Passes the record that was filled in to the writer. Wakes the writer each time that another half
 * of the ring has been passed. */
static inline void trace_ring_publish(struct trace_ring *ring)
{
	uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed) + 1;

	atomic_store_explicit(&ring->head, head, memory_order_release);
	if (__builtin_expect(!(head & (ring->mask >> 1)), 0))
		trace_writer_wake();
}

#endif
