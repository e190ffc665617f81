/* SPDX-License-Identifier: Apache-2.0 */
/* The NIXL plugin, by an agent that talks to itself: blobs of other agents and descriptor lists.
 * The first byte says which; nothing is dialled. */
#include <algorithm>
#include <cstring>

#include <tcpx/tcpx.h>

#include "nixl_abi.hpp"

extern "C" {
#include "target.h"
nixlBackendPlugin *nixl_plugin_init();
}

constexpr std::size_t ROOM = 1 << 16, EDGE = 4096; // of registered memory, and around it

// One agent, its memory between canaries, and a connection info of another.
struct world {
	nixlBackendEngine *core, *other;
	std::string other_info, token;
	std::vector<unsigned char> bytes = std::vector<unsigned char>(ROOM + 2 * EDGE, 1);
	std::vector<unsigned char> model = bytes;
	nixlBackendMD *ours = nullptr, *theirs = nullptr;

	world() : core(make("self")), other(make("other"))
	{
		const nixlBlobDesc all = {at(), ROOM, 0, ""};

		FUZZ_CHECK(!other->getConnInfo(other_info));
		FUZZ_CHECK(!core->registerMem(all, DRAM_SEG, ours));
		FUZZ_CHECK(!core->getPublicData(ours, token));
		FUZZ_CHECK(!core->loadLocalMD(ours, theirs));
		write(ours, theirs, 0, 1, 8, 9, NIXL_SUCCESS); // links it to itself
	}

	static nixlBackendEngine *make(const char *name)
	{
		nixl_b_params_t params = {{"bind", "127.0.0.1"}, {"nixl_eager_connect", "0"}};
		nixlBackendInitParams args = {
			name, "TCPX", &params, false, 0, nixl_thread_sync_t::NIXL_THREAD_SYNC_NONE,
			false};
		nixlBackendEngine *made = nixl_plugin_init()->create_engine(&args);
		std::string info;

		FUZZ_CHECK(made && !made->getConnInfo(info)); // it has one when it was created
		return made;
	}

	std::uintptr_t at() const
	{
		return reinterpret_cast<std::uintptr_t>(bytes.data()) + EDGE;
	}

	nixl_status_t end(nixlBackendReqH *request) const
	{
		nixl_status_t now;

		while ((now = core->checkXfer(request)) == NIXL_IN_PROG) {
		}
		FUZZ_CHECK(!core->releaseReqH(request));
		return now;
	}

	// One piece within the memory; the model follows where it is let.
	void write(nixlBackendMD *near, nixlBackendMD *far, std::size_t from, std::size_t to,
		   std::size_t len, unsigned char fill, nixl_status_t wanted)
	{
		nixl_meta_dlist_t mine(DRAM_SEG), theirs(DRAM_SEG);
		nixlBackendReqH *request = nullptr;

		mine.descs.push_back({at() + from, len, 0, near});
		theirs.descs.push_back({at() + to, len, 0, far});
		std::fill_n(bytes.data() + EDGE + from, len, fill);
		std::fill_n(model.data() + EDGE + from, len, fill);
		FUZZ_CHECK(!core->prepXfer(NIXL_WRITE, mine, theirs, "self", request, nullptr));
		FUZZ_CHECK(core->postXfer(NIXL_WRITE, mine, theirs, "self", request, nullptr) !=
			   NIXL_ERR_REMOTE_DISCONNECT);
		const nixl_status_t got = end(request);
		FUZZ_CHECK(got == wanted ||
			   (wanted == NIXL_ERR_NOT_ALLOWED && got == NIXL_SUCCESS));
		if (got == NIXL_SUCCESS)
			std::fill_n(model.data() + EDGE + to, len, fill);
		FUZZ_CHECK(bytes == model);
	}
};

static void info_of_another(world &in, const std::string &info)
{
	const nixl_status_t got = in.core->loadRemoteConnInfo("other", info);

	FUZZ_CHECK(got == NIXL_SUCCESS || got == NIXL_ERR_INVALID_PARAM ||
		   got == NIXL_ERR_MISMATCH);
	FUZZ_CHECK(in.core->disconnect("other") == (got ? NIXL_ERR_NOT_FOUND : NIXL_SUCCESS));
	FUZZ_CHECK(!in.core->loadRemoteConnInfo("other", in.other_info)); // the right one still can
	// In place of one that has no link yet, as if there were none.
	FUZZ_CHECK(in.core->loadRemoteConnInfo("other", info) == got);
	FUZZ_CHECK(!in.core->disconnect("other"));
}

// Of memory that is ours alone to give out: either it is refused, or it is that memory.
static void token_of_memory(world &in, const std::string &token)
{
	nixlBackendMD *meta = nullptr;
	const nixl_status_t got =
		in.core->loadRemoteMD({in.at(), ROOM, 0, token}, DRAM_SEG, "self", meta);

	FUZZ_CHECK(got == NIXL_SUCCESS || got == NIXL_ERR_INVALID_PARAM ||
		   got == NIXL_ERR_MISMATCH);
	FUZZ_CHECK(!got == (meta != nullptr));
	if (!meta)
		return;
	in.write(in.ours, meta, 100, 200, 50, 7,
		 token == in.token ? NIXL_SUCCESS : NIXL_ERR_NOT_ALLOWED);
	FUZZ_CHECK(!in.core->unloadMD(meta));
}

// Pieces of 24 bytes: where they are, here and there, and how long.
static void list_of_pieces(world &in, const uint8_t *data, size_t size)
{
	const nixl_xfer_op_t op = size && (data[0] & 1) ? NIXL_READ : NIXL_WRITE;
	nixl_meta_dlist_t mine(DRAM_SEG), theirs(DRAM_SEG);
	nixlBackendReqH *request = nullptr;
	bool good = size > 24;

	for (size_t off = 1; off + 24 <= size; off += 24) {
		std::uint64_t piece[3];

		std::memcpy(piece, data + off, sizeof(piece));
		mine.descs.push_back({in.at() + piece[0], piece[2], 0, in.ours});
		theirs.descs.push_back({in.at() + piece[1], piece[2], 0, in.theirs});
		for (int i = 0; i < 2; i++)
			good &= piece[i] < ROOM && piece[2] && piece[2] <= ROOM - piece[i];
	}
	const nixl_status_t got = in.core->prepXfer(op, mine, theirs, "self", request, nullptr);
	FUZZ_CHECK(got == (good ? NIXL_SUCCESS : NIXL_ERR_INVALID_PARAM));
	FUZZ_CHECK(good == (request != nullptr));
	if (!good)
		return;
	FUZZ_CHECK(in.core->postXfer(op, mine, theirs, "self", request, nullptr) >= NIXL_SUCCESS);
	FUZZ_CHECK(in.end(request) == NIXL_SUCCESS);
	// Pieces may overlap: what is around them may not have changed.
	FUZZ_CHECK(std::equal(in.bytes.begin(), in.bytes.begin() + EDGE, in.model.begin()));
	FUZZ_CHECK(std::equal(in.bytes.end() - EDGE, in.bytes.end(), in.model.end() - EDGE));
	in.model = in.bytes;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const bool quiet = tcpx_option_set("TCPX_LOG", "error") == TCPX_OK;
	static world &in = *new world;

	FUZZ_CHECK(quiet);
	if (!size)
		return 0;
	std::string blob(reinterpret_cast<const char *>(data + 1), size - 1);
	switch (data[0] % 3) {
	case 0:
		info_of_another(in, blob);
		if (blob.size() >= 12 && blob.size() <= 0xffff) { // as fuzz_info does
			auto *bytes = reinterpret_cast<uint8_t *>(&blob[0]);

			std::memcpy(bytes, "TCPI", 4);
			bytes[6] = uint8_t(blob.size());
			bytes[7] = uint8_t(blob.size() >> 8);
			fuzz_fix_crc(bytes, blob.size() - 4);
			info_of_another(in, blob);
		}
		break;
	case 1:
		token_of_memory(in, blob);
		blob.resize(in.token.size());
		token_of_memory(in, blob);
		for (std::size_t i = 0; i < blob.size(); i++) // near the right one
			blob[i] = char(blob[i] ^ in.token[i]);
		token_of_memory(in, blob);
		break;
	default:
		list_of_pieces(in, data + 1, size - 1);
	}
	return 0;
}
