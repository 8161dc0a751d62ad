// SPDX-License-Identifier: Apache-2.0

#include "metrics/metric_writer.h"

#include "base/base.h"
#include "base/decimal.h"
#include "base/text.h"
#include "metrics/meters.h"

#include <string.h>

// 20 digits and a point, and the bytes behind them that decimal_put overwrites.
enum { number_room = 21 + decimal_room };

void metric_begin(struct text *out, enum metric metric)
{
    const struct metric_row *row = metric_row(metric);
    text_add_str(out, "# HELP ");
    text_add_str(out, row->name);
    text_add_str(out, " ");
    text_add_str(out, row->help);
    text_add_str(out, "\n# TYPE ");
    text_add_str(out, row->name);
    text_add_str(out, " ");
    text_add_str(out, metric_type_name(row->type));
    text_add_str(out, "\n");
}

void metric_label(struct text *labels, const char *name, struct slice value)
{
    text_add_str(labels, labels->size > 0 ? "," : "");
    text_add_str(labels, name);
    text_add_str(labels, "=\"");
    size_t begin = 0;
    for (size_t i = 0; i < value.size; i++) {
        uint8_t byte = value.bytes[i];
        if (byte == '\\' || byte == '"' || byte == '\n') {
            text_add(labels, slice_of(value.bytes + begin, i - begin));
            text_add_str(labels, byte == '\n' ? "\\n" : byte == '"' ? "\\\"" : "\\\\");
            begin = i + 1;
        }
    }
    text_add(labels, slice_of(value.bytes + begin, value.size - begin));
    text_add_str(labels, "\"");
}

// Drops the zeros at the end of the fraction.  `at` has number_room bytes.
static uint8_t *metric_put_number(uint8_t *at, uint64_t value, uint32_t decimals)
{
    static const uint64_t powers[] = {1,      10,      100,      1000,      10000,
                                      100000, 1000000, 10000000, 100000000, 1000000000};

    ASSERT(decimals < ARRAY_COUNT(powers));
    uint64_t fraction = value % powers[decimals];
    at = decimal_put(at, value / powers[decimals]);
    if (fraction == 0) {
        return at;
    }
    // A 1 in front keeps the leading zeros of the fraction; the point replaces it.
    uint8_t *end = decimal_put(at, powers[decimals] + fraction);
    *at = '.';
    while (end[-1] == '0') {
        end--;
    }
    return end;
}

static uint8_t *metric_put_slice(uint8_t *at, struct slice slice)
{
    memcpy(at, slice.bytes, slice.size);
    return at + slice.size;
}

// The part of a line in front of its value.
struct metric_head {
    struct slice name;
    struct slice suffix; // of the name: "_sum"
    struct slice labels;
    struct slice more; // labels behind the others: le="0.1"
};

// All of a line at once: one check of the space, and copies.
static void metric_add_line(struct text *out, const struct metric_head *head, uint64_t value,
                            uint32_t decimals)
{
    size_t size_max = head->name.size + head->suffix.size + head->labels.size + head->more.size +
                      sizeof("{,} \n") + number_room;

    if (out->overflow || size_max > out->capacity - out->size) {
        out->overflow = true;
        return;
    }
    uint8_t *at = metric_put_slice(out->bytes + out->size, head->name);
    at = metric_put_slice(at, head->suffix);
    if (head->labels.size + head->more.size > 0) {
        *at++ = '{';
        at = metric_put_slice(at, head->labels);
        if (head->labels.size > 0 && head->more.size > 0) {
            *at++ = ',';
        }
        at = metric_put_slice(at, head->more);
        *at++ = '}';
    }
    *at++ = ' ';
    at = metric_put_number(at, value, decimals);
    *at++ = '\n';
    out->size = (size_t)(at - out->bytes);
}

static struct metric_head metric_head_of(enum metric metric, const char *suffix,
                                         struct slice labels)
{
    const struct metric_row *row = metric_row(metric);
    return (struct metric_head){.name = slice_of(row->name, row->name_size),
                                .suffix = slice_str(suffix),
                                .labels = labels,
                                .more = slice_str("")};
}

void metric_add(struct text *out, enum metric metric, struct slice labels, uint64_t value)
{
    struct metric_head head = metric_head_of(metric, "", labels);
    metric_add_line(out, &head, value, metric_row(metric)->decimals);
}

void metric_add_summary(struct text *out, enum metric metric, struct slice labels, uint64_t sum,
                        uint64_t count)
{
    struct metric_head sum_head = metric_head_of(metric, "_sum", labels);
    struct metric_head count_head = metric_head_of(metric, "_count", labels);
    metric_add_line(out, &sum_head, sum, metric_row(metric)->decimals);
    metric_add_line(out, &count_head, count, 0);
}

void metric_add_histogram(struct text *out, enum metric metric, struct slice labels,
                          const struct meter_scale *scale, const uint64_t *buckets, uint64_t sum_ns)
{
    struct metric_head head = metric_head_of(metric, "_bucket", labels);
    uint8_t bound[number_room + 8] = {'l', 'e', '=', '"'};
    uint64_t count = 0;

    for (uint32_t i = 0; i < scale->count; i++) {
        uint8_t *end = metric_put_number(bound + 4, meter_scale_bound_ns(scale, i),
                                         metric_row(metric)->decimals);
        *end = '"';
        head.more = slice_of(bound, (size_t)(end + 1 - bound));
        count += buckets[i];
        metric_add_line(out, &head, count, 0);
    }
    count += buckets[scale->count];
    head.more = slice_str("le=\"+Inf\"");
    metric_add_line(out, &head, count, 0);
    metric_add_summary(out, metric, labels, sum_ns, count);
}
