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

/* What the command line says; the same in all ranks where node_same() looks at it. */
struct node_options {
	uint64_t op, transport, mem, check, channels, size, iters, port_base;
	uint64_t memory; /* 0: by the kind of memory; node->memory is what it became */
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

/* What a rank tells the others of itself before anything is opened. */
struct node_hello {
	char version[32], host[NODE_NAME_MAX];
	char options[512]; /* what must be the same, "op=write size=..." */
	char boot[40];	   /* of the kernel: ranks of one host share its memory */
	struct perf_memory memory;
	uint32_t ngpus;
	struct {
		uint32_t number; /* as the user counts them */
		char pci[16];
	} gpus[NODE_GPUS_MAX];
};

/* Of one GPU, when its session listens; and when its memory is registered. */
struct node_contact {
	char nic[NODE_NICS_TEXT];
	uint32_t info_bytes;
	uint8_t info[TCPX_INFO_MAX_BYTES];
};
struct node_tokens {
	uint8_t src[TCPX_TOKEN_BYTES], dst[TCPX_TOKEN_BYTES];
};

/* The requests of one direction, one a slot. It is the user of their completions. */
struct node_lane {
	struct node_link *link;
	uint32_t *left; /* those of a window that have not ended, of all links */
	tcpx_request *slots;
};

/* A GPU's way to one of another rank. */
struct node_link {
	struct node_end far;
	uint32_t far_link; /* of ours among the far one's links */
	tcpx_peer peer;
	tcpx_region remote; /* what we write to, or read from */
	struct node_lane requests, receives;
	uint64_t seed_out, seed_in;
	bool up;
	bool out, in;		 /* the directions that a window moves */
	uint32_t want, channels; /* as both ends have room for; that are up */
	char missing[320];	 /* why one is not, as far as it is known */
	char transport[16];
};

struct node_row {
	uint64_t bytes_out, bytes_in; /* moved by requests that this end posted, and into it */
	uint64_t ns_out, ns_in;	      /* from the start barrier to the last end, by its own clock */
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
	uint32_t index, number; /* position; as the user counts them */
	uint32_t listed;	/* position in --gpus, whatever this process takes of them */
	uint32_t ordinal;	/* as CUDA counts them here */
	char pci[16];
	char nic[NODE_NICS_TEXT]; /* "": the transport's choice */
	int numa, nic_numa;	  /* of the GPU, and of the NIC before the run; TOPO_NUMA_UNKNOWN */
	struct node_carrier carriers[CLI_DEVMEM_NICS]; /* as of the last window's end */
	uint32_t ncarriers;
	bool relayed;	 /* one of them is another GPU's, and so receives land there */
	char unpack[12]; /* how messages were unpacked; "": none were */
	tcpx_session *session;
	struct perf_gpu *gpu; /* NULL: host memory */
	struct perf_buffer src, dst;
	struct node_contact contact;
	struct node_tokens tokens;
	struct node_link *links;
	uint32_t nlinks;
	uint32_t left_out, left_in; /* of a window: requests and receives that have not ended */
	uint32_t left_others;	    /* and ends of links that have not said that theirs have */
	struct perf_layout layout;  /* of one link's area */
	struct node_row row;
	bool came;			 /* bytes did, in any window */
	uint64_t began_ns;		 /* of its window */
	uint64_t told_ns[NODE_TOLD_MAX]; /* of each transfer of --perf-lines, both directions */
	uint32_t told;
	/* Of the stage that runs on its own thread. */
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
	uint32_t ngpus, listed; /* listed: that --gpus names */
	const char *job;
	const char *size_by; /* the variable that says the size, or NULL */
	bool gpu_memory;
	bool any_port;	  /* GPUs of several ranks of this host listen where there is room */
	bool shared_area; /* one link moves at a time: all have the first area */
	bool say;	  /* stages are shown */
	bool launched;	  /* more than two ranks are possible, meet says where they meet */
	struct launch_meet meet;
	const char *host;	       /* by hand: rank 0's, of rank 1 */
	uint32_t port;		       /* of rank 0's control, where no meeting says another */
	struct node_hello *hellos;     /* by rank */
	struct node_contact *contacts; /* of all ends, in order; node_end_at() */
	struct node_tokens *tokens;    /* likewise */
	int done_fd;		       /* eventfd: a thread of a stage has ended */
	struct node_control *control;
	uint64_t memory, least_memory; /* --memory; that of one transfer in a window */
	uint32_t slots;		       /* transfers of a link in a window */
	uint32_t windows;	       /* of the run */
	uint32_t window, used;
	uint64_t ready_ns;   /* from the start to READY */
	uint64_t elapsed_ns; /* of the windows, to the slowest end of this rank */
	uint64_t ceiling_ns; /* plain sockets move a window's bytes in it; 0: not measured */
	uint64_t began_ns;   /* of the window */
	uint64_t cpu_ns;
	struct cli_devmem devmem; /* of gpudirect */
	struct node_cell *cells;  /* of the mesh: this rank's ends by all */
	atomic_bool stop;	  /* threads leave their waits */
};

/* node_plan.c: "0-3,6" to numbers; ERR_INVALID. */
tcpx_status node_gpus_parse(const char *text, uint32_t *out_numbers, uint32_t *out_count);
/* Who is linked with whom, the same in every rank: the links of one end, in order. peers: "same",
 * "all" or a file. Returns how many, at most NODE_LINKS_MAX; -1: the last error. */
int node_plan_links(const struct node_hello *hellos, uint32_t size, const char *peers,
		    struct node_end of, struct node_end *out_far);
/* What of a plan can be judged before the other ranks are known: a file that is there, its lines
 * and ranks. ERR_NOT_FOUND; ERR_INVALID. */
tcpx_status node_plan_check(const char *peers, uint32_t size);
/* The position of an end among those of all ranks. */
uint32_t node_end_at(const struct node_hello *hellos, struct node_end end);
/* Of two ends, the one that dials. */
bool node_plan_dials(struct node_end self, struct node_end far);

/* node_nics.c: the NIC of each GPU, by --nics; ERR_NOT_FOUND: one that is not there. */
tcpx_status node_nics_assign(struct node *node);

/* node_meet.c: exchanges with the other ranks. ERR_INVALID, ERR_VERSION: one is started with other
 * options, or is of another version. */
tcpx_status node_meet(struct node *node);
struct node_blob;
/* What another rank says, of any bytes. ERR_VERSION: it is of another size; ERR_PROTOCOL. */
tcpx_status node_hello_take(const struct node_blob *blob, uint32_t rank, struct node_hello *out);
tcpx_status node_plan(struct node *node); /* links and windows */
tcpx_status node_share_contacts(struct node *node);
tcpx_status node_share_tokens(struct node *node);
/* Each rank's entries of so many bytes, one for each of its GPUs; out_all: of all ends, by
 * node_end_at(), for free(). */
tcpx_status node_share_all(struct node *node, const char *stage, const void *own, size_t each,
			   void **out_all);

/* node_memory.c: what this process has, before anyone takes of it. */
#define NODE_MEMORY_HOST (32ull << 20) /* defaults of --memory */
#define NODE_MEMORY_GPU (256ull << 20)
void node_memory_read(struct node_hello *own);
bool node_memory_is_hosts(const struct node_hello *hello); /* not that of GPUs */
/* areas: of each rank, those of all its GPUs. ERR_NO_MEMORY: the ranks of this host take more than
 * is available, or than their cgroup has room for. */
tcpx_status node_memory_check(const struct node *node, const uint32_t *areas);

/* node_setup.c: everything until READY, with a counted line for each stage. */
tcpx_status node_setup(struct node *node);
void node_close(struct node *node);
/* Before the others are met: which GPUs these are. ERR_NOT_FOUND: one that is not there. */
tcpx_status node_find_gpus(struct node *node);
/* stage runs on a thread for each GPU, while this one looks at the other ranks. The first failure
 * by index, with the GPU's number. */
tcpx_status node_each(struct node *node, tcpx_status (*stage)(struct node_gpu *));
/* "rank 1 (host) GPU 3". */
const char *node_end_name(const struct node *node, struct node_end end, char *buf, size_t cap);

/* node_gpu.c: stages of one GPU, on its own thread. */
tcpx_status node_gpu_open(struct node_gpu *gpu);     /* context, session, listens */
tcpx_status node_gpu_register(struct node_gpu *gpu); /* memory, tokens */
tcpx_status node_gpu_dial(struct node_gpu *gpu);     /* those that it dials; does not wait */
/* What is there now: links that are up, channels of those that are wanted. An error: one link will
 * never be. Never blocks; the main thread's. */
tcpx_status node_gpu_look(struct node_gpu *gpu, uint32_t *out_links, uint32_t *out_channels);
tcpx_status node_gpu_prepare(struct node_gpu *gpu); /* requests; imports are made */
/* Sets carriers, relayed and unpack. Called while every link is up: a rank that has left takes its
 * channels with it. */
void node_gpu_carriers(struct node_gpu *gpu);
/* "eth1,eth2": the carriers, else the NIC that it was given; "-": none is known. */
void node_gpu_nics(const struct node_gpu *gpu, char text[NODE_NICS_TEXT]);
void node_gpu_close(struct node_gpu *gpu);
/* Of one link of a GPU that has so many: its share of --channels, one at least. */
uint32_t node_share(const struct node_options *options, uint32_t links);
struct perf_leave node_leave(const struct node *node); /* asked in long work on memory */

/* node_run.c: the windows of the run, with barriers and every byte checked. */
tcpx_status node_run(struct node *node);
/* One of them, over the directions that the links have set; rows and times are added to. */
tcpx_status node_window(struct node *node, uint32_t window);
/* Every byte that comes is compared; --unpack none leaves nothing to look at. */
bool node_compares(const struct node *node);
#define NODE_NOT_COMPARED "NOT LOOKED AT (--unpack none): the data is invalid"
/* Which area of a GPU's memory is a link's. */
static inline uint32_t node_area(const struct node *node, uint32_t link)
{
	return node->shared_area ? 0 : link;
}

/* node_devmem.c: run() beside the counters of packets, over gpudirect; else run() alone.
 * ERR_UNSUPPORTED: bytes came not into GPU memory. */
tcpx_status node_counted(struct node *node, tcpx_status (*run)(struct node *));

/* node_mesh.c: every link of every end alone, one direction after the other. */
struct node_cell {
	double rate, least, most; /* B/s, of what this end posted; rate 0: not measured */
	uint64_t wrong;		  /* of what came to this end */
};
tcpx_status node_mesh(struct node *node); /* to node->cells, which the caller frees */
/* node_mesh_result.c: rank 0 prints; an exit code at out_rc. */
tcpx_status node_mesh_result(struct node *node, int *out_rc);

/* node_options.c */
/* What --advertise means for the session that is so many ports after the port base. ERR_INVALID. */
#define NODE_ADVERTISE_MAX 600
tcpx_status node_advertise(const struct node_options *options, int offset,
			   char out[NODE_ADVERTISE_MAX]);
extern const struct cli_option node_option_table[];
#define NODE_OPTION_COUNT 30   /* the first is mesh's alone, the last are node's alone */
#define NODE_OPTIONS_OF_NODE 4 /* peers, check, ceiling, perf-lines */

/*
 * node_start.c: who we are, by the command line and by the launcher; argv[first]: HOST. CLI_GO, or
 * an exit code.
 */
int node_start(const struct cli_command *command, struct node *node, struct node_options *o,
	       int argc, char **argv, int first);
/* Meets the others, then work; node_close() behind it. An exit code. From the meeting on the
 * other ranks hear of a failure. work: OK and an exit code at out_rc, or what fails. */
int node_drive(struct node *node, tcpx_status (*work)(struct node *node, int *out_rc));

/* node_ceiling.c: what as many plain sockets do in the same time; node->ceiling_ns. */
tcpx_status node_ceiling(struct node *node);

/* node_log.c: of the library's warnings a few about each rank are shown, and how many are not. */
void node_log_start(void);
void node_log_end(void);

/* node_sockets.c: a line on stderr where a NIC carries more sockets than is advised. */
void node_sockets_warn(const struct node *node);

/* node_threads.c: this process's threads, by role and CPUs. */
#define NODE_THREADS_MAX 256 /* that are told; a plugin may have more */
struct node_thread {
	char name[16], cpus[CPUS_TEXT]; /* as the kernel lets it: "0-51,104-155" */
	int node;			/* that has all of them, or TOPO_NUMA_UNKNOWN */
};
struct cli_json;
uint32_t node_threads_list(struct node_thread *out_threads, uint32_t max);
void node_threads_print(uint32_t rank, const struct node_thread *threads, uint32_t count);
void node_threads_json(struct cli_json *rank, const struct node_thread *threads, uint32_t count);
void node_numa_json(struct cli_json *object, const char *key, int numa);

/* node_result.c: rows of all ranks come to rank 0, which prints. Returns an exit code. */
int node_result(struct node *node);

#endif
