/* SPDX-License-Identifier: Apache-2.0 */
/* Each method with each of its allocations failing: BACKEND, nothing thrown, and it goes on. The
 * plugin's C++ runtime may be inside of it, and calls malloc() of the program that loaded it. */
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "host.hpp"

static thread_local long left; // allocations of this thread up to the one that fails; 0: none does
static thread_local bool stays, failed;

static bool fails()
{
	if (!left || --left)
		return false;
	left = stays;
	failed = true;
	errno = ENOMEM; // glibc insists
	return true;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
void *operator new(std::size_t size)
{
	void *out = fails() ? nullptr : std::malloc(size ? size : 1);

	if (!out)
		throw std::bad_alloc();
	return out;
}

#pragma GCC diagnostic ignored "-Wmismatched-new-delete" // the one above is of malloc, too
void operator delete(void *it) noexcept
{
	std::free(it);
}

void operator delete(void *it, std::size_t) noexcept
{
	std::free(it);
}
#else
extern "C" {
void *__libc_malloc(std::size_t size);
void *__libc_calloc(std::size_t count, std::size_t size);
void *__libc_realloc(void *it, std::size_t size);

void *malloc(std::size_t size) noexcept
{
	return fails() ? nullptr : __libc_malloc(size);
}

void *calloc(std::size_t count, std::size_t size) noexcept
{
	return fails() ? nullptr : __libc_calloc(count, size);
}

void *realloc(void *it, std::size_t size) noexcept
{
	return fails() ? nullptr : __libc_realloc(it, size);
}
}
#endif

static long nth;
static bool and_all_after;

template <class Call> static nixl_status_t starved(Call call)
{
	nixl_status_t got;

	left = nth;
	stays = and_all_after;
	failed = false;
	got = call();
	left = 0;
	return got;
}

// step() starves one call, and makes its result undone when there is one.
template <class Step> static void survives(const char *what, Step step)
{
	for (bool after : {false, true}) {
		and_all_after = after;
		for (nth = 1;; nth++) {
			const nixl_status_t got = step();

			if (!host_begun(got) && (!failed || got != NIXL_ERR_BACKEND))
				host_fail(__FILE__, __LINE__,
					  std::string(what) + " is " + std::to_string(int(got)) +
						  " at allocation " + std::to_string(nth));
			if (!failed)
				break;
		}
	}
}

static void registered_without_memory()
{
	couple both;
	end &near = both.near;
	std::vector<unsigned char> bytes(10000);
	const nixlBlobDesc blob = {reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size(), 0,
				   ""};
	const nixlBlobDesc there = both.sink->blob();
	nixl_status_t got;

	IS(both.move(), NIXL_SUCCESS); // there is a link
	survives("registerMem", [&] {
		nixlBackendMD *meta = nullptr;

		got = starved([&] { return near.core->registerMem(blob, DRAM_SEG, meta); });
		if (meta)
			IS(near.core->deregisterMem(meta), NIXL_SUCCESS);
		return got;
	});
	survives("getPublicData", [&] {
		std::string token;

		return starved([&] { return near.core->getPublicData(both.source.ours, token); });
	});
	survives("loadRemoteMD", [&] {
		nixlBackendMD *meta = nullptr;

		got = starved(
			[&] { return near.core->loadRemoteMD(there, DRAM_SEG, "far", meta); });
		return meta ? near.core->unloadMD(meta) : got;
	});
	survives("loadLocalMD", [&] {
		nixlBackendMD *meta = nullptr;

		got = starved([&] { return near.core->loadLocalMD(both.source.ours, meta); });
		return meta ? near.core->unloadMD(meta) : got;
	});
	survives("queryMem", [&] {
		std::vector<nixl_query_resp_t> answers;
		nixl_reg_dlist_t asked(DRAM_SEG);

		asked.descs = {both.source.blob()};
		return starved([&] { return near.core->queryMem(asked, answers); });
	});
	survives("deregisterMem", [&] {
		nixlBackendMD *meta = nullptr;

		IS(near.core->registerMem(blob, DRAM_SEG, meta), NIXL_SUCCESS);
		return starved([&] { return near.core->deregisterMem(meta); });
	});
	IS(both.move(), NIXL_SUCCESS); // nothing of all that was in the way
	CHECK(host_same(both.sink->bytes, both.source.bytes));
	both.finish();
}

static void posted_without_memory()
{
	couple both;
	end &near = both.near, &far = *both.far;
	const nixl_opt_b_args_t args = {std::string(100, 'n'), true, ""};
	nixl_status_t got;

	IS(both.move(), NIXL_SUCCESS);
	survives("prepXfer", [&] {
		nixlBackendReqH *request = nullptr;

		got = starved([&] {
			return near.core->prepXfer(NIXL_WRITE, both.mine, both.theirs, "far",
						   request, nullptr);
		});
		return request ? near.core->releaseReqH(request) : got;
	});
	survives("postXfer", [&] {
		got = starved([&] { return both.post(&args); });
		if (host_begun(got))
			IS(host_wait(near, both.request), NIXL_SUCCESS);
		return got;
	});
	survives("checkXfer",
		 [&] { return starved([&] { return near.core->checkXfer(both.request); }); });
	survives("estimateXferCost", [&] {
		std::chrono::microseconds took, margin;
		nixl_cost_t method;

		return starved([&] {
			return near.core->estimateXferCost(NIXL_WRITE, both.mine, both.theirs,
							   "far", both.request, took, margin,
							   method, nullptr);
		});
	});
	survives("releaseReqH", [&] {
		nixlBackendReqH *request = nullptr;

		IS(near.core->prepXfer(NIXL_WRITE, both.mine, both.theirs, "far", request, nullptr),
		   NIXL_SUCCESS);
		return starved([&] { return near.core->releaseReqH(request); });
	});
	survives("genNotif", [&] {
		return starved([&] { return near.core->genNotif("far", args.notifMsg); });
	});
	survives("getNotifs", [&] {
		notif_list_t some;
		const nixl_opt_b_args_t kept = {"kept", true, ""};

		IS(far.core->getNotifs(some), NIXL_SUCCESS);
		CHECK(host_begun(both.post(&kept)));
		IS(host_wait(near, both.request), NIXL_SUCCESS); // so it is there
		some.clear();
		const nixl_status_t got = starved([&] { return far.core->getNotifs(some); });
		if (got != NIXL_SUCCESS) { // it is not lost
			some.clear();
			IS(far.core->getNotifs(some), NIXL_SUCCESS);
		}
		CHECK(std::count(some.begin(), some.end(),
				 notif_list_t::value_type("near", "kept")) == 1);
		return got;
	});
	IS(both.move(), NIXL_SUCCESS); // nothing of all that was in the way
	CHECK(host_same(both.sink->bytes, both.source.bytes));
	both.finish();
}

static void connected_without_memory()
{
	end near("near"), far("far");
	nixl_status_t got;

	survives("getConnInfo", [&] {
		std::string info;

		return starved([&] { return near.core->getConnInfo(info); });
	});
	survives("loadRemoteConnInfo", [&] {
		got = starved([&] { return far.core->loadRemoteConnInfo("near", near.info); });
		if (got == NIXL_SUCCESS)
			IS(far.core->disconnect("near"), NIXL_SUCCESS);
		return got;
	});
	far.know(near);
	survives("connect", [&] { return starved([&] { return far.core->connect("near"); }); });
	IS(far.core->genNotif("near", "there"), NIXL_SUCCESS);
	CHECK(host_notes(near, 1)[0].second == "there");
}

static void created_without_memory()
{
	survives("create_engine", [] {
		nixl_b_params_t all = {{"bind", "127.0.0.1"}};
		nixlBackendInitParams args = {
			"one", "TCPX", &all, false, 0, nixl_thread_sync_t::NIXL_THREAD_SYNC_NONE,
			false};
		nixlBackendEngine *core;
		const nixl_status_t got = starved([&] {
			core = host_plugin->create_engine(&args);
			return core && !*(reinterpret_cast<const bool *>(core) + 160)
				       ? NIXL_SUCCESS
				       : NIXL_ERR_BACKEND;
		});

		if (core)
			host_plugin->destroy_engine(core);
		return got;
	});
}

const test tests_memory[] = {
	{"registered_without_memory", registered_without_memory},
	{"posted_without_memory", posted_without_memory},
	{"connected_without_memory", connected_without_memory},
	{"created_without_memory", created_without_memory},
	{nullptr, nullptr},
};
