/* SPDX-License-Identifier: Apache-2.0 */
/* A host that calls a NIXL plugin as NIXL's agent does, and in orders that it should not. */
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nixl_abi.hpp"

[[noreturn]] void host_fail(const char *file, int line, const std::string &what);
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			host_fail(__FILE__, __LINE__, "not true: " #condition);                    \
	} while (0)
#define IS(call, wanted) host_is(__FILE__, __LINE__, #call, (call), wanted)
void host_is(const char *file, int line, const char *call, nixl_status_t got, nixl_status_t wanted);

extern nixlBackendPlugin *host_plugin;

void host_refused(nixl_b_params_t options, const std::string &name = "one"); // is not created

// One end: an engine, and what its agent would keep of it.
struct end {
	std::string name;
	nixlBackendEngine *core = nullptr;
	std::string info;

	explicit end(const std::string &name, const nixl_b_params_t &options = {},
		     nixl_thread_sync_t sync = nixl_thread_sync_t::NIXL_THREAD_SYNC_RW,
		     bool thread = false);
	~end();
	end(const end &) = delete;
	end &operator=(const end &) = delete;
	void know(const end &other) const; // loads its connection
	void close();			   // before its time
};

// Memory of one end that another, or the same, may have loaded.
struct region_of {
	const end &owner;
	std::vector<unsigned char> bytes;
	nixlBackendMD *ours = nullptr, *local = nullptr;
	std::string token;

	region_of(const end &owner, std::size_t size);
	~region_of();
	region_of(const region_of &) = delete;
	region_of &operator=(const region_of &) = delete;
	std::uintptr_t at() const
	{
		return reinterpret_cast<std::uintptr_t>(bytes.data());
	}
	nixlBackendMD *load(const end &who) const; // as a remote one
	nixlBlobDesc blob() const
	{
		return {at(), bytes.size(), 0, token};
	}
};

nixl_meta_dlist_t host_list(std::uintptr_t at, std::size_t block, std::size_t count,
			    nixlBackendMD *meta, std::size_t stride = 0);
// Of one that was posted, its final status.
nixl_status_t host_wait(const end &who, nixlBackendReqH *request);
bool host_begun(nixl_status_t got); // by a post
std::vector<std::pair<std::string, std::string>> host_notes(const end &who, std::size_t count);

std::string host_said(const std::function<void()> &meanwhile); // on stderr
std::size_t host_times(const std::string &text, const std::string &word);

// That bytes are quiet may be known by way of another process, which no race detector sees.
void host_set(volatile unsigned char *bytes, std::size_t count, int value);
std::size_t host_count(const volatile unsigned char *bytes, std::size_t count, int value);
bool host_same(const std::vector<unsigned char> &one, const std::vector<unsigned char> &other);

// Near and far with a request of near's from one memory to the other.
struct couple {
	end near;
	std::unique_ptr<end> far;
	region_of source;
	std::unique_ptr<region_of> sink;
	nixlBackendMD *there;
	nixl_meta_dlist_t mine, theirs;
	nixlBackendReqH *request = nullptr;

	explicit couple(const nixl_b_params_t &options = {}, std::size_t size = 8192);
	nixl_status_t post(const nixl_opt_b_args_t *args = nullptr) const;
	nixl_status_t move(const nixl_opt_b_args_t *args = nullptr) const; // post, and its end
	nixl_status_t move_at_last() const; // over the new link, once near has heard of a goodbye
	void goodbye() const;		    // the other one drops near
	void finish() const;		    // of what was prepared and loaded
};

// Another process with an end "far" and memory, driven by lines.
struct process {
	int in = -1, out = -1;
	pid_t pid = -1;
	std::string info, token;
	std::uintptr_t at = 0;
	std::size_t size = 0;

	// option: "key=value" of its end, or TESTS_FILTERS=...
	explicit process(const std::string &option = "");
	~process();
	std::string ask(const std::string &line) const;
	void stop() const;
	int peek(std::size_t off) const;	   // a byte of its memory, also while it is stopped
	nixlBackendMD *load(const end &who) const; // and its connection
};
int process_main(const std::string &option); // what it runs

struct test {
	const char *name;
	void (*run)();
};
extern const test tests_transfer[], tests_notes[], tests_modes[], tests_failure[], tests_abort[],
	tests_hostile[], tests_memory[], tests_stale[], tests_gpu[], tests_again[];
