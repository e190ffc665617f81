/* SPDX-License-Identifier: Apache-2.0 */
/* A NIXL backend over one libtcpx session: an agent is a peer, a registration is a region. */
#pragma once

#include <atomic>
#include <map>
#include <memory>

#include <tcpx/tcpx.h>

#include "nixl_abi.hpp"

namespace tcpx_nixl
{
using nixl_abi::status;

// options.cpp
struct settings {
	tcpx_session_opts session = {};
	tcpx_listen_opts listen = {};
	nixl_abi::params in_force; // session points into it
	bool eager = true;	   // connect when an agent's metadata comes
};
void settings_take(const nixl_abi::create_args &args, settings &out); // throws what is wrong
nixl_abi::params settings_list(bool alias);

// plugin.cpp
status status_of(tcpx_status from);
// One line on stderr, from that level on.
[[gnu::format(printf, 2, 3)]] void say(tcpx_log_level level, const char *format, ...);
void say_last(tcpx_log_level level, const char *doing); // the library's last error
void must(tcpx_status got);				// throws it
std::vector<nixl_abi::memory> memories_usable();
void looked_in_vain(); // lets others run now and then: who spins keeps workers off few cores

// A remote agent, or ourselves. Its link may end and come again: each has a number.
struct agent {
	const std::string name, info;
	std::mutex lock;
	tcpx_peer peer = {0};
	std::uint64_t link = 0;				  // 0: never dialled
	std::atomic<double> bytes_per_ns[2] = {{0}, {0}}; // measured, by operation

	agent(std::string name, std::string info) : name(std::move(name)), info(std::move(info))
	{
	}
};

// What descriptors point to: memory of ours, or of an agent.
struct region : nixl_abi::metadata {
	std::uintptr_t addr;
	std::size_t len;
	std::uint64_t device;
	nixl_abi::memory type;
	std::string token;
	std::shared_ptr<agent> owner; // of a loaded one
	tcpx_region handle = {0};     // a loaded one's: imported for that link
	std::uint64_t link = 0;

	bool holds(const nixl_abi::descriptor &piece) const;
};

struct transfer : nixl_abi::handle {
	std::shared_ptr<agent> owner;
	tcpx_request request = {0};
	std::uint64_t link = 0;
	nixl_abi::operation op;
	bool notified = false; // the request carries a notification
	bool measured = false, refused = false;
};

class backend final : public nixl_abi::engine
{
	settings settings_;
	tcpx_session *session_ = nullptr;
	std::shared_ptr<agent> self_;
	mutable std::mutex lock_; // of what follows
	std::unordered_map<std::string, std::shared_ptr<agent>> agents_;
	std::multimap<std::uintptr_t, const region *> regions_;
	std::vector<tcpx_region> late_; // deregistered, but still in somebody's hands

	void open(const nixl_abi::create_args &args);
	std::shared_ptr<agent> find(const std::string &name) const;
	status dial(agent &to) const;	     // agent.lock held: links it unless it is
	bool redial(agent &to) const;	     // agent.lock held: a peer that said goodbye
	void retry_late();		     // lock_ held
	status import(region &theirs) const; // agent.lock held
	status make(transfer &request, const nixl_abi::descriptors &local,
		    const nixl_abi::descriptors &remote) const;
	void measure(transfer &request, const tcpx_completion &end) const;

      public:
	explicit backend(const nixl_abi::create_args &args);
	~backend() override;

	bool remote_supported() const override;
	bool local_supported() const override;
	bool notifications_supported() const override;
	std::vector<nixl_abi::memory> memories() const override;
	status register_memory(const nixl_abi::blob_descriptor &what, const nixl_abi::memory &type,
			       nixl_abi::metadata *&out) override;
	status deregister_memory(nixl_abi::metadata *meta) override;
	status connect(const std::string &name) override;
	status disconnect(const std::string &name) override;
	status unload(nixl_abi::metadata *meta) override;
	status prepare(const nixl_abi::operation &op, const nixl_abi::descriptors &local,
		       const nixl_abi::descriptors &remote, const std::string &name,
		       nixl_abi::handle *&out, const nixl_abi::post_args *args) const override;
	status post(const nixl_abi::operation &op, const nixl_abi::descriptors &local,
		    const nixl_abi::descriptors &remote, const std::string &name,
		    nixl_abi::handle *&inout, const nixl_abi::post_args *args) const override;
	status check(nixl_abi::handle *request) const override;
	status release(nixl_abi::handle *request) const override;
	status public_data(const nixl_abi::metadata *meta, std::string &out) const override;
	status connection_info(std::string &out) const override;
	status load_connection(const std::string &name, const std::string &info) override;
	status load_remote(const nixl_abi::blob_descriptor &what, const nixl_abi::memory &type,
			   const std::string &name, nixl_abi::metadata *&out) override;
	status load_local(nixl_abi::metadata *ours, nixl_abi::metadata *&out) override;
	status take_notifications(nixl_abi::notifications &inout) override;
	status send_notification(const std::string &name,
				 const std::string &message) const override;
	status query_memory(const nixl_abi::blob_descriptors &what,
			    nixl_abi::answers &out) const override;
	status estimate(const nixl_abi::operation &op, const nixl_abi::descriptors &local,
			const nixl_abi::descriptors &remote, const std::string &name,
			nixl_abi::handle *const &request, std::chrono::microseconds &out_duration,
			std::chrono::microseconds &out_margin, nixl_abi::cost &out_method,
			const nixl_abi::post_args *args) const override;
};

// Nothing is thrown into the application: whatever is becomes BACKEND.
template <class Body> status guarded(const char *doing, Body body) noexcept
{
	try {
		return body();
	} catch (const std::exception &e) {
		say(TCPX_LOG_ERROR, "%s: %s", doing, e.what());
	} catch (...) {
		say(TCPX_LOG_ERROR, "%s: failed", doing);
	}
	return status::BACKEND;
}

} // namespace tcpx_nixl
