// SPDX-License-Identifier: Apache-2.0

#include "metrics/receipt.h"

#include "base/base.h"
#include "base/text.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

TEST(a_receipt_comes_back_with_all_that_lies_behind_it)
{
    struct decision_party rivals[2] = {{.backend = 7, .expected_tokens = 11}, {.backend = 8}};
    uint64_t sampled[3] = {16, 32, 48};
    uint64_t depths[2] = {1, 2};
    struct receipt_parts parts = {.rivals = rivals,
                                  .sampled = sampled,
                                  .depths = depths,
                                  .id = slice_str("an id"),
                                  .model = slice_str("a model"),
                                  .url = slice_str("http://a"),
                                  .path = slice_str("/v1/chat/completions")};
    struct receipt receipt = {.rival_count = 2,
                              .sampled_count = 3,
                              .depth_count = 2,
                              .number = 42,
                              .id_size = (uint16_t)parts.id.size,
                              .model_size = (uint16_t)parts.model.size,
                              .url_size = (uint16_t)parts.url.size,
                              .path_size = (uint16_t)parts.path.size};
    size_t size = receipt_size(&receipt);
    CHECK(size % 8 == 0 && size <= receipt_size_max);
    void *memory = malloc(size);
    receipt_write(&receipt, &parts, memory);

    const struct receipt *copy = memory;
    struct receipt_parts found;
    receipt_parts(copy, &found);
    CHECK_EQ(copy->number, 42);
    CHECK_EQ(found.rivals[0].backend, 7);
    CHECK_EQ(found.rivals[0].expected_tokens, 11);
    CHECK_EQ(found.rivals[1].backend, 8);
    CHECK_EQ(found.sampled[2], 48);
    CHECK_EQ(found.depths[1], 2);
    CHECK(slice_is(found.id, "an id"));
    CHECK(slice_is(found.model, "a model"));
    CHECK(slice_is(found.url, "http://a"));
    CHECK(slice_is(found.path, "/v1/chat/completions"));
    free(memory);
}

TEST(a_receipt_without_parts_is_the_struct_alone)
{
    struct receipt receipt = {.number = 1};
    struct receipt_parts parts = {0};
    uint64_t memory[sizeof(struct receipt) / 8];
    CHECK_EQ(receipt_size(&receipt), sizeof(memory));
    receipt_write(&receipt, &parts, memory);
    CHECK_EQ(((const struct receipt *)memory)->number, 1);
}

TEST(the_time_to_the_first_token_is_known_of_streams_only)
{
    struct receipt receipt = {.first_us = 1500, .last_us = 11500, .output_tokens = 11};
    CHECK(receipt_ttft_ms(&receipt) == 1.5);
    CHECK(receipt_tpot_ms(&receipt) == 1.0);
    receipt.output_tokens = 1;
    CHECK(isnan(receipt_tpot_ms(&receipt)));
    receipt.first_us = 0;
    CHECK(isnan(receipt_ttft_ms(&receipt)));
    CHECK(isnan(receipt_tpot_ms(&receipt)));
}

TEST(every_outcome_and_every_stage_has_a_name)
{
    CHECK_STR(receipt_outcome_name(RECEIPT_OK), "ok");
    CHECK_STR(receipt_outcome_name(RECEIPT_GONE), "gone");
    CHECK_STR(receipt_stage_name(RECEIPT_STAGE_PARSE), "parse");
    CHECK_STR(receipt_stage_name(RECEIPT_STAGE_QUEUE), "queue");
}

static const struct {
    const char *name;
    bool is_failure;
} outcomes[] = {
#define OUTCOME(id, name, is_failure, help) {name, is_failure},
#include "metrics/outcomes.def"
#undef OUTCOME
};

// The caller frees it.
static char *read_source(const char *path)
{
    char whole[512];
    snprintf(whole, sizeof(whole), "%s/%s", SOURCE_ROOT, path);
    FILE *file = fopen(whole, "r");
    ASSERT(file != NULL);
    char *text = calloc(1, 1 << 20);
    ASSERT(text != NULL && fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

TEST(the_dashboard_marks_the_failures_of_the_table)
{
    char *script = read_source("src/web/decisions.js");
    for (size_t i = 0; i < ARRAY_COUNT(outcomes); i++) {
        char row[64];
        snprintf(row, sizeof(row), "\n  %s: {", outcomes[i].name);
        const char *at = strstr(script, row);
        CHECK(at != NULL);
        const char *bad = strstr(at, "kind: \"bad\"");
        CHECK_EQ(bad != NULL && bad < strchr(at + 1, '\n'), outcomes[i].is_failure);
    }
    free(script);
}

TEST(grafana_counts_the_failures_of_the_table)
{
    char *script = read_source("deploy/grafana/dashboard.py");
    char faults[256];
    struct text text = text_over(faults, sizeof(faults));
    const char *separator = "FAULTS = 'outcome=~\"";
    for (size_t i = 0; i < ARRAY_COUNT(outcomes); i++) {
        if (outcomes[i].is_failure) {
            text_add_str(&text, separator);
            text_add_str(&text, outcomes[i].name);
            separator = "|";
        }
    }
    text_add(&text, slice_of("\"'\n", 4)); // with its NUL
    CHECK(!text.overflow && strstr(script, faults) != NULL);
    free(script);
}
