// SPDX-License-Identifier: Apache-2.0

#include "replica/snapshot.h"

#include "base/base.h"
#include "prefix/prefix_updates.h"

#include <stdlib.h>
#include <string.h>

enum {
    no_run = UINT32_MAX,
    depth_max = prefix_update_keys_max, // runs of a chain
    // What one call of snapshot_make does: so many runs, holders or steps take a few milliseconds,
    // and so do the empty buckets of so many steps.
    slice_work = 4096,
    scan_buckets = 64,
    scan_work = 4,
};

enum make_stage {
    MAKE_SCAN,
    MAKE_TAGS,
    MAKE_BRANCHES,
    MAKE_PARENTS,
    MAKE_ENDS,
    MAKE_ORDER,
    MAKE_DONE
};

struct listed_run {
    uint64_t keys[prefix_scan_keys_max];
    uint32_t before;
    uint32_t parent; // its position; no_run: it begins a chain, or its prefix is unknown
    uint32_t first_holder;
    uint16_t holder_count;
    uint8_t key_count;
    uint8_t parent_keys; // of the parent, before this run goes on
};

// A key that some run goes on from.
struct key_branch {
    uint32_t tag;      // 0: an empty place
    uint32_t run;      // that has it; no_run: none was found
    uint8_t key_count; // of that run, up to it
    bool is_doubtful;
};

struct listed_holder {
    uint32_t run;
    uint32_t backend;
    uint32_t age;
    uint32_t age_s;
    uint8_t confirmed; // leading blocks of the run
    bool is_passed;    // its chain goes on in another run
};

struct path_step {
    uint32_t run;
    uint8_t key_count;
};

struct index_snapshot {
    struct listed_run *runs;
    uint32_t run_count;
    uint32_t run_max;
    struct listed_holder *holders;
    uint32_t holder_count;
    uint32_t holder_max;
    struct key_branch *branches; // by tag
    uint32_t branch_mask;
    uint32_t *order; // a heap of the holders that end a chain: the oldest is first
    uint32_t order_count;
    enum make_stage stage;
    uint32_t at;   // where the stage goes on
    uint32_t work; // that this slice has left
    bool is_short; // of memory
    struct prefix_scan scan;
    struct prefix_scan_holder *found;
    struct path_step path[depth_max];
    uint64_t keys[prefix_update_keys_max];
};

static bool make_room(void **items, uint32_t *max, uint32_t wanted, size_t size)
{
    if (wanted <= *max) {
        return true;
    }
    uint32_t more = *max < 1024 ? 1024 : *max * 2;
    more = more < wanted ? wanted : more;
    void *grown = reallocarray(*items, more, size);
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *max = more;
    return true;
}

static void snapshot_list_run(void *owner, const struct prefix_scan_run *run)
{
    struct index_snapshot *snapshot = owner;
    uint32_t holder_count = run->holder_count < UINT16_MAX ? run->holder_count : UINT16_MAX;
    if (holder_count == 0) {
        return; // and so is every run that goes on from it, but for what cannot be reached
    }
    snapshot->is_short =
        snapshot->is_short ||
        !make_room((void **)&snapshot->runs, &snapshot->run_max, snapshot->run_count + 1,
                   sizeof(struct listed_run)) ||
        !make_room((void **)&snapshot->holders, &snapshot->holder_max,
                   snapshot->holder_count + holder_count, sizeof(struct listed_holder));
    if (snapshot->is_short) {
        return;
    }
    struct listed_run *listed = &snapshot->runs[snapshot->run_count];
    *listed = (struct listed_run){.before = run->before,
                                  .parent = no_run,
                                  .first_holder = snapshot->holder_count,
                                  .holder_count = (uint16_t)holder_count,
                                  .key_count = (uint8_t)run->key_count};
    memcpy(listed->keys, run->keys, run->key_count * sizeof(run->keys[0]));
    for (uint32_t i = 0; i < holder_count; i++) {
        const struct prefix_scan_holder *holder = &run->holders[i];
        snapshot->holders[snapshot->holder_count++] =
            (struct listed_holder){.run = snapshot->run_count,
                                   .backend = holder->backend,
                                   .age = holder->age,
                                   .age_s = holder->age_s,
                                   .confirmed = (uint8_t)holder->confirmed};
    }
    snapshot->run_count++;
}

// Each stage does what the slice allows.  True: it is done.
static bool snapshot_scan(struct index_snapshot *snapshot)
{
    while (snapshot->work > 0 && !snapshot->is_short) {
        uint32_t before = snapshot->run_count;
        bool is_more = prefix_scan_step(&snapshot->scan, scan_buckets);
        uint32_t work = scan_work + snapshot->run_count - before;
        snapshot->work -= work < snapshot->work ? work : snapshot->work;
        if (!is_more) {
            return true;
        }
    }
    return false;
}

// The next item of `count`.  False: there is none, or the slice has ended.
static bool slice_next(struct index_snapshot *snapshot, uint32_t count, uint32_t *item)
{
    if (snapshot->work == 0 || snapshot->at == count) {
        return false;
    }
    snapshot->work--;
    *item = snapshot->at++;
    return true;
}

// The place of a tag, or an empty one for it.
static struct key_branch *branch_place(const struct index_snapshot *snapshot, uint32_t tag)
{
    uint32_t at = (tag * 0x9e3779b9U) >> 7 & snapshot->branch_mask;
    while (snapshot->branches[at].tag != 0 && snapshot->branches[at].tag != tag) {
        at = (at + 1) & snapshot->branch_mask;
    }
    return &snapshot->branches[at];
}

static void find_branches_in(struct index_snapshot *snapshot, uint32_t run)
{
    const struct listed_run *listed = &snapshot->runs[run];
    for (uint32_t i = 0; i < listed->key_count; i++) {
        struct key_branch *branch = branch_place(snapshot, prefix_scan_tag(listed->keys[i]));
        if (branch->tag != 0) {
            branch->is_doubtful |= branch->run != no_run;
            branch->run = run;
            branch->key_count = (uint8_t)(i + 1);
        }
    }
}

static bool snapshot_list_tags(struct index_snapshot *snapshot)
{
    uint32_t run;
    if (snapshot->branches == NULL) {
        uint32_t places = 16;
        while (places < 2 * snapshot->run_count) {
            places *= 2;
        }
        snapshot->branches = calloc(places, sizeof(struct key_branch));
        snapshot->branch_mask = places - 1;
        snapshot->is_short = snapshot->branches == NULL;
    }
    while (!snapshot->is_short && slice_next(snapshot, snapshot->run_count, &run)) {
        uint32_t tag = snapshot->runs[run].before;
        if (tag != 0) {
            *branch_place(snapshot, tag) = (struct key_branch){.tag = tag, .run = no_run};
        }
    }
    return snapshot->at == snapshot->run_count;
}

static bool snapshot_find_branches(struct index_snapshot *snapshot)
{
    uint32_t run;
    while (slice_next(snapshot, snapshot->run_count, &run)) {
        find_branches_in(snapshot, run);
    }
    return snapshot->at == snapshot->run_count;
}

// Links each run to the one that it goes on from.  That is the run with the key before its first:
// mostly at its end, but a run with room may have grown since.  A tag that two keys have leads
// nowhere.
static bool snapshot_link_runs(struct index_snapshot *snapshot)
{
    uint32_t at;
    while (slice_next(snapshot, snapshot->run_count, &at)) {
        struct listed_run *run = &snapshot->runs[at];
        const struct key_branch *branch =
            run->before != 0 ? branch_place(snapshot, run->before) : NULL;
        if (branch != NULL && !branch->is_doubtful) {
            run->parent = branch->run;
            run->parent_keys = branch->key_count;
        }
    }
    return snapshot->at == snapshot->run_count;
}

static struct listed_holder *holder_in(const struct index_snapshot *snapshot, uint32_t run,
                                       uint32_t backend)
{
    const struct listed_run *listed = &snapshot->runs[run];
    for (uint32_t i = 0; i < listed->holder_count; i++) {
        struct listed_holder *holder = &snapshot->holders[listed->first_holder + i];
        if (holder->backend == backend) {
            return holder;
        }
    }
    return NULL;
}

// A chain that goes on in another run of its holder ends there and not here.
static bool snapshot_find_ends(struct index_snapshot *snapshot)
{
    uint32_t at;
    while (slice_next(snapshot, snapshot->holder_count, &at)) {
        const struct listed_holder *holder = &snapshot->holders[at];
        uint32_t parent = snapshot->runs[holder->run].parent;
        struct listed_holder *before =
            parent != no_run ? holder_in(snapshot, parent, holder->backend) : NULL;
        // It may hold more of the run before than this chain needs; that is a chain of its own.
        if (before != NULL && before->confirmed == snapshot->runs[holder->run].parent_keys) {
            before->is_passed = true;
        }
    }
    return snapshot->at == snapshot->holder_count;
}

static bool is_older(const struct index_snapshot *snapshot, uint32_t a, uint32_t b)
{
    const struct listed_holder *x = &snapshot->holders[a];
    const struct listed_holder *y = &snapshot->holders[b];
    if (x->age_s != y->age_s) {
        return x->age_s > y->age_s;
    }
    return x->age != y->age ? x->age > y->age : a < b;
}

static void order_sink(struct index_snapshot *snapshot, uint32_t at)
{
    uint32_t *order = snapshot->order;
    uint32_t holder = order[at];
    uint32_t below;
    while ((below = 2 * at + 1) < snapshot->order_count) {
        bool is_right =
            below + 1 < snapshot->order_count && is_older(snapshot, order[below + 1], order[below]);
        below += is_right;
        if (!is_older(snapshot, order[below], holder)) {
            break;
        }
        order[at] = order[below];
        at = below;
    }
    order[at] = holder;
}

static void order_add(struct index_snapshot *snapshot, uint32_t holder)
{
    uint32_t at = snapshot->order_count++;
    for (; at > 0 && is_older(snapshot, holder, snapshot->order[(at - 1) / 2]); at = (at - 1) / 2) {
        snapshot->order[at] = snapshot->order[(at - 1) / 2];
    }
    snapshot->order[at] = holder;
}

static bool snapshot_order(struct index_snapshot *snapshot)
{
    uint32_t holder;
    if (snapshot->order == NULL) {
        snapshot->order = calloc((size_t)snapshot->holder_count + 1, sizeof(uint32_t));
        snapshot->is_short = snapshot->order == NULL;
    }
    while (!snapshot->is_short && slice_next(snapshot, snapshot->holder_count, &holder)) {
        if (!snapshot->holders[holder].is_passed) {
            order_add(snapshot, holder);
        }
    }
    return snapshot->at == snapshot->holder_count;
}

struct index_snapshot *snapshot_begin(const struct prefix_index *index, uint32_t backend_max,
                                      uint32_t now_s)
{
    struct index_snapshot *snapshot = calloc(1, sizeof(*snapshot));
    if (snapshot == NULL) {
        return NULL;
    }
    snapshot->found = calloc(backend_max, sizeof(*snapshot->found));
    if (snapshot->found == NULL) {
        snapshot_end(&snapshot);
        return NULL;
    }
    snapshot->scan = (struct prefix_scan){.index = index,
                                          .now_s = now_s,
                                          .holders = snapshot->found,
                                          .holder_max = backend_max,
                                          .found = snapshot_list_run,
                                          .owner = snapshot};
    return snapshot;
}

enum snapshot_state snapshot_make(struct index_snapshot *snapshot)
{
    static bool (*const stages[])(struct index_snapshot *) = {
        [MAKE_SCAN] = snapshot_scan,
        [MAKE_TAGS] = snapshot_list_tags,
        [MAKE_BRANCHES] = snapshot_find_branches,
        [MAKE_PARENTS] = snapshot_link_runs,
        [MAKE_ENDS] = snapshot_find_ends,
        [MAKE_ORDER] = snapshot_order,
    };
    snapshot->work = slice_work;
    while (snapshot->stage < MAKE_DONE && !snapshot->is_short &&
           stages[snapshot->stage](snapshot)) {
        snapshot->stage++;
        snapshot->at = 0;
    }
    if (snapshot->is_short) {
        return SNAPSHOT_FAILED;
    }
    return snapshot->stage == MAKE_DONE ? SNAPSHOT_MADE : SNAPSHOT_UNFINISHED;
}

void snapshot_end(struct index_snapshot **snapshot_ptr)
{
    struct index_snapshot *snapshot = *snapshot_ptr;
    *snapshot_ptr = NULL;

    if (snapshot != NULL) {
        free(snapshot->runs);
        free(snapshot->holders);
        free(snapshot->branches);
        free(snapshot->order);
        free(snapshot->found);
        free(snapshot);
    }
}

// The runs from the first of the chain to that of the holder, in path[0..], with the keys of each.
// 0: the holder cannot be matched that far, or the prefix is unknown.
static uint32_t snapshot_path(struct index_snapshot *snapshot, const struct listed_holder *holder)
{
    uint32_t count = 0;
    uint32_t run = holder->run;
    uint8_t wanted = holder->confirmed;
    while (count < depth_max) {
        snapshot->path[count++] = (struct path_step){.run = run, .key_count = wanted};
        if (snapshot->runs[run].before == 0) {
            break;
        }
        wanted = snapshot->runs[run].parent_keys;
        run = snapshot->runs[run].parent;
        const struct listed_holder *before =
            run != no_run ? holder_in(snapshot, run, holder->backend) : NULL;
        if (before == NULL || before->confirmed < wanted) {
            return 0;
        }
    }
    for (uint32_t i = 0; i < count / 2; i++) {
        struct path_step other = snapshot->path[i];
        snapshot->path[i] = snapshot->path[count - 1 - i];
        snapshot->path[count - 1 - i] = other;
    }
    return snapshot->runs[snapshot->path[0].run].before == 0 ? count : 0;
}

static uint32_t snapshot_keys(struct index_snapshot *snapshot, uint32_t path_count)
{
    uint32_t key_count = 0;
    for (uint32_t i = 0; i < path_count; i++) {
        const struct path_step *step = &snapshot->path[i];
        uint32_t room = prefix_update_keys_max - key_count;
        uint32_t taken = step->key_count < room ? step->key_count : room;
        memcpy(snapshot->keys + key_count, snapshot->runs[step->run].keys,
               taken * sizeof(uint64_t));
        key_count += taken;
    }
    return key_count;
}

// Takes the oldest one.
static uint32_t order_take(struct index_snapshot *snapshot)
{
    uint32_t holder = snapshot->order[0];
    snapshot->order[0] = snapshot->order[--snapshot->order_count];
    if (snapshot->order_count > 0) {
        order_sink(snapshot, 0);
    }
    return holder;
}

bool snapshot_next(struct index_snapshot *snapshot, struct snapshot_chain *out)
{
    ASSERT(snapshot->stage == MAKE_DONE);
    while (snapshot->order_count > 0) {
        const struct listed_holder *holder = &snapshot->holders[order_take(snapshot)];
        uint32_t path_count = snapshot_path(snapshot, holder);
        uint32_t key_count = snapshot_keys(snapshot, path_count);
        if (key_count > 0) {
            *out = (struct snapshot_chain){.backend = holder->backend,
                                           .age = holder->age,
                                           .age_s = holder->age_s,
                                           .keys = snapshot->keys,
                                           .key_count = key_count};
            return true;
        }
    }
    return false;
}
