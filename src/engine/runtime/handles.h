/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles: type-stable objects found by index and generation without a lock. Memory of a slot lives
 * until the table is freed, so that a stale or racing handle finds an object whose id differs,
 * never freed memory.
 */
#ifndef ENGINE_RUNTIME_HANDLES_H
#define ENGINE_RUNTIME_HANDLES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define HANDLES_CHUNK 256
#define HANDLES_CHUNKS 4096

/* First member of every object in a table. */
struct handle_slot {
	_Atomic uint64_t id;   /* 0: free */
	_Atomic uint32_t refs; /* 0: free, and only handle_take() makes it 1 */
	uint32_t index, generation;
	struct handle_slot *next_free;
};

struct handles {
	pthread_mutex_t lock;
	size_t size;		    /* size of an object */
	uint64_t tag;		    /* or-ed into ids, so that those of different tables differ */
	void (*last)(void *object); /* called when handle_put() drops the last reference */
	_Atomic(char *) chunk[HANDLES_CHUNKS];
	uint32_t count;
	struct handle_slot *free;
	_Atomic uint32_t live;
};

void handles_init(struct handles *table, size_t size, uint64_t tag, void (*last)(void *object));
void handles_fini(struct handles *table);

/* Takes a new object, which is zero after its struct handle_slot and has one reference.
 * handle_publish() makes its id visible. NULL: out of memory, or the table is full. */
void *handle_take(struct handles *table);
void handle_publish(struct handles *table, void *object);
/* Makes the object impossible to find; its memory stays until handle_give(). */
void handle_hide(void *object);
void handle_give(struct handles *table, void *object);

/* The object of an id, or NULL. It may be given back at any time, so a caller that needs more than
 * an unlocked look checks the id again under the object's own lock. */
void *handle_find(struct handles *table, uint64_t id);

/* As handle_find(), with a reference, which keeps the object from being freed or reused. The object
 * may be hidden meanwhile. */
void *handle_get(struct handles *table, uint64_t id);
void handle_put(struct handles *table, void *object);

/* As handle_find(), and hides the object: only one of several callers gets it, and that caller
 * drops the reference of the handle. */
void *handle_claim(struct handles *table, uint64_t id);

/* The object at an index below count, for clean-up and scans. NULL: the place is free. */
void *handle_at(struct handles *table, uint32_t index);

#endif
