/* SPDX-License-Identifier: Apache-2.0 */
/* ncclNet plugins: what one offers. */
#ifndef TCPX_PLUGIN_H
#define TCPX_PLUGIN_H

#include <tcpx/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A plugin as tcpx_plugin_query() finds it. */
typedef struct tcpx_plugin_info {
	size_t sz;	     /**< set by the caller */
	char resolved[1024]; /**< the file behind the path */
	char name[64];	     /**< the plugin's name for itself */
	uint32_t version;    /**< of the ncclNet table in use, 6..12: the newest that it has */
	uint32_t versions;   /**< of all tables that it has: bit v for version v */
	uint32_t devices;    /**< number of network devices */
	uint32_t consumes;   /**< 1: received messages are given back by irecvConsumed */
} tcpx_plugin_info;

/** Bits of tcpx_plugin_device.pointers: memory that the plugin sends from and receives into. */
enum tcpx_plugin_pointers {
	TCPX_PLUGIN_HOST = 1u << 0,
	TCPX_PLUGIN_CUDA = 1u << 1,
	TCPX_PLUGIN_DMABUF = 1u << 2,
};

/** A network device of a plugin. */
typedef struct tcpx_plugin_device {
	size_t sz; /**< set by the caller */
	char name[64];
	char pci_path[256];   /**< in /sys; "" for one that is on no bus */
	uint32_t pointers;    /**< enum tcpx_plugin_pointers */
	uint32_t speed_mbps;  /**< 0: not known */
	uint32_t max_comms;   /**< most comms at a time; 0: not known */
	uint32_t unpack;      /**< 1: what arrives lies in pages and must be unpacked by the GPU */
	uint64_t message_max; /**< most bytes of one message */
} tcpx_plugin_device;

/**
 * Loads and starts an ncclNet plugin, if this process has not done so, and describes it. The plugin
 * stays loaded, because its own threads run its code.
 * @param path       of the plugin; NULL: where a TCPX plugin is installed
 * @param timeout_ns > 0; loading and starting run on a thread of their own, which goes on if they
 *                   take longer
 * @param out_info   written on success
 * @return TCPX_OK; ERR_INVALID; ERR_NOT_FOUND (no such file); ERR_UNSUPPORTED (it cannot be loaded,
 *         does not start, or has no device); ERR_VERSION (it has no known table, or one that
 *         does not match its version); ERR_TIMED_OUT; ERR_LIMIT; ERR_FORKED. @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_plugin_query(const char *path, int64_t timeout_ns,
						       tcpx_plugin_info *out_info);

/** Describes device number `index`, from 0, of a plugin, which is loaded as by tcpx_plugin_query().
 * @return as tcpx_plugin_query(), and ERR_RANGE past the last device. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_plugin_device_get(const char *path, int64_t timeout_ns,
							    uint32_t index,
							    tcpx_plugin_device *out_device);

/** A variable of the environment that a TCPX plugin reads, and a value for it. */
typedef struct tcpx_plugin_setting {
	size_t sz; /**< set by the caller; in an array, that of the first counts */
	char name[64];
	char value[512]; /**< a value that works on this machine, or the one that is set */
	uint32_t users;	 /**< 1: the variable is set, and `value` is what it is set to */
	char why[128];	 /**< reason for the value */
} tcpx_plugin_setting;

/** Something in the environment that disturbs a TCPX plugin. */
typedef struct tcpx_plugin_problem {
	size_t sz;	/**< set by the caller; in an array, that of the first counts */
	uint32_t fatal; /**< 1: the plugin would hang, fail or end the process; 0: a hint */
	char what[256];
	char fix[576]; /**< the line to use: "export NAME=VALUE", "unset NAME" */
} tcpx_plugin_problem;

#define TCPX_PLUGIN_SETTINGS_MAX 32 /**< most settings that this version lists */
#define TCPX_PLUGIN_PROBLEMS_MAX 32 /**< most problems that this version lists */

/**
 * Lists the variables that a TCPX plugin needs on this machine, with values for its NICs and GPUs,
 * and further variables of the plugin that are set. The library sets none of them. A program may
 * set them before the plugin is loaded (the plugin reads them once) and while no other thread uses
 * the environment.
 * @param message_bytes most bytes of a message; 0: TCPX_MESSAGE_BYTES. If NCCL_DYNAMIC_CHUNK_SIZE
 *                      is set and smaller, it is used instead
 * @param settings      array of `max`; sz of the first one is the size of each
 * @param max           1 or more; TCPX_PLUGIN_SETTINGS_MAX is enough for all
 * @param out_count     how many were written
 * @return TCPX_OK; ERR_INVALID; ERR_NO_MEMORY; ERR_SYSTEM. @threads any; asks RxDM, up to two
 *         seconds.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_plugin_settings(uint64_t message_bytes,
							  tcpx_plugin_setting *settings,
							  uint32_t max, uint32_t *out_count);

/**
 * Lists what is wrong for a TCPX plugin in the present environment, fatal problems first. While
 * there is a fatal one, no session with a TCPX plugin can be opened.
 * @param nics          NICs to use, a comma list; NULL: those of the machine's GPUs
 * @param message_bytes as for tcpx_plugin_settings()
 * @param problems      array of `max`; sz of the first one is the size of each
 * @param max           1 or more; TCPX_PLUGIN_PROBLEMS_MAX is enough for all
 * @param out_count     how many were written; 0: nothing is wrong
 * @return as tcpx_plugin_settings(). @threads any; asks RxDM, up to two seconds.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_plugin_problems(const char *nics, uint64_t message_bytes,
							  tcpx_plugin_problem *problems,
							  uint32_t max, uint32_t *out_count);

#ifdef __cplusplus
}
#endif
#endif
