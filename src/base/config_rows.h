/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the library and the tools, as rows of CONFIG_MAP (config.h). */
#ifndef BASE_CONFIG_ROWS_H
#define BASE_CONFIG_ROWS_H

#define CONFIG_KIB 1024ull
#define CONFIG_MIB (1024ull * CONFIG_KIB)
#define CONFIG_GIB (1024ull * CONFIG_MIB)
#define CONFIG_TIB (1024ull * CONFIG_GIB)

/* X(id, name, aliases, type, default, min, max, help). Aliases are separated by a space. */
#define CONFIG_ROWS(X)                                                                             \
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
	  "IP address announced to peers: an own one first, another (NAT) alone; empty: all own")

#endif
