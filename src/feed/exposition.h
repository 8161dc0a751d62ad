// SPDX-License-Identifier: Apache-2.0
//
// exposition.h -- Prometheus text, one series at a time.
//
//     struct exposition page = exposition_open(body);
//     struct exposition_series series;
//     struct exposition_sample sample;
//     while (exposition_next(&page, &series)) {
//         if (exposition_name_is(series.name, "vllm:prompt_tokens") &&
//             exposition_sample(&series, &sample) && sample.has_value) {
//             ...
//         }
//     }
//
// A page has thousands of lines, of which few matter: call exposition_sample only for wanted names.
// Any bytes may come: lines that are not series are skipped.
//
// Memory: everything points into the page.
#pragma once

#include "base/slice.h"

// Larger counts are invalid; sums of thousands of values below it are still exact enough.
#define EXPOSITION_VALUE_MAX 1e15

// For readers of pages with series of several data-parallel ranks.
enum { exposition_all_ranks = UINT32_MAX };

// The rest of a page.  Its fields are private.
struct exposition {
    const uint8_t *at;
    const uint8_t *end;
};

struct exposition_series {
    struct slice name; // without the prefix of Ray and the suffix of counters
    struct slice rest; // of the line
};

struct exposition_sample {
    struct slice labels; // empty: none
    bool has_value;      // a plain number, neither negative nor above the limit
    double value;
};

struct exposition exposition_open(struct slice page);

// Skips comments and empty lines.  False at the end.
bool exposition_next(struct exposition *page, struct exposition_series *out);

// False when the labels cannot be read.
bool exposition_sample(const struct exposition_series *series, struct exposition_sample *out);

// The value with its escapes; empty without such a label.
struct slice exposition_label(struct slice labels, const char *wanted);

// A colon and an underscore are equal, because some exporters rewrite names.
bool exposition_name_is(struct slice name, const char *known);

// False unless the text is a plain number from 0 to the limit: NaN and infinities mean nothing, and
// negative values mean "not reported" to callers.
bool exposition_number(struct slice text, double *out);

// The bracket that opens a JSON document, which TensorRT-LLM serves where others have text; 0 for
// text.
char exposition_json_bracket(struct slice page);

static inline bool exposition_is_json(struct slice page)
{
    return exposition_json_bracket(page) != 0;
}
