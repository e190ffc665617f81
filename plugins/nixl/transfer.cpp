/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers: a list is checked and encoded once, posted often, looked at cheaply, and ended for
 * sure. */
#include "backend.hpp"

namespace tcpx_nixl
{
using namespace nixl_abi;

constexpr std::int64_t QUIET_NS = 100'000'000; // decision 16: so long a cancel may take

bool region::holds(const descriptor &piece) const
{
	return piece.len && piece.addr >= addr && piece.len <= len &&
	       piece.addr - addr <= len - piece.len && piece.device == device;
}

status backend::import(region &theirs) const
{
	agent &owner = *theirs.owner;
	tcpx_status got;

	if (theirs.link == owner.link)
		return status::SUCCESS;
	if (theirs.link) // of a link that ended
		tcpx_region_deregister(session_, theirs.handle, 0);
	got = tcpx_region_import(session_, owner.peer, theirs.token.data(), theirs.token.size(),
				 &theirs.handle);
	if (got != TCPX_OK)
		return got == TCPX_ERR_STALE ? status::REMOTE_DISCONNECT : status_of(got);
	theirs.link = owner.link;
	return status::SUCCESS;
}

// Everything that may be wrong with the lists is found here; the request belongs to the link.
status backend::make(transfer &request, const descriptors &local, const descriptors &remote) const
{
	agent &owner = *request.owner;
	std::vector<tcpx_segment> segments(local.entries.size());
	const auto is_ours = [](const region *it) { return it && !it->owner; };
	tcpx_request made;
	tcpx_status got;

	for (std::size_t i = 0; i < segments.size(); i++) {
		const descriptor &near = local.entries[i], &far = remote.entries[i];
		auto *ours = static_cast<region *>(near.owner);
		auto *theirs = static_cast<region *>(far.owner);

		if (!is_ours(ours) || !theirs || theirs->owner.get() != &owner ||
		    near.len != far.len || !ours->holds(near) || !theirs->holds(far) ||
		    ours->type != local.type || theirs->type != remote.type) {
			say(TCPX_LOG_WARN,
			    "descriptor %zu: outside its registered memory, or of "
			    "another length or agent",
			    i);
			return status::INVALID_PARAM;
		}
		if (status bad = import(*theirs); bad != status::SUCCESS)
			return bad;
		segments[i] = {ours->handle, near.addr - ours->addr, theirs->handle,
			       far.addr - theirs->addr, near.len};
	}
	got = tcpx_request_prepare(session_, owner.peer,
				   request.op == operation::READ ? TCPX_OP_READ : TCPX_OP_WRITE,
				   segments.data(), segments.size(), nullptr, &made);
	if (got == TCPX_ERR_STALE)
		return status::REMOTE_DISCONNECT;
	if (got != TCPX_OK) {
		say_last(TCPX_LOG_WARN, "preparing a transfer");
		return status_of(got);
	}
	if (request.link)
		tcpx_request_release(session_, request.request);
	request.request = made;
	request.link = owner.link;
	request.notified = false;
	return status::SUCCESS;
}

status backend::prepare(const operation &op, const descriptors &local, const descriptors &remote,
			const std::string &name, handle *&out, const post_args *) const
{
	return guarded("prepXfer", [&] {
		std::shared_ptr<agent> owner = find(name);
		auto request = std::make_unique<transfer>();
		status got;

		if (!owner)
			return status::NOT_FOUND;
		if (local.entries.empty() || local.entries.size() != remote.entries.size())
			return status::INVALID_PARAM;
		request->owner = owner;
		request->op = op;
		std::lock_guard held(owner->lock);
		got = dial(*owner);
		if (got == status::SUCCESS)
			got = make(*request, local, remote);
		if (got == status::SUCCESS)
			out = request.release();
		return got;
	});
}

status backend::post(const operation &, const descriptors &local, const descriptors &remote,
		     const std::string &, handle *&inout, const post_args *args) const
{
	return guarded("postXfer", [&] {
		auto *request = static_cast<transfer *>(inout);
		const bool notify = args && args->has_notification;
		tcpx_status got = TCPX_OK;

		if (!request)
			return status::INVALID_PARAM;
		for (bool again = false;; again = true) {
			if (notify || request->notified)
				got = tcpx_request_notify(
					session_, request->request,
					notify ? args->notification.data() : nullptr,
					notify ? args->notification.size() : 0, notify);
			request->notified = notify;
			if (got == TCPX_OK)
				got = tcpx_request_post(session_, request->request);
			if (got != TCPX_ERR_PEER_CLOSED || again)
				break;
			// The other side ended the link and lives: it takes another one.
			std::lock_guard held(request->owner->lock);
			if (!redial(*request->owner) ||
			    make(*request, local, remote) != status::SUCCESS)
				break;
			got = TCPX_OK;
		}
		if (got == TCPX_ERR_STATE)
			return status::REPOST_ACTIVE;
		if (got != TCPX_OK) {
			say_last(TCPX_LOG_INFO, "posting a transfer");
			return status_of(got);
		}
		request->measured = request->refused = false;
		return check(request); // a small one may be through
	});
}

void backend::measure(transfer &request, const tcpx_completion &end) const
{
	auto &rate = request.owner->bytes_per_ns[static_cast<int>(request.op)];
	double now = end.elapsed_ns ? double(end.bytes) / double(end.elapsed_ns) : 0, before = rate;

	request.measured = true;
	if (end.bytes >= 65536) // what is smaller measures the way there and back
		rate = before ? before * 0.8 + now * 0.2 : now;
}

status backend::check(handle *it) const
{
	auto *request = static_cast<transfer *>(it);
	tcpx_completion end;
	tcpx_status got;

	if (!request)
		return status::INVALID_PARAM;
	got = tcpx_request_test(session_, request->request, &end);
	if (got == TCPX_IN_PROGRESS) {
		looked_in_vain();
		return status::IN_PROGRESS;
	}
	if (got == TCPX_ERR_STATE)
		return status::NOT_POSTED;
	if (got == TCPX_OK && !request->measured)
		measure(*request, end);
	if (got != TCPX_OK && !request->measured) {
		tcpx_error error;

		request->measured = true; // said once
		if (tcpx_request_error(session_, request->request, &error) == TCPX_OK)
			say(TCPX_LOG_INFO, "a transfer ended: %s", error.what);
	}
	return status_of(got);
}

// The first call never waits. The second one is the last that NIXL makes.
status backend::release(handle *it) const
{
	return guarded("releaseReqH", [&] {
		auto *request = static_cast<transfer *>(it);

		if (!request)
			return status::SUCCESS;
		if (tcpx_request_test(session_, request->request, nullptr) == TCPX_IN_PROGRESS) {
			tcpx_request_cancel(session_, request->request);
			if (tcpx_request_wait(session_, request->request,
					      request->refused ? QUIET_NS : 0,
					      nullptr) == TCPX_IN_PROGRESS) {
				if (!request->refused) {
					request->refused = true;
					return status::REPOST_ACTIVE;
				}
				say(TCPX_LOG_WARN,
				    "a released transfer is not quiet yet: its memory "
				    "stays in use until deregisterMem says otherwise");
			}
		}
		tcpx_request_release(session_, request->request);
		delete request;
		return status::SUCCESS;
	});
}

} // namespace tcpx_nixl
