/* SPDX-License-Identifier: Apache-2.0 */
/* A report as lines, as JSON, and as the commands of its fixes. */
#ifndef TOOLS_DOCTOR_PRINT_H
#define TOOLS_DOCTOR_PRINT_H

#include "doctor_rules.h"

/* all: prints skipped checks as well, which are only counted otherwise. */
void doctor_print_text(const struct doctor_report *report, int all);
void doctor_print_fixes(const struct doctor_report *report);
/* Writes the document to path, "-" is stdout, and returns an exit code. */
int doctor_print_json(const struct doctor_report *report, const struct doctor_facts *facts,
		      const char *path);

#endif
