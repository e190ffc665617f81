/* SPDX-License-Identifier: Apache-2.0 */
/* An epoll loop with timers for the control thread. One thread runs it; only sys_loop_post may be
 * called by other threads. */
#ifndef SYS_LOOP_H
#define SYS_LOOP_H

#include <pthread.h>
#include <stdint.h>

#include "base/list.h"
#include <tcpx/types.h>

struct sys_loop;

/* A descriptor that the loop watches. `fn` is called when one of the events occurs, and may delete
 * this or any other watch. The fn of a deleted watch is not called any more. */
struct sys_watch {
	int fd;
	uint32_t events; /* wanted events: EPOLLIN, EPOLLOUT, both, or 0 */
	void (*fn)(struct sys_watch *watch, uint32_t events);
	struct list_node node;
};

/* A timer. `fn` is called once on the loop's thread when the timer is due, and may set the timer
 * again. */
struct sys_timer {
	int64_t due_ns;
	void (*fn)(struct sys_timer *timer, int64_t now_ns);
	struct list_node node; /* in loop->timers, which is sorted by due_ns */
};

/* A call that another thread requests. `fn` is called on the loop's thread, in the order of the
 * requests. If the request is repeated before `fn` has begun, `fn` is called only once. */
struct sys_post {
	void (*fn)(struct sys_post *post);
	struct list_node node;
};

struct sys_loop {
	int epfd, wakefd;
	struct sys_watch wake;
	struct list_node timers, watches;
	pthread_mutex_t lock; /* guards `posts` */
	struct list_node posts;
	/* watches that are ready in this round; sys_watch_del() replaces a deleted one by NULL */
	struct sys_watch **ready;
	int nready;
	/* How long after its due time the first timer ran, in the last round with a due timer. The
	 * loop's thread was busy or did not run for that long. */
	int64_t late_ns;
};

tcpx_status sys_loop_init(struct sys_loop *loop);
void sys_loop_fini(struct sys_loop *loop);

tcpx_status sys_watch_add(struct sys_loop *loop, struct sys_watch *watch);
/* Changes the events that the watch waits for. Does nothing if the watch was not added. */
void sys_watch_set(struct sys_loop *loop, struct sys_watch *watch, uint32_t events);
void sys_watch_del(struct sys_loop *loop, struct sys_watch *watch); /* idempotent; fd stays open */

/* Sets or moves the timer. A timer with a time in the past is due at once. */
void sys_timer_set(struct sys_loop *loop, struct sys_timer *timer, int64_t due_ns);
void sys_timer_del(struct sys_loop *loop, struct sys_timer *timer); /* idempotent */

void sys_loop_post(struct sys_loop *loop, struct sys_post *post); /* any thread */

/* Runs one round: waits for an event or a due timer, at most max_ns (-1: without limit), and calls
 * the functions of all that are ready or due. */
void sys_loop_round(struct sys_loop *loop, int64_t max_ns);

#endif
