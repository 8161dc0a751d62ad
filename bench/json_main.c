// SPDX-License-Identifier: Apache-2.0
//
// bench_json -- how fast JSON is read, beside cJSON: `bench_json --repetitions 9 --window-ms 100`.
//
// Prints one line for each figure: case, metric, value, unit.  Ours and cJSON take turns, window by
// window, and a figure is the median over the windows.  Time is that of the thread on its core, so
// what other programs take of the core is left out; what they take of its caches is not.

#include "api/response_body.h"
#include "base/base.h"
#include "bodies.h"
#include "flags.h"
#include "json/json.h"

#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { body_size = 200000, body_capacity = 256 * 1024 };
enum { chunk_count = 1024, chunk_capacity = 512 };
enum { repetitions_max = 99 };

// The input: one body, or many chunks one after the other.
struct load {
    struct slice *texts;
    uint32_t text_count;
    size_t size; // of all
};

// Reads one text to its end.  False when it is not JSON, which it is.
typedef bool (*read_fn)(struct slice text);

// As a router that ignores the prompt: finds the members that it acts upon and checks the rest to
// the last byte.
static bool find(struct slice text)
{
    static const char *const names[] = {"model", "stream", "max_tokens", "messages", "prompt"};
    struct json_value found[ARRAY_COUNT(names)];
    return json_find(text, names, ARRAY_COUNT(names), found) == STATUS_OK &&
           found[0].kind == JSON_STRING;
}

// As a router that reads the prompt, and more: enters every container and hands out every item.
static bool walk(struct slice text)
{
    struct json json = json_open(text);
    struct json_item item;
    uint32_t depth = 0;

    for (;;) {
        if (json_next(&json, &item)) {
            if (item.value.kind == JSON_OBJECT || item.value.kind == JSON_ARRAY) {
                json_enter(&json);
                depth++;
            }
        } else if (depth == 0) {
            return json_close(&json) == STATUS_OK;
        } else {
            depth--;
        }
    }
}

static bool answer(struct slice text)
{
    struct response_event event;
    response_read_event(PROMPT_CHAT, text, NULL, &event);
    return event.has_output;
}

static bool tree(struct slice text)
{
    cJSON *root = cJSON_ParseWithLength((const char *)text.bytes, text.size);
    bool good = root != NULL;
    cJSON_Delete(root);
    return good;
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void read_all(const struct load *load, read_fn read)
{
    for (uint32_t i = 0; i < load->text_count; i++) {
        bool good = read(load->texts[i]);
        ASSERT(good);
    }
}

// Nanoseconds to read the load once.
static double measure(const struct load *load, read_fn read, uint64_t window_ns)
{
    uint64_t begin = clock_ns();
    uint64_t spent = 0;
    uint64_t rounds = 0;

    while (spent < window_ns) {
        read_all(load, read);
        rounds++;
        spent = clock_ns() - begin;
    }
    return (double)spent / (double)rounds;
}

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

static double median(double *values, uint64_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

struct plan {
    uint64_t repetitions;
    uint64_t window_ns;
};

// The medians of several ways to read one load.
static void compete(const struct plan *plan, const struct load *load, const read_fn *reads,
                    uint32_t read_count, double *out)
{
    static double times[4][repetitions_max];
    ASSERT(read_count <= ARRAY_COUNT(times));

    for (uint64_t round = 0; round < plan->repetitions; round++) {
        for (uint32_t i = 0; i < read_count; i++) {
            times[i][round] = measure(load, reads[i], plan->window_ns);
        }
    }
    for (uint32_t i = 0; i < read_count; i++) {
        out[i] = median(times[i], plan->repetitions);
    }
}

static void figure(const char *name, const char *metric, double value, const char *unit)
{
    printf("%s %s %.6g %s\n", name, metric, value, unit);
    fflush(stdout);
}

static void bodies(const struct plan *plan)
{
    static uint8_t bytes[body_capacity];
    const read_fn reads[] = {find, walk, tree};
    double ns[ARRAY_COUNT(reads)];

    for (size_t i = 0; i < body_kind_count; i++) {
        const char *name = body_kinds[i].name;
        struct text text = text_over(bytes, sizeof(bytes));
        body_kinds[i].write(&text, body_size);
        ASSERT(!text.overflow);
        struct slice body = text_slice(&text);
        struct load load = {.texts = &body, .text_count = 1, .size = body.size};

        compete(plan, &load, reads, ARRAY_COUNT(reads), ns);
        double size = (double)load.size; // bytes in a nanosecond are gigabytes in a second
        figure(name, "gb_per_s", size / ns[0], "GB/s");
        figure(name, "walk_gb_per_s", size / ns[1], "GB/s");
        figure(name, "cjson_gb_per_s", size / ns[2], "GB/s");
        figure(name, "ratio_cjson", ns[2] / ns[0], "x");
    }
}

static void chunks(const struct plan *plan)
{
    static uint8_t bytes[chunk_count][chunk_capacity];
    static struct slice texts[chunk_count];
    const read_fn reads[] = {answer, walk, tree};
    double ns[ARRAY_COUNT(reads)];
    struct load load = {.texts = texts, .text_count = chunk_count};

    for (uint32_t i = 0; i < chunk_count; i++) {
        struct text text = text_over(bytes[i], chunk_capacity);
        body_write_chunk(&text, i);
        ASSERT(!text.overflow);
        texts[i] = text_slice(&text);
        load.size += text.size;
    }
    compete(plan, &load, reads, ARRAY_COUNT(reads), ns);
    figure("chunk_200", "bytes", (double)load.size / chunk_count, "B");
    figure("chunk_200", "answer_ns", ns[0] / chunk_count, "ns");
    figure("chunk_200", "walk_ns", ns[1] / chunk_count, "ns");
    figure("chunk_200", "cjson_ns", ns[2] / chunk_count, "ns");
    figure("chunk_200", "ratio_cjson", ns[2] / ns[0], "x");
}

int main(int argc, char **argv)
{
    uint64_t repetitions = 9;
    uint64_t window_ms = 100;
    const struct flag flags[] = {{.name = "repetitions", .number = &repetitions},
                                 {.name = "window-ms", .number = &window_ms}};
    if (!flags_read(flags, ARRAY_COUNT(flags), argc - 1, argv + 1)) {
        return 2;
    }
    if (repetitions == 0 || repetitions > repetitions_max) {
        fprintf(stderr, "repetitions: 1 to %d\n", repetitions_max);
        return 2;
    }
    const struct plan plan = {.repetitions = repetitions, .window_ns = window_ms * 1000000};
    bodies(&plan);
    chunks(&plan);
    return 0;
}
