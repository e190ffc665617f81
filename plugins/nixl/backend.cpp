/* SPDX-License-Identifier: Apache-2.0 */
/* What NIXL calls: memory, agents, transfers by their objects, notifications. */
#include "notes.hpp"
#include "objects.hpp"

#include <algorithm>
#include <atomic>
#include <list>
#include <set>

namespace tcpx_nixl
{
constexpr std::int64_t DEREGISTER_NS = 1'000'000'000;
constexpr auto LAST_WORDS = std::chrono::milliseconds(200);
constexpr std::uint64_t ASSUMED = 1'000'000'000; // bytes a second, before anything was measured

class backend final : public nixlBackendEngine
{
	settings settings_;
	tcpx_session *session_ = nullptr;
	std::shared_ptr<agent> self_;
	mutable objects objects_;
	std::atomic<bool> read_only_said_ = false;
	mutable std::mutex lock_; // of what follows
	std::unordered_map<std::string, std::shared_ptr<agent>> agents_;
	std::set<std::pair<std::uintptr_t, const region *>> regions_; // by address
	std::size_t longest_ = 0;
	std::list<std::shared_ptr<region>> late_; // deregistered, still in somebody's hands
	notes notes_;

	void open(const nixlBackendInitParams &args)
	{
		std::string info(TCPX_INFO_MAX_BYTES, '\0');
		std::size_t len = 0;
		std::uint16_t port;

		settings_take(args, settings_);
		settings_.session.name = localAgent.c_str();
		must(tcpx_session_open(&settings_.session, &session_));
		must(tcpx_session_listen(session_, &settings_.listen, &port));
		must(tcpx_session_info(session_, &info[0], info.size(), &len));
		info.resize(len);
		char key[65];
		must(tcpx_session_key(session_, key));
		self_.reset(new agent{session_, localAgent, info, key});
		say(TCPX_LOG_INFO, "agent '%s' listens on port %u of %s", localAgent.c_str(), port,
		    settings_.session.bind);
	}

	std::shared_ptr<agent> known(const std::string &name) const
	{
		std::lock_guard held(lock_);
		auto it = agents_.find(name);

		if (it != agents_.end())
			return it->second;
		return name == self_->name ? self_ : nullptr;
	}

	std::size_t agents_count() const
	{
		std::lock_guard held(lock_);

		return agents_.size();
	}

	std::shared_ptr<agent> find(const std::string &name) const
	{
		std::shared_ptr<agent> it = known(name);

		must(bool(it), NIXL_ERR_NOT_FOUND, "no agent of that name is loaded");
		return it;
	}

	void drop(agent &it, std::unique_lock<std::mutex> held)
	{
		if (it.peer.id)
			tcpx_peer_disconnect(session_, it.peer);
		it.peer = {0};
		it.dropped = &it != self_.get(); // ourselves there is no other of
		held.unlock();
		std::lock_guard ours(lock_);
		agents_.erase(it.name);
	}

	// NIXL asks for no rights. Memory that cannot be written can still be read by peers.
	tcpx_status reg(region &made, tcpx_region_opts &opts)
	{
		auto *at = reinterpret_cast<void *>(made.addr);
		tcpx_status got = tcpx_region_register(session_, at, made.len, &opts, &made.handle);

		if (got != TCPX_ERR_INVALID || opts.kind != TCPX_MEM_HOST)
			return got;
		const std::string why = tcpx_last_error()->what;
		opts.rights = TCPX_RIGHT_READ;
		got = tcpx_region_register(session_, at, made.len, &opts, &made.handle);
		if (got == TCPX_OK && !read_only_said_.exchange(true))
			say(TCPX_LOG_WARN,
			    "%s: it is registered for reading alone, and a WRITE of a peer into it "
			    "ends with NIXL_ERR_NOT_ALLOWED there (said once)",
			    why.c_str());
		return got;
	}

	// What was in somebody's hands when it was deregistered may be free by now.
	void look_after_late()
	{
		std::lock_guard held(lock_);

		late_.remove_if([&](const auto &it) {
			if (tcpx_region_deregister(session_, it->handle, 1) == TCPX_ERR_BUSY)
				return false;
			say(TCPX_LOG_WARN, "memory at %#zx is free now", std::size_t(it->addr));
			return true;
		});
	}

      public:
	explicit backend(const nixlBackendInitParams &args) : nixlBackendEngine(&args)
	{
		try {
			open(args);
		} catch (const std::exception &e) {
			say(TCPX_LOG_ERROR, "backend '%s' of agent '%s' is not created: %s",
			    args.type.c_str(), args.localAgent.c_str(), e.what());
			initErr = true;
			for (const auto &[name, before] : settings_.before)
				if (tcpx_option_set(name.c_str(), before.c_str()) != TCPX_OK)
					say_last(TCPX_LOG_WARN, name.c_str());
		}
	}

	~backend() override
	{
		const auto until = std::chrono::steady_clock::now() + LAST_WORDS;

		// What was notified before arrives, if the others take it. Nobody else calls.
		for (const auto &[name, to] : agents_) {
			const std::chrono::nanoseconds left =
				until - std::chrono::steady_clock::now();

			if (left.count() <= 0)
				break;
			if (!to->link)
				continue;
			const tcpx_status status =
				tcpx_peer_flush(session_, to->peer, left.count());
			if (status == TCPX_IN_PROGRESS)
				tcpx_log_write(
					TCPX_LOG_INFO,
					"an agent ends before its last notifications arrived");
			else if (status != TCPX_OK)
				say_last(TCPX_LOG_INFO, "an agent ends");
		}
		say_ended_rest();
		objects_.clear();
		late_.clear();
		tcpx_session_close(session_); // NULL, and in a forked child, too
	}

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

	// --- memory

	nixl_status_t registerMem(const nixlBlobDesc &what, const nixl_mem_t &type,
				  nixlBackendMD *&out) override
	{
		return guarded("registerMem", [&] {
			tcpx_region_opts opts = {};
			auto made = std::make_shared<region>(what, type);

			look_after_late();
			must(type == DRAM_SEG || type == VRAM_SEG, NIXL_ERR_NOT_SUPPORTED,
			     "memory is DRAM or VRAM here");
			opts.sz = sizeof(opts);
			opts.kind = type == VRAM_SEG ? TCPX_MEM_CUDA : TCPX_MEM_HOST;
			opts.device = type == VRAM_SEG ? std::uint32_t(what.devId) : 0;
			opts.rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE;
			opts.flags = TCPX_REGION_STABLE;
			must(what.devId <= UINT32_MAX, NIXL_ERR_INVALID_PARAM, "no such device");
			made->token.resize(TCPX_TOKEN_BYTES);
			must(reg(*made, opts));
			try {
				must(tcpx_region_export(session_, made->handle, &made->token[0]));
				nixlBackendMD *meta = objects_.give(made);
				try {
					std::lock_guard held(lock_);
					regions_.emplace(made->addr, made.get());
					longest_ = std::max(longest_, made->len);
				} catch (...) {
					objects_.take(meta, false);
					throw;
				}
				out = meta;
			} catch (...) { // nobody may reach it
				(void)tcpx_region_deregister(session_, made->handle, 0);
				throw;
			}
		});
	}

	nixl_status_t deregisterMem(nixlBackendMD *meta) override
	{
		return guarded("deregisterMem", [&] {
			objects_.registered(meta); // or throws
			std::shared_ptr<region> ours = objects_.take(meta, false);
			tcpx_status got;

			must(bool(ours), NIXL_ERR_INVALID_PARAM, "it is deregistered by now");
			const std::uintptr_t begin = ours->addr, end = begin + ours->len;
			look_after_late();
			got = tcpx_region_deregister(session_, ours->handle, DEREGISTER_NS);
			std::lock_guard held(lock_);
			regions_.erase({ours->addr, ours.get()});
			if (got == TCPX_ERR_BUSY)
				late_.push_back(ours);
			for (const auto &it : late_) // it, or memory that is registered twice
				must(it->addr >= end || it->addr + it->len <= begin,
				     NIXL_ERR_BACKEND,
				     "it is still in use: do not free it before a line says so");
			return status_of(got);
		});
	}

	nixl_status_t getPublicData(const nixlBackendMD *meta, std::string &out) const override
	{
		return guarded("getPublicData", [&] { out = objects_.registered(meta)->token; });
	}

	nixl_status_t loadRemoteMD(const nixlBlobDesc &what, const nixl_mem_t &type,
				   const std::string &name, nixlBackendMD *&out) override
	{
		return guarded("loadRemoteMD", [&] {
			std::shared_ptr<agent> owner = find(name);
			auto made = std::make_shared<region>(what, type);

			must(what.metaInfo.size() == TCPX_TOKEN_BYTES && what.len,
			     NIXL_ERR_INVALID_PARAM, "the blob is none of ours");
			made->theirs.reset(new remote{owner, what.metaInfo});
			std::lock_guard held(owner->lock);
			made->theirs->import();
			out = objects_.give(made);
		});
	}

	// An object of its own: NIXL unloads it when the registration that it was made of is gone.
	nixl_status_t loadLocalMD(nixlBackendMD *meta, nixlBackendMD *&out) override
	{
		return guarded("loadLocalMD", [&] {
			auto copy = std::make_shared<region>(*objects_.registered(meta));

			copy->theirs.reset(new remote{self_, copy->token});
			out = objects_.give(copy);
		});
	}

	nixl_status_t unloadMD(nixlBackendMD *meta) override
	{
		return guarded("unloadMD", [&] {
			must(!meta || objects_.take(meta, true), NIXL_ERR_INVALID_PARAM,
			     "no loaded metadata of this agent, or not any more");
		});
	}

	nixl_status_t queryMem(const nixl_reg_dlist_t &what,
			       std::vector<nixl_query_resp_t> &out) const override
	{
		return guarded("queryMem", [&] {
			std::lock_guard held(lock_);

			out.clear();
			for (const nixlBlobDesc &each : what) {
				nixl_query_resp_t answer;
				auto it = regions_.lower_bound({each.addr + 1, nullptr});

				while (it != regions_.begin() && !answer) {
					const region &ours = *(--it)->second;

					if (each.addr - ours.addr >= longest_)
						break;
					if (ours.type == what.getType() && ours.holds(each))
						answer = nixl_b_params_t{{"registered", "1"}};
				}
				out.push_back(answer);
			}
		});
	}

	// --- agents

	nixl_status_t getConnInfo(std::string &out) const override
	{
		return guarded("getConnInfo", [&] { out = self_->info; });
	}

	nixl_status_t loadRemoteConnInfo(const std::string &name, const std::string &info) override
	{
		return guarded("loadRemoteConnInfo", [&] {
			char session[TCPX_NAME_MAX + 1], key[65] = "";
			std::shared_ptr<agent> old = known(name);

			must(tcpx_info_name(info.data(), info.size(), session, sizeof(session)));
			must(name == session, NIXL_ERR_MISMATCH,
			     "the connection info is another agent's");
			if (!self_->key.empty()) // without crypto nobody proves anything here
				must(tcpx_info_key(info.data(), info.size(), key));
			if (old) { // one that ended, NIXL may have forgotten without a word
				std::unique_lock held(old->lock);

				if (old->info == info && !old->gone())
					return;
				must(old != self_ && (old->gone() || !old->link),
				     NIXL_ERR_NOT_ALLOWED,
				     "an agent of that name is loaded, and alive: "
				     "disconnect it first");
				drop(*old, std::move(held));
			}
			std::shared_ptr<agent> fresh(new agent{session_, name, info, key});
			files_suffice(agents_count() + 1, settings_.channels);
			if (settings_.eager)
				fresh->join();
			std::lock_guard held(lock_);
			agents_.emplace(name, fresh);
		});
	}

	nixl_status_t connect(const std::string &name) override
	{
		return guarded("connect", [&] {
			std::shared_ptr<agent> to = find(name);
			std::lock_guard held(to->lock);

			if (to == self_) // that is when it is used
				return;
			to->join();
			if (to->gone())
				to->dial();
		});
	}

	nixl_status_t disconnect(const std::string &name) override
	{
		return guarded("disconnect", [&] {
			std::shared_ptr<agent> it = find(name);

			drop(*it, std::unique_lock(it->lock));
		});
	}

	// --- transfers

	nixl_status_t prepXfer(const nixl_xfer_op_t &op, const nixl_meta_dlist_t &local,
			       const nixl_meta_dlist_t &remote, const std::string &name,
			       nixlBackendReqH *&out, const nixl_opt_b_args_t *) const override
	{
		return guarded("prepXfer", [&] {
			std::shared_ptr<agent> to = find(name);
			auto made = std::make_shared<transfer>(to, op);
			std::lock_guard held(to->lock);

			objects_.check(*made, local, remote);
			to->join();
			made->make(local, remote);
			out = objects_.give(made);
		});
	}

	// It looks at no metadata, which may be gone by now.
	nixl_status_t postXfer(const nixl_xfer_op_t &, const nixl_meta_dlist_t &,
			       const nixl_meta_dlist_t &, const std::string &, nixlBackendReqH *&it,
			       const nixl_opt_b_args_t *args) const override
	{
		return guarded("postXfer", [&] {
			std::shared_ptr<transfer> ours = objects_.request(it);

			must(bool(ours), NIXL_ERR_INVALID_PARAM,
			     "no request of this agent, or released by now");
			return ours->post(args);
		});
	}

	nixl_status_t checkXfer(nixlBackendReqH *it) const override
	{
		std::shared_ptr<transfer> ours = objects_.request(it);

		return ours ? ours->look() : NIXL_ERR_INVALID_PARAM;
	}

	nixl_status_t releaseReqH(nixlBackendReqH *it) const override
	{
		std::shared_ptr<transfer> ours = objects_.request(it);

		if (!ours)
			return it ? NIXL_ERR_INVALID_PARAM : NIXL_SUCCESS;
		if (!ours->quiet())
			return NIXL_ERR_REPOST_ACTIVE; // still NIXL's
		return objects_.take(ours) ? NIXL_SUCCESS : NIXL_ERR_INVALID_PARAM;
	}

	// --- notifications and estimates

	nixl_status_t getNotifs(notif_list_t &inout) override
	{
		return guarded("getNotifs", [&] {
			must(inout.empty(), NIXL_ERR_INVALID_PARAM, "the list is not empty");
			const tcpx_status got = notes_.take(
				session_, inout, [&](const char *name) { return known(name); });

			if (!inout.empty())
				return;
			must(got == TCPX_IN_PROGRESS ? TCPX_OK : got);
			looked_in_vain();
		});
	}

	nixl_status_t genNotif(const std::string &name, const std::string &message) const override
	{
		return guarded("genNotif", [&] {
			std::shared_ptr<agent> to = find(name);
			std::lock_guard held(to->lock);

			to->join();
			must(tcpx_notify_send(session_, to->peer, message.data(), message.size()));
		});
	}

	nixl_status_t estimateXferCost(const nixl_xfer_op_t &op, const nixl_meta_dlist_t &local,
				       const nixl_meta_dlist_t &, const std::string &name,
				       nixlBackendReqH *const &,
				       std::chrono::microseconds &out_duration,
				       std::chrono::microseconds &out_margin,
				       nixl_cost_t &out_method,
				       const nixl_opt_args_t *) const override
	{
		return guarded("estimateXferCost", [&] {
			std::shared_ptr<agent> to = find(name);
			std::lock_guard held(to->lock);
			tcpx_peer_info link = {};
			std::uint64_t rate;
			double bytes = 0;

			for (const nixlMetaDesc &each : local)
				bytes += double(each.len);
			link.sz = sizeof(link);
			if (to->link && tcpx_peer_query(session_, to->peer, &link) != TCPX_OK)
				link = {};
			rate = op == NIXL_READ ? link.read_bytes_per_s : link.write_bytes_per_s;
			out_duration = std::chrono::microseconds(
				std::int64_t(double(link.rtt_ns) / 1e3 +
					     bytes * 1e6 / double(rate ? rate : ASSUMED) + 1));
			out_margin = rate ? out_duration / 4 : out_duration;
			out_method = nixl_cost_t::ANALYTICAL_BACKEND;
		});
	}
};

nixlBackendEngine *backend_new(const nixlBackendInitParams &args)
{
	return new backend(args);
}

} // namespace tcpx_nixl
