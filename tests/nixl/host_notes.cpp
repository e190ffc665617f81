/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications: never before the data, never of what failed, of every size. */
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "host.hpp"

constexpr std::size_t BIG = 8u << 20, NOTE_MAX = 64u << 20;

// Each word differs from every other one, and from the same one of another round.
static void fill(std::vector<unsigned char> &bytes, std::uint64_t round)
{
	for (std::uint64_t i = 0; i < bytes.size(); i += 8) {
		const std::uint64_t word = (i + round) * 0x9e3779b97f4a7c15;

		std::memcpy(&bytes[i], &word, 8);
	}
}

// Nobody looks at the request: the notification leaves by itself, behind the last byte.
static void never_before_the_data()
{
	couple both({{"channels", "4"}, {"chunk_bytes", "64K"}}, BIG);
	std::vector<nixlBackendReqH *> requests(12);
	std::vector<unsigned char> &here = both.source.bytes, &there = both.sink->bytes;

	for (std::size_t i = 0; i < requests.size(); i++) {
		const nixl_xfer_op_t op = i % 3 == 2 ? NIXL_READ : NIXL_WRITE;
		const nixl_opt_b_args_t args = {std::to_string(i), true, ""};

		IS(both.near.core->prepXfer(op, both.mine, both.theirs, "far", requests[i],
					    nullptr),
		   NIXL_SUCCESS);
		fill(op == NIXL_WRITE ? here : there, i);
		CHECK(host_begun(both.near.core->postXfer(op, both.mine, both.theirs, "far",
							  requests[i], &args)));
		const auto notes = host_notes(*both.far, 1);
		CHECK(std::equal(here.rbegin(), here.rend(), there.rbegin())); // the last first
		CHECK(notes.size() == 1 && notes[0].second == std::to_string(i));
	}
	for (nixlBackendReqH *each : requests) {
		IS(host_wait(both.near, each), NIXL_SUCCESS);
		IS(both.near.core->releaseReqH(each), NIXL_SUCCESS);
	}
	both.finish();
}

static void refused_never_notifies()
{
	couple both;
	nixl_opt_b_args_t args = {"never", true, ""};

	both.sink.reset();
	IS(both.move(&args), NIXL_ERR_NOT_ALLOWED);
	region_of fresh(*both.far, 8192);
	nixlBackendMD *there = fresh.load(both.near);
	nixl_meta_dlist_t theirs = host_list(fresh.at(), 4096, 2, there);
	nixlBackendReqH *next = nullptr;
	IS(both.near.core->prepXfer(NIXL_WRITE, both.mine, theirs, "far", next, nullptr),
	   NIXL_SUCCESS);
	args.notifMsg = "after";
	CHECK(host_begun(
		both.near.core->postXfer(NIXL_WRITE, both.mine, theirs, "far", next, &args)));
	IS(host_wait(both.near, next), NIXL_SUCCESS);
	IS(both.near.core->genNotif("far", "end"), NIXL_SUCCESS);
	const auto notes = host_notes(*both.far, 2);
	CHECK(notes.size() == 2 && notes[0].second == "after" && notes[1].second == "end");
	IS(both.near.core->releaseReqH(next), NIXL_SUCCESS);
	IS(both.near.core->unloadMD(there), NIXL_SUCCESS);
	both.finish();
}

static void aborted_never_notifies()
{
	end near("near");
	process far;
	region_of mine(near, far.size);
	nixlBackendMD *there = far.load(near);
	const std::size_t half = far.size / 2; // the next one stays out of what may still come in
	const auto list = [&](bool away, bool behind) {
		return host_list((away ? far.at : mine.at()) + half * behind, half, 1,
				 away ? there : mine.ours);
	};

	for (nixl_xfer_op_t op : {NIXL_WRITE, NIXL_READ}) {
		nixl_opt_b_args_t args = {"never", true, ""};
		nixlBackendReqH *request = nullptr, *next = nullptr;

		IS(near.core->genNotif("far", "end"), NIXL_SUCCESS);
		CHECK(far.ask("words") == "end "); // there is a link
		far.stop();
		IS(near.core->prepXfer(op, list(false, false), list(true, false), "far", request,
				       nullptr),
		   NIXL_SUCCESS);
		IS(near.core->postXfer(op, list(false, false), list(true, false), "far", request,
				       &args),
		   NIXL_IN_PROG);
		if (near.core->releaseReqH(request) != NIXL_SUCCESS)
			IS(near.core->releaseReqH(request), NIXL_SUCCESS);
		kill(far.pid, SIGCONT);
		args.notifMsg = "after";
		IS(near.core->prepXfer(op, list(false, true), list(true, true), "far", next,
				       nullptr),
		   NIXL_SUCCESS);
		CHECK(host_begun(near.core->postXfer(op, list(false, true), list(true, true), "far",
						     next, &args)));
		IS(host_wait(near, next), NIXL_SUCCESS);
		IS(near.core->genNotif("far", "end"), NIXL_SUCCESS);
		CHECK(far.ask("words") == "after end ");
		IS(near.core->releaseReqH(next), NIXL_SUCCESS);
	}
	IS(near.core->unloadMD(there), NIXL_SUCCESS);
}

static void of_every_size()
{
	couple both;
	nixl_opt_b_args_t args = {std::string(NOTE_MAX + 1, 'x'), true, ""};

	for (std::size_t size : {std::size_t(0), NOTE_MAX}) {
		IS(both.near.core->genNotif("far", std::string(size, 'y')), NIXL_SUCCESS);
		const auto notes = host_notes(*both.far, 1);
		CHECK(notes.size() == 1 && notes[0].second == std::string(size, 'y'));
	}
	IS(both.post(&args), NIXL_ERR_INVALID_PARAM);
	IS(both.near.core->checkXfer(both.request), NIXL_ERR_NOT_POSTED);
	args.notifMsg.pop_back();
	CHECK(host_begun(both.post(&args)));
	IS(host_wait(both.near, both.request), NIXL_SUCCESS);
	const auto notes = host_notes(*both.far, 1);
	CHECK(notes.size() == 1 && notes[0].second == args.notifMsg);
	both.finish();
}

// A WRITE of one end to another with a notification, which has arrived when this returns.
static void notify(const end &from, const end &to, const std::string &message)
{
	region_of here(from, 4096), there(to, 4096);
	nixlBackendMD *meta = there.load(from);
	nixl_meta_dlist_t mine = host_list(here.at(), 4096, 1, here.ours);
	nixl_meta_dlist_t theirs = host_list(there.at(), 4096, 1, meta);
	const nixl_opt_b_args_t args = {message, true, ""};
	nixlBackendReqH *request = nullptr;

	IS(from.core->prepXfer(NIXL_WRITE, mine, theirs, to.name, request, nullptr), NIXL_SUCCESS);
	CHECK(host_begun(from.core->postXfer(NIXL_WRITE, mine, theirs, to.name, request, &args)));
	IS(host_wait(from, request), NIXL_SUCCESS);
	IS(from.core->releaseReqH(request), NIXL_SUCCESS);
	IS(from.core->unloadMD(meta), NIXL_SUCCESS);
}

// Two agents of one name: what comes under it is from the one that was loaded, or from nobody.
static void under_a_name_that_was_loaded()
{
	end near("near"), far("far"), twin("far");
	const std::string said = host_said([&] {
		far.know(near);
		twin.know(near);
		notify(twin, near, "before"); // nobody is loaded by that name
		CHECK(host_notes(near, 1)[0].second == "before");
		near.know(far);
		for (int i = 0; i < 3; i++)
			notify(twin, near, "foreign");
		notify(far, near, "his");
		const auto notes = host_notes(near, 1);
		CHECK(notes.size() == 1 && notes[0].first == "far" && notes[0].second == "his");
		IS(near.core->disconnect("far"), NIXL_SUCCESS);
		near.know(twin);
		notify(twin, near, "after");
		CHECK(host_notes(near, 1)[0].second == "after");
	});

	CHECK(host_times(said, "comes from another session") == 1);
}

const test tests_notes[] = {
	{"under_a_name_that_was_loaded", under_a_name_that_was_loaded},
	{"never_before_the_data", never_before_the_data},
	{"refused_never_notifies", refused_never_notifies},
	{"aborted_never_notifies", aborted_never_notifies},
	{"of_every_size", of_every_size},
	{nullptr, nullptr},
};
