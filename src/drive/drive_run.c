// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_run.h"

#include "base/base.h"
#include "base/list.h"
#include "drive/drive_log.h"
#include "drive/drive_memory.h"
#include "sys/alarm.h"
#include "sys/loop.h"

#include <stdlib.h>

enum {
    failure_pause_us = 1000000,
    // Of one turn, so that what has come is read before more is sent.
    sends_per_turn = 256,
    // A connection that gets free wakes the loop; this timer covers a shortage of memory.
    retry_us = 1000,
};

// A request and what the run knows of it.
struct drive_flight {
    struct drive_request request; // first: the client gives it back
    struct list_node node;
    bool counts;
};

struct drive_run {
    struct drive_run_options options;
    struct drive_client *client;
    struct drive_client_counts counts; // once the client is gone
    struct drive_tally tally;
    struct alarm next; // when something is due
    uint64_t next_us;  // the time that it was set to
    struct timer watch;
    struct list_node *flights;
    uint64_t begin_us;
    uint64_t end_us; // 0: it goes on
    bool is_closed;  // nothing more is sent
    bool is_stopped;
};

static void finished(void *owner, struct drive_request *request,
                     const struct drive_response *response);
static void run_on_timer(struct timer *timer);

// Only wakes the loop: run_on_turn does the work.
static void wake(struct alarm *alarm)
{
    (void)alarm;
}

static void wake_at(struct drive_run *run, uint64_t at_us)
{
    if (run->next_us != at_us) {
        run->next_us = at_us;
        alarm_set(&run->next, at_us);
    }
}

struct drive_run *drive_run_create(const struct drive_run_options *options)
{
    struct drive_run *run = calloc(1, sizeof(*run));
    if (run == NULL) {
        return NULL;
    }
    run->options = *options;
    run->options.client.done = finished;
    run->options.client.owner = run;
    run->next.fire = wake;
    run->watch.fire = run_on_timer;
    run->client = drive_client_create(&run->options.client);
    if (!drive_tally_init(&run->tally) || run->client == NULL ||
        alarm_open(&run->next, options->client.loop) != STATUS_OK) {
        drive_run_destroy(&run);
    }
    return run;
}

void drive_run_destroy(struct drive_run **run_ptr)
{
    struct drive_run *run = *run_ptr;
    *run_ptr = NULL;

    if (run == NULL) {
        return;
    }
    alarm_close(&run->next, run->options.client.loop);
    drive_client_destroy(&run->client);
    drive_tally_fini(&run->tally);
    free(run);
}

void drive_run_sum(const struct drive_run *run, struct figures *out)
{
    drive_tally_sum(&run->tally, out);
}

const struct drive_tally *drive_run_tally(const struct drive_run *run)
{
    return &run->tally;
}

struct drive_client_counts drive_run_counts(const struct drive_run *run)
{
    return run->client != NULL ? drive_client_counts(run->client) : run->counts;
}

uint64_t drive_run_now_us(const struct drive_run *run)
{
    return loop_now_us(run->options.client.loop);
}

double drive_run_elapsed_s(const struct drive_run *run)
{
    uint64_t until_us = run->end_us != 0 ? run->end_us : drive_run_now_us(run);
    return (double)(until_us - run->begin_us) / 1e6;
}

static uint64_t duration_us(const struct drive_run *run)
{
    return run->options.duration_s > 0 ? (uint64_t)(run->options.duration_s * 1e6) : UINT64_MAX;
}

static bool counts(const struct drive_run *run, const struct work_item *item)
{
    return item->number >= run->options.warm_up_requests &&
           (double)item->due_us >= run->options.warm_up_s * 1e6;
}

// The next turn repeats the engine's response; of one that failed, only its existence is kept.
static void run_remember(const struct drive_run *run, const struct work_item *item,
                         const struct drive_response *response)
{
    if (run->options.memory != NULL && item->session != 0) {
        struct slice text =
            response->error == DRIVE_FINE ? text_slice(&response->text) : (struct slice){0};
        drive_memory_keep(run->options.memory, item->session, item->pieces[item->piece_count].id,
                          text);
    }
}

static void finished(void *owner, struct drive_request *request,
                     const struct drive_response *response)
{
    struct drive_run *run = owner;
    struct drive_flight *flight = (struct drive_flight *)request;
    struct work_item *item = &request->item;
    bool is_punished = response->error != DRIVE_FINE && run->options.is_closed;
    uint64_t since_us = drive_run_now_us(run) - run->begin_us;

    struct drive_ending ending = {
        .item = item,
        .response = response,
        .counts = flight->counts,
        .begin_us = run->begin_us,
        .sent_us = request->sent_us,
        .now_us = drive_run_now_us(run),
    };

    drive_tally_end(&run->tally, &ending);
    if (run->options.log != NULL) {
        drive_log_add(run->options.log, &ending);
    }
    run_remember(run, item, response);
    workload_done(run->options.workload, item, since_us + (is_punished ? failure_pause_us : 0));
    list_remove(&flight->node);
    free(flight);
}

// False: memory is short.
static bool send_one(struct drive_run *run)
{
    struct drive_flight *flight = calloc(1, sizeof(*flight));
    if (flight == NULL) {
        return false;
    }
    workload_take(run->options.workload, &flight->request.item);
    flight->counts = counts(run, &flight->request.item);
    flight->request.keeps_text = run->options.memory != NULL && flight->request.item.session != 0;
    flight->request.gaps = flight->counts ? &run->tally.gaps : NULL;
    list_push(&run->flights, &flight->node);
    run->tally.sent++;
    drive_client_send(run->client, &flight->request);
    return true;
}

// Sends the requests that are due.  False: no further one will be.
static bool send_due(struct drive_run *run)
{
    uint64_t since_us = drive_run_now_us(run) - run->begin_us;
    uint64_t due_us = 0;

    if (run->is_stopped || run->is_closed) {
        return false;
    }
    for (uint32_t sent = 0; workload_peek(run->options.workload, &due_us); sent++) {
        if (due_us >= duration_us(run) || run->tally.sent == drive_requests_max) {
            return false;
        }
        if (due_us > since_us) {
            wake_at(run, run->begin_us + due_us);
            return true;
        }
        bool has_room = drive_client_has_room(run->client);
        if (!has_room && since_us >= duration_us(run)) {
            run->is_closed = true; // what has been due until now has waited long enough
            return false;
        }
        if (sent == sends_per_turn) {
            wake_at(run, drive_run_now_us(run)); // what has come is read first
            return true;
        }
        if (!has_room || !send_one(run)) {
            wake_at(run, drive_run_now_us(run) + retry_us);
            return true;
        }
    }
    // Users may send more when their requests in flight end; run_on_turn asks again then.
    return !workload_is_over(run->options.workload);
}

static void run_on_turn(void *owner)
{
    struct drive_run *run = owner;
    bool goes_on = send_due(run);
    bool is_idle = drive_client_counts(run->client).in_flight == 0;

    if (run->is_stopped || (!goes_on && is_idle)) {
        loop_stop(run->options.client.loop);
    }
}

// Requests that were due and not sent count as errors: leaving them out would flatter the server.
static void count_unsent(struct drive_run *run)
{
    uint64_t until_us = drive_run_now_us(run) - run->begin_us;
    uint64_t due_us = 0;

    until_us = until_us < duration_us(run) ? until_us : duration_us(run);
    while (workload_peek(run->options.workload, &due_us) && due_us < until_us) {
        struct work_item item;
        workload_take(run->options.workload, &item);
        drive_tally_unsent(&run->tally, counts(run, &item));
        workload_done(run->options.workload, &item, UINT64_MAX / 2);
    }
}

static void cut_flights(struct drive_run *run)
{
    for (struct list_node *node = run->flights; node != NULL;) {
        struct drive_flight *flight = CONTAINER_OF(node, struct drive_flight, node);
        node = node->next;
        workload_done(run->options.workload, &flight->request.item, UINT64_MAX / 2);
        free(flight);
        run->tally.cut++;
    }
    run->flights = NULL;
}

static void run_on_timer(struct timer *timer)
{
    struct drive_run *run = CONTAINER_OF(timer, struct drive_run, watch);
    run->options.watch(run->options.watch_owner, run);
    loop_arm(run->options.client.loop, timer, run->options.watch_ms);
}

void drive_run(struct drive_run *run)
{
    struct loop *loop = run->options.client.loop;

    loop_turn(loop, 0); // the clock of the loop may be old
    run->begin_us = drive_run_now_us(run);
    if (run->options.watch_ms > 0) {
        loop_arm(loop, &run->watch, run->options.watch_ms);
    }
    wake_at(run, run->begin_us);
    loop_run(loop, run_on_turn, run);
    run->end_us = drive_run_now_us(run);
    count_unsent(run);
    run->counts = drive_client_counts(run->client);
    drive_client_destroy(&run->client);
    cut_flights(run);
    loop_disarm(loop, &run->watch);
}

void drive_run_stop(struct drive_run *run)
{
    run->is_stopped = true;
    loop_wake(run->options.client.loop);
}
