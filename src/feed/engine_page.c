// SPDX-License-Identifier: Apache-2.0

#include "feed/engine_page.h"

#include "base/base.h"
#include "base/text.h"
#include "feed/stats_json.h"

struct page_reader {
    const struct engine_page_options *options;
    struct engine_tally *tallies;
    uint64_t sizes; // bit n: some name has n bytes, which rules out most lines
};

// The first row of that name from `from` on; row_count: there is none.
static uint32_t find_row(const struct engine_page_options *options, struct slice name,
                         uint32_t from)
{
    while (from < options->row_count && !exposition_name_is(name, options->rows[from].name)) {
        from++;
    }
    return from;
}

static void tally_add(struct engine_tally *tally, double value)
{
    tally->first = tally->first > 0 ? tally->first : value;
    tally->sum += value;
    tally->count++;
}

// vLLM and SGLang name the rank in a label.
static bool sample_is_of_rank(uint32_t rank, struct slice labels)
{
    static const char *const names[] = {"engine", "dp_rank"};
    uint64_t number;

    for (size_t i = 0; rank != exposition_all_ranks && i < ARRAY_COUNT(names); i++) {
        struct slice value = exposition_label(labels, names[i]);
        if (slice_parse_u64(value, &number) && number != rank) {
            return false;
        }
    }
    return true;
}

static bool sample_is_of_row(const struct engine_page_options *options,
                             const struct engine_row *row, struct slice labels)
{
    if (row->label == NULL) {
        return !options->skips_priorities || exposition_label(labels, "priority").size == 0;
    }
    return slice_is(exposition_label(labels, row->label), row->word);
}

static void page_take_series(struct page_reader *reader, const struct exposition_series *series)
{
    const struct engine_page_options *options = reader->options;
    struct slice name = series->name;
    bool may_match = name.size < 64 && (reader->sizes >> name.size & 1) != 0;
    uint32_t row = may_match ? find_row(options, name, 0) : options->row_count;
    struct exposition_sample sample;

    if (row == options->row_count || !exposition_sample(series, &sample) ||
        !sample_is_of_rank(options->rank, sample.labels)) {
        return;
    }
    for (; row < options->row_count; row = find_row(options, name, row + 1)) {
        if (options->rows[row].is_special) {
            options->special(options->owner, row, &sample);
        } else if (sample.has_value &&
                   sample_is_of_row(options, &options->rows[row], sample.labels)) {
            tally_add(&reader->tallies[row], sample.value);
        }
    }
}

static void page_take_number(void *owner, struct slice name, double value)
{
    struct page_reader *reader = owner;
    const struct engine_page_options *options = reader->options;
    uint32_t row = find_row(options, name, 0);
    if (row < options->row_count && !options->rows[row].is_special &&
        options->rows[row].label == NULL) {
        tally_add(&reader->tallies[row], value);
    }
}

void engine_page_read(struct slice page, const struct engine_page_options *options,
                      struct engine_tally *tallies)
{
    struct page_reader reader = {.options = options, .tallies = tallies};
    struct exposition text = exposition_open(page);
    struct exposition_series series;

    if (exposition_is_json(page)) {
        stats_json_read(page, options->rank, page_take_number, &reader);
        return;
    }
    for (uint32_t i = 0; i < options->row_count; i++) {
        size_t size = strlen(options->rows[i].name);
        ASSERT(size < 64);
        reader.sizes |= (uint64_t)1 << size;
    }
    while (exposition_next(&text, &series)) {
        page_take_series(&reader, &series);
    }
}

double engine_page_field(const struct engine_page_options *options,
                         const struct engine_tally *tallies, uint32_t field,
                         enum engine_combine combine)
{
    for (uint32_t i = 0; i < options->row_count; i++) {
        const struct engine_tally *tally = &tallies[i];
        bool is_there = combine == ENGINE_FIRST ? tally->first > 0 : tally->count > 0;
        if (options->rows[i].field != field || !is_there) {
            continue;
        }
        return combine == ENGINE_SUM    ? tally->sum
               : combine == ENGINE_MEAN ? tally->sum / tally->count
                                        : tally->first;
    }
    return -1;
}
