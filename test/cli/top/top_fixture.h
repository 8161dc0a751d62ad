// SPDX-License-Identifier: Apache-2.0
//
// top_fixture.h -- generated state of a router for `warmpath top`: any number of backends,
// prefixes, decisions, curves.
#pragma once

#include "cli/top/top_screen.h"

#include <math.h>
#include <stdio.h>

struct top_fixture {
    struct top_overview overview;
    struct top_history history;
    struct top_decisions decisions;
    struct top_scene scene;
    struct top_view view;
    struct top_grid grid;
};

static inline void top_fixture_backend(struct top_backend *backend, uint32_t i)
{
    static const char *const states[] = {"up", "up", "ejected", "up", "down", "half_open"};

    *backend = (struct top_backend){.is_draining = i % 7 == 3};
    snprintf(backend->url, sizeof(backend->url), "http://10.0.%u.%u:8000", i / 250, i % 250 + 1);
    snprintf(backend->state, sizeof(backend->state), "%s", states[i % 6]);
    backend->figures[TOP_WEIGHT] = i % 5 == 0 ? 1 : 2;
    backend->figures[TOP_IN_FLIGHT] = i * 37 % 50;
    backend->figures[TOP_QUEUED_TOKENS] = i * 1237 % 30000;
    backend->figures[TOP_FAILURES] = i % 6 == 2 ? 17 : 0;
    backend->figures[TOP_REQUESTS_PER_S] = i * 1.75;
    backend->figures[TOP_HIT_RATE] = i % 6 == 4 ? (double)NAN : i * 13 % 100 / 100.0;
    backend->figures[TOP_TTFT_P50] = i % 6 == 4 ? (double)NAN : 85 + i * 3;
    backend->figures[TOP_TTFT_P95] = i % 6 == 4 ? (double)NAN : 700 + i * 200;
    backend->figures[TOP_KV_USAGE] = i % 3 == 2 ? (double)NAN : 0.625;
}

static inline void top_fixture_figures(struct top_overview *overview)
{
    snprintf(overview->version, sizeof(overview->version), "0.1.0");
    snprintf(overview->policy, sizeof(overview->policy), "warm");
    snprintf(overview->currency, sizeof(overview->currency), "$");
    overview->now_ms = 1763204044000;
    overview->uptime_s = 11532;
    overview->totals = (struct top_totals){.requests = 48211,
                                           .failures = 12,
                                           .in_flight = 42,
                                           .connections = 64,
                                           .queued_tokens = 81920,
                                           .saved_s = 12345.6,
                                           .round_robin_saved_s = 4000,
                                           .saved_money = 8.57,
                                           .over_round_robin_money = 5.79};
    overview->recent = (struct top_recent){.window_s = 60,
                                           .requests_per_s = 41.2,
                                           .failures_per_s = 0.05,
                                           .output_tokens_per_s = 5120,
                                           .hit_rate = 0.724,
                                           .round_robin_hit_rate = 0.31,
                                           .ttft = {120, 480},
                                           .round_robin_ttft = {310, 1204}};
}

static inline void top_fixture_hot(struct top_overview *overview, uint32_t count)
{
    overview->hot_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct top_hot *hot = &overview->hot[i];
        *hot = (struct top_hot){.tokens = 4096 >> i,
                                .requests = 900 - 100 * i,
                                .share = 0.4 / (i + 1),
                                .holder_count = i + 1,
                                .shown_count = i + 1 < top_holder_max ? i + 1 : top_holder_max};
        snprintf(hot->prefix, sizeof(hot->prefix), "%016x", 0xc0ffee00 + i);
        for (uint32_t k = 0; k < hot->shown_count; k++) {
            snprintf(hot->holders[k], sizeof(hot->holders[k]), "http://10.0.0.%u:8000", k + 1);
        }
    }
}

static inline void top_fixture_decisions(struct top_decisions *decisions, uint32_t count)
{
    decisions->serial = count;
    decisions->count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct top_decision *row = &decisions->rows[i];
        *row = (struct top_decision){.serial = count - i,
                                     .time_ms = 1763204044000 - 1500.0 * i,
                                     .status = 200,
                                     .prompt_tokens = 1200 + i,
                                     .expected_tokens = 1024,
                                     .cached_tokens = i % 2 == 0 ? 1040 : (double)NAN,
                                     .ttft_ms = 118 + i};
        snprintf(row->model, sizeof(row->model), "llama-3.1-8b");
        snprintf(row->outcome, sizeof(row->outcome), "%s", i % 4 == 3 ? "failed" : "ok");
        snprintf(row->backend, sizeof(row->backend), "http://10.0.0.%u:8000", i % 3 + 1);
        snprintf(
            row->why, sizeof(row->why),
            "It holds 1,024 of the prompt's %u tokens, the most of 3 candidates, and its queue "
            "costs less than computing them again elsewhere.",
            1200 + i);
    }
}

// One is there, one lacks something, one is away.
static inline void top_fixture_cluster(struct top_cluster *cluster)
{
    *cluster = (struct top_cluster){
        .is_known = true,
        .is_up = true,
        .router_count = 3,
        .routers = {
            {.name = "host-1/4711", .is_there = true, .is_complete = true, .heard_ms = 12},
            {.name = "host-2/4711", .is_there = true, .heard_ms = 130, .in_flight = 1234},
            {.address = "10.0.0.3:7946", .why = "Connection refused", .is_complete = true}}};
    cluster->routers[0].in_flight = 37;
}

static inline void top_fixture_fill(struct top_fixture *fixture, uint32_t backend_count)
{
    struct top_overview *overview = &fixture->overview;

    *fixture = (struct top_fixture){0};
    top_fixture_figures(overview);
    overview->backend_count = backend_count;
    overview->backend_total = backend_count;
    for (uint32_t i = 0; i < backend_count; i++) {
        top_fixture_backend(&overview->backends[i], i);
    }
    if (backend_count > 0) {
        top_fixture_hot(overview, 4);
        top_fixture_decisions(&fixture->decisions, 12);
    }
    fixture->history.count = 150;
    for (uint32_t i = 0; i < fixture->history.count; i++) {
        fixture->history.points[i] =
            (struct top_point){.time_ms = i * 5000.0,
                               .hit_rate = i == 140 ? (double)NAN : i / 150.0,
                               .round_robin_hit_rate = 0.3,
                               .ttft_p50_ms = 400 - 2 * i,
                               .round_robin_ttft_p50_ms = 400};
    }
    fixture->scene = (struct top_scene){.overview = overview,
                                        .history = &fixture->history,
                                        .decisions = &fixture->decisions,
                                        .link = {.state = TOP_LIVE}};
}

static inline void top_fixture_draw(struct top_fixture *fixture, uint32_t width, uint32_t height)
{
    top_grid_reset(&fixture->grid, width, height, fixture->grid.is_ascii);
    top_screen_draw(&fixture->scene, &fixture->view, &fixture->grid);
}

// The characters of a row; good until the next call.
static inline const char *top_fixture_row(const struct top_grid *grid, uint32_t row)
{
    static char line[top_width_max * 4 + 1];
    struct text text = text_over(line, sizeof(line) - 1);
    top_grid_write_row(grid, row, &text);
    line[text.size] = '\0';
    return line;
}
