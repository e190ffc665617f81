/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ncclNet as a plugin sees it, v6 to v12. Declared here a second time, apart from the consumer's
 * declarations, so that an error in either shows where the two meet.
 */
#ifndef EMU_ABI_H
#define EMU_ABI_H

#include "emu.h"

struct emu_props_v6 {
	char *name, *pci_path;
	uint64_t guid;
	int ptr_support, speed, port;
	float latency;
	int max_comms, max_recvs;
};
struct emu_props_v7 {
	char *name, *pci_path;
	uint64_t guid;
	int ptr_support, speed, port;
	float latency;
	int max_comms, max_recvs, device_type, device_version;
};
struct emu_props_v8 {
	char *name, *pci_path;
	uint64_t guid;
	int ptr_support, reg_is_global, speed, port;
	float latency;
	int max_comms, max_recvs, device_type, device_version;
};
struct emu_props_v9 { /* v10 too */
	char *name, *pci_path;
	uint64_t guid;
	int ptr_support, reg_is_global, force_flush, speed, port;
	float latency;
	int max_comms, max_recvs, device_type, device_version;
	int virtual_count, virtual_devs[4];
	size_t max_p2p_bytes, max_coll_bytes;
};
struct emu_props_v11 {
	struct emu_props_v9 v9;
	int max_multi_request;
};
struct emu_props_v12 {
	char *name, *pci_path;
	uint64_t guid;
	int ptr_support, reg_is_global, force_flush, speed, port;
	float latency;
	int max_comms, max_recvs, device_type, device_version;
	int virtual_count, virtual_devs[8];
	size_t max_p2p_bytes, max_coll_bytes;
	int max_multi_request;
	int16_t rail, plane;
};
_Static_assert(sizeof(struct emu_props_v6) == 48, "v6");
_Static_assert(sizeof(struct emu_props_v7) == 56, "v7");
_Static_assert(sizeof(struct emu_props_v8) == 64, "v8");
_Static_assert(sizeof(struct emu_props_v9) == 104, "v9");
_Static_assert(sizeof(struct emu_props_v11) == 112, "v11");
_Static_assert(sizeof(struct emu_props_v12) == 128, "v12");
_Static_assert(offsetof(struct emu_props_v9, virtual_count) == 64, "v9");
_Static_assert(offsetof(struct emu_props_v9, max_p2p_bytes) == 88, "v9");
_Static_assert(offsetof(struct emu_props_v12, max_p2p_bytes) == 104, "v12");
_Static_assert(offsetof(struct emu_props_v12, rail) == 124, "v12");

/* The members that no version changed between v6 and v12 are written once. */
#define EMU_TABLE_MR                                                                               \
	int (*reg_mr_dmabuf)(void *comm, void *data, size_t size, int type, uint64_t offset,       \
			     int fd, void **mr);                                                   \
	int (*dereg_mr)(void *comm, void *mr)
#define EMU_TABLE_END                                                                              \
	int (*iflush)(void *comm, int n, void **data, int *sizes, void **mrs, void **request);     \
	int (*test)(void *request, int *done, int *sizes);                                         \
	int (*close_send)(void *comm);                                                             \
	int (*close_recv)(void *comm);                                                             \
	int (*close_listen)(void *comm)
#define EMU_TABLE_DEVICE                                                                           \
	int (*get_device_mr)(void *comm, void *mr, void **out);                                    \
	int (*irecv_consumed)(void *comm, int n, void *request)

struct emu_table_v6 {
	const char *name;
	int (*init)(emu_logger logger);
	int (*devices)(int *out);
	int (*get_properties)(int dev, struct emu_props_v6 *out);
	int (*listen)(int dev, void *handle, void **out);
	int (*connect)(int dev, void *handle, void **out);
	int (*accept)(void *listen, void **out);
	int (*reg_mr)(void *comm, void *data, int size, int type, void **mr);
	EMU_TABLE_MR;
	int (*isend)(void *comm, void *data, int size, int tag, void *mr, void **request);
	int (*irecv)(void *comm, int n, void **data, int *sizes, int *tags, void **mrs,
		     void **request);
	EMU_TABLE_END;
};

#define EMU_TABLE_V7_V8(version, size_type)                                                        \
	struct emu_table_v##version {                                                              \
		const char *name;                                                                  \
		int (*init)(emu_logger logger);                                                    \
		int (*devices)(int *out);                                                          \
		int (*get_properties)(int dev, struct emu_props_v##version *out);                  \
		int (*listen)(int dev, void *handle, void **out);                                  \
		int (*connect)(int dev, void *handle, void **out,                                  \
			       struct emu_device_handle **devhandle);                              \
		int (*accept)(void *listen, void **out, struct emu_device_handle **devhandle);     \
		int (*reg_mr)(void *comm, void *data, size_type size, int type, void **mr);        \
		EMU_TABLE_MR;                                                                      \
		int (*isend)(void *comm, void *data, int size, int tag, void *mr, void **request); \
		int (*irecv)(void *comm, int n, void **data, int *sizes, int *tags, void **mrs,    \
			     void **request);                                                      \
		EMU_TABLE_END;                                                                     \
		EMU_TABLE_DEVICE;                                                                  \
	}
EMU_TABLE_V7_V8(7, int);
EMU_TABLE_V7_V8(8, size_t);

struct emu_table_v9 {
	const char *name;
	int (*init)(emu_logger logger);
	int (*devices)(int *out);
	int (*get_properties)(int dev, struct emu_props_v9 *out);
	int (*listen)(int dev, void *handle, void **out);
	int (*connect)(int dev, void *handle, void **out, struct emu_device_handle **devhandle);
	int (*accept)(void *listen, void **out, struct emu_device_handle **devhandle);
	int (*reg_mr)(void *comm, void *data, size_t size, int type, void **mr);
	EMU_TABLE_MR;
	int (*isend)(void *comm, void *data, size_t size, int tag, void *mr, void **request);
	int (*irecv)(void *comm, int n, void **data, size_t *sizes, int *tags, void **mrs,
		     void **request);
	EMU_TABLE_END;
	EMU_TABLE_DEVICE;
	int (*make_virtual)(int *out_dev, void *props);
};

/* The isend and irecv of v10 and newer carry a profiler's handle. */
#define EMU_TABLE_DATA_V10                                                                         \
	int (*isend)(void *comm, void *data, size_t size, int tag, void *mr, void *profile,        \
		     void **request);                                                              \
	int (*irecv)(void *comm, int n, void **data, size_t *sizes, int *tags, void **mrs,         \
		     void **profiles, void **request)

struct emu_table_v10 {
	const char *name;
	int (*init)(emu_logger logger, void *profiler);
	int (*devices)(int *out);
	int (*get_properties)(int dev, struct emu_props_v9 *out);
	int (*listen)(int dev, void *handle, void **out);
	int (*connect)(int dev, void *config, void *handle, void **out,
		       struct emu_device_handle **devhandle);
	int (*accept)(void *listen, void **out, struct emu_device_handle **devhandle);
	int (*reg_mr)(void *comm, void *data, size_t size, int type, void **mr);
	EMU_TABLE_MR;
	EMU_TABLE_DATA_V10;
	EMU_TABLE_END;
	EMU_TABLE_DEVICE;
	int (*make_virtual)(int *out_dev, void *props);
};

#define EMU_TABLE_V11_V12(version)                                                                 \
	struct emu_table_v##version {                                                              \
		const char *name;                                                                  \
		int (*init)(void **ctx, uint64_t id, void *config, emu_logger logger,              \
			    void *profiler);                                                       \
		int (*devices)(int *out);                                                          \
		int (*get_properties)(int dev, struct emu_props_v##version *out);                  \
		int (*listen)(void *ctx, int dev, void *handle, void **out);                       \
		int (*connect)(void *ctx, int dev, void *handle, void **out,                       \
			       struct emu_device_handle **devhandle);                              \
		int (*accept)(void *listen, void **out, struct emu_device_handle **devhandle);     \
		int (*reg_mr)(void *comm, void *data, size_t size, int type, void **mr);           \
		EMU_TABLE_MR;                                                                      \
		EMU_TABLE_DATA_V10;                                                                \
		EMU_TABLE_END;                                                                     \
		EMU_TABLE_DEVICE;                                                                  \
		int (*make_virtual)(int *out_dev, void *props);                                    \
		int (*finalize)(void *ctx);                                                        \
		int (*set_attr)(void *ctx, void *attr);                                            \
	}
EMU_TABLE_V11_V12(11);
EMU_TABLE_V11_V12(12);

_Static_assert(sizeof(struct emu_table_v6) == 136, "v6");
_Static_assert(sizeof(struct emu_table_v7) == 152, "v7");
_Static_assert(sizeof(struct emu_table_v8) == 152, "v8");
_Static_assert(sizeof(struct emu_table_v9) == 160, "v9");
_Static_assert(sizeof(struct emu_table_v10) == 160, "v10");
_Static_assert(sizeof(struct emu_table_v11) == 176, "v11");
_Static_assert(sizeof(struct emu_table_v12) == 176, "v12");

/* emu_api.c: the calls as most versions have them. */
#define EMU_NAME "GPUDirectTCPX_v7"
extern char emu_api_name[64];
int emu_api_props(int dev, struct emu_props_v12 *out);
int emu_api_connect(int dev, void *handle, void **out, struct emu_device_handle **devhandle);
int emu_api_regmr_int(void *comm, void *data, int size, int type, void **mr);
int emu_api_isend_int(void *comm, void *data, int size, int tag, void *mr, void **request);
int emu_api_irecv_int(void *comm, int n, void **data, int *sizes, int *tags, void **mrs,
		      void **request);
int emu_api_isend(void *comm, void *data, size_t size, int tag, void *mr, void **request);
int emu_api_irecv(void *comm, int n, void **data, size_t *sizes, int *tags, void **mrs,
		  void **request);
int emu_api_isend_profile(void *comm, void *data, size_t size, int tag, void *mr, void *profile,
			  void **request);
int emu_api_irecv_profile(void *comm, int n, void **data, size_t *sizes, int *tags, void **mrs,
			  void **profiles, void **request);
int emu_api_iflush(void *comm, int n, void **data, int *sizes, void **mrs, void **request);
int emu_api_props_v9(int dev, struct emu_props_v9 *out);
int emu_api_init_comm(void **ctx, uint64_t id, void *config, emu_logger logger, void *profiler);
int emu_api_listen_ctx(void *ctx, int dev, void *handle, void **out);
int emu_api_connect_ctx(void *ctx, int dev, void *handle, void **out,
			struct emu_device_handle **devhandle);
int emu_api_finalize(void *ctx);

/* Sets by name what every table of v7 and newer has alike. */
#define EMU_SAME                                                                                   \
	.name = emu_api_name, .devices = emu_devices, .accept = emu_accept,                        \
	.dereg_mr = emu_comm_deregmr, .iflush = emu_api_iflush, .test = emu_test,                  \
	.close_send = emu_comm_close, .close_recv = emu_comm_close,                                \
	.close_listen = emu_close_listen, .get_device_mr = emu_get_device_mr,                      \
	.irecv_consumed = emu_consumed

#endif
