// SPDX-License-Identifier: Apache-2.0
//
// tokenizer_encode_stream -- texts in, ids out, to be compared with another implementation.
//
//     tokenizer_encode_stream FILE [--special] [--parts] [--repeat N]
//     tokenizer_encode_stream --ranks FILE --pattern NAME [...]
//
// Reads documents from standard input, each a size of four bytes and that many bytes, and writes
// for each the count of its ids and the ids, four bytes each; a count of 0xffffffff: refused.
// Numbers are the machine's own.  With --parts each document is encoded again in the parts that its
// cuts make, and again with no room to spare: a difference ends the program.  With --repeat each is
// encoded so many times more.  At the end standard error gets a line of figures.

#include "base/base.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct options {
    const char *file;
    const char *pattern; // NULL: the file is a tokenizer.json
    bool adds_special;
    bool has_parts;
    unsigned long repeat;
};

struct stream {
    const struct options *options;
    struct tokenizer *tokenizer;
    struct tokenizer_scratch *scratch;
    uint8_t *text;
    uint32_t *ids;
    uint32_t *other_ids;
    size_t text_capacity;
    uint64_t byte_count;
    uint64_t id_count;
    uint64_t cut_count;
    double seconds;
};

// Of the processor: machines are shared.
static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static _Noreturn void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    _Exit(1);
}

static void *take(void *old, size_t size)
{
    void *taken = realloc(old, size);
    if (taken == NULL) {
        fail("memory", "is short");
    }
    return taken;
}

// The caller's, to free.
static uint8_t *read_file(const char *path, size_t *read_size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    size_t size = 0;
    size_t count;

    if (file == NULL) {
        fail(path, "cannot be opened");
    }
    do {
        bytes = take(bytes, size + (1 << 22));
        count = fread(bytes + size, 1, 1 << 22, file);
        size += count;
    } while (count > 0);
    fclose(file);
    *read_size = size;
    return bytes;
}

static struct tokenizer *load(const struct options *options)
{
    struct tokenizer_error error;
    struct tokenizer *tokenizer = NULL;
    size_t size;
    uint8_t *bytes = read_file(options->file, &size);
    struct slice file = slice_of(bytes, size);
    double begin = now();

    const struct tokenizer_ranks ranks = {.file = file, .pattern = options->pattern};
    enum status status = options->pattern != NULL ? tokenizer_load_ranks(&ranks, &tokenizer, &error)
                                                  : tokenizer_load(file, &tokenizer, &error);
    if (status != STATUS_OK) {
        fail(options->file, error.text);
    }
    fprintf(stderr, "%s: loaded in %.0f ms, %.1f MB, %u ids, %s\n", options->file,
            (now() - begin) * 1e3, (double)tokenizer_memory(tokenizer) / 1e6,
            (unsigned)tokenizer_id_count(tokenizer),
            tokenizer_has_cuts(tokenizer) ? "has cuts" : "no cuts");
    free(bytes);
    return tokenizer;
}

static size_t encode(struct stream *stream, const struct tokenizer_input *input, uint32_t *ids,
                     size_t capacity, enum status expected)
{
    size_t count = 0;
    enum status status =
        tokenizer_encode(stream->tokenizer, stream->scratch, input, ids, capacity, &count);
    if (status != expected) {
        fail("a document or its part", status_text(status));
    }
    return count;
}

static void compare(const struct stream *stream, size_t count, size_t other_count)
{
    if (count != other_count ||
        memcmp(stream->ids, stream->other_ids, count * sizeof(*stream->ids)) != 0) {
        fail("a document", "has other ids in parts, or with no room to spare");
    }
}

static void check_parts(struct stream *stream, struct slice text, size_t count)
{
    size_t other_count = 0;
    size_t begin = 0;
    do {
        size_t end = tokenizer_cut(stream->tokenizer, text, begin + 1);
        const struct tokenizer_input part = {
            .text = slice_of(text.bytes + begin, end - begin),
            .adds_special = stream->options->adds_special,
            .continues = begin > 0,
            .is_continued = end < text.size,
        };
        size_t capacity = tokenizer_bound(stream->tokenizer, text.size) - other_count;
        other_count += encode(stream, &part, stream->other_ids + other_count, capacity, STATUS_OK);
        stream->cut_count += end < text.size;
        begin = end;
    } while (begin < text.size);
    compare(stream, count, other_count);

    const struct tokenizer_input whole = {.text = text,
                                          .adds_special = stream->options->adds_special};
    compare(stream, count, encode(stream, &whole, stream->other_ids, count, STATUS_OK));
    if (count > 0) {
        encode(stream, &whole, stream->other_ids, count - 1, STATUS_TOO_LARGE);
    }
}

static void answer(struct stream *stream, struct slice text)
{
    const struct tokenizer_input input = {.text = text,
                                          .adds_special = stream->options->adds_special};
    size_t capacity = tokenizer_bound(stream->tokenizer, text.size);
    size_t count = 0;
    enum status status = STATUS_OK;
    double begin = now();

    for (unsigned long i = 0; i <= stream->options->repeat; i++) {
        status = tokenizer_encode(stream->tokenizer, stream->scratch, &input, stream->ids, capacity,
                                  &count);
        stream->byte_count += text.size;
    }
    stream->seconds += now() - begin;
    uint32_t answered = status == STATUS_OK ? (uint32_t)count : UINT32_MAX;
    fwrite(&answered, sizeof(answered), 1, stdout);
    if (status == STATUS_OK) {
        fwrite(stream->ids, sizeof(*stream->ids), count, stdout);
        stream->id_count += count;
        if (stream->options->has_parts) {
            check_parts(stream, text, count);
        }
    }
    fflush(stdout);
}

static void grow(struct stream *stream, uint32_t size)
{
    size_t capacity = tokenizer_bound(stream->tokenizer, size) + 1;
    stream->text_capacity = (size_t)size + 1;
    stream->text = take(stream->text, stream->text_capacity);
    stream->ids = take(stream->ids, capacity * sizeof(*stream->ids));
    stream->other_ids = take(stream->other_ids, capacity * sizeof(*stream->ids));
}

static void run(struct stream *stream)
{
    uint32_t size;

    grow(stream, 0);
    while (fread(&size, sizeof(size), 1, stdin) == 1) {
        if (size >= stream->text_capacity) {
            grow(stream, size);
        }
        if (fread(stream->text, 1, size, stdin) != size) {
            fail("standard input", "ends within a document");
        }
        answer(stream, slice_of(stream->text, size));
    }
    fprintf(stderr, "%.1f MB in %.3f s: %.1f MB/s; %llu ids, %llu cuts\n",
            (double)stream->byte_count / 1e6, stream->seconds,
            (double)stream->byte_count / 1e6 / stream->seconds,
            (unsigned long long)stream->id_count, (unsigned long long)stream->cut_count);
}

static struct options parse(int argc, char **argv)
{
    struct options options = {0};
    for (int i = 1; i < argc; i++) {
        const char *flag = argv[i];
        bool has_next = i + 1 < argc;
        if (strcmp(flag, "--special") == 0) {
            options.adds_special = true;
        } else if (strcmp(flag, "--parts") == 0) {
            options.has_parts = true;
        } else if (strcmp(flag, "--ranks") == 0 && has_next) {
            options.file = argv[++i];
        } else if (strcmp(flag, "--pattern") == 0 && has_next) {
            options.pattern = argv[++i];
        } else if (strcmp(flag, "--repeat") == 0 && has_next) {
            options.repeat = strtoul(argv[++i], NULL, 10);
        } else {
            options.file = flag;
        }
    }
    if (options.file == NULL) {
        fail("usage", "tokenizer_encode_stream FILE, or --ranks FILE --pattern NAME");
    }
    return options;
}

int main(int argc, char **argv)
{
    const struct options options = parse(argc, argv);
    struct stream stream = {.options = &options, .tokenizer = load(&options)};

    stream.scratch = tokenizer_scratch_create(stream.tokenizer);
    if (stream.scratch == NULL) {
        fail("memory", "is short");
    }
    run(&stream);
    tokenizer_scratch_destroy(&stream.scratch);
    tokenizer_destroy(&stream.tokenizer);
    free(stream.text);
    free(stream.ids);
    free(stream.other_ids);
    return 0;
}
