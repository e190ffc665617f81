/* SPDX-License-Identifier: Apache-2.0 */
/* A report as lines, as JSON, and as the commands of its fixes. */
#ifndef TOOLS_DOCTOR_PRINT_H
#define TOOLS_DOCTOR_PRINT_H

#include "doctor_rules.h"

/* all: skipped checks too, which are one line otherwise. */
void doctor_print_text(const struct doctor_report *report, int all);
void doctor_print_fixes(const struct doctor_report *report);
/* An exit code; the document goes to path, "-" is stdout. */
int doctor_print_json(const struct doctor_report *report, const struct doctor_facts *facts,
		      const char *path);

#endif
