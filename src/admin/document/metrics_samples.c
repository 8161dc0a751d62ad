// SPDX-License-Identifier: Apache-2.0

#include "admin/document/metrics_samples.h"

#include "base/base.h"
#include "cluster/cluster.h"
#include "dialect/token_reader.h"
#include "feed/kv/kv_feeder.h"
#include "fleet/fleet.h"
#include "knowledge/knowledge.h"
#include "metrics/meters_sum.h"
#include "metrics/metric_writer.h"
#include "proxy/proxy.h"
#include "scribe/scribe.h"
#include "worker/recorder.h"

#include <stdlib.h>
#include <string.h>

// In units of 10 to the power of -decimals, rounded.
static uint64_t scaled(enum metric metric, double value)
{
    for (uint32_t i = metric_row(metric)->decimals; i > 0; i--) {
        value *= 10;
    }
    return (uint64_t)(value + 0.5);
}

static void take_counts(struct metrics_row *row, const struct meters_sum *sum)
{
    struct meters_slot_sum slot;
    meters_sum_slot(sum, row->backend->slot, row->backend->id, &slot);
    row->values[METRIC_PROMPT_TOKENS] = slot.prompt_tokens;
    row->values[METRIC_OUTPUT_TOKENS] = slot.output_tokens;
    row->values[METRIC_TOLD_REQUESTS] = slot.told_count;
    row->values[METRIC_TOLD_PROMPT_TOKENS] = slot.told_prompt_tokens;
    row->values[METRIC_PREDICTED_TOKENS] = slot.expected_tokens;
    row->values[METRIC_CACHED_TOKENS] = slot.cached_tokens;
    row->values[METRIC_WRONG_TOKENS] = slot.wrong_tokens;
    row->values[METRIC_SAVED] = slot.saved_us;
    row->ttft_us = slot.ttft_us;
    row->ttft_count = slot.ttft_count;
}

#define SHARED(word) atomic_load_explicit(&backend->shared.word, memory_order_relaxed)

static void take_state(struct metrics_row *row, const struct fleet_member *member, uint64_t now_ms)
{
    const struct backend *backend = row->backend;
    uint64_t ejected_until_ms = SHARED(ejected_until_ms);
    uint32_t probe = SHARED(probe);

    row->values[METRIC_BACKEND_UP] = backend_tier(backend, now_ms) != BACKEND_DOWN;
    if (probe != BACKEND_PROBE_UNKNOWN) {
        row->values[METRIC_BACKEND_PROBE_UP] = probe == BACKEND_PROBE_UP;
    }
    row->values[METRIC_BACKEND_EJECTED] = ejected_until_ms != 0 && now_ms < ejected_until_ms;
    row->values[METRIC_BACKEND_HALF_OPEN] = ejected_until_ms != 0 && now_ms >= ejected_until_ms;
    row->values[METRIC_BACKEND_BUSY] = now_ms < SHARED(busy_until_ms);
    row->values[METRIC_BACKEND_DRAINING] = member->draining;
    row->values[METRIC_BACKEND_WEIGHT] = member->weight;
    row->values[METRIC_BACKEND_IN_FLIGHT] = SHARED(in_flight);
    row->values[METRIC_BACKEND_ATTEMPTS] = SHARED(request_count);
    row->values[METRIC_BACKEND_FAULTS] = SHARED(failure_count);
}

static void take_load(struct metrics_row *row, uint64_t now_ms)
{
    const struct load *load = &row->backend->load;
    struct load_view view;

    load_read(load, now_ms, &view);
    // Of this router alone, as people sum over routers; the view has those of a whole cluster.
    row->values[METRIC_BACKEND_QUEUED_TOKENS] =
        atomic_load_explicit(&load->queued_tokens, memory_order_relaxed);
    row->values[METRIC_BACKEND_DECODING] =
        (uint64_t)atomic_load_explicit(&load->sequences, memory_order_relaxed);
    row->values[METRIC_BACKEND_CONTEXT_TOKENS] =
        atomic_load_explicit(&load->context_tokens, memory_order_relaxed);
    row->values[METRIC_BACKEND_FOREIGN] =
        scaled(METRIC_BACKEND_FOREIGN, (double)view.foreign_requests);
    if (view.speed_is_learned) {
        row->values[METRIC_BACKEND_PREFILL_RATE] =
            scaled(METRIC_BACKEND_PREFILL_RATE, 1000 / (double)view.prefill_ms);
    }
    if (atomic_load_explicit(&load->step_samples, memory_order_relaxed) > 0) {
        row->values[METRIC_BACKEND_STEP] = scaled(METRIC_BACKEND_STEP, (double)view.step_ms / 1000);
    }
    if (view.cache_tokens > 0) {
        row->values[METRIC_BACKEND_CACHE_TOKENS] = view.cache_tokens;
    }
    if (view.kv_usage >= 0) {
        row->values[METRIC_BACKEND_KV_USAGE] =
            scaled(METRIC_BACKEND_KV_USAGE, (double)view.kv_usage);
    }
}

static void metrics_samples_take_events(struct metrics_row *row,
                                        const struct metrics_page_input *input)
{
    struct kv_feed_status heard;
    if (input->events == NULL || !input->events(input->events_owner, row->backend->id, &heard)) {
        return;
    }
    const struct {
        enum metric metric;
        uint64_t value;
    } counts[] = {
        {METRIC_EVENTS_LIVE, heard.state == KV_LIVE},
        {METRIC_EVENTS_CONNECTED, heard.is_connected},
        {METRIC_EVENTS_SILENCE, heard.last_ms}, // UINT64_MAX means unknown there too
        {METRIC_EVENTS_LAG, heard.lag_ms},
        {METRIC_EVENTS_BLOCKS, heard.block_count},
        {METRIC_EVENTS_ORPHANS_WAITING, heard.orphan_count},
        {METRIC_EVENTS_MESSAGES, heard.follower.messages},
        {METRIC_EVENTS_GAPS, heard.follower.gaps},
        {METRIC_EVENTS_LOST, heard.follower.lost},
        {METRIC_EVENTS_REPLAYS, heard.follower.replays},
        {METRIC_EVENTS_REPLAYS_FAILED, heard.follower.replays_failed},
        {METRIC_EVENTS_RESTARTS, heard.follower.restarts},
        {METRIC_EVENTS_PURGES, heard.follower.purges},
        {METRIC_EVENTS_MALFORMED, heard.follower.malformed},
        {METRIC_EVENTS_STORED, heard.holdings.stored},
        {METRIC_EVENTS_REMOVED, heard.holdings.removed},
        {METRIC_EVENTS_ORPHANS, heard.holdings.orphans},
    };
    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        row->values[counts[i].metric] = counts[i].value;
    }
}

static void take_tokenizer(struct metrics_row *row, const struct dialect *dialect)
{
    const struct {
        enum metric metric;
        const atomic_uint_fast64_t *counter;
    } counters[] = {
        {METRIC_TOKENIZER_BY_TOKEN_IDS, &dialect->shared.by_ids_count},
        {METRIC_TOKENIZER_TEXT, &dialect->shared.by_text_count},
        {METRIC_TOKENIZER_CONFIRMED, &dialect->shared.confirmed_count},
        {METRIC_TOKENIZER_DRIFTED, &dialect->shared.drift_count},
        {METRIC_TOKENIZER_BYTES, &dialect->shared.text_bytes},
        {METRIC_TOKENIZER_KNOWN, &dialect->shared.known_bytes},
    };
    uint32_t revoked = atomic_load_explicit(&dialect->shared.revoked, memory_order_relaxed);

    for (size_t i = 0; i < ARRAY_COUNT(counters); i++) {
        row->values[counters[i].metric] =
            atomic_load_explicit(counters[i].counter, memory_order_relaxed);
    }
    row->values[METRIC_TOKENIZER_CERTIFIED] = (uint64_t)__builtin_popcount(dialect_shapes(dialect));
    row->values[METRIC_TOKENIZER_REVOKED] = (uint64_t)__builtin_popcount(revoked);
}

static uint64_t time_since(const struct cluster_status *status, uint64_t at_ms)
{
    return status->now_ms > at_ms ? status->now_ms - at_ms : 0;
}

static void keep_longest(uint64_t *longest, uint64_t value)
{
    *longest = *longest == METRICS_NO_VALUE || value > *longest ? value : *longest;
}

static void take_peers(uint64_t *values, const struct cluster_status *status)
{
    uint64_t peer_count = 0;
    uint64_t incomplete_count = 0;
    uint64_t request_count = 0;

    for (uint32_t i = 0; i < status->link.peer_count; i++) {
        const struct link_peer_status *peer = &status->link.peers[i];
        if (peer->is_there) {
            keep_longest(&values[METRIC_CLUSTER_SILENCE], time_since(status, peer->heard_ms));
            peer_count++;
        }
    }
    for (uint32_t i = 0; i < status->replica.peer_count; i++) {
        const struct replica_peer_status *peer = &status->replica.peers[i];
        incomplete_count += peer->is_there && peer->has_gap;
        if (peer->is_there) {
            keep_longest(&values[METRIC_CLUSTER_LAG], peer->lag_ms);
        }
        request_count += peer->is_there ? peer->requests : 0;
    }
    values[METRIC_CLUSTER_PEERS] = peer_count;
    values[METRIC_CLUSTER_INCOMPLETE] = incomplete_count;
    values[METRIC_CLUSTER_OTHERS] = request_count;
}

static void take_cluster(uint64_t *values, const struct cluster_status *status)
{
    const struct replica_status *replica = &status->replica;
    const struct {
        enum metric metric;
        uint64_t value;
    } counts[] = {
        {METRIC_CLUSTER_UP, status->link.is_up},
        {METRIC_CLUSTER_NOTES, replica->notes},
        {METRIC_CLUSTER_NOTES_DROPPED, status->notes_dropped},
        {METRIC_CLUSTER_BATCHES_SENT, replica->batches_sent},
        {METRIC_CLUSTER_BATCHES_DROPPED, replica->batches_dropped},
        {METRIC_CLUSTER_BATCHES_RECEIVED, replica->batches_taken},
        {METRIC_CLUSTER_BYTES_SENT, status->link.bytes_out},
        {METRIC_CLUSTER_BYTES_RECEIVED, status->link.bytes_in},
        {METRIC_CLUSTER_GAPS, replica->gaps},
        {METRIC_CLUSTER_ORPHANS, replica->orphans},
        {METRIC_CLUSTER_MALFORMED, replica->malformed},
        {METRIC_CLUSTER_FOREIGN, replica->foreign},
        {METRIC_CLUSTER_LIVES, replica->eras},
        {METRIC_CLUSTER_SNAPSHOTS_ASKED, replica->snapshots_asked},
        {METRIC_CLUSTER_SNAPSHOTS_TAKEN, replica->snapshots_taken},
        {METRIC_CLUSTER_SNAPSHOTS_GIVEN, replica->snapshots_given},
        {METRIC_CLUSTER_PREDICTIONS, replica->open_predictions},
        {METRIC_CLUSTER_MEMORY, replica->memory},
    };
    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        values[counts[i].metric] = counts[i].value;
    }
    if (replica->snapshot_at_ms != 0) {
        values[METRIC_CLUSTER_SNAPSHOT_AGE] = time_since(status, replica->snapshot_at_ms);
        values[METRIC_CLUSTER_SNAPSHOT_TIME] = replica->snapshot_ms;
    }
    take_peers(values, status);
}

static void take_router(uint64_t *values, const struct metrics_page_input *input)
{
    values[METRIC_WORKERS] = input->worker_count;
    if (input->totals != NULL) {
        values[METRIC_RECEIVED] = input->totals->request_count;
        values[METRIC_IN_FLIGHT] = input->totals->in_flight;
        values[METRIC_CONNECTIONS] = input->totals->connection_count;
        values[METRIC_RETRIES] = input->totals->retry_count;
        values[METRIC_POISON] = input->totals->poison_count;
        values[METRIC_BODY_MEMORY] = input->totals->body_memory;
        values[METRIC_BUFFERS] = input->totals->buffers_in_use;
        values[METRIC_UPSTREAM_IDLE] = input->totals->upstream_idle;
        values[METRIC_UPSTREAM_OPENED] = input->totals->upstream_opened;
        values[METRIC_UPSTREAM_REUSED] = input->totals->upstream_reused;
    }
    if (input->known != NULL) {
        values[METRIC_INDEX_MEMORY] = input->known->index.memory;
        values[METRIC_INDEX_RUNS] = input->known->index.run_count;
        values[METRIC_INDEX_EVICTIONS] = input->known->index.evictions;
        values[METRIC_INDEX_EXPIRIES] = input->known->index.expiries;
        values[METRIC_LETTERS_LOST] = input->known->letters_lost;
    }
    if (input->ledger != NULL) {
        values[METRIC_LEDGER_MEMORY] = input->ledger->memory;
        values[METRIC_LEDGER_LIMIT] = input->ledger->limit;
        values[METRIC_LEDGER_RUNS] = input->ledger->run_count;
        values[METRIC_LEDGER_REFUSED] = input->ledger->refused;
        values[METRIC_EVENTS_STRAYS] = input->stray_count;
    }
    if (input->cluster != NULL) {
        take_cluster(values, input->cluster);
    }
    if (input->scribe != NULL) {
        values[METRIC_LOG_LINES] = input->scribe->written;
        values[METRIC_LOG_DROPPED] = input->scribe->dropped_lines;
        values[METRIC_SPANS_EXPORTED] = input->scribe->exported;
        values[METRIC_SPANS_DROPPED] = input->scribe->dropped_spans;
        values[METRIC_RECEIPTS_LOST] = input->scribe->lost;
    }
    if (input->recorded != NULL) {
        values[METRIC_RECORDED] = input->recorded->recorded;
        values[METRIC_RECORD_DROPPED] = input->recorded->dropped;
    }
    if (input->process != NULL) {
        values[METRIC_PROCESS_CPU] = input->process->cpu_us;
        values[METRIC_PROCESS_RESIDENT] = input->process->resident_bytes;
        values[METRIC_PROCESS_VIRTUAL] = input->process->virtual_bytes;
        values[METRIC_PROCESS_OPEN_FDS] = input->process->open_fds;
        values[METRIC_PROCESS_MAX_FDS] = input->process->max_fds;
        values[METRIC_PROCESS_START] = input->process->start_ms;
    }
}

enum { label_frame = sizeof("tokenizer=\"\"") };

// Every byte of a value may need a second one.
static size_t label_size_max(const char *value)
{
    return label_frame + 2 * strlen(value);
}

static bool metrics_samples_reserve(const struct metrics_page_input *input,
                                    struct metrics_samples *out)
{
    const struct backend *backend;
    size_t label_size = 1;

    for (; (backend = fleet_at(input->fleet, out->backend_count)) != NULL; out->backend_count++) {
        label_size += label_size_max(backend->url);
    }
    out->tokenizer_count = input->dialects == NULL ? 0 : input->dialects->count;
    for (uint32_t i = 0; i < out->tokenizer_count; i++) {
        label_size += label_size_max(input->dialects->dialects[i]->name);
    }
    size_t row_count = (size_t)1 + out->backend_count + out->tokenizer_count;
    out->rows = malloc(row_count * sizeof(*out->rows));
    out->label_space = malloc(label_size);
    if (out->rows == NULL || out->label_space == NULL) {
        return false;
    }
    memset(out->rows, 0xff, row_count * sizeof(*out->rows)); // no value anywhere
    for (size_t i = 0; i < row_count; i++) {
        out->rows[i].backend = NULL;
        out->rows[i].labels = slice_str("");
    }
    return true;
}

// Labels lie one behind the other; *at is where the next one goes.
static void name_row(struct metrics_row *row, const char *label, const char *value, uint8_t **at)
{
    struct text labels = text_over(*at, label_size_max(value));
    metric_label(&labels, label, slice_str(value));
    row->labels = text_slice(&labels);
    *at += labels.size;
}

bool metrics_samples_take(const struct metrics_page_input *input, const struct meters_sum *sum,
                          struct metrics_samples *out)
{
    *out = (struct metrics_samples){0};
    if (!metrics_samples_reserve(input, out)) {
        metrics_samples_free(out);
        return false;
    }
    uint8_t *label_at = out->label_space;
    struct metrics_row *row = out->rows;
    take_router(row->values, input);
    row++;
    const struct fleet_member *member;
    for (uint32_t i = 0; (member = fleet_member_at(input->fleet, i)) != NULL; i++, row++) {
        row->backend = member->backend;
        name_row(row, "backend", row->backend->url, &label_at);
        take_state(row, member, input->now_ms);
        take_load(row, input->now_ms);
        if (meters_sum_worker_count(sum) > 0) {
            take_counts(row, sum);
        }
        metrics_samples_take_events(row, input);
    }
    for (uint32_t i = 0; i < out->tokenizer_count; i++, row++) {
        const struct dialect *dialect = input->dialects->dialects[i];
        name_row(row, "tokenizer", dialect->name, &label_at);
        take_tokenizer(row, dialect);
    }
    return true;
}

void metrics_samples_free(struct metrics_samples *samples)
{
    free(samples->rows);
    free(samples->label_space);
    *samples = (struct metrics_samples){0};
}
