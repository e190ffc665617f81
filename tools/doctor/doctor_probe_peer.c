/* SPDX-License-Identifier: Apache-2.0 */
/* The other end: reached, asked, measured. */
#include "doctor_probe.h"

void doctor_probe_peer(struct doctor_facts *facts, const struct doctor_probe_opts *opts)
{
	doctor_put_text(facts, opts->peer, "pair.address");
}
