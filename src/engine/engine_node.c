// SPDX-License-Identifier: Apache-2.0

#include "engine/engine_node.h"

#include "base/base.h"
#include "engine/kv_publisher.h"
#include "sys/alarm.h"
#include "sys/clock.h"

#include <math.h>
#include <stdlib.h>

enum {
    // Steps that are ended in one go when the process was late; then others get their turn.
    catch_up_max = 64,
    // Tokens of one kv_publisher_stored call; the shipped profiles have no larger steps.
    publish_tokens_max = 8192,
};

// Kept for the event of a block that moves to the host after its request has ended.
struct block_note {
    bool has_parent;
    uint64_t parent;
    const char *adapter;
    uint32_t adapter_id;
    char *salt; // NULL: none
};

struct engine_node {
    struct engine_node_options options;
    struct block_note *notes; // one for each block of the GPU; NULL: without a host tier or events
    uint32_t *note_ids;       // block_tokens of each
    struct engine *engine;
    struct alarm alarm;
    struct loop_deferred reporting;
    struct list_node *ready; // jobs whose owners do not know of their last tokens
    bool is_reporting;       // at the end of this turn
    bool is_stepping;
    double begin_us; // no step may begin before
    double end_us;   // of the present step
    double slow;
    struct engine_counts counts;
};

static double node_now_us(const struct engine_node *node)
{
    return (double)loop_now_us(node->options.loop);
}

static void node_report_progress(struct loop_deferred *deferred)
{
    struct engine_node *node = CONTAINER_OF(deferred, struct engine_node, reporting);

    node->is_reporting = false;
    while (node->ready != NULL) {
        struct engine_job *job = CONTAINER_OF(node->ready, struct engine_job, ready);
        list_remove(&job->ready);
        node->options.progress(node->options.owner, job);
    }
}

static void count_token(struct engine_node *node, struct engine_job *job, bool is_last)
{
    struct engine_counts *counts = &node->counts;

    if (job->first_us > 0) {
        engine_counts_note(counts, ENGINE_TIME_BETWEEN, (node->end_us - job->last_us) / 1e6);
    } else {
        job->first_us = node->end_us;
        engine_counts_note(counts, ENGINE_TIME_FIRST, (node->end_us - job->arrived_us) / 1e6);
    }
    job->last_us = node->end_us;
    if (is_last) {
        engine_counts_note(counts, ENGINE_TIME_WHOLE, (node->end_us - job->arrived_us) / 1e6);
        counts->ends[job->response.is_limited ? ENGINE_END_LENGTH : ENGINE_END_STOP]++;
    }
}

static void token_made(void *owner, struct engine_request *request, bool is_last)
{
    struct engine_node *node = owner;
    struct engine_job *job = CONTAINER_OF(request, struct engine_job, request);

    count_token(node, job, is_last);
    job->is_done = is_last;
    if (!list_has(&job->ready)) {
        list_push(&node->ready, &job->ready);
    }
    if (!node->is_reporting) {
        node->is_reporting = true;
        loop_defer(node->options.loop, &node->reporting);
    }
}

static void note_blocks(struct engine_node *node, const struct engine_job *job, uint32_t first,
                        uint32_t count, const uint32_t *ids)
{
    uint32_t block_tokens = node->options.profile->block_tokens;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = first + i;
        uint32_t block = job->request.blocks[number];
        free(node->notes[block].salt);
        node->notes[block] = (struct block_note){
            .has_parent = number > 0,
            .parent = number > 0 ? job->request.keys[number - 1] : 0,
            .adapter = job->adapter,
            .adapter_id = job->adapter_id,
            // Where memory is short, the host's copy is told without it.
            .salt = job->salt != NULL ? strdup(job->salt) : NULL,
        };
        memcpy(node->note_ids + (size_t)block * block_tokens, ids + (size_t)i * block_tokens,
               block_tokens * sizeof(*ids));
    }
}

// Tells the publisher; it copies.
static void node_publish_stored(struct engine_node *node, const struct engine_job *job,
                                uint32_t first, uint32_t count)
{
    uint32_t block_tokens = node->options.profile->block_tokens;
    uint32_t ids[publish_tokens_max];

    for (uint32_t i = 0; i < count; i++) {
        engine_job_block_ids(job, first + i, block_tokens, ids + (size_t)i * block_tokens);
    }
    kv_publisher_stored(node->options.publisher,
                        &(struct kv_stored){
                            .keys = job->request.keys + first,
                            .token_ids = ids,
                            .count = count,
                            .has_parent = first > 0,
                            .parent = first > 0 ? job->request.keys[first - 1] : 0,
                            .lora_name = job->adapter,
                            .lora_id = job->adapter_id,
                            .salt = job->salt,
                        });
    if (node->notes != NULL) {
        note_blocks(node, job, first, count, ids);
    }
}

static void blocks_stored(void *owner, struct engine_request *request, uint32_t first,
                          uint32_t count)
{
    struct engine_node *node = owner;
    const struct engine_job *job = CONTAINER_OF(request, struct engine_job, request);
    uint32_t most = publish_tokens_max / node->options.profile->block_tokens;

    while (count > 0) {
        uint32_t part = count < most ? count : most;
        node_publish_stored(node, job, first, part);
        first += part;
        count -= part;
    }
}

static void block_removed(void *owner, uint64_t key)
{
    const struct engine_node *node = owner;
    kv_publisher_removed(node->options.publisher, KV_TIER_GPU, key);
}

static void block_kept(void *owner, uint32_t block, uint64_t key)
{
    const struct engine_node *node = owner;
    const struct block_note *note = &node->notes[block];
    kv_publisher_stored(
        node->options.publisher,
        &(struct kv_stored){
            .keys = &key,
            .token_ids = node->note_ids + (size_t)block * node->options.profile->block_tokens,
            .count = 1,
            .has_parent = note->has_parent,
            .parent = note->parent,
            .lora_name = note->adapter,
            .lora_id = note->adapter_id,
            .salt = note->salt,
            .tier = KV_TIER_HOST,
        });
}

static void block_dropped(void *owner, uint64_t key)
{
    const struct engine_node *node = owner;
    kv_publisher_removed(node->options.publisher, KV_TIER_HOST, key);
}

static void blocks_cleared(void *owner)
{
    const struct engine_node *node = owner;
    kv_publisher_cleared(node->options.publisher);
}

static void node_publish(struct engine_node *node)
{
    if (node->options.publisher != NULL) {
        kv_publisher_flush(node->options.publisher, (double)clock_wall_ms() / 1000);
    }
}

static void node_begin_step(struct engine_node *node, double at_us)
{
    double begin_us = fmax(at_us, node->begin_us);
    double ms = engine_step(node->engine);

    node->is_stepping = ms > 0;
    node->end_us = begin_us + ms * 1000 * node->slow / node->options.speed;
}

static void end_due_steps(struct engine_node *node)
{
    double now = node_now_us(node);

    for (uint32_t i = 0; i < catch_up_max && node->is_stepping && node->end_us <= now; i++) {
        node->counts.steps++;
        node->counts.late_s += (now - node->end_us) / 1e6;
        engine_step_end(node->engine);
        node_publish(node);
        node_begin_step(node, node->end_us);
    }
}

static void wait_for_end(struct engine_node *node)
{
    if (node->is_stepping) {
        alarm_set(&node->alarm, (uint64_t)ceil(node->end_us));
    }
}

static void step_is_over(struct alarm *alarm)
{
    struct engine_node *node = CONTAINER_OF(alarm, struct engine_node, alarm);
    end_due_steps(node);
    wait_for_end(node);
}

static struct engine *make_engine(struct engine_node *node)
{
    struct engine_observer observer = {.owner = node, .token = token_made};
    if (node->options.publisher != NULL) {
        observer.stored = blocks_stored;
        observer.removed = block_removed;
        observer.cleared = blocks_cleared;
    }
    if (node->notes != NULL) {
        observer.kept = block_kept;
        observer.dropped = block_dropped;
    }
    return engine_create(node->options.profile, &observer);
}

static size_t node_note_count(const struct engine_node *node)
{
    return node->options.profile->kv_tokens / node->options.profile->block_tokens;
}

static bool make_notes(struct engine_node *node)
{
    const struct profile *profile = node->options.profile;

    if (node->options.publisher == NULL || profile->host_tokens == 0) {
        return true;
    }
    node->notes = calloc(node_note_count(node), sizeof(struct block_note));
    node->note_ids = calloc(node_note_count(node) * profile->block_tokens, sizeof(uint32_t));
    return node->notes != NULL && node->note_ids != NULL;
}

struct engine_node *engine_node_create(const struct engine_node_options *options)
{
    struct engine_node *node = calloc(1, sizeof(*node));
    if (node == NULL) {
        return NULL;
    }
    node->options = *options;
    node->slow = 1;
    node->alarm.fire = step_is_over;
    node->reporting.run = node_report_progress;
    node->engine = make_notes(node) ? make_engine(node) : NULL;
    if (node->engine == NULL || alarm_open(&node->alarm, options->loop) != STATUS_OK) {
        engine_node_destroy(&node);
    }
    return node;
}

static void free_notes(struct engine_node *node)
{
    for (size_t i = 0; node->notes != NULL && i < node_note_count(node); i++) {
        free(node->notes[i].salt);
    }
    free(node->notes);
    free(node->note_ids);
}

void engine_node_destroy(struct engine_node **node_ptr)
{
    struct engine_node *node = *node_ptr;
    *node_ptr = NULL;

    if (node != NULL) {
        ASSERT(node->ready == NULL && !node->is_reporting);
        alarm_close(&node->alarm, node->options.loop);
        engine_destroy(&node->engine);
        free_notes(node);
        free(node);
    }
}

const struct engine *engine_node_engine(const struct engine_node *node)
{
    return node->engine;
}

void engine_node_submit(struct engine_node *node, struct engine_job *job)
{
    job->arrived_us = node_now_us(node);
    job->is_done = false;
    // Steps that began before it came do not see it, even when they are noticed only now.
    end_due_steps(node);
    engine_submit(node->engine, &job->request);
    if (!node->is_stepping) {
        node_begin_step(node, job->arrived_us);
    }
    wait_for_end(node);
}

void engine_node_cancel(struct engine_node *node, struct engine_job *job)
{
    list_remove(&job->ready);
    if (!job->is_done) {
        engine_cancel(node->engine, &job->request);
        job->is_done = true;
        node->counts.ends[ENGINE_END_ABORT]++;
    }
}

void engine_node_slow_down(struct engine_node *node, double times)
{
    node->slow = times;
}

void engine_node_freeze(struct engine_node *node, uint32_t ms)
{
    if (node->is_stepping) {
        node->end_us += ms * 1000.0;
        wait_for_end(node);
    } else {
        node->begin_us = node_now_us(node) + ms * 1000.0;
    }
}

void engine_node_flush(struct engine_node *node)
{
    engine_flush(node->engine);
    node_publish(node);
}

static bool restart_publisher(struct kv_publisher *publisher)
{
    if (publisher == NULL) {
        return true;
    }
    kv_publisher_stop(publisher);
    return kv_publisher_start(publisher) == STATUS_OK;
}

bool engine_node_restart(struct engine_node *node)
{
    struct engine *engine = make_engine(node);
    if (engine == NULL || !restart_publisher(node->options.publisher)) {
        engine_destroy(&engine);
        return false;
    }
    engine_destroy(&node->engine);
    node->engine = engine;
    node->is_stepping = false;
    node->begin_us = 0;
    node->counts = (struct engine_counts){0};
    return true;
}

void engine_node_measure(const struct engine_node *node, struct engine_metrics_rank *out)
{
    engine_status(node->engine, &out->status);
    out->counts = &node->counts;
}
