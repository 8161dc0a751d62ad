// SPDX-License-Identifier: Apache-2.0

#include "sweep/sim_grid.h"

#include "base/base.h"
#include "config/option/nearest.h"
#include "lab/calibration_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// As many engines as there may be in one simulated fleet: each has a KV pool of some MB.
enum { backend_max = 4096 };

static bool grid_complain(const char *what, const char *word, const char *why)
{
    fprintf(stderr, "warmpath sim: --%s %s: %s\n", what, word, why);
    return false;
}

void sim_grid_complain_of_name(const char *what, const char *word,
                               const char *(*name)(uint32_t index))
{
    struct config_nearest nearest = {.word = word};
    for (uint32_t i = 0; name(i) != NULL; i++) {
        config_nearest_offer(&nearest, name(i));
    }
    fprintf(stderr, "warmpath sim: no %s %s; ", what, word);
    if (nearest.best != NULL) {
        fprintf(stderr, "did you mean %s?\n", nearest.best);
        return;
    }
    fputs("there are", stderr);
    for (uint32_t i = 0; name(i) != NULL; i++) {
        fprintf(stderr, "%s %s", i > 0 ? "," : "", name(i));
    }
    fputc('\n', stderr);
}

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
            sim_grid_complain_of_name(what, word, name);
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
            return grid_complain("trace", words->items[i], "too many");
        }
        struct mooncake_trace *trace = &out->traces[out->trace_count];
        if (!trace_file_read(words->items[i], trace, error)) {
            fprintf(stderr, "warmpath sim: %s\n", error);
            return false;
        }
        trace_file_name(words->items[i], out->trace_names[out->trace_count]);
        out->workloads[out->workload_count++] =
            (struct sweep_workload){.name = out->trace_names[out->trace_count], .trace = trace};
        out->trace_count++;
    }
    return true;
}

static bool read_workloads(const struct sim_words *words, struct sim_grid *out)
{
    const char *kinds[sim_grid_max];
    if (words->traces.count == 0 && words->workloads.count == 0) {
        fputs("warmpath sim: say --trace FILE, or --workload with one of", stderr);
        for (uint32_t i = 0; workload_kind_name(i) != NULL; i++) {
            fprintf(stderr, "%s %s", i > 0 ? "," : "", workload_kind_name(i));
        }
        fputs(" or all\n", stderr);
        return false;
    }
    if (!read_traces(&words->traces, out)) {
        return false;
    }
    uint32_t count = grid_read_names("workload", &words->workloads, workload_kind_name, kinds,
                                     sim_grid_max - out->trace_count);
    for (uint32_t i = 0; i < count; i++) {
        out->workloads[out->workload_count++] =
            (struct sweep_workload){.name = kinds[i], .kind = kinds[i]};
    }
    return count > 0 || words->workloads.count == 0;
}

static bool read_policies(const struct flag_list *words, struct sim_grid *out)
{
    static const struct flag_list all = {.items = {"all"}, .count = 1};
    const char *names[sweep_policy_max] = {NULL};
    out->policy_count = grid_read_names("policy", words->count > 0 ? words : &all, policy_name,
                                        names, sweep_policy_max);
    for (uint32_t i = 0; i < out->policy_count; i++) {
        bool is_found = contender_find(names[i], &out->policies[i]);
        ASSERT(is_found);
    }
    return out->policy_count > 0;
}

// Those of a file; without a word, the only one that it has.
static bool read_calibrated(const struct flag_list *words, const char *path, struct sim_grid *out)
{
    uint32_t count = words->count > 0 ? words->count : 1;
    if (count > sim_grid_max) {
        return grid_complain("model", words->items[sim_grid_max], "too many");
    }
    for (uint32_t i = 0; i < count; i++) {
        const char *name = words->count > 0 ? words->items[i] : NULL;
        if (!calibration_file_profile("sim", path, name, &out->profiles[i])) {
            return false;
        }
    }
    out->profile_count = count;
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
    out->profile_count = count;
    return count > 0;
}

static bool grid_read_models(const struct sim_words *words, struct sim_grid *out)
{
    return words->calibration != NULL ? read_calibrated(&words->models, words->calibration, out)
                                      : read_shipped(&words->models, out);
}

static int grid_by_value(const void *a, const void *b)
{
    double one = *(const double *)a;
    double other = *(const double *)b;
    return (one > other) - (one < other);
}

// Bounds of the numbers of a list.
struct bounds {
    double max;
    bool is_whole;
};

// Numbers above zero, sorted.  Returns how many, 0 when one is wrong.
static uint32_t read_numbers(const char *what, const struct flag_list *words, struct bounds bounds,
                             double out[sim_grid_max])
{
    for (uint32_t i = 0; i < words->count; i++) {
        char *end = NULL;
        double value = strtod(words->items[i], &end);
        if (*end != '\0' || !(value > 0 && value <= bounds.max)) {
            grid_complain(what, words->items[i], "not a number above zero, or too large");
            return 0;
        }
        if (bounds.is_whole && value != floor(value)) {
            grid_complain(what, words->items[i], "not a whole number");
            return 0;
        }
        if (i == sim_grid_max) {
            grid_complain(what, words->items[i], "too many");
            return 0;
        }
        out[i] = value;
    }
    qsort(out, words->count, sizeof(*out), grid_by_value);
    return words->count;
}

static bool read_backends(const struct flag_list *words, struct sim_grid *out)
{
    static const struct flag_list usual = {.items = {"8"}, .count = 1};
    double numbers[sim_grid_max];
    out->backends_count =
        read_numbers("backends", words->count > 0 ? words : &usual,
                     (struct bounds){.max = backend_max, .is_whole = true}, numbers);
    for (uint32_t i = 0; i < out->backends_count; i++) {
        out->backends[i] = (uint32_t)numbers[i];
    }
    return out->backends_count > 0;
}

static bool read_levels(const struct sim_words *words, struct sim_grid *out)
{
    static const struct flag_list usual = {.items = {"0.7"}, .count = 1};
    const struct flag_list *loads = &words->loads;
    if ((loads->count > 0) + (words->rates.count > 0) + (words->users.count > 0) > 1) {
        fputs("warmpath sim: say one of --load, --rate and --users\n", stderr);
        return false;
    }
    if (words->rates.count > 0) {
        out->axis = SWEEP_RATE;
        out->level_count =
            read_numbers("rate", &words->rates, (struct bounds){.max = 1e6}, out->levels);
    } else if (words->users.count > 0) {
        out->axis = SWEEP_USERS;
        out->level_count = read_numbers("users", &words->users,
                                        (struct bounds){.max = 1e6, .is_whole = true}, out->levels);
    } else if (loads->count == 0 && words->workloads.count == 0) {
        out->axis = SWEEP_AS_IS;
        out->level_count = 1;
    } else {
        out->axis = SWEEP_LOAD;
        out->level_count = read_numbers("load", loads->count > 0 ? loads : &usual,
                                        (struct bounds){.max = 100}, out->levels);
    }
    return out->level_count > 0;
}

bool sim_grid_read(const struct sim_words *words, struct sim_grid *out)
{
    // The files last: a typing mistake need not wait for them.
    return read_policies(&words->policies, out) && grid_read_models(words, out) &&
           read_backends(&words->backends, out) && read_levels(words, out) &&
           read_workloads(words, out);
}

void sim_grid_fini(struct sim_grid *grid)
{
    while (grid->trace_count > 0) {
        mooncake_destroy(&grid->traces[--grid->trace_count]);
    }
}

void sim_grid_fill(const struct sim_grid *grid, struct sweep_options *options)
{
    options->workloads = grid->workloads;
    options->workload_count = grid->workload_count;
    options->profiles = grid->profiles;
    options->profile_count = grid->profile_count;
    options->policies = grid->policies;
    options->policy_count = grid->policy_count;
    options->backends = grid->backends;
    options->backends_count = grid->backends_count;
    options->levels = grid->levels;
    options->level_count = grid->level_count;
    options->axis = grid->axis;
}

uint32_t sim_grid_find_policy(const struct sim_grid *grid, const char *name)
{
    for (uint32_t i = 0; i < grid->policy_count; i++) {
        if (strcmp(grid->policies[i].name, name) == 0) {
            return i;
        }
    }
    return UINT32_MAX;
}
