// SPDX-License-Identifier: Apache-2.0

#include "fleet/backend.h"

#include "base/rng.h"
#include "test.h"

static const struct backend_rules rules = {
    .eject_failures = 3, .eject_time_ms = 1000, .eject_time_max_ms = 3000};

static bool begin(struct backend *backend, uint64_t now_ms)
{
    bool on_trial;
    return backend_begin(backend, now_ms, false, &on_trial);
}

static void fail(struct backend *backend, uint64_t now_ms, int count)
{
    for (int i = 0; i < count; i++) {
        backend_judge(backend, BACKEND_FAULT, false, now_ms, &rules);
    }
}

TEST(faults_in_a_row_eject_and_a_success_between_them_does_not)
{
    struct backend backend = {0};
    fail(&backend, 10, 2);
    backend_judge(&backend, BACKEND_SUCCESS, false, 10, &rules);
    fail(&backend, 10, 2);
    CHECK_EQ(backend_tier(&backend, 10), BACKEND_READY);
    fail(&backend, 10, 1);
    CHECK_EQ(backend_tier(&backend, 10), BACKEND_DOWN);
    CHECK_STR(backend_state(&backend, 10), "ejected");
    CHECK_EQ(backend_tier(&backend, 1009), BACKEND_DOWN);
}

TEST(a_half_open_breaker_admits_one_trial)
{
    struct backend backend = {0};
    bool on_trial = false;
    fail(&backend, 10, 3);
    CHECK_EQ(backend_tier(&backend, 1010), BACKEND_READY);
    CHECK_STR(backend_state(&backend, 1010), "half_open");
    CHECK(backend_begin(&backend, 1010, false, &on_trial));
    CHECK(on_trial);
    CHECK_EQ(backend_tier(&backend, 1010), BACKEND_DOWN);
    bool second = false;
    CHECK(!backend_begin(&backend, 1010, false, &second));
    CHECK(backend_begin(&backend, 1010, true, &second)); // panic
    CHECK(!second);
    CHECK_EQ(atomic_load(&backend.shared.in_flight), 2);

    backend_judge(&backend, BACKEND_SUCCESS, on_trial, 1020, &rules);
    CHECK_STR(backend_state(&backend, 1020), "up");
    backend_end(&backend, on_trial);
    backend_end(&backend, second);
    CHECK_EQ(atomic_load(&backend.shared.in_flight), 0);
    CHECK_EQ(backend_tier(&backend, 1020), BACKEND_READY);
}

TEST(a_failed_trial_ejects_for_longer_up_to_the_limit)
{
    struct backend backend = {0};
    bool on_trial = false;
    fail(&backend, 0, 3);
    uint64_t now = 0;
    static const uint64_t pauses[] = {1000, 2000, 3000, 3000};
    for (size_t i = 0; i < ARRAY_COUNT(pauses); i++) {
        CHECK_EQ(backend_tier(&backend, now + pauses[i] - 1), BACKEND_DOWN);
        now += pauses[i];
        CHECK(backend_begin(&backend, now, false, &on_trial));
        CHECK(on_trial);
        backend_judge(&backend, BACKEND_FAULT, on_trial, now, &rules);
        backend_end(&backend, on_trial);
    }
}

TEST(a_trial_that_ended_without_a_verdict_lets_the_next_one_try)
{
    struct backend backend = {0};
    bool on_trial = false;
    fail(&backend, 0, 3);
    CHECK(backend_begin(&backend, 1000, false, &on_trial));
    backend_end(&backend, on_trial); // the client went away
    CHECK(backend_begin(&backend, 1001, false, &on_trial));
    CHECK(on_trial);
}

TEST(responses_that_begin_well_and_always_break_eject)
{
    struct backend backend = {0};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(backend_tier(&backend, 10), BACKEND_READY);
        backend_judge(&backend, BACKEND_RESPONDING, false, 10, &rules);
        backend_judge(&backend, BACKEND_FAULT, false, 10, &rules);
    }
    CHECK_STR(backend_state(&backend, 10), "ejected");
    bool on_trial = false;
    CHECK(backend_begin(&backend, 1010, false, &on_trial));
    CHECK(on_trial);
    backend_judge(&backend, BACKEND_RESPONDING, on_trial, 1010, &rules);
    CHECK_STR(backend_state(&backend, 1010), "up"); // the trial does not last as long as its answer
    backend_judge(&backend, BACKEND_FAULT, on_trial, 1010, &rules);
    CHECK_STR(backend_state(&backend, 1010), "ejected");
    backend_end(&backend, on_trial);
}

TEST(an_old_response_does_not_end_an_ejection)
{
    struct backend backend = {0};
    fail(&backend, 0, 3);
    backend_judge(&backend, BACKEND_SUCCESS, false, 500, &rules);
    CHECK_EQ(backend_tier(&backend, 999), BACKEND_DOWN);
}

TEST(while_half_open_only_the_trial_decides)
{
    static const enum backend_outcome outcomes[] = {BACKEND_RESPONDING, BACKEND_SUCCESS,
                                                    BACKEND_FAULT};
    struct backend backend = {0};
    bool on_trial = false;
    bool second = false;
    fail(&backend, 0, 3);
    for (size_t i = 0; i < ARRAY_COUNT(outcomes); i++) { // before there is a trial
        backend_judge(&backend, outcomes[i], false, 1000, &rules);
        CHECK_STR(backend_state(&backend, 1000), "half_open");
    }
    CHECK(backend_begin(&backend, 1000, false, &on_trial));
    CHECK(on_trial);
    for (size_t i = 0; i < ARRAY_COUNT(outcomes); i++) { // and while there is one
        backend_judge(&backend, outcomes[i], false, 1001, &rules);
        CHECK_STR(backend_state(&backend, 1001), "half_open");
        CHECK(!backend_begin(&backend, 1001, false, &second));
    }
    CHECK_EQ(atomic_load(&backend.shared.failure_count), 5);
    backend_judge(&backend, BACKEND_FAULT, on_trial, 1002, &rules);
    backend_end(&backend, on_trial);
    CHECK_EQ(backend_tier(&backend, 3001), BACKEND_DOWN); // twice as long, not four times
    CHECK_EQ(backend_tier(&backend, 3002), BACKEND_READY);
    CHECK(backend_begin(&backend, 3002, false, &on_trial));
    backend_judge(&backend, BACKEND_SUCCESS, on_trial, 3003, &rules);
    backend_end(&backend, on_trial);
    CHECK_STR(backend_state(&backend, 3003), "up");
}

TEST(busy_is_not_a_fault_and_passes)
{
    struct backend backend = {0};
    backend_set_busy(&backend, 500);
    CHECK_EQ(backend_tier(&backend, 499), BACKEND_BUSY);
    CHECK_EQ(backend_tier(&backend, 500), BACKEND_READY);
    CHECK(begin(&backend, 10));
}

TEST(probes_take_a_backend_out_and_bring_it_back)
{
    struct backend backend = {0};
    backend_set_probe(&backend, BACKEND_PROBE_DOWN, 0);
    CHECK_EQ(backend_tier(&backend, 0), BACKEND_DOWN);
    backend_set_probe(&backend, BACKEND_PROBE_UP, 0);
    CHECK_EQ(backend_tier(&backend, 0), BACKEND_READY);
}

TEST(a_probe_does_not_end_an_ejection_that_responses_caused)
{
    struct backend backend = {0};
    bool on_trial = false;
    backend_set_probe(&backend, BACKEND_PROBE_UP, 0);
    fail(&backend, 10, 3);
    backend_set_probe(&backend, BACKEND_PROBE_UP, 20);
    CHECK_STR(backend_state(&backend, 20), "ejected");
    CHECK_STR(backend_state(&backend, 1009), "ejected");

    CHECK(backend_begin(&backend, 1010, false, &on_trial));
    backend_judge(&backend, BACKEND_FAULT, on_trial, 1010, &rules);
    backend_end(&backend, on_trial);
    backend_set_probe(&backend, BACKEND_PROBE_UP, 1020);
    CHECK_STR(backend_state(&backend, 3009), "ejected"); // twice as long
    CHECK_STR(backend_state(&backend, 3010), "half_open");
}

TEST(a_probe_ends_an_ejection_for_want_of_a_connection)
{
    struct backend backend = {0};
    bool on_trial = false;
    fail(&backend, 10, 2);
    backend_judge(&backend, BACKEND_UNREACHED, false, 10, &rules);
    CHECK_STR(backend_state(&backend, 10), "ejected");
    backend_set_probe(&backend, BACKEND_PROBE_UP, 20);
    CHECK_STR(backend_state(&backend, 20), "half_open");

    // The trial gets its connection, and a 500: now responses are the cause.
    CHECK(backend_begin(&backend, 20, false, &on_trial));
    backend_judge(&backend, BACKEND_FAULT, on_trial, 20, &rules);
    backend_end(&backend, on_trial);
    backend_set_probe(&backend, BACKEND_PROBE_UP, 30);
    CHECK_STR(backend_state(&backend, 30), "ejected");
}

TEST(a_backend_that_was_down_and_comes_back_gets_a_trial_at_once)
{
    struct backend backend = {0};
    fail(&backend, 10, 3);
    backend_set_probe(&backend, BACKEND_PROBE_DOWN, 20);
    CHECK_STR(backend_state(&backend, 20), "down");
    backend_set_probe(&backend, BACKEND_PROBE_UP, 30);
    CHECK_STR(backend_state(&backend, 30), "half_open");
    CHECK_EQ(atomic_load(&backend.shared.lives), 1);
}

TEST(zero_failures_means_never_eject)
{
    struct backend backend = {0};
    struct backend_rules never = {.eject_failures = 0};
    for (int i = 0; i < 100; i++) {
        backend_judge(&backend, BACKEND_FAULT, false, 5, &never);
    }
    CHECK_EQ(backend_tier(&backend, 5), BACKEND_READY);
    CHECK_EQ(atomic_load(&backend.shared.failure_count), 100);
}

TEST(requests_in_flight_return_to_zero)
{
    struct backend backend = {0};
    struct rng rng = {.state = 5};
    bool trials[64];
    uint32_t open = 0;
    for (uint64_t now = 0; now < 100000; now += rng_below(&rng, 20)) {
        if (open < 64 && rng_below(&rng, 2) == 0) {
            open += backend_begin(&backend, now, rng_below(&rng, 8) == 0, &trials[open]);
        } else if (open > 0) {
            open--;
            backend_judge(&backend, rng_below(&rng, 3) == 0 ? BACKEND_SUCCESS : BACKEND_FAULT,
                          trials[open], now, &rules);
            backend_end(&backend, trials[open]);
        }
        CHECK_EQ(atomic_load(&backend.shared.in_flight), open);
    }
    while (open > 0) {
        backend_end(&backend, trials[--open]);
    }
    CHECK_EQ(atomic_load(&backend.shared.in_flight), 0);
    CHECK(!atomic_load(&backend.shared.trial));
}

TEST(a_backend_with_events_poll_is_polled)
{
    struct backend backend = {0};
    char poll[] = "poll";
    char published[] = "tcp://127.0.0.1:5557";
    CHECK(!backend_is_polled(&backend));
    backend.events = published;
    CHECK(!backend_is_polled(&backend));
    backend.events = poll;
    CHECK(backend_is_polled(&backend));
}
