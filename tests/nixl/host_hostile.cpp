/* SPDX-License-Identifier: Apache-2.0 */
/* Orders no agent should give and faults nobody asks for: what is gone is not looked at, what was
 * refused leaves no trace, and each error says what it is about. */
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "host.hpp"
#include "in_child.h"

// The link is another one, and what descriptors pointed to was unloaded: a post asks neither.
static void posted_after_unload()
{
	couple both;

	IS(both.move(), NIXL_SUCCESS);
	IS(both.near.core->unloadMD(both.there), NIXL_SUCCESS);
	for (unsigned char round = 1; round <= 20; round++) {
		both.goodbye();
		host_set(both.source.bytes.data(), 8192, round);
		IS(both.move_at_last(), NIXL_SUCCESS);
		CHECK(host_same(both.sink->bytes, both.source.bytes));
	}
	both.goodbye();
	both.theirs.descs.pop_back(); // not the list that was prepared: the old link, or refused
	const nixl_status_t got = both.move_at_last();
	CHECK(got == NIXL_ERR_INVALID_PARAM || got == NIXL_SUCCESS);
	IS(both.near.core->releaseReqH(both.request), NIXL_SUCCESS);
}

static void posted_after_deregistration()
{
	couple both;
	std::vector<unsigned char> bytes(8192);
	const auto at = reinterpret_cast<std::uintptr_t>(bytes.data());
	nixlBackendMD *ours = nullptr;
	nixlBackendReqH *request = nullptr;
	nixl_status_t got;

	IS(both.near.core->registerMem({at, 8192, 0, ""}, DRAM_SEG, ours), NIXL_SUCCESS);
	nixl_meta_dlist_t mine = host_list(at, 4096, 2, ours);
	IS(both.near.core->prepXfer(NIXL_WRITE, mine, both.theirs, "far", request, nullptr),
	   NIXL_SUCCESS);
	IS(both.near.core->deregisterMem(ours), NIXL_SUCCESS);
	for (int round = 0; round < 10; round++) { // over the same link, and over another
		got = both.near.core->postXfer(NIXL_WRITE, mine, both.theirs, "far", request,
					       nullptr);
		CHECK(got == NIXL_ERR_BACKEND || got == NIXL_ERR_INVALID_PARAM);
		both.goodbye();
	}
	IS(both.near.core->releaseReqH(request), NIXL_SUCCESS);
	// the peer is not to blame, and goes on; its own memory may go, too
	IS(both.move_at_last(), NIXL_SUCCESS);
	both.sink.reset();
	IS(both.move(), NIXL_ERR_NOT_ALLOWED);
	IS(both.near.core->connect("far"), NIXL_SUCCESS);
	IS(both.near.core->releaseReqH(both.request), NIXL_SUCCESS);
	IS(both.near.core->unloadMD(both.there), NIXL_SUCCESS);
}

// As NIXL does when one thread hears of an end while another one posts.
static void dropped_while_posted()
{
	for (int round = 0; round < 30; round++) {
		couple both;
		std::atomic<bool> over{false};
		std::thread poster([&] {
			while (!over) {
				const nixl_status_t got = both.move();

				CHECK(got == NIXL_SUCCESS || got == NIXL_ERR_REMOTE_DISCONNECT);
			}
		});

		both.far->know(both.near);
		IS(both.far->core->disconnect("near"), NIXL_SUCCESS);
		IS(both.near.core->unloadMD(both.there), NIXL_SUCCESS);
		IS(both.near.core->disconnect("far"), NIXL_SUCCESS);
		over = true;
		poster.join();
		IS(both.move(), NIXL_ERR_REMOTE_DISCONNECT);
		IS(both.near.core->releaseReqH(both.request), NIXL_SUCCESS);
	}
}

// NIXL forgets an agent without a word when loading its metadata fails half way.
static void started_anew_without_a_word()
{
	couple both;
	nixl_status_t got;

	IS(both.move(), NIXL_SUCCESS);
	IS(both.near.core->loadRemoteConnInfo("near", both.far->info), NIXL_ERR_MISMATCH);
	both.sink.reset();
	both.far.reset();
	end again("far");
	while ((got = both.near.core->loadRemoteConnInfo("far", again.info)) != NIXL_SUCCESS)
		IS(got, NIXL_ERR_NOT_ALLOWED);
	CHECK(both.post() != NIXL_SUCCESS); // it belongs to the one that ended
	IS(both.near.core->releaseReqH(both.request), NIXL_SUCCESS);
	IS(both.near.core->unloadMD(both.there), NIXL_SUCCESS);
	region_of fresh(again, 8192);
	nixlBackendMD *there = fresh.load(both.near);
	nixl_meta_dlist_t theirs = host_list(fresh.at(), 4096, 2, there);
	IS(both.near.core->prepXfer(NIXL_READ, both.mine, theirs, "far", both.request, nullptr),
	   NIXL_SUCCESS);
	CHECK(host_begun(both.near.core->postXfer(NIXL_READ, both.mine, theirs, "far", both.request,
						  nullptr)));
	IS(host_wait(both.near, both.request), NIXL_SUCCESS);
	IS(both.near.core->releaseReqH(both.request), NIXL_SUCCESS);
	IS(both.near.core->unloadMD(there), NIXL_SUCCESS);
	end twin("near"); // ourselves are never replaced
	IS(both.near.core->loadRemoteConnInfo("near", twin.info), NIXL_ERR_NOT_ALLOWED);
}

// A link breaks and both live: the same metadata, loaded again, is a new link.
static void loaded_again_over_a_dead_link()
{
	setenv("TESTS_FILTERS", "fault:drop=1", 1); // of the session that opens next
	end near("near", {{"channels", "1"}});
	unsetenv("TESTS_FILTERS");
	end far("far");
	region_of source(near, 4u << 20), sink(far, 4u << 20);
	nixlBackendReqH *request = nullptr;

	near.know(far);
	for (std::size_t size : {source.bytes.size(), std::size_t(4096)}) {
		nixlBackendMD *there = sink.load(near);
		nixl_meta_dlist_t mine = host_list(source.at(), size, 1, source.ours);
		nixl_meta_dlist_t theirs = host_list(sink.at(), size, 1, there);
		const nixl_status_t end = size == 4096 ? NIXL_SUCCESS : NIXL_ERR_REMOTE_DISCONNECT;

		IS(near.core->prepXfer(NIXL_WRITE, mine, theirs, "far", request, nullptr),
		   NIXL_SUCCESS);
		nixl_status_t got =
			near.core->postXfer(NIXL_WRITE, mine, theirs, "far", request, nullptr);

		if (host_begun(got)) // else it ended before the call returned
			got = host_wait(near, request);
		IS(got, end);
		IS(near.core->releaseReqH(request), NIXL_SUCCESS);
		IS(near.core->unloadMD(there), NIXL_SUCCESS);
		near.know(far); // NIXL had forgotten it without a word
	}
}

// A repost that is refused changes nothing of the one that runs, nor of the next.
static void refused_repost()
{
	end near("near");
	process far;
	region_of mine(near, far.size);
	nixlBackendMD *there = far.load(near);
	nixl_opt_b_args_t args = {"once", true, ""};
	nixl_meta_dlist_t ours = host_list(mine.at(), far.size, 1, mine.ours);
	nixl_meta_dlist_t theirs = host_list(far.at, far.size, 1, there);
	nixlBackendReqH *request = nullptr;

	far.stop();
	IS(near.core->prepXfer(NIXL_WRITE, ours, theirs, "far", request, nullptr), NIXL_SUCCESS);
	IS(near.core->postXfer(NIXL_WRITE, ours, theirs, "far", request, &args), NIXL_IN_PROG);
	args.notifMsg = "never";
	IS(near.core->postXfer(NIXL_WRITE, ours, theirs, "far", request, &args),
	   NIXL_ERR_REPOST_ACTIVE);
	IS(near.core->postXfer(NIXL_WRITE, ours, theirs, "far", request, nullptr),
	   NIXL_ERR_REPOST_ACTIVE); // "once" is still to be taken away from the next
	kill(far.pid, SIGCONT);
	IS(host_wait(near, request), NIXL_SUCCESS);
	CHECK(host_begun(near.core->postXfer(NIXL_WRITE, ours, theirs, "far", request, nullptr)));
	IS(host_wait(near, request), NIXL_SUCCESS);
	IS(near.core->genNotif("far", "end"), NIXL_SUCCESS);
	CHECK(far.ask("words") == "once end ");
	IS(near.core->releaseReqH(request), NIXL_SUCCESS);
	IS(near.core->unloadMD(there), NIXL_SUCCESS);
}

// A peer that takes connections and says nothing; one that has no room for more notifications.
static void never_answered()
{
	end near("near");
	process far;

	far.stop();
	nixlBackendMD *there = far.load(near);
	region_of mine(near, 4096);
	nixl_meta_dlist_t ours = host_list(mine.at(), 4096, 1, mine.ours);
	nixl_meta_dlist_t theirs = host_list(far.at, 4096, 1, there);
	nixlBackendReqH *request = nullptr;

	IS(near.core->prepXfer(NIXL_WRITE, ours, theirs, "far", request, nullptr), NIXL_SUCCESS);
	IS(near.core->postXfer(NIXL_WRITE, ours, theirs, "far", request, nullptr), NIXL_IN_PROG);
	IS(host_wait(near, request), NIXL_ERR_REMOTE_DISCONNECT);
	IS(near.core->postXfer(NIXL_WRITE, ours, theirs, "far", request, nullptr), NIXL_IN_PROG);
	kill(far.pid, SIGCONT); // it was only late
	IS(host_wait(near, request), NIXL_SUCCESS);
	IS(near.core->releaseReqH(request), NIXL_SUCCESS);
	IS(near.core->unloadMD(there), NIXL_SUCCESS);
}

static void full_of_notifications()
{
	end near("near");
	process far;
	nixl_status_t got = NIXL_SUCCESS;

	IS(near.core->unloadMD(far.load(near)), NIXL_SUCCESS);
	far.stop();
	for (int i = 0; i < 4096 && got == NIXL_SUCCESS; i++)
		got = near.core->genNotif("far", std::string(1u << 20, 'x'));
	IS(got, NIXL_ERR_BACKEND);
	IS(near.core->connect("far"), NIXL_SUCCESS); // the peer is none the worse
}

// With strict_abort the first call refuses while the peer may still write; the second takes over.
static void refused_then_taken()
{
	end near("near", {{"strict_abort", "1"}, {"nixl_transport", "tcp"}});
	process far;
	region_of mine(near, far.size);
	nixlBackendMD *there = far.load(near);
	nixl_meta_dlist_t ours = host_list(mine.at(), far.size, 1, mine.ours);
	nixl_meta_dlist_t theirs = host_list(far.at, far.size, 1, there);
	nixlBackendReqH *request = nullptr;
	nixl_status_t first;

	IS(near.core->genNotif("far", "end"), NIXL_SUCCESS);
	CHECK(far.ask("words") == "end "); // there is a link
	far.stop();
	do { // until bytes of it are on their way when it is released
		IS(near.core->prepXfer(NIXL_WRITE, ours, theirs, "far", request, nullptr),
		   NIXL_SUCCESS);
		for (int looks = 0; looks < 1000; looks++)
			IS(looks ? near.core->checkXfer(request)
				 : near.core->postXfer(NIXL_WRITE, ours, theirs, "far", request,
						       nullptr),
			   NIXL_IN_PROG);
		first = near.core->releaseReqH(request);
	} while (first == NIXL_SUCCESS);
	IS(first, NIXL_ERR_REPOST_ACTIVE);
	CHECK(near.core->checkXfer(request) != NIXL_SUCCESS);
	IS(near.core->releaseReqH(request), NIXL_SUCCESS);
	IS(near.core->unloadMD(there), NIXL_SUCCESS);
	kill(far.pid, SIGCONT); // it lets go of the memory
}

// Everything fails in a forked child, and hangs nowhere.
static void calls_in_child(void *arg)
{
	couple &both = *static_cast<couple *>(arg);
	nixlBackendMD *meta = nullptr;
	notif_list_t some;

	IS(both.post(), NIXL_ERR_BACKEND);
	IS(both.near.core->getNotifs(some), NIXL_ERR_BACKEND);
	IS(both.near.core->genNotif("far", "x"), NIXL_ERR_BACKEND);
	IS(both.near.core->registerMem({both.source.at(), 8, 0, ""}, DRAM_SEG, meta),
	   NIXL_ERR_BACKEND);
	CHECK(both.near.core->connect("far") != NIXL_SUCCESS);
	IS(both.near.core->releaseReqH(both.request), NIXL_SUCCESS);
}

// The parent goes on.
static void forked()
{
	couple both;

	IS(both.move(), NIXL_SUCCESS);
	CHECK(in_child(calls_in_child, &both) == 0);
	IS(both.move(), NIXL_SUCCESS);
	IS(both.near.core->releaseReqH(both.request), NIXL_SUCCESS);
	IS(both.near.core->unloadMD(both.there), NIXL_SUCCESS);
}

// Connects with the first request, not before.
static void connected_late()
{
	const nixl_b_params_t lazy = {{"nixl_eager_connect", "0"}};
	end near("near", lazy), far("far");
	nixlBackendMD *wrong = nullptr;

	near.know(far); // damaged metadata is found at once all the same
	IS(near.core->loadRemoteMD({4096, 8192, 0, std::string(24, 0)}, DRAM_SEG, "far", wrong),
	   NIXL_ERR_INVALID_PARAM);
	couple both(lazy);
	host_set(both.source.bytes.data(), 8192, 7);
	IS(both.move(), NIXL_SUCCESS);
	CHECK(host_same(both.sink->bytes, both.source.bytes));
	IS(both.near.core->releaseReqH(both.request), NIXL_SUCCESS);
	IS(both.near.core->unloadMD(both.there), NIXL_SUCCESS);
}

static void errors_name_the_cause()
{
	const std::string port = std::to_string(20000 + getpid() % 7000);
	end holder("holder", {{"nixl_port", port}});

	const auto refusal = [](const nixl_b_params_t &options) {
		return host_said([&] { host_refused(options); });
	};

	CHECK(host_said([] { end one("one"); }).empty());
	const std::string unknown = host_said([] { end one("one", {{"no_such_option", "1"}}); });
	CHECK(host_times(unknown, "no_such_option") == 1 && host_times(unknown, "\n") == 1);
	const std::string many = refusal({{"channels", "900"}});
	CHECK(host_times(many, "CHANNELS") && host_times(many, "900") && host_times(many, "1..64"));
	const std::string pigeon = refusal({{"nixl_transport", "pigeon"}});
	CHECK(host_times(pigeon, "pigeon") && host_times(pigeon, "gpudirect"));
	const std::string taken =
		refusal({{"bind", "127.0.0.1"}, {"nixl_port", port}, {"port_retries", "0"}});
	CHECK(host_times(taken, port) && host_times(taken, "127.0.0.1"));
	// a transfer that fails by itself says so, once
	couple both;
	IS(both.move(), NIXL_SUCCESS);
	both.sink.reset();
	const std::string gone = host_said([&] {
		IS(both.move(), NIXL_ERR_NOT_ALLOWED);
		IS(both.near.core->checkXfer(both.request), NIXL_ERR_NOT_ALLOWED);
	});
	CHECK(host_times(gone, "a transfer ended") == 1 && host_times(gone, "next:") == 1);
	IS(both.near.core->releaseReqH(both.request), NIXL_SUCCESS);
	IS(both.near.core->unloadMD(both.there), NIXL_SUCCESS);
}

static void notified_50_times()
{
	couple both;
	int refused = 0;

	IS(both.move(), NIXL_SUCCESS);
	both.sink.reset();
	both.far.reset();
	while (refused < 50) { // among them attempts to connect again
		refused += both.near.core->genNotif("far", "x") == NIXL_ERR_REMOTE_DISCONNECT;
		sched_yield();
	}
	both.finish();
}

// An application that notifies an agent that is gone hears of it once, not with each call. In a
// process of its own, since lines of that level are one setting of a process.
static void said_once_of_a_peer()
{
	int status = -1;

	if (std::getenv("HOST_LOUD"))
		return notified_50_times();
	const std::string lines = host_said([&] {
		const pid_t child = fork();

		CHECK(child >= 0);
		if (!child) {
			setenv("HOST_LOUD", "1", 1);
			setenv("TCPX_LOG", "info", 1);
			execl("/proc/self/exe", "nixl_host", "said_once_of_a_peer", nullptr);
			_exit(127);
		}
		CHECK(waitpid(child, &status, 0) == child);
	});
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	CHECK(host_times(lines, "genNotif: ") >= 2 && host_times(lines, "genNotif: ") <= 6);
	CHECK(host_times(lines, " more times)") >= 1); // the others are counted
}

const test tests_hostile[] = {
	{"posted_after_unload", posted_after_unload},
	{"posted_after_deregistration", posted_after_deregistration},
	{"dropped_while_posted", dropped_while_posted},
	{"started_anew_without_a_word", started_anew_without_a_word},
	{"loaded_again_over_a_dead_link", loaded_again_over_a_dead_link},
	{"refused_repost", refused_repost},
	{"never_answered", never_answered},
	{"full_of_notifications", full_of_notifications},
	{"refused_then_taken", refused_then_taken},
	{"forked", forked},
	{"connected_late", connected_late},
	{"errors_name_the_cause", errors_name_the_cause},
	{"said_once_of_a_peer", said_once_of_a_peer},
	{nullptr, nullptr},
};
