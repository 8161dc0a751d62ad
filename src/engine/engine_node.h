// SPDX-License-Identifier: Apache-2.0
//
// engine_node.h -- a simulated engine in real time: the model of sim/engine/engine.h and the clock
// that drives it.
//
// A step that takes d ms ends d / speed ms after it began, and the next one begins at that moment,
// not when the loop has noticed it: so lateness does not add up.  When the process was late, the
// steps that are due are ended one after the other.  Requests that arrive are seen by the step that
// begins after their arrival.
//
//     steps      |-- 9.1 --|-- 9.2 --|------ 41.7 ------|
//     loop          x          x      x                   x     looks when it can
//
// At the end of the loop's turn, `progress` is called once for each job that has new tokens.  It
// may cancel or destroy the job, and submit others.
//
// Blocks that a step stored and removed are published when it ends, as one batch.
//
// Threads: the one of its loop.  Memory: by _create.
#pragma once

#include "engine/engine_job.h"
#include "engine/engine_metrics_page.h"

struct engine_node;
struct kv_publisher;
struct loop;

struct engine_node_options {
    struct loop *loop;             // kept
    const struct profile *profile; // kept
    double speed;                  // how many times faster than life
    // The job has more tokens, or is done.
    void (*progress)(void *owner, struct engine_job *job);
    void *owner;
    struct kv_publisher *publisher; // kept; NULL: KV events are off
};

// NULL when memory or descriptors are short.
struct engine_node *engine_node_create(const struct engine_node_options *options);

// No job may be left in it.  Clears the caller's pointer, which may be NULL.
void engine_node_destroy(struct engine_node **node);

const struct engine *engine_node_engine(const struct engine_node *node);

// Keeps the job until it is done or cancelled.
void engine_node_submit(struct engine_node *node, struct engine_job *job);

// Does nothing to one that is done.
void engine_node_cancel(struct engine_node *node, struct engine_job *job);

// From the next step on.
void engine_node_slow_down(struct engine_node *node, double times);

// The present step, or the next one when there is none, ends so much later.
void engine_node_freeze(struct engine_node *node, uint32_t ms);

void engine_node_flush(struct engine_node *node);

// As a new process: an empty cache, counters at 0, sequence numbers from 0.  No job may be left.
// False when memory is short, or a port of the publisher was taken meanwhile.
bool engine_node_restart(struct engine_node *node);

// The counts stay the node's.
void engine_node_measure(const struct engine_node *node, struct engine_metrics_rank *out);
