/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of the TCPX emulator.
 *
 * Threads: a comm belongs to the one thread that calls it; a setup runs on a thread of its own
 * until the comm is handed over; helpers serve the data sockets. The caller and a helper share a
 * lane: the caller queues and retires tasks, the helper finishes them, each by its own counter.
 * What a caller may hold on to after its end (comms, setups) is never freed, only marked dead.
 */
#ifndef EMU_H
#define EMU_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tcpxemu.h"

enum emu_result { EMU_OK = 0, EMU_CUDA_ERROR = 1, EMU_SYSTEM = 2, EMU_INTERNAL = 3, EMU_BUSY = 7 };
enum emu_ptr { EMU_HOST = 1, EMU_CUDA = 2 };

#define EMU_PAGE 4096u
#define EMU_REQUESTS 16u
#define EMU_TASKS 6u
#define EMU_SOCKS 8
#define EMU_THREADS 16
#define EMU_SLOTS 16u
#define EMU_FRAGS 2048u
#define EMU_NICS TCPXEMU_NICS_MAX
#define EMU_GPUS TCPXEMU_GPUS_MAX
#define EMU_HANDLE_BYTES 128
#define EMU_UNPACK 1
#define EMU_UNPACK_VERSION 7

/* ---- What goes over the wire and to the kernel ---- */

union emu_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};
_Static_assert(sizeof(union emu_addr) == 28, "of the original");

struct emu_handle { /* 88 of the 128 bytes */
	union emu_addr data;
	int32_t port_start, port_count, socks, threads;
	bool redirect;
	union emu_addr ctrl;
	void *state; /* NULL on the wire: the connector's own */
};
_Static_assert(offsetof(struct emu_handle, ctrl) == 48, "of the original");
_Static_assert(offsetof(struct emu_handle, state) == 80, "of the original");
_Static_assert(sizeof(struct emu_handle) == 88, "of the original");

struct emu_message {	     /* sender to receiver on the control socket, one a chunk */
	uint16_t type, sock; /* type: 0 normal, 1 inline */
	uint32_t size, offset, total;
};
_Static_assert(sizeof(struct emu_message) == 16, "of the original");

struct emu_load {
	uint32_t src, len;
	uint64_t dst;
};
struct emu_meta {
	struct emu_load mem[EMU_SLOTS][EMU_FRAGS];
	_Atomic uint64_t cnt[EMU_SLOTS];
};
_Static_assert(sizeof(struct emu_meta) == 524416, "of the original");
struct emu_device_queue {
	uint64_t meta, bounce, head;
};
_Static_assert(sizeof(struct emu_device_queue) == 24, "of the original");
struct emu_device_handle {
	int type, version;
	void *handle;
	size_t size;
	int needs_progress;
};
_Static_assert(sizeof(struct emu_device_handle) == 32, "of the original");

/* ---- Settings: emu_config.c, emu_topo.c ---- */

enum emu_mode { EMU_MEM_CPU, EMU_MEM_HOST_BOUNCE, EMU_MEM_DEV_BOUNCE };
enum emu_frag { EMU_FRAG_PAGE, EMU_FRAG_MTU, EMU_FRAG_RANDOM };
enum emu_steer { EMU_STEER_STRICT, EMU_STEER_OFF, EMU_STEER_RXDM };
enum emu_fatal { EMU_FATAL_EXIT, EMU_FATAL_RC, EMU_FATAL_ABORT };

struct emu_nic {
	char name[16], pci[16]; /* pci "0000:06:00.0"; empty: for control sockets only */
	char path[64];
	union emu_addr addr;
};
struct emu_gpu {
	char pci[16];
	int nic; /* its owner, an index of topo */
};

struct emu_config {
	uint32_t chunk; /* 0: not set */
	int socks, threads, retries, strategy;
	unsigned settle_us, step_us; /* the acceptor's sleep; each end's before a socket */
	unsigned import_us;	     /* how long an accept imports a GPU's pages */
	bool enabled, recv_sync, katy, no_sigpipe, realtime;
	bool calls; /* nothing moves outside of a call, and connections are made in calls */
	uint32_t zero_copy[3]; /* of EMU_HOST, EMU_CUDA: from how many bytes on; 0: never */
	enum emu_mode mode;
	enum emu_frag frag;
	enum emu_steer steer;
	enum emu_fatal fatal;
	bool shuffle, leak, poison;
	uint64_t seed;
	size_t pool_bytes;
	char steer_dir[80], stats[256], packets[256];
	/* The topology; devices are the NICs that the interface list chooses, sorted by name. */
	struct emu_nic topo[EMU_NICS];
	int nics;
	struct emu_gpu gpu[EMU_GPUS];
	int gpus;
	int dev[EMU_NICS]; /* device index: index of topo */
	int devs;
	bool ctrl_set;
	union emu_addr ctrl;
};
extern struct emu_config emu_config; /* constant after init */

int emu_config_read(void); /* 0; -1: said why in the log */
int emu_topo_read(const char *topology);
int emu_topo_choose(const char *interfaces, const char *ctrl_dev);
const struct emu_nic *emu_nic(int dev);
int emu_nic_of_gpu(int gpu); /* device index, or -1 */

/* What one shared object differs in from the others. */
struct emu_flavour {
	int version;
	bool device;	 /* device queues and irecvConsumed (v7 and newer) */
	bool many_inits; /* init is per communicator (v11 and newer) */
};
extern const struct emu_flavour emu_flavour;

/* ---- Log, violations, statistics: emu_report.c, emu_stats.c ---- */

typedef void (*emu_logger)(int level, unsigned long subsys, const char *file, int line,
			   const char *format, ...);
void emu_log_to(emu_logger logger);
__attribute__((format(printf, 2, 3))) void emu_log(int level, const char *format, ...);
#define EMU_WARN(...) emu_log(2, __VA_ARGS__)
#define EMU_INFO(...) emu_log(3, __VA_ARGS__)

/* Counts and tells; a fatal one ends the process unless TCPXEMU_FATAL=rc. Returns EMU_INTERNAL. */
__attribute__((format(printf, 2, 3))) int emu_violation(enum tcpxemu_violation code,
							const char *format, ...);
uint64_t emu_violation_count(enum tcpxemu_violation code);
const char *emu_violation_name(enum tcpxemu_violation code);

struct emu_counters {
	_Atomic uint64_t stalls, fragments, reads, sent_messages, received_messages, sent_bytes,
		received_bytes, comms_open, comms_made, inits, regs, in_flight_peak;
	_Atomic uint64_t devmem[EMU_NICS];
	_Atomic uint64_t imports[EMU_GPUS + 1];
	_Atomic uint64_t calls;
};
extern struct emu_counters emu_count;
void emu_stats_start(void);
void emu_stats_message(bool sent, uint64_t bytes); /* one is done */
void emu_stats_stall(void);
void emu_stats_comms(int more); /* open ones: 1 more, or -1 */
void emu_stats_import(int gpu); /* of a GPU's pages; EMU_GPUS: of none of the topology's */
void emu_stats_packets(int dev, uint64_t packets);
void emu_peak(_Atomic uint64_t *peak, uint64_t value);

/* ---- Faults: emu_fault.c ---- */

enum emu_fault_kind {
	EMU_FAULT_CONNECT_DELAY, /* ms: in front of a connect */
	EMU_FAULT_CONNECT_NEVER,
	EMU_FAULT_ACCEPT_RC, /* accept answers 3 */
	EMU_FAULT_WRONG_NIC, /* the rule is answered "Ok." and lies elsewhere */
	EMU_FAULT_LATE,	     /* nth chunk of a socket starts ms late */
	EMU_FAULT_ONE_BYTE,  /* reads of a byte */
	EMU_FAULT_FRAGS,     /* bytes: the longest fragment */
	EMU_FAULT_POOL,	     /* pages: what is left of the pool */
	EMU_FAULT_HELPER,    /* a helper dies after bytes */
	EMU_FAULT_CTRL_EOF,  /* the control socket ends after nth messages */
	EMU_FAULT_DATA_EOF,  /* a data socket ends after bytes */
	EMU_FAULT_ENOBUFS,   /* every nth send has no memory */
	EMU_FAULT_DONE,	     /* done is told us late */
	EMU_FAULT_TEST_RC,   /* the nth test answers 2, once */
	EMU_FAULT_NULLS,     /* nth more NULL comms of connect and accept */
	EMU_FAULT_REG_DELAY, /* ms: in a regMr */
	EMU_FAULT_NO_SEND,   /* the nth message and later ones are never taken */
	EMU_FAULT_FLIP,	     /* a bit of the nth chunk is wrong */
	EMU_FAULTS,
};
struct emu_fault {
	bool on;
	int side;			   /* 0: both; EMU_SIDE_SEND, EMU_SIDE_RECV */
	long comm;			   /* serial; -1: every one; of each side one */
	uint64_t nth, bytes, ms, us, sock; /* sock ~0: any */
};
enum { EMU_SIDE_SEND = 1, EMU_SIDE_RECV = 2 };
int emu_fault_read(const char *text);
/* The fault if it is on for this comm and side, else NULL. */
const struct emu_fault *emu_fault(enum emu_fault_kind kind, int side, long comm);

/* ---- Memory: emu_mem.c, emu_cuda.c; pools: emu_pool.c ---- */

/* The device that is current on this thread, an index of the topology's GPUs, or -1. */
int emu_gpu_current(void);

struct emu_area {	 /* pool, meta, device queue, staging */
	uint8_t *host;	 /* where the CPU touches it; NULL: nowhere */
	uint64_t device; /* what a kernel is told */
	size_t bytes;
	int kind, gpu;
	uint64_t handle;
};
enum emu_area_kind { EMU_AREA_HEAP, EMU_AREA_PINNED, EMU_AREA_DEVICE, EMU_AREA_POOL };
int emu_area_get(struct emu_area *out, enum emu_area_kind kind, size_t bytes, int gpu);
void emu_area_put(struct emu_area *area);
enum emu_area_kind emu_kind_of_meta(void);
enum emu_area_kind emu_kind_of_queue(void);
enum emu_area_kind emu_kind_of_pool(void);
enum emu_area_kind emu_kind_of_stage(void);

/* cuda: 0, or -1 after a violation. A flow of copies is one private stream. */
struct emu_flow {
	int gpu;
	void *stream;
};
bool emu_cuda_here(void);   /* a driver is loaded in this process */
int emu_cuda_load(void);    /* loads it if need be; 0; -1 */
int emu_cuda_current(void); /* index of the topology's GPUs; -1: none current, or unknown */
/* 1: the range is memory that only the device touches; 0: the CPU may; out_gpu: its GPU or -1. */
int emu_cuda_range(const void *data, size_t bytes, int *out_gpu);
int emu_cuda_area_get(struct emu_area *area);
void emu_cuda_area_put(struct emu_area *area);
int emu_cuda_flow_open(struct emu_flow *flow, int gpu);
void emu_cuda_flow_close(struct emu_flow *flow);
int emu_cuda_copy(struct emu_flow *flow, uint64_t dst, uint64_t src, size_t bytes);
/* Without a stream, as a NIC does it. False: the driver is a real one, and a flow has to do it. */
bool emu_cuda_read(void *to, uint64_t from, size_t bytes);
bool emu_cuda_write(uint64_t to, const void *from, size_t bytes);
int emu_cuda_set(struct emu_flow *flow, uint64_t dst, uint8_t value, size_t bytes);
int emu_cuda_wait(struct emu_flow *flow);

struct emu_waiter { /* a helper whose pool was empty */
	struct emu_waiter *next;
	int wake_fd;
	bool waiting;
};
struct emu_pool {
	struct emu_area area;
	pthread_mutex_t lock;
	uint32_t pages, free, in_use, lost, peak;
	uint32_t *stack;
	uint8_t *out; /* of each page */
	uint64_t rng;
	struct emu_waiter *waiters;
};
struct emu_pool *emu_pool_get(int gpu); /* NULL: no memory */
/* What a completing accept does, on its caller's thread and without a lock: the pool, imported if
 * it is not there. EMU_OK, EMU_SYSTEM, or a violation's answer. */
int emu_pool_import(int gpu, struct emu_pool **out);
/* Takes up to count; fewer, then 0 if it is empty, and then wakes waiter when it is not. */
uint32_t emu_pool_take(struct emu_pool *pool, uint32_t *pages, uint32_t count,
		       struct emu_waiter *waiter);
void emu_pool_give(struct emu_pool *pool, const uint32_t *pages, uint32_t count);
void emu_pool_lose(struct emu_pool *pool, long count); /* tokens forgotten; negative: found */
void emu_pool_forget(struct emu_pool *pool, struct emu_waiter *waiter);
void emu_pool_stats(struct tcpxemu_stats *out);
uint64_t emu_random(uint64_t *state);

/* ---- Comms ---- */

struct emu_mr {
	uint8_t *base;
	size_t bytes;
	int type, gpu;
	bool device_only; /* the CPU cannot touch it */
};

enum emu_stage { EMU_RETIRED, EMU_INACTIVE, EMU_SENT, EMU_ACTIVE, EMU_POSTED, EMU_STAGES };

struct emu_comm;
struct emu_request {
	struct emu_comm *comm;
	uint64_t index; /* of the ring */
	uint8_t *data;
	const struct emu_mr *mr;
	int type;
	uint32_t posted, size, offset;
	int64_t pending; /* bytes of chunks not retired; -1: not known yet */
	bool message_in; /* recv: the next chunk's message is read */
	struct emu_message message;
	int slot; /* -1: not assigned */
	uint32_t frags;
	uint64_t done_at;
};

struct emu_task {
	struct emu_request *request;
	uint8_t *data; /* host memory; staging for memory that the CPU cannot touch */
	uint32_t size, done, offset;
	int type, slot;
	uint64_t number; /* of the lane */
	struct emu_load *list;
	uint32_t *pages;
	uint32_t frags, zero_end; /* lane.zero_sent behind its last send */
	uint64_t not_before;
	bool begun, zero_copy;
};

struct emu_lane { /* a data socket; tasks by free-running counters */
	int fd;
	bool steered;
	_Atomic uint32_t queued, finished, retired;
	struct emu_task task[EMU_TASKS];
	uint64_t bytes, sends, tasks, rng;
	uint32_t moved; /* tasks whose bytes are in the kernel; finished when it lets go of them */
	uint32_t zero_sent, zero_done; /* zero-copy sends, and those the kernel has reported */
	struct emu_area stage;
	bool want_in, want_out, want_report, zero_ready;
};

struct emu_helper {
	struct emu_comm *comm;
	pthread_t thread;
	bool started;
	bool dead; /* without a thread of its own: it would have ended */
	int id, wake_fd;
	_Atomic bool asleep, stop;
	struct emu_waiter waiter;
	struct emu_flow flow;
	uint64_t bytes;
};

struct emu_tokens {
	uint32_t *page;
	uint32_t count, room;
};
struct emu_queue {
	struct emu_area meta, device;
	struct emu_meta *at; /* meta, where the CPU touches it */
	uint64_t head, tail;
	struct emu_tokens slot[EMU_SLOTS][EMU_SOCKS];
	uint64_t last[EMU_SLOTS][EMU_SOCKS]; /* task whose tokens are not forgotten */
	struct emu_tokens lost;
};

enum emu_kind { EMU_LISTEN, EMU_SEND, EMU_RECV };
struct emu_comm {
	enum emu_kind kind;
	int dev, gpu, gpu_accept; /* gpu: current at listen, or at connect */
	long serial;		  /* of those of its kind, from 0: what faults mean by comm */
	int ctrl_fd, socks, threads;
	struct emu_lane lane[EMU_SOCKS];
	struct emu_helper helper[EMU_THREADS];
	uint64_t stage[EMU_STAGES]; /* see emu_ring.c */
	struct emu_request item[EMU_REQUESTS];
	int last_lane;
	struct emu_queue *queue;
	struct emu_pool *pool;
	_Atomic int busy, broken; /* broken: what every call answers from now on */
	bool failed;		  /* a test said so: nobody is to touch it any more */
	bool asked, up;		  /* emu_config.calls: a connection that calls make */
	uint8_t ctrl_in[sizeof(struct emu_message)];
	size_t ctrl_have;
	uint64_t ctrl_messages, tests;
	uint32_t sync_in;
	size_t sync_have;
	_Atomic uint64_t bytes, messages, frags;
};

/* What the caller holds: never freed. */
struct emu_ref {
	struct emu_ref *next;
	enum emu_kind kind;
	_Atomic bool dead;
	struct emu_comm *comm; /* EMU_SEND, EMU_RECV */
	struct emu_setup *setup;
	int dev, gpu; /* EMU_LISTEN */
	int data_fd, ctrl_fd;
	bool handed;			 /* its one comm was */
	uint64_t bytes, messages, frags; /* of a closed comm */
};

/* emu_comm.c */
struct emu_ref *emu_ref_new(enum emu_kind kind);
struct emu_ref *emu_refs(pthread_mutex_t **out_lock);
struct emu_comm *emu_comm_new(enum emu_kind kind, int dev, int gpu);
void emu_comm_free(struct emu_comm *comm);
/* The comm behind a caller's pointer, entered; NULL: *out_rc is the answer. */
struct emu_comm *emu_comm_enter(void *ref, enum emu_kind kind, int *out_rc);
int emu_comm_leave(struct emu_comm *comm, int rc);
int emu_comm_regmr(void *ref, void *data, size_t bytes, int type, void **mr);
int emu_comm_deregmr(void *ref, void *mr);
int emu_comm_close(void *ref);
int emu_queue_new(struct emu_comm *comm, struct emu_device_handle *out);
void emu_queue_free(struct emu_comm *comm);

/* emu_setup.c */
int emu_listen(int dev, void *handle, void **out);
int emu_connect(int dev, void *handle, void **out);
int emu_accept(void *listen, void **out, struct emu_device_handle **devhandle);
int emu_close_listen(void *listen);

/* emu_steer.c: whether data of this socket reaches the GPU: 1, 0, or -1: refused. */
int emu_steer_socket(int fd, int dev, int gpu, long serial);
void emu_unsteer_socket(int fd, int gpu);

/* emu_sock.c */
int emu_sock_listen(union emu_addr *addr); /* sets its port; fd or -1 */
int emu_sock_connect(const union emu_addr *to, const union emu_addr *from);
int emu_sock_accept(int fd);
int emu_sock_all(int fd, void *buf, size_t bytes, bool send, const _Atomic bool *stop);
void emu_sock_nonblocking(int fd);
int emu_send_flags(void);
uint64_t emu_now(void); /* ns */
void emu_sleep_us(unsigned us);

/* emu_ring.c */
int emu_isend(void *ref, void *data, size_t size, void *mr, void **out);
int emu_irecv(void *ref, int n, void **data, const size_t *sizes, void **mrs, void **out);
int emu_test(void *request, int *done, int *sizes);
int emu_consumed(void *ref, int n, void *request);

/* emu_progress.c */
int emu_progress(struct emu_comm *comm);
/* emu_config.calls: a step of the connection; comm->up once both ends have called since. */
int emu_link(struct emu_comm *comm);
void emu_slot_recycle(struct emu_comm *comm, unsigned slot);

/* emu_helper.c */
void emu_lane_push(struct emu_comm *comm, int lane); /* its next task is ready */
void emu_helpers_stop(struct emu_comm *comm);
void emu_helpers_run(struct emu_comm *comm); /* emu_config.calls: what they do, in this call */

/* emu_zero.c: sending without a copy: done means that the peer has the bytes. */
void emu_zero_open(struct emu_lane *lane);
int emu_zero_reports(struct emu_lane *lane); /* takes them in; -1: the socket is broken */

/* emu_move.c: goes on with a task. 1 finished; 0 blocked; -1 the helper dies. */
int emu_task_run(struct emu_helper *helper, struct emu_lane *lane, struct emu_task *task);
/* How many bytes a fault lets through yet; 0: the helper's end. */
uint32_t emu_task_allowed(struct emu_helper *helper, struct emu_lane *lane, struct emu_task *task);
int emu_task_send(struct emu_helper *helper, struct emu_lane *lane, struct emu_task *task);
int emu_task_fill(struct emu_helper *helper, struct emu_lane *lane, struct emu_task *task);

/* emu_core.c: what every table calls */
int emu_init(emu_logger logger);
int emu_devices(int *out);
int emu_get_device_mr(void *comm, void *mr, void **out);
int emu_iflush(void);

#endif
