/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong: bad input, aborts, peers that stop, die or leave; hostile orders. */
#include <csignal>
#include <cstring>
#include <sched.h>
#include <unistd.h>

#include "host.hpp"

static void options_that_are_wrong()
{
	const std::string port = std::to_string(12000 + getpid() % 7000);
	const std::pair<std::string, std::string> wrong[] = {
		{"channels", "900"},	{"channels", "many"},	       {"chunk_bytes", "1"},
		{"nixl_port", "70000"}, {"bind", "no-such-interface"}, {"nixl_port", "x"},
		{"port_retries", "-1"}, {"nixl_transport", "pigeon"},  {"TCPX_SILENT_MS", "5"}};

	for (const auto &each : wrong)
		host_refused({each});
	host_refused({{"bind", "127.0.0.1"}}, std::string(256, 'n')); // too long a name
	end one("one", {{"no_such_option", "1"}, {"TCPX_Channels", "3"}, {"interfaces", "lo"}});
	// of one process, each its own; a port that is taken is passed over
	end two("two", {{"channels", "2"}, {"nixl_port", port}, {"nixl_transport", "tcp"}});
	end three("three", {{"channels", "4"}, {"nixl_port", port}, {"silent_ms", "2000"}});
	host_refused({{"bind", "127.0.0.1"}, {"nixl_port", port}, {"port_retries", "0"}});
}

static void lists_that_are_wrong()
{
	end near("near"), far("far");
	region_of source(near, 4096), sink(far, 4096), other(near, 4096);
	nixlBackendReqH *request = nullptr;

	near.know(far);
	nixlBackendMD *there = sink.load(near);
	const auto refused = [&](const nixl_meta_dlist_t &mine, const nixl_meta_dlist_t &theirs) {
		IS(near.core->prepXfer(NIXL_WRITE, mine, theirs, "far", request, nullptr),
		   NIXL_ERR_INVALID_PARAM);
		CHECK(!request);
	};
	const nixl_meta_dlist_t good = host_list(source.at(), 100, 2, source.ours);
	const nixl_meta_dlist_t away = host_list(sink.at(), 100, 2, there);

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
	IS(near.core->prepXfer(NIXL_WRITE, good, away, "nobody", request, nullptr),
	   NIXL_ERR_NOT_FOUND);
	IS(near.core->postXfer(NIXL_WRITE, good, away, "far", request, nullptr),
	   NIXL_ERR_INVALID_PARAM);
	IS(near.core->checkXfer(nullptr), NIXL_ERR_INVALID_PARAM);
	IS(near.core->releaseReqH(nullptr), NIXL_SUCCESS);
	IS(near.core->connect("nobody"), NIXL_ERR_NOT_FOUND);
	IS(near.core->disconnect("nobody"), NIXL_ERR_NOT_FOUND);
	IS(near.core->genNotif("nobody", "x"), NIXL_ERR_NOT_FOUND);
	notif_list_t some = {{"a", "b"}};
	IS(near.core->getNotifs(some), NIXL_ERR_INVALID_PARAM);
	nixlBackendMD *meta = nullptr;
	IS(near.core->registerMem({source.at(), 0, 0, ""}, DRAM_SEG, meta), NIXL_ERR_INVALID_PARAM);
	IS(near.core->registerMem({UINTPTR_MAX - 5, 10, 0, ""}, DRAM_SEG, meta),
	   NIXL_ERR_INVALID_PARAM);
	IS(near.core->registerMem({source.at(), 10, 0, ""}, FILE_SEG, meta),
	   NIXL_ERR_NOT_SUPPORTED);
	CHECK(!meta);
	IS(near.core->prepXfer(NIXL_WRITE, good, away, "far", request, nullptr), NIXL_SUCCESS);
	CHECK(near.core->postXfer(NIXL_WRITE, good, away, "far", request, nullptr) >=
	      NIXL_SUCCESS); // nothing of all that was in the way
	IS(host_wait(near, request), NIXL_SUCCESS);
	IS(near.core->releaseReqH(request), NIXL_SUCCESS);
	IS(near.core->unloadMD(there), NIXL_SUCCESS);
}

static void blobs_that_are_wrong()
{
	end near("near", {{"goodbye_ms", "1"}}), far("far"); // hundreds are refused
	region_of source(near, 4096), sink(far, 4096);
	nixlBackendMD *meta = nullptr;
	nixlBackendReqH *request = nullptr;
	nixl_status_t got;

	IS(near.core->loadRemoteConnInfo("far", ""), NIXL_ERR_INVALID_PARAM);
	IS(near.core->loadRemoteConnInfo("far", std::string(100000, 'x')), NIXL_ERR_INVALID_PARAM);
	for (std::size_t len = 0; len < far.info.size(); len++)
		IS(near.core->loadRemoteConnInfo("far", far.info.substr(0, len)),
		   NIXL_ERR_INVALID_PARAM);
	for (std::size_t i = 0; i < far.info.size() * 8; i++) {
		std::string bad = far.info;

		bad[i / 8] = char(bad[i / 8] ^ (1 << i % 8));
		got = near.core->loadRemoteConnInfo("far", bad);
		CHECK(got == NIXL_ERR_INVALID_PARAM || got == NIXL_ERR_MISMATCH);
	}
	IS(near.core->loadRemoteConnInfo("another", far.info),
	   NIXL_ERR_MISMATCH); // not whose it is
	IS(near.core->loadRemoteMD(sink.blob(), DRAM_SEG, "far", meta), NIXL_ERR_NOT_FOUND);
	near.know(far);
	near.know(far); // once more is nothing new
	end twin("far");
	IS(near.core->loadRemoteConnInfo("far", twin.info), NIXL_ERR_NOT_ALLOWED);
	for (std::size_t len = 0; len < sink.token.size(); len++)
		IS(near.core->loadRemoteMD({sink.at(), 4096, 0, sink.token.substr(0, len)},
					   DRAM_SEG, "far", meta),
		   NIXL_ERR_INVALID_PARAM);
	CHECK(!meta);
	for (std::size_t i = 0; i < sink.token.size() * 8; i++) { // refused here, or by its owner
		std::string bad = sink.token;

		bad[i / 8] = char(bad[i / 8] ^ (1 << i % 8));
		got = near.core->loadRemoteMD({sink.at(), 4096, 0, bad}, DRAM_SEG, "far", meta);
		CHECK(got == NIXL_SUCCESS || got == NIXL_ERR_INVALID_PARAM ||
		      got == NIXL_ERR_MISMATCH);
		if (got != NIXL_SUCCESS)
			continue;
		nixl_meta_dlist_t mine = host_list(source.at(), 64, 1, source.ours);
		nixl_meta_dlist_t theirs = host_list(sink.at(), 64, 1, meta);

		IS(near.core->prepXfer(NIXL_WRITE, mine, theirs, "far", request, nullptr),
		   NIXL_SUCCESS);
		CHECK(near.core->postXfer(NIXL_WRITE, mine, theirs, "far", request, nullptr) !=
		      NIXL_ERR_REMOTE_DISCONNECT);
		got = host_wait(near, request); // flags are hints; the key is what counts
		CHECK(got == NIXL_ERR_NOT_ALLOWED || got == NIXL_SUCCESS);
		CHECK(got == NIXL_ERR_NOT_ALLOWED || i / 8 < 8);
		IS(near.core->releaseReqH(request), NIXL_SUCCESS);
		IS(near.core->unloadMD(meta), NIXL_SUCCESS);
	}
}

// What is aborted leaves its memory alone, with a peer that is slow, stopped, and goes on again.
static void aborted()
{
	end near("near");
	process far;
	region_of mine(near, far.size);
	nixlBackendMD *there = far.load(near);
	const std::size_t big = far.size - 4096; // behind it nothing of it may land late
	const nixl_meta_dlist_t from = host_list(mine.at() + big, 1, 1, mine.ours);
	const nixl_meta_dlist_t to = host_list(far.at + big, 1, 1, there);

	for (nixl_xfer_op_t op : {NIXL_WRITE, NIXL_READ}) {
		nixl_meta_dlist_t ours = host_list(mine.at(), big, 1, mine.ours);
		nixl_meta_dlist_t theirs = host_list(far.at, big, 1, there);
		nixlBackendReqH *request = nullptr;
		nixl_status_t first;

		CHECK(far.ask("=1") == "ok");
		std::memset(mine.bytes.data(), 2, mine.bytes.size());
		far.stop();
		IS(near.core->prepXfer(op, ours, theirs, "far", request, nullptr), NIXL_SUCCESS);
		IS(near.core->postXfer(op, ours, theirs, "far", request, nullptr), NIXL_IN_PROG);
		IS(near.core->postXfer(op, ours, theirs, "far", request, nullptr),
		   NIXL_ERR_REPOST_ACTIVE);
		first = near.core->releaseReqH(request);
		if (first != NIXL_SUCCESS) {
			IS(first, NIXL_ERR_REPOST_ACTIVE);
			IS(near.core->releaseReqH(request), NIXL_SUCCESS);
		}
		std::memset(mine.bytes.data(), 3, mine.bytes.size()); // ours again
		kill(far.pid, SIGCONT);
		// the next one finds its way behind what was cut off
		IS(near.core->prepXfer(NIXL_WRITE, from, to, "far", request, nullptr),
		   NIXL_SUCCESS);
		CHECK(near.core->postXfer(NIXL_WRITE, from, to, "far", request, nullptr) >=
		      NIXL_SUCCESS);
		IS(host_wait(near, request), NIXL_SUCCESS);
		IS(near.core->releaseReqH(request), NIXL_SUCCESS);
		for (unsigned char each : mine.bytes) // late bytes of a READ went elsewhere
			CHECK(each == 3);
		CHECK(far.ask("#3") == "1"); // and the peer has nothing of what came after
	}
	IS(near.core->unloadMD(there), NIXL_SUCCESS);
}

static void killed()
{
	end near("near");
	process far;
	region_of mine(near, far.size);
	nixlBackendMD *there = far.load(near);
	nixl_meta_dlist_t ours = host_list(mine.at(), far.size, 1, mine.ours);
	nixl_meta_dlist_t theirs = host_list(far.at, far.size, 1, there);
	std::vector<nixlBackendReqH *> requests(6);

	for (std::size_t i = 0; i < requests.size(); i++)
		IS(near.core->prepXfer(i % 2 ? NIXL_READ : NIXL_WRITE, ours, theirs, "far",
				       requests[i], nullptr),
		   NIXL_SUCCESS);
	IS(near.core->genNotif("far", "are you up"), NIXL_SUCCESS);
	while (far.ask("notes") == "0")
		sched_yield();
	far.stop();
	for (nixlBackendReqH *each : requests)
		IS(near.core->postXfer(NIXL_WRITE, ours, theirs, "far", each, nullptr),
		   NIXL_IN_PROG);
	kill(far.pid, SIGKILL);
	for (nixlBackendReqH *each : requests)
		IS(host_wait(near, each), NIXL_ERR_REMOTE_DISCONNECT);
	// each use dials again, and ends with what comes of it
	for (int uses = 0; uses < 3; uses++) {
		nixl_status_t got =
			near.core->postXfer(NIXL_WRITE, ours, theirs, "far", requests[0], nullptr);

		IS(host_begun(got) ? host_wait(near, requests[0]) : got,
		   NIXL_ERR_REMOTE_DISCONNECT);
	}
	// just after an attempt nobody would hear of the next one's end
	IS(near.core->genNotif("far", "x"), NIXL_ERR_REMOTE_DISCONNECT);
	for (nixlBackendReqH *each : requests)
		IS(near.core->releaseReqH(each), NIXL_SUCCESS);
	IS(near.core->unloadMD(there), NIXL_SUCCESS);
	IS(near.core->disconnect("far"), NIXL_SUCCESS);

	process again; // the same name, started anew
	there = again.load(near);
	theirs = host_list(again.at, again.size, 1, there);
	IS(near.core->prepXfer(NIXL_WRITE, ours, theirs, "far", requests[0], nullptr),
	   NIXL_SUCCESS);
	CHECK(near.core->postXfer(NIXL_WRITE, ours, theirs, "far", requests[0], nullptr) >=
	      NIXL_SUCCESS);
	IS(host_wait(near, requests[0]), NIXL_SUCCESS);
	IS(near.core->releaseReqH(requests[0]), NIXL_SUCCESS);
	IS(near.core->unloadMD(there), NIXL_SUCCESS);
}

// NIXL drops a peer at the first REMOTE_DISCONNECT: what points to it is gone, requests are not.
static void disconnected_in_the_middle()
{
	end near("near");
	process far;
	region_of mine(near, far.size);
	nixlBackendMD *there = far.load(near);
	nixl_meta_dlist_t ours = host_list(mine.at(), far.size, 1, mine.ours);
	nixl_meta_dlist_t theirs = host_list(far.at, far.size, 1, there);
	nixlBackendReqH *one = nullptr, *two = nullptr;

	far.stop();
	IS(near.core->prepXfer(NIXL_WRITE, ours, theirs, "far", one, nullptr), NIXL_SUCCESS);
	IS(near.core->prepXfer(NIXL_READ, ours, theirs, "far", two, nullptr), NIXL_SUCCESS);
	IS(near.core->postXfer(NIXL_WRITE, ours, theirs, "far", one, nullptr), NIXL_IN_PROG);
	IS(near.core->postXfer(NIXL_READ, ours, theirs, "far", two, nullptr), NIXL_IN_PROG);
	IS(near.core->unloadMD(there), NIXL_SUCCESS);
	IS(near.core->disconnect("far"), NIXL_SUCCESS);
	IS(near.core->disconnect("far"), NIXL_ERR_NOT_FOUND);
	IS(host_wait(near, one), NIXL_ERR_REMOTE_DISCONNECT);
	IS(near.core->releaseReqH(one), NIXL_SUCCESS);
	IS(near.core->releaseReqH(two), NIXL_SUCCESS);
}

// Memory that goes while it is used: the transfer ends, the memory is free.
static void deregistered_while_active()
{
	end near("near");
	process far;
	nixlBackendMD *there = far.load(near), *ours = nullptr;
	std::vector<unsigned char> bytes(far.size, 2);
	const auto at = reinterpret_cast<std::uintptr_t>(bytes.data());
	nixlBackendReqH *request = nullptr;

	IS(near.core->registerMem({at, bytes.size(), 0, ""}, DRAM_SEG, ours), NIXL_SUCCESS);
	far.stop();
	nixl_meta_dlist_t mine = host_list(at, far.size, 1, ours);
	nixl_meta_dlist_t theirs = host_list(far.at, far.size, 1, there);
	IS(near.core->prepXfer(NIXL_WRITE, mine, theirs, "far", request, nullptr), NIXL_SUCCESS);
	IS(near.core->postXfer(NIXL_WRITE, mine, theirs, "far", request, nullptr), NIXL_IN_PROG);
	IS(near.core->deregisterMem(ours), NIXL_SUCCESS);
	std::memset(bytes.data(), 3, bytes.size());
	IS(host_wait(near, request), NIXL_ERR_BACKEND);
	IS(near.core->releaseReqH(request), NIXL_SUCCESS);
	kill(far.pid, SIGCONT);
	CHECK(far.ask("#3") == "0");
	IS(near.core->unloadMD(there), NIXL_SUCCESS);
}

// An agent that drops us has not left us: whoever goes on using him gets another link.
static void dropped_by_the_other()
{
	end near("near"), far("far");
	region_of source(near, 4096), sink(far, 4096);
	nixlBackendReqH *request = nullptr;

	near.know(far);
	far.know(near);
	nixlBackendMD *there = sink.load(near);
	nixl_meta_dlist_t mine = host_list(source.at(), 4096, 1, source.ours);
	nixl_meta_dlist_t theirs = host_list(sink.at(), 4096, 1, there);
	IS(near.core->prepXfer(NIXL_WRITE, mine, theirs, "far", request, nullptr), NIXL_SUCCESS);
	for (unsigned char round = 1; round < 4; round++) {
		host_set(source.bytes.data(), 4096, round);
		nixl_status_t now;
		do { // until near has heard of it, a post may still go out on the old link and end
			now = near.core->postXfer(NIXL_WRITE, mine, theirs, "far", request,
						  nullptr);
			if (now == NIXL_IN_PROG)
				now = host_wait(near, request);
		} while (round > 1 && now == NIXL_ERR_REMOTE_DISCONNECT);
		IS(now, NIXL_SUCCESS);
		CHECK(host_count(sink.bytes.data(), 4096, round) == 4096);
		IS(far.core->disconnect("near"), NIXL_SUCCESS);
		far.know(near);
	}
	IS(near.core->releaseReqH(request), NIXL_SUCCESS);
	IS(near.core->unloadMD(there), NIXL_SUCCESS);
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
