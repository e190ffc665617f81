/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcpx node: one process drives all GPUs of a host, a session each. Ranks meet over a control
 * session (node_control.h) and go through the same stages together; docs/design/node.md has them.
 */
#ifndef TOOLS_NODE_H
#define TOOLS_NODE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <tcpx/tcpx.h>

#include "base/cpus.h"
#include "cli_devmem.h"
#include "cli_options.h"
#include "cli_plugin.h"
#include "launch.h"
#include "perf_buffer.h"
#include "perf_layout.h"
#include "perf_memory.h"

#define NODE_GPUS_MAX 64
#define NODE_RANKS_MAX 1024
#define NODE_PORT_BASE 20000 /* by default */
#define NODE_LINKS_MAX 4096  /* of a GPU */
#define NODE_NAME_MAX 64
#define NODE_NICS_TEXT 64 /* "eth1,eth2" */
#define NODE_TOLD_MAX 100 /* lines [PERF] Iter */

#define NODE_OPS "write|read|send"
#define NODE_TRANSPORTS "auto|tcp|local|plugin|gpudirect"
#define NODE_MEMS "auto|host|cuda"
#define NODE_CHECKS "smoke|devmem"
#define NODE_UNPACKS "kernel|d2d|host|none|host-recv"

enum node_op { NODE_WRITE, NODE_READ, NODE_SEND };
enum node_transport { NODE_AUTO, NODE_TCP, NODE_LOCAL, NODE_PLUGIN, NODE_GPUDIRECT };
enum node_check { NODE_CHECK_SMOKE, NODE_CHECK_DEVMEM };
enum node_mem { NODE_MEM_AUTO, NODE_MEM_HOST, NODE_MEM_CUDA };

/* The options of the command line. node_meet_put_options() names those that all ranks must
 * have in common. */
struct node_options {
	uint64_t op, transport, mem, check, channels, size, iters, port_base;
	uint64_t memory; /* 0: by the kind of memory; node->memory holds the value in use */
	double timeout;
	const char *gpus, *nics, *peers, *bind, *advertise, *key, *json, *launcher, *rendezvous,
		*hostfile;
	uint64_t repeat; /* of mesh */
	int local_rank, insecure, perf_lines, no_local, quiet, ceiling;
	struct cli_plugin plugin;
};

/* One GPU of one rank. */
struct node_end {
	uint32_t rank, gpu; /* gpu: the position in the rank's list */
};

/* What a rank tells the others about itself before anything is opened. */
struct node_hello {
	char version[32], host[NODE_NAME_MAX];
	char options[512]; /* what must be the same, "op=write size=..." */
	/* boot id of the kernel: ranks with the same one share a host and its memory */
	char boot[40];
	struct perf_memory memory;
	uint32_t ngpus;
	struct {
		uint32_t number; /* as the user counts them */
		char pci[16];
	} gpus[NODE_GPUS_MAX];
};

/* What other ranks need of a GPU: first to connect, once its session listens, then to transfer,
 * once its memory is registered. */
struct node_contact {
	char nic[NODE_NICS_TEXT];
	uint32_t info_bytes;
	uint8_t info[TCPX_INFO_MAX_BYTES];
};
struct node_tokens {
	uint8_t src[TCPX_TOKEN_BYTES], dst[TCPX_TOKEN_BYTES];
};

/* The requests of one direction, one per slot; it is the user pointer of their completions. */
struct node_lane {
	struct node_link *link;
	uint32_t *left; /* requests of the window that have not ended, over all links */
	tcpx_request *slots;
};

/* The link of a GPU with a GPU of another rank. */
struct node_link {
	struct node_end far;
	uint32_t far_link; /* index of this link among those of the far GPU */
	tcpx_peer peer;
	tcpx_region remote; /* memory of the far GPU that this end writes to or reads from */
	struct node_lane requests, receives;
	uint64_t seed_out, seed_in;
	bool up;
	bool out, in;		 /* the directions that a window moves */
	uint32_t want, channels; /* channels that both ends have room for; channels that are up */
	char missing[320];	 /* why a channel is missing, as far as it is known */
	char transport[16];
};

struct node_row {
	uint64_t bytes_out, bytes_in; /* moved by requests that this end posted, and into it */
	/* from the start barrier to the last completion, by the clock of this end */
	uint64_t ns_out, ns_in;
	uint64_t wrong, checked;
	uint32_t links, channels;
};

/* A NIC that message channels of a GPU use, and how many messages came through it. */
struct node_carrier {
	char nic[64];
	uint64_t messages;
};

struct node;

struct node_gpu {
	struct node *node;
	uint32_t index, number; /* index; number as the user counts GPUs */
	/* position in --gpus, also when this process takes only some of them */
	uint32_t listed;
	uint32_t ordinal; /* number in CUDA's order in this process */
	char pci[16];
	char nic[NODE_NICS_TEXT]; /* "": the transport chooses */
	/* NUMA nodes of the GPU and of the NIC assigned before the run; or TOPO_NUMA_UNKNOWN */
	int numa, nic_numa;
	struct node_carrier carriers[CLI_DEVMEM_NICS]; /* as read at the end of the last window */
	uint32_t ncarriers;
	bool relayed;	 /* a carrier belongs to another GPU, so messages land in that GPU first */
	char unpack[12]; /* how messages were unpacked; "": none arrived */
	tcpx_session *session;
	struct perf_gpu *gpu; /* NULL: host memory */
	struct perf_buffer src, dst;
	struct node_contact contact;
	struct node_tokens tokens;
	struct node_link *links;
	uint32_t nlinks;
	uint32_t left_out, left_in; /* requests and receives of the window that have not ended */
	uint32_t left_others;	    /* far ends that have not reported the end of their requests */
	struct perf_layout layout;  /* layout of the area of one link */
	struct node_row row;
	bool came;	   /* bytes arrived, in any window */
	uint64_t began_ns; /* of its window */
	/* durations of transfers for --perf-lines, both directions */
	uint64_t told_ns[NODE_TOLD_MAX];
	uint32_t told;
	/* The stage that runs on the thread of this GPU. */
	pthread_t thread;
	tcpx_status (*stage)(struct node_gpu *gpu);
	atomic_bool ended;
	tcpx_status status;
	tcpx_error error;
};

struct node_control;

struct node {
	const struct node_options *options;
	uint32_t rank, size;
	struct node_gpu gpus[NODE_GPUS_MAX];
	uint32_t ngpus, listed; /* listed: GPUs that --gpus names */
	const char *job;
	const char *size_by; /* the variable that the size came from, or NULL */
	bool gpu_memory;
	bool any_port;	  /* ranks share this host, so each GPU listens on any free port */
	bool shared_area; /* only one link of a GPU moves at a time: all use the first area */
	bool say;	  /* print the stages */
	bool launched;	  /* started by a launcher: any number of ranks, which meet at meet */
	struct launch_meet meet;
	const char *host; /* started by hand: rank 0's host, on rank 1; else NULL */
	/* port of rank 0's control session, unless meet has another one */
	uint32_t port;
	struct node_hello *hellos;     /* by rank */
	struct node_contact *contacts; /* of all ends, indexed by node_end_at() */
	struct node_tokens *tokens;    /* likewise */
	int done_fd;		       /* eventfd, written when the thread of a stage has ended */
	struct node_control *control;
	uint64_t memory, least_memory; /* --memory; the least that one transfer per link takes */
	uint32_t slots;		       /* transfers of a link in a window */
	uint32_t windows;	       /* of the run */
	uint32_t window, used;
	uint64_t ready_ns;   /* from the start to READY */
	uint64_t elapsed_ns; /* sum of the windows, each up to the slowest end of this rank */
	/* time in which plain sockets move the bytes of a window; 0: not measured */
	uint64_t ceiling_ns;
	uint64_t began_ns; /* of the window */
	uint64_t cpu_ns;
	struct cli_devmem devmem; /* of gpudirect */
	struct node_cell *cells;  /* mesh: one row of cells per end of this rank */
	atomic_bool stop;	  /* threads stop waiting */
};

/* node_plan.c: parses "0-3,6". ERR_INVALID; ERR_LIMIT. */
tcpx_status node_gpus_parse(const char *text, uint32_t *out_numbers, uint32_t *out_count);
/* The links of one end, in order; every rank computes the same ones. peers: "same", "all" or a
 * file. Returns their number, at most NODE_LINKS_MAX, or -1 with the last error. */
int node_plan_links(const struct node_hello *hellos, uint32_t size, const char *peers,
		    struct node_end of, struct node_end *out_far);
/* Checks what can be judged of a plan before the other ranks are known: that the file exists,
 * its lines and its ranks. ERR_NOT_FOUND; ERR_INVALID. */
tcpx_status node_plan_check(const char *peers, uint32_t size);
/* The index of an end among those of all ranks. */
uint32_t node_end_at(const struct node_hello *hellos, struct node_end end);
/* Whether self is the one of the two ends that dials. */
bool node_plan_dials(struct node_end self, struct node_end far);

/* node_nics.c: assigns a NIC to each GPU, by --nics. ERR_NOT_FOUND: a NIC does not exist. */
tcpx_status node_nics_assign(struct node *node);

/* node_meet.c: exchanges hellos. ERR_INVALID: a rank was started with other options;
 * ERR_VERSION: it has another version. */
tcpx_status node_meet(struct node *node);
struct node_blob;
/* Checks and copies the hello of another rank, which may hold any bytes. ERR_VERSION: another
 * size; ERR_PROTOCOL. */
tcpx_status node_hello_take(const struct node_blob *blob, uint32_t rank, struct node_hello *out);
tcpx_status node_plan(struct node *node); /* links and windows */
tcpx_status node_share_contacts(struct node *node);
tcpx_status node_share_tokens(struct node *node);
/* Exchanges one entry of `each` bytes per GPU. out_all: the entries of all ends, by
 * node_end_at(), for free(). */
tcpx_status node_share_all(struct node *node, const char *stage, const void *own, size_t each,
			   void **out_all);

/* node_memory.c: memory available to this process, read before any rank takes some. */
#define NODE_MEMORY_HOST (32ull << 20) /* defaults of --memory */
#define NODE_MEMORY_GPU (256ull << 20)
void node_memory_read(struct node_hello *own);
bool node_memory_is_hosts(const struct node_hello *hello); /* host memory, not GPU memory */
/* areas: per rank, the areas of all its GPUs. ERR_NO_MEMORY: the ranks of this host need more
 * than is available or than their cgroup has room for. */
tcpx_status node_memory_check(const struct node *node, const uint32_t *areas);

/* node_setup.c: all stages up to READY, with a line for each. */
tcpx_status node_setup(struct node *node);
void node_close(struct node *node);
/* Finds the GPUs of this rank, before the others are met. ERR_NOT_FOUND: one does not exist. */
tcpx_status node_find_gpus(struct node *node);
/* Runs stage on one thread per GPU while the caller watches the control link. Returns the first
 * failure by index; its text has the number of the GPU. */
tcpx_status node_each(struct node *node, tcpx_status (*stage)(struct node_gpu *));
/* "rank 1 (host) GPU 3". */
const char *node_end_name(const struct node *node, struct node_end end, char *buf, size_t cap);

/* node_gpu.c: the stages of one GPU, on the thread of that GPU. */
tcpx_status node_gpu_open(struct node_gpu *gpu);     /* context, session, listens */
tcpx_status node_gpu_register(struct node_gpu *gpu); /* memory, tokens */
/* dials the links that this end dials; does not wait */
tcpx_status node_gpu_dial(struct node_gpu *gpu);
/* Counts links and channels that are up. An error means that a link will never come up. Never
 * blocks; main thread only. */
tcpx_status node_gpu_look(struct node_gpu *gpu, uint32_t *out_links, uint32_t *out_channels);
tcpx_status node_gpu_prepare(struct node_gpu *gpu); /* imports tokens, prepares requests */
/* Sets carriers, relayed and unpack. To be called while every link is up, because the channels
 * go when their rank leaves. */
void node_gpu_carriers(struct node_gpu *gpu);
/* "eth1,eth2": the carriers, else the assigned NIC; "-": unknown. */
void node_gpu_nics(const struct node_gpu *gpu, char text[NODE_NICS_TEXT]);
void node_gpu_close(struct node_gpu *gpu);
/* The share of --channels of one link, where a GPU has `links` of them; at least 1. */
uint32_t node_share(const struct node_options *options, uint32_t links);
/* asked now and then during long work on memory */
struct perf_leave node_leave(const struct node *node);

/* node_run.c: all windows of the run. */
tcpx_status node_run(struct node *node);
/* Runs one window over the directions that the links have enabled; adds to rows and times. */
tcpx_status node_window(struct node *node, uint32_t window);
/* Whether received bytes are compared: with --unpack none there is nothing to compare. */
bool node_compares(const struct node *node);
#define NODE_NOT_COMPARED "NOT COMPARED (--unpack none): the data is invalid"
/* The area of a GPU's memory that a link uses. */
static inline uint32_t node_area(const struct node *node, uint32_t link)
{
	return node->shared_area ? 0 : link;
}

/* node_devmem.c: calls run(); over gpudirect it also compares the packet counters of the NICs
 * before and after. ERR_UNSUPPORTED: bytes did not arrive in GPU memory. */
tcpx_status node_counted(struct node *node, tcpx_status (*run)(struct node *));

/* node_mesh.c: measures each link alone, one direction after the other. */
struct node_cell {
	/* B/s of the requests that this end posted; rate 0: not measured */
	double rate, least, most;
	uint64_t wrong; /* wrong bytes that this end received */
};
tcpx_status node_mesh(struct node *node); /* writes node->cells, which the caller frees */
/* node_mesh_result.c: rank 0 prints; an exit code at out_rc. */
tcpx_status node_mesh_result(struct node *node, int *out_rc);

/* node_options.c */
/* The addresses to advertise for the session that listens `offset` ports after the port base.
 * ERR_INVALID. */
#define NODE_ADVERTISE_MAX 600
tcpx_status node_advertise(const struct node_options *options, int offset,
			   char out[NODE_ADVERTISE_MAX]);
extern const struct cli_option node_option_table[];
#define NODE_OPTION_COUNT 30   /* the first one is for mesh only, the last ones are for node only */
#define NODE_OPTIONS_OF_NODE 4 /* peers, check, ceiling, perf-lines */

/* node_start.c: sets rank, size and meeting point from the command line and the launcher;
 * argv[first] is HOST. Returns CLI_GO or an exit code. */
int node_start(const struct cli_command *command, struct node *node, struct node_options *o,
	       int argc, char **argv, int first);
/* Meets the other ranks, calls work, closes everything and returns an exit code. Once ranks have
 * met, each is told when another one fails. work returns OK with an exit code in out_rc, or the
 * failure. */
int node_drive(struct node *node, tcpx_status (*work)(struct node *node, int *out_rc));

/* node_ceiling.c: measures as many plain sockets; sets node->ceiling_ns. */
tcpx_status node_ceiling(struct node *node);

/* node_log.c: shows a few of the library's warnings about each rank and counts the others. */
void node_log_start(void);
void node_log_end(void);

/* node_sockets.c: warns on stderr when a NIC carries more sockets than advised. */
void node_sockets_warn(const struct node *node);

/* node_threads.c: the threads of this process, with role and CPUs. */
#define NODE_THREADS_MAX 256 /* threads listed; a plugin may have more */
struct node_thread {
	char name[16], cpus[CPUS_TEXT]; /* allowed by the kernel: "0-51,104-155" */
	int node;			/* NUMA node that has all of them, or TOPO_NUMA_UNKNOWN */
};
struct cli_json;
uint32_t node_threads_list(struct node_thread *out_threads, uint32_t max);
void node_threads_print(uint32_t rank, const struct node_thread *threads, uint32_t count);
void node_threads_json(struct cli_json *rank, const struct node_thread *threads, uint32_t count);
void node_numa_json(struct cli_json *object, const char *key, int numa);

/* node_result.c: rank 0 collects and prints the rows of all ranks. Returns an exit code. */
int node_result(struct node *node);

#endif
