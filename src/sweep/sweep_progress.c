// SPDX-License-Identifier: Apache-2.0

#include "sweep/sweep_progress.h"

static const uint64_t terminal_pause_ns = 100000000; // faster than one can read
static const uint64_t log_pause_ns = 10000000000;    // a sweep of an hour leaves 360 lines

void sweep_format_duration(double seconds, char out[sweep_duration_size])
{
    if (seconds < 59.95) {
        snprintf(out, sweep_duration_size, "%.1fs", seconds);
        return;
    }
    uint64_t whole = (uint64_t)(seconds + 0.5);
    if (whole < 3600) {
        snprintf(out, sweep_duration_size, "%um%02us", (uint32_t)(whole / 60),
                 (uint32_t)(whole % 60));
    } else {
        snprintf(out, sweep_duration_size, "%uh%02um", (uint32_t)(whole / 3600),
                 (uint32_t)(whole / 60 % 60));
    }
}

void sweep_progress_tell(struct sweep_progress *progress, const struct sweep_state *state,
                         uint64_t now_ns)
{
    bool is_end = state->done_count >= state->count;
    uint64_t since_ns = now_ns - (progress->told_ns > 0 ? progress->told_ns : progress->began_ns);
    if (!is_end && since_ns < (progress->is_terminal ? terminal_pause_ns : log_pause_ns)) {
        return;
    }
    progress->told_ns = now_ns;
    double elapsed_s = (double)(now_ns - progress->began_ns) / 1e9;
    char elapsed[sweep_duration_size];
    sweep_format_duration(elapsed_s, elapsed);
    fprintf(progress->out, "%s%u/%u runs, %.0f%%, %s", progress->is_terminal ? "\r" : "",
            state->done_count, state->count, 100 * state->share, elapsed);
    if (!is_end && state->share > 0) {
        char left[sweep_duration_size];
        sweep_format_duration(elapsed_s * (1 - state->share) / state->share, left);
        fprintf(progress->out, ", %s to go", left);
    }
    // Clears the rest of an earlier, longer line.
    fputs(progress->is_terminal ? "\033[K" : "", progress->out);
    fputs(is_end || !progress->is_terminal ? "\n" : "", progress->out);
    fflush(progress->out);
}
