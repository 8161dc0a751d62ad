// SPDX-License-Identifier: Apache-2.0
//
// engine_page.h -- reads an engine's metrics page by a table of names.
//
// The page is Prometheus text (exposition.h) or JSON (stats_json.h).  Several series of one name,
// as data-parallel ranks have, are added up.  A page has thousands of lines: only those with a name
// of the table cost more than finding the end of the line.
//
// Any bytes may come: lines that are not metrics are skipped.
#pragma once

#include "feed/exposition.h"

struct engine_row {
    const char *name;
    uint32_t field; // this and `extra` are the table's own
    uint32_t extra;
    const char *label; // only series whose label has the value `word`; NULL: all
    const char *word;
    bool is_special; // goes to options->special instead of a tally
};

// The samples of one row.
struct engine_tally {
    double sum;
    double first; // above 0
    uint32_t count;
};

struct engine_page_options {
    const struct engine_row *rows; // several may have the same name
    uint32_t row_count;
    uint32_t rank; // series of other ranks are skipped; or exposition_all_ranks
    // SGLang has series for each priority beside the total, whose label is empty.
    bool skips_priorities;
    void (*special)(void *owner, uint32_t row, const struct exposition_sample *sample);
    void *owner;
};

// Adds to the tallies, one for each row.
void engine_page_read(struct slice page, const struct engine_page_options *options,
                      struct engine_tally *tallies);

enum engine_combine {
    ENGINE_SUM,
    ENGINE_MEAN,
    ENGINE_FIRST, // above 0
};

// The value of the first row of a field that the page has; negative when it has none.
double engine_page_field(const struct engine_page_options *options,
                         const struct engine_tally *tallies, uint32_t field,
                         enum engine_combine combine);
