// SPDX-License-Identifier: Apache-2.0

#include "metrics/metric_writer.h"

#include "base/base.h"
#include "base/text.h"
#include "metrics/meters.h"

#include <string.h>

enum {
    // 20 digits, a point and zeros in front of them.
    number_size_max = 32,
    decimals_max = 9,
};

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

static const char digit_pairs[] = "00010203040506070809"
                                  "10111213141516171819"
                                  "20212223242526272829"
                                  "30313233343536373839"
                                  "40414243444546474849"
                                  "50515253545556575859"
                                  "60616263646566676869"
                                  "70717273747576777879"
                                  "80818283848586878889"
                                  "90919293949596979899";

// Writes towards the front of `end`; returns the first digit.
static char *whole_before(char *end, uint64_t value)
{
    while (value >= 100) {
        end -= 2;
        memcpy(end, digit_pairs + value % 100 * 2, 2);
        value /= 100;
    }
    if (value >= 10) {
        end -= 2;
        memcpy(end, digit_pairs + value * 2, 2);
        return end;
    }
    *--end = (char)('0' + value);
    return end;
}

// The decimals without the zeros at their end.
static char *fraction_before(char *end, uint64_t fraction, uint32_t decimals)
{
    if (fraction == 0) {
        return end;
    }
    while (fraction % 10 == 0) {
        fraction /= 10;
        decimals--;
    }
    for (; decimals > 0; decimals--) {
        *--end = (char)('0' + fraction % 10);
        fraction /= 10;
    }
    *--end = '.';
    return end;
}

static char *number_before(char *end, uint64_t value, uint32_t decimals)
{
    static const uint64_t powers[decimals_max + 1] = {
        1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};

    ASSERT(decimals <= decimals_max);
    if (decimals == 0) {
        return whole_before(end, value);
    }
    return whole_before(fraction_before(end, value % powers[decimals], decimals),
                        value / powers[decimals]);
}

static uint8_t *put(uint8_t *at, const void *bytes, size_t size)
{
    memcpy(at, bytes, size);
    return at + size;
}

// The part of a line in front of its value.
struct head {
    struct slice name;
    struct slice suffix; // of the name: "_sum"
    struct slice labels;
    struct slice more; // labels behind the others: le="0.1"
};

// All of a line at once: one check of the space, and copies.
static void add_line(struct text *out, const struct head *head, uint64_t value, uint32_t decimals)
{
    char space[number_size_max];
    char *end = space + sizeof(space);
    char *number = number_before(end, value, decimals);
    size_t size_max = head->name.size + head->suffix.size + head->labels.size + head->more.size +
                      sizeof("{,} \n") + number_size_max;

    if (out->overflow || size_max > out->capacity - out->size) {
        out->overflow = true;
        return;
    }
    uint8_t *at = put(out->bytes + out->size, head->name.bytes, head->name.size);
    at = put(at, head->suffix.bytes, head->suffix.size);
    if (head->labels.size + head->more.size > 0) {
        *at++ = '{';
        at = put(at, head->labels.bytes, head->labels.size);
        if (head->labels.size > 0 && head->more.size > 0) {
            *at++ = ',';
        }
        at = put(at, head->more.bytes, head->more.size);
        *at++ = '}';
    }
    *at++ = ' ';
    at = put(at, number, (size_t)(end - number));
    *at++ = '\n';
    out->size = (size_t)(at - out->bytes);
}

static struct head head_of(enum metric metric, const char *suffix, struct slice labels)
{
    const struct metric_row *row = metric_row(metric);
    return (struct head){.name = slice_of(row->name, row->name_size),
                         .suffix = slice_str(suffix),
                         .labels = labels,
                         .more = slice_str("")};
}

void metric_add(struct text *out, enum metric metric, struct slice labels, uint64_t value,
                uint32_t decimals)
{
    struct head head = head_of(metric, "", labels);
    add_line(out, &head, value, decimals);
}

void metric_add_summary(struct text *out, enum metric metric, struct slice labels, uint64_t sum_us,
                        uint64_t count)
{
    struct head sum = head_of(metric, "_sum", labels);
    struct head number = head_of(metric, "_count", labels);
    add_line(out, &sum, sum_us, 6);
    add_line(out, &number, count, 0);
}

// le="0.001122462", in `space`.
static struct slice bound_label(char space[number_size_max + 8], uint64_t bound_ns)
{
    static const char before[] = {'l', 'e', '=', '"'};
    char *end = space + number_size_max + 8;
    *--end = '"';
    char *at = number_before(end, bound_ns, 9) - sizeof(before);
    memcpy(at, before, sizeof(before));
    return slice_of(at, (size_t)(end + 1 - at));
}

void metric_add_histogram(struct text *out, enum metric metric, struct slice labels,
                          const struct meter_scale *scale, const uint64_t *buckets, uint64_t sum_ns)
{
    struct head head = head_of(metric, "_bucket", labels);
    char space[number_size_max + 8];
    uint64_t count = 0;

    for (uint32_t i = 0; i < scale->count; i++) {
        count += buckets[i];
        head.more = bound_label(space, meter_scale_bound_ns(scale, i));
        add_line(out, &head, count, 0);
    }
    count += buckets[scale->count];
    head.more = slice_str("le=\"+Inf\"");
    add_line(out, &head, count, 0);

    struct head sum = head_of(metric, "_sum", labels);
    struct head number = head_of(metric, "_count", labels);
    add_line(out, &sum, sum_ns, 9);
    add_line(out, &number, count, 0);
}
