// SPDX-License-Identifier: Apache-2.0
//
// top_screen.h -- the screen of `warmpath top`, as a pure function of the router's documents, the
// view (scrolling, sorting, focus) and the size of the screen.
//
//     head        policy, version, uptime; live, or disconnected since       always
//     1 figures   hit rate and first token against round-robin, money        3 rows, curves 3 more
//     2 fleet     one row a backend                                          4 rows at least
//     3 hottest   prefixes that many requests share                          4 rows at least
//     4 decisions the last ones, each with its sentence                      5 rows at least
//     5 routers   the others of a cluster, if there is one                   2 rows at least
//     foot        the keys                                                   1 row
//
// A screen too low for all leaves out, in this order: hottest, routers, curves, decisions, foot,
// figures, fleet.  Spare rows go to the panel with the focus, two thirds at first, then to the
// others as far as they have something to show.  A narrow one leaves out columns of the fleet
// (top_fleet.h), puts the figures in fewer words, and shows one curve.
//
// Threads: none.  Memory: the caller's.
#pragma once

#include "cli/top/top_document.h"
#include "cli/top/top_grid.h"

enum top_panel { TOP_FIGURES, TOP_FLEET, TOP_HOTTEST, TOP_DECISIONS, TOP_ROUTERS, top_panel_count };

enum top_link_state {
    TOP_WAITING, // for the first response
    TOP_LIVE,
    TOP_LOST,
};

struct top_link {
    enum top_link_state state;
    double silent_s; // since the last response, or since the start
    const char *why; // of TOP_LOST
};

struct top_scene {
    const struct top_overview *overview; // NULL: nothing is known yet
    const struct top_history *history;
    const struct top_decisions *decisions;
    struct top_link link;
};

struct top_view {
    bool is_paused;
    bool shows_help;
    bool hides_foot;
    bool hides[top_panel_count];
    enum top_panel focus; // TOP_FLEET or TOP_DECISIONS; anything else is the fleet
    uint32_t order;       // of the fleet
    uint32_t scroll[top_panel_count];
    // Set by drawing, for paging.
    uint32_t page[top_panel_count];
};

// Onto a grid that was just reset.  Clamps `view->scroll` to the last row.
void top_screen_draw(const struct top_scene *scene, struct top_view *view, struct top_grid *out);
