// SPDX-License-Identifier: Apache-2.0
//
// For any input: a file that is read has names, limits and rows within their bounds; written and
// read again it is the same; and the constants of a fit are numbers.

#include "base/base.h"
#include "base/text.h"
#include "fuzz.h"
#include "sim/engine/calibration.h"

#include <math.h>
#include <stdlib.h>

enum { written_size_max = 1 << 20, fitted_rows_max = 64 };

static void check_rows(const struct calibration_row *rows, uint32_t count)
{
    ASSERT(count <= calibration_row_max);
    for (uint32_t i = 0; i < count; i++) {
        ASSERT(rows[i].first >= 0 && rows[i].second >= 1);
        ASSERT(isfinite(rows[i].ms) && rows[i].ms > 0);
    }
}

static void check_fit(const struct calibration_model *model)
{
    struct calibration_fit fit;
    if (model->prefill_count + model->decode_count > fitted_rows_max ||
        calibration_fit(model, &fit) != STATUS_OK) {
        return;
    }
    for (uint32_t i = 0; i < calibration_constant_count; i++) {
        double value = *(const double *)((const char *)&fit.step + calibration_constants[i].offset);
        ASSERT(isfinite(value) && value >= 0);
    }
    ASSERT(fit.step.floor_ms > 0 || fit.step.token_ms > 0);
    ASSERT(isfinite(fit.worst_error) && fit.median_error <= fit.worst_error);
}

static void check_again(const struct calibration *calibration)
{
    static uint8_t space[written_size_max];
    static struct calibration again;
    char error[calibration_error_size];
    struct text text = text_over(space, sizeof(space));
    calibration_write(calibration, &text);
    if (text.overflow) {
        return;
    }
    ASSERT(calibration_read(text_slice(&text), &again, error) == STATUS_OK);
    ASSERT(again.model_count == calibration->model_count);
    for (uint32_t i = 0; i < again.model_count; i++) {
        ASSERT(strcmp(again.models[i].profile.name, calibration->models[i].profile.name) == 0);
        ASSERT(again.models[i].profile.kv_tokens == calibration->models[i].profile.kv_tokens);
        ASSERT(again.models[i].prefill_count == calibration->models[i].prefill_count);
        ASSERT(again.models[i].decode_count == calibration->models[i].decode_count);
        ASSERT(again.models[i].has_step == calibration->models[i].has_step);
    }
    calibration_destroy(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct calibration calibration;
    char error[calibration_error_size] = "";
    enum status status = calibration_read(slice_of(bytes, size), &calibration, error);

    if (status != STATUS_OK) {
        ASSERT(status == STATUS_MALFORMED && error[0] != '\0');
        ASSERT(memchr(error, '\0', sizeof(error)) != NULL);
        return 0;
    }
    ASSERT(calibration.model_count >= 1 && calibration.model_count <= calibration_model_max);
    for (uint32_t i = 0; i < calibration.model_count; i++) {
        const struct calibration_model *model = &calibration.models[i];
        ASSERT(model->profile.name[0] != '\0');
        ASSERT(model->profile.block_tokens > 0 && model->profile.step_tokens > 0);
        ASSERT(model->profile.kv_tokens >= model->profile.block_tokens);
        check_rows(model->prefill, model->prefill_count);
        check_rows(model->decode, model->decode_count);
        check_fit(model);
    }
    check_again(&calibration);
    calibration_destroy(&calibration);
    return 0;
}
