// SPDX-License-Identifier: Apache-2.0

#include "sweep/sweep_progress.h"

#include "test.h"

static const uint64_t second = 1000000000;
static char said[1024];

static struct sweep_progress begin(bool is_terminal)
{
    memset(said, 0, sizeof(said));
    return (struct sweep_progress){.out = fmemopen(said, sizeof(said), "w"),
                                   .is_terminal = is_terminal,
                                   .began_ns = 5 * second};
}

static void tell(struct sweep_progress *progress, uint32_t done_count, double after_s)
{
    struct sweep_state state = {done_count, 200, done_count / 200.0};
    sweep_progress_tell(progress, &state, 5 * second + (uint64_t)(after_s * 1e9));
}

TEST(a_terminal_has_one_line_that_is_rewritten)
{
    struct sweep_progress progress = begin(true);
    tell(&progress, 50, 30);
    tell(&progress, 51, 30.05); // too soon
    tell(&progress, 200, 90);
    fclose(progress.out);
    CHECK_STR(said, "\r50/200 runs, 25%, 30.0s, 1m30s to go\033[K"
                    "\r200/200 runs, 100%, 1m30s\033[K\n");
}

TEST(a_log_has_a_line_now_and_then_and_the_last)
{
    struct sweep_progress progress = begin(false);
    tell(&progress, 10, 9);
    tell(&progress, 100, 11);
    tell(&progress, 120, 15);
    tell(&progress, 200, 20);
    fclose(progress.out);
    CHECK_STR(said, "100/200 runs, 50%, 11.0s, 11.0s to go\n200/200 runs, 100%, 20.0s\n");
}

TEST(durations_are_short)
{
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {
        {0.04, "0.0s"}, {59.9, "59.9s"}, {59.96, "1m00s"}, {3599, "59m59s"}, {3661, "1h01m"}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[sweep_duration_size];
        sweep_format_duration(cases[i].seconds, text);
        CHECK_STR(text, cases[i].text);
    }
}
