// SPDX-License-Identifier: Apache-2.0
//
// drive_result.h -- what a run came to, as a table for people, as JSON and as a page.
//
// All three say loudly when the generator itself could not keep up: then the times tell of it and
// not of the server.
#pragma once

#include "drive/drive_run.h"

#include <stdio.h>

struct drive_result {
    // The options of the run.
    const char *label; // NULL: none
    const char *url;
    const char *model;
    const char *workload;   // name of the kind, or of the trace
    uint64_t started_at_ms; // since 1970
    enum drive_api api;
    bool stream;
    bool ignore_eos;
    bool names_sessions;
    double rate;
    double share;
    uint32_t users;
    uint64_t request_limit;
    double duration_s;
    double timeout_s;
    double warm_up_s;
    uint64_t warm_up_requests;
    uint64_t seed;
    uint32_t connections_max;
    // The result.
    const struct drive_tally *tally;
    struct figures figures;
    struct drive_client_counts counts;
    double elapsed_s;
    double cpu_s;
    bool was_interrupted;
};

// Why its figures cannot be trusted, or NULL.
const char *drive_result_doubt(const struct drive_result *result);

void drive_result_write_table(const struct drive_result *result, FILE *out);
void drive_result_write_json(const struct drive_result *result, FILE *out);
void drive_result_write_html(const struct drive_result *result, FILE *out);

// Names and meanings of the kinds of errors.
const char *drive_error_name(enum drive_error error);
const char *drive_error_meaning(enum drive_error error);
