// SPDX-License-Identifier: Apache-2.0
//
// Blocks of 4 tokens, steps of 16, unless a test says otherwise: small enough to count by hand.

#include "sim/engine/engine.h"

#include "test.h"

#include <math.h>
#include <stdarg.h>

enum { request_max = 8, block_max = 1300, log_size = 512 };

struct rig {
    struct engine *engine;
    struct engine_request requests[request_max];
    uint64_t keys[request_max][block_max];
    uint32_t blocks[request_max][block_max];
    char log[log_size]; // what the engine said, in order; see the observers
    size_t log_length;
    // Requests to cancel and to submit inside the token callback, once.
    struct engine_request *cancel;
    struct engine_request *submit;
    bool flushes;
    struct engine_status seen; // in the last token callback
};

static const struct step_model step = {.floor_ms = 5,
                                       .token_ms = 0.02,
                                       .sharpness = 2,
                                       .cross_ms = 1e-6,
                                       .square_ms = 5e-7,
                                       .square_behind_ms = 8e-7,
                                       .cached_ms = 1e-4,
                                       .context_ms = 3e-5,
                                       .sequence_ms = 1e-3};

__attribute__((format(printf, 2, 3))) static void say(struct rig *rig, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(rig->log + rig->log_length, log_size - rig->log_length, format, args);
    va_end(args);
    ASSERT(length > 0 && rig->log_length + (size_t)length < log_size);
    rig->log_length += (size_t)length;
}

static uint32_t number_of(const struct rig *rig, const struct engine_request *request)
{
    return (uint32_t)(request - rig->requests);
}

// "0." is a token of request 0, "0!" its last one.
static void on_token(void *owner, struct engine_request *request, bool is_last)
{
    struct rig *rig = owner;
    struct engine_request *cancel = rig->cancel;
    struct engine_request *submit = rig->submit;

    rig->cancel = rig->submit = NULL;
    say(rig, "%u%c ", number_of(rig, request), is_last ? '!' : '.');
    if (cancel != NULL) {
        engine_cancel(rig->engine, cancel);
    }
    if (submit != NULL) {
        engine_submit(rig->engine, submit);
    }
    if (rig->flushes) {
        rig->flushes = false;
        engine_flush(rig->engine);
    }
    engine_status(rig->engine, &rig->seen);
}

// "0+2:3" are blocks 2, 3 and 4 of request 0.
static void on_stored(void *owner, struct engine_request *request, uint32_t first, uint32_t count)
{
    struct rig *rig = owner;
    say(rig, "%u+%u:%u ", number_of(rig, request), first, count);
}

static void on_removed(void *owner, uint64_t key)
{
    say(owner, "-%u ", (uint32_t)key);
}

static void on_cleared(void *owner)
{
    say(owner, "clear ");
}

// "^101" is on the host from now on, "v101" no more.
static void on_kept(void *owner, [[maybe_unused]] uint32_t block, uint64_t key)
{
    say(owner, "^%u ", (uint32_t)key);
}

static void on_dropped(void *owner, uint64_t key)
{
    say(owner, "v%u ", (uint32_t)key);
}

static struct profile small_profile(uint32_t block_count)
{
    return (struct profile){.step = step,
                            .kv_tokens = (uint64_t)block_count * 4,
                            .block_tokens = 4,
                            .step_tokens = 16,
                            .sequences_max = request_max,
                            .context_max = 100000};
}

static void make(struct rig *rig, const struct profile *profile)
{
    memset(rig, 0, sizeof(*rig));
    rig->engine = engine_create(profile, &(struct engine_observer){.owner = rig,
                                                                   .token = on_token,
                                                                   .stored = on_stored,
                                                                   .removed = on_removed,
                                                                   .cleared = on_cleared,
                                                                   .kept = on_kept,
                                                                   .dropped = on_dropped});
    ASSERT(rig->engine != NULL);
}

// A request about `subject`, which gives its keys: 100 * subject + the number of the block.
static struct engine_request *prepare(struct rig *rig, uint32_t number, uint32_t subject,
                                      uint32_t prompt_tokens, uint32_t output_tokens)
{
    struct engine_request *request = &rig->requests[number];
    uint32_t blocks = engine_blocks_of(rig->engine, prompt_tokens + output_tokens);

    ASSERT(number < request_max && blocks <= block_max);
    for (uint32_t i = 0; i < blocks; i++) {
        rig->keys[number][i] = 100 * subject + i;
    }
    *request = (struct engine_request){.keys = rig->keys[number],
                                       .blocks = rig->blocks[number],
                                       .key_count = blocks,
                                       .prompt_tokens = prompt_tokens,
                                       .output_tokens = output_tokens};
    return request;
}

static struct engine_request *ask(struct rig *rig, uint32_t number, uint32_t subject,
                                  uint32_t prompt_tokens, uint32_t output_tokens)
{
    struct engine_request *request = prepare(rig, number, subject, prompt_tokens, output_tokens);
    engine_submit(rig->engine, request);
    return request;
}

static double run_step(struct rig *rig)
{
    double ms = engine_step(rig->engine);
    engine_step_end(rig->engine);
    return ms;
}

static void run_all(struct rig *rig)
{
    uint32_t steps = 0;
    while (run_step(rig) > 0) {
        ASSERT(++steps < 10000);
    }
}

// The log since the last call.
static const char *heard(struct rig *rig)
{
    rig->log_length = 0;
    return rig->log;
}

static struct engine_status status_of(const struct rig *rig)
{
    struct engine_status status;
    engine_status(rig->engine, &status);
    return status;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-9 * fabs(b);
}

static double chunk_ms(uint32_t cached, uint32_t tokens)
{
    struct step_work work = {0};
    step_work_add_chunk(&work, &step, cached, tokens);
    return step_ms(&work, &step);
}

static double decode_ms(uint32_t sequences, uint32_t context)
{
    struct step_work work = {0};
    step_work_add_decode(&work, &step, sequences, context);
    return step_ms(&work, &step);
}

TEST(an_idle_engine_has_nothing_to_do)
{
    struct rig rig;
    struct profile profile = small_profile(8);
    make(&rig, &profile);
    CHECK(run_step(&rig) == 0);
    CHECK_EQ(status_of(&rig).step_count, 0);
    CHECK_EQ(status_of(&rig).kv_tokens, 32);
    engine_destroy(&rig.engine);
    CHECK(rig.engine == NULL);
}

TEST(a_prompt_alone_takes_the_steps_and_times_of_the_model)
{
    struct rig rig;
    struct profile profile = small_profile(8);
    make(&rig, &profile);
    ask(&rig, 0, 1, 10, 3);
    double prefill = run_step(&rig);
    CHECK(is_near(prefill, chunk_ms(0, 10)));
    CHECK_STR(heard(&rig), "0+0:2 0. ");
    double second = run_step(&rig);
    CHECK(is_near(second, decode_ms(1, 10)));
    CHECK_STR(heard(&rig), "0. ");
    double third = run_step(&rig);
    CHECK(is_near(third, decode_ms(1, 11)));
    // Twelve tokens are computed now; the thirteenth, the last one made, never is.
    CHECK_STR(heard(&rig), "0+2:1 0! ");
    CHECK(run_step(&rig) == 0);
    CHECK(is_near(status_of(&rig).busy_ms, prefill + second + third));
    CHECK_EQ(status_of(&rig).step_count, 3);
    CHECK_EQ(status_of(&rig).output_tokens, 3);
    CHECK_EQ(status_of(&rig).prompt_tokens, 10);
    CHECK_EQ(rig.requests[0].made_tokens, 3);
    CHECK_EQ(rig.requests[0].phase, ENGINE_NOWHERE);
    engine_destroy(&rig.engine);
}

TEST(twenty_thousand_tokens_are_computed_in_chunks_of_8192)
{
    struct rig rig;
    struct profile profile = small_profile(0);
    profile.kv_tokens = 40000;
    profile.block_tokens = 16;
    profile.step_tokens = 8192;
    make(&rig, &profile);
    ask(&rig, 0, 1, 20000, 1);
    CHECK(is_near(run_step(&rig), chunk_ms(0, 8192)));
    CHECK_STR(heard(&rig), "0+0:512 ");
    CHECK_EQ(status_of(&rig).used_tokens, 8192);
    CHECK(is_near(run_step(&rig), chunk_ms(8192, 8192)));
    CHECK(is_near(run_step(&rig), chunk_ms(16384, 20000 - 16384)));
    CHECK_STR(heard(&rig), "0+512:512 0+1024:226 0! ");
    CHECK(run_step(&rig) == 0);
    CHECK(is_near(status_of(&rig).busy_ms, step_prefill_ms(&step, 0, 20000, 8192)));
    engine_destroy(&rig.engine);
}

TEST(a_step_has_the_running_ones_first_and_then_new_ones_within_one_budget)
{
    struct rig rig;
    struct profile profile = small_profile(40);
    make(&rig, &profile);
    ask(&rig, 0, 1, 4, 8);
    run_step(&rig); // 0 decodes from now on
    ask(&rig, 1, 2, 20, 2);
    ask(&rig, 2, 3, 6, 2);
    engine_step(rig.engine);
    CHECK_EQ(rig.requests[0].chunk, 1);
    CHECK_EQ(rig.requests[1].chunk, 15);
    CHECK_EQ(rig.requests[2].phase, ENGINE_WAITING);
    engine_step_end(rig.engine);
    // The rest of the second prompt, then a new one, which gets what is left of 16.
    ask(&rig, 3, 4, 9, 2);
    double ms = engine_step(rig.engine);
    CHECK_EQ(rig.requests[0].chunk, 1);
    CHECK_EQ(rig.requests[1].chunk, 5);
    CHECK_EQ(rig.requests[2].chunk, 6);
    CHECK_EQ(rig.requests[3].chunk, 4);
    struct step_work work = {0};
    step_work_add_chunk(&work, &step, 15, 5);
    step_work_add_chunk(&work, &step, 0, 6);
    step_work_add_chunk(&work, &step, 0, 4);
    step_work_add_decode(&work, &step, 1, 5);
    CHECK(is_near(ms, step_ms(&work, &step)));
    engine_step_end(rig.engine);
    engine_step(rig.engine);
    CHECK_EQ(rig.requests[3].chunk, 5);
    engine_destroy(&rig.engine);
}

TEST(no_more_sequences_run_than_allowed)
{
    struct rig rig;
    struct profile profile = small_profile(40);
    profile.sequences_max = 2;
    make(&rig, &profile);
    for (uint32_t i = 0; i < 4; i++) {
        ask(&rig, i, i + 1, 2, 2);
    }
    run_step(&rig);
    CHECK_EQ(status_of(&rig).running, 2);
    CHECK_EQ(status_of(&rig).waiting, 2);
    CHECK_STR(heard(&rig), "0. 1. ");
    run_step(&rig); // both end; their places are free from the next step on
    CHECK_STR(heard(&rig), "0! 1! ");
    CHECK_EQ(status_of(&rig).running, 0);
    run_step(&rig);
    CHECK_STR(heard(&rig), "2. 3. ");
    engine_destroy(&rig.engine);
}

TEST(a_prompt_that_does_not_fit_blocks_those_behind_it)
{
    struct rig rig;
    struct profile profile = small_profile(8);
    make(&rig, &profile);
    ask(&rig, 0, 1, 16, 4);
    run_step(&rig);
    // Needs 5 blocks of 4 that are free, although the first chunk would fit; the third would fit
    // whole.
    ask(&rig, 1, 2, 17, 1);
    ask(&rig, 2, 3, 1, 1);
    run_step(&rig);
    CHECK_EQ(rig.requests[0].block_count, 5);
    CHECK_EQ(status_of(&rig).waiting, 2);
    CHECK_EQ(status_of(&rig).running, 1);
    run_step(&rig);
    run_step(&rig);
    CHECK_EQ(rig.requests[0].phase, ENGINE_NOWHERE);
    CHECK_EQ(status_of(&rig).waiting, 2);
    engine_step(rig.engine);
    CHECK_EQ(rig.requests[1].chunk, 16);
    CHECK_EQ(rig.requests[2].phase, ENGINE_WAITING); // the budget is spent
    engine_destroy(&rig.engine);
}

TEST(blocks_that_are_found_free_count_as_needed_too)
{
    struct rig rig;
    struct profile profile = small_profile(6);
    make(&rig, &profile);
    ask(&rig, 0, 1, 8, 1);
    run_all(&rig); // 2 blocks cached, and free
    ask(&rig, 1, 2, 12, 4);
    run_step(&rig); // uses 3; 3 are free, 2 of which are cached
    // 4 blocks, 2 of them found; 2 new ones are not to be had from one.
    ask(&rig, 2, 1, 13, 1);
    run_step(&rig);
    CHECK_EQ(rig.requests[2].phase, ENGINE_WAITING);
    engine_cancel(rig.engine, &rig.requests[1]);
    run_step(&rig);
    CHECK_EQ(rig.requests[2].made_tokens, 1);
    CHECK_EQ(rig.requests[2].cached_tokens, 8);
    engine_destroy(&rig.engine);
}

TEST(two_equal_prompts_in_one_step_share_their_blocks)
{
    struct rig rig;
    struct profile profile = small_profile(8);
    make(&rig, &profile);
    ask(&rig, 0, 1, 10, 4);
    ask(&rig, 1, 1, 10, 4);
    double ms = run_step(&rig);
    CHECK_EQ(rig.requests[0].cached_tokens, 0);
    CHECK_EQ(rig.requests[1].cached_tokens, 8);
    CHECK_EQ(rig.requests[1].blocks[0], rig.requests[0].blocks[0]);
    CHECK_EQ(rig.requests[1].blocks[1], rig.requests[0].blocks[1]);
    CHECK(rig.requests[1].blocks[2] != rig.requests[0].blocks[2]);
    CHECK_EQ(status_of(&rig).used_tokens, 16);
    struct step_work work = {0};
    step_work_add_chunk(&work, &step, 0, 10);
    step_work_add_chunk(&work, &step, 8, 2);
    CHECK(is_near(ms, step_ms(&work, &step)));
    CHECK_STR(heard(&rig), "0+0:2 0. 1. ");
    engine_destroy(&rig.engine);
}

TEST(a_prompt_of_whole_blocks_that_is_cached_computes_its_last_block_again)
{
    struct rig rig;
    struct profile profile = small_profile(8);
    make(&rig, &profile);
    ask(&rig, 0, 1, 8, 1);
    run_all(&rig);
    CHECK_STR(heard(&rig), "0+0:2 0! ");
    ask(&rig, 1, 1, 8, 1);
    CHECK(is_near(run_step(&rig), chunk_ms(4, 4)));
    CHECK_EQ(rig.requests[1].cached_tokens, 4);
    CHECK_STR(heard(&rig), "1+1:1 1! "); // the copy is stored by itself
    ask(&rig, 2, 1, 9, 1);
    CHECK(is_near(run_step(&rig), chunk_ms(8, 1)));
    CHECK_EQ(rig.requests[2].cached_tokens, 8);
    CHECK_EQ(status_of(&rig).query_tokens, 25);
    CHECK_EQ(status_of(&rig).hit_tokens, 12);
    engine_destroy(&rig.engine);
}

TEST(the_next_turn_finds_the_response_but_for_its_last_token)
{
    struct rig rig;
    struct profile profile = small_profile(16);
    make(&rig, &profile);
    ask(&rig, 0, 1, 6, 7); // 13 tokens, 12 of them computed: 3 blocks
    run_all(&rig);
    ask(&rig, 1, 1, 20, 1);
    run_all(&rig);
    CHECK_EQ(rig.requests[1].cached_tokens, 12);
    ask(&rig, 2, 2, 6, 6); // 12 tokens, but only 11 computed
    run_all(&rig);
    ask(&rig, 3, 2, 20, 1);
    run_all(&rig);
    CHECK_EQ(rig.requests[3].cached_tokens, 8);
    engine_destroy(&rig.engine);
}

TEST(blocks_without_a_key_are_not_found_again)
{
    struct rig rig;
    struct profile profile = small_profile(16);
    make(&rig, &profile);
    prepare(&rig, 0, 1, 12, 6)->key_count = 2;
    engine_submit(rig.engine, &rig.requests[0]);
    run_all(&rig);
    ask(&rig, 1, 1, 16, 1);
    run_all(&rig);
    CHECK_EQ(rig.requests[0].made_tokens, 6);
    CHECK_EQ(rig.requests[1].cached_tokens, 8);
    engine_destroy(&rig.engine);
}

TEST(the_youngest_is_preempted_and_comes_back_in_front_from_its_own_blocks)
{
    struct rig rig;
    struct profile profile = small_profile(5);
    make(&rig, &profile);
    ask(&rig, 0, 1, 7, 6);
    ask(&rig, 1, 2, 8, 4);
    run_step(&rig); // 2 blocks each
    ask(&rig, 2, 3, 5, 1);
    CHECK_STR(heard(&rig), "0+0:1 1+0:2 0. 1. ");
    run_step(&rig); // the last block goes to 1; 2 does not fit
    CHECK_STR(heard(&rig), "0+1:1 0. 1. ");
    CHECK_EQ(rig.requests[1].block_count, 3);

    // 0 needs a third block.  1 loses all of its own; the partial one is reused first.
    uint32_t partial = rig.requests[1].blocks[2];
    double ms = run_step(&rig);
    CHECK(is_near(ms, decode_ms(1, 8)));
    CHECK_STR(heard(&rig), "0. ");
    CHECK_EQ(rig.requests[0].blocks[2], partial);
    CHECK_EQ(rig.requests[1].preemptions, 1);
    CHECK_EQ(rig.requests[1].phase, ENGINE_WAITING);
    CHECK_EQ(rig.requests[1].made_tokens, 2);
    CHECK_EQ(status_of(&rig).preemptions, 1);
    CHECK_EQ(status_of(&rig).running, 1); // 2 would have fitted, but not in such a step
    CHECK_EQ(status_of(&rig).waiting, 2);

    // 1 needs 3 blocks for 10 tokens and blocks 2, until 0 has ended.
    run_step(&rig);
    run_step(&rig);
    run_step(&rig);
    CHECK_STR(heard(&rig), "0. 0. 0+2:1 0! ");
    ms = run_step(&rig);
    struct step_work work = {0};
    step_work_add_chunk(&work, &step, 8, 2);
    step_work_add_chunk(&work, &step, 0, 5);
    CHECK(is_near(ms, step_ms(&work, &step)));
    CHECK_STR(heard(&rig), "-102 -101 -100 2+0:1 1. 2! ");
    run_all(&rig);
    CHECK_EQ(rig.requests[1].made_tokens, 4);
    CHECK_EQ(rig.requests[1].cached_tokens, 0); // what it found at first
    CHECK_EQ(status_of(&rig).query_tokens, 20);
    CHECK_EQ(status_of(&rig).hit_tokens, 0);
    CHECK_EQ(status_of(&rig).prompt_tokens, 20);
    CHECK_EQ(status_of(&rig).output_tokens, 11);
    engine_destroy(&rig.engine);
}

TEST(several_victims_of_one_step_wait_in_the_order_in_which_they_came)
{
    struct rig rig;
    struct profile profile = small_profile(4);
    make(&rig, &profile);
    for (uint32_t i = 0; i < 4; i++) {
        ask(&rig, i, i + 1, 3, 4);
    }
    run_step(&rig);
    ask(&rig, 4, 5, 1, 1);
    run_step(&rig); // each has filled its block
    heard(&rig);
    run_step(&rig); // 0 takes the one of 3, then 1 that of 2
    CHECK_STR(heard(&rig), "-400 -300 0. 1. ");
    CHECK_EQ(status_of(&rig).preemptions, 2);
    CHECK_EQ(status_of(&rig).waiting, 3);
    run_step(&rig);
    CHECK_STR(heard(&rig), "0! 1! ");
    run_step(&rig); // 5 tokens each; 4 finds no room
    CHECK_STR(heard(&rig), "2+0:1 -100 -200 3+0:1 2. 3. ");
    run_step(&rig);
    run_step(&rig);
    CHECK_STR(heard(&rig), "2! 3! 4! ");
    engine_destroy(&rig.engine);
}

TEST(a_step_that_preempted_admits_no_request)
{
    struct rig rig;
    struct profile profile = small_profile(4);
    make(&rig, &profile);
    ask(&rig, 0, 1, 8, 4);
    ask(&rig, 1, 1, 8, 4);
    run_step(&rig); // 1 shares the first block and has a copy of the second
    CHECK_STR(heard(&rig), "0+0:2 1+1:1 0. 1. ");
    CHECK_EQ(status_of(&rig).used_tokens, 12);
    run_step(&rig); // 0 takes the last one; 1 gives up, and would fit now: it finds both blocks
    CHECK_STR(heard(&rig), "0. ");
    CHECK_EQ(status_of(&rig).running, 1);
    double ms = run_step(&rig);
    CHECK(is_near(ms, decode_ms(2, 9 + 8)));
    CHECK_STR(heard(&rig), "-101 0. 1. "); // the copy made room
    CHECK_EQ(rig.requests[1].blocks[1], rig.requests[0].blocks[1]);
    engine_destroy(&rig.engine);
}

TEST(a_waiting_request_is_cancelled_without_a_trace)
{
    struct rig rig;
    struct profile profile = small_profile(8);
    make(&rig, &profile);
    for (uint32_t i = 0; i < 4; i++) {
        ask(&rig, i, i + 1, 4, 1);
    }
    engine_cancel(rig.engine, &rig.requests[3]); // the last
    engine_cancel(rig.engine, &rig.requests[0]); // the first
    ask(&rig, 4, 5, 4, 1);
    engine_cancel(rig.engine, &rig.requests[2]); // in the middle
    CHECK_EQ(status_of(&rig).waiting, 2);
    engine_cancel(rig.engine, &rig.requests[2]); // and is not there any more
    CHECK_EQ(status_of(&rig).waiting, 2);
    run_step(&rig);
    CHECK_STR(heard(&rig), "1+0:1 4+0:1 1! 4! ");
    CHECK_EQ(status_of(&rig).query_tokens, 8);
    ask(&rig, 0, 1, 4, 1);
    engine_cancel(rig.engine, &rig.requests[0]);
    CHECK(run_step(&rig) == 0);
    ask(&rig, 0, 1, 4, 1);
    run_step(&rig);
    CHECK_STR(heard(&rig), "0+0:1 0! ");
    engine_destroy(&rig.engine);
}

TEST(a_running_request_is_cancelled_at_any_time_and_leaves_whole_blocks)
{
    struct rig rig;
    struct profile profile = small_profile(12);
    make(&rig, &profile);
    ask(&rig, 0, 1, 5, 9);
    ask(&rig, 1, 2, 5, 9);
    ask(&rig, 2, 3, 5, 9);
    run_step(&rig);
    engine_cancel(rig.engine, &rig.requests[0]);
    CHECK_EQ(status_of(&rig).running, 2);
    CHECK_EQ(status_of(&rig).used_tokens, 16);
    engine_step(rig.engine);
    engine_cancel(rig.engine, &rig.requests[1]);
    engine_submit(rig.engine, &rig.requests[1]); // and asks once more
    heard(&rig);
    engine_step_end(rig.engine);
    CHECK_STR(heard(&rig), "2. ");
    CHECK_EQ(status_of(&rig).used_tokens, 8);
    ask(&rig, 0, 1, 5, 1);
    run_step(&rig);
    CHECK_STR(heard(&rig), "2. 1. 0! ");
    CHECK_EQ(rig.requests[0].cached_tokens, 4);
    CHECK_EQ(rig.requests[1].cached_tokens, 4);
    CHECK_EQ(rig.requests[1].made_tokens, 1);
    engine_destroy(&rig.engine);
}

TEST(a_token_callback_may_cancel_any_request_and_the_others_go_on)
{
    // Of three that run the middle one is told of, and cancels 0, 1 or 2.
    for (uint32_t victim = 0; victim < 3; victim++) {
        struct rig rig;
        struct profile profile = small_profile(12);
        make(&rig, &profile);
        for (uint32_t i = 0; i < 3; i++) {
            ask(&rig, i, i + 1, 3, 9);
        }
        run_step(&rig);
        run_step(&rig);
        engine_cancel(rig.engine, &rig.requests[0]);
        ask(&rig, 3, 4, 3, 9);
        rig.cancel = &rig.requests[victim + 1];
        heard(&rig);
        run_step(&rig); // 1 speaks first, then 2, then 3
        static const char *const said[] = {"1. 2. 3. ", "1. 3. ", "1. 2. "};
        CHECK_STR(heard(&rig), said[victim]);
        CHECK_EQ(rig.seen.running, 2);
        CHECK_EQ(status_of(&rig).running, 2);
        CHECK_EQ(status_of(&rig).used_tokens, victim == 2 ? 16 : 12);
        run_all(&rig);
        CHECK_EQ(rig.requests[victim + 1].phase, ENGINE_NOWHERE);
        CHECK_EQ(status_of(&rig).used_tokens, 0);
        engine_destroy(&rig.engine);
    }
}

TEST(a_finished_request_may_be_cancelled_and_submitted_again_in_the_callback)
{
    struct rig rig;
    struct profile profile = small_profile(12);
    make(&rig, &profile);
    ask(&rig, 0, 1, 5, 1);
    rig.cancel = rig.submit = &rig.requests[0];
    run_step(&rig);
    CHECK_STR(heard(&rig), "0+0:1 0! ");
    CHECK_EQ(rig.requests[0].phase, ENGINE_WAITING);
    CHECK_EQ(rig.seen.running, 0);
    CHECK_EQ(rig.seen.waiting, 1);
    prepare(&rig, 1, 2, 5, 1);
    rig.submit = &rig.requests[1];
    CHECK(is_near(run_step(&rig), chunk_ms(4, 1)));
    CHECK_STR(heard(&rig), "0! ");
    CHECK(is_near(run_step(&rig), chunk_ms(0, 5)));
    CHECK_STR(heard(&rig), "1+0:1 1! ");
    CHECK(run_step(&rig) == 0);
    engine_destroy(&rig.engine);
}

TEST(a_flush_empties_the_cache_and_running_requests_go_on)
{
    struct rig rig;
    struct profile profile = small_profile(12);
    profile.host_tokens = 40;
    make(&rig, &profile);
    ask(&rig, 0, 1, 9, 9);
    run_step(&rig);
    rig.flushes = true;
    run_step(&rig);
    CHECK_STR(heard(&rig), "0+0:2 0. 0. clear ");
    CHECK_EQ(status_of(&rig).used_tokens, 12);
    ask(&rig, 1, 1, 9, 1);
    run_step(&rig);
    CHECK_EQ(rig.requests[1].cached_tokens, 0);
    CHECK_STR(heard(&rig), "1+0:2 0. 1! ");
    ask(&rig, 2, 1, 9, 1);
    run_all(&rig);
    CHECK_EQ(rig.requests[2].cached_tokens, 8); // from 1
    CHECK_EQ(rig.requests[0].made_tokens, 9);
    CHECK_EQ(status_of(&rig).used_tokens, 0);
    engine_destroy(&rig.engine);
}

TEST(evicted_blocks_come_back_from_the_host_at_its_price)
{
    struct rig rig;
    struct profile profile = small_profile(4);
    profile.host_tokens = 12; // 3 blocks
    profile.host_token_ms = 0.25;
    make(&rig, &profile);
    ask(&rig, 0, 1, 9, 1); // 100 and 101 stay; a third block has no name
    run_all(&rig);
    ask(&rig, 1, 2, 13, 1); // takes all four: 101 goes first, then 100
    run_all(&rig);
    heard(&rig);
    ask(&rig, 2, 1, 9, 1);
    double ms = run_step(&rig);
    CHECK(is_near(ms, chunk_ms(8, 1) + 8 * 0.25));
    // Its two blocks are stored on the GPU again, where 202 and 201 make room; the partial one was
    // free.
    CHECK_STR(heard(&rig), "^202 -202 2+0:2 v101 ^201 -201 2! ");
    CHECK_EQ(rig.requests[2].cached_tokens, 8);
    CHECK_EQ(rig.requests[2].host_tokens, 8);
    CHECK_EQ(status_of(&rig).hit_tokens, 8);
    // The host has 100, 202 and 201 now: 101, the oldest, had to go.  The GPU has 200, 101 and 100.
    ask(&rig, 3, 2, 13, 1);
    ms = run_step(&rig);
    CHECK(is_near(ms, chunk_ms(12, 1) + 8 * 0.25));
    CHECK_EQ(rig.requests[3].host_tokens, 8);
    CHECK_EQ(rig.requests[3].cached_tokens, 12);
    heard(&rig);
    engine_flush(rig.engine);
    CHECK_STR(heard(&rig), "v201 v101 v100 clear "); // the oldest first
    ask(&rig, 4, 1, 9, 1);
    run_all(&rig);
    CHECK_EQ(rig.requests[4].cached_tokens, 0);
    engine_destroy(&rig.engine);
}

TEST(a_request_that_reads_no_cache_computes_all_and_others_find_its_blocks)
{
    struct rig rig;
    struct profile profile = small_profile(12);
    make(&rig, &profile);
    ask(&rig, 0, 1, 9, 1);
    run_all(&rig);
    prepare(&rig, 1, 1, 13, 1)->reads_no_cache = true;
    engine_submit(rig.engine, &rig.requests[1]);
    CHECK(is_near(run_step(&rig), chunk_ms(0, 13)));
    CHECK_EQ(rig.requests[1].cached_tokens, 0);
    ask(&rig, 2, 1, 13, 1);
    CHECK(is_near(run_step(&rig), chunk_ms(12, 1)));
    CHECK_EQ(status_of(&rig).hit_tokens, 12);
    engine_destroy(&rig.engine);
}

TEST(request_sizes_are_bounded_by_the_context_and_by_the_cache)
{
    struct rig rig;
    struct profile profile = small_profile(8);
    make(&rig, &profile);
    CHECK(engine_fits(rig.engine, 31, 1));
    CHECK(!engine_fits(rig.engine, 32, 1));
    CHECK(!engine_fits(rig.engine, UINT64_MAX, 2));
    CHECK(!engine_fits(rig.engine, 2, UINT64_MAX));
    engine_destroy(&rig.engine);
    profile.context_max = 20;
    make(&rig, &profile);
    CHECK(engine_fits(rig.engine, 12, 8));
    CHECK(!engine_fits(rig.engine, 12, 9));
    CHECK_EQ(engine_blocks_of(rig.engine, 0), 0);
    CHECK_EQ(engine_blocks_of(rig.engine, 8), 2);
    CHECK_EQ(engine_blocks_of(rig.engine, 9), 3);
    engine_destroy(&rig.engine);
}

TEST(an_engine_needs_no_observer)
{
    struct rig rig;
    struct profile profile = small_profile(3);
    memset(&rig, 0, sizeof(rig));
    rig.engine = engine_create(&profile, &(struct engine_observer){0});
    for (uint32_t i = 0; i < request_max; i++) {
        ask(&rig, i, i, 6, 4);
    }
    run_all(&rig);
    engine_flush(rig.engine);
    CHECK_EQ(status_of(&rig).output_tokens, 4 * request_max);
    engine_destroy(&rig.engine);
}

TEST(all_requests_can_be_found_and_cancelled)
{
    struct rig rig;
    struct profile profile = small_profile(12);
    profile.sequences_max = 2;
    make(&rig, &profile);
    CHECK(engine_any(rig.engine) == NULL);
    for (uint32_t i = 0; i < 4; i++) {
        ask(&rig, i, i + 1, 3, 2);
    }
    run_step(&rig);
    uint32_t count = 0;
    for (struct engine_request *request; (request = engine_any(rig.engine)) != NULL; count++) {
        engine_cancel(rig.engine, request);
    }
    CHECK_EQ(count, 4);
    CHECK_EQ(status_of(&rig).running + status_of(&rig).waiting, 0);
    CHECK_EQ(status_of(&rig).used_tokens, 0);
    CHECK(run_step(&rig) == 0);
    engine_destroy(&rig.engine);
}
