/* SPDX-License-Identifier: Apache-2.0 */
/* The epoll loop of the control thread. A round first calls the functions of the watches that are
 * ready, then those of the timers that are due. A watch of the loop itself calls the posted
 * functions. */
#include "sys/loop.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "sys/fd.h"

#define LOOP_EVENTS 64

/* Whether a node is in a list. A zeroed node and a removed node are in no list. */
static int is_linked(const struct list_node *node)
{
	return node->next && !list_empty(node);
}

static void unlink_node(struct list_node *node)
{
	if (is_linked(node))
		list_remove(node);
}

static void run_posts(struct sys_watch *watch, uint32_t events)
{
	struct sys_loop *loop = LIST_ENTRY(watch, struct sys_loop, wake);
	struct list_node batch, *node;
	uint64_t count;

	(void)events;
	if (read(loop->wakefd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		LOG_WARN("loop: reading the eventfd failed: errno %d", errno);
	list_init(&batch);
	pthread_mutex_lock(&loop->lock);
	while ((node = list_pop_front(&loop->posts)))
		list_push_back(&batch, node);
	/* Nodes are removed under the lock, because sys_loop_post() on another thread may read
	 * them. */
	while ((node = list_pop_front(&batch))) {
		struct sys_post *post = LIST_ENTRY(node, struct sys_post, node);

		pthread_mutex_unlock(&loop->lock);
		post->fn(post); /* may free the post */
		pthread_mutex_lock(&loop->lock);
	}
	pthread_mutex_unlock(&loop->lock);
}

tcpx_status sys_loop_init(struct sys_loop *loop)
{
	tcpx_status status;
	int err;

	memset(loop, 0, sizeof(*loop));
	list_init(&loop->timers);
	list_init(&loop->watches);
	list_init(&loop->posts);
	loop->wakefd = -1;
	loop->epfd = SYS_FD_OPEN(epoll_create1(EPOLL_CLOEXEC));
	if (loop->epfd < 0)
		goto fail;
	loop->wakefd = SYS_FD_OPEN(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (loop->wakefd < 0)
		goto fail;
	err = pthread_mutex_init(&loop->lock, NULL);
	if (err) {
		errno = err;
		goto fail;
	}
	loop->wake.fd = loop->wakefd;
	loop->wake.events = EPOLLIN;
	loop->wake.fn = run_posts;
	status = sys_watch_add(loop, &loop->wake);
	if (status == TCPX_OK)
		return TCPX_OK;
	pthread_mutex_destroy(&loop->lock);
	sys_fd_close(loop->wakefd);
	sys_fd_close(loop->epfd);
	loop->epfd = loop->wakefd = -1;
	return status;
fail:
	err = errno;
	if (loop->wakefd >= 0)
		sys_fd_close(loop->wakefd);
	if (loop->epfd >= 0)
		sys_fd_close(loop->epfd);
	loop->epfd = loop->wakefd = -1;
	return error_set(err == EMFILE || err == ENFILE ? TCPX_ERR_NO_DESCRIPTORS : TCPX_ERR_SYSTEM,
			 err, "cannot create the control thread's epoll loop");
}

void sys_loop_fini(struct sys_loop *loop)
{
	if (loop->epfd < 0)
		return;
	sys_watch_del(loop, &loop->wake);
	sys_fd_close(loop->wakefd);
	sys_fd_close(loop->epfd);
	loop->epfd = loop->wakefd = -1;
	pthread_mutex_destroy(&loop->lock);
}

tcpx_status sys_watch_add(struct sys_loop *loop, struct sys_watch *watch)
{
	struct epoll_event event = {.events = watch->events, .data.ptr = watch};
	int err;

	if (epoll_ctl(loop->epfd, EPOLL_CTL_ADD, watch->fd, &event)) {
		err = errno;
		return error_set(err == ENOMEM	 ? TCPX_ERR_NO_MEMORY
				 : err == ENOSPC ? TCPX_ERR_LIMIT
						 : TCPX_ERR_SYSTEM,
				 err, "cannot watch descriptor %d", watch->fd);
	}
	list_push_back(&loop->watches, &watch->node);
	return TCPX_OK;
}

void sys_watch_set(struct sys_loop *loop, struct sys_watch *watch, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = watch};

	if (!is_linked(&watch->node) || watch->events == events)
		return;
	if (epoll_ctl(loop->epfd, EPOLL_CTL_MOD, watch->fd, &event))
		LOG_ERROR("loop: changing the events of descriptor %d failed: errno %d", watch->fd,
			  errno);
	else
		/* not changed after a failure, so that the next call tries again */
		watch->events = events;
}

void sys_watch_del(struct sys_loop *loop, struct sys_watch *watch)
{
	if (!is_linked(&watch->node))
		return;
	list_remove(&watch->node);
	/* Fails if the descriptor is already closed; the kernel has removed it in that case. */
	(void)epoll_ctl(loop->epfd, EPOLL_CTL_DEL, watch->fd, NULL);
	for (int i = 0; i < loop->nready; i++)
		if (loop->ready[i] == watch)
			loop->ready[i] = NULL;
}

void sys_timer_set(struct sys_loop *loop, struct sys_timer *timer, int64_t due_ns)
{
	int64_t now_ns = clock_now_ns();
	struct list_node *pos;

	/* A time in the past means "now". The time before this call must not count as a delay
	 * (late_ns). */
	timer->due_ns = due_ns < now_ns ? now_ns : due_ns;
	unlink_node(&timer->node);
	for (pos = loop->timers.prev; pos != &loop->timers; pos = pos->prev)
		if (LIST_ENTRY(pos, struct sys_timer, node)->due_ns <= timer->due_ns)
			break;
	list_push_front(pos, &timer->node);
}

void sys_timer_del(struct sys_loop *loop, struct sys_timer *timer)
{
	(void)loop;
	unlink_node(&timer->node);
}

void sys_loop_post(struct sys_loop *loop, struct sys_post *post)
{
	uint64_t one = 1;
	int wake;

	pthread_mutex_lock(&loop->lock);
	wake = list_empty(&loop->posts);
	if (!is_linked(&post->node))
		list_push_back(&loop->posts, &post->node);
	/* wakefd is written under the lock. After the unlock the posted function may run at once
	 * and end the loop. */
	if (wake && write(loop->wakefd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		LOG_ERROR("loop: waking the control thread failed: errno %d", errno);
	pthread_mutex_unlock(&loop->lock);
}

/* Calls the function of each timer that is due, once. A timer that its function sets again waits
 * for the next round. */
static void run_timers(struct sys_loop *loop)
{
	int64_t now_ns = clock_now_ns();
	struct list_node due, *node;

	list_init(&due);
	while (!list_empty(&loop->timers)) {
		node = loop->timers.next;
		if (LIST_ENTRY(node, struct sys_timer, node)->due_ns > now_ns)
			break;
		list_remove(node);
		list_push_back(&due, node);
	}
	if (!list_empty(&due))
		loop->late_ns = now_ns - LIST_ENTRY(due.next, struct sys_timer, node)->due_ns;
	while ((node = list_pop_front(&due))) {
		struct sys_timer *timer = LIST_ENTRY(node, struct sys_timer, node);

		/* may free this timer, and delete other timers that are due */
		timer->fn(timer, now_ns);
	}
}

/* Returns the time until the first timer is due, at most max_ns, in milliseconds for epoll_wait().
 * Returns -1 if there is no timer and no limit. */
static int wait_ms(const struct sys_loop *loop, int64_t max_ns)
{
	int64_t wait_ns = max_ns;

	if (!list_empty(&loop->timers)) {
		int64_t due_ns = LIST_ENTRY(loop->timers.next, struct sys_timer, node)->due_ns;
		int64_t left_ns = due_ns - clock_now_ns();

		if (left_ns < 0)
			left_ns = 0;
		if (wait_ns < 0 || left_ns < wait_ns)
			wait_ns = left_ns;
	}
	if (wait_ns < 0)
		return -1;
	if (wait_ns > (int64_t)INT_MAX * CLOCK_MS_NS)
		return INT_MAX;
	/* Rounded up, because otherwise the loop would spin during the last millisecond. */
	return (int)((wait_ns + CLOCK_MS_NS - 1) / CLOCK_MS_NS);
}

void sys_loop_round(struct sys_loop *loop, int64_t max_ns)
{
	struct epoll_event events[LOOP_EVENTS];
	struct sys_watch *ready[LOOP_EVENTS];
	int count;

	count = epoll_wait(loop->epfd, events, LOOP_EVENTS, wait_ms(loop, max_ns));
	if (count < 0) {
		if (errno != EINTR)
			LOG_ERROR("loop: epoll_wait failed: errno %d", errno);
		count = 0;
	}
	for (int i = 0; i < count; i++)
		ready[i] = events[i].data.ptr;
	loop->ready = ready;
	loop->nready = count;
	for (int i = 0; i < count; i++)
		if (ready[i])
			ready[i]->fn(ready[i], events[i].events);
	loop->ready = NULL;
	loop->nready = 0;
	run_timers(loop);
}
