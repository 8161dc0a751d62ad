// SPDX-License-Identifier: Apache-2.0

#include "cli/top/top_screen.h"

#include "base/base.h"
#include "cli/top/top_fleet.h"
#include "cli/top/top_number.h"

#include <math.h>
#include <stdio.h>

enum {
    head_height = 1,
    foot_height = 1,
    figures_height = 3,
    curves_height = 3,
    fleet_height_min = 4,
    hottest_height_min = 4,
    hottest_height_max = 10,
    routers_height_min = 2,
    routers_height_max = 10,
    decisions_height_min = 5,
    // Below it the figures stand in one column, and there is one curve.
    wide_width_min = 76,
    full_head_width_min = 110,
    // From here on a decision and its sentence share a row, unless one looks at decisions: then a
    // sentence has the rows that it needs.
    shared_width_min = 200,
    sentence_rows_max = 4,
    sentence_indent = 8,
    label_width = 12, // "round-robin "
};

// Rows of each part; 0: left out.
struct layout {
    uint32_t figures;
    uint32_t curves;
    uint32_t fleet;
    uint32_t routers;
    uint32_t hottest;
    uint32_t decisions;
    uint32_t foot;
};

static uint32_t top_screen_least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void top_screen_take(uint32_t *part, uint32_t rows, uint32_t *left, bool is_wanted)
{
    if (is_wanted && *left >= rows) {
        *part += rows;
        *left -= rows;
    }
}

static void top_screen_grow(uint32_t *part, uint32_t wanted, uint32_t at_most, uint32_t *left)
{
    if (*part > 0 && wanted > *part) {
        uint32_t more = top_screen_least(wanted - *part, top_screen_least(at_most, *left));
        *part += more;
        *left -= more;
    }
}

// One row for its facts, and those of its sentence.
static uint32_t rows_of_decision(const struct top_decision *decision, const struct top_view *view,
                                 const struct top_grid *grid)
{
    if (view->focus != TOP_DECISIONS) {
        return grid->width >= shared_width_min ? 1 : 2;
    }
    uint32_t width = grid->width > sentence_indent ? grid->width - sentence_indent : 1;
    const char *why = decision->why;
    uint32_t rows = 1;
    while (*why != '\0' && rows <= sentence_rows_max) {
        why += top_text_break(why, width, grid->is_ascii);
        why += *why == ' ';
        rows++;
    }
    return rows;
}

static uint32_t rows_of_decisions(const struct top_decisions *decisions,
                                  const struct top_view *view, const struct top_grid *grid)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < decisions->count; i++) {
        rows += rows_of_decision(&decisions->rows[i], view, grid);
    }
    return rows;
}

// A title, why nothing is shared, and a row for each router or for the lack of them.
static uint32_t rows_of_cluster(const struct top_cluster *cluster)
{
    uint32_t rows = cluster->router_count > 0 ? cluster->router_count : 1;
    return cluster->is_known ? 1 + !cluster->is_up + rows : 0;
}

static struct layout lay_out(const struct top_scene *scene, const struct top_view *view,
                             const struct top_grid *grid)
{
    struct layout layout = {0};
    uint32_t left = grid->height > head_height ? grid->height - head_height : 0;
    uint32_t fleet = scene->overview != NULL ? scene->overview->backend_count + 2 : 0;
    uint32_t hottest = scene->overview != NULL ? scene->overview->hot_count + 2 : 0;
    uint32_t routers = scene->overview != NULL ? rows_of_cluster(&scene->overview->cluster) : 0;
    uint32_t decisions = rows_of_decisions(scene->decisions, view, grid) + 1;
    bool on_decisions = view->focus == TOP_DECISIONS && !view->hides[TOP_DECISIONS];
    uint32_t *focus = on_decisions ? &layout.decisions : &layout.fleet;

    // A very low screen still has the fleet, as far as there are rows.
    top_screen_take(&layout.fleet, top_screen_least(fleet_height_min, left), &left,
                    !view->hides[TOP_FLEET]);
    top_screen_take(&layout.figures, figures_height, &left, !view->hides[TOP_FIGURES]);
    top_screen_take(&layout.foot, foot_height, &left, !view->hides_foot);
    top_screen_take(&layout.decisions, decisions_height_min, &left, !view->hides[TOP_DECISIONS]);
    top_screen_take(&layout.curves, curves_height, &left, !view->hides[TOP_FIGURES]);
    top_screen_take(&layout.routers, routers_height_min, &left,
                    routers > 0 && !view->hides[TOP_ROUTERS]);
    top_screen_take(&layout.hottest, hottest_height_min, &left, !view->hides[TOP_HOTTEST]);
    top_screen_grow(focus, on_decisions ? decisions : fleet, left - left / 3, &left);
    top_screen_grow(&layout.routers, top_screen_least(routers, routers_height_max), left, &left);
    top_screen_grow(&layout.hottest, top_screen_least(hottest, hottest_height_max), left, &left);
    top_screen_grow(&layout.decisions, decisions, left, &left);
    top_screen_grow(&layout.fleet, fleet, left, &left);
    return layout;
}

static void draw_link(struct top_pen *pen, const struct top_scene *scene,
                      const struct top_view *view)
{
    const struct top_link *link = &scene->link;
    char text[128];
    enum top_look look = TOP_BAD;

    if (view->is_paused) {
        snprintf(text, sizeof(text), "paused");
        look = TOP_WARN;
    } else if (link->state == TOP_LIVE) {
        snprintf(text, sizeof(text), "live");
        look = TOP_GOOD;
    } else if (link->state == TOP_WAITING) {
        snprintf(text, sizeof(text), "connecting");
        look = TOP_DIM;
    } else {
        snprintf(text, sizeof(text), "router unreachable since %.0f s, trying", link->silent_s);
    }
    uint32_t width = top_text_width(text, pen->grid->is_ascii);
    uint32_t room = pen->end - pen->column;
    pen->column = pen->end - top_screen_least(width, room);
    top_pen_put(pen, look, text);
    pen->end -= top_screen_least(width + 2, pen->end);
    pen->column = 0;
    if (link->state == TOP_LOST && !view->is_paused && pen->end > wide_width_min) {
        uint32_t why_width =
            top_screen_least(top_text_width(link->why, pen->grid->is_ascii), pen->end / 3);
        struct top_pen why = *pen;
        why.column = pen->end - why_width;
        top_pen_put(&why, TOP_DIM, link->why);
        pen->end -= why_width + 2;
    }
}

static void top_screen_draw_head(const struct top_scene *scene, const struct top_view *view,
                                 struct top_grid *grid)
{
    const struct top_overview *overview = scene->overview;
    struct top_pen pen = top_pen_at(grid, 0);
    char a[top_number_size];
    char b[top_number_size];

    draw_link(&pen, scene, view);
    if (overview == NULL) {
        top_pen_put(&pen, TOP_BOLD, "warmpath");
        return;
    }
    top_pen_format(&pen, TOP_BOLD, "warmpath %s", overview->version);
    bool is_wide = grid->width >= wide_width_min;
    top_pen_format(&pen, TOP_PLAIN, "  %s%s  up %s", is_wide ? "policy " : "", overview->policy,
                   top_number(overview->uptime_s, TOP_AGE, a));
    if (is_wide) {
        top_pen_format(&pen, TOP_PLAIN, "  %s in flight",
                       top_number(overview->totals.in_flight, TOP_COUNT, a));
    }
    if (grid->width >= full_head_width_min) {
        top_pen_format(&pen, TOP_PLAIN, "  %s tokens queued  %s requests",
                       top_number(overview->totals.queued_tokens, TOP_COUNT, a),
                       top_number(overview->totals.requests, TOP_COUNT, b));
    }
}

// "hit rate  72.4%  round-robin ~31.0%"
static void draw_against(struct top_pen *pen, const char *label, enum top_unit unit, double ours,
                         double theirs)
{
    char number[top_number_size];

    top_pen_field(pen, TOP_PLAIN, TOP_LEFT, 9, label);
    top_pen_field(pen, TOP_BOLD, TOP_RIGHT, 7, top_number(ours, unit, number));
    top_pen_put(pen, TOP_DIM, "  round-robin ");
    top_pen_format(pen, TOP_DIM, "%s%s", isnan(theirs) ? "" : "~",
                   top_number(theirs, unit, number));
}

static const char *signed_seconds(double value, char out[top_number_size])
{
    char number[top_number_size];
    top_number(isnan(value) ? value : fabs(value), TOP_SECONDS, number);
    snprintf(out, top_number_size, "%s%.12s", value < 0 ? "-" : "", number);
    return out;
}

static void draw_saving(struct top_pen *pen, const char *label, double seconds, double money,
                        const char *currency)
{
    char number[top_number_size];

    top_pen_field(pen, TOP_PLAIN, TOP_LEFT, 18, label);
    top_pen_field(pen, TOP_BOLD, TOP_RIGHT, 8, signed_seconds(seconds, number));
    top_pen_put(pen, TOP_PLAIN, " GPU s");
    if (!isnan(money)) {
        top_pen_format(pen, TOP_BOLD, "  %s", top_money(money, currency, number));
    }
}

static void draw_rate(struct top_pen *pen, const char *label, double value, bool is_bad)
{
    char number[top_number_size];
    top_pen_put(pen, TOP_PLAIN, label);
    top_pen_put(pen, is_bad && value > 0 ? TOP_BAD : TOP_BOLD, top_number(value, TOP_RATE, number));
}

static void draw_wide_figures(const struct top_overview *overview, uint32_t row,
                              struct top_grid *grid)
{
    const struct top_recent *recent = &overview->recent;
    const struct top_totals *totals = &overview->totals;
    struct top_pen pens[figures_height];
    uint32_t half = grid->width / 2 < 60 ? grid->width / 2 : 60;

    for (uint32_t i = 0; i < figures_height; i++) {
        pens[i] = top_pen_at(grid, row + i);
    }
    draw_against(&pens[0], "hit rate", TOP_PERCENT, recent->hit_rate, recent->round_robin_hit_rate);
    draw_against(&pens[1], "TTFT p50", TOP_MS, recent->ttft.p50_ms,
                 recent->round_robin_ttft.p50_ms);
    draw_against(&pens[2], "TTFT p95", TOP_MS, recent->ttft.p95_ms,
                 recent->round_robin_ttft.p95_ms);
    for (uint32_t i = 0; i < figures_height; i++) {
        pens[i].column = half;
    }
    draw_rate(&pens[0], "requests/s ", recent->requests_per_s, false);
    draw_rate(&pens[0], "  failures/s ", recent->failures_per_s, true);
    draw_saving(&pens[1], "saved", totals->saved_s, totals->saved_money, overview->currency);
    draw_saving(&pens[2], "over round-robin", totals->saved_s - totals->round_robin_saved_s,
                totals->over_round_robin_money, overview->currency);
}

static void draw_narrow_figures(const struct top_overview *overview, uint32_t row,
                                struct top_grid *grid)
{
    const struct top_recent *recent = &overview->recent;
    const struct top_totals *totals = &overview->totals;
    char a[top_number_size];
    char b[top_number_size];

    struct top_pen pen = top_pen_at(grid, row);
    top_pen_format(&pen, TOP_BOLD, "hit %s", top_number(recent->hit_rate, TOP_PERCENT, a));
    top_pen_format(&pen, TOP_DIM, " rr ~%s",
                   top_number(recent->round_robin_hit_rate, TOP_PERCENT, a));
    draw_rate(&pen, "  req/s ", recent->requests_per_s, false);
    pen = top_pen_at(grid, row + 1);
    top_pen_format(&pen, TOP_BOLD, "TTFT %s/%s", top_number(recent->ttft.p50_ms, TOP_MS, a),
                   top_number(recent->ttft.p95_ms, TOP_MS, b));
    top_pen_format(&pen, TOP_DIM, " rr ~%s/%s",
                   top_number(recent->round_robin_ttft.p50_ms, TOP_MS, a),
                   top_number(recent->round_robin_ttft.p95_ms, TOP_MS, b));
    pen = top_pen_at(grid, row + 2);
    top_pen_format(&pen, TOP_BOLD, "saved %ss", signed_seconds(totals->saved_s, a));
    if (!isnan(totals->saved_money)) {
        top_pen_format(&pen, TOP_BOLD, " %s",
                       top_money(totals->saved_money, overview->currency, a));
    }
    draw_rate(&pen, "  fail/s ", recent->failures_per_s, true);
}

enum curve { CURVE_HIT, CURVE_HIT_TWIN, CURVE_TTFT, CURVE_TTFT_TWIN };

static double top_screen_value_of(const struct top_point *point, enum curve curve)
{
    switch (curve) {
    case CURVE_HIT:
        return point->hit_rate;
    case CURVE_HIT_TWIN:
        return point->round_robin_hit_rate;
    case CURVE_TTFT:
        return point->ttft_p50_ms;
    case CURVE_TTFT_TWIN:
        return point->round_robin_ttft_p50_ms;
    }
    return (double)NAN;
}

// One column a point, the newest at the right; a column for which nothing is known is blank.
static void draw_curve(struct top_pen *pen, enum top_look look, const struct top_history *history,
                       enum curve curve, double highest)
{
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    uint32_t room = pen->end - pen->column;
    uint32_t count = top_screen_least(history->count, room);

    top_pen_skip(pen, room - count);
    for (uint32_t i = history->count - count; i < history->count; i++) {
        double value = top_screen_value_of(&history->points[i], curve);
        if (isnan(value)) {
            top_pen_skip(pen, 1);
            continue;
        }
        double share = highest > 0 ? fmin(fmax(value, 0) / highest, 1) : 0;
        top_pen_put(pen, look, blocks[(size_t)(share * 7 + 0.5)]);
    }
}

static double highest_of(const struct top_history *history, uint32_t count)
{
    double highest = 0;
    for (uint32_t i = history->count - top_screen_least(count, history->count); i < history->count;
         i++) {
        highest = fmax(highest, fmax(top_screen_value_of(&history->points[i], CURVE_TTFT),
                                     top_screen_value_of(&history->points[i], CURVE_TTFT_TWIN)));
    }
    return highest;
}

// Ours above what round-robin would have given, on one scale, between two columns.
static void draw_curves(const struct top_scene *scene, struct top_pen pen, enum curve curve)
{
    struct top_grid *grid = pen.grid;
    uint32_t room = pen.end - pen.column;
    uint32_t points = room > label_width ? room - label_width : 0;
    double highest = curve == CURVE_HIT ? 1 : highest_of(scene->history, points);
    char number[top_number_size];

    for (uint32_t i = 0; i < 2; i++) {
        struct top_pen line = {grid, pen.row + 1 + i, pen.column, pen.end};
        top_pen_field(&line, TOP_DIM, TOP_LEFT, label_width,
                      i == 0 ? scene->overview->policy : "round-robin");
        draw_curve(&line, i == 0 ? TOP_GOOD : TOP_DIM, scene->history, curve + i, highest);
    }
    if (curve == CURVE_HIT) {
        top_pen_put(&pen, TOP_DIM, "hit rate, 0 to 100%");
    } else {
        top_pen_format(&pen, TOP_DIM, "TTFT p50, 0 to %s",
                       top_number(highest > 0 ? highest : (double)NAN, TOP_MS, number));
    }
}

static void draw_both_curves(const struct top_scene *scene, uint32_t row, struct top_grid *grid)
{
    struct top_pen left = top_pen_at(grid, row);
    struct top_pen right = left;

    if (grid->width >= wide_width_min) {
        left.end = grid->width / 2 - 1;
        right.column = grid->width / 2 + 1;
        draw_curves(scene, right, CURVE_TTFT);
    }
    draw_curves(scene, left, CURVE_HIT);
}

static void draw_title(struct top_grid *grid, uint32_t row, bool is_focus, const char *title)
{
    struct top_pen pen = top_pen_at(grid, row);
    top_pen_put(&pen, TOP_DIM, "── ");
    top_pen_put(&pen, is_focus ? TOP_ACCENT : TOP_TITLE, title);
    top_pen_put(&pen, TOP_DIM, " ");
    while (pen.column < pen.end) {
        top_pen_put(&pen, TOP_DIM, "─");
    }
}

// Keeps the last row at the bottom; returns the first that is shown.
static uint32_t scroll_to(struct top_view *view, enum top_panel panel, uint32_t count,
                          uint32_t page)
{
    uint32_t last = count > page ? count - page : 0;
    view->page[panel] = page;
    view->scroll[panel] = top_screen_least(view->scroll[panel], last);
    return view->scroll[panel];
}

// "FLEET 1-20 of 1,000"
static void write_range(char *out, size_t size, const char *name, uint32_t first, uint32_t page,
                        uint32_t count)
{
    char number[top_number_size];
    top_number(count, TOP_COUNT, number);
    if (count <= page) {
        snprintf(out, size, "%s %s", name, number);
    } else {
        snprintf(out, size, "%s %u-%u of %s", name, first + 1,
                 top_screen_least(first + page, count), number);
    }
}

static void draw_fleet(const struct top_scene *scene, struct top_view *view, uint32_t row,
                       uint32_t height, struct top_grid *grid)
{
    char range[64];
    char title[160];
    uint32_t count = scene->overview->backend_count;
    uint32_t page = height > 2 ? height - 2 : 0;
    uint32_t first = scroll_to(view, TOP_FLEET, count, page);
    uint32_t left_out = scene->overview->backend_total - count;

    write_range(range, sizeof(range), "FLEET", first, page, count);
    int size = snprintf(title, sizeof(title), "%s, %s%s", range, view->order > 1 ? "by " : "",
                        top_fleet_order_name(view->order));
    if (left_out > 0 && size > 0) {
        snprintf(title + size, sizeof(title) - (size_t)size, ", %u more are not shown", left_out);
    }
    draw_title(grid, row, view->focus != TOP_DECISIONS, title);
    struct top_fleet_rows rows = {row + 1, height - 1, first, view->order};
    top_fleet_draw(scene->overview, &rows, grid);
    if (count == 0 && height > 2) {
        struct top_pen pen = top_pen_at(grid, row + 2);
        top_pen_put(&pen, TOP_DIM, "no backends");
    }
}

static void draw_router(const struct top_router *router, struct top_pen *pen)
{
    char number[top_number_size];
    const char *state = !router->is_there ? "away" : !router->is_complete ? "behind" : "there";
    enum top_look look = !router->is_there ? TOP_BAD : !router->is_complete ? TOP_WARN : TOP_GOOD;
    const char *name = router->name[0] != '\0'      ? router->name
                       : router->address[0] != '\0' ? router->address
                                                    : "–";

    top_pen_field(pen, TOP_PLAIN, TOP_LEFT, 28, name);
    top_pen_skip(pen, 1);
    top_pen_field(pen, look, TOP_LEFT, 7, state);
    if (router->is_there) {
        top_pen_field(pen, TOP_PLAIN, TOP_RIGHT, 7,
                      top_number(router->in_flight, TOP_COUNT, number));
        top_pen_field(pen, TOP_DIM, TOP_RIGHT, 8, top_number(router->heard_ms, TOP_MS, number));
    } else {
        top_pen_skip(pen, 1);
        top_pen_put(pen, TOP_DIM, router->why);
    }
}

static void draw_routers(const struct top_cluster *cluster, uint32_t row, uint32_t height,
                         struct top_grid *grid)
{
    char title[96];
    uint32_t end = row + height;

    snprintf(title, sizeof(title), "OTHER ROUTERS %u: name, state, in flight, last heard",
             cluster->router_count);
    draw_title(grid, row++, false, title);
    if (!cluster->is_up && row < end) {
        struct top_pen pen = top_pen_at(grid, row++);
        top_pen_format(&pen, TOP_BAD, "nothing is shared, the store does not obey: %s",
                       cluster->why);
    }
    for (uint32_t i = 0; i < cluster->router_count && row < end; i++) {
        struct top_pen pen = top_pen_at(grid, row++);
        draw_router(&cluster->routers[i], &pen);
    }
    if (cluster->router_count == 0 && row < end) {
        struct top_pen pen = top_pen_at(grid, row);
        top_pen_put(&pen, TOP_DIM, "none yet");
    }
}

static void draw_hot(const struct top_hot *hot, struct top_pen *pen)
{
    char number[top_number_size];

    top_pen_field(pen, TOP_ACCENT, TOP_LEFT, 16, hot->prefix);
    top_pen_field(pen, TOP_PLAIN, TOP_RIGHT, 8, top_number(hot->tokens, TOP_COUNT, number));
    top_pen_field(pen, TOP_PLAIN, TOP_RIGHT, 9, top_number(hot->requests, TOP_COUNT, number));
    top_pen_field(pen, TOP_PLAIN, TOP_RIGHT, 6, top_number(hot->share, TOP_SHARE, number));
    top_pen_field(pen, TOP_PLAIN, TOP_RIGHT, 8, top_number(hot->holder_count, TOP_COUNT, number));
    top_pen_skip(pen, 1);
    for (uint32_t i = 0; i < hot->shown_count; i++) {
        top_pen_skip(pen, 1);
        top_pen_put(pen, TOP_DIM, top_fleet_short_url(hot->holders[i]));
    }
}

// Text for an empty list.  A router that counts requests always reports failures, perhaps 0.
static const char *why_none(const struct top_overview *overview)
{
    return isnan(overview->totals.failures) ? "requests are not counted: metrics.enabled is off"
                                            : "none yet";
}

static void draw_hottest(const struct top_scene *scene, uint32_t row, uint32_t height,
                         struct top_grid *grid)
{
    static const struct {
        const char *title;
        uint32_t width;
        enum top_cut cut;
    } columns[] = {{"PREFIX", 16, TOP_LEFT},
                   {"TOKENS", 8, TOP_RIGHT},
                   {"REQUESTS", 9, TOP_RIGHT},
                   {"SHARE", 6, TOP_RIGHT},
                   {"HOLDERS", 8, TOP_RIGHT}};
    struct top_pen pen = top_pen_at(grid, row + 1);

    draw_title(grid, row, false, "HOTTEST PREFIXES");
    for (size_t i = 0; i < ARRAY_COUNT(columns); i++) {
        top_pen_field(&pen, TOP_DIM, columns[i].cut, columns[i].width, columns[i].title);
    }
    for (uint32_t i = 0; i < scene->overview->hot_count && i + 2 < height; i++) {
        pen = top_pen_at(grid, row + 2 + i);
        draw_hot(&scene->overview->hot[i], &pen);
    }
    if (scene->overview->hot_count == 0) {
        pen = top_pen_at(grid, row + 2);
        top_pen_put(&pen, TOP_DIM, why_none(scene->overview));
    }
}

static enum top_look look_of_outcome(const struct top_decision *decision)
{
    static const char *const failures[] = {
#define OUTCOME(id, name, is_failure, help) (is_failure) ? (name) : NULL,
#include "metrics/outcomes.def"
#undef OUTCOME
    };
    for (size_t i = 0; i < ARRAY_COUNT(failures); i++) {
        if (failures[i] != NULL && strcmp(decision->outcome, failures[i]) == 0) {
            return TOP_BAD;
        }
    }
    return strcmp(decision->outcome, "ok") == 0 ? TOP_GOOD : TOP_WARN;
}

// Its facts in one row; the pen is left behind them.
static void draw_facts(const struct top_decision *decision, double now_ms, struct top_pen *pen)
{
    char a[top_number_size];
    char b[top_number_size];
    char text[64];
    bool is_told = !isnan(decision->cached_tokens);

    top_pen_field(pen, TOP_DIM, TOP_RIGHT, 7,
                  top_number((now_ms - decision->time_ms) / 1000, TOP_AGE, a));
    top_pen_skip(pen, 1);
    top_pen_field(pen, look_of_outcome(decision), TOP_LEFT, 8, decision->outcome);
    top_pen_skip(pen, 1);
    top_pen_field(pen, TOP_PLAIN, TOP_MIDDLE, 21, top_fleet_short_url(decision->backend));
    // As the engine reported, else as predicted.
    double cached = is_told ? decision->cached_tokens : decision->expected_tokens;
    snprintf(text, sizeof(text), "%s%s/%s", is_told || isnan(cached) ? "" : "~",
             top_number(cached, TOP_COUNT, a), top_number(decision->prompt_tokens, TOP_COUNT, b));
    top_pen_field(pen, TOP_PLAIN, TOP_RIGHT, 16, text);
    top_pen_field(pen, TOP_PLAIN, TOP_RIGHT, 7, top_number(decision->ttft_ms, TOP_MS, a));
    top_pen_skip(pen, 1);
    top_pen_field(pen, TOP_DIM, TOP_LEFT, 16, decision->model);
    top_pen_skip(pen, 1);
}

// In `rows` rows below the pen, or behind the pen if `rows` is 0.
static void draw_sentence(const char *why, uint32_t rows, struct top_pen pen)
{
    struct top_grid *grid = pen.grid;

    for (uint32_t i = 0; i < rows; i++) {
        char part[top_sentence_size];
        size_t size = strlen(why);
        pen = top_pen_at(grid, pen.row + 1);
        top_pen_skip(&pen, sentence_indent);
        if (i + 1 < rows) {
            size = top_text_break(why, pen.end - pen.column, grid->is_ascii);
        }
        snprintf(part, sizeof(part), "%.*s", (int)size, why);
        top_pen_put(&pen, TOP_PLAIN, part);
        why += size;
        why += *why == ' ';
    }
    if (rows == 0) {
        top_pen_put(&pen, TOP_PLAIN, why);
    }
}

// How many fit into the rows, from `first` on; the first does in any case, if only in part.
static uint32_t count_that_fit(const struct top_decisions *decisions, uint32_t first, uint32_t rows,
                               const struct top_view *view, const struct top_grid *grid)
{
    uint32_t count = 0;
    while (first + count < decisions->count) {
        uint32_t needed = rows_of_decision(&decisions->rows[first + count], view, grid);
        if (needed > rows && count > 0) {
            break;
        }
        rows -= top_screen_least(needed, rows);
        count++;
    }
    return count;
}

// The first one shown; not beyond that from which on all fit.
static uint32_t scroll_decisions(const struct top_decisions *decisions, struct top_view *view,
                                 uint32_t rows, const struct top_grid *grid)
{
    uint32_t first = top_screen_least(view->scroll[TOP_DECISIONS], decisions->count);
    while (first > 0 &&
           first - 1 + count_that_fit(decisions, first - 1, rows, view, grid) >= decisions->count) {
        first--;
    }
    view->scroll[TOP_DECISIONS] = first;
    view->page[TOP_DECISIONS] = count_that_fit(decisions, first, rows, view, grid);
    return first;
}

static void draw_decisions(const struct top_scene *scene, struct top_view *view, uint32_t row,
                           uint32_t height, struct top_grid *grid)
{
    char range[64];
    char title[160];
    const struct top_decisions *decisions = scene->decisions;
    uint32_t first = scroll_decisions(decisions, view, height - 1, grid);
    uint32_t page = view->page[TOP_DECISIONS];
    uint32_t end = row + height;

    write_range(range, sizeof(range), "DECISIONS", first, page, decisions->count);
    snprintf(title, sizeof(title), "%s: age, outcome, backend, cached/prompt, TTFT, model", range);
    draw_title(grid, row++, view->focus == TOP_DECISIONS, title);
    for (uint32_t i = first; i < first + page; i++) {
        const struct top_decision *decision = &decisions->rows[i];
        uint32_t rows = top_screen_least(rows_of_decision(decision, view, grid), end - row);
        struct top_pen pen = top_pen_at(grid, row);
        draw_facts(decision, scene->overview->now_ms, &pen);
        draw_sentence(decision->why, rows - 1, pen);
        row += rows;
    }
    if (decisions->count == 0) {
        struct top_pen pen = top_pen_at(grid, row);
        top_pen_put(&pen, TOP_DIM, why_none(scene->overview));
    }
}

static void draw_foot(const struct top_view *view, struct top_grid *grid)
{
    struct top_pen pen = top_pen_at(grid, grid->height - 1);
    top_pen_put(&pen, TOP_DIM,
                view->is_paused
                    ? "q quit  p go on  ? help  ↑↓ scroll  s sort  d focus  1-5 panels"
                    : "q quit  ? help  ↑↓ scroll  s sort  d focus  p pause  1-5 panels");
}

static void draw_help(struct top_grid *grid)
{
    static const char *const lines[] = {
        "q           quit",
        "↑ ↓ k j     scroll the panel that has the focus",
        "PgUp PgDn   by a page; Home and End",
        "d           focus: fleet or decisions; it gets most rows",
        "s S         sort the fleet by the next or the last column",
        "p           pause, and go on",
        "1 2 3 4 5   figures, fleet, hottest prefixes, decisions, other",
        "            routers: off and on",
        "^L          paint all anew",
        "? h         this, and back",
        "",
        "~ is an estimate: what round-robin would have given, or what a",
        "backend was expected to have cached and has not told.",
        "Nothing can be changed from here; drain and weight are in the",
        "dashboard and the admin API.",
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(lines) && i + 2 < grid->height; i++) {
        struct top_pen pen = top_pen_at(grid, i + 2);
        top_pen_put(&pen, TOP_PLAIN, lines[i]);
    }
}

static void draw_parts(const struct top_scene *scene, struct top_view *view,
                       const struct layout *layout, struct top_grid *grid)
{
    uint32_t row = head_height;

    if (layout->figures > 0) {
        (grid->width >= wide_width_min ? draw_wide_figures : draw_narrow_figures)(scene->overview,
                                                                                  row, grid);
        row += layout->figures;
    }
    if (layout->curves > 0) {
        draw_both_curves(scene, row, grid);
        row += layout->curves;
    }
    if (layout->fleet > 0) {
        draw_fleet(scene, view, row, layout->fleet, grid);
        row += layout->fleet;
    }
    if (layout->routers > 0) {
        draw_routers(&scene->overview->cluster, row, layout->routers, grid);
        row += layout->routers;
    }
    if (layout->hottest > 0) {
        draw_hottest(scene, row, layout->hottest, grid);
        row += layout->hottest;
    }
    if (layout->decisions > 0) {
        draw_decisions(scene, view, row, layout->decisions, grid);
    }
    if (layout->foot > 0) {
        draw_foot(view, grid);
    }
}

void top_screen_draw(const struct top_scene *scene, struct top_view *view, struct top_grid *out)
{
    if (out->width == 0 || out->height == 0) {
        return;
    }
    top_screen_draw_head(scene, view, out);
    if (view->shows_help) {
        draw_help(out);
    } else if (scene->overview != NULL) {
        struct layout layout = lay_out(scene, view, out);
        draw_parts(scene, view, &layout, out);
    } else if (out->height > 2 && scene->link.state == TOP_LOST) {
        struct top_pen pen = top_pen_at(out, 2);
        top_pen_put(&pen, TOP_DIM, scene->link.why);
    }
}
