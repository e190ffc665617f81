/* SPDX-License-Identifier: Apache-2.0 */
/* Connection info by PMIx, the server that mpirun and srun run on each host. The headers provide
 * the types; the library is loaded only if a launcher announces a server, so the tool also runs
 * without PMIx. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "launch.h"

#ifdef TOOL_WITH_PMIX

#include <dlfcn.h>
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define KEY "tcpx.info"
#define WAIT_S 1 /* time of one request for the info of rank 0 */

#define CALLS(X)                                                                                   \
	X(init, PMIx_Init)                                                                         \
	X(finalize, PMIx_Finalize)                                                                 \
	X(put, PMIx_Put)                                                                           \
	X(commit, PMIx_Commit)                                                                     \
	X(get, PMIx_Get)                                                                           \
	X(get_nb, PMIx_Get_nb)                                                                     \
	X(text, PMIx_Error_string)

static struct {
	bool open;
	pmix_proc_t self;
#define MEMBER(name, symbol) __typeof__(symbol) *name;
	CALLS(MEMBER)
#undef MEMBER
} pmix;

static struct {
	pthread_mutex_t lock;
	pthread_cond_t came;
	bool asked, done; /* a request is in flight; its answer has arrived */
	uint8_t info[TCPX_INFO_MAX_BYTES];
	size_t bytes;
} answer = {.lock = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER};

static const char *libraries[] = {"libpmix.so.2", "libpmix.so"};

static bool launch_pmix_load(void)
{
	void *handle = NULL, *symbol;

	if (pmix.init)
		return true;
	for (size_t i = 0; !handle && i < sizeof(libraries) / sizeof(libraries[0]); i++)
		handle = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return false;
#define LOAD(name, sym)                                                                            \
	symbol = dlsym(handle, #sym);                                                              \
	if (!symbol)                                                                               \
		return false;                                                                      \
	memcpy(&pmix.name, &symbol, sizeof(symbol));
	CALLS(LOAD)
#undef LOAD
	return true;
}

bool launch_pmix_built(void)
{
	return launch_pmix_load();
}

bool launch_pmix_there(void)
{
	const char *space = getenv("PMIX_NAMESPACE"), *rank = getenv("PMIX_RANK");

	return space && *space && rank && *rank && launch_pmix_load();
}

static tcpx_status launch_pmix_failed(const char *what, pmix_status_t rc)
{
	return error_set(TCPX_ERR_SYSTEM, 0, "%s: %s", what, pmix.text(rc));
}

static tcpx_status open_once(void)
{
	pmix_status_t rc;

	if (pmix.open)
		return TCPX_OK;
	if (!launch_pmix_there()) {
		(void)error_set(TCPX_ERR_NOT_FOUND, 0,
				"PMIx has not started this process: no PMIX_RANK, or no libpmix");
		return error_next("use mpirun of Open MPI or srun --mpi=pmix, or another launcher");
	}
	rc = pmix.init(&pmix.self, NULL, 0);
	if (rc != PMIX_SUCCESS)
		return launch_pmix_failed("PMIx_Init", rc);
	pmix.open = true;
	return TCPX_OK;
}

static tcpx_status launch_pmix_number(pmix_rank_t rank, const char *key, uint32_t *out)
{
	pmix_proc_t who = pmix.self;
	pmix_value_t *value = NULL;
	pmix_status_t rc;

	who.rank = rank;
	rc = pmix.get(&who, key, NULL, 0, &value);
	if (rc != PMIX_SUCCESS)
		return launch_pmix_failed(key, rc);
	if (value->type == PMIX_UINT16)
		*out = value->data.uint16;
	else if (value->type == PMIX_UINT32)
		*out = value->data.uint32;
	else
		rc = PMIX_ERR_TYPE_MISMATCH;
	free(value);
	return rc == PMIX_SUCCESS ? TCPX_OK : launch_pmix_failed(key, rc);
}

tcpx_status launch_pmix_find(struct launch *out)
{
	uint32_t here = 0, rank16 = 0;
	tcpx_status status = open_once();

	if (status != TCPX_OK)
		return status;
	*out = (struct launch){.by = "PMIx", .name = "pmix", .rank = pmix.self.rank};
	snprintf(out->job, sizeof(out->job), "%.79s", pmix.self.nspace);
	status = launch_pmix_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &out->size);
	if (status != TCPX_OK)
		return status;
	out->has_local = launch_pmix_number(pmix.self.rank, PMIX_LOCAL_RANK, &rank16) == TCPX_OK;
	out->local_rank = rank16;
	if (launch_pmix_number(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, &here) == TCPX_OK) {
		out->one_host = here == out->size;
		out->alone_here = here == 1;
		out->many_hosts = here < out->size;
	}
	return TCPX_OK;
}

tcpx_status launch_pmix_give(const void *info, size_t bytes)
{
	pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
	pmix_status_t rc;
	tcpx_status status = open_once();

	if (status != TCPX_OK)
		return status;
	value.data.bo.bytes = (char *)(uintptr_t)info; /* it copies */
	value.data.bo.size = bytes;
	rc = pmix.put(PMIX_GLOBAL, KEY, &value);
	if (rc == PMIX_SUCCESS)
		rc = pmix.commit();
	return rc == PMIX_SUCCESS ? TCPX_OK : launch_pmix_failed("PMIx_Put", rc);
}

/* Called on a thread of PMIx, which owns the value. */
static void launch_pmix_take_answer(pmix_status_t rc, pmix_value_t *value, void *arg)
{
	(void)arg;
	pthread_mutex_lock(&answer.lock);
	answer.asked = false;
	if (rc == PMIX_SUCCESS && value && value->type == PMIX_BYTE_OBJECT &&
	    value->data.bo.size <= sizeof(answer.info)) {
		memcpy(answer.info, value->data.bo.bytes, value->data.bo.size);
		answer.bytes = value->data.bo.size;
		answer.done = true;
	}
	pthread_cond_signal(&answer.came);
	pthread_mutex_unlock(&answer.lock);
}

/* The server answers once rank 0 has published its info; one request is enough. */
static tcpx_status ask(void)
{
	pmix_proc_t first = pmix.self;
	pmix_status_t rc;
	bool ask_now;

	pthread_mutex_lock(&answer.lock);
	ask_now = !answer.asked && !answer.done;
	answer.asked |= ask_now;
	pthread_mutex_unlock(&answer.lock);
	if (!ask_now)
		return TCPX_OK;
	first.rank = 0;
	rc = pmix.get_nb(&first, KEY, NULL, 0, launch_pmix_take_answer, NULL);
	if (rc == PMIX_SUCCESS)
		return TCPX_OK;
	answer.asked = false; /* there will be no answer */
	return launch_pmix_failed("PMIx_Get_nb", rc);
}

tcpx_status launch_pmix_take(void *buf, size_t cap, size_t *out_bytes)
{
	tcpx_status status = open_once();
	struct timespec end;

	if (status == TCPX_OK)
		status = ask();
	if (status != TCPX_OK)
		return status;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += WAIT_S;
	pthread_mutex_lock(&answer.lock);
	while (!answer.done && answer.asked &&
	       !pthread_cond_timedwait(&answer.came, &answer.lock, &end))
		continue;
	status = answer.done && answer.bytes <= cap ? TCPX_OK : TCPX_IN_PROGRESS;
	if (status == TCPX_OK) {
		memcpy(buf, answer.info, answer.bytes);
		*out_bytes = answer.bytes;
	}
	pthread_mutex_unlock(&answer.lock);
	return status;
}

void launch_pmix_close(void)
{
	if (pmix.open)
		(void)pmix.finalize(NULL, 0);
	pmix.open = false;
}

#else

static tcpx_status none(void)
{
	return error_set(TCPX_ERR_UNSUPPORTED, 0, "built without PMIx");
}

bool launch_pmix_built(void)
{
	return false;
}

bool launch_pmix_there(void)
{
	return false;
}

tcpx_status launch_pmix_find(struct launch *out)
{
	(void)out;
	return none();
}

tcpx_status launch_pmix_give(const void *info, size_t bytes)
{
	(void)info;
	(void)bytes;
	return none();
}

tcpx_status launch_pmix_take(void *buf, size_t cap, size_t *out_bytes)
{
	(void)buf;
	(void)cap;
	(void)out_bytes;
	return none();
}

void launch_pmix_close(void)
{
}

#endif
