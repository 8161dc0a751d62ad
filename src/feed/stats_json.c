// SPDX-License-Identifier: Apache-2.0

#include "feed/stats_json.h"

#include "base/text.h"
#include "feed/exposition.h"
#include "json/json.h"

struct sink {
    uint32_t rank; // or stats_json_all_ranks
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

// The object is well-formed.
static void read_object(const struct sink *sink, struct slice object)
{
    struct json json = json_open(object);
    struct json_item item;

    if (!json_next(&json, &item)) {
        return;
    }
    json_enter(&json);
    while (json_next(&json, &item)) {
        stats_take_member(sink, &item);
        if (item.value.kind == JSON_OBJECT && json_string_is(item.key, "kvCacheStats")) {
            json_enter(&json);
            while (json_next(&json, &item)) {
                stats_take_member(sink, &item);
            }
        }
    }
}

// One without a rank is everybody's.
static bool object_is_of_rank(const struct sink *sink, struct slice object)
{
    static const char *const names[] = {"dp_rank"};
    struct json_value rank[1] = {0};
    uint64_t number;

    return sink->rank == stats_json_all_ranks || json_find(object, names, 1, rank) != STATUS_OK ||
           rank[0].kind != JSON_NUMBER || !slice_parse_u64(rank[0].raw, &number) ||
           number == sink->rank;
}

// Every object of an array, or the last alone.
static void read_elements(const struct sink *sink, struct slice array, bool last_alone)
{
    struct json json = json_open(array);
    struct json_item item;
    struct slice last = {0};

    if (!json_next(&json, &item)) {
        return;
    }
    json_enter(&json);
    while (json_next(&json, &item)) {
        if (item.value.kind != JSON_OBJECT || !json_skip(&json, &item.value)) {
            continue;
        }
        last = item.value.raw;
        if (!last_alone && object_is_of_rank(sink, last)) {
            read_object(sink, last);
        }
    }
    if (last_alone && last.size > 0) {
        read_object(sink, last);
    }
}

void stats_json_read(struct slice page, uint32_t rank, stats_json_fn *number, void *owner)
{
    const struct sink sink = {.rank = rank, .number = number, .owner = owner};
    static const char *const names[] = {"loads"};
    struct json_value loads[1] = {0};

    if (json_find(page, names, 1, loads) != STATUS_OK) { // which reads all of it
        return;
    }
    if (loads[0].kind == JSON_ARRAY) {
        read_elements(&sink, loads[0].raw, false);
        return;
    }
    struct json json = json_open(page);
    struct json_item item;
    if (json_next(&json, &item) && json_skip(&json, &item.value)) {
        if (item.value.kind == JSON_ARRAY) {
            read_elements(&sink, item.value.raw, true);
        } else if (item.value.kind == JSON_OBJECT) {
            read_object(&sink, item.value.raw);
        }
    }
}
