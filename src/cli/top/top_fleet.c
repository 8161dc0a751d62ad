// SPDX-License-Identifier: Apache-2.0

#include "cli/top/top_fleet.h"

#include "base/base.h"
#include "cli/top/top_number.h"

#include <math.h>
#include <stdlib.h>

enum {
    url_width_min = 16,
    url_width_max = 48, // eyes must find the way to the figures
    state_width = 9,
};

// Of the columns that do not fit, that with the lowest `stays` goes first.
static const struct column {
    const char *title;
    const char *name;
    enum top_figure figure;
    enum top_unit unit;
    uint32_t width;
    uint32_t stays;
} columns[] = {
    {"FLIGHT", "in flight", TOP_IN_FLIGHT, TOP_COUNT, 6, 8},
    {"QUEUED", "queued tokens", TOP_QUEUED_TOKENS, TOP_COUNT, 7, 5},
    {"HIT", "hit rate", TOP_HIT_RATE, TOP_SHARE, 4, 9},
    {"P50", "TTFT p50", TOP_TTFT_P50, TOP_MS, 6, 4},
    {"P95", "TTFT p95", TOP_TTFT_P95, TOP_MS, 6, 7},
    {"KV", "KV usage", TOP_KV_USAGE, TOP_SHARE, 4, 3},
    {"WEIGHT", "weight", TOP_WEIGHT, TOP_COUNT, 6, 2},
    {"REQ/S", "requests/s", TOP_REQUESTS_PER_S, TOP_RATE, 6, 6},
    {"FAILED", "failures", TOP_FAILURES, TOP_COUNT, 6, 1},
};

enum { rank_unknown = 5 };

// Worst first.
static const struct {
    const char *state;
    enum top_look look;
} states[] = {
    {"down", TOP_BAD},       {"ejected", TOP_BAD},   {"stalled", TOP_BAD},
    {"half_open", TOP_WARN}, {"draining", TOP_WARN}, [rank_unknown] = {"unknown", TOP_DIM},
    {"up", TOP_GOOD},
};

enum { ORDER_ROUTER, ORDER_STATE, order_first_column };

uint32_t top_fleet_order_count(void)
{
    return order_first_column + ARRAY_COUNT(columns);
}

const char *top_fleet_order_name(uint32_t order)
{
    ASSERT(order < top_fleet_order_count());
    if (order == ORDER_ROUTER) {
        return "as configured";
    }
    return order == ORDER_STATE ? "by state" : columns[order - order_first_column].name;
}

const char *top_fleet_short_url(const char *url)
{
    return strncmp(url, "http://", 7) == 0 ? url + 7 : url;
}

static const char *state_of(const struct top_backend *backend)
{
    return backend->is_draining && strcmp(backend->state, "up") == 0 ? "draining" : backend->state;
}

// Its place in `states`; an unknown state sorts like "unknown", before "up".
static uint32_t top_fleet_rank_of(const struct top_backend *backend)
{
    const char *state = state_of(backend);
    for (uint32_t i = 0; i < ARRAY_COUNT(states); i++) {
        if (strcmp(states[i].state, state) == 0) {
            return i;
        }
    }
    return rank_unknown;
}

struct sorting {
    const struct top_overview *overview;
    uint32_t order;
};

static int top_fleet_compare_numbers(double a, double b)
{
    if (isnan(a) || isnan(b)) {
        return (isnan(a) != 0) - (isnan(b) != 0);
    }
    return (a < b) - (a > b);
}

// Equal ones stay in the router's order, or rows would jump about for no reason.
static int top_fleet_compare(const void *left, const void *right, void *owner)
{
    const struct sorting *sorting = owner;
    uint32_t i = *(const uint32_t *)left;
    uint32_t k = *(const uint32_t *)right;
    const struct top_backend *a = &sorting->overview->backends[i];
    const struct top_backend *b = &sorting->overview->backends[k];
    int result = 0;

    if (sorting->order == ORDER_STATE) {
        result = (int)top_fleet_rank_of(a) - (int)top_fleet_rank_of(b);
    } else if (sorting->order >= order_first_column) {
        enum top_figure figure = columns[sorting->order - order_first_column].figure;
        result = top_fleet_compare_numbers(a->figures[figure], b->figures[figure]);
    }
    return result != 0 ? result : (i > k) - (i < k);
}

// Which columns are shown, by a bit each, and how wide the URL is with them.
static uint32_t choose_columns(uint32_t width, uint32_t *url_width)
{
    uint32_t shown = 0;
    uint32_t used = url_width_min + 1 + state_width;

    for (uint32_t stays = ARRAY_COUNT(columns); stays > 0; stays--) {
        uint32_t i = 0;
        while (columns[i].stays != stays) {
            i++;
        }
        if (used + 1 + columns[i].width > width) {
            break;
        }
        used += 1 + columns[i].width;
        shown |= 1u << i;
    }
    uint32_t wide = url_width_min + (width > used ? width - used : 0);
    *url_width = wide < url_width_max ? wide : url_width_max;
    return shown;
}

static void top_fleet_draw_head(struct top_pen *pen, uint32_t shown, uint32_t url_width,
                                uint32_t order)
{
    top_pen_field(pen, TOP_DIM, TOP_LEFT, url_width, "BACKEND");
    top_pen_skip(pen, 1);
    top_pen_field(pen, order == ORDER_STATE ? TOP_ACCENT : TOP_DIM, TOP_LEFT, state_width, "STATE");
    for (uint32_t i = 0; i < ARRAY_COUNT(columns); i++) {
        if ((shown >> i & 1) != 0) {
            bool is_order = order == order_first_column + i;
            top_pen_skip(pen, 1);
            top_pen_field(pen, is_order ? TOP_ACCENT : TOP_DIM, TOP_RIGHT, columns[i].width,
                          columns[i].title);
        }
    }
}

static void draw_row(struct top_pen *pen, uint32_t shown, uint32_t url_width,
                     const struct top_backend *backend)
{
    top_pen_field(pen, TOP_PLAIN, TOP_MIDDLE, url_width, top_fleet_short_url(backend->url));
    top_pen_skip(pen, 1);
    top_pen_field(pen, states[top_fleet_rank_of(backend)].look, TOP_LEFT, state_width,
                  state_of(backend));
    for (uint32_t i = 0; i < ARRAY_COUNT(columns); i++) {
        char number[top_number_size];
        double value = backend->figures[columns[i].figure];
        if ((shown >> i & 1) != 0) {
            top_pen_skip(pen, 1);
            top_pen_field(pen, isnan(value) ? TOP_DIM : TOP_PLAIN, TOP_RIGHT, columns[i].width,
                          top_number(value, columns[i].unit, number));
        }
    }
}

void top_fleet_draw(const struct top_overview *overview, const struct top_fleet_rows *rows,
                    struct top_grid *out)
{
    uint32_t places[top_backend_max];
    uint32_t count = overview->backend_count;
    struct sorting sorting = {overview, rows->order};
    uint32_t url_width;
    uint32_t shown = choose_columns(out->width, &url_width);

    if (rows->count == 0) {
        return;
    }
    struct top_pen pen = top_pen_at(out, rows->first);
    top_fleet_draw_head(&pen, shown, url_width, rows->order);
    for (uint32_t i = 0; i < count; i++) {
        places[i] = i;
    }
    qsort_r(places, count, sizeof(places[0]), top_fleet_compare, &sorting);
    for (uint32_t i = 0; i + 1 < rows->count && rows->scroll + i < count; i++) {
        pen = top_pen_at(out, rows->first + 1 + i);
        draw_row(&pen, shown, url_width, &overview->backends[places[rows->scroll + i]]);
    }
}
