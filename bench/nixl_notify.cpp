/* SPDX-License-Identifier: Apache-2.0 */
/* A notification one way through the NIXL plugin, between two processes that spin as NIXL's fastest
 * applications do, beside a plain blocking ping-pong of one TCP connection whose ends share a core,
 * or have one each.
 * Usage: nixl_notify PLUGIN [ROUNDS] */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <functional>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nixl_abi.hpp"

static const std::string WORD = "8 bytes.";

[[noreturn]] static void fail(const char *what)
{
	std::perror(what);
	_exit(1);
}

static void must(bool good, const char *what)
{
	if (!good)
		fail(what);
}

// Both ends of a pair run this; the first tells half the way there and back.
struct way {
	std::function<void()> send, wait;
};

static void measure(const char *name, const way &end, bool first, int rounds)
{
	using clock = std::chrono::steady_clock;
	std::vector<double> took;

	for (int i = 0; i < rounds; i++) {
		const auto began = clock::now();

		if (first)
			end.send();
		end.wait();
		if (!first)
			end.send();
		took.push_back(
			std::chrono::duration<double, std::micro>(clock::now() - began).count() /
			2);
	}
	if (!first)
		return;
	std::sort(took.begin(), took.end());
	std::printf("%-32s p50 %6.2f us  p99 %6.2f us\n", name, took[took.size() / 2],
		    took[took.size() * 99 / 100]);
	std::fflush(stdout);
}

static void stay_on(int nth)
{
	cpu_set_t all, one;

	must(!sched_getaffinity(0, sizeof(all), &all), "sched_getaffinity");
	nth %= CPU_COUNT(&all);
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && !nth--)
			CPU_SET(cpu, &one);
	must(!sched_setaffinity(0, sizeof(one), &one), "sched_setaffinity");
}

// Each pair is two processes with a connection between them; body gets its end of it.
static void pair(const std::function<void(int fd, bool first)> &body)
{
	struct sockaddr_in at = {};
	socklen_t len = sizeof(at);
	const int one = 1, door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd, how;
	pid_t child;

	at.sin_family = AF_INET;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	must(door >= 0 && !bind(door, reinterpret_cast<sockaddr *>(&at), len) && !listen(door, 1) &&
		     !getsockname(door, reinterpret_cast<sockaddr *>(&at), &len),
	     "listen");
	child = fork();
	must(child >= 0, "fork");
	if (child) {
		fd = accept4(door, nullptr, nullptr, SOCK_CLOEXEC);
	} else {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		must(!::connect(fd, reinterpret_cast<sockaddr *>(&at), len), "connect");
	}
	must(fd >= 0 && !setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), "socket");
	body(fd, child != 0);
	if (!child)
		_exit(0);
	must(waitpid(child, &how, 0) == child && !how, "the other process");
	close(fd);
	close(door);
}

static void blocking(int fd, bool first, int rounds, bool two_cores)
{
	char got[64];

	stay_on(first && two_cores);
	measure(two_cores ? "plain ping-pong, a core each" : "plain ping-pong, one core",
		{[&] { must(send(fd, WORD.data(), WORD.size(), MSG_NOSIGNAL) > 0, "send"); },
		 [&] { must(recv(fd, got, sizeof(got), 0) > 0, "recv"); }},
		first, rounds);
}

static void notifications(int fd, bool first, int rounds, const char *path)
{
	const std::string name = first ? "first" : "second", other = first ? "second" : "first";
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	nixl_b_params_t params = {{"bind", "127.0.0.1"}, {"nixl_transport", "tcp"}};
	nixlBackendInitParams args = {
		name, "TCPX", &params, false, 0, nixl_thread_sync_t::NIXL_THREAD_SYNC_NONE, false};
	std::string mine, theirs(65536, '\0');
	ssize_t got;

	if (!library) {
		std::fprintf(stderr, "%s\n", dlerror());
		_exit(1);
	}
	auto init = reinterpret_cast<nixlBackendPlugin *(*)()>(dlsym(library, "nixl_plugin_init"));
	must(init != nullptr, "nixl_plugin_init");
	nixlBackendEngine *core = init()->create_engine(&args);
	must(core && !core->getConnInfo(mine), "an agent");
	must(send(fd, mine.data(), mine.size(), MSG_NOSIGNAL) == ssize_t(mine.size()), "send");
	got = recv(fd, &theirs[0], theirs.size(), 0);
	must(got > 0, "recv");
	theirs.resize(std::size_t(got));
	must(!core->loadRemoteConnInfo(other, theirs), "the other agent");
	measure("notification, both spin",
		{[&] { must(!core->genNotif(other, WORD), "genNotif"); },
		 [&] {
			 notif_list_t notes;

			 while (notes.empty())
				 must(!core->getNotifs(notes), "getNotifs");
		 }},
		first, rounds);
	init()->destroy_engine(core);
}

int main(int argc, char **argv)
{
	const int rounds = argc > 2 ? std::atoi(argv[2]) : 5000;

	if (argc < 2 || rounds < 100) {
		std::fprintf(stderr, "usage: nixl_notify PLUGIN [ROUNDS, 100 or more]\n");
		return 2;
	}
	pair([&](int fd, bool first) { notifications(fd, first, rounds, argv[1]); });
	pair([&](int fd, bool first) { blocking(fd, first, rounds, true); });
	pair([&](int fd, bool first) { blocking(fd, first, rounds, false); });
	return 0;
}
