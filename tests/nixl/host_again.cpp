/* SPDX-License-Identifier: Apache-2.0 */
/* Links that end and come again under the same metadata, and the threads of an engine beside it. */
#include <atomic>
#include <csignal>
#include <sched.h>
#include <thread>

#include "host.hpp"

constexpr int ROUNDS = 20;

// Posts until it is done: how often the link ended meanwhile does not matter.
static void move_in_the_end(const couple &both)
{
	nixl_status_t got;

	while ((got = both.move()) == NIXL_ERR_REMOTE_DISCONNECT)
		;
	IS(got, NIXL_SUCCESS);
	CHECK(host_same(both.sink->bytes, both.source.bytes));
}

// A peer that was stopped for too long: what was under way is lost, what comes next is not.
static void stopped_and_back()
{
	end near("near", {{"stopped_ms", "3000"}});
	process far;
	region_of mine(near, far.size);
	nixlBackendMD *there = far.load(near);
	nixl_meta_dlist_t ours = host_list(mine.at(), far.size, 1, mine.ours);
	nixl_meta_dlist_t theirs = host_list(far.at, far.size, 1, there);
	nixlBackendReqH *lost = nullptr, *kept = nullptr;

	CHECK(far.ask("=7") == "ok");
	IS(near.core->prepXfer(NIXL_WRITE, ours, theirs, "far", lost, nullptr), NIXL_SUCCESS);
	IS(near.core->prepXfer(NIXL_READ, ours, theirs, "far", kept, nullptr), NIXL_SUCCESS);
	IS(near.core->genNotif("far", "first"), NIXL_SUCCESS);
	while (far.ask("notes") == "0")
		sched_yield();
	far.stop();
	IS(near.core->postXfer(NIXL_WRITE, ours, theirs, "far", lost, nullptr), NIXL_IN_PROG);
	IS(host_wait(near, lost), NIXL_ERR_REMOTE_DISCONNECT);
	// asked for while it cannot answer, and waits
	IS(near.core->postXfer(NIXL_READ, ours, theirs, "far", kept, nullptr), NIXL_IN_PROG);
	IS(near.core->genNotif("far", "end"), NIXL_SUCCESS);
	IS(near.core->unloadMD(there), NIXL_SUCCESS); // no request looks at it
	kill(far.pid, SIGCONT);
	IS(host_wait(near, kept), NIXL_SUCCESS);
	IS(near.core->checkXfer(lost), NIXL_ERR_REMOTE_DISCONNECT);
	CHECK(far.ask("words") == "end ");
	IS(near.core->releaseReqH(lost), NIXL_SUCCESS);
	IS(near.core->releaseReqH(kept), NIXL_SUCCESS);
}

// Notifications over links that end: in their order, none twice; those of the end may be lost.
static void notified_over_links()
{
	couple both;
	int last = -1, taken = 0;

	for (int i = 0; i < ROUNDS; i++) {
		for (int each = 0; each < 5; each++)
			IS(both.near.core->genNotif("far", std::to_string(i * 5 + each)),
			   NIXL_SUCCESS);
		both.far->know(both.near);
		IS(both.far->core->disconnect("near"), NIXL_SUCCESS);
		move_in_the_end(both); // what was sent before has arrived, or never will
		for (notif_list_t some;; some.clear()) {
			IS(both.far->core->getNotifs(some), NIXL_SUCCESS);
			if (some.empty())
				break;
			for (const auto &[name, text] : some) {
				CHECK(name == "near" && std::stoi(text) > last);
				last = std::stoi(text);
				taken++;
			}
		}
	}
	CHECK(taken);
	both.finish();
}

// Metadata comes and goes in one thread, as agents do that an engine meets.
static void load_often(const end &near, const std::atomic<bool> &over)
{
	for (int i = 0; !over; i++) {
		end other("other" + std::to_string(i));
		region_of its(other, 4096);

		near.know(other);
		nixlBackendMD *meta = its.load(near);
		IS(near.core->unloadMD(meta), NIXL_SUCCESS);
		IS(near.core->disconnect(other.name), NIXL_SUCCESS);
	}
}

// The threads of vLLM: one loads metadata, one posts, looks, notifies and takes notifications, and
// no lock of NIXL's is around them. Links end meanwhile.
static void loaded_beside_posts()
{
	nixl_opt_b_args_t args = {"posted", true, ""};
	std::atomic<bool> over{false};
	couple both;

	std::thread loader([&] { load_often(both.near, over); });
	std::thread leaver([&] {
		while (!over) {
			both.far->know(both.near);
			IS(both.far->core->genNotif("near", "here"), NIXL_SUCCESS);
			IS(both.far->core->disconnect("near"), NIXL_SUCCESS);
			sched_yield();
		}
	});
	for (int i = 1; i <= ROUNDS; i++) {
		nixl_status_t got;
		nixlBackendReqH *fresh = nullptr;
		notif_list_t some;

		host_set(both.source.bytes.data(), both.source.bytes.size(), i);
		do {
			got = both.move(&args);
			CHECK(got == NIXL_SUCCESS || got == NIXL_ERR_REMOTE_DISCONNECT);
		} while (got != NIXL_SUCCESS);
		CHECK(host_count(both.sink->bytes.data(), both.sink->bytes.size(), i) ==
		      both.sink->bytes.size());
		IS(both.near.core->prepXfer(NIXL_READ, both.mine, both.theirs, "far", fresh,
					    nullptr),
		   NIXL_SUCCESS);
		got = both.near.core->postXfer(NIXL_READ, both.mine, both.theirs, "far", fresh,
					       nullptr);
		if (host_begun(got))
			got = host_wait(both.near, fresh);
		CHECK(got == NIXL_SUCCESS || got == NIXL_ERR_REMOTE_DISCONNECT);
		IS(both.near.core->releaseReqH(fresh), NIXL_SUCCESS);
		got = both.near.core->genNotif("far", "x");
		CHECK(got == NIXL_SUCCESS || got == NIXL_ERR_REMOTE_DISCONNECT);
		IS(both.near.core->getNotifs(some), NIXL_SUCCESS);
	}
	over = true;
	loader.join();
	leaver.join();
	move_in_the_end(both);
	both.finish();
}

const test tests_again[] = {
	{"stopped_and_back", stopped_and_back},
	{"notified_over_links", notified_over_links},
	{"loaded_beside_posts", loaded_beside_posts},
	{nullptr, nullptr},
};
