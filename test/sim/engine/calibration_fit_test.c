// SPDX-License-Identifier: Apache-2.0

#include "sim/engine/calibration.h"
#include "test.h"

#include <math.h>

static const double cached[] = {0, 1024, 4096, 16384, 32768};
static const double fresh[] = {16, 64, 256, 1024, 4096, 8192};
static const double batch[] = {1, 4, 16, 64, 128, 256};
static const double each[] = {512, 2048, 8192, 32768};

static struct calibration_row prefill[ARRAY_COUNT(cached) * ARRAY_COUNT(fresh)];
static struct calibration_row decode[ARRAY_COUNT(batch) * ARRAY_COUNT(each)];
static struct calibration_model model;

static const struct step_model known = {.floor_ms = 7,
                                        .token_ms = 0.031,
                                        .sharpness = 2.2,
                                        .cross_ms = 2e-6,
                                        .square_ms = 6e-7,
                                        .square_behind_ms = 9e-7,
                                        .cached_ms = 1.5e-4,
                                        .context_ms = 4e-5,
                                        .sequence_ms = 2e-3};

// The rows that an engine with these constants would give; every other one is `noise` too long, the
// rest too short.
static void measure(const struct step_model *step, double noise)
{
    model = (struct calibration_model){.prefill = prefill, .decode = decode};
    for (size_t i = 0; i < ARRAY_COUNT(cached); i++) {
        for (size_t k = 0; k < ARRAY_COUNT(fresh); k++) {
            struct calibration_row *row = &prefill[model.prefill_count++];
            *row = (struct calibration_row){.first = cached[i], .second = fresh[k]};
            row->ms = calibration_predict(step, row, false);
            row->ms *= (i + k) % 2 == 0 ? 1 + noise : 1 / (1 + noise);
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(batch); i++) {
        for (size_t k = 0; k < ARRAY_COUNT(each); k++) {
            struct calibration_row *row = &decode[model.decode_count++];
            *row = (struct calibration_row){.first = batch[i], .second = each[k]};
            row->ms = calibration_predict(step, row, true);
            row->ms *= (i + k) % 2 == 0 ? 1 + noise : 1 / (1 + noise);
        }
    }
}

static double constant_of(const struct step_model *step, uint32_t index)
{
    return *(const double *)((const char *)step + calibration_constants[index].offset);
}

// How far the constants are apart, at worst, as a share.
static double distance(const struct step_model *a, const struct step_model *b)
{
    double worst = 0;
    for (uint32_t i = 0; i < calibration_constant_count; i++) {
        worst = fmax(worst, fabs(constant_of(a, i) / constant_of(b, i) - 1));
    }
    return worst;
}

TEST(known_constants_are_found_again)
{
    struct calibration_fit fit;
    measure(&known, 0);
    CHECK_EQ(calibration_fit(&model, &fit), STATUS_OK);
    CHECK(distance(&fit.step, &known) < 1e-3);
    CHECK(fit.worst_error < 1e-4);
}

TEST(constants_of_any_size_are_found_again)
{
    static const double scales[] = {1e-2, 1, 300};
    for (size_t i = 0; i < ARRAY_COUNT(scales); i++) {
        struct step_model scaled = known;
        for (uint32_t k = 0; k < calibration_constant_count; k++) {
            double *constant = (double *)((char *)&scaled + calibration_constants[k].offset);
            *constant *= constant == &scaled.sharpness ? 1 : scales[i];
        }
        struct calibration_fit fit;
        measure(&scaled, 0);
        CHECK_EQ(calibration_fit(&model, &fit), STATUS_OK);
        CHECK(distance(&fit.step, &scaled) < 1e-3);
    }
}

TEST(noise_of_3_percent_stays_3_percent)
{
    struct calibration_fit fit;
    measure(&known, 0.03);
    CHECK_EQ(calibration_fit(&model, &fit), STATUS_OK);
    CHECK(fit.median_error < 0.035);
    CHECK(fit.mean_error < 0.035);
    CHECK(fabs(fit.step.floor_ms / known.floor_ms - 1) < 0.03);
    CHECK(fabs(fit.step.token_ms / known.token_ms - 1) < 0.03);
    CHECK(fabs(fit.step.context_ms / known.context_ms - 1) < 0.03);
}

TEST(a_constant_that_shows_nowhere_is_zero)
{
    struct step_model without = known;
    struct calibration_fit fit;
    without.sequence_ms = 0;
    measure(&without, 0.001);
    // A fit may take the smallest of times for it, but no more than the noise.
    CHECK_EQ(calibration_fit(&model, &fit), STATUS_OK);
    CHECK(fit.step.sequence_ms < 1e-4);
}

TEST(the_worst_row_is_named)
{
    struct calibration_fit fit;
    measure(&known, 0);
    decode[5].ms *= 1.5;
    CHECK_EQ(calibration_fit(&model, &fit), STATUS_OK);
    CHECK(fit.worst_is_decode);
    CHECK(fit.worst.first == decode[5].first && fit.worst.second == decode[5].second);
    CHECK(fit.worst_error > 0.25);
    CHECK(fit.median_error < 0.03);
}

TEST(errors_are_of_the_measured_time)
{
    struct calibration_fit fit;
    measure(&known, 0);
    model.prefill_count = 0;
    model.decode_count = 3;
    decode[0].ms *= 2;   // predicted: half of it
    decode[1].ms /= 1.1; // predicted: a tenth more
    calibration_judge(&model, &known, &fit);
    CHECK(fabs(fit.worst_error - 0.5) < 1e-9);
    CHECK(fabs(fit.median_error - 0.1) < 1e-9);
    CHECK(fabs(fit.mean_error - 0.2) < 1e-9);
}

TEST(the_same_rows_give_the_same_constants)
{
    struct calibration_fit one;
    struct calibration_fit other;
    measure(&known, 0.05);
    CHECK_EQ(calibration_fit(&model, &one), STATUS_OK);
    CHECK_EQ(calibration_fit(&model, &other), STATUS_OK);
    for (uint32_t i = 0; i < calibration_constant_count; i++) {
        CHECK(constant_of(&one.step, i) == constant_of(&other.step, i));
    }
}

TEST(rows_that_cannot_tell_the_constants_apart_are_too_few)
{
    struct calibration_fit fit;
    measure(&known, 0);
    model.prefill_count = ARRAY_COUNT(fresh); // nothing was cached
    CHECK_EQ(calibration_fit(&model, &fit), STATUS_EXHAUSTED);
    measure(&known, 0);
    model.decode_count = ARRAY_COUNT(each); // of one batch size
    CHECK_EQ(calibration_fit(&model, &fit), STATUS_EXHAUSTED);
    measure(&known, 0);
    model.decode_count = 0;
    CHECK_EQ(calibration_fit(&model, &fit), STATUS_EXHAUSTED);
}

// A few measurements of each shipped model; docs/calibration.md has the errors over all of them.
struct measured {
    const char *name;
    bool is_decode;
    struct calibration_row row;
};

static const struct measured measurements[] = {
    {"llama-3.1-8b", false, {0, 16, 5.291}},
    {"llama-3.1-8b", false, {0, 8192, 226.521}},
    {"llama-3.1-8b", false, {4096, 64, 7.085}},
    {"llama-3.1-8b", false, {16384, 1024, 48.78}},
    {"llama-3.1-8b", false, {32768, 64, 9.205}},
    {"llama-3.1-8b", true, {1, 512, 5.025}},
    {"llama-3.1-8b", true, {64, 8192, 20.612}},
    {"llama-3.1-8b", true, {256, 2048, 23.137}},
    {"codellama-13b", false, {0, 256, 12.212}},
    {"codellama-13b", false, {0, 4096, 186.441}},
    {"codellama-13b", false, {4096, 4096, 244.47}},
    {"codellama-13b", false, {32768, 1024, 137.167}},
    {"codellama-13b", false, {32768, 64, 15.158}},
    {"codellama-13b", true, {1, 2048, 8.313}},
    {"codellama-13b", true, {64, 2048, 32.243}},
    {"codellama-13b", true, {16, 32768, 108.067}},
    {"qwen2.5-32b", false, {0, 64, 19.546}},
    {"qwen2.5-32b", false, {0, 16384, 2022.305}},
    {"qwen2.5-32b", false, {1024, 8192, 1027.733}},
    {"qwen2.5-32b", false, {16384, 1024, 193.847}},
    {"qwen2.5-32b", false, {32768, 64, 28.671}},
    {"qwen2.5-32b", true, {1, 512, 18.152}},
    {"qwen2.5-32b", true, {128, 8192, 81.275}},
    {"qwen2.5-32b", true, {256, 2048, 58.878}},
};

TEST(shipped_profiles_predict_the_measurements)
{
    // The worst row of all is 14.3% off and among these; half of all are within 3%.
    const double worst = 0.15;
    const size_t count = ARRAY_COUNT(measurements);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const struct measured *measured = &measurements[i];
        struct profile profile;
        CHECK(profile_find(measured->name, &profile));
        double ms = calibration_predict(&profile.step, &measured->row, measured->is_decode);
        double error = fabs(ms / measured->row.ms - 1);
        if (error > worst) {
            test_fail(__FILE__, __LINE__, "%s %g %g is %.3f ms, measured %.3f", measured->name,
                      measured->row.first, measured->row.second, ms, measured->row.ms);
            return;
        }
        sum += error;
    }
    CHECK(sum < 0.05 * (double)count);
}
