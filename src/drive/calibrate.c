// SPDX-License-Identifier: Apache-2.0
//
// calibrate -- fits the step model of simulated engines to measured times: those of a file, or of
// requests to a live engine.

#include "base/base.h"
#include "config/option/command.h"
#include "config/option/flags.h"
#include "drive/probe_engine.h"
#include "lab/calibration_file.h"

#include <stdio.h>
#include <stdlib.h>

static const char command[] = "calibrate";

struct calibrate_options {
    const char *file;
    const char *write;
    struct probe_engine_options probe;
};

#define OWNER struct calibrate_options
static const struct config_option calibrate_flags[] = {
    FLAG(file, file, NULL, "Fit the rows of this calibration file."),
    FLAG_ROW("backend", probe.url, url, .help = "Measure this engine, which must be idle."),
    FLAG_ROW("model", probe.model, text,
             .help = "The engine's model, or the only one of the file to fit."),
    FLAG(write, file, NULL, "Write rows and constants, for --calibration of sim and engine."),
    FLAG_ROW("seconds", probe.seconds, seconds, .fallback = "60s", .help = "How long to measure."),
    FLAG_ROW("key", probe.key, secret, .help = "Sent to the engine as its bearer token."),
    FLAG_ROW("kv-tokens", probe.kv_tokens, amount,
             .help = "Tokens in the engine's cache, if its metrics do not say."),
    FLAG_ROW("step-tokens", probe.step_tokens, amount, .fallback = "8192",
             .help = "Most tokens of one step of the engine."),
    FLAG_ROW("sequences", probe.sequences_max, amount, .fallback = "256",
             .help = "Most sequences of one step of the engine."),
    FLAG_ROW("context", probe.context_max, amount, .fallback = "131072",
             .help = "Longest prompt and response of the engine."),
};
static const struct config_option_table calibrate_table = FLAG_TABLE(command, calibrate_flags);
#undef OWNER

static bool calibrate_is_good(const struct calibrate_options *options)
{
    if ((options->file == NULL) == (options->probe.url == NULL)) {
        return command_fail(command, "say either --file or --backend", NULL);
    }
    return options->probe.url == NULL || options->probe.model != NULL ||
           command_fail(command, "--backend needs --model", NULL);
}

// ---- output

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

// ---- work

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
            command_fail(command, model->profile.name, "too few rows to tell the constants apart");
            result = COMMAND_FAILED;
            continue;
        }
        model->profile.step = fit.step;
        model->has_step = true;
        print_model(model);
    }
    if (count == 0) {
        command_fail(command, "no such model", only);
        return COMMAND_USAGE;
    }
    return result;
}

static bool calibrate_measure(struct probe_engine_options *options, struct calibration *out)
{
    char error[probe_engine_error_size];
    options->progress = stderr;
    return probe_engine(options, out, error) || command_fail(command, options->url, error);
}

int command_calibrate(int word_count, char **words)
{
    struct calibrate_options options;
    int result = flags_read(&calibrate_table, word_count, words, &options);
    if (result != FLAGS_READ) {
        return result;
    }
    if (!calibrate_is_good(&options)) {
        return COMMAND_USAGE;
    }
    struct calibration *calibration = calloc(1, sizeof(*calibration));
    if (calibration == NULL) {
        command_fail(command, "memory is short", NULL);
        return COMMAND_FAILED;
    }
    if (options.file != NULL) {
        result =
            calibration_file_read(command, options.file, calibration) ? COMMAND_OK : COMMAND_USAGE;
    } else {
        result = calibrate_measure(&options.probe, calibration) ? COMMAND_OK : COMMAND_FAILED;
    }
    if (result == COMMAND_OK) {
        result = fit_models(calibration, options.probe.model);
        // Rows are saved even if they are too few for a fit: measuring them took long.
        if (options.write != NULL && result != COMMAND_USAGE &&
            !calibration_file_write(command, options.write, calibration)) {
            result = COMMAND_FAILED;
        }
    }
    calibration_destroy(calibration);
    free(calibration);
    return command_flush() ? result : COMMAND_FAILED;
}
