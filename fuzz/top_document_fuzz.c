// SPDX-License-Identifier: Apache-2.0
//
// For any input: a document is read exactly if it is an object with its list; no list is longer
// than its limit; strings end, are UTF-8 and have no control character; and the result can be
// joined to the last one and drawn at any size, in either character set.

#include "base/base.h"
#include "base/utf8.h"
#include "cli/top/top_document.h"
#include "cli/top/top_fleet.h"
#include "cli/top/top_screen.h"
#include "fuzz.h"
#include "json/json.h"

static struct top_overview overview;
static struct top_decisions fresh;
static struct top_decisions kept;
static struct top_history history;
static struct top_grid grid;

static bool has_list(struct slice body, const char *name)
{
    struct json_value value[1] = {0};
    return json_find(body, &name, 1, value) == STATUS_OK && value[0].kind == JSON_ARRAY;
}

static void check_text(const char *text, size_t size)
{
    const char *end = memchr(text, '\0', size);
    ASSERT(end != NULL);
    ASSERT(utf8_is_valid(slice_of(text, (size_t)(end - text))));
    for (; text < end; text++) {
        ASSERT((uint8_t)*text >= ' ' && *text != 0x7f);
    }
}

static void check_overview(void)
{
    ASSERT(overview.backend_count <= top_backend_max);
    ASSERT(overview.backend_count <= overview.backend_total);
    ASSERT(overview.hot_count <= top_hot_max && overview.series.count <= top_point_max);
    check_text(overview.version, sizeof(overview.version));
    check_text(overview.policy, sizeof(overview.policy));
    check_text(overview.currency, sizeof(overview.currency));
    for (uint32_t i = 0; i < overview.backend_count; i++) {
        check_text(overview.backends[i].url, top_url_size);
        check_text(overview.backends[i].state, top_word_size);
    }
    ASSERT(overview.cluster.router_count <= top_router_max);
    check_text(overview.cluster.why, top_word_size);
    for (uint32_t i = 0; i < overview.cluster.router_count; i++) {
        check_text(overview.cluster.routers[i].name, top_word_size);
        check_text(overview.cluster.routers[i].address, top_word_size);
        check_text(overview.cluster.routers[i].why, top_word_size);
    }
    for (uint32_t i = 0; i < overview.hot_count; i++) {
        ASSERT(overview.hot[i].shown_count <= top_holder_max);
        check_text(overview.hot[i].prefix, top_word_size);
    }
}

static void check_decisions(const struct top_decisions *decisions)
{
    ASSERT(decisions->count <= top_decision_max && decisions->serial >= 0);
    for (uint32_t i = 0; i < decisions->count; i++) {
        check_text(decisions->rows[i].model, top_word_size);
        check_text(decisions->rows[i].outcome, top_word_size);
        check_text(decisions->rows[i].backend, top_url_size);
        check_text(decisions->rows[i].why, top_sentence_size);
    }
}

static void check_drawn(uint32_t width, uint32_t height, bool is_ascii, uint32_t order)
{
    struct top_scene scene = {.overview = &overview,
                              .history = &history,
                              .decisions = &kept,
                              .link = {.state = TOP_LIVE}};
    struct top_view view = {.order = order % top_fleet_order_count(),
                            .focus = is_ascii ? TOP_DECISIONS : TOP_FLEET};
    top_grid_reset(&grid, width, height, is_ascii);
    top_screen_draw(&scene, &view, &grid);
    for (uint32_t i = 0; i < grid.width * grid.height; i++) {
        uint32_t code = grid.cells[i].code;
        ASSERT(code == 0 || (code >= ' ' && code != 0x7f && (code < 0x80 || code > 0xa0)));
        ASSERT(!is_ascii || (code >= ' ' && code < 0x7f));
        ASSERT(code != 0 || i % grid.width > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct slice body = slice_of(bytes, size);
    uint32_t shape = 0;
    for (size_t i = 0; i < size; i++) {
        shape = shape * 31 + bytes[i];
    }
    history.count = 0;
    kept.count = 0;
    kept.serial = 0;

    enum status status = top_decisions_read(body, &fresh);
    ASSERT(status == (has_list(body, "decisions") ? STATUS_OK : STATUS_MALFORMED));
    if (status == STATUS_OK) {
        check_decisions(&fresh);
        top_decisions_join(&kept, &fresh);
        top_decisions_join(&kept, &fresh);
        check_decisions(&kept);
    }
    status = top_overview_read(body, &overview);
    ASSERT(status == (has_list(body, "backends") ? STATUS_OK : STATUS_MALFORMED));
    if (status == STATUS_OK) {
        check_overview();
        top_history_join(&history, &overview);
        top_history_join(&history, &overview);
        ASSERT(history.count <= top_point_max);
        check_drawn(80, 24, false, shape);
        check_drawn(shape % 230, shape / 230 % 70, shape % 2 == 0, shape >> 8);
    }
    return 0;
}
