/* SPDX-License-Identifier: Apache-2.0 */
/* The session: memory, agents, their links, notifications. */
#include "backend.hpp"

#include <cstring>
#include <stdexcept>

namespace tcpx_nixl
{
using namespace nixl_abi;

constexpr std::int64_t QUIET_NS = 1'000'000'000;
constexpr std::size_t INFO_MAX = 65536;
constexpr std::int64_t CONNECT_NS = 5'000'000'000;
constexpr double ASSUMED = 1.0; // bytes a nanosecond, before anything was measured

backend::backend(const create_args &args) : engine(args)
{
	try {
		open(args);
	} catch (const std::exception &e) {
		say(TCPX_LOG_ERROR, "backend '%s' of agent '%s' is not created: %s",
		    args.type.c_str(), args.agent.c_str(), e.what());
		failed = true;
	}
}

void must(tcpx_status got)
{
	const tcpx_error *error = tcpx_last_error();

	if (got != TCPX_OK)
		throw std::runtime_error(std::string(error->what) + "; next: " + error->next);
}

void backend::open(const create_args &args)
{
	std::string info(TCPX_INFO_MAX_BYTES, '\0');
	std::size_t len = 0;
	std::uint16_t port;
	tcpx_status got;

	settings_take(args, settings_);
	settings_.session.name = local_agent.c_str();
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
	self_ = std::make_shared<agent>(local_agent, info);
	say(TCPX_LOG_INFO, "agent '%s' listens on port %u of %s", local_agent.c_str(), port,
	    settings_.session.bind);
}

backend::~backend()
{
	tcpx_session_close(session_); // NULL, and in a forked child, too
}

bool backend::remote_supported() const
{
	return true;
}

bool backend::local_supported() const
{
	return true;
}

bool backend::notifications_supported() const
{
	return true;
}

std::vector<memory> backend::memories() const
{
	return memories_usable();
}

// --- memory

status backend::register_memory(const blob_descriptor &what, const memory &type, metadata *&out)
{
	return guarded("registerMem", [&] {
		tcpx_region_opts opts = {};
		auto made = std::make_unique<region>();
		char token[TCPX_TOKEN_BYTES];
		tcpx_status got;

		if (type != memory::DRAM && type != memory::VRAM)
			return status::NOT_SUPPORTED;
		opts.sz = sizeof(opts);
		opts.kind = type == memory::VRAM ? TCPX_MEM_CUDA : TCPX_MEM_HOST;
		opts.device = type == memory::VRAM ? std::uint32_t(what.device) : 0;
		opts.rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE;
		opts.flags = TCPX_REGION_STABLE;
		got = tcpx_region_register(session_, reinterpret_cast<void *>(what.addr), what.len,
					   &opts, &made->handle);
		if (got == TCPX_OK)
			got = tcpx_region_export(session_, made->handle, token);
		if (got != TCPX_OK) {
			say_last(TCPX_LOG_ERROR, "registerMem");
			return status_of(got);
		}
		made->addr = what.addr;
		made->len = what.len;
		made->device = what.device;
		made->type = type;
		made->token.assign(token, sizeof(token));
		std::lock_guard held(lock_);
		regions_.emplace(made->addr, made.get());
		out = made.release();
		return status::SUCCESS;
	});
}

void backend::retry_late()
{
	std::vector<tcpx_region> left;

	for (tcpx_region it : late_)
		if (tcpx_region_deregister(session_, it, 1) == TCPX_ERR_BUSY)
			left.push_back(it);
	late_.swap(left);
}

status backend::deregister_memory(metadata *meta)
{
	return guarded("deregisterMem", [&] {
		std::unique_ptr<region> ours(static_cast<region *>(meta));
		tcpx_status got;

		if (!ours)
			return status::INVALID_PARAM;
		got = tcpx_region_deregister(session_, ours->handle, QUIET_NS);
		std::lock_guard held(lock_);
		auto [it, end] = regions_.equal_range(ours->addr);
		while (it != end && it->second != ours.get())
			++it;
		if (it != end)
			regions_.erase(it);
		retry_late();
		if (got == TCPX_ERR_BUSY) {
			say_last(TCPX_LOG_ERROR, "deregisterMem: do not free that memory");
			late_.push_back(ours->handle);
		}
		return status_of(got);
	});
}

status backend::public_data(const metadata *meta, std::string &out) const
{
	return guarded("getPublicData", [&] {
		out = static_cast<const region *>(meta)->token;
		return status::SUCCESS;
	});
}

status backend::load_remote(const blob_descriptor &what, const memory &type,
			    const std::string &name, metadata *&out)
{
	return guarded("loadRemoteMD", [&] {
		std::shared_ptr<agent> owner = find(name);
		auto theirs = std::make_unique<region>();
		status got = status::SUCCESS;

		if (!owner)
			return status::NOT_FOUND;
		if (what.blob.size() != TCPX_TOKEN_BYTES || !what.len)
			return status::INVALID_PARAM;
		theirs->addr = what.addr;
		theirs->len = what.len;
		theirs->device = what.device;
		theirs->type = type;
		theirs->token = what.blob;
		theirs->owner = owner;
		std::lock_guard held(owner->lock);
		if (owner->link)
			got = import(*theirs);
		if (got == status::REMOTE_DISCONNECT) // is said where it is used
			got = status::SUCCESS;
		if (got == status::SUCCESS)
			out = theirs.release();
		return got;
	});
}

// An object of its own: NIXL unloads it when the registration that it was made of is gone.
status backend::load_local(metadata *meta, metadata *&out)
{
	return guarded("loadLocalMD", [&] {
		auto *copy = new region(*static_cast<region *>(meta));

		copy->owner = self_;
		copy->handle = {0};
		out = copy;
		return status::SUCCESS;
	});
}

status backend::unload(metadata *meta)
{
	return guarded("unloadMD", [&] {
		std::unique_ptr<region> theirs(static_cast<region *>(meta));

		if (theirs && theirs->link)
			tcpx_region_deregister(session_, theirs->handle, 0);
		return status::SUCCESS;
	});
}

status backend::query_memory(const blob_descriptors &what, answers &out) const
{
	return guarded("queryMem", [&] {
		std::lock_guard held(lock_);

		out.clear();
		for (const blob_descriptor &each : what.entries) {
			const descriptor piece = {each.addr, each.len, each.device, nullptr};
			std::optional<params> answer;

			for (auto it = regions_.upper_bound(each.addr);
			     it != regions_.begin() && !answer;) {
				--it;
				if (it->second->type == what.type && it->second->holds(piece))
					answer = params{{"registered", "1"}};
			}
			out.push_back(answer);
		}
		return status::SUCCESS;
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

status backend::dial(agent &to) const
{
	tcpx_connect_opts opts = {};
	tcpx_status got;

	if (to.link)
		return status::SUCCESS;
	opts.sz = sizeof(opts);
	opts.timeout_ns = CONNECT_NS;
	opts.nonblocking = 1;
	got = tcpx_session_connect(session_, to.info.data(), to.info.size(), &opts, &to.peer);
	if (got != TCPX_OK) {
		say_last(TCPX_LOG_WARN, "connecting");
		return status_of(got);
	}
	to.link++;
	return status::SUCCESS;
}

// It was not we who ended the link, and it is there: its session can be dialled again.
bool backend::redial(agent &to) const
{
	tcpx_connect_opts opts = {};
	tcpx_peer again;
	tcpx_error why;

	if (tcpx_peer_error(session_, to.peer, &why) != TCPX_OK)
		return false;
	if (why.status == TCPX_OK) // another request has dialled already
		return true;
	opts.sz = sizeof(opts);
	opts.timeout_ns = CONNECT_NS;
	opts.nonblocking = 1;
	if (why.status != TCPX_ERR_PEER_CLOSED ||
	    tcpx_session_connect(session_, to.info.data(), to.info.size(), &opts, &again) !=
		    TCPX_OK)
		return false;
	tcpx_peer_disconnect(session_, to.peer);
	to.peer = again;
	to.link++;
	return true;
}

status backend::connect(const std::string &name)
{
	return guarded("connect", [&] {
		std::shared_ptr<agent> to = find(name);
		tcpx_error why;
		status got;

		if (!to)
			return status::NOT_FOUND;
		if (to == self_) // when it is used
			return status::SUCCESS;
		std::lock_guard held(to->lock);
		got = dial(*to);
		if (got == status::SUCCESS &&
		    tcpx_peer_error(session_, to->peer, &why) == TCPX_OK && why.status != TCPX_OK &&
		    !redial(*to))
			got = status_of(why.status);
		return got;
	});
}

status backend::disconnect(const std::string &name)
{
	return guarded("disconnect", [&] {
		std::shared_ptr<agent> to = find(name);

		if (!to)
			return status::NOT_FOUND;
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
		return status::SUCCESS;
	});
}

status backend::connection_info(std::string &out) const
{
	return guarded("getConnInfo", [&] {
		out = self_->info;
		return status::SUCCESS;
	});
}

status backend::load_connection(const std::string &name, const std::string &info)
{
	return guarded("loadRemoteConnInfo", [&] {
		char session[TCPX_NAME_MAX + 1];
		std::shared_ptr<agent> known = find(name);
		tcpx_status got;

		if (info.size() > INFO_MAX)
			return status::INVALID_PARAM;
		got = tcpx_info_name(info.data(), info.size(), session, sizeof(session));
		if (got != TCPX_OK)
			return status_of(got);
		if (name != session)
			return status::MISMATCH;
		if (known)
			return known->info == info ? status::SUCCESS : status::NOT_ALLOWED;
		auto fresh = std::make_shared<agent>(name, info);
		if (settings_.eager) {
			std::lock_guard held(fresh->lock);
			if (status bad = dial(*fresh); bad != status::SUCCESS)
				return bad;
		}
		std::lock_guard held(lock_);
		agents_.emplace(name, fresh);
		return status::SUCCESS;
	});
}

// --- notifications and estimates

status backend::take_notifications(notifications &inout)
{
	return guarded("getNotifs", [&] {
		tcpx_notification note;

		if (!inout.empty())
			return status::INVALID_PARAM;
		while (tcpx_notify_take(session_, 0, &note) == TCPX_OK) {
			inout.emplace_back(
				note.name,
				std::string(static_cast<const char *>(note.data), note.bytes));
			tcpx_notification_release(session_, &note);
		}
		if (inout.empty())
			looked_in_vain();
		return status::SUCCESS;
	});
}

status backend::send_notification(const std::string &name, const std::string &message) const
{
	return guarded("genNotif", [&] {
		std::shared_ptr<agent> to = find(name);
		tcpx_status got;
		status bad;

		if (!to)
			return status::NOT_FOUND;
		std::lock_guard held(to->lock);
		bad = dial(*to);
		if (bad != status::SUCCESS)
			return bad;
		got = tcpx_notify_send(session_, to->peer, message.data(), message.size());
		if (got == TCPX_ERR_PEER_CLOSED && redial(*to))
			got = tcpx_notify_send(session_, to->peer, message.data(), message.size());
		if (got != TCPX_OK)
			say_last(TCPX_LOG_INFO, "genNotif");
		return got == TCPX_ERR_STALE ? status::REMOTE_DISCONNECT : status_of(got);
	});
}

status backend::estimate(const operation &op, const descriptors &local, const descriptors &,
			 const std::string &name, handle *const &,
			 std::chrono::microseconds &out_duration,
			 std::chrono::microseconds &out_margin, cost &out_method,
			 const post_args *) const
{
	return guarded("estimateXferCost", [&] {
		std::shared_ptr<agent> to = find(name);
		tcpx_peer_info link = {};
		double rate, bytes = 0, ns;

		if (!to)
			return status::NOT_FOUND;
		for (const descriptor &each : local.entries)
			bytes += double(each.len);
		rate = to->bytes_per_ns[static_cast<int>(op)];
		link.sz = sizeof(link);
		std::lock_guard held(to->lock);
		if (!to->link || tcpx_peer_query(session_, to->peer, &link) != TCPX_OK)
			link.rtt_ns = 0;
		ns = double(link.rtt_ns) + bytes / (rate ? rate : ASSUMED);
		out_duration = std::chrono::microseconds(std::int64_t(ns / 1000) + 1);
		out_margin = rate ? out_duration / 4 : out_duration;
		out_method = cost::ANALYTICAL;
		return status::SUCCESS;
	});
}

} // namespace tcpx_nixl
