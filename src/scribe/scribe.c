// SPDX-License-Identifier: Apache-2.0

#include "scribe/scribe.h"

#include "base/base.h"
#include "config/config.h"
#include "metrics/receipt_ring.h"
#include "scribe/access_log.h"
#include "scribe/span_exporter.h"
#include "sys/clock.h"
#include "sys/loop.h"
#include "sys/mutex.h"
#include "sys/pages.h"
#include "sys/thread.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    // The pause after a look that emptied all rings.  A wake-up costs as much as some dozen
    // receipts, since code and tables have left the caches.
    look_ms = 40,
    // Receipts under one lock, and of one turn of the loop.
    batch_max = 64,
    turn_max = 4096,
    second_ms = 1000,
    // At the end, for a slow reader and for a collector.
    patience_ms = 500,
    hot_prefix_max = 1000,
};

// Orders of the keeper.
struct scribe_orders {
    bool reopens;
    bool has_rules;
    struct access_log_rules rules;
};

struct scribe {
    uint32_t worker_count;
    struct receipt_ring **rings; // one for each worker
    struct thread *thread;
    struct loop *loop;
    struct timer timer;
    struct access_log *log;
    struct span_exporter *exporter; // NULL: no spans
    uint64_t ticked_ms;             // wall time

    // Under the lock: the scribe's thread and the keeper.
    struct mutex lock;
    struct chronicle *chronicle;
    struct scribe_orders orders;

    // Written by the thread, read by the keeper.
    struct {
        _Alignas(64) atomic_uint_fast64_t written;
        atomic_uint_fast64_t dropped_lines;
        atomic_uint_fast64_t exported;
        atomic_uint_fast64_t dropped_spans;
    } shared;
};

static struct access_log_rules scribe_rules_of(const struct config *config)
{
    static const int forms[] = {
        [CONFIG_ACCESS_AUTO] = ACCESS_LOG_AUTO,
        [CONFIG_ACCESS_JSON] = ACCESS_LOG_JSON,
        [CONFIG_ACCESS_TEXT] = ACCESS_LOG_TEXT,
    };
    struct access_log_rules rules = {
        .every = config->access_log.every,
        .slow_first_ms = config->access_log.slow_first,
        .slow_total_ms = config->access_log.slow_total,
    };
    rules.form = forms[config->access_log.format];
    return rules;
}

// Under the lock.
static void scribe_note(struct scribe *scribe, const struct receipt *receipt)
{
    chronicle_note(scribe->chronicle, receipt);
    if (receipt->outcome == RECEIPT_RUNNING) {
        return; // written when it ends
    }
    access_log_note(scribe->log, receipt, loop_now_ms(scribe->loop));
    if (scribe->exporter != NULL && receipt->is_sampled) {
        span_exporter_note(scribe->exporter, receipt);
    }
}

// Returns how many receipts it took, at most a batch.
static uint32_t scribe_take_batch(struct scribe *scribe, struct receipt_ring *ring)
{
    const struct receipt *receipt;
    uint32_t count = 0;

    if (receipt_ring_peek(ring) == NULL) {
        return 0;
    }
    mutex_lock(&scribe->lock);
    while (count < batch_max && (receipt = receipt_ring_peek(ring)) != NULL) {
        scribe_note(scribe, receipt);
        receipt_ring_drop(ring);
        count++;
        if (access_log_is_full(scribe->log)) {
            break; // the disk may be slow: write without the lock
        }
    }
    mutex_unlock(&scribe->lock);
    if (access_log_is_full(scribe->log)) {
        access_log_write(scribe->log, loop_now_ms(scribe->loop));
    }
    return count;
}

static void scribe_publish_totals(struct scribe *scribe)
{
    struct access_log_totals totals = access_log_totals(scribe->log);

    atomic_store_explicit(&scribe->shared.written, totals.written, memory_order_relaxed);
    atomic_store_explicit(&scribe->shared.dropped_lines, totals.dropped, memory_order_relaxed);
    if (scribe->exporter != NULL) {
        atomic_store_explicit(&scribe->shared.exported, span_exporter_sent(scribe->exporter),
                              memory_order_relaxed);
        atomic_store_explicit(&scribe->shared.dropped_spans,
                              span_exporter_dropped(scribe->exporter), memory_order_relaxed);
    }
}

// Takes batches from all rings in turn.  False: there are more receipts.
static bool scribe_drain(struct scribe *scribe, uint32_t count_max)
{
    uint32_t taken = 0;
    uint32_t in_round;

    do {
        in_round = 0;
        for (uint32_t i = 0; i < scribe->worker_count; i++) {
            in_round += scribe_take_batch(scribe, scribe->rings[i]);
        }
        taken += in_round;
    } while (in_round > 0 && taken < count_max);
    access_log_write(scribe->log, loop_now_ms(scribe->loop));
    if (scribe->exporter != NULL) {
        span_exporter_flush(scribe->exporter);
    }
    scribe_publish_totals(scribe);
    return in_round == 0;
}

static void scribe_obey(struct scribe *scribe)
{
    mutex_lock(&scribe->lock);
    struct scribe_orders orders = scribe->orders;
    scribe->orders = (struct scribe_orders){0};
    mutex_unlock(&scribe->lock);
    if (orders.has_rules) {
        access_log_set_rules(scribe->log, &orders.rules);
    }
    if (orders.reopens) {
        access_log_reopen(scribe->log, loop_now_ms(scribe->loop));
    }
}

static void scribe_pass_time(struct scribe *scribe)
{
    uint64_t wall_ms = clock_wall_ms();

    // The wall clock may be set back.
    if (wall_ms >= scribe->ticked_ms && wall_ms - scribe->ticked_ms < second_ms) {
        return;
    }
    scribe->ticked_ms = wall_ms;
    mutex_lock(&scribe->lock);
    chronicle_tick(scribe->chronicle, wall_ms);
    mutex_unlock(&scribe->lock);
}

static void scribe_look(struct timer *timer)
{
    struct scribe *scribe = CONTAINER_OF(timer, struct scribe, timer);
    bool is_empty = scribe_drain(scribe, turn_max);

    scribe_pass_time(scribe);
    loop_arm(scribe->loop, timer, is_empty ? look_ms : 0);
}

static void scribe_turn(void *owner)
{
    scribe_obey(owner);
}

static void scribe_run(void *owner)
{
    struct scribe *scribe = owner;

    scribe->timer.fire = scribe_look;
    loop_arm(scribe->loop, &scribe->timer, look_ms);
    loop_run(scribe->loop, scribe_turn, scribe);
    loop_disarm(scribe->loop, &scribe->timer);
    // The workers have ended: no receipts follow.
    while (!scribe_drain(scribe, turn_max)) {
    }
    if (scribe->exporter != NULL) {
        span_exporter_finish(scribe->exporter, patience_ms);
        scribe_publish_totals(scribe);
    }
}

static void scribe_release(struct scribe **scribe_ptr)
{
    struct scribe *scribe = *scribe_ptr;
    *scribe_ptr = NULL;

    span_exporter_destroy(&scribe->exporter);
    if (scribe->loop != NULL) {
        loop_turn(scribe->loop, 0); // recycles closed connections
        access_log_close(&scribe->log, loop_now_ms(scribe->loop), patience_ms);
    }
    loop_destroy(&scribe->loop);
    chronicle_destroy(&scribe->chronicle);
    for (uint32_t i = 0; scribe->rings != NULL && i < scribe->worker_count; i++) {
        pages_release(&scribe->rings[i], receipt_ring_block_size());
    }
    free(scribe->rings);
    mutex_fini(&scribe->lock);
    free(scribe);
}

static bool scribe_make_rings(struct scribe *scribe)
{
    scribe->rings = calloc(scribe->worker_count, sizeof(struct receipt_ring *));
    for (uint32_t i = 0; scribe->rings != NULL && i < scribe->worker_count; i++) {
        void *block = pages_reserve(receipt_ring_block_size());
        if (block == NULL) {
            return false;
        }
        scribe->rings[i] = receipt_ring_over(block);
    }
    return scribe->rings != NULL;
}

static enum status scribe_open_exporter(struct scribe *scribe, const struct config *config)
{
    if (config->tracing.endpoint == NULL) {
        return STATUS_OK;
    }
    return span_exporter_create(
        &(struct span_exporter_options){
            .loop = scribe->loop,
            .endpoint = config->tracing.endpoint,
            .service = config->tracing.service,
            .config = config,
        },
        &scribe->exporter);
}

static enum status scribe_prepare(struct scribe *scribe, const struct config *config,
                                  char error[scribe_error_size])
{
    struct access_log_options options = {
        .path = config->access_log.file,
        .slow_path = config->access_log.slow_file,
        .rules = scribe_rules_of(config),
    };
    scribe->chronicle = chronicle_create(&(struct chronicle_options){
        .decision_max = config->decisions.keep,
        .member_max = config->limits.backends,
        .hot_max = hot_prefix_max,
        .seed = clock_entropy(),
    });
    mutex_init(&scribe->lock);
    if (scribe->chronicle == NULL || !scribe_make_rings(scribe) ||
        loop_create(&scribe->loop) != STATUS_OK) {
        snprintf(error, scribe_error_size, "out of memory for the request log");
        return STATUS_IO;
    }
    if (access_log_open(&options, &scribe->log, error) != STATUS_OK) {
        return STATUS_IO;
    }
    if (scribe_open_exporter(scribe, config) != STATUS_OK) {
        snprintf(error, scribe_error_size, "tracing.endpoint %s cannot be used",
                 config->tracing.endpoint);
        return STATUS_IO;
    }
    return STATUS_OK;
}

enum status scribe_start(const struct scribe_options *options, struct scribe **out,
                         char error[scribe_error_size])
{
    _Static_assert((int)scribe_error_size >= (int)access_log_error_size,
                   "an error of the log fits");
    struct scribe *scribe = aligned_alloc(64, sizeof(*scribe));

    ASSERT(scribe != NULL && options->worker_count > 0);
    memset(scribe, 0, sizeof(*scribe));
    scribe->worker_count = options->worker_count;
    if (scribe_prepare(scribe, options->config, error) != STATUS_OK) {
        scribe_release(&scribe);
        return STATUS_IO;
    }
    if (thread_start("scribe", scribe_run, scribe, &scribe->thread) != STATUS_OK) {
        snprintf(error, scribe_error_size, "cannot start the thread of the request log");
        scribe_release(&scribe);
        return STATUS_IO;
    }
    *out = scribe;
    return STATUS_OK;
}

void scribe_stop(struct scribe **scribe_ptr)
{
    if (*scribe_ptr == NULL) {
        return;
    }
    loop_stop((*scribe_ptr)->loop);
    thread_join(&(*scribe_ptr)->thread);
    scribe_release(scribe_ptr);
}

struct receipt_ring *scribe_ring(const struct scribe *scribe, uint32_t worker)
{
    ASSERT(worker < scribe->worker_count);
    return scribe->rings[worker];
}

void scribe_reopen(struct scribe *scribe)
{
    mutex_lock(&scribe->lock);
    scribe->orders.reopens = true;
    mutex_unlock(&scribe->lock);
    loop_wake(scribe->loop);
}

void scribe_set_config(struct scribe *scribe, const struct config *config)
{
    mutex_lock(&scribe->lock);
    scribe->orders.has_rules = true;
    scribe->orders.rules = scribe_rules_of(config);
    mutex_unlock(&scribe->lock);
    loop_wake(scribe->loop);
}

struct chronicle *scribe_lock(struct scribe *scribe)
{
    mutex_lock(&scribe->lock);
    return scribe->chronicle;
}

void scribe_unlock(struct scribe *scribe)
{
    mutex_unlock(&scribe->lock);
}

void scribe_totals(const struct scribe *scribe, struct scribe_totals *out)
{
    *out = (struct scribe_totals){
        .written = atomic_load_explicit(&scribe->shared.written, memory_order_relaxed),
        .dropped_lines = atomic_load_explicit(&scribe->shared.dropped_lines, memory_order_relaxed),
        .exported = atomic_load_explicit(&scribe->shared.exported, memory_order_relaxed),
        .dropped_spans = atomic_load_explicit(&scribe->shared.dropped_spans, memory_order_relaxed),
    };
    for (uint32_t i = 0; i < scribe->worker_count; i++) {
        out->lost += receipt_ring_lost(scribe->rings[i]);
    }
}
