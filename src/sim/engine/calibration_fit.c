// SPDX-License-Identifier: Apache-2.0
//
// The fit: Levenberg and Marquardt's method on the logarithms of the constants, which keeps them
// positive and makes one step as good for 1e-7 as for 20.  With e_i the logarithm of predicted over
// measured time of row i, J its derivatives and D the diagonal of J'J, each round solves
//
//     (J'J + lambda D) d = -J'e
//
// and moves by d if that lessens the sum of e_i^2.  The formula is not convex: it is started from
// several places and the best end is taken.

#include "base/base.h"
#include "sim/engine/calibration.h"
#include "sim/figures.h"

#include <math.h>
#include <stdlib.h>

enum {
    n = calibration_constant_count,
    rows_max = 2 * calibration_row_max,
    rounds_max = 100,
};

// In logarithms.  e^25 below a sensible start is nothing; of sharpness 32 the two parts of a step
// are as good as their maximum.
static const double span = 25;
static const double sharpness_log_max = 3.434;

const struct calibration_constant calibration_constants[calibration_constant_count] = {
    {"floor_ms", offsetof(struct step_model, floor_ms)},
    {"token_ms", offsetof(struct step_model, token_ms)},
    {"sharpness", offsetof(struct step_model, sharpness)},
    {"cross_ms", offsetof(struct step_model, cross_ms)},
    {"square_ms", offsetof(struct step_model, square_ms)},
    {"square_behind_ms", offsetof(struct step_model, square_behind_ms)},
    {"cached_ms", offsetof(struct step_model, cached_ms)},
    {"context_ms", offsetof(struct step_model, context_ms)},
    {"sequence_ms", offsetof(struct step_model, sequence_ms)},
};
_Static_assert(sizeof(struct step_model) == n * sizeof(double), "every constant is in the table");

double calibration_predict(const struct step_model *step, const struct calibration_row *row,
                           bool is_decode)
{
    struct step_work work = {0};
    if (is_decode) {
        step_work_add_decode(&work, step, (uint32_t)row->first,
                             (uint64_t)(row->first * row->second));
    } else {
        step_work_add_chunk(&work, step, (uint32_t)row->first, (uint32_t)row->second);
    }
    return step_ms(&work, step);
}

static uint32_t row_count(const struct calibration_model *model)
{
    return model->prefill_count + model->decode_count;
}

static const struct calibration_row *row_at(const struct calibration_model *model, uint32_t index,
                                            bool *is_decode)
{
    *is_decode = index >= model->prefill_count;
    return *is_decode ? &model->decode[index - model->prefill_count] : &model->prefill[index];
}

static double *constant_of(struct step_model *step, uint32_t index)
{
    return (double *)((char *)step + calibration_constants[index].offset);
}

static bool is_sharpness(uint32_t index)
{
    return calibration_constants[index].offset == offsetof(struct step_model, sharpness);
}

// The sharpness is at least 1; everything else is above 0.
static double fit_least(uint32_t index)
{
    return is_sharpness(index) ? 1 : 0;
}

static struct step_model step_of(const double logs[n])
{
    struct step_model step = {0};
    for (uint32_t i = 0; i < n; i++) {
        *constant_of(&step, i) = fit_least(i) + exp(logs[i]);
    }
    return step;
}

static double squares_of(const struct calibration_model *model, const struct step_model *step)
{
    double sum = 0;
    for (uint32_t i = 0; i < row_count(model); i++) {
        bool is_decode = false;
        const struct calibration_row *row = row_at(model, i, &is_decode);
        double error = log(calibration_predict(step, row, is_decode) / row->ms);
        sum += error * error;
    }
    return sum;
}

// Gauss, with pivots; `a` has the right side as its last column.  False: no one solution.
static bool fit_solve(double a[n][n + 1], double out[n])
{
    for (uint32_t column = 0; column < n; column++) {
        uint32_t pivot = column;
        for (uint32_t row = column + 1; row < n; row++) {
            pivot = fabs(a[row][column]) > fabs(a[pivot][column]) ? row : pivot;
        }
        if (!(fabs(a[pivot][column]) > 1e-300)) {
            return false;
        }
        for (uint32_t k = 0; k <= n; k++) {
            double held = a[column][k];
            a[column][k] = a[pivot][k];
            a[pivot][k] = held;
        }
        for (uint32_t row = column + 1; row < n; row++) {
            double factor = a[row][column] / a[column][column];
            for (uint32_t k = column; k <= n; k++) {
                a[row][k] -= factor * a[column][k];
            }
        }
    }
    for (uint32_t row = n; row-- > 0;) {
        double sum = a[row][n];
        for (uint32_t k = row + 1; k < n; k++) {
            sum -= a[row][k] * out[k];
        }
        out[row] = sum / a[row][row];
    }
    return true;
}

struct slopes {
    double square[n][n]; // J'J
    double down[n];      // -J'e
};

// By differences: the formula stands in step_model.c alone.
static void find_slopes(const struct calibration_model *model, const double logs[n],
                        struct slopes *out)
{
    const double h = 1e-5;
    struct step_model here = step_of(logs);
    struct step_model above[n];
    struct step_model below[n];
    for (uint32_t i = 0; i < n; i++) {
        above[i] = here;
        below[i] = here;
        *constant_of(&above[i], i) = fit_least(i) + exp(logs[i] + h);
        *constant_of(&below[i], i) = fit_least(i) + exp(logs[i] - h);
    }
    *out = (struct slopes){0};
    for (uint32_t r = 0; r < row_count(model); r++) {
        bool is_decode = false;
        const struct calibration_row *row = row_at(model, r, &is_decode);
        double error = log(calibration_predict(&here, row, is_decode) / row->ms);
        double slope[n];
        for (uint32_t i = 0; i < n; i++) {
            slope[i] = log(calibration_predict(&above[i], row, is_decode) /
                           calibration_predict(&below[i], row, is_decode)) /
                       (2 * h);
            out->down[i] -= slope[i] * error;
            for (uint32_t k = 0; k <= i; k++) {
                out->square[i][k] += slope[i] * slope[k];
            }
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = i + 1; k < n; k++) {
            out->square[i][k] = out->square[k][i];
        }
    }
}

static double fit_clamp(double value, double low, double high)
{
    return value < low ? low : (value > high ? high : value);
}

// One move of at most a factor of e^2 in each constant.
static bool fit_propose(const struct slopes *slopes, double lambda, const double from[n],
                        const double start[n], double out[n])
{
    double a[n][n + 1];
    double move[n];
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < n; k++) {
            a[i][k] = slopes->square[i][k];
        }
        // A parameter that no row determines any more is held fixed, to avoid a division by 0.
        a[i][i] += lambda * (slopes->square[i][i] + 1e-9);
        a[i][n] = slopes->down[i];
    }
    if (!fit_solve(a, move)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        double high = is_sharpness(i) ? sharpness_log_max : start[i] + span;
        out[i] = fit_clamp(from[i] + fit_clamp(move[i], -2, 2), start[i] - span, high);
    }
    return true;
}

// Walks down from `logs`, and returns the sum of squares where it ends.
static double fit_descend(const struct calibration_model *model, double logs[n])
{
    double start[n];
    double next[n];
    memcpy(start, logs, sizeof(start));
    struct step_model step = step_of(logs);
    double sum = squares_of(model, &step);
    double lambda = 0.01;

    for (uint32_t round = 0; round < rounds_max && lambda < 1e8; round++) {
        struct slopes slopes;
        double before = sum;
        find_slopes(model, logs, &slopes);
        for (bool is_lower = false; !is_lower && lambda < 1e8;) {
            if (fit_propose(&slopes, lambda, logs, start, next)) {
                step = step_of(next);
                double there = squares_of(model, &step);
                is_lower = there < sum;
                sum = is_lower ? there : sum;
            }
            lambda = is_lower ? lambda * 0.2 : lambda * 4;
        }
        if (sum < before) {
            memcpy(logs, next, sizeof(next));
        }
        if (before - sum < 1e-10 * before) {
            break;
        }
    }
    return sum;
}

struct extent {
    double ms_min;
    double new_max;    // tokens of the longest prompt
    double new_max_ms; // and its time per token
    double cached_max;
    double context_max; // tokens of context of the largest batch
    double context_ms;  // and its time per token
    double batch_max;
};

static struct extent extent_of(const struct calibration_model *model)
{
    struct extent extent = {.ms_min = INFINITY};
    for (uint32_t i = 0; i < model->prefill_count; i++) {
        const struct calibration_row *row = &model->prefill[i];
        extent.ms_min = fmin(extent.ms_min, row->ms);
        extent.cached_max = fmax(extent.cached_max, row->first);
        if (row->first == 0 && row->second > extent.new_max) {
            extent.new_max = row->second;
            extent.new_max_ms = row->ms / row->second;
        }
    }
    for (uint32_t i = 0; i < model->decode_count; i++) {
        const struct calibration_row *row = &model->decode[i];
        extent.ms_min = fmin(extent.ms_min, row->ms);
        extent.batch_max = fmax(extent.batch_max, row->first);
        if (row->first * row->second > extent.context_max) {
            extent.context_max = row->first * row->second;
            extent.context_ms = row->ms / extent.context_max;
        }
    }
    return extent;
}

// A sensible place to begin: `share` of a long prompt is attention, and of a short step the rest.
static void fit_begin(const struct extent *extent, double sharpness, double share, double logs[n])
{
    double square = share * extent->new_max_ms / extent->new_max;
    struct step_model step = {
        .floor_ms = extent->ms_min,
        .token_ms = extent->new_max_ms,
        .sharpness = sharpness,
        .cross_ms = 2 * square,
        .square_ms = square,
        .square_behind_ms = square,
        .cached_ms = share * extent->ms_min / extent->cached_max,
        .context_ms = extent->context_ms,
        .sequence_ms = 0.1 * share * extent->ms_min / extent->batch_max,
    };
    for (uint32_t i = 0; i < n; i++) {
        logs[i] = log(*constant_of(&step, i) - fit_least(i));
    }
}

// Zeroes the constants without which the fit is as good.
static void fit_drop_idle(const struct calibration_model *model, struct step_model *step)
{
    double sum = squares_of(model, step);
    for (uint32_t i = 0; i < n; i++) {
        struct step_model without = *step;
        *constant_of(&without, i) = fit_least(i);
        if (!is_sharpness(i) && squares_of(model, &without) <= sum * (1 + 1e-6)) {
            *step = without;
        }
    }
}

// Whether there are three rows or more, which differ in both of their counts.
static bool rows_differ(const struct calibration_row *rows, uint32_t count, bool is_cached)
{
    uint32_t counted = 0;
    bool first_differs = false;
    bool second_differs = false;
    const struct calibration_row *one = NULL;

    for (uint32_t i = 0; i < count; i++) {
        if ((rows[i].first > 0) == is_cached) {
            one = one == NULL ? &rows[i] : one;
            counted++;
            first_differs |= rows[i].first != one->first;
            second_differs |= rows[i].second != one->second;
        }
    }
    return counted >= 3 && second_differs && (first_differs || !is_cached);
}

// Whether every constant has rows that differ in the count that it multiplies.
static bool fit_is_determined(const struct calibration_model *model)
{
    return rows_differ(model->prefill, model->prefill_count, false) &&
           rows_differ(model->prefill, model->prefill_count, true) &&
           rows_differ(model->decode, model->decode_count, true);
}

void calibration_judge(const struct calibration_model *model, const struct step_model *step,
                       struct calibration_fit *out)
{
    uint32_t count = row_count(model);
    ASSERT(count > 0 && count <= rows_max);
    double errors[rows_max];
    struct calibration_fit fit = {.step = *step, .worst_error = -1};
    for (uint32_t i = 0; i < count; i++) {
        bool is_decode = false;
        const struct calibration_row *row = row_at(model, i, &is_decode);
        errors[i] = fabs(calibration_predict(step, row, is_decode) / row->ms - 1);
        fit.mean_error += errors[i] / count;
        if (errors[i] > fit.worst_error) {
            fit.worst_error = errors[i];
            fit.worst = *row;
            fit.worst_is_decode = is_decode;
        }
    }
    fit.median_error = figures_median(errors, count);
    *out = fit;
}

enum status calibration_fit(const struct calibration_model *model, struct calibration_fit *out)
{
    static const double sharpnesses[] = {1.5, 2.5, 6};
    static const double shares[] = {0.02, 0.2, 1};
    if (!fit_is_determined(model)) {
        return STATUS_EXHAUSTED;
    }
    struct extent extent = extent_of(model);
    struct step_model best = {0};
    double lowest = INFINITY;
    for (size_t i = 0; i < ARRAY_COUNT(sharpnesses); i++) {
        for (size_t k = 0; k < ARRAY_COUNT(shares); k++) {
            double logs[n];
            fit_begin(&extent, sharpnesses[i], shares[k], logs);
            double sum = fit_descend(model, logs);
            if (sum < lowest) {
                lowest = sum;
                best = step_of(logs);
            }
        }
    }
    fit_drop_idle(model, &best);
    calibration_judge(model, &best, out);
    return STATUS_OK;
}
