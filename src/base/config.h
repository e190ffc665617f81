/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of all options. Each option is an environment variable. If the API has a field for the
 * option, the field takes precedence over the variable. The variable TCPX_... takes precedence over
 * its aliases, and an earlier alias over a later one. An option with an empty default is 0 or ""
 * when it is unset; the code that reads the option decides what that means.
 */
#ifndef BASE_CONFIG_H
#define BASE_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

/* How the text of an option is parsed, and what config_u64() returns. */
enum config_type {
	CONFIG_BYTES, /* a number of bytes, such as 64K */
	CONFIG_COUNT, /* a number; "auto" is 0, accepted if it is the option's default */
	CONFIG_MS,
	CONFIG_US,
	CONFIG_BOOL,  /* one of 0 1 no yes off on false true */
	CONFIG_LEVEL, /* enum tcpx_log_level by name or number */
	CONFIG_COPY,  /* enum config_copies by name */
	CONFIG_PORTS, /* "lo-hi"; config_u64() returns lo << 16 | hi */
	CONFIG_TEXT,  /* a text of at most `max` bytes */
	CONFIG_PATH,
};

#define CONFIG_KIB 1024ull
#define CONFIG_MIB (1024ull * CONFIG_KIB)
#define CONFIG_GIB (1024ull * CONFIG_MIB)
#define CONFIG_TIB (1024ull * CONFIG_GIB)

/* X(id, name, aliases, type, default, min, max, help). Aliases are separated by a space. */
#define CONFIG_MAP(X)                                                                              \
	X(LOG, "TCPX_LOG", "TCPX_DEBUG UCCL_TCPX_DEBUG UCCL_TCPX_LAUNCH_DEBUG", LEVEL, "warn", 0,  \
	  4, "log level: error, warn, info, debug, trace; 1 in an alias means trace")              \
	X(BIND, "TCPX_BIND", "", TEXT, "", 0, 1023,                                                \
	  "comma list of addresses, subnets, interfaces, eth*, ^docker0; auto: the fast ones; "    \
	  "empty: loopback")                                                                       \
	X(KEY_FILE, "TCPX_KEY_FILE", "", PATH, "", 0, 4095,                                        \
	  "key file that proves peers on a bootstrap port, mode 0600")                             \
	X(IDENTITY_FILE, "TCPX_IDENTITY_FILE", "", PATH, "", 0, 4095,                              \
	  "file of the session's private key, mode 0600; empty: a fresh key for each session")     \
	X(CHANNELS, "TCPX_CHANNELS", "UCCL_TCPX_NUM_CHANNELS TCPX_NUM_CHANNELS", COUNT, "auto", 0, \
	  64, "bulk channels per peer; auto: by the usable cores, 2 to 16")                        \
	X(CHUNK_BYTES, "TCPX_CHUNK_BYTES", "UCCL_TCPX_CHUNK_BYTES NCCL_P2P_NET_CHUNKSIZE", BYTES,  \
	  "512K", 4 * CONFIG_KIB, 16 * CONFIG_MIB, "most bytes put on a channel at once")          \
	X(WORKERS, "TCPX_WORKERS", "", COUNT, "auto", 0, 64,                                       \
	  "threads of the process-wide runtime; auto: by the usable cores")                        \
	X(PIN, "TCPX_PIN", "", BOOL, "1", 0, 1,                                                    \
	  "with several NUMA nodes: run threads on the node of their NIC or GPU")                  \
	X(INLINE_BYTES, "TCPX_INLINE_BYTES", "", BYTES, "8K", 0, 8 * CONFIG_KIB,                   \
	  "a post sends transfers up to this size on the caller's thread; 0: never")               \
	X(BUSY_POLL, "TCPX_BUSY_POLL", "", BOOL, "0", 0, 1,                                        \
	  "waiters and workers spin instead of sleeping")                                          \
	X(SPIN_US, "TCPX_SPIN_US", "", US, "50", 0, 10000,                                         \
	  "how long the owner thread of a GPU polls before it sleeps; 0 on few cores")             \
	X(SILENT_MS, "TCPX_SILENT_MS", "", MS, "5000", 1000, 60000,                                \
	  "a peer that sends nothing for this long counts as dead")                                \
	X(STOPPED_MS, "TCPX_STOPPED_MS", "", MS, "10000", 3000, 600000,                            \
	  "a peer whose kernel answers and whose process does not counts as dead after this time") \
	X(GOODBYE_MS, "TCPX_GOODBYE_MS", "", MS, "100", 1, 10000,                                  \
	  "how long a request waits for a goodbye after the peer deregistered its region")         \
	X(MAX_PEERS, "TCPX_MAX_PEERS", "", COUNT, "4096", 1, 1u << 20,                             \
	  "most inbound peers of a session at a time")                                             \
	X(NOTIFY_BUDGET, "TCPX_NOTIFY_BUDGET_BYTES", "", BYTES, "128M", 64 * CONFIG_KIB,           \
	  64 * CONFIG_GIB, "unread notifications kept for each peer")                              \
	X(MEMORY_BUDGET, "TCPX_MEMORY_BUDGET_BYTES", "", BYTES, "1G", 16 * CONFIG_MIB,             \
	  16 * CONFIG_TIB, "memory of the library for one session")                                \
	X(STAGING_BYTES, "TCPX_STAGING_BYTES", "", BYTES, "128M", 8 * CONFIG_MIB, 4 * CONFIG_GIB,  \
	  "pinned host memory for each GPU and direction, from its first registration on")         \
	X(LOCAL, "TCPX_LOCAL", "", BOOL, "1", 0, 1, "use the same-host transport within a host")   \
	X(ONE_COPY, "TCPX_ONE_COPY", "", BOOL, "0", 0, 1,                                          \
	  "same host: copy once, directly from the peer's memory, under a lease")                  \
	X(TCP_SPLICE, "TCPX_TCP_SPLICE", "", BOOL, "1", 0, 1,                                      \
	  "tcp: send staged memory to the socket without a copy")                                  \
	X(GPU_PEER, "TCPX_GPU_PEER", "", BOOL, "1", 0, 1,                                          \
	  "same host: a GPU copies directly from another one's memory, or within its own")         \
	X(STRICT_CANCEL, "TCPX_STRICT_CANCEL", "TCPX_STRICT_ABORT", BOOL, "0", 0, 1,               \
	  "a cancelled WRITE ends only when none of its bytes can arrive any more")                \
	X(CONGESTION, "TCPX_CONGESTION", "", TEXT, "", 0, 15,                                      \
	  "congestion control of data channels; empty: the system's, but no bbr over loopback")    \
	X(PORT_BASE, "TCPX_PORT_BASE", "UCCL_TCPX_BOOTSTRAP_PORT_BASE TCPX_BOOTSTRAP_PORT_BASE",   \
	  COUNT, "20000", 1, 65535, "first port of the bootstrap: base + index")                   \
	X(PORT_RETRIES, "TCPX_PORT_RETRIES", "UCCL_TCPX_PORT_RETRIES", COUNT, "16", 0, 1000,       \
	  "further ports tried when one is taken")                                                 \
	X(OOB_PORT, "TCPX_OOB_PORT", "UCCL_TCPX_OOB_PORT UCCL_TCPX_CTRL_PORT UCCL_TCP_OOB_PORT",   \
	  COUNT, "0", 0, 65535, "port to listen on instead of the port base; 0: the base")         \
	X(SOURCE_PORTS, "TCPX_SOURCE_PORTS", "", PORTS, "", 1, 65535,                              \
	  "local ports of outgoing connections, \"lo-hi\"; empty: the system's choice")            \
	X(BIND_DEVICE, "TCPX_BIND_DEVICE", "", TEXT, "", 0, 15,                                    \
	  "interface or VRF that all sockets except loopback's are bound to; empty: none")         \
	X(CUDA_LIBRARY, "TCPX_CUDA_LIBRARY", "", PATH, "libcuda.so.1", 1, 4095,                    \
	  "the CUDA driver to load")                                                               \
	X(CRYPTO_LIBRARY, "TCPX_CRYPTO_LIBRARY", "", PATH, "libcrypto.so.3", 1, 4095,              \
	  "OpenSSL's libcrypto to load, which authenticates peers; without it loopback only")      \
	X(NVML_LIBRARY, "TCPX_NVML_LIBRARY", "", PATH, "libnvidia-ml.so.1", 1, 4095,               \
	  "tools: NVIDIA's management library to load, for the names of GPUs")                     \
	X(GPU_COPY, "TCPX_GPU_COPY", "", COPY, "auto", 0, 2,                                       \
	  "how GPU memory is copied: copy engine, kernel, or auto: a kernel if it is "             \
	  "scattered")                                                                             \
	X(GPU_SMS, "TCPX_GPU_SMS", "", COUNT, "16", 1, 64,                                         \
	  "same host: most SMs that copy pieces between GPUs or within one, while they are "       \
	  "copied")                                                                                \
	X(PERF, "TCPX_PERF", "UCCL_TCPX_PERF", BOOL, "0", 0, 1,                                    \
	  "tools print the [PERF] lines, as with --perf-lines")                                    \
	X(TRACE, "TCPX_TRACE", "", PATH, "", 0, 1000,                                              \
	  "file that records the calls into plugins (tcpx trace), %p: the process; empty: none")   \
	X(TRACE_PLUGIN, "TCPX_TRACE_PLUGIN", "", PATH, "", 0, 1000,                                \
	  "tracer objects: the real plugin, to which they forward each call")                      \
	X(TRACE_RECORDS, "TCPX_TRACE_RECORDS", "", COUNT, "16384", 64, 16777216,                   \
	  "records in the ring of a traced thread, rounded up to a power of two")                  \
	X(RECIPE_FILE, "TCPX_RECIPE_FILE", "", PATH, "", 0, 4095,                                  \
	  "tools append the environment that they set for a plugin (tcpx diag collect)")           \
	X(PERF_SIZE, "TCPX_PERF_SIZE", "UCCL_TCPX_PERF_SIZE", BYTES, "", 1, 1 * CONFIG_TIB,        \
	  "tcpx perf: size without --size; empty: 64K:256M:x4, or 8 for latency and notify")       \
	X(PERF_ITERS, "TCPX_PERF_ITERS", "UCCL_TCPX_PERF_ITERS", COUNT, "", 1, 1000000000,         \
	  "tcpx perf: transfers of a row without --iters; empty: as many as --time allows")        \
	X(RANK, "TCPX_RANK", "", COUNT, "", 0, 1048576,                                            \
	  "tools: rank of this process among TCPX_SIZE, from 0; empty: the launcher's")            \
	X(SIZE, "TCPX_SIZE", "", COUNT, "", 0, 1048576,                                            \
	  "tools: number of processes that run together")                                          \
	X(LOCAL_RANK, "TCPX_LOCAL_RANK", "", COUNT, "", 0, 1048576,                                \
	  "tools: rank among the TCPX_LOCAL_SIZE processes of this host, from 0")                  \
	X(LOCAL_SIZE, "TCPX_LOCAL_SIZE", "", COUNT, "", 0, 1048576,                                \
	  "tools: number of these processes on this host")                                         \
	X(JOB, "TCPX_JOB", "", TEXT, "", 0, 79,                                                    \
	  "tools: unique name of this run, the same in all of its processes")                      \
	X(RENDEZVOUS, "TCPX_RENDEZVOUS", "", TEXT, "", 0, 255,                                     \
	  "tools: where ranks meet, HOST:PORT of rank 0 or a path that all of them share")         \
	X(HOSTFILE, "TCPX_HOSTFILE", "HOSTFILE", PATH, "", 0, 4095,                                \
	  "tools: file of host addresses, one per line; the line of an own address is the rank")   \
	X(ADVERTISE, "TCPX_ADVERTISE", "", TEXT, "", 0, 511,                                       \
	  "addresses announced to peers, HOST[:PORT][,...], instead of our own; empty: our own")   \
	X(CTRL_IP, "TCPX_CTRL_IP", "UCCL_TCPX_CTRL_IP", TEXT, "", 0, 63,                           \
	  "IP address announced to peers: an own one first, another (NAT) alone; empty: all own")  \
	X(LOCAL_DEVICE, "TCPX_LOCAL_DEVICE",                                                       \
	  "UCCL_TCPX_LOCAL_DEVICE TCPX_DEVICE_IDX UCCL_TCPX_DEVICE_IDX UCCL_NCCL_DEVICE", COUNT,   \
	  "0", 0, 1023, "gpudirect: the GPU whose memory the plugin sends and receives")           \
	X(PLUGIN, "TCPX_PLUGIN", "", PATH, "", 0, 4095,                                            \
	  "ncclNet plugin for plugin channels, \"default\": GPUDirect-TCPX; "                      \
	  "empty: none")                                                                           \
	X(NIC, "TCPX_NIC", "", TEXT, "", 0, 255,                                                   \
	  "the plugin's devices, a comma list or \"all\"; empty: the GPU's own, or the first")     \
	X(PAIRING, "TCPX_PAIRING", "", BOOL, "1", 0, 1,                                            \
	  "gpudirect: receive only through the GPU's own NIC, or by relay")                        \
	X(GPUDIRECT_SAME_HOST, "TCPX_GPUDIRECT_SAME_HOST", "", BOOL, "0", 0, 1,                    \
	  "gpudirect: use it with a peer on this host too, as tests with the emulator do")         \
	X(GPUDIRECT_COVER, "TCPX_GPUDIRECT_COVER", "", BOOL, "1", 0, 1,                            \
	  "gpudirect: ask the GPU driver for a dma-buf before the plugin registers memory")        \
	X(DEVMEM_STATS, "TCPX_DEVMEM_STATS", "", PATH, "", 0, 255,                                 \
	  "gpudirect: file to read rx_devmem_pkts from, %s is the NIC; empty: the kernel")         \
	X(SYSFS, "TCPX_SYSFS", "", PATH, "/sys", 1, 4095,                                          \
	  "root of the sysfs tree that describes the machine")                                     \
	X(PLUGIN_CHANNELS, "TCPX_PLUGIN_CHANNELS", "", COUNT, "4", 1, 63,                          \
	  "plugin channels per peer; the smaller value of the two ends counts")                    \
	X(PLUGIN_TRUST_PEERS, "TCPX_PLUGIN_TRUST_PEERS", "", BOOL, "0", 0, 1,                      \
	  "accept handles of plugins other than TCPX from peers without a key file, too")          \
	X(PLUGIN_HOST, "TCPX_PLUGIN_HOST", "", BOOL, "0", 0, 1,                                    \
	  "send host memory through the plugin even if it is made for GPU memory")                 \
	X(MESSAGE_BYTES, "TCPX_MESSAGE_BYTES", "", BYTES, "512K", 16 * CONFIG_KIB,                 \
	  16 * CONFIG_MIB,                                                                         \
	  "most bytes of a plugin message; the smaller value of the two ends counts")              \
	X(MESSAGE_ABOVE, "TCPX_MESSAGE_ABOVE", "", BYTES, "16K", 0, 16 * CONFIG_MIB,               \
	  "larger transfers use the plugin if their pieces average as many bytes; 0: all do")      \
	X(PLUGIN_TIMEOUT_MS, "TCPX_PLUGIN_TIMEOUT_MS", "", MS, "20000", 100, 600000,               \
	  "time limit for loading a plugin, and for the setup of a plugin channel")                \
	X(MESSAGE_TIMEOUT_MS, "TCPX_MESSAGE_TIMEOUT_MS", "", MS, "10000", 100, 600000,             \
	  "a message without progress for this long ends its plugin channel")                      \
	X(PLUGIN_REST_MS, "TCPX_PLUGIN_REST_MS", "", MS, "60000", 100, 3600000,                    \
	  "pause of a plugin channel that came up four times and carried nothing")                 \
	X(MAX_SEND_INFLIGHT, "TCPX_MAX_SEND_INFLIGHT", "UCCL_TCPX_MAX_SEND_INFLIGHT", COUNT, "12", \
	  1, 16,                                                                                   \
	  "unacknowledged messages of a plugin channel; the smaller value of the two ends counts") \
	X(MAX_RECV_INFLIGHT, "TCPX_MAX_RECV_INFLIGHT", "UCCL_TCPX_MAX_RECV_INFLIGHT", COUNT, "14", \
	  1, 16, "received, not consumed messages of a plugin channel; the smaller value counts")  \
	X(UNPACK_IMPL, "TCPX_UNPACK_IMPL", "UCCL_TCPX_UNPACK_IMPL", TEXT, "kernel", 0, 15,         \
	  "gpudirect: kernel, d2d, host, cpu, none (received bytes are dropped), host-recv")       \
	X(HOST_RECV_DEBUG, "TCPX_HOST_RECV_DEBUG", "UCCL_TCPX_HOST_RECV_DEBUG", BOOL, "0", 0, 1,   \
	  "gpudirect: receive into pinned host memory, as TCPX_UNPACK_IMPL=host-recv")             \
	X(NIXL_TRANSPORT, "TCPX_NIXL_TRANSPORT", "", TEXT, "auto", 0, 15,                          \
	  "NIXL plugin: auto, tcp, local (this host only), gpudirect (needs TCPX_PLUGIN)")         \
	X(NIXL_PORT, "TCPX_NIXL_PORT", "", COUNT, "0", 0, 65535,                                   \
	  "NIXL plugin: port to listen on, TCPX_PORT_RETRIES more are tried; 0: any free one")     \
	X(NIXL_EAGER_CONNECT, "TCPX_NIXL_EAGER_CONNECT", "", BOOL, "1", 0, 1,                      \
	  "NIXL plugin: connect when an agent's metadata is loaded; 0: with the first request")    \
	X(PLUGIN_PATH, "TCPX_PLUGIN_PATH", "UCCL_TCPX_PLUGIN_PATH", PATH,                          \
	  "/usr/local/tcpx/lib64/libnccl-net-tcpx.so", 0, 4095,                                    \
	  "file that \"default\" means; by default /var/lib/tcpx/lib64 is tried, too")

enum config_id {
#define CONFIG_ENUM(id, ...) CONFIG_##id,
	CONFIG_MAP(CONFIG_ENUM)
#undef CONFIG_ENUM
		CONFIG_IDS,
};

/* Values of a CONFIG_COPY option. */
enum config_copies { CONFIG_COPIES_AUTO, CONFIG_COPIES_ENGINE, CONFIG_COPIES_KERNEL };

/* Where a value comes from. CONFIG_SET stands for a call of config_set(). */
enum config_source { CONFIG_DEFAULT, CONFIG_ENVIRONMENT, CONFIG_ALIAS, CONFIG_SET };

/* A row of the table of options. */
struct config_row {
	const char *name, *aliases;
	enum config_type type;
	const char *default_text;
	uint64_t min, max; /* limits of the value; for TEXT and PATH, of its length */
	const char *help;
};

/* The value of an option. */
struct config_value {
	uint64_t u64;	  /* the parsed value; for TEXT and PATH, its length */
	const char *text; /* the value as text: as the user wrote it, or the default */
	enum config_source source;
	/* name of the variable whose text was refused, up to a blank or NUL; NULL if none was */
	const char *wrong;
	const char *wrong_text;
};

/* Return the value in force in this process: the one that config_set() set last, otherwise the one
 * from the environment, otherwise the default. The first access to any option reads the
 * environment; later changes of the environment are ignored. The struct or text that a pointer
 * leads to never changes; config_set() makes another one. Any thread. */
uint64_t config_u64(enum config_id id);
int config_bool(enum config_id id);
const char *config_text(enum config_id id); /* never NULL; "" if unset and without a default */
const struct config_value *config_value(enum config_id id);

/* Sets an option, whatever the environment says. The text "" sets the default. Returns
 * ERR_NOT_FOUND if there is no such option, ERR_INVALID if the text is malformed or out of range,
 * ERR_NO_MEMORY, or ERR_STATE if the value would change after config_fix(). Any thread. */
tcpx_status config_set(const char *name, const char *text);
/* Checks whether config_set() would accept the text. Returns OK, ERR_NOT_FOUND or ERR_INVALID as
 * config_set() does, whether config_fix() was called or not. *out_u64 becomes what config_u64()
 * would return. */
tcpx_status config_check(const char *name, const char *text, uint64_t *out_u64);
/* After this call config_set() refuses every change. */
void config_fix(void);

const struct config_row *config_row(unsigned index); /* NULL if there is no such row */
const char *config_type_name(enum config_type type);
const char *config_range(unsigned index); /* such as "4K..16M"; never freed */

/* Finds the value of an option. The function `get` returns the text of a variable, or NULL. If that
 * text is wrong, the default stays in force, and out->wrong names the variable. Texts in *out may
 * point to what `get` returned. */
void config_resolve(const struct config_row *row, const char *(*get)(const char *name),
		    struct config_value *out);

/* Parses the text of an option. Returns 0, or -1 if the text is malformed or out of range. is_alias
 * is 1 if the text comes from an alias. The alias of an option of type LEVEL may also be an on/off
 * flag. */
int config_parse(const struct config_row *row, int is_alias, const char *text, uint64_t *out_value);

/* Whether the name is that of an option or an alias, or of another variable that begins with TCPX_
 * or UCCL_TCPX_ and that known scripts or plugins read. */
int config_known(const char *name, size_t len);
/* Returns the name of the option whose name or alias has the smallest edit distance to `name`; the
 * prefixes TCPX_ and UCCL_TCPX_ do not count. Returns "" if none is similar. */
const char *config_nearest(const char *name, size_t len);

#endif
