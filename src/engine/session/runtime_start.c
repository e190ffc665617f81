/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and stops the runtime of the process: a control thread and the workers. The runtime exists
 * while there is a session that is not freed. */
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "engine/peer/carrier.h"
#include "engine/session/calls.h"
#include "engine/link/hold.h"
#include "engine/link/place.h"
#include "engine/path/paths.h"
#include "sys/cpu.h"
#include "sys/fork.h"

static void *control_main(void *arg)
{
	struct engine_runtime *runtime = arg;

	while (!atomic_load_explicit(&runtime->stop, memory_order_acquire))
		sys_loop_round(&runtime->loop, -1);
	return NULL;
}

/* Returns the default number of workers: half of the cores, at least 2 and at most 16. A single
 * worker would leave cores idle. On a machine with one core, the default is 1. */
static uint32_t default_workers(void)
{
	uint32_t cores = sys_cpu_usable(), half = cores / 2;

	if (half > 16)
		return 16;
	return half < 2 ? (cores < 2 ? 1 : 2) : half;
}

static void runtime_stop_post(struct sys_post *post)
{
	(void)post;
}

/* Stops the threads of the runtime, then frees what they used. After a failed start only some
 * threads run: the first `started` workers, and the control thread if `control` is true. */
static void runtime_stop(struct engine_runtime *runtime, uint32_t started, bool control)
{
	static struct sys_post post = {.fn = runtime_stop_post};

	if (control) {
		atomic_store_explicit(&runtime->stop, 1, memory_order_release);
		sys_loop_post(&runtime->loop, &post);
		pthread_join(runtime->control, NULL);
	}
	for (uint32_t i = 0; i < started; i++)
		worker_stop(&runtime->workers[i]);
	place_stop();
	free(runtime->workers);
	runtime->workers = NULL;
	sys_links_close(&runtime->links);
	reaper_stop(runtime);
	path_stop(runtime);
	sys_loop_fini(&runtime->loop);
	mem_staging_stop();
}

/* Sets up the loop of the control thread, then starts the workers, and last the control thread,
 * which uses both. `workers` is the number of workers for bulk channels; if it is 0, TCPX_WORKERS
 * or the default applies. */
static tcpx_status runtime_start(struct engine_runtime *runtime, uint32_t workers)
{
	tcpx_status status;
	uint32_t i;

	if (!workers)
		workers = (uint32_t)config_u64(CONFIG_WORKERS);
	if (!workers)
		workers = default_workers();
	status = sys_fork_init();
	if (status != TCPX_OK)
		return status;
	status = sys_loop_init(&runtime->loop);
	if (status != TCPX_OK)
		return status;
	list_init(&runtime->sessions);
	list_init(&runtime->late);
	runtime->links.changed = carrier_changed;
	if (sys_links_open(&runtime->loop, &runtime->links) != TCPX_OK)
		LOG_DEBUG("lost carriers show by silence only: %s", error_last()->what);
	reaper_init(runtime);
	path_start(runtime);
	runtime->workers = calloc(workers + 1, sizeof(*runtime->workers));
	runtime->nworkers = workers;
	atomic_store(&runtime->stop, 0);
	if (!runtime->workers) {
		runtime_stop(runtime, 0, false);
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for %u workers", workers);
	}
	place_start();
	for (i = 0; i <= workers; i++) {
		status = worker_start(&runtime->workers[i], i, i == workers);
		if (status != TCPX_OK) {
			runtime_stop(runtime, i, false);
			return status;
		}
		place_worker(&runtime->workers[i], workers);
	}
	status = sys_thread_start(&runtime->control, "tcpx-control", control_main, runtime);
	if (status != TCPX_OK)
		runtime_stop(runtime, workers + 1, false);
	return status;
}

tcpx_status runtime_get(uint32_t workers)
{
	struct engine_runtime *runtime = &engine_runtime;
	tcpx_status status = TCPX_OK;

	if (runtime->refs && runtime->fork_generation != sys_fork_generation()) {
		/* The parent process started the runtime, and this is a forked child. It has none
		 * of the runtime's threads, and may have inherited a held lock. So it begins with
		 * an empty runtime. */
		memset(runtime, 0, sizeof(*runtime));
		pthread_mutex_init(&runtime->lock, NULL);
	}
	pthread_mutex_lock(&runtime->lock);
	if (runtime->refs == 0)
		status = runtime_start(runtime, workers);
	runtime->fork_generation = sys_fork_generation();
	if (status == TCPX_OK)
		runtime->refs++;
	pthread_mutex_unlock(&runtime->lock);
	return status;
}

void runtime_put(void)
{
	struct engine_runtime *runtime = &engine_runtime;

	pthread_mutex_lock(&runtime->lock);
	if (--runtime->refs == 0) {
		runtime_stop(runtime, runtime->nworkers + 1, true);
		mem_kinds_stop();
	}
	pthread_mutex_unlock(&runtime->lock);
}
