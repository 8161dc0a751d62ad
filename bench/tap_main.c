// SPDX-License-Identifier: Apache-2.0
//
// bench_tap -- what a worker pays to tell the cluster thread what it learned; one figure a line.
//
//     $ bench_tap --keys 64 --case tap
//     {"case":"tap","metric":"p50_ns","value":60,"unit":"ns"}
//
// A worker puts notes that confirm the blocks of a prompt; another thread, on another core, takes
// them and reads their keys.  Bursts of 16 notes are timed, because the processor finishes the
// writes of a single one after the clock was read.  Bursts are as far apart as at 20,000 requests a
// second, and between them the worker writes other memory, so that neither keys nor ring are in the
// nearest cache.  Bursts with a note that found no room do not count.

#include "base/base.h"
#include "base/histogram.h"
#include "base/rng.h"
#include "flags.h"
#include "prefix/prefix_tap.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    round_max = 99,
    look_us = 1000,
    burst = 16,
    gap_ns = burst * 50000, // between bursts: the reader keeps up
    other_size = 64 << 10,
    block_tokens = 64,
};

static uint64_t keys[prefix_tap_keys_max];
static uint8_t other[other_size];

struct reader {
    struct prefix_tap *tap;
    uint64_t taken;
    uint64_t sum; // of all keys: they have been read
    struct {
        _Alignas(64) atomic_bool has_ended; // by the worker
    } shared;
};

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Without a second core the threads take turns, and the figures are those of one cache.
static void pin(int core)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    (void)pthread_setaffinity_np(pthread_self(), sizeof(cores), &cores);
}

static void read_notes(struct reader *reader)
{
    struct prefix_note note;
    while (prefix_tap_take(reader->tap, &note)) {
        reader->taken++;
        for (uint32_t i = 0; i < note.key_count; i++) {
            reader->sum += note.keys[i];
        }
    }
}

static void *reader_run(void *owner)
{
    struct reader *reader = owner;
    const struct timespec look = {.tv_nsec = look_us * 1000};

    pin(0);
    while (!atomic_load_explicit(&reader->shared.has_ended, memory_order_acquire)) {
        read_notes(reader);
        nanosleep(&look, NULL);
    }
    read_notes(reader);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static uint64_t median(uint64_t *values, uint64_t count)
{
    qsort(values, count, sizeof(values[0]), compare);
    return values[count / 2];
}

static void put_notes(struct prefix_tap *tap, uint64_t key_count, uint64_t note_count,
                      struct histogram *times)
{
    struct prefix_note note = {.kind = PREFIX_NOTE_CONFIRM,
                               .lives = 1,
                               .backend = 1,
                               .block_tokens = block_tokens,
                               .key_count = (uint32_t)key_count,
                               .keys = keys};
    for (uint64_t i = 0; i < note_count; i += burst) {
        for (uint32_t at = 0; at < other_size; at += 64) {
            other[at]++;
        }
        uint64_t dropped = prefix_tap_dropped(tap);
        uint64_t begun = clock_ns();
        for (uint32_t at = 0; at < burst; at++) {
            note.prediction = prefix_tap_number(tap, 0);
            prefix_tap_put(tap, 0, &note);
        }
        uint64_t ended = clock_ns();
        if (prefix_tap_dropped(tap) == dropped) {
            histogram_add(times, (ended - begun) / burst);
        }
        while (clock_ns() < begun + gap_ns) {
        }
    }
}

static void print(const char *name, const char *metric, uint64_t value, const char *unit)
{
    printf("{\"case\":\"%s\",\"metric\":\"%s\",\"value\":%llu,\"unit\":\"%s\"}\n", name, metric,
           (unsigned long long)value, unit);
}

int main(int argc, char **argv)
{
    uint64_t key_count = 64;
    uint64_t note_count = 20000;
    uint64_t rounds = 5;
    const char *name = "tap";
    const struct flag flags[] = {{.name = "keys", .number = &key_count},
                                 {.name = "notes", .number = &note_count},
                                 {.name = "rounds", .number = &rounds},
                                 {.name = "case", .text = &name}};
    if (!flags_read(flags, ARRAY_COUNT(flags), argc - 1, argv + 1) || note_count % burst != 0 ||
        key_count > prefix_tap_keys_max || rounds == 0 || rounds > round_max) {
        return 2;
    }
    static struct reader reader;
    struct rng rng = {.state = 1};
    pthread_t thread;
    uint64_t p50s[round_max];
    uint64_t p99s[round_max];

    reader.tap = prefix_tap_create(1);
    for (uint32_t i = 0; i < prefix_tap_keys_max; i++) {
        keys[i] = rng_next(&rng);
    }
    if (reader.tap == NULL || pthread_create(&thread, NULL, reader_run, &reader) != 0) {
        fputs("bench_tap: out of memory\n", stderr);
        return 1;
    }
    pin(1);
    for (uint64_t i = 0; i < rounds; i++) {
        static struct histogram times;
        times = (struct histogram){0};
        put_notes(reader.tap, key_count, note_count, &times);
        p50s[i] = histogram_quantile(&times, 0.5);
        p99s[i] = histogram_quantile(&times, 0.99);
    }
    atomic_store_explicit(&reader.shared.has_ended, true, memory_order_release);
    pthread_join(thread, NULL);
    ASSERT(reader.taken + prefix_tap_dropped(reader.tap) == rounds * note_count);
    print(name, "p50_ns", median(p50s, rounds), "ns");
    print(name, "p99_ns", median(p99s, rounds), "ns");
    print(name, "dropped", prefix_tap_dropped(reader.tap), "1");
    prefix_tap_destroy(&reader.tap);
    return 0;
}
