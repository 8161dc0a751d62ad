// SPDX-License-Identifier: Apache-2.0

#include "sim/engine/calibration.h"

#include "base/text.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

#define ROWS                                                                                       \
    "\"prefill\": [[0, 16, 5.3], [0, 256, 8], [0, 2048, 51], [1024, 16, 5.6], "                    \
    "[1024, 256, 8.5], [4096, 1024, 32.1]], "                                                      \
    "\"decode\": [[1, 512, 5.0], [16, 512, 5.4], [64, 2048, 9.4], [4, 8192, 6.1]]"
#define STEP                                                                                       \
    "\"step\": {\"floor_ms\": 5, \"token_ms\": 0.02, \"sharpness\": 2, \"cross_ms\": 1e-6, "       \
    "\"square_ms\": 5e-7, \"square_behind_ms\": 8e-7, \"cached_ms\": 1e-4, \"context_ms\": 3e-5, " \
    "\"sequence_ms\": 0}"
#define MODEL(members) "{\"models\": {\"m\": {" members "}}}"

static struct calibration calibration;
static char error[calibration_error_size];

static enum status read(const char *text)
{
    // Exactly as many bytes as there are, so that a sanitizer sees who reads on.
    struct slice whole = slice_str(text);
    uint8_t *copy = malloc(whole.size > 0 ? whole.size : 1);
    ASSERT(copy != NULL);
    memcpy(copy, whole.bytes, whole.size);
    enum status status = calibration_read(slice_of(copy, whole.size), &calibration, error);
    free(copy);
    return status;
}

TEST(rows_and_limits_are_read)
{
    CHECK_EQ(read(MODEL("\"kv_tokens\": 5000, \"kv_bytes_per_token\": 99, \"block_tokens\": 32, "
                        "\"step_tokens\": 2048, \"sequences_max\": 8, \"context_max\": 4096, "
                        "\"shape\": {\"layers\": 32}, " ROWS)),
             STATUS_OK);
    CHECK_EQ(calibration.model_count, 1);
    const struct calibration_model *model = &calibration.models[0];
    CHECK_STR(model->profile.name, "m");
    CHECK_EQ(model->profile.kv_tokens, 5000);
    CHECK_EQ(model->profile.kv_bytes_per_token, 99);
    CHECK_EQ(model->profile.block_tokens, 32);
    CHECK_EQ(model->profile.step_tokens, 2048);
    CHECK_EQ(model->profile.sequences_max, 8);
    CHECK_EQ(model->profile.context_max, 4096);
    CHECK(!model->has_step);
    CHECK_EQ(model->prefill_count, 6);
    CHECK_EQ(model->decode_count, 4);
    CHECK(model->prefill[5].first == 4096 && model->prefill[5].second == 1024 &&
          model->prefill[5].ms == 32.1);
    CHECK(model->decode[3].first == 4 && model->decode[3].second == 8192 &&
          model->decode[3].ms == 6.1);
    calibration_destroy(&calibration);
}

TEST(absent_limits_are_the_defaults_of_engines)
{
    CHECK_EQ(read(MODEL("\"kv_tokens\": 5000, " ROWS)), STATUS_OK);
    const struct profile *profile = &calibration.models[0].profile;
    CHECK_EQ(profile->block_tokens, 16);
    CHECK_EQ(profile->step_tokens, 8192);
    CHECK_EQ(profile->sequences_max, 256);
    CHECK_EQ(profile->context_max, 131072);
    calibration_destroy(&calibration);
}

TEST(the_cache_is_nine_tenths_of_memory_less_the_weights)
{
    CHECK_EQ(read("{\"models\": {\"m\": {\"weight_bytes\": 20000, \"kv_bytes_per_token\": 7, " ROWS
                  "}}, \"gpu_memory_bytes\": 100000}"),
             STATUS_OK);
    CHECK_EQ(calibration.models[0].profile.kv_tokens, 10000);
    calibration_destroy(&calibration);
}

TEST(a_shipped_model_has_its_shipped_cache)
{
    struct profile shipped;
    ASSERT(profile_find("codellama-13b", &shipped));
    CHECK_EQ(read("{\"models\": {\"codellama-13b\": {" ROWS "}}}"), STATUS_OK);
    CHECK_EQ(calibration.models[0].profile.kv_tokens, shipped.kv_tokens);
    CHECK_EQ(calibration.models[0].profile.kv_bytes_per_token, shipped.kv_bytes_per_token);
    calibration_destroy(&calibration);
}

struct wrong {
    const char *text;
    const char *error;
};

static const struct wrong wrong[] = {
    {"", "the file: needs an object with models"},
    {"[]", "the file: needs an object with models"},
    {"{}", "models: there is none"},
    {"{\"models\": {}}", "models: there is none"},
    {"{\"models\": []}", "models: needs an object of models by name"},
    {"{\"models\": {\"m\": 1}}", "models.m: needs an object"},
    {"{\"models\": {\"a b\": {}}}", "models: a name has 1 to 63 visible ASCII characters"},
    {"{\"gpu_memory_bytes\": \"much\"}", "gpu_memory_bytes: needs a whole number of bytes"},
    {MODEL(ROWS), "models.m: needs kv_tokens, or weight_bytes, kv_bytes_per_token and "
                  "gpu_memory_bytes"},
    {MODEL("\"kv_tokens\": 5000"), "models.m: needs rows of prefill and decode, or a step"},
    {MODEL("\"kv_tokens\": 1.5"), "models.m.kv_tokens: needs a whole number from 1 to 1000000000"},
    {MODEL("\"kv_tokens\": 15, " ROWS),
     "models.m: memory leaves less than a block for the cache, or no bound"},
    {MODEL("\"gpu_memory_bytes\": 10, \"weight_bytes\": 20, \"kv_bytes_per_token\": 1, " ROWS),
     "models.m: memory leaves less than a block for the cache, or no bound"},
    {MODEL("\"prefill\": 1"), "models.m.prefill: needs an array of rows"},
    {MODEL("\"prefill\": [1]"), "models.m.prefill[0]: a row is three numbers"},
    {MODEL("\"prefill\": [[0, 1, 1], [0, 1]]"), "models.m.prefill[1]: a row is three numbers"},
    {MODEL("\"prefill\": [[0, 1, 1, 1]]"), "models.m.prefill[0]: a row is three numbers"},
    {MODEL("\"prefill\": [[0, 1, \"1\"]]"), "models.m.prefill[0]: a row is three numbers"},
    {MODEL("\"prefill\": [[0, 0, 1]]"),
     "models.m.prefill[0]: the first two numbers of a row are whole counts"},
    {MODEL("\"decode\": [[0, 1, 1]]"),
     "models.m.decode[0]: the first two numbers of a row are whole counts"},
    {MODEL("\"decode\": [[1, 1e10, 1]]"),
     "models.m.decode[0]: the first two numbers of a row are whole counts"},
    {MODEL("\"decode\": [[1, 1, 0]]"),
     "models.m.decode[0]: the third number of a row is a time in ms"},
    {MODEL("\"decode\": [[1, 1, 1e999]]"), "models.m.decode[0]: a row is three numbers"},
    {MODEL("\"decode\": [], \"decode\": []"), "models.m.decode: is there twice"},
    {MODEL("\"step\": {}"), "models.m.step: needs all nine constants"},
    {MODEL("\"step\": {\"floor_ms\": 0}"), "models.m.step: floor_ms is out of bounds"},
    {MODEL("\"step\": {\"sharpness\": 0.5}"), "models.m.step: sharpness is out of bounds"},
    {"{\"models\": {\"m\": {\"kv_tokens\": 9, \"decode\": [[1, 1, 1], [2, 1, 1}",
     "models.m.decode[1]: not JSON from about here on"},
    {"{\"models\": {\"m\": {\"kv_tokens\": 9, \"decode\": [[1, 1, 1]",
     "models.m.decode[0]: not JSON from about here on"},
    {"{\"models\": {\"m\": {\"kv_tokens\": 99, " STEP "}, \"m\": {}}}", "models.m: is there twice"},
    {"{\"models\": {\"m\": {\"kv_tokens\": 99, " STEP "}}} x",
     "models.m.step: not JSON from about here on"},
};

TEST(an_error_names_its_place)
{
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        CHECK_EQ(read(wrong[i].text), STATUS_MALFORMED);
        CHECK_STR(error, wrong[i].error);
        CHECK_EQ(calibration.model_count, 0);
    }
}

TEST(more_rows_than_there_is_room_for_are_refused)
{
    static char text[64 + 10 * (calibration_row_max + 1)];
    struct text out = text_over(text, sizeof(text) - 1);
    text_add_str(&out, "{\"models\": {\"m\": {\"decode\": [[1,1,1]");
    for (uint32_t i = 0; i < calibration_row_max; i++) {
        text_add_str(&out, ",[1,1,1]");
    }
    text_add_str(&out, "]}}}");
    ASSERT(!out.overflow);
    CHECK_EQ(read(text), STATUS_MALFORMED);
    CHECK_STR(error, "models.m.decode[1024]: too many rows");
}

static bool rows_are_equal(const struct calibration_row *a, uint32_t a_count,
                           const struct calibration_row *b, uint32_t b_count)
{
    bool equal = a_count == b_count;
    for (uint32_t i = 0; i < a_count && equal; i++) {
        equal = a[i].first == b[i].first && a[i].second == b[i].second && a[i].ms == b[i].ms;
    }
    return equal;
}

TEST(a_written_calibration_is_read_as_the_same)
{
    static char space[8192];
    struct text out = text_over(space, sizeof(space) - 1);
    CHECK_EQ(read(MODEL("\"kv_tokens\": 5000, " STEP ", " ROWS)), STATUS_OK);
    struct calibration first = calibration;
    calibration_write(&first, &out);
    CHECK(!out.overflow);
    CHECK_EQ(read(space), STATUS_OK);
    const struct calibration_model *a = &first.models[0];
    const struct calibration_model *b = &calibration.models[0];
    CHECK_STR(b->profile.name, a->profile.name);
    CHECK_EQ(b->profile.kv_tokens, a->profile.kv_tokens);
    CHECK_EQ(b->profile.context_max, a->profile.context_max);
    CHECK(b->has_step);
    CHECK(b->profile.step.square_behind_ms == a->profile.step.square_behind_ms);
    CHECK(rows_are_equal(a->prefill, a->prefill_count, b->prefill, b->prefill_count));
    CHECK(rows_are_equal(a->decode, a->decode_count, b->decode, b->decode_count));
    calibration_destroy(&first);
    calibration_destroy(&calibration);
}

static enum status profile_of(const char *text, const char *name, struct profile *out)
{
    ASSERT(read(text) == STATUS_OK);
    enum status status = calibration_profile(&calibration, name, out, error);
    calibration_destroy(&calibration);
    return status;
}

TEST(a_profile_has_the_constants_of_the_file_or_those_of_its_rows)
{
    struct profile profile;
    CHECK_EQ(profile_of(MODEL("\"kv_tokens\": 5000, " STEP), "m", &profile), STATUS_OK);
    CHECK(profile.step.floor_ms == 5 && profile.step.context_ms == 3e-5);
    CHECK_EQ(profile_of(MODEL("\"kv_tokens\": 5000, " ROWS), "m", &profile), STATUS_OK);
    CHECK_EQ(profile.kv_tokens, 5000);
    CHECK(fabs(profile.step.floor_ms / 5.1 - 1) < 0.1);
}

TEST(a_profile_without_a_name_is_the_only_one)
{
    static const char two[] = "{\"models\": {\"a\": {\"kv_tokens\": 5000, " STEP
                              "}, \"b\": {\"kv_tokens\": 6000, " STEP "}}}";
    struct profile profile;
    CHECK_EQ(profile_of(MODEL("\"kv_tokens\": 5000, " STEP), NULL, &profile), STATUS_OK);
    CHECK_EQ(profile_of(two, "b", &profile), STATUS_OK);
    CHECK_EQ(profile.kv_tokens, 6000);
    CHECK_EQ(profile_of(two, NULL, &profile), STATUS_MALFORMED);
    CHECK_STR(error, "several models; name one");
    CHECK_EQ(profile_of(two, "c", &profile), STATUS_MALFORMED);
    CHECK_STR(error, "no model c");
}

TEST(too_few_rows_make_no_profile)
{
    struct profile profile;
    CHECK_EQ(profile_of(MODEL("\"kv_tokens\": 5000, \"prefill\": [[0, 1, 1]], "
                              "\"decode\": [[1, 1, 1]]"),
                        "m", &profile),
             STATUS_MALFORMED);
    CHECK_STR(error, "models.m: too few rows to fit a step");
}
