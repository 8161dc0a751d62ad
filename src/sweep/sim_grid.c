// SPDX-License-Identifier: Apache-2.0

#include "sweep/sim_grid.h"

#include "base/base.h"
#include "config/option/command.h"
#include "lab/calibration_file.h"
#include "sweep/sim_change.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *policy_name(uint32_t index)
{
    struct contender contender;
    return contender_at(index, &contender) ? contender.name : NULL;
}

static bool has_name(const char *word, const char *(*name)(uint32_t index))
{
    for (uint32_t i = 0; name(i) != NULL; i++) {
        if (strcmp(name(i), word) == 0) {
            return true;
        }
    }
    return false;
}

// The names that the words stand for: `all` is each there is.  Returns how many, 0 when one is
// wrong.
static uint32_t grid_read_names(const char *what, const struct flag_list *words,
                                const char *(*name)(uint32_t index), const char **out, uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < words->count; i++) {
        const char *word = words->items[i];
        if (strcmp(word, "all") != 0 && !has_name(word, name)) {
            command_fail_name("sim", what, word, name);
            return 0;
        }
        for (uint32_t n = 0; name(n) != NULL; n++) {
            bool is_wanted = strcmp(word, "all") == 0 || strcmp(word, name(n)) == 0;
            bool is_new = true;
            for (uint32_t k = 0; k < count; k++) {
                is_new = is_new && strcmp(out[k], name(n)) != 0;
            }
            if (is_wanted && is_new && count < max) {
                out[count++] = name(n);
            }
        }
    }
    return count;
}

static bool read_traces(const struct flag_list *words, struct sim_grid *out)
{
    for (uint32_t i = 0; i < words->count; i++) {
        char error[trace_file_error_size];
        if (out->trace_count == sim_grid_max) {
            return command_fail("sim", "--trace", "too many");
        }
        struct mooncake_trace *trace = &out->traces[out->trace_count];
        if (!trace_file_read(words->items[i], trace, error)) {
            return command_fail("sim", error, NULL);
        }
        trace_file_name(words->items[i], out->trace_names[out->trace_count]);
        out->workloads[out->options.workload_count++] =
            (struct sweep_workload){.name = out->trace_names[out->trace_count], .trace = trace};
        out->trace_count++;
    }
    return true;
}

static bool read_workloads(const struct sim_words *words, struct sim_grid *out)
{
    const char *kinds[sim_grid_max];
    if (words->trace.count == 0 && words->workload.count == 0) {
        fputs("warmpath sim: say --trace FILE, or --workload with one of", stderr);
        for (uint32_t i = 0; workload_kind_name(i) != NULL; i++) {
            fprintf(stderr, "%s %s", i > 0 ? "," : "", workload_kind_name(i));
        }
        fputs(" or all\n", stderr);
        return false;
    }
    if (!read_traces(&words->trace, out)) {
        return false;
    }
    uint32_t count = grid_read_names("workload", &words->workload, workload_kind_name, kinds,
                                     sim_grid_max - out->trace_count);
    for (uint32_t i = 0; i < count; i++) {
        out->workloads[out->options.workload_count++] =
            (struct sweep_workload){.name = kinds[i], .kind = kinds[i]};
    }
    return count > 0 || words->workload.count == 0;
}

static bool read_policies(const struct flag_list *words, struct sim_grid *out)
{
    static const struct flag_list all = {.items = {"all"}, .count = 1};
    const char *names[sweep_policy_max] = {NULL};
    out->options.policy_count = grid_read_names("policy", words->count > 0 ? words : &all,
                                                policy_name, names, sweep_policy_max);
    for (uint32_t i = 0; i < out->options.policy_count; i++) {
        bool is_found = contender_find(names[i], &out->policies[i]);
        ASSERT(is_found);
    }
    return out->options.policy_count > 0;
}

// Those of a file; without a word, the only one that it has.
static bool read_calibrated(const struct flag_list *words, const char *path, struct sim_grid *out)
{
    uint32_t count = words->count > 0 ? words->count : 1;
    if (count > sim_grid_max) {
        return command_fail("sim", "--model", "too many");
    }
    for (uint32_t i = 0; i < count; i++) {
        const char *name = words->count > 0 ? words->items[i] : NULL;
        if (!calibration_file_profile("sim", path, name, &out->profiles[i])) {
            return false;
        }
    }
    out->options.profile_count = count;
    return true;
}

static bool read_shipped(const struct flag_list *words, struct sim_grid *out)
{
    static const struct flag_list usual = {.items = {"llama-3.1-8b"}, .count = 1};
    const char *names[sim_grid_max];
    uint32_t count = grid_read_names("model", words->count > 0 ? words : &usual, profile_name,
                                     names, sim_grid_max);
    for (uint32_t i = 0; i < count; i++) {
        bool is_found = profile_find(names[i], &out->profiles[i]);
        ASSERT(is_found); // by the list of names
    }
    out->options.profile_count = count;
    return count > 0;
}

static bool grid_read_models(const struct sim_words *words, struct sim_grid *out)
{
    return words->calibration != NULL ? read_calibrated(&words->model, words->calibration, out)
                                      : read_shipped(&words->model, out);
}

// Copies the numbers, or the default, in ascending order.  Returns how many.
static uint32_t sort_numbers(const struct flag_numbers *numbers, double otherwise, double *out)
{
    memcpy(out, numbers->items, numbers->count * sizeof(*out));
    if (numbers->count == 0) {
        *out = otherwise;
        return 1;
    }
    qsort(out, numbers->count, sizeof(*out), figures_order);
    return numbers->count;
}

static void set_backends(const struct flag_numbers *numbers, struct sim_grid *out)
{
    double sizes[sim_grid_max];
    out->options.backends_count = sort_numbers(numbers, 8, sizes);
    for (uint32_t i = 0; i < out->options.backends_count; i++) {
        out->backends[i] = (uint32_t)sizes[i];
    }
}

static bool set_levels(const struct sim_words *words, struct sim_grid *out)
{
    const struct flag_numbers *levels = &words->load;
    if ((levels->count > 0) + (words->rate.count > 0) + (words->users.count > 0) > 1) {
        return command_fail("sim", "say one of --load, --rate and --users", NULL);
    }
    out->options.axis = SWEEP_LOAD;
    if (words->rate.count > 0) {
        out->options.axis = SWEEP_RATE;
        levels = &words->rate;
    } else if (words->users.count > 0) {
        out->options.axis = SWEEP_USERS;
        levels = &words->users;
    } else if (levels->count == 0 && words->workload.count == 0) {
        out->options.axis = SWEEP_AS_IS;
    }
    out->options.level_count =
        sort_numbers(levels, out->options.axis == SWEEP_LOAD ? 0.7 : 0, out->levels);
    return true;
}

// Each of them must be possible in a fleet of each size.
static bool grid_read_changes(const struct flag_list *words, struct sim_grid *out)
{
    if (words->count > lab_change_max) {
        return command_fail("sim", "--change: at most 16 changes", NULL);
    }
    for (uint32_t i = 0; i < words->count; i++) {
        if (!sim_change_read(words->items[i], &out->changes[i])) {
            return false;
        }
    }
    out->options.change_count = words->count;
    for (uint32_t i = 0; i < out->options.backends_count; i++) {
        struct lab_changes changes = {
            .items = out->changes, .count = words->count, .backend_count = out->backends[i]};
        char error[lab_change_error_size];
        if (!lab_changes_check(&changes, error)) {
            return command_fail("sim", "--change", error);
        }
    }
    return true;
}

// A time, or never.
static bool grid_read_sync(const char *word, struct lab_sharing *out)
{
    static const struct config_option sync = {
        .kind = &config_kind_milliseconds, .size = sizeof(uint32_t), .low = "0", .high = "1h"};
    char reason[128] = "";
    struct text why = text_over(reason, sizeof(reason) - 1);

    out->sync_ms = lab_sync_never_ms;
    if (word == NULL || strcmp(word, "never") == 0) {
        return true;
    }
    return sync.kind->read(&sync, word, &out->sync_ms, &why) ||
           command_fail("sim", "--sync", reason);
}

bool sim_grid_read(const struct sim_words *words, struct sim_grid *out)
{
    // The files last: a typing mistake need not wait for them.
    out->options.workloads = out->workloads;
    out->options.profiles = out->profiles;
    out->options.policies = out->policies;
    out->options.backends = out->backends;
    out->options.levels = out->levels;
    out->options.changes = out->changes;
    set_backends(&words->backends, out);
    return grid_read_sync(words->sync, &out->options.sharing) &&
           read_policies(&words->policy, out) && grid_read_models(words, out) &&
           set_levels(words, out) && grid_read_changes(&words->change, out) &&
           read_workloads(words, out);
}

void sim_grid_fini(struct sim_grid *grid)
{
    while (grid->trace_count > 0) {
        mooncake_destroy(&grid->traces[--grid->trace_count]);
    }
}

uint32_t sim_grid_find_policy(const struct sim_grid *grid, const char *name)
{
    for (uint32_t i = 0; i < grid->options.policy_count; i++) {
        if (strcmp(grid->policies[i].name, name) == 0) {
            return i;
        }
    }
    return UINT32_MAX;
}
