// SPDX-License-Identifier: Apache-2.0
//
// calibrate -- fits the step model of simulated engines to measured times: those of a file, or of
// requests to a live engine.

#include "base/base.h"
#include "config/option/command.h"
#include "config/option/flags.h"
#include "lab/calibration_file.h"
#include "lab/probe_engine.h"

#include <stdio.h>
#include <stdlib.h>

static const char command[] = "calibrate";

struct calibrate_options {
    const char *file;
    const char *backend;
    const char *model;
    const char *key;
    const char *write;
    double seconds;
    uint32_t kv_tokens;
    uint32_t step_tokens;
    uint32_t context_max;
    uint32_t sequences_max;
};

static enum flags_verdict read_options(struct calibrate_options *options, int word_count,
                                       char **words)
{
    const struct flag flags[] = {
        {"file", FLAG_TEXT, &options->file, "FILE", "Fit the rows of this calibration file."},
        {"backend", FLAG_TEXT, &options->backend, "URL", "Measure this engine, which is idle."},
        {"model", FLAG_TEXT, &options->model, "NAME", "The engine's model; of a file, only this."},
        {"write", FLAG_TEXT, &options->write, "FILE",
         "Write rows and constants, for --calibration of sim and engine."},
        {"seconds", FLAG_DURATION, &options->seconds, "TIME", "Measure so long (60s)."},
        {"key", FLAG_TEXT, &options->key, "KEY", "Sent to the engine as its bearer token."},
        {"kv-tokens", FLAG_COUNT, &options->kv_tokens, "N",
         "Tokens in the engine's cache, where its metrics do not say."},
        {"step-tokens", FLAG_COUNT, &options->step_tokens, "N",
         "Most tokens of one step of the engine (8192)."},
        {"sequences", FLAG_COUNT, &options->sequences_max, "N",
         "Most sequences of one step of the engine (256)."},
        {"context", FLAG_COUNT, &options->context_max, "N",
         "Longest prompt and response of the engine (131072)."},
    };
    enum flags_verdict verdict = flags_read(command, flags, ARRAY_COUNT(flags), word_count, words);
    if (verdict != FLAGS_GOOD) {
        return verdict;
    }
    if ((options->file == NULL) == (options->backend == NULL)) {
        fprintf(stderr, "warmpath calibrate: say either --file or --backend\n");
        return FLAGS_BAD;
    }
    if (options->backend != NULL && options->model == NULL) {
        fprintf(stderr, "warmpath calibrate: --backend needs --model\n");
        return FLAGS_BAD;
    }
    return FLAGS_GOOD;
}

// ---- what is printed

static void print_errors(const char *name, const struct calibration_model *rows,
                         const struct step_model *step)
{
    uint32_t count = rows->prefill_count + rows->decode_count;
    struct calibration_fit fit;
    calibration_judge(rows, step, &fit);
    printf(
        "  %-8s %4u   %6.1f%%   %6.1f%%   %6.1f%%   %s, %.0f %s %.0f %s: %.3f ms, predicted %.3f\n",
        name, count, 100 * fit.median_error, 100 * fit.mean_error, 100 * fit.worst_error,
        fit.worst_is_decode ? "decode" : "prefill", fit.worst.first,
        fit.worst_is_decode ? "x" : "cached +", fit.worst.second,
        fit.worst_is_decode ? "of context" : "new", fit.worst.ms,
        calibration_predict(step, &fit.worst, fit.worst_is_decode));
}

// In the form of profiles.def.
static void print_profile(const struct profile *profile)
{
    const struct step_model *step = &profile->step;
    printf("\n  PROFILE(\"%s\", %llu, %llu,\n", profile->name,
           (unsigned long long)profile->kv_tokens, (unsigned long long)profile->kv_bytes_per_token);
    printf("          %.4g, %.4g, %.4g, %.4g, %.4g, %.4g, %.4g, %.4g, %.4g)\n\n", step->floor_ms,
           step->token_ms, step->sharpness, step->cross_ms, step->square_ms, step->square_behind_ms,
           step->cached_ms, step->context_ms, step->sequence_ms);
}

static void print_model(const struct calibration_model *model)
{
    const struct step_model *step = &model->profile.step;
    struct calibration_model prefill = *model;
    struct calibration_model decode = *model;
    prefill.decode_count = 0;
    decode.prefill_count = 0;

    printf("%s\n\n", model->profile.name);
    for (uint32_t i = 0; i < calibration_constant_count; i++) {
        printf("  %-18s %.4g\n", calibration_constants[i].name,
               *(const double *)((const char *)step + calibration_constants[i].offset));
    }
    printf("\n  %-8s %4s   %7s   %7s   %7s   %s\n", "error", "rows", "median", "mean", "worst",
           "where");
    print_errors("prefill", &prefill, step);
    print_errors("decode", &decode, step);
    print_errors("all", model, step);
    print_profile(&model->profile);
}

// ---- what is done

// Fits every model that is wanted; the others stay as they were.
static int fit_models(struct calibration *calibration, const char *only)
{
    uint32_t count = 0;
    int result = COMMAND_OK;
    for (uint32_t i = 0; i < calibration->model_count; i++) {
        struct calibration_model *model = &calibration->models[i];
        struct calibration_fit fit;
        if (only != NULL && strcmp(only, model->profile.name) != 0) {
            continue;
        }
        count++;
        if (calibration_fit(model, &fit) != STATUS_OK) {
            fprintf(stderr, "warmpath calibrate: %s: too few rows to tell the constants apart\n",
                    model->profile.name);
            result = COMMAND_FAILED;
            continue;
        }
        model->profile.step = fit.step;
        model->has_step = true;
        print_model(model);
    }
    if (count == 0) {
        fprintf(stderr, "warmpath calibrate: no model %s\n", only);
        return COMMAND_USAGE;
    }
    return result;
}

static bool calibrate_measure(const struct calibrate_options *options, struct calibration *out)
{
    char error[probe_engine_error_size];
    struct probe_engine_options probe = {
        .url = options->backend,
        .model = options->model,
        .key = options->key,
        .seconds = options->seconds,
        .kv_tokens = options->kv_tokens,
        .step_tokens = options->step_tokens,
        .sequences_max = options->sequences_max,
        .context_max = options->context_max,
        .progress = stderr,
    };
    if (!probe_engine(&probe, out, error)) {
        fprintf(stderr, "warmpath calibrate: %s: %s\n", options->backend, error);
        return false;
    }
    return true;
}

int command_calibrate(int word_count, char **words)
{
    struct calibrate_options options = {.seconds = 60,
                                        .step_tokens = profile_step_tokens,
                                        .sequences_max = profile_sequences_max,
                                        .context_max = profile_context_max};
    enum flags_verdict verdict = read_options(&options, word_count, words);
    if (verdict != FLAGS_GOOD) {
        return verdict == FLAGS_HELPED ? COMMAND_OK : COMMAND_USAGE;
    }
    struct calibration *calibration = calloc(1, sizeof(*calibration));
    if (calibration == NULL) {
        fprintf(stderr, "warmpath calibrate: memory is short\n");
        return COMMAND_FAILED;
    }
    int result = COMMAND_OK;
    if (options.file != NULL) {
        result =
            calibration_file_read(command, options.file, calibration) ? COMMAND_OK : COMMAND_USAGE;
    } else {
        result = calibrate_measure(&options, calibration) ? COMMAND_OK : COMMAND_FAILED;
    }
    if (result == COMMAND_OK) {
        result = fit_models(calibration, options.model);
        // Rows are saved even if they are too few for a fit: measuring them took long.
        if (options.write != NULL && result != COMMAND_USAGE &&
            !calibration_file_write(command, options.write, calibration)) {
            result = COMMAND_FAILED;
        }
    }
    calibration_destroy(calibration);
    free(calibration);
    return fflush(stdout) == 0 && !ferror(stdout) ? result : COMMAND_FAILED;
}
