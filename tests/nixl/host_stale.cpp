/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that NIXL hands over twice or after their end, and memory that cannot be written. */
#include <functional>
#include <sys/mman.h>
#include <unistd.h>

#include "host.hpp"

// One list may name the same memory twice: NIXL's core passes the same object twice then.
static void deregistered_twice()
{
	couple both;
	end &near = both.near;
	std::vector<unsigned char> bytes(4096);
	const nixlBlobDesc what = {reinterpret_cast<std::uintptr_t>(bytes.data()), 4096, 0, ""};
	nixlBackendMD *one = nullptr, *two = nullptr, *local = nullptr;
	nixlBackendReqH *request = nullptr;
	std::string token;

	IS(near.core->registerMem(what, DRAM_SEG, one), NIXL_SUCCESS);
	IS(near.core->registerMem(what, DRAM_SEG, two), NIXL_SUCCESS);
	IS(near.core->deregisterMem(one), NIXL_SUCCESS);
	IS(near.core->deregisterMem(one), NIXL_ERR_INVALID_PARAM);
	IS(near.core->getPublicData(one, token), NIXL_ERR_INVALID_PARAM);
	IS(near.core->loadLocalMD(one, local), NIXL_ERR_INVALID_PARAM);
	const nixl_meta_dlist_t stale = host_list(what.addr, 2048, 2, one);
	const nixl_meta_dlist_t there = host_list(both.sink->at(), 2048, 2, both.there);
	IS(near.core->prepXfer(NIXL_WRITE, stale, there, "far", request, nullptr),
	   NIXL_ERR_INVALID_PARAM);
	IS(near.core->deregisterMem(nullptr), NIXL_ERR_INVALID_PARAM);
	// the other registration of that memory is whole
	const nixl_meta_dlist_t mine = host_list(what.addr, 2048, 2, two);
	IS(near.core->prepXfer(NIXL_WRITE, mine, there, "far", request, nullptr), NIXL_SUCCESS);
	CHECK(host_begun(near.core->postXfer(NIXL_WRITE, mine, there, "far", request, nullptr)));
	IS(host_wait(near, request), NIXL_SUCCESS);
	IS(near.core->releaseReqH(request), NIXL_SUCCESS);
	IS(near.core->deregisterMem(two), NIXL_SUCCESS);
	IS(near.core->deregisterMem(two), NIXL_ERR_INVALID_PARAM);
	IS(both.move(), NIXL_SUCCESS);
	both.finish();
}

static void unloaded_and_released_twice()
{
	couple both;
	end &near = both.near;
	nixlBackendMD *there = both.sink->load(near);
	nixlBackendReqH *released = both.request, *request = nullptr;
	const nixl_meta_dlist_t theirs = host_list(both.sink->at(), 4096, 2, there);

	IS(near.core->unloadMD(there), NIXL_SUCCESS);
	IS(near.core->unloadMD(there), NIXL_ERR_INVALID_PARAM);
	IS(near.core->prepXfer(NIXL_READ, both.mine, theirs, "far", request, nullptr),
	   NIXL_ERR_INVALID_PARAM);
	IS(both.move(), NIXL_SUCCESS);
	IS(near.core->releaseReqH(released), NIXL_SUCCESS);
	IS(near.core->releaseReqH(released), NIXL_ERR_INVALID_PARAM);
	IS(near.core->checkXfer(released), NIXL_ERR_INVALID_PARAM);
	IS(both.post(), NIXL_ERR_INVALID_PARAM);
	IS(near.core->checkXfer(nullptr), NIXL_ERR_INVALID_PARAM);
	IS(near.core->unloadMD(both.there), NIXL_SUCCESS);
}

// Of another engine, of the other kind, or nothing of ours at all.
static void objects_of_others()
{
	couple both;
	end other("other");
	unsigned char nothing[256] = {};
	auto *meta = reinterpret_cast<nixlBackendMD *>(nothing);
	nixlBackendReqH *request = nullptr;
	nixlBackendMD *local = nullptr;
	std::string token;

	for (nixlBackendMD *each : {meta, both.sink->ours, both.there}) {
		IS(both.near.core->deregisterMem(each), NIXL_ERR_INVALID_PARAM);
		IS(both.near.core->getPublicData(each, token), NIXL_ERR_INVALID_PARAM);
		IS(both.near.core->loadLocalMD(each, local), NIXL_ERR_INVALID_PARAM);
		IS(both.near.core->prepXfer(NIXL_WRITE, host_list(both.source.at(), 8, 1, each),
					    host_list(both.sink->at(), 8, 1, both.there), "far",
					    request, nullptr),
		   NIXL_ERR_INVALID_PARAM);
	}
	for (nixlBackendMD *each : {meta, both.sink->ours, both.source.ours})
		IS(both.near.core->unloadMD(each), NIXL_ERR_INVALID_PARAM);
	auto *handle = reinterpret_cast<nixlBackendReqH *>(nothing);
	IS(both.near.core->checkXfer(handle), NIXL_ERR_INVALID_PARAM);
	IS(both.near.core->releaseReqH(handle), NIXL_ERR_INVALID_PARAM);
	IS(other.core->checkXfer(both.request), NIXL_ERR_INVALID_PARAM);
	IS(other.core->releaseReqH(both.request), NIXL_ERR_INVALID_PARAM);
	IS(both.move(), NIXL_SUCCESS);
	both.finish();
}

// What NIXL never gave back goes with the engine; a leak checker looks.
static void forgotten_objects()
{
	end near("near"), far("far");
	std::vector<unsigned char> bytes(4096);
	const nixlBlobDesc what = {reinterpret_cast<std::uintptr_t>(bytes.data()), 4096, 0, ""};
	region_of sink(far, 4096);
	nixlBackendMD *ours = nullptr;
	nixlBackendReqH *request = nullptr;

	near.know(far);
	IS(near.core->registerMem(what, DRAM_SEG, ours), NIXL_SUCCESS);
	IS(near.core->prepXfer(NIXL_WRITE, host_list(what.addr, 4096, 1, ours),
			       host_list(sink.at(), 4096, 1, sink.load(near)), "far", request,
			       nullptr),
	   NIXL_SUCCESS);
}

// A registration of NIXL's names no rights: what cannot be written is registered for reading.
static void read_only_memory()
{
	couple both;
	const std::size_t size = 2 * std::size_t(sysconf(_SC_PAGESIZE));
	void *at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	nixlBackendMD *ours = nullptr, *there = nullptr, *near_ours = nullptr;
	nixlBackendReqH *request = nullptr;
	std::string token;

	CHECK(at != MAP_FAILED);
	host_set(static_cast<unsigned char *>(at), size, 42);
	CHECK(!mprotect(at, size, PROT_READ));
	const auto addr = reinterpret_cast<std::uintptr_t>(at);
	const std::string lines = host_said([&] {
		for (int i = 0; i < 3; i++) {
			IS(both.far->core->registerMem({addr, size, 0, ""}, DRAM_SEG, ours),
			   NIXL_SUCCESS);
			if (i < 2)
				IS(both.far->core->deregisterMem(ours), NIXL_SUCCESS);
		}
	});
	CHECK(host_times(lines, "NIXL_ERR_NOT_ALLOWED") == 1 && host_times(lines, "\n") == 1);
	IS(both.far->core->getPublicData(ours, token), NIXL_SUCCESS);
	IS(both.near.core->loadRemoteMD({addr, size, 0, token}, DRAM_SEG, "far", there),
	   NIXL_SUCCESS);
	const nixl_meta_dlist_t theirs = host_list(addr, 4096, 2, there);
	for (nixl_xfer_op_t op : {NIXL_WRITE, NIXL_READ, NIXL_WRITE}) {
		IS(both.near.core->prepXfer(op, both.mine, theirs, "far", request, nullptr),
		   NIXL_SUCCESS);
		nixl_status_t got =
			both.near.core->postXfer(op, both.mine, theirs, "far", request, nullptr);
		if (host_begun(got))
			got = host_wait(both.near, request);
		IS(got, op == NIXL_READ ? NIXL_SUCCESS : NIXL_ERR_NOT_ALLOWED);
		IS(both.near.core->releaseReqH(request), NIXL_SUCCESS);
	}
	CHECK(host_count(both.source.bytes.data(), size, 42) == size);
	// as the destination of a READ of ours it is no better
	IS(both.near.core->registerMem({addr, size, 0, ""}, DRAM_SEG, near_ours), NIXL_SUCCESS);
	const nixl_meta_dlist_t mine = host_list(addr, 4096, 2, near_ours);
	IS(both.near.core->prepXfer(NIXL_READ, mine, both.theirs, "far", request, nullptr),
	   NIXL_ERR_INVALID_PARAM);
	IS(both.near.core->prepXfer(NIXL_WRITE, mine, both.theirs, "far", request, nullptr),
	   NIXL_SUCCESS);
	IS(both.near.core->releaseReqH(request), NIXL_SUCCESS);
	IS(both.near.core->deregisterMem(near_ours), NIXL_SUCCESS);
	// what cannot even be read is refused
	CHECK(!mprotect(at, size, PROT_NONE));
	nixlBackendMD *none = nullptr;
	IS(both.near.core->registerMem({addr, size, 0, ""}, DRAM_SEG, none),
	   NIXL_ERR_INVALID_PARAM);
	IS(both.near.core->unloadMD(there), NIXL_SUCCESS);
	IS(both.far->core->deregisterMem(ours), NIXL_SUCCESS);
	both.finish();
	munmap(at, size);
}

const test tests_stale[] = {
	{"deregistered_twice", deregistered_twice},
	{"unloaded_and_released_twice", unloaded_and_released_twice},
	{"objects_of_others", objects_of_others},
	{"forgotten_objects", forgotten_objects},
	{"read_only_memory", read_only_memory},
	{nullptr, nullptr},
};
