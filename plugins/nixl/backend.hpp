/* SPDX-License-Identifier: Apache-2.0 */
/* A NIXL backend over one libtcpx session: an agent is a peer, a registration is a region. */
#pragma once

#include <map>
#include <memory>

#include <tcpx/tcpx.h>

#include "nixl_abi.hpp"

namespace tcpx_nixl
{
// options.cpp
struct settings {
	tcpx_session_opts session = {};
	tcpx_listen_opts listen = {};
	nixl_b_params_t in_force; // session points into it
	bool eager = true;	  // connect when an agent's metadata comes
};
void settings_take(const nixlBackendInitParams &args, settings &out); // throws what is wrong
nixl_b_params_t settings_list(bool alias);
std::string converted(std::string text, int (*change)(int));

// plugin.cpp
nixl_status_t status_of(tcpx_status from);
// One line on stderr, from that level on.
[[gnu::format(printf, 2, 3)]] void say(tcpx_log_level level, const char *format, ...);
void say_last(tcpx_log_level level, const char *doing); // the library's last error
void must(tcpx_status got);				// throws it
nixl_mem_list_t memories_usable();
void looked_in_vain(); // lets others run now and then: who spins keeps workers off few cores

// A remote agent, or ourselves. Its link may end and come again: each has a number.
struct agent {
	const std::string name, info;
	std::mutex lock;
	tcpx_peer peer = {0};
	std::uint64_t link = 0; // 0: never dialled

	agent(std::string name, std::string info) : name(std::move(name)), info(std::move(info))
	{
	}
};

// What descriptors point to: memory of ours, or of an agent.
struct region : nixlBackendMD {
	const std::uintptr_t addr;
	const std::size_t len;
	const std::uint64_t device;
	const nixl_mem_t type;
	std::string token;
	std::shared_ptr<agent> owner; // of a loaded one
	tcpx_region handle = {0};     // a loaded one's: imported for that link
	std::uint64_t link = 0;

	region(const nixlBlobDesc &what, nixl_mem_t type)
	    : nixlBackendMD(true), addr(what.addr), len(what.len), device(what.devId), type(type)
	{
	}
	bool holds(const nixlBasicDesc &piece) const;
};

struct transfer : nixlBackendReqH {
	std::shared_ptr<agent> owner;
	tcpx_request request = {0};
	std::uint64_t link = 0;
	nixl_xfer_op_t op;
	bool notified = false; // the request carries a notification
	bool refused = false;  // a release was
	bool told = false;     // how it ended
};

class backend final : public nixlBackendEngine
{
	settings settings_;
	tcpx_session *session_ = nullptr;
	std::shared_ptr<agent> self_;
	mutable std::mutex lock_; // of what follows
	std::unordered_map<std::string, std::shared_ptr<agent>> agents_;
	std::multimap<std::uintptr_t, const region *> regions_;
	std::vector<tcpx_region> late_; // deregistered, but still in somebody's hands

	void open(const nixlBackendInitParams &args);
	std::shared_ptr<agent> find(const std::string &name) const;
	nixl_status_t join(agent &to) const; // agent.lock held: there is a link, or a new one
	nixl_status_t import(region &theirs) const; // agent.lock held
	nixl_status_t make(transfer &request, const nixl_meta_dlist_t &local,
			   const nixl_meta_dlist_t &remote) const;

      public:
	explicit backend(const nixlBackendInitParams &args);
	~backend() override;

	bool supportsRemote() const override
	{
		return true;
	}
	bool supportsLocal() const override
	{
		return true;
	}
	bool supportsNotif() const override
	{
		return true;
	}
	nixl_mem_list_t getSupportedMems() const override
	{
		return memories_usable();
	}
	nixl_status_t registerMem(const nixlBlobDesc &what, const nixl_mem_t &type,
				  nixlBackendMD *&out) override;
	nixl_status_t deregisterMem(nixlBackendMD *meta) override;
	nixl_status_t connect(const std::string &name) override;
	nixl_status_t disconnect(const std::string &name) override;
	nixl_status_t unloadMD(nixlBackendMD *meta) override;
	nixl_status_t prepXfer(const nixl_xfer_op_t &op, const nixl_meta_dlist_t &local,
			       const nixl_meta_dlist_t &remote, const std::string &name,
			       nixlBackendReqH *&out, const nixl_opt_b_args_t *args) const override;
	nixl_status_t postXfer(const nixl_xfer_op_t &op, const nixl_meta_dlist_t &local,
			       const nixl_meta_dlist_t &remote, const std::string &name,
			       nixlBackendReqH *&inout,
			       const nixl_opt_b_args_t *args) const override;
	nixl_status_t checkXfer(nixlBackendReqH *request) const override;
	nixl_status_t releaseReqH(nixlBackendReqH *request) const override;
	nixl_status_t getPublicData(const nixlBackendMD *meta, std::string &out) const override;
	nixl_status_t getConnInfo(std::string &out) const override;
	nixl_status_t loadRemoteConnInfo(const std::string &name, const std::string &info) override;
	nixl_status_t loadRemoteMD(const nixlBlobDesc &what, const nixl_mem_t &type,
				   const std::string &name, nixlBackendMD *&out) override;
	nixl_status_t loadLocalMD(nixlBackendMD *ours, nixlBackendMD *&out) override;
	nixl_status_t getNotifs(notif_list_t &inout) override;
	nixl_status_t genNotif(const std::string &name, const std::string &message) const override;
	nixl_status_t queryMem(const nixl_reg_dlist_t &what,
			       std::vector<nixl_query_resp_t> &out) const override;
	nixl_status_t estimateXferCost(const nixl_xfer_op_t &op, const nixl_meta_dlist_t &local,
				       const nixl_meta_dlist_t &remote, const std::string &name,
				       nixlBackendReqH *const &request,
				       std::chrono::microseconds &out_duration,
				       std::chrono::microseconds &out_margin,
				       nixl_cost_t &out_method,
				       const nixl_opt_args_t *args) const override;
};

// Nothing is thrown into the application: whatever is becomes BACKEND.
template <class Body> nixl_status_t guarded(const char *doing, Body body) noexcept
{
	try {
		return body();
	} catch (const std::exception &e) {
		say(TCPX_LOG_ERROR, "%s: %s", doing, e.what());
	} catch (...) {
		say(TCPX_LOG_ERROR, "%s: failed", doing);
	}
	return NIXL_ERR_BACKEND;
}

} // namespace tcpx_nixl
