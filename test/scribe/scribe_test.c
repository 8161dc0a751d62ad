// SPDX-License-Identifier: Apache-2.0

#include "scribe/scribe.h"

#include "config/config.h"
#include "metrics/receipt_ring.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { worker_max = 4, receipt_max = 20000, path_max = 96 };

static char directory[] = "/tmp/scribe_test_XXXXXX";
static char path[path_max];
static struct config config;
static struct scribe *scribe;

static void make_place(void)
{
    if (path[0] == '\0') {
        ASSERT(mkdtemp(directory) != NULL);
        snprintf(path, sizeof(path), "%s/log", directory);
    }
    unlink(path);
    config = (struct config){0};
    config.access_log.file = path;
    config.access_log.every = 1;
    config.limits.backends = 16;
    config.decisions.keep = 16;
}

static void moved_name(int number, char out[path_max + 16])
{
    snprintf(out, path_max + 16, "%s.%d", path, number);
}

__attribute__((destructor)) static void clear_place(void)
{
    char moved[path_max + 16];
    if (path[0] == '\0') {
        return;
    }
    unlink(path);
    for (int i = 0; i < 64; i++) {
        moved_name(i, moved);
        unlink(moved);
    }
    rmdir(directory);
}

static void start(uint32_t worker_count)
{
    char error[scribe_error_size] = "";
    enum status status = scribe_start(
        &(struct scribe_options){.config = &config, .worker_count = worker_count}, &scribe, error);
    if (status != STATUS_OK) {
        test_fail(__FILE__, __LINE__, "%s", error);
    }
    ASSERT(status == STATUS_OK);
}

static bool put(struct receipt_ring *ring, uint32_t worker, uint64_t number)
{
    char id[32];
    int size = snprintf(id, sizeof(id), "w%u-%05lu", worker, (unsigned long)number);
    struct receipt receipt = {.number = number,
                              .worker = worker,
                              .outcome = number % 5 == 4 ? RECEIPT_RUNNING : RECEIPT_OK,
                              .id_size = (uint16_t)size};
    return receipt_ring_put(ring, &receipt,
                            &(struct receipt_parts){.id = slice_of(id, (size_t)size)});
}

struct scribe_worker {
    pthread_t thread;
    uint32_t index;
    uint64_t count;
};

static void *work(void *argument)
{
    struct scribe_worker *worker = argument;
    struct receipt_ring *ring = scribe_ring(scribe, worker->index);
    for (uint64_t i = 0; i < worker->count; i++) {
        while (!put(ring, worker->index, i)) {
            sched_yield();
        }
        if (i % 64 == 0) {
            sched_yield();
        }
    }
    return NULL;
}

static void start_workers(struct scribe_worker *workers, uint32_t count, uint64_t receipts)
{
    for (uint32_t i = 0; i < count; i++) {
        workers[i] = (struct scribe_worker){.index = i, .count = receipts};
        ASSERT(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
}

static void join_workers(struct scribe_worker *workers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
    }
}

static uint8_t seen[worker_max][receipt_max];

// Marks the ids of a file; false: a line is not whole.
static bool mark_lines(const char *name)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size;
    bool is_good = true;
    FILE *in = fopen(name, "r");
    if (in == NULL) {
        return true;
    }
    while ((size = getline(&line, &capacity, in)) > 0) {
        char *at = strstr(line, "\"id\":\"w");
        unsigned long worker = at != NULL ? strtoul(at + 7, &at, 10) : worker_max;
        unsigned long number = at != NULL && *at == '-' ? strtoul(at + 1, &at, 10) : receipt_max;
        bool is_whole = line[0] == '{' && size > 2 && strcmp(line + size - 2, "}\n") == 0 &&
                        worker < worker_max && number < receipt_max && *at == '"';
        is_good = is_good && is_whole;
        if (is_whole) {
            seen[worker][number]++;
        }
    }
    free(line);
    fclose(in);
    return is_good;
}

// Every request that ended once, and none that runs.
static bool has_all(uint32_t workers, uint64_t receipts)
{
    for (uint32_t i = 0; i < workers; i++) {
        for (uint64_t j = 0; j < receipts; j++) {
            if (seen[i][j] != (j % 5 != 4)) {
                return false;
            }
        }
    }
    return true;
}

TEST(nothing_is_lost_when_it_stops)
{
    struct scribe_worker workers[worker_max];
    make_place();
    memset(seen, 0, sizeof(seen));
    start(worker_max);
    start_workers(workers, worker_max, receipt_max);
    join_workers(workers, worker_max);
    scribe_stop(&scribe);
    CHECK(scribe == NULL);
    CHECK(mark_lines(path));
    CHECK(has_all(worker_max, receipt_max));
    scribe_stop(&scribe);
}

TEST(files_that_are_moved_and_opened_again_while_it_writes_have_all_lines_together)
{
    struct scribe_worker workers[2];
    char moved[path_max + 16];
    int move_count = 0;
    struct timespec pause = {.tv_nsec = 2000000};
    make_place();
    memset(seen, 0, sizeof(seen));
    start(2);
    start_workers(workers, 2, receipt_max);
    for (int i = 0; i < 30; i++) {
        moved_name(move_count, moved);
        if (rename(path, moved) == 0) { // it is there again as soon as the scribe has heard us
            move_count++;
            scribe_reopen(scribe);
        }
        nanosleep(&pause, NULL);
    }
    join_workers(workers, 2);
    scribe_stop(&scribe);
    CHECK(move_count > 1);
    for (int i = 0; i < move_count; i++) {
        moved_name(i, moved);
        CHECK(mark_lines(moved));
    }
    CHECK(mark_lines(path));
    CHECK(has_all(2, receipt_max));
}

TEST(receipts_without_room_are_counted_and_the_rest_is_written)
{
    struct scribe_totals totals;
    uint64_t refused = 0;
    enum { count = receipt_max };
    make_place();
    memset(seen, 0, sizeof(seen));
    start(1);
    (void)scribe_lock(scribe); // it gets no further than this
    uint64_t i = 0;
    // Half of them are as long as can be: the ring fills up.
    for (; i < count; i++) {
        struct decision_party rivals[decision_rival_max] = {0};
        uint64_t keys[receipt_sampled_max] = {0};
        struct receipt receipt = {.outcome = RECEIPT_RUNNING,
                                  .rival_count = decision_rival_max,
                                  .sampled_count = receipt_sampled_max};
        (void)receipt_ring_put(scribe_ring(scribe, 0), &receipt,
                               &(struct receipt_parts){.rivals = rivals, .sampled = keys});
        refused += !put(scribe_ring(scribe, 0), 0, i);
    }
    scribe_totals(scribe, &totals);
    uint64_t lost = totals.lost;
    scribe_unlock(scribe);
    scribe_stop(&scribe);
    uint64_t written = 0;
    CHECK(mark_lines(path));
    for (i = 0; i < count; i++) {
        written += seen[0][i];
    }
    CHECK(refused > 0 && lost >= refused);
    CHECK(written > 0);
    uint64_t ended = count - count / 5;
    CHECK(written < ended && written + refused >= ended);
}

static void await(bool (*holds)(void))
{
    struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < 20000 && !holds(); i++) {
        nanosleep(&pause, NULL);
    }
}

static struct scribe_totals totals_now(void)
{
    struct scribe_totals totals;
    scribe_totals(scribe, &totals);
    return totals;
}

static bool has_dropped(void)
{
    return totals_now().dropped_lines > 0;
}

static bool has_written(void)
{
    return totals_now().written > 0;
}

TEST(a_file_that_is_in_the_way_costs_lines_and_it_heals_without_help)
{
    make_place();
    start(1);
    unlink(path);
    CHECK(mkdir(path, 0700) == 0);
    CHECK(put(scribe_ring(scribe, 0), 0, 0));
    await(has_dropped);
    CHECK_EQ(totals_now().dropped_lines, 1);
    CHECK(rmdir(path) == 0);
    struct timespec pause = {.tv_nsec = 20000000};
    for (int i = 0; i < 400 && !has_written(); i++) {
        CHECK(put(scribe_ring(scribe, 0), 0, 5));
        nanosleep(&pause, NULL);
    }
    CHECK(has_written());
    scribe_stop(&scribe);
}

TEST(the_chronicle_hears_of_all_and_new_rules_hold_at_once)
{
    struct chronicle_figures figures;
    make_place();
    config.access_log.every = 1000000;
    start(1);
    scribe_set_config(scribe, &config);
    config.access_log.every = 1;
    scribe_set_config(scribe, &config);
    for (uint64_t i = 0; i < 10; i++) {
        CHECK(put(scribe_ring(scribe, 0), 0, i)); // two of them run
    }
    await(has_written);
    chronicle_total(scribe_lock(scribe), &figures);
    scribe_unlock(scribe);
    CHECK_EQ(figures.requests, 8);
    CHECK_EQ(totals_now().written, 8);
    scribe_stop(&scribe);
}

TEST(a_log_that_cannot_be_opened_is_said_and_nothing_starts)
{
    char error[scribe_error_size] = "";
    make_place();
    config.access_log.file = "/nowhere/at/all";
    CHECK_EQ(scribe_start(&(struct scribe_options){.config = &config, .worker_count = 1}, &scribe,
                          error),
             STATUS_IO);
    CHECK_STR(error, "access log /nowhere/at/all cannot be opened: No such file or directory");
    CHECK(scribe == NULL);
}
