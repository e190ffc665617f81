/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers that are released while their bytes are on the way. */
#include <csignal>
#include <cstdlib>
#include <sched.h>

#include "host.hpp"

// Of both memories: an edge, what is aborted, an edge, what the next transfers use.
constexpr std::size_t EDGE = 4096, BIG = 16u << 20, NEXT = BIG + 2 * EDGE, FENCE = 8u << 20;

struct scene {
	end near;
	process far;
	region_of mine;
	nixlBackendMD *there;
	nixlBackendReqH *request = nullptr;

	scene(const nixl_b_params_t &options, const std::string &far_option)
	    : near("near", options), far(far_option), mine(near, far.size), there(far.load(near))
	{
		run(NIXL_WRITE); // there is a link
	}
	~scene()
	{
		IS(near.core->unloadMD(there), NIXL_SUCCESS);
	}
	nixl_meta_dlist_t ours(std::size_t off, std::size_t size) const
	{
		return host_list(mine.at() + off, size, 1, mine.ours);
	}
	nixl_meta_dlist_t theirs(std::size_t off, std::size_t size) const
	{
		return host_list(far.at + off, size, 1, there);
	}
	// One behind whatever went before, on every channel.
	void run(nixl_xfer_op_t op) const
	{
		const nixl_meta_dlist_t here = ours(NEXT, FENCE), away = theirs(NEXT, FENCE);
		nixlBackendReqH *one = nullptr;

		IS(near.core->prepXfer(op, here, away, "far", one, nullptr), NIXL_SUCCESS);
		CHECK(host_begun(near.core->postXfer(op, here, away, "far", one, nullptr)));
		IS(host_wait(near, one), NIXL_SUCCESS);
		IS(near.core->releaseReqH(one), NIXL_SUCCESS);
	}
	// Until bytes of it have arrived and others have not: the target has 1, the source 2.
	void catch_it(nixl_xfer_op_t op, bool stop)
	{
		const nixl_meta_dlist_t here = ours(EDGE, BIG), away = theirs(EDGE, BIG);

		for (;;) {
			CHECK(far.ask(op == NIXL_WRITE ? "=1" : "=2") == "ok");
			host_set(mine.bytes.data(), far.size, op == NIXL_WRITE ? 2 : 1);
			IS(near.core->prepXfer(op, here, away, "far", request, nullptr),
			   NIXL_SUCCESS);
			CHECK(host_begun(
				near.core->postXfer(op, here, away, "far", request, nullptr)));
			while (near.core->checkXfer(request) == NIXL_IN_PROG &&
			       (op == NIXL_WRITE ? far.peek(EDGE) != 2
						 : !host_count(&mine.bytes[EDGE], 1, 2)))
				;
			if (stop)
				far.stop();
			if (near.core->checkXfer(request) == NIXL_IN_PROG)
				return;
			IS(near.core->releaseReqH(request), NIXL_SUCCESS); // it was through
			kill(far.pid, SIGCONT);
		}
	}
	void release() const
	{
		const nixl_status_t first = near.core->releaseReqH(request);

		if (first == NIXL_SUCCESS)
			return;
		IS(first, NIXL_ERR_REPOST_ACTIVE);
		IS(near.core->releaseReqH(request), NIXL_SUCCESS);
	}
	std::size_t far_has(int value) const
	{
		return std::stoul(far.ask("#" + std::to_string(value)));
	}
	void edges_hold(int value) const
	{
		for (std::size_t i = 0; i < EDGE; i++)
			CHECK(far.peek(i) == value && far.peek(EDGE + BIG + i) == value);
	}
	// Under a lease the peer itself reads our memory, which is ours again when it is
	// deregistered.
	void wait_for_lease()
	{
		if (!std::getenv("TCPX_ONE_COPY"))
			return;
		kill(far.pid, SIGCONT);
		IS(near.core->deregisterMem(mine.ours), NIXL_SUCCESS);
		IS(near.core->registerMem(mine.blob(), DRAM_SEG, mine.ours), NIXL_SUCCESS);
	}
};

static void abort_them(const std::string &far_option, bool stop)
{
	for (nixl_xfer_op_t op : {NIXL_WRITE, NIXL_READ}) {
		scene all({}, far_option);

		for (int round = 0; round < 3; round++) {
			all.catch_it(op, stop);
			all.release();
			all.wait_for_lease();
			host_set(all.mine.bytes.data(), all.far.size, 3); // ours again
			kill(all.far.pid, SIGCONT);
			all.run(NIXL_READ);
			host_set(&all.mine.bytes[NEXT], FENCE, 3);
			all.run(NIXL_WRITE);
			// nothing came late, and nothing of what we wrote since has left
			CHECK(host_count(all.mine.bytes.data(), all.far.size, 3) == all.far.size);
			CHECK(all.far_has(3) == FENCE);
			all.edges_hold(op == NIXL_WRITE ? 1 : 2);
			CHECK(op == NIXL_WRITE || all.far_has(2) == all.far.size - FENCE);
		}
	}
}

static void aborted_with_the_peer_stopped()
{
	abort_them("", true);
}

static void aborted_with_a_slow_peer()
{
	abort_them("TESTS_FILTERS=fault:delay=2000", false);
}

// Once it has ended, which a release that succeeds at once says, too, the peer gets no more.
static void aborted_strictly()
{
	scene all({{"strict_abort", "1"}}, "TESTS_FILTERS=fault:delay=2000");

	for (int round = 0; round < 4; round++) {
		all.catch_it(NIXL_WRITE, false);
		const nixl_status_t first = all.near.core->releaseReqH(all.request);
		if (first != NIXL_SUCCESS) {
			IS(first, NIXL_ERR_REPOST_ACTIVE);
			const nixl_status_t last = host_wait(all.near, all.request);
			CHECK(last == NIXL_ERR_CANCELED || last == NIXL_SUCCESS);
			IS(all.near.core->releaseReqH(all.request), NIXL_SUCCESS);
		}
		CHECK(all.far.ask("=4") == "ok"); // theirs again
		all.run(NIXL_WRITE);
		CHECK(all.far_has(4) == all.far.size - FENCE);
	}
}

// What was under way when the agent was dropped is released when one of that name is loaded again.
static void released_after_reload()
{
	scene all({}, "");
	nixlBackendReqH *old = nullptr;

	all.catch_it(NIXL_READ, true);
	old = all.request;
	IS(all.near.core->unloadMD(all.there), NIXL_SUCCESS);
	IS(all.near.core->disconnect("far"), NIXL_SUCCESS);
	kill(all.far.pid, SIGCONT);
	all.there = all.far.load(all.near);
	all.run(NIXL_WRITE);
	const nixl_status_t last = host_wait(all.near, old);
	CHECK(last == NIXL_ERR_REMOTE_DISCONNECT || last == NIXL_SUCCESS); // all was there
	IS(all.near.core->postXfer(NIXL_READ, all.ours(EDGE, BIG), all.theirs(EDGE, BIG), "far",
				   old, nullptr),
	   NIXL_ERR_REMOTE_DISCONNECT);
	IS(all.near.core->releaseReqH(old), NIXL_SUCCESS);
	all.catch_it(NIXL_WRITE, false); // and while the new link is busy
	all.release();
	all.run(NIXL_READ);
}

const test tests_abort[] = {
	{"aborted_with_the_peer_stopped", aborted_with_the_peer_stopped},
	{"aborted_with_a_slow_peer", aborted_with_a_slow_peer},
	{"aborted_strictly", aborted_strictly},
	{"released_after_reload", released_after_reload},
	{nullptr, nullptr},
};
