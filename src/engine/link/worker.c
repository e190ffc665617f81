/* SPDX-License-Identifier: Apache-2.0 */
/* A worker: waits for events of its channels, and receives and sends for them. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/link/engine.h"
#include "sys/cpu.h"
#include "sys/fd.h"

#define EVENTS 64
/* The scheduler's time slice, in ns, for the worker of the priority channels. That worker runs for
 * microseconds only, but must start at once. */
#define PRIOS_SLICE_NS 100000
/* How long a worker spins after its last event while a session is open that polls busily
 * (TCPX_SESSION_BUSY_POLL). With such a session, spinning raised the rate of 8 concurrent transfers
 * of 1 MiB between GPUs from 7.8 to 11.9 GB/s. The time applies as well to the worker of the
 * priority channels while an application polls. */
#define SPIN_NS (200 * 1000ll)
/* an application that polled less than this time ago counts as one that polls as fast as it can */
#define POLLED_NS (20 * 1000ll)
/* an application that polled less than this time ago may be between two transfers */
#define WATCH_NS (50 * 1000ll)
#define WATCH_FEW_NS (1000 * 1000ll) /* the same where cores are few: it is awake, no worker is */
/* on machines with fewer cores, the polling application and the other workers need all cores */
#define POLLED_CORES 8

static _Thread_local const struct engine_worker *current;

bool worker_is_current(const struct engine_worker *worker)
{
	return current == worker;
}

/* Calls kicked() for each channel that was kicked. */
static void worker_run_kicked(struct engine_worker *worker)
{
	struct list_node batch;

	/* Handles only the channels that are in the list at this point. A channel that is kicked
	 * during the loop waits for the next round, after the events of the other channels. */
	list_init(&batch);
	pthread_mutex_lock(&worker->lock);
	list_splice(&batch, &worker->kicked);
	pthread_mutex_unlock(&worker->lock);
	for (;;) {
		struct list_node *node;
		struct engine_chan *chan;

		pthread_mutex_lock(&worker->lock);
		node = list_pop_front(&batch);
		chan = node ? LIST_ENTRY(node, struct engine_chan, kick.node) : NULL;
		if (chan)
			atomic_store(&chan->kick.queued, 0);
		pthread_mutex_unlock(&worker->lock);
		if (!chan)
			return;
		chan->calls->kicked(chan);
	}
}

/* Drops the references to the channels for which worker_bury() was called. Called after the events
 * of a round are handled, since an event may point to such a channel. */
static void worker_put_buried(struct engine_worker *worker)
{
	for (;;) {
		struct engine_chan *chan;
		struct list_node *node;

		pthread_mutex_lock(&worker->lock);
		node = list_pop_front(&worker->graves);
		pthread_mutex_unlock(&worker->lock);
		if (!node)
			return;
		chan = LIST_ENTRY(node, struct engine_chan, stop.grave);
		chan->calls->buried(chan);
	}
}

#define POLL_NS (CLOCK_MS_NS / 10) /* polling time between two yields */
#define MOMENT_NS (CLOCK_MS_NS / 20)
/* a yield that took at least this long gave the core to another thread that spins */
#define TAKEN_NS CLOCK_MS_NS
/* for this long after a yield of TAKEN_NS, the worker sleeps briefly instead of yielding */
#define CROWDED_NS CLOCK_S_NS

static _Atomic int64_t app_polled_ns; /* time of the last worker_app_polled() */
/* the machine has enough cores for the worker of the priority channels to spin while an application
 * polls */
static _Atomic bool cores_suffice;

/* Returns whether workers may spin: there are several workers of bulk channels, and at least two
 * usable cores for each of them. Workers must not take cores from the threads that they wait
 * for. */
static bool worker_may_spin(void)
{
	return sys_cpu_usable() >= 2 * engine_runtime.nworkers && engine_runtime.nworkers > 1;
}

void worker_app_polled(int64_t now_ns)
{
	atomic_store_explicit(&app_polled_ns, now_ns, memory_order_relaxed);
}

bool worker_cores_suffice(void)
{
	return atomic_load_explicit(&cores_suffice, memory_order_relaxed);
}

bool worker_app_polls(void)
{
	int64_t polled_ns = atomic_load_explicit(&app_polled_ns, memory_order_relaxed);
	int64_t watch_ns = worker_cores_suffice() ? WATCH_NS : WATCH_FEW_NS;

	return polled_ns && clock_now_ns() - polled_ns < watch_ns;
}

/* Returns whether the worker spins. A roused worker spins until awake_ns. Any worker spins for
 * SPIN_NS after it last had something to do (moved_ns), while a session is open that polls busily.
 * The worker of the priority channels does so, too, while an application polls as fast as it can:
 * such an application waits mostly for this worker to wake up. */
static bool worker_spins(const struct engine_worker *worker, int64_t moved_ns)
{
	bool busy = atomic_load(&mem_busy_sessions) > 0;
	int64_t now_ns, polled_ns = atomic_load_explicit(&app_polled_ns, memory_order_relaxed);
	int64_t awake_ns = atomic_load_explicit(&worker->awake_ns, memory_order_relaxed);

	if (awake_ns && awake_ns > clock_now_ns())
		return true;
	if (!busy && !(worker->prios && polled_ns && worker_cores_suffice()))
		return false;
	now_ns = clock_now_ns();
	return now_ns - moved_ns < SPIN_NS && (busy || now_ns - polled_ns < POLLED_NS);
}

/* For let_others_run(): when the worker last let other threads use its core. */
struct turn {
	int64_t began_ns;   /* when the worker last got the core back; 0: never */
	int64_t crowded_ns; /* when the last yield began, if it took TAKEN_NS; else 0 */
};

/* Lets other threads use the core, since the worker may wait for one of them. A yield gives the
 * whole time slice away: if every round yielded while other threads spin, a round would take 30 ms.
 * So the worker polls for POLL_NS between two yields. For CROWDED_NS after a yield that took long,
 * the worker sleeps briefly instead: the scheduler prefers a thread that has slept to a thread that
 * has yielded. */
static void let_others_run(struct turn *turn)
{
	const struct timespec moment = {0, MOMENT_NS};
	int64_t now_ns = clock_now_ns();

	if (now_ns - turn->began_ns < POLL_NS)
		return;
	if (turn->crowded_ns && now_ns - turn->crowded_ns < CROWDED_NS) {
		nanosleep(&moment, NULL);
	} else {
		sched_yield();
		turn->crowded_ns = clock_now_ns() - now_ns > TAKEN_NS ? now_ns : 0;
	}
	turn->began_ns = clock_now_ns();
}

/* if the application has not polled for this long, the worker receives again */
#define STALE_NS CLOCK_MS_NS
/* Period in which the worker checks the channels that an application keeps. Where cores are few,
 * the check takes a core from the application, so it is made less often. */
#define LOOK_MS 1
#define LOOK_FEW_MS 4
/* if the application has not polled for this long, the worker forgets the channel and may sleep
 * without a time limit */
#define FORGET_NS (20 * CLOCK_MS_NS)

/* Called under worker.lock. Takes back the channels on which no application polls any more. Returns
 * whether channels are left in worker->lent, which the worker must check again. */
static bool worker_takes_back(struct engine_worker *worker)
{
	struct list_node *at = worker->lent.next;
	int64_t now_ns;

	if (list_empty(&worker->lent))
		return false;
	now_ns = clock_now_ns();
	while (at != &worker->lent) {
		struct engine_chan *chan = LIST_ENTRY(at, struct engine_chan, app.node);
		int64_t past_ns = now_ns - atomic_load(&chan->app.polled_ns);

		at = at->next;
		if (atomic_load(&chan->app.kept) && past_ns > STALE_NS) {
			atomic_store(&chan->kick.again, 1);
			if (!atomic_exchange(&chan->kick.queued, 1))
				list_push_back(&worker->kicked, &chan->kick.node);
		}
		if (!atomic_load(&chan->app.kept) && past_ns > FORGET_NS)
			list_remove(&chan->app.node);
	}
	return !list_empty(&worker->lent);
}

/* The main function of a worker's thread. Each round collects events, and waits for them if no
 * channel was kicked and the worker does not spin. Then it serves the channels with events and the
 * kicked channels, and drops the references to buried channels. */
static void *worker_main(void *arg)
{
	struct engine_worker *worker = arg;
	struct epoll_event events[EVENTS];
	const bool roomy = worker->roomy;
	struct turn turn = {0};
	int64_t moved_ns = 0;
	int look_ms;

	current = worker;
	if (worker->prios) {
		sys_thread_slice(PRIOS_SLICE_NS);
		atomic_store(&cores_suffice, roomy && sys_cpu_usable() >= POLLED_CORES);
	}
	look_ms = worker_cores_suffice() ? LOOK_MS : LOOK_FEW_MS;
	while (!atomic_load_explicit(&worker->stop, memory_order_acquire)) {
		bool idle, lent, awake = roomy && worker_spins(worker, moved_ns);
		int n, i, wait_ms = -1;

		if (!awake)
			atomic_store(&worker->sleeping, 1);
		pthread_mutex_lock(&worker->lock);
		lent = worker_takes_back(worker);
		idle = list_empty(&worker->kicked);
		pthread_mutex_unlock(&worker->lock);
		if (!idle || awake)
			wait_ms = 0;
		else if (lent)
			wait_ms = look_ms;
		n = epoll_wait(worker->epfd, events, EVENTS, wait_ms);
		atomic_store(&worker->sleeping, 0);
		if (n > 0 || !idle)
			moved_ns = clock_now_ns();
		for (i = 0; i < n; i++) {
			if (events[i].data.ptr) {
				struct engine_chan *chan = events[i].data.ptr;

				chan->calls->event(chan, events[i].events);
			} else {
				uint64_t count;
				ssize_t got = read(worker->wakefd, &count, sizeof(count));

				(void)got;
			}
		}
		worker_run_kicked(worker);
		if (worker->polls && !roomy)
			let_others_run(&turn);
		worker->polls = false;
		worker_put_buried(worker);
	}
	worker_put_buried(worker);
	return NULL;
}

tcpx_status worker_start(struct engine_worker *worker, uint32_t index, bool prios)
{
	struct epoll_event event = {.events = EPOLLIN};
	char name[16];
	tcpx_status status;

	worker->index = index;
	worker->prios = prios;
	worker->roomy = worker_may_spin();
	list_init(&worker->kicked);
	list_init(&worker->graves);
	list_init(&worker->lent);
	sys_mutex_init_short(&worker->lock);
	worker->epfd = SYS_FD_OPEN(epoll_create1(EPOLL_CLOEXEC));
	worker->wakefd = SYS_FD_OPEN(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (worker->epfd < 0 || worker->wakefd < 0 ||
	    epoll_ctl(worker->epfd, EPOLL_CTL_ADD, worker->wakefd, &event)) {
		status = error_set(errno == EMFILE || errno == ENFILE ? TCPX_ERR_NO_DESCRIPTORS
								      : TCPX_ERR_SYSTEM,
				   errno, "epoll of worker %u", index);
		goto fail;
	}
	if (prios)
		snprintf(name, sizeof(name), "tcpx-prio");
	else
		snprintf(name, sizeof(name), "tcpx-work-%u", index);
	status = sys_thread_start(&worker->thread, name, worker_main, worker);
	if (status == TCPX_OK)
		return TCPX_OK;
fail:
	if (worker->epfd >= 0)
		sys_fd_close(worker->epfd);
	if (worker->wakefd >= 0)
		sys_fd_close(worker->wakefd);
	pthread_mutex_destroy(&worker->lock);
	return status;
}

static void worker_wake(struct engine_worker *worker)
{
	uint64_t one = 1;
	ssize_t put = write(worker->wakefd, &one, sizeof(one));

	(void)put;
}

void worker_rouse(struct engine_worker *worker, int64_t awake_ns, int64_t every_ns)
{
	bool mine = worker_is_current(worker);
	int64_t now_ns;

	if (!worker->roomy || (!mine && !atomic_load(&worker->sleeping)))
		return;
	now_ns = clock_now_ns();
	if (now_ns - atomic_load_explicit(&worker->roused_ns, memory_order_relaxed) < every_ns)
		return;
	atomic_store_explicit(&worker->roused_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&worker->awake_ns, now_ns + awake_ns, memory_order_relaxed);
	if (!mine)
		worker_wake(worker);
}

void worker_stop(struct engine_worker *worker)
{
	atomic_store_explicit(&worker->stop, 1, memory_order_release);
	worker_wake(worker);
	pthread_join(worker->thread, NULL);
	sys_fd_close(worker->epfd);
	sys_fd_close(worker->wakefd);
	pthread_mutex_destroy(&worker->lock);
}

/* Puts the channel into its worker's list of kicked channels, and wakes the worker if it sleeps. */
static void worker_enlist(struct engine_chan *chan)
{
	struct engine_worker *worker = chan->worker;
	bool stopped;

	if (atomic_exchange(&chan->kick.queued, 1))
		return;
	pthread_mutex_lock(&worker->lock);
	stopped = chan->kick.closed; /* the channel is freed soon, so it must not enter the list */
	if (!stopped)
		list_push_back(&worker->kicked, &chan->kick.node);
	pthread_mutex_unlock(&worker->lock);
	if (!stopped && atomic_load(&worker->sleeping))
		worker_wake(worker);
}

void worker_lend(struct engine_chan *chan)
{
	struct engine_worker *worker = chan->worker;
	bool added = false;

	pthread_mutex_lock(&worker->lock);
	if (!chan->kick.closed && list_empty(&chan->app.node)) {
		list_push_back(&worker->lent, &chan->app.node);
		added = true;
	}
	pthread_mutex_unlock(&worker->lock);
	if (added && atomic_load(&worker->sleeping))
		worker_wake(worker);
}

/* Called when the channel has something to send: makes the channel's worker call calls->kicked()
 * soon. Does nothing while the transport is full, because epoll reports when it takes more; but
 * while memory is lent to the peer (tx.lent), the worker is kicked even then, because it may have
 * to take the memory back. */
void worker_kick(struct engine_chan *chan)
{
	if (!atomic_load(&chan->tx_blocked) || atomic_load(&chan->tx.lent))
		worker_enlist(chan);
}

/* Returns whether the channel's worker sleeps, so that a kick would have to wake it. Returns false
 * while the transport is full, when a kick usually does nothing. */
bool worker_sleeps(const struct engine_chan *chan)
{
	return atomic_load(&chan->worker->sleeping) && !atomic_load(&chan->tx_blocked);
}

void worker_poll(struct engine_chan *chan)
{
	chan->worker->polls = true;
	worker_again(chan);
}

void worker_again(struct engine_chan *chan)
{
	atomic_store(&chan->kick.again, 1);
	worker_enlist(chan);
}

void worker_look(struct engine_chan *chan)
{
	worker_enlist(chan);
}

void worker_bury(struct engine_chan *chan)
{
	struct engine_worker *worker = chan->worker;

	pthread_mutex_lock(&worker->lock);
	list_push_back(&worker->graves, &chan->stop.grave);
	pthread_mutex_unlock(&worker->lock);
	worker_wake(worker);
}
