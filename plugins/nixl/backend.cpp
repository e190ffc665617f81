/* SPDX-License-Identifier: Apache-2.0 */
/* The session: memory, agents, their links, notifications. */
#include "backend.hpp"

namespace tcpx_nixl
{
constexpr std::int64_t QUIET_NS = 1'000'000'000;
constexpr std::size_t INFO_MAX = 65536;
constexpr std::int64_t CONNECT_NS = 5'000'000'000;
constexpr auto LAST_WORDS = std::chrono::milliseconds(200);
constexpr std::uint64_t ASSUMED = 1'000'000'000; // bytes a second, before anything was measured

backend::backend(const nixlBackendInitParams &args) : nixlBackendEngine(&args)
{
	try {
		open(args);
	} catch (const std::exception &e) {
		say(TCPX_LOG_ERROR, "backend '%s' of agent '%s' is not created: %s",
		    args.type.c_str(), args.localAgent.c_str(), e.what());
		initErr = true;
	}
}

void backend::open(const nixlBackendInitParams &args)
{
	std::string info(TCPX_INFO_MAX_BYTES, '\0');
	std::size_t len = 0;
	std::uint16_t port;
	tcpx_status got;

	settings_take(args, settings_);
	settings_.session.name = localAgent.c_str();
	must(tcpx_session_open(&settings_.session, &session_));
	got = tcpx_session_listen(session_, &settings_.listen, &port);
	if (got == TCPX_ERR_AUTH && settings_.in_force["bind"] == "auto") { // no crypto library
		say_last(TCPX_LOG_WARN, "agents of this host alone can connect");
		tcpx_session_close(session_);
		session_ = nullptr;
		settings_.session.bind = "127.0.0.1";
		must(tcpx_session_open(&settings_.session, &session_));
		got = tcpx_session_listen(session_, &settings_.listen, &port);
	}
	must(got);
	must(tcpx_session_info(session_, &info[0], info.size(), &len));
	info.resize(len);
	self_ = std::make_shared<agent>(localAgent, info);
	say(TCPX_LOG_INFO, "agent '%s' listens on port %u of %s", localAgent.c_str(), port,
	    settings_.session.bind);
}

backend::~backend()
{
	const auto until = std::chrono::steady_clock::now() + LAST_WORDS;

	// What was notified before arrives, if the others take it. Nobody else calls any more.
	for (const auto &[name, to] : agents_) {
		const std::chrono::nanoseconds left = until - std::chrono::steady_clock::now();

		if (left.count() <= 0)
			break;
		if (to->link && tcpx_peer_flush(session_, to->peer, left.count()) != TCPX_OK)
			say_last(TCPX_LOG_INFO, "an agent ends");
	}
	tcpx_session_close(session_); // NULL, and in a forked child, too
}

// --- memory

nixl_status_t backend::registerMem(const nixlBlobDesc &what, const nixl_mem_t &type,
				   nixlBackendMD *&out)
{
	return guarded("registerMem", [&] {
		tcpx_region_opts opts = {};
		auto made = std::make_unique<region>(what, type);
		tcpx_status got;

		if (type != DRAM_SEG && type != VRAM_SEG)
			return NIXL_ERR_NOT_SUPPORTED;
		opts.sz = sizeof(opts);
		opts.kind = type == VRAM_SEG ? TCPX_MEM_CUDA : TCPX_MEM_HOST;
		opts.device = type == VRAM_SEG ? std::uint32_t(what.devId) : 0;
		opts.rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE;
		opts.flags = TCPX_REGION_STABLE;
		made->token.resize(TCPX_TOKEN_BYTES);
		got = tcpx_region_register(session_, reinterpret_cast<void *>(what.addr), what.len,
					   &opts, &made->handle);
		if (got == TCPX_OK)
			got = tcpx_region_export(session_, made->handle, &made->token[0]);
		if (got != TCPX_OK) {
			say_last(TCPX_LOG_ERROR, "registerMem");
			return status_of(got);
		}
		std::lock_guard held(lock_);
		regions_.emplace(made->addr, made.get());
		out = made.release();
		return NIXL_SUCCESS;
	});
}

nixl_status_t backend::deregisterMem(nixlBackendMD *meta)
{
	return guarded("deregisterMem", [&] {
		std::unique_ptr<region> ours(static_cast<region *>(meta));
		std::vector<tcpx_region> left;
		tcpx_status got;

		if (!ours)
			return NIXL_ERR_INVALID_PARAM;
		got = tcpx_region_deregister(session_, ours->handle, QUIET_NS);
		std::lock_guard held(lock_);
		auto it = regions_.lower_bound(ours->addr);
		while (it != regions_.end() && it->second != ours.get())
			++it;
		if (it != regions_.end())
			regions_.erase(it);
		for (tcpx_region each : late_)
			if (tcpx_region_deregister(session_, each, 1) == TCPX_ERR_BUSY)
				left.push_back(each);
		if (got == TCPX_ERR_BUSY) {
			say_last(TCPX_LOG_ERROR, "deregisterMem: do not free that memory");
			left.push_back(ours->handle);
		}
		late_.swap(left);
		return status_of(got);
	});
}

nixl_status_t backend::getPublicData(const nixlBackendMD *meta, std::string &out) const
{
	return guarded("getPublicData", [&] {
		out = static_cast<const region *>(meta)->token;
		return NIXL_SUCCESS;
	});
}

nixl_status_t backend::loadRemoteMD(const nixlBlobDesc &what, const nixl_mem_t &type,
				    const std::string &name, nixlBackendMD *&out)
{
	return guarded("loadRemoteMD", [&] {
		std::shared_ptr<agent> owner = find(name);
		auto theirs = std::make_unique<region>(what, type);
		nixl_status_t got = NIXL_SUCCESS;

		if (!owner)
			return NIXL_ERR_NOT_FOUND;
		if (what.metaInfo.size() != TCPX_TOKEN_BYTES || !what.len)
			return NIXL_ERR_INVALID_PARAM;
		theirs->token = what.metaInfo;
		theirs->owner = owner;
		std::lock_guard held(owner->lock);
		if (owner->link)
			got = import(*theirs);
		if (got == NIXL_ERR_REMOTE_DISCONNECT) // is said where it is used
			got = NIXL_SUCCESS;
		if (got == NIXL_SUCCESS)
			out = theirs.release();
		return got;
	});
}

// An object of its own: NIXL unloads it when the registration that it was made of is gone.
nixl_status_t backend::loadLocalMD(nixlBackendMD *meta, nixlBackendMD *&out)
{
	return guarded("loadLocalMD", [&] {
		auto copy = std::make_unique<region>(*static_cast<region *>(meta));

		copy->owner = self_;
		copy->handle = {0};
		out = copy.release();
		return NIXL_SUCCESS;
	});
}

nixl_status_t backend::unloadMD(nixlBackendMD *meta)
{
	return guarded("unloadMD", [&] {
		std::unique_ptr<region> theirs(static_cast<region *>(meta));

		if (theirs && theirs->link)
			tcpx_region_deregister(session_, theirs->handle, 0);
		return NIXL_SUCCESS;
	});
}

nixl_status_t backend::queryMem(const nixl_reg_dlist_t &what,
				std::vector<nixl_query_resp_t> &out) const
{
	return guarded("queryMem", [&] {
		std::lock_guard held(lock_);

		out.clear();
		for (const nixlBlobDesc &each : what) {
			nixl_query_resp_t answer;

			for (auto it = regions_.upper_bound(each.addr);
			     it != regions_.begin() && !answer;) {
				--it;
				if (it->second->type == what.getType() && it->second->holds(each))
					answer = nixl_b_params_t{{"registered", "1"}};
			}
			out.push_back(answer);
		}
		return NIXL_SUCCESS;
	});
}

// --- agents

std::shared_ptr<agent> backend::find(const std::string &name) const
{
	std::lock_guard held(lock_);
	auto it = agents_.find(name);

	if (it != agents_.end())
		return it->second;
	return name == self_->name ? self_ : nullptr;
}

// Dials once, and again when the other side said goodbye: it dropped us, and is there.
nixl_status_t backend::join(agent &to) const
{
	tcpx_connect_opts opts = {};
	tcpx_peer fresh;
	tcpx_error why;
	tcpx_status got;

	if (to.link) {
		if (tcpx_peer_error(session_, to.peer, &why) != TCPX_OK)
			return NIXL_ERR_REMOTE_DISCONNECT; // we dropped it
		if (why.status != TCPX_ERR_PEER_CLOSED)
			return status_of(why.status);
	}
	opts.sz = sizeof(opts);
	opts.timeout_ns = CONNECT_NS;
	opts.nonblocking = 1;
	got = tcpx_session_connect(session_, to.info.data(), to.info.size(), &opts, &fresh);
	if (got != TCPX_OK) {
		say_last(TCPX_LOG_WARN, "connecting");
		return to.link ? NIXL_ERR_REMOTE_DISCONNECT : status_of(got);
	}
	if (to.link)
		tcpx_peer_disconnect(session_, to.peer);
	to.peer = fresh;
	to.link++;
	return NIXL_SUCCESS;
}

nixl_status_t backend::connect(const std::string &name)
{
	return guarded("connect", [&] {
		std::shared_ptr<agent> to = find(name);

		if (!to)
			return NIXL_ERR_NOT_FOUND;
		if (to == self_) // when it is used
			return NIXL_SUCCESS;
		std::lock_guard held(to->lock);
		return join(*to);
	});
}

nixl_status_t backend::disconnect(const std::string &name)
{
	return guarded("disconnect", [&] {
		std::shared_ptr<agent> to = find(name);

		if (!to)
			return NIXL_ERR_NOT_FOUND;
		if (to != self_) {
			std::lock_guard held(lock_);
			agents_.erase(name);
		}
		std::lock_guard held(to->lock);
		if (to->link)
			tcpx_peer_disconnect(session_, to->peer);
		to->peer = {0};
		if (to == self_)
			to->link = 0;
		return NIXL_SUCCESS;
	});
}

nixl_status_t backend::getConnInfo(std::string &out) const
{
	return guarded("getConnInfo", [&] {
		out = self_->info;
		return NIXL_SUCCESS;
	});
}

nixl_status_t backend::loadRemoteConnInfo(const std::string &name, const std::string &info)
{
	return guarded("loadRemoteConnInfo", [&] {
		char session[TCPX_NAME_MAX + 1];
		std::shared_ptr<agent> known = find(name);
		tcpx_status got;

		if (info.size() > INFO_MAX)
			return NIXL_ERR_INVALID_PARAM;
		got = tcpx_info_name(info.data(), info.size(), session, sizeof(session));
		if (got != TCPX_OK)
			return status_of(got);
		if (name != session)
			return NIXL_ERR_MISMATCH;
		if (known)
			return known->info == info ? NIXL_SUCCESS : NIXL_ERR_NOT_ALLOWED;
		auto fresh = std::make_shared<agent>(name, info);
		if (settings_.eager) {
			std::lock_guard held(fresh->lock);
			if (nixl_status_t bad = join(*fresh); bad != NIXL_SUCCESS)
				return bad;
		}
		std::lock_guard held(lock_);
		agents_.emplace(name, fresh);
		return NIXL_SUCCESS;
	});
}

// --- notifications and estimates

nixl_status_t backend::getNotifs(notif_list_t &inout)
{
	return guarded("getNotifs", [&] {
		tcpx_notification note;

		if (!inout.empty())
			return NIXL_ERR_INVALID_PARAM;
		while (tcpx_notify_take(session_, 0, &note) == TCPX_OK) {
			inout.emplace_back(
				note.name,
				std::string(static_cast<const char *>(note.data), note.bytes));
			tcpx_notification_release(session_, &note);
		}
		if (inout.empty())
			looked_in_vain();
		return NIXL_SUCCESS;
	});
}

nixl_status_t backend::genNotif(const std::string &name, const std::string &message) const
{
	return guarded("genNotif", [&] {
		std::shared_ptr<agent> to = find(name);
		tcpx_status got = TCPX_ERR_PEER_CLOSED;

		if (!to)
			return NIXL_ERR_NOT_FOUND;
		std::lock_guard held(to->lock);
		for (int tries = 0; tries < 2 && got == TCPX_ERR_PEER_CLOSED; tries++) {
			if (nixl_status_t bad = join(*to); bad != NIXL_SUCCESS)
				return bad;
			got = tcpx_notify_send(session_, to->peer, message.data(), message.size());
		}
		if (got != TCPX_OK)
			say_last(TCPX_LOG_INFO, "genNotif");
		return got == TCPX_ERR_STALE ? NIXL_ERR_REMOTE_DISCONNECT : status_of(got);
	});
}

nixl_status_t backend::estimateXferCost(const nixl_xfer_op_t &op, const nixl_meta_dlist_t &local,
					const nixl_meta_dlist_t &, const std::string &name,
					nixlBackendReqH *const &,
					std::chrono::microseconds &out_duration,
					std::chrono::microseconds &out_margin,
					nixl_cost_t &out_method, const nixl_opt_args_t *) const
{
	return guarded("estimateXferCost", [&] {
		std::shared_ptr<agent> to = find(name);
		tcpx_peer_info link = {};
		std::uint64_t rate;
		double bytes = 0;

		if (!to)
			return NIXL_ERR_NOT_FOUND;
		for (const nixlMetaDesc &each : local)
			bytes += double(each.len);
		link.sz = sizeof(link);
		std::lock_guard held(to->lock);
		if (to->link && tcpx_peer_query(session_, to->peer, &link) != TCPX_OK)
			link = {};
		rate = op == NIXL_READ ? link.read_bytes_per_s : link.write_bytes_per_s;
		out_duration = std::chrono::microseconds(
			std::int64_t(double(link.rtt_ns) / 1e3 +
				     bytes * 1e6 / double(rate ? rate : ASSUMED) + 1));
		out_margin = rate ? out_duration / 4 : out_duration;
		out_method = nixl_cost_t::ANALYTICAL_BACKEND;
		return NIXL_SUCCESS;
	});
}

} // namespace tcpx_nixl
