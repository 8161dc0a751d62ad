// SPDX-License-Identifier: Apache-2.0

#include "sweep/sim_grid.h"

#include "base/base.h"
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

static struct sim_grid grid;
static struct sim_words words;

static void begin(void)
{
    memset(&grid, 0, sizeof(grid));
    memset(&words, 0, sizeof(words));
}

static void say(struct flag_list *list, const char *word)
{
    list->items[list->count++] = word;
}

TEST(an_empty_list_takes_its_default)
{
    begin();
    say(&words.workload, "rag");
    CHECK(sim_grid_read(&words, &grid));
    uint32_t all = 0;
    struct contender contender;
    while (contender_at(all, &contender)) {
        all++;
    }
    CHECK_EQ(grid.options.policy_count, all);
    CHECK(grid.policies[0].policy == policy_at(0));
    CHECK_EQ(grid.options.backends_count, 1);
    CHECK_EQ(grid.backends[0], 8);
    CHECK_STR(grid.profiles[0].name, "llama-3.1-8b");
    CHECK_EQ(grid.options.axis, SWEEP_LOAD);
    CHECK(grid.levels[0] == 0.7);
    sim_grid_fini(&grid);
}

TEST(sync_is_a_time_or_never)
{
    static const struct {
        const char *word;
        uint32_t sync_ms;
    } cases[] = {{"0", 0}, {"20ms", 20}, {"1s", 1000}, {"never", lab_sync_never_ms}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        begin();
        say(&words.workload, "rag");
        words.sync = cases[i].word;
        CHECK(sim_grid_read(&words, &grid));
        CHECK_EQ(grid.options.sharing.sync_ms, cases[i].sync_ms);
        sim_grid_fini(&grid);
    }
    words.sync = "often";
    CHECK(!sim_grid_read(&words, &grid));
    sim_grid_fini(&grid);
}

TEST(all_is_each_once_even_when_some_were_named)
{
    begin();
    say(&words.workload, "hot");
    say(&words.workload, "all");
    say(&words.policy, "random");
    say(&words.policy, "random");
    CHECK(sim_grid_read(&words, &grid));
    uint32_t kinds = 0;
    while (workload_kind_name(kinds) != NULL) {
        kinds++;
    }
    CHECK_EQ(grid.options.workload_count, kinds);
    CHECK_STR(grid.workloads[0].name, "hot");
    CHECK_EQ(grid.options.policy_count, 1);
    sim_grid_fini(&grid);
}

TEST(numbers_are_sorted)
{
    begin();
    say(&words.workload, "rag");
    words.users.items[words.users.count++] = 30;
    words.users.items[words.users.count++] = 4;
    words.backends.items[words.backends.count++] = 16;
    words.backends.items[words.backends.count++] = 2;
    CHECK(sim_grid_read(&words, &grid));
    CHECK_EQ(grid.options.axis, SWEEP_USERS);
    CHECK(grid.levels[0] == 4 && grid.levels[1] == 30);
    CHECK(grid.backends[0] == 2 && grid.backends[1] == 16);
    sim_grid_fini(&grid);
}

TEST(more_traces_than_a_list_holds_are_refused)
{
    char path[] = "/tmp/sim_grid_test.XXXXXX";
    int fd = mkstemp(path);
    static const char line[] =
        "{\"timestamp\": 0, \"input_length\": 9, \"output_length\": 5, \"hash_ids\": [1]}\n";
    CHECK(fd != -1 && write(fd, line, sizeof(line) - 1) == sizeof(line) - 1 && close(fd) == 0);
    begin();
    for (int i = 0; i <= sim_grid_max; i++) {
        say(&words.trace, path);
    }
    CHECK(!sim_grid_read(&words, &grid));
    CHECK_EQ(grid.trace_count, sim_grid_max);
    sim_grid_fini(&grid);
    CHECK(unlink(path) == 0);
}

TEST(a_policy_is_found_at_its_place)
{
    begin();
    say(&words.workload, "rag");
    say(&words.policy, "random");
    say(&words.policy, "warm");
    CHECK(sim_grid_read(&words, &grid));
    CHECK_EQ(sim_grid_find_policy(&grid, "warm"), 1);
    CHECK_EQ(sim_grid_find_policy(&grid, "gaie"), UINT32_MAX);
    CHECK_EQ(grid.options.policy_count, 2);
    CHECK(grid.options.workloads == grid.workloads);
    sim_grid_fini(&grid);
}
