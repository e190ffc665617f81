/* SPDX-License-Identifier: Apache-2.0 */
/* Flow rules asked of a daemon's sockets: the bytes on them, and what its answers lead to. */
#include "emu_rig.h"

#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>

#define RXDM_RULES 16
#define RXDM_REQUEST 56 /* with its length; both ports take three bytes */

static const uint8_t rxdm_ok[] = {0, 5, 0x0a, 3, 'O', 'k', '.'};
static const uint8_t rxdm_no[] = {0, 6, 0x0a, 4, 'b', 'u', 's', 'y'};

/* One socket of the daemon: answers whoever comes. */
struct rxdm {
	pthread_t thread;
	struct sockaddr_un addr;
	int fd;
	bool refuses;
	_Atomic int asked;
	uint8_t request[RXDM_RULES][RXDM_REQUEST];
};

static void *rxdm_main(void *opaque)
{
	struct rxdm *rxdm = opaque;
	int fd;

	while ((fd = accept4(rxdm->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		int at = atomic_load(&rxdm->asked);

		CHECK(at < RXDM_RULES);
		rig_far_read(fd, rxdm->request[at], RXDM_REQUEST);
		atomic_store(&rxdm->asked, at + 1);
		if (rxdm->refuses)
			rig_far_write(fd, rxdm_no, sizeof(rxdm_no));
		else
			rig_far_write(fd, rxdm_ok, sizeof(rxdm_ok));
		close(fd);
	}
	return NULL;
}

static void rxdm_start(struct rxdm *rxdm, const char *dir, const char *name)
{
	int path;

	rxdm->addr.sun_family = AF_UNIX;
	path = snprintf(rxdm->addr.sun_path, sizeof(rxdm->addr.sun_path), "%s/%s", dir, name);
	rxdm->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_EQ(bind(rxdm->fd, (struct sockaddr *)&rxdm->addr,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)path)),
		 0);
	CHECK_EQ(listen(rxdm->fd, 16), 0);
	CHECK_EQ(pthread_create(&rxdm->thread, NULL, rxdm_main, rxdm), 0);
}

static void rxdm_end(struct rxdm *rxdm)
{
	shutdown(rxdm->fd, SHUT_RDWR);
	pthread_join(rxdm->thread, NULL);
	close(rxdm->fd);
	unlink(rxdm->addr.sun_path);
}

/* A request as one of the real plugin was captured, with the ports as they are here. */
static void rxdm_check(const uint8_t *got, const char *ip, const char *gpu)
{
	uint8_t want[RXDM_REQUEST] = {0,    54,	  0x12, 0x34, 0x0a, 0x24,
				      0x08, 0x01, 0x12, 0x0f, 0x0a, 0x09};

	memcpy(want + 12, ip, 9);
	want[21] = 0x10;
	memcpy(want + 22, got + 22, 3);
	memcpy(want + 25, (uint8_t[]){0x1a, 0x0f, 0x0a, 0x09}, 4);
	memcpy(want + 29, ip, 9);
	want[38] = 0x10;
	memcpy(want + 39, got + 39, 3);
	memcpy(want + 42, (uint8_t[]){0x1a, 0x0c}, 2);
	memcpy(want + 44, gpu, 12);
	CHECK(!memcmp(got, want, sizeof(want)));
	CHECK(memcmp(got + 22, got + 39, 3) != 0);
}

struct daemon {
	char dir[32];
	struct rxdm rules, uninstalls;
};

static void daemon_start(struct daemon *daemon, bool refuses)
{
	char steer[64];

	memset(daemon, 0, sizeof(*daemon));
	strcpy(daemon->dir, "/tmp/emu_rxdm_XXXXXX");
	CHECK(mkdtemp(daemon->dir));
	daemon->rules.refuses = refuses;
	rxdm_start(&daemon->rules, daemon->dir, "rx_rule_manager");
	rxdm_start(&daemon->uninstalls, daemon->dir, "rx_rule_uninstall");
	snprintf(steer, sizeof(steer), "rxdm:%s", daemon->dir);
	setenv("TCPXEMU_STEER", steer, 1);
	setenv("NCCL_NSOCKS_PERTHREAD", "3", 1);
	rig_start();
}

static void daemon_end(struct daemon *daemon)
{
	rxdm_end(&daemon->rules);
	rxdm_end(&daemon->uninstalls);
	CHECK_EQ(rmdir(daemon->dir), 0);
}

static void rxdm_good(void *arg)
{
	struct daemon daemon;
	struct rig_pair pair;

	(void)arg;
	daemon_start(&daemon, false);
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	CHECK_EQ(daemon.rules.asked, 3); /* a data socket each; none of the control socket */
	for (int i = 0; i < 3; i++)
		rxdm_check(daemon.rules.request[i], "127.0.1.1", "0000:04:00.0");
	rig_message(&pair, 100000);
	CHECK_EQ(daemon.uninstalls.asked, 0);
	rig_pair_close(&pair);
	CHECK_EQ(daemon.uninstalls.asked, 3);
	daemon_end(&daemon);
	CHECK_EQ(rig.violations(NULL), 0);
}

/* "Ok." all the same: the rule lies on the GPU's own NIC. */
static void rxdm_wrong_nic(void *arg)
{
	struct daemon daemon;
	struct rig_pair pair;
	void *send, *recv;
	int rc = 0;

	(void)arg;
	daemon_start(&daemon, false);
	rig_pair_open(&pair, 1, 0, EMU_CUDA);
	rxdm_check(daemon.rules.request[0], "127.0.2.1", "0000:04:00.0");
	CHECK_EQ(rig_irecv(&pair, 0, 4096, &recv), 0);
	CHECK_EQ(rig_isend(&pair, 0, 4096, &send), 0);
	rig_wait(send);
	while (!rig_poll(recv, 1, &rc) && !rc)
		sched_yield();
	CHECK_EQ(rc, 3);
	rig_expect("no-cmsg", 1);
	rig_pair_close(&pair);
	daemon_end(&daemon);
}

/* A refusal is tried again, then both ends fail. */
static void rxdm_refuses(void *arg)
{
	struct daemon daemon;
	struct rig_pair pair;
	void *send = NULL, *recv = NULL;
	int connect_rc = 0, accept_rc = 0;

	(void)arg;
	daemon_start(&daemon, true);
	rig_listen(&pair, 0, 0);
	while (!connect_rc || !accept_rc) {
		if (!connect_rc)
			connect_rc = rig.net->connect(0, pair.handle, &send, NULL);
		if (!accept_rc)
			accept_rc = rig.net->accept(pair.listen, &recv, NULL);
		CHECK(!send && !recv);
		sched_yield();
	}
	CHECK_EQ(connect_rc, 3);
	CHECK_EQ(accept_rc, 3);
	CHECK_EQ(daemon.rules.asked, 3);
	rig.net->close_listen(pair.listen);
	daemon_end(&daemon);
}

static const struct check_case cases[] = {
	{"good", rxdm_good},
	{"wrong-nic", rxdm_wrong_nic},
	{"refuses", rxdm_refuses},
};

int main(int argc, char **argv)
{
	return check_main(cases, sizeof(cases) / sizeof(*cases), argc > 1 ? argv[1] : NULL, NULL);
}
