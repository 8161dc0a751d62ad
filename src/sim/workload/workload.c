// SPDX-License-Identifier: Apache-2.0
//
// Each future event is one entry in a queue by time: the next turn of a session, or a starter,
// which begins the next session when its time comes.  There are three kinds of starters:
//
//     arrivals    one, for a rate: its next time is drawn when it begins a session
//     a copy      of a trace: its next time is that of the next request
//     a user      of a closed loop: its next time is known when its session has ended
//
// Every starter and every session has its own stream of random numbers, so that the order of
// completions changes nothing but times.

#include "sim/workload/workload.h"

#include "base/base.h"
#include "base/hash.h"
#include "sim/engine/due_queue.h"
#include "sim/workload/mooncake.h"
#include "sim/workload/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    // More copies than that would be the trace's average, not a trace.
    copy_max = 10000,
    user_max = 1000000,
};

// Approximate times on an idle fleet: to the first token, and of each token.
static const double first_token_s = 0.2;
static const double token_s = 0.01;

// Think time of a trace's users between two requests.
static const struct draw trace_think_s = DRAW_UNIFORM(0.5, 2);

// Keeps the streams of starters apart from those of sessions.
static const uint64_t starter_salt = 0x73746172746572;

struct starter {
    struct rng rng;
    uint64_t begun;    // sessions
    double at_us;      // of the next, for arrivals
    uint64_t shift_us; // of a copy
    uint32_t first;    // of a copy, the request that it begins with
};

struct workload {
    bool is_closed;
    const struct mooncake_trace *trace; // NULL: the script
    struct script script;
    struct starter *starters;
    uint32_t starter_count;
    double gap_us;      // of arrivals, in the mean
    uint64_t period_us; // in which a copy of the trace comes round
    double stretch;     // of the times of the trace
    uint64_t limit;     // of requests
    uint64_t taken;
    uint64_t done;
    struct due_queue due;
    struct list_node *out; // sessions whose request was taken and is not done
};

static void workload_push(struct workload *workload, uint64_t at_us, uint64_t order,
                          struct session *session)
{
    due_queue_push(&workload->due, (struct due){.at_us = at_us, .order = order, .what = session});
}

static uint64_t us_of(double seconds)
{
    return (uint64_t)llround(seconds * 1e6);
}

static double think_s(const struct workload *workload, struct starter *starter)
{
    const struct draw *think =
        workload->trace != NULL ? &trace_think_s : &workload->script.kind->think_s;
    return draw_value(think, &starter->rng);
}

// When the copy's next request is due, wrapped around at the end of the period.
static uint64_t copy_due_us(const struct workload *workload, const struct starter *copy)
{
    const struct mooncake_trace *trace = workload->trace;
    uint64_t index = (copy->first + copy->begun) % trace->request_count;
    uint64_t at_us = (trace->requests[index].at_us + copy->shift_us) % workload->period_us;
    return (uint64_t)llround((double)at_us * workload->stretch);
}

// The starter's next session comes by the clock, if there is one.
static void workload_schedule(struct workload *workload, uint64_t number)
{
    struct starter *starter = &workload->starters[number];
    if (workload->trace == NULL) {
        struct draw gap = DRAW_EXPONENTIAL(workload->gap_us);
        starter->at_us += draw_value(&gap, &starter->rng);
        workload_push(workload, (uint64_t)llround(starter->at_us), number, NULL);
    } else if (starter->begun < workload->trace->request_count) {
        workload_push(workload, copy_due_us(workload, starter), number, NULL);
    }
}

static struct session *begin_session(struct workload *workload, uint64_t number)
{
    struct starter *starter = &workload->starters[number];
    struct session *session = NULL;
    if (workload->trace == NULL) {
        session = session_create(&workload->script, number << 40 | starter->begun);
    } else if (workload->is_closed) {
        session = session_of_trace(workload->trace, (uint32_t)workload->taken, 0);
    } else {
        uint64_t place = (starter->first + starter->begun) % workload->trace->request_count;
        session = session_of_trace(workload->trace, (uint32_t)place, (uint32_t)number);
    }
    session->starter = number;
    starter->begun++;
    return session;
}

bool workload_peek(struct workload *workload, uint64_t *at_us)
{
    const struct due *first = due_queue_first(&workload->due);
    if (first == NULL || workload->taken == workload->limit) {
        return false;
    }
    *at_us = first->at_us;
    return true;
}

void workload_take(struct workload *workload, struct work_item *out)
{
    ASSERT(workload->taken < workload->limit);
    struct due due = due_queue_pop(&workload->due);
    struct session *session = due.what;
    if (session == NULL) {
        session = begin_session(workload, due.order);
        if (!workload->is_closed) {
            workload_schedule(workload, due.order);
        }
    }
    list_push(&workload->out, &session->node);
    *out = (struct work_item){
        .number = workload->taken++,
        .due_us = due.at_us,
        .client = workload->is_closed ? session->starter : session->number,
        .session = session->id,
        .turn = session->turn,
        .prompt_tokens = session->prompt_tokens,
        .history_tokens = session->history_tokens,
        .output_tokens = session->output_tokens,
        .piece_count = session->piece_count,
        .pieces = session->pieces,
        .user = session,
    };
}

// Of those due at the same time, a starter of the clock goes before sessions, and those in the
// order in which they began.
static uint64_t workload_order_of(const struct workload *workload, const struct session *session)
{
    return workload->is_closed ? session->starter : session->number + workload->starter_count;
}

void workload_done(struct workload *workload, struct work_item *item, uint64_t now_us)
{
    struct session *session = item->user;
    uint64_t starter = session->starter;
    workload->done++;
    list_remove(&session->node);
    *item = (struct work_item){0};

    if (session_go_on(session)) {
        double pause_s = session_pause_s(&workload->script, session);
        workload_push(workload, now_us + us_of(pause_s), workload_order_of(workload, session),
                      session);
        return;
    }
    session_destroy(&session);
    if (workload->is_closed) {
        double pause_s = think_s(workload, &workload->starters[starter]);
        workload_push(workload, now_us + us_of(pause_s), starter, NULL);
    }
}

uint64_t workload_limit(const struct workload *workload)
{
    return workload->limit;
}

bool workload_is_over(const struct workload *workload)
{
    bool has_more = workload->due.count > 0 && workload->taken < workload->limit;
    return !has_more && workload->done == workload->taken;
}

static bool workload_complain(char *error, const char *text)
{
    (void)snprintf(error, workload_error_size, "%s", text);
    return false;
}

static bool check_options(const struct workload_options *options, char *error)
{
    const struct work_kind *kind = options->kind != NULL ? work_kind_find(options->kind) : NULL;
    if (options->kind != NULL && kind == NULL) {
        (void)snprintf(error, workload_error_size, "unknown workload '%.40s'", options->kind);
        return false;
    }
    const struct {
        bool is_wrong;
        const char *text;
    } rules[] = {
        {(kind != NULL) == (options->trace != NULL),
         "a workload is one of the built-in ones or a trace"},
        {!(options->rate >= 0 && options->rate <= 1e6),
         "the rate is not a number of requests/s from 0 to a million"},
        {options->users > user_max, "there are more than a million users"},
        {options->users > 0 && options->rate > 0,
         "a rate and a number of users contradict each other"},
        {kind != NULL && options->users == 0 && options->rate == 0,
         "a built-in workload needs a rate or a number of users"},
        {!(options->share >= 0 && options->share < 1),
         "the share is not a number from 0 to below 1"},
        {options->share > 0 && (kind == NULL || !kind->varies_share),
         "the share of this workload cannot be set"},
        {options->trace != NULL && options->rate > 0 && options->trace->span_us == 0,
         "all requests of the trace are at one time, so it has no rate"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rules); i++) {
        if (rules[i].is_wrong) {
            return workload_complain(error, rules[i].text);
        }
    }
    return true;
}

static void make_starters(struct workload *workload, uint32_t count, uint64_t seed)
{
    workload->starters = calloc(count, sizeof(*workload->starters));
    ASSERT(workload->starters != NULL);
    workload->starter_count = count;
    for (uint32_t i = 0; i < count; i++) {
        workload->starters[i].rng.state = hash_pair(hash_pair(seed, starter_salt), i);
    }
}

// A trace has so many, of which less may be wanted.
static void limit_to(struct workload *workload, const struct workload_options *options,
                     uint64_t count)
{
    bool is_cut = options->requests > 0 && options->requests < count;
    workload->limit = is_cut ? options->requests : count;
}

// The first request at or after that time.
static uint32_t workload_find_request(const struct mooncake_trace *trace, uint64_t at_us)
{
    uint32_t low = 0;
    uint32_t high = trace->request_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (trace->requests[middle].at_us >= at_us) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

// Copies begin anywhere in the trace, the first one at its start.  Stretching the time makes up the
// part of the rate that whole copies cannot.
static bool start_copies(struct workload *workload, const struct workload_options *options,
                         char *error)
{
    const struct mooncake_trace *trace = options->trace;
    double count = trace->request_count;
    // From the last request to the first of the next round it is as long as between any two.
    double round_us = (double)trace->span_us * (count > 1 ? count / (count - 1) : 1);
    workload->period_us = (uint64_t)ceil(round_us) + 1;
    workload->stretch = 1;
    double copies = 1;
    if (options->rate > 0) {
        double own_rate = count / (double)workload->period_us * 1e6;
        copies = fmax(1, round(options->rate / own_rate));
        workload->stretch = copies * own_rate / options->rate;
    }
    if (copies > copy_max) {
        return workload_complain(error, "the rate is more than 10,000 times that of the trace");
    }
    make_starters(workload, (uint32_t)copies, options->seed);
    limit_to(workload, options, (uint64_t)copies * trace->request_count);
    for (uint32_t i = 0; i < workload->starter_count; i++) {
        struct starter *copy = &workload->starters[i];
        if (i > 0) {
            double part = draw_unit(&copy->rng);
            copy->shift_us = (uint64_t)(part * (double)workload->period_us);
            copy->first = workload_find_request(trace, workload->period_us - copy->shift_us);
        }
        workload_schedule(workload, i);
    }
    return true;
}

static void start_users(struct workload *workload, const struct workload_options *options)
{
    workload->is_closed = true;
    make_starters(workload, options->users, options->seed);
    if (workload->trace != NULL) {
        limit_to(workload, options, workload->trace->request_count);
    }
    // They come in the middle of thinking, not all at once.
    for (uint32_t i = 0; i < workload->starter_count; i++) {
        struct starter *user = &workload->starters[i];
        workload_push(workload, us_of(think_s(workload, user) * draw_unit(&user->rng)), i, NULL);
    }
}

static double mean_answer_s(const struct work_kind *kind)
{
    double tokens = 0;
    for (int i = 0; i < work_prompt_max; i++) {
        const struct work_prompt *prompt = &kind->prompts[i];
        tokens += prompt->percent / 100.0 * draw_mean(&prompt->output_tokens);
    }
    return first_token_s + token_s * tokens;
}

// Numbers of sessions that no arrival comes to.
static const uint64_t midway_number = (uint64_t)1 << 39;

// Plays a session that began before time 0 up to time 0, with estimated times.  False: it ended
// before.
static bool play_to_now(struct session *session, const struct work_kind *kind, double at_s,
                        uint64_t *at_us, struct rng *rng)
{
    double answer_s = mean_answer_s(kind);
    while (at_s < 0 && session->turn_count > 0) {
        at_s += answer_s + draw_value(&kind->pause_s, rng);
        session->turn_count--;
    }
    *at_us = us_of(fmax(0, at_s));
    return session->turn_count > 0;
}

// Without sessions that began before, the rate would be reached only when the first ones end, which
// takes minutes.  They have their remaining turns, but not the earlier ones, which every engine
// would have to compute first.
static void start_midway(struct workload *workload, struct rng *rng)
{
    const struct work_kind *kind = workload->script.kind;
    const struct draw gap_s = DRAW_EXPONENTIAL(workload->gap_us / 1e6);
    // Hardly one takes twice as long as the longest do in the mean.
    double past_s = 2 * kind->turns_max * (draw_mean(&kind->pause_s) + mean_answer_s(kind));
    double at_s = -draw_value(&gap_s, rng);

    for (uint64_t number = midway_number; at_s > -past_s; number++) {
        struct session *session = session_create(&workload->script, number);
        uint64_t at_us = 0;
        if (play_to_now(session, kind, at_s, &at_us, rng)) {
            workload_push(workload, at_us, workload_order_of(workload, session), session);
        } else {
            session_destroy(&session);
        }
        if (workload->due.count > workload->limit) {
            break; // those alone will have more to say than is wanted
        }
        at_s -= draw_value(&gap_s, rng);
    }
}

static void start_arrivals(struct workload *workload, const struct workload_options *options)
{
    const struct work_kind *kind = workload->script.kind;
    make_starters(workload, 1, options->seed);
    workload->gap_us = 1e6 * work_kind_mean_turns(kind) / options->rate;
    workload_schedule(workload, 0);
    struct rng rng = {.state = hash_pair(options->seed, midway_number)};
    if (kind->turns_max > 1) {
        start_midway(workload, &rng);
    }
}

static bool workload_start(struct workload *workload, const struct workload_options *options,
                           char *error)
{
    workload->trace = options->trace;
    workload->limit = options->requests > 0 ? options->requests : workload_requests_default;
    if (options->kind != NULL) {
        script_init(&workload->script, work_kind_find(options->kind), options->share,
                    options->seed);
    }
    if (options->users > 0) {
        start_users(workload, options);
    } else if (workload->trace != NULL) {
        return start_copies(workload, options, error);
    } else {
        start_arrivals(workload, options);
    }
    return true;
}

struct workload *workload_create(const struct workload_options *options,
                                 char error[workload_error_size])
{
    if (!check_options(options, error)) {
        return NULL;
    }
    struct workload *workload = calloc(1, sizeof(*workload));
    ASSERT(workload != NULL);
    if (!workload_start(workload, options, error)) {
        workload_destroy(&workload);
        return NULL;
    }
    return workload;
}

void workload_destroy(struct workload **workload)
{
    struct workload *dead = *workload;
    *workload = NULL;
    if (dead == NULL) {
        return;
    }
    while (dead->due.count > 0) {
        struct session *session = due_queue_pop(&dead->due).what;
        session_destroy(&session);
    }
    while (dead->out != NULL) {
        struct session *session = CONTAINER_OF(dead->out, struct session, node);
        list_remove(&session->node);
        session_destroy(&session);
    }
    due_queue_fini(&dead->due);
    script_fini(&dead->script);
    free(dead->starters);
    free(dead);
}

const char *workload_kind_name(uint32_t index)
{
    const struct work_kind *kind = work_kind_at(index);
    return kind != NULL ? kind->name : NULL;
}

const char *workload_kind_summary(uint32_t index)
{
    const struct work_kind *kind = work_kind_at(index);
    return kind != NULL ? kind->summary : NULL;
}
