/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the plugin that PLUGIN names, runs the cases, or is the other process of one. */
#include "host.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

constexpr unsigned HANG_S = 100; // a guard, never a verdict

nixlBackendPlugin *host_plugin;
static const char *running = "";
static char *self;

void host_fail(const char *file, int line, const std::string &what)
{
	std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, running, what.c_str());
	std::printf("FAIL %s\n", running);
	std::fflush(stdout);
	_exit(1);
}

void host_is(const char *file, int line, const char *call, nixl_status_t got, nixl_status_t wanted)
{
	if (got != wanted)
		host_fail(file, line,
			  std::string(call) + " is " + std::to_string(int(got)) + ", not " +
				  std::to_string(int(wanted)));
}

void host_refused(nixl_b_params_t options, const std::string &name)
{
	nixlBackendInitParams args = {
		name, "TCPX", &options, false, 0, nixl_thread_sync_t::NIXL_THREAD_SYNC_NONE, false};
	nixlBackendEngine *core = host_plugin->create_engine(&args);

	CHECK(core && *(reinterpret_cast<const bool *>(core) + 160)); // where NIXL looks
	host_plugin->destroy_engine(core);
}

end::end(const std::string &name, const nixl_b_params_t &options, nixl_thread_sync_t sync,
	 bool thread)
    : name(name)
{
	nixl_b_params_t all = options;
	nixlBackendInitParams args = {name, "TCPX", &all, thread, 0, sync, false};

	all.emplace("bind", "127.0.0.1");
	core = host_plugin->create_engine(&args);
	CHECK(core);
	CHECK(!*(reinterpret_cast<const bool *>(core) + 160));
	IS(core->getConnInfo(info), NIXL_SUCCESS);
	CHECK(info.size() >= 128);
	IS(core->connect(name), NIXL_SUCCESS);
}

void end::close()
{
	if (core)
		host_plugin->destroy_engine(core);
	core = nullptr;
}

end::~end()
{
	close();
}

void end::know(const end &other) const
{
	IS(core->loadRemoteConnInfo(other.name, other.info), NIXL_SUCCESS);
}

region_of::region_of(const end &owner, std::size_t size) : owner(owner), bytes(size)
{
	IS(owner.core->registerMem(blob(), DRAM_SEG, ours), NIXL_SUCCESS);
	IS(owner.core->getPublicData(ours, token), NIXL_SUCCESS);
	CHECK(token.size() <= 24);
	IS(owner.core->loadLocalMD(ours, local), NIXL_SUCCESS);
}

// As an agent that is destroyed: the registration goes before what was loaded of it.
region_of::~region_of()
{
	IS(owner.core->deregisterMem(ours), NIXL_SUCCESS);
	IS(owner.core->unloadMD(local), NIXL_SUCCESS);
}

nixlBackendMD *region_of::load(const end &who) const
{
	nixlBackendMD *out = nullptr;

	IS(who.core->loadRemoteMD(blob(), DRAM_SEG, owner.name, out), NIXL_SUCCESS);
	return out;
}

nixl_meta_dlist_t host_list(std::uintptr_t at, std::size_t block, std::size_t count,
			    nixlBackendMD *meta, std::size_t stride)
{
	nixl_meta_dlist_t all(DRAM_SEG);

	for (std::size_t i = 0; i < count; i++)
		all.descs.push_back({at + i * (stride ? stride : block), block, 0, meta});
	return all;
}

nixl_status_t host_wait(const end &who, nixlBackendReqH *request)
{
	nixl_status_t now;

	while ((now = who.core->checkXfer(request)) == NIXL_IN_PROG)
		sched_yield();
	return now;
}

bool host_begun(nixl_status_t got)
{
	return got == NIXL_IN_PROG || got == NIXL_SUCCESS;
}

std::vector<std::pair<std::string, std::string>> host_notes(const end &who, std::size_t count)
{
	std::vector<std::pair<std::string, std::string>> all;

	while (all.size() < count) {
		notif_list_t some;

		IS(who.core->getNotifs(some), NIXL_SUCCESS);
		all.insert(all.end(), some.begin(), some.end());
		sched_yield();
	}
	return all;
}

std::string host_said(const std::function<void()> &meanwhile)
{
	const int lines = memfd_create("lines", MFD_CLOEXEC), before = dup(2);
	std::string out(65536, '\0');
	ssize_t len;

	CHECK(lines >= 0 && before >= 0 && dup2(lines, 2) == 2);
	meanwhile();
	CHECK(dup2(before, 2) == 2);
	close(before);
	len = pread(lines, &out[0], out.size(), 0);
	close(lines);
	CHECK(len >= 0);
	out.resize(std::size_t(len));
	return out;
}

std::size_t host_times(const std::string &text, const std::string &word)
{
	std::size_t count = 0;

	for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; at++)
		count++;
	return count;
}

couple::couple(const nixl_b_params_t &options, std::size_t size)
    : near("near", options), far(new end("far")), source(near, size),
      sink(new region_of(*far, size)), there((near.know(*far), sink->load(near))),
      mine(host_list(source.at(), size / 2, 2, source.ours)),
      theirs(host_list(sink->at(), size / 2, 2, there))
{
	IS(near.core->prepXfer(NIXL_WRITE, mine, theirs, "far", request, nullptr), NIXL_SUCCESS);
}

nixl_status_t couple::post(const nixl_opt_b_args_t *args) const
{
	nixlBackendReqH *same = request;

	return near.core->postXfer(NIXL_WRITE, mine, theirs, "far", same, args);
}

nixl_status_t couple::move(const nixl_opt_b_args_t *args) const
{
	const nixl_status_t got = post(args);

	return host_begun(got) ? host_wait(near, request) : got;
}

nixl_status_t couple::move_at_last() const
{
	nixl_status_t got;

	while ((got = move()) == NIXL_ERR_REMOTE_DISCONNECT)
		;
	return got;
}

void couple::goodbye() const
{
	far->know(near);
	IS(far->core->genNotif("near", "x"), NIXL_SUCCESS);
	host_notes(near, 1);
	IS(far->core->disconnect("near"), NIXL_SUCCESS);
}

void couple::finish() const
{
	IS(near.core->releaseReqH(request), NIXL_SUCCESS);
	IS(near.core->unloadMD(there), NIXL_SUCCESS);
}

process::process(const std::string &option)
{
	int to[2], from[2];

	CHECK(!pipe2(to, O_CLOEXEC) && !pipe2(from, O_CLOEXEC));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); // of a host that failed
		dup2(to[0], 0);
		dup2(from[1], 1);
		execl(self, self, "--far", option.c_str(), nullptr);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	in = to[1];
	out = from[0];
	info = ask("info");
	token = ask("token");
	at = std::stoull(ask("at"));
	size = std::stoull(ask("size"));
}

process::~process()
{
	kill(pid, SIGKILL);
	waitpid(pid, nullptr, 0);
	close(in);
	close(out);
}

static std::string line_of(int fd)
{
	std::string line;
	char each;

	while (read(fd, &each, 1) == 1 && each != '\n')
		line += each;
	return line;
}

static std::string hex_of(const std::string &bytes)
{
	std::string out;
	char pair[3];

	for (unsigned char each : bytes) {
		std::snprintf(pair, sizeof(pair), "%02x", each);
		out += pair;
	}
	return out;
}

static std::string bytes_of(const std::string &hex)
{
	std::string out;

	for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
		out += char(std::stoi(hex.substr(i, 2), nullptr, 16));
	return out;
}

std::string process::ask(const std::string &line) const
{
	const std::string text = line + "\n";
	std::string got;

	CHECK(write(in, text.data(), text.size()) == ssize_t(text.size()));
	got = line_of(out);
	return line == "info" || line == "token" ? bytes_of(got) : got;
}

void process::stop() const
{
	int status;

	kill(pid, SIGSTOP);
	CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
}

int process::peek(std::size_t off) const
{
	unsigned char byte;
	const iovec here = {&byte, 1}, there = {reinterpret_cast<void *>(at + off), 1};

	CHECK(process_vm_readv(pid, &here, 1, &there, 1, 0) == 1);
	return byte;
}

nixlBackendMD *process::load(const end &who) const
{
	nixlBackendMD *meta = nullptr;

	IS(who.core->loadRemoteConnInfo("far", info), NIXL_SUCCESS);
	IS(who.core->loadRemoteMD({at, size, 0, token}, DRAM_SEG, "far", meta), NIXL_SUCCESS);
	return meta;
}

#define UNSEEN __attribute__((no_sanitize("thread"), noinline))

UNSEEN void host_set(volatile unsigned char *bytes, std::size_t count, int value)
{
	for (std::size_t i = 0; i < count; i++)
		bytes[i] = (unsigned char)value;
}

UNSEEN std::size_t host_count(const volatile unsigned char *bytes, std::size_t count, int value)
{
	std::size_t found = 0;

	for (std::size_t i = 0; i < count; i++)
		found += bytes[i] == value;
	return found;
}

UNSEEN bool host_same(const std::vector<unsigned char> &one,
		      const std::vector<unsigned char> &other)
{
	const volatile unsigned char *a = one.data(), *b = other.data();

	for (std::size_t i = 0; i < one.size(); i++)
		if (a[i] != b[i])
			return false;
	return one.size() == other.size();
}

int process_main(const std::string &option)
{
	const std::size_t cut = option.find('=');
	const std::string key = option.substr(0, cut);
	nixl_b_params_t options;

	if (key == "TESTS_FILTERS")
		setenv(key.c_str(), option.substr(cut + 1).c_str(), 1);
	else if (!option.empty())
		options[key] = option.substr(cut + 1);
	end far("far", options);
	region_of mine(far, 32u << 20);

	for (std::string line = line_of(0); !line.empty(); line = line_of(0)) {
		std::string answer = "?";

		if (line == "info") {
			answer = hex_of(far.info);
		} else if (line == "token") {
			answer = hex_of(mine.token);
		} else if (line == "at") {
			answer = std::to_string(mine.at());
		} else if (line == "size") {
			answer = std::to_string(mine.bytes.size());
		} else if (line[0] == '=') { // all bytes are that
			host_set(mine.bytes.data(), mine.bytes.size(), std::stoi(line.substr(1)));
			answer = "ok";
		} else if (line[0] == '#') { // how many bytes are
			answer = std::to_string(host_count(mine.bytes.data(), mine.bytes.size(),
							   std::stoi(line.substr(1))));
		} else if (line == "words") { // all that were notified, to the last
			answer = "";
			for (std::string last; last != "end";)
				for (const auto &each : host_notes(far, 1)) {
					last = each.second;
					answer += last + " ";
				}
		} else if (line == "notes") {
			notif_list_t some;

			far.core->getNotifs(some);
			answer = std::to_string(some.size());
		}
		answer += "\n";
		CHECK(write(1, answer.data(), answer.size()) == ssize_t(answer.size()));
	}
	return 0;
}

static void hangs(int)
{
	(void)!write(1, "FAIL ", 5);
	(void)!write(1, running, std::strlen(running));
	(void)!write(1, ": hangs\n", 8);
	_exit(1);
}

static void run(const test *all, const char *only, int &passed)
{
	for (; all->name; all++) {
		if (only && !std::strstr(all->name, only))
			continue;
		running = all->name;
		alarm(HANG_S);
		all->run();
		std::printf("ok   %s\n", all->name);
		std::fflush(stdout);
		passed++;
	}
}

int main(int argc, char **argv)
{
	const bool gpu = argc > 1 && !std::strcmp(argv[1], "--gpu"); // the stand-in's alone
	const char *path = std::getenv("PLUGIN");
	nixlBackendPlugin *(*init)();
	void *library;
	int passed = 0;

	self = argv[0];
	if (!gpu)
		setenv("TCPX_CUDA_LIBRARY", "/no/libcuda.so", 1);
	library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
	if (!library) {
		std::fprintf(stderr, "PLUGIN: %s\n", path ? dlerror() : "not set");
		return 1;
	}
	std::signal(SIGPIPE, SIG_IGN);
	std::signal(SIGALRM, hangs);
	init = reinterpret_cast<nixlBackendPlugin *(*)()>(dlsym(library, "nixl_plugin_init"));
	CHECK(init);
	host_plugin = init();
	CHECK(host_plugin && host_plugin->api_version == 1);
	if (argc > 1 && !std::strcmp(argv[1], "--far"))
		return process_main(argc > 2 ? argv[2] : "");
	if (gpu)
		run(tests_gpu, argc > 2 ? argv[2] : nullptr, passed);
	else
		for (const test *each :
		     {tests_transfer, tests_notes, tests_modes, tests_failure, tests_abort,
		      tests_hostile, tests_memory, tests_stale, tests_again})
			run(each, argc > 1 ? argv[1] : nullptr, passed);
	std::printf("%d passed, 0 failed, 0 skipped\n", passed);
	return passed ? 0 : 1;
}
