/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the CUDA driver's ABI that the library uses, declared in this file so that building
 * needs no toolkit. Names follow this project's style; a comment such as CUdeviceptr gives the
 * driver's own name. tests/abi compares sizes and numbers with the real cuda.h where it is
 * installed. Functions are listed in sys/cuda.h.
 */
#ifndef ABI_CUDA_H
#define ABI_CUDA_H

#include <stddef.h>
#include <stdint.h>

typedef int cuda_result; /* a value of enum cuda_results, or a number that it does not name */
typedef int cuda_device;
typedef uint64_t cuda_ptr; /* CUdeviceptr; under unified addressing also a host address */
typedef struct cuda_ctx_st *cuda_ctx;
typedef struct cuda_stream_st *cuda_stream;
typedef struct cuda_event_st *cuda_event;
typedef struct cuda_module_st *cuda_module;
typedef struct cuda_function_st *cuda_function;
typedef struct cuda_pool_st *cuda_pool; /* CUmemoryPool */
typedef uint64_t cuda_alloc;		/* CUmemGenericAllocationHandle */

enum cuda_results {
	CUDA_OK = 0,
	CUDA_ERR_INVALID_VALUE = 1,
	CUDA_ERR_OUT_OF_MEMORY = 2,
	CUDA_ERR_NOT_INITIALIZED = 3,
	CUDA_ERR_DEINITIALIZED = 4, /* the process is exiting */
	CUDA_ERR_STUB_LIBRARY = 34,
	CUDA_ERR_DEVICE_UNAVAILABLE = 46,
	CUDA_ERR_NO_DEVICE = 100,
	CUDA_ERR_INVALID_DEVICE = 101,
	CUDA_ERR_INVALID_IMAGE = 200,
	CUDA_ERR_INVALID_CONTEXT = 201,
	CUDA_ERR_MAP_FAILED = 205,
	CUDA_ERR_NO_BINARY_FOR_GPU = 209,
	CUDA_ERR_ECC_UNCORRECTABLE = 214,
	CUDA_ERR_PEER_ACCESS_UNSUPPORTED = 217,
	CUDA_ERR_INVALID_PTX = 218,
	CUDA_ERR_NVLINK_UNCORRECTABLE = 220,
	CUDA_ERR_JIT_NOT_FOUND = 221, /* CUDA_ERROR_JIT_COMPILER_NOT_FOUND */
	CUDA_ERR_UNSUPPORTED_PTX_VERSION = 222,
	CUDA_ERR_JIT_DISABLED = 223, /* CUDA_ERROR_JIT_COMPILATION_DISABLED */
	CUDA_ERR_CONTAINED = 226,
	CUDA_ERR_INVALID_HANDLE = 400,
	CUDA_ERR_NOT_FOUND = 500,
	CUDA_ERR_NOT_READY = 600,
	CUDA_ERR_ILLEGAL_ADDRESS = 700,
	CUDA_ERR_LAUNCH_TIMEOUT = 702,
	CUDA_ERR_PEER_ACCESS_ALREADY_ENABLED = 704,
	CUDA_ERR_CONTEXT_IS_DESTROYED = 709,
	CUDA_ERR_ASSERT = 710,
	CUDA_ERR_HOST_MEMORY_ALREADY_REGISTERED = 712,
	CUDA_ERR_HOST_MEMORY_NOT_REGISTERED = 713,
	CUDA_ERR_HARDWARE_STACK_ERROR = 714,
	CUDA_ERR_ILLEGAL_INSTRUCTION = 715,
	CUDA_ERR_MISALIGNED_ADDRESS = 716,
	CUDA_ERR_INVALID_ADDRESS_SPACE = 717,
	CUDA_ERR_INVALID_PC = 718,
	CUDA_ERR_LAUNCH_FAILED = 719,
	CUDA_ERR_TENSOR_MEMORY_LEAK = 721,
	CUDA_ERR_NOT_PERMITTED = 800,
	CUDA_ERR_NOT_SUPPORTED = 801,
	CUDA_ERR_SYSTEM_NOT_READY = 802,
	CUDA_ERR_SYSTEM_DRIVER_MISMATCH = 803,
	CUDA_ERR_STREAM_CAPTURE_UNSUPPORTED = 900,
	CUDA_ERR_UNKNOWN = 999,
};

/* Attributes of a device. A comment in capitals is the driver's name, without
 * CU_DEVICE_ATTRIBUTE_. */
enum cuda_device_attributes {
	CUDA_DEVICE_SM_COUNT = 16, /* MULTIPROCESSOR_COUNT */
	CUDA_DEVICE_INTEGRATED = 18,
	CUDA_DEVICE_PCI_BUS = 33,
	CUDA_DEVICE_PCI_DEVICE = 34,
	CUDA_DEVICE_COPY_ENGINES = 40, /* ASYNC_ENGINE_COUNT */
	CUDA_DEVICE_UNIFIED_ADDRESSING = 41,
	CUDA_DEVICE_PCI_DOMAIN = 50,
	CUDA_DEVICE_CAPABILITY_MAJOR = 75,
	CUDA_DEVICE_CAPABILITY_MINOR = 76,
	CUDA_DEVICE_CONCURRENT_MANAGED = 89, /* CONCURRENT_MANAGED_ACCESS */
	CUDA_DEVICE_VMM_SUPPORTED = 102,     /* VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
	CUDA_DEVICE_DMABUF_SUPPORTED = 124,
	CUDA_DEVICE_HOST_NUMA_ID = 134, /* the host NUMA node nearest to the GPU, or -1 */
};

/* Attributes of a pointer. Each comment begins with the type of the attribute's value. */
enum cuda_pointer_attributes {
	CUDA_POINTER_CONTEXT = 1,	 /* cuda_ctx; NULL for memory of cuMemMap and of pools */
	CUDA_POINTER_MEMORY_TYPE = 2,	 /* unsigned: enum cuda_memory_types */
	CUDA_POINTER_HOST = 4,		 /* void *: address for the CPU */
	CUDA_POINTER_BUFFER_ID = 7,	 /* unsigned long long */
	CUDA_POINTER_IS_MANAGED = 8,	 /* int */
	CUDA_POINTER_DEVICE_ORDINAL = 9, /* int */
	CUDA_POINTER_IS_LEGACY_IPC = 10, /* int: cuIpcGetMemHandle works */
	CUDA_POINTER_RANGE_START = 11,	 /* cuda_ptr */
	CUDA_POINTER_RANGE_SIZE = 12,	 /* size_t */
	CUDA_POINTER_MAPPED = 13,	 /* int */
	CUDA_POINTER_HANDLE_TYPES = 14,	 /* uint64_t: bits of enum cuda_handle_types */
	CUDA_POINTER_ACCESS_FLAGS = 16,	 /* int: 1 readable, 3 also writable (current context) */
	CUDA_POINTER_MEMPOOL = 17,	 /* cuda_pool; NULL for memory that is not of a pool */
};

enum cuda_memory_types { CUDA_MEMORY_HOST = 1, CUDA_MEMORY_DEVICE = 2, CUDA_MEMORY_ARRAY = 3 };

enum cuda_handle_types { CUDA_HANDLE_NONE = 0, CUDA_HANDLE_FD = 1, CUDA_HANDLE_FABRIC = 8 };

enum cuda_host_flags { CUDA_HOST_PORTABLE = 1, CUDA_HOST_MAPPED = 2, CUDA_HOST_WRITE_COMBINED = 4 };

enum cuda_stream_flags { CUDA_STREAM_NON_BLOCKING = 1 };

enum cuda_event_flags { CUDA_EVENT_BLOCKING_SYNC = 1, CUDA_EVENT_DISABLE_TIMING = 2 };

enum cuda_capture_modes {
	CUDA_CAPTURE_GLOBAL = 0,
	CUDA_CAPTURE_THREAD_LOCAL = 1,
	CUDA_CAPTURE_RELAXED = 2,
};

enum cuda_range_handle_types { CUDA_RANGE_DMABUF_FD = 1 }; /* CUmemRangeHandleType */

enum cuda_ipc_flags { CUDA_IPC_LAZY_PEER_ACCESS = 1 };

struct cuda_ipc_mem { /* CUipcMemHandle */
	unsigned char reserved[64];
};

struct cuda_uuid {
	unsigned char bytes[16];
};

enum cuda_location_types { CUDA_LOCATION_DEVICE = 1 };
enum cuda_alloc_types { CUDA_ALLOC_PINNED = 1 };
enum cuda_access_flags { CUDA_ACCESS_READ_WRITE = 3 };
enum cuda_granularity_flags { CUDA_GRANULARITY_MINIMUM = 0 };

struct cuda_location { /* CUmemLocation */
	int type, id;
};

struct cuda_alloc_prop { /* CUmemAllocationProp */
	int type, handle_types;
	struct cuda_location location;
	void *win32;
	struct {
		unsigned char compression, rdma_capable;
		unsigned short usage;
		unsigned char reserved[4];
	} flags;
};

struct cuda_access { /* CUmemAccessDesc */
	struct cuda_location location;
	int flags;
};

struct cuda_pool_prop { /* CUmemPoolProps */
	int type, handle_types;
	struct cuda_location location;
	void *win32;
	size_t bytes_max; /* 0: no limit; part of `reserved` before CUDA 12.2 */
	unsigned char reserved[56];
};

struct cuda_pool_memory { /* CUmemPoolPtrExportData: an allocation of a pool */
	unsigned char reserved[64];
};

#endif
