/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake plugin's two files share. FAKE_VERSION: the layout of its table; FAKE_SYMBOL: the
 * name under which it is exported. */
#ifndef TESTS_FAKE_PRIV_H
#define TESTS_FAKE_PRIV_H

#include "fake_net.h"

#include "abi/ncclnet.h"

#ifndef FAKE_VERSION
#define FAKE_VERSION 7
#endif

#define SHOWN __attribute__((visibility("default")))
#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)
#define TABLE struct GLUE(ncclnet_table_v, FAKE_VERSION)
#ifndef FAKE_SYMBOL
#define FAKE_SYMBOL GLUE(ncclNetPlugin_v, FAKE_VERSION)
#endif
#if FAKE_VERSION == 10
#define PROPS struct ncclnet_props_v9
#else
#define PROPS struct GLUE(ncclnet_props_v, FAKE_VERSION)
#endif
#if FAKE_VERSION >= 9
typedef size_t io_size;
#else
typedef int io_size;
#endif
#if FAKE_VERSION >= 8
typedef size_t mr_size;
#else
typedef int mr_size;
#endif
#if FAKE_VERSION >= 7 && !defined(FAKE_NO_CONSUMED)
#define CONSUMES 1
#else
#define CONSUMES 0 /* a receive is over when it is done */
#endif

extern struct fake_net fake_net;

int fake_breach(void);
int fake_init(ncclnet_logger logger);
int fake_devices(int *out);
int fake_properties(int dev, PROPS *props);
int fake_listen(void *handle, void **out);
int fake_connect(void *handle, void **out);
int fake_accept(void *listener, void **out);
int fake_reg(void *comm, void *data, mr_size bytes, int type, void **out);
int fake_dereg(void *comm, void *mr);
int fake_isend(void *comm, void *data, io_size bytes, int tag, void **out);
int fake_irecv(void *comm, int count, void **data, io_size *bytes, int *tags, void **request);
int fake_iflush(void *comm, int n, void **data, int *sizes, void **mrs, void **request);
int fake_test(void *opaque, int *done, int *sizes);
int fake_close_send(void *comm);
int fake_close_recv(void *comm);
int fake_close_listen(void *comm);
int fake_consumed(void *comm, int n, void *opaque);

#endif
