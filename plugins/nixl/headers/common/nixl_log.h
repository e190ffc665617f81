/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the place of NIXL's log, which wants Abseil, where its headers are used (nixl_headers). */
#pragma once

#include <cassert>
#include <iostream>

#define NIXL_ASSERT(condition) assert(condition)
#define NIXL_ERROR std::cerr
