/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the locks of links and sessions that a thread holds. Of builds that assert the laws. */
#include "base/law.h"

#include <stdio.h>
#include <stdlib.h>

static _Thread_local unsigned held;

void law_enter(void)
{
	held++;
}

void law_leave(void)
{
	held--;
}

void law_free(const char *who)
{
	if (!held)
		return;
	fprintf(stderr, "%s is called under the lock of a link or a session\n", who);
	abort();
}
