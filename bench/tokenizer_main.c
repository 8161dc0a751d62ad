// SPDX-License-Identifier: Apache-2.0
//
// bench_tokenizer -- how fast text becomes ids, on one core:
// `bench_tokenizer --tokenizer tokenizer.json --documents FILE --repetitions 5 --window-ms 200`.
//
// FILE has documents, each after its size in four bytes.  Prints one line for each figure: metric,
// value, unit.  Cold is a fresh scratch that sees every document once; warm is a scratch that has
// seen them all.  Time is that of the thread on its core.  The number of ids and their sum let the
// caller see that they are the right ones.

#include "base/base.h"
#include "flags.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { repetitions_max = 99 };

struct plan {
    uint64_t repetitions;
    uint64_t window_ns;
};

struct documents {
    struct slice *texts;
    size_t count;
    size_t size; // of all
    size_t longest;
};

struct bench {
    const struct plan *plan;
    const struct tokenizer *tokenizer;
    struct documents documents;
    uint32_t *ids;
    size_t capacity;
};

// Calls of the allocator by our code: all go through these (see meson.build).
static uint64_t allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *bytes);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *bytes);

void *__wrap_malloc(size_t size)
{
    allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    allocations++;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    allocations++;
    return __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    allocations++;
    return __real_aligned_alloc(alignment, size);
}

char *__wrap_strdup(const char *text)
{
    allocations++;
    return __real_strdup(text);
}

void __wrap_free(void *bytes)
{
    __real_free(bytes);
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
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

static void figure(const char *metric, double value, const char *unit)
{
    printf("%s %.12g %s\n", metric, value, unit);
    fflush(stdout);
}

// The caller frees the bytes; NULL, with the reason on standard error, when there are none to read.
static uint8_t *read_file(const char *path, size_t *out)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    FILE *file = fopen(path, "rb");
    if (file && fseek(file, 0, SEEK_END) == 0) {
        size = (size_t)ftell(file);
        bytes = malloc(size + 1);
        ASSERT(bytes);
        rewind(file);
    }
    if (!file || fread(bytes, 1, size, file) != size) {
        perror(path);
        free(bytes);
        bytes = NULL;
        size = 0;
    }
    if (file) {
        fclose(file);
    }
    *out = size;
    return bytes;
}

static struct documents documents_in(struct slice file)
{
    struct documents documents = {.texts = calloc(file.size / 4 + 1, sizeof(struct slice))};
    ASSERT(documents.texts);

    for (size_t at = 0; at + 4 <= file.size;) {
        uint32_t size;
        memcpy(&size, file.bytes + at, sizeof(size));
        at += sizeof(size);
        ASSERT(size <= file.size - at);
        documents.texts[documents.count++] = slice_of(file.bytes + at, size);
        documents.size += size;
        documents.longest = size > documents.longest ? size : documents.longest;
        at += size;
    }
    return documents;
}

static size_t encode(const struct bench *bench, struct tokenizer_scratch *scratch,
                     struct slice text)
{
    size_t count = 0;
    enum status status =
        tokenizer_encode(bench->tokenizer, scratch, &(struct tokenizer_input){.text = text},
                         bench->ids, bench->capacity, &count);
    ASSERT(status == STATUS_OK);
    return count;
}

static void encode_all(const struct bench *bench, struct tokenizer_scratch *scratch)
{
    for (size_t i = 0; i < bench->documents.count; i++) {
        encode(bench, scratch, bench->documents.texts[i]);
    }
}

static double mb_per_s(const struct bench *bench, double ns)
{
    return (double)bench->documents.size * 1e3 / ns;
}

// The median over fresh scratches.
static double cold(const struct bench *bench)
{
    double times[repetitions_max];
    for (uint64_t round = 0; round < bench->plan->repetitions; round++) {
        struct tokenizer_scratch *scratch = tokenizer_scratch_create(bench->tokenizer);
        ASSERT(scratch);
        uint64_t begin = clock_ns();
        encode_all(bench, scratch);
        times[round] = (double)(clock_ns() - begin);
        tokenizer_scratch_destroy(&scratch);
    }
    return mb_per_s(bench, median(times, bench->plan->repetitions));
}

static double window(const struct bench *bench, struct tokenizer_scratch *scratch)
{
    uint64_t begin = clock_ns();
    uint64_t spent = 0;
    uint64_t rounds = 0;
    while (spent < bench->plan->window_ns) {
        encode_all(bench, scratch);
        rounds++;
        spent = clock_ns() - begin;
    }
    return (double)spent / (double)rounds;
}

static void warm(const struct bench *bench)
{
    double times[repetitions_max];
    struct tokenizer_scratch *scratch = tokenizer_scratch_create(bench->tokenizer);
    ASSERT(scratch);

    uint64_t before = allocations;
    double count = 0;
    double sum = 0;
    for (size_t i = 0; i < bench->documents.count; i++) {
        size_t found = encode(bench, scratch, bench->documents.texts[i]);
        for (size_t id = 0; id < found; id++) {
            sum += bench->ids[id];
        }
        count += (double)found;
    }
    for (uint64_t round = 0; round < bench->plan->repetitions; round++) {
        times[round] = window(bench, scratch);
    }
    figure("allocations", (double)(allocations - before), "1");
    figure("warm_mb_per_s", mb_per_s(bench, median(times, bench->plan->repetitions)), "MB/s");
    figure("tokens", count, "1");
    figure("sum_of_ids", sum, "1");
    tokenizer_scratch_destroy(&scratch);
}

// A tokenizer, and what it took to load it.
static struct tokenizer *load(const char *path)
{
    size_t size = 0;
    uint8_t *json = read_file(path, &size);
    struct tokenizer *tokenizer = NULL;
    struct tokenizer_error error;

    uint64_t begin = clock_ns();
    if (!json) {
        return NULL;
    }
    if (tokenizer_load(slice_of(json, size), &tokenizer, &error) == STATUS_OK) {
        figure("load_ms", (double)(clock_ns() - begin) / 1e6, "ms");
        figure("memory_mb", (double)tokenizer_memory(tokenizer) / 1e6, "MB");
    } else {
        fprintf(stderr, "%s: %s\n", path, error.text);
    }
    free(json);
    return tokenizer;
}

static bool run(const struct plan *plan, const char *tokenizer_path, const char *documents_path)
{
    size_t size = 0;
    uint8_t *file = read_file(documents_path, &size);
    struct tokenizer *tokenizer = load(tokenizer_path);
    bool can_measure = tokenizer && size > 0;

    if (can_measure) {
        struct bench bench = {
            .plan = plan, .tokenizer = tokenizer, .documents = documents_in(slice_of(file, size))};
        bench.capacity = tokenizer_bound(tokenizer, bench.documents.longest);
        bench.ids = calloc(bench.capacity, sizeof(*bench.ids));
        ASSERT(bench.ids && bench.documents.count > 0);
        figure("cold_mb_per_s", cold(&bench), "MB/s");
        warm(&bench);
        free(bench.ids);
        free(bench.documents.texts);
    }
    free(file);
    tokenizer_destroy(&tokenizer);
    return can_measure;
}

int main(int argc, char **argv)
{
    uint64_t repetitions = 5;
    uint64_t window_ms = 200;
    const char *tokenizer = NULL;
    const char *documents = NULL;
    const struct flag flags[] = {{.name = "repetitions", .number = &repetitions},
                                 {.name = "window-ms", .number = &window_ms},
                                 {.name = "tokenizer", .text = &tokenizer},
                                 {.name = "documents", .text = &documents}};
    if (!flags_read(flags, ARRAY_COUNT(flags), argc - 1, argv + 1)) {
        return 2;
    }
    if (!tokenizer || !documents || repetitions == 0 || repetitions > repetitions_max) {
        fprintf(stderr, "needed: --tokenizer FILE --documents FILE; repetitions: 1 to %d\n",
                repetitions_max);
        return 2;
    }
    const struct plan plan = {.repetitions = repetitions, .window_ns = window_ms * 1000000};
    return run(&plan, tokenizer, documents) ? 0 : 1;
}
