/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong: bad input, aborts, peers that stop, die or leave; hostile orders. */
#include <csignal>
#include <cstring>
#include <sched.h>
#include <unistd.h>

#include "host.hpp"

static void options_that_are_wrong()
{
	for (const auto &[key, value] : params{{"channels", "900"},
					       {"channels", "many"},
					       {"chunk_bytes", "1"},
					       {"bind", "no-such-interface"},
					       {"nixl_transport", "pigeon"},
					       {"nixl_port", "70000"},
					       {"nixl_port", "x"},
					       {"port_retries", "-1"},
					       {"TCPX_SILENT_MS", "5"},
					       {"filters", "nonsense"}}) {
		params all = {{key, value}};
		create_args args = {"one", "TCPX", &all, false, 0, sync::NONE, false};
		engine *core = host_plugin->create(&args);

		CHECK(core && *(reinterpret_cast<const bool *>(core) + 160));
		host_plugin->destroy(core);
	}
	params all = {{"no_such_option", "1"}, {"bind", "127.0.0.1"}};
	create_args args = {std::string(256, 'n'), "TCPX", &all, false, 0, sync::NONE, false};
	engine *core = host_plugin->create(&args);

	CHECK(core && *(reinterpret_cast<const bool *>(core) + 160)); // a name that is too long
	host_plugin->destroy(core);
	end one("one", {{"no_such_option", "1"}, {"TCPX_Channels", "3"}, {"interfaces", "lo"}});
	// of one process, each its own; a port that is taken is passed over
	const std::string port = std::to_string(12000 + getpid() % 7000);
	end two("two", {{"channels", "2"}, {"nixl_port", port}, {"nixl_transport", "tcp"}});
	end three("three", {{"channels", "4"}, {"nixl_port", port}, {"silent_ms", "2000"}});
	create_args taken = {"four", "TCPX", &all, false, 0, sync::NONE, false};

	all = {{"bind", "127.0.0.1"}, {"nixl_port", port}, {"port_retries", "0"}};
	core = host_plugin->create(&taken);
	CHECK(core && *(reinterpret_cast<const bool *>(core) + 160));
	host_plugin->destroy(core);
	// what is one for all of them is fixed by the first
	all = {{"bind", "127.0.0.1"}, {"staging_bytes", "64M"}};
	core = host_plugin->create(&taken);
	CHECK(core && *(reinterpret_cast<const bool *>(core) + 160));
	host_plugin->destroy(core);
}

static void lists_that_are_wrong()
{
	end near("near"), far("far");
	region_of source(near, 4096), sink(far, 4096), other(near, 4096);
	handle *request = nullptr;

	near.know(far);
	metadata *there = sink.load(near);
	const auto refused = [&](const descriptors &mine, const descriptors &theirs) {
		IS(near.core->prepare(operation::WRITE, mine, theirs, "far", request, nullptr),
		   INVALID_PARAM);
		CHECK(!request);
	};
	const descriptors good = host_list(source.at(), 100, 2, source.ours);
	const descriptors away = host_list(sink.at(), 100, 2, there);

	refused(host_list(source.at(), 100, 0, source.ours), host_list(sink.at(), 100, 0, there));
	refused(good, host_list(sink.at(), 100, 3, there));
	refused(good, host_list(sink.at(), 101, 2, there));
	refused(host_list(source.at() - 1, 100, 2, source.ours), away);
	refused(host_list(source.at() + 3900, 100, 2, source.ours), away);
	refused(good, host_list(sink.at() + 3997, 100, 2, there));
	refused(host_list(source.at(), SIZE_MAX - 50, 2, source.ours),
		host_list(sink.at(), SIZE_MAX - 50, 2, there));
	refused(host_list(source.at(), 100, 2, other.ours), away);
	refused(host_list(source.at(), 100, 2, nullptr), away);
	refused(good, host_list(sink.at(), 100, 2, nullptr));
	refused(good, host_list(source.at(), 100, 2, source.local)); // another agent's
	refused(host_list(sink.at(), 100, 2, there), away);	     // nothing of ours
	IS(near.core->prepare(operation::WRITE, good, away, "nobody", request, nullptr), NOT_FOUND);
	IS(near.core->post(operation::WRITE, good, away, "far", request, nullptr), INVALID_PARAM);
	IS(near.core->check(nullptr), INVALID_PARAM);
	IS(near.core->release(nullptr), SUCCESS);
	IS(near.core->connect("nobody"), NOT_FOUND);
	IS(near.core->disconnect("nobody"), NOT_FOUND);
	IS(near.core->send_notification("nobody", "x"), NOT_FOUND);
	notifications some = {{"a", "b"}};
	IS(near.core->take_notifications(some), INVALID_PARAM);
	metadata *meta = nullptr;
	IS(near.core->register_memory({source.at(), 0, 0, ""}, memory::DRAM, meta), INVALID_PARAM);
	IS(near.core->register_memory({UINTPTR_MAX - 5, 10, 0, ""}, memory::DRAM, meta),
	   INVALID_PARAM);
	IS(near.core->register_memory({source.at(), 10, 0, ""}, memory::FILE, meta), NOT_SUPPORTED);
	CHECK(!meta);
	IS(near.core->prepare(operation::WRITE, good, away, "far", request, nullptr), SUCCESS);
	CHECK(near.core->post(operation::WRITE, good, away, "far", request, nullptr) >=
	      status::SUCCESS); // nothing of all that was in the way
	IS(host_wait(near, request), SUCCESS);
	IS(near.core->release(request), SUCCESS);
	IS(near.core->unload(there), SUCCESS);
}

static void blobs_that_are_wrong()
{
	end near("near"), far("far");
	region_of source(near, 4096), sink(far, 4096);
	metadata *meta = nullptr;
	handle *request = nullptr;
	status got;

	IS(near.core->load_connection("far", ""), INVALID_PARAM);
	IS(near.core->load_connection("far", std::string(100000, 'x')), INVALID_PARAM);
	for (std::size_t len = 0; len < far.info.size(); len++)
		IS(near.core->load_connection("far", far.info.substr(0, len)), INVALID_PARAM);
	for (std::size_t i = 0; i < far.info.size() * 8; i++) {
		std::string bad = far.info;

		bad[i / 8] = char(bad[i / 8] ^ (1 << i % 8));
		got = near.core->load_connection("far", bad);
		CHECK(got == status::INVALID_PARAM || got == status::MISMATCH);
	}
	IS(near.core->load_connection("another", far.info), MISMATCH); // not whose it is
	IS(near.core->load_remote(sink.blob(), memory::DRAM, "far", meta), NOT_FOUND);
	near.know(far);
	near.know(far); // once more is nothing new
	end twin("far");
	IS(near.core->load_connection("far", twin.info), NOT_ALLOWED);
	for (std::size_t len = 0; len < sink.token.size(); len++)
		IS(near.core->load_remote({sink.at(), 4096, 0, sink.token.substr(0, len)},
					  memory::DRAM, "far", meta),
		   INVALID_PARAM);
	CHECK(!meta);
	for (std::size_t i = 0; i < sink.token.size() * 8; i++) { // refused here, or by its owner
		std::string bad = sink.token;

		bad[i / 8] = char(bad[i / 8] ^ (1 << i % 8));
		got = near.core->load_remote({sink.at(), 4096, 0, bad}, memory::DRAM, "far", meta);
		CHECK(got == status::SUCCESS || got == status::INVALID_PARAM ||
		      got == status::MISMATCH);
		if (got != status::SUCCESS)
			continue;
		descriptors mine = host_list(source.at(), 64, 1, source.ours);
		descriptors theirs = host_list(sink.at(), 64, 1, meta);

		IS(near.core->prepare(operation::WRITE, mine, theirs, "far", request, nullptr),
		   SUCCESS);
		CHECK(near.core->post(operation::WRITE, mine, theirs, "far", request, nullptr) !=
		      status::REMOTE_DISCONNECT);
		got = host_wait(near, request); // flags are hints; the key is what counts
		CHECK(got == status::NOT_ALLOWED || got == status::SUCCESS);
		CHECK(got == status::NOT_ALLOWED || i / 8 < 8);
		IS(near.core->release(request), SUCCESS);
		IS(near.core->unload(meta), SUCCESS);
	}
}

// What is aborted leaves its memory alone, with a peer that is slow, stopped, and goes on again.
static void aborted()
{
	end near("near");
	process far;
	region_of mine(near, far.size);
	metadata *there = far.load(near);
	const std::size_t big = far.size - 4096; // behind it nothing of it may land late
	const descriptors from = host_list(mine.at() + big, 1, 1, mine.ours);
	const descriptors to = host_list(far.at + big, 1, 1, there);

	for (operation op : {operation::WRITE, operation::READ}) {
		descriptors ours = host_list(mine.at(), big, 1, mine.ours);
		descriptors theirs = host_list(far.at, big, 1, there);
		handle *request = nullptr;
		status first;

		CHECK(far.ask("=1") == "ok");
		std::memset(mine.bytes.data(), 2, mine.bytes.size());
		kill(far.pid, SIGSTOP);
		IS(near.core->prepare(op, ours, theirs, "far", request, nullptr), SUCCESS);
		IS(near.core->post(op, ours, theirs, "far", request, nullptr), IN_PROGRESS);
		IS(near.core->post(op, ours, theirs, "far", request, nullptr), REPOST_ACTIVE);
		first = near.core->release(request);
		if (first != status::SUCCESS) {
			IS(first, REPOST_ACTIVE);
			IS(near.core->release(request), SUCCESS);
		}
		std::memset(mine.bytes.data(), 3, mine.bytes.size()); // ours again
		kill(far.pid, SIGCONT);
		// the next one finds its way behind what was cut off
		IS(near.core->prepare(operation::WRITE, from, to, "far", request, nullptr),
		   SUCCESS);
		CHECK(near.core->post(operation::WRITE, from, to, "far", request, nullptr) >=
		      status::SUCCESS);
		IS(host_wait(near, request), SUCCESS);
		IS(near.core->release(request), SUCCESS);
		for (unsigned char each : mine.bytes) // late bytes of a READ went elsewhere
			CHECK(each == 3);
		CHECK(far.ask("#3") == "1"); // and the peer has nothing of what came after
	}
	IS(near.core->unload(there), SUCCESS);
}

static void killed()
{
	end near("near");
	process far;
	region_of mine(near, far.size);
	metadata *there = far.load(near);
	descriptors ours = host_list(mine.at(), far.size, 1, mine.ours);
	descriptors theirs = host_list(far.at, far.size, 1, there);
	std::vector<handle *> requests(6);

	for (std::size_t i = 0; i < requests.size(); i++)
		IS(near.core->prepare(i % 2 ? operation::READ : operation::WRITE, ours, theirs,
				      "far", requests[i], nullptr),
		   SUCCESS);
	IS(near.core->send_notification("far", "are you up"), SUCCESS);
	while (far.ask("notes") == "0")
		sched_yield();
	kill(far.pid, SIGSTOP);
	for (handle *each : requests)
		IS(near.core->post(operation::WRITE, ours, theirs, "far", each, nullptr),
		   IN_PROGRESS);
	kill(far.pid, SIGKILL);
	for (handle *each : requests)
		IS(host_wait(near, each), REMOTE_DISCONNECT);
	IS(near.core->post(operation::WRITE, ours, theirs, "far", requests[0], nullptr),
	   REMOTE_DISCONNECT);
	IS(near.core->send_notification("far", "x"), REMOTE_DISCONNECT);
	IS(near.core->connect("far"), REMOTE_DISCONNECT);
	for (handle *each : requests)
		IS(near.core->release(each), SUCCESS);
	IS(near.core->unload(there), SUCCESS);
	IS(near.core->disconnect("far"), SUCCESS);

	process again; // the same name, started anew
	there = again.load(near);
	theirs = host_list(again.at, again.size, 1, there);
	IS(near.core->prepare(operation::WRITE, ours, theirs, "far", requests[0], nullptr),
	   SUCCESS);
	CHECK(near.core->post(operation::WRITE, ours, theirs, "far", requests[0], nullptr) >=
	      status::SUCCESS);
	IS(host_wait(near, requests[0]), SUCCESS);
	IS(near.core->release(requests[0]), SUCCESS);
	IS(near.core->unload(there), SUCCESS);
}

// NIXL drops a peer at the first REMOTE_DISCONNECT: what points to it is gone, requests are not.
static void disconnected_in_the_middle()
{
	end near("near");
	process far;
	region_of mine(near, far.size);
	metadata *there = far.load(near);
	descriptors ours = host_list(mine.at(), far.size, 1, mine.ours);
	descriptors theirs = host_list(far.at, far.size, 1, there);
	handle *one = nullptr, *two = nullptr;

	kill(far.pid, SIGSTOP);
	IS(near.core->prepare(operation::WRITE, ours, theirs, "far", one, nullptr), SUCCESS);
	IS(near.core->prepare(operation::READ, ours, theirs, "far", two, nullptr), SUCCESS);
	IS(near.core->post(operation::WRITE, ours, theirs, "far", one, nullptr), IN_PROGRESS);
	IS(near.core->post(operation::READ, ours, theirs, "far", two, nullptr), IN_PROGRESS);
	IS(near.core->unload(there), SUCCESS);
	IS(near.core->disconnect("far"), SUCCESS);
	IS(near.core->disconnect("far"), NOT_FOUND);
	IS(host_wait(near, one), REMOTE_DISCONNECT);
	IS(near.core->release(one), SUCCESS);
	IS(near.core->release(two), SUCCESS);
}

// Memory that goes while it is used: the transfer ends, the memory is free.
static void deregistered_while_active()
{
	end near("near");
	process far;
	metadata *there = far.load(near), *ours = nullptr;
	std::vector<unsigned char> bytes(far.size, 2);
	const auto at = reinterpret_cast<std::uintptr_t>(bytes.data());
	handle *request = nullptr;

	IS(near.core->register_memory({at, bytes.size(), 0, ""}, memory::DRAM, ours), SUCCESS);
	kill(far.pid, SIGSTOP);
	descriptors mine = host_list(at, far.size, 1, ours);
	descriptors theirs = host_list(far.at, far.size, 1, there);
	IS(near.core->prepare(operation::WRITE, mine, theirs, "far", request, nullptr), SUCCESS);
	IS(near.core->post(operation::WRITE, mine, theirs, "far", request, nullptr), IN_PROGRESS);
	IS(near.core->deregister_memory(ours), SUCCESS);
	std::memset(bytes.data(), 3, bytes.size());
	IS(host_wait(near, request), BACKEND);
	IS(near.core->release(request), SUCCESS);
	kill(far.pid, SIGCONT);
	CHECK(far.ask("#3") == "0");
	IS(near.core->unload(there), SUCCESS);
}

// An agent that drops us has not left us: whoever goes on using him gets another link.
static void dropped_by_the_other()
{
	end near("near"), far("far");
	region_of source(near, 4096), sink(far, 4096);
	handle *request = nullptr;

	near.know(far);
	far.know(near);
	metadata *there = sink.load(near);
	descriptors mine = host_list(source.at(), 4096, 1, source.ours);
	descriptors theirs = host_list(sink.at(), 4096, 1, there);
	IS(near.core->prepare(operation::WRITE, mine, theirs, "far", request, nullptr), SUCCESS);
	for (unsigned char round = 1; round < 4; round++) {
		std::memset(source.bytes.data(), round, 4096);
		CHECK(near.core->post(operation::WRITE, mine, theirs, "far", request, nullptr) >=
		      status::SUCCESS);
		IS(host_wait(near, request), SUCCESS);
		CHECK(sink.bytes == source.bytes);
		IS(far.core->disconnect("near"), SUCCESS);
		far.know(near);
		// until near has heard of it, a post may still go out on the old link and end
		status now;
		while ((now = near.core->connect("far")) != status::SUCCESS)
			IS(now, REMOTE_DISCONNECT);
	}
	IS(near.core->release(request), SUCCESS);
	IS(near.core->unload(there), SUCCESS);
}

const test tests_failure[] = {
	{"options_that_are_wrong", options_that_are_wrong},
	{"lists_that_are_wrong", lists_that_are_wrong},
	{"blobs_that_are_wrong", blobs_that_are_wrong},
	{"aborted", aborted},
	{"killed", killed},
	{"disconnected_in_the_middle", disconnected_in_the_middle},
	{"deregistered_while_active", deregistered_while_active},
	{"dropped_by_the_other", dropped_by_the_other},
	{nullptr, nullptr},
};
