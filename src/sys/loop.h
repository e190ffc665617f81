/* SPDX-License-Identifier: Apache-2.0 */
/* A small epoll loop with timers for the control thread. One thread runs it; only sys_loop_post may
 * be called from others. */
#ifndef SYS_LOOP_H
#define SYS_LOOP_H

#include <pthread.h>
#include <stdint.h>

#include "base/list.h"
#include <tcpx/types.h>

struct sys_loop;

/* A descriptor whose events call fn. fn may delete this or any other watch; the fn of a deleted
 * watch is not called any more. */
struct sys_watch {
	int fd;
	uint32_t events; /* EPOLLIN, EPOLLOUT */
	void (*fn)(struct sys_watch *watch, uint32_t events);
	struct list_node node;
};

/* fn is called on the loop's thread, once, when the timer is due; fn may set the timer again. */
struct sys_timer {
	int64_t due_ns;
	void (*fn)(struct sys_timer *timer, int64_t now_ns);
	struct list_node node; /* in the loop's list, sorted by due_ns */
};

/* A call from another thread. fn runs on the loop's thread, in the order of the posts. A post that
 * is made again before its fn has begun does not run twice. */
struct sys_post {
	void (*fn)(struct sys_post *post);
	struct list_node node;
};

struct sys_loop {
	int epfd, wakefd;
	struct sys_watch wake;
	struct list_node timers, watches;
	pthread_mutex_t lock; /* guards posts */
	struct list_node posts;
	/* watches of the current round; a deleted one becomes NULL */
	struct sys_watch **ready;
	int nready;
	/* how late the first timer was in the last round in which one was due: this process was
	 * stalled for that long */
	int64_t late_ns;
};

tcpx_status sys_loop_init(struct sys_loop *loop);
void sys_loop_fini(struct sys_loop *loop);

tcpx_status sys_watch_add(struct sys_loop *loop, struct sys_watch *watch);
/* Changes the events that are waited for; does nothing if the watch was not added. */
void sys_watch_set(struct sys_loop *loop, struct sys_watch *watch, uint32_t events);
void sys_watch_del(struct sys_loop *loop, struct sys_watch *watch); /* idempotent; does not close
								     * fd */

/* Sets or moves the timer. A time in the past means "in the next round". */
void sys_timer_set(struct sys_loop *loop, struct sys_timer *timer, int64_t due_ns);
void sys_timer_del(struct sys_loop *loop, struct sys_timer *timer); /* idempotent */

void sys_loop_post(struct sys_loop *loop, struct sys_post *post); /* any thread */

/* One round: waits until something is due, at most max_ns (-1: no limit), and calls its
 * functions. */
void sys_loop_round(struct sys_loop *loop, int64_t max_ns);

#endif
