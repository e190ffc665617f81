/* SPDX-License-Identifier: Apache-2.0 */
/* What the application runs on its GPUs: kernels that want room, graphs that it captures. */
#include <dirent.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/config.h"
#include "base/error.h"
#include "beside.h"

#define SHARED_OPTIN 97	  /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
#define FUNCTION_SHARED 8 /* MAX_DYNAMIC_SHARED_SIZE_BYTES */
#define HUNG_S 60.0	  /* a guard, and always a failure */
#define GRAPH_BYTES 65536u

#ifdef TEST_WITH_NVCC
extern const unsigned char beside_fatbin[]; /* made from beside.cu */
static const void *const image = beside_fatbin;
#else
static const void *const image = NULL;
#endif

typedef struct graph_st *graph_t;
typedef struct graph_exec_st *graph_exec_t;

/* What the library has no use for. The stand-in has none of them. */
static struct {
	cuda_result (*set_attribute)(cuda_function function, int attribute, int value);
	cuda_result (*begin)(cuda_stream stream, int mode);
	cuda_result (*end)(cuda_stream stream, graph_t *out_graph);
	cuda_result (*instantiate)(graph_exec_t *out_exec, graph_t graph, unsigned long long flags);
	cuda_result (*launch)(graph_exec_t exec, cuda_stream stream);
	cuda_result (*exec_destroy)(graph_exec_t exec);
	cuda_result (*destroy)(graph_t graph);
} driver;

static void driver_find(void *handle, const char *symbol, void *out)
{
	void *found = dlsym(handle, symbol);

	memcpy(out, &found, sizeof(found));
}

static void driver_open(const struct beside *b)
{
	void *handle = dlopen(config_text(CONFIG_CUDA_LIBRARY), RTLD_NOW | RTLD_LOCAL);

	CHECK(handle);
	driver_find(handle, "cuFuncSetAttribute", &driver.set_attribute);
	driver_find(handle, "cuStreamBeginCapture_v2", &driver.begin);
	driver_find(handle, "cuStreamEndCapture", &driver.end);
	driver_find(handle, "cuGraphInstantiateWithFlags", &driver.instantiate);
	driver_find(handle, "cuGraphLaunch", &driver.launch);
	driver_find(handle, "cuGraphExecDestroy", &driver.exec_destroy);
	driver_find(handle, "cuGraphDestroy", &driver.destroy);
	if (!b->fake)
		CHECK(driver.set_attribute && driver.begin && driver.end && driver.instantiate &&
		      driver.launch && driver.exec_destroy && driver.destroy);
}

/* Under the end's context. */
static void meet_load(struct beside *b, struct beside_end *end, cuda_function *out)
{
	cuda_module module;
	cuda_result result;

	if (!image && !b->fake)
		SKIP("built without nvcc: no kernels");
	result = b->api->module_load(&module, b->fake ? "FAKE" : image);
	if (result == CUDA_ERR_NO_BINARY_FOR_GPU || result == CUDA_ERR_UNSUPPORTED_PTX_VERSION)
		SKIP("no kernel of this build runs on %s", end->gpu->name);
	BESIDE_MUST(result);
	BESIDE_MUST(b->api->module_function(out, module, "beside_meet"));
	if (b->fake)
		return;
	BESIDE_MUST(b->api->device_attribute(&b->shared_bytes, SHARED_OPTIN, end->gpu->device));
	BESIDE_MUST(driver.set_attribute(*out, FUNCTION_SHARED, b->shared_bytes));
}

static void *pinned(struct beside *b, size_t bytes, cuda_ptr *out_gpu)
{
	void *memory = NULL;

	BESIDE_MUST(b->api->host_alloc(&memory, bytes, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED));
	BESIDE_MUST(b->api->host_device_ptr(out_gpu, memory, 0));
	memset(memory, 0, bytes);
	return memory;
}

void beside_run_open(struct beside *b, unsigned end, enum beside_where where,
		     struct beside_run *out_run)
{
	struct beside_run run = {.b = b, .end = &b->end[end]};
	struct sys_cuda_scope scope;
	int least, greatest;

	driver_open(b);
	beside_enter(b, run.end, &scope);
	if (!b->meet[end])
		meet_load(b, run.end, &b->meet[end]);
	BESIDE_MUST(b->api->ctx_priorities(&least, &greatest));
	if (where != BESIDE_LEGACY)
		BESIDE_MUST(b->api->stream_create(&run.stream, CUDA_STREAM_NON_BLOCKING,
						  where == BESIDE_HIGHEST ? greatest : 0));
	run.mark = pinned(b, sizeof(*run.mark), &run.mark_gpu);
	BESIDE_MUST(b->api->mem_alloc(&run.count, sizeof(uint32_t)));
	sys_cuda_pop(&scope);
	*out_run = run;
}

void beside_run_launch(struct beside_run *run, uint32_t blocks, int stay)
{
	struct beside *b = run->b;
	struct beside_args args = {.mark = run->mark_gpu, .count = run->count, .stay = stay != 0};
	void *params[] = {&args};
	struct sys_cuda_scope scope;

	CHECK(blocks <= BESIDE_BLOCKS);
	memset(run->mark, 0, sizeof(*run->mark));
	run->blocks = blocks;
	beside_enter(b, run->end, &scope);
	/* the mark is 0 yet: the copy engine sets the count, and no SM */
	BESIDE_MUST(
		b->api->copy_async(run->count, run->mark_gpu, sizeof(uint32_t), run->end->stream));
	BESIDE_MUST(b->api->stream_synchronize(run->end->stream));
	BESIDE_MUST(b->api->launch(b->meet[run->end - b->end], blocks, 1, 1, BESIDE_THREADS, 1, 1,
				   (unsigned)b->shared_bytes, run->stream, params, NULL));
	sys_cuda_pop(&scope);
}

int beside_run_busy(struct beside_run *run)
{
	struct sys_cuda_scope scope;
	cuda_result result;

	beside_enter(run->b, run->end, &scope);
	result = run->b->api->stream_query(run->stream);
	sys_cuda_pop(&scope);
	if (result != CUDA_ERR_NOT_READY)
		BESIDE_MUST(result);
	return result == CUDA_ERR_NOT_READY;
}

static uint32_t run_here(const struct beside_run *run)
{
	uint32_t here = 0;

	for (uint32_t i = 0; i < run->blocks; i++)
		here += atomic_load(&run->mark->here[i]);
	return here;
}

void beside_run_await(struct beside_run *run, uint32_t blocks)
{
	double until = check_seconds() + HUNG_S;

	while (run_here(run) < blocks) {
		CHECK_MSG(beside_run_busy(run) || run_here(run) >= blocks,
			  "the kernel is over, and not all were here");
		if (check_seconds() > until) {
			uint32_t here = run_here(run);

			atomic_store(&run->mark->stop, 1);
			check_fail(__FILE__, __LINE__, "%u blocks of %u found room", here, blocks);
		}
		sched_yield();
	}
}

void beside_run_meet(struct beside_run *run)
{
	beside_run_await(run, run->blocks);
	while (!atomic_load(&run->mark->all)) /* the last one is about to say so */
		CHECK(beside_run_busy(run) || atomic_load(&run->mark->all));
}

void beside_run_stop(struct beside_run *run)
{
	struct sys_cuda_scope scope;

	atomic_store(&run->mark->stop, 1);
	beside_enter(run->b, run->end, &scope);
	BESIDE_MUST(run->b->api->stream_synchronize(run->stream));
	sys_cuda_pop(&scope);
}

void beside_graph_open(struct beside *b, unsigned end, struct beside_graph *out_graph)
{
	struct beside_graph graph = {.b = b, .end = &b->end[end]};
	struct sys_cuda_scope scope;
	cuda_ptr image_gpu;

	driver_open(b);
	beside_enter(b, graph.end, &scope);
	BESIDE_MUST(b->api->stream_create(&graph.stream, 0, 0));
	BESIDE_MUST(b->api->mem_alloc(&graph.from, GRAPH_BYTES));
	BESIDE_MUST(b->api->mem_alloc(&graph.to, GRAPH_BYTES));
	graph.image = pinned(b, GRAPH_BYTES, &image_gpu);
	sys_cuda_pop(&scope);
	*out_graph = graph;
}

/* What the stand-in has instead: it refuses what a capture forbids, and says how often it did. */
static void graph_begin(struct beside_graph *graph, unsigned *out_refused)
{
	*out_refused = 0;
	if (graph->b->fake)
		*out_refused = graph->b->fake->capture(1);
	else
		BESIDE_MUST(driver.begin(graph->stream, CUDA_CAPTURE_GLOBAL));
}

static void graph_end(struct beside_graph *graph, unsigned refused)
{
	graph_exec_t exec;
	graph_t made = NULL;

	if (graph->b->fake) {
		CHECK_EQ(graph->b->fake->capture(0), refused);
		return;
	}
	BESIDE_MUST(driver.end(graph->stream, &made)); /* fails if anything broke the capture */
	CHECK(made);
	BESIDE_MUST(driver.instantiate(&exec, made, 0));
	BESIDE_MUST(driver.launch(exec, graph->stream));
	BESIDE_MUST(graph->b->api->stream_synchronize(graph->stream));
	BESIDE_MUST(driver.exec_destroy(exec));
	BESIDE_MUST(driver.destroy(made));
}

void beside_graph_round(struct beside_graph *graph)
{
	const struct sys_cuda *api = graph->b->api;
	uint8_t value = (uint8_t)++graph->rounds;
	unsigned refused;
	cuda_ctx popped;

	/* not by beside_enter, which is relaxed */
	BESIDE_MUST(api->ctx_push(graph->end->gpu->ctx));
	memset(graph->image, (uint8_t)~value, GRAPH_BYTES);
	graph_begin(graph, &refused);
	BESIDE_MUST(api->set_async(graph->from, value, GRAPH_BYTES, graph->stream));
	sched_yield();
	BESIDE_MUST(api->copy_async(graph->to, graph->from, GRAPH_BYTES, graph->stream));
	BESIDE_MUST(
		api->copy_async((uintptr_t)graph->image, graph->to, GRAPH_BYTES, graph->stream));
	graph_end(graph, refused);
	BESIDE_MUST(api->stream_synchronize(graph->stream));
	BESIDE_MUST(api->ctx_pop(&popped));
	for (uint32_t i = 0; i < GRAPH_BYTES; i++)
		CHECK_EQ(graph->image[i], value);
}

/* The clock of a thread of this process, as pthread_getcpuclockid makes it. */
static int64_t thread_cpu_ns(pid_t tid)
{
	struct timespec ts;

	if (clock_gettime((clockid_t)(~(unsigned)tid << 3 | 6u), &ts))
		return 0; /* it has ended */
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* The name of a thread, without the newline; "" when it has ended. */
static void thread_name(pid_t tid, char *out, size_t size)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", (int)tid);
	file = fopen(path, "re");
	if (!file || !fgets(out, (int)size, file))
		*out = '\0';
	if (file)
		fclose(file);
	out[strcspn(out, "\n")] = '\0';
}

int64_t beside_cpu_ns(unsigned *out_threads, int say)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *task;
	int64_t sum = 0;

	CHECK(tasks);
	*out_threads = 0;
	while ((task = readdir(tasks))) {
		pid_t tid = (pid_t)atoi(task->d_name);
		char name[32];

		if (tid <= 0)
			continue;
		thread_name(tid, name, sizeof(name));
		if (strncmp(name, "tcpx-", 5))
			continue;
		++*out_threads;
		sum += thread_cpu_ns(tid);
		if (say)
			printf("  %-15s %8.3f ms so far\n", name, (double)thread_cpu_ns(tid) / 1e6);
	}
	closedir(tasks);
	return sum;
}
