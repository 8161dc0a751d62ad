// SPDX-License-Identifier: Apache-2.0

#include "sim/engine/calibration.h"

#include "base/base.h"
#include "base/text.h"
#include "json/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// The share of a GPU's memory that engines take for weights and cache together.
#define MEMORY_SHARE 0.9

// Whole numbers of tokens: exact as a double, and in 32 bits.
#define TOKENS_MAX 1e9

// A time or a constant; longer steps than two weeks are mistakes.
#define MS_MAX 1e9

enum { place_size = 128 };

// One model, while it is read.
struct calibration_draft {
    struct calibration_model model;
    double kv_tokens; // 0: not told, as are the others
    double kv_bytes_per_token;
    double weight_bytes;
    double gpu_memory_bytes;
    double block_tokens;
    double step_tokens;
    double sequences_max;
    double context_max;
};

struct calibration_reader {
    struct json json;
    struct calibration *calibration;
    double gpu_memory_bytes;
    struct calibration_draft drafts[calibration_model_max];
    char *error;
    bool has_failed;
    char place[place_size]; // of the value that was read last
};

// The first complaint counts.
static bool calibration_fail(struct calibration_reader *reader, const char *what)
{
    if (!reader->has_failed) {
        snprintf(reader->error, calibration_error_size, "%s: %s", reader->place, what);
        reader->has_failed = true;
    }
    return false;
}

static void place_is(struct calibration_reader *reader, const char *model, const char *member)
{
    snprintf(reader->place, sizeof(reader->place), "models%s%s%s%s", *model != '\0' ? "." : "",
             model, *member != '\0' ? "." : "", member);
}

// NaN is not whole.
static bool calibration_is_whole(double value, double low, double high)
{
    return value >= low && value <= high && value == floor(value);
}

// ---- members of a model that are one number

static const struct limit {
    const char *name;
    size_t offset; // in struct calibration_draft
    double low;
    double high;
} limits[] = {
    {"kv_tokens", offsetof(struct calibration_draft, kv_tokens), 1, TOKENS_MAX},
    {"kv_bytes_per_token", offsetof(struct calibration_draft, kv_bytes_per_token), 1, 1e9},
    {"weight_bytes", offsetof(struct calibration_draft, weight_bytes), 1, 1e15},
    {"gpu_memory_bytes", offsetof(struct calibration_draft, gpu_memory_bytes), 1, 1e15},
    {"block_tokens", offsetof(struct calibration_draft, block_tokens), 1, 65536},
    {"step_tokens", offsetof(struct calibration_draft, step_tokens), 1, 1 << 24},
    {"sequences_max", offsetof(struct calibration_draft, sequences_max), 1, 65536},
    {"context_max", offsetof(struct calibration_draft, context_max), 1, TOKENS_MAX},
};

static const struct limit *limit_named(struct slice key)
{
    for (size_t i = 0; i < ARRAY_COUNT(limits); i++) {
        if (json_string_is(key, limits[i].name)) {
            return &limits[i];
        }
    }
    return NULL;
}

static bool read_limit(struct calibration_reader *reader, struct calibration_draft *draft,
                       const struct limit *limit, const struct json_value *value)
{
    double number = json_number(value);
    if (!calibration_is_whole(number, limit->low, limit->high)) {
        char what[96];
        snprintf(what, sizeof(what), "needs a whole number from %.0f to %.0f", limit->low,
                 limit->high);
        return calibration_fail(reader, what);
    }
    *(double *)((char *)draft + limit->offset) = number;
    return true;
}

// ---- fitted constants

// Constants other than these two may be 0.
static bool may_be_zero(const struct calibration_constant *constant)
{
    return constant->offset != offsetof(struct step_model, floor_ms) &&
           constant->offset != offsetof(struct step_model, token_ms);
}

static bool constant_is_good(const struct calibration_constant *constant, double value)
{
    if (constant->offset == offsetof(struct step_model, sharpness)) {
        return value >= 1 && value <= 1000;
    }
    return value >= (may_be_zero(constant) ? 0 : 1e-12) && value <= MS_MAX;
}

static bool read_constant(struct calibration_reader *reader, struct step_model *step,
                          const struct json_item *item, uint32_t *seen)
{
    for (uint32_t i = 0; i < calibration_constant_count; i++) {
        const struct calibration_constant *constant = &calibration_constants[i];
        double value = json_number(&item->value);
        if (!json_string_is(item->key, constant->name)) {
            continue;
        }
        if (!constant_is_good(constant, value)) {
            char what[96];
            snprintf(what, sizeof(what), "%s is out of bounds", constant->name);
            return calibration_fail(reader, what);
        }
        *(double *)((char *)step + constant->offset) = value;
        *seen |= 1U << i;
    }
    return true;
}

static bool read_step(struct calibration_reader *reader, struct calibration_draft *draft,
                      const struct json_value *value)
{
    struct step_model step = {0};
    struct json_item item;
    uint32_t seen = 0;
    if (value->kind != JSON_OBJECT) {
        return calibration_fail(reader, "needs an object of constants");
    }
    json_enter(&reader->json);
    while (json_next(&reader->json, &item)) {
        if (!read_constant(reader, &step, &item, &seen)) {
            return false;
        }
    }
    if (seen != (1U << calibration_constant_count) - 1) {
        return calibration_fail(reader, "needs all nine constants");
    }
    draft->model.profile.step = step;
    draft->model.has_step = true;
    return true;
}

// ---- rows

struct calibration_table {
    const char *name;
    double first_min;
    size_t rows; // offsets in struct calibration_model
    size_t count;
};

static const struct calibration_table tables[] = {
    {"prefill", 0, offsetof(struct calibration_model, prefill),
     offsetof(struct calibration_model, prefill_count)},
    {"decode", 1, offsetof(struct calibration_model, decode),
     offsetof(struct calibration_model, decode_count)},
};

static const struct calibration_table *table_named(struct slice key)
{
    for (size_t i = 0; i < ARRAY_COUNT(tables); i++) {
        if (json_string_is(key, tables[i].name)) {
            return &tables[i];
        }
    }
    return NULL;
}

static bool calibration_read_row(struct calibration_reader *reader,
                                 const struct calibration_table *table, struct calibration_row *out)
{
    double numbers[3] = {0};
    uint32_t count = 0;
    struct json_item item;
    json_enter(&reader->json);
    while (json_next(&reader->json, &item)) {
        if (count == ARRAY_COUNT(numbers) || isnan(json_number(&item.value))) {
            return calibration_fail(reader, "a row is three numbers");
        }
        numbers[count++] = json_number(&item.value);
    }
    if (count != ARRAY_COUNT(numbers)) {
        return calibration_fail(reader, "a row is three numbers");
    }
    if (!calibration_is_whole(numbers[0], table->first_min, TOKENS_MAX) ||
        !calibration_is_whole(numbers[1], 1, TOKENS_MAX)) {
        return calibration_fail(reader, "the first two numbers of a row are whole counts");
    }
    if (!(numbers[2] > 1e-6 && numbers[2] < MS_MAX)) {
        return calibration_fail(reader, "the third number of a row is a time in ms");
    }
    *out = (struct calibration_row){numbers[0], numbers[1], numbers[2]};
    return true;
}

static bool read_table(struct calibration_reader *reader, struct calibration_model *model,
                       const struct calibration_table *table, const struct json_value *value)
{
    struct calibration_row **rows = (struct calibration_row **)((char *)model + table->rows);
    uint32_t *count = (uint32_t *)((char *)model + table->count);
    struct json_item item;
    if (value->kind != JSON_ARRAY) {
        return calibration_fail(reader, "needs an array of rows");
    }
    if (*rows != NULL) {
        return calibration_fail(reader, "is there twice");
    }
    *rows = calloc(calibration_row_max, sizeof(**rows));
    if (*rows == NULL) {
        return calibration_fail(reader, "memory is short");
    }
    json_enter(&reader->json);
    while (json_next(&reader->json, &item)) {
        place_is(reader, model->profile.name, table->name);
        size_t size = strlen(reader->place);
        snprintf(reader->place + size, sizeof(reader->place) - size, "[%u]", *count);
        if (*count == calibration_row_max) {
            return calibration_fail(reader, "too many rows");
        }
        if (item.value.kind != JSON_ARRAY) {
            return calibration_fail(reader, "a row is three numbers");
        }
        if (!calibration_read_row(reader, table, &(*rows)[*count])) {
            return false;
        }
        ++*count;
    }
    return true;
}

// ---- models

static bool calibration_read_member(struct calibration_reader *reader,
                                    struct calibration_draft *draft, const struct json_item *item)
{
    const struct calibration_table *table = table_named(item->key);
    const struct limit *limit = limit_named(item->key);
    const char *model = draft->model.profile.name;
    if (table != NULL) {
        place_is(reader, model, table->name);
        return read_table(reader, &draft->model, table, &item->value);
    }
    if (limit != NULL) {
        place_is(reader, model, limit->name);
        return read_limit(reader, draft, limit, &item->value);
    }
    if (json_string_is(item->key, "step")) {
        place_is(reader, model, "step");
        return read_step(reader, draft, &item->value);
    }
    return true;
}

// Names are printed and looked for on command lines: nothing but visible characters.
static bool calibration_read_name(struct slice raw, char out[profile_name_size])
{
    char space[profile_name_size];
    struct slice name = {0};
    if (json_string_decode(raw, space, sizeof(space), &name) != STATUS_OK || name.size == 0 ||
        name.size >= profile_name_size) {
        return false;
    }
    for (size_t i = 0; i < name.size; i++) {
        if (name.bytes[i] <= ' ' || name.bytes[i] >= 0x7f) {
            return false;
        }
    }
    memcpy(out, name.bytes, name.size);
    out[name.size] = '\0';
    return true;
}

static bool read_model(struct calibration_reader *reader, const struct json_item *item)
{
    struct calibration *calibration = reader->calibration;
    struct json_item member;
    if (calibration->model_count == calibration_model_max) {
        return calibration_fail(reader, "too many models");
    }
    struct calibration_draft *draft = &reader->drafts[calibration->model_count];
    char *name = draft->model.profile.name;
    if (!calibration_read_name(item->key, name)) {
        return calibration_fail(reader, "a name has 1 to 63 visible ASCII characters");
    }
    place_is(reader, name, "");
    for (uint32_t i = 0; i < calibration->model_count; i++) {
        if (strcmp(reader->drafts[i].model.profile.name, name) == 0) {
            return calibration_fail(reader, "is there twice");
        }
    }
    calibration->model_count++;
    if (item->value.kind != JSON_OBJECT) {
        return calibration_fail(reader, "needs an object");
    }
    json_enter(&reader->json);
    while (json_next(&reader->json, &member)) {
        if (!calibration_read_member(reader, draft, &member)) {
            return false;
        }
    }
    return true;
}

static bool calibration_read_models(struct calibration_reader *reader,
                                    const struct json_value *value)
{
    struct json_item item;
    place_is(reader, "", "");
    if (value->kind != JSON_OBJECT) {
        return calibration_fail(reader, "needs an object of models by name");
    }
    if (reader->calibration->model_count > 0) {
        return calibration_fail(reader, "is there twice");
    }
    json_enter(&reader->json);
    while (json_next(&reader->json, &item)) {
        if (!read_model(reader, &item)) {
            return false;
        }
    }
    return true;
}

static bool calibration_read_file(struct calibration_reader *reader)
{
    struct json_item item;
    if (!json_next(&reader->json, &item) || item.value.kind != JSON_OBJECT) {
        return calibration_fail(reader, "needs an object with models");
    }
    json_enter(&reader->json);
    while (json_next(&reader->json, &item)) {
        if (json_string_is(item.key, "models")) {
            if (!calibration_read_models(reader, &item.value)) {
                return false;
            }
        } else if (json_string_is(item.key, "gpu_memory_bytes")) {
            snprintf(reader->place, sizeof(reader->place), "gpu_memory_bytes");
            reader->gpu_memory_bytes = json_number(&item.value);
            if (!calibration_is_whole(reader->gpu_memory_bytes, 1, 1e15)) {
                return calibration_fail(reader, "needs a whole number of bytes");
            }
        }
    }
    // The last value was complete; the text behind it is not.
    if (json_close(&reader->json) != STATUS_OK) {
        return calibration_fail(reader, "not JSON from about here on");
    }
    snprintf(reader->place, sizeof(reader->place), "models");
    return reader->calibration->model_count > 0 || calibration_fail(reader, "there is none");
}

// ---- absent members

static double or_default(double value, double otherwise)
{
    return value > 0 ? value : otherwise;
}

static double derived_kv_tokens(const struct calibration_reader *reader,
                                const struct calibration_draft *draft)
{
    double memory = or_default(draft->gpu_memory_bytes, reader->gpu_memory_bytes);
    if (memory == 0 || draft->weight_bytes == 0 || draft->kv_bytes_per_token == 0) {
        return 0;
    }
    return floor((memory * MEMORY_SHARE - draft->weight_bytes) / draft->kv_bytes_per_token);
}

// Absent members come from the shipped profile of that name, or else from the defaults of engines.
static bool calibration_complete(struct calibration_reader *reader, struct calibration_draft *draft)
{
    struct profile *profile = &draft->model.profile;
    struct profile shipped = {.block_tokens = profile_block_tokens,
                              .step_tokens = profile_step_tokens,
                              .sequences_max = profile_sequences_max,
                              .context_max = profile_context_max};
    (void)profile_find(profile->name, &shipped);
    double kv_tokens = or_default(draft->kv_tokens, derived_kv_tokens(reader, draft));
    kv_tokens = kv_tokens != 0 ? kv_tokens : (double)shipped.kv_tokens;
    profile->block_tokens = (uint32_t)or_default(draft->block_tokens, shipped.block_tokens);
    place_is(reader, profile->name, "");
    if (kv_tokens == 0) {
        return calibration_fail(reader, "needs kv_tokens, or weight_bytes, kv_bytes_per_token and "
                                        "gpu_memory_bytes");
    }
    if (!(kv_tokens >= profile->block_tokens && kv_tokens <= TOKENS_MAX)) {
        return calibration_fail(reader,
                                "memory leaves less than a block for the cache, or no bound");
    }
    if (!draft->model.has_step &&
        (draft->model.prefill_count == 0 || draft->model.decode_count == 0)) {
        return calibration_fail(reader, "needs rows of prefill and decode, or a step");
    }
    profile->kv_tokens = (uint64_t)kv_tokens;
    profile->kv_bytes_per_token =
        (uint64_t)or_default(draft->kv_bytes_per_token, (double)shipped.kv_bytes_per_token);
    profile->step_tokens = (uint32_t)or_default(draft->step_tokens, shipped.step_tokens);
    profile->sequences_max = (uint32_t)or_default(draft->sequences_max, shipped.sequences_max);
    profile->context_max = (uint32_t)or_default(draft->context_max, shipped.context_max);
    return true;
}

enum status calibration_read(struct slice text, struct calibration *out,
                             char error[calibration_error_size])
{
    struct calibration *calibration = calloc(1, sizeof(*calibration));
    struct calibration_reader *reader = calloc(1, sizeof(*reader));
    enum status status = STATUS_EXHAUSTED;
    if (calibration == NULL || reader == NULL) {
        snprintf(error, calibration_error_size, "memory is short");
        goto out;
    }
    reader->json = json_open(text);
    reader->calibration = calibration;
    reader->error = error;
    snprintf(reader->place, sizeof(reader->place), "the file");

    bool is_good = calibration_read_file(reader);
    for (uint32_t i = 0; i < calibration->model_count; i++) {
        is_good = is_good && calibration_complete(reader, &reader->drafts[i]);
        calibration->models[i] = reader->drafts[i].model;
    }
    if (is_good) {
        *out = *calibration;
        calibration->model_count = 0; // now the caller's
    }
    calibration_destroy(calibration);
    status = is_good ? STATUS_OK : STATUS_MALFORMED;

out:
    free(reader);
    free(calibration);
    return status;
}

void calibration_destroy(struct calibration *calibration)
{
    for (uint32_t i = 0; i < calibration->model_count; i++) {
        free(calibration->models[i].prefill);
        free(calibration->models[i].decode);
    }
    *calibration = (struct calibration){0};
}

// ---- writing

static void write_rows(const char *name, const struct calibration_row *rows, uint32_t count,
                       struct text *out)
{
    text_add_format(out, ",\n   \"%s\": [", name);
    for (uint32_t i = 0; i < count; i++) {
        text_add_format(out, "%s[%.0f, %.0f, %.6g]", i == 0 ? "" : (i % 6 == 0 ? ",\n     " : ", "),
                        rows[i].first, rows[i].second, rows[i].ms);
    }
    text_add_str(out, "]");
}

static void write_step(const struct step_model *step, struct text *out)
{
    text_add_str(out, ",\n   \"step\": {");
    for (uint32_t i = 0; i < calibration_constant_count; i++) {
        text_add_format(out, "%s\"%s\": %.6g", i == 0 ? "" : ", ", calibration_constants[i].name,
                        *(const double *)((const char *)step + calibration_constants[i].offset));
    }
    text_add_str(out, "}");
}

void calibration_write(const struct calibration *calibration, struct text *out)
{
    text_add_str(out, "{\"models\": {");
    for (uint32_t i = 0; i < calibration->model_count; i++) {
        const struct calibration_model *model = &calibration->models[i];
        const struct profile *profile = &model->profile;
        text_add_str(out, i == 0 ? "\n  " : ",\n  ");
        text_add_json(out, slice_str(profile->name));
        text_add_format(out,
                        ": {\n   \"kv_tokens\": %llu, \"block_tokens\": %u, \"step_tokens\": %u, "
                        "\"sequences_max\": %u, \"context_max\": %u",
                        (unsigned long long)profile->kv_tokens, profile->block_tokens,
                        profile->step_tokens, profile->sequences_max, profile->context_max);
        if (profile->kv_bytes_per_token > 0) {
            text_add_format(out, ", \"kv_bytes_per_token\": %llu",
                            (unsigned long long)profile->kv_bytes_per_token);
        }
        if (model->has_step) {
            write_step(&profile->step, out);
        }
        if (model->prefill_count > 0) {
            write_rows("prefill", model->prefill, model->prefill_count, out);
        }
        if (model->decode_count > 0) {
            write_rows("decode", model->decode, model->decode_count, out);
        }
        text_add_str(out, "}");
    }
    text_add_str(out, "}}\n");
}

// ---- from a file to an engine

static const struct calibration_model *model_named(const struct calibration *calibration,
                                                   const char *name)
{
    if (name == NULL) {
        return calibration->model_count == 1 ? &calibration->models[0] : NULL;
    }
    for (uint32_t i = 0; i < calibration->model_count; i++) {
        if (strcmp(calibration->models[i].profile.name, name) == 0) {
            return &calibration->models[i];
        }
    }
    return NULL;
}

enum status calibration_profile(const struct calibration *calibration, const char *name,
                                struct profile *out, char error[calibration_error_size])
{
    const struct calibration_model *model = model_named(calibration, name);
    struct calibration_fit fit = {0};
    if (model == NULL) {
        snprintf(error, calibration_error_size, "%s%s",
                 name != NULL ? "no model " : "several models; name one", name != NULL ? name : "");
        return STATUS_MALFORMED;
    }
    if (!model->has_step && calibration_fit(model, &fit) != STATUS_OK) {
        snprintf(error, calibration_error_size, "models.%s: too few rows to fit a step",
                 model->profile.name);
        return STATUS_MALFORMED;
    }
    *out = model->profile;
    out->step = model->has_step ? model->profile.step : fit.step;
    return STATUS_OK;
}
