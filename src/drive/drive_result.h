// SPDX-License-Identifier: Apache-2.0
//
// drive_result.h -- the result of a run, as a table for people, as JSON and as a page.
//
// All three say when the generator itself could not keep up: its times then measure the generator
// and not the server.
#pragma once

#include "config/option/flags.h"
#include "drive/drive_run.h"

#include <stdio.h>

// The command line of load.
struct load_flags {
    const char *url;
    const char *model;
    const char *workload;
    const char *trace;
    enum drive_api api;
    const char *api_key;
    const char *warm_up;
    const char *json;
    const char *html;
    const char *log;
    const char *label;
    const char *ca;
    struct flag_list header;
    double rate;
    double share;
    double duration;
    double timeout;
    uint32_t users;
    uint32_t requests;
    uint32_t connections_max;
    uint32_t seed;
    bool sessions;
    bool no_stream;
    bool no_ignore_eos;
    bool insecure;
    bool quiet;
};

struct drive_result {
    const struct load_flags *flags;
    const char *workload;   // name of the kind, or of the trace
    uint64_t started_at_ms; // since 1970
    uint64_t request_limit;
    double warm_up_s;
    uint64_t warm_up_requests;
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
