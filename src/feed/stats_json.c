// SPDX-License-Identifier: Apache-2.0

#include "feed/stats_json.h"

#include "feed/exposition.h"
#include "json/json.h"

struct sink {
    uint32_t rank; // or exposition_all_ranks
    stats_json_fn *number;
    void *owner;
};

static void stats_take_member(const struct sink *sink, const struct json_item *item)
{
    double value = 0;
    if (item->value.kind == JSON_NUMBER && exposition_number(item->value.raw, &value)) {
        sink->number(sink->owner, item->key, value);
    }
}

static void stats_take_members(const struct sink *sink, struct slice object)
{
    struct json json = json_inside(object);
    struct json_item item;

    while (json_next_whole(&json, &item)) {
        stats_take_member(sink, &item);
        if (item.value.kind == JSON_OBJECT && json_string_is(item.key, "kvCacheStats")) {
            stats_take_members(sink, item.value.raw);
        }
    }
}

// An object without a rank counts for every rank.
static bool object_is_of_rank(const struct sink *sink, const struct json_value *object)
{
    struct json_value rank = json_member(object, "dp_rank");
    uint64_t number;

    return sink->rank == exposition_all_ranks || !json_uint(&rank, &number) || number == sink->rank;
}

// Every object of an array, or the last alone.
static void stats_take_elements(const struct sink *sink, struct slice array, bool last_alone)
{
    struct json json = json_inside(array);
    struct json_item item;
    struct slice last = slice_str("{}");

    while (json_next_whole(&json, &item)) {
        if (item.value.kind != JSON_OBJECT) {
            continue;
        }
        last = item.value.raw;
        if (!last_alone && object_is_of_rank(sink, &item.value)) {
            stats_take_members(sink, last);
        }
    }
    if (last_alone) {
        stats_take_members(sink, last);
    }
}

void stats_json_read(struct slice page, uint32_t rank, stats_json_fn *number, void *owner)
{
    const struct sink sink = {.rank = rank, .number = number, .owner = owner};
    static const char *const names[] = {"loads"};
    struct json_value loads = {0};

    if (json_find(page, names, 1, &loads) != STATUS_OK) { // which reads all of it
        return;
    }
    if (loads.kind == JSON_ARRAY) {
        stats_take_elements(&sink, loads.raw, false);
    } else if (exposition_json_bracket(page) == '[') {
        stats_take_elements(&sink, page, true);
    } else {
        stats_take_members(&sink, page);
    }
}
