/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory, over the stand-in for the driver. */
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sched.h>

#include "fakecuda/fakecuda.h"
#include "host.hpp"

constexpr std::size_t HALF = (1u << 20) + 77, EDGE = 1000;

static const fakecuda &fake()
{
	static fakecuda it;
	static const int missing = fakecuda_open(std::getenv("TCPX_CUDA_LIBRARY"), &it);

	CHECK(!missing);
	return it;
}

template <class... Args> static void driver(const char *name, Args... args)
{
	const auto call = reinterpret_cast<int (*)(Args...)>(dlsym(fake().handle, name));

	CHECK(call && !call(args...));
}

// Registered bytes of the host (device -1) or of a GPU.
struct bytes_of {
	const end &owner;
	const int device;
	void *context = nullptr;
	std::uint64_t at = 0;
	std::vector<unsigned char> host;
	nixlBackendMD *ours = nullptr, *theirs = nullptr;

	bytes_of(const end &owner, int device, std::size_t size) : owner(owner), device(device)
	{
		host.resize(size);
		at = reinterpret_cast<std::uint64_t>(host.data());
		if (device >= 0) {
			driver("cuInit", 0u);
			driver("cuDevicePrimaryCtxRetain", &context, device);
			driver("cuCtxPushCurrent_v2", context);
			driver("cuMemAlloc_v2", &at, size);
			driver("cuCtxPopCurrent_v2", &context);
		}
		IS(enlist(), NIXL_SUCCESS);
	}
	~bytes_of()
	{
		if (ours)
			IS(delist(), NIXL_SUCCESS);
		if (device < 0)
			return;
		driver("cuCtxPushCurrent_v2", context);
		driver("cuMemFree_v2", at);
		driver("cuCtxPopCurrent_v2", &context);
		driver("cuDevicePrimaryCtxRelease_v2", device);
	}
	nixl_mem_t type() const
	{
		return device < 0 ? DRAM_SEG : VRAM_SEG;
	}
	std::uint64_t id() const
	{
		return device < 0 ? 0 : std::uint64_t(device);
	}
	nixl_status_t enlist()
	{
		return owner.core->registerMem({at, host.size(), id(), ""}, type(), ours);
	}
	nixl_status_t delist()
	{
		return owner.core->deregisterMem(std::exchange(ours, nullptr));
	}
	void load(const end &who)
	{
		std::string token;

		IS(owner.core->getPublicData(ours, token), NIXL_SUCCESS);
		IS(who.core->loadRemoteMD({at, host.size(), id(), token}, type(), owner.name,
					  theirs),
		   NIXL_SUCCESS);
	}
	void set(int value)
	{
		std::memset(host.data(), value, host.size());
		CHECK(device < 0 || !fake().write(at, host.data(), host.size()));
	}
	std::size_t count(int value)
	{
		CHECK(device < 0 || !fake().read(at, host.data(), host.size()));
		return host_count(host.data(), host.size(), value);
	}
};

using two = bytes_of *[2];

static nixl_meta_dlist_t list_of(const two &parts, bool remote)
{
	nixl_meta_dlist_t all(parts[0]->type());

	for (bytes_of *each : parts)
		for (std::size_t at : {EDGE, HALF / 2}) // both sides of a hole
			all.descs.push_back({each->at + at, HALF / 3, each->id(),
					     remote ? each->theirs : each->ours});
	return all;
}

// One list with memory of two devices, looked at as soon as its notification is there.
static void move_between(const end &near, const end &far, const two &mine, const two &theirs)
{
	const std::size_t moved = HALF / 3 * 2;
	const nixl_opt_b_args_t args = {"there", true, ""};
	const nixl_meta_dlist_t here = list_of(mine, false), away = list_of(theirs, true);

	for (nixl_xfer_op_t op : {NIXL_WRITE, NIXL_READ}) {
		nixlBackendReqH *request = nullptr;

		for (int i = 0; i < 2; i++) {
			(op == NIXL_WRITE ? mine : theirs)[i]->set(10 + i);
			(op == NIXL_WRITE ? theirs : mine)[i]->set(5);
		}
		IS(near.core->prepXfer(op, here, away, "far", request, nullptr), NIXL_SUCCESS);
		CHECK(host_begun(near.core->postXfer(op, here, away, "far", request, &args)));
		CHECK(host_notes(far, 1)[0].second == "there");
		for (int i = 0; i < 2; i++) {
			bytes_of &to = *(op == NIXL_WRITE ? theirs : mine)[i];

			CHECK(to.count(10 + i) == moved);
			CHECK(to.count(5) == to.host.size() - moved);
		}
		IS(host_wait(near, request), NIXL_SUCCESS);
		IS(near.core->releaseReqH(request), NIXL_SUCCESS);
	}
}

static void moved_between_all_memories()
{
	end near("near"), far("far");
	bytes_of dram[] = {{near, -1, HALF}, {near, -1, HALF}},
		 vram[] = {{near, 0, HALF}, {near, 1, HALF}};
	bytes_of far_dram[] = {{far, -1, HALF}, {far, -1, HALF}},
		 far_vram[] = {{far, 2, HALF}, {far, 3, HALF}};

	near.know(far);
	for (bytes_of *each : {&far_dram[0], &far_dram[1], &far_vram[0], &far_vram[1]})
		each->load(near);
	two mine = {&vram[0], &vram[1]}, theirs = {&far_vram[0], &far_vram[1]};
	two host = {&dram[0], &dram[1]}, far_host = {&far_dram[0], &far_dram[1]};
	move_between(near, far, host, theirs);
	move_between(near, far, mine, far_host);
	move_between(near, far, mine, theirs);
	// the memory of another device is not that one's
	nixl_meta_dlist_t wrong = list_of(mine, false);
	nixlBackendReqH *request = nullptr;
	wrong.descs[0].devId = 1;
	IS(near.core->prepXfer(NIXL_WRITE, wrong, list_of(theirs, true), "far", request, nullptr),
	   NIXL_ERR_INVALID_PARAM);
	for (bytes_of *each : {&far_dram[0], &far_dram[1], &far_vram[0], &far_vram[1]})
		IS(near.core->unloadMD(each->theirs), NIXL_SUCCESS);
}

static nixl_meta_dlist_t one(const bytes_of &bytes, std::size_t off, bool remote)
{
	nixl_meta_dlist_t list(bytes.type());

	list.descs = {{bytes.at + off, HALF / 3, bytes.id(), remote ? bytes.theirs : bytes.ours}};
	return list;
}

// What a stream has in its hands cannot be recalled: the memory stays in use, and that is said.
static void stuck_in_a_stream()
{
	end near("near"), far("far");
	bytes_of mine(near, 0, HALF), other(near, 0, HALF), theirs(far, -1, HALF);
	constexpr nixl_xfer_op_t ops[] = {NIXL_WRITE, NIXL_READ};
	nixlBackendReqH *requests[2] = {};

	near.know(far);
	theirs.load(near);
	for (int round = 0; round < 2; round++) { // to see it work, and to see it stuck
		mine.set(1);
		theirs.set(2);
		fake().hold(round);
		for (std::size_t i : {0, 1}) {
			const std::size_t off = i ? HALF / 2 : EDGE;
			const nixl_meta_dlist_t here = one(mine, off, false);
			const nixl_meta_dlist_t away = one(theirs, off, true);
			const unsigned before = fake().queued();

			if (!round)
				IS(near.core->prepXfer(ops[i], here, away, "far", requests[i],
						       nullptr),
				   NIXL_SUCCESS);
			CHECK(host_begun(near.core->postXfer(ops[i], here, away, "far", requests[i],
							     nullptr)));
			if (!round) {
				IS(host_wait(near, requests[i]), NIXL_SUCCESS);
				continue;
			}
			while (fake().queued() == before)
				sched_yield();
			IS(near.core->releaseReqH(requests[i]), NIXL_ERR_REPOST_ACTIVE);
			IS(near.core->releaseReqH(requests[i]), NIXL_SUCCESS);
		}
	}
	IS(mine.delist(), NIXL_ERR_BACKEND);
	IS(mine.enlist(), NIXL_SUCCESS); // which makes it no freer
	IS(mine.delist(), NIXL_ERR_BACKEND);
	CHECK(mine.count(1) == HALF && theirs.count(2) == HALF);
	fake().hold(0);
	while (fake().queued())
		sched_yield();
	// it wrote where it was told to, if at all, and nothing goes on any more
	CHECK(mine.count(1) >= HALF - HALF / 3 && mine.count(1) + mine.count(2) == HALF);
	CHECK(host_count(&mine.host[HALF / 2], HALF / 3, 2) == mine.count(2));
	mine.set(7);
	other.set(9);
	nixlBackendReqH *next = nullptr;
	IS(near.core->prepXfer(NIXL_WRITE, one(other, 0, false), one(theirs, 0, true), "far", next,
			       nullptr),
	   NIXL_SUCCESS);
	CHECK(host_begun(near.core->postXfer(NIXL_WRITE, one(other, 0, false), one(theirs, 0, true),
					     "far", next, nullptr)));
	IS(host_wait(near, next), NIXL_SUCCESS);
	IS(near.core->releaseReqH(next), NIXL_SUCCESS);
	IS(other.delist(), NIXL_SUCCESS); // and with it what was left of the first
	CHECK(mine.count(7) == HALF && theirs.count(7) == 0 && theirs.count(9) == HALF / 3);
	IS(mine.enlist(), NIXL_SUCCESS);
	IS(near.core->unloadMD(theirs.theirs), NIXL_SUCCESS);
}

const test tests_gpu[] = {
	{"moved_between_all_memories", moved_between_all_memories},
	{"stuck_in_a_stream", stuck_in_a_stream},
	{nullptr, nullptr},
};
