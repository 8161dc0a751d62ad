// SPDX-License-Identifier: Apache-2.0

#include "keeper/recording.h"

#include "base/base.h"
#include "base/siphash.h"
#include "base/text.h"
#include "fleet/fleet.h"
#include "prefix/prefix_updates.h"
#include "sim/workload/mooncake.h"
#include "sys/append_file.h"
#include "sys/clock.h"
#include "sys/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    ids_max = prefix_update_keys_max + 1,
    // 16 digits, a comma and a space for each id; the rest for the names.
    line_size_max = ids_max * 18 + 512,
    batch_size_max = 2 * line_size_max,
    again_ms = 10000,
    // Entries of one worker in one drain; the rest waits for the next.
    turn_max = 16384,
};

static const uint64_t number_mask = ((uint64_t)1 << 53) - 1;

// One secret for each kind of number, so that numbers of two kinds cannot be related.
struct recording_secrets {
    struct siphash_secret ids;
    struct siphash_secret sessions;
    struct siphash_secret tails;
};

// The tokens of a span of text, in a pool.
struct recording_rate {
    uint32_t span_size;
    uint32_t span_tokens;
};

struct recording {
    char *path;
    uint64_t size_max;
    struct append_file file;
    struct recorder *recorder;
    struct recorder_totals totals;
    uint64_t unwritten;  // entries that were taken and could not be written
    uint64_t line_count; // in the batch
    struct text batch;
    struct recording_secrets secrets;
    uint64_t tail_count;
    uint64_t wall_us; // offset of the wall clock to the loop's
    bool is_failing;
    bool is_full; // the failure is size_max
    uint64_t again_at_ms;
    struct recording_rate rates[fleet_pool_count_max];
    uint64_t ids[ids_max];
    uint8_t batch_space[batch_size_max];
};

static struct siphash_secret recording_make_secret(void)
{
    return (struct siphash_secret){.words = {clock_entropy(), clock_entropy()}};
}

enum status recording_open(const struct recording_options *options, struct recording **out)
{
    struct append_file file = {.fd = -1};
    if (append_file_open(options->path, &file) != STATUS_OK) {
        return STATUS_IO;
    }
    struct recording *recording = calloc(1, sizeof(*recording));
    ASSERT(recording != NULL);
    recording->path = strdup(options->path);
    recording->size_max = options->size_max;
    recording->file = file;
    recording->recorder = recorder_create(&(struct recorder_options){
        .worker_count = options->worker_count, .span_tokens = options->span_tokens});
    recording->secrets.ids = recording_make_secret();
    recording->secrets.sessions = recording_make_secret();
    recording->secrets.tails = recording_make_secret();
    recording->wall_us = clock_wall_ms() * 1000 - clock_monotonic_ns() / 1000;
    ASSERT(recording->path != NULL && recording->recorder != NULL);
    recording->batch = text_over(recording->batch_space, batch_size_max);
    *out = recording;
    return STATUS_OK;
}

void recording_close(struct recording **recording_ptr, uint64_t now_ms)
{
    struct recording *recording = *recording_ptr;
    *recording_ptr = NULL;

    if (recording == NULL) {
        return;
    }
    recording_drain(recording, now_ms);
    append_file_close(&recording->file);
    recorder_destroy(&recording->recorder);
    free(recording->path);
    free(recording);
}

struct recorder *recording_recorder(struct recording *recording)
{
    return recording->recorder;
}

const struct recorder_totals *recording_totals(const struct recording *recording)
{
    return &recording->totals;
}

// Logs the first failure, and sets when to try again.
static void recording_fail(struct recording *recording, const char *why, uint64_t now_ms)
{
    if (!recording->is_failing) {
        log_warn_seldom(0, "recording to %s: %s; requests are dropped until there is room",
                        recording->path, why);
    }
    recording->is_failing = true;
    recording->again_at_ms = now_ms + again_ms;
}

static void recording_succeed(struct recording *recording)
{
    if (recording->is_failing) {
        log_info_seldom(0, "recording to %s again; %lu requests were dropped", recording->path,
                        (unsigned long)recording->unwritten);
    }
    recording->is_failing = false;
    recording->is_full = false;
}

static enum status recording_write_batch(struct recording *recording)
{
    struct append_file *file = &recording->file;
    // A full file is used again only below half of the limit: otherwise every short line that still
    // fits would end the failure and the next long one begin it again.
    uint64_t limit = recording->is_full ? recording->size_max / 2 : recording->size_max;

    if (file->fd == -1 && append_file_open(recording->path, file) != STATUS_OK) {
        return STATUS_IO;
    }
    return append_file_add(file, text_slice(&recording->batch), limit);
}

static void recording_flush(struct recording *recording, uint64_t now_ms)
{
    if (recording->line_count == 0) {
        return;
    }
    ASSERT(!recording->batch.overflow);
    switch (recording_write_batch(recording)) {
    case STATUS_OK:
        recording->totals.recorded += recording->line_count;
        recording_succeed(recording);
        break;
    case STATUS_TOO_LARGE:
        recording->unwritten += recording->line_count;
        recording->is_full = true;
        recording_fail(recording, "it has reached record.size_max", now_ms);
        break;
    default:
        recording->unwritten += recording->line_count;
        recording_fail(recording, strerrordesc_np(errno), now_ms);
        break;
    }
    recording->batch.size = 0;
    recording->line_count = 0;
}

// Tokens of a span.
static uint32_t recording_settle_rate(struct recording *recording,
                                      const struct recorder_entry *entry)
{
    ASSERT(entry->pool < fleet_pool_count_max);

    struct recording_rate *rate = &recording->rates[entry->pool];
    uint32_t now = entry->span_tokens > 0 ? entry->span_tokens : 1;
    if (!entry->is_text) {
        return now; // counted, not estimated
    }
    uint32_t off = now > rate->span_tokens ? now - rate->span_tokens : rate->span_tokens - now;
    if (rate->span_size != entry->span_size || (uint64_t)off * 8 > rate->span_tokens) {
        *rate = (struct recording_rate){.span_size = entry->span_size, .span_tokens = now};
    }
    return rate->span_tokens;
}

static uint32_t recording_clamp(uint64_t value)
{
    return value < mooncake_tokens_max ? (uint32_t)value : mooncake_tokens_max;
}

// In proportion to the size, so that ids and length agree.
static uint32_t recording_input_tokens(const struct recorder_entry *entry, uint32_t span_tokens)
{
    uint64_t tokens = (entry->prompt_size * span_tokens + entry->span_size - 1) / entry->span_size;
    bool has_more_than_text = entry->is_text && entry->told_tokens / 2 > tokens;
    uint64_t chosen = has_more_than_text ? entry->told_tokens : tokens;
    return recording_clamp(chosen > 0 ? chosen : 1);
}

static uint32_t recording_name_spans(struct recording *recording,
                                     const struct recorder_entry *entry, const uint64_t *keys)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < entry->key_count; i++) {
        recording->ids[count++] = siphash_word(&recording->secrets.ids, keys[i]) & number_mask;
    }
    if ((uint64_t)entry->key_count * entry->span_size < entry->prompt_size) {
        recording->ids[count++] =
            siphash_word(&recording->secrets.tails, recording->tail_count++) & number_mask;
    }
    return count;
}

static uint64_t recording_session_of(const struct recording *recording,
                                     const struct recorder_entry *entry)
{
    if (entry->session_key == 0) {
        return 0;
    }
    uint64_t number = siphash_word(&recording->secrets.sessions, entry->session_key) & number_mask;
    return number > 0 ? number : 1; // 0 means no session
}

static void recording_add_line(struct recording *recording, const struct recorder_entry *entry,
                               const uint64_t *keys)
{
    uint32_t span_tokens = recording_settle_rate(recording, entry);
    struct mooncake_request request = {
        .at_us = entry->arrived_us + recording->wall_us,
        .session = recording_session_of(recording, entry),
        .turn = recording_clamp(entry->turn),
        .input_tokens = recording_input_tokens(entry, span_tokens),
        .output_tokens = recording_clamp(entry->output_tokens > 0 ? entry->output_tokens : 1),
        .block_tokens = recording_clamp(span_tokens),
        .id_count = recording_name_spans(recording, entry, keys),
    };
    mooncake_write(&request, recording->ids, &recording->batch);
    recording->line_count++;
}

static void recording_drain_worker(struct recording *recording, uint32_t worker, uint64_t now_ms)
{
    struct recorder *recorder = recording->recorder;
    struct recorder_entry entry;
    const uint64_t *keys = NULL;

    for (uint32_t i = 0; i < turn_max && recorder_peek(recorder, worker, &entry, &keys); i++) {
        if (recording->is_failing && now_ms < recording->again_at_ms) {
            recording->unwritten++;
        } else {
            recording_add_line(recording, &entry, keys);
        }
        recorder_drop(recorder, worker);
        if (recording->batch.capacity - recording->batch.size < line_size_max) {
            recording_flush(recording, now_ms);
        }
    }
}

void recording_drain(struct recording *recording, uint64_t now_ms)
{
    for (uint32_t i = 0; i < recorder_worker_count(recording->recorder); i++) {
        recording_drain_worker(recording, i, now_ms);
    }
    recording_flush(recording, now_ms);
    recording->totals.dropped = recording->unwritten + recorder_lost(recording->recorder);
}

void recording_reopen(struct recording *recording, uint64_t size_max)
{
    // The next line opens the file, and logs a failure.
    append_file_close(&recording->file);
    recording->size_max = size_max;
    recording->is_full = false;
    recording->again_at_ms = 0;
}
