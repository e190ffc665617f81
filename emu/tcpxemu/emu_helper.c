/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers: helper t serves the sockets t, t + T, ... It sleeps until a socket that has a task can
 * move, or until it is woken: by a task, by its pool, by close. A socket's end is a helper's end,
 * and nobody is told.
 */
#include "emu.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void wake(struct emu_helper *helper)
{
	static const uint64_t one = 1;

	if (write(helper->wake_fd, &one, sizeof(one)) < 0)
		return; /* full: awake anyhow */
}

static struct emu_task *next_task(struct emu_lane *lane)
{
	if (lane->moved == atomic_load(&lane->queued))
		return NULL;
	return &lane->task[lane->moved % EMU_TASKS];
}

/* Tasks are finished in their order, those without a copy when the kernel has reported them. */
static int finish_tasks(struct emu_lane *lane)
{
	uint32_t finished = atomic_load_explicit(&lane->finished, memory_order_relaxed);

	if (lane->zero_done != lane->zero_sent && emu_zero_reports(lane))
		return -1;
	while (finished != lane->moved &&
	       (int32_t)(lane->zero_done - lane->task[finished % EMU_TASKS].zero_end) >= 0)
		atomic_store_explicit(&lane->finished, ++finished, memory_order_release);
	lane->want_report = lane->want_report || finished != lane->moved;
	return 0;
}

/* Goes on with everything that can move. The time of the next that may; 0: none; -1 dead. */
static int run_lanes(struct emu_helper *helper, uint64_t *out_due)
{
	struct emu_comm *comm = helper->comm;

	*out_due = 0;
	for (int i = helper->id; i < comm->socks; i += comm->threads) {
		struct emu_lane *lane = &comm->lane[i];
		struct emu_task *task;

		lane->want_in = lane->want_out = lane->want_report = false;
		while ((task = next_task(lane))) {
			int rc = emu_task_run(helper, lane, task);

			if (rc < 0)
				return -1;
			if (rc == 0)
				break;
			lane->moved++;
		}
		if (finish_tasks(lane))
			return -1;
		if (task && task->not_before && (!*out_due || task->not_before < *out_due))
			*out_due = task->not_before;
	}
	return 0;
}

static int wait_ms(uint64_t due)
{
	uint64_t now;

	if (!due)
		return -1;
	now = emu_now();
	return due <= now ? 0 : (int)((due - now) / 1000000 + 1);
}

static bool tasks_left(struct emu_helper *helper, const uint32_t *seen)
{
	struct emu_comm *comm = helper->comm;

	for (int i = helper->id; i < comm->socks; i += comm->threads) {
		if (atomic_load(&comm->lane[i].queued) != seen[i])
			return true;
	}
	return false;
}

/* Reports come without being asked for. */
static struct pollfd lane_events(const struct emu_lane *lane)
{
	int events = (lane->want_in ? POLLIN : 0) | (lane->want_out ? POLLOUT : 0);

	return (struct pollfd){.fd = lane->fd, .events = (short)events};
}

static void *helper_main(void *opaque)
{
	struct emu_helper *helper = opaque;
	struct emu_comm *comm = helper->comm;
	uint32_t seen[EMU_SOCKS];
	uint64_t due, count;

	while (!atomic_load(&helper->stop)) {
		struct pollfd fds[EMU_SOCKS + 1] = {{.fd = helper->wake_fd, .events = POLLIN}};
		nfds_t used = 1;

		for (int i = 0; i < comm->socks; i++)
			seen[i] = atomic_load(&comm->lane[i].queued);
		if (run_lanes(helper, &due))
			break;
		for (int i = helper->id; i < comm->socks; i += comm->threads) {
			struct emu_lane *lane = &comm->lane[i];

			if (lane->want_in || lane->want_out || lane->want_report)
				fds[used++] = lane_events(lane);
		}
		/* Either the queuer sees that we sleep, or we see what it queued. */
		atomic_store(&helper->asleep, true);
		if (!tasks_left(helper, seen) && !atomic_load(&helper->stop))
			poll(fds, used, wait_ms(due));
		atomic_store(&helper->asleep, false);
		if (fds[0].revents && read(helper->wake_fd, &count, sizeof(count)) < 0)
			break;
	}
	return NULL;
}

static void helper_start(struct emu_helper *helper)
{
	if (helper->wake_fd < 0)
		helper->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	helper->waiter.wake_fd = helper->wake_fd;
	helper->flow.gpu = helper->comm->gpu;
	if (helper->wake_fd < 0 || emu_config.calls)
		return;
	helper->started = !pthread_create(&helper->thread, NULL, helper_main, helper);
	if (!helper->started)
		EMU_WARN("TCPXEMU: no thread for a helper");
}

void emu_lane_push(struct emu_comm *comm, int at)
{
	struct emu_helper *helper = &comm->helper[at % comm->threads];

	atomic_fetch_add(&comm->lane[at].queued, 1);
	if (!helper->started)
		helper_start(helper);
	else if (atomic_load(&helper->asleep))
		wake(helper);
}

void emu_helpers_run(struct emu_comm *comm)
{
	uint64_t due;

	for (int i = 0; i < comm->threads; i++) {
		struct emu_helper *helper = &comm->helper[i];

		if (helper->wake_fd >= 0 && !helper->dead)
			helper->dead = run_lanes(helper, &due) != 0;
	}
}

void emu_helpers_stop(struct emu_comm *comm)
{
	for (int i = 0; i < EMU_THREADS; i++) {
		struct emu_helper *helper = &comm->helper[i];

		if (helper->started) {
			atomic_store(&helper->stop, true);
			wake(helper);
			pthread_join(helper->thread, NULL);
		}
		if (comm->pool)
			emu_pool_forget(comm->pool, &helper->waiter);
		emu_cuda_flow_close(&helper->flow);
		if (helper->wake_fd >= 0)
			close(helper->wake_fd);
	}
}
