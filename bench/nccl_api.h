/* SPDX-License-Identifier: Apache-2.0 */
/* The few calls of NCCL that the yardstick makes, by dlopen: nothing of it is needed to build. */
#ifndef BENCH_NCCL_API_H
#define BENCH_NCCL_API_H

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define NCCL_BYTES 0  /* ncclInt8 */
#define NCCL_UINT32 3 /* ncclUint32 */
#define NCCL_SUM 0    /* ncclSum */
#define NCCL_IN_PROGRESS 7

struct nccl_id { /* ncclUniqueId */
	char bytes[128];
};

typedef struct nccl_comm *nccl_comm;

/* X(name, symbol, parameters) */
#define NCCL_LIST(X)                                                                               \
	X(version, "ncclGetVersion", (int *out))                                                   \
	X(unique_id, "ncclGetUniqueId", (struct nccl_id * out))                                    \
	X(init_rank, "ncclCommInitRank",                                                           \
	  (nccl_comm * out, int ranks, struct nccl_id id, int rank))                               \
	X(destroy, "ncclCommDestroy", (nccl_comm comm))                                            \
	X(async_error, "ncclCommGetAsyncError", (nccl_comm comm, int *out))                        \
	X(group_start, "ncclGroupStart", (void))                                                   \
	X(group_end, "ncclGroupEnd", (void))                                                       \
	X(send, "ncclSend",                                                                        \
	  (const void *data, size_t count, int type, int peer, nccl_comm comm, void *stream))      \
	X(recv, "ncclRecv",                                                                        \
	  (void *data, size_t count, int type, int peer, nccl_comm comm, void *stream))            \
	X(all_reduce, "ncclAllReduce",                                                             \
	  (const void *in, void *out, size_t count, int type, int op, nccl_comm comm,              \
	   void *stream))

struct nccl {
#define NCCL_MEMBER(name, symbol, params) int(*name) params;
	NCCL_LIST(NCCL_MEMBER)
#undef NCCL_MEMBER
	const char *(*error_text)(int result);
	const char *(*last_error)(nccl_comm comm); /* NULL where it is older than 2.13 */
};

/* NULL, or what is missing. path NULL: where the loader looks for libnccl.so.2. */
static inline const char *nccl_open(const char *path, struct nccl *out)
{
	void *handle = dlopen(path ? path : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL), *symbol;

	if (!handle)
		return dlerror();
#define NCCL_FIND(name, text, params)                                                              \
	symbol = dlsym(handle, text);                                                              \
	if (!symbol)                                                                               \
		return text " is not in that library";                                             \
	memcpy(&out->name, &symbol, sizeof(symbol));
	NCCL_LIST(NCCL_FIND)
#undef NCCL_FIND
	symbol = dlsym(handle, "ncclGetErrorString");
	if (!symbol)
		return "ncclGetErrorString is not in that library";
	memcpy(&out->error_text, &symbol, sizeof(symbol));
	symbol = dlsym(handle, "ncclGetLastError");
	memcpy(&out->last_error, &symbol, sizeof(symbol));
	return NULL;
}

#endif
