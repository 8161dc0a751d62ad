// SPDX-License-Identifier: Apache-2.0
//
// top_fleet.h -- the backends as a table: which columns there are, which of them fit, in which
// order the rows come.
//
// One list says what is a column, how it is written and which go first on a narrow screen.  The
// first order is the router's own; the others are by a column, largest first, and by state, worst
// first.
#pragma once

#include "cli/top/top_document.h"
#include "cli/top/top_grid.h"

// The orders that `s` cycles through.
uint32_t top_fleet_order_count(void);
// "state", "in flight", ...
const char *top_fleet_order_name(uint32_t order);

struct top_fleet_rows {
    uint32_t first; // grid row of the head of the table
    uint32_t count; // grid rows, the head included
    uint32_t scroll;
    uint32_t order;
};

// Draws the head and the rows from `scroll` on.
void top_fleet_draw(const struct top_overview *overview, const struct top_fleet_rows *rows,
                    struct top_grid *out);

// A URL without the scheme that nearly all have.
const char *top_fleet_short_url(const char *url);
