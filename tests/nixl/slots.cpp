/* SPDX-License-Identifier: Apache-2.0 */
/* The places of the virtual functions, which no assertion of the compiler can see: where NIXL 1.x
 * calls each of them. */
#include <cstdio>
#include <cstring>

#include "nixl_abi.hpp"

static int wrong;

// A pointer to a virtual member function is one more than its offset in the table.
template <class Function> static void is_at(const char *name, Function function, std::size_t slot)
{
	std::size_t word;

	std::memcpy(&word, &function, sizeof(word));
	if (word % 8 == 1 && word / 8 == slot)
		return;
	std::printf("%s is in place %zu, not %zu\n", name, word / 8, slot);
	wrong++;
}
#define IS_AT(name, slot) is_at(#name, &nixlBackendEngine::name, slot)

using view_of_remote = nixl_status_t (nixlBackendEngine::*)(const nixl_remote_meta_dlist_t &,
							    nixlMemViewH &,
							    const nixl_opt_b_args_t *) const;
using view_of_local = nixl_status_t (nixlBackendEngine::*)(const nixl_meta_dlist_t &,
							   nixlMemViewH &,
							   const nixl_opt_b_args_t *) const;

int main()
{
	IS_AT(supportsRemote, 2); // behind the two of the destructor
	IS_AT(supportsLocal, 3);
	IS_AT(supportsNotif, 4);
	IS_AT(getSupportedMems, 5);
	IS_AT(registerMem, 6);
	IS_AT(deregisterMem, 7);
	IS_AT(connect, 8);
	IS_AT(disconnect, 9);
	IS_AT(unloadMD, 10);
	IS_AT(prepXfer, 11);
	IS_AT(postXfer, 12);
	IS_AT(checkXfer, 13);
	IS_AT(releaseReqH, 14);
	is_at("prepMemView of remote", view_of_remote(&nixlBackendEngine::prepMemView), 15);
	is_at("prepMemView of local", view_of_local(&nixlBackendEngine::prepMemView), 16);
	IS_AT(releaseMemView, 17);
	IS_AT(getPublicData, 18);
	IS_AT(getConnInfo, 19);
	IS_AT(loadRemoteConnInfo, 20);
	IS_AT(loadRemoteMD, 21);
	IS_AT(loadLocalMD, 22);
	IS_AT(getNotifs, 23);
	IS_AT(genNotif, 24);
	IS_AT(queryMem, 25);
	IS_AT(estimateXferCost, 26);
	std::printf("%d passed, %d failed, 0 skipped\n", !wrong, !!wrong);
	return wrong ? 1 : 0;
}
