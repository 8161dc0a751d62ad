// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_tally.h"

#include "base/base.h"
#include "sys/pages.h"

#include <stdlib.h>

static const size_t samples_size = sizeof(struct figure_sample) * drive_requests_max;

bool drive_tally_init(struct drive_tally *tally)
{
    memset(tally, 0, sizeof(*tally));
    tally->samples = pages_reserve(samples_size);
    return tally->samples != NULL;
}

void drive_tally_fini(struct drive_tally *tally)
{
    if (tally->samples != NULL) {
        pages_release(&tally->samples, samples_size);
    }
}

static uint32_t tally_backend_of(struct drive_tally *tally, const char *name)
{
    if (name[0] == '\0') {
        return UINT32_MAX;
    }
    for (uint32_t i = 0; i < tally->backend_count; i++) {
        if (strcmp(tally->backends[i].name, name) == 0) {
            return i;
        }
    }
    if (tally->backend_count == drive_backends_max) {
        return UINT32_MAX;
    }
    memcpy(tally->backends[tally->backend_count].name, name, strlen(name) + 1);
    return tally->backend_count++;
}

static double ms_between(uint64_t from_us, uint64_t to_us)
{
    return to_us > from_us ? (double)(to_us - from_us) / 1000 : 0;
}

static void note_recent(struct drive_tally *tally, const struct drive_ending *ending)
{
    uint64_t due_us = ending->begin_us + ending->item->due_us;
    uint64_t first_us = ending->response->first_us;
    tally->recent[tally->recent_count++ % drive_recent_max] = (struct drive_recent){
        .at_us = ending->now_us,
        .first_us = saturate_u32(first_us > due_us ? first_us - due_us : 0),
    };
}

static void add_sample(struct drive_tally *tally, const struct drive_ending *ending)
{
    const struct drive_response *response = ending->response;
    const struct work_item *item = ending->item;
    const struct response_usage *usage = &response->usage;
    uint64_t due_us = ending->begin_us + item->due_us;
    // For a response without a token, which some engines send, the end counts as first and last.
    uint64_t first_us = response->first_us > 0 ? response->first_us : ending->now_us;
    uint64_t last_us = response->last_us > 0 ? response->last_us : ending->now_us;
    struct figure_sample sample = {
        .due_ms = (double)item->due_us / 1000,
        .first_ms = ms_between(due_us, first_us),
        .last_ms = ms_between(due_us, last_us),
        .prompt_tokens =
            usage->has_prompt_tokens ? saturate_u32(usage->prompt_tokens) : item->prompt_tokens,
        .cached_tokens = saturate_u32(usage->cached_tokens),
        .output_tokens = usage->has_prompt_tokens && usage->completion_tokens > 0
                             ? saturate_u32(usage->completion_tokens)
                             : response->token_events,
        .backend = tally_backend_of(tally, response->backend),
    };
    tally->knows_cached |= usage->has_cached_tokens;
    if (sample.backend != UINT32_MAX) {
        struct drive_backend *backend = &tally->backends[sample.backend];
        backend->requests++;
        backend->prompt_tokens += sample.prompt_tokens;
        backend->cached_tokens += sample.cached_tokens;
        backend->output_tokens += sample.output_tokens;
    }
    ASSERT(tally->sample_count < drive_requests_max);
    tally->samples[tally->sample_count++] = sample;
}

static void tally_add_error(struct drive_tally *tally, enum drive_error error, bool counts)
{
    tally->all_errors++;
    if (counts) {
        tally->errors[error]++;
        tally->error_count++;
    }
}

void drive_tally_end(struct drive_tally *tally, const struct drive_ending *ending)
{
    const struct drive_response *response = ending->response;
    uint64_t due_us = ending->begin_us + ending->item->due_us;

    tally->done++;
    tally->responded += response->status != 0;
    tally->counted += ending->counts;
    if (ending->counts) {
        histogram_add(&tally->late,
                      ending->sent_us > due_us ? (ending->sent_us - due_us) * 1000 : 0);
    }
    if (response->error != DRIVE_FINE) {
        tally_add_error(tally, response->error, ending->counts);
        if (response->error == DRIVE_STATUS && ending->counts &&
            response->status < drive_status_max) {
            tally->statuses[response->status]++;
        }
        return;
    }
    note_recent(tally, ending);
    if (ending->counts) {
        add_sample(tally, ending);
    }
}

void drive_tally_unsent(struct drive_tally *tally, bool counts)
{
    tally->counted += counts;
    tally_add_error(tally, DRIVE_UNSENT, counts);
}

void drive_tally_sum(const struct drive_tally *tally, struct figures *out)
{
    figures_sum(tally->samples, tally->sample_count, 0, tally->backend_count, out);
    out->failed_count = saturate_u32(tally->error_count);
    out->bound_rate = -1;
}

double drive_tally_recent_ms(const struct drive_tally *tally, uint64_t now_us)
{
    double firsts[drive_recent_max];
    uint32_t count = 0;

    for (uint32_t i = 0; i < drive_recent_max && i < tally->recent_count; i++) {
        if (now_us - tally->recent[i].at_us < drive_recent_us) {
            firsts[count++] = tally->recent[i].first_us;
        }
    }
    return count > 0 ? figures_median(firsts, count) / 1000 : -1;
}
