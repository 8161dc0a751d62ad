// SPDX-License-Identifier: Apache-2.0
//
// sim -- the policy lab: many fleets in virtual time, and what came of it.

#include "base/base.h"
#include "config/option/command.h"
#include "sweep/report_html.h"
#include "sweep/report_json.h"
#include "sweep/report_markdown.h"
#include "sweep/report_table.h"
#include "sweep/sim_grid.h"
#include "sweep/sweep_progress.h"
#include "sys/clock.h"
#include "sys/terminal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum output { OUTPUT_JSON, OUTPUT_HTML, OUTPUT_MARKDOWN, OUTPUT_COUNT };

static void (*const writers[OUTPUT_COUNT])(FILE *out, const struct sweep *sweep,
                                           const struct report_options *options) = {
    report_json_write, report_html_write, report_markdown_write};

// The options of the command line, and the lists made of them.
struct sim {
    struct sim_words words;
    struct sim_grid grid;
    uint32_t requests;
    uint32_t seed;
    uint32_t seeds;
    uint32_t threads;
    double share;
    double scrape_s;
    double warm_up;
    double limit_s;
    const char *sort;
    const char *judge;
    bool wants_score;
    bool wants_wall_time;
    const char *paths[OUTPUT_COUNT];
    FILE *files[OUTPUT_COUNT];
    struct report_options report;
    struct sweep_progress progress;
};

static enum flags_verdict sim_read_flags(struct sim *sim, int word_count, char **words)
{
    const struct flag flags[] = {
        {"trace", FLAG_LIST, &sim->words.traces, "FILE", "A trace, one JSON object a line."},
        {"workload", FLAG_LIST, &sim->words.workloads, "KIND,...",
         "Built-in workloads, or all; `--workload ?` lists them."},
        {"policy", FLAG_LIST, &sim->words.policies, "NAME,...", "Policies (all)."},
        {"backends", FLAG_LIST, &sim->words.backends, "N,...", "Sizes of the fleet (8)."},
        {"model", FLAG_LIST, &sim->words.models, "NAME,...", "Models (llama-3.1-8b), or all."},
        {"calibration", FLAG_TEXT, &sim->words.calibration, "FILE",
         "Take the models from this file; `warmpath calibrate` makes one."},
        {"load", FLAG_LIST, &sim->words.loads, "X,...",
         "Shares of the rate that saturates the fleet (0.7; a trace alone: as recorded)."},
        {"rate", FLAG_LIST, &sim->words.rates, "R,...", "Requests/s instead."},
        {"users", FLAG_LIST, &sim->words.users, "N,...", "Users of a closed loop instead."},
        {"requests", FLAG_COUNT, &sim->requests, "N",
         "Requests of a run (12000, or as many as the trace has)."},
        {"share", FLAG_NUMBER, &sim->share, "X",
         "Share of a prompt that is common, for workloads that vary it."},
        {"seed", FLAG_COUNT, &sim->seed, "N", "Of the first run (1)."},
        {"seeds", FLAG_COUNT, &sim->seeds, "N", "Runs of each cell; medians are told (1)."},
        {"warm-up", FLAG_NUMBER, &sim->warm_up, "X", "Share of requests not counted (0.2)."},
        {"scrape", FLAG_DURATION, &sim->scrape_s, "TIME",
         "How often engines' metrics are read (1s); 0: never."},
        {"limit", FLAG_DURATION, &sim->limit_s, "TIME",
         "Virtual time after which a request has failed (none)."},
        {"sort", FLAG_TEXT, &sim->sort, "COLUMN",
         "Order of the rows (ttft): a column, or policy for the order given."},
        {"json", FLAG_TEXT, &sim->paths[OUTPUT_JSON], "FILE", "Write everything as JSON."},
        {"html", FLAG_TEXT, &sim->paths[OUTPUT_HTML], "FILE", "Write a page with charts."},
        {"markdown", FLAG_TEXT, &sim->paths[OUTPUT_MARKDOWN], "FILE",
         "Write the score and the tables as Markdown."},
        {"score", FLAG_SWITCH, &sim->wants_score, NULL,
         "Print how the judged policy fares against the best of the others."},
        {"judge", FLAG_TEXT, &sim->judge, "NAME", "The policy that is judged (warm)."},
        {"timing", FLAG_SWITCH, &sim->wants_wall_time, NULL,
         "Put wall times into the JSON; equal runs then differ."},
        {"threads", FLAG_COUNT, &sim->threads, "N", "Runs side by side (one for each core)."},
    };
    return flags_read("sim", flags, ARRAY_COUNT(flags), word_count, words);
}

static bool sim_complain(const char *what)
{
    fprintf(stderr, "warmpath sim: %s\n", what);
    return false;
}

static const char *column_name(uint32_t index)
{
    return index < report_column_count ? report_columns[index].key : NULL;
}

static bool sim_check_numbers(const struct sim *sim)
{
    if (sim->seeds < 1 || sim->seeds > 1000) {
        return sim_complain("--seeds must be from 1 to 1000");
    }
    if (sim->warm_up > 0.9) {
        return sim_complain("--warm-up must be from 0 to 0.9");
    }
    if (sim->share >= 1) {
        return sim_complain("--share must be below 1");
    }
    if (sim->scrape_s > 3600) {
        return sim_complain("--scrape must be at most 1h");
    }
    return true;
}

static bool set_report(struct sim *sim)
{
    uint32_t judge = sim_grid_find_policy(&sim->grid, sim->judge);
    if (judge == UINT32_MAX && policy_find(sim->judge) == NULL) {
        fprintf(stderr, "warmpath sim: --judge: no policy %s\n", sim->judge);
        return false;
    }
    if (sim->wants_score && (judge == UINT32_MAX || sim->grid.policy_count < 2)) {
        fprintf(stderr, "warmpath sim: --score needs %s and another policy\n", sim->judge);
        return false;
    }
    sim->report = (struct report_options){.sort = report_column_find(sim->sort),
                                          .judge = judge == UINT32_MAX ? report_no_judge : judge,
                                          .has_wall_time = sim->wants_wall_time};
    if (sim->report.sort == NULL && strcmp(sim->sort, "policy") != 0) {
        sim_grid_complain_of_name("column", sim->sort, column_name);
        return false;
    }
    return true;
}

// Before the runs: a folder that is not there should not cost an hour.
static bool open_files(struct sim *sim)
{
    for (int i = 0; i < OUTPUT_COUNT; i++) {
        sim->files[i] = sim->paths[i] != NULL ? fopen(sim->paths[i], "we") : NULL;
        if (sim->paths[i] != NULL && sim->files[i] == NULL) {
            fprintf(stderr, "warmpath sim: %s: %s\n", sim->paths[i], strerrordesc_np(errno));
            return false;
        }
    }
    return true;
}

static bool close_files(struct sim *sim)
{
    bool is_good = true;
    for (int i = 0; i < OUTPUT_COUNT; i++) {
        // Buffered writes may fail only now.
        if (sim->files[i] != NULL && (ferror(sim->files[i]) | fclose(sim->files[i])) != 0) {
            fprintf(stderr, "warmpath sim: %s: could not be written\n", sim->paths[i]);
            is_good = false;
        }
        sim->files[i] = NULL;
    }
    return is_good;
}

static void sim_tell(void *owner, uint32_t done_count, uint32_t count, double share)
{
    struct sim *sim = owner;
    struct sweep_state state = {done_count, count, share};
    sweep_progress_tell(&sim->progress, &state, clock_monotonic_ns());
}

// The files first: a reader of the tables may close its pipe, which ends the process.
static bool write_reports(struct sim *sim, const struct sweep *sweep)
{
    for (int i = 0; i < OUTPUT_COUNT; i++) {
        if (sim->files[i] != NULL) {
            writers[i](sim->files[i], sweep, &sim->report);
        }
    }
    bool is_good = close_files(sim);
    report_table_write(stdout, sweep, &sim->report);
    if (sim->wants_score) {
        fputc('\n', stdout);
        report_score_write(stdout, sweep, sim->report.judge);
    }
    return is_good && fflush(stdout) == 0 && !ferror(stdout);
}

static int sim_run(struct sim *sim)
{
    static const struct sweep_lab lab = {lab_run, lab_saturation, lab_bound};
    struct sweep_options options = {
        .seed = sim->seed,
        .seed_count = sim->seeds,
        .requests = sim->requests,
        .share = sim->share,
        .scrape_ms = (uint32_t)lround(sim->scrape_s * 1000),
        .warm_up = sim->warm_up,
        .limit_s = sim->limit_s,
        .thread_count = sim->threads,
        .owner = sim,
        .progress = sim_tell,
    };
    char error[sweep_error_size];

    sim_grid_fill(&sim->grid, &options);
    struct sweep *sweep = sweep_create(&options);
    if (sweep == NULL) {
        sim_complain("too many runs, or too little memory for them");
        return COMMAND_FAILED;
    }
    sim->progress = (struct sweep_progress){
        .out = stderr, .is_terminal = terminal_is(stderr), .began_ns = clock_monotonic_ns()};
    bool is_good = sweep_run(sweep, &lab, error);
    if (is_good) {
        is_good = write_reports(sim, sweep);
    } else {
        fprintf(stderr, "%swarmpath sim: %s\n", sim->progress.is_terminal ? "\n" : "", error);
    }
    sweep_destroy(&sweep);
    return is_good ? COMMAND_OK : COMMAND_FAILED;
}

// Lists the kinds.
static bool is_question(const struct sim *sim)
{
    return sim->words.workloads.count == 1 && strcmp(sim->words.workloads.items[0], "?") == 0;
}

static int list_workloads(void)
{
    for (uint32_t i = 0; workload_kind_name(i) != NULL; i++) {
        printf("%-10s %s\n", workload_kind_name(i), workload_kind_summary(i));
    }
    return fflush(stdout) == 0 ? COMMAND_OK : COMMAND_FAILED;
}

static int sim_follow_words(struct sim *sim, int word_count, char **words)
{
    enum flags_verdict verdict = sim_read_flags(sim, word_count, words);
    if (verdict != FLAGS_GOOD) {
        return verdict == FLAGS_HELPED ? COMMAND_OK : COMMAND_USAGE;
    }
    if (is_question(sim)) {
        return list_workloads();
    }
    if (!sim_check_numbers(sim) || !sim_grid_read(&sim->words, &sim->grid) || !set_report(sim)) {
        return COMMAND_USAGE;
    }
    int status = open_files(sim) ? sim_run(sim) : COMMAND_FAILED;
    (void)close_files(sim); // of a sweep that failed
    return status;
}

int command_sim(int word_count, char **words)
{
    struct sim *sim = calloc(1, sizeof(*sim));
    if (sim == NULL) {
        sim_complain("memory is short");
        return COMMAND_FAILED;
    }
    sim->seed = 1;
    sim->seeds = 1;
    sim->scrape_s = 1;
    sim->warm_up = 0.2;
    sim->sort = "ttft";
    sim->judge = "warm";
    int status = sim_follow_words(sim, word_count, words);
    sim_grid_fini(&sim->grid);
    free(sim);
    return status;
}
