/* SPDX-License-Identifier: Apache-2.0 */
/* What agents set: sync modes, progress thread, options; tokens that outlive a registration. */
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/config.h"
#include "host.hpp"

constexpr int POSTERS = 2, ROUNDS = 25;
constexpr std::size_t PART = 256u << 10;

static void post_often(const end &near, region_of &source, const region_of &sink,
		       nixlBackendMD *there, std::size_t off)
{
	const nixl_meta_dlist_t mine = host_list(source.at() + off, PART / 8, 8, source.ours);
	const nixl_meta_dlist_t theirs = host_list(sink.at() + off, PART / 8, 8, there);
	const nixl_opt_b_args_t args = {"posted", true, ""};

	for (int round = 1; round <= ROUNDS; round++) {
		nixlBackendReqH *request = nullptr;

		std::memset(&source.bytes[off], round, PART);
		IS(near.core->prepXfer(NIXL_WRITE, mine, theirs, "far", request, nullptr),
		   NIXL_SUCCESS);
		CHECK(host_begun(
			near.core->postXfer(NIXL_WRITE, mine, theirs, "far", request, &args)));
		IS(host_wait(near, request), NIXL_SUCCESS);
		CHECK(host_count(&sink.bytes[off], PART, round) == PART);
		IS(near.core->releaseReqH(request), NIXL_SUCCESS);
	}
}

static void register_often(const end &near, const std::atomic<bool> &over)
{
	std::vector<unsigned char> bytes(10000);
	const nixlBlobDesc blob = {reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size(), 0,
				   ""};
	nixl_reg_dlist_t asked(DRAM_SEG);
	std::string first;

	asked.descs = {blob};
	while (!over) {
		std::vector<nixl_query_resp_t> got;
		nixlBackendMD *meta = nullptr;
		std::string token;
		notif_list_t none;

		IS(near.core->registerMem(blob, DRAM_SEG, meta), NIXL_SUCCESS);
		IS(near.core->getPublicData(meta, token), NIXL_SUCCESS);
		CHECK(first.empty() || token == first);
		first = token;
		IS(near.core->queryMem(asked, got), NIXL_SUCCESS);
		CHECK(got.size() == 1 && got[0]);
		IS(near.core->getNotifs(none), NIXL_SUCCESS);
		IS(near.core->deregisterMem(meta), NIXL_SUCCESS);
	}
}

// No lock of NIXL's is relied on.
static void in_every_mode_from_several_threads()
{
	for (auto sync :
	     {nixl_thread_sync_t::NIXL_THREAD_SYNC_NONE,
	      nixl_thread_sync_t::NIXL_THREAD_SYNC_STRICT, nixl_thread_sync_t::NIXL_THREAD_SYNC_RW})
		for (bool progress : {false, true}) {
			end near("near", {}, sync, progress), far("far", {}, sync, progress);
			region_of source(near, POSTERS * PART), sink(far, POSTERS * PART);
			std::vector<std::thread> threads;
			std::atomic<bool> over{false};
			int posted = 0;

			near.know(far);
			nixlBackendMD *there = sink.load(near);
			for (std::size_t i = 0; i < POSTERS; i++)
				threads.emplace_back([&, i] {
					post_often(near, source, sink, there, i * PART);
				});
			threads.emplace_back([&] {
				for (int i = 0; i < ROUNDS; i++)
					IS(near.core->genNotif("far", "sent"), NIXL_SUCCESS);
			});
			threads.emplace_back([&] { register_often(near, over); });
			for (const auto &each : host_notes(far, (POSTERS + 1) * ROUNDS)) {
				CHECK(each.first == "near");
				posted += each.second == "posted";
			}
			CHECK(posted == POSTERS * ROUNDS);
			over = true;
			for (std::thread &each : threads)
				each.join();
			CHECK(sink.bytes == source.bytes);
			IS(near.core->unloadMD(there), NIXL_SUCCESS);
		}
}

// The peer notices nothing: neither what it imported nor what it prepared has to be made anew.
static void registered_again()
{
	couple both;

	for (unsigned char round = 1; round < 5; round++) {
		std::memset(both.source.bytes.data(), round, both.source.bytes.size());
		IS(both.move(), NIXL_SUCCESS);
		CHECK(host_same(both.sink->bytes, both.source.bytes));
		std::string token;
		IS(both.far->core->deregisterMem(both.sink->ours), NIXL_SUCCESS);
		if (round == 1)
			IS(both.move(), NIXL_ERR_NOT_ALLOWED);
		IS(both.far->core->registerMem(both.sink->blob(), DRAM_SEG, both.sink->ours),
		   NIXL_SUCCESS);
		IS(both.far->core->getPublicData(both.sink->ours, token), NIXL_SUCCESS);
		CHECK(token == both.sink->token);
	}
	both.finish();
}

static bool is_set(const std::string &name, const char *aliases)
{
	bool any = std::getenv(name.c_str());

	for (std::string rest = aliases; !rest.empty();) {
		const std::size_t end = rest.find(' ');

		any = any || std::getenv(rest.substr(0, end).c_str());
		rest.erase(0, end == std::string::npos ? end : end + 1);
	}
	return any;
}

static void every_option_is_listed()
{
	const nixl_b_params_t all = host_plugin->get_backend_options();
	const auto listed = [&all](const std::string &name, const char *aliases,
				   const std::string &otherwise) {
		std::string key = name.substr(5);

		for (char &each : key)
			each = char(std::tolower(each));
		if (!all.count(key))
			host_fail(__FILE__, __LINE__, "not listed: " + key);
		if (!is_set(name, aliases) && all.at(key) != (key == "bind" ? "auto" : otherwise))
			host_fail(__FILE__, __LINE__, key + " is " + all.at(key));
	};

#define LISTED(id, name, aliases, type, otherwise, min, max, help) listed(name, aliases, otherwise);
	CONFIG_MAP(LISTED)
#undef LISTED
	CHECK(all.size() == CONFIG_IDS);
}

// Where no driver is usable, as the rows of this suite have it.
static void no_gpu_is_said_at_registration()
{
	end one("one");
	std::vector<unsigned char> bytes(4096);
	nixlBackendMD *meta = nullptr;

	CHECK(host_plugin->get_backend_mems() == nixl_mem_list_t{DRAM_SEG});
	CHECK(one.core->getSupportedMems() == nixl_mem_list_t{DRAM_SEG});
	IS(one.core->registerMem(
		   {reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size(), 0, ""}, VRAM_SEG,
		   meta),
	   NIXL_ERR_NOT_SUPPORTED);
	CHECK(!meta);
}

const test tests_modes[] = {
	{"in_every_mode_from_several_threads", in_every_mode_from_several_threads},
	{"registered_again", registered_again},
	{"every_option_is_listed", every_option_is_listed},
	{"no_gpu_is_said_at_registration", no_gpu_is_said_at_registration},
	{nullptr, nullptr},
};
