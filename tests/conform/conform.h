/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conformance suite: cases over the public API between a near session and a far one. The far
 * one is driven by commands, so that the same case runs within one process and between two.
 */
#ifndef CONFORM_CONFORM_H
#define CONFORM_CONFORM_H

#include <stdbool.h>

#include "check.h"
#include "parts/filter.h"
#include "parts/slow.h"
#include <tcpx/tcpx.h>

#define MS 1000000LL
#define SEC 1000000000LL
#define LONG_NS (100 * SEC) /* longer than the hang guard wants; never a verdict */

#define KIB (1ull << 10)
#define MIB (1ull << 20)
#define POISON 0xa5

/* Where memory is. */
struct place {
	enum tcpx_mem_kind kind;
	uint32_t device;
	/* a GPU's: cuMemAlloc, cuMemMap, cuMemAllocFromPoolAsync */
	enum { PLACE_ALLOC, PLACE_MAPPED, PLACE_POOL } from;
	bool file; /* the host's: a file's, which can be truncated */
};

struct config {
	const char *transport;	   /* of the registry, or "plugin" */
	struct place mem, far_mem; /* of the buffers of either side */
	const char *filters;	   /* or NULL */
	int processes;		   /* 1, 2 */
	int family;		   /* 4, 6 */
	bool light;		   /* fewer rounds: sanitizers, slow memory */
	/* two hosts: what each side binds, the far one's namespace, their key; or NULL: loopback */
	const char *near_bind, *far_bind, *far_netns, *key;
};

extern struct config config;
extern char **program; /* its arguments */

/*
 * Poisoned memory with slack bytes around it that must stay so; memory of the host lies between two
 * pages that nobody may touch. The CPU cannot reach a GPU's: the calls below are the only way to
 * its bytes.
 */
struct buf {
	struct place place;
	uint8_t *map; /* the whole */
	size_t map_bytes;
	void *addr;	   /* of the data, to be registered */
	uint64_t size;	   /* of the data */
	size_t lead, tail; /* slack before and after it */
	int file;	   /* of place.file */
};

void buf_make(struct buf *buf, uint64_t size, size_t lead); /* at the near side's place */
void buf_make_at(struct buf *buf, struct place place, uint64_t size, size_t lead);
void buf_free(struct buf *buf);
/* Frees whatever buffer of this process is left. */
void buf_free_all(void);
void buf_poison(struct buf *buf);
/* Truncates its file: the data is gone from there on, or up to a page before it. */
void buf_cut(const struct buf *buf, uint64_t off);
/* Slack around the data is still poison. */
bool buf_slack_whole(const struct buf *buf);
void buf_read(const struct buf *buf, uint64_t off, void *out, uint64_t len);
void buf_write(const struct buf *buf, uint64_t off, const void *data, uint64_t len);
void buf_set(const struct buf *buf, uint64_t off, uint64_t len, uint8_t value);
/* As pat_fill .. byte_run below, of len bytes at off. */
void buf_fill(const struct buf *buf, uint64_t off, uint64_t len, uint64_t seed, uint64_t position);
int64_t buf_check(const struct buf *buf, uint64_t off, uint64_t len, uint64_t seed,
		  uint64_t position);
int64_t buf_bytes(const struct buf *buf, uint64_t off, uint64_t len, uint8_t value);
uint64_t buf_differ(const struct buf *buf, uint64_t off, const void *want, uint64_t len);
uint64_t buf_run(const struct buf *buf, uint64_t off, uint64_t len, uint8_t value);

/* gpu.c: memory of a GPU through the driver. */
void gpu_memory_take(struct buf *buf, size_t bytes);
void gpu_memory_give(const struct buf *buf);
void gpu_memory_read(const struct buf *buf, uint64_t off, void *out, uint64_t len);
void gpu_memory_write(const struct buf *buf, uint64_t off, const void *data, uint64_t len);
void gpu_memory_set(const struct buf *buf, uint64_t off, uint64_t len, uint8_t value);
/* Ends with CHECK_SKIP where the driver or a device of the configuration is missing. Not in a
 * process that is to fork. */
void gpu_look(void);
/* The stand-in's controls; NULL: the driver is a real one, or none is asked for. */
const struct fakecuda *gpu_fake(void);
/* Nothing of the driver is left in this process, as far as one can ask. */
void gpu_check_empty(void);

/*
 * Copies of this process that stand still: of the kind slow, or of all GPUs where the driver is the
 * stand-in. False: there is no such thing in this configuration.
 */
bool hold_possible(void);
void hold_begin(void);
bool hold_begin_near(void);	  /* of the near side alone; false: copies of both would stand */
void hold_await(unsigned copies); /* so many have come since, or more */
bool hold_come(unsigned copies);  /* have they? of GPU memory */
void hold_end(void);
void hold_settle(void); /* after the end: no copy is left */

/* An emulated plugin of this process has no page in use and saw nothing that a right consumer never
 * does; every session is closed. */
void plugin_check(void);
/* Waits, for at most a second, until the library's threads have ended. A session that closes while
 * a copy or a look-up runs ends later, and until then the checks of what is left would find its
 * memory. Some look-ups never end. */
void await_runtime(void);

/* Commands to the far side; what the arguments mean stands at its wrapper below. */
enum far_op {
	FAR_OPEN = 1,
	FAR_CLOSE,
	FAR_CLOSE_SESSION, /* its memory stays until FAR_CLOSE */
	FAR_INFO,
	FAR_ACCEPT,
	FAR_CONNECT,
	FAR_CONNECT_TO,
	FAR_DISCONNECT,
	FAR_FLUSH,
	FAR_EVENT, /* waits for an event of the type arg[0] */
	FAR_COUNTERS,
	FAR_BREACHES,
	FAR_BUF,
	FAR_DEREG,
	FAR_REGISTER,
	FAR_CUT, /* buf_cut() at arg[0] */
	FAR_FILL,
	FAR_PATTERN,
	FAR_BYTES,
	FAR_SLACK,
	FAR_RUN,
	FAR_IMPORT,
	FAR_START,
	FAR_POST,
	FAR_WAIT,
	FAR_CANCEL,
	FAR_RELEASE,
	FAR_NOTIFY_SEND,
	FAR_NOTIFY_TAKE,
	FAR_NOTIFY_DROP,
	FAR_PEER,
	FAR_PLAN,
	FAR_FORK, /* a child that only waits to be killed; value[0]: its pid */
	FAR_EXIT,
};

#define FAR_DATA 4096
#define FAR_BUFS 16
#define FAR_REQUESTS 64
#define FAR_NOTES 2048

/* Bytes of pattern seed at position: fills, compares (index of the first wrong byte or -1). */
void pat_fill(void *ptr, uint64_t len, uint64_t seed, uint64_t position);
int64_t pat_check(const void *ptr, uint64_t len, uint64_t seed, uint64_t position);
/* Index of the first byte that is not value, or -1. */
int64_t byte_check(const void *ptr, uint64_t len, uint8_t value);
void byte_fill(void *ptr, uint64_t len, uint8_t value);
/* Bytes that differ. */
uint64_t byte_differ(const void *one, const void *two, uint64_t len);
/* Length of the longest run of value, which goes on from *inout_run bytes before ptr. */
uint64_t byte_run(const void *ptr, uint64_t len, uint8_t value, uint64_t *inout_run);

struct far_cmd {
	uint32_t op, id;
	uint64_t arg[8];
	uint32_t len;
	_Alignas(16) uint8_t data[FAR_DATA]; /* structs are passed in it */
};

struct far_reply {
	int32_t status;
	uint64_t value[4];
	uint32_t len;
	_Alignas(16) uint8_t data[FAR_DATA]; /* structs are passed in it */
};

struct far_note {
	tcpx_notification note;
	bool held;
};

/* What the far side has. */
struct far_side {
	tcpx_session *session;
	tcpx_peer peer;
	struct buf buf[FAR_BUFS];
	tcpx_region region[FAR_BUFS], remote[FAR_BUFS];
	tcpx_request request[FAR_REQUESTS];
	struct far_note note[FAR_NOTES];
	uint32_t notes;
	int kept; /* the socket of env_tune.keeps_port; 0: none */
};

/* Commands from fd until the near process goes. */
__attribute__((noreturn)) void far_process(int fd);
void far_execute(struct far_side *side, const struct far_cmd *cmd, struct far_reply *reply);

/* The near side: what a case works with. */
struct env {
	tcpx_session *session;
	tcpx_peer peer;
	struct far_side *side; /* one process */
	int fd;		       /* two processes */
	pid_t pid;
	uint8_t info[TCPX_INFO_MAX_BYTES]; /* of the far side */
	size_t info_len;
	uint16_t far_port;
};

/* Session options of this configuration. Keeps pointers. */
void conform_opts(tcpx_session_opts *opts, const char *name);
/* Opens both and connects near to far. */
void env_open(struct env *env);
/* Changes of the near and the far options before env_open. */
struct env_tune {
	uint64_t notify_budget, memory_budget, flags;
	uint32_t channels, chunk_bytes, silent_ms, stopped_ms;
	bool keeps_port; /* far: what it listens at is its own for good, also while closed */
};
void env_open_tuned(struct env *env, const struct env_tune *near, const struct env_tune *far);
/* Starts the far side with its session, does not connect. */
void env_far(struct env *env, const struct env_tune *far);
void env_connect(struct env *env);
void env_close(struct env *env);
/* The address new sessions bind to, and its text for connect_to. */
const char *conform_bind(void);
const char *conform_far(void); /* the far side's first address */
void conform_address(char out[64], uint16_t port);
void conform_near_address(char out[64], uint16_t port);

/* Far commands; those that return void check for success. */
tcpx_status far_call(struct env *env, struct far_cmd *cmd, struct far_reply *reply);
tcpx_status far_simple(struct env *env, enum far_op op, uint32_t id, uint64_t a, uint64_t b,
		       uint64_t c, uint64_t d);
void far_open(struct env *env, const struct env_tune *tune);
/* Every thread of the far process stands still behind it, until SIGCONT. */
void far_stop(struct env *env);
/* Memory id of size bytes at an odd or even place, with rights; the near import is returned. */
tcpx_region far_buf(struct env *env, uint32_t id, uint64_t size, uint32_t rights, size_t lead);
tcpx_region far_file(struct env *env, uint32_t id, uint64_t size, uint32_t rights); /* of a file */
void far_token(struct env *env, uint32_t id, uint32_t rights, uint32_t flags, uint8_t *token);
void far_fill(struct env *env, uint32_t id, uint64_t off, uint64_t len, uint64_t seed,
	      uint64_t position);
/* Index of the first wrong byte at the far side, or -1. */
int64_t far_pattern(struct env *env, uint32_t id, uint64_t off, uint64_t len, uint64_t seed,
		    uint64_t position);
int64_t far_bytes(struct env *env, uint32_t id, uint64_t off, uint64_t len, uint8_t value);
/* Longest run of poison bytes in the first len bytes there. */
uint64_t far_run(struct env *env, uint32_t id, uint64_t len);
bool far_slack(struct env *env, uint32_t id);
/* Gives the near region to the far side as its import id. */
void far_import(struct env *env, uint32_t id, tcpx_region region);
/* Starts op at the far side with its buffer id (whole part off, len) and its import id. */
struct far_start {
	enum tcpx_op op;
	uint32_t buf, remote;
	uint64_t off, len, remote_off;
	int64_t deadline_ns;
	bool notify;
	uint32_t notify_bytes; /* pattern of seed request slot */
};
tcpx_status far_start(struct env *env, uint32_t slot, const struct far_start *what);
tcpx_status far_wait(struct env *env, uint32_t slot, int64_t timeout_ns, uint64_t *out_bytes,
		     uint64_t *out_message_bytes);
/* Takes a notification there; seed: its bytes must be that pattern (0: not checked). Where len is
 * not 0 the far buffer id must already hold pattern want at off. */
struct far_take {
	int64_t timeout_ns;
	uint64_t seed;
	bool hold; /* keep it, released by far_drop */
	uint32_t buf;
	uint64_t off, len, want;
};
tcpx_status far_take(struct env *env, const struct far_take *what, uint64_t *out_bytes);
/* Releases count held notifications, oldest first; 0: all. */
void far_drop(struct env *env, uint32_t count);

/* Near helpers. */
bool conform_plain(void);  /* host memory at both sides */
bool conform_direct(void); /* requests may go without a frame, see engine/path/direct.h */
bool conform_plugin(void); /* large transfers go as messages of a plugin */
bool conform_staged(void); /* at both sides memory that sockets cannot reach */
tcpx_region near_register(struct env *env, const struct buf *buf, uint32_t rights);
tcpx_region near_part(struct env *env, const struct buf *buf, uint64_t off, uint64_t len,
		      uint32_t rights);
/* Memory of the program, where nothing depends on the kind. */
tcpx_region near_host(struct env *env, void *addr, uint64_t len, uint32_t rights);
tcpx_region_opts conform_region(const struct buf *buf, uint32_t rights, uint32_t flags);
/* Prints names and the last error on a mismatch. */
void expect_status(const char *file, int line, const char *text, tcpx_status got, tcpx_status want);
#define EXPECT(expr, want) expect_status(__FILE__, __LINE__, #expr, (expr), (want))
#define OK(expr) EXPECT(expr, TCPX_OK)
bool is_peer_error(tcpx_status status);
/* Waits for the final status of an active request. */
tcpx_status near_wait(struct env *env, tcpx_request request, tcpx_completion *out);
/* prepare + post + wait + release */
tcpx_status near_run(struct env *env, enum tcpx_op op, const tcpx_segment *segments, size_t count,
		     const tcpx_request_opts *opts);
/* A WRITE of 1 MiB whose copy of the source does not end before hold_end(). False: nothing can be
 * held here. */
bool near_held_write(struct env *env, struct buf *out_buf, tcpx_region *out_source,
		     tcpx_request *out_request);
tcpx_status near_take(struct env *env, uint64_t seed, uint64_t *out_bytes);
/* The next event of the type; others are dropped. far_event: its status. */
tcpx_event session_event(tcpx_session *session, enum tcpx_event_type type);
tcpx_event near_event(struct env *env, enum tcpx_event_type type);
tcpx_status far_event(struct env *env, enum tcpx_event_type type);

/* lookup.c: from now on names are looked up when lookup_answer() lets the next one go; all are the
 * far side's, but "nobody" is nobody's. */
void lookup_hold(void);
void lookup_answer(void);

struct case_row {
	const char *name;
	void (*run)(struct env *env);
	int flags;
};

enum case_flags {
	CASE_BARE = 1u << 0,	/* no session is opened for it */
	CASE_ONCE = 1u << 1,	/* does not depend on the configuration */
	CASE_HEAVY = 1u << 2,	/* left out in light configurations */
	CASE_TWO = 1u << 3,	/* needs the far side in a process of its own */
	CASE_KEYLESS = 1u << 4, /* of builds without a crypto library */
	CASE_PLAIN = 1u << 5,	/* of host memory at both sides */
	CASE_GPU = 1u << 6,	/* of GPU memory at the near side */
	CASE_BREAKS = 1u << 7,	/* ends a process that has a plugin, which does not bear it */
	CASE_CRYPTO = 1u << 8,	/* of builds with a crypto library */
	CASE_NEAR = 1u << 9,	/* all in this process, and long: once for each transport */
};

extern const struct case_row cases_connect[], cases_early[], cases_query[], cases_region[],
	cases_bytes[], cases_list[], cases_send[], cases_notify[], cases_patience[], cases_end[],
	cases_reject[], cases_handle[], cases_loop[], cases_life[], cases_threads[],
	cases_deregister[], cases_lease[], cases_keyless[], cases_held[], cases_vanish[],
	cases_again[], cases_queue[], cases_identity[], cases_bound[], cases_late[];

#endif
