/* SPDX-License-Identifier: Apache-2.0 */
/* What a backend plugin and a NIXL of 1.0 to 1.5 share: x86-64, libstdc++, new strings. Written
 * from measured layout, by NIXL's names, so that the plugin can be built against NIXL's own headers
 * instead (option nixl_headers); layout.cpp asserts every offset of either. What NIXL never asks of
 * a plugin is left out or left blank. */
#pragma once

#ifdef NIXL_HEADERS
#include "backend/backend_plugin.h"
#else

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

#define NIXL_PLUGIN_API_VERSION 1

enum nixl_mem_t { DRAM_SEG, VRAM_SEG, BLK_SEG, OBJ_SEG, FILE_SEG };
enum nixl_xfer_op_t { NIXL_READ, NIXL_WRITE };
enum class nixl_thread_sync_t {
	NIXL_THREAD_SYNC_NONE,
	NIXL_THREAD_SYNC_STRICT,
	NIXL_THREAD_SYNC_RW
};
enum class nixl_cost_t { ANALYTICAL_BACKEND };

enum nixl_status_t {
	NIXL_IN_PROG = 1,
	NIXL_SUCCESS = 0,
	NIXL_ERR_NOT_POSTED = -1,
	NIXL_ERR_INVALID_PARAM = -2,
	NIXL_ERR_BACKEND = -3,
	NIXL_ERR_NOT_FOUND = -4,
	NIXL_ERR_MISMATCH = -5,
	NIXL_ERR_NOT_ALLOWED = -6,
	NIXL_ERR_REPOST_ACTIVE = -7,
	NIXL_ERR_UNKNOWN = -8,
	NIXL_ERR_NOT_SUPPORTED = -9,
	NIXL_ERR_REMOTE_DISCONNECT = -10,
	NIXL_ERR_CANCELED = -11,
};

using nixl_b_params_t = std::unordered_map<std::string, std::string>;
using nixl_mem_list_t = std::vector<nixl_mem_t>;
using nixl_query_resp_t = std::optional<nixl_b_params_t>;
using notif_list_t = std::vector<std::pair<std::string, std::string>>; // agent, message
using nixlMemViewH = void *;

// A registration, ours or loaded; NIXL keeps pointers to them in descriptors.
class nixlBackendMD
{
      protected:
	bool isPrivateMD;

      public:
	explicit nixlBackendMD(bool is_private) : isPrivateMD(is_private)
	{
	}
	virtual ~nixlBackendMD() = default;
};

struct nixlBackendReqH {
	virtual ~nixlBackendReqH() = default;
};

struct nixlBasicDesc {
	std::uintptr_t addr;
	std::size_t len;
	std::uint64_t devId;
};

struct nixlMetaDesc : nixlBasicDesc {
	nixlBackendMD *metadataP;
};

struct nixlBlobDesc : nixlBasicDesc {
	std::string metaInfo;
};

// NIXL makes them, a plugin reads.
template <class Entry> struct nixlDescList {
	nixl_mem_t type;
	std::vector<Entry> descs;

	explicit nixlDescList(nixl_mem_t type) : type(type)
	{
	}
	virtual ~nixlDescList() = default;
	nixl_mem_t getType() const
	{
		return type;
	}
	int descCount() const
	{
		return int(descs.size());
	}
	const Entry &operator[](std::size_t index) const
	{
		return descs[index];
	}
	auto begin() const
	{
		return descs.begin();
	}
	auto end() const
	{
		return descs.end();
	}
};
using nixl_meta_dlist_t = nixlDescList<nixlMetaDesc>;
using nixl_reg_dlist_t = nixlDescList<nixlBlobDesc>;
class nixl_remote_meta_dlist_t;

struct nixl_opt_b_args_t {
	std::string notifMsg;
	bool hasNotif;
	std::string customParam;
};
struct nixl_opt_args_t;

struct nixlBackendInitParams {
	std::string localAgent;
	std::string type;
	nixl_b_params_t *customParams;
	bool enableProgTh;
	std::uint64_t pthrDelay;
	nixl_thread_sync_t syncMode;
	bool enableTelemetry_;
};

// The order of the virtual functions is the contract; the first two places are the destructor's.
class nixlBackendEngine
{
      private:
	std::string backendType;
	nixl_b_params_t customParams;
	std::vector<char> telemetryEvents_; // never filled: what it holds differs
	std::mutex telemetryEventsMutex_;

      protected:
	bool initErr = false; // read by NIXL right behind create_engine()
	const std::string localAgent;
	const bool enableTelemetry_;

      private:
	char grown_[64] = {}; // of a later base class: it reads zeros

      public:
	explicit nixlBackendEngine(const nixlBackendInitParams *args)
	    : backendType(args->type),
	      customParams(args->customParams ? *args->customParams : nixl_b_params_t()),
	      localAgent(args->localAgent), enableTelemetry_(args->enableTelemetry_)
	{
		(void)grown_;
	}
	nixlBackendEngine(const nixlBackendEngine &) = delete;
	nixlBackendEngine &operator=(const nixlBackendEngine &) = delete;
	virtual ~nixlBackendEngine() = default;

	virtual bool supportsRemote() const = 0;
	virtual bool supportsLocal() const = 0;
	virtual bool supportsNotif() const = 0;
	virtual nixl_mem_list_t getSupportedMems() const = 0;
	virtual nixl_status_t registerMem(const nixlBlobDesc &what, const nixl_mem_t &type,
					  nixlBackendMD *&out) = 0;
	virtual nixl_status_t deregisterMem(nixlBackendMD *meta) = 0;
	virtual nixl_status_t connect(const std::string &agent) = 0;
	virtual nixl_status_t disconnect(const std::string &agent) = 0;
	virtual nixl_status_t unloadMD(nixlBackendMD *meta) = 0;
	virtual nixl_status_t prepXfer(const nixl_xfer_op_t &op, const nixl_meta_dlist_t &local,
				       const nixl_meta_dlist_t &remote, const std::string &agent,
				       nixlBackendReqH *&out,
				       const nixl_opt_b_args_t *args) const = 0;
	virtual nixl_status_t postXfer(const nixl_xfer_op_t &op, const nixl_meta_dlist_t &local,
				       const nixl_meta_dlist_t &remote, const std::string &agent,
				       nixlBackendReqH *&inout,
				       const nixl_opt_b_args_t *args) const = 0;
	virtual nixl_status_t checkXfer(nixlBackendReqH *request) const = 0;
	virtual nixl_status_t releaseReqH(nixlBackendReqH *request) const = 0;
	virtual nixl_status_t prepMemView(const nixl_remote_meta_dlist_t &, nixlMemViewH &,
					  const nixl_opt_b_args_t *) const
	{
		return NIXL_ERR_NOT_SUPPORTED;
	}
	virtual nixl_status_t prepMemView(const nixl_meta_dlist_t &, nixlMemViewH &,
					  const nixl_opt_b_args_t *) const
	{
		return NIXL_ERR_NOT_SUPPORTED;
	}
	virtual void releaseMemView(nixlMemViewH) const
	{
	}
	virtual nixl_status_t getPublicData(const nixlBackendMD *meta, std::string &out) const = 0;
	virtual nixl_status_t getConnInfo(std::string &out) const = 0;
	virtual nixl_status_t loadRemoteConnInfo(const std::string &agent,
						 const std::string &info) = 0;
	virtual nixl_status_t loadRemoteMD(const nixlBlobDesc &what, const nixl_mem_t &type,
					   const std::string &agent, nixlBackendMD *&out) = 0;
	virtual nixl_status_t loadLocalMD(nixlBackendMD *ours, nixlBackendMD *&out) = 0;
	virtual nixl_status_t getNotifs(notif_list_t &inout) = 0;
	virtual nixl_status_t genNotif(const std::string &agent,
				       const std::string &message) const = 0;
	virtual nixl_status_t queryMem(const nixl_reg_dlist_t &what,
				       std::vector<nixl_query_resp_t> &out) const = 0;
	virtual nixl_status_t
	estimateXferCost(const nixl_xfer_op_t &op, const nixl_meta_dlist_t &local,
			 const nixl_meta_dlist_t &remote, const std::string &agent,
			 nixlBackendReqH *const &request, std::chrono::microseconds &out_duration,
			 std::chrono::microseconds &out_margin, nixl_cost_t &out_method,
			 const nixl_opt_args_t *args) const = 0;
};

// What nixl_plugin_init() returns.
struct nixlBackendPlugin {
	int api_version;
	nixlBackendEngine *(*create_engine)(const nixlBackendInitParams *args);
	void (*destroy_engine)(nixlBackendEngine *engine);
	const char *(*get_plugin_name)();
	const char *(*get_plugin_version)();
	nixl_b_params_t (*get_backend_options)();
	nixl_mem_list_t (*get_backend_mems)();
};

#endif
