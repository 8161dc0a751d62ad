// SPDX-License-Identifier: Apache-2.0
//
// audit_report.h -- an audit for people, and for programs.
#pragma once

#include "audit/audit_verdict.h"

#include <stdio.h>

struct audit_report {
    const char *title; // of what time
    const struct audit_replica *replicas;
    uint32_t replica_count;
    const struct audit_terms *terms;
    const struct audit_result *result;
};

// The table: a row for each replica, and one for the fleet.
void audit_report_table(FILE *out, const struct audit_report *report);

// The row of the fleet alone.
void audit_report_fleet(FILE *out, const struct audit_report *report);

// Waste, verdict and their assumptions.
void audit_report_verdict(FILE *out, const struct audit_report *report);

// All of it as one object; unknown values are null.
void audit_report_json(FILE *out, const struct audit_report *report);
