/* SPDX-License-Identifier: Apache-2.0 */
/* A NIXL backend over one libtcpx session: an agent is a peer, a registration is a region. */
#pragma once

#include <memory>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include <tcpx/tcpx.h>

#include "nixl_abi.hpp"

namespace tcpx_nixl
{
// options.cpp
struct settings {
	tcpx_session_opts session = {};
	tcpx_listen_opts listen = {};
	nixl_b_params_t in_force;   // session points into it
	bool eager = true;	    // connect when an agent's metadata comes
	std::uint32_t channels = 0; // to each agent; 0: by the cores
	std::vector<std::pair<std::string, std::string>> before; // of options, should it fail
};
void settings_take(const nixlBackendInitParams &args, settings &out); // throws what is wrong
nixl_b_params_t settings_list(bool alias);
std::string converted(std::string text, int (*change)(int));

// files.cpp
void files_suffice(std::size_t peers, std::size_t channels); // channels: to each; 0: by the cores

// plugin.cpp
// One line on stderr, from that level on.
[[gnu::format(printf, 2, 3)]] void say(tcpx_log_level level, const char *format, ...);
void say_last(tcpx_log_level level, const char *doing); // the library's last error
// A link: the first line of the same words, then how many there were, each 10 s at most.
void say_ended(const char *doing, const char *why);
void say_ended_rest(); // what was counted and not logged yet
nixl_status_t status_of(tcpx_status from);
nixl_mem_list_t memories_usable();
void looked_in_vain(); // lets others run now and then: who spins keeps workers off few cores

// What a call of NIXL's ends with and why, thrown from wherever that is found.
struct refusal : std::runtime_error {
	const nixl_status_t status;

	refusal(nixl_status_t status, const std::string &why)
	    : std::runtime_error(why), status(status)
	{
	}
};
void must(bool good, nixl_status_t otherwise, const char *why);
void must(tcpx_status got); // otherwise what the library's last error says

// transfer.cpp
// A remote agent, or ourselves, whom each dial after a disconnect gives another peer: they have
// numbers. The link of a peer may end and come again.
struct agent {
	tcpx_session *const session;
	const std::string name, info, key; // key: what proves it; "": nothing can
	std::mutex lock = {};		   // of what follows
	tcpx_peer peer = {0};
	std::uint64_t link = 0; // 0: never dialled
	bool dropped = false;

	void join();	   // locked: there is a link, or one may come
	void dial();	   // locked: now, also where an attempt ended just before
	bool gone() const; // locked: there was one, and it ended
};

// Memory of an agent, as its blob says; lives as long as a transfer leads there.
struct remote {
	const std::shared_ptr<agent> owner;
	const std::string token;
	tcpx_region handle = {0}; // imported for that peer
	std::uint64_t link = 0;

	~remote();
	void import(); // owner locked
};

// What descriptors point to: memory of ours, or of an agent.
struct region : nixlBackendMD {
	const std::uintptr_t addr;
	const std::size_t len;
	const std::uint64_t device;
	const nixl_mem_t type;
	std::shared_ptr<remote> theirs; // of a loaded one
	std::string token;		// of ours
	tcpx_region handle = {0};

	region(const nixlBlobDesc &what, nixl_mem_t type)
	    : nixlBackendMD(true), addr(what.addr), len(what.len), device(what.devId), type(type)
	{
	}
	bool holds(const nixlBasicDesc &piece) const;
};

// Every object that NIXL has of us.
using metas = std::unordered_map<const nixlBackendMD *, std::shared_ptr<region>>;

// Descriptors behind one another of the same two regions.
struct run {
	std::size_t count;
	tcpx_region ours;
	std::uintptr_t near; // where it begins
	std::shared_ptr<remote> theirs;
	std::uintptr_t far;
};

struct transfer : nixlBackendReqH {
	const std::shared_ptr<agent> owner;
	const nixl_xfer_op_t op;
	std::vector<run> runs;
	std::size_t count = 0; // of descriptors
	tcpx_request request = {0};
	bool prepared = false;
	bool notified = false; // the request carries a notification
	bool refused = false;  // a release was
	bool told = false;     // how it ended

	transfer(std::shared_ptr<agent> owner, nixl_xfer_op_t op) : owner(std::move(owner)), op(op)
	{
	}
	~transfer() override;
	void check(const nixl_meta_dlist_t &local, const nixl_meta_dlist_t &remote,
		   const metas &live);
	void make(const nixl_meta_dlist_t &local, const nixl_meta_dlist_t &remote); // owner locked
	nixl_status_t post(const nixl_opt_b_args_t *args);
	nixl_status_t look();
	bool quiet(); // cancels it; waits when it was refused once
};

nixlBackendEngine *backend_new(const nixlBackendInitParams &args); // throws for want of memory

// Nothing is thrown into the application.
template <class Body> nixl_status_t guarded(const char *doing, Body body) noexcept
{
	try {
		if constexpr (std::is_void_v<decltype(body())>)
			body();
		else
			return body();
		return NIXL_SUCCESS;
	} catch (const refusal &it) {
		// That a link ended was said when it did.
		if (it.status == NIXL_ERR_REMOTE_DISCONNECT)
			say_ended(doing, it.what());
		else
			say(TCPX_LOG_ERROR, "%s: %s", doing, it.what());
		return it.status;
	} catch (const std::exception &e) {
		say(TCPX_LOG_ERROR, "%s: %s", doing, e.what());
	} catch (...) {
		say(TCPX_LOG_ERROR, "%s: failed", doing);
	}
	return NIXL_ERR_BACKEND;
}

} // namespace tcpx_nixl
