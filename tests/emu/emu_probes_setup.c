/* SPDX-License-Identifier: Apache-2.0 */
/* What the real plugin answers to questions that a consumer may ask, one case each: setup. */
#include "emu_rig.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>

static void probe_properties(void *arg)
{
	static const char *const names[] = {"eth1", "eth2", "eth3", "eth4"};
	struct emu_props_v7 props;
	int count = 0;

	(void)arg;
	rig_start();
	CHECK_STR(rig.net->name, "GPUDirectTCPX_v7");
	CHECK(rig.net->reg_mr_dmabuf == NULL);
	CHECK_EQ(rig.net->devices(&count), 0);
	CHECK_EQ(count, 4);
	for (int i = 0; i < count; i++) {
		CHECK_EQ(rig.net->get_properties(i, &props), 0);
		CHECK_STR(props.name, names[i]);
		CHECK_EQ(props.guid, i);
		CHECK_EQ(props.ptr_support, 3);
		CHECK_EQ(props.max_recvs, 1);
		CHECK_EQ(props.device_type, 1);
		CHECK_EQ(props.device_version, 7);
	}
	CHECK_STR(props.pci_path, "/sys/devices/pci0000:8c/0000:8c:00.0");
}

/* Sorted by name whatever the list's order; an entry is a prefix, or a name behind '='. */
static void probe_interfaces(void *arg)
{
	static const struct {
		const char *list;
		int devices;
		const char *first;
	} rows[] = {{"eth3,eth2", 2, "eth2"}, {"=eth1", 1, "eth1"}, {"^eth1", 4, "eth0"}};
	struct emu_props_v7 props;
	int row = *(int *)arg, count = 0;

	setenv("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", rows[row].list, 1);
	rig_start();
	CHECK_EQ(rig.net->devices(&count), 0);
	CHECK_EQ(count, rows[row].devices);
	CHECK_EQ(rig.net->get_properties(0, &props), 0);
	CHECK_STR(props.name, rows[row].first);
}

static void probe_interface_lists(void *arg)
{
	(void)arg;
	for (int row = 0; row < 3; row++)
		CHECK_EQ(rig_child(probe_interfaces, &row), 0);
}

static void probe_interfaces_none(void *arg)
{
	(void)arg;
	setenv("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "wlan", 1);
	rig_env();
	CHECK_EQ(rig_load(), 3);
}

static void probe_init_twice(void *arg)
{
	(void)arg;
	rig_start();
	CHECK_EQ(rig.net->init(rig_log), 3);
	rig_expect("init-twice", 1);
}

static void probe_strategy(void *arg)
{
	(void)arg;
	setenv("NCCL_GPUDIRECTTCPX_FLOW_STEERING_STRATEGY", "0", 1);
	rig_env();
	CHECK_EQ(rig_load(), 3);
}

static void probe_disabled(void *arg)
{
	(void)arg;
	setenv("NCCL_GPUDIRECTTCPX_SOCKET_ENABLE", "0", 1);
	rig_env();
	CHECK_EQ(rig_load(), 3);
}

static void probe_listen_range(void *arg)
{
	uint8_t handle[EMU_HANDLE_BYTES];
	void *listen = NULL;

	(void)arg;
	rig_start();
	CHECK_EQ(rig.net->listen(99, handle, &listen), 3);
	CHECK_EQ(rig.net->listen(-1, handle, &listen), 3);
	rig_expect("bad-dev", 2);
}

static void probe_handle_layout(void *arg)
{
	struct rig_pair pair;
	struct emu_handle handle;

	(void)arg;
	setenv("NCCL_NSOCKS_PERTHREAD", "4", 1);
	setenv("NCCL_GPUDIRECTTCPX_CTRL_DEV", "eth0", 1);
	rig_start();
	rig_listen(&pair, 1, 2);
	memcpy(&handle, pair.handle, sizeof(handle));
	CHECK_EQ(handle.socks, 4);
	CHECK_EQ(handle.threads, 1);
	CHECK_EQ(handle.port_start, -1);
	CHECK_EQ(handle.redirect, 1);
	CHECK_EQ(ntohl(handle.data.in.sin_addr.s_addr), 0x7f000201);
	CHECK_EQ(ntohl(handle.ctrl.in.sin_addr.s_addr), 0x7f000001);
	CHECK(handle.data.in.sin_port != handle.ctrl.in.sin_port);
	CHECK(handle.state == NULL);
	for (size_t i = sizeof(handle); i < EMU_HANDLE_BYTES; i++)
		CHECK_EQ(pair.handle[i], 0);
	rig.net->close_listen(pair.listen);
}

static void probe_device_queue(void *arg)
{
	const struct emu_device_queue *queue;
	struct rig_pair pair;

	(void)arg;
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	queue = pair.devhandle->handle;
	CHECK_EQ(pair.devhandle->type, 1);
	CHECK_EQ(pair.devhandle->version, 7);
	CHECK_EQ(pair.devhandle->size, 24);
	CHECK_EQ(pair.devhandle->needs_progress, 1);
	CHECK(queue->head == UINT64_MAX && queue->meta && queue->bounce);
	CHECK(queue->bounce % 16 == 0 && queue->meta % 16 == 0);
	rig_pair_close(&pair);
}

/* A first call never has the comm, however fast the other end is. */
static void probe_first_null(void *arg)
{
	struct rig_pair pair;
	void *comm = &pair;

	(void)arg;
	rig_start();
	rig_listen(&pair, 0, 0);
	CHECK_EQ(rig.net->connect(0, pair.handle, &comm, NULL), 0);
	CHECK(comm == NULL);
	comm = &pair;
	pair.devhandle = (struct emu_device_handle *)(void *)pair.store;
	CHECK_EQ(rig.net->accept(pair.listen, &comm, &pair.devhandle), 0);
	CHECK(comm == NULL);
	CHECK_EQ(rig_meet(&pair, 0, true), 0);
}

static void probe_registrations(void *arg)
{
	struct rig_pair pair;
	void *mr = NULL;

	(void)arg;
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	CHECK_EQ(rig.net->reg_mr(pair.send, pair.from + 8, 4096, EMU_CUDA, &mr), 3);
	CHECK_EQ(rig.net->reg_mr(pair.send, pair.from, 4095, EMU_CUDA, &mr), 3);
	CHECK_EQ(rig.net->reg_mr(pair.recv, pair.to, 4097, EMU_CUDA, &mr), 3);
	CHECK_EQ(rig.net->reg_mr(pair.send, pair.from, 4096, 4, &mr), 3);
	CHECK_EQ(rig.net->reg_mr(NULL, pair.from, 4096, EMU_CUDA, &mr), 3);
	CHECK_EQ(rig.net->reg_mr(pair.send, pair.from + 3, 77, EMU_HOST, &mr), 0);
	CHECK_EQ(rig.net->dereg_mr(pair.send, mr), 0);
	CHECK_EQ(rig.net->dereg_mr(pair.send, NULL), 0);
	CHECK_EQ(rig.violations("mr-align"), 1);
	CHECK_EQ(rig.violations("mr-size"), 2);
	CHECK_EQ(rig.violations("mr-type"), 1);
	CHECK_EQ(rig.violations("null-comm"), 1);
}

static void probe_null_comm(void *arg)
{
	void *request, *none = NULL;
	int one = 1;

	(void)arg;
	rig_start();
	CHECK_EQ(rig.net->isend(NULL, NULL, 1, 0, NULL, &request), 3);
	CHECK_EQ(rig.net->irecv(NULL, 1, &none, &one, &one, &none, &request), 3);
	rig_expect("null-comm", 2);
}

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	CHECK(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void probe_close_listen(void *arg)
{
	struct rig_pair pair;
	void *comm = NULL;
	int before;

	(void)arg;
	rig_start();
	before = descriptors();
	rig_listen(&pair, 0, 0);
	CHECK_EQ(rig.net->accept(pair.listen, &comm, NULL), 0);
	CHECK(comm == NULL);
	CHECK_EQ(rig.net->close_listen(pair.listen), 0);
	rig_expect("close-pending", 1);
	while (descriptors() != before) /* its thread ends */
		sched_yield();
}

static void probe_no_rxdm(void *arg)
{
	struct rig_pair pair;

	(void)arg;
	setenv("TCPXEMU_STEER", "rxdm:/nowhere", 1);
	rig_start();
	rig_listen(&pair, 0, 0);
	CHECK_EQ(rig_meet(&pair, 0, true), 3);
	rig_expect("no-cmsg", 0);
}

static uint64_t pool_imports(int gpu)
{
	struct tcpxemu_stats stats;

	rig.stats(&stats);
	return stats.pool_imports[gpu];
}

/* A GPU's pages are imported by the first accept that gives a comm, and by nothing else. */
static void probe_pool_import(void *arg)
{
	struct rig_pair first, second, other;
	void *mr, *none;

	(void)arg;
	rig_start();
	rig_listen(&first, 0, 0);
	first.devhandle = (struct emu_device_handle *)(void *)first.store;
	CHECK_EQ(rig.net->accept(first.listen, &none, &first.devhandle), 0);
	CHECK(!none);
	while (!first.send)
		CHECK_EQ(rig.net->connect(0, first.handle, &first.send, NULL), 0);
	CHECK_EQ(rig.net->reg_mr(first.send, first.store, 256, EMU_HOST, &mr), 0);
	CHECK_EQ(rig.net->dereg_mr(first.send, mr), 0);
	CHECK_EQ(pool_imports(0), 0);
	CHECK_EQ(rig_meet(&first, 0, true), 0);
	CHECK_EQ(pool_imports(0), 1);
	rig_pair_open(&second, 0, 0, EMU_HOST);
	rig_pair_open(&other, 1, 2, EMU_HOST);
	CHECK_EQ(pool_imports(0), 1);
	CHECK_EQ(pool_imports(2), 1);
	rig_pair_close(&second);
	rig_pair_close(&other);
	CHECK_EQ(rig.net->close_send(first.send), 0);
	CHECK_EQ(rig.net->close_recv(first.recv), 0);
	rig_pair_open(&second, 0, 0, EMU_HOST); /* pools stay */
	CHECK_EQ(pool_imports(0), 1);
	rig_pair_close(&second);
	CHECK_EQ(rig.violations(NULL), 0);
}

static void *accept_main(void *arg)
{
	struct rig_pair *pair = arg;
	int rc = 0;

	rig.set_gpu(0);
	while (!rc && !pair->recv) {
		rc = rig.net->accept(pair->listen, &pair->recv, &pair->devhandle);
		sched_yield();
	}
	return (void *)(intptr_t)rc;
}

/* Two accepts that complete at once. */
static void probe_pool_race(void *arg)
{
	struct rig_pair pair[2];
	pthread_t thread[2];
	void *rc[2];

	(void)arg;
	setenv("TCPXEMU_IMPORT_US", "100000000", 1); /* until the second comes */
	rig_start();
	for (int i = 0; i < 2; i++) {
		rig_listen(&pair[i], 0, 0);
		pair[i].devhandle = (struct emu_device_handle *)(void *)pair[i].store;
		CHECK(!pthread_create(&thread[i], NULL, accept_main, &pair[i]));
		while (!pair[i].send)
			CHECK_EQ(rig.net->connect(0, pair[i].handle, &pair[i].send, NULL), 0);
	}
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(thread[i], &rc[i]));
	CHECK((rc[0] == NULL) != (rc[1] == NULL));
	rig_expect("pool-import", 1);
	CHECK_EQ(pool_imports(0), 1);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(rig.net->close_send(pair[i].send), 0);
		CHECK_EQ(rig.net->close_recv(pair[i].recv), 0);
	}
}

static const struct check_case cases[] = {
	{"properties", probe_properties},
	{"interface-lists", probe_interface_lists},
	{"interfaces-none", probe_interfaces_none},
	{"init-twice", probe_init_twice},
	{"strategy", probe_strategy},
	{"disabled", probe_disabled},
	{"listen-range", probe_listen_range},
	{"handle-layout", probe_handle_layout},
	{"device-queue", probe_device_queue},
	{"first-null", probe_first_null},
	{"registrations", probe_registrations},
	{"null-comm", probe_null_comm},
	{"close-listen", probe_close_listen},
	{"no-rxdm", probe_no_rxdm},
	{"pool-import", probe_pool_import},
	{"pool-race", probe_pool_race},
};

int main(int argc, char **argv)
{
	return check_main(cases, sizeof(cases) / sizeof(*cases), argc > 1 ? argv[1] : NULL, NULL);
}
