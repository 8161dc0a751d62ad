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
    // So many of one worker, then it is another's turn; what is left waits for the next drain.
    turn_max = 16384,
};

static const uint64_t number_mask = ((uint64_t)1 << 53) - 1;

// One secret for each kind of number, so that those of two kinds say nothing of each other.
struct secrets {
    struct siphash_secret ids;
    struct siphash_secret sessions;
    struct siphash_secret tails;
};

// What a span of text is taken for, in a pool.
struct rate {
    uint32_t span_size;
    uint32_t span_tokens;
};

struct recording {
    char *path;
    uint64_t size_max;
    struct append_file file;
    struct recorder *recorder;
    struct recorder_totals totals;
    uint64_t unwritten;  // entries that were taken and not written, ever
    uint64_t line_count; // in the batch
    struct text batch;
    struct secrets secrets;
    uint64_t tail_count;
    uint64_t wall_us; // to be added to the loop's clock
    bool is_failing;
    bool is_full; // it fails because of size_max
    uint64_t again_at_ms;
    struct rate rates[fleet_pool_count_max];
    uint64_t ids[ids_max];
    uint8_t batch_space[batch_size_max];
};

static struct siphash_secret make_secret(void)
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
    recording->secrets.ids = make_secret();
    recording->secrets.sessions = make_secret();
    recording->secrets.tails = make_secret();
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

// Says it once, and when to try again.
static void fail(struct recording *recording, const char *why, uint64_t now_ms)
{
    if (!recording->is_failing) {
        log_warn_seldom(0, "recording to %s: %s; what comes is dropped until there is room",
                        recording->path, why);
    }
    recording->is_failing = true;
    recording->again_at_ms = now_ms + again_ms;
}

static void succeed(struct recording *recording)
{
    if (recording->is_failing) {
        log_info_seldom(0, "recording to %s again; %lu requests were dropped", recording->path,
                        (unsigned long)recording->unwritten);
    }
    recording->is_failing = false;
    recording->is_full = false;
}

static enum status write_batch(struct recording *recording)
{
    struct append_file *file = &recording->file;
    // A file that was full is begun again only when much of it is gone, or every small line that still
    // fits would end the trouble and begin it again.
    uint64_t limit = recording->is_full ? recording->size_max / 2 : recording->size_max;

    if (file->fd == -1 && append_file_open(recording->path, file) != STATUS_OK) {
        return STATUS_IO;
    }
    return append_file_add(file, text_slice(&recording->batch), limit);
}

static void flush(struct recording *recording, uint64_t now_ms)
{
    if (recording->line_count == 0) {
        return;
    }
    ASSERT(!recording->batch.overflow);
    switch (write_batch(recording)) {
    case STATUS_OK:
        recording->totals.recorded += recording->line_count;
        succeed(recording);
        break;
    case STATUS_TOO_LARGE:
        recording->unwritten += recording->line_count;
        recording->is_full = true;
        fail(recording, "it has reached record.size_max", now_ms);
        break;
    default:
        recording->unwritten += recording->line_count;
        fail(recording, strerrordesc_np(errno), now_ms);
        break;
    }
    recording->batch.size = 0;
    recording->line_count = 0;
}

// Tokens of a span.
static uint32_t settle_rate(struct recording *recording, const struct recorder_entry *entry)
{
    ASSERT(entry->pool < fleet_pool_count_max);

    struct rate *rate = &recording->rates[entry->pool];
    uint32_t now = entry->span_tokens > 0 ? entry->span_tokens : 1;
    if (!entry->is_text) {
        return now; // they were counted
    }
    uint32_t off = now > rate->span_tokens ? now - rate->span_tokens : rate->span_tokens - now;
    if (rate->span_size != entry->span_size || (uint64_t)off * 8 > rate->span_tokens) {
        *rate = (struct rate){.span_size = entry->span_size, .span_tokens = now};
    }
    return rate->span_tokens;
}

static uint32_t at_most(uint64_t value)
{
    return value < mooncake_tokens_max ? (uint32_t)value : mooncake_tokens_max;
}

// As the trace has it: tokens in proportion to the size, so that ids and length agree.
static uint32_t input_tokens(const struct recorder_entry *entry, uint32_t span_tokens)
{
    uint64_t tokens = (entry->prompt_size * span_tokens + entry->span_size - 1) / entry->span_size;
    bool has_more_than_text = entry->is_text && entry->told_tokens / 2 > tokens;
    uint64_t chosen = has_more_than_text ? entry->told_tokens : tokens;
    return at_most(chosen > 0 ? chosen : 1);
}

static uint32_t name_spans(struct recording *recording, const struct recorder_entry *entry,
                           const uint64_t *keys)
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

static uint64_t session_of(const struct recording *recording, const struct recorder_entry *entry)
{
    if (entry->session_key == 0) {
        return 0;
    }
    uint64_t number = siphash_word(&recording->secrets.sessions, entry->session_key) & number_mask;
    return number > 0 ? number : 1; // 0 is no session
}

static void add_line(struct recording *recording, const struct recorder_entry *entry,
                     const uint64_t *keys)
{
    uint32_t span_tokens = settle_rate(recording, entry);
    struct mooncake_request request = {
        .at_us = entry->arrived_us + recording->wall_us,
        .session = session_of(recording, entry),
        .turn = at_most(entry->turn),
        .input_tokens = input_tokens(entry, span_tokens),
        .output_tokens = at_most(entry->output_tokens > 0 ? entry->output_tokens : 1),
        .block_tokens = at_most(span_tokens),
        .id_count = name_spans(recording, entry, keys),
    };
    mooncake_write(&request, recording->ids, &recording->batch);
    recording->line_count++;
}

static void drain_worker(struct recording *recording, uint32_t worker, uint64_t now_ms)
{
    struct recorder *recorder = recording->recorder;
    struct recorder_entry entry;
    const uint64_t *keys = NULL;

    for (uint32_t i = 0; i < turn_max && recorder_peek(recorder, worker, &entry, &keys); i++) {
        if (recording->is_failing && now_ms < recording->again_at_ms) {
            recording->unwritten++;
        } else {
            add_line(recording, &entry, keys);
        }
        recorder_drop(recorder, worker);
        if (recording->batch.capacity - recording->batch.size < line_size_max) {
            flush(recording, now_ms);
        }
    }
}

void recording_drain(struct recording *recording, uint64_t now_ms)
{
    for (uint32_t i = 0; i < recorder_worker_count(recording->recorder); i++) {
        drain_worker(recording, i, now_ms);
    }
    flush(recording, now_ms);
    recording->totals.dropped = recording->unwritten + recorder_lost(recording->recorder);
}

void recording_reopen(struct recording *recording, uint64_t size_max)
{
    // Opened by the next line, which also tells of failure.
    append_file_close(&recording->file);
    recording->size_max = size_max;
    recording->is_full = false;
    recording->again_at_ms = 0;
}
