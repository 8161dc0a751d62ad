// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_progress.h"

#include "lab/chart.h"

#include <inttypes.h>

enum { terminal_ms = 200, plain_ms = 5000 };

uint32_t drive_progress_ms(const struct drive_progress *progress)
{
    return progress->is_terminal ? terminal_ms : plain_ms;
}

static void write_part(const struct drive_progress *progress, double elapsed_s, uint64_t done)
{
    if (progress->duration_s > 0) {
        fprintf(progress->out, "%.0f/%.0f s  %" PRIu64 " done", elapsed_s, progress->duration_s,
                done);
    } else if (progress->request_count > 0) {
        fprintf(progress->out, "%" PRIu64 "/%" PRIu64, done, progress->request_count);
    } else {
        fprintf(progress->out, "%" PRIu64 " done", done);
    }
}

void drive_progress_show(struct drive_progress *progress, const struct drive_run *run)
{
    const struct drive_tally *tally = drive_run_tally(run);
    double elapsed_s = drive_run_elapsed_s(run);
    double since_s = elapsed_s - progress->last_s;
    double rate = since_s > 0 ? (double)(tally->done - progress->last_done) / since_s : 0;
    double first_ms = drive_tally_recent_ms(tally, drive_run_now_us(run));

    if (progress->is_terminal) {
        fputc('\r', progress->out);
    }
    write_part(progress, elapsed_s, tally->done);
    fprintf(progress->out, "  %u in flight  %.1f/s", drive_run_counts(run).in_flight, rate);
    if (first_ms >= 0) {
        char value[chart_value_size];
        chart_format(CHART_MS, first_ms, value);
        fprintf(progress->out, "  %s %s", progress->is_whole ? "response" : "first token", value);
    }
    fprintf(progress->out, "  %" PRIu64 " failed", tally->all_errors);
    fputs(progress->is_terminal ? "\x1b[K" : "\n", progress->out);
    fflush(progress->out);
    // Over a second at least, or a slow server would show 0/s most of the time.
    if (since_s >= 1) {
        progress->last_s = elapsed_s;
        progress->last_done = tally->done;
    }
}

void drive_progress_end(struct drive_progress *progress)
{
    if (progress->is_terminal) {
        fputs("\r\x1b[K", progress->out);
        fflush(progress->out);
    }
}
