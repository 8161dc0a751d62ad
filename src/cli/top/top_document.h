// SPDX-License-Identifier: Apache-2.0
//
// top_document.h -- what `warmpath top` knows of a router: GET /overview and GET /decisions, read
// into structs of fixed size.
//
//     /overview?since=MS       --> struct top_overview --> its new points go to struct top_history
//     /decisions?since=SERIAL  --> struct top_decisions --> joined to those that are kept
//
// A number that a document does not have, or has as null, is NAN.  Members that are not known here
// are skipped, so that documents of newer routers can be read.
//
// Strings are UTF-8 without control characters: they go to a terminal, and a model's name must not
// be able to move its cursor.  Longer text is cut between characters.
//
// Limits: the sizes below.  The oldest points and the last elements of lists are left out.
//
// Memory: the caller's; some megabytes.  Nothing points into the text.
#pragma once

#include "base/slice.h"
#include "base/status.h"

enum {
    top_backend_max = 4096,
    top_hot_max = 32,
    top_holder_max = 8,
    top_router_max = 31, // others of a cluster
    top_point_max = 512, // one column of a screen each
    top_decision_max = 100,
    top_url_size = 160,
    top_word_size = 64,
    top_sentence_size = 512,
};

enum top_figure {
    TOP_WEIGHT,
    TOP_IN_FLIGHT,
    TOP_QUEUED_TOKENS,
    TOP_FAILURES,
    TOP_REQUESTS_PER_S,
    TOP_HIT_RATE,
    TOP_TTFT_P50,
    TOP_TTFT_P95,
    TOP_KV_USAGE,
    top_figure_count,
};

struct top_backend {
    char url[top_url_size];
    char state[top_word_size];
    bool is_draining;
    double figures[top_figure_count];
};

// A prefix that many requests begin with.
struct top_hot {
    char prefix[top_word_size];
    double tokens;
    double requests;
    double share;
    double holder_count;
    uint32_t shown_count; // of holders
    char holders[top_holder_max][top_url_size];
};

// Another router of the cluster.
struct top_router {
    char name[top_word_size];
    char address[top_word_size];
    char why[top_word_size]; // its connection failed last
    bool is_there;
    bool is_complete; // or it has told nothing yet
    double heard_ms;  // ago
    double in_flight;
};

struct top_cluster {
    bool is_known; // false: the router has none
    bool is_up;
    char why[top_word_size]; // not up
    uint32_t router_count;
    struct top_router routers[top_router_max];
};

struct top_quantiles {
    double p50_ms;
    double p95_ms;
};

struct top_point {
    double time_ms;
    double hit_rate;
    double round_robin_hit_rate;
    double ttft_p50_ms;
    double round_robin_ttft_p50_ms;
};

struct top_history {
    uint32_t count;
    struct top_point points[top_point_max]; // oldest first
};

struct top_totals {
    double requests;
    double failures;
    double in_flight;
    double connections;
    double queued_tokens;
    double saved_s;
    double round_robin_saved_s;
    double saved_money;
    double over_round_robin_money;
};

struct top_recent {
    double window_s;
    double requests_per_s;
    double failures_per_s;
    double output_tokens_per_s;
    double hit_rate;
    double round_robin_hit_rate;
    struct top_quantiles ttft;
    struct top_quantiles round_robin_ttft;
};

struct top_overview {
    char version[top_word_size];
    char policy[top_word_size];
    char currency[top_word_size];
    double now_ms;
    double uptime_s;
    struct top_totals totals;
    struct top_recent recent;
    struct top_cluster cluster;
    uint32_t backend_count; // read
    uint32_t backend_total; // of the document
    struct top_backend backends[top_backend_max];
    uint32_t hot_count;
    struct top_hot hot[top_hot_max];
    struct top_history series;
};

struct top_decision {
    double serial;
    char id[top_url_size]; // of the request
    double time_ms;
    char model[top_word_size];
    char backend[top_url_size]; // empty: not forwarded
    char outcome[top_word_size];
    double status;
    double prompt_tokens;
    double expected_tokens;
    double cached_tokens;
    double ttft_ms;
    char why[top_sentence_size];
};

struct top_decisions {
    double serial;
    uint32_t count;
    struct top_decision rows[top_decision_max]; // newest first
};

// MALFORMED: not such a document; `out` is untouched.
enum status top_overview_read(struct slice text, struct top_overview *out);
enum status top_decisions_read(struct slice text, struct top_decisions *out);

// Appends the points that are newer than all of `history`.  Starts over if the clock was set back.
void top_history_join(struct top_history *history, const struct top_overview *overview);

// Puts the new ones on top.  A request that was told as running and has ended has a new row: the
// old one goes.  Serials that went back are those of another router: what was kept goes.
void top_decisions_join(struct top_decisions *kept, const struct top_decisions *fresh);

// Cuts and cleans a string, which may hold any bytes, into `size` bytes, the last of which is 0.
void top_text_copy(struct slice text, char *out, size_t size);
