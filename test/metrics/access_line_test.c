// SPDX-License-Identifier: Apache-2.0

#include "metrics/access_line.h"

#include "base/rng.h"
#include "json/json.h"
#include "metrics/receipt.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

// SOURCE_ROOT comes from meson.build.
static const char docs_path[] = SOURCE_ROOT "/docs/logs.md";

static _Alignas(8) uint8_t memory[receipt_size_max];
static char space[access_line_size_max + 1];

static const struct receipt *written(struct receipt receipt, struct slice id, struct slice model,
                                     struct slice path)
{
    struct receipt_parts parts = {
        .id = id, .model = model, .url = slice_str("http://10.0.0.7:8000"), .path = path};
    receipt.id_size = (uint16_t)id.size;
    receipt.model_size = (uint16_t)model.size;
    receipt.url_size = receipt.decision.chosen.backend != 0 ? (uint16_t)parts.url.size : 0;
    receipt.path_size = (uint16_t)path.size;
    receipt_write(&receipt, &parts, memory);
    return (const struct receipt *)memory;
}

static struct access_second second;

static const char *line(void (*write)(const struct receipt *, enum access_slow,
                                      struct access_second *, struct text *),
                        const struct receipt *receipt, enum access_slow slow)
{
    struct text text = text_over(space, access_line_size_max);
    write(receipt, slow, &second, &text);
    ASSERT(!text.overflow);
    space[text.size] = '\0';
    return space;
}

static const struct receipt usual = {
    .wall_us = 1772366400250999,
    .trace = {0x0af7651916cd43dd, 0x8448eb211c80319c},
    .decision.chosen.backend = 3,
    .outcome = RECEIPT_OK,
    .status = 200,
    .decision.policy = &policy_warm,
    .attempts = 1,
    .request_bytes = 5120,
    .response_bytes = 20480,
    .is_streamed = true,
    .first_us = 43210,
    .last_us = 725290,
    .end_us = 725300,
    .stage_ns = {3100, 40200, 1900, 400, 0},
    .prompt_tokens = 1200,
    .decision.chosen.expected_tokens = 1000,
    .cached_tokens = 1024,
    .output_tokens = 85,
    .has_cached_tokens = true,
    .saved_us = 96000,
    .decision.candidate_count = 4,
    .decision.chosen.running_requests = 2,
    .decision.chosen.queued_tokens = 310,
    .decision.chosen.wait_ms = 1.5F,
    .decision.chosen.prefill_ms = 40,
    .decision.chosen.cost = 1,
};

static const struct receipt *usual_one(void)
{
    return written(usual, slice_str("6f1c2a"), slice_str("llama"),
                   slice_str("/v1/chat/completions"));
}

TEST(a_line_of_json_has_all_there_is_to_know)
{
    CHECK_STR(line(access_line_json, usual_one(), ACCESS_NOT_SLOW),
              "{\"time\":\"2026-03-01T12:00:00.250Z\",\"id\":\"6f1c2a\","
              "\"trace_id\":\"0af7651916cd43dd8448eb211c80319c\",\"model\":\"llama\","
              "\"path\":\"/v1/chat/completions\",\"policy\":\"warm\","
              "\"backend\":{\"id\":3,\"url\":\"http://10.0.0.7:8000\"},\"outcome\":\"ok\","
              "\"status\":200,\"attempts\":1,\"streamed\":true,"
              "\"prompt_tokens\":1200,\"expected_tokens\":1000,\"cached_tokens\":1024,"
              "\"output_tokens\":85,\"by_events\":false,\"candidates\":4,\"running_requests\":2,"
              "\"queued_tokens\":310,\"predicted_ms\":41.500,\"ttft_ms\":43.210,"
              "\"tpot_ms\":8.120,\"total_ms\":725.300,\"saved_ms\":96.000,"
              "\"stages_us\":{\"parse\":3.1,\"tokenize\":40.2,\"match\":1.9,"
              "\"decide\":0.4,\"queue\":0.0},\"request_bytes\":5120,\"answer_bytes\":20480}\n");
}

TEST(a_line_of_text_has_what_people_ask_for)
{
    CHECK_STR(line(access_line_text, usual_one(), ACCESS_SLOW_TOTAL),
              "2026-03-01T12:00:00.250Z 200 ok http://10.0.0.7:8000 llama /v1/chat/completions "
              "prompt=1200 expected=1000 cached=1024 output=85 predicted=41.500ms ttft=43.210ms "
              "tpot=8.120ms total=725.300ms slow=total id=6f1c2a\n");
}

TEST(unknown_values_are_null)
{
    struct receipt receipt = {
        .outcome = RECEIPT_REFUSED, .problem = "no_backend", .decision.chosen.wait_ms = NAN};
    const struct receipt *refused =
        written(receipt, slice_str("x"), slice_str(""), slice_str("/v1/completions"));

    line(access_line_json, refused, ACCESS_NOT_SLOW);
    static const char *const nulls[] = {"policy",  "backend", "status",   "cached_tokens",
                                        "ttft_ms", "tpot_ms", "total_ms", "predicted_ms"};
    for (size_t i = 0; i < ARRAY_COUNT(nulls); i++) {
        char key[64];
        snprintf(key, sizeof(key), "\"%s\":null,", nulls[i]);
        CHECK(strstr(space, key) != NULL);
    }
    CHECK(strstr(space, "\"problem\":\"no_backend\"") != NULL);
    line(access_line_text, refused, ACCESS_NOT_SLOW);
    CHECK(strstr(space, "Z --- refused (no_backend) - - /v1/completions prompt=0 ") != NULL);
}

TEST(a_prediction_that_is_not_a_number_is_null)
{
    static const float values[] = {NAN, INFINITY, -INFINITY, -1, 1e30F};
    for (size_t i = 0; i < ARRAY_COUNT(values); i++) {
        struct receipt receipt = usual;
        receipt.decision.chosen.prefill_ms = values[i];
        receipt.decision.chosen.wait_ms = 0;
        line(access_line_json, written(receipt, slice_str("x"), slice_str("m"), slice_str("/")),
             ACCESS_NOT_SLOW);
        CHECK(strstr(space, "\"predicted_ms\":null,") != NULL);
    }
}

TEST(rare_fields_are_left_out_of_other_lines)
{
    struct receipt receipt = {.outcome = RECEIPT_REFUSED, .problem = "no_backend"};
    line(access_line_json, usual_one(), ACCESS_NOT_SLOW);
    CHECK(strstr(space, "\"trace_id\":\"0af7") != NULL);
    CHECK(strstr(space, "problem") == NULL);
    line(access_line_json, written(receipt, slice_str("x"), slice_str("m"), slice_str("/")),
         ACCESS_NOT_SLOW);
    CHECK(strstr(space, "trace_id") == NULL);
    CHECK(strstr(space, ",\"status\":null,\"problem\":\"no_backend\",\"attempts\":0,") != NULL);
}

TEST(stages_are_rounded_to_tenths_of_a_microsecond)
{
    struct receipt receipt = usual;
    receipt.stage_ns[RECEIPT_STAGE_PARSE] = 49;
    receipt.stage_ns[RECEIPT_STAGE_TOKENIZE] = 50;
    receipt.stage_ns[RECEIPT_STAGE_MATCH] = UINT32_MAX;
    line(access_line_json, written(receipt, slice_str("x"), slice_str("m"), slice_str("/")),
         ACCESS_NOT_SLOW);
    CHECK(strstr(space, "{\"parse\":0.0,\"tokenize\":0.1,\"match\":4294967.3,") != NULL);
}

// The largest numbers and the texts that become longest.
TEST(the_longest_line_fits_and_less_room_is_an_overflow)
{
    static uint8_t odd[receipt_text_max];
    struct receipt receipt = usual;
    memset(odd, '\x01', sizeof(odd));
    struct slice longest = slice_of(odd, sizeof(odd));
    receipt.decision.chosen.backend = UINT64_MAX;
    receipt.problem = "context_length_exceeded";
    receipt.request_bytes = receipt.response_bytes = receipt.decision.chosen.queued_tokens =
        UINT64_MAX;
    receipt.first_us = receipt.last_us = receipt.end_us = receipt.saved_us = UINT64_MAX;
    receipt.wall_us = UINT64_MAX;
    const struct receipt *full = written(receipt, longest, longest, longest);

    line(access_line_json, full, ACCESS_SLOW_FIRST);
    CHECK(strstr(space, "\"saved_ms\":18446744073709551.615,") != NULL);
    CHECK(strlen(space) > (size_t)3 * 6 * receipt_text_max && strlen(space) < access_line_size_max);
    struct text text = text_over(space, access_line_size_max - 1);
    access_line_json(full, ACCESS_SLOW_FIRST, &second, &text);
    CHECK(text.overflow && text.size == 0);
    text.overflow = false;
    access_line_text(full, ACCESS_SLOW_FIRST, &second, &text);
    CHECK(text.overflow && text.size == 0);
}

// Of a line with that id: from its first letter on.
static const char *id_in_line(const uint8_t *bytes, size_t size)
{
    static const char key[] = ",\"id\":\"";
    line(access_line_json, written(usual, slice_of(bytes, size), slice_str("m"), slice_str("/")),
         ACCESS_NOT_SLOW);
    return strstr(space, key) + strlen(key);
}

// Every length, and every place of a byte that cannot stand: they are looked at in groups.
TEST(a_byte_that_cannot_stand_is_found_wherever_it_is)
{
    static const uint8_t odd[] = {0, '\n', 0x1f, '"', '\\', 0x7f, 0x80, 0xff};
    enum { size_max = 70 };
    uint8_t bytes[size_max];
    memset(bytes, 'a', sizeof(bytes));
    for (size_t i = 0; i < (size_t)size_max * size_max; i++) {
        size_t size = i / size_max;
        size_t at = i % size_max;
        bytes[at] = odd[i % sizeof(odd)];
        const char *id = id_in_line(bytes, size);
        bytes[at] = 'a';
        CHECK_EQ(strspn(id, "a"), at < size ? at : size);
        CHECK(strchr(at < size ? "?\\" : "\"", id[at < size ? at : size]) != NULL);
    }
}

TEST(only_slow_lines_say_slow)
{
    line(access_line_json, usual_one(), ACCESS_SLOW_FIRST);
    CHECK(strstr(space, ",\"slow\":\"first\"}\n") != NULL);
    line(access_line_json, usual_one(), ACCESS_NOT_SLOW);
    CHECK(strstr(space, "slow") == NULL);
}

// The year by counting days, as the C library does.
TEST(times_are_those_of_the_c_library)
{
    struct rng rng = {11};
    for (uint32_t i = 0; i < 20000; i++) {
        struct receipt receipt = {.outcome = RECEIPT_OK,
                                  .wall_us = ((uint64_t)rng_below(&rng, 4000000000U) * 1000 * 60 +
                                              rng_below(&rng, 60000)) *
                                             1000};
        if (receipt.wall_us > 253402300799999999) {
            continue;
        }
        char expected[64];
        struct tm parts;
        time_t seconds = (time_t)(receipt.wall_us / 1000000);
        gmtime_r(&seconds, &parts);
        size_t size = strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%S", &parts);
        snprintf(expected + size, sizeof(expected) - size, ".%03uZ ",
                 (unsigned)(receipt.wall_us / 1000 % 1000));
        line(access_line_text, written(receipt, slice_str("x"), slice_str("m"), slice_str("/")),
             ACCESS_NOT_SLOW);
        expected[25] = '\0';
        space[25] = '\0';
        CHECK_STR(space, expected);
    }
}

static void count_ends(const char *text, uint32_t *ends, uint32_t *odd)
{
    *ends = 0;
    *odd = 0;
    for (const char *at = text; *at != '\0'; at++) {
        *ends += *at == '\n';
        *odd += (unsigned char)*at < ' ' && *at != '\n';
    }
}

// Whatever bytes a peer sends: one line, valid, with the fields that follow.
TEST(text_from_outside_ends_no_line_and_no_string)
{
    struct rng rng = {5};
    uint8_t bytes[receipt_text_max];
    for (uint32_t i = 0; i < 20000; i++) {
        size_t size = rng_below(&rng, receipt_text_max + 1);
        for (size_t j = 0; j < size; j++) {
            static const uint8_t likely[] = "\n\"\\\r\x1b\x85\xc2\xe2\x80\xa8 a";
            bytes[j] = rng_below(&rng, 2) == 0 ? likely[rng_below(&rng, sizeof(likely))]
                                               : (uint8_t)rng_below(&rng, 256);
        }
        struct slice foreign = slice_of(bytes, size);
        const struct receipt *receipt = written(usual, foreign, foreign, foreign);
        uint32_t ends;
        uint32_t odd;
        line(access_line_text, receipt, ACCESS_NOT_SLOW);
        count_ends(space, &ends, &odd);
        CHECK_EQ(ends, 1);
        CHECK_EQ(odd, 0);
        CHECK(strstr(space, "\xc2\x85") == NULL && strstr(space, "\xe2\x80\xa8") == NULL);
        line(access_line_json, receipt, ACCESS_NOT_SLOW);
        count_ends(space, &ends, &odd);
        CHECK_EQ(ends, 1);
        CHECK_EQ(odd, 0);
        struct json json = json_open(slice_str(space));
        CHECK_EQ(json_close(&json), STATUS_OK);
    }
}

TEST(a_name_in_another_script_stays_readable_where_it_was_cut)
{
    struct slice cut = slice_of("\xe6\xa8\xa1\xe5\x9e", 5);
    line(access_line_text, written(usual, slice_str("x"), cut, slice_str("/")), ACCESS_NOT_SLOW);
    CHECK(strstr(space, " \xe6\xa8\xa1?? / ") != NULL);
}

enum { docs_size_max = 1 << 17 };

static char *read_docs(void)
{
    char *page = calloc(1, docs_size_max);
    FILE *in = fopen(docs_path, "r");
    ASSERT(page != NULL && in != NULL);
    ASSERT(fread(page, 1, docs_size_max - 1, in) < docs_size_max - 1);
    fclose(in);
    return page;
}

static void write_docs(const char *before, const char *table, const char *after)
{
    FILE *out = fopen(docs_path, "w");
    ASSERT(out != NULL);
    fprintf(out, "%s%s%s", before, table, after);
    fclose(out);
}

static char *table_of_fields(void)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&bytes, &size);
    ASSERT(out != NULL);
    fputs("| name | example | |\n|---|---|---|\n", out);
#define FIELD(name, value, example, help) fputs("| `" name "` | `" example "` | " help " |\n", out);
#define FIELD_IF(condition, name, value, example, help) FIELD(name, value, example, help)
#include "metrics/access_fields.def"
#undef FIELD
#undef FIELD_IF
    fputs("\nOutcomes:\n\n| outcome | |\n|---|---|\n", out);
#define OUTCOME(id, name, is_failure, help)                                                        \
    if (RECEIPT_##id != RECEIPT_RUNNING) {                                                         \
        fputs("| `" name "` | " help " |\n", out);                                                 \
    }
#include "metrics/outcomes.def"
#undef OUTCOME
    fputs("\nStages:\n\n| stage | |\n|---|---|\n", out);
#define STAGE(id, name, help) fputs("| `" name "` | " help " |\n", out);
#include "metrics/stages.def"
#undef STAGE
    fclose(out);
    return bytes;
}

TEST(docs_logs_md_lists_the_fields_of_today)
{
    static const char begin_mark[] = "<!-- fields: written by access_line_test -->\n";
    static const char end_mark[] = "<!-- end of fields -->\n";
    char *table = table_of_fields();
    char *page = read_docs();
    char *begin = strstr(page, begin_mark);
    char *end = strstr(page, end_mark);
    bool has_marks = begin != NULL && end != NULL && end > begin;
    bool is_same = false;
    if (has_marks) {
        begin += strlen(begin_mark);
        is_same = strlen(table) == (size_t)(end - begin) &&
                  memcmp(table, begin, (size_t)(end - begin)) == 0;
    }
    if (has_marks && !is_same && secure_getenv("WRITE_DOCS") != NULL) {
        char *after = strdup(end);
        *begin = '\0';
        write_docs(page, table, after);
        free(after);
        is_same = true;
    }
    free(page);
    free(table);
    CHECK(has_marks);
    if (!is_same) {
        test_fail(__FILE__, __LINE__,
                  "docs/logs.md is out of date; write it anew with: "
                  "WRITE_DOCS=1 build/debug/access_line_test");
    }
}
