/* SPDX-License-Identifier: Apache-2.0 */
/* What a backend plugin and a NIXL of 1.0 to 1.5 share in memory: x86-64, libstdc++, new
 * strings. Written from measured layout. NIXL calls by place in a table of virtual functions and
 * reads a few fields, so no name has to be its own; what it never asks of us is left out or left
 * blank. */
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#if defined(__GLIBCXX__) && !_GLIBCXX_USE_CXX11_ABI
#error "NIXL has strings of the C++11 ABI: build without -D_GLIBCXX_USE_CXX11_ABI=0"
#endif

namespace nixl_abi
{

constexpr int API_VERSION = 1;

using params = std::unordered_map<std::string, std::string>;
using notifications = std::vector<std::pair<std::string, std::string>>; // agent, message
using answers = std::vector<std::optional<params>>;

enum class memory : int { DRAM = 0, VRAM = 1, BLOCK = 2, OBJECT = 3, FILE = 4 };
enum class operation : int { READ = 0, WRITE = 1 };
enum class sync : int { NONE = 0, STRICT = 1, RW = 2 };
enum class cost : int { ANALYTICAL = 0 };

enum class status : int {
	IN_PROGRESS = 1,
	SUCCESS = 0,
	NOT_POSTED = -1,
	INVALID_PARAM = -2,
	BACKEND = -3,
	NOT_FOUND = -4,
	MISMATCH = -5,
	NOT_ALLOWED = -6,
	REPOST_ACTIVE = -7,
	UNKNOWN = -8,
	NOT_SUPPORTED = -9,
	REMOTE_DISCONNECT = -10,
	CANCELED = -11,
};

// A registration, ours or loaded; NIXL keeps pointers to them in descriptors.
struct metadata {
	bool is_private = true;
	virtual ~metadata() = default;
};

struct handle {
	virtual ~handle() = default;
};

struct descriptor {
	std::uintptr_t addr;
	std::size_t len;
	std::uint64_t device;
	metadata *owner;
};

struct blob_descriptor {
	std::uintptr_t addr;
	std::size_t len;
	std::uint64_t device;
	std::string blob;
};

// NIXL makes them, we read.
template <class Entry> struct list {
	virtual ~list() = default;
	memory type;
	std::vector<Entry> entries;
};
using descriptors = list<descriptor>;
using blob_descriptors = list<blob_descriptor>;

struct post_args {
	std::string notification;
	bool has_notification;
	std::string custom;
};

struct create_args {
	std::string agent;
	std::string type;
	params *custom;
	bool progress_thread;
	std::uint64_t progress_delay_us;
	sync mode;
	bool telemetry;
};

// The order of the virtual functions is the contract; the first two places are the destructor's.
class engine
{
	std::string type_; // read by NIXL
	params custom_;	   // read by NIXL
	std::vector<char> events_;
	std::mutex events_lock_;

      protected:
	bool failed = false; // read by NIXL right behind create()
	const std::string local_agent;
	const bool telemetry;

      private:
	char grown_[64] = {}; // of a later base class: it reads zeros

      public:
	explicit engine(const create_args &args)
	    : type_(args.type), custom_(args.custom ? *args.custom : params()),
	      local_agent(args.agent), telemetry(args.telemetry)
	{
		(void)grown_;
	}
	engine(const engine &) = delete;
	engine &operator=(const engine &) = delete;

	virtual ~engine() = default;
	virtual bool remote_supported() const = 0;
	virtual bool local_supported() const = 0;
	virtual bool notifications_supported() const = 0;
	virtual std::vector<memory> memories() const = 0;
	virtual status register_memory(const blob_descriptor &what, const memory &type,
				       metadata *&out) = 0;
	virtual status deregister_memory(metadata *meta) = 0;
	virtual status connect(const std::string &agent) = 0;
	virtual status disconnect(const std::string &agent) = 0;
	virtual status unload(metadata *meta) = 0;
	virtual status prepare(const operation &op, const descriptors &local,
			       const descriptors &remote, const std::string &agent, handle *&out,
			       const post_args *args) const = 0;
	virtual status post(const operation &op, const descriptors &local,
			    const descriptors &remote, const std::string &agent, handle *&inout,
			    const post_args *args) const = 0;
	virtual status check(handle *request) const = 0;
	virtual status release(handle *request) const = 0;
	virtual status view_of_remote(const void *, void *&, const post_args *) const
	{
		return status::NOT_SUPPORTED;
	}
	virtual status view_of_local(const descriptors &, void *&, const post_args *) const
	{
		return status::NOT_SUPPORTED;
	}
	virtual void release_view(void *) const
	{
	}
	virtual status public_data(const metadata *meta, std::string &out) const = 0;
	virtual status connection_info(std::string &out) const = 0;
	virtual status load_connection(const std::string &agent, const std::string &info) = 0;
	virtual status load_remote(const blob_descriptor &what, const memory &type,
				   const std::string &agent, metadata *&out) = 0;
	virtual status load_local(metadata *ours, metadata *&out) = 0;
	virtual status take_notifications(notifications &inout) = 0;
	virtual status send_notification(const std::string &agent,
					 const std::string &message) const = 0;
	virtual status query_memory(const blob_descriptors &what, answers &out) const = 0;
	virtual status estimate(const operation &op, const descriptors &local,
				const descriptors &remote, const std::string &agent,
				handle *const &request, std::chrono::microseconds &out_duration,
				std::chrono::microseconds &out_margin, cost &out_method,
				const post_args *args) const = 0;

	friend struct layout;
};

// What nixl_plugin_init() returns.
struct plugin {
	int api_version;
	engine *(*create)(const create_args *args);
	void (*destroy)(engine *engine);
	const char *(*name)();
	const char *(*version)();
	params (*options)();
	std::vector<memory> (*memories)();
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
struct layout {
	static_assert(sizeof(void *) == 8 && sizeof(std::string) == 32 && sizeof(params) == 56);
	static_assert(sizeof(std::mutex) == 40 && sizeof(std::chrono::microseconds) == 8);
	static_assert(offsetof(engine, type_) == 8 && offsetof(engine, custom_) == 40);
	static_assert(offsetof(engine, events_) == 96 && offsetof(engine, events_lock_) == 120);
	static_assert(offsetof(engine, failed) == 160 && offsetof(engine, local_agent) == 168);
	static_assert(offsetof(engine, telemetry) == 200);
	static_assert(sizeof(create_args) == 96 && offsetof(create_args, custom) == 64);
	static_assert(offsetof(create_args, progress_thread) == 72);
	static_assert(offsetof(create_args, progress_delay_us) == 80);
	static_assert(offsetof(create_args, mode) == 88 && offsetof(create_args, telemetry) == 92);
	static_assert(sizeof(post_args) == 72 && offsetof(post_args, has_notification) == 32);
	static_assert(offsetof(post_args, custom) == 40);
	static_assert(sizeof(descriptor) == 32 && offsetof(descriptor, owner) == 24);
	static_assert(sizeof(blob_descriptor) == 56 && offsetof(blob_descriptor, blob) == 24);
	static_assert(sizeof(descriptors) == 40 && offsetof(descriptors, type) == 8);
	static_assert(offsetof(descriptors, entries) == 16 && sizeof(metadata) == 16);
	static_assert(sizeof(handle) == 8 && sizeof(plugin) == 56);
};
#pragma GCC diagnostic pop

} // namespace nixl_abi
