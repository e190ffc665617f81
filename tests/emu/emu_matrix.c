/* SPDX-License-Identifier: Apache-2.0 */
/* Which NIC and which GPU receive together: the six rows that were seen on real hosts, and more. */
#include "emu_rig.h"

#include <fcntl.h>
#include <sched.h>

enum { GOOD, NO_CMSG, SILENT };

struct row {
	int nic, gpu, type, result;
};

static const struct row rows[] = {
	{0, 0, EMU_CUDA, GOOD},	   /* eth1 works */
	{1, 0, EMU_CUDA, NO_CMSG}, /* eth2 fails: the rule lies on eth1 */
	{1, 0, EMU_HOST, GOOD},	   /* so host receive works there */
	{0, 0, EMU_HOST, SILENT},  /* EFAULT */
	{1, 2, EMU_CUDA, GOOD},	   {0, 2, EMU_CUDA, NO_CMSG},
};

static void matrix_row(void *arg)
{
	const struct row *row = arg;
	struct rig_pair pair;
	void *send, *recv;
	int rc = 0;

	rig_start();
	rig_pair_open(&pair, row->nic, row->gpu, row->type);
	if (row->result == GOOD) {
		rig_message(&pair, 100000);
		rig_pair_close(&pair);
		CHECK_EQ(rig.violations(NULL), 0);
		return;
	}
	CHECK_EQ(rig_irecv(&pair, 0, 4096, &recv), 0);
	CHECK_EQ(rig_isend(&pair, 0, 4096, &send), 0);
	rig_wait(send);
	if (row->result == NO_CMSG) {
		while (!rig_poll(recv, 1, &rc) && !rc)
			sched_yield();
		CHECK_EQ(rc, 3);
		rig_expect("no-cmsg", 1);
		return;
	}
	while (!rig.violations("host-steered"))
		CHECK(!rig_poll(recv, 1, &rc) && rc == 0);
	CHECK(!rig_poll(recv, 1000, &rc) && rc == 0);
}

static void matrix_rows(void *arg)
{
	(void)arg;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct row row = rows[i];

		CHECK_MSG(rig_child(matrix_row, &row) == 0, "row %zu", i + 1);
	}
}

/* The process ends as the real plugin ends it; what it wrote says why, which it cannot any more. */
static void matrix_exit(void *arg)
{
	char path[] = "/tmp/emu_stats_XXXXXX", text[4096];
	struct row row = rows[1];
	int status, fd = mkstemp(path);
	ssize_t size;

	(void)arg;
	CHECK(fd >= 0);
	setenv("TCPXEMU_FATAL", "exit", 1);
	setenv("TCPXEMU_STATS", path, 1);
	status = rig_child(matrix_row, &row);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	close(fd); /* the file was replaced */
	fd = open(path, O_RDONLY | O_CLOEXEC);
	size = read(fd, text, sizeof(text) - 1);
	CHECK(size > 0);
	text[size] = 0;
	CHECK_MSG(strstr(text, "\"violation_codes\": {\"no-cmsg\": 1}"), "%s", text);
	CHECK(strstr(text, "\"rx_devmem_pkts\": {\"eth1\": 0, \"eth2\": 0,"));
	close(fd);
	unlink(path);
}

/* Every GPU with every NIC: the owner's pairs work, and their NIC's count of packets rises. */
static void matrix_all(void *arg)
{
	(void)arg;
	for (int nic = 0; nic < 4; nic++) {
		for (int gpu = 0; gpu < 8; gpu++) {
			struct row row = {nic, gpu, EMU_CUDA, gpu / 2 == nic ? GOOD : NO_CMSG};

			CHECK_MSG(rig_child(matrix_row, &row) == 0, "NIC %d, GPU %d", nic, gpu);
		}
	}
}

static void matrix_off_child(void *arg)
{
	const struct row *row = arg;
	struct rig_pair pair;

	setenv("TCPXEMU_STEER", "off", 1);
	rig_start();
	rig_pair_open(&pair, row->nic, row->gpu, row->type);
	rig_message(&pair, 5000);
	rig_pair_close(&pair);
	CHECK_EQ(rig.violations(NULL), 0);
}

static void matrix_off(void *arg)
{
	(void)arg;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct row row = rows[i];

		CHECK_MSG(rig_child(matrix_off_child, &row) == 0, "row %zu", i + 1);
	}
}

/* Sending may use any NIC. */
static void matrix_send_child(void *arg)
{
	struct rig_pair pair;

	rig_start();
	rig_listen(&pair, 0, 0);
	rig.set_gpu(0);
	CHECK_EQ(rig_meet(&pair, *(int *)arg, true), 0);
	rig_register(&pair, EMU_CUDA);
	rig_message(&pair, 70000);
}

static void matrix_send(void *arg)
{
	(void)arg;
	for (int nic = 0; nic < 4; nic++)
		CHECK_EQ(rig_child(matrix_send_child, &nic), 0);
}

static void matrix_counter(void *arg)
{
	char dir[] = "/tmp/emu_matrix_XXXXXX", name[64], text[32] = "";
	unsigned long long counts[2];
	struct rig_pair pair;
	FILE *file;

	(void)arg;
	CHECK(mkdtemp(dir));
	setenv("TCPXEMU_DEVMEM_DIR", dir, 1);
	rig_start();
	rig_pair_open(&pair, 2, 5, EMU_CUDA);
	for (int i = 0; i < 2; i++) {
		rig_message(&pair, 65536);
		snprintf(name, sizeof(name), "%s/eth3", dir);
		file = fopen(name, "r");
		CHECK(file && fgets(text, sizeof(text), file));
		CHECK_EQ(sscanf(text, "rx_devmem_pkts: %llu", &counts[i]), 1);
		fclose(file);
	}
	CHECK_EQ(counts[0], 8);
	CHECK_EQ(counts[1], 16);
	rig_pair_close(&pair);
	for (int i = 1; i <= 4; i++) {
		snprintf(name, sizeof(name), "%s/eth%d", dir, i);
		CHECK_EQ(unlink(name), 0);
	}
	CHECK_EQ(rmdir(dir), 0);
}

static const struct check_case cases[] = {
	{"rows", matrix_rows}, {"exit", matrix_exit}, {"all", matrix_all},
	{"off", matrix_off},   {"send", matrix_send}, {"counter", matrix_counter},
};

int main(int argc, char **argv)
{
	return check_main(cases, sizeof(cases) / sizeof(*cases), argc > 1 ? argv[1] : NULL, NULL);
}
