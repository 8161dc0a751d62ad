// SPDX-License-Identifier: Apache-2.0
//
// sim -- the policy lab: simulates many fleets in virtual time and reports their figures.

#include "base/base.h"
#include "config/option/command.h"
#include "sweep/report.h"
#include "sweep/sim_change.h"
#include "sweep/sim_grid.h"
#include "sweep/sweep_progress.h"
#include "sys/clock.h"
#include "sys/terminal.h"

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
    const char *sort;
    const char *judge;
    bool score;
    bool timing;
    const char *paths[OUTPUT_COUNT];
    FILE *files[OUTPUT_COUNT];
    struct report_options report;
    struct sweep_progress progress;
};

#define OWNER struct sim
static const struct config_option sim_flags[] = {
    FLAG_ROW("trace", words.trace, file, .is_list = true,
             .help = "A trace, one JSON object a line."),
    FLAG_ROW("workload", words.workload, text, .is_list = true,
             .help = "Built-in workloads, or all; `--workload ?` lists them."),
    FLAG_ROW("policy", words.policy, text, .is_list = true, .help = "Policies; otherwise all."),
    FLAG_ROW("backends", words.backends, whole, .is_list = true, .low = "1", .high = "4096",
             .help = "Sizes of the fleet; otherwise 8."),
    FLAG_ROW("model", words.model, text, .is_list = true,
             .help = "Models, or all; otherwise llama-3.1-8b."),
    FLAG_ROW("calibration", words.calibration, file,
             .help = "Take the models from this file; `warmpath calibrate` makes one."),
    FLAG_ROW("load", words.load, real, .is_list = true, .low = "0.000001", .high = "100",
             .help = "Fractions of the rate that saturates the fleet; otherwise 0.7, or the times "
                     "of the trace."),
    FLAG_ROW("rate", words.rate, real, .is_list = true, .low = "0.000001", .high = "1m",
             .help = "Requests a second instead."),
    FLAG_ROW("users", words.users, whole, .is_list = true, .low = "1", .high = "1000000",
             .help = "Users of a closed loop instead."),
    FLAG_ROW("change", words.change, text, .is_list = true,
             .help = "Changes of the fleet while it runs: " SIM_CHANGE_WORDS "."),
    FLAG_ROW("routers", grid.options.sharing.router_count, amount, .fallback = "1", .low = "1",
             .high = "32", .help = "Routers in front of the fleet, which share what they know."),
    FLAG_ROW("sync", words.sync, text, .fallback = "20ms",
             .help =
                 "How often a router tells the others; 0: after each event; never: it does not."),
    FLAG_ROW("loss", grid.options.sharing.loss, real, .low = "0", .high = "1",
             .help = "Fraction of what routers tell each other that is lost."),
    FLAG_ROW("spread", grid.options.sharing.spread, choice, .fallback = "random",
             .choices = "random|client",
             .help = "Which router gets a request: any, or always the same for one client."),
    FLAG_ROW("requests", grid.options.requests, amount,
             .help = "Requests of a run; otherwise 12000, or those of the trace."),
    FLAG_ROW("share", grid.options.share, real, .low = "0", .high = "0.999999",
             .help = "Fraction of a prompt that is shared, for workloads that vary it."),
    FLAG_ROW("seed", grid.options.seed, amount, .fallback = "1", .help = "Seed of the first run."),
    FLAG_ROW("seeds", grid.options.seed_count, amount, .fallback = "1", .low = "1", .high = "1000",
             .help = "Runs of each cell, of which medians are reported."),
    FLAG_ROW("warm-up", grid.options.warm_up, real, .fallback = "0.2", .low = "0", .high = "0.9",
             .help = "Fraction of the requests that is not counted."),
    FLAG_ROW("scrape", grid.options.scrape_ms, milliseconds, .fallback = "1s", .low = "0",
             .high = "1h", .help = "How often engines' metrics are read; 0: never."),
    FLAG_ROW("limit", grid.options.limit_s, seconds,
             .help = "Virtual time after which a request has failed."),
    FLAG(sort, text, "ttft", "Order of the rows: a column, or policy for the order given."),
    FLAG_ROW("json", paths[OUTPUT_JSON], file, .help = "Write everything as JSON."),
    FLAG_ROW("html", paths[OUTPUT_HTML], file, .help = "Write a page with charts."),
    FLAG_ROW("markdown", paths[OUTPUT_MARKDOWN], file,
             .help = "Write the score and the tables as Markdown."),
    FLAG(score, toggle, NULL, "Print how the judged policy fares against the best of the others."),
    FLAG(judge, text, "warm", "The policy that is judged."),
    FLAG(timing, toggle, NULL, "Put wall times into the JSON; equal runs then differ."),
    FLAG_ROW("threads", grid.options.thread_count, amount,
             .help = "Runs at one time; otherwise one for each core."),
};
static const struct config_option_table sim_table = FLAG_TABLE("sim", sim_flags);
#undef OWNER

static const char *column_name(uint32_t index)
{
    return index < report_column_count ? report_columns[index].key : NULL;
}

static bool set_report(struct sim *sim)
{
    uint32_t judge = sim_grid_find_policy(&sim->grid, sim->judge);
    if (judge == UINT32_MAX && policy_find(sim->judge) == NULL) {
        return command_fail("sim", "--judge: no policy", sim->judge);
    }
    if (sim->score && (judge == UINT32_MAX || sim->grid.options.policy_count < 2)) {
        return command_fail("sim", "--score needs the judged policy and another one", sim->judge);
    }
    sim->report = (struct report_options){.sort = report_column_find(sim->sort),
                                          .judge = judge == UINT32_MAX ? report_no_judge : judge,
                                          .has_wall_time = sim->timing};
    if (sim->report.sort == NULL && strcmp(sim->sort, "policy") != 0) {
        return command_fail_name("sim", "column", sim->sort, column_name);
    }
    return true;
}

// Before the runs: a folder that is not there should not cost an hour.
static bool open_files(struct sim *sim)
{
    bool is_good = true;
    for (int i = 0; i < OUTPUT_COUNT && is_good; i++) {
        if (sim->paths[i] != NULL) {
            sim->files[i] = command_open_file("sim", sim->paths[i]);
            is_good = sim->files[i] != NULL;
        }
    }
    return is_good;
}

static bool close_files(struct sim *sim)
{
    bool is_good = true;
    for (int i = 0; i < OUTPUT_COUNT; i++) {
        is_good &= command_close_file("sim", sim->paths[i], &sim->files[i]);
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
    if (sim->score) {
        fputc('\n', stdout);
        report_score_write(stdout, sweep, sim->report.judge);
    }
    return command_flush() && is_good;
}

static int sim_run(struct sim *sim)
{
    static const struct sweep_lab lab = {lab_run, lab_saturation, lab_bound};
    char error[sweep_error_size];

    sim->grid.options.owner = sim;
    sim->grid.options.progress = sim_tell;
    struct sweep *sweep = sweep_create(&sim->grid.options);
    if (sweep == NULL) {
        command_fail("sim", "too many runs, or too little memory for them", NULL);
        return COMMAND_FAILED;
    }
    sim->progress = (struct sweep_progress){
        .out = stderr, .is_terminal = terminal_is(stderr), .began_ns = clock_monotonic_ns()};
    bool is_good = sweep_run(sweep, &lab, error);
    if (is_good) {
        is_good = write_reports(sim, sweep);
    } else {
        fputs(sim->progress.is_terminal ? "\n" : "", stderr);
        command_fail("sim", error, NULL);
    }
    sweep_destroy(&sweep);
    return is_good ? COMMAND_OK : COMMAND_FAILED;
}

// Lists the kinds.
static bool is_question(const struct sim *sim)
{
    return sim->words.workload.count == 1 && strcmp(sim->words.workload.items[0], "?") == 0;
}

static int list_workloads(void)
{
    for (uint32_t i = 0; workload_kind_name(i) != NULL; i++) {
        printf("%-10s %s\n", workload_kind_name(i), workload_kind_summary(i));
    }
    return command_flush() ? COMMAND_OK : COMMAND_FAILED;
}

static int sim_follow_words(struct sim *sim, int word_count, char **words)
{
    int status = flags_read(&sim_table, word_count, words, sim);
    if (status != FLAGS_READ) {
        return status;
    }
    if (is_question(sim)) {
        return list_workloads();
    }
    if (!sim_grid_read(&sim->words, &sim->grid) || !set_report(sim)) {
        return COMMAND_USAGE;
    }
    status = open_files(sim) ? sim_run(sim) : COMMAND_FAILED;
    (void)close_files(sim); // of a sweep that failed
    return status;
}

int command_sim(int word_count, char **words)
{
    struct sim *sim = calloc(1, sizeof(*sim));
    if (sim == NULL) {
        command_fail("sim", "memory is short", NULL);
        return COMMAND_FAILED;
    }
    int status = sim_follow_words(sim, word_count, words);
    sim_grid_fini(&sim->grid);
    free(sim);
    return status;
}
