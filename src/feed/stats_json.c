// SPDX-License-Identifier: Apache-2.0

#include "feed/stats_json.h"

#include "feed/exposition.h"
#include "json/json.h"

struct sink {
    stats_json_fn *number;
    void *owner;
};

static void read_member(const struct sink *sink, const struct json_item *item)
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
        read_member(sink, &item);
        if (item.value.kind == JSON_OBJECT && json_string_is(item.key, "kvCacheStats")) {
            json_enter(&json);
            while (json_next(&json, &item)) {
                read_member(sink, &item);
            }
        }
    }
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
        if (!last_alone) {
            read_object(sink, last);
        }
    }
    if (last_alone && last.size > 0) {
        read_object(sink, last);
    }
}

void stats_json_read(struct slice page, stats_json_fn *number, void *owner)
{
    const struct sink sink = {.number = number, .owner = owner};
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
