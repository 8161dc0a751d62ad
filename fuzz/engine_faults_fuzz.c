// SPDX-License-Identifier: Apache-2.0
//
// For any input: a refused body changes nothing and is explained; accepted values are in their
// range, and reading back what is written gives the same.

#include "base/base.h"
#include "base/text.h"
#include "engine/engine_faults.h"
#include "fuzz.h"

static void check_ranges(const struct engine_faults *faults, const struct engine_mishap *mishap)
{
    ASSERT(faults->error_rate >= 0 && faults->error_rate <= 1);
    ASSERT(faults->stall_rate >= 0 && faults->stall_rate <= 1);
    ASSERT(faults->events_loss >= 0 && faults->events_loss <= 1);
    ASSERT(faults->slow >= 0.01 && faults->slow <= 1000);
    ASSERT(faults->error_status >= 400 && faults->error_status <= 599);
    ASSERT(faults->stall_ms <= 3600000);
    ASSERT(mishap->crash_s >= 0 && mishap->crash_s <= 3600);
    ASSERT(mishap->freeze_ms <= 3600000);
}

static bool is_none(const struct engine_faults *faults)
{
    return faults->error_rate == 0 && faults->stall_rate == 1 && faults->slow == 1 &&
           faults->events_loss == 0 && faults->error_status == 500 && faults->stall_ms == 0;
}

static void check_written(const struct engine_faults *faults)
{
    char space[256];
    char error[engine_faults_error_size];
    struct text text = text_over(space, sizeof(space));
    struct engine_faults read = engine_faults_none;
    struct engine_mishap mishap;

    engine_faults_write(faults, &text);
    ASSERT(!text.overflow);
    ASSERT(engine_faults_read(text_slice(&text), &read, &mishap, error) == STATUS_OK);
    ASSERT(read.error_status == faults->error_status && read.stall_ms == faults->stall_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct engine_faults faults = engine_faults_none;
    struct engine_mishap mishap = {0};
    char error[engine_faults_error_size] = "";

    if (engine_faults_read(slice_of(bytes, size), &faults, &mishap, error) == STATUS_OK) {
        check_ranges(&faults, &mishap);
        check_written(&faults);
    } else {
        ASSERT(is_none(&faults) && error[0] != '\0');
        ASSERT(memchr(error, '\0', sizeof(error)) != NULL);
    }
    return 0;
}
