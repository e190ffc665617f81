/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin is built only where every offset is the one that released NIXLs have, whichever
 * headers it is built with. */
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#define private public
#define protected public
#include "nixl_abi.hpp"
#undef private
#undef protected

#pragma GCC diagnostic ignored "-Winvalid-offsetof"

#define AT(type, member, place) static_assert(offsetof(type, member) == (place), #type "::" #member)
#define SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type)
#define VALUE(name, number) static_assert(int(name) == (number), #name)

SIZE(void *, 8);
SIZE(std::string, 32);
SIZE(nixl_b_params_t, 56);
SIZE(std::mutex, 40);
SIZE(std::chrono::microseconds, 8);
SIZE(nixl_query_resp_t, 64);
SIZE(nixl_mem_list_t, 24);
SIZE(notif_list_t::value_type, 64);

AT(nixlBackendEngine, backendType, 8);
AT(nixlBackendEngine, customParams, 40);
AT(nixlBackendEngine, telemetryEvents_, 96);
AT(nixlBackendEngine, telemetryEventsMutex_, 120);
AT(nixlBackendEngine, initErr, 160);
AT(nixlBackendEngine, localAgent, 168);
AT(nixlBackendEngine, enableTelemetry_, 200);

SIZE(nixlBackendInitParams, 96);
AT(nixlBackendInitParams, localAgent, 0);
AT(nixlBackendInitParams, type, 32);
AT(nixlBackendInitParams, customParams, 64);
AT(nixlBackendInitParams, enableProgTh, 72);
AT(nixlBackendInitParams, pthrDelay, 80);
AT(nixlBackendInitParams, syncMode, 88);
AT(nixlBackendInitParams, enableTelemetry_, 92);

SIZE(nixl_opt_b_args_t, 72);
AT(nixl_opt_b_args_t, notifMsg, 0);
AT(nixl_opt_b_args_t, hasNotif, 32);
AT(nixl_opt_b_args_t, customParam, 40);

SIZE(nixlMetaDesc, 32);
AT(nixlMetaDesc, addr, 0);
AT(nixlMetaDesc, len, 8);
AT(nixlMetaDesc, devId, 16);
AT(nixlMetaDesc, metadataP, 24);
SIZE(nixlBlobDesc, 56);
AT(nixlBlobDesc, metaInfo, 24);
SIZE(nixl_meta_dlist_t, 40);
AT(nixl_meta_dlist_t, type, 8);
AT(nixl_meta_dlist_t, descs, 16);
SIZE(nixl_reg_dlist_t, 40);
SIZE(nixlBackendMD, 16);
AT(nixlBackendMD, isPrivateMD, 8);
SIZE(nixlBackendReqH, 8);

SIZE(nixlBackendPlugin, 56);
AT(nixlBackendPlugin, api_version, 0);
AT(nixlBackendPlugin, create_engine, 8);
AT(nixlBackendPlugin, destroy_engine, 16);
AT(nixlBackendPlugin, get_plugin_name, 24);
AT(nixlBackendPlugin, get_plugin_version, 32);
AT(nixlBackendPlugin, get_backend_options, 40);
AT(nixlBackendPlugin, get_backend_mems, 48);

VALUE(NIXL_PLUGIN_API_VERSION, 1);
VALUE(DRAM_SEG, 0);
VALUE(VRAM_SEG, 1);
VALUE(NIXL_READ, 0);
VALUE(NIXL_WRITE, 1);
VALUE(nixl_cost_t::ANALYTICAL_BACKEND, 0);
VALUE(NIXL_IN_PROG, 1);
VALUE(NIXL_SUCCESS, 0);
VALUE(NIXL_ERR_NOT_POSTED, -1);
VALUE(NIXL_ERR_INVALID_PARAM, -2);
VALUE(NIXL_ERR_BACKEND, -3);
VALUE(NIXL_ERR_NOT_FOUND, -4);
VALUE(NIXL_ERR_MISMATCH, -5);
VALUE(NIXL_ERR_NOT_ALLOWED, -6);
VALUE(NIXL_ERR_REPOST_ACTIVE, -7);
VALUE(NIXL_ERR_NOT_SUPPORTED, -9);
VALUE(NIXL_ERR_REMOTE_DISCONNECT, -10);
VALUE(NIXL_ERR_CANCELED, -11);
