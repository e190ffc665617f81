/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every table from v6 to v12: what it says of itself, and a message through each of its forms. By
 * the declarations of the library; the emulator has its own.
 */
#include "emu_rig.h"
#include "abi/ncclnet.h"

#include <dlfcn.h>
#include <sched.h>

/* One table brought to one form, as a consumer's adapter does it. */
struct form {
	int version;
	int (*init)(void);
	int (*devices)(int *out);
	int (*listen)(int dev, void *handle, void **out);
	int (*connect)(void *handle, void **out);
	int (*accept)(void *listen, void **out, struct ncclnet_device_handle **devhandle);
	int (*reg_mr)(void *comm, void *data, size_t size, int type, void **mr);
	int (*isend)(void *comm, void *data, size_t size, void *mr, void **out);
	int (*irecv)(void *comm, void **data, size_t size, void **mr, void **out);
	int (*test)(void *request, int *done, int *sizes);
	int (*consumed)(void *comm, int n, void *request); /* NULL: of v6 */
	int (*close_send)(void *comm);
	int (*close_recv)(void *comm);
	int (*close_listen)(void *comm);
	int (*dereg_mr)(void *comm, void *mr);
};

static void *table, *context;
static const char *table_name;

#define NET(v) ((const volatile struct ncclnet_table_v##v *)table)
#define PLAIN(v)                                                                                   \
	static int init_##v(void)                                                                  \
	{                                                                                          \
		return NET(v)->init(rig_log);                                                      \
	}                                                                                          \
	static int listen_##v(int dev, void *handle, void **out)                                   \
	{                                                                                          \
		return NET(v)->listen(dev, handle, out);                                           \
	}
#define WITH_CONTEXT(v)                                                                            \
	static int init_##v(void)                                                                  \
	{                                                                                          \
		/* once a communicator */                                                          \
		CHECK_EQ(NET(v)->init(&context, 1, NULL, rig_log, NULL), 0);                       \
		CHECK(context);                                                                    \
		return NET(v)->init(&context, 2, NULL, rig_log, NULL);                             \
	}                                                                                          \
	static int listen_##v(int dev, void *handle, void **out)                                   \
	{                                                                                          \
		return NET(v)->listen(context, dev, handle, out);                                  \
	}
#define CONNECT(v, ...)                                                                            \
	static int connect_##v(void *handle, void **out)                                           \
	{                                                                                          \
		return NET(v)->connect(__VA_ARGS__);                                               \
	}
#define ACCEPT(v)                                                                                  \
	static int accept_##v(void *listen, void **out, struct ncclnet_device_handle **devhandle)  \
	{                                                                                          \
		return NET(v)->accept(listen, out, devhandle);                                     \
	}
#define REG_MR(v, size_type)                                                                       \
	static int reg_mr_##v(void *comm, void *data, size_t size, int type, void **mr)            \
	{                                                                                          \
		return NET(v)->reg_mr(comm, data, (size_type)size, type, mr);                      \
	}
#define DATA(v, size_type)                                                                         \
	static int isend_##v(void *comm, void *data, size_t size, void *mr, void **out)            \
	{                                                                                          \
		return NET(v)->isend(comm, data, (size_type)size, 1, mr, out);                     \
	}                                                                                          \
	static int irecv_##v(void *comm, void **data, size_t size, void **mr, void **out)          \
	{                                                                                          \
		size_type bytes = (size_type)size;                                                 \
		int tag = 1;                                                                       \
		return NET(v)->irecv(comm, 1, data, &bytes, &tag, mr, out);                        \
	}
#define DATA_PROFILE(v)                                                                            \
	static int isend_##v(void *comm, void *data, size_t size, void *mr, void **out)            \
	{                                                                                          \
		return NET(v)->isend(comm, data, size, 1, mr, NULL, out);                          \
	}                                                                                          \
	static int irecv_##v(void *comm, void **data, size_t size, void **mr, void **out)          \
	{                                                                                          \
		int tag = 1;                                                                       \
		return NET(v)->irecv(comm, 1, data, &size, &tag, mr, NULL, out);                   \
	}
#define FORM(v, consume)                                                                           \
	static struct form form_##v(void)                                                          \
	{                                                                                          \
		table_name = NET(v)->name;                                                         \
		return (struct form){v,                                                            \
				     init_##v,                                                     \
				     NET(v)->devices,                                              \
				     listen_##v,                                                   \
				     connect_##v,                                                  \
				     accept_##v,                                                   \
				     reg_mr_##v,                                                   \
				     isend_##v,                                                    \
				     irecv_##v,                                                    \
				     NET(v)->test,                                                 \
				     consume,                                                      \
				     NET(v)->close_send,                                           \
				     NET(v)->close_recv,                                           \
				     NET(v)->close_listen,                                         \
				     NET(v)->dereg_mr};                                            \
	}

static int accept_6(void *listen, void **out, struct ncclnet_device_handle **devhandle)
{
	(void)devhandle;
	return NET(6)->accept(listen, out);
}

PLAIN(6)
CONNECT(6, 0, handle, out)
REG_MR(6, int)
DATA(6, int)
FORM(6, NULL)
PLAIN(7)
CONNECT(7, 0, handle, out, NULL)
ACCEPT(7)
REG_MR(7, int)
DATA(7, int)
FORM(7, NET(7)->irecv_consumed)
PLAIN(8)
CONNECT(8, 0, handle, out, NULL)
ACCEPT(8)
REG_MR(8, size_t)
DATA(8, int)
FORM(8, NET(8)->irecv_consumed)
PLAIN(9)
CONNECT(9, 0, handle, out, NULL)
ACCEPT(9)
REG_MR(9, size_t)
DATA(9, size_t)
FORM(9, NET(9)->irecv_consumed)
static int init_10(void)
{
	return NET(10)->init(rig_log, NULL);
}
static int listen_10(int dev, void *handle, void **out)
{
	return NET(10)->listen(dev, handle, out);
}
CONNECT(10, 0, NULL, handle, out, NULL)
ACCEPT(10)
REG_MR(10, size_t)
DATA_PROFILE(10)
FORM(10, NET(10)->irecv_consumed)
WITH_CONTEXT(11)
CONNECT(11, context, 0, handle, out, NULL)
ACCEPT(11)
REG_MR(11, size_t)
DATA_PROFILE(11)
FORM(11, NET(11)->irecv_consumed)
WITH_CONTEXT(12)
CONNECT(12, context, 0, handle, out, NULL)
ACCEPT(12)
REG_MR(12, size_t)
DATA_PROFILE(12)
FORM(12, NET(12)->irecv_consumed)

static struct form open_version(int version)
{
	char path[512], symbol[32];
	void *handle, *found;
	int wrong = version == 12 ? 11 : version + 1;

	if (version == 7)
		snprintf(path, sizeof(path), "%s", TCPXEMU);
	else
		snprintf(path, sizeof(path), "%s/libnccl-net-tcpxemu-v%d.so", TCPXEMU_DIR, version);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	CHECK_MSG(handle, "%s", dlerror());
	snprintf(symbol, sizeof(symbol), "ncclNetPlugin_v%d", wrong);
	CHECK(!dlsym(handle, symbol));
	snprintf(symbol, sizeof(symbol), "ncclNetPlugin_v%d", version);
	table = dlsym(handle, symbol);
	CHECK(table);
	found = dlsym(handle, "tcpxemu_violations");
	memcpy(&rig.violations, &found, sizeof(found));
	found = dlsym(handle, "tcpxemu_set_gpu");
	memcpy(&rig.set_gpu, &found, sizeof(found));
	switch (version) {
	case 6:
		return form_6();
	case 7:
		return form_7();
	case 8:
		return form_8();
	case 9:
		return form_9();
	case 10:
		return form_10();
	case 11:
		return form_11();
	default:
		return form_12();
	}
}

struct job {
	int version, type;
};

static void message(const struct form *net, struct rig_pair *pair, size_t size)
{
	void *send, *recv, *at = pair->to;
	int sent = 0, received = 0;

	memset(pair->to, 0, size);
	CHECK_EQ(net->irecv(pair->recv, &at, size, &pair->recv_mr, &recv), 0);
	CHECK_EQ(net->isend(pair->send, pair->from, size, pair->send_mr, &send), 0);
	while (!sent || !received) {
		if (!sent)
			CHECK_EQ(net->test(send, &sent, NULL), 0);
		if (!received)
			CHECK_EQ(net->test(recv, &received, NULL), 0);
		sched_yield();
	}
	if (pair->type == EMU_CUDA)
		CHECK_EQ(rig_unpack(pair, pair->receives, pair->to), size);
	CHECK(memcmp(pair->from, pair->to, size) == 0);
	pair->receives++;
	if (net->consumed)
		CHECK_EQ(net->consumed(pair->recv, 1, recv), 0);
}

static void version_run(void *arg)
{
	const struct job *job = arg;
	struct rig_pair pair = {.type = job->type};
	struct ncclnet_device_handle *device;
	struct form net;
	int count = 0;

	rig_env();
	net = open_version(job->version);
	CHECK_STR(table_name, "GPUDirectTCPX_v7");
	CHECK_EQ(net.init(), 0);
	CHECK_EQ(net.devices(&count), 0);
	CHECK_EQ(count, 4);
	device = (struct ncclnet_device_handle *)(void *)pair.store;
	pair.devhandle = (struct emu_device_handle *)(void *)pair.store;
	rig.set_gpu(job->type == EMU_CUDA ? 0 : 2);
	CHECK_EQ(net.listen(0, pair.handle, &pair.listen), 0);
	while (!pair.send || !pair.recv) {
		if (!pair.send)
			CHECK_EQ(net.connect(pair.handle, &pair.send), 0);
		if (!pair.recv)
			CHECK_EQ(net.accept(pair.listen, &pair.recv, &device), 0);
		sched_yield();
	}
	CHECK_EQ(net.close_listen(pair.listen), 0);
	pair.from = aligned_alloc(EMU_PAGE, RIG_CHUNK);
	pair.to = aligned_alloc(EMU_PAGE, RIG_CHUNK);
	rig_fill(pair.from, RIG_CHUNK, 5);
	CHECK_EQ(net.reg_mr(pair.send, pair.from, RIG_CHUNK, job->type, &pair.send_mr), 0);
	CHECK_EQ(net.reg_mr(pair.recv, pair.to, RIG_CHUNK, job->type, &pair.recv_mr), 0);
	for (int i = 0; i < 40; i++) /* more than the ring: slots and places come back */
		message(&net, &pair, (size_t)i * 13107);
	CHECK_EQ(net.dereg_mr(pair.send, pair.send_mr), 0);
	CHECK_EQ(net.dereg_mr(pair.recv, pair.recv_mr), 0);
	CHECK_EQ(net.close_send(pair.send), 0);
	CHECK_EQ(net.close_recv(pair.recv), 0);
	free(pair.from);
	free(pair.to);
	CHECK_EQ(rig.violations(NULL), 0);
}

static void versions_host(void *arg)
{
	(void)arg;
	for (int version = 6; version <= 12; version++) {
		struct job job = {version, EMU_HOST};

		CHECK_MSG(rig_child(version_run, &job) == 0, "v%d", version);
	}
}

static void versions_cuda(void *arg)
{
	(void)arg;
	for (int version = 7; version <= 12; version++) {
		struct job job = {version, EMU_CUDA};

		CHECK_MSG(rig_child(version_run, &job) == 0, "v%d", version);
	}
}

static void version_6_cuda(void *arg)
{
	struct ncclnet_props_v6 props;
	void *listen, *comm = NULL, *other = NULL, *mr;
	uint8_t handle[EMU_HANDLE_BYTES];

	(void)arg;
	rig_env();
	open_version(6);
	CHECK_EQ(NET(6)->init(rig_log), 0);
	CHECK_EQ(NET(6)->get_properties(1, &props), 0);
	CHECK_EQ(props.ptr_support, 1);
	CHECK_STR(props.name, "eth2");
	CHECK_EQ(NET(6)->listen(0, handle, &listen), 0);
	while (!comm || !other) { /* either may be there first */
		if (!comm)
			CHECK_EQ(NET(6)->connect(0, handle, &comm), 0);
		if (!other)
			CHECK_EQ(NET(6)->accept(listen, &other), 0);
	}
	CHECK_EQ(NET(6)->reg_mr(comm, handle, 4096, EMU_CUDA, &mr), 3);
}

static void versions_properties(void *arg)
{
	struct ncclnet_props_v8 v8;
	struct ncclnet_props_v9 v9;
	struct ncclnet_props_v11 v11;
	struct ncclnet_props_v12 v12;

	(void)arg;
	rig_env();
	open_version(8).init();
	CHECK_EQ(NET(8)->get_properties(2, &v8), 0);
	CHECK(!strcmp(v8.name, "eth3") && v8.speed == 200000 && v8.device_version == 7);
	open_version(9).init();
	CHECK_EQ(NET(9)->get_properties(2, &v9), 0);
	CHECK(v9.max_comms == 65536 && v9.parts.count == 1 && v9.parts.devs[0] == 2);
	CHECK(v9.max_p2p_bytes == (size_t)1 << 30 && v9.max_coll_bytes == (size_t)1 << 29);
	open_version(11).init();
	CHECK_EQ(NET(11)->get_properties(2, &v11), 0);
	CHECK(v11.max_multi_request == 1 && v11.device_type == 1 && v11.max_recvs == 1);
	open_version(12).init();
	CHECK_EQ(NET(12)->get_properties(2, &v12), 0);
	CHECK(v12.rail == -1 && v12.parts.devs[0] == 2 && v12.max_multi_request == 1);
	CHECK_EQ(NET(12)->finalize(context), 0);
}

static const struct check_case cases[] = {
	{"host", versions_host},
	{"cuda", versions_cuda},
	{"v6-cuda", version_6_cuda},
	{"properties", versions_properties},
};

int main(int argc, char **argv)
{
	return check_main(cases, sizeof(cases) / sizeof(*cases), argc > 1 ? argv[1] : NULL, NULL);
}
