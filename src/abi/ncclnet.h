/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ABI of ncclNet plugins, versions 6 to 12: constants, properties of devices, the tables that a
 * plugin exports as ncclNetPlugin_v<n>, and the queue in which a plugin of type UNPACK lists the
 * fragments of received messages. Names follow this project's style. The offsets of the properties
 * and the sizes of the tables are asserted; they are the same on x86-64 and aarch64.
 */
#ifndef ABI_NCCLNET_H
#define ABI_NCCLNET_H

#include <stddef.h>
#include <stdint.h>

#define NCCLNET_VERSION_MIN 6
#define NCCLNET_VERSION_MAX 12
#define NCCLNET_HANDLE_BYTES 128
#define NCCLNET_DEVICES_V9 4  /* maximum number of physical devices in a virtual one, v9 to v11 */
#define NCCLNET_DEVICES_V12 8 /* maximum number of physical devices in a virtual one, v12 */

typedef int ncclnet_result; /* a value of enum ncclnet_results, or a number that it does not name */

enum ncclnet_results {
	NCCLNET_OK = 0,
	NCCLNET_ERR_CUDA = 1,
	NCCLNET_ERR_SYSTEM = 2,
	NCCLNET_ERR_INTERNAL = 3,
	NCCLNET_ERR_ARGUMENT = 4,
	NCCLNET_ERR_USAGE = 5,
	NCCLNET_ERR_REMOTE = 6,
	NCCLNET_IN_PROGRESS = 7,
	NCCLNET_ERR_TIMEOUT = 8,
};

enum ncclnet_pointers { NCCLNET_PTR_HOST = 1, NCCLNET_PTR_CUDA = 2, NCCLNET_PTR_DMABUF = 4 };

enum ncclnet_device_types {
	NCCLNET_DEVICE_HOST = 0,
	NCCLNET_DEVICE_UNPACK = 1,
	NCCLNET_DEVICE_GIN_PROXY = 2,
	NCCLNET_DEVICE_GIN_GDAKI = 3,
	NCCLNET_DEVICE_GIN_GPI = 4,
};
#define NCCLNET_UNPACK_VERSION 7

enum ncclnet_log_levels {
	NCCLNET_LOG_NONE = 0,
	NCCLNET_LOG_VERSION = 1,
	NCCLNET_LOG_WARN = 2,
	NCCLNET_LOG_INFO = 3,
	NCCLNET_LOG_ABORT = 4,
	NCCLNET_LOG_TRACE = 5,
};

/* Bits of the logger's argument `flags`, with NCCL's numbers. */
enum ncclnet_log_subsystems {
	NCCLNET_SUB_INIT = 0x1,
	NCCLNET_SUB_COLL = 0x2,
	NCCLNET_SUB_P2P = 0x4,
	NCCLNET_SUB_SHM = 0x8,
	NCCLNET_SUB_NET = 0x10,
	NCCLNET_SUB_GRAPH = 0x20,
	NCCLNET_SUB_TUNING = 0x40,
	NCCLNET_SUB_ENV = 0x80,
	NCCLNET_SUB_ALLOC = 0x100,
	NCCLNET_SUB_CALL = 0x200,
	NCCLNET_SUB_PROXY = 0x400,
	NCCLNET_SUB_NVLS = 0x800,
	NCCLNET_SUB_BOOTSTRAP = 0x1000,
	NCCLNET_SUB_REG = 0x2000,
	NCCLNET_SUB_PROFILE = 0x4000,
	NCCLNET_SUB_RAS = 0x8000,
};

/* The function that a plugin calls to write a log line. `file` may be the name of a function.
 * `format` usually does not end with a newline. */
typedef void (*ncclnet_logger)(int level, unsigned long flags, const char *file, int line,
			       const char *format, ...);

typedef ncclnet_result (*ncclnet_profiler)(void **event, int type, void *parent, int64_t plugin,
					   void *data);

/* Groups of properties of a device that several versions have. Strings belong to the plugin and are
 * static. `speed` is in Mb/s, `latency` in microseconds. */
#define NCCLNET_PROPS_HEAD                                                                         \
	char *name;                                                                                \
	char *pci_path; /* NULL for a virtual device */                                            \
	uint64_t guid;	/* equal for devices of one card */                                        \
	int ptr_support

#define NCCLNET_PROPS_BODY                                                                         \
	int speed;                                                                                 \
	int port;                                                                                  \
	float latency;                                                                             \
	int max_comms;                                                                             \
	int max_recvs

#define NCCLNET_PROPS_DEVICE                                                                       \
	int device_type;                                                                           \
	int device_version

struct ncclnet_props_v6 {
	NCCLNET_PROPS_HEAD;
	NCCLNET_PROPS_BODY;
};

struct ncclnet_props_v7 {
	NCCLNET_PROPS_HEAD;
	NCCLNET_PROPS_BODY;
	NCCLNET_PROPS_DEVICE;
};

struct ncclnet_props_v8 {
	NCCLNET_PROPS_HEAD;
	int reg_is_global;
	NCCLNET_PROPS_BODY;
	NCCLNET_PROPS_DEVICE;
};

struct ncclnet_vprops_v9 {
	int count;
	int devs[NCCLNET_DEVICES_V9];
};

struct ncclnet_vprops_v12 {
	int count;
	int devs[NCCLNET_DEVICES_V12];
};

#define NCCLNET_PROPS_V9(vprops)                                                                   \
	NCCLNET_PROPS_HEAD;                                                                        \
	int reg_is_global;                                                                         \
	int force_flush;                                                                           \
	NCCLNET_PROPS_BODY;                                                                        \
	NCCLNET_PROPS_DEVICE;                                                                      \
	struct vprops parts;                                                                       \
	size_t max_p2p_bytes;                                                                      \
	size_t max_coll_bytes

struct ncclnet_props_v9 { /* also for v10 */
	NCCLNET_PROPS_V9(ncclnet_vprops_v9);
};

struct ncclnet_props_v11 {
	NCCLNET_PROPS_V9(ncclnet_vprops_v9);
	int max_multi_request;
};

struct ncclnet_props_v12 {
	NCCLNET_PROPS_V9(ncclnet_vprops_v12);
	int max_multi_request;
	int16_t rail; /* a number of the plugin, not the glossary's rail; -1 if undefined */
	int16_t plane;
};

/* The device handle that accept and connect fill in, v7 to v12. */
struct ncclnet_device_handle {
	int type;
	int version;
	void *handle; /* UNPACK: device address of a struct ncclnet_queue */
	size_t size;
	int needs_proxy;
};

struct ncclnet_config {	   /* v10: argument of connect; v11, v12: argument of init */
	int traffic_class; /* -1 if undefined */
};

struct ncclnet_attr_side {
	int max_peers, min_peers;
	int max_flows, min_flows;
};

struct ncclnet_attr { /* v11, v12; a field is -1 if undefined */
	struct ncclnet_attr_side send, recv;
	uint32_t op, algorithm, protocol;
};

/*
 * The tables that a plugin exports. Groups of members that several versions have are macros. The
 * argument of NCCLNET_TABLE_REG is the type of reg_mr's size in that version, and the argument of
 * NCCLNET_TABLE_DATA is the type of the sizes of isend and irecv: int or size_t. The argument
 * `handle` of listen and connect has NCCLNET_HANDLE_BYTES bytes.
 */
#define NCCLNET_TABLE_REG(mr_size)                                                                 \
	ncclnet_result (*reg_mr)(void *comm, void *data, mr_size bytes, int type, void **out_mr);  \
	ncclnet_result (*reg_mr_dmabuf)(void *comm, void *data, size_t bytes, int type,            \
					uint64_t offset, int fd, void **out_mr);                   \
	ncclnet_result (*dereg_mr)(void *comm, void *mr)

#define NCCLNET_TABLE_DATA(io_size)                                                                \
	ncclnet_result (*isend)(void *comm, void *data, io_size bytes, int tag, void *mr,          \
				void **out_request);                                               \
	ncclnet_result (*irecv)(void *comm, int count, void **data, io_size *bytes, int *tags,     \
				void **mrs, void **request)

#define NCCLNET_TABLE_DATA_V10                                                                     \
	ncclnet_result (*isend)(void *comm, void *data, size_t bytes, int tag, void *mr,           \
				void *profile, void **out_request);                                \
	ncclnet_result (*irecv)(void *comm, int count, void **data, size_t *bytes, int *tags,      \
				void **mrs, void **profiles, void **request)

#define NCCLNET_TABLE_TEST                                                                         \
	ncclnet_result (*iflush)(void *comm, int count, void **data, int *bytes, void **mrs,       \
				 void **request);                                                  \
	ncclnet_result (*test)(void *request, int *out_done, int *out_bytes);                      \
	ncclnet_result (*close_send)(void *comm);                                                  \
	ncclnet_result (*close_recv)(void *comm);                                                  \
	ncclnet_result (*close_listen)(void *comm)

#define NCCLNET_TABLE_QUEUE                                                                        \
	ncclnet_result (*get_device_mr)(void *comm, void *mr, void **out_device_mr);               \
	ncclnet_result (*irecv_consumed)(void *comm, int count, void *request)

struct ncclnet_table_v6 {
	const char *name;
	ncclnet_result (*init)(ncclnet_logger logger);
	ncclnet_result (*devices)(int *out_count);
	ncclnet_result (*get_properties)(int dev, struct ncclnet_props_v6 *out_props);
	ncclnet_result (*listen)(int dev, void *handle, void **out_comm);
	ncclnet_result (*connect)(int dev, void *handle, void **out_comm);
	ncclnet_result (*accept)(void *listener, void **out_comm);
	NCCLNET_TABLE_REG(int);
	NCCLNET_TABLE_DATA(int);
	NCCLNET_TABLE_TEST;
};

#define NCCLNET_TABLE_SETUP                                                                        \
	ncclnet_result (*listen)(int dev, void *handle, void **out_comm);                          \
	ncclnet_result (*connect)(int dev, void *handle, void **out_comm,                          \
				  struct ncclnet_device_handle **device);                          \
	ncclnet_result (*accept)(void *listener, void **out_comm,                                  \
				 struct ncclnet_device_handle **device)

struct ncclnet_table_v7 {
	const char *name;
	ncclnet_result (*init)(ncclnet_logger logger);
	ncclnet_result (*devices)(int *out_count);
	ncclnet_result (*get_properties)(int dev, struct ncclnet_props_v7 *out_props);
	NCCLNET_TABLE_SETUP;
	NCCLNET_TABLE_REG(int);
	NCCLNET_TABLE_DATA(int);
	NCCLNET_TABLE_TEST;
	NCCLNET_TABLE_QUEUE;
};

struct ncclnet_table_v8 {
	const char *name;
	ncclnet_result (*init)(ncclnet_logger logger);
	ncclnet_result (*devices)(int *out_count);
	ncclnet_result (*get_properties)(int dev, struct ncclnet_props_v8 *out_props);
	NCCLNET_TABLE_SETUP;
	NCCLNET_TABLE_REG(size_t);
	NCCLNET_TABLE_DATA(int);
	NCCLNET_TABLE_TEST;
	NCCLNET_TABLE_QUEUE;
};

struct ncclnet_table_v9 {
	const char *name;
	ncclnet_result (*init)(ncclnet_logger logger);
	ncclnet_result (*devices)(int *out_count);
	ncclnet_result (*get_properties)(int dev, struct ncclnet_props_v9 *out_props);
	NCCLNET_TABLE_SETUP;
	NCCLNET_TABLE_REG(size_t);
	NCCLNET_TABLE_DATA(size_t);
	NCCLNET_TABLE_TEST;
	NCCLNET_TABLE_QUEUE;
	ncclnet_result (*make_virtual)(int *out_dev, struct ncclnet_vprops_v9 *parts);
};

struct ncclnet_table_v10 {
	const char *name;
	ncclnet_result (*init)(ncclnet_logger logger, ncclnet_profiler profiler);
	ncclnet_result (*devices)(int *out_count);
	ncclnet_result (*get_properties)(int dev, struct ncclnet_props_v9 *out_props);
	ncclnet_result (*listen)(int dev, void *handle, void **out_comm);
	ncclnet_result (*connect)(int dev, struct ncclnet_config *config, void *handle,
				  void **out_comm, struct ncclnet_device_handle **device);
	ncclnet_result (*accept)(void *listener, void **out_comm,
				 struct ncclnet_device_handle **device);
	NCCLNET_TABLE_REG(size_t);
	NCCLNET_TABLE_DATA_V10;
	NCCLNET_TABLE_TEST;
	NCCLNET_TABLE_QUEUE;
	ncclnet_result (*make_virtual)(int *out_dev, struct ncclnet_vprops_v9 *parts);
};

#define NCCLNET_TABLE_V11(props, vprops)                                                           \
	const char *name;                                                                          \
	ncclnet_result (*init)(void **out_context, uint64_t id, struct ncclnet_config *config,     \
			       ncclnet_logger logger, ncclnet_profiler profiler);                  \
	ncclnet_result (*devices)(int *out_count);                                                 \
	ncclnet_result (*get_properties)(int dev, struct props *out_props);                        \
	ncclnet_result (*listen)(void *context, int dev, void *handle, void **out_comm);           \
	ncclnet_result (*connect)(void *context, int dev, void *handle, void **out_comm,           \
				  struct ncclnet_device_handle **device);                          \
	ncclnet_result (*accept)(void *listener, void **out_comm,                                  \
				 struct ncclnet_device_handle **device);                           \
	NCCLNET_TABLE_REG(size_t);                                                                 \
	NCCLNET_TABLE_DATA_V10;                                                                    \
	NCCLNET_TABLE_TEST;                                                                        \
	NCCLNET_TABLE_QUEUE;                                                                       \
	ncclnet_result (*make_virtual)(int *out_dev, struct vprops *parts);                        \
	ncclnet_result (*finalize)(void *context);                                                 \
	ncclnet_result (*set_attr)(void *context, struct ncclnet_attr *attr)

struct ncclnet_table_v11 {
	NCCLNET_TABLE_V11(ncclnet_props_v11, ncclnet_vprops_v9);
};

struct ncclnet_table_v12 {
	NCCLNET_TABLE_V11(ncclnet_props_v12, ncclnet_vprops_v12);
};

/* The device queue of a comm that receives, for type UNPACK, version 7. The plugin lists in it
 * where the pieces (fragments) of received messages lie in the bounce pages. */
#define NCCLNET_QUEUE_DEPTH 16	  /* receive k of a comm, from 0, uses entry k % 16 */
#define NCCLNET_QUEUE_PIECES 2048 /* maximum number of pieces of one message */

struct ncclnet_piece {
	uint32_t src; /* offset in the memory of the bounce pages */
	uint32_t len;
	uint64_t dst; /* offset in the buffer of the receive */
};

struct ncclnet_queue_meta {
	struct ncclnet_piece pieces[NCCLNET_QUEUE_DEPTH][NCCLNET_QUEUE_PIECES];
	uint64_t count[NCCLNET_QUEUE_DEPTH];
};

struct ncclnet_queue {
	uint64_t meta;	 /* device address of a struct ncclnet_queue_meta in mapped host memory */
	uint64_t bounce; /* device address of the memory of the bounce pages */
	uint64_t head;	 /* number of consumed receives, counted by the plugin */
};

/* Macros that assert offsets and sizes. Versions of the properties share groups of members; there
 * is a macro for each group. */
#define NCCLNET_AT(version, member, offset)                                                        \
	_Static_assert(offsetof(struct ncclnet_props_v##version, member) == (offset),              \
		       "v" #version " " #member)
#define NCCLNET_SIZE(type, bytes) _Static_assert(sizeof(struct ncclnet_##type) == (bytes), #type)

#define NCCLNET_AT_HEAD(version)                                                                   \
	NCCLNET_AT(version, name, 0);                                                              \
	NCCLNET_AT(version, pci_path, 8);                                                          \
	NCCLNET_AT(version, guid, 16);                                                             \
	NCCLNET_AT(version, ptr_support, 24)
#define NCCLNET_AT_BODY(version, base)                                                             \
	NCCLNET_AT(version, speed, (base));                                                        \
	NCCLNET_AT(version, port, (base) + 4);                                                     \
	NCCLNET_AT(version, latency, (base) + 8);                                                  \
	NCCLNET_AT(version, max_comms, (base) + 12);                                               \
	NCCLNET_AT(version, max_recvs, (base) + 16)
#define NCCLNET_AT_DEVICE(version, base)                                                           \
	NCCLNET_AT(version, device_type, (base));                                                  \
	NCCLNET_AT(version, device_version, (base) + 4)
#define NCCLNET_AT_V9(version)                                                                     \
	NCCLNET_AT_HEAD(version);                                                                  \
	NCCLNET_AT(version, reg_is_global, 28);                                                    \
	NCCLNET_AT(version, force_flush, 32);                                                      \
	NCCLNET_AT_BODY(version, 36);                                                              \
	NCCLNET_AT_DEVICE(version, 56);                                                            \
	NCCLNET_AT(version, parts, 64)

NCCLNET_AT_HEAD(6);
NCCLNET_AT_BODY(6, 28);
NCCLNET_SIZE(props_v6, 48);
NCCLNET_AT_HEAD(7);
NCCLNET_AT_BODY(7, 28);
NCCLNET_AT_DEVICE(7, 48);
NCCLNET_SIZE(props_v7, 56);
NCCLNET_AT_HEAD(8);
NCCLNET_AT(8, reg_is_global, 28);
NCCLNET_AT_BODY(8, 32);
NCCLNET_AT_DEVICE(8, 52);
NCCLNET_SIZE(props_v8, 64);
NCCLNET_AT_V9(9);
NCCLNET_AT(9, max_p2p_bytes, 88);
NCCLNET_AT(9, max_coll_bytes, 96);
NCCLNET_SIZE(props_v9, 104);
NCCLNET_AT_V9(11);
NCCLNET_AT(11, max_p2p_bytes, 88);
NCCLNET_AT(11, max_coll_bytes, 96);
NCCLNET_AT(11, max_multi_request, 104);
NCCLNET_SIZE(props_v11, 112);
NCCLNET_AT_V9(12);
NCCLNET_AT(12, max_p2p_bytes, 104);
NCCLNET_AT(12, max_coll_bytes, 112);
NCCLNET_AT(12, max_multi_request, 120);
NCCLNET_AT(12, rail, 124);
NCCLNET_AT(12, plane, 126);
NCCLNET_SIZE(props_v12, 128);

NCCLNET_SIZE(table_v6, 136);
NCCLNET_SIZE(table_v7, 152);
NCCLNET_SIZE(table_v8, 152);
NCCLNET_SIZE(table_v9, 160);
NCCLNET_SIZE(table_v10, 160);
NCCLNET_SIZE(table_v11, 176);
NCCLNET_SIZE(table_v12, 176);

NCCLNET_SIZE(config, 4);
NCCLNET_SIZE(attr, 44);
NCCLNET_SIZE(device_handle, 32);
_Static_assert(offsetof(struct ncclnet_device_handle, handle) == 8, "device handle");
_Static_assert(offsetof(struct ncclnet_device_handle, size) == 16, "device handle");
_Static_assert(offsetof(struct ncclnet_device_handle, needs_proxy) == 24, "device handle");

NCCLNET_SIZE(piece, 16);
NCCLNET_SIZE(queue, 24);
NCCLNET_SIZE(queue_meta, 524416);
_Static_assert(offsetof(struct ncclnet_queue_meta, count) == 524288, "queue");

#undef NCCLNET_AT_V9
#undef NCCLNET_AT_DEVICE
#undef NCCLNET_AT_BODY
#undef NCCLNET_AT_HEAD
#undef NCCLNET_SIZE
#undef NCCLNET_AT

#endif
