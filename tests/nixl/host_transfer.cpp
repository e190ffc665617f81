/* SPDX-License-Identifier: Apache-2.0 */
/* What goes well: bytes, notifications, lists, reposts, itself, several threads. */
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <thread>

#include "host.hpp"

static void said_of_itself()
{
	nixl_b_params_t all = host_plugin->get_backend_options();

	// the first of this process: what was refused changes nothing for the next
	host_refused({{"staging_bytes", "64M"}, {"bind", "no-such-interface"}});
	CHECK(host_plugin->get_backend_options() == all);
	CHECK(!std::strcmp(host_plugin->get_plugin_name(), "TCPX"));
	CHECK(std::strlen(host_plugin->get_plugin_version()) >= 5);
	CHECK(host_plugin->get_backend_mems().at(0) == DRAM_SEG);
	CHECK(all.at("chunk_bytes") == "512K" && all.at("bind") == "auto");
	CHECK(all.at("sysfs") == (std::getenv("TCPX_SYSFS") ? std::getenv("TCPX_SYSFS") : "/sys"));
	CHECK(all.at("nixl_transport") == "auto" && all.at("strict_cancel") == "0");
	CHECK(!all.count("ucx_error_handling_mode")); // under that name alone
	end one("one", all);			      // handed back, nothing changes
	end two("two", {{"staging_bytes", "134217728"}, {"one_copy", all.at("one_copy")}});
	host_refused({{"staging_bytes", "64M"}}); // one for all
	if (all.at("local") == "0") {		  // a parameter wins, whichever way
		host_refused({{"nixl_transport", "local"}});
		end three("three", {{"nixl_transport", "local"}, {"local", "1"}});
	}
	CHECK(one.core->supportsRemote() && one.core->supportsLocal());
	CHECK(one.core->supportsNotif());
	CHECK(one.core->getSupportedMems().at(0) == DRAM_SEG);
}

static void bytes_and_notifications()
{
	end near("near"), far("far");
	region_of source(near, 3u << 20), sink(far, 3u << 20);
	nixl_opt_b_args_t args = {std::string("a\0b", 3), true, ""};
	nixlBackendMD *there;
	nixlBackendReqH *request = nullptr;

	near.know(far);
	there = sink.load(near);
	for (std::size_t i = 0; i < source.bytes.size(); i++)
		source.bytes[i] = (unsigned char)(i * 7);
	nixl_meta_dlist_t mine = host_list(source.at(), source.bytes.size(), 1, source.ours);
	nixl_meta_dlist_t theirs = host_list(sink.at(), sink.bytes.size(), 1, there);

	IS(near.core->prepXfer(NIXL_WRITE, mine, theirs, "far", request, nullptr), NIXL_SUCCESS);
	IS(near.core->checkXfer(request), NIXL_ERR_NOT_POSTED);
	for (const char *word : {"first", "", "third"}) { // posted again, with another one
		nixl_status_t now;

		args.notifMsg = word;
		now = near.core->postXfer(NIXL_WRITE, mine, theirs, "far", request, &args);
		CHECK(now == NIXL_IN_PROG || now == NIXL_SUCCESS);
		IS(host_wait(near, request), NIXL_SUCCESS);
		IS(near.core->checkXfer(request), NIXL_SUCCESS); // stays
		CHECK(source.bytes == sink.bytes);
		auto notes = host_notes(far, 1);
		CHECK(notes.size() == 1 && notes[0].first == "near" && notes[0].second == word);
	}
	CHECK(near.core->postXfer(NIXL_WRITE, mine, theirs, "far", request, nullptr) >=
	      NIXL_SUCCESS);
	IS(host_wait(near, request), NIXL_SUCCESS);
	IS(near.core->releaseReqH(request), NIXL_SUCCESS);

	std::memset(sink.bytes.data(), 5, sink.bytes.size());
	IS(near.core->prepXfer(NIXL_READ, mine, theirs, "far", request, nullptr), NIXL_SUCCESS);
	args.notifMsg = std::string("a\0b", 3);
	CHECK(near.core->postXfer(NIXL_READ, mine, theirs, "far", request, &args) >= NIXL_SUCCESS);
	IS(host_wait(near, request), NIXL_SUCCESS);
	CHECK(source.bytes == sink.bytes);
	auto notes = host_notes(far, 1); // and none of the post that had none
	CHECK(notes.size() == 1 && notes[0].second == std::string("a\0b", 3));
	IS(near.core->releaseReqH(request), NIXL_SUCCESS);
	IS(near.core->genNotif("far", std::string(5u << 20, 'x')), NIXL_SUCCESS);
	CHECK(host_notes(far, 1)[0].second.size() == 5u << 20);
	IS(near.core->genNotif("far", std::string((64u << 20) + 1, 'x')), NIXL_ERR_INVALID_PARAM);
	IS(near.core->unloadMD(there), NIXL_SUCCESS);
	IS(near.core->disconnect("far"), NIXL_SUCCESS);
}

static void many_descriptors()
{
	constexpr std::size_t COUNT = 20000, BLOCK = 96, STRIDE = 128;
	end near("near"), far("far");
	region_of source(near, COUNT * STRIDE), sink(far, COUNT * STRIDE);
	std::vector<std::thread> threads;

	near.know(far);
	nixlBackendMD *there = sink.load(near);
	std::memset(source.bytes.data(), 9, source.bytes.size());
	for (int part = 0; part < 4; part++) // each its own request
		threads.emplace_back([&, part] {
			const std::size_t off = STRIDE * COUNT / 4 * std::size_t(part);
			nixl_meta_dlist_t mine =
				host_list(source.at() + off, BLOCK, COUNT / 4, source.ours, STRIDE);
			nixl_meta_dlist_t theirs =
				host_list(sink.at() + off, BLOCK, COUNT / 4, there, STRIDE);
			nixlBackendReqH *request = nullptr;

			for (int round = 0; round < 5; round++) {
				IS(near.core->prepXfer(NIXL_WRITE, mine, theirs, "far", request,
						       nullptr),
				   NIXL_SUCCESS);
				CHECK(near.core->postXfer(NIXL_WRITE, mine, theirs, "far", request,
							  nullptr) >= NIXL_SUCCESS);
				IS(host_wait(near, request), NIXL_SUCCESS);
				IS(near.core->releaseReqH(request), NIXL_SUCCESS);
			}
		});
	for (std::thread &each : threads)
		each.join();
	host_notes(far, 0);
	IS(near.core->genNotif("far", "over"), NIXL_SUCCESS);
	CHECK(host_notes(far, 1).size() == 1);
	for (std::size_t i = 0; i < sink.bytes.size(); i++)
		CHECK(sink.bytes[i] == (i % STRIDE < BLOCK ? 9 : 0));
	IS(near.core->unloadMD(there), NIXL_SUCCESS);
}

static void to_itself()
{
	end one("one");
	region_of mine(one, 100000);
	nixl_opt_b_args_t args = {"done", true, ""};
	nixlBackendReqH *request = nullptr;

	std::memset(mine.bytes.data(), 3, 50000);
	nixl_meta_dlist_t from = host_list(mine.at(), 50000, 1, mine.ours);
	nixl_meta_dlist_t to = host_list(mine.at() + 50000, 50000, 1, mine.local);
	IS(one.core->prepXfer(NIXL_WRITE, from, to, "one", request, nullptr), NIXL_SUCCESS);
	CHECK(one.core->postXfer(NIXL_WRITE, from, to, "one", request, &args) >= NIXL_SUCCESS);
	IS(host_wait(one, request), NIXL_SUCCESS);
	CHECK(mine.bytes == std::vector<unsigned char>(100000, 3));
	IS(one.core->releaseReqH(request), NIXL_SUCCESS);
	CHECK(host_notes(one, 1)[0] == std::make_pair(std::string("one"), std::string("done")));
	IS(one.core->genNotif("one", "hello"), NIXL_SUCCESS);
	CHECK(host_notes(one, 1)[0].second == "hello");
	IS(one.core->disconnect("one"), NIXL_SUCCESS); // and there it is again
	IS(one.core->prepXfer(NIXL_WRITE, from, to, "one", request, nullptr), NIXL_SUCCESS);
	CHECK(one.core->postXfer(NIXL_WRITE, from, to, "one", request, nullptr) >= NIXL_SUCCESS);
	IS(host_wait(one, request), NIXL_SUCCESS);
	IS(one.core->releaseReqH(request), NIXL_SUCCESS);
}

// What an agent has sent before it ended arrives, unless its end had no more time for it.
static void last_words()
{
	constexpr auto IN_TIME = std::chrono::milliseconds(150); // the plugin takes 200
	constexpr std::size_t WORD = 3u << 20, WORDS = 4, GOOD = 20, MOST = 500;
	std::size_t good = 0, round = 0;
	std::map<std::string, std::size_t> came; // by round
	end far("far");

	for (; good < GOOD && round < MOST; round++) {
		const std::string tag = std::to_string(round);
		end near("near");

		near.know(far);
		for (std::size_t i = 0; i < WORDS; i++)
			IS(near.core->genNotif("far", std::string(WORD, char('a' + i)) + tag),
			   NIXL_SUCCESS);
		const auto began = std::chrono::steady_clock::now();
		near.close();
		if (std::chrono::steady_clock::now() - began >= IN_TIME)
			continue; // a busy machine
		while (came[tag] < WORDS)
			for (const auto &note : host_notes(far, 1)) {
				std::size_t &count = came[note.second.substr(WORD)];

				CHECK(note.second.substr(0, WORD) ==
				      std::string(WORD, char('a' + count++)));
			}
		good++;
	}
	CHECK(good == GOOD);
}

static void told_of_memory()
{
	end near("near"), far("far");
	region_of source(near, 1u << 20), sink(far, 1u << 20);
	std::chrono::microseconds took, margin;
	nixl_reg_dlist_t asked(DRAM_SEG);
	std::vector<nixl_query_resp_t> got;
	nixl_cost_t method;
	nixlBackendReqH *request = nullptr;
	std::string token = source.token;

	{ // again, and over a part of it: the same memory has the same token
		nixlBackendMD *again = nullptr, *part = nullptr;
		std::string other;

		IS(near.core->registerMem(source.blob(), DRAM_SEG, again), NIXL_SUCCESS);
		IS(near.core->registerMem({source.at() + 8, 8, 0, ""}, DRAM_SEG, part),
		   NIXL_SUCCESS);
		IS(near.core->getPublicData(again, other), NIXL_SUCCESS);
		CHECK(other == token);
		IS(near.core->getPublicData(part, other), NIXL_SUCCESS);
		CHECK(other != token);
		IS(near.core->deregisterMem(again), NIXL_SUCCESS);
		IS(near.core->deregisterMem(part), NIXL_SUCCESS);
	}
	asked.descs = {{source.at() + 5, 100, 0, ""},
		       {source.at() + (1u << 20) - 1, 2, 0, ""},
		       {1, 1, 0, ""}};
	IS(near.core->queryMem(asked, got), NIXL_SUCCESS);
	CHECK(got.size() == 3 && got[0] && !got[1] && !got[2]);
	near.know(far);
	nixlBackendMD *there = sink.load(near);
	nixl_meta_dlist_t mine = host_list(source.at(), 1u << 20, 1, source.ours);
	nixl_meta_dlist_t theirs = host_list(sink.at(), 1u << 20, 1, there);
	IS(near.core->prepXfer(NIXL_WRITE, mine, theirs, "far", request, nullptr), NIXL_SUCCESS);
	IS(near.core->estimateXferCost(NIXL_WRITE, mine, theirs, "far", request, took, margin,
				       method, nullptr),
	   NIXL_SUCCESS);
	CHECK(took.count() > 0 && margin >= took); // it only guesses
	CHECK(near.core->postXfer(NIXL_WRITE, mine, theirs, "far", request, nullptr) >=
	      NIXL_SUCCESS);
	IS(host_wait(near, request), NIXL_SUCCESS);
	IS(near.core->estimateXferCost(NIXL_WRITE, mine, theirs, "far", request, took, margin,
				       method, nullptr),
	   NIXL_SUCCESS);
	CHECK(took.count() > 0 && margin < took && method == nixl_cost_t::ANALYTICAL_BACKEND);
	IS(near.core->releaseReqH(request), NIXL_SUCCESS);
	IS(near.core->unloadMD(there), NIXL_SUCCESS);
}

// No number is the most that a list may have; NIXL's own example has 1048576.
static void more_than_a_million()
{
	constexpr std::size_t count = 1048577, block = 4;
	end near("near"), far("far");
	region_of source(near, count * 2 * block), sink(far, count * block);

	near.know(far);
	nixlBackendMD *there = sink.load(near);
	const nixl_meta_dlist_t mine = host_list(source.at(), block, count, source.ours, 2 * block);
	const nixl_meta_dlist_t theirs = host_list(sink.at(), block, count, there);
	for (std::size_t i = 0; i < source.bytes.size(); i++)
		source.bytes[i] = static_cast<unsigned char>(i * 2654435761u >> 16);
	for (nixl_xfer_op_t op : {NIXL_WRITE, NIXL_READ}) {
		nixlBackendReqH *request = nullptr;

		IS(near.core->prepXfer(op, mine, theirs, "far", request, nullptr), NIXL_SUCCESS);
		CHECK(host_begun(near.core->postXfer(op, mine, theirs, "far", request, nullptr)));
		IS(host_wait(near, request), NIXL_SUCCESS);
		for (std::size_t i = 0; i < count * block; i++)
			CHECK(sink.bytes[i] == source.bytes[i / block * 2 * block + i % block]);
		for (std::size_t i = 0; i < count * block; i++) // for the READ
			sink.bytes[i] = static_cast<unsigned char>(sink.bytes[i] + 1);
		IS(near.core->releaseReqH(request), NIXL_SUCCESS);
	}
	for (std::size_t i = 0; i < count * block; i++) // that went the other way
		CHECK(static_cast<unsigned char>(source.bytes[i / block * 2 * block + i % block] +
						 1) == sink.bytes[i]);
	IS(near.core->unloadMD(there), NIXL_SUCCESS);
}

const test tests_transfer[] = {
	{"said_of_itself", said_of_itself},
	{"bytes_and_notifications", bytes_and_notifications},
	{"many_descriptors", many_descriptors},
	{"to_itself", to_itself},
	{"last_words", last_words},
	{"told_of_memory", told_of_memory},
	{"more_than_a_million", more_than_a_million},
	{nullptr, nullptr},
};
