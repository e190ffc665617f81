/* SPDX-License-Identifier: Apache-2.0 */
/* What goes well: bytes, notifications, lists, reposts, itself, several threads. */
#include <cstring>
#include <dlfcn.h>
#include <thread>

#include "host.hpp"

static void said_of_itself()
{
	params all = host_plugin->options();

	CHECK(!std::strcmp(host_plugin->name(), "TCPX"));
	CHECK(std::strlen(host_plugin->version()) >= 5);
	CHECK(host_plugin->memories().at(0) == memory::DRAM);
	CHECK(all.at("chunk_bytes") == "512K" && all.at("bind") == "auto");
	CHECK(all.at("nixl_transport") == "auto" && all.at("strict_cancel") == "0");
	CHECK(!all.count("ucx_error_handling_mode")); // under that name alone
	end one("one", all);			      // handed back, nothing changes
	CHECK(one.core->remote_supported() && one.core->local_supported());
	CHECK(one.core->notifications_supported());
	CHECK(one.core->memories().at(0) == memory::DRAM);
}

static void bytes_and_notifications()
{
	end near("near"), far("far");
	region_of source(near, 3u << 20), sink(far, 3u << 20);
	post_args args = {std::string("a\0b", 3), true, ""};
	metadata *there;
	handle *request = nullptr;

	near.know(far);
	there = sink.load(near);
	for (std::size_t i = 0; i < source.bytes.size(); i++)
		source.bytes[i] = (unsigned char)(i * 7);
	descriptors mine = host_list(source.at(), source.bytes.size(), 1, source.ours);
	descriptors theirs = host_list(sink.at(), sink.bytes.size(), 1, there);

	IS(near.core->prepare(operation::WRITE, mine, theirs, "far", request, nullptr), SUCCESS);
	IS(near.core->check(request), NOT_POSTED);
	for (const char *word : {"first", "", "third"}) { // posted again, with another one
		status now;

		args.notification = word;
		now = near.core->post(operation::WRITE, mine, theirs, "far", request, &args);
		CHECK(now == status::IN_PROGRESS || now == status::SUCCESS);
		IS(host_wait(near, request), SUCCESS);
		IS(near.core->check(request), SUCCESS); // stays
		CHECK(source.bytes == sink.bytes);
		auto notes = host_notes(far, 1);
		CHECK(notes.size() == 1 && notes[0].first == "near" && notes[0].second == word);
	}
	CHECK(near.core->post(operation::WRITE, mine, theirs, "far", request, nullptr) >=
	      status::SUCCESS);
	IS(host_wait(near, request), SUCCESS);
	IS(near.core->release(request), SUCCESS);

	std::memset(sink.bytes.data(), 5, sink.bytes.size());
	IS(near.core->prepare(operation::READ, mine, theirs, "far", request, nullptr), SUCCESS);
	args.notification = std::string("a\0b", 3);
	CHECK(near.core->post(operation::READ, mine, theirs, "far", request, &args) >=
	      status::SUCCESS);
	IS(host_wait(near, request), SUCCESS);
	CHECK(source.bytes == sink.bytes);
	auto notes = host_notes(far, 1); // and none of the post that had none
	CHECK(notes.size() == 1 && notes[0].second == std::string("a\0b", 3));
	IS(near.core->release(request), SUCCESS);
	IS(near.core->send_notification("far", std::string(5u << 20, 'x')), SUCCESS);
	CHECK(host_notes(far, 1)[0].second.size() == 5u << 20);
	IS(near.core->send_notification("far", std::string((64u << 20) + 1, 'x')), INVALID_PARAM);
	IS(near.core->unload(there), SUCCESS);
	IS(near.core->disconnect("far"), SUCCESS);
}

static void many_descriptors()
{
	constexpr std::size_t COUNT = 20000, BLOCK = 96, STRIDE = 128;
	end near("near"), far("far");
	region_of source(near, COUNT * STRIDE), sink(far, COUNT * STRIDE);
	std::vector<std::thread> threads;

	near.know(far);
	metadata *there = sink.load(near);
	std::memset(source.bytes.data(), 9, source.bytes.size());
	for (int part = 0; part < 4; part++) // each its own request
		threads.emplace_back([&, part] {
			const std::size_t off = STRIDE * COUNT / 4 * std::size_t(part);
			descriptors mine =
				host_list(source.at() + off, BLOCK, COUNT / 4, source.ours, STRIDE);
			descriptors theirs =
				host_list(sink.at() + off, BLOCK, COUNT / 4, there, STRIDE);
			handle *request = nullptr;

			for (int round = 0; round < 5; round++) {
				IS(near.core->prepare(operation::WRITE, mine, theirs, "far",
						      request, nullptr),
				   SUCCESS);
				CHECK(near.core->post(operation::WRITE, mine, theirs, "far",
						      request, nullptr) >= status::SUCCESS);
				IS(host_wait(near, request), SUCCESS);
				IS(near.core->release(request), SUCCESS);
			}
		});
	for (std::thread &each : threads)
		each.join();
	host_notes(far, 0);
	IS(near.core->send_notification("far", "over"), SUCCESS);
	CHECK(host_notes(far, 1).size() == 1);
	for (std::size_t i = 0; i < sink.bytes.size(); i++)
		CHECK(sink.bytes[i] == (i % STRIDE < BLOCK ? 9 : 0));
	IS(near.core->unload(there), SUCCESS);
}

static void to_itself()
{
	end one("one");
	region_of mine(one, 100000);
	post_args args = {"done", true, ""};
	handle *request = nullptr;

	std::memset(mine.bytes.data(), 3, 50000);
	descriptors from = host_list(mine.at(), 50000, 1, mine.ours);
	descriptors to = host_list(mine.at() + 50000, 50000, 1, mine.local);
	IS(one.core->prepare(operation::WRITE, from, to, "one", request, nullptr), SUCCESS);
	CHECK(one.core->post(operation::WRITE, from, to, "one", request, &args) >= status::SUCCESS);
	IS(host_wait(one, request), SUCCESS);
	CHECK(mine.bytes == std::vector<unsigned char>(100000, 3));
	IS(one.core->release(request), SUCCESS);
	CHECK(host_notes(one, 1)[0] == std::make_pair(std::string("one"), std::string("done")));
	IS(one.core->send_notification("one", "hello"), SUCCESS);
	CHECK(host_notes(one, 1)[0].second == "hello");
}

static void told_of_memory()
{
	end near("near"), far("far");
	region_of source(near, 1u << 20), sink(far, 1u << 20);
	std::chrono::microseconds took, margin;
	blob_descriptors asked;
	answers got;
	cost method;
	handle *request = nullptr;
	std::string token = source.token;

	{ // again, and over a part of it: the same memory has the same token
		metadata *again = nullptr, *part = nullptr;
		std::string other;

		IS(near.core->register_memory(source.blob(), memory::DRAM, again), SUCCESS);
		IS(near.core->register_memory({source.at() + 8, 8, 0, ""}, memory::DRAM, part),
		   SUCCESS);
		IS(near.core->public_data(again, other), SUCCESS);
		CHECK(other == token);
		IS(near.core->public_data(part, other), SUCCESS);
		CHECK(other != token);
		IS(near.core->deregister_memory(again), SUCCESS);
		IS(near.core->deregister_memory(part), SUCCESS);
	}
	asked.type = memory::DRAM;
	asked.entries = {{source.at() + 5, 100, 0, ""},
			 {source.at() + (1u << 20) - 1, 2, 0, ""},
			 {1, 1, 0, ""}};
	IS(near.core->query_memory(asked, got), SUCCESS);
	CHECK(got.size() == 3 && got[0] && !got[1] && !got[2]);
	near.know(far);
	metadata *there = sink.load(near);
	descriptors mine = host_list(source.at(), 1u << 20, 1, source.ours);
	descriptors theirs = host_list(sink.at(), 1u << 20, 1, there);
	IS(near.core->prepare(operation::WRITE, mine, theirs, "far", request, nullptr), SUCCESS);
	IS(near.core->estimate(operation::WRITE, mine, theirs, "far", request, took, margin, method,
			       nullptr),
	   SUCCESS);
	CHECK(took.count() > 0 && margin >= took); // it only guesses
	CHECK(near.core->post(operation::WRITE, mine, theirs, "far", request, nullptr) >=
	      status::SUCCESS);
	IS(host_wait(near, request), SUCCESS);
	IS(near.core->estimate(operation::WRITE, mine, theirs, "far", request, took, margin, method,
			       nullptr),
	   SUCCESS);
	CHECK(took.count() > 0 && margin < took && method == cost::ANALYTICAL);
	IS(near.core->release(request), SUCCESS);
	IS(near.core->unload(there), SUCCESS);
}

const test tests_transfer[] = {
	{"said_of_itself", said_of_itself},
	{"bytes_and_notifications", bytes_and_notifications},
	{"many_descriptors", many_descriptors},
	{"to_itself", to_itself},
	{"told_of_memory", told_of_memory},
	{nullptr, nullptr},
};
