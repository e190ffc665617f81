/* SPDX-License-Identifier: Apache-2.0 */
/* The owner threads: their start and end, their loop over all lanes, and how they wait. */
#include "mem/cuda_owner.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "mem/cuda_issue.h"
#include "mem/cuda_kind.h"
#include "mem/cuda_lane.h"
#include "sys/cpu.h"
#include "sys/futex.h"

#define OWNERS MEM_CUDA_DEVICES
#define SPINS_UNDER 4 /* spin_ns is multiplied by this while copies, but no moves, are under way */
#define SPINS_MOVE 10 /* spin_ns is multiplied by this while moves are under way */
#define SPIN_BUSY_NS (20 * CLOCK_MS_NS) /* replaces a nonzero spin_ns while sessions poll busily */
#define STEP_NS 50000			/* shortest sleep while copies are under way */
#define STEP_MAX_NS 1000000		/* longest sleep while copies are under way */
#define LATE_NS (20 * CLOCK_MS_NS)	/* sleep while only aborted launches are under way */
#define LINGER_NS (100 * CLOCK_MS_NS)	/* how long owner_await waits while copies are pending */
#define LET_GO_NS (1 * CLOCK_S_NS)	/* how long owner_await waits while memory is freed */
/* how long a thread woken by mem_cuda_owner_rouse waits for a copy */
#define ROUSE_NS (1 * CLOCK_MS_NS)
/* Bits of cuda_owner.sleeping. In addition, bit i says that a copy pushed to lane i must wake the
 * thread. */
#define ASLEEP (1u << 31) /* the thread sleeps */
#define IDLE (1u << 30)	  /* the thread sleeps with nothing under way */

enum owner_state { OWNER_OFF = 0, OWNER_STARTING, OWNER_ON, OWNER_ENDING };

/*
 * The owner of a GPU. `state` changes under the lock. A thread that submits a copy first increments
 * `pending` and then checks that `state` is ON. The owner thread first sets `state` to ENDING and
 * then checks `pending`; if a copy is pending, it sets `state` to ON again. So no accepted copy is
 * lost when the owner thread ends.
 */
struct cuda_owner {
	struct cuda_lane lanes[CUDA_LANES];
	_Atomic uint32_t sleeping; /* futex; 0 while the thread is awake, else the bits above */
	_Atomic int64_t roused_ns; /* until this time the thread stays awake and waits for copies */
	/* bit i is set if copies are expected in lane i; owner_warm clears the bit */
	_Atomic uint32_t roused;
	/* number of accepted copies whose `done` has not returned, plus aborted launches in a
	 * stream */
	_Atomic uint32_t pending;
	/* `state` is an enum owner_state; `stop` is 1 if the thread must end */
	_Atomic int state, stop;
	/* 0 while the device works, else the status with which copies fail because it is broken;
	 * written after `error` */
	_Atomic int broken;
	_Atomic int lists; /* whether the lane for moves has a kernel for lists of pieces */
	tcpx_error error;  /* why the device is broken, or why the thread did not start */
	uint32_t device;

	pthread_mutex_t lock;
	pthread_cond_t changed; /* the thread has started or ended, or `stop` is cleared */
	pthread_t thread;
	int joinable;

	/* The following fields are for the owner thread only. */
	struct sys_cuda_gpu *gpu;
	struct sys_cuda_scope scope;
	struct mem_cuda_kernels kernels;
	uint8_t *mapped; /* mapped host memory of the lanes, and the bounce buffer */
	size_t mapped_bytes;
	/* how long the thread spins before it sleeps; 0 if it does not spin. Set before `state` is
	 * ON; mem_cuda_owner_rouse reads it too. */
	int64_t spin_ns;
};

unsigned mem_owner_cores_to_spin = 4;

static struct cuda_owner owners[OWNERS];
static pthread_once_t owners_once = PTHREAD_ONCE_INIT;
static int fork_err; /* errno of the registration of the fork handler; 0 if it is registered */

static void owners_init(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	for (uint32_t i = 0; i < OWNERS; i++) {
		pthread_mutex_init(&owners[i].lock, NULL);
		pthread_cond_init(&owners[i].changed, &attr);
	}
	pthread_condattr_destroy(&attr);
}

/* Called in a forked child: resets all owners. The child has no owner threads; queues and driver
 * state belong to the parent. */
static void owners_forked(void)
{
	memset(owners, 0, sizeof(owners));
	owners_init();
}

static void owners_first(void)
{
	owners_init();
	fork_err = pthread_atfork(NULL, NULL, owners_forked);
}

/* Wakes the owner thread if it sleeps and owner->sleeping has one of `bits`. */
static void owner_wake(struct cuda_owner *owner, uint32_t bits)
{
	if (atomic_load(&owner->sleeping) & bits && atomic_exchange(&owner->sleeping, 0))
		sys_futex_wake(&owner->sleeping, 1);
}

/* Frees the slots that mem_cuda_slot_leave kept, and releases everything that owner_open acquired,
 * even if owner_open failed halfway. May wait for any work that runs on the GPU. */
static void owner_close(struct cuda_owner *owner)
{
	mem_cuda_slots_free_left(owner->device);
	for (int i = 0; i < CUDA_LANES; i++)
		mem_lane_close(&owner->lanes[i]);
	mem_cuda_kernels_unload(&owner->kernels);
	mem_cuda_slot_free(owner->mapped, owner->mapped_bytes, owner->device);
	owner->mapped = NULL;
	if (owner->scope.gpu)
		sys_cuda_pop(&owner->scope);
	owner->scope.gpu = NULL;
	if (owner->gpu)
		sys_cuda_put(owner->gpu);
	owner->gpu = NULL;
}

/* Loads the copy and move kernels. Returns 1, or 0 if none are loaded; the copy engine then copies
 * scattered memory piece by piece. */
static int owner_kernels(struct cuda_owner *owner)
{
	uint64_t copies = config_u64(CONFIG_GPU_COPY);
	tcpx_status status;

	if (copies == CONFIG_COPIES_ENGINE)
		return 0;
	status = mem_cuda_kernels_load(owner->gpu, &owner->kernels);
	if (status == TCPX_OK)
		return 1;
	if (copies == CONFIG_COPIES_KERNEL)
		LOG_WARN("GPU %u: TCPX_GPU_COPY=kernel has no effect: %s", owner->device,
			 error_last()->what);
	else
		LOG_DEBUG("GPU %u: no copy kernels: %s", owner->device, error_last()->what);
	return 0;
}

/* Opens all lanes, with kernels if these can be loaded. All lanes share one allocation of mapped
 * host memory; if there are kernels, the bounce buffer is at its end. */
static tcpx_status lanes_open(struct cuda_owner *owner, int priority)
{
	int with = owner_kernels(owner);
	size_t bytes = MEM_LANE_BYTES(with), at = 0;
	tcpx_status status = TCPX_OK;
	cuda_ptr mapped_at = 0;

	owner->mapped_bytes = CUDA_LANES * bytes + (with ? MEM_BOUNCE_BYTES : 0);
	owner->mapped = mem_cuda_slot_alloc(owner->mapped_bytes, owner->device);
	if (!owner->mapped)
		return error_last()->status;
	if (!mem_cuda_slot_mapped(owner->mapped, owner->mapped_bytes, owner->device, &mapped_at))
		return error_set(TCPX_ERR_SYSTEM, 0, "GPU %u cannot write to mapped host memory",
				 owner->device);
	for (int i = 0; i < CUDA_LANES && status == TCPX_OK; i++, at += bytes) {
		status = mem_lane_open(&owner->lanes[i], owner->gpu->api,
				       with ? &owner->kernels : NULL, owner->mapped + at,
				       mapped_at + at, &owner->pending, priority);
		if (i == CUDA_LANE_MOVE)
			atomic_store(&owner->lists,
				     mem_lane_moves(&owner->lanes[i],
						    owner->mapped + CUDA_LANES * bytes));
	}
	return status;
}

/* Acquires everything that the owner thread needs. After an error the caller must call owner_close,
 * which releases what was acquired. */
static tcpx_status owner_open(struct cuda_owner *owner)
{
	int least = 0, greatest = 0;
	cuda_result result;
	tcpx_status status;

	owner->scope = (struct sys_cuda_scope){0};
	status = sys_cuda_get(owner->device, &owner->gpu);
	if (status != TCPX_OK)
		return status;
	/* the context is current as long as the thread runs */
	status = sys_cuda_push(owner->gpu, &owner->scope);
	if (status != TCPX_OK) {
		owner->scope.gpu = NULL;
		return status;
	}
	result = owner->gpu->api->ctx_priorities(&least, &greatest);
	if (result != CUDA_OK)
		return sys_cuda_error(result, "priorities of streams");
	status = lanes_open(owner, greatest);
	owner->spin_ns = 0;
	if (sys_cpu_usable() >= mem_owner_cores_to_spin)
		owner->spin_ns = (int64_t)config_u64(CONFIG_SPIN_US) * 1000;
	return status;
}

/* Marks the device as broken. From now on a queued copy ends with an error at once; a copy in a
 * stream ends when the stream has passed it or reports the error. */
static void owner_break(struct cuda_owner *owner, cuda_result result)
{
	tcpx_status status = sys_cuda_error(result, "GPU is of no more use to this process");

	owner->error = *error_last();
	atomic_store_explicit(&owner->broken, status, memory_order_release);
	if (result != CUDA_ERR_DEINITIALIZED)
		LOG_ERROR("GPU %u (%s): %s", owner->device, owner->gpu->pci, owner->error.what);
}

/* Runs all lanes once. Returns the number of groups that were issued, ended or aborted, plus 1 if
 * the device has just broken. */
static unsigned owner_round(struct cuda_owner *owner, int64_t now_ns)
{
	int broken = atomic_load_explicit(&owner->broken, memory_order_relaxed);
	unsigned moved = 0;

	for (int i = 0; i < CUDA_LANES; i++) {
		struct cuda_lane *lane = &owner->lanes[i];

		if (broken) {
			moved += mem_lane_fail(lane, (tcpx_status)broken);
			continue;
		}
		moved += mem_lane_round(lane, now_ns);
		if (lane->fatal) {
			owner_break(owner, lane->fatal);
			/* 1 more, so that another round of all lanes follows at once */
			return moved + 1;
		}
	}
	return moved;
}

/* Calls the driver, without effect, for each lane in which copies are expected, because the
 * driver's first call after an idle time takes 50 us or more. */
static void owner_warm(struct cuda_owner *owner)
{
	uint32_t lanes = atomic_exchange(&owner->roused, 0);

	for (int i = 0; i < CUDA_LANES; i++)
		if (lanes & 1u << i)
			mem_lane_warm(&owner->lanes[i]);
}

/* Sleeps until a copy is pushed to a lane that can issue a group, until the thread is roused or
 * asked to end, or until the deadline. A negative deadline means none. */
static void owner_sleep(struct cuda_owner *owner, int64_t deadline_ns)
{
	uint32_t mark = deadline_ns < 0 ? ASLEEP | IDLE : ASLEEP;
	int work = 0;

	for (int i = 0; i < CUDA_LANES; i++)
		if (owner->lanes[i].nunder < CUDA_LANE_GROUPS)
			mark |= 1u << i;
	/* The mark is written before the queues are read, and a pushing thread pushes before it
	 * reads the mark. So either this thread sees the copy, or the pushing thread sees the mark
	 * and wakes this thread. */
	atomic_store(&owner->sleeping, mark);
	for (int i = 0; i < CUDA_LANES; i++)
		work |= mark & 1u << i && mem_queue_pushed(&owner->lanes[i].queue);
	if (!work && !(atomic_load(&owner->stop) && deadline_ns < 0))
		sys_futex_wait(&owner->sleeping, mark, deadline_ns);
	atomic_store(&owner->sleeping, 0);
	if (atomic_load_explicit(&owner->roused, memory_order_relaxed))
		owner_warm(owner);
}

static int owner_under(const struct cuda_owner *owner)
{
	unsigned under = 0;

	for (int i = 0; i < CUDA_LANES; i++)
		under += owner->lanes[i].nunder;
	return under > 0;
}

static int owner_late(const struct cuda_owner *owner)
{
	unsigned late = 0;

	for (int i = 0; i < CUDA_LANES; i++)
		late += owner->lanes[i].naborted;
	return late > 0;
}

/* Waits while there is nothing to do: spins once, or sleeps if the thread has spun long enough. The
 * sleep has no time limit if nothing is under way. `quiet_ns` is the time of the last progress. */
static void owner_wait(struct cuda_owner *owner, int64_t now_ns, int64_t quiet_ns)
{
	int under = owner_under(owner), late = owner_late(owner);
	int64_t spin_ns = owner->spin_ns, waited_ns = now_ns - quiet_ns, step_ns;

	/* While copies are under way the thread spins longer: a sleep ends late, and until its end
	 * the copy engine may be idle. */
	if (under)
		spin_ns *= owner->lanes[CUDA_LANE_MOVE].nunder ? SPINS_MOVE : SPINS_UNDER;
	if (spin_ns && atomic_load_explicit(&mem_busy_sessions, memory_order_relaxed))
		spin_ns = SPIN_BUSY_NS;
	if (waited_ns < spin_ns ||
	    now_ns < atomic_load_explicit(&owner->roused_ns, memory_order_relaxed)) {
		sys_cpu_relax();
		return;
	}
	/* sleep for an eighth of the wait so far, within the limits below, so that the end of a
	 * copy is noticed at most that much late */
	step_ns = waited_ns / 8;
	if (step_ns < STEP_NS)
		step_ns = STEP_NS;
	if (step_ns > STEP_MAX_NS)
		step_ns = STEP_MAX_NS;
	owner_sleep(owner, under ? now_ns + step_ns : late ? now_ns + LATE_NS : -1);
}

/* Returns 1 if the thread must end now: it was asked to end, no copy is pending, and none will be
 * accepted because `state` is ENDING. */
static int owner_ends(struct cuda_owner *owner)
{
	int ends = 0;

	pthread_mutex_lock(&owner->lock);
	if (atomic_load(&owner->stop)) {
		atomic_store(&owner->state, OWNER_ENDING);
		ends = atomic_load(&owner->pending) == 0;
		if (!ends)
			atomic_store(&owner->state, OWNER_ON);
	}
	pthread_mutex_unlock(&owner->lock);
	return ends;
}

static void owner_run(struct cuda_owner *owner)
{
	int64_t quiet_ns = 0;

	for (;;) {
		int64_t now_ns = clock_now_ns();

		if (owner_round(owner, now_ns) || !quiet_ns) {
			quiet_ns = now_ns;
			continue;
		}
		if (atomic_load_explicit(&owner->stop, memory_order_relaxed) &&
		    !owner_under(owner) && owner_ends(owner))
			return;
		owner_wait(owner, now_ns, quiet_ns);
	}
}

static void owner_state_set(struct cuda_owner *owner, enum owner_state state)
{
	pthread_mutex_lock(&owner->lock);
	atomic_store(&owner->state, state);
	pthread_cond_broadcast(&owner->changed);
	pthread_mutex_unlock(&owner->lock);
}

static void *owner_main(void *arg)
{
	struct cuda_owner *owner = arg;
	tcpx_status status;

	/* the default timer slack of 50 us would double STEP_NS */
	prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0);
	status = owner_open(owner);
	if (status == TCPX_OK) {
		mem_gpu_thread_starts(owner->gpu->pci);
		owner_state_set(owner, OWNER_ON);
		owner_run(owner);
	} else {
		owner->error = *error_last();
	}
	owner_close(owner);
	owner_state_set(owner, OWNER_OFF);
	return NULL;
}

/* Joins the thread if it was started. The thread has set `state` to OFF and is ending. Called under
 * the lock. */
static void owner_join(struct cuda_owner *owner)
{
	if (owner->joinable)
		pthread_join(owner->thread, NULL);
	owner->joinable = 0;
}

/* Starts the thread, and waits until `state` is ON or the thread has failed. In the latter case
 * returns the error of the thread. Called under the lock, with `state` OFF. */
static tcpx_status owner_launch(struct cuda_owner *owner, uint32_t device)
{
	char name[16];
	tcpx_status status;

	owner_join(owner);
	owner->device = device;
	owner->error = (tcpx_error){0};
	atomic_store(&owner->broken, TCPX_OK);
	atomic_store(&owner->stop, 0);
	snprintf(name, sizeof(name), "tcpx-gpu-%u", device);
	status = sys_thread_start(&owner->thread, name, owner_main, owner);
	if (status != TCPX_OK)
		return status;
	owner->joinable = 1;
	atomic_store(&owner->state, OWNER_STARTING);
	while (atomic_load(&owner->state) == OWNER_STARTING)
		pthread_cond_wait(&owner->changed, &owner->lock);
	if (atomic_load(&owner->state) == OWNER_ON)
		return TCPX_OK;
	owner_join(owner);
	return error_raise(&owner->error);
}

tcpx_status mem_cuda_owner_start(uint32_t device)
{
	struct cuda_owner *owner;
	tcpx_status status = TCPX_OK;

	if (device >= OWNERS)
		return error_set(TCPX_ERR_INVALID, 0, "GPU %u: only the first %u GPUs can be used",
				 device, OWNERS);
	pthread_once(&owners_once, owners_first);
	if (fork_err)
		return error_set(TCPX_ERR_NO_MEMORY, fork_err, "fork handler of GPU memory");
	if (!sys_cuda_driver()) /* checked before a thread is started in vain */
		return TCPX_ERR_UNSUPPORTED;
	owner = &owners[device];
	pthread_mutex_lock(&owner->lock);
	for (;;) {
		int state = atomic_load(&owner->state);

		if (state == OWNER_STARTING || state == OWNER_ENDING) {
			pthread_cond_wait(&owner->changed, &owner->lock);
			continue;
		}
		if (state == OWNER_OFF) {
			status = owner_launch(owner, device);
		} else {
			/* a thread that was asked to end, but still has copies, continues */
			atomic_store(&owner->stop, 0);
			pthread_cond_broadcast(&owner->changed);
			if (atomic_load_explicit(&owner->broken, memory_order_acquire))
				status = error_raise(&owner->error);
		}
		break;
	}
	pthread_mutex_unlock(&owner->lock);
	return status;
}

/* Counts a copy as pending on the device's owner. Starts the owner thread if it does not run. After
 * an error the copy is not counted. */
static tcpx_status owner_enter(struct cuda_owner *owner, uint32_t device)
{
	for (;;) {
		tcpx_status status;

		atomic_fetch_add(&owner->pending, 1);
		if (atomic_load(&owner->state) == OWNER_ON)
			break;
		atomic_fetch_sub(&owner->pending, 1);
		status = mem_cuda_owner_start(device);
		if (status != TCPX_OK)
			return status;
	}
	if (!atomic_load_explicit(&owner->broken, memory_order_acquire))
		return TCPX_OK;
	error_raise(&owner->error);
	atomic_fetch_sub(&owner->pending, 1);
	return error_last()->status;
}

static tcpx_status owner_push(struct mem_copy *copy, int lane)
{
	struct cuda_owner *owner = &owners[copy->device % OWNERS];
	tcpx_status status;

	if (copy->device >= OWNERS)
		return error_set(TCPX_ERR_INVALID, 0, "no GPU %u", copy->device);
	status = owner_enter(owner, copy->device);
	if (status != TCPX_OK)
		return status;
	copy->to_slot = lane == CUDA_LANE_OUT;
	copy->bytes = 0;
	for (uint32_t i = 0; i < copy->npieces; i++)
		copy->bytes += copy->pieces[i].length;
	mem_queue_push(&owner->lanes[lane].queue, copy);
	owner_wake(owner, 1u << lane);
	return TCPX_OK;
}

tcpx_status mem_cuda_owner_push(struct mem_copy *copy, int to_slot)
{
	return owner_push(copy, to_slot ? CUDA_LANE_OUT : CUDA_LANE_IN);
}

tcpx_status mem_cuda_owner_move(struct mem_copy *copy)
{
	return owner_push(copy, CUDA_LANE_MOVE);
}

void mem_cuda_owner_rouse(uint32_t device, enum mem_call what)
{
	static const uint8_t lane[] = {[MEM_CALL_COMMIT] = CUDA_LANE_IN,
				       [MEM_CALL_FILL] = CUDA_LANE_OUT,
				       [MEM_CALL_MOVE] = CUDA_LANE_MOVE};
	struct cuda_owner *owner = &owners[device % OWNERS];

	if (!(atomic_load(&owner->sleeping) & IDLE) || !owner->spin_ns)
		return;
	atomic_fetch_or(&owner->roused, 1u << lane[what]);
	atomic_store_explicit(&owner->roused_ns, clock_now_ns() + ROUSE_NS, memory_order_relaxed);
	owner_wake(owner, IDLE);
}

int mem_cuda_owner_runs(uint32_t device)
{
	return device < OWNERS && atomic_load(&owners[device].state) == OWNER_ON &&
	       !atomic_load_explicit(&owners[device].broken, memory_order_acquire);
}

int mem_cuda_owners_move_lists(void)
{
	int running = 0;

	for (uint32_t i = 0; i < OWNERS; i++) {
		if (!mem_cuda_owner_runs(i))
			continue;
		if (!atomic_load(&owners[i].lists))
			return 0;
		running++;
	}
	return running > 0;
}

static void owner_stop(struct cuda_owner *owner)
{
	pthread_mutex_lock(&owner->lock);
	atomic_store(&owner->stop, atomic_load(&owner->state) != OWNER_OFF);
	owner_wake(owner, ASLEEP);
	pthread_mutex_unlock(&owner->lock);
}

/*
 * Waits for a thread that was asked to end at `begin_ns`. The wait ends LINGER_NS after that time
 * if copies are pending, because their `done` may need something that the caller holds, or may
 * never be called. It ends LET_GO_NS after that time while the thread frees memory, because freeing
 * may wait for a kernel that ends only after the caller returns. A thread that has not ended by
 * then is detached.
 */
static void owner_await(struct cuda_owner *owner, int64_t begin_ns)
{
	pthread_mutex_lock(&owner->lock);
	while (atomic_load(&owner->state) != OWNER_OFF && atomic_load(&owner->stop)) {
		int64_t ns = begin_ns + (atomic_load(&owner->pending) ? LINGER_NS : LET_GO_NS);
		struct timespec until = {ns / CLOCK_S_NS, ns % CLOCK_S_NS};

		if (clock_now_ns() >= ns)
			break;
		(void)pthread_cond_timedwait(&owner->changed, &owner->lock, &until);
	}
	if (atomic_load(&owner->state) == OWNER_OFF)
		owner_join(owner);
	else if (owner->joinable && !pthread_detach(owner->thread))
		owner->joinable = 0;
	pthread_mutex_unlock(&owner->lock);
}

void mem_cuda_owners_stop(void)
{
	int64_t begin_ns = clock_now_ns();

	pthread_once(&owners_once, owners_first);
	for (uint32_t i = 0; i < OWNERS; i++)
		owner_stop(&owners[i]);
	for (uint32_t i = 0; i < OWNERS; i++)
		owner_await(&owners[i], begin_ns);
}
