/* SPDX-License-Identifier: Apache-2.0 */
/* The options for ncclNet plugins, GPUDirect-TCPX and NIXL, as rows of CONFIG_MAP (config.h). */
#ifndef BASE_CONFIG_PLUGIN_ROWS_H
#define BASE_CONFIG_PLUGIN_ROWS_H

#include "base/config_rows.h"

#define CONFIG_PLUGIN_ROWS(X)                                                                      \
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

#endif
